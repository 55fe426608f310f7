//! One use in one span: from proof down to nothing. The order is the point; see the table "Evidence" of
//! ARCHITECTURE.md.

use crate::core::digest::Content;
use crate::core::evidence::{self, CLOCK_MARGIN, Case, FLAG_MARGIN, Namesake};
use crate::core::history::Revision;
use crate::core::object::Object;
use crate::core::reads::{Anchor, Span};
use crate::core::record::{self, Claim, ReadLine};
use crate::core::recovery::{Earlier, Grade};
use crate::core::references::{Kind, Read, Use};
use crate::core::verdict::Verdict;

/// The live object and what all spans need of it.
pub struct Live<'a> {
    pub object: &'a Object,
    pub content: Option<&'a Content>,
    pub namesake: Namesake,
    pub content_named: Option<String>,
    /// The name is that of a snapshot of ours.
    pub own: bool,
}

/// The answer, its reason, and the content that was read where that is proven.
pub struct Rung<'a> {
    pub verdict: Verdict,
    pub source: &'static str,
    pub proof: bool,
    pub detail: String,
    pub read: Option<Reading<'a>>,
}

/// What was read: the bytes themselves, or what a record kept of them.
#[derive(Clone, Copy)]
pub enum Reading<'a> {
    Content(&'a Content),
    Recorded(&'a ReadLine),
}

impl Reading<'_> {
    /// Of what one use took; `None` where a record does not say.
    pub fn taken(&self, used: &Use) -> Option<String> {
        match self {
            Reading::Content(content) => Some(used.taken(content).to_string()),
            Reading::Recorded(line) => line.taken.get(&record::use_id(used)).cloned(),
        }
    }

    /// Can the reader not tell the two apart? Bytes are compared before anything is hashed: there is one of these for each
    /// Pod.
    pub fn same(&self, other: &Reading<'_>, used: &Use) -> bool {
        match (self, other) {
            (Reading::Content(a), Reading::Content(b)) => std::ptr::eq(*a, *b) || used.reads_same(a, b),
            _ => self.taken(used) == other.taken(used),
        }
    }
}

