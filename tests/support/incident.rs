//! The incident this product exists for: a ConfigMap edited in place under a Deployment, a release that changes one
//! annotation, and a rollback that would only look successful.

use super::client::{CONFIGMAPS, DEPLOYMENTS, PODS};
use super::control_plane::{Namespace, wait};
use super::kubelet::Play;
use super::player::Player;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

/// Longer than the age check's ten seconds.
pub const AGED: Duration = Duration::from_secs(12);

pub fn settings(revision: &str, healthy: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"CONFIG_REVISION": revision, "HEALTHY": healthy},
    })
}

pub fn web(replicas: u64) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": {"team": "shop"}},
        "spec": {
            "replicas": replicas,
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"release": "one"}},
                "spec": {"containers": [{
                    "name": "app",
                    "image": "registry.example/web:1.4",
                    "envFrom": [{"configMapRef": {"name": "settings"}}],
                }]},
            },
        },
    })
}

/// Another team's workload on the same ConfigMap.
pub fn worker() -> Value {
    let mut worker = web(1);
    worker["metadata"] = json!({"name": "worker"});
    worker["spec"]["selector"] = json!({"matchLabels": {"app": "worker"}});
    worker["spec"]["template"]["metadata"] = json!({"labels": {"app": "worker"}});
    worker["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/worker:7");
    worker
}

/// A node whose containers become ready when the configuration they *read at their start* says so.
pub fn honest(namespace: &Namespace) -> impl Fn(&Value) -> Option<Play> + Send + use<> {
    let namespace = namespace.clone();
    let read: Mutex<HashMap<String, Play>> = Mutex::new(HashMap::new());
    move |pod| {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_string();
        let mut read = read.lock().expect("one thread");
        let play = read.entry(uid).or_insert_with(|| {
            let name = pod["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"].as_str().unwrap_or_default();
            let answer = namespace.at(CONFIGMAPS, name).get();
            if answer.body["data"]["HEALTHY"] == "true" { Play::ready() } else { Play::not_ready() }
        });
        Some(play.clone())
    }
}

/// Revision 1 runs with good settings on 2 Pods.
pub fn start(namespace: &Namespace, age: Duration) -> Player {
    namespace.all(CONFIGMAPS).query("fieldManager", "kubectl-client-side-apply").create(&settings("v1", "true")).ok();
    std::thread::sleep(age);
    namespace.all(DEPLOYMENTS).create(&web(2)).ok();
    let player = Player::run(namespace, honest(namespace));
    rolled_out(namespace, "web");
    player
}

/// The edit in place, and the release that trips over it.
pub fn trap(namespace: &Namespace) {
    edit(namespace, &json!({"CONFIG_REVISION": "v2", "HEALTHY": "false"}));
    release(namespace, "two");
    wait("the release's Pod, not ready", || {
        let pods = namespace.items(PODS);
        pods.iter()
            .any(|p| {
                p["metadata"]["annotations"]["release"] == "two"
                    && p["status"]["containerStatuses"][0]["state"]["running"].is_object()
            })
            .then_some(())
    });
}

pub fn edit(namespace: &Namespace, data: &Value) -> Value {
    let call = namespace.at(CONFIGMAPS, "settings").query("fieldManager", "kubectl-edit");
    call.merge_patch(&json!({"data": data})).ok()
}

pub fn release(namespace: &Namespace, name: &str) -> Value {
    let template = json!({"metadata": {"annotations": {"release": name}}});
    namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"spec": {"template": template}})).ok()
}

/// Waits until the controller has nothing left to do; a [`Player`] must run.
pub fn rolled_out(namespace: &Namespace, name: &str) {
    wait("the rollout", || {
        let live = namespace.at(DEPLOYMENTS, name).get().ok();
        let status = &live["status"];
        let all = |field: &str| status[field] == live["spec"]["replicas"];
        (status["observedGeneration"] == live["metadata"]["generation"]
            && ["replicas", "updatedReplicas", "availableReplicas"].into_iter().all(all))
        .then_some(())
    });
}
