//! Two revisions, or one and today, compared: their templates field by field, what they name key by key.
//!
//! A side is what the revision's containers *read*, as far as that is known, or what a new Pod would read now. What is not
//! known is said and never counts as equal or as different.
//!
//! # Caveats
//!
//! Secrets are read as metadata only: of them it can be known that they were not written, never what differs.

use serde::Serialize;
use serde_json::Value;

use crate::core::changes::{self, KeyChange};
use crate::core::digest::Content;
use crate::core::judged::Judged;
use crate::core::pin;
use crate::core::recovery::Grade;
use crate::core::references::{self, Kind, Reference, token};
use crate::core::snapshot;
use crate::core::verdict::{Judgement, Verdict};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Same,
    Different,
    Unknown,
}

impl Answer {
    pub fn word(self) -> &'static str {
        match self {
            Answer::Same => "same",
            Answer::Different => "different",
            Answer::Unknown => "unknown",
        }
    }
}

/// The right side of a comparison.
#[derive(Clone, Copy, Debug)]
pub enum To<'a> {
    /// The live template, and the objects as they are.
    Now(&'a Value),
    Revision(&'a Judged),
}

/// The outcome of a document of kind `Diff`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    pub from: u64,
    /// Null: today.
    pub to: Option<u64>,
    pub template: Vec<FieldChange>,
    pub contents: Vec<Compared>,
    pub exit_code: u8,
}

/// One field of the template. Values of environment variables only with `--show-content`.
#[derive(Clone, Debug, Serialize)]
pub struct FieldChange {
    pub pointer: String,
    /// Absent: the field is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// One object that a template names.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    pub reference: String,
    /// What the other side names in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
    pub answer: &'static str,
    /// How well what the revisions read is known.
    pub grade: &'static str,
    pub changes: Vec<KeyChange>,
    pub because: String,
}

/// `because`: half a sentence about a verdict.
pub fn diff(from: &Judged, to: To<'_>, show: bool, because: impl Fn(&Judgement) -> String) -> Diff {
    let (template, contents) = match to {
        To::Now(template) => (template, with_today(from, template, show, because)),
        To::Revision(other) => (&other.revision.template, with_revision(from, other, show)),
    };
    let template = fields(&from.revision.template, template, show);
    let any = |answer| contents.iter().any(|(a, _)| *a == answer);
    let exit_code = match (template.is_empty() && !any(Answer::Different), any(Answer::Unknown)) {
        (false, _) => 1,
        (true, true) => 3,
        (true, false) => 0,
    };
    Diff {
        from: from.revision.number,
        to: match to {
            To::Now(_) => None,
            To::Revision(other) => Some(other.revision.number),
        },
        template,
        contents: contents.into_iter().map(|(_, compared)| compared).collect(),
        exit_code,
    }
}

fn with_today(
    from: &Judged,
    template: &Value,
    show: bool,
    because: impl Fn(&Judgement) -> String,
) -> Vec<(Answer, Compared)> {
    let number = from.revision.number;
    let named =
        |r: &Reference| from.references.iter().any(|j| (j.reference.kind, &j.reference.name) == (r.kind, &r.name));
    let live = references::extract(template).references;
    let only = |reference: &Reference| {
        compared(reference, Answer::Different, Grade::Proof, "only the live template names it".into())
    };
    let added = live.iter().filter(|r| !named(r)).map(only);
    from.references.iter().map(|judgement| one_with_today(judgement, number, show, &because)).chain(added).collect()
}

fn with_revision(from: &Judged, to: &Judged, show: bool) -> Vec<(Answer, Compared)> {
    let mut rest: Vec<&Judgement> = to.references.iter().collect();
    let twins: Vec<_> = from.references.iter().map(|j| (j, take(&mut rest, |other| same_object(j, other)))).collect();
    let mut found = Vec::new();
    for (judgement, twin) in twins {
        found.push(match twin.or_else(|| take(&mut rest, |other| stands_for(judgement, other))) {
            Some(twin) => between(judgement, twin, from, to, show),
            None => only(judgement, from.revision.number),
        });
    }
    found.extend(rest.into_iter().map(|judgement| only(judgement, to.revision.number)));
    found
}

fn take<'a>(from: &mut Vec<&'a Judgement>, wanted: impl Fn(&Judgement) -> bool) -> Option<&'a Judgement> {
    let at = from.iter().position(|judgement| wanted(judgement))?;
    Some(from.remove(at))
}

