//! `--from-file`: the recorded incident, dumps of other kinds, and files that are no dumps.

use crate::support::product::{self, Ran};
use std::fs;
use std::io::Write;
use std::process::Stdio;

const INCIDENT: &str = "tests/incident";

fn run(arguments: &[&str]) -> Ran {
    let mut command = product::command();
    command.current_dir(product::root()).args(arguments).output().expect("it runs").into()
}

/// Otherwise the screens could change without anybody reading them.
#[test]
fn the_screens_of_the_recorded_incident() {
    insta::assert_snapshot!("history", run(&["history", "web", "--from-file", INCIDENT]).whole());
    insta::assert_snapshot!("history_wide", run(&["history", "web", "-o", "wide", "--from-file", INCIDENT]).whole());
    insta::assert_snapshot!(
        "history_revision_1",
        run(&["history", "web", "--revision", "1", "--from-file", INCIDENT]).whole()
    );
    insta::assert_snapshot!(
        "history_revision_2",
        run(&["history", "web", "--revision", "2", "--from-file", INCIDENT]).whole()
    );
    insta::assert_snapshot!("check", run(&["check", "web", "--to-revision", "1", "--from-file", INCIDENT]).whole());
    insta::assert_snapshot!("undo", run(&["undo", "web", "--to-revision", "1", "--from-file", INCIDENT]).whole());
    insta::assert_snapshot!(
        "undo_live",
        run(&["undo", "web", "--to-revision", "1", "--config=live", "--from-file", INCIDENT]).whole()
    );
    insta::assert_snapshot!(
        "undo_proven",
        run(&["undo", "web", "--to-revision", "1", "--verify=replace", "--on-failure=revert", "--from-file", INCIDENT])
            .whole()
    );
    insta::assert_snapshot!(
        "undo_yaml",
        run(&["undo", "web", "--to-revision", "1", "-o", "yaml", "--from-file", INCIDENT]).whole()
    );
}

/// Otherwise other tools would read one thing in JSON and people another in YAML.
#[test]
fn json_and_yaml_are_one_document() {
    for verb in [&["history", "web"][..], &["check", "web", "--to-revision", "1"]] {
        let json = run(&[verb, &["-o", "json", "--from-file", INCIDENT]].concat()).document();
        let yaml = run(&[verb, &["-o", "yaml", "--from-file", INCIDENT]].concat());
        let yaml: serde_json::Value = serde_yaml::from_str(&yaml.stdout).expect("YAML");
        assert_eq!(json["revisions"][0]["references"], yaml["revisions"][0]["references"]);
        assert_eq!(json["digest"], yaml["digest"]);
    }
    let undo = run(&["undo", "web", "--to-revision", "1", "-o", "json", "--from-file", INCIDENT]).document();
    assert_eq!(undo["outcome"], "planned");
}

/// Otherwise a person with a dump on stdin would have to write it to a file first.
#[test]
fn standard_input_is_a_dump() {
    let mut all = String::new();
    let mut names: Vec<_> =
        fs::read_dir(product::root().join(INCIDENT)).expect("the incident").flatten().map(|e| e.path()).collect();
    names.sort();
    for path in names.iter().filter(|p| p.extension().is_some_and(|e| e == "json")) {
        all.push_str("---\n");
        all.push_str(&fs::read_to_string(path).expect("a file"));
    }
    let mut child = product::command()
        .args(["history", "web", "--from-file", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    child.stdin.take().expect("stdin").write_all(all.as_bytes()).expect("write");
    let piped = Ran::from(child.wait_with_output().expect("it ends")).expect(0);
    assert_eq!(piped.stdout, run(&["history", "web", "--from-file", INCIDENT]).stdout);
}

/// Otherwise one bad file in a folder would be an unexplained failure.
#[test]
fn files_that_are_no_dump_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display().to_string();
    let file = folder.path().join("bad.yaml");
    fs::write(&file, "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x\n").expect("write");
    let ran = run(&["history", "web", "--from-file", &path]).expect(1);
    assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains("bad.yaml:"), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);

    fs::write(&file, "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\n---\nkind: Service\napiVersion: v1\nmetadata: {name: y}\n").expect("write");
    for verb in [&["history"][..], &["history", "web"], &["check"], &["undo", "web"]] {
        let ran = run(&[verb, &["--from-file", &path]].concat()).expect(1);
        assert!(ran.stderr.contains("1 ConfigMap, 1 Service"), "{}", ran.stderr);
    }
}

