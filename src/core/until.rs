//! What `observe --until` waits for. Each word is defined here once: the help repeats it for a person.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::core::evidence::CLOCK_MARGIN;
use crate::core::field;
use crate::core::history::History;
use crate::core::judged::PodState;
use crate::core::object::Object;
use crate::core::observation;
use crate::core::rollout::{self, Progress};

/// For so long no Pod may have changed.
pub const STEADY: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// `kubectl rollout status` would say that it is rolled out.
    Complete,
    /// The wanted revision has Pods of which one is not ready, while a Pod of another one is.
    Incomplete,
    /// Complete, and no Pod changed for [`STEADY`].
    Stable,
    /// The last rollout came to its end, and fewer Pods are ready than wanted.
    Degraded,
    /// That Pod is gone, and a younger one of the workload is there, ready or not.
    PodReplaced(String),
    /// A value at that place of the document is this, as text.
    Field { field: String, value: String },
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Until::Complete => f.write_str("complete"),
            Until::Incomplete => f.write_str("incomplete"),
            Until::Stable => f.write_str("stable"),
            Until::Degraded => f.write_str("degraded"),
            Until::PodReplaced(uid) => write!(f, "pod-replaced={uid}"),
            Until::Field { field, value } => write!(f, "{field}={value}"),
        }
    }
}

impl Until {
    /// # Errors
    /// In words, for the command line.
    pub fn parse(text: &str) -> Result<Until, String> {
        match text.split_once('=') {
            Some(("pod-replaced", uid)) if !uid.is_empty() => Ok(Until::PodReplaced(uid.to_string())),
            Some(("pod-replaced" | "", _)) => Err("write pod-replaced=UID, or FIELD=VALUE".into()),
            Some((field, value)) => Ok(Until::Field { field: field.to_string(), value: value.to_string() }),
            None => [Until::Complete, Until::Incomplete, Until::Stable, Until::Degraded]
                .into_iter()
                .find(|until| until.to_string() == text)
                .ok_or_else(|| "write complete, incomplete, stable, degraded, pod-replaced=UID or FIELD=VALUE".into()),
        }
    }
}

/// The document's word on what was waited for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// All of its parts.
    pub met: bool,
    pub parts: Vec<Part>,
    /// Pods that are not ready, and why; empty where it is met.
    pub look_at: Vec<LookAt>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Part {
    pub until: String,
    pub met: bool,
    pub because: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LookAt {
    pub pod: String,
    pub because: String,
}

/// What conditions are asked of: one look at the workload.
pub struct Look<'a> {
    pub workload: &'a Object,
    pub sets: &'a [Object],
    pub history: &'a History,
    pub pods: &'a [Object],
    /// How long no Pod of the workload has changed, as far as this run has seen.
    pub steady: Duration,
    pub memory: &'a Memory,
}

/// What a run remembers of Pods that are gone.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Uids and numbers of the workload's Pods at the last look.
    last: BTreeSet<(String, String)>,
    /// By uid: the Pods that were seen while it was not yet on its way out.
    beside: BTreeMap<String, BTreeSet<String>>,
    /// By uid: when it was asked to go, or the kubelet ended it by its Event; and its ReplicaSet's name.
    ended: BTreeMap<String, (Timestamp, String)>,
}

impl Memory {
    /// Takes in one look. Did any Pod change since the one before?
    pub fn look(&mut self, workload: &Object, sets: &[Object], pods: &[Object]) -> bool {
        let ours = observation::owned(workload, sets, pods);
        let version = |pod: &Object| (pod.uid().to_string(), pod.str_at("/metadata/resourceVersion").to_string());
        let now: BTreeSet<(String, String)> = ours.iter().map(|(pod, _)| version(pod)).collect();
        let uids: BTreeSet<String> = now.iter().map(|(uid, _)| uid.clone()).collect();
        for (pod, set) in ours {
            if !pod.terminating() {
                self.beside.entry(pod.uid().to_string()).or_default().extend(uids.iter().cloned());
                continue;
            }
            // From here on a substitute may be among the others. The stamp is when it shall be gone.
            let grace = SignedDuration::from_secs(pod.int_at("/metadata/deletionGracePeriodSeconds").unwrap_or(0));
            let asked = pod.time_at("/metadata/deletionTimestamp").and_then(|at| at.checked_sub(grace).ok());
            if let Some(asked) = asked {
                self.ended.entry(pod.uid().to_string()).or_insert((asked, set.name().to_string()));
            }
        }
        let changed = now != self.last;
        self.last = now;
        changed
    }

