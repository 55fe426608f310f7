//! The truth about ConfigMaps, written down by who writes them, and what a kubelet makes of it: late by up to two
//! seconds (A2), and loyal to a deleted immutable object as long as a Pod of the node names it.

use super::uses::Bytes;
use jiff::{SignedDuration, Timestamp};
use saferollback::core::digest::Content;
use std::collections::BTreeMap;

/// A ConfigMap from one write to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub uid: String,
    pub version: String,
    pub created: Timestamp,
    pub bytes: Bytes,
    pub immutable: bool,
}

#[derive(Default)]
pub struct Ledger {
    log: BTreeMap<String, Vec<(Timestamp, Option<State>)>>,
    cache: BTreeMap<String, State>,
}

impl Ledger {
    /// The write has just been answered.
    pub fn wrote(&mut self, name: &str, state: Option<State>) {
        self.log.entry(name.to_owned()).or_default().push((Timestamp::now(), state));
    }

    pub fn live(&self, name: &str) -> Option<&State> {
        self.log.get(name)?.last()?.1.as_ref()
    }

    pub fn knows(&self, name: &str) -> bool {
        self.log.contains_key(name)
    }

    /// What a kubelet takes that is late by `late`.
    pub fn seen(&self, name: &str, late: SignedDuration) -> Option<&State> {
        if let Some(kept) = self.cache.get(name) {
            return Some(kept);
        }
        let moment = Timestamp::now() - late;
        let known = self.log.get(name)?.iter().rev().find(|(at, _)| *at <= moment)?;
        known.1.as_ref()
    }

    /// What a Pod that starts now ends up with: the object of today, unless the kubelet keeps a former one.
    pub fn next_read(&self, name: &str) -> Option<&State> {
        self.cache.get(name).or_else(|| self.live(name))
    }

    /// Every state from the one at `since` on.
    pub fn states_since(&self, name: &str, since: Timestamp) -> Vec<&State> {
        let log = self.log.get(name).map_or(&[][..], Vec::as_slice);
        let from = log.iter().rposition(|(at, _)| *at <= since).unwrap_or(0);
        log[from..].iter().filter_map(|(_, state)| state.as_ref()).collect()
    }

    pub fn states(&self, name: &str) -> impl Iterator<Item = &State> {
        self.log.get(name).into_iter().flatten().filter_map(|(_, state)| state.as_ref())
    }

    pub fn written_since(&self, name: &str, since: Timestamp) -> bool {
        self.log.get(name).is_some_and(|log| log.iter().any(|(at, _)| *at > since))
    }

    /// It is about to be deleted; `named`: a Pod that the kubelet has names it.
    pub fn deleted(&mut self, name: &str, named: bool) {
        if let Some(state) = self.live(name).filter(|state| state.immutable && named).cloned() {
            self.cache.entry(name.to_owned()).or_insert(state);
        }
        self.wrote(name, None);
    }

    /// The kubelet forgets what no Pod names any more.
    pub fn forget(&mut self, named: impl Fn(&str) -> bool) {
        self.cache.retain(|name, _| named(name));
    }

    pub fn keeps(&self, name: &str) -> bool {
        self.cache.contains_key(name)
    }
}

impl State {
    pub fn content(&self) -> Content {
        let data = self.bytes.data.iter().map(|(key, text)| (key.clone(), text.clone().into_bytes())).collect();
        Content { data, binary: self.bytes.binary.clone() }
    }
}
