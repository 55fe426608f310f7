//! The reads of a revision's containers, each bounded by numbers (resourceVersions) from below and above.
//!
//! What may bound a read, and what only looks like it, is the table "Evidence" of ARCHITECTURE.md.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::core::evidence::{CLOCK_MARGIN, Case, NEAR};
use crate::core::history::{History, Revision};
use crate::core::object::Object;
use crate::core::observed::Domain;
use crate::core::references::{Kind, Read, Use};
use crate::core::witness::Witnesses;

/// A number that bounds a moment, and how it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub version: u64,
    pub what: String,
}

/// One read of one use: a container start of a surviving Pod, or, where none survives, all of the revision's life.
#[derive(Clone, Debug)]
pub struct Span {
    /// `Pod web-x, container app`, or `revision 3's active time`.
    pub who: String,
    /// Not later than the first read: sound.
    pub lower: Option<Anchor>,
    /// At most [`NEAR`] after the first read: a hint, looked for where there is no sound bound. Of several the lowest,
    /// since a write between two of them came after the read.
    pub near: Option<Anchor>,
    /// Not earlier than the last read: sound.
    pub upper: Option<Anchor>,
    /// Later than the first read, where reading goes on: a mount that is kept current.
    pub since: Option<Anchor>,
    /// When the read began, by the node's clock where a container tells it: for hints only.
    pub started: Option<Timestamp>,
    /// When the read ended, for hints only; `None`: it goes on, or is not known.
    pub ended: Option<Timestamp>,
    /// API server's stamp that no read of this span is older than.
    pub born: Option<Timestamp>,
    pub pod: Option<String>,
    /// Of the reading container.
    pub restarts: i64,
    /// The node of the Pod, or of one that is gone, was reported NotReady: its kubelet may be later than A2 allows.
    pub node_unready: bool,
    /// False for a bound Pod that has not reported a start: it may have read, so it can refute, not confirm.
    pub reported: bool,
}

/// The reads of one use by one revision.
pub fn spans(case: &Case<'_>, revision: &Revision, witnesses: &Witnesses<'_>, kind: Kind, used: &Use) -> Vec<Span> {
    let domain = case.seen.domain(kind);
    let mut spans: Vec<Span> =
        witnesses.witnesses.iter().filter_map(|w| pod_span(case, revision, w.pod, domain, used)).collect();
    if !spans.iter().any(|s| s.reported) {
        spans.push(life_span(case, revision, domain, used));
    }
    spans
}

/// What a container's status says of its starts.
struct Run {
    started: Option<Timestamp>,
    restarts: i64,
    /// Has a start been reported? A bound Pod whose kubelet is cut off may have read without anybody knowing.
    reported: bool,
}

const STATUSES: [&str; 2] = ["/status/initContainerStatuses", "/status/containerStatuses"];

fn runs(pod: &Object) -> impl Iterator<Item = Run> {
    STATUSES.into_iter().flat_map(|field| pod.items_at(field)).filter_map(run_of_status)
}

/// When containers of the Pod started, by the node's clock.
pub fn starts(pod: &Object) -> Vec<Timestamp> {
    runs(pod).filter_map(|run| run.started).collect()
}

/// How often each container that has reported a start was restarted.
pub fn restarts(pod: &Object) -> BTreeMap<String, i64> {
    let statuses = STATUSES.into_iter().flat_map(|field| pod.items_at(field));
    let named = statuses.filter_map(|s| Some((s.get("name")?.as_str()?.to_string(), run_of_status(s)?.restarts)));
    named.collect()
}

/// `None`: nothing was read, since no kubelet has the Pod yet.
fn run_of(pod: &Object, used: &Use) -> Option<Run> {
    if pod.str_at("/spec/nodeName").is_empty() {
        return None;
    }
    Some(reported_run(pod, used).unwrap_or(Run { started: None, restarts: 0, reported: false }))
}

fn reported_run(pod: &Object, used: &Use) -> Option<Run> {
    match &used.container {
        Some(name) => {
            let statuses = pod.items_at(STATUSES[usize::from(!used.init)]);
            run_of_status(statuses.iter().find(|s| s.get("name").and_then(Value::as_str) == Some(name))?)
        }
        // A read of the whole Pod (image pull, driver): it has happened once anything started, and nothing tells when.
        None => runs(pod).next().map(|run| Run { started: None, ..run }),
    }
}

fn run_of_status(status: &Value) -> Option<Run> {
    let time =
        |pointer: &str| status.pointer(pointer).and_then(Value::as_str).and_then(|s| s.parse::<Timestamp>().ok());
    let restarts = status.get("restartCount").and_then(Value::as_i64).unwrap_or(0);
    let ran = ["/state/running", "/state/terminated", "/lastState/terminated"]
        .iter()
        .any(|p| status.pointer(p).is_some_and(|v| !v.is_null()));
    (ran || restarts > 0).then(|| Run {
        started: time("/state/running/startedAt")
            .or_else(|| time("/state/terminated/startedAt"))
            .or_else(|| time("/lastState/terminated/startedAt")),
        restarts,
        reported: true,
    })
}

