//! Names, labels and bodies of snapshots: immutable ConfigMaps that are named by their content.
//!
//! One name always means one content, since kubelets may serve a deleted immutable namesake
//! (kubernetes/kubernetes#119733). No label or annotation of the source is copied: tracking labels would make GitOps
//! tools prune the copy, sync annotations would spread it, last-applied would carry content.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::core::digest::Content;
use crate::core::object::Object;
use crate::core::recovery::Candidate;

pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "kubectl-saferollback");
pub const KIND: (&str, &str) = ("saferollback.dev/kind", "snapshot");
pub const SOURCE: &str = "saferollback.dev/source";
pub const SOURCE_UID: &str = "saferollback.dev/source-uid";
/// Set on a snapshot that an undo relies on again, so that no pruning takes it away in between.
pub const TOUCHED: &str = "saferollback.dev/touched";

/// DNS-1123 subdomain, the limit of an object's name.
const NAME_LIMIT: usize = 253;
/// Hex digits of the digest in a name; on a collision the next length is tried.
pub const LENGTHS: [usize; 3] = [16, 32, 64];

/// A snapshot to be created: the body of the request and what it is called.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub name: String,
    pub source: String,
    pub content: Content,
    pub body: Value,
}

/// `<source>-sr-<hex digits of the digest>`, shortened to fit; two long sources never share a shortened name.
pub fn name(source: &str, content: &Content, digits: usize) -> String {
    let hex = hex(content);
    fit(source, hex.get(..digits).unwrap_or(&hex))
}

/// `<head>-sr-<hex>`, the head shortened so that the whole fits.
pub fn fit(source: &str, hex: &str) -> String {
    let suffix = format!("-sr-{hex}");
    if source.len() + suffix.len() <= NAME_LIMIT {
        return format!("{source}{suffix}");
    }
    let own = own_hash(source);
    let room = NAME_LIMIT - suffix.len() - own.len() - 1;
    let head: String = source.chars().take(room).collect();
    format!("{}-{own}{suffix}", head.trim_end_matches(['-', '.']))
}

/// Could this be the name of a snapshot?
pub fn is_one(name: &str) -> bool {
    name.rsplit_once("-sr-")
        .is_some_and(|(_, hex)| LENGTHS.contains(&hex.len()) && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Is this the name of a snapshot of `source`?
pub fn is_of(name: &str, source: &str) -> bool {
    let Some((head, digits)) = name.rsplit_once("-sr-") else { return false };
    let shortened =
        || head.rsplit_once('-').is_some_and(|(head, own)| source.starts_with(head) && own == own_hash(source));
    LENGTHS.contains(&digits.len()) && (head == source || shortened())
}

/// Is this the name of a snapshot with this content?
pub fn names(name: &str, content: &Content) -> bool {
    name.rsplit_once("-sr-")
        .is_some_and(|(_, suffix)| LENGTHS.contains(&suffix.len()) && hex(content).starts_with(suffix))
}

/// Tells long sources apart that are shortened alike.
fn own_hash(source: &str) -> String {
    Sha256::digest(source.as_bytes()).iter().take(4).map(|b| format!("{b:02x}")).collect()
}

fn hex(content: &Content) -> String {
    content.digest().to_string().trim_start_matches("sr1:").to_string()
}

impl Snapshot {
    /// Takes a name with more digits, because the short one is taken by other content.
    pub fn rename(&mut self, digits: usize) {
        self.name = name(&self.source, &self.content, digits);
        self.body["metadata"]["name"] = Value::String(self.name.clone());
    }
}

/// The snapshot of a candidate content of ConfigMap `source`.
pub fn of(namespace: &str, source: &str, candidate: &Candidate, digits: usize) -> Snapshot {
    let name = name(source, &candidate.content, digits);
    let (data, binary) = candidate.content.fields();
    let mut annotations = json!({
        SOURCE: source,
        "saferollback.dev/digest": candidate.digest.to_string(),
        "saferollback.dev/known-by": format!("{}, {}", candidate.origin.word(), candidate.grade.word()),
    });
    if !candidate.source_uid.is_empty() {
        annotations[SOURCE_UID] = json!(candidate.source_uid);
    }
    let mut body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": { MANAGED_BY.0: MANAGED_BY.1, KIND.0: KIND.1 },
            "annotations": annotations,
        },
        "immutable": true,
    });
    if !data.is_empty() {
        body["data"] = Value::Object(data);
    }
    if !binary.is_empty() {
        body["binaryData"] = Value::Object(binary);
    }
    Snapshot { name, source: source.to_string(), content: candidate.content.clone(), body }
}

/// Shorter values are words like any other, and would turn a message into a riddle.
const TELLING: usize = 6;

/// Who denies a snapshot may quote it. Values, and lines of them, are taken out of such a text.
pub fn without_values(text: &str, snapshots: &[Snapshot]) -> String {
    let values = snapshots.iter().flat_map(|s| s.content.data.values().chain(s.content.binary.values()));
    let texts: Vec<&str> = values.filter_map(|value| std::str::from_utf8(value).ok()).collect();
    let mut pieces: Vec<&str> = texts.iter().flat_map(|text| text.lines().chain([*text])).map(str::trim).collect();
    pieces.retain(|piece| piece.len() >= TELLING);
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.len()));
    pieces.iter().fold(text.to_string(), |text, piece| text.replace(piece, "<value>"))
}

/// `AlreadyExists` is success only for equal bytes, immutable, ours, and not being deleted (ARCHITECTURE.md, rule 26).
pub fn serves(existing: &Object, wanted: &Snapshot) -> bool {
    existing.label(MANAGED_BY.0) == Some(MANAGED_BY.1)
        && existing.label(KIND.0) == Some(KIND.1)
        && existing.0.get("immutable").and_then(Value::as_bool) == Some(true)
        && !existing.terminating()
        && Content::from_object(existing).is_ok_and(|content| content == wanted.content)
}
