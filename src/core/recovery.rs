//! Candidate contents for a reference, best first, and how well each is known to be what the revision read.

use jiff::Timestamp;
use serde_json::Value;

use crate::core::digest::{Content, Digest};
use crate::core::evidence::{self, CLOCK_MARGIN, Case, Namesake};
use crate::core::history::Revision;
use crate::core::object::Object;
use crate::core::observed::{Origin, Past, Version};
use crate::core::reads::Span;
use crate::core::references::{Kind, Reference, Use};
use crate::core::snapshot;
use crate::core::verdict::Verdict;

pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How well a content is known to be what the revision's containers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    None,
    Likely,
    Proof,
}

impl Grade {
    pub fn word(self) -> &'static str {
        match self {
            Grade::None => "none",
            Grade::Likely => "likely",
            Grade::Proof => "proof",
        }
    }
}

/// A content that could be bound to the template.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub content: Content,
    /// Of the whole content, as a snapshot would hold it.
    pub digest: Digest,
    pub origin: Origin,
    pub source_uid: String,
    pub from: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub grade: Grade,
}

/// An earlier version whose content can be read.
pub struct Earlier {
    pub version: Version,
    pub content: Content,
    namesake: Namesake,
}

/// The versions whose content can be read; the others are no candidates.
pub fn earlier(case: &Case<'_>, kind: Kind, past: Option<&Past>) -> Vec<Earlier> {
    let read = |version: &Version| {
        Some(Earlier {
            content: Content::from_object(&version.object).ok()?,
            namesake: case.namesake(kind, &version.object),
            version: version.clone(),
        })
    };
    past.map_or(&[][..], |p| &p.versions).iter().filter_map(read).collect()
}

impl Earlier {
    /// ARCHITECTURE.md, rule 16: a version [v, next) is proven to be what a span read only if v is below a sound lower
    /// anchor of the read and next above a sound upper one; live−1 may be one edit too late. `Likely`: it held from a
    /// sound or near anchor of the read until the edit.
    pub fn held(&self, span: &Span) -> Grade {
        let version = &self.version;
        let (Some(from), Some(until)) = (version.object.version(), version.until) else { return Grade::None };
        let before = match (&span.lower, &span.near) {
            (Some(lower), _) if from < lower.version => Grade::Proof,
            (None, Some(near)) if from < near.version => Grade::Likely,
            _ => return Grade::None,
        };
        let after = match (&span.upper, version.until_time, span.ended) {
            (Some(upper), ..) if until > upper.version => Grade::Proof,
            // Without a number the sign of the edit must come after the end of the read.
            (None, Some(edit), Some(ended)) if edit > ended + CLOCK_MARGIN => Grade::Likely,
            _ => return Grade::None,
        };
        let sound = self.namesake == Namesake::Clear
            && evidence::too_fresh(&version.object, span.born).is_none()
            && !span.node_unready;
        before.min(after).min(if sound { Grade::Proof } else { Grade::Likely })
    }
}

/// What records say that all reads of one reference took, and how surely: a digest for each use.
pub struct Recorded {
    pub grade: Grade,
    pub taken: Vec<String>,
}

/// `None` where some read is not recorded, or where they differ.
pub fn recorded(
    case: &Case<'_>,
    revision: &Revision,
    reference: &Reference,
    spans: &[(&Use, Vec<Span>)],
) -> Option<Recorded> {
    let records = case.seen.records.as_ref().ok()?;
    let mut grade = Grade::Proof;
    let mut taken = Vec::new();
    for (used, spans) in spans {
        let mut of_use: Option<&str> = None;
        for span in spans.iter().filter(|s| s.reported) {
            let claim = records.claim(revision, reference.kind, &reference.name, used, span).filter(|c| c.exact)?;
            let digest = claim.taken(used)?;
            if of_use.is_some_and(|known| known != digest) {
                return None;
            }
            of_use = Some(digest);
            grade = grade.min(claim.grade);
        }
        taken.push(of_use?.to_string());
    }
    (!taken.is_empty()).then_some(Recorded { grade, taken })
}

