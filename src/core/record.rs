//! Records: what the containers of one revision read, written down while it can still be known.
//!
//! A record is an immutable ConfigMap, and all of it is in `data`: metadata stays writable. It is proof later because
//! of what its writer had seen; see "Records" in ARCHITECTURE.md. It says three things of a reference:
//!
//! - `live`: at the moment of the record the object had this uid and resourceVersion. While it still has them, nothing
//!   was written since, so everything that started later, of whatever workload, read what is there today.
//! - `read`: what the containers of the revision had read by then, and how well that was known. It holds for the Pods
//!   that are listed, with so many restarts, and for a whole revision that was over.
//! - `saved`: snapshots that were taken with it and are not known to hold what was read.
//!
//! # Caveats
//!
//! Whoever may create ConfigMaps can forge one, as whoever may create Events can forge those. The name is a hash of the
//! data, so an edit shows.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::core::history::{self, History, Revision};
use crate::core::object::Object;
use crate::core::reads::Span;
use crate::core::recovery::Grade;
use crate::core::references::{Kind, Read, Use};
use crate::core::snapshot::{self, MANAGED_BY};

pub const KIND: (&str, &str) = ("saferollback.dev/kind", "record");
/// The one member of `data`.
const MEMBER: &str = "record";
const FORMAT: &str = "saferollback.dev/record/v1";

/// What a record states; the JSON of its one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub format: String,
    pub workload: Named,
    pub revision: RecordedRevision,
    /// The Pods it speaks of; none where it speaks of a revision that was over.
    pub pods: Vec<RecordedPod>,
    pub references: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRevision {
    pub number: u64,
    /// Of its ReplicaSet.
    pub uid: String,
    /// [`history::template_digest`]: a ReplicaSet's template can be edited.
    pub template: String,
    /// It was retired without Pods, and the entries speak of all that it ever read.
    pub over: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPod {
    pub uid: String,
    /// Restarts of each container that had reported a start.
    pub restarts: BTreeMap<String, i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// `ConfigMap` or `Secret`.
    pub kind: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Held>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<ReadLine>,
    /// Snapshots that were saved with it and are not known to hold what was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saved: Vec<String>,
}

impl Entry {
    fn snapshots(&self) -> impl Iterator<Item = &str> {
        let read = self.read.as_ref().and_then(|read| read.snapshot.as_deref());
        read.into_iter().chain(self.saved.iter().map(String::as_str))
    }
}

/// One version of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    pub uid: String,
    pub resource_version: String,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadLine {
    /// `proof` or `likely`.
    pub grade: String,
    /// How it was known: a source of evidence.
    pub by: String,
    /// The version that was read, where it was one of the live object's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Of the whole content, as a snapshot holds it. Like the next two, never there for a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Of what all uses take in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed: Option<String>,
    /// Of what each use takes in, by [`use_id`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub taken: BTreeMap<String, String>,
    /// The snapshot that holds the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
}

/// A use's name within its template: pointer, container and kind of read are unique together.
pub fn use_id(used: &Use) -> String {
    format!("{} {} {}", used.pointer, used.container.as_deref().unwrap_or(""), used.read.word())
}

/// Why an object that is labelled as a record is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("it is not immutable")]
    Mutable,
    #[error("its data is not what its name was made from: it was edited or copied")]
    Edited,
    #[error("its format {0:?} is not known to this version")]
    Format(String),
    #[error("it cannot be read: {0}")]
    Malformed(String),
}

impl Record {
    pub fn new(workload: &Object, revision: &Revision, over: bool) -> Record {
        Record {
            format: FORMAT.into(),
            workload: Named {
                kind: workload.kind().to_string(),
                name: workload.name().to_string(),
                uid: workload.uid().to_string(),
            },
            revision: RecordedRevision {
                number: revision.number,
                uid: revision.object.uid().to_string(),
                template: history::template_digest(&revision.template),
                over,
            },
            pods: Vec::new(),
            references: Vec::new(),
        }
    }

