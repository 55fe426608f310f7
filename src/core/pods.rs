//! A rollout as its Pods show it: which Pods are of which revision, and why one does not come up.
//!
//! What a Pod says of itself is not always there yet (a volume that cannot be mounted is told by Events alone) and not
//! always lasting (Pods are unschedulable for a moment in every tight rollout), so a trouble counts only once it has
//! held for a while: [`Held`].

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::core::history::{self, REVISION};
use crate::core::judged::PodState;
use crate::core::object::Object;
use crate::core::rollout::{self, Progress};

/// For so long a trouble must hold before the rollout has failed.
pub const HOLD: Duration = Duration::from_secs(10);

/// More of a message is in the report.
const MESSAGE: usize = 300;

/// What is known of a workload at one moment.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    pub workload: &'a Object,
    /// `None`: not read, so no Pod is of a known revision.
    pub replica_sets: Option<&'a [Object]>,
    pub pods: &'a [&'a Object],
    /// Warnings about Pods, oldest first, where they were asked for.
    pub events: &'a [&'a Object],
}

/// What keeps a Pod from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A ConfigMap, Secret or key that the container's environment needs.
    Config,
    Image,
    Crash,
    /// Anything else that a container waits for.
    Start,
    Schedule,
    Mount,
    /// The Pod itself is not created.
    Create,
}

/// One reason why a rollout does not end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub class: Class,
    /// `pod/web-1` or `replicaset/web`.
    pub object: String,
    pub revision: Option<u64>,
    pub container: Option<String>,
    /// Kubernetes' word.
    pub reason: String,
    /// Kubernetes' sentence.
    pub message: String,
    /// The object's own time, where it has one.
    pub since: Option<Timestamp>,
    /// Is it of the wanted revision? Others are told, and fail nothing.
    pub blocks: bool,
    /// What it comes to, without the object and the reason.
    what: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLine {
    pub name: String,
    pub uid: String,
    pub revision: Option<u64>,
    /// Of the wanted revision?
    pub current: bool,
    pub ready: bool,
    pub terminating: bool,
    pub restarts: i64,
    /// It does not start, and does not say why: Events may.
    pub mute: bool,
}

/// What became of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Done,
    Failed,
    /// A single look: it goes on.
    Waiting,
    TimedOut,
}

impl Ending {
    pub fn word(self) -> &'static str {
        match self {
            Ending::Done => "done",
            Ending::Failed => "failed",
            Ending::Waiting => "waiting",
            Ending::TimedOut => "timed-out",
        }
    }

    /// A rollout that goes on is no failure, as with `kubectl rollout status --watch=false`.
    pub fn exit_code(self) -> u8 {
        match self {
            Ending::Done | Ending::Waiting => 0,
            Ending::Failed | Ending::TimedOut => 4,
        }
    }
}

/// Where a rollout stands.
#[derive(Clone, Debug)]
pub struct Standing {
    pub name: String,
    pub progress: Progress,
    /// The wanted revision, if the controller has made its ReplicaSet.
    pub revision: Option<u64>,
    pub wanted: i64,
    /// Nothing rolls out.
    pub paused: bool,
    /// Of all revisions: the wanted one first, then by name.
    pub pods: Vec<PodLine>,
    pub troubles: Vec<Trouble>,
}

