//! Which of our snapshots and records nothing needs any more (ARCHITECTURE.md, rule 28).
//!
//! Everything that cannot be seen may use a snapshot, so what cannot be read keeps all of them. Snapshots are listed before
//! their users: one that gets a user meanwhile was touched for it, and the deletion's precondition fails.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::core::object::Object;
use crate::core::record::Record;
use crate::core::references::{self, Kind};
use crate::core::snapshot::{self, SOURCE};

/// Nothing younger, or written later than so long ago, is deleted: an undo that runs now may rely on it.
pub const YOUNG: SignedDuration = SignedDuration::from_hours(1);

/// What an object of ours is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ours {
    Snapshot,
    Record,
}

impl Ours {
    pub fn word(self) -> &'static str {
        match self {
            Ours::Snapshot => "snapshot",
            Ours::Record => "record",
        }
    }
}

/// A snapshot or record, and who needs it.
#[derive(Clone, Debug)]
pub struct Held {
    pub object: Object,
    pub ours: Ours,
    /// `configmap/settings`, or for a record `deployment/web`.
    pub source: String,
    /// Of records: the revision's number. Of snapshots: those of the records that name it.
    pub revisions: BTreeSet<u64>,
    /// `deployment/web`, `pod/x`: whoever names it, and for a snapshot `configmap/web-sr-…`, a record in use.
    pub users: BTreeSet<String>,
}

/// What may be done with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Goes,
    /// Why it stays.
    Stays(String),
}

/// The objects that name our snapshots, as they were listed after them.
pub struct Users {
    pub objects: Vec<Object>,
    /// Kinds that could not be listed, with the server's words; each may hide a user.
    pub unseen: Vec<String>,
}

/// All of ours, in order of kind, source and name.
pub fn held(ours: &[Object], users: &Users) -> Vec<Held> {
    let mut by_name: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut templates = BTreeSet::new();
    for user in &users.objects {
        templates.insert(user.uid());
        for pod in pod_objects(user) {
            for reference in references::extract(&pod).references.into_iter().filter(|r| r.kind == Kind::ConfigMap) {
                if let Some(object) = ours.iter().find(|o| o.name() == reference.name) {
                    by_name.entry(object.name()).or_default().insert(title(user));
                }
            }
        }
    }
    let records: Vec<(&Object, Record)> = ours
        .iter()
        .filter(|o| kind(o) == Some(Ours::Record))
        .filter_map(|o| Some((o, Record::read(o).ok()?)))
        .collect();
    let mut held: Vec<Held> = ours
        .iter()
        .filter_map(|object| {
            let ours = kind(object)?;
            let mut one = Held {
                object: object.clone(),
                ours,
                source: String::new(),
                revisions: BTreeSet::new(),
                users: by_name.remove(object.name()).unwrap_or_default(),
            };
            match ours {
                Ours::Snapshot => {
                    one.source = format!("configmap/{}", object.annotation(SOURCE).unwrap_or("<unknown>"));
                    for (record, stated) in records.iter().filter(|(_, r)| r.snapshots().any(|s| s == object.name())) {
                        one.revisions.insert(stated.revision.number);
                        if templates.contains(stated.revision.uid.as_str()) {
                            one.users.insert(format!("configmap/{}", record.name()));
                        }
                    }
                }
                Ours::Record => match records.iter().find(|(o, _)| o.name() == object.name()) {
                    Some((_, stated)) => {
                        let of = &stated.workload;
                        one.source = format!("{}/{}", of.kind.to_lowercase(), of.name);
                        one.revisions.insert(stated.revision.number);
                        if templates.contains(stated.revision.uid.as_str()) {
                            one.users.insert(one.source.clone());
                        }
                    }
                    None => one.source = "<unreadable>".into(),
                },
            }
            Some(one)
        })
        .collect();
    held.sort_by(|a, b| (a.ours, &a.source, a.object.name()).cmp(&(b.ours, &b.source, b.object.name())));
    held
}

/// `now` is the API server's time, never this machine's.
pub fn fate(held: &Held, users: &Users, now: Timestamp) -> Fate {
    let stays = |why: String| Fate::Stays(why);
    if let Some(unseen) = users.unseen.first() {
        return stays(format!("its users cannot be seen: {unseen}"));
    }
    if let Some(user) = held.users.first() {
        let more = held.users.len() - 1;
        let others = if more == 0 { String::new() } else { format!(" and {more} more") };
        return stays(format!("named by {user}{others}"));
    }
    if held.object.terminating() {
        return stays("it is being deleted".into());
    }
    // A touch by an undo is a write, and managedFields date it by the server's clock.
    let newest = held.object.created().into_iter().chain(held.object.last_seen_write()).max();
    match newest {
        Some(newest) if newest + YOUNG <= now => Fate::Goes,
        Some(_) => stays("made or used less than 1h ago".into()),
        None => stays("its age is not known".into()),
    }
}

fn kind(object: &Object) -> Option<Ours> {
    let label = |pair: (&str, &str)| object.label(pair.0) == Some(pair.1);
    match label(snapshot::MANAGED_BY) {
        true if label(snapshot::KIND) => Some(Ours::Snapshot),
        true if label(crate::core::record::KIND) => Some(Ours::Record),
        _ => None,
    }
}

/// Every Pod template in an object, whatever its kind, as something that references can be taken from.
fn pod_objects(user: &Object) -> Vec<Value> {
    let pointers = ["/spec/template", "/spec/jobTemplate/spec/template", "/data/spec/template", "/template"];
    match user.kind() {
        "Pod" => vec![user.0.clone()],
        _ => pointers.iter().filter_map(|p| user.0.pointer(p)).cloned().collect(),
    }
}

fn title(user: &Object) -> String {
    match (user.kind(), user.controller()) {
        ("ReplicaSet" | "ControllerRevision" | "Job", Some(owner)) => {
            format!("{}/{}", owner.kind.to_lowercase(), owner.name)
        }
        (kind, _) => format!("{}/{}", kind.to_lowercase(), user.name()),
    }
}