    /// Name and body of the ConfigMap. The same statement has the same name.
    pub fn body(&self, namespace: &str) -> (String, Value) {
        let text = serde_json::to_string(self).unwrap_or_default();
        let name = name(&self.workload.name, &text);
        let body = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": { MANAGED_BY.0: MANAGED_BY.1, KIND.0: KIND.1 },
            },
            "immutable": true,
            "data": { MEMBER: text },
        });
        (name, body)
    }

    /// # Errors
    /// See [`Unusable`].
    pub fn read(object: &Object) -> Result<Record, Unusable> {
        if object.0.get("immutable").and_then(Value::as_bool) != Some(true) {
            return Err(Unusable::Mutable);
        }
        let text = object.str_at("/data/record");
        let malformed = |error: serde_json::Error| Unusable::Malformed(error.to_string());
        let value: Value = serde_json::from_str(text).map_err(malformed)?;
        match value.get("format").and_then(Value::as_str) {
            Some(FORMAT) => {}
            other => return Err(Unusable::Format(other.unwrap_or("").to_string())),
        }
        let record: Record = serde_json::from_value(value).map_err(malformed)?;
        if object.name() != name(&record.workload.name, text) {
            return Err(Unusable::Edited);
        }
        Ok(record)
    }

    /// The names of the snapshots that hold what was read, or were saved with it.
    pub fn snapshots(&self) -> impl Iterator<Item = &str> {
        self.references.iter().flat_map(Entry::snapshots)
    }

    fn implies(&self, other: &Record) -> bool {
        let read = |mine: &Option<ReadLine>, theirs: &Option<ReadLine>| match (mine, theirs) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(mine), Some(theirs)) => {
                let known = |line: &ReadLine| ReadLine { grade: String::new(), by: String::new(), ..line.clone() };
                known(mine) == known(theirs) && mine.grade() >= theirs.grade()
            }
        };
        let stated = |theirs: &Entry| {
            self.references.iter().any(|mine| {
                (&mine.kind, &mine.name, &mine.live) == (&theirs.kind, &theirs.name, &theirs.live)
                    && read(&mine.read, &theirs.read)
                    && theirs.saved.iter().all(|saved| mine.snapshots().any(|s| s == saved))
            })
        };
        (&self.workload, &self.revision, &self.pods) == (&other.workload, &other.revision, &other.pods)
            && other.references.iter().all(stated)
    }

    fn entry(&self, kind: Kind, name: &str) -> Option<&Entry> {
        let kind = kind.to_string();
        self.references.iter().find(|e| e.kind == kind && e.name == name)
    }

    /// Does it speak of this revision? Former numbers do not matter: the ReplicaSet is the same.
    fn is_of(&self, revision: &Revision) -> bool {
        !self.revision.uid.is_empty() && self.revision.uid == revision.object.uid()
    }
}

/// `<workload>-sr-<hex digits of a hash of the data>`
pub fn name(workload: &str, text: &str) -> String {
    let hex: String = Sha256::digest(text.as_bytes()).iter().take(8).map(|b| format!("{b:02x}")).collect();
    snapshot::fit(workload, &hex)
}

/// A record that can be used, with the API server's stamp of its creation.
#[derive(Clone, Debug)]
struct Kept {
    name: String,
    created: Timestamp,
    record: Record,
    /// It speaks of a revision that is still there, with the template that it still has.
    current: bool,
}

/// All records of a namespace.
#[derive(Clone, Debug, Default)]
pub struct Records {
    kept: Vec<Kept>,
    /// `configmap/web-sr-…: it is not immutable`
    pub unusable: Vec<String>,
}

/// What a record says of one read.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub record: &'a str,
    pub grade: Grade,
    pub line: &'a ReadLine,
    /// It speaks of this very read. False where the container restarted since, or where reading goes on in files that are
    /// kept current: then it holds only while the version that was read is still there.
    pub exact: bool,
}

impl<'a> Claim<'a> {
    pub fn taken(&self, used: &Use) -> Option<&'a str> {
        self.line.taken.get(&use_id(used)).map(String::as_str)
    }

    /// Is the version that was read still there?
    pub fn unmoved(&self, object: &Object) -> bool {
        self.line.held.as_ref().is_some_and(|held| held.is(object))
    }
}

impl Held {
    pub fn of(object: &Object) -> Held {
        Held { uid: object.uid().to_string(), resource_version: object.str_at("/metadata/resourceVersion").to_string() }
    }

    pub fn is(&self, object: &Object) -> bool {
        !self.uid.is_empty() && *self == Held::of(object)
    }
}

impl Records {
    pub fn of(objects: &[Object]) -> Records {
        let mut records = Records::default();
        for object in objects.iter().filter(|o| !o.terminating()) {
            match (Record::read(object), object.created()) {
                (Ok(record), Some(created)) => {
                    records.kept.push(Kept { name: object.name().to_string(), created, record, current: false });
                }
                (Ok(_), None) => records.unusable.push(format!("configmap/{}: it has no creation time", object.name())),
                (Err(why), _) => records.unusable.push(format!("configmap/{}: {why}", object.name())),
            }
        }
        // The newest first: it knows at least as much.
        records.kept.sort_by(|a, b| (b.created, &b.name).cmp(&(a.created, &a.name)));
        records
    }

