//! What may be recorded of a revision, and which contents are worth saving with it.
//!
//! Today's bytes are never recorded as read by a container that started before the last write: that would be tomorrow's
//! forged proof. So a read is recorded as well as the verdict knows it, and not at all where it does not.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::core::digest::Content;
use crate::core::evidence;
use crate::core::history::Revision;
use crate::core::judged::Judged;
use crate::core::object::Object;
use crate::core::observed::{Key, Observed, Origin};
use crate::core::reads;
use crate::core::record::{self, Entry, Held, ReadLine, Record, RecordedPod};
use crate::core::recovery::{Candidate, Grade};
use crate::core::references::{self, Kind, Pinnable, Reference};
use crate::core::snapshot::{self, Snapshot};
use crate::core::verdict::{Judgement, Verdict};
use crate::core::witness::{self, Witnesses};

/// Versions without a known reader that are saved for one reference, the newest first.
const UNGRADED: usize = 10;

/// One content to be saved.
#[derive(Clone, Debug)]
pub struct Saving {
    pub revision: u64,
    /// `ConfigMap/settings`
    pub reference: String,
    pub origin: Origin,
    pub grade: Grade,
    pub snapshot: Snapshot,
}

/// The contents of one revision that can be found, and the record that goes with them.
#[derive(Clone, Debug)]
pub struct Recording {
    pub savings: Vec<Saving>,
    /// `None` where there is nothing to state.
    pub record: Option<Record>,
}

/// Of one judged revision.
pub fn of(seen: &Observed, judged: &Judged) -> Recording {
    let mut savings = Vec::new();
    let mut record = Record::new(&seen.workload, &judged.revision, is_over(seen, judged));
    record.pods = recorded_pods(&witness::witnesses(&judged.revision, seen.all_pods()));
    for judgement in &judged.references {
        let kept = savings_of(seen, judged, judgement);
        let read = read_line(judgement);
        let live = judgement.live.as_ref().map(Held::of);
        if live.is_some() || read.is_some() || !kept.is_empty() {
            let name = judgement.reference.name.clone();
            let kind = judgement.reference.kind.to_string();
            record.references.push(Entry { kind, name, live, read, saved: Vec::new() });
        }
        savings.extend(kept);
    }
    let states = !record.references.is_empty();
    Recording { savings, record: states.then_some(record) }
}

/// Puts the names of the snapshots that hold what was read into a record, once they are settled.
pub fn name_snapshots(record: &mut Record, savings: &[Saving]) {
    for entry in &mut record.references {
        let reference = format!("{}/{}", entry.kind, entry.name);
        let of_entry = savings.iter().filter(|s| s.revision == record.revision.number && s.reference == reference);
        if let Some(read) = &mut entry.read {
            let holds = |s: &&Saving| Some(s.snapshot.content.digest().to_string()) == read.digest;
            read.snapshot = of_entry.clone().find(holds).map(|s| s.snapshot.name.clone());
        }
        let read = entry.read.as_ref().and_then(|read| read.snapshot.clone());
        let others = of_entry.map(|s| s.snapshot.name.clone()).filter(|name| Some(name) != read.as_ref());
        entry.saved = others.collect();
    }
}

/// Retired, scaled to zero, and no Pod left: it reads no more.
fn is_over(seen: &Observed, judged: &Judged) -> bool {
    let revision = &judged.revision;
    let pods = seen.pods.as_ref().is_ok_and(|pods| witness::owned_pods(revision, pods).is_empty());
    !revision.current && pods && reads::at_zero(&revision.object)
}

/// The witnesses, with the starts that their containers have reported.
fn recorded_pods(witnesses: &Witnesses<'_>) -> Vec<RecordedPod> {
    let pods = witnesses.witnesses.iter().map(|w| w.pod);
    let pods = pods.map(|pod| RecordedPod { uid: pod.uid().to_string(), restarts: reads::restarts(pod) });
    let mut pods: Vec<RecordedPod> = pods.filter(|p| !p.restarts.is_empty()).collect();
    pods.sort_by(|a, b| a.uid.cmp(&b.uid));
    pods
}