/// Otherwise a name given on the command line could reach a terminal as an escape sequence.
#[test]
fn control_characters_are_shown_escaped() {
    let dump = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop, uid: u1}\nspec:\n  selector: {matchLabels: {app: web}}\n  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: i}]}}\n---\napiVersion: apps/v1\nkind: ReplicaSet\nmetadata:\n  name: web-1\n  namespace: shop\n  uid: r1\n  labels: {app: web}\n  annotations: {deployment.kubernetes.io/revision: '1', kubernetes.io/change-cause: \"x\\e[2J\\r\\nSame\"}\n  ownerReferences: [{kind: Deployment, name: web, uid: u1, controller: true, apiVersion: apps/v1}]\nspec:\n  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: i}]}}\n";
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("d.yaml"), dump).expect("write");
    let path = folder.path().display().to_string();
    let ran = run(&["history", "web", "--from-file", &path]).expect(0);
    assert!(ran.stdout.contains("\\u{1b}[2J\\r\\nSame"), "{}", ran.stdout);
    assert!(!ran.whole().contains('\u{1b}'));
    let json = run(&["history", "web", "-o", "json", "--from-file", &path]).document();
    assert_eq!(json["revisions"][0]["changeCause"], "x\u{1b}[2J\r\nSame", "JSON keeps the exact text");
}

/// Otherwise a kind that is only known would be answered as if it did not exist.
#[test]
fn other_kinds_are_answered_with_not_yet() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display().to_string();
    for (kind, word) in [("StatefulSet", "sts/db"), ("DaemonSet", "daemonsets.apps/db")] {
        let dump = format!(
            "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: db, namespace: shop, uid: u1}}\nspec: {{}}\n"
        );
        fs::write(folder.path().join("d.yaml"), dump).expect("write");
        for target in [word, "db"] {
            let ran = run(&["history", target, "--from-file", &path]).expect(1);
            assert!(ran.stderr.contains(&format!("{kind}s are not supported yet")), "{}", ran.stderr);
        }
    }
}

/// Without this a way on that is pasted would forget the content that was given for another ConfigMap.
#[test]
fn the_ways_on_keep_what_was_given() {
    let two =
        serde_json::json!({"envFrom": [{"configMapRef": {"name": "settings"}}, {"configMapRef": {"name": "other"}}]});
    let mut scene = crate::verdict::scene::Scene::retired(crate::verdict::scene::template("web:1", two));
    scene.events.clear();
    scene.objects.push(crate::verdict::scene::config_map("other", serde_json::json!({"C": "1"}), 100, 0));
    let items = [vec![scene.workload.clone()], scene.sets.clone(), scene.pods.clone(), scene.objects.clone()].concat();
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, value: serde_json::Value| {
        let path = folder.path().join(name);
        std::fs::write(&path, value.to_string()).expect("written");
        path.display().to_string()
    };
    let dump = write("dump.json", serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}));
    let old = write(
        "old.json",
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"A": "1"}}),
    );
    let given = format!("settings={old}");
    let ran =
        crate::support::product::run(&["undo", "web", "--to-revision", "1", "--from-file", &dump, "--use", &given]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let way = ran.stderr.lines().find(|line| line.contains("--use other=FILE")).unwrap_or_else(|| panic!("{ran:?}"));
    assert!(way.contains(&format!("--use {given}")), "{way}");
    let live = ran.stderr.lines().find(|line| line.contains("--config=live"));
    assert!(live.is_none_or(|line| !line.contains("--use")), "{ran:?}");
}
