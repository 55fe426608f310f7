//! The sources of evidence, each a pure function from objects to facts.
//!
//! The question behind all of them: what did the containers of a revision *read*, and is it what a replacement Pod
//! would read now? A read is bounded by numbers (resourceVersions) from below and above; an object whose own number
//! is below the lower bound was not written since. What may bound a read, and what only looks like it, is the
//! table "Evidence" of ARCHITECTURE.md.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::core::content_name;
use crate::core::digest::Content;
use crate::core::history::{History, Revision};
use crate::core::object::Object;
use crate::core::observed::{Domain, Observed};
use crate::core::references::{self, Kind, Read, Reference, References, Use};
use crate::core::snapshot;

/// Stamps have second resolution, and two servers' clocks may differ: order is claimed from this distance on.
pub const CLOCK_MARGIN: SignedDuration = SignedDuration::from_secs(2);
/// A2: a kubelet reads the API's state late, so an object written this short before a Pod may not be what it read.
pub const AGE_MARGIN: SignedDuration = SignedDuration::from_secs(10);
/// How late after the first read an anchor may be for `likely-same`.
pub const NEAR: SignedDuration = SignedDuration::from_mins(5);

/// One fact with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub source: &'static str,
    pub says: &'static str,
    pub proof: bool,
    pub detail: String,
}

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
    /// Not later than the read: sound.
    pub lower: Option<Anchor>,
    /// At most [`NEAR`] after the first read: a hint.
    pub near: Option<Anchor>,
    /// Not earlier than the last read: sound.
    pub upper: Option<Anchor>,
    /// When the read began, by the node's clock where a container tells it: for hints only.
    pub started: Option<Timestamp>,
    /// When the read ended, for hints only; `None`: it goes on, or is not known.
    pub ended: Option<Timestamp>,
    /// API server's stamp that no read of this span is older than.
    pub born: Option<Timestamp>,
    pub pod: Option<String>,
    /// False for a bound Pod that has not reported a start: it may have read, so it can refute, not confirm.
    pub reported: bool,
}

/// A Pod that shows what the revision's containers read.
pub struct Witness<'a> {
    pub pod: &'a Object,
    pub references: References,
}

/// The surviving Pods of a revision, sorted by what they may testify.
pub struct Witnesses<'a> {
    pub witnesses: Vec<Witness<'a>>,
    /// Owned by the ReplicaSet, but no witness: name and reason.
    pub set_aside: Vec<(String, String)>,
    /// A Pod that descends from the ReplicaSet names other objects than the template: something rewrites Pods at
    /// admission, so the template does not say what a replacement Pod reads.
    pub rewritten: Option<String>,
}

/// Pods owned by the revision's object, whether witnesses or not.
pub fn owned_pods<'a>(revision: &Revision, pods: &'a [Object]) -> Vec<&'a Object> {
    pods.iter().filter(|pod| pod.controller().is_some_and(|o| o.uid == revision.object.uid())).collect()
}

/// Proofs rule 11: a Pod is a witness only if it descends from the revision's object (a bare Pod that was relabelled
/// and adopted does not) and its references, per container, are the template's.
pub fn witnesses<'a>(revision: &Revision, pods: &'a [Object]) -> Witnesses<'a> {
    let template = references::extract(&revision.template);
    let prefix = format!("{}-", revision.object.name());
    let mut found = Witnesses { witnesses: Vec::new(), set_aside: Vec::new(), rewritten: None };
    for pod in owned_pods(revision, pods) {
        if pod.str_at("/metadata/generateName") != prefix {
            let reason = format!("it was not created by replicaset/{}", revision.object.name());
            found.set_aside.push((pod.name().to_string(), reason));
            continue;
        }
        let references = references::extract(&pod.0);
        match template.references.iter().find(|r| !names_equally(r, &references)) {
            None => found.witnesses.push(Witness { pod, references }),
            Some(differing) => {
                let reason =
                    format!("it does not use {}/{} as the template does", differing.kind.word(), differing.name);
                found.rewritten.get_or_insert_with(|| pod.name().to_string());
                found.set_aside.push((pod.name().to_string(), reason));
            }
        }
    }
    found
}

