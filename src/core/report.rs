//! The versioned document that every verb produces.
//!
//! Tables, JSON and YAML are printings of it; other tools may rely on its names. Digests, never content. Deterministic
//! order, times in UTC, the document's own digest last. `schema/report.schema.json` describes it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::core::diff::Diff;
use crate::core::evidence;
use crate::core::history::{CHANGE_CAUSE, History};
use crate::core::object::Object;
use crate::core::observation::Observation;
use crate::core::observed::{Observed, PastEnd};
use crate::core::owners;
use crate::core::plan::{Judged, Plan};
use crate::core::pods;
use crate::core::policy::Action;
use crate::core::recovery::Grade;
use crate::core::references::{Keys, Kind, Use};
use crate::core::verdict::{Judgement, Verdict};

pub const API_VERSION: &str = "saferollback.dev/v1alpha1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum DocumentKind {
    History,
    Check,
    Diff,
    Plan,
    Rollback,
    Saved,
    Observation,
    Status,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    pub api_version: &'static str,
    pub kind: DocumentKind,
    pub tool: Tool,
    pub cluster: Cluster,
    pub observed_at: Timestamp,
    pub workload: Workload,
    pub revisions: Vec<Revision>,
    pub unnumbered: Vec<Unnumbered>,
    pub not_traced: Vec<NotTraced>,
    pub warnings: Vec<String>,
    /// A1 and A2 of ARCHITECTURE.md, where a printed proof rests on them.
    pub assumptions: Vec<&'static str>,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// SHA-256 over the document's compact JSON without this member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Tool {
    pub version: &'static str,
}

