//! The document of a verb that is not about one workload's revisions: the head and the digest of
//! [`crate::core::report::Document`], around a body of its own.

use jiff::Timestamp;
use serde::Serialize;

use crate::core::report::{API_VERSION, Cluster, Document, Tool, WrittenObject, digest};

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sheet<T: Serialize> {
    pub api_version: &'static str,
    /// The kind that tells which members the body has.
    pub kind: &'static str,
    pub tool: Tool,
    pub cluster: Cluster,
    pub observed_at: Timestamp,
    pub warnings: Vec<String>,
    #[serde(flatten)]
    pub body: T,
    /// SHA-256 over the document's compact JSON without this member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What `snapshot list` shows, and what `snapshot prune` makes of it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotList {
    pub snapshots: Vec<HeldLine>,
    pub deleted: Vec<WrittenObject>,
    /// Of a prune.
    pub outcome: Option<&'static str>,
    pub exit_code: u8,
}

/// What became of several workloads: a `Plan` or `Rollback` of each.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RollbackList {
    pub items: Vec<Document>,
    pub exit_code: u8,
}

/// A snapshot or record.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldLine {
    pub kind: &'static str,
    pub name: String,
    pub source: String,
    pub revisions: Vec<u64>,
    pub readers: Vec<String>,
    pub created: Option<Timestamp>,
    /// Of a prune: does it go?
    pub prune: Option<bool>,
    /// Why it stays.
    pub why: Option<String>,
}

impl<T: Serialize> Sheet<T> {
    pub fn new(kind: &'static str, cluster: Cluster, now: Timestamp, warnings: Vec<String>, body: T) -> Sheet<T> {
        let mut sheet = Sheet {
            api_version: API_VERSION,
            kind,
            tool: Tool::this(),
            cluster,
            observed_at: now,
            warnings,
            body,
            digest: None,
        };
        sheet.digest = digest(&sheet);
        sheet
    }
}