fn same_object(a: &Judgement, b: &Judgement) -> bool {
    (a.reference.kind, &a.reference.name) == (b.reference.kind, &b.reference.name)
}

/// A snapshot in the place of its source, or another name in the same place of the template.
fn stands_for(a: &Judgement, b: &Judgement) -> bool {
    let (a, b) = (&a.reference, &b.reference);
    let place = || a.uses.iter().any(|x| b.uses.iter().any(|y| x.name_pointer == y.name_pointer));
    a.kind == b.kind && (snapshot::is_of(&b.name, &a.name) || snapshot::is_of(&a.name, &b.name) || place())
}

fn id(reference: &Reference) -> String {
    format!("{}/{}", reference.kind, reference.name)
}

fn compared(reference: &Reference, answer: Answer, grade: Grade, because: String) -> (Answer, Compared) {
    let line = Compared {
        reference: id(reference),
        replaced: None,
        answer: answer.word(),
        grade: grade.word(),
        changes: Vec::new(),
        because,
    };
    (answer, line)
}

fn only(judgement: &Judgement, number: u64) -> (Answer, Compared) {
    // Of the other one there may be no Pod left to show what admission put into it.
    let (answer, grade, words) = match judgement.injected {
        true => (Answer::Unknown, Grade::None, format!("put into Pods of revision {number} at admission")),
        false => (Answer::Different, Grade::Proof, format!("only revision {number} names it")),
    };
    compared(&judgement.reference, answer, grade, words)
}

/// What the revision's containers read, as far as it is known.
fn read(judgement: &Judgement) -> Option<(&Content, Grade)> {
    if let Some(digest) = &judgement.read {
        let contents = judgement.candidates.iter().map(|c| &c.content).chain(&judgement.live_content);
        let mut fits = contents.filter(|c| judgement.reference.consumed(c).digest().to_string() == *digest);
        if let Some(content) = fits.next() {
            return Some((content, Grade::Proof));
        }
    }
    let best = judgement.candidates.first().filter(|c| c.grade > Grade::None)?;
    Some((&best.content, best.grade))
}

/// What a revision read against what a new Pod of it would read.
fn one_with_today(
    judgement: &Judgement,
    number: u64,
    show: bool,
    because: impl Fn(&Judgement) -> String,
) -> (Answer, Compared) {
    let grade = match judgement.verdict {
        Verdict::Same | Verdict::OptionalAbsent => Grade::Proof,
        Verdict::LikelySame => Grade::Likely,
        _ => Grade::None,
    };
    match (judgement.verdict, read(judgement), &judgement.live_content) {
        // Of a record the digest is known, not the bytes.
        (Verdict::Missing | Verdict::KeyMissing | Verdict::Changed, None, _) | (Verdict::Mixed, ..) => {
            compared(&judgement.reference, Answer::Different, Grade::Proof, because(judgement))
        }
        // Their files are today's; whether the process has read them again is not known.
        (Verdict::Refreshed, ..) => compared(&judgement.reference, Answer::Unknown, Grade::None, because(judgement)),
        (_, Some((content, grade)), today) => {
            let gone = Content::default();
            let today = today.as_ref().unwrap_or(&gone);
            let keys = judgement.reference.differing_keys(content, today);
            let answer = match judgement.verdict {
                Verdict::Missing | Verdict::KeyMissing => Answer::Different,
                _ if !keys.is_empty() => Answer::Different,
                // A kubelet may still serve the former one.
                Verdict::Recreated => Answer::Unknown,
                _ => Answer::Same,
            };
            let words = match (judgement.live.is_some(), answer) {
                (true, Answer::Different) => format!("what revision {number} read -> today's"),
                _ => because(judgement),
            };
            let (answer, mut line) = compared(&judgement.reference, answer, grade, words);
            line.changes = changes::of(&keys, content, today, show);
            (answer, line)
        }
        (_, None, _) if grade > Grade::None => compared(&judgement.reference, Answer::Same, grade, because(judgement)),
        (_, None, _) => compared(&judgement.reference, Answer::Unknown, Grade::None, because(judgement)),
    }
}

