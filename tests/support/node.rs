//! The real node that `tests/node/with` starts: real containers, whose word is the truth about what they read. As with
//! the control planes, a test that cannot reach it fails.

use super::client::{CONFIGMAPS, DEPLOYMENTS, EVENTS, PODS};
use super::control_plane::{ControlPlane, Namespace, items, wait};
use super::incident;
use saferollback::core::digest::Content;
use saferollback::core::object::Object;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

pub type Texts = BTreeMap<String, String>;

/// The node's own control plane. Its API is the same, but nobody plays here.
pub struct Node;

impl Node {
    pub fn open() -> ControlPlane {
        let Some(directory) = std::env::var_os("SAFEROLLBACK_TEST_NODE") else {
            panic!(
                "SAFEROLLBACK_TEST_NODE is not set: this test needs a real node; run it with tests/run, or alone with \
                 tests/node/with cargo test --test main node::"
            );
        };
        ControlPlane::open(Path::new(&directory))
    }

    pub fn namespace(prefix: &str) -> Namespace {
        Self::open().namespace(prefix)
    }
}

/// Where the program serves that is told no port.
pub const PORT: u16 = 8080;

/// A container that runs the program of `tests/node/app`.
pub fn container(name: &str, arguments: &[&str]) -> Value {
    json!({
        "name": name,
        "image": "registry.invalid/saferollback/app:1",
        "imagePullPolicy": "Never",
        "args": arguments,
        "securityContext": {
            "allowPrivilegeEscalation": false, "runAsNonRoot": true, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    })
}

/// The incident's Deployment, running the program of `tests/node/app`.
pub fn web(replicas: u64) -> Value {
    real(incident::web(replicas))
}

/// A workload of the incident with a container that runs that program.
pub fn real(mut workload: Value) -> Value {
    let spec = &mut workload["spec"]["template"]["spec"];
    let mut app = container("app", &[]);
    app["envFrom"] = spec["containers"][0]["envFrom"].take();
    app["readinessProbe"] = json!({"httpGet": {"path": "/ready", "port": PORT}, "periodSeconds": 1});
    spec["containers"][0] = app;
    spec["terminationGracePeriodSeconds"] = json!(1);
    workload
}

/// What one container says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Said {
    #[serde(skip)]
    pub status: u16,
    /// The environment of the process.
    pub env: Texts,
    pub files_at_start: Texts,
    pub files: Texts,
    /// What the Pod's init containers left for it, by the names they were told.
    pub init: BTreeMap<String, SaidInit>,
}

/// What an init container read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SaidInit {
    pub env: Texts,
    pub files_at_start: Texts,
}