/// The higher of two lower bounds is the better one.
fn raise(slot: &mut Option<Anchor>, version: u64, what: impl FnOnce() -> String) {
    if slot.as_ref().is_none_or(|a| a.version < version) {
        *slot = Some(Anchor { version, what: what() });
    }
}

/// The lower of two numbers after a read is the nearer one.
fn sink(slot: &mut Option<Anchor>, version: u64, what: impl FnOnce() -> String) {
    if slot.as_ref().is_none_or(|a| a.version > version) {
        *slot = Some(Anchor { version, what: what() });
    }
}

fn pod_span(case: &Case<'_>, revision: &Revision, pod: &Object, domain: Domain, used: &Use) -> Option<Span> {
    let run = run_of(pod, used)?;
    let own = pod.version();
    let mut lower: Option<Anchor> = None;
    if domain.pods {
        // A Pod version above the Pod's own number is none: another store's, or forged.
        let held = |version: &u64| own.is_some_and(|own| *version <= own);
        if let Some(birth) = case.seen.pod_births.get(pod.uid()).copied().filter(held) {
            raise(&mut lower, birth, || format!("the version in which pod/{} was created", pod.name()));
        }
        for event in case.events_of(pod.uid()) {
            if let Some(version) = event_anchor(event, used, run.restarts).filter(held) {
                raise(&mut lower, version, || acted_on(event));
            }
        }
    }
    let near = if lower.is_none() { near_of(case, revision, pod, domain, &run) } else { None };
    // A refreshed mount is read as long as the Pod lives: no number of today is above its last read.
    let refreshed = used.read == Read::RefreshedMount;
    let own = own
        .filter(|_| domain.pods && run.reported)
        .map(|version| Anchor { version, what: format!("that of pod/{}", pod.name()) });
    let (upper, since) = if refreshed { (None, own) } else { (own, None) };
    let container = used.container.as_ref().map_or(String::new(), |c| format!(", container {c}"));
    Some(Span {
        who: format!("pod/{}{container}", pod.name()),
        lower,
        near,
        upper,
        since,
        started: run.started.or(pod.created()),
        ended: if refreshed { revision.retired } else { run.started },
        born: pod.created(),
        pod: Some(pod.uid().to_string()),
        restarts: run.restarts,
        node_unready: case.node_was_unready(pod),
        reported: run.reported,
    })
}

/// The best hint where nothing sound is left.
fn near_of(case: &Case<'_>, revision: &Revision, pod: &Object, domain: Domain, run: &Run) -> Option<Anchor> {
    let mut near: Option<Anchor> = None;
    // First read, for distances only: a restarted container's startedAt is a later one.
    let first_read = if run.restarts == 0 { run.started.or(pod.created()) } else { pod.created() };
    let soon = |time: Option<Timestamp>| matches!((first_read, time), (Some(f), Some(t)) if t <= f + NEAR);
    if let Some(own) = pod.version().filter(|_| domain.pods && soon(last_pod_change(pod))) {
        sink(&mut near, own, || format!("the number of pod/{}, last changed within 5m of its start", pod.name()));
    }
    for event in case.events_of(pod.uid()).iter().filter(|e| domain.events && soon(event_time(e))) {
        if let Some(version) = event.version() {
            sink(&mut near, version, || own_number(event));
        }
    }
    if let Some((version, what)) = predecessor(case.history, revision, first_read).filter(|_| domain.replica_sets) {
        sink(&mut near, version, || what);
    }
    near
}

fn acted_on(event: &Object) -> String {
    let (reason, pod) = (event.str_at("/reason"), event.str_at("/involvedObject/name"));
    let actor = if reason == "Scheduled" { "scheduler" } else { "kubelet" };
    format!("the Pod version that the {actor} acted on (Event {reason} of pod/{pod})")
}

fn own_number(event: &Object) -> String {
    format!("the number of Event {} of pod/{}", event.str_at("/reason"), event.str_at("/involvedObject/name"))
}

/// ARCHITECTURE.md, rule 1: an Event anchors by its `involvedObject.resourceVersion`, the Pod version that the scheduler
/// or kubelet held *before* acting, never by its own number (written after the act). Only these reasons act on a start;
/// for the kubelet's the container must be the reading one. A restarted container's later Events say nothing of its
/// first start, and mounts come before the first pull, so there only the scheduler's counts (rule 13).
fn event_anchor(event: &Object, used: &Use, restarts: i64) -> Option<u64> {
    let at_start = match event.str_at("/reason") {
        "Scheduled" => true,
        "Pulled" | "Created" | "Started" => {
            let list = if used.init { "initContainers" } else { "containers" };
            used.read == Read::ContainerStart
                && restarts == 0
                && used
                    .container
                    .as_ref()
                    .is_some_and(|c| event.str_at("/involvedObject/fieldPath") == format!("spec.{list}{{{c}}}"))
        }
        _ => false,
    };
    at_start.then(|| pod_version(event))?
}

