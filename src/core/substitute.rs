//! The proof on a substitute: which Pod is replaced, which one came in its place, and what may be said of it.
//!
//! Which Pod is about to be evicted is noted in our annotation of the workload before it is: a run that was cut off is
//! finished by the next one, which evicts that Pod or none. So no two Pods are ever evicted for one rollback.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::core::evidence;
use crate::core::judged::{Judged, PodState};
use crate::core::object::Object;
use crate::core::record::Held;
use crate::core::references::{self, Kind, Reference};
use crate::core::verdict::Verdict;

/// What is looked at after a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// What was kept and made, and what the new Pods name.
    #[default]
    Rollout,
    /// And a Pod is evicted, whose substitute must start as planned.
    Replace,
    /// What was kept and made.
    None,
}

impl Verify {
    pub fn word(self) -> &'static str {
        match self {
            Verify::Rollout => "rollout",
            Verify::Replace => "replace",
            Verify::None => "none",
        }
    }
}

/// What the look after a rollout came to: a closed list, part of the report's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    AsPlanned,
    NoPodStarted,
    NotLooked,
    Moved,
    Rewritten,
    NotReady,
    OtherContent,
    MayDiffer,
    Budget,
    Downtime,
    NoPod,
    NotEvicted,
    Unread,
}

impl Finding {
    pub fn word(self) -> &'static str {
        match self {
            Finding::AsPlanned => "as-planned",
            Finding::NoPodStarted => "no-pod-started",
            Finding::NotLooked => "not-looked",
            Finding::Moved => "moved",
            Finding::Rewritten => "rewritten",
            Finding::NotReady => "not-ready",
            Finding::OtherContent => "other-content",
            Finding::MayDiffer => "may-differ",
            Finding::Budget => "budget",
            Finding::Downtime => "downtime",
            Finding::NoPod => "no-pod",
            Finding::NotEvicted => "not-evicted",
            Finding::Unread => "unread",
        }
    }

    /// Did the rollback fail, so that the way back is taken? What could not be looked at, or is not known, did not.
    pub fn failed(self) -> bool {
        matches!(self, Finding::Moved | Finding::Rewritten | Finding::NotReady | Finding::OtherContent)
    }
}

/// The Pod that was chosen, and the versions that its substitute must find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evicted {
    pub name: String,
    pub uid: String,
    /// Of its creation. The chosen Pod is the newest, and is left alone for a second, so what is younger by this stamp of
    /// the same clock is none that was there beside it.
    pub created: Timestamp,
    /// By `ConfigMap/settings`, as they were right before.
    pub held: BTreeMap<String, Held>,
    /// Those of them that were immutable then.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub frozen: BTreeSet<String>,
}

/// Objects that a template names, by `ConfigMap/settings`; what is not there is not in it.
pub type Named = BTreeMap<String, Object>;

impl Evicted {
    /// `None` where the Pod has no creation time: then no substitute could be told from its neighbours.
    pub fn of(pod: &Object, named: &Named) -> Option<Evicted> {
        let held = named.iter().map(|(id, object)| (id.clone(), Held::of(object))).collect();
        let frozen = named.iter().filter(|(_, object)| immutable(object)).map(|(id, _)| id.clone()).collect();
        Some(Evicted {
            name: pod.name().to_string(),
            uid: pod.uid().to_string(),
            created: pod.created()?,
            held,
            frozen,
        })
    }

    /// The Pod itself, if it is still to be evicted.
    pub fn standing<'a>(&self, pods: &'a [Object]) -> Option<&'a Object> {
        pods.iter().find(|p| p.uid() == self.uid && !p.terminating())
    }

    /// The first Pod of the ReplicaSet that is younger.
    pub fn substitute<'a>(&self, pods: impl IntoIterator<Item = &'a Object>, replica_set: &str) -> Option<&'a Object> {
        pods.into_iter()
            .filter(|p| owned(p, replica_set) && p.uid() != self.uid && p.created() > Some(self.created))
            .min_by_key(|p| (p.created(), p.name().to_string()))
    }

    /// What was written between the eviction and `now`. What was immutable and is still the same object holds what it held.
    pub fn moved(&self, now: &Named) -> Vec<String> {
        let ids: BTreeSet<&String> = self.held.keys().chain(now.keys()).collect();
        let stands = |id: &str| match (self.held.get(id), now.get(id)) {
            (Some(held), Some(object)) => held.is(object) || (self.frozen.contains(id) && held.uid == object.uid()),
            (held, object) => held.is_none() && object.is_none(),
        };
        ids.into_iter().filter(|id| !stands(id)).map(|id| lower(id)).collect()
    }
}

/// `ConfigMap/settings`
pub fn id(reference: &Reference) -> String {
    format!("{}/{}", reference.kind, reference.name)
}

fn lower(id: &str) -> String {
    id.split_once('/').map_or(id.to_string(), |(kind, name)| format!("{}/{name}", kind.to_lowercase()))
}

fn immutable(object: &Object) -> bool {
    object.0.get("immutable").and_then(Value::as_bool) == Some(true)
}

fn owned(pod: &Object, replica_set: &str) -> bool {
    !pod.terminating() && pod.controller().is_some_and(|owner| owner.uid == replica_set)
}

/// The ready Pods of a ReplicaSet, the newest first.
pub fn healthy<'a>(pods: &'a [Object], replica_set: &str) -> Vec<&'a Object> {
    let mut healthy: Vec<&Object> = pods.iter().filter(|p| owned(p, replica_set) && PodState::of(p).ready).collect();
    healthy.sort_by_key(|p| std::cmp::Reverse((p.created(), p.name().to_string())));
    healthy
}

/// What the template names and the Pod does not: admission rewrote it. What a Pod names beside that was added at admission,
/// and is no matter.
pub fn unnamed(template: &Value, pod: &Object) -> Vec<String> {
    let names = references::extract(&pod.0);
    let wanted = references::extract(template).references;
    let missing = wanted.iter().filter(|r| names.get(r.kind, &r.name).is_none());
    missing.map(|r| lower(&id(r))).collect()
}

/// Of the objects that the template names, those whose content a Pod created then cannot be held to: mutable, and written
/// so short before it that its kubelet may have read the state before.
pub fn not_provable(named: &Named, pod: &Object) -> Vec<String> {
    let fresh = |object: &Object| !immutable(object) && evidence::too_fresh(object, pod.created()).is_some();
    let mutable = named.iter().filter(|(id, object)| id.starts_with(&Kind::ConfigMap.to_string()) && fresh(object));
    mutable.map(|(id, _)| lower(id)).collect()
}

/// What a new Pod reads as it is today, against what the revision's containers read: what is known to differ, and what is
/// not known to be the same. Only what `template` still names counts.
pub fn against(target: &Judged, template: &Value) -> (Vec<String>, Vec<String>) {
    let named = references::extract(template);
    let (mut differs, mut unknown) = (Vec::new(), Vec::new());
    for judgement in &target.references {
        let reference = &judgement.reference;
        if named.get(reference.kind, &reference.name).is_none() {
            continue;
        }
        let words = format!("{} ({})", lower(&id(reference)), judgement.verdict.screen());
        match judgement.verdict {
            Verdict::Same | Verdict::LikelySame | Verdict::Refreshed | Verdict::OptionalAbsent => {}
            Verdict::Changed | Verdict::Mixed | Verdict::Missing | Verdict::KeyMissing => differs.push(words),
            _ => unknown.push(words),
        }
    }
    (differs, unknown)
}
