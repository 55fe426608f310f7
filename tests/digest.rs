//! The canonical digest, what a use takes from content, and names made from content.

use saferollback::core::content_name::{Generator, looks_generated, recomputes};
use saferollback::core::digest::{Content, ContentError, Digest};
use saferollback::core::object::Object;
use saferollback::core::references::{Kind, Reference, Use, extract};
use serde_json::{Value, json};

fn content(object: Value) -> Content {
    Content::from_object(&Object(object)).expect("a readable ConfigMap")
}

/// The reference to ConfigMap `settings` of a template with one container.
fn reference(container: Value, volumes: Value) -> Reference {
    let template = json!({"spec": {"containers": [container], "volumes": volumes}});
    extract(&template).get(Kind::ConfigMap, "settings").expect("a reference").clone()
}

fn key_ref(key: &str) -> Use {
    let from = json!({"configMapKeyRef": {"name": "settings", "key": key}});
    let found = reference(json!({"name": "app", "env": [{"name": "E", "valueFrom": from}]}), json!([]));
    found.uses[0].clone()
}

fn env_from() -> Use {
    let container = json!({"name": "app", "envFrom": [{"configMapRef": {"name": "settings"}}]});
    reference(container, json!([])).uses[0].clone()
}

fn volume(mount: Value, source: Value) -> Use {
    let mut mount = mount;
    mount["name"] = json!("v");
    let mut source = source;
    source["name"] = json!("settings");
    let container = json!({"name": "app", "volumeMounts": [mount]});
    reference(container, json!([{"name": "v", "configMap": source}])).uses[0].clone()
}

fn whole_volume() -> Use {
    volume(json!({"mountPath": "/etc/app"}), json!({}))
}

/// Snapshots of one release would not be found by the next if the encoding moved by a byte.
#[test]
fn digests_equal_the_vectors_of_an_independent_program() {
    let vectors: Vec<Value> = serde_json::from_str(include_str!("data/digest-vectors.json")).expect("the vectors");
    assert!(vectors.len() >= 16);
    for mut vector in vectors {
        if vector["data"]["big"] == json!("x*65536") {
            vector["data"]["big"] = json!("x".repeat(65536));
        }
        let held = content(vector.clone());
        let digest = match vector["keys"].as_array() {
            None => held.digest(),
            Some(keys) => {
                let uses: Vec<Use> = keys.iter().map(|k| key_ref(k.as_str().unwrap())).collect();
                held.digest_of(&uses)
            }
        };
        assert_eq!(digest.to_string(), vector["digest"].as_str().unwrap(), "{}", vector["note"]);
    }
}

/// A digest that someone types after `--use` must be read back, and near misses must not be.
#[test]
fn a_digest_reads_back_what_it_prints() {
    let digest = content(json!({"data": {"A": "1"}})).digest();
    let text = digest.to_string();
    assert_eq!(text.parse::<Digest>(), Ok(digest));
    assert_eq!(digest.short(), format!("{}...", &text[..16]));
    assert_eq!(digest.hex16(), &text[4..20]);
    assert_eq!(format!("{digest:?}"), text, "a failed test shows it");
    let wrong = [
        "",
        "sr1:",
        &text[4..],
        &text[..67],
        &format!("{text}0"),
        &text.to_uppercase(),
        &text.replace("sr1", "sr2"),
        &format!("sr1:{}", "é".repeat(32)),
        &format!("sr1:+{}", &text[5..]),
    ];
    for wrong in wrong {
        assert!(wrong.parse::<Digest>().is_err(), "{wrong} must not parse");
    }
}

/// A generated file with wrapped base64 would count as an edit (kubernetes-sigs/kubectl-validate#172) (C56).
#[test]
fn white_space_in_base64_is_no_content() {
    let wrapped = content(json!({"binaryData": {"b": "//4A\nAQ==\n"}}));
    assert_eq!(wrapped, content(json!({"binaryData": {"b": "//4AAQ=="}})));
    assert_eq!(wrapped.binary["b"], [0xff, 0xfe, 0, 1]);
    // Go ignores the spare bits of the last character.
    assert_eq!(content(json!({"binaryData": {"b": "QR=="}})).binary["b"], *b"A");
}

