//! Names and bodies of snapshots.

use std::collections::BTreeMap;

use proptest::prelude::*;
use saferollback::core::digest::Content;
use saferollback::core::object::Object;
use saferollback::core::observed::Origin;
use saferollback::core::recovery::{Candidate, Grade};
use saferollback::core::snapshot::{self, LENGTHS, Snapshot};
use serde_json::{Value, json};

use crate::verdict::scene::Change;

fn content(value: &str) -> Content {
    Content { data: [("A".to_string(), value.as_bytes().to_vec())].into(), binary: BTreeMap::new() }
}

fn candidate(content: Content) -> Candidate {
    Candidate {
        digest: content.digest(),
        content,
        origin: Origin::TimeTravel,
        source_uid: "uid-settings".into(),
        from: None,
        until: None,
        grade: Grade::Proof,
    }
}

fn made(content: Content) -> Snapshot {
    snapshot::of("shop", "settings", &candidate(content), 16)
}

/// RFC 1123 subdomain, as the API server checks names.
fn is_subdomain(name: &str) -> bool {
    let label = |l: &str| {
        let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        ends(l.bytes().next())
            && ends(l.bytes().last())
            && l.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// Without this two long names would share a snapshot after the cut (C67).
#[test]
fn c67_long_names_stay_names_and_stay_apart() {
    let content = content("x");
    let long = |last: char| format!("{}{last}", "a".repeat(252));
    for digits in LENGTHS {
        let (a, b) = (snapshot::name(&long('a'), &content, digits), snapshot::name(&long('b'), &content, digits));
        assert!(is_subdomain(&a) && is_subdomain(&b), "{a}");
        assert_ne!(a, b, "they differ only in what was cut off");
        assert!(snapshot::is_of(&a, &long('a')) && !snapshot::is_of(&a, &long('b')));
        assert!(snapshot::names(&a, &content));
    }
    // The cut falls on a dot or a dash.
    for source in
        [format!("{}.{}", "a".repeat(223), "b".repeat(29)), format!("{}-.-{}", "a.".repeat(111), "b".repeat(20))]
    {
        for digits in LENGTHS {
            let name = snapshot::name(&source, &content, digits);
            assert!(name.len() <= 253 && !name.contains(".-") && !name.contains("-."), "{name}");
        }
    }
    // A longest name that just fits is not touched.
    let fits = "a".repeat(253 - 20);
    assert_eq!(snapshot::name(&fits, &content, 16).len(), 253);
    assert!(snapshot::name(&fits, &content, 16).starts_with(&format!("{fits}-sr-")));
}

/// Without this a kubelet could serve other bytes under a name of ours (C68).
#[test]
fn c68_one_name_is_one_content() {
    assert_ne!(made(content("1")).name, made(content("2")).name);
    assert!(snapshot::names(&made(content("1")).name, &content("1")));
    assert!(!snapshot::names(&made(content("1")).name, &content("2")));
    assert!(!snapshot::names("settings-sr-", &content("1")) && !snapshot::names("settings", &content("1")));
    // Eight digits of the right digest are not enough.
    let short = made(content("1")).name;
    assert!(!snapshot::names(&short[..short.len() - 8], &content("1")));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without this some name would be refused by the server (C67).
    #[test]
    fn law_names_are_valid_and_hold_the_content(
        labels in proptest::collection::vec("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", 1..6),
        value in ".{0,8}",
        digits in prop_oneof![Just(16usize), Just(32), Just(64)],
    ) {
        let mut source = labels.join(".");
        source.truncate(253);
        let source = source.trim_end_matches(['-', '.']);
        let content = content(&value);
        let name = snapshot::name(source, &content, digits);
        prop_assert!(is_subdomain(&name), "{name}");
        let suffix = format!("-sr-{}", &content.digest().to_string()[4..4 + digits]);
        prop_assert!(name.ends_with(&suffix), "{name}");
        prop_assert!(snapshot::names(&name, &content) && snapshot::is_of(&name, source));
    }
}

/// Without this a GitOps tool would prune the copy, or a replicator spread it (C51, C55, C65, C66) (C75).
#[test]
fn c65_c66_the_body_holds_our_own_keys_and_nothing_of_the_source() {
    // The source's metadata never reaches this function; the body is this, whole.
    let content = Content {
        data: [("A".to_string(), b"1".to_vec())].into(),
        binary: [("bin".to_string(), vec![0xff, 0xfe])].into(),
    };
    let made = made(content.clone());
    let digest = content.digest();
    assert_eq!(
        made.body,
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": format!("settings-sr-{}", digest.hex16()),
                "namespace": "shop",
                "labels": {"app.kubernetes.io/managed-by": "kubectl-saferollback", "saferollback.dev/kind": "snapshot"},
                "annotations": {
                    "saferollback.dev/source": "settings",
                    "saferollback.dev/digest": digest.to_string(),
                    "saferollback.dev/known-by": "time-travel, proof",
                    "saferollback.dev/source-uid": "uid-settings"
                }
            },
            "immutable": true,
            "data": {"A": "1"},
            "binaryData": {"bin": "//4="}
        })
    );
    assert_eq!(Content::from_object(&Object(made.body)).unwrap(), content, "byte for byte");
}