    /// Takes in what Events tell of Pods that went before this run: the first that tells of their end. A container that
    /// is only started anew is killed with other words.
    pub fn events(&mut self, events: &[Object]) {
        let ends = |event: &&Object| {
            event.str_at("/reason") == "Killing" && event.str_at("/message").starts_with("Stopping container ")
        };
        for event in events.iter().filter(ends) {
            let at = event.time_at("/firstTimestamp").or_else(|| event.time_at("/eventTime")).or(event.created());
            let set = event.str_at("/involvedObject/name").rsplit_once('-').map(|(set, _)| set.to_string());
            if let (Some(at), Some(set)) = (at, set) {
                let first = self.ended.entry(event.str_at("/involvedObject/uid").to_string()).or_insert((at, set));
                first.0 = first.0.min(at);
            }
        }
    }
}

/// Whether a condition holds, and why. `None`: it is asked of the whole document, see [`in_document`].
pub fn holds(until: &Until, look: &Look<'_>) -> Option<(bool, String)> {
    let complete = || {
        let generation = look.workload.int_at("/metadata/generation").unwrap_or(0);
        match rollout::deployment(look.workload, generation, None, &[]) {
            Progress::Done(line) => (true, line),
            Progress::Waiting(line) | Progress::Failed(line) => (false, line),
        }
    };
    match until {
        Until::Complete => Some(complete()),
        Until::Incomplete => Some(incomplete(look)),
        Until::Stable => Some(match complete() {
            (true, line) if look.steady >= STEADY => (true, format!("{line}; no Pod changed for {STEADY:?}")),
            (true, line) => (false, format!("{line}; it must stay so, and no Pod change, for {STEADY:?}")),
            not => not,
        }),
        Until::Degraded => Some(degraded(look)),
        Until::PodReplaced(uid) => Some(replaced(look, uid)),
        Until::Field { .. } => None,
    }
}

/// A condition on the document itself, which it is given before its own `condition` is in it.
pub fn in_document(field: &str, value: &str, document: &Value) -> (bool, String) {
    let found = field::at(document, field);
    let texts: BTreeSet<String> = found.iter().map(|value| field::text(value)).collect();
    if texts.contains(value) {
        return (true, format!("{field} is {value}"));
    }
    match texts.len() {
        0 => (false, format!("the document has no {field}")),
        _ => (false, format!("{field} is {}", texts.into_iter().collect::<Vec<_>>().join(", "))),
    }
}

/// Is the Deployment's spec observed, and does the live template belong to a revision?
fn settled_spec(look: &Look<'_>) -> Result<(), String> {
    let number = |pointer: &str| look.workload.int_at(pointer).unwrap_or(0);
    if number("/status/observedGeneration") < number("/metadata/generation") {
        return Err("the Deployment's last change is not observed yet".into());
    }
    if look.history.pending || look.history.current().is_none() {
        return Err("the live template belongs to no revision yet".into());
    }
    Ok(())
}

/// Ready and all Pods that are not on their way out, of the wanted revision and of others.
fn counts(look: &Look<'_>) -> [(usize, usize); 2] {
    let current = look.history.current().map_or("", |r| r.object.uid());
    let mut counts = [(0, 0); 2];
    for (pod, set) in observation::owned(look.workload, look.sets, look.pods) {
        let state = PodState::of(pod);
        // What has ended (evicted) stays in the list and is no Pod that anybody waits for.
        if state.terminating || ["Succeeded", "Failed"].contains(&pod.str_at("/status/phase")) {
            continue;
        }
        let (ready, all) = &mut counts[usize::from(set.uid() != current)];
        *ready += usize::from(state.ready);
        *all += 1;
    }
    counts
}

