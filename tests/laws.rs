//! Laws that hold for every template and every content, checked on random ones.
//!
//! The templates are made by planting references at places that the generator itself writes down, among values that
//! look like references and are none. Nothing here asks the extractor where anything is.

mod planting;

use std::collections::BTreeSet;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use saferollback::core::content_name::recomputes;
use saferollback::core::digest::Content;
use saferollback::core::object::Object;
use saferollback::core::pin::{difference, pin, same, strip_hash};
use saferollback::core::references::{Keys, Kind, extract};
use serde_json::{Map, Value, json};

use planting::{NAMES, Rename, found, plan, write};

fn rename() -> impl Strategy<Value = Rename> {
    let kinds = select(&[Kind::ConfigMap, Kind::Secret][..]);
    let new = prop_oneof![select(&NAMES[..]).prop_map(str::to_string), "[a-z]{1,8}-sr-[0-9a-f]{16}"];
    btree_map((kinds, select(&NAMES[..]).prop_map(str::to_string)), new, 0..8)
}

/// A small alphabet with separators in it, so that contents nearly collide.
fn content() -> impl Strategy<Value = Content> {
    let map = || btree_map("[ab=\n;.]{1,3}", vec(select(&b"ab=\n;d\0"[..]), 0..4), 0..4);
    (map(), map()).prop_map(|(data, binary)| Content { data, binary })
}

