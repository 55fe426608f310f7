//! What was read from the cluster, or from a dump, for one workload: the input of every verdict.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::core::object::Object;
use crate::core::record::Records;
use crate::core::references::Kind;

/// The answer for one name.
#[derive(Clone, Debug)]
pub enum Lookup {
    Found(Object),
    Absent,
    /// Refused or failed; the server's words. Not the same as absent (kubernetes/kubernetes#39981).
    Unreadable(String),
}

/// May numbers (resourceVersions) of this type be compared with those of ConfigMaps, or of Secrets?
///
/// True only after the domain check, per pair, never remembered between runs: LIST ConfigMaps, LIST the other type,
/// LIST ConfigMaps again, with numbers a ≤ b ≤ c. Types may live in an etcd of their own (`--etcd-servers-overrides`),
/// and there a number of one says nothing about the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Domain {
    pub pods: bool,
    pub replica_sets: bool,
    pub events: bool,
}

impl Domain {
    /// The check itself. `first` and `last` are the numbers of the two LISTs of the content type; the others those of
    /// the LISTs in between. A missing number (not an integer, forbidden, failed) turns the pair off.
    pub fn check(first: Option<u64>, between: [Option<u64>; 3], last: Option<u64>) -> Domain {
        Domain::of(between.map(|number| ordered(first, number, last)))
    }

    /// The same from the other side, where the content type may only be read by name: LISTs of the other types before
    /// and after those of the contents, whose lowest and highest numbers are given.
    pub fn check_around(before: [Option<u64>; 3], contents: Option<(u64, u64)>, after: [Option<u64>; 3]) -> Domain {
        let (lowest, highest) = contents.unzip();
        let both = |i: usize| ordered(before[i], lowest, after[i]) && ordered(before[i], highest, after[i]);
        Domain::of([both(0), both(1), both(2)])
    }

    fn of([pods, replica_sets, events]: [bool; 3]) -> Domain {
        Domain { pods, replica_sets, events }
    }
}

fn ordered(a: Option<u64>, b: Option<u64>, c: Option<u64>) -> bool {
    matches!((a, b, c), (Some(a), Some(b), Some(c)) if a <= b && b <= c)
}

/// A list is sound only if no object in it is newer than the list itself: after a restored etcd one may be.
pub fn numbers_are_sound(list: Option<u64>, items: &[Object]) -> bool {
    list.is_some_and(|number| items.iter().all(|o| o.version().is_some_and(|v| v <= number)))
}

/// Where an older version was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// API time travel: LIST with `resourceVersionMatch=Exact`, facts from etcd's history.
    TimeTravel,
    /// An older copy in the dump.
    Dump,
    /// The `last-applied-configuration` annotation.
    LastApplied,
    /// A file that the person gave.
    File,
    /// Today's object.
    Live,
    /// A snapshot of ours that a record names.
    Snapshot,
}

impl Origin {
    pub fn word(self) -> &'static str {
        match self {
            Origin::TimeTravel => "time-travel",
            Origin::Dump => "dump",
            Origin::LastApplied => "last-applied",
            Origin::File => "file",
            Origin::Live => "live",
            Origin::Snapshot => "snapshot",
        }
    }
}

/// A version that an object had: from its own number until (not including) the next write, where that is known.
#[derive(Clone, Debug)]
pub struct Version {
    pub object: Object,
    pub until: Option<u64>,
    /// When the next write was *seen*, for the reader's eyes.
    pub until_time: Option<Timestamp>,
    pub origin: Origin,
}

/// Why a walk back through the API's history ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PastEnd {
    /// Not needed: no verdict depended on it.
    NotLooked,
    /// The walk went as far as was useful.
    Enough,
    /// The object did not exist before.
    Beginning,
    /// 410: compacted, the server keeps five to ten minutes.
    Expired,
    /// The limit of 50 versions or 2 seconds was met.
    Limit,
    /// Refused or failed; the words.
    Failed(String),
}

/// Older versions of one object, newest first.
#[derive(Clone, Debug)]
pub struct Past {
    pub versions: Vec<Version>,
    pub end: PastEnd,
}

impl Default for Past {
    fn default() -> Self {
        Past { versions: Vec::new(), end: PastEnd::NotLooked }
    }
}

pub type Key = (Kind, String);

#[derive(Clone, Debug)]
pub struct Observed {
    /// Only for ages on the screen, never for a verdict.
    pub now: Timestamp,
    pub server: String,
    pub context: String,
    pub workload: Object,
    pub replica_sets: Vec<Object>,
    /// Every Pod of the namespace: the namesake check asks all of them.
    pub pods: Result<Vec<Object>, String>,
    /// Events about Pods.
    pub events: Result<Vec<Object>, String>,
    pub objects: BTreeMap<Key, Lookup>,
    /// The number at which contents were read.
    pub list_number: Option<u64>,
    pub config_maps: Domain,
    pub secrets: Domain,
    pub past: BTreeMap<Key, Past>,
    /// Of all workloads of the namespace: one that dates an object helps all of them.
    pub records: Result<Records, String>,
    /// Snapshots that records name, by the ConfigMap whose content they hold.
    pub snapshots: BTreeMap<String, Vec<Object>>,
    /// Pod time travel: Pod uid → number of its created version, a lower bound of everything its containers read.
    pub pod_births: BTreeMap<String, u64>,
}

impl Observed {
    pub fn domain(&self, kind: Kind) -> Domain {
        match kind {
            Kind::ConfigMap => self.config_maps,
            Kind::Secret => self.secrets,
        }
    }

    pub fn all_pods(&self) -> &[Object] {
        self.pods.as_deref().unwrap_or_default()
    }

    pub fn all_events(&self) -> &[Object] {
        self.events.as_deref().unwrap_or_default()
    }
}
