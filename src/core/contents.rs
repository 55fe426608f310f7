//! The versions of one ConfigMap that can still be read: today's, snapshots of ours, earlier ones, the last applied one.
//!
//! Kubernetes keeps no history of content; this is what is left of it in several places, as one dated list.
//!
//! # Caveats
//!
//! Times are those of managedFields: signs, never proof. A key that is removed leaves none, so such a version has no time.
//! A write of metadata alone is no version. Between two versions from files there may have been others.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::core::digest::{Content, Digest};
use crate::core::evidence;
use crate::core::object::Object;
use crate::core::observed::{Origin, Past, PastEnd, Version};
use crate::core::readers::Reader;
use crate::core::recovery::{self, Grade};
use crate::core::snapshot;

/// Where a version was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Live,
    Snapshot,
    TimeTravel,
    Dump,
    LastApplied,
    /// A file that the person gave.
    File,
}

impl Source {
    /// The word of the report.
    pub fn word(self) -> &'static str {
        match self {
            Source::Live => "live",
            Source::Snapshot => "snapshot",
            Source::TimeTravel => "time-travel",
            Source::Dump => "dump",
            Source::LastApplied => "last-applied",
            Source::File => "file",
        }
    }
}

/// One version of the content.
#[derive(Clone, Debug)]
pub struct Known {
    pub content: Content,
    pub digest: Digest,
    pub source: Source,
    /// The ConfigMap that holds or held it: the one that is asked about, or a snapshot of it.
    pub object: String,
    pub uid: String,
    /// The resourceVersions at which it was there: from the first on, below the end.
    pub numbers: Option<(u64, u64)>,
    pub from: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// Is it there today, under the name in `object`?
    pub held: bool,
    pub writer: Option<String>,
    /// Are the bytes certain, and that they were under this name?
    pub grade: Grade,
    /// `None` where it is not known.
    pub immutable: Option<bool>,
}

/// Is this a snapshot of ConfigMap `source`?
pub fn is_snapshot_of(object: &Object, source: &str) -> bool {
    object.label(snapshot::MANAGED_BY.0) == Some(snapshot::MANAGED_BY.1)
        && object.label(snapshot::KIND.0) == Some(snapshot::KIND.1)
        && object.annotation(snapshot::SOURCE) == Some(source)
        && snapshot::is_of(object.name(), source)
}

/// All known versions of ConfigMap `name`: undated ones, then by date, today's last. `snapshots`: objects of ours, of any source.
pub fn versions(name: &str, live: Option<&Object>, snapshots: &[Object], past: &Past) -> Vec<Known> {
    let mut dated: Vec<(Option<Timestamp>, Known)> = Vec::new();
    // A version without a time of its own stands behind the one before it.
    let mut latest = None;
    let mut today = None;
    for known in chain(name, live, past) {
        latest = latest.max(known.from);
        match known.source {
            Source::Live => today = Some(known),
            _ => dated.push((latest, known)),
        }
    }
    for object in snapshots.iter().filter(|o| is_snapshot_of(o, name)) {
        dated.extend(of_snapshot(object).map(|known| (known.from, known)));
    }
    // Stable: the order of the chain stays where times are equal.
    dated.sort_by_key(|(at, _)| *at);
    let applied = live.and_then(|object| of_last_applied(name, object));
    applied.into_iter().chain(dated.into_iter().map(|(_, known)| known)).chain(today).collect()
}

/// The versions of the object itself, oldest first. Neighbours with the same content are one.
fn chain(name: &str, live: Option<&Object>, past: &Past) -> Vec<Known> {
    let today =
        live.map(|object| Version { object: object.clone(), until: None, until_time: None, origin: Origin::Live });
    let mut found: Vec<Known> = Vec::new();
    let mut newest_sign = None;
    for version in past.versions.iter().rev().chain(&today) {
        let object = &version.object;
        let Ok(content) = Content::from_object(object) else { continue };
        let number = object.version();
        let (source, held) = match version.origin {
            Origin::Live => (Source::Live, true),
            Origin::TimeTravel => (Source::TimeTravel, false),
            _ => (Source::Dump, false),
        };
        let immutable = Some(object.0.get("immutable").and_then(Value::as_bool) == Some(true));
        let end = if held { number.map(|n| n + 1) } else { version.until };
        let sign = evidence::write_sign(object);
        let mut known = Known {
            digest: content.digest(),
            content,
            source,
            object: name.to_string(),
            uid: object.uid().to_string(),
            numbers: number.map(|n| (n, end.unwrap_or(n + 1))),
            from: sign.as_ref().map(|(at, _)| *at),
            until: None,
            held,
            writer: sign.map(|(_, by)| by),
            grade: Grade::Proof,
            immutable,
        };
        if let Some(before) = found.last_mut().filter(|b| b.uid == known.uid && followed(b, &known)) {
            if before.content == known.content {
                let first = before.numbers.map_or(0, |(first, _)| first);
                known.numbers = known.numbers.map(|(_, end)| (first, end));
                newest_sign = newest_sign.max(known.from);
                (known.from, known.writer) = (before.from, before.writer.clone());
                *before = known;
                continue;
            }
            // No newer sign than any before: the write left none, as one that only removes keys.
            if known.from <= newest_sign {
                (known.from, known.writer) = (None, None);
            }
            before.until = known.from;
        }
        newest_sign = newest_sign.max(known.from);
        found.push(known);
    }
    found
}