/// Where the rollout of `generation` stands. `stale`: see [`rollout::deployment`].
pub fn standing(sight: Sight<'_>, generation: i64, stale: Option<&str>) -> Standing {
    let workload = sight.workload;
    let sets = sight.replica_sets.unwrap_or(&[]);
    let own: Vec<&Object> = sets.iter().filter(|s| s.controller().is_some_and(|o| o.uid == workload.uid())).collect();
    let history = history::read(workload, sets);
    // Until the new ReplicaSet is there the history's current revision is the former one.
    let current = history.current().filter(|_| !history.pending);
    let mine = current.map(|r| r.object.uid());
    let others: Vec<&str> = own.iter().filter(|s| Some(s.uid()) != mine).map(|s| s.name()).collect();
    let mut pods = Vec::new();
    let mut troubles = Vec::new();
    for set in &own {
        let revision = set.annotation(REVISION).and_then(|n| n.parse().ok());
        let current = Some(set.uid()) == mine;
        for pod in sight.pods.iter().filter(|p| p.controller().is_some_and(|o| o.uid == set.uid())) {
            let found = if pod.terminating() { Vec::new() } else { of_pod(pod, sight.events, revision, current) };
            let state = PodState::of(pod);
            let mute = found.is_empty() && mute(pod);
            pods.push(PodLine {
                name: state.name,
                uid: pod.uid().to_string(),
                revision,
                current,
                ready: state.ready,
                terminating: state.terminating,
                restarts: state.restarts,
                mute,
            });
            troubles.extend(found);
        }
        troubles.extend(denied(set, revision, current));
    }
    troubles.extend(uncreated(workload));
    pods.sort_by(|a, b| (!a.current, &a.name).cmp(&(!b.current, &b.name)));
    troubles.sort_by(|a, b| (!a.blocks, &a.object).cmp(&(!b.blocks, &b.object)));
    Standing {
        name: workload.name().to_string(),
        progress: rollout::deployment(workload, generation, stale, &others),
        revision: current.map(|r| r.number),
        wanted: workload.int_at("/spec/replicas").unwrap_or(1),
        paused: workload.0.pointer("/spec/paused").and_then(Value::as_bool) == Some(true),
        pods,
        troubles,
    }
}

impl Standing {
    /// Pods of other revisions on their way out: they may still work, and are no replacements.
    pub fn terminating(&self) -> usize {
        self.pods.iter().filter(|p| p.terminating && !p.current).count()
    }

    pub fn ready(&self) -> usize {
        self.pods.iter().filter(|p| p.current && p.ready && !p.terminating).count()
    }

    /// `2 old Pods still terminating`
    pub fn leaving(&self) -> Option<String> {
        match self.terminating() {
            0 => None,
            1 => Some("1 old Pod still terminating".into()),
            n => Some(format!("{n} old Pods still terminating")),
        }
    }

    /// What keeps the rollout from its end, and what is told beside it; for the end of a wait.
    pub fn reasons(&self) -> Vec<String> {
        const MOST: usize = 10;
        let mut lines = self.said();
        let named = |pod: &PodLine| self.troubles.iter().any(|t| t.object == format!("pod/{}", pod.name));
        for pod in self.pods.iter().filter(|p| !p.terminating && !named(p)) {
            match (pod.current, pod.ready) {
                (true, false) => lines.push(format!("pod/{}: not ready", pod.name)),
                (false, _) => lines.push(format!("pod/{}: {}, still there", pod.name, pod.whose())),
                (true, true) => {}
            }
        }
        lines.extend(self.leaving());
        let more = lines.len().saturating_sub(MOST);
        if more > 0 {
            lines.truncate(MOST);
            lines.push(format!("and {more} more"));
        }
        lines
    }

    /// The troubles in sentences, each once for all Pods that say the same.
    pub fn said(&self) -> Vec<String> {
        let mut alike: Vec<(&Trouble, usize)> = Vec::new();
        for trouble in &self.troubles {
            match alike.iter_mut().find(|(t, _)| t.alike(trouble)) {
                Some((_, more)) => *more += 1,
                None => alike.push((trouble, 0)),
            }
        }
        let mut lines: Vec<String> = alike.into_iter().map(|(trouble, more)| trouble.with(more)).collect();
        if self.paused && !matches!(self.progress, Progress::Done(_)) {
            lines.push(format!("deployment/{} is paused: nothing rolls out until it is resumed", self.name));
        }
        lines
    }

