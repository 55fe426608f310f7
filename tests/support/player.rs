//! Plays the node for a whole namespace, so that rollouts go on while a command under test waits for them.

use super::client::{PODS, Resource};
use super::control_plane::Namespace;
use super::kubelet::{Health, Kubelet, Play, Step};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(20);

impl Kubelet<'_> {
    /// One look at every Pod: moves each towards what `policy` says; `None` leaves a Pod as it is.
    pub fn play(&self, policy: &impl Fn(&Value) -> Option<Play>) {
        for pod in self.namespace.items(PODS) {
            let Some(play) = policy(&pod) else { continue };
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let statuses = pod["status"]["containerStatuses"].as_array();
            let ready = statuses.is_some_and(|list| list.iter().all(|status| status["ready"] == true));
            let runs = statuses.is_some_and(|list| list.iter().all(|status| status["state"]["waiting"].is_null()));
            let step = if !pod["metadata"]["deletionTimestamp"].is_null() {
                self.finish(&pod)
            } else if statuses.is_none_or(Vec::is_empty) || (!runs && !waits(statuses, &play)) {
                self.start(name, &play)
            } else if runs && ready != (play.health == Health::Ready) && !matches!(play.health, Health::Waiting { .. })
            {
                self.set_ready(name, play.health == Health::Ready)
            } else {
                continue;
            };
            tolerate(step);
        }
    }

    /// Plays until `done` says so.
    #[track_caller]
    pub fn play_until(&self, policy: impl Fn(&Value) -> Option<Play>, mut done: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !done() {
            assert!(Instant::now() < end, "60 s passed and the rollout is not where the test expects it");
            self.play(&policy);
            thread::sleep(PAUSE);
        }
    }

    /// Plays every Pod ready until the workload's controller has nothing left to do.
    #[track_caller]
    pub fn settle(&self, resource: Resource, name: &str) -> Value {
        let mut last = Value::Null;
        self.play_until(
            |_| Some(Play::ready()),
            || {
                last = self.namespace.at(resource, name).get().ok();
                content(&last)
            },
        );
        last
    }
}

/// Whether this wait is the one asked for already.
fn waits(statuses: Option<&Vec<Value>>, play: &Play) -> bool {
    let asked = match play.health {
        Health::Waiting { reason, .. } => reason,
        // A test made it crash: starting it again is that test's to say.
        _ => "CrashLoopBackOff",
    };
    statuses.into_iter().flatten().any(|status| status["state"]["waiting"]["reason"] == asked)
}

/// Deployments, StatefulSets and DaemonSets spell the same thing differently.
fn content(workload: &Value) -> bool {
    let status = &workload["status"];
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let want = workload["spec"].get("replicas").map_or_else(|| number(&status["desiredNumberScheduled"]), number);
    let counts = |names: &[&str]| names.iter().all(|name| number(&status[*name]) == want);
    status["observedGeneration"] == workload["metadata"]["generation"]
        && match workload["kind"].as_str() {
            Some("Deployment") => counts(&["replicas", "updatedReplicas", "availableReplicas"]),
            Some("StatefulSet") => {
                counts(&["replicas", "readyReplicas"]) && status["currentRevision"] == status["updateRevision"]
            }
            _ => want > 0 && counts(&["currentNumberScheduled", "updatedNumberScheduled", "numberAvailable"]),
        }
}

/// A Pod may go or change between two steps; anything else is a fault of the harness.
fn tolerate(step: Step) {
    if let Err(answer) = step {
        assert!(matches!(answer.status, 404 | 409), "the played node met {answer:?}");
    }
}

/// A node that plays in the background until it is dropped.
pub struct Player {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Player {
    pub fn run(namespace: &Namespace, policy: impl Fn(&Value) -> Option<Play> + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let namespace = Namespace { plane: namespace.plane.reconnect(), name: namespace.name.clone() };
        let thread = thread::spawn(move || {
            let kubelet = Kubelet { namespace: &namespace };
            while !stopped.load(Ordering::Relaxed) {
                kubelet.play(&policy);
                thread::sleep(PAUSE);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        // A player that gave up would leave the test waiting without a word.
        if matches!(ended, Some(Err(_))) && !thread::panicking() {
            panic!("the played node failed; its message is above");
        }
    }
}
