//! The main job against a real API server.

use crate::support::client::{CONFIGMAPS, DEPLOYMENTS};
use crate::support::control_plane::{ControlPlane, Namespace, version};
use crate::support::incident::{self, AGED};
use serde_json::{Value, json};

fn settings_now(namespace: &Namespace) -> Value {
    namespace.at(CONFIGMAPS, "settings").get().ok()
}

fn writes(namespace: &Namespace) -> Vec<String> {
    let ours = namespace.audit().into_iter().filter(|e| e.user_agent.starts_with("kubectl-saferollback"));
    ours.filter(|e| e.mutating()).map(|e| format!("{} {}/{}", e.verb, e.resource, e.name)).collect()
}

/// Without this the product has no point: the trap is seen, and undone with the content that the good Pods read (C36).
#[test]
fn the_trap_is_seen_and_undone_with_proof() {
    let namespace = ControlPlane::main().namespace("trap");
    let _player = incident::start(&namespace, AGED);
    incident::trap(&namespace);
    let edited = settings_now(&namespace);

    let check = namespace.run(&["check", "web", "--to-revision", "1", "-o", "json"]).expect(3).document();
    assert_eq!(check["revisions"][0]["references"][0]["verdict"], "changed", "{check:#}");
    assert!(writes(&namespace).is_empty(), "check writes nothing");

    let undone = namespace.run(&["undo", "web", "--to-revision", "1", "-y", "-o", "json"]).expect(0).document();
    assert_eq!(undone["outcome"], "done");
    assert_eq!(undone["actions"][0]["action"], "pin");
    assert_eq!(undone["actions"][0]["grade"], "proof");
    let snapshot = undone["actions"][0]["to"].as_str().expect("a snapshot's name").to_string();
    assert_eq!(version(&settings_now(&namespace)), version(&edited), "the original is never touched");
    let live = namespace.at(DEPLOYMENTS, "web").get().ok();
    let bound = &live["spec"]["template"]["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"];
    assert_eq!(bound, &json!(snapshot));
    let made = namespace.at(CONFIGMAPS, &snapshot).get().ok();
    assert_eq!(made["data"], incident::settings("v1", "true")["data"], "the bytes that the good Pods read");
    assert_eq!(made["immutable"], true);
    assert_eq!(live["metadata"]["annotations"]["team"], "shop", "other annotations survive");
    assert!(live["spec"]["template"]["metadata"]["labels"].get("pod-template-hash").is_none());

    let objects = namespace.items(CONFIGMAPS).len();
    let again = namespace.run(&["undo", "web", "--to-revision", "1", "-y", "-o", "json"]).expect(0).document();
    assert_eq!(again["outcome"], "nothing-to-do");
    let after = namespace.at(DEPLOYMENTS, "web").get().ok();
    assert_eq!(after["metadata"]["generation"], live["metadata"]["generation"]);
    assert_eq!(namespace.items(CONFIGMAPS).len(), objects, "no second copy of anything");
}