#[test]
fn an_empty_content_has_no_maps_and_is_still_whole() {
    let made = made(Content::default());
    assert!(made.body.get("data").is_none() && made.body.get("binaryData").is_none());
    assert_eq!(Content::from_object(&Object(made.body)).unwrap(), Content::default());
}

/// Without this a long name would make a label that the server refuses (C67).
#[test]
fn labels_stay_within_their_63_characters() {
    // the long name is in an annotation, never in a label.
    let source = "a".repeat(253);
    let made = snapshot::of("shop", &source, &candidate(content("1")), 16);
    let labels = made.body["metadata"]["labels"].as_object().unwrap();
    assert!(labels.values().all(|v| v.as_str().is_some_and(|v| v.len() <= 63)));
    assert_eq!(made.body["metadata"]["annotations"]["saferollback.dev/source"], json!(source));
}

#[test]
fn rule_26_an_existing_object_serves_only_if_it_is_the_same_immutable_and_ours() {
    let wanted = made(content("1"));
    let serves = |change: fn(&mut Value)| {
        let mut body = wanted.body.clone();
        change(&mut body);
        snapshot::serves(&Object(body), &wanted)
    };
    assert!(serves(|_| {}));
    assert!(
        serves(|o| o["metadata"]["annotations"] = json!({"saferollback.dev/touched": "now"})),
        "metadata is writable"
    );
    let spoilt: [Change; 8] = [
        ("other bytes", |o| o["data"]["A"] = json!("2")),
        ("a key more", |o| o["data"]["B"] = json!("2")),
        ("the same bytes in the other field", |o| {
            o["binaryData"] = json!({"A": "MQ=="});
            o.as_object_mut().unwrap().shift_remove("data");
        }),
        ("mutable", |o| o["immutable"] = json!(false)),
        ("no flag", |o| {
            o.as_object_mut().unwrap().shift_remove("immutable");
        }),
        ("another's", |o| o["metadata"]["labels"]["app.kubernetes.io/managed-by"] = json!("Helm")),
        ("no snapshot", |o| o["metadata"]["labels"]["saferollback.dev/kind"] = json!("record")),
        ("being deleted", |o| o["metadata"]["deletionTimestamp"] = json!("2026-11-29T12:00:00Z")),
    ];
    for (what, change) in spoilt {
        assert!(!serves(change), "{what}");
    }
}

/// Without this the words of who denies a snapshot could print what it holds (C106).
#[test]
fn a_denial_is_quoted_without_the_values() {
    let content = Content {
        data: [("A".to_string(), b"first line\nsecond: a secret\n".to_vec()), ("B".to_string(), b"true".to_vec())]
            .into(),
        binary: [("c".to_string(), vec![0xff, 0xfe])].into(),
    };
    let snapshots = [made(content)];
    let text = "denied: 'first line\nsecond: a secret\n', and second: a secret again; B is true";
    let quoted = snapshot::without_values(text, &snapshots);
    assert_eq!(quoted, "denied: '<value>\n', and <value> again; B is true");
    assert_eq!(snapshot::without_values("exceeded quota: full", &snapshots), "exceeded quota: full");
}