/// An unreadable file would pass for empty content, and the message would leak what it could not read (C56).
#[test]
fn unreadable_content_is_an_error_that_names_the_key_only() {
    let error = |object| Content::from_object(&Object(object)).unwrap_err();
    let field = "binaryData";
    let bad = error(json!({"binaryData": {"blob": "s3cret!"}}));
    assert_eq!(bad, ContentError::NotBase64 { field, key: "blob".into() });
    assert!(!bad.to_string().contains("s3cret"));
    let field = "data";
    assert_eq!(error(json!({"data": {"n": 1}})), ContentError::NotAString { field, key: "n".into() });
    assert_eq!(error(json!({"data": {"n": null}})), ContentError::NotAString { field, key: "n".into() });
    assert_eq!(error(json!({"data": ["a"]})), ContentError::NotAMap("data"));
    let both = json!({"data": {"k": "abc"}, "binaryData": {"k": "YWJj"}});
    assert_eq!(error(both), ContentError::InBoth("k".into()));
    // Taking a Secret for a ConfigMap would hash its base64 text, unkeyed.
    assert!(matches!(error(json!({"kind": "Secret", "data": {}})), ContentError::WrongKind(..)));
}

/// Values would end up in logs through a stray `{:?}`.
#[test]
fn debug_output_has_no_values() {
    let held = content(json!({"data": {"A": "hunter2"}, "binaryData": {"b": "aHVudGVyMg=="}}));
    for shown in [format!("{held:?}"), format!("{:?}", whole_volume().consumed(&held))] {
        assert!(!shown.contains("hunter2") && !shown.contains("104"), "{shown}");
        // What it is good for: the keys, and how long their values are.
        assert!(shown.contains(r#""A": ("data", 7)"#) && shown.contains(r#""b": ("binary", 7)"#), "{shown}");
    }
}

/// An API server that leaves `data` out and one that sends null would give two digests for one object.
#[test]
fn absent_null_and_empty_are_the_same() {
    let empty = content(json!({})).digest();
    assert_eq!(content(json!({"data": null, "binaryData": null})).digest(), empty);
    assert_eq!(content(json!({"data": {}, "binaryData": {}})).digest(), empty);
    let named = json!({"kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}, "immutable": true});
    assert_eq!(content(named).digest(), empty);
}

/// Secret content must equal what a ConfigMap with the same bytes holds, or `--include-secrets` would pin base64.
#[test]
fn secret_data_is_decoded() {
    let secret = Object(json!({"kind": "Secret", "type": "Opaque", "data": {"P": "dw=="}}));
    assert_eq!(Content::from_secret(&secret), Ok(content(json!({"data": {"P": "w"}}))));
    assert!(Content::from_secret(&Object(json!({"kind": "ConfigMap"}))).is_err());
}

/// An edit of a key that no container reads would stop a rollback (C40).
#[test]
fn only_consumed_keys_count() {
    let before = content(json!({"data": {"A": "1", "B": "1"}, "binaryData": {"c": "AA=="}}));
    let after = content(json!({"data": {"A": "2", "B": "1"}, "binaryData": {"c": "AQ=="}}));
    assert_eq!(key_ref("A").differing_keys(&before, &after), ["A"]);
    assert!(key_ref("B").reads_same(&before, &after));
    assert_eq!(env_from().differing_keys(&before, &after), ["A"], "envFrom does not see binaryData");
    assert_eq!(whole_volume().differing_keys(&before, &after), ["A", "c"]);
    let items = json!({"items": [{"key": "B", "path": "b"}]});
    assert!(volume(json!({"mountPath": "/b"}), items).reads_same(&before, &after));
    assert_eq!(volume(json!({"subPath": "c"}), json!({})).differing_keys(&before, &after), ["c"]);
}

/// A removed or added key is a change even where all common keys are equal.
#[test]
fn removed_and_added_keys_differ() {
    let one = content(json!({"data": {"A": ""}}));
    let none = content(json!({}));
    for reader in [key_ref("A"), env_from(), whole_volume(), volume(json!({"subPath": "A"}), json!({}))] {
        assert_eq!(reader.differing_keys(&one, &none), ["A"]);
        assert_eq!(reader.differing_keys(&none, &one), ["A"]);
        assert!(reader.reads_same(&none, &none));
        assert_ne!(one.digest_of([&reader]), none.digest_of([&reader]));
    }
}

/// A generator that moves a key to binaryData leaves a volume's files alone and empties an environment (C55).
#[test]
fn a_key_moved_to_binary_data_is_the_same_file_and_a_lost_variable() {
    let text = content(json!({"data": {"k": "abc"}}));
    let moved = content(json!({"binaryData": {"k": "YWJj"}}));
    assert!(whole_volume().reads_same(&text, &moved));
    assert_eq!(key_ref("k").differing_keys(&text, &moved), ["k"]);
    assert_eq!(env_from().differing_keys(&text, &moved), ["k"]);
    assert_ne!(text.digest(), moved.digest(), "a snapshot keeps the field, so the digest does");
    assert_eq!(key_ref("k").missing_keys(&moved), ["k"], "CreateContainerConfigError");
    assert!(volume(json!({}), json!({"items": [{"key": "k", "path": "p"}]})).missing_keys(&moved).is_empty());
}

/// A Pod that cannot start would be called startable, or one that can would be refused (C38).
#[test]
fn missing_keys_are_those_that_stop_a_pod() {
    let held = content(json!({"data": {"A": "1"}}));
    assert_eq!(key_ref("LOG_LEVEL").missing_keys(&held), ["LOG_LEVEL"]);
    assert!(key_ref("A").missing_keys(&held).is_empty());
    assert!(env_from().missing_keys(&held).is_empty());
    assert!(whole_volume().missing_keys(&held).is_empty());
    // The kubelet makes an empty directory for a path that is not there.
    assert!(volume(json!({"subPath": "gone"}), json!({})).missing_keys(&held).is_empty());
    let items = json!({"items": [{"key": "A", "path": "a"}, {"key": "gone", "path": "b"}]});
    // A missing item stops the whole volume, also for a container that mounts another of its files.
    let other = volume(json!({"subPath": "a"}), items.clone());
    assert_eq!(other.missing_keys(&held), ["gone"]);
    assert_eq!(other.consumed(&held).keys().collect::<Vec<_>>(), ["A"]);
    let mut optional = items;
    optional["optional"] = json!(true);
    assert!(volume(json!({}), optional).missing_keys(&held).is_empty());
}

/// The record of a reference covers all its uses: one digest over the union, whatever their order.
#[test]
fn the_union_of_uses_is_one_digest() {
    let held = content(json!({"data": {"A": "1", "B": "2", "C": "3"}}));
    let (a, b) = (key_ref("A"), key_ref("B"));
    assert_eq!(held.digest_of([&a, &b]), held.digest_of([&b, &a, &b]));
    assert_eq!(held.digest_of([&a, &b]), content(json!({"data": {"A": "1", "B": "2"}})).digest());
    assert_eq!(held.digest_of([&whole_volume(), &a]), held.digest());
    // One use misses the key and another has it: neither fact may hide the other.
    let binary = content(json!({"binaryData": {"A": "MQ=="}}));
    assert_ne!(binary.digest_of([&whole_volume(), &a]), binary.digest());
    let reference = reference(
        json!({"name": "app", "envFrom": [{"configMapRef": {"name": "settings"}}],
               "volumeMounts": [{"name": "v", "mountPath": "/c", "subPath": "b.bin"}]}),
        json!([{"name": "v", "configMap": {"name": "settings"}}]),
    );
    let new = content(json!({"data": {"A": "9", "B": "2", "C": "3"}, "binaryData": {"b.bin": "AA=="}}));
    assert_eq!(reference.differing_keys(&held, &new), ["A", "b.bin"]);
    assert_eq!(reference.consumed(&held).digest(), held.digest_of(&reference.uses));
    assert!(reference.missing_keys(&held).is_empty());
}

/// Names by the real `kubectl kustomize` (kustomize 5.5). A frozen object would be judged unknown, or an edited
/// one would pass for generated.
#[test]
fn kustomize_names_recompute() {
    let long: Vec<u8> = [255].into_iter().chain(0..=255).collect();
    let binary = |n: usize| Content { binary: [("k".to_string(), vec![255; n])].into(), ..Content::default() };
    let vectors = [
        ("pre-lit-mg826695md", content(json!({"data": {"A": "1", "B": "x<y&z>"}}))),
        ("pre-emp-6ct58987ht", content(json!({}))),
        ("pre-blob-6c6dg4ftmt", content(json!({"binaryData": {"blob.bin": "//4AAQ=="}}))),
        ("pre-mix-hmgb4dt64b", content(json!({"data": {"A": "1"}, "binaryData": {"k": "//4AAQ=="}}))),
        ("pre-num-dhk29bkgg7", content(json!({"data": {"n": "1.0", "t": "true", "e": "", "y": "yes", "z": "~"}}))),
        // Base64 is hashed in lines of 70 characters: 68, 72, 140 and 344 of them.
        ("one-842f4hb57k", binary(51)),
        ("one-6257mbhm47", binary(52)),
        ("one-k2td4tbk67", binary(105)),
        ("one-kbb25c4t5b", Content { binary: [("k".to_string(), long)].into(), ..Content::default() }),
        ("one-526kf55tff", content(json!({"data": {"k": "キー=値\r\nline 2\u{2028}x\u{2029} \n"}}))),
        ("one-6h74t6fbdm", content(json!({"data": {"k": "  lead\ntrail  \n\n\n"}}))),
        ("one-bc7htf6bc9", content(json!({"data": {"k": "tab\there \"q\" \\ <>& é 🎉\n"}}))),
        ("one-bgc4kcc6t5", content(json!({"data": {"k": "a\u{8}b\u{c}c\u{1}d\u{7f}e\tf\"g\\h\n"}}))),
    ];
    for (name, held) in vectors {
        for immutable in [false, true] {
            assert_eq!(recomputes(name, &held, immutable), Some(Generator::Kustomize), "{name}");
        }
        assert!(looks_generated(name));
        let mut edited = held;
        edited.data.insert("A".into(), b"2".to_vec());
        assert_eq!(recomputes(name, &edited, false), None, "{name} after an edit");
    }
}

/// Names by the real `kubectl create configmap --append-hash` (1.32). It hashes the base name, kustomize does not.
#[test]
fn append_hash_names_recompute() {
    let long: Vec<u8> = [255].into_iter().chain(0..=255).collect();
    let vectors = [
        ("two-g82dh45k9k", content(json!({"data": {"A": "1", "B": "x<y&z>"}}))),
        ("plain-cht782m4gm", content(json!({"data": {"k": "v"}}))),
        ("empty-b6t642d2fb", content(json!({}))),
        ("bin-899m62294m", content(json!({"binaryData": {"blob.bin": "//4AAQ=="}}))),
        ("my-app-fh84tdm9h7", content(json!({"data": {"a": "1"}, "binaryData": {"k": "//4AAQ=="}}))),
        ("one-6tkc8bm7f9", Content { binary: [("k".to_string(), long)].into(), ..Content::default() }),
        ("one-g9ct7c4btb", content(json!({"data": {"k": "a\u{8}b\u{c}c\u{1}d\u{7f}e\tf\"g\\h\n"}}))),
        ("one-g7cm68cf79", content(json!({"data": {"k": "キー=値\r\nline 2\u{2028}x\u{2029} \n"}}))),
        ("one-7d7d26452f", content(json!({"data": {"k": "  lead\ntrail  \n\n\n"}}))),
        ("one-4b95k7f6mt", content(json!({"data": {"k": "tab\there \"q\" \\ <>& é 🎉\n"}}))),
    ];
    for (name, held) in vectors {
        assert_eq!(recomputes(name, &held, false), Some(Generator::AppendHash), "{name}");
        assert_eq!(recomputes(name, &held, true), Some(Generator::AppendHash), "{name}, frozen later");
        let (_, suffix) = name.rsplit_once('-').unwrap();
        assert_eq!(recomputes(&format!("other-{suffix}"), &held, false), None, "the base name counts");
    }
}

/// Computed apart from this program: `immutable` set before the name was made (kubectl's hash takes it in), and \b and
/// \f as Go before 1.22 wrote them.
#[test]
fn variants_of_the_generators_recompute() {
    let plain = content(json!({"data": {"k": "v"}}));
    assert_eq!(recomputes("plain-bt59274db9", &plain, true), Some(Generator::AppendHash));
    assert_eq!(recomputes("plain-bt59274db9", &plain, false), None, "the flag cannot have been there");
    let old = content(json!({"data": {"k": "\u{8}\u{c}"}}));
    assert_eq!(recomputes("any-hh6cbmd64c", &old, false), Some(Generator::Kustomize));
}

/// A hand-made name that merely has a dash would be called edited.
#[test]
fn ordinary_names_are_not_generated() {
    for name in ["settings", "app-config", "web-0123456789", "-6ct58987ht", "6ct58987ht", "a-6ct58987h", ""] {
        assert!(!looks_generated(name), "{name}");
        assert_eq!(recomputes(name, &Content::default(), true), None, "{name}");
    }
}

/// A key that some servers pass over as a variable would not count, and a snapshot would lack it (C43).
#[test]
fn keys_that_are_odd_names_for_variables_count_like_any_other() {
    use saferollback::core::observed::Origin;
    use saferollback::core::recovery::{Candidate, Grade};
    let template =
        json!({"spec": {"containers": [{"name": "app", "envFrom": [{"configMapRef": {"name": "settings"}}]}]}});
    let reference = saferollback::core::references::extract(&template).references.remove(0);
    let read = |data: Value| Content::from_object(&Object(json!({"data": data}))).unwrap();
    let all = read(json!({"OK": "1", "my.key": "1", "my-key": "1", "1ABC": "1"}));
    for key in ["OK", "my.key", "my-key", "1ABC"] {
        let mut other = all.clone();
        other.data.insert(key.into(), b"2".to_vec());
        assert_eq!(reference.differing_keys(&all, &other), [key]);
        assert!(reference.missing_keys(&all).is_empty());
    }
    let candidate = Candidate {
        digest: all.digest(),
        content: all.clone(),
        origin: Origin::Live,
        source_uid: String::new(),
        from: None,
        until: None,
        grade: Grade::Proof,
    };
    let snapshot = saferollback::core::snapshot::of("shop", "settings", &candidate, 16);
    assert_eq!(snapshot.body["data"].as_object().unwrap().len(), 4, "{:#}", snapshot.body);
}
