//! `history configmap/NAME`, `diff` and `restore` on files: the recorded incident, and dumps of a few objects.

use crate::support::product::{self, Ran};
use serde_json::{Value, json};
use std::fs;

const INCIDENT: &str = "tests/incident";
/// A value of a ConfigMap, of an environment variable and of a Secret.
const MARKER: &str = "marker-7f3a9";

fn run(arguments: &[&str]) -> Ran {
    let mut command = product::command();
    command.current_dir(product::root()).args(arguments).output().expect("it runs").into()
}

/// Otherwise the screens could change without anybody reading them.
#[test]
fn the_screens_of_the_recorded_incident() {
    let on = |arguments: &[&str]| run(&[arguments, &["--from-file", INCIDENT]].concat()).whole();
    insta::assert_snapshot!("history", on(&["history", "configmap/settings"]));
    insta::assert_snapshot!("history_wide", on(&["history", "cm", "settings", "-o", "wide"]));
    insta::assert_snapshot!("history_absent", on(&["history", "configmap/nothing"]));
    insta::assert_snapshot!("diff", on(&["diff", "web", "--from", "1"]));
    insta::assert_snapshot!("diff_current", on(&["diff", "web"]));
    insta::assert_snapshot!("diff_shown", on(&["diff", "web", "--from", "1", "--to", "2", "--show-content"]));
    insta::assert_snapshot!("restore", on(&["restore", "configmap/settings"]));
    insta::assert_snapshot!("restore_nothing_to_do", on(&["restore", "cm/settings", "--from", "sr1:0feaa156231a..."]));
}

/// Otherwise other tools would read another thing than people do.
#[test]
fn each_verb_has_its_document() {
    let on = |arguments: &[&str]| run(&[arguments, &["-o", "json", "--from-file", INCIDENT]].concat());
    let history = on(&["history", "cm/settings"]).expect(0).document();
    assert_eq!((&history["kind"], &history["exitCode"]), (&json!("ConfigMapHistory"), &json!(0)));
    let absent = on(&["history", "cm/nothing"]).expect(3).document();
    assert_eq!((&absent["configMap"]["exists"], &absent["versions"]), (&json!(false), &json!([])));
    let diff = on(&["diff", "web", "--from", "1"]).expect(1).document();
    assert_eq!((&diff["kind"], &diff["contents"][0]["answer"]), (&json!("Diff"), &json!("different")));
    let restore = on(&["restore", "cm/settings"]).expect(0).document();
    assert_eq!((&restore["kind"], &restore["outcome"]), (&json!("Restore"), &json!("planned")));
    let yaml = run(&["restore", "cm/settings", "-o", "yaml", "--from-file", INCIDENT]).expect(0);
    let yaml: Value = serde_yaml::from_str(&yaml.stdout).expect("YAML");
    assert_eq!(yaml["digest"], restore["digest"]);
}

/// Two revisions of `web` over one ConfigMap and one Secret, with a ReplicaSet each and no Pods; `settings` was edited.
fn dump(change: impl FnOnce(&mut Vec<Value>)) -> tempfile::TempDir {
    let owned = |name: &str, number: u64, template: &Value| {
        let mut template = template.clone();
        template["metadata"]["labels"]["pod-template-hash"] = json!(name);
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": format!("web-{name}"), "namespace": "shop", "uid": format!("r-{number}"),
                "creationTimestamp": format!("2026-11-29T12:0{number}:00Z"), "labels": {"app": "web"},
                "annotations": {"deployment.kubernetes.io/revision": number.to_string()},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d-1", "controller": true}],
            },
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
        })
    };
    let template = |image: &str, password: &str| {
        json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{
                "name": "app", "image": image, "env": [{"name": "PASSWORD", "value": password}],
                "envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "db"}}],
            }]},
        })
    };
    let (one, two) = (template("web:1", &format!("{MARKER}-1")), template("web:2", &format!("{MARKER}-2")));
    let mut objects = vec![
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "d-1",
                "annotations": {"deployment.kubernetes.io/revision": "2"},
            },
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": two},
        }),
        owned("aaa", 1, &one),
        owned("bbb", 2, &two),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "shop", "uid": "s-1", "resourceVersion": "9"},
            "data": {"password": MARKER},
        }),
    ];
    for (number, value) in [("10", "old"), ("20", "new")] {
        objects.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": "shop", "uid": "c-1", "resourceVersion": number},
            "data": {"TOKEN": format!("{MARKER}-{value}"), format!("only-{value}"): format!("{MARKER}\nx")},
        }));
    }
    change(&mut objects);
    let folder = tempfile::tempdir().expect("a folder");
    for (i, object) in objects.iter().enumerate() {
        fs::write(folder.path().join(format!("{i:02}.json")), object.to_string()).expect("write");
    }
    folder
}

