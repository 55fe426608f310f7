//! Facts → verdict, with the reasons kept.
//!
//! The ladder from proof to nothing is `ladder.rs`, for one use in one span; here its answers are put together. `same`
//! needs one of the proofs listed in ARCHITECTURE.md; everything else is `likely-same` or weaker.

use std::collections::BTreeSet;

use crate::core::digest::Content;
use crate::core::evidence::{self, Case, Fact, Witnesses};
use crate::core::history::Revision;
use crate::core::ladder::{self, Live, Reading, Rung};
use crate::core::object::Object;
use crate::core::observed::Lookup;
use crate::core::reads::{self, Span};
use crate::core::record::ReadLine;
use crate::core::recovery::{self, Candidate, Earlier};
use crate::core::references::{Kind, Read, Reference, Use};
use crate::core::snapshot;

/// Worst first: a revision's summary is its worst verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    Missing,
    KeyMissing,
    Changed,
    Mixed,
    Recreated,
    WrittenAfter,
    WrittenDuring,
    Unreadable,
    Unknown,
    LikelySame,
    Refreshed,
    Same,
    OptionalAbsent,
}

impl Verdict {
    /// Worst first.
    pub const ALL: [Verdict; 13] = [
        Verdict::Missing,
        Verdict::KeyMissing,
        Verdict::Changed,
        Verdict::Mixed,
        Verdict::Recreated,
        Verdict::WrittenAfter,
        Verdict::WrittenDuring,
        Verdict::Unreadable,
        Verdict::Unknown,
        Verdict::LikelySame,
        Verdict::Refreshed,
        Verdict::Same,
        Verdict::OptionalAbsent,
    ];

    /// The word of the report.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Missing => "missing",
            Verdict::KeyMissing => "key-missing",
            Verdict::Changed => "changed",
            Verdict::Mixed => "mixed",
            Verdict::Recreated => "recreated",
            Verdict::WrittenAfter => "written-after",
            Verdict::WrittenDuring => "written-during",
            Verdict::Unreadable => "unreadable",
            Verdict::Unknown => "unknown",
            Verdict::LikelySame => "likely-same",
            Verdict::Refreshed => "refreshed",
            Verdict::Same => "same",
            Verdict::OptionalAbsent => "optional-absent",
        }
    }

    /// The word on the screen.
    pub fn screen(self) -> &'static str {
        match self {
            Verdict::Missing | Verdict::KeyMissing => "Missing",
            Verdict::Changed | Verdict::Mixed => "Changed",
            Verdict::Recreated => "Recreated",
            Verdict::WrittenAfter | Verdict::WrittenDuring => "Edited",
            Verdict::Unreadable | Verdict::Unknown => "Unknown",
            Verdict::LikelySame => "LikelySame",
            Verdict::Refreshed => "Refreshed",
            Verdict::Same => "Same",
            Verdict::OptionalAbsent => "<none>",
        }
    }
}

/// What is known of one reference of one revision.
#[derive(Clone, Debug)]
pub struct Judgement {
    pub reference: Reference,
    pub verdict: Verdict,
    pub facts: Vec<Fact>,
    /// Put in at admission: the template does not name it.
    pub injected: bool,
    pub live: Option<Object>,
    pub live_content: Option<Content>,
    /// Consumed digest of what the revision's containers read, when proven.
    pub read: Option<String>,
    /// Contents that could be bound, best first.
    pub candidates: Vec<Candidate>,
    /// Consumed keys in which today's content differs from the best graded candidate.
    pub differing: Vec<String>,
    /// No read lies below this number: how far back a look into the past is useful.
    pub floor: Option<u64>,
    /// A surviving Pod's read has no sound lower bound, and one could decide.
    pub unanchored: bool,
}

impl Judgement {
    fn of(reference: &Reference, injected: bool) -> Judgement {
        Judgement {
            reference: reference.clone(),
            verdict: Verdict::Unknown,
            facts: Vec::new(),
            injected,
            live: None,
            live_content: None,
            read: None,
            candidates: Vec::new(),
            differing: Vec::new(),
            floor: None,
            unanchored: false,
        }
    }