/// Does the Pod use `wanted` in each container just as the template does? Positions may shift, since admission
/// inserts containers and volumes; containers, keys and kind of read may not.
fn names_equally(wanted: &Reference, pod: &References) -> bool {
    let Some(has) = pod.references.iter().find(|r| r.kind == wanted.kind && r.name == wanted.name) else {
        return false;
    };
    wanted.uses.iter().all(|w| {
        has.uses.iter().any(|h| {
            h.container == w.container
                && h.init == w.init
                && h.read == w.read
                && h.keys == w.keys
                && h.optional == w.optional
        })
    })
}

/// References that surviving Pods have and the template lacks: put in at admission.
pub fn injected(template: &References, witnesses: &Witnesses<'_>) -> Vec<Reference> {
    let mut injected: Vec<Reference> = Vec::new();
    for witness in &witnesses.witnesses {
        for reference in &witness.references.references {
            let known = |r: &Reference| r.kind == reference.kind && r.name == reference.name;
            if template.references.iter().any(known)
                || injected.iter().any(known)
                || references::trust_bundle(&reference.name)
                || reference.uses.iter().all(|u| u.read == Read::ImagePull)
            {
                continue;
            }
            injected.push(reference.clone());
        }
    }
    injected
}

/// The reads of one use by one revision.
pub fn spans(
    seen: &Observed,
    history: &History,
    revision: &Revision,
    witnesses: &Witnesses<'_>,
    kind: Kind,
    used: &Use,
) -> Vec<Span> {
    let domain = seen.domain(kind);
    let mut spans: Vec<Span> =
        witnesses.witnesses.iter().filter_map(|w| pod_span(seen, history, revision, w.pod, domain, used)).collect();
    if !spans.iter().any(|s| s.reported) {
        spans.push(life_span(seen, history, revision, domain));
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

impl Run {
    fn unreported() -> Run {
        Run { started: None, restarts: 0, reported: false }
    }
}

/// `None`: nothing was read, since no kubelet has the Pod yet.
fn run_of(pod: &Object, used: &Use) -> Option<Run> {
    if pod.str_at("/spec/nodeName").is_empty() {
        return None;
    }
    Some(reported_run(pod, used).unwrap_or_else(Run::unreported))
}

fn reported_run(pod: &Object, used: &Use) -> Option<Run> {
    let field = if used.init { "/status/initContainerStatuses" } else { "/status/containerStatuses" };
    match &used.container {
        Some(name) => {
            let status = pod.items_at(field).iter().find(|s| s.get("name").and_then(Value::as_str) == Some(name))?;
            run_of_status(status)
        }
        // A read of the whole Pod (image pull, driver): it has happened once anything started.
        None => {
            let mut runs = ["/status/initContainerStatuses", "/status/containerStatuses"]
                .into_iter()
                .flat_map(|f| pod.items_at(f))
                .filter_map(run_of_status);
            let first = runs.next()?;
            Some(Run { started: first.started, restarts: 0, reported: true })
        }
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

fn pod_span(
    seen: &Observed,
    history: &History,
    revision: &Revision,
    pod: &Object,
    domain: Domain,
    used: &Use,
) -> Option<Span> {
    let run = run_of(pod, used)?;
    let own = pod.version();
    let mut lower: Option<Anchor> = None;
    let mut near: Option<Anchor> = None;
    let raise = |slot: &mut Option<Anchor>, version: u64, what: String| {
        if slot.as_ref().is_none_or(|a| a.version < version) {
            *slot = Some(Anchor { version, what });
        }
    };
    if domain.pods {
        if let Some(birth) = seen.pod_births.get(pod.uid()) {
            raise(&mut lower, *birth, format!("the version in which pod/{} was created", pod.name()));
        }
        for event in seen.all_events().iter().filter(|e| e.str_at("/involvedObject/uid") == pod.uid()) {
            let Some(version) = event_anchor(event, used, run.restarts) else { continue };
            // A Pod version above the Pod's own number is none: another store's, or forged.
            if own.is_some_and(|own| version <= own) {
                let reason = event.str_at("/reason");
                let actor = if reason == "Scheduled" { "scheduler" } else { "kubelet" };
                let what = format!("the Pod version that the {actor} acted on (Event {reason} of pod/{})", pod.name());
                raise(&mut lower, version, what);
            }
        }
    }
    // First read, for distances only: a restarted container's startedAt is a later one.
    let first_read = if run.restarts == 0 { run.started.or(pod.created()) } else { pod.created() };
    let soon = |time: Option<Timestamp>| matches!((first_read, time), (Some(f), Some(t)) if t <= f + NEAR);
    if let Some(own) = own.filter(|_| domain.pods && soon(last_pod_change(pod))) {
        raise(&mut near, own, format!("the number of pod/{}, last changed within 5m of its start", pod.name()));
    }
    if domain.events {
        for event in seen.all_events().iter().filter(|e| e.str_at("/involvedObject/uid") == pod.uid()) {
            if let Some(version) = event.version().filter(|_| soon(event_time(event))) {
                let what = format!("the number of Event {} of pod/{}", event.str_at("/reason"), pod.name());
                raise(&mut near, version, what);
            }
        }
    }
    if let Some((version, what)) = predecessor(history, revision, first_read).filter(|_| domain.replica_sets) {
        raise(&mut near, version, what);
    }
    let refreshed = used.read == Read::RefreshedMount;
    let upper = if !run.reported {
        None
    } else if refreshed {
        retirement(seen, history, revision, domain)
    } else {
        own.filter(|_| domain.pods).map(|version| Anchor { version, what: format!("that of pod/{}", pod.name()) })
    };
    let container = used.container.as_ref().map_or(String::new(), |c| format!(", container {c}"));
    Some(Span {
        who: format!("pod/{}{container}", pod.name()),
        lower,
        near,
        upper,
        started: run.started.or(pod.created()),
        ended: if refreshed { revision.retired } else { run.started },
        reported: run.reported,
        born: pod.created(),
        pod: Some(pod.uid().to_string()),
    })
}

/// Proofs rule 1: an Event anchors by its `involvedObject.resourceVersion`, the Pod version that the scheduler or
/// kubelet held *before* acting, never by its own number (written after the act). Only these reasons act on a start;
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
    at_start.then(|| event.str_at("/involvedObject/resourceVersion").parse().ok())?
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
    let starts = pod.items_at("/status/containerStatuses").iter().filter_map(|s| run_of_status(s)?.started);
    conditions.chain(starts).chain(pod.last_seen_write()).chain(pod.created()).max()
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

/// An upper bound of the moment at which the revision retired: any number of its successors is later than that.
fn retirement(seen: &Observed, history: &History, revision: &Revision, domain: Domain) -> Option<Anchor> {
    if revision.current {
        return None;
    }
    let mut best: Option<Anchor> = None;
    let mut lower = |version: Option<u64>, what: String| {
        if let Some(version) = version.filter(|v| best.as_ref().is_none_or(|b| *v < b.version)) {
            best = Some(Anchor { version, what });
        }
    };
    for next in history.revisions.iter().filter(|r| r.number > revision.number && !r.started_again) {
        if domain.replica_sets {
            lower(next.object.version(), format!("that of replicaset/{}", next.object.name()));
        }
        if domain.pods {
            for pod in owned_pods(next, seen.all_pods()) {
                lower(pod.version(), format!("that of pod/{}", pod.name()));
            }
        }
    }
    best
}

/// No container of the revision is left: its reads are everything between its first start and its retirement.
fn life_span(seen: &Observed, history: &History, revision: &Revision, domain: Domain) -> Span {
    let rs = &revision.object;
    let first = revision.first_started;
    let mut near = predecessor(history, revision, first)
        .filter(|_| domain.replica_sets)
        .map(|(version, what)| Anchor { version, what });
    if domain.events && !revision.started_again {
        for event in events_of(seen, rs.name()) {
            let soon = matches!((first, event_time(event)), (Some(f), Some(t)) if t <= f + NEAR);
            if let Some(version) = event.version().filter(|v| soon && near.as_ref().is_none_or(|n| n.version < *v)) {
                let what = format!(
                    "the number of Event {} of pod/{}",
                    event.str_at("/reason"),
                    event.str_at("/involvedObject/name")
                );
                near = Some(Anchor { version, what });
            }
        }
    }
    let at_zero = rs.int_at("/spec/replicas") == Some(0) && rs.int_at("/status/replicas").unwrap_or(0) == 0;
    Span {
        who: format!("revision {}'s active time", revision.number),
        lower: first_scheduled(seen, revision, domain),
        near,
        upper: (at_zero && domain.replica_sets && !revision.current)
            .then(|| {
                Some(Anchor { version: rs.version()?, what: format!("that of replicaset/{}, retired", rs.name()) })
            })
            .flatten(),
        started: first,
        ended: revision.retired,
        reported: true,
        born: first,
        pod: None,
    }
}

/// Events of Pods that bear the ReplicaSet's name and a five-letter suffix; the Pods themselves may be gone.
fn events_of<'a>(seen: &'a Observed, rs: &'a str) -> impl Iterator<Item = &'a Object> {
    seen.all_events().iter().filter(move |e| {
        let name = e.str_at("/involvedObject/name");
        name.strip_prefix(rs).and_then(|rest| rest.strip_prefix('-')).is_some_and(|suffix| suffix.len() == 5)
    })
}

/// For a retired revision without Pods the anchor is its *first* Pod's Scheduled Event: no former numbers, and a
/// ReplicaSet not older than that Event by more than two seconds, else an earlier Pod's Event may be lost.
fn first_scheduled(seen: &Observed, revision: &Revision, domain: Domain) -> Option<Anchor> {
    if !domain.pods || revision.started_again {
        return None;
    }
    let (version, event) = events_of(seen, revision.object.name())
        .filter(|e| e.str_at("/reason") == "Scheduled")
        .filter_map(|e| Some((e.str_at("/involvedObject/resourceVersion").parse::<u64>().ok()?, e)))
        .min_by_key(|(version, _)| *version)?;
    let at = event.time_at("/eventTime").or_else(|| event.time_at("/firstTimestamp"));
    let at = at.or_else(|| event.created())?;
    (at <= revision.first_started? + CLOCK_MARGIN).then(|| Anchor {
        version,
        what: format!(
            "the Pod version that the scheduler acted on (Event Scheduled of pod/{}, the revision's first)",
            event.str_at("/involvedObject/name")
        ),
    })
}

/// How the live object's age stands to everything that names it (proofs rule 5): a kubelet keeps a deleted immutable
/// object as long as any Pod of the node names it, and serves it for a re-created namesake, even to new workloads
/// (kubernetes/kubernetes#119733).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namesake {
    /// Older than all of them by [`CLOCK_MARGIN`].
    Clear,
    /// Too close to tell, as when everything is applied together.
    Close,
    /// Younger than this one.
    Younger { than: String, late: bool },
}

pub fn namesake(seen: &Observed, history: &History, kind: Kind, object: &Object) -> Namesake {
    let Some(created) = object.created() else { return Namesake::Close };
    if seen.pods.is_err() {
        return Namesake::Close;
    }
    let names_it = |template: &Value| {
        references::extract(template).references.iter().any(|r| r.kind == kind && r.name == object.name())
    };
    let pods = seen.all_pods().iter().filter(|p| names_it(&p.0)).map(|pod| {
        // Rule 15: a Pod that waited for the object read this one. Its containers' starts tell.
        let starts: Vec<Timestamp> = ["/status/initContainerStatuses", "/status/containerStatuses"]
            .into_iter()
            .flat_map(|f| pod.items_at(f))
            .filter_map(|s| run_of_status(s)?.started)
            .collect();
        let late = starts.iter().all(|s| *s >= created);
        (format!("pod/{}", pod.name()), pod.created(), late)
    });
    let revisions = history
        .revisions
        .iter()
        .filter(|r| names_it(&r.template))
        .map(|r| (format!("revision {}", r.number), r.first_started, true));
    let mut standing = Namesake::Clear;
    for (than, stamp, late) in pods.chain(revisions) {
        match stamp {
            Some(stamp) if created > stamp => {
                // A Pod that read the former one decides over one that waited.
                if !matches!(&standing, Namesake::Younger { late: false, .. }) || !late {
                    standing = Namesake::Younger { than, late };
                }
                if !late {
                    break;
                }
            }
            Some(stamp) if created + CLOCK_MARGIN <= stamp => {}
            _ if standing == Namesake::Clear => standing = Namesake::Close,
            _ => {}
        }
    }
    standing
}

/// Proofs rule 7: immutable counts from the managedFields entry that owns `f:immutable`, not from creation; of several
/// owners the earliest; none (wiped): no proof. For Secrets the flag's value is not in metadata, so there is none.
pub fn immutable_since(object: &Object) -> Option<Timestamp> {
    if object.0.get("immutable").and_then(Value::as_bool) != Some(true) {
        return None;
    }
    object.field_owners().filter(|e| e.owns(&["f:immutable"])).map(|e| e.time).min().flatten()
}

/// Newest sign of a write to the content: a managedFields entry that owns part of it. Only ever a sign: a key that is
/// removed leaves none, and a label edit moves the same entry.
pub fn write_sign(object: &Object) -> Option<(Timestamp, String)> {
    object
        .field_owners()
        .filter(|e| ["f:data", "f:binaryData", "f:immutable"].iter().any(|f| e.owns(&[f])))
        .filter_map(|e| Some((e.time?, e.manager.to_string())))
        .max()
}

/// Does the name re-compute from the content? Own snapshots, kustomize's generators, `kubectl create --append-hash`.
pub fn content_named(object: &Object, content: &Content) -> Option<String> {
    if snapshot::names(object.name(), content) {
        return Some("snapshot".into());
    }
    let immutable = object.0.get("immutable").and_then(Value::as_bool) == Some(true);
    content_name::recomputes(object.name(), content, immutable).map(|g| g.to_string())
}

/// Rule 9 (A2): was the object created or seen written so short before `born` that a kubelet may have read the state
/// before? Or was the Pod's node not ready then?
pub fn too_fresh(object: &Object, born: Option<Timestamp>) -> Option<&'static str> {
    let Some(born) = born else { return Some("the Pod's creation time is not known") };
    let newest = object.created().into_iter().chain(object.last_seen_write()).max();
    match newest {
        Some(newest) if newest + AGE_MARGIN <= born => None,
        Some(newest) if newest > born => Some("written after the Pod was created, by its managedFields"),
        Some(_) => Some("written less than 10s before the Pod was created"),
        None => Some("its creation time is not known"),
    }
}

/// The node of this Pod was reported NotReady within the Events' reach.
pub fn node_was_unready(seen: &Observed, pod_uid: &str) -> bool {
    let node = |pod: &Object| pod.str_at("/spec/nodeName").to_string();
    let Some(own) = seen.all_pods().iter().find(|p| p.uid() == pod_uid).map(node) else { return false };
    seen.all_events().iter().filter(|e| e.str_at("/reason") == "NodeNotReady").any(|e| {
        let uid = e.str_at("/involvedObject/uid");
        seen.all_pods().iter().any(|p| p.uid() == uid && node(p) == own)
    })
}