/// Is nothing between the two?
fn followed(before: &Known, after: &Known) -> bool {
    matches!((before.numbers, after.numbers), (Some((_, end)), Some((first, _))) if end == first)
}

fn of_snapshot(object: &Object) -> Option<Known> {
    let content = Content::from_object(object).ok()?;
    let immutable = object.0.get("immutable").and_then(Value::as_bool) == Some(true);
    let proven = immutable && snapshot::names(object.name(), &content);
    Some(Known {
        digest: content.digest(),
        content,
        source: Source::Snapshot,
        object: object.name().to_string(),
        uid: object.uid().to_string(),
        numbers: None,
        from: object.created(),
        until: None,
        held: true,
        writer: evidence::write_sign(object).map(|(_, by)| by),
        grade: if proven { Grade::Proof } else { Grade::None },
        immutable: Some(immutable),
    })
}

fn of_last_applied(name: &str, object: &Object) -> Option<Known> {
    let content = recovery::last_applied(object)?;
    Some(given(name, content, Source::LastApplied))
}

/// A content without a date.
pub fn given(name: &str, content: Content, source: Source) -> Known {
    Known {
        digest: content.digest(),
        content,
        source,
        object: name.to_string(),
        uid: String::new(),
        numbers: None,
        from: None,
        until: None,
        held: false,
        writer: None,
        grade: Grade::None,
        immutable: None,
    }
}

/// Which version is meant.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// The one before the last write.
    Previous,
    /// The beginning of a digest.
    Digest(String),
    /// What was there at this resourceVersion.
    Number(u64),
    /// The content of a file.
    Content(Box<Content>),
}

/// Why no version is chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchVersion {
    #[error("the version before the last write is not known for certain: name one with --from ({known})")]
    NoPrevious { known: String },
    #[error("configmap/{name} not found; of its versions {known}")]
    Gone { name: String, known: String },
    #[error("at least 8 digits of a digest are needed, as in sr1:0123abcd")]
    TooShort,
    #[error("{asked} is the beginning of several digests ({known})")]
    Ambiguous { asked: String, known: String },
    #[error("no known version has the digest {asked} ({known})")]
    NoDigest { asked: String, known: String },
    #[error("what was there at resourceVersion {asked} is not known ({known})")]
    NoNumber { asked: u64, known: String },
}