/// What two revisions read. Where that of one is not known, today's content stands for it, and the answer stays unknown.
fn between(a: &Judgement, b: &Judgement, from: &Judged, to: &Judged, show: bool) -> (Answer, Compared) {
    let (one, two) = (format!("revision {}", from.revision.number), format!("revision {}", to.revision.number));
    // Of a record the digest is known, not the bytes; only the same uses make comparable digests.
    let digests = a.read.as_ref().zip(b.read.as_ref()).filter(|_| a.reference.uses == b.reference.uses);
    let (answer, mut line) = match (read(a), read(b), digests) {
        (Some((x, x_grade)), Some((y, y_grade)), _) => {
            let keys = differing(a, b, x, y);
            let answer = if keys.is_empty() { Answer::Same } else { Answer::Different };
            let words = format!("what {one} read -> what {two} read");
            let (answer, mut line) = compared(&a.reference, answer, x_grade.min(y_grade), words);
            line.changes = changes::of(&keys, x, y, show);
            (answer, line)
        }
        (.., Some((x, y))) => {
            let answer = if x == y { Answer::Same } else { Answer::Different };
            let words = format!("by the digests of what {one} and {two} read; not all bytes are known");
            compared(&a.reference, answer, Grade::Proof, words)
        }
        (known, other, None) => {
            let kept = |j: &Judgement| match j.verdict {
                Verdict::Same => Grade::Proof,
                Verdict::LikelySame => Grade::Likely,
                _ => Grade::None,
            };
            let grade = kept(a).min(kept(b));
            if a.reference.kind == Kind::Secret && same_object(a, b) && grade > Grade::None {
                let words = format!("not written since either of {one} and {two} read it; values are not read");
                return compared(&a.reference, Answer::Same, grade, words);
            }
            let pair = match (known, other) {
                (Some((x, _)), None) => b.live_content.as_ref().map(|today| (x, today, &two)),
                (None, Some((y, _))) => a.live_content.as_ref().map(|today| (today, y, &one)),
                _ => None,
            };
            let words = match pair {
                Some((.., who)) => format!("what {who} read is not known: today's content stands for it"),
                None if a.reference.kind == Kind::Secret => "Secrets are read as metadata only".into(),
                None => format!("what {one} and {two} read is not known"),
            };
            let (answer, mut line) = compared(&a.reference, Answer::Unknown, Grade::None, words);
            if let Some((x, y, _)) = pair {
                line.changes = changes::of(&differing(a, b, x, y), x, y, show);
            }
            (answer, line)
        }
    };
    line.replaced = Some(id(&b.reference)).filter(|_| !same_object(a, b));
    (answer, line)
}

/// Keys that differ for a use of either template.
fn differing(a: &Judgement, b: &Judgement, x: &Content, y: &Content) -> Vec<String> {
    let mut keys = a.reference.differing_keys(x, y);
    keys.extend(b.reference.differing_keys(x, y));
    keys.sort();
    keys.dedup();
    keys
}

const MASK: &str = "***";

fn fields(before: &Value, after: &Value, show: bool) -> Vec<FieldChange> {
    let (before, after) = (pin::strip_hash(before), pin::strip_hash(after));
    pin::difference(&before, &after)
        .into_iter()
        .map(|pointer| {
            let at = |template: &Value| {
                let value = template.pointer(&pointer).cloned().filter(|v| !v.is_null())?;
                Some(if show { value } else { masked(value, &pointer) })
            };
            FieldChange { before: at(&before), after: at(&after), pointer }
        })
        .collect()
}

/// Values of environment variables are configuration and often secret, so they are stars. All else of a template is shown.
fn masked(value: Value, pointer: &str) -> Value {
    let steps: Vec<&str> = pointer.split('/').collect();
    let in_env = |back: usize| steps.len() > back && steps[steps.len() - back] == "env";
    match value {
        Value::String(_) if in_env(3) && steps.last() == Some(&"value") => Value::String(MASK.into()),
        Value::Object(members) => {
            let mask = |(key, value): (String, Value)| {
                let value = masked(value, &format!("{pointer}/{}", token(&key)));
                (key, value)
            };
            Value::Object(members.into_iter().map(mask).collect())
        }
        Value::Array(items) => {
            let mask = |(i, item): (usize, Value)| masked(item, &format!("{pointer}/{i}"));
            Value::Array(items.into_iter().enumerate().map(mask).collect())
        }
        other => other,
    }
}