pub fn judge<'a>(
    case: &'a Case<'_>,
    revision: &Revision,
    kind: Kind,
    live: &Live<'a>,
    used: &Use,
    span: &Span,
    past: &'a [Earlier],
) -> Rung<'a> {
    let object = live.object;
    let version = object.version();
    let name = format!("{}/{}", kind.word(), object.name());
    let found = |verdict, source, proof, detail| Rung { verdict, source, proof, detail, read: None };
    // A Pod that has not reported a start may not have read at all.
    let same = |source, detail| Rung {
        read: live.content.filter(|_| span.reported).map(Reading::Content),
        ..found(Verdict::Same, source, true, detail)
    };

    // Frozen since before the revision's first Pod. The flag counts from the entry that owns it (rule 7).
    let born = [revision.first_started, span.born].into_iter().flatten().min();
    let frozen =
        matches!((evidence::immutable_since(object), born), (Some(since), Some(born)) if since + FLAG_MARGIN <= born);
    // Our snapshots never had other bytes under their name. A name that kustomize or kubectl made may have been mutable,
    // edited and made immutable before it was created again, and a kubelet may still serve that (rule 5).
    let older_than_users = live.namesake == Namesake::Clear;
    if frozen
        && let Some(generator) = &live.content_named
        && (older_than_users || live.own)
    {
        let detail = format!("immutable since before its first Pod, and its name re-computes ({generator})");
        return same("content-name", detail);
    }
    // What was read is known (rule 16).
    let proven = past.iter().find(|earlier| earlier.held(span) == Grade::Proof);
    let records = case.seen.records.as_ref().ok();
    let claim = records.and_then(|r| r.claim(revision, kind, object.name(), used, span)).filter(|_| span.reported);
    let recorded = claim.filter(|c| c.grade == Grade::Proof && c.exact);
    if let Namesake::Younger { than, late } = &live.namesake {
        let late = if *late { ", or late: the Pod may have waited for it" } else { "" };
        let detail = format!("{name} is younger than {than}, which names it: created again{late}");
        let read = proven.map(|p| Reading::Content(&p.content)).or(recorded.map(|c| Reading::Recorded(c.line)));
        return Rung { read, ..found(Verdict::Recreated, "creation", true, detail) };
    }
    if frozen && older_than_users {
        return same("immutable", format!("{name} is immutable since before the revision's first Pod"));
    }

    // The refuter before any number that confirms (rule 3). It proves a write, not other bytes.
    let above = |anchor: &Anchor| version.is_some_and(|v| v > anchor.version);
    let refuted = span.upper.as_ref().filter(|upper| above(upper));
    if refuted.is_none()
        && let Some(unwritten) = unwritten(case, kind, object, span, claim)
    {
        let (record, grade) = unwritten;
        let detail = format!("configmap/{record} recorded this very version of it as what was read or was to be read");
        return match grade {
            Grade::Proof if older_than_users || live.own => same("record", detail),
            Grade::Proof => {
                let detail = format!("{detail}; but it was created together with the workload");
                found(Verdict::LikelySame, "record", false, detail)
            }
            _ => found(Verdict::LikelySame, "record", false, detail),
        };
    }
    if refuted.is_none()
        && let (Some(version), Some(lower)) = (version, &span.lower)
        && version < lower.version
    {
        let doubt = if !older_than_users {
            Some("it was created together with the workload")
        } else if span.node_unready {
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

    // Bytes that are known are compared themselves, on the consumed keys (rule 14).
    if let (Some(proven), Some(today)) = (proven, live.content) {
        let whence = match proven.version.origin.word() {
            "time-travel" => "the API's history",
            _ => "the files",
        };
        let keys = used.differing_keys(&proven.content, today);
        let (verdict, detail) = if proven.version.object.uid() != object.uid() {
            (Verdict::Recreated, format!("{} read another {name}, since deleted", span.who))
        } else if !keys.is_empty() {
            let s = if keys.len() == 1 { "s" } else { "" };
            let keys = keys.join(" and ");
            (Verdict::Changed, format!("what {} read is known from {whence}; {keys} differ{s}", span.who))
        } else {
            // `held` asked for the namesake check of this very object.
            let detail = format!("written since, but what {} read is known from {whence} and equals today's", span.who);
            (Verdict::Same, detail)
        };
        let rung = found(verdict, proven.version.origin.word(), true, detail);
        return Rung { read: Some(Reading::Content(&proven.content)), ..rung };
    }
    if let (Some(claim), Some(today)) = (claim, live.content)
        && let Some(rung) = compare_recorded(live, used, span, claim, today)
    {
        return rung;
    }

    // A snapshot of ours is made immutable with its content; whatever was written to it since is metadata. Within the
    // first seconds that is no proof, since somebody else could have done both, one after the other.
    if live.own && evidence::immutable_since(object).is_some() {
        let detail = "its name re-computes (snapshot), and it is immutable: a write since was none of content".into();
        return found(Verdict::LikelySame, "content-name", false, detail);
    }

    // Running Pods have today's files, whatever was written since (kubelet refreshes them).
    let written = |verdict: Verdict| {
        if revision.current && used.read == Read::RefreshedMount { Verdict::Refreshed } else { verdict }
    };
    let number = version.map_or(String::new(), |v| v.to_string());
    if let Some(upper) = refuted {
        let detail =
            format!("resourceVersion {number} is above {}, {}: written after {}", upper.version, upper.what, span.who);
        return found(written(Verdict::WrittenAfter), "resource-version", true, detail);
    }
    if let Some(earlier) = span.lower.iter().chain(&span.since).find(|earlier| above(earlier)) {
        let detail = format!(
            "resourceVersion {number} is above {}, {}: created or written since",
            earlier.version, earlier.what
        );
        if !span.reported {
            let detail = format!("{detail}; {} has not reported a start", span.who);
            return found(Verdict::Unknown, "resource-version", false, detail);
        }
        return found(written(Verdict::WrittenDuring), "resource-version", true, detail);
    }
    hint(case, kind, live, span, written)
}

/// Was the object written since a record that speaks of this read, or that is older than its Pod? Its name, and how sure
/// that is.
fn unwritten<'a>(
    case: &'a Case<'_>,
    kind: Kind,
    object: &Object,
    span: &Span,
    claim: Option<Claim<'a>>,
) -> Option<(&'a str, Grade)> {
    if let Some(claim) = claim.filter(|c| c.grade == Grade::Proof && c.unmoved(object)) {
        return Some((claim.record, Grade::Proof));
    }
    let (record, since) = case.seen.records.as_ref().ok()?.unwritten_since(kind, object)?;
    // A2: a late kubelet may have read what was there two seconds before the record.
    if span.born.is_some_and(|born| since + FLAG_MARGIN <= born) {
        return Some((record, Grade::Proof));
    }
    claim.filter(|c| c.unmoved(object)).map(|c| (c.record, c.grade))
}