fn incomplete(look: &Look<'_>) -> (bool, String) {
    if let Err(why) = settled_spec(look) {
        return (false, why);
    }
    let [(new_ready, new), (old_ready, _)] = counts(look);
    let says = format!("{new_ready} of {new} Pods of the wanted revision are ready, {old_ready} of others");
    (new > new_ready && old_ready > 0, says)
}

fn degraded(look: &Look<'_>) -> (bool, String) {
    if let Err(why) = settled_spec(look) {
        return (false, why);
    }
    // The controller keeps this reason until the next rollout, whatever becomes of the Pods. Without a progress deadline
    // there is no such condition.
    let reason = rollout::progressing(look.workload).and_then(|c| c.get("reason")).and_then(Value::as_str);
    let [(ready, _), (_, others)] = counts(look);
    if others > 0 || !matches!(reason, None | Some("NewReplicaSetAvailable")) {
        return (false, "the rollout has not come to its end".into());
    }
    let wanted = look.workload.int_at("/spec/replicas").unwrap_or(1);
    let few = i64::try_from(ready).is_ok_and(|ready| ready < wanted);
    (few, format!("{ready} of {wanted} Pods are ready, and nothing is being rolled out"))
}

fn replaced(look: &Look<'_>, uid: &str) -> (bool, String) {
    let ours = observation::owned(look.workload, look.sets, look.pods);
    if let Some((pod, _)) = ours.iter().find(|(pod, _)| pod.uid() == uid) {
        let going = if pod.terminating() { ", on its way out" } else { "" };
        return (false, format!("pod/{} is still there{going}", pod.name()));
    }
    let beside = look.memory.beside.get(uid);
    let is_set = |name: &str| ours.iter().any(|(_, set)| set.name() == name);
    let ended = look.memory.ended.get(uid).filter(|(_, set)| is_set(set)).map(|(at, _)| *at);
    if beside.is_none() && ended.is_none() {
        return (
            false,
            format!("no Pod of the workload with uid {uid} was seen in this run, and no Event tells of its end"),
        );
    }
    // What was there beside it is no substitute. A ReplicaSet makes that as soon as the deletion has begun, which may be a
    // moment before the Event.
    let younger = |pod: &Object| match (beside, ended) {
        (Some(beside), _) => !beside.contains(pod.uid()),
        (None, Some(at)) => pod.created().is_some_and(|created| at.duration_since(created) <= CLOCK_MARGIN),
        (None, None) => false,
    };
    let mut substitutes: Vec<&str> =
        ours.iter().filter(|(pod, _)| !pod.terminating() && younger(pod)).map(|(pod, _)| pod.name()).collect();
    substitutes.sort_unstable();
    match substitutes.first() {
        Some(pod) => (true, format!("it is gone, and pod/{pod} is there")),
        None => (false, "it is gone, and no substitute is there yet".into()),
    }
}

/// Pods that are not ready, with the reasons that their containers give.
pub fn look_at(look: &Look<'_>) -> Vec<LookAt> {
    let mut found = Vec::new();
    for (pod, _) in observation::owned(look.workload, look.sets, look.pods) {
        let state = PodState::of(pod);
        if state.ready || state.terminating {
            continue;
        }
        let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
        let statuses = statuses.iter().flat_map(|field| pod.items_at(field));
        let reasons: Vec<String> = statuses
            .filter_map(|status| {
                let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).filter(|t| !t.is_empty());
                let why = text("/state/waiting/reason").or_else(|| {
                    let running = status.pointer("/state/running").is_some_and(|r| !r.is_null());
                    let ready = status.get("ready").and_then(Value::as_bool).unwrap_or(false);
                    (running && !ready).then_some("running, not ready")
                })?;
                Some(format!("container {}: {why}", text("/name").unwrap_or("")))
            })
            .collect();
        let because = match reasons.as_slice() {
            [] if pod.str_at("/spec/nodeName").is_empty() => "not scheduled".to_string(),
            [] => "not ready".to_string(),
            reasons => reasons.join(", "),
        };
        found.push(LookAt { pod: pod.name().to_string(), because });
    }
    found.sort_by(|a, b| a.pod.cmp(&b.pod));
    found
}
