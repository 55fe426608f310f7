//! Revisions with all their references judged, and what their Pods are doing.

use serde_json::Value;

use crate::core::evidence::{self, Case};
use crate::core::history::{History, Revision};
use crate::core::object::Object;
use crate::core::observed::Observed;
use crate::core::references::{self, NotTraced};
use crate::core::verdict::{self, Judgement, Verdict};

/// One revision with all its references judged.
#[derive(Clone, Debug)]
pub struct Judged {
    pub revision: Revision,
    pub references: Vec<Judgement>,
    pub not_traced: Vec<NotTraced>,
    pub pods: Vec<PodState>,
    /// Pods that are owned by the revision but testify nothing, with the reason.
    pub set_aside: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub struct PodState {
    pub name: String,
    pub ready: bool,
    pub terminating: bool,
    pub started: Option<jiff::Timestamp>,
    pub restarts: i64,
}

impl Judged {
    /// The worst verdict; `None` without references.
    pub fn summary(&self) -> Option<Verdict> {
        self.references.iter().map(|j| j.verdict).min()
    }

    pub fn ready(&self) -> usize {
        self.pods.iter().filter(|p| p.ready && !p.terminating).count()
    }

    /// Only containers that are or became ready witness what the revision ran well with (rule 11).
    pub fn failing(&self) -> bool {
        self.pods.iter().any(|p| !p.terminating) && self.ready() == 0
    }
}

/// Judges every revision that `wanted` selects.
pub fn judge(seen: &Observed, history: &History, wanted: impl Fn(&Revision) -> bool) -> Vec<Judged> {
    let case = Case::new(seen, history);
    history
        .revisions
        .iter()
        .filter(|r| wanted(r))
        .map(|revision| {
            let template = references::extract(&revision.template);
            let witnesses = evidence::witnesses(revision, seen.all_pods());
            let injected = evidence::injected(&template, &witnesses);
            let references = template
                .references
                .iter()
                .map(|r| (r, false))
                .chain(injected.iter().map(|r| (r, true)))
                .map(|(r, injected)| verdict::judge(&case, revision, &witnesses, r, injected))
                .collect();
            Judged {
                references,
                not_traced: template.not_traced,
                pods: evidence::owned_pods(revision, seen.all_pods()).into_iter().map(PodState::of).collect(),
                set_aside: witnesses.set_aside,
                revision: revision.clone(),
            }
        })
        .collect()
}

impl PodState {
    pub fn of(pod: &Object) -> PodState {
        let condition = |kind: &str| {
            pod.items_at("/status/conditions").iter().any(|c| {
                c.get("type").and_then(Value::as_str) == Some(kind)
                    && c.get("status").and_then(Value::as_str) == Some("True")
            })
        };
        PodState {
            name: pod.name().to_string(),
            ready: condition("Ready"),
            terminating: pod.terminating(),
            started: pod.created(),
            restarts: pod
                .items_at("/status/containerStatuses")
                .iter()
                .filter_map(|c| c.get("restartCount").and_then(Value::as_i64))
                .max()
                .unwrap_or(0),
        }
    }
}
