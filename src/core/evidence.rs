//! The sources of evidence, each a pure function from objects to facts.
//!
//! The question behind all of them: what did the containers of a revision *read*, and is it what a replacement Pod
//! would read now? A read is bounded by numbers (resourceVersions) from below and above; an object whose own number
//! is below the lower bound was not written since. What may bound a read, and what only looks like it, is the
//! table "Evidence" of ARCHITECTURE.md.
//!
//! # Caveats
//!
//! Known and accepted: a key that is removed without a trace less than two seconds before the lower bound, met by a
//! kubelet that is late (A2), gives a false `same`. No API shows such a write's time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::core::content_name;
use crate::core::digest::Content;
use crate::core::history::History;
use crate::core::object::Object;
use crate::core::observed::{Key, Observed};
use crate::core::reads;
use crate::core::references::{self, Kind, References};
use crate::core::snapshot;

pub use crate::core::witness::{Witness, Witnesses, injected, owned_pods, witnesses};

/// Stamps have second resolution, and two servers' clocks may differ: order is claimed from this distance on.
pub const CLOCK_MARGIN: SignedDuration = SignedDuration::from_secs(2);
/// How much older than a Pod the immutable flag must be: A2's two seconds, and one that whole-second stamps hide.
pub const FLAG_MARGIN: SignedDuration = SignedDuration::from_secs(3);
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

/// Who names an object: a Pod of the namespace, or a revision of the workload.
struct User {
    what: String,
    created: Option<Timestamp>,
    /// Its containers' first known starts.
    starts: Vec<Timestamp>,
}

/// What was observed of one workload, with the indexes that all its judgements share: a namespace may hold thousands
/// of Pods and Events.
pub struct Case<'a> {
    pub seen: &'a Observed,
    pub history: &'a History,
    users: BTreeMap<Key, Vec<User>>,
    events_by_pod: BTreeMap<&'a str, Vec<&'a Object>>,
    /// By the Pod's name without its suffix, which is the ReplicaSet's name; the Pods themselves may be gone.
    events_by_set: BTreeMap<&'a str, Vec<&'a Object>>,
    unready_nodes: BTreeSet<&'a str>,
}

impl<'a> Case<'a> {
    pub fn new(seen: &'a Observed, history: &'a History) -> Case<'a> {
        let mut case = Case {
            seen,
            history,
            users: BTreeMap::new(),
            events_by_pod: BTreeMap::new(),
            events_by_set: BTreeMap::new(),
            unready_nodes: BTreeSet::new(),
        };
        for pod in seen.all_pods() {
            let (what, starts) = (format!("pod/{}", pod.name()), reads::starts(pod));
            let user = || User { what: what.clone(), created: pod.created(), starts: starts.clone() };
            case.add_users(&references::extract(&pod.0), user);
        }
        for revision in &history.revisions {
            let what = format!("revision {}", revision.number);
            let user = || User { what: what.clone(), created: revision.first_started, starts: Vec::new() };
            case.add_users(&references::extract(&revision.template), user);
        }
        for event in seen.all_events() {
            case.events_by_pod.entry(event.str_at("/involvedObject/uid")).or_default().push(event);
            let pod = event.str_at("/involvedObject/name");
            if let Some((set, suffix)) = pod.rsplit_once('-')
                && suffix.len() == 5
            {
                case.events_by_set.entry(set).or_default().push(event);
            }
        }
        for pod in seen.all_pods() {
            if case.events_of(pod.uid()).iter().any(|e| e.str_at("/reason") == "NodeNotReady") {
                case.unready_nodes.insert(pod.str_at("/spec/nodeName"));
            }
        }
        case
    }

    fn add_users(&mut self, named: &References, user: impl Fn() -> User) {
        for reference in &named.references {
            self.users.entry((reference.kind, reference.name.clone())).or_default().push(user());
        }
    }

    /// Events about the Pod with this uid.
    pub fn events_of(&self, pod: &str) -> &[&'a Object] {
        self.events_by_pod.get(pod).map_or(&[], Vec::as_slice)
    }

    /// Events about Pods that bear the ReplicaSet's name.
    pub fn events_of_set(&self, name: &str) -> &[&'a Object] {
        self.events_by_set.get(name).map_or(&[], Vec::as_slice)
    }

    /// The Pod's node was reported NotReady within the Events' reach.
    pub fn node_was_unready(&self, pod: &Object) -> bool {
        self.unready_nodes.contains(pod.str_at("/spec/nodeName"))
    }

    /// ARCHITECTURE.md, rule 5: how the object's age stands to everything that names it.
    pub fn namesake(&self, kind: Kind, object: &Object) -> Namesake {
        let Some(created) = object.created() else { return Namesake::Close };
        // Pods that may not be read may be older; the revisions can still tell that it is younger.
        let mut standing = if self.seen.pods.is_ok() { Namesake::Clear } else { Namesake::Close };
        for user in self.users.get(&(kind, object.name().to_string())).into_iter().flatten() {
            match user.created {
                Some(stamp) if created > stamp => {
                    // Rule 15: a Pod that waited for the object read this one. Its containers' starts tell.
                    let late = user.starts.iter().all(|s| *s >= created);
                    // A Pod that read the former one decides over one that waited.
                    if !matches!(&standing, Namesake::Younger { .. }) || !late {
                        standing = Namesake::Younger { than: user.what.clone(), late };
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
}

/// How an object's age stands to everything that names it: a kubelet keeps a deleted immutable object as long as any
/// Pod of the node names it, and serves it for a re-created namesake, even to new workloads
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

/// ARCHITECTURE.md, rule 7: immutable counts from the managedFields entry that owns `f:immutable`, not from creation;
/// of several owners the earliest; none (wiped): no proof. Never from before creation: a copy from a backup brings
/// its entries along. For Secrets the flag's value is not in metadata, so there is none.
pub fn immutable_since(object: &Object) -> Option<Timestamp> {
    if object.0.get("immutable").and_then(Value::as_bool) != Some(true) {
        return None;
    }
    let flagged = object.field_owners().filter(|e| e.owns(&["f:immutable"])).map(|e| e.time).min().flatten()?;
    Some(flagged.max(object.created()?))
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

/// ARCHITECTURE.md, rule 9 (A2): was the object created or seen written so short before `born` that a kubelet may have
/// read the state before? Wiped managedFields hide such a write.
pub fn too_fresh(object: &Object, born: Option<Timestamp>) -> Option<&'static str> {
    let Some(born) = born else { return Some("the Pod's creation time is not known") };
    let Some(created) = object.created() else { return Some("its creation time is not known") };
    if write_sign(object).is_none() {
        return Some("its managedFields do not say when it was last written");
    }
    match object.last_seen_write().into_iter().chain([created]).max() {
        Some(newest) if newest + AGE_MARGIN <= born => None,
        Some(newest) if newest > born => Some("written after the Pod was created, by its managedFields"),
        _ => Some("written less than 10s before the Pod was created"),
    }
}