    fn note(&mut self, source: &'static str, verdict: Verdict, proof: bool, detail: String) {
        let fact = Fact { source, says: verdict.word(), proof, detail };
        if !self.facts.contains(&fact) {
            self.facts.push(fact);
        }
    }

    fn unreadable(mut self, source: &'static str, words: String) -> Judgement {
        self.verdict = Verdict::Unreadable;
        self.note(source, Verdict::Unreadable, false, words);
        self
    }
}

/// Judges one reference of one revision.
pub fn judge(
    case: &Case<'_>,
    revision: &Revision,
    witnesses: &Witnesses<'_>,
    reference: &Reference,
    injected: bool,
) -> Judgement {
    let kind = reference.kind;
    let key = (kind, reference.name.clone());
    let mut judgement = Judgement::of(reference, injected);
    let spans: Vec<(&Use, Vec<Span>)> =
        reference.uses.iter().map(|used| (used, reads::spans(case, revision, witnesses, kind, used))).collect();
    judgement.floor = recovery::floor(&spans);
    let past = recovery::earlier(case, kind, case.seen.past.get(&key));
    match case.seen.objects.get(&key) {
        Some(Lookup::Found(object)) => {
            let content = match kind {
                Kind::ConfigMap => match Content::from_object(object) {
                    Ok(content) => Some(content),
                    Err(error) => return judgement.unreadable("content", error.to_string()),
                },
                Kind::Secret => None,
            };
            judgement.live = Some(object.clone());
            judgement.live_content = content.clone();
            compare(case, revision, &mut judgement, object, content.as_ref(), &spans, &past);
        }
        _ if reference.unread() => nobody_reads(&mut judgement),
        Some(Lookup::Unreadable(words)) => return judgement.unreadable("read", words.clone()),
        Some(Lookup::Absent) => absent(&mut judgement),
        None => return judgement.unreadable("read", "it was not read".into()),
    }
    // For an edited object the bound decides how well an earlier version is known.
    let open = [Verdict::Unknown, Verdict::LikelySame, Verdict::WrittenAfter, Verdict::WrittenDuring];
    judgement.unanchored = open.contains(&judgement.verdict)
        && spans.iter().flat_map(|(_, spans)| spans).any(|s| s.pod.is_some() && s.lower.is_none());
    if let Some(pod) = &witnesses.rewritten {
        rewritten(&mut judgement, pod);
    }
    let live = judgement.live.as_ref().map(|o| (o, judgement.live_content.as_ref(), judgement.verdict));
    let snapshots = case.seen.snapshots.get(&reference.name).filter(|_| kind == Kind::ConfigMap);
    let snapshots = snapshots.map_or(&[][..], Vec::as_slice);
    let recorded = recovery::recorded(case, revision, reference, &spans);
    let graded = witnesses.rewritten.is_none();
    judgement.candidates = recovery::candidates(&spans, &past, live, snapshots, recorded.as_ref(), graded);
    if let (Some(best), Some(content)) = (judgement.candidates.first(), &judgement.live_content) {
        judgement.differing = reference.differing_keys(&best.content, content);
    }
    judgement
}

/// The object is there: every read of every use against it.
fn compare(
    case: &Case<'_>,
    revision: &Revision,
    judgement: &mut Judgement,
    object: &Object,
    content: Option<&Content>,
    spans: &[(&Use, Vec<Span>)],
    past: &[Earlier],
) {
    let live = Live {
        object,
        content,
        namesake: case.namesake(judgement.reference.kind, object),
        content_named: content.and_then(|c| evidence::content_named(object, c)),
        own: content.is_some_and(|c| snapshot::names(object.name(), c)),
    };
    let mut worst = Verdict::OptionalAbsent;
    let mut reads: BTreeSet<String> = BTreeSet::new();
    let mut all_known = true;
    for (used, spans) in spans {
        if let Some(keys) = content.map(|c| used.missing_keys(c)).filter(|k| !k.is_empty()) {
            let where_ =
                used.container.as_ref().map_or(String::new(), |c| format!(" (container {c}, {})", used.pointer));
            worst = Verdict::KeyMissing;
            let detail = format!("key {} is not there{where_}", keys.join(", "));
            judgement.note("content", Verdict::KeyMissing, true, detail);
            all_known = false;
            continue;
        }
        if used.read == Read::Unmounted {
            worst = worst.min(Verdict::Same);
            nobody_reads(judgement);
            continue;
        }
        let rungs: Vec<Rung<'_>> = spans
            .iter()
            .map(|span| ladder::judge(case, revision, judgement.reference.kind, &live, used, span, past))
            .collect();
        for rung in &rungs {
            match rung.read {
                Some(Reading::Content(content)) => {
                    reads.insert(judgement.reference.consumed(content).digest().to_string());
                }
                Some(Reading::Recorded(ReadLine { consumed: Some(consumed), .. })) => {
                    reads.insert(consumed.clone());
                }
                Some(Reading::Recorded(_)) | None => all_known = false,
            }
        }
        worst = worst.min(combine(used, &rungs));
        for rung in rungs {
            judgement.note(rung.source, rung.verdict, rung.proof, rung.detail);
        }
    }
    judgement.verdict = worst;
    if all_known && reads.len() == 1 {
        judgement.read = reads.pop_first();
    }
}