    /// A record from which on the object is known not to have been written, the oldest of them.
    pub fn unwritten_since(&self, kind: Kind, object: &Object) -> Option<(&str, Timestamp)> {
        let same = |k: &&Kept| {
            let entry = k.record.entry(kind, object.name());
            entry.and_then(|e| e.live.as_ref()).is_some_and(|held| held.is(object))
        };
        self.kept.iter().rev().find(same).map(|k| (k.name.as_str(), k.created))
    }

    /// What is recorded of one read; proof before likely. Two proofs that contradict each other are none.
    pub fn claim(&self, revision: &Revision, kind: Kind, name: &str, used: &Use, span: &Span) -> Option<Claim<'_>> {
        let mut found: Option<Claim<'_>> = None;
        for kept in self.kept.iter().filter(|k| k.current && k.record.is_of(revision)) {
            let Some(line) = kept.record.entry(kind, name).and_then(|e| e.read.as_ref()) else { continue };
            let Some((grade, exact)) = kept.record.covers(revision, used, span) else { continue };
            let claim = Claim { record: &kept.name, grade: grade.min(line.grade()), line, exact };
            let rank = |c: &Claim<'_>| (c.grade, c.exact);
            match &found {
                Some(known) if rank(known) == (Grade::Proof, true) && rank(&claim) == (Grade::Proof, true) => {
                    if known.taken(used) != claim.taken(used) {
                        return None;
                    }
                }
                Some(known) if rank(known) >= rank(&claim) => {}
                _ => found = Some(claim),
            }
        }
        found
    }

    /// Is all of it, or more, stated already, however that was known?
    pub fn states(&self, record: &Record) -> bool {
        self.kept.iter().any(|k| k.record.implies(record))
    }

    /// Is there one of this revision already?
    pub fn knows(&self, revision: &Revision) -> bool {
        self.kept.iter().any(|k| k.current && k.record.is_of(revision))
    }

    /// The snapshots that records of this history name: the source's name, and the snapshot's.
    pub fn snapshots(&self) -> Vec<(String, String)> {
        let entries = self.kept.iter().filter(|k| k.current).flat_map(|k| &k.record.references);
        let named = entries.flat_map(|e| e.snapshots().map(|snapshot| (e.name.clone(), snapshot.to_string())));
        let mut pairs: Vec<(String, String)> = named.collect();
        pairs.sort();
        pairs.dedup();
        pairs
    }

    /// Finds the records that speak of this history. One that knows another template of a revision tells that it was
    /// edited in place (ARCHITECTURE.md, rule 12); one of a deleted namesake of the workload tells nothing.
    pub fn match_to(&mut self, workload: &Object, history: &mut History) {
        for kept in &mut self.kept {
            let of = &kept.record.workload;
            if of.uid != workload.uid() {
                if of.name == workload.name() && of.kind == workload.kind() {
                    self.unusable.push(format!("configmap/{}: it speaks of another workload of that name", kept.name));
                }
                continue;
            }
            let Some(revision) = history.revisions.iter_mut().find(|r| kept.record.is_of(r)) else { continue };
            kept.current = kept.record.revision.template == history::template_digest(&revision.template);
            if !kept.current && revision.damaged.is_none() {
                revision.damaged = Some(format!("configmap/{} recorded another template of it", kept.name));
            }
        }
    }
}

impl Record {
    /// Does it speak of this read, and how surely? Of a revision whose Pods are gone since, it tells what they had read,
    /// and not what later ones of them did.
    fn covers(&self, revision: &Revision, used: &Use, span: &Span) -> Option<(Grade, bool)> {
        let refreshed = used.read == Read::RefreshedMount;
        let Some(uid) = &span.pod else {
            let over = self.revision.over && self.revision.number == revision.number && !revision.current;
            return Some(if over { (Grade::Proof, true) } else { (Grade::Likely, !refreshed) });
        };
        let pod = self.pods.iter().find(|p| p.uid == *uid)?;
        let as_then = match &used.container {
            Some(container) => *pod.restarts.get(container)? == span.restarts,
            None => true,
        };
        Some((Grade::Proof, as_then && !refreshed))
    }
}

impl ReadLine {
    fn grade(&self) -> Grade {
        match self.grade.as_str() {
            "proof" => Grade::Proof,
            "likely" => Grade::Likely,
            _ => Grade::None,
        }
    }
}
