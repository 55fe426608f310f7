//! Facts → verdict, with the reasons kept.
//!
//! A refuting number is asked before any sign that confirms, and `same` needs one of the proofs listed in
//! ARCHITECTURE.md; everything else is `likely-same` or weaker.

use std::collections::BTreeSet;

use crate::core::digest::{Content, Digest};
use crate::core::evidence::{self, CLOCK_MARGIN, Fact, Namesake, Span, Witnesses};
use crate::core::history::{History, Revision};
use crate::core::object::Object;
use crate::core::observed::{Lookup, Observed, Version};
use crate::core::recovery::{self, Candidate, Grade};
use crate::core::references::{Kind, Read, Reference, Use};

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
    pub read: Option<Digest>,
    /// Contents that could be bound, best first.
    pub candidates: Vec<Candidate>,
    /// Consumed keys in which today's content differs from the best graded candidate.
    pub differing: Vec<String>,
    /// No read lies below this number: how far back a look into the past is useful.
    pub floor: Option<u64>,
    /// A surviving Pod's read has no sound lower bound, and one could decide.
    pub unanchored: bool,
}

/// Verdict of one use in one span, with the content that was read where that is proven.
struct SpanVerdict<'a> {
    verdict: Verdict,
    fact: Fact,
    read: Option<&'a Content>,
}

fn fact(source: &'static str, verdict: Verdict, proof: bool, detail: String) -> Fact {
    Fact { source, says: verdict.word(), proof, detail }
}

/// The live object and what all spans need of it.
struct Live<'a> {
    object: &'a Object,
    content: Option<&'a Content>,
    namesake: Namesake,
    content_named: Option<String>,
}

/// Judges one reference of one revision.
pub fn judge(
    seen: &Observed,
    history: &History,
    revision: &Revision,
    witnesses: &Witnesses<'_>,
    reference: &Reference,
    injected: bool,
) -> Judgement {
    let kind = reference.kind;
    let key = (kind, reference.name.clone());
    let mut judgement = Judgement {
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
    };
    let spans: Vec<(&Use, Vec<Span>)> = reference
        .uses
        .iter()
        .map(|used| (used, evidence::spans(seen, history, revision, witnesses, kind, used)))
        .collect();
    judgement.floor = recovery::floor(&spans);
    let past: Vec<(Version, Content)> = recovery::readable(seen.past.get(&key));
    let live_object = match seen.objects.get(&key) {
        Some(Lookup::Found(object)) => Some(object),
        Some(Lookup::Unreadable(words)) => {
            return unreadable(judgement, "read", words.clone());
        }
        Some(Lookup::Absent) => None,
        None => {
            return unreadable(judgement, "read", "it was not read".into());
        }
    };
    let Some(object) = live_object else {
        absent(&mut judgement);
        judgement.candidates = recovery::candidates(seen, history, kind, &spans, &past, None);
        return judgement;
    };
    let content = match kind {
        Kind::ConfigMap => match Content::from_object(object) {
            Ok(content) => Some(content),
            Err(error) => {
                return unreadable(judgement, "content", error.to_string());
            }
        },
        Kind::Secret => None,
    };
    judgement.live = Some(object.clone());
    judgement.live_content = content.clone();
    let live = Live {
        object,
        content: content.as_ref(),
        namesake: evidence::namesake(seen, history, kind, object),
        content_named: content.as_ref().and_then(|c| evidence::content_named(object, c)),
    };
    let mut worst = Verdict::OptionalAbsent;
    let mut reads: BTreeSet<Digest> = BTreeSet::new();
    let mut all_known = true;
    for (used, spans) in &spans {
        if let Some(keys) = content.as_ref().map(|c| used.missing_keys(c)).filter(|k| !k.is_empty()) {
            let where_ =
                used.container.as_ref().map_or(String::new(), |c| format!(" (container {c}, {})", used.pointer));
            worst = Verdict::KeyMissing;
            let detail = format!("key {} is not there{where_}", keys.join(", "));
            judgement.facts.push(fact("content", Verdict::KeyMissing, true, detail));
            all_known = false;
            continue;
        }
        let judged: Vec<SpanVerdict<'_>> =
            spans.iter().map(|span| judge_span(seen, history, revision, kind, &live, used, span, &past)).collect();
        for one in &judged {
            match one.read {
                Some(content) => {
                    reads.insert(reference.consumed(content).digest());
                }
                None => all_known = false,
            }
        }
        let verdict = combine(used, &judged);
        for one in judged {
            if !judgement.facts.contains(&one.fact) {
                judgement.facts.push(one.fact);
            }
        }
        worst = worst.min(verdict);
    }
    judgement.verdict = worst;
    judgement.unanchored = matches!(worst, Verdict::Unknown | Verdict::LikelySame)
        && spans.iter().flat_map(|(_, spans)| spans).any(|s| s.pod.is_some() && s.lower.is_none());
    if let Some(pod) = &witnesses.rewritten
        && judgement.verdict >= Verdict::LikelySame
    {
        judgement.verdict = Verdict::Unknown;
        judgement.facts.insert(
            0,
            fact(
                "witness-pods",
                Verdict::Unknown,
                false,
                format!("pod/{pod} does not use the objects that the template names: Pods are rewritten at admission"),
            ),
        );
    }
    if all_known && reads.len() == 1 {
        judgement.read = reads.pop_first();
    }
    judgement.candidates =
        recovery::candidates(seen, history, kind, &spans, &past, Some((object, content.as_ref(), judgement.verdict)));
    if let (Some(best), Some(content)) = (judgement.candidates.first(), content.as_ref()) {
        judgement.differing = reference.differing_keys(&best.content, content);
    }
    judgement
}

