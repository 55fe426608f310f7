//! A name that was used twice: the kubelet serves a deleted immutable object for its namesake.

use super::{evidence, judged};
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS};
use crate::support::control_plane::{Namespace, wait};
use crate::support::incident::{self, AGED};
use crate::support::node::{self, Node, settings};
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

fn immutable(revision: &str) -> Value {
    let mut settings = incident::settings(revision, "true");
    settings["immutable"] = json!(true);
    settings
}

fn recreate(namespace: &Namespace, revision: &str) {
    namespace.at(CONFIGMAPS, "settings").delete(&json!({})).ok();
    namespace.all(CONFIGMAPS).create(&immutable(revision)).ok();
}

/// Otherwise today's bytes, immutable and old enough for any proof, would be called what the next Pod reads (C68).
#[test]
fn a_recreated_immutable_namesake_is_never_the_same() {
    let namespace = Node::namespace("namesake");
    namespace.all(CONFIGMAPS).create(&immutable("v1")).ok();
    thread::sleep(AGED);
    node::deploy(&namespace, &node::web(2));
    let before = judged(&namespace, "web", 1);
    node::honest(&before, &[settings("v1", "true")], &settings("v1", "true"));
    assert_eq!(before["verdict"], "same", "immutable, and nothing happened: {before:#}");

    recreate(&namespace, "v2");
    thread::sleep(AGED);
    let old = node::name(&node::pods(&namespace, "web")[0]).to_owned();
    let (_, said) = node::replace(&namespace, "web", &old);
    assert_eq!(said.settings(), settings("v1", "true"), "the kubelet serves the deleted object");
    let live = node::data(&namespace, "settings");
    assert_eq!(live, settings("v2", "true"));
    incident::rolled_out(&namespace, "web");
    let after = judged(&namespace, "web", 1);
    node::honest(&after, &[settings("v1", "true"), settings("v1", "true")], &live);
    assert_eq!(after["verdict"], "recreated", "{after:#}");

    // Even a workload that is made now reads the deleted one, as long as the node holds it.
    let mut later = node::web(1);
    later["metadata"]["name"] = json!("later");
    later["spec"]["selector"]["matchLabels"]["app"] = json!("later");
    later["spec"]["template"]["metadata"]["labels"]["app"] = json!("later");
    node::deploy(&namespace, &later);
    let said = node::all_said(&namespace, "later").into_values().next().expect("a Pod").settings();
    assert_eq!(said, settings("v1", "true"), "the cache does not ask who reads");
    let report = judged(&namespace, "later", 1);
    node::honest(&report, &[said], &live);
    assert_eq!(report["verdict"], "recreated", "{report:#}");

    // Nothing that read the first one is left, but for the younger workload's Pod: no API object shows the cache any
    // more. What may then be said is said with the assumption that there is none.
    namespace.at(DEPLOYMENTS, "web").delete(&json!({"propagationPolicy": "Foreground"})).ok();
    wait("the end of the first workload", || (namespace.at(DEPLOYMENTS, "web").get().status == 404).then_some(()));
    let history = namespace.run(&["history", "later", "-o", "json"]).expect(0).document();
    let reference = &history["revisions"][0]["references"][0];
    let claimed = matches!(reference["verdict"].as_str(), Some("same" | "likely-same"));
    let assumed = history["assumptions"]
        .as_array()
        .is_some_and(|all| all.iter().filter_map(Value::as_str).any(|text| text.contains("cache")));
    assert!(!claimed || assumed, "no proof without the assumption it rests on: {history:#}");
}

/// A mutable namesake is no better than an immutable one.
#[test]
fn a_recreated_mutable_namesake_is_never_the_same() {
    let namespace = Node::namespace("mutable");
    namespace.all(CONFIGMAPS).create(&immutable("v1")).ok();
    thread::sleep(AGED);
    node::deploy(&namespace, &node::web(2));
    // Times in the API are whole seconds: within one of them a Pod could as well have waited.
    thread::sleep(Duration::from_secs(2));
    namespace.at(CONFIGMAPS, "settings").delete(&json!({})).ok();
    namespace.all(CONFIGMAPS).create(&incident::settings("v2", "true")).ok();
    thread::sleep(AGED);
    let old = node::name(&node::pods(&namespace, "web")[0]).to_owned();
    let (_, said) = node::replace(&namespace, "web", &old);
    assert_eq!(said.settings(), settings("v1", "true"), "the kubelet serves the deleted object");
    let report = judged(&namespace, "web", 1);
    node::honest(&report, &[settings("v1", "true"), said.settings()], &settings("v2", "true"));
    assert_eq!(report["verdict"], "recreated", "{report:#}");
    assert!(!evidence(&report).contains("or late"), "a Pod that started before is no doubt: {report:#}");
}