impl Said {
    /// What the environment holds of the ConfigMap `settings`.
    pub fn settings(&self) -> Texts {
        let own = self.env.iter().filter(|(key, _)| matches!(key.as_str(), "CONFIG_REVISION" | "HEALTHY"));
        own.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// The data of the incident's `settings`.
pub fn settings(revision: &str, healthy: &str) -> Texts {
    serde_json::from_value(incident::settings(revision, healthy)["data"].clone()).expect("data is texts")
}

/// The answer of the container of a Pod that serves on this port, through the API server's proxy, whatever its status:
/// a Pod that is not ready says 503, and that is an answer. `None` while nobody answers.
pub fn pod_answer(namespace: &Namespace, pod: &str, port: u16, path: &str) -> Option<Said> {
    let answer = namespace.at(PODS, &format!("{pod}:{port}")).sub(&format!("proxy{path}")).get();
    // The API server's own failures have the shape of a Status, and no environment.
    let said: Said = serde_json::from_value(answer.body).ok()?;
    Some(Said { status: answer.status, ..said })
}

/// What the container says that serves on [`PORT`].
#[track_caller]
pub fn said(namespace: &Namespace, pod: &str) -> Said {
    said_at(namespace, pod, PORT)
}

#[track_caller]
pub fn said_at(namespace: &Namespace, pod: &str, port: u16) -> Said {
    wait("the Pod's answer", || pod_answer(namespace, pod, port, "/"))
}

/// Ends the process of the Pod's container, and waits until its next one answers.
#[track_caller]
pub fn crash(namespace: &Namespace, pod: &str) -> Said {
    crash_at(namespace, pod, "app", PORT)
}

/// The same for one container of several. Their statuses stand in the order of their names, not the template's.
#[track_caller]
pub fn crash_at(namespace: &Namespace, pod: &str, container: &str, port: u16) -> Said {
    let status = || {
        let pod = namespace.at(PODS, pod).get().ok();
        let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        statuses.into_iter().find(|status| status["name"] == container).unwrap_or_default()
    };
    let before = status()["restartCount"].as_u64();
    // The connection breaks with the process.
    namespace.at(PODS, &format!("{pod}:{port}")).sub("proxy/crash").get();
    wait("the container's restart", || {
        let now = status();
        (now["restartCount"].as_u64() > before && now["state"]["running"].is_object()).then_some(())
    });
    said_at(namespace, pod, port)
}

pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The Pods of a Deployment of this label that are not on their way out, oldest first.
pub fn pods(namespace: &Namespace, app: &str) -> Vec<Value> {
    let mut pods = namespace.items(PODS);
    pods.retain(|pod| pod["metadata"]["labels"]["app"] == app && pod["metadata"]["deletionTimestamp"].is_null());
    pods.sort_by_key(|pod| (pod["metadata"]["creationTimestamp"].to_string(), name(pod).to_owned()));
    pods
}

/// What all Pods of the Deployment say, by their names.
#[track_caller]
pub fn all_said(namespace: &Namespace, app: &str) -> BTreeMap<String, Said> {
    pods(namespace, app).iter().map(|pod| (name(pod).to_owned(), said(namespace, name(pod)))).collect()
}

/// Waits for a Pod beside the known ones, and for its first word.
#[track_caller]
pub fn newcomer(namespace: &Namespace, app: &str, known: &[Value]) -> (String, Said) {
    let new = wait("a new Pod", || {
        let old = |pod: &Value| known.iter().any(|k| k["metadata"]["uid"] == pod["metadata"]["uid"]);
        pods(namespace, app).into_iter().find(|pod| !old(pod))
    });
    let said = said(namespace, name(&new));
    (name(&new).to_owned(), said)
}

/// Deletes a Pod and listens to its substitute: the question behind every verdict, put to a container.
#[track_caller]
pub fn replace(namespace: &Namespace, app: &str, pod: &str) -> (String, Said) {
    let known = pods(namespace, app);
    namespace.at(PODS, pod).delete(&json!({})).ok();
    newcomer(namespace, app, &known)
}

/// Whether all its containers are.
pub fn ready(namespace: &Namespace, pod: &str) -> bool {
    let pod = namespace.at(PODS, pod).get().ok();
    let statuses = pod["status"]["containerStatuses"].as_array();
    statuses.is_some_and(|all| !all.is_empty() && all.iter().all(|status| status["ready"] == true))
}

/// The Events of a Pod, once the kubelet's last one of its start is there: it writes them in order, and on a busy machine
/// long after the Pod is ready.
#[track_caller]
pub fn events_of_start(namespace: &Namespace, pod: &Value) -> Vec<Value> {
    let selector = format!("involvedObject.uid={}", pod["metadata"]["uid"].as_str().unwrap_or_default());
    wait("the Event Started", || {
        let events = items(namespace.all(EVENTS).query("fieldSelector", &selector).get().ok());
        events.iter().any(|event| event["reason"] == "Started").then_some(events)
    })
}

#[track_caller]
pub fn deploy(namespace: &Namespace, deployment: &Value) {
    namespace.all(DEPLOYMENTS).create(deployment).ok();
    incident::rolled_out(namespace, name(deployment));
}

/// The digest of the content that consists of these keys and values, as the product's reports carry it.
pub fn digest(texts: &Texts) -> String {
    let object = Object(json!({"kind": "ConfigMap", "data": texts}));
    Content::from_object(&object).expect("texts are a content").digest().to_string()
}

/// Today's data of a ConfigMap.
pub fn data(namespace: &Namespace, config_map: &str) -> Texts {
    let object = namespace.at(CONFIGMAPS, config_map).get().ok();
    serde_json::from_value(object["data"].clone()).expect("data is texts")
}

/// Holds a reference of a report against what the revision's containers said they had read: the same keys as the
/// ConfigMap's, for each container. Fails where the report claims what is not so; silence is always honest.
#[track_caller]
pub fn honest(reference: &Value, read: &[Texts], live: &Texts) {
    let verdict = reference["verdict"].as_str().unwrap_or_default();
    if matches!(verdict, "same" | "likely-same") {
        assert!(read.iter().all(|one| one == live), "{verdict}, but they read {read:?}, not {live:?}: {reference:#}");
    }
    if verdict == "changed" {
        assert!(read.iter().any(|one| one != live), "changed, but they read {read:?}: {reference:#}");
    }
    if verdict == "mixed" {
        assert!(read.iter().any(|one| *one != read[0]), "mixed, but they all read {read:?}: {reference:#}");
    }
    if let Some(claimed) = reference["digest"]["read"].as_str() {
        assert!(
            read.iter().all(|one| digest(one) == claimed),
            "it claims {claimed}, they read {read:?}: {reference:#}"
        );
    }
    for candidate in reference["candidates"].as_array().into_iter().flatten() {
        let right = read.iter().all(|one| candidate["digest"] == digest(one));
        assert!(candidate["grade"] == "none" || right, "{candidate} is no content that {read:?} read: {reference:#}");
    }
}