fn unreadable(mut judgement: Judgement, source: &'static str, words: String) -> Judgement {
    judgement.verdict = Verdict::Unreadable;
    judgement.facts.push(fact(source, Verdict::Unreadable, false, words));
    judgement
}

/// Absent now. Where every use is optional that is no failure, but absent now is not absent then (rule 10): no number
/// tells of a deletion, so what the containers read stays unknown.
fn absent(judgement: &mut Judgement) {
    let name = format!("{}/{}", judgement.reference.kind.word(), judgement.reference.name);
    if judgement.reference.optional() {
        judgement.verdict = Verdict::Unknown;
        judgement.facts.push(fact(
            "read",
            Verdict::Unknown,
            false,
            format!(
                "{name} is absent now and optional; whether it was absent when the containers started is not known"
            ),
        ));
    } else {
        judgement.verdict = Verdict::Missing;
        judgement.facts.push(fact("read", Verdict::Missing, true, format!("{name} does not exist")));
    }
}

#[expect(clippy::too_many_arguments, reason = "the stages' inputs, each used")]
fn judge_span<'a>(
    seen: &Observed,
    history: &History,
    revision: &Revision,
    kind: Kind,
    live: &Live<'a>,
    used: &Use,
    span: &Span,
    past: &'a [(Version, Content)],
) -> SpanVerdict<'a> {
    let object = live.object;
    let version = object.version();
    let name = format!("{}/{}", kind.word(), object.name());
    let found = |verdict, source, proof, detail| SpanVerdict {
        verdict,
        fact: fact(source, verdict, proof, detail),
        read: None,
    };
    let same = |source, detail| SpanVerdict {
        verdict: Verdict::Same,
        fact: fact(source, Verdict::Same, true, detail),
        read: live.content,
    };

    // Frozen since before the revision's first Pod. The flag counts from the entry that owns it (rule 7).
    let born = [revision.first_started, span.born].into_iter().flatten().min();
    let frozen =
        matches!((evidence::immutable_since(object), born), (Some(since), Some(born)) if since + CLOCK_MARGIN <= born);
    if frozen && let Some(generator) = &live.content_named {
        return same(
            "content-name",
            format!("immutable since before its first Pod, and its name re-computes ({generator})"),
        );
    }
    if let Namesake::Younger { than, late } = &live.namesake {
        let late = if *late { ", or late: the Pod may have waited for it" } else { "" };
        let detail = format!("{name} is younger than {than}, which names it: created again{late}");
        return found(Verdict::Recreated, "creation", true, detail);
    }
    let older_than_users = live.namesake == Namesake::Clear;
    if frozen && older_than_users {
        return same("immutable", format!("{name} is immutable since before the revision's first Pod"));
    }

    if let (Some(version), Some(lower)) = (version, &span.lower)
        && version < lower.version
    {
        let doubt = if !older_than_users {
            Some("it was created together with the workload")
        } else if span.pod.as_deref().is_some_and(|uid| evidence::node_was_unready(seen, uid)) {
            Some("the Pod's node was reported NotReady")
        } else {
            evidence::too_fresh(object, span.born)
        };
        let order = format!("resourceVersion {version} is below {}, {}", lower.version, lower.what);
        return match doubt {
            None => same("resource-version", order),
            Some(doubt) => found(Verdict::LikelySame, "resource-version", false, format!("{order}; but {doubt}")),
        };
    }

    // What was read is known: compare the consumed bytes themselves (rule 14).
    let proven = past.iter().find(|(v, _)| recovery::held(seen, history, kind, v, span) == Grade::Proof);
    if let (Some((read, content)), Some(today)) = (proven, live.content) {
        if read.object.uid() != object.uid() {
            let mut judged =
                found(Verdict::Recreated, "creation", true, format!("{} read another {name}, since deleted", span.who));
            judged.read = Some(content);
            return judged;
        }
        let keys = used.differing_keys(content, today);
        let whence = match read.origin.word() {
            "time-travel" => "the API's history",
            _ => "the files",
        };
        let (verdict, detail) = if keys.is_empty() {
            let verdict = if older_than_users { Verdict::Same } else { Verdict::LikelySame };
            (verdict, format!("written since, but what {} read is known from {whence} and equals today's", span.who))
        } else {
            (
                Verdict::Changed,
                format!(
                    "what {} read is known from {whence}; {} differ{}",
                    span.who,
                    keys.join(" and "),
                    if keys.len() == 1 { "s" } else { "" }
                ),
            )
        };
        return SpanVerdict {
            verdict,
            fact: fact(read.origin.word(), verdict, verdict != Verdict::LikelySame, detail),
            read: Some(content),
        };
    }

    // Running Pods have today's files, whatever was written since (kubelet refreshes them).
    let written = |verdict: Verdict| {
        if revision.current && used.read == Read::RefreshedMount { Verdict::Refreshed } else { verdict }
    };
    if let (Some(version), Some(upper)) = (version, &span.upper)
        && version > upper.version
    {
        let detail =
            format!("resourceVersion {version} is above {}, {}: written after {}", upper.version, upper.what, span.who);
        return found(written(Verdict::WrittenAfter), "resource-version", true, detail);
    }
    if let (Some(version), Some(lower)) = (version, &span.lower) {
        let detail = format!("resourceVersion {version} is above {}, {}: written since", lower.version, lower.what);
        if !span.reported {
            let detail = format!("{detail}; {} has not reported a start", span.who);
            return found(Verdict::Unknown, "resource-version", false, detail);
        }
        return found(written(Verdict::WrittenDuring), "resource-version", true, detail);
    }
    // The creation itself is no write since: what a Pod reads under this name cannot be older (but for a namesake).
    let sign = evidence::write_sign(object).filter(|(time, _)| object.created().is_none_or(|created| *time > created));
    if let (Some((time, manager)), Some(started)) = (&sign, span.started)
        && *time + CLOCK_MARGIN > started
        && !(*time <= started && span.near.as_ref().zip(version).is_some_and(|(n, v)| v < n.version))
    {
        let after = span.ended.is_some_and(|ended| *time > ended + CLOCK_MARGIN);
        let verdict = written(if after { Verdict::WrittenAfter } else { Verdict::WrittenDuring });
        let when = if after { "after" } else { "around or after the start of" };
        return found(
            verdict,
            "managed-fields",
            false,
            format!("{manager} wrote it {when} {}, by managedFields", span.who),
        );
    }
    if let (Some(version), Some(near)) = (version, &span.near)
        && version < near.version
    {
        let detail = format!("resourceVersion {version} is below {}, {}", near.version, near.what);
        return found(Verdict::LikelySame, "resource-version", false, detail);
    }
    if let Some(generator) = &live.content_named {
        let detail = format!(
            "its name re-computes from its content ({generator}), but it is not known to have been immutable 2s before the first Pod"
        );
        return found(Verdict::LikelySame, "content-name", false, detail);
    }
    let domain = seen.domain(kind);
    let why = if !domain.pods {
        "its number cannot be compared with the Pods' (the domain check failed)"
    } else if seen.events.is_err() {
        "Events could not be read, and no other number of the start is left"
    } else {
        "the Events of the start are gone, and no other number of it is left"
    };
    let sign =
        if sign.is_some() { "managedFields shows no write, but a removed key leaves no trace there; " } else { "" };
    found(Verdict::Unknown, "managed-fields", false, format!("{sign}{why}"))
}

/// Verdicts of all spans of one use → the use's verdict.
fn combine(used: &Use, judged: &[SpanVerdict<'_>]) -> Verdict {
    let all = |verdict| judged.iter().all(|j| j.verdict == verdict);
    let any = |verdict| judged.iter().any(|j| j.verdict == verdict);
    if any(Verdict::Recreated) {
        return Verdict::Recreated;
    }
    let mut known: Vec<&Content> = Vec::new();
    for content in judged.iter().filter_map(|j| j.read) {
        if !known.iter().any(|k| used.reads_same(k, content)) {
            known.push(content);
        }
    }
    // Rule 18: per use, since one Pod can hold two contents.
    if known.len() > 1 {
        return Verdict::Mixed;
    }
    if any(Verdict::Changed) {
        return Verdict::Changed;
    }
    if all(Verdict::WrittenAfter) && !judged.is_empty() {
        return Verdict::WrittenAfter;
    }
    if any(Verdict::WrittenAfter) || any(Verdict::WrittenDuring) {
        return Verdict::WrittenDuring;
    }
    [Verdict::Unknown, Verdict::LikelySame, Verdict::Refreshed, Verdict::Same]
        .into_iter()
        .find(|v| any(*v))
        .unwrap_or(Verdict::Unknown)
}
