//! Object → done, failed or waiting, by kubectl's rules and in its sentences (scripts grep them).

use serde_json::Value;

use crate::core::object::Object;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    Done(String),
    Failed(String),
    Waiting(String),
}

/// kubectl's `rollout status` of a Deployment, for the rollout of `generation`.
///
/// The former rollout's ProgressDeadlineExceeded is not ours, and stays until Pods come on
/// (kubernetes/kubernetes#49637). `stale`: the `lastUpdateTime` of a Progressing condition that was there before our
/// patch. `others`: the ReplicaSets of other revisions; the condition names the one that it speaks of.
pub fn deployment(object: &Object, generation: i64, stale: Option<&str>, others: &[&str]) -> Progress {
    let name = object.name();
    let number = |pointer: &str| object.int_at(pointer).unwrap_or(0);
    if number("/status/observedGeneration") < generation {
        return Progress::Waiting("Waiting for deployment spec update to be observed...".into());
    }
    let exceeded = progressing(object).is_some_and(|c| {
        let text = |key: &str| c.get(key).and_then(Value::as_str);
        let message = text("message").unwrap_or("");
        text("reason") == Some("ProgressDeadlineExceeded")
            && (stale.is_none() || text("lastUpdateTime") != stale)
            && !others.iter().any(|name| message.contains(&format!("\"{name}\"")))
    });
    if exceeded {
        return Progress::Failed(format!("deployment {name:?} exceeded its progress deadline"));
    }
    let wanted = object.int_at("/spec/replicas").unwrap_or(1);
    let (updated, total, available) =
        (number("/status/updatedReplicas"), number("/status/replicas"), number("/status/availableReplicas"));
    let waiting =
        |what: String| Progress::Waiting(format!("Waiting for deployment {name:?} rollout to finish: {what}..."));
    if updated < wanted {
        return waiting(format!("{updated} out of {wanted} new replicas have been updated"));
    }
    if total > updated {
        return waiting(format!("{} old replicas are pending termination", total - updated));
    }
    if available < updated {
        return waiting(format!("{available} of {updated} updated replicas are available"));
    }
    Progress::Done(format!("deployment {name:?} successfully rolled out"))
}

/// The Deployment's Progressing condition.
pub fn progressing(object: &Object) -> Option<&Value> {
    object.items_at("/status/conditions").iter().find(|c| c.get("type").and_then(Value::as_str) == Some("Progressing"))
}
