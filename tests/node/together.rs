//! ConfigMap and Deployment at the same moment, and in the wrong order.

use super::{evidence, judged};
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS};
use crate::support::control_plane::wait;
use crate::support::incident;
use crate::support::node::{self, Node};
use serde_json::json;
use std::time::Duration;
use std::{fs, thread};

/// The usual `kubectl apply -f folder/`: a kubelet reads the API late, so the order of numbers alone is no proof.
#[test]
fn applied_together_is_likely_at_most() {
    let namespace = Node::namespace("together");
    let folder = tempfile::tempdir().expect("a folder");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [incident::settings("v1", "true"), node::web(2)]});
    fs::write(folder.path().join("all.json"), list.to_string()).expect("a file");
    let applied = namespace.kubectl(&["apply", "-f", &folder.path().display().to_string()]);
    assert!(applied.status.success(), "{applied:?}");
    incident::rolled_out(&namespace, "web");
    let said: Vec<_> = node::all_said(&namespace, "web").into_values().map(|said| said.settings()).collect();
    let report = judged(&namespace, "web", 1);
    node::honest(&report, &said, &node::data(&namespace, "settings"));
    assert_eq!(report["verdict"], "likely-same", "{report:#}");
}

/// A Deployment before its ConfigMap waits and reads the right one; that must not look like a re-creation for sure.
#[test]
fn a_config_map_that_comes_late_is_said_to_be_perhaps_only_late() {
    let namespace = Node::namespace("late");
    namespace.all(DEPLOYMENTS).create(&node::web(1)).ok();
    wait("a container that cannot be made", || {
        let pods = node::pods(&namespace, "web");
        let state = &pods.first()?["status"]["containerStatuses"][0]["state"];
        (state["waiting"]["reason"] == "CreateContainerConfigError").then_some(())
    });
    // Times in the API are whole seconds: within one of them the ConfigMap is not younger than the Pod.
    thread::sleep(Duration::from_secs(2));
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    incident::rolled_out(&namespace, "web");
    let said: Vec<_> = node::all_said(&namespace, "web").into_values().map(|said| said.settings()).collect();
    let live = node::data(&namespace, "settings");
    assert_eq!(said, std::slice::from_ref(&live), "it waited, and read this one");
    let report = judged(&namespace, "web", 1);
    node::honest(&report, &said, &live);
    assert_eq!(report["verdict"], "recreated", "{report:#}");
    assert!(evidence(&report).contains("or late"), "{report:#}");
}