fn on(folder: &tempfile::TempDir, arguments: &[&str]) -> Ran {
    run(&[arguments, &["--from-file", &folder.path().display().to_string()]].concat())
}

/// Otherwise a password would stand in a CI log because somebody asked what differs (C106).
#[test]
fn c106_values_are_shown_only_when_asked() {
    let folder = dump(|_| {});
    for arguments in [
        &["history", "cm/settings"][..],
        &["history", "cm/settings", "-o", "json"],
        &["diff", "web", "--from", "1"],
        &["diff", "web", "--from", "1", "--to", "2"],
        &["diff", "web", "--from", "1", "-o", "json"],
        &["restore", "cm/settings", "--from", "10"],
        &["restore", "cm/settings", "--from", "10", "-o", "yaml"],
        &["restore", "cm/settings"],
        &["restore", "cm/settings", "--from", "sr1:00000000"],
    ] {
        let ran = on(&folder, arguments);
        assert!(!ran.whole().contains(MARKER), "{arguments:?}: {}", ran.whole());
    }
    let masked = on(&folder, &["diff", "web", "--from", "1"]).expect(1);
    assert!(masked.stdout.contains("~ /spec/containers/0/image: \"web:1\" -> \"web:2\""), "{}", masked.stdout);
    assert!(masked.stdout.contains("~ /spec/containers/0/env/0/value: \"***\" -> \"***\""), "{}", masked.stdout);
    let shown = on(&folder, &["diff", "web", "--from", "1", "--show-content"]).expect(1);
    assert!(shown.stdout.contains(&format!("\"{MARKER}-1\" -> \"{MARKER}-2\"")), "{}", shown.stdout);
    assert!(!shown.whole().contains("password\""), "a Secret is read as metadata only: {}", shown.whole());
    let shown = on(&folder, &["restore", "cm/settings", "--from", "10", "--show-content"]).expect(0);
    for line in [
        format!("~ TOKEN: \"{MARKER}-new\" -> \"{MARKER}-old\""),
        "- only-new: ".to_string(),
        format!("+ only-old: \"{MARKER}\\nx\""),
    ] {
        assert!(shown.stdout.contains(&line), "{line:?} is not in {}", shown.stdout);
    }
}

/// Otherwise what is not known would pass as equal, or as a difference that nobody can see.
#[test]
fn what_is_not_known_is_its_own_answer() {
    let folder = dump(|objects| {
        let same = objects[1]["spec"]["template"].clone();
        objects[2]["spec"]["template"] = same.clone();
        objects[0]["spec"]["template"] = same;
        objects[2]["metadata"]["labels"]["pod-template-hash"] = json!("bbb");
    });
    let ran = on(&folder, &["diff", "web", "--from", "1", "--to", "2", "-o", "json"]).expect(3);
    let document = ran.document();
    assert_eq!(document["template"], json!([]));
    let answers: Vec<&str> =
        document["contents"].as_array().into_iter().flatten().filter_map(|c| c["answer"].as_str()).collect();
    assert_eq!(answers, ["unknown", "unknown"]);
    let said = on(&folder, &["diff", "web", "--from", "1"]).expect(3).stdout;
    assert!(said.contains("configmap/settings: unknown") && said.contains("secret/db: unknown"), "{said}");
}

/// Otherwise a script could take an error for a difference: for `diff` 1 means one.
#[test]
fn errors_of_diff_are_above_1() {
    let folder = dump(|_| {});
    on(&folder, &["diff", "nothing"]).expect(2);
    on(&folder, &["diff", "web", "--from", "9"]).expect(3);
    on(&folder, &["diff", "cm/settings"]).expect(2);
    run(&["diff", "web", "--from-file", "/nonexistent"]).expect(2);
    run(&["diff", "web", "--kubeconfig", "/nonexistent"]).expect(2);
}