impl Tool {
    pub fn this() -> Tool {
        Tool { version: concat!("v", env!("CARGO_PKG_VERSION")) }
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Cluster {
    pub server: String,
    pub context: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: Option<i64>,
    pub resource_version: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Named {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    pub number: u64,
    pub former_numbers: Vec<u64>,
    pub current: bool,
    pub object: Named,
    pub first_started: Option<Timestamp>,
    pub retired: Option<Timestamp>,
    /// False where a reused ReplicaSet hides when the revision was last wanted.
    pub activity_known: bool,
    pub images: BTreeMap<String, String>,
    pub change_cause: Option<String>,
    pub pods: Pods,
    /// Not-ready survivors: what the containers read is no witness of a revision that ran well.
    pub failing: bool,
    /// Pods of its object that testify nothing, with the reason.
    pub set_aside: Vec<SetAside>,
    pub damaged: Option<String>,
    /// The worst of its references; null without any.
    pub verdict: Option<&'static str>,
    pub references: Vec<Reference>,
}

#[derive(Clone, Debug, Serialize)]
pub struct SetAside {
    pub pod: String,
    pub reason: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pods {
    pub ready: usize,
    pub total: usize,
    pub oldest_start: Option<Timestamp>,
    pub restarts: i64,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    pub kind: String,
    pub name: String,
    pub uid: Option<String>,
    pub immutable: Option<bool>,
    pub verdict: &'static str,
    pub injected: bool,
    pub written: Option<Written>,
    pub uses: Vec<UseLine>,
    pub digest: Digests,
    /// Consumed keys in which today's content differs from the best candidate.
    pub differing_keys: Vec<String>,
    pub key_count: Option<usize>,
    pub evidence: Vec<Evidence>,
    pub candidates: Vec<CandidateLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// The newest write that managedFields shows: a sign.
#[derive(Clone, Debug, Serialize)]
pub struct Written {
    pub at: Timestamp,
    pub by: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct UseLine {
    pub pointer: String,
    pub container: Option<String>,
    pub read: &'static str,
    /// Null: all keys.
    pub keys: Option<Vec<String>>,
    pub optional: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct Digests {
    pub live: Option<String>,
    pub read: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Evidence {
    pub source: &'static str,
    pub says: &'static str,
    pub proof: bool,
    pub detail: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct CandidateLine {
    pub digest: String,
    pub source: &'static str,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    pub grade: &'static str,
    pub proof: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct Unnumbered {
    pub kind: String,
    pub name: String,
    pub reason: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct NotTraced {
    pub revision: u64,
    pub pointer: String,
    pub what: String,
}

/// What a verb adds to the observation.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    History {},
    Check(Check),
    Diff(Box<Diff>),
    Undo(Box<Undo>),
    Saved(Box<Saved>),
    Observation(Box<Observation>),
    Status(Box<Status>),
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    pub target: u64,
    pub safe: bool,
    pub grade: &'static str,
    /// `planned` or `refused`: what `undo` would do.
    pub undo: &'static str,
    pub also_reading: BTreeMap<String, BTreeSet<String>>,
    pub owners: Vec<OwnerLine>,
    pub owners_unread: Vec<String>,
    pub exit_code: u8,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Undo {
    pub from: Option<u64>,
    pub target: u64,
    pub new_revision: Option<u64>,
    pub actions: Vec<ActionLine>,
    pub pods_planned: PodsPlanned,
    pub refusals: Vec<Refusal>,
    pub ways_on: Vec<WayOn>,
    pub looked_in: Vec<String>,
    pub not_looked_in: Vec<String>,
    pub also_reading: BTreeMap<String, BTreeSet<String>>,
    pub owners: Vec<OwnerLine>,
    /// Kinds that may hold owners and could not be read.
    pub owners_unread: Vec<String>,
    /// The JSON patch on the workload, as sent.
    pub patch: Value,
    pub written: Vec<WrittenObject>,
    pub timeline: Vec<Moment>,
    /// Who wrote another template before the rollout was done and had settled.
    pub overwritten: Option<Overwritten>,
    /// What was looked at after the rollout; null where it did not come to that.
    pub verification: Option<Verification>,
    /// The way back that was taken after a failure.
    pub reverted: Option<Reverted>,
    pub outcome: &'static str,
    pub exit_code: u8,
}

#[derive(Clone, Debug, Serialize)]
pub struct Verification {
    pub mode: &'static str,
    pub evicted: Option<PodName>,
    pub substitute: Option<Substitute>,
    pub outcome: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub struct PodName {
    pub name: String,
    pub uid: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Substitute {
    pub name: String,
    pub uid: String,
    pub ready: bool,
    pub restarts: i64,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reverted {
    pub target: u64,
    pub new_revision: Option<u64>,
    pub written: Vec<WrittenObject>,
    pub outcome: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub struct ActionLine {
    pub reference: String,
    pub verdict: &'static str,
    pub action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    pub grade: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct PodsPlanned {
    pub start: usize,
    pub stay: usize,
    pub go: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct Refusal {
    pub code: &'static str,
    pub reference: Option<String>,
    pub verdict: Option<&'static str>,
    pub message: String,
}

/// Who else writes the workload.
#[derive(Clone, Debug, Serialize)]
pub struct OwnerLine {
    pub tool: &'static str,
    pub object: Option<OwnerObject>,
    pub healing: &'static str,
    pub known: String,
    /// All of it in a sentence.
    pub says: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct OwnerObject {
    pub kind: String,
    /// Null where it is not known.
    pub namespace: Option<String>,
    pub name: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct Overwritten {
    pub by: Vec<String>,
    pub generation: i64,
    pub planned: String,
    pub live: String,
    pub differs: Vec<String>,
}

/// A way on that can work here: a stable id, and the command to type.
#[derive(Clone, Debug, Serialize)]
pub struct WayOn {
    pub id: &'static str,
    pub why: String,
    pub argv: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenObject {
    pub object: String,
    pub uid: String,
    pub resource_version: String,
}

impl WrittenObject {
    pub fn of(object: &Object) -> WrittenObject {
        WrittenObject {
            object: format!("{}/{}", object.kind(), object.name()),
            uid: object.uid().to_string(),
            resource_version: object.str_at("/metadata/resourceVersion").to_string(),
        }
    }
}

/// What `snapshot create` found and saved.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Saved {
    pub snapshots: Vec<SavedLine>,
    pub written: Vec<WrittenObject>,
    pub outcome: &'static str,
    pub exit_code: u8,
}

/// Where the rollout stands, or stood when the wait for it ended.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub sentence: String,
    pub phase: &'static str,
    pub wanted: i64,
    pub reasons: Vec<ReasonLine>,
    pub pods: Vec<PodLine>,
    /// Old Pods on their way out.
    pub terminating: usize,
    /// The same for a person.
    #[serde(skip)]
    pub said: Vec<String>,
    pub exit_code: u8,
}

/// Why a Pod does not come up.
#[derive(Clone, Debug, Serialize)]
pub struct ReasonLine {
    pub object: String,
    pub pod: Option<String>,
    pub container: Option<String>,
    pub revision: Option<u64>,
    pub blocks: bool,
    pub reason: String,
    pub message: String,
    pub since: Option<Timestamp>,
}

#[derive(Clone, Debug, Serialize)]
pub struct PodLine {
    pub name: String,
    pub uid: String,
    pub revision: Option<u64>,
    pub ready: bool,
    pub terminating: bool,
    pub restarts: i64,
}

/// One content of one revision.
#[derive(Clone, Debug, Serialize)]
pub struct SavedLine {
    pub revision: u64,
    pub reference: String,
    pub snapshot: String,
    pub digest: String,
    pub source: &'static str,
    pub grade: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub struct Moment {
    pub at: Timestamp,
    pub what: String,
}

impl Document {
    pub fn new(
        kind: DocumentKind,
        seen: &Observed,
        history: &History,
        judged: &[Judged],
        outcome: Outcome,
    ) -> Document {
        let workload = &seen.workload;
        let proofs = judged.iter().flat_map(|j| &j.references).flat_map(|r| &r.facts).filter(|f| f.proof);
        let mut assumptions = BTreeSet::new();
        for fact in proofs {
            match fact.source {
                "resource-version" | "time-travel" | "dump" | "immutable" | "record" => {
                    assumptions.insert("A1: no node still caches a deleted namesake");
                    assumptions.insert("A2: each kubelet read the API's state at most 2s late");
                }
                _ => {}
            }
        }
        Document {
            api_version: API_VERSION,
            kind,
            tool: Tool::this(),
            cluster: Cluster { server: seen.server.clone(), context: seen.context.clone() },
            observed_at: seen.now,
            workload: Workload {
                kind: workload.kind().to_string(),
                namespace: workload.namespace().to_string(),
                name: workload.name().to_string(),
                uid: workload.uid().to_string(),
                generation: workload.int_at("/metadata/generation"),
                resource_version: workload.str_at("/metadata/resourceVersion").to_string(),
            },
            revisions: judged.iter().map(revision).collect(),
            unnumbered: history
                .unnumbered
                .iter()
                .map(|u| Unnumbered { kind: u.kind.clone(), name: u.name.clone(), reason: u.reason.clone() })
                .collect(),
            not_traced: judged
                .iter()
                .flat_map(|j| j.not_traced.iter().map(move |n| (j.revision.number, n)))
                .map(|(revision, n)| NotTraced { revision, pointer: n.pointer.clone(), what: n.what.clone() })
                .collect(),
            warnings: warnings(seen, history),
            assumptions: assumptions.into_iter().collect(),
            outcome,
            digest: None,
        }
    }

    /// Fills in the document's own digest: the last member, over everything before it.
    pub fn seal(mut self) -> Document {
        self.digest = None;
        self.digest = digest(&self);
        self
    }
}

/// SHA-256 over the compact JSON of a document that has no digest yet.
pub fn digest(document: &impl Serialize) -> Option<String> {
    let text = serde_json::to_vec(document).ok()?;
    let hex: String = Sha256::digest(&text).iter().map(|b| format!("{b:02x}")).collect();
    Some(format!("sha256:{hex}"))
}

fn warnings(seen: &Observed, history: &History) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Err(words) = &seen.pods {
        warnings.push(format!("Pods could not be read, so nothing about what they read can be proven: {words}"));
    }
    if let Err(words) = &seen.events {
        warnings.push(format!("Events could not be read: {words}"));
    }
    match &seen.records {
        Ok(records) => {
            warnings.extend(records.unusable.iter().map(|why| format!("a record cannot be used: {why}")));
        }
        Err(words) => warnings.push(format!("records of earlier runs could not be read: {words}")),
    }
    match seen.workload.int_at("/spec/revisionHistoryLimit") {
        Some(0) => {
            warnings.push("revisionHistoryLimit is 0: Kubernetes keeps no earlier revision to go back to".into())
        }
        Some(1) => warnings.push("revisionHistoryLimit is 1: only one earlier revision is kept to go back to".into()),
        _ => {}
    }
    for twins in history.twins() {
        let numbers: Vec<String> = twins.iter().map(u64::to_string).collect();
        warnings.push(format!("revisions {} have the same template", numbers.join(" and ")));
    }
    if history.pending {
        warnings.push("the live template belongs to no revision yet (paused, or not yet observed)".into());
    }
    warnings
}

fn revision(judged: &Judged) -> Revision {
    let r = &judged.revision;
    let containers = r.template.pointer("/spec/containers").and_then(Value::as_array);
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or("").to_string();
    let alive = || judged.pods.iter().filter(|p| !p.terminating);
    Revision {
        number: r.number,
        former_numbers: r.former.clone(),
        current: r.current,
        object: Named { kind: "ReplicaSet".into(), name: r.object.name().into(), uid: r.object.uid().into() },
        first_started: r.first_started,
        retired: r.retired,
        activity_known: !r.started_again && (r.current || r.retired.is_some()),
        images: containers.into_iter().flatten().map(|c| (text(c, "name"), text(c, "image"))).collect(),
        change_cause: r.object.annotation(CHANGE_CAUSE).map(str::to_string),
        pods: Pods {
            ready: judged.ready(),
            total: alive().count(),
            oldest_start: alive().filter_map(|p| p.started).min(),
            restarts: alive().map(|p| p.restarts).max().unwrap_or(0),
        },
        failing: judged.failing(),
        set_aside: judged
            .set_aside
            .iter()
            .map(|(pod, reason)| SetAside { pod: pod.clone(), reason: reason.clone() })
            .collect(),
        damaged: r.damaged.clone(),
        verdict: judged.summary().map(Verdict::word),
        references: judged.references.iter().map(reference).collect(),
    }
}

fn reference(j: &Judgement) -> Reference {
    let live = j.live.as_ref();
    Reference {
        kind: j.reference.kind.to_string(),
        name: j.reference.name.clone(),
        uid: live.map(|o| o.uid().to_string()),
        immutable: live
            .filter(|_| j.reference.kind == Kind::ConfigMap)
            .map(|o| o.0.get("immutable").and_then(Value::as_bool).unwrap_or(false)),
        verdict: j.verdict.word(),
        injected: j.injected,
        written: live.and_then(evidence::write_sign).map(|(at, by)| Written { at, by }),
        uses: j.reference.uses.iter().map(use_line).collect(),
        digest: Digests {
            live: j.live_content.as_ref().map(|c| j.reference.consumed(c).digest().to_string()),
            read: j.read.as_ref().map(ToString::to_string),
        },
        differing_keys: j.differing.clone(),
        key_count: j.live_content.as_ref().map(|c| j.reference.consumed(c).keys().count()),
        evidence: j
            .facts
            .iter()
            .map(|f| Evidence { source: f.source, says: f.says, proof: f.proof, detail: f.detail.clone() })
            .collect(),
        candidates: j
            .candidates
            .iter()
            .map(|c| CandidateLine {
                digest: c.digest.to_string(),
                source: c.origin.word(),
                from: c.from,
                to: c.until,
                grade: c.grade.word(),
                proof: c.grade == Grade::Proof,
            })
            .collect(),
        action: None,
        because: None,
    }
}

fn use_line(used: &Use) -> UseLine {
    UseLine {
        pointer: used.pointer.clone(),
        container: used.container.clone(),
        read: used.read.word(),
        keys: match &used.keys {
            Keys::AllData | Keys::All => None,
            Keys::Data(key) => Some(vec![key.clone()]),
            Keys::Named(keys) | Keys::File(keys) => Some(keys.clone()),
        },
        optional: used.optional,
    }
}

/// Puts each decision beside its reference in the target's row.
pub fn with_decisions(document: &mut Document, plan: &Plan, because: impl Fn(&Judgement) -> String) {
    let Some(row) = document.revisions.iter_mut().find(|r| r.number == plan.to) else { return };
    for ((line, judgement), decision) in row.references.iter_mut().zip(&plan.target.references).zip(&plan.decisions) {
        line.action = Some(decision.action.word());
        line.because = Some(because(judgement));
    }
}

/// One line a reference for `Plan` and `Rollback`.
pub fn actions(plan: &Plan) -> Vec<ActionLine> {
    plan.target
        .references
        .iter()
        .zip(&plan.decisions)
        .map(|(j, d)| {
            let pinned =
                plan.snapshots.iter().find(|s| matches!(d.action, Action::Pin(_)) && s.source == j.reference.name);
            ActionLine {
                reference: format!("{}/{}", j.reference.kind, j.reference.name),
                verdict: j.verdict.word(),
                action: d.action.word(),
                to: pinned.map(|s| s.name.clone()),
                grade: d.grade.word(),
                source: match &d.action {
                    Action::Pin(candidate) => Some(candidate.origin.word()),
                    _ => None,
                },
            }
        })
        .collect()
}

/// Who else writes the workload, in the plan's order.
pub fn owners(plan: &Plan) -> Vec<OwnerLine> {
    let object = |named: &owners::Named| OwnerObject {
        kind: named.kind.clone(),
        namespace: Some(named.namespace.clone()).filter(|n| !n.is_empty()),
        name: named.name.clone(),
    };
    let line = |owner: &owners::Owner| OwnerLine {
        tool: owner.tool.word(),
        object: owner.object.as_ref().map(object),
        healing: owner.healing.word(),
        known: format!("{}; {}", owner.sign, owner.why),
        says: owner.sentence(),
    };
    plan.owners.owners.iter().map(line).collect()
}

impl Overwritten {
    pub fn of(other: &owners::Overwritten) -> Overwritten {
        let digest = |hex: &str| format!("sha256:{hex}");
        Overwritten {
            by: other.by.clone(),
            generation: other.generation,
            planned: digest(&other.ours),
            live: digest(&other.theirs),
            differs: other.differs.clone(),
        }
    }
}

impl Status {
    /// `since` gives each trouble its time.
    pub fn of(
        standing: &pods::Standing,
        ending: pods::Ending,
        sentence: String,
        said: Vec<String>,
        since: impl Fn(usize, &pods::Trouble) -> Option<Timestamp>,
    ) -> Status {
        let reason = |(i, t): (usize, &pods::Trouble)| ReasonLine {
            object: t.object.clone(),
            pod: t.object.strip_prefix("pod/").map(str::to_string),
            container: t.container.clone(),
            revision: t.revision,
            blocks: t.blocks,
            reason: t.reason.clone(),
            message: t.message.clone(),
            since: since(i, t),
        };
        let pod = |p: &pods::PodLine| PodLine {
            name: p.name.clone(),
            uid: p.uid.clone(),
            revision: p.revision,
            ready: p.ready,
            terminating: p.terminating,
            restarts: p.restarts,
        };
        Status {
            sentence,
            phase: ending.word(),
            wanted: standing.wanted,
            reasons: standing.troubles.iter().enumerate().map(reason).collect(),
            pods: standing.pods.iter().map(pod).collect(),
            terminating: standing.terminating(),
            said,
            exit_code: ending.exit_code(),
        }
    }
}

/// Where contents were looked for, and with what result: "not found", "expired" and "not looked in" differ.
pub fn looked_in(seen: &Observed, plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for refusal in plan.refusals.iter().filter_map(|r| r.reference.as_deref()) {
        let Some(name) = refusal.strip_prefix("ConfigMap/") else { continue };
        let past = seen.past.get(&(Kind::ConfigMap, name.to_string()));
        let found = past.map_or(0, |p| p.versions.len());
        let api = match past.map(|p| &p.end) {
            None | Some(PastEnd::NotLooked) => continue,
            Some(_) if found == 1 => "1 version, not known to be the one".into(),
            Some(_) if found > 1 => format!("{found} versions, none known to be the one"),
            Some(PastEnd::Expired) => "expired".to_string(),
            Some(PastEnd::Beginning) => "it holds nothing older".into(),
            Some(PastEnd::Enough) => "no version that is known to be the one".into(),
            Some(PastEnd::Limit) => "more than 50 versions, or 2s were over".into(),
            Some(PastEnd::Failed(words)) => format!("failed ({words})"),
        };
        let applied = plan
            .target
            .references
            .iter()
            .filter(|j| j.reference.name == name && j.reference.kind == Kind::ConfigMap)
            .flat_map(|j| &j.candidates)
            .find(|c| c.origin == crate::core::observed::Origin::LastApplied);
        let applied = applied.map_or("none".to_string(), |c| format!("{}, of unknown date", c.digest.short()));
        let saved = seen.snapshots.get(name).map_or(0, Vec::len);
        let saved = if saved == 0 { "none".to_string() } else { format!("{saved}, not known to be the one") };
        lines.push(format!("snapshots: {saved}; API history: {api}; last-applied: {applied}"));
    }
    lines.dedup();
    lines
}
