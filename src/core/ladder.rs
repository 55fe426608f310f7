//! One use in one span: from proof down to nothing. The order is the point; see the table "Evidence" of
//! ARCHITECTURE.md.

use crate::core::digest::Content;
use crate::core::evidence::{self, CLOCK_MARGIN, Case, FLAG_MARGIN, Namesake};
use crate::core::history::Revision;
use crate::core::object::Object;
use crate::core::reads::{Anchor, Span};
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
    pub read: Option<&'a Content>,
}

pub fn judge<'a>(
    case: &Case<'_>,
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
        read: live.content.filter(|_| span.reported),
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
    if let Namesake::Younger { than, late } = &live.namesake {
        let late = if *late { ", or late: the Pod may have waited for it" } else { "" };
        let detail = format!("{name} is younger than {than}, which names it: created again{late}");
        return Rung { read: proven.map(|p| &p.content), ..found(Verdict::Recreated, "creation", true, detail) };
    }
    if frozen && older_than_users {
        return same("immutable", format!("{name} is immutable since before the revision's first Pod"));
    }

    // The refuter before any number that confirms (rule 3). It proves a write, not other bytes.
    let above = |anchor: &Anchor| version.is_some_and(|v| v > anchor.version);
    let refuted = span.upper.as_ref().filter(|upper| above(upper));
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
        return Rung { read: Some(&proven.content), ..rung };
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
