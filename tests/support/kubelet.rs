//! Plays scheduler and kubelet where no node runs: binds Pods, writes their status and the Events the real ones
//! write, in the same order and shape. The product's proofs rest on those shapes, so a wrong one here would prove
//! nothing; `control_plane/harness.rs` checks them, and the tests on a real node check the real ones.

use super::client::{Answer, EVENTS, EVENTS_V1, PODS};
use super::control_plane::{Namespace, items};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// How far a Pod's containers get.
#[derive(Clone, Debug, PartialEq)]
pub enum Health {
    Ready,
    /// Started, but the readiness probe fails.
    NotReady,
    /// Never started, as with `CreateContainerConfigError` or `ImagePullBackOff`.
    Waiting {
        reason: &'static str,
        message: &'static str,
    },
}

/// How one Pod is played.
#[derive(Clone, Debug)]
pub struct Play {
    pub health: Health,
    /// The node, unless the Pod itself names one (a DaemonSet's do).
    pub node: &'static str,
    /// How far the node's clock is ahead of the API server's; `None` leaves `startedAt` out.
    pub clock: Option<SignedDuration>,
    /// Without Events the Pod looks like one whose Events have expired.
    pub events: bool,
}

impl Play {
    pub fn new(health: Health) -> Self {
        Self { health, node: "node-a", clock: Some(SignedDuration::ZERO), events: true }
    }

    pub fn ready() -> Self {
        Self::new(Health::Ready)
    }

    pub fn not_ready() -> Self {
        Self::new(Health::NotReady)
    }
}

/// The played node's side of one namespace.
pub struct Kubelet<'a> {
    pub namespace: &'a Namespace,
}

/// A step on one Pod. It fails when the Pod went or moved meanwhile, as it may while a rollout runs.
pub type Step = Result<Value, Answer>;