/// Any JSON built of the words that the extractor looks for, in any wrong place.
fn wild() -> impl Strategy<Value = Value> {
    const WORDS: [&str; 22] = [
        "metadata",
        "annotations",
        "labels",
        "spec",
        "containers",
        "initContainers",
        "env",
        "envFrom",
        "valueFrom",
        "configMapRef",
        "configMapKeyRef",
        "secretRef",
        "name",
        "key",
        "optional",
        "volumes",
        "configMap",
        "secret",
        "secretName",
        "projected",
        "sources",
        "items",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        select(&WORDS[..]).prop_map(Value::from),
        "\\PC{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 96, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec((select(&WORDS[..]), inner), 0..5)
                .prop_map(|m| Value::Object(m.into_iter().map(|(k, v)| (k.to_string(), v)).collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    /// An overlooked reference is a false "safe"; an invented one blocks a rollback or gets a value rewritten.
    #[test]
    fn all_planted_references_are_found_and_nothing_else(plan in plan()) {
        let (template, truth) = write(&plan, &Rename::new());
        prop_assert_eq!(found(&template), truth);
        let extracted = extract(&template);
        let distinct: BTreeSet<_> = extracted.references.iter().map(|r| (r.kind, &r.name)).collect();
        prop_assert_eq!(distinct.len(), extracted.references.len(), "an object is listed once");
        for note in &extracted.not_traced {
            prop_assert!(template.pointer(&note.pointer).is_some(), "{} leads nowhere", note.pointer);
        }
    }

    /// `pointer`, container and way of reading identify a use: verdicts are kept by them.
    #[test]
    fn uses_have_an_identity(plan in plan()) {
        let (template, truth) = write(&plan, &Rename::new());
        let ids: BTreeSet<_> = truth.iter().map(|t| (t.pointer.clone(), t.container.clone(), t.read)).collect();
        prop_assert_eq!(ids.len(), found(&template).len());
    }

    /// The order of members is the server's affair: a report that depends on it changes without a cause.
    #[test]
    fn references_do_not_depend_on_member_order(plan in plan(), order in any::<u64>()) {
        let (a, _) = write(&plan, &Rename::new());
        let (b, _) = write(&plan.in_order(order), &Rename::new());
        prop_assert_eq!(extract(&a).references, extract(&b).references);
        prop_assert!(same(&a, &b));
    }

    /// Whatever pinning changes beside the names is a change that nobody asked for, in the middle of an incident.
    /// (C21, C40)
    #[test]
    fn pinning_replaces_planted_names_and_no_other_byte(plan in plan(), rename in rename()) {
        let (template, truth) = write(&plan, &Rename::new());
        let (expected, _) = write(&plan, &rename);
        let pinned = pin(&template, &rename);
        prop_assert_eq!(serde_json::to_string(&pinned).unwrap(), serde_json::to_string(&expected).unwrap());
        let mut renamed = truth;
        for t in &mut renamed {
            if let Some(new) = rename.get(&(t.kind, t.name.clone())).filter(|_| t.pinnable) {
                t.name = new.clone();
                t.pinnable = !(t.kind == Kind::ConfigMap && new == "kube-root-ca.crt");
            }
        }
        renamed.sort();
        prop_assert_eq!(found(&pinned), renamed, "pin, then extract");
    }

    /// The fields shown as different must be the fields that are.
    #[test]
    fn a_pinned_template_differs_at_the_names_only(plan in plan()) {
        let (template, truth) = write(&plan, &Rename::new());
        let rename: Rename = truth.iter().map(|t| ((t.kind, t.name.clone()), format!("{}-x", t.name))).collect();
        let expected: BTreeSet<String> =
            truth.iter().filter(|t| t.pinnable).map(|t| t.name_pointer.clone()).collect();
        let shown: BTreeSet<String> = difference(&template, &pin(&template, &rename)).into_iter().collect();
        prop_assert_eq!(shown, expected);
    }

    /// The label that is left in makes a new ReplicaSet; anything else that goes with it is lost.
    #[test]
    fn stripping_the_hash_takes_one_label(plan in plan()) {
        let (template, _) = write(&plan, &Rename::new());
        let stripped = strip_hash(&template);
        prop_assert_eq!(&strip_hash(&stripped), &stripped);
        prop_assert!(same(&template, &stripped));
        let text = serde_json::to_string(&template).unwrap();
        prop_assert_eq!(serde_json::to_string(&stripped).unwrap(), text.replace(r#""pod-template-hash":"abc","#, ""));
    }

    /// A file from anywhere must not end the program, nor may a name be replaced outside of strings.
    #[test]
    fn wild_templates_are_survived(template in wild(), rename in rename()) {
        let extracted = extract(&template);
        let uses = extracted.references.iter().flat_map(|r| r.uses.iter().map(|u| (&r.name, u)));
        for (name, one) in uses {
            prop_assert_eq!(template.pointer(&one.name_pointer).and_then(Value::as_str), Some(name.as_str()));
            prop_assert!(template.pointer(&one.pointer).is_some());
        }
        let pinned = pin(&template, &rename);
        let names: BTreeSet<String> = extracted.references.iter().flat_map(|r| &r.uses).map(|u| u.name_pointer.clone()).collect();
        for pointer in difference(&template, &pinned) {
            prop_assert!(names.contains(&pointer));
        }
        prop_assert!(same(&template, &strip_hash(&template)));
    }

    /// Two contents with one digest would share a snapshot: one application starts with the other's configuration.
    #[test]
    fn digests_are_equal_only_for_equal_content(a in content(), b in content()) {
        prop_assert_eq!(a.digest() == b.digest(), a == b);
    }

    /// Where a key ends and its value or the next key begins must count, or neighbours trade bytes unseen. Random pairs
    /// hardly ever meet this way, so these are made to.
    #[test]
    fn boundaries_between_keys_and_values_count(content in content()) {
        let whole = content.digest();
        for (key, value) in &content.data {
            let mut shifted = content.clone();
            shifted.data.remove(key);
            let (head, last) = key.split_at(key.len() - 1);
            let longer = [last.as_bytes(), value].concat();
            shifted.data.insert(head.to_string(), longer);
            prop_assert_ne!(shifted.digest(), whole, "a byte went from key to value");
        }
        for ((key, value), (next, its)) in content.data.iter().zip(content.data.iter().skip(1)) {
            let mut swallowed = content.clone();
            swallowed.data.remove(next);
            let longer = [value.as_slice(), b"d", next.as_bytes(), its].concat();
            swallowed.data.insert(key.clone(), longer);
            prop_assert_ne!(swallowed.digest(), whole, "an entry went into the value before it");
        }
    }

    /// A flipped bit, a dropped or a moved byte anywhere must show.
    #[test]
    fn the_digest_depends_on_every_byte(content in content(), bit in 0..8_u32) {
        let whole = content.digest();
        for (key, value) in &content.data {
            for i in 0..value.len() {
                let mut flipped = content.clone();
                flipped.data.get_mut(key).unwrap()[i] ^= 1 << bit;
                prop_assert_ne!(flipped.digest(), whole);
                let mut shorter = content.clone();
                shorter.data.get_mut(key).unwrap().remove(i);
                prop_assert_ne!(shorter.digest(), whole);
            }
            let mut renamed = content.clone();
            let value = renamed.data.remove(key).unwrap();
            prop_assert_ne!(renamed.digest(), whole);
            renamed.data.insert(format!("{key}!"), value.clone());
            prop_assert_ne!(renamed.digest(), whole);
            let mut moved = content.clone();
            moved.data.remove(key);
            if moved.binary.insert(key.clone(), value).is_none() {
                prop_assert_ne!(moved.digest(), whole, "data and binaryData are told apart");
            }
        }
    }

    /// The server may send keys in any order; a digest that follows it calls every object edited.
    #[test]
    fn the_digest_ignores_key_order(
        data in btree_map("[-._a-zA-Z0-9]{1,6}", "\\PC{0,6}", 0..6),
        turn in any::<prop::sample::Index>(),
    ) {
        let read = |members: Vec<(String, Value)>| {
            let map: Map<String, Value> = members.into_iter().collect();
            Content::from_object(&Object(json!({"kind": "ConfigMap", "data": map}))).expect("a ConfigMap").digest()
        };
        let sorted: Vec<(String, Value)> = data.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        let mut other = sorted.clone();
        other.reverse();
        if !other.is_empty() {
            let turn = turn.index(other.len());
            other.rotate_left(turn);
        }
        prop_assert_eq!(read(sorted), read(other));
    }

    /// "Same for this use" and "nothing differs for it" are one statement, and equal digests imply it.
    #[test]
    fn consumption_is_consistent(plan in plan(), a in content(), b in content()) {
        let (template, _) = write(&plan, &Rename::new());
        for reference in extract(&template).references {
            prop_assert_eq!(reference.reads_same(&a, &b), reference.differing_keys(&a, &b).is_empty());
            prop_assert!(reference.reads_same(&a, &a));
            if reference.consumed(&a).digest() == reference.consumed(&b).digest() {
                prop_assert!(reference.reads_same(&a, &b));
            }
            for one in &reference.uses {
                prop_assert_eq!(one.differing_keys(&a, &b), one.differing_keys(&b, &a));
                // Keys outside the consumed ones do not count.
                let mut more = a.clone();
                if !matches!(one.keys, Keys::All | Keys::AllData) {
                    more.data.insert("nobody-reads-this".into(), b"x".to_vec());
                    prop_assert_eq!(one.consumed(&more).digest(), one.consumed(&a).digest());
                }
            }
        }
    }

    /// Chance matches would pass an edited object for a frozen one.
    #[test]
    fn other_content_does_not_recompute(content in content(), suffix in "[2456789bcdfghkmt]{10}") {
        prop_assert_eq!(recomputes(&format!("settings-{suffix}"), &content, true), None);
    }
}