/// Otherwise a reference that went or came would be compared with nothing, and pass as equal.
#[test]
fn a_name_that_only_one_side_has_is_a_difference() {
    let folder = dump(|objects| {
        for object in [0, 2] {
            let env_from = &mut objects[object]["spec"]["template"]["spec"]["containers"][0]["envFrom"];
            *env_from = json!([{"secretRef": {"name": "db"}}, {"configMapRef": {"name": "extra"}}]);
        }
    });
    let document = on(&folder, &["diff", "web", "--from", "1", "--to", "2", "-o", "json"]).expect(1).document();
    let lines: Vec<(&str, &str)> = document["contents"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| (c["reference"].as_str().unwrap_or(""), c["because"].as_str().unwrap_or("")))
        .collect();
    assert!(lines.contains(&("ConfigMap/settings", "only revision 1 names it")), "{lines:?}");
    assert!(lines.contains(&("ConfigMap/extra", "only revision 2 names it")), "{lines:?}");
}

/// Otherwise the lines of a file that stayed would hide those that changed, or a value could move a terminal's cursor.
#[test]
fn c107_files_are_compared_by_line_and_escaped() {
    let folder = dump(|objects| {
        let lines = |middle: &str| json!({"app.yaml": format!("a: 1\n{middle}\nz: 9\n")});
        objects[4]["data"] = lines("b: 2");
        objects[5]["data"] = lines("b: 3\u{1b}[2J\nc: 4");
    });
    let shown = on(&folder, &["restore", "cm/settings", "--from", "10", "--show-content"]).expect(0).stdout;
    assert!(shown.contains("  ~ app.yaml:\n    - b: 3\\u{1b}[2J\n    - c: 4\n    + b: 2\n"), "{shown}");
    assert!(!shown.contains("a: 1") && !shown.contains("z: 9"), "{shown}");
}

/// Otherwise a reader of another namespace would be told of, in a dump of a whole cluster.
#[test]
fn readers_are_those_of_the_namespace() {
    let folder = dump(|objects| {
        let mut other = objects[0].clone();
        other["metadata"]["namespace"] = json!("ops");
        other["metadata"]["name"] = json!("grafana");
        objects.push(other);
    });
    let document = on(&folder, &["history", "cm/settings", "-n", "shop", "-o", "json"]).expect(0).document();
    let readers = document["versions"].as_array().and_then(|v| v.last()).map(|v| v["readers"].clone());
    assert_eq!(readers.as_ref().and_then(Value::as_array).map(Vec::len), Some(1), "{document:#}");
    let elsewhere = on(&folder, &["history", "cm/settings", "-n", "ops"]).expect(3);
    assert!(elsewhere.stderr.contains("not found in namespace ops"), "{}", elsewhere.stderr);
}

/// Otherwise a snapshot, which is what is left when the API history is gone, could not be found or put back.
#[test]
fn snapshots_are_listed_with_who_reads_them() {
    let folder = dump(|objects| {
        let mut snapshot = objects[4].clone();
        let name = "settings-sr-";
        snapshot["metadata"] = json!({
            "name": name, "namespace": "shop", "uid": "n-1", "creationTimestamp": "2026-11-29T12:01:30Z",
            "labels": {"app.kubernetes.io/managed-by": "kubectl-saferollback", "saferollback.dev/kind": "snapshot"},
            "annotations": {"saferollback.dev/source": "settings"},
        });
        snapshot["immutable"] = json!(true);
        let content =
            saferollback::core::digest::Content::from_object(&saferollback::core::object::Object(snapshot.clone()));
        let name = saferollback::core::snapshot::name("settings", &content.expect("content"), 16);
        snapshot["metadata"]["name"] = json!(name);
        let env_from = &mut objects[0]["spec"]["template"]["spec"]["containers"][0]["envFrom"];
        env_from[0]["configMapRef"]["name"] = json!(name);
        objects.remove(4);
        objects.push(snapshot);
    });
    let document = on(&folder, &["history", "cm/settings", "-o", "json"]).expect(0).document();
    let line = &document["versions"][0];
    assert_eq!((&line["source"], &line["grade"], &line["held"]), (&json!("snapshot"), &json!("proof"), &json!(true)));
    assert_eq!(line["readers"][0]["reader"], "deployment/web");
    let digest = line["digest"].as_str().expect("a digest");
    let restore = on(&folder, &["restore", "cm/settings", "--from", &digest[..12], "-o", "json"]).expect(0).document();
    assert_eq!(restore["version"]["object"], line["object"]);
    on(&folder, &["restore", "cm/settings"]).expect(2);
}