/// `known are 258 sr1:c1da08203122... (time-travel), …`
fn known(versions: &[Known]) -> String {
    let one = |k: &Known| {
        let number = k.numbers.map_or(String::new(), |(first, _)| format!("{first} "));
        format!("{number}{} ({})", k.digest.short(), k.source.word())
    };
    match versions {
        [] => "none is known".into(),
        all => format!("known are {}", all.iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}

/// Digits of a digest that name it.
const DIGITS: usize = 8;

/// The version that is meant, among all that are known.
pub fn choose(name: &str, versions: &[Known], wanted: &Wanted) -> Result<Known, NoSuchVersion> {
    match wanted {
        Wanted::Content(content) => Ok(given(name, Content::clone(content), Source::File)),
        Wanted::Number(number) => {
            let at = |k: &&Known| k.numbers.is_some_and(|(first, end)| (first..end).contains(number));
            versions
                .iter()
                .find(at)
                .cloned()
                .ok_or_else(|| NoSuchVersion::NoNumber { asked: *number, known: known(versions) })
        }
        Wanted::Digest(asked) => {
            let head = asked.trim_end_matches("...");
            if head.len() < "sr1:".len() + DIGITS {
                return Err(NoSuchVersion::TooShort);
            }
            let fits: Vec<&Known> = versions.iter().filter(|k| k.digest.to_string().starts_with(head)).collect();
            let none = || NoSuchVersion::NoDigest { asked: asked.clone(), known: known(versions) };
            let best = fits.iter().max_by_key(|k| k.grade).ok_or_else(none)?;
            if fits.iter().any(|k| k.digest != best.digest) {
                return Err(NoSuchVersion::Ambiguous { asked: asked.clone(), known: known(versions) });
            }
            Ok(Known::clone(best))
        }
        Wanted::Previous => {
            let live = versions.iter().find(|k| k.source == Source::Live);
            if live.is_none() {
                // Of what is gone: the last one that was there.
                let last = versions.iter().rev().find(|k| k.numbers.is_some());
                return last
                    .cloned()
                    .ok_or_else(|| NoSuchVersion::Gone { name: name.to_string(), known: known(versions) });
            }
            // Of the same object, and nothing between the two: that is what the last write replaced.
            let before = live.and_then(|live| {
                versions.iter().find(|k| k.source != Source::Live && k.uid == live.uid && followed(k, live))
            });
            before.cloned().ok_or_else(|| NoSuchVersion::NoPrevious { known: known(versions) })
        }
    }
}

/// Where versions were looked for, and how far back that goes.
pub fn looked_in(past: &Past, live: Option<&Object>) -> String {
    let oldest = past.versions.last().map(|version| &version.object).or(live);
    let back = oldest.map(|o| format!("back to resourceVersion {}", o.str_at("/metadata/resourceVersion")));
    let end = match &past.end {
        PastEnd::NotLooked => "not looked in".into(),
        PastEnd::Enough => "far enough".into(),
        PastEnd::Beginning => "it was not there before".into(),
        PastEnd::Expired => "before that expired".into(),
        PastEnd::Limit => "then 50 versions or 2s were over".into(),
        PastEnd::Failed(words) => format!("then it failed ({words})"),
    };
    let end = if back.is_none() && past.end == PastEnd::Expired { "expired".into() } else { end };
    format!("API history: {}", back.into_iter().chain([end]).collect::<Vec<String>>().join(", "))
}

/// The body of a document of kind `ConfigMapHistory`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapHistory {
    pub config_map: ConfigMapLine,
    pub versions: Vec<VersionLine>,
    pub looked_in: Vec<String>,
    pub exit_code: u8,
}

/// The ConfigMap as it is today.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapLine {
    pub namespace: String,
    pub name: String,
    pub exists: bool,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub immutable: Option<bool>,
    pub terminating: bool,
}

impl ConfigMapLine {
    pub fn of(namespace: &str, name: &str, live: Option<&Object>) -> ConfigMapLine {
        ConfigMapLine {
            namespace: namespace.to_string(),
            name: name.to_string(),
            exists: live.is_some(),
            uid: live.map(|o| o.uid().to_string()),
            resource_version: live.map(|o| o.str_at("/metadata/resourceVersion").to_string()),
            immutable: live.map(|o| o.0.get("immutable").and_then(Value::as_bool) == Some(true)),
            terminating: live.is_some_and(Object::terminating),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionLine {
    pub resource_version: Option<String>,
    pub digest: String,
    pub source: &'static str,
    pub object: String,
    pub uid: Option<String>,
    pub immutable: Option<bool>,
    pub from: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub held: bool,
    pub writer: Option<String>,
    pub grade: &'static str,
    /// Key names, no values.
    pub keys: Vec<String>,
    /// Null for what is under no name today: nobody can name it.
    pub readers: Option<Vec<Reader>>,
}

impl VersionLine {
    pub fn of(known: &Known, readers: &BTreeMap<String, Vec<Reader>>) -> VersionLine {
        VersionLine {
            resource_version: known.numbers.map(|(first, _)| first.to_string()),
            digest: known.digest.to_string(),
            source: known.source.word(),
            object: format!("ConfigMap/{}", known.object),
            uid: Some(known.uid.clone()).filter(|uid| !uid.is_empty()),
            immutable: known.immutable,
            from: known.from,
            until: known.until,
            held: known.held,
            writer: known.writer.clone(),
            grade: known.grade.word(),
            keys: keys(&known.content),
            readers: if known.held { readers.get(&known.object).cloned() } else { None },
        }
    }
}

/// In byte order.
fn keys(content: &Content) -> Vec<String> {
    let mut keys: Vec<String> = content.data.keys().chain(content.binary.keys()).cloned().collect();
    keys.sort();
    keys
}