    /// The sentence of one trouble, with how many Pods say the same.
    pub fn sentence(&self, trouble: &Trouble) -> String {
        trouble.with(self.troubles.iter().filter(|t| t.alike(trouble)).count().saturating_sub(1))
    }
}

impl PodLine {
    fn whose(&self) -> String {
        self.revision.map_or("of another revision".into(), |n| format!("of revision {n}"))
    }
}

impl Trouble {
    fn alike(&self, other: &Trouble) -> bool {
        (self.class, self.revision, &self.container, &self.reason, &self.what)
            == (other.class, other.revision, &other.container, &other.reason, &other.what)
    }

    fn with(&self, more: usize) -> String {
        let more = match more {
            0 => String::new(),
            1 => " (and 1 Pod alike)".into(),
            n => format!(" (and {n} Pods alike)"),
        };
        let whose = match self.revision {
            Some(n) if !self.blocks => format!(" of revision {n}"),
            _ => String::new(),
        };
        let short: String = self.what.chars().take(MESSAGE).collect();
        let cut = if short.len() < self.what.len() { "..." } else { "" };
        format!("{}{whose}: {short}{cut} ({}){more}", self.object, self.reason)
    }

    /// `CreateContainerConfigError: container app does not start: …`
    pub fn short(&self) -> String {
        format!("{}: {}", self.reason, self.what)
    }

    /// What it is about. A pull that fails and one that waits to be tried again are one trouble.
    fn key(&self) -> Key {
        (self.object.clone(), self.container.clone(), self.class)
    }
}

type Key = (String, Option<String>, Class);

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

fn condition<'a>(object: &'a Object, kind: &str) -> Option<&'a Value> {
    object.items_at("/status/conditions").iter().find(|c| text(c, "type") == kind)
}

fn is(object: &Object, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|c| text(c, "status") == status)
}

fn time(value: &Value, key: &str) -> Option<Timestamp> {
    value.get(key).and_then(Value::as_str).and_then(|t| t.parse().ok())
}

fn statuses(pod: &Object) -> impl Iterator<Item = &Value> {
    pod.items_at("/status/initContainerStatuses").iter().chain(pod.items_at("/status/containerStatuses"))
}

fn of_pod(pod: &Object, events: &[&Object], revision: Option<u64>, blocks: bool) -> Vec<Trouble> {
    let trouble = |class, container: Option<&str>, reason: &str, message: &str, since, what: String| Trouble {
        class,
        object: format!("pod/{}", pod.name()),
        revision,
        container: container.map(str::to_string),
        reason: reason.to_string(),
        message: message.to_string(),
        since,
        blocks,
        what,
    };
    // A waiting container has no time of its own.
    let since = condition(pod, "ContainersReady").and_then(|c| time(c, "lastTransitionTime"));
    let mut found: Vec<Trouble> = statuses(pod)
        .filter_map(|status| {
            let waiting = status.pointer("/state/waiting")?;
            let (reason, message) = (text(waiting, "reason"), text(waiting, "message"));
            if ["ContainerCreating", "PodInitializing", ""].contains(&reason) {
                return None;
            }
            let name = text(status, "name");
            let class = class(reason);
            let (message, what) = match class {
                Class::Image => (message.into(), format!("the image of container {name} cannot be pulled: {message}")),
                Class::Crash => crashed(name, status, message),
                _ => {
                    let why = lacking(message).unwrap_or_else(|| message.to_string());
                    (message.into(), format!("container {name} does not start: {why}"))
                }
            };
            Some(trouble(class, Some(name), reason, &message, since, what.trim_end_matches(": ").to_string()))
        })
        .collect();
    if let Some(c) = condition(pod, "PodScheduled").filter(|c| text(c, "reason") == "Unschedulable") {
        let message = text(c, "message");
        let since = time(c, "lastTransitionTime");
        found.push(trouble(
            Class::Schedule,
            None,
            "Unschedulable",
            message,
            since,
            format!("no node takes it: {message}"),
        ));
    }
    if found.is_empty() && mute(pod) {
        let about = |e: &&&Object| e.str_at("/involvedObject/uid") == pod.uid() && unready(e.str_at("/reason"));
        if let Some(event) = events.iter().rfind(about) {
            let (reason, message) = (event.str_at("/reason"), event.str_at("/message"));
            let since = event.time_at("/firstTimestamp").or(event.created());
            let why = lacking_of(pod, message).unwrap_or_else(|| message.to_string());
            let what = match reason {
                "FailedCreatePodSandBox" => format!("its sandbox cannot be made: {why}"),
                _ => format!("a volume cannot be mounted: {why}"),
            };
            found.push(trouble(Class::Mount, None, reason, message, since, what));
        }
    }
    found
}

