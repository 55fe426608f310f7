//! What differs between two contents, key by key. Values go along only where they were asked for.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::core::digest::Content;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Removed,
    Changed,
    /// From `data` to `binaryData` or back, with the same bytes: the same file, another environment.
    Moved,
}

impl Change {
    pub fn word(self) -> &'static str {
        match self {
            Change::Added => "added",
            Change::Removed => "removed",
            Change::Changed => "changed",
            Change::Moved => "moved",
        }
    }
}

/// One key that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyChange {
    pub key: String,
    pub change: &'static str,
    /// The values, only with `--show-content`; of `binaryData` their size alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// All keys that differ, in byte order.
pub fn between(before: &Content, after: &Content, show: bool) -> Vec<KeyChange> {
    let keys = |c: &Content| c.data.keys().chain(c.binary.keys()).cloned().collect::<BTreeSet<String>>();
    let both: Vec<String> = keys(before).union(&keys(after)).cloned().collect();
    of(&both, before, after, show)
}

/// The given keys, as far as they differ.
pub fn of(keys: &[String], before: &Content, after: &Content, show: bool) -> Vec<KeyChange> {
    let value = |content: &Content, key: &str| match (content.data.get(key), content.binary.get(key)) {
        (Some(text), _) => Some(String::from_utf8_lossy(text).into_owned()),
        (None, Some(bytes)) => Some(format!("<{} bytes>", bytes.len())),
        (None, None) => None,
    };
    keys.iter()
        .filter_map(|key| {
            let change = change(key, before, after)?.word();
            let [before, after] = [before, after].map(|content| value(content, key).filter(|_| show));
            Some(KeyChange { key: key.clone(), change, before, after })
        })
        .collect()
}

fn change(key: &str, before: &Content, after: &Content) -> Option<Change> {
    let text = (before.data.get(key), after.data.get(key));
    let binary = (before.binary.get(key), after.binary.get(key));
    let whole = |data, binary| Option::or(data, binary);
    match (whole(text.0, binary.0), whole(text.1, binary.1)) {
        (None, None) => None,
        (None, Some(_)) => Some(Change::Added),
        (Some(_), None) => Some(Change::Removed),
        (Some(a), Some(b)) if a != b => Some(Change::Changed),
        (Some(_), Some(_)) if text.0.is_some() == text.1.is_some() => None,
        (Some(_), Some(_)) => Some(Change::Moved),
    }
}