/// Against the digests that a record kept. Other bytes are proven by them; which keys differ is not known.
fn compare_recorded<'a>(
    live: &Live<'a>,
    used: &Use,
    span: &Span,
    claim: Claim<'a>,
    today: &Content,
) -> Option<Rung<'a>> {
    let found = |verdict, proof, detail| Rung { verdict, source: "record", proof, detail, read: None };
    let (who, record, line) = (&span.who, claim.record, claim.line);
    if !claim.exact {
        return None;
    }
    let equal = claim.taken(used)? == used.taken(today).to_string();
    let same_object = line.held.as_ref().is_none_or(|held| held.uid == live.object.uid());
    let proven = claim.grade == Grade::Proof;
    let rung = match (equal, proven) {
        (_, true) if !same_object => {
            found(Verdict::Recreated, true, format!("{who} read another one, since deleted (configmap/{record})"))
        }
        (true, true) if live.namesake == Namesake::Clear || live.own => {
            found(Verdict::Same, true, format!("configmap/{record} recorded what {who} read, and it equals today's"))
        }
        (true, _) if same_object => {
            let detail = format!("configmap/{record} recorded what {who} read or likely read, and it equals today's");
            found(Verdict::LikelySame, false, detail)
        }
        (false, true) => {
            found(Verdict::Changed, true, format!("configmap/{record} recorded what {who} read; it differs"))
        }
        _ => return None,
    };
    Some(Rung { read: proven.then_some(Reading::Recorded(line)), ..rung })
}

/// No number bounds the read: signs only.
fn hint<'a>(
    case: &Case<'_>,
    kind: Kind,
    live: &Live<'a>,
    span: &Span,
    written: impl Fn(Verdict) -> Verdict,
) -> Rung<'a> {
    let found = |verdict, source, detail| Rung { verdict, source, proof: false, detail, read: None };
    let version = live.object.version();
    // The creation itself is no write since: what a Pod reads under this name cannot be older (but for a namesake).
    let created = live.object.created();
    let sign = evidence::write_sign(live.object).filter(|(time, _)| created.is_none_or(|created| *time > created));
    if let (Some((time, manager)), Some(started)) = (&sign, span.started)
        && *time + CLOCK_MARGIN > started
        && !(*time <= started && span.near.as_ref().zip(version).is_some_and(|(n, v)| v < n.version))
    {
        let after = span.ended.is_some_and(|ended| *time > ended + CLOCK_MARGIN);
        let verdict = written(if after { Verdict::WrittenAfter } else { Verdict::WrittenDuring });
        let when = if after { "after" } else { "around or after the start of" };
        return found(verdict, "managed-fields", format!("{manager} wrote it {when} {}, by managedFields", span.who));
    }
    if let (Some(version), Some(near)) = (version, &span.near)
        && version < near.version
    {
        let detail = format!("resourceVersion {version} is below {}, {}", near.version, near.what);
        return found(Verdict::LikelySame, "resource-version", detail);
    }
    if let Some(generator) = &live.content_named {
        let detail = format!(
            "its name re-computes from its content ({generator}), but it is not known to have been immutable before the first Pod"
        );
        return found(Verdict::LikelySame, "content-name", detail);
    }
    let why = if !case.seen.domain(kind).pods {
        "its number cannot be compared with the Pods' (the domain check failed)"
    } else if case.seen.events.is_err() {
        "Events could not be read, and no other number of the start is left"
    } else {
        "the Events of the start are gone, and no other number of it is left"
    };
    let sign =
        if sign.is_some() { "managedFields shows no write, but a removed key leaves no trace there; " } else { "" };
    found(Verdict::Unknown, "managed-fields", format!("{sign}{why}"))
}