fn class(reason: &str) -> Class {
    match reason {
        "CreateContainerConfigError" => Class::Config,
        "CrashLoopBackOff" => Class::Crash,
        "ErrImagePull"
        | "ImagePullBackOff"
        | "ErrImageNeverPull"
        | "InvalidImageName"
        | "ImageInspectError"
        | "RegistryUnavailable"
        | "SignatureValidationFailed" => Class::Image,
        _ => Class::Start,
    }
}

/// The last message of a container that crashes again and again, and the sentence.
fn crashed(name: &str, status: &Value, waiting: &str) -> (String, String) {
    let Some(last) = status.pointer("/lastState/terminated") else {
        return (waiting.into(), format!("container {name} crashes again and again: {waiting}"));
    };
    let code = last.get("exitCode").and_then(Value::as_i64).map_or("unknown".to_string(), |c| c.to_string());
    let (reason, words) = (text(last, "reason"), text(last, "message").trim());
    let message = match (words, reason) {
        ("", "" | "Error" | "Completed") => waiting,
        ("", reason) => reason,
        (words, _) => words,
    };
    (message.into(), format!("container {name} crashes again and again, exit code {code}: {message}"))
}

/// Warnings that say why a Pod whose containers are still to be made does not go on.
fn unready(reason: &str) -> bool {
    ["FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"].contains(&reason)
}

/// On a node, not started, and no reason in its status. Once its sandbox stands its volumes are mounted.
fn mute(pod: &Object) -> bool {
    let waits = |status: &Value| {
        let reason = status.pointer("/state/waiting").map(|w| text(w, "reason"));
        reason.is_some_and(|r| ["ContainerCreating", "PodInitializing", ""].contains(&r))
    };
    !pod.terminating()
        && !pod.str_at("/spec/nodeName").is_empty()
        && pod.str_at("/status/phase") == "Pending"
        && !is(pod, "PodReadyToStartContainers", "True")
        && statuses(pod).all(waits)
}

fn between<'a>(message: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(before)?;
    if after.is_empty() { Some(rest) } else { rest.split_once(after).map(|(found, _)| found) }
}

/// The kubelet's words for an object or a key that is not there.
fn lacking(message: &str) -> Option<String> {
    for (kind, word) in [("configmap", "ConfigMap"), ("secret", "Secret")] {
        if let Some(name) = between(message, &format!("{kind} \""), "\" not found") {
            return Some(format!("{kind}/{name} is not there"));
        }
        let key = between(message, "couldn't find key ", &format!(" in {word} "));
        if let (Some(key), Some(place)) = (key, between(message, &format!(" in {word} "), "")) {
            let name = place.split_whitespace().next().unwrap_or(place);
            let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
            return Some(format!("{kind}/{name} has no key {key}"));
        }
    }
    None
}