/// Pods do not use what the template names, so nothing that Pods or times show tells what the template's object gave to
/// them; only what stops a new Pod, and writes, stay said.
fn rewritten(judgement: &mut Judgement, pod: &str) {
    judgement.read = None;
    if matches!(judgement.verdict, Verdict::Changed | Verdict::Mixed) || judgement.verdict >= Verdict::LikelySame {
        judgement.verdict = Verdict::Unknown;
        let detail =
            format!("pod/{pod} does not use the objects that the template names: Pods are rewritten at admission");
        judgement.facts.retain(|f| !f.proof);
        judgement.facts.insert(0, Fact { source: "witness-pods", says: Verdict::Unknown.word(), proof: false, detail });
    }
}

/// Whatever the object holds, and whether it is there at all: a new Pod starts, and reads nothing of it, as the former ones.
fn nobody_reads(judgement: &mut Judgement) {
    judgement.verdict = Verdict::Same;
    judgement.note("template", Verdict::Same, true, "no container mounts it: nobody reads it".into());
}

/// Absent now. Where every use is optional that is no failure, but absent now is not absent then (rule 10): no number
/// tells of a deletion, so what the containers read stays unknown.
fn absent(judgement: &mut Judgement) {
    let name = format!("{}/{}", judgement.reference.kind.word(), judgement.reference.name);
    if judgement.reference.optional() {
        judgement.verdict = Verdict::Unknown;
        let detail = format!(
            "{name} is absent now and optional; whether it was absent when the containers started is not known"
        );
        judgement.note("read", Verdict::Unknown, false, detail);
    } else {
        judgement.verdict = Verdict::Missing;
        judgement.note("read", Verdict::Missing, true, format!("{name} does not exist"));
    }
}

/// Answers for all spans of one use → the use's verdict.
fn combine(used: &Use, rungs: &[Rung<'_>]) -> Verdict {
    let all = |verdict| rungs.iter().all(|j| j.verdict == verdict);
    let any = |verdict| rungs.iter().any(|j| j.verdict == verdict);
    if any(Verdict::Recreated) {
        return Verdict::Recreated;
    }
    let mut known: Vec<Reading<'_>> = Vec::new();
    for reading in rungs.iter().filter_map(|j| j.read) {
        if !known.iter().any(|k| k.same(&reading, used)) {
            known.push(reading);
        }
    }
    // Rule 18: per use, since one Pod can hold two contents.
    if known.len() > 1 {
        return Verdict::Mixed;
    }
    if any(Verdict::Changed) {
        return Verdict::Changed;
    }
    if all(Verdict::WrittenAfter) && !rungs.is_empty() {
        return Verdict::WrittenAfter;
    }
    if any(Verdict::WrittenAfter) || any(Verdict::WrittenDuring) {
        return Verdict::WrittenDuring;
    }
    // Some Pods started before a write that others only saw in their files: all of them have today's.
    [Verdict::Unknown, Verdict::Refreshed, Verdict::LikelySame, Verdict::Same]
        .into_iter()
        .find(|v| any(*v))
        .unwrap_or(Verdict::Unknown)
}
