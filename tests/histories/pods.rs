//! What each container truly read.

use super::ledger::{Ledger, State};
use super::uses::{Taken, Use};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// How far a played Pod is. A real one is `Bound` until its containers have told what they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Created,
    Bound,
    /// Volumes are filled and init containers have run.
    Mounted,
    /// The containers have read and run; the API does not know yet.
    Started,
    Reported,
}

/// What one use of one container took at one start.
#[derive(Clone, Debug)]
pub struct Read {
    pub used: Use,
    pub taken: Taken,
    /// The object's uid, where it is known.
    pub uid: Option<String>,
    pub at: Timestamp,
}

pub struct Pod {
    pub name: String,
    /// The uid of its controller at its birth, and now.
    pub set: String,
    pub owner: String,
    /// The ReplicaSet's controller made it from the template.
    pub witness: bool,
    pub created: Timestamp,
    pub uses: Vec<Use>,
    pub phase: Phase,
    /// Of the containers' present runs.
    pub reads: Vec<Read>,
    /// The Pod as the kubelet held it when it acted.
    pub held: Value,
    pub started: Option<Timestamp>,
    /// Changes with everything that happens to the Pod; `changed`: when that was seen.
    pub version: String,
    pub changed: Timestamp,
    pub restarts: BTreeMap<String, u64>,
}

impl Pod {
    pub fn names(&self, config: &str) -> bool {
        self.uses.iter().any(|used| used.config == config)
    }

    /// Made from the template, and still its ReplicaSet's.
    pub fn testifies(&self) -> bool {
        self.witness && self.owner == self.set
    }

    /// Everything that its containers hold or may have seen since: a mounted directory follows the object.
    pub fn reads_until_now(&self, ledger: &Ledger) -> Vec<Read> {
        let mut all = self.reads.clone();
        for read in self.reads.iter().filter(|read| read.used.how.refreshed()) {
            let states = ledger.states_since(&read.used.config, read.at);
            let take = |state: &State| read.used.take(Some(&state.bytes));
            // The moment is a lower bound: what went before the state that was read was never in the directory.
            let from = states.iter().position(|state| take(state).as_ref() == Ok(&read.taken)).unwrap_or(0);
            for state in &states[from..] {
                if let Ok(taken) = take(state) {
                    all.push(Read { taken, uid: Some(state.uid.clone()), ..read.clone() });
                }
            }
        }
        all
    }

    /// The start of one container, or of all init containers and volumes (`None`); the error is what is waited for.
    pub fn read(
        &self,
        ledger: &Ledger,
        late: SignedDuration,
        wanted: impl Fn(&Use) -> bool,
    ) -> Result<Vec<Read>, String> {
        let mut reads = Vec::new();
        for used in self.uses.iter().filter(|used| wanted(used)) {
            let state = ledger.seen(&used.config, late);
            let taken = used.take(state.map(|state| &state.bytes))?;
            let uid = state.map(|state| state.uid.clone());
            reads.push(Read { used: used.clone(), taken, uid, at: Timestamp::now() });
        }
        Ok(reads)
    }
}

/// A ReplicaSet of the workload.
pub struct Set {
    pub uses: Vec<Use>,
    pub created: Timestamp,
    /// What any Pod that its controller made ever read.
    pub life: Vec<Read>,
    /// A Pod of it went before it could tell.
    pub silent: bool,
    pub edited: bool,
}
