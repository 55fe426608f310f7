//! A container that restarts reads anew: environment at every start, a file behind a subPath at every start too.

use super::{aged_settings, judged};
use crate::support::client::CONFIGMAPS;
use crate::support::control_plane::Namespace;
use crate::support::incident::{self, AGED};
use crate::support::node::{self, Node, Texts, settings};
use serde_json::{Value, json};
use std::thread;

fn claims_sameness(reference: &Value) -> bool {
    matches!(reference["verdict"].as_str(), Some("same" | "likely-same" | "refreshed"))
}

fn edit(namespace: &Namespace) -> Texts {
    incident::edit(namespace, &json!({"CONFIG_REVISION": "v2"}));
    settings("v2", "true")
}

/// A crash in an old Pod of an unchanged revision picks up the edit. That Pod is then no witness of the old content.
#[test]
fn a_restarted_container_reads_the_edit() {
    let namespace = Node::namespace("restarted");
    aged_settings(&namespace);
    node::deploy(&namespace, &node::web(1));
    let pod = node::name(&node::pods(&namespace, "web")[0]).to_owned();
    let live = edit(&namespace);
    assert_eq!(node::said(&namespace, &pod).settings(), settings("v1", "true"));
    let said = node::crash(&namespace, &pod);
    assert_eq!(said.settings(), live, "the container reads its environment anew");
    let report = judged(&namespace, "web", 1);
    // Both contents were read by this Pod, one after the other: nothing may be claimed of "the" content.
    node::honest(&report, &[settings("v1", "true"), said.settings()], &live);
    assert!(!claims_sameness(&report), "{report:#}");
    assert!(report["digest"]["read"].is_null(), "{report:#}");
}

/// Of two Pods one restarted since the edit: two contents at once, and no pin may be called proven.
#[test]
fn one_restarted_pod_of_two_leaves_no_proof() {
    let namespace = Node::namespace("one-of-two");
    aged_settings(&namespace);
    node::deploy(&namespace, &node::web(2));
    let pods = node::pods(&namespace, "web");
    let live = edit(&namespace);
    let restarted = node::crash(&namespace, node::name(&pods[0])).settings();
    let other = node::said(&namespace, node::name(&pods[1])).settings();
    assert_eq!((&restarted, &other), (&live, &settings("v1", "true")));
    let report = judged(&namespace, "web", 1);
    node::honest(&report, &[restarted, other], &live);
    assert!(!claims_sameness(&report), "{report:#}");
    let undo =
        namespace.run(&["undo", "web", "--to-revision", "1", "--require", "proof", "-o", "json", "--dry-run=client"]);
    assert!(undo.code != 0 || !undo.stdout.contains("\"grade\": \"proof\""), "{undo:?}");
}

/// The Deployment with one file of `settings` behind a subPath, and nothing of it in the environment but HEALTHY.
fn with_file() -> Value {
    let mut web = node::web(1);
    let spec = &mut web["spec"]["template"]["spec"];
    spec["volumes"] = json!([{"name": "file", "configMap": {"name": "settings"}}]);
    let container = spec["containers"][0].as_object_mut().expect("a container");
    container.remove("envFrom");
    container.insert("env".into(), json!([{"name": "HEALTHY", "value": "true"}]));
    container.insert("volumeMounts".into(), json!([{"name": "file", "mountPath": "/config/page", "subPath": "page"}]));
    web
}

fn page(text: &str) -> Texts {
    [("page".to_owned(), text.to_owned())].into()
}

/// A file behind a subPath stays for the container's life, and is some version of the edit's time after a restart.
#[test]
fn a_file_behind_a_sub_path_is_no_proof_after_a_restart() {
    let namespace = Node::namespace("sub-path");
    let body = json!({"metadata": {"name": "settings"}, "data": page("old")});
    namespace.all(CONFIGMAPS).create(&body).ok();
    thread::sleep(AGED);
    node::deploy(&namespace, &with_file());
    let pod = node::name(&node::pods(&namespace, "web")[0]).to_owned();
    let unchanged = judged(&namespace, "web", 1);
    node::honest(&unchanged, &[node::said(&namespace, &pod).files], &page("old"));

    namespace.at(CONFIGMAPS, "settings").merge_patch(&json!({"data": page("new")})).ok();
    let before = node::said(&namespace, &pod);
    assert_eq!(before.files, page("old"), "a file behind a subPath is not refreshed");
    let edited = judged(&namespace, "web", 1);
    node::honest(&edited, &[before.files], &page("new"));
    assert!(!claims_sameness(&edited), "{edited:#}");

    // At once: the node's own copy of the volume may still be the old one.
    let at_once = node::crash(&namespace, &pod);
    assert_eq!(at_once.files, at_once.files_at_start);
    let report = judged(&namespace, "web", 1);
    node::honest(&report, &[page("old"), at_once.files], &page("new"));
    assert!(!claims_sameness(&report), "{report:#}");
    assert!(report["digest"]["read"].is_null(), "{report:#}");

    // Edited again after the restart, and no restart since: the file is what the second start found, not the first.
    namespace.at(CONFIGMAPS, "settings").merge_patch(&json!({"data": page("newest")})).ok();
    let later = node::said(&namespace, &pod);
    assert_eq!(later.files, later.files_at_start);
    let report = judged(&namespace, "web", 1);
    node::honest(&report, &[page("old"), later.files], &page("newest"));
    assert!(!claims_sameness(&report), "{report:#}");
}