fn pod_version(event: &Object) -> Option<u64> {
    event.str_at("/involvedObject/resourceVersion").parse().ok()
}

/// Newest of the times at which an Event says it was written.
fn event_time(event: &Object) -> Option<Timestamp> {
    ["/lastTimestamp", "/eventTime", "/series/lastObservedTime", "/metadata/creationTimestamp"]
        .iter()
        .filter_map(|p| event.time_at(p))
        .chain(event.last_seen_write())
        .max()
}

/// When a Pod was last seen to change: conditions, container states, managedFields.
fn last_pod_change(pod: &Object) -> Option<Timestamp> {
    let conditions = pod
        .items_at("/status/conditions")
        .iter()
        .filter_map(|c| c.get("lastTransitionTime").and_then(Value::as_str).and_then(|s| s.parse().ok()));
    conditions.chain(starts(pod)).chain(pod.last_seen_write()).chain(pod.created()).max()
}

/// The predecessor's ReplicaSet, scaled down when this revision came up: its number is a near anchor.
fn predecessor(history: &History, revision: &Revision, first_read: Option<Timestamp>) -> Option<(u64, String)> {
    if revision.started_again {
        return None;
    }
    let before = history.revisions.iter().rev().find(|r| r.number < revision.number)?;
    let rs = &before.object;
    let soon =
        matches!((first_read, rs.last_seen_write()), (Some(f), Some(t)) if t <= f + NEAR && t + CLOCK_MARGIN >= f);
    (rs.int_at("/spec/replicas") == Some(0) && soon)
        .then(|| Some((rs.version()?, format!("the number of replicaset/{}, scaled down for it", rs.name()))))?
}

/// No container of the revision is left: its reads are everything between its first start and its retirement.
fn life_span(case: &Case<'_>, revision: &Revision, domain: Domain, used: &Use) -> Span {
    let rs = &revision.object;
    let first = revision.first_started;
    let mut near = predecessor(case.history, revision, first)
        .filter(|_| domain.replica_sets)
        .map(|(version, what)| Anchor { version, what });
    if domain.events && !revision.started_again {
        for event in case.events_of_set(rs.name()) {
            let soon = matches!((first, event_time(event)), (Some(f), Some(t)) if t <= f + NEAR);
            if let Some(version) = event.version().filter(|_| soon) {
                sink(&mut near, version, || own_number(event));
            }
        }
    }
    let retired = rs.version().filter(|_| domain.replica_sets && !revision.current && at_zero(rs));
    let retired = retired.map(|version| Anchor { version, what: format!("that of replicaset/{}, retired", rs.name()) });
    let lower = first_scheduled(case, revision, domain);
    // A lower bound above the upper one is none: another store's, or forged.
    let lower = lower.filter(|l| retired.as_ref().is_none_or(|r| l.version <= r.version));
    // A ReplicaSet at zero may have Pods on their way out, and the kubelet still refreshes their files.
    let (upper, since) = if used.read == Read::RefreshedMount { (None, retired) } else { (retired, None) };
    Span {
        since,
        who: format!("revision {}'s active time", revision.number),
        lower,
        near,
        upper,
        started: first,
        ended: revision.retired,
        born: first,
        pod: None,
        restarts: 0,
        // Of Pods that are gone nobody knows the node; the Event that told of it names the Pod.
        node_unready: case.events_of_set(rs.name()).iter().any(|e| e.str_at("/reason") == "NodeNotReady"),
        reported: true,
    }
}

/// Scaled to zero, and the controller has seen to it: before, its status speaks of an earlier size.
pub fn at_zero(rs: &Object) -> bool {
    let number = |pointer: &str| rs.int_at(pointer).unwrap_or(0);
    rs.int_at("/spec/replicas") == Some(0)
        && number("/status/replicas") == 0
        && number("/status/observedGeneration") >= number("/metadata/generation")
}

/// For a retired revision without Pods the anchor is its *first* Pod's Scheduled Event: no former numbers, and a
/// ReplicaSet not older than that Event by more than two seconds, else an earlier Pod's Event may be lost.
fn first_scheduled(case: &Case<'_>, revision: &Revision, domain: Domain) -> Option<Anchor> {
    if !domain.pods || revision.started_again {
        return None;
    }
    let (version, event) = case
        .events_of_set(revision.object.name())
        .iter()
        .filter(|e| e.str_at("/reason") == "Scheduled")
        .filter_map(|e| Some((pod_version(e)?, e)))
        .min_by_key(|(version, _)| *version)?;
    // The act is told of after it: an Event's own number is above the Pod's.
    if domain.events && event.version().is_none_or(|own| own <= version) {
        return None;
    }
    let at = event.time_at("/eventTime").or_else(|| event.time_at("/firstTimestamp"));
    let at = at.or_else(|| event.created())?;
    (at <= revision.first_started? + CLOCK_MARGIN)
        .then(|| Anchor { version, what: format!("{}, the revision's first", acted_on(event)) })
}