impl Kubelet<'_> {
    /// Takes one Pod from its creation to the health asked for.
    pub fn start(&self, name: &str, play: &Play) -> Step {
        let mut pod = self.namespace.at(PODS, name).get().result()?;
        if pod["spec"]["nodeName"].is_null() {
            pod = self.bind(&pod, play)?;
        }
        // The version held before any act: this is what the Events point at.
        let held = pod;
        self.prepare(&held)?;
        if play.events {
            for (container, path) in containers(&held) {
                self.pulled(&held, container, &path)?;
                if let Health::Waiting { message, .. } = play.health {
                    self.event(&held, &path, "Failed", &format!("Error: {message}"))?;
                    break;
                }
                self.event(&held, &path, "Created", "Container created")?;
                self.event(&held, &path, "Started", "Container started")?;
            }
        }
        self.report(&held, play, play.clock.map(|ahead| Timestamp::now() + ahead))
    }

    /// The status before any container was made.
    pub fn prepare(&self, held: &Value) -> Step {
        self.write(held, "Pending", |container, _| waiting(container, "ContainerCreating", ""), held)
    }

    fn pulled(&self, held: &Value, container: &Value, path: &str) -> Step {
        self.event(held, path, "Pulled", &format!("Container image {} already present on machine", container["image"]))
    }

    /// The status of a Pod whose containers started at that time of the node's clock, or wait.
    pub fn report(&self, held: &Value, play: &Play, started: Option<Timestamp>) -> Step {
        let phase = if matches!(play.health, Health::Waiting { .. }) { "Pending" } else { "Running" };
        let status = |container: &Value, init: bool| match play.health {
            Health::Waiting { reason, message } => waiting(container, reason, message),
            _ if init && container["restartPolicy"] != "Always" => completed(container, started),
            Health::NotReady if !init => running(container, started, false, 0),
            _ => running(container, started, true, 0),
        };
        self.write(held, phase, status, held)
    }

    /// What the scheduler does: the binding, then its Event, which is an events.k8s.io one and has no count. The bound
    /// Pod.
    pub fn bind(&self, pod: &Value, play: &Play) -> Step {
        let name = text(&pod["metadata"]["name"]);
        let own = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
        let node = pod.pointer(own).and_then(Value::as_str).unwrap_or(play.node);
        let binding = json!({"metadata": {"name": name, "uid": pod["metadata"]["uid"]}, "target": {"kind": "Node", "name": node}});
        self.namespace.at(PODS, name).sub("binding").create(&binding).result()?;
        if play.events {
            let space = &self.namespace.name;
            let event = json!({
                "metadata": {"name": event_name(name)},
                "eventTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
                "reportingController": "default-scheduler", "reportingInstance": "default-scheduler-tests",
                "action": "Binding", "reason": "Scheduled", "type": "Normal",
                "regarding": regarding(pod, None),
                "note": format!("Successfully assigned {space}/{name} to {node}"),
            });
            self.namespace.all(EVENTS_V1).create(&event).result()?;
        }
        self.namespace.at(PODS, name).get().result()
    }

    /// An Event as the kubelet writes it. A repeat raises the count of the first one, which keeps the Pod version
    /// it was written with.
    pub fn event(&self, pod: &Value, field_path: &str, reason: &str, message: &str) -> Step {
        let now = stamp(Timestamp::now());
        let selector = format!("involvedObject.uid={},reason={reason}", text(&pod["metadata"]["uid"]));
        let known = items(self.namespace.all(EVENTS).query("fieldSelector", &selector).get().result()?);
        let first = known
            .iter()
            .find(|event| event["involvedObject"]["fieldPath"] == field_path && event["message"] == message);
        if let Some(first) = first {
            let count = first["count"].as_u64().unwrap_or(1) + 1;
            let first = self.namespace.at(EVENTS, text(&first["metadata"]["name"]));
            return first.merge_patch(&json!({"count": count, "lastTimestamp": now})).result();
        }
        self.new_event(pod, field_path, reason, message)
    }

    /// An Event that is known to be the first of its kind.
    pub fn new_event(&self, pod: &Value, field_path: &str, reason: &str, message: &str) -> Step {
        let now = stamp(Timestamp::now());
        let name = text(&pod["metadata"]["name"]);
        let kind =
            if matches!(reason, "Failed" | "FailedMount" | "BackOff" | "Unhealthy") { "Warning" } else { "Normal" };
        let event = json!({
            "metadata": {"name": event_name(name)},
            "involvedObject": regarding(pod, Some(field_path)),
            "reason": reason, "message": message, "type": kind, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": "kubelet", "host": pod["spec"]["nodeName"]},
            "reportingComponent": "kubelet", "reportingInstance": pod["spec"]["nodeName"],
        });
        self.namespace.all(EVENTS).create(&event).result()
    }

    /// The container ends and starts again in place: it reads its environment anew.
    pub fn restart(&self, name: &str, container: &str, play: &Play) -> Step {
        let pod = self.namespace.at(PODS, name).get().result()?;
        if play.events {
            for (one, path) in containers(&pod) {
                if one["name"] == container {
                    self.pulled(&pod, one, &path)?;
                    self.event(&pod, &path, "Created", "Container created")?;
                    self.event(&pod, &path, "Started", "Container started")?;
                }
            }
        }
        let started = play.clock.map(|ahead| Timestamp::now() + ahead);
        self.change(&pod, container, |spec, restarts| {
            running(spec, started, play.health == Health::Ready, restarts + 1)
        })
    }

    /// The container crashes and is not started again yet.
    pub fn crash(&self, name: &str, container: &str) -> Step {
        let pod = self.namespace.at(PODS, name).get().result()?;
        self.change(&pod, container, |spec, restarts| {
            let mut status = waiting(spec, "CrashLoopBackOff", "back-off restarting failed container");
            status["restartCount"] = json!(restarts + 1);
            status
        })
    }

    /// What the readiness probe says from now on.
    pub fn set_ready(&self, name: &str, ready: bool) -> Step {
        let pod = self.namespace.at(PODS, name).get().result()?;
        let kept = |container: &Value, init: bool| {
            let mut status =
                old_status(&pod, container, init).unwrap_or_else(|| waiting(container, "ContainerCreating", ""));
            if !init && status["state"]["running"].is_object() {
                status["ready"] = json!(ready);
            }
            status
        };
        self.write(&pod, "Running", kept, &pod)
    }

    /// The last act on a Pod that is being deleted.
    pub fn finish(&self, pod: &Value) -> Step {
        let uid = &pod["metadata"]["uid"];
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
        self.namespace.at(PODS, text(&pod["metadata"]["name"])).delete(&options).result()
    }

    /// Replaces one container's status and keeps the others'; the ended run becomes its last state.
    fn change(&self, pod: &Value, name: &str, new: impl Fn(&Value, u64) -> Value) -> Step {
        let status = |container: &Value, init: bool| {
            let old = old_status(pod, container, init).unwrap_or_else(|| waiting(container, "ContainerCreating", ""));
            if container["name"] != name {
                return old;
            }
            let mut status = new(container, old["restartCount"].as_u64().unwrap_or(0));
            let began = &old["state"]["running"]["startedAt"];
            status["lastState"] = json!({"terminated": {"exitCode": 1, "reason": "Error", "startedAt": began, "finishedAt": stamp(Timestamp::now())}});
            status
        };
        self.write(pod, "Running", status, pod)
    }

    /// Writes a whole status: `status` tells each container's, `before` the conditions whose times are kept.
    fn write(&self, pod: &Value, phase: &str, status: impl Fn(&Value, bool) -> Value, before: &Value) -> Step {
        let list = |field: &str, init: bool| -> Vec<Value> {
            pod["spec"][field].as_array().into_iter().flatten().map(|container| status(container, init)).collect()
        };
        let (init, main) = (list("initContainers", true), list("containers", false));
        let ready = main.iter().all(|status| status["ready"] == true);
        let initialised = init.iter().all(|status| status["state"]["waiting"].is_null());
        let condition = |kind: &str, holds: bool| {
            let holds = if holds { "True" } else { "False" };
            let old = before["status"]["conditions"].as_array().into_iter().flatten();
            let old = old.into_iter().find(|old| old["type"] == kind && old["status"] == holds);
            let since = old.map_or_else(|| json!(stamp(Timestamp::now())), |old| old["lastTransitionTime"].clone());
            let mut condition = json!({"type": kind, "status": holds, "lastTransitionTime": since, "observedGeneration": pod["metadata"]["generation"]});
            if holds == "False" {
                condition["reason"] = json!("ContainersNotReady");
            }
            condition
        };
        let hash = text(&pod["metadata"]["uid"])
            .bytes()
            .fold(7_u16, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let began = if before["status"]["startTime"].is_null() {
            json!(stamp(Timestamp::now()))
        } else {
            before["status"]["startTime"].clone()
        };
        let status = json!({"status": {
            "phase": phase, "observedGeneration": pod["metadata"]["generation"], "startTime": began, "hostIP": "127.0.0.1",
            "podIP": format!("10.88.{}.{}", hash >> 8, hash & 255),
            "conditions": [
                condition("PodReadyToStartContainers", phase == "Running"), condition("Initialized", initialised),
                condition("Ready", ready), condition("ContainersReady", ready), condition("PodScheduled", true),
            ],
            "initContainerStatuses": init, "containerStatuses": main,
        }});
        self.namespace.at(PODS, text(&pod["metadata"]["name"])).sub("status").merge_patch(&status).result()
    }
}

