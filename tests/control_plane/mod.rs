//! Tests of the harness itself, and of the API facts the product rests on.

mod complete;
mod connection;
mod contents;
mod credentials;
mod evidence;
mod examples;
mod facts;
mod fields;
mod harness;
mod incident;
mod krew;
mod latency;
mod numbers;
mod observe;
mod odd;
mod owners;
mod prune;
mod rbac;
mod records;
mod replace;
mod rights;
mod secrets;
mod several;
mod status;
mod terminal;
mod traffic;
mod undo;
mod undo_facts;

use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, REPLICASETS};
use crate::support::control_plane::Namespace;
use crate::support::kubelet::Kubelet;
use serde_json::{Value, json};

/// A workload of any kind whose one container takes its environment from the ConfigMap `settings`.
fn workload(kind: &str, replicas: u64) -> Value {
    let mut workload = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"release": "one"}},
                "spec": {"containers": [{
                    "name": "app", "image": "registry.invalid/web:1",
                    "envFrom": [{"configMapRef": {"name": "settings"}}],
                }]},
            },
        },
    });
    if kind == "StatefulSet" {
        workload["spec"]["serviceName"] = json!("web");
    }
    if kind == "DaemonSet" {
        workload["spec"].as_object_mut().expect("a spec is an object").remove("replicas");
    }
    workload
}

fn release(name: &str) -> Value {
    json!({"spec": {"template": {"metadata": {"annotations": {"release": name}}}}})
}

fn settings(namespace: &Namespace) -> Value {
    let body = json!({"metadata": {"name": "settings"}, "data": {"a": "1", "b": "2"}});
    namespace.all(CONFIGMAPS).create(&body).ok()
}

/// A Deployment with two revisions, both rolled out; the first is retired.
fn two_revisions(namespace: &Namespace) {
    namespace.all(DEPLOYMENTS).create(&workload("Deployment", 1)).ok();
    let kubelet = Kubelet { namespace };
    kubelet.settle(DEPLOYMENTS, "web");
    namespace.at(DEPLOYMENTS, "web").merge_patch(&release("two")).ok();
    kubelet.settle(DEPLOYMENTS, "web");
}

/// The ReplicaSet whose template carries this release.
#[track_caller]
fn replica_set(namespace: &Namespace, release: &str) -> Value {
    let sets = namespace.items(REPLICASETS);
    let found = sets.iter().find(|set| set["spec"]["template"]["metadata"]["annotations"]["release"] == release);
    found.unwrap_or_else(|| panic!("no ReplicaSet has release {release}")).clone()
}
