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
/// `stale`: the `lastUpdateTime` of a Progressing condition that was there before our patch. The former rollout's
/// ProgressDeadlineExceeded is not ours (kubernetes/kubernetes#49637).
pub fn deployment(object: &Object, generation: i64, stale: Option<&str>) -> Progress {
    let name = object.name();
    let number = |pointer: &str| object.int_at(pointer).unwrap_or(0);
    if number("/status/observedGeneration") < generation {
        return Progress::Waiting("Waiting for deployment spec update to be observed...".into());
    }
    let exceeded = progressing(object).is_some_and(|c| {
        c.get("reason").and_then(Value::as_str) == Some("ProgressDeadlineExceeded")
            && (stale.is_none() || c.get("lastUpdateTime").and_then(Value::as_str) != stale)
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

/// Does a Deployment or ReplicaSet say that its Pods are not admitted (quota, Pod security, a policy)?
pub fn pods_denied(object: &Object) -> bool {
    object.items_at("/status/conditions").iter().any(|condition| {
        let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or("");
        (text("type"), text("status")) == ("ReplicaFailure", "True")
    })
}

/// Why Pods of one ReplicaSet do not come up, in the container runtime's or the controller's words.
pub fn trouble(pods: &[Object], replica_set_uid: &str, workload: &Object) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for pod in pods.iter().filter(|p| p.controller().is_some_and(|o| o.uid == replica_set_uid) && !p.terminating()) {
        let waiting = ["/status/initContainerStatuses", "/status/containerStatuses"]
            .into_iter()
            .flat_map(|f| pod.items_at(f))
            .filter_map(|status| {
                let waiting = status.pointer("/state/waiting")?;
                let text = |key: &str| waiting.get(key).and_then(Value::as_str).unwrap_or("");
                (!["ContainerCreating", "PodInitializing", ""].contains(&text("reason")))
                    .then(|| format!("pod/{}: {}: {}", pod.name(), text("reason"), text("message")))
            });
        let unschedulable = pod.items_at("/status/conditions").iter().filter_map(|c| {
            let text = |key: &str| c.get(key).and_then(Value::as_str).unwrap_or("");
            (text("reason") == "Unschedulable")
                .then(|| format!("pod/{}: unschedulable: {}", pod.name(), text("message")))
        });
        found.extend(waiting.chain(unschedulable));
    }
    for condition in workload.items_at("/status/conditions") {
        let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or("");
        if (text("type"), text("status")) == ("ReplicaFailure", "True") {
            found.push(text("message").to_string());
        }
    }
    found
}