/// The same for a volume: a key that is missing there is told without the object, which the Pod names.
fn lacking_of(pod: &Object, message: &str) -> Option<String> {
    let key = between(message, "references non-existent config key: ", "")
        .or_else(|| between(message, "references non-existent secret key: ", ""));
    let volume = between(message, "for volume \"", "\"");
    if let (Some(key), Some(volume)) = (key, volume)
        && let Some(volume) = pod.items_at("/spec/volumes").iter().find(|v| text(v, "name") == volume)
    {
        let map = volume.pointer("/configMap/name").and_then(Value::as_str).map(|n| format!("configmap/{n}"));
        let secret = volume.pointer("/secret/secretName").and_then(Value::as_str).map(|n| format!("secret/{n}"));
        if let Some(object) = map.or(secret) {
            return Some(format!("{object} has no key {key}"));
        }
    }
    lacking(message)
}

/// Pods that are not admitted: quota, Pod security, a policy.
fn denied(set: &Object, revision: Option<u64>, blocks: bool) -> Option<Trouble> {
    let failure = condition(set, "ReplicaFailure").filter(|c| text(c, "status") == "True")?;
    let message = text(failure, "message");
    Some(Trouble {
        class: Class::Create,
        object: format!("replicaset/{}", set.name()),
        revision,
        container: None,
        reason: text(failure, "reason").to_string(),
        message: message.to_string(),
        since: time(failure, "lastTransitionTime"),
        blocks,
        what: format!("its Pods are not created: {message}"),
    })
}

/// A ReplicaSet that is not admitted.
fn uncreated(workload: &Object) -> Option<Trouble> {
    let failure = rollout::progressing(workload).filter(|c| text(c, "reason") == "ReplicaSetCreateError")?;
    let message = text(failure, "message");
    Some(Trouble {
        class: Class::Create,
        object: format!("deployment/{}", workload.name()),
        revision: None,
        container: None,
        reason: text(failure, "reason").to_string(),
        message: message.to_string(),
        since: time(failure, "lastUpdateTime"),
        blocks: true,
        what: format!("its ReplicaSet is not created: {message}"),
    })
}

/// Since when each trouble has been seen, by a clock that the caller reads.
#[derive(Debug, Default)]
pub struct Held {
    since: BTreeMap<Key, Duration>,
}

impl Held {
    /// One look, `at` so long after the first.
    pub fn look(&mut self, standing: &Standing, at: Duration) {
        let now: BTreeMap<Key, ()> = standing.troubles.iter().map(|t| (t.key(), ())).collect();
        // Between two crashes a container runs for a while: that ends nothing until it is ready.
        let unready = |object: &str| {
            standing.pods.iter().any(|p| !p.ready && !p.terminating && object.strip_prefix("pod/") == Some(&p.name))
        };
        self.since.retain(|key, _| now.contains_key(key) || (key.2 == Class::Crash && unready(&key.0)));
        for key in now.into_keys() {
            self.since.entry(key).or_insert(at);
        }
    }

    pub fn since(&self, trouble: &Trouble) -> Option<Duration> {
        self.since.get(&trouble.key()).copied()
    }

    /// When the first of what blocks will have held long enough, and which one. `progressed`: when Pods last came on.
    /// Until then what is not created may only wait for the room of those that leave.
    pub fn first<'a>(&self, standing: &'a Standing, progressed: Duration) -> Option<(Duration, &'a Trouble)> {
        let end = |trouble: &Trouble| {
            let since = self.since(trouble)?;
            let from = if trouble.class == Class::Create { since.max(progressed) } else { since };
            from.checked_add(HOLD)
        };
        let blocking = standing.troubles.iter().filter(|t| t.blocks);
        blocking.filter_map(|t| Some((end(t)?, t))).min_by_key(|(at, _)| *at)
    }
}

/// Of what blocks, one that has held long enough by the objects' own times: for a single look.
pub fn lasting(standing: &Standing, now: Timestamp) -> Option<&Trouble> {
    let held = |t: &&Trouble| {
        let since = t.since.map(|since| now.duration_since(since));
        since.is_some_and(|for_| for_.as_secs() >= i64::try_from(HOLD.as_secs()).unwrap_or(i64::MAX))
    };
    standing.troubles.iter().filter(|t| t.blocks).find(held)
}