/// All candidates of one reference, best grade first, one per content. `graded`: may any be known to have been read?
pub fn candidates(
    spans: &[(&Use, Vec<Span>)],
    past: &[Earlier],
    live: Option<(&Object, Option<&Content>, Verdict)>,
    snapshots: &[Object],
    recorded: Option<&Recorded>,
    graded: bool,
) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let mut add = |mut candidate: Candidate| {
        if !graded {
            candidate.grade = Grade::None;
        } else if let Some(recorded) = recorded {
            let mut uses = spans.iter().zip(&recorded.taken);
            if uses.all(|((used, _), taken)| used.taken(&candidate.content).to_string() == *taken) {
                candidate.grade = candidate.grade.max(recorded.grade);
            }
        }
        match found.iter_mut().find(|c| c.digest == candidate.digest) {
            // A snapshot stays when the API's history is gone; the dates are the history's.
            Some(known) if known.grade == candidate.grade && candidate.origin == Origin::Snapshot => {
                if known.origin != Origin::Live {
                    known.origin = Origin::Snapshot;
                }
            }
            Some(known) if known.grade >= candidate.grade => {}
            Some(known) => *known = candidate,
            None => found.push(candidate),
        }
    };
    if let Some((object, Some(content), verdict)) = live {
        let grade = match verdict {
            Verdict::Same => Grade::Proof,
            Verdict::LikelySame => Grade::Likely,
            _ => Grade::None,
        };
        add(Candidate {
            content: content.clone(),
            digest: content.digest(),
            origin: Origin::Live,
            source_uid: object.uid().to_string(),
            from: evidence::write_sign(object).map(|(time, _)| time),
            until: None,
            grade,
        });
    }
    for earlier in past {
        let (version, content) = (&earlier.version, &earlier.content);
        // A Pod that has not reported a start is no witness of what ran.
        let reads = spans.iter().flat_map(|(_, spans)| spans).filter(|span| span.reported);
        let grade = reads.map(|span| earlier.held(span)).min();
        add(Candidate {
            content: content.clone(),
            digest: content.digest(),
            origin: version.origin,
            source_uid: version.object.uid().to_string(),
            from: evidence::write_sign(&version.object).map(|(time, _)| time),
            until: version.until_time,
            grade: grade.unwrap_or(Grade::None),
        });
    }
    for (object, content) in snapshots.iter().filter_map(|o| Some((o, Content::from_object(o).ok()?))) {
        add(Candidate {
            digest: content.digest(),
            content,
            origin: Origin::Snapshot,
            source_uid: object.annotation(snapshot::SOURCE_UID).unwrap_or("").to_string(),
            from: None,
            until: None,
            grade: Grade::None,
        });
    }
    if let Some((object, Some(_), _)) = live
        && let Some(content) = last_applied(object)
    {
        add(Candidate {
            digest: content.digest(),
            content,
            origin: Origin::LastApplied,
            source_uid: object.uid().to_string(),
            from: None,
            until: None,
            grade: Grade::None,
        });
    }
    // Several contents at one grade would be a choice: then none of them is graded. Contents that no use can tell
    // apart are no choice.
    let differ = |a: &Candidate, b: &Candidate| !spans.iter().all(|(used, _)| used.reads_same(&a.content, &b.content));
    for grade in [Grade::Proof, Grade::Likely] {
        let mut alike = found.iter().filter(|c| c.grade == grade);
        let first = alike.next();
        if first.is_some_and(|first| alike.any(|other| differ(first, other))) {
            found.iter_mut().filter(|c| c.grade == grade).for_each(|c| c.grade = Grade::None);
        }
    }
    found.sort_by_key(|c| std::cmp::Reverse((c.grade, c.from)));
    found
}

/// The content of the last client-side apply. It has no time, so it is a candidate and never evidence of a read.
pub fn last_applied(object: &Object) -> Option<Content> {
    let applied: Value = serde_json::from_str(object.annotation(LAST_APPLIED)?).ok()?;
    Content::from_object(&Object(applied)).ok()
}

/// How far back a walk through the object's history is useful: below the lowest number that bounds a read.
pub fn floor(spans: &[(&Use, Vec<Span>)]) -> Option<u64> {
    spans
        .iter()
        .flat_map(|(_, spans)| spans)
        .map(|s| s.lower.as_ref().or(s.near.as_ref()).map(|a| a.version))
        .min()
        .flatten()
}
