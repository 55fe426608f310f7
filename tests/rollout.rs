//! `rollout status`, in kubectl's sentences.

use saferollback::core::object::Object;
use saferollback::core::rollout::{Progress, deployment};
use serde_json::{Value, json};

fn web(change: impl FnOnce(&mut Value)) -> Object {
    let mut object = json!({
        "kind": "Deployment", "metadata": {"name": "web", "generation": 7}, "spec": {"replicas": 3},
        "status": {
            "observedGeneration": 7, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3, "readyReplicas": 3,
            "conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                "lastUpdateTime": "2026-11-29T12:00:00Z"}]
        }
    });
    change(&mut object);
    Object(object)
}

#[test]
fn kubectls_sentences() {
    use Progress::*;
    let says = |change: fn(&mut Value)| deployment(&web(change), 7, None, &[]);
    assert_eq!(says(|_| {}), Done("deployment \"web\" successfully rolled out".into()));
    type Case = (fn(&mut Value), &'static str);
    let waiting: [Case; 5] = [
        (|o| o["status"]["observedGeneration"] = json!(6), "Waiting for deployment spec update to be observed..."),
        (
            |o| o["status"]["updatedReplicas"] = json!(1),
            "Waiting for deployment \"web\" rollout to finish: 1 out of 3 new replicas have been updated...",
        ),
        (
            |o| o["status"]["replicas"] = json!(5),
            "Waiting for deployment \"web\" rollout to finish: 2 old replicas are pending termination...",
        ),
        (
            |o| o["status"]["availableReplicas"] = json!(2),
            "Waiting for deployment \"web\" rollout to finish: 2 of 3 updated replicas are available...",
        ),
        (|o| o["status"] = json!({}), "Waiting for deployment spec update to be observed..."),
    ];
    for (change, sentence) in waiting {
        assert_eq!(says(change), Waiting(sentence.into()));
    }
}

fn exceeded(at: &str) -> Object {
    web(|o| {
        o["status"]["conditions"][0] = json!({"type": "Progressing", "status": "False",
            "reason": "ProgressDeadlineExceeded", "lastUpdateTime": at});
        o["status"]["updatedReplicas"] = json!(1);
    })
}

/// Without this a good rollback would be reported as failed by what it repairs (C79).
#[test]
fn c79_a_former_rollouts_deadline_is_not_ours() {
    use Progress::*;
    let (before, later) = ("2026-11-29T12:00:00Z", "2026-11-29T12:20:00Z");
    let failed = Failed("deployment \"web\" exceeded its progress deadline".into());
    // First reads after our patch, generation 8: not yet observed.
    assert!(matches!(deployment(&exceeded(before), 8, Some(before), &[]), Waiting(_)));
    // Observed, but the condition is the old one.
    assert!(matches!(deployment(&exceeded(before), 7, Some(before), &[]), Waiting(_)));
    // Our own rollout exceeds it.
    assert_eq!(deployment(&exceeded(later), 7, Some(before), &[]), failed);
    assert_eq!(deployment(&exceeded(before), 7, None, &[]), failed);
    let mut undated = exceeded(before);
    undated.0["status"]["conditions"][0].as_object_mut().unwrap().shift_remove("lastUpdateTime");
    assert_eq!(deployment(&undated, 7, None, &[]), failed);
}

#[test]
fn a_deployment_scaled_to_zero_is_done() {
    let zero = web(|o| {
        o["spec"]["replicas"] = json!(0);
        o["status"] = json!({"observedGeneration": 7});
    });
    assert!(matches!(deployment(&zero, 7, None, &[]), Progress::Done(_)));
    // Absent replicas are one.
    let one = web(|o| {
        o["spec"] = json!({});
        o["status"] = json!({"observedGeneration": 7});
    });
    assert!(matches!(deployment(&one, 7, None, &[]), Progress::Waiting(_)));
}

#[test]
fn a_later_generation_is_not_ours_to_wait_for_less() {
    // An autoscaler moved it on: what is observed is at least ours.
    let moved = web(|o| o["status"]["observedGeneration"] = json!(9));
    assert!(matches!(deployment(&moved, 7, None, &[]), Progress::Done(_)));
}
