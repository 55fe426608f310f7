//! What may be pinned, kept or refused, one reference at a time.

use std::collections::BTreeMap;

use crate::core::recovery::{Candidate, Grade};
use crate::core::references::{Kind, Pinnable};
use crate::core::snapshot;
use crate::core::verdict::{Judgement, Verdict};

/// `--config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Config {
    /// Keep what is the same, pin what is recovered, refuse the rest.
    #[default]
    Auto,
    /// Pin every ConfigMap reference that may be pinned.
    Pin,
    /// New Pods read the live objects as they are, like `kubectl rollout undo`.
    Live,
}

/// What a person gave with `--use NAME=…`.
#[derive(Clone, Debug)]
pub enum Given {
    /// The content of a file.
    File(Box<Candidate>),
    /// One of the candidates, by the beginning of its digest.
    Digest(String),
    /// The one that the snapshot of this name holds.
    Snapshot(String),
}

#[derive(Clone, Debug)]
pub struct Rules {
    pub config: Config,
    /// `--require`: [`Grade::Likely`] by default, [`Grade::Proof`] is stricter.
    pub require: Grade,
    pub given: BTreeMap<String, Given>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { config: Config::Auto, require: Grade::Likely, given: BTreeMap::new() }
    }
}

/// Why an undo is refused: a closed list, part of the report's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    ContentNotFound,
    ContentNotProven,
    GivenNotFound,
    SecretNotPinned,
    BundleNotPinned,
    Injected,
    Missing,
    KeyMissing,
    Unreadable,
    Paused,
    Terminating,
    Managed,
    DryRunDenied,
    Downtime,
    EvictionDenied,
    NoWayBack,
}

impl Code {
    pub fn word(self) -> &'static str {
        match self {
            Code::ContentNotFound => "content-not-found",
            Code::ContentNotProven => "content-not-proven",
            Code::GivenNotFound => "given-not-found",
            Code::SecretNotPinned => "secret-not-pinned",
            Code::BundleNotPinned => "bundle-not-pinned",
            Code::Injected => "injected",
            Code::Missing => "missing",
            Code::KeyMissing => "key-missing",
            Code::Unreadable => "unreadable",
            Code::Paused => "paused",
            Code::Terminating => "terminating",
            Code::Managed => "managed",
            Code::DryRunDenied => "dry-run-denied",
            Code::Downtime => "downtime",
            Code::EvictionDenied => "eviction-denied",
            Code::NoWayBack => "no-way-back",
        }
    }
}

#[derive(Clone, Debug)]
pub enum Action {
    Keep,
    Pin(Box<Candidate>),
    Refuse(Code),
}

impl Action {
    pub fn word(&self) -> &'static str {
        match self {
            Action::Keep => "keep",
            Action::Pin(_) => "pin",
            Action::Refuse(_) => "refuse",
        }
    }
}

/// What is done about one reference, and how well it is known that a new Pod then reads what the revision read.
#[derive(Clone, Debug)]
pub struct Decision {
    pub action: Action,
    pub grade: Grade,
}

/// How well `keep` would do.
pub fn kept_grade(verdict: Verdict) -> Grade {
    match verdict {
        Verdict::Same | Verdict::OptionalAbsent => Grade::Proof,
        Verdict::LikelySame => Grade::Likely,
        _ => Grade::None,
    }
}

/// `starts`: will new Pods of the template start?
pub fn decide(judgement: &Judgement, rules: &Rules, starts: bool) -> Decision {
    let verdict = judgement.verdict;
    let keep = Decision { action: Action::Keep, grade: kept_grade(verdict) };
    let refuse = |code| Decision { action: Action::Refuse(code), grade: Grade::None };
    let pin = |candidate: &Candidate| {
        if !judgement.reference.missing_keys(&candidate.content).is_empty() {
            return refuse(Code::KeyMissing);
        }
        Decision { grade: candidate.grade, action: Action::Pin(Box::new(candidate.clone())) }
    };
    if rules.config == Config::Live {
        return match verdict {
            Verdict::Missing if starts => refuse(Code::Missing),
            Verdict::KeyMissing if starts => refuse(Code::KeyMissing),
            _ => keep,
        };
    }
    let never = never_pinned(judgement);
    match rules.given.get(&judgement.reference.name) {
        Some(_) if never.is_some() => {}
        Some(Given::File(candidate)) => return pin(candidate),
        Some(given @ (Given::Digest(_) | Given::Snapshot(_))) => {
            let mut found = judgement.candidates.iter().filter(|c| match given {
                Given::Snapshot(name) => snapshot::names(name, &c.content),
                Given::Digest(digest) => matches(&c.digest.to_string(), digest),
                Given::File(_) => false,
            });
            return match (found.next(), found.next()) {
                (Some(one), None) => pin(one),
                _ => refuse(Code::GivenNotFound),
            };
        }
        None => {}
    }
    let good_as_it_is = keep.grade >= rules.require;
    if let Some(code) = never {
        return match verdict {
            Verdict::Missing => refuse(Code::Missing),
            Verdict::KeyMissing => refuse(Code::KeyMissing),
            Verdict::Unreadable => refuse(Code::Unreadable),
            // A CA bundle is meant to move: keeping it is right whatever it held.
            _ if good_as_it_is || code == Code::BundleNotPinned => keep,
            _ => refuse(code),
        };
    }
    if good_as_it_is && (rules.config == Config::Auto || verdict == Verdict::OptionalAbsent) {
        return keep;
    }
    match judgement.candidates.first() {
        Some(best) if best.grade >= rules.require => pin(best),
        _ if verdict == Verdict::Unreadable => refuse(Code::Unreadable),
        Some(best) if best.grade > Grade::None => refuse(Code::ContentNotProven),
        _ if keep.grade > Grade::None => refuse(Code::ContentNotProven),
        _ => refuse(Code::ContentNotFound),
    }
}

/// Secrets, CA bundles and what admission puts in are never pinned.
fn never_pinned(judgement: &Judgement) -> Option<Code> {
    if judgement.injected {
        return Some(Code::Injected);
    }
    let bundle = judgement.live.as_ref().is_some_and(crate::core::references::injected_trust_bundle);
    match (judgement.reference.kind, judgement.reference.pinnable()) {
        (Kind::Secret, _) => Some(Code::SecretNotPinned),
        (_, Pinnable::TrustBundle) => Some(Code::BundleNotPinned),
        (Kind::ConfigMap, _) if bundle => Some(Code::BundleNotPinned),
        _ => None,
    }
}

/// Does a snapshot of `source` with this name hold what was given?
pub fn binds(given: &Given, source: &str, name: &str) -> bool {
    match given {
        Given::File(candidate) => snapshot::is_of(name, source) && snapshot::names(name, &candidate.content),
        Given::Snapshot(given) => name == given,
        Given::Digest(digest) => {
            let held = name.rsplit_once("-sr-").map_or(String::new(), |(_, hex)| format!("sr1:{hex}"));
            let both = held.len().min(digest.trim_end_matches("...").len());
            matches(&held, digest.get(..both).unwrap_or(digest))
        }
    }
}

/// At least eight digits of a digest, which may end in an ellipsis.
fn matches(digest: &str, given: &str) -> bool {
    let given = given.trim_end_matches("...");
    given.len() >= 12 && digest.starts_with(given)
}