/// Every container in the order of its start, with the path by which Events name it.
pub fn containers(pod: &Value) -> Vec<(&Value, String)> {
    let of = |field: &'static str| {
        let list = pod["spec"][field].as_array().into_iter().flatten();
        list.map(move |container| (container, format!("spec.{field}{{{}}}", text(&container["name"]))))
    };
    of("initContainers").chain(of("containers")).collect()
}

fn old_status(pod: &Value, container: &Value, init: bool) -> Option<Value> {
    let field = if init { "initContainerStatuses" } else { "containerStatuses" };
    pod["status"][field].as_array()?.iter().find(|status| status["name"] == container["name"]).cloned()
}

fn waiting(container: &Value, reason: &str, message: &str) -> Value {
    let mut state = json!({"reason": reason});
    if !message.is_empty() {
        state["message"] = json!(message);
    }
    json!({"name": container["name"], "image": container["image"], "imageID": "", "ready": false, "started": false, "restartCount": 0, "state": {"waiting": state}})
}

fn running(container: &Value, started: Option<Timestamp>, ready: bool, restarts: u64) -> Value {
    let state = started.map_or_else(|| json!({"running": {}}), |at| json!({"running": {"startedAt": stamp(at)}}));
    json!({
        "name": container["name"], "image": container["image"], "imageID": image_id(container), "ready": ready, "started": true,
        "restartCount": restarts, "state": state, "containerID": format!("containerd://{:064x}", random()),
    })
}

fn completed(container: &Value, started: Option<Timestamp>) -> Value {
    let at = started.map(stamp);
    json!({
        "name": container["name"], "image": container["image"], "imageID": image_id(container), "ready": true, "started": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}},
    })
}

/// The same image gives the same id on every node.
fn image_id(container: &Value) -> String {
    let image = text(&container["image"]);
    let digest: String = Sha256::digest(image).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}@sha256:{digest}", image.rsplit_once(':').map_or(image, |(name, _)| name))
}

fn regarding(pod: &Value, field_path: Option<&str>) -> Value {
    let meta = &pod["metadata"];
    let mut reference = json!({
        "kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"],
        "apiVersion": "v1", "resourceVersion": meta["resourceVersion"],
    });
    if let Some(path) = field_path {
        reference["fieldPath"] = json!(path);
    }
    reference
}

fn event_name(pod: &str) -> String {
    format!("{pod}.{:016x}", random())
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Whole seconds, as the API writes times.
fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