/// What an undo that pinned may record after its last new Pod started: the sandwich. `kept` are the versions that were
/// there right before the patch; one that is still there was read by every Pod in between. `objects` are read after it. Where
/// the patch brought an older ReplicaSet back, some Pods may be older than it, so nothing is `kept`.
pub fn after_undo(
    workload: &Object,
    revision: &Revision,
    pods: &[Object],
    kept: &BTreeMap<String, Held>,
    objects: &BTreeMap<Key, Object>,
) -> Option<Record> {
    let witnesses = witness::witnesses(revision, pods);
    if witnesses.rewritten.is_some() {
        return None;
    }
    let mut record = Record::new(workload, revision, false);
    record.pods = recorded_pods(&witnesses);
    for reference in &references::extract(&revision.template).references {
        let Some(object) = objects.get(&(reference.kind, reference.name.clone())) else { continue };
        let content = match reference.kind {
            Kind::ConfigMap => Some(Content::from_object(object).ok()?),
            Kind::Secret => None,
        };
        let name = format!("{}/{}", reference.kind, reference.name);
        // A snapshot's name says what was read, whenever its Pod started.
        let pinned = content.as_ref().is_some_and(|c| snapshot::names(&reference.name, c))
            && object.0.get("immutable").and_then(Value::as_bool) == Some(true);
        let unmoved = kept.get(&name).is_some_and(|held| held.is(object))
            && witnesses.witnesses.iter().all(|w| evidence::too_fresh(object, w.pod.created()).is_none());
        let proven = |content: Option<&Content>| ReadLine {
            held: Some(Held::of(object)),
            ..line(reference, content, Grade::Proof, "undo")
        };
        let read = (pinned || unmoved)
            .then(|| proven(content.as_ref()))
            .map(|line| ReadLine { snapshot: pinned.then(|| reference.name.clone()), ..line });
        let kind = reference.kind.to_string();
        let name = reference.name.clone();
        record.references.push(Entry { kind, name, live: Some(Held::of(object)), read, saved: Vec::new() });
    }
    (!record.references.is_empty() && !record.pods.is_empty()).then_some(record)
}

/// What is known of what was read.
fn read_line(judgement: &Judgement) -> Option<ReadLine> {
    let live = judgement.live.as_ref();
    let fact = |word: &str| judgement.facts.iter().find(|f| f.says == word).map_or("", |f| f.source);
    let as_it_is = |grade: Grade| {
        let line = ReadLine {
            held: live.map(Held::of),
            ..line(&judgement.reference, judgement.live_content.as_ref(), grade, fact(judgement.verdict.word()))
        };
        Some(line)
    };
    match judgement.verdict {
        // Same without a known read: a Pod has not reported its start yet.
        Verdict::Same if judgement.read.is_some() || judgement.reference.kind == Kind::Secret => as_it_is(Grade::Proof),
        Verdict::LikelySame => as_it_is(Grade::Likely),
        _ => {
            let best = judgement.candidates.first().filter(|c| c.grade > Grade::None)?;
            Some(line(&judgement.reference, Some(&best.content), best.grade, best.origin.word()))
        }
    }
}

/// A line without a version.
pub fn line(reference: &Reference, content: Option<&Content>, grade: Grade, by: &str) -> ReadLine {
    let taken = |content: &Content| -> BTreeMap<String, String> {
        reference.uses.iter().map(|used| (record::use_id(used), used.taken(content).to_string())).collect()
    };
    ReadLine {
        grade: grade.word().to_string(),
        by: by.to_string(),
        held: None,
        digest: content.map(|c| c.digest().to_string()),
        consumed: content.map(|c| reference.consumed(c).digest().to_string()),
        taken: content.map(taken).unwrap_or_default(),
        snapshot: None,
    }
}

/// The best content that is known; where none is known to have been read, what would be gone soon, and for the current
/// revision what is there today.
fn savings_of(seen: &Observed, judged: &Judged, judgement: &Judgement) -> Vec<Saving> {
    let reference = &judgement.reference;
    if reference.kind != Kind::ConfigMap || reference.pinnable() != Pinnable::Yes {
        return Vec::new();
    }
    let is_snapshot = |c: &&Candidate| snapshot::names(&reference.name, &c.content);
    let graded: Vec<&Candidate> = judgement.candidates.iter().take(1).filter(|c| c.grade > Grade::None).collect();
    let wanted: Vec<&Candidate> = match graded.is_empty() {
        false => graded,
        true => {
            let found = judgement.candidates.iter();
            let kept = found.filter(|c| match c.origin {
                Origin::TimeTravel | Origin::Dump => true,
                Origin::Live => judged.revision.current,
                _ => false,
            });
            kept.take(UNGRADED).collect()
        }
    };
    wanted
        .into_iter()
        // A reference that names its content is saved by what it names.
        .filter(|c| !is_snapshot(c))
        .map(|candidate| Saving {
            revision: judged.revision.number,
            reference: format!("{}/{}", reference.kind, reference.name),
            origin: candidate.origin,
            grade: candidate.grade,
            snapshot: snapshot::of(seen.workload.namespace(), &reference.name, candidate, snapshot::LENGTHS[0]),
        })
        .collect()
}
