//! Saved in time, known later: `snapshot create` and records against a real API server.

use super::undo::writes;
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, EVENTS};
use crate::support::control_plane::{ControlPlane, Namespace};
use crate::support::incident::{self, AGED};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// What an hour takes away: Events, and the API's history.
pub fn an_hour_later(plane: &ControlPlane, namespace: &Namespace) {
    namespace.all(EVENTS).delete(&json!({})).ok();
    plane.compact_history();
}

fn reference(document: &Value) -> &Value {
    &document["revisions"][0]["references"][0]
}

fn objects(namespace: &Namespace, kind: &str) -> Vec<Value> {
    let mut objects = namespace.items(CONFIGMAPS);
    objects.retain(|c| c["metadata"]["labels"]["saferollback.dev/kind"] == kind);
    objects
}

/// Without this what is found in the API's history for a few minutes would be lost after them.
#[test]
fn what_is_saved_in_time_is_proof_an_hour_later() {
    let plane = ControlPlane::compact();
    let namespace = plane.namespace("saved");
    let _player = incident::start(&namespace, AGED);
    incident::trap(&namespace);
    let before = namespace.at(DEPLOYMENTS, "web").get().ok();

    let planned = namespace.run(&["snapshot", "create", "web", "--revision", "1", "--dry-run", "-o", "json"]);
    assert_eq!(planned.expect(0).document()["outcome"], "planned");
    assert_eq!(writes(&namespace), [""; 0], "a dry run writes nothing");

    let start = Instant::now();
    let saved = namespace.run(&["snapshot", "create", "web", "--revision", "1", "-o", "json"]).expect(0).document();
    assert!(start.elapsed() < Duration::from_secs(2), "from page to saved bytes: {:?}", start.elapsed());
    assert_eq!((&saved["outcome"], &saved["snapshots"][0]["grade"]), (&json!("saved"), &json!("proof")), "{saved:#}");
    assert_eq!(writes(&namespace), ["create configmaps", "create configmaps"], "the snapshot and the record");
    let after = namespace.at(DEPLOYMENTS, "web").get().ok();
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"], "no rollout starts");
    assert_eq!(after["metadata"]["annotations"], before["metadata"]["annotations"]);
    let snapshot = &objects(&namespace, "snapshot")[0];
    assert_eq!(snapshot["data"], incident::settings("v1", "true")["data"], "the bytes from before the edit");

    let again = namespace.run(&["snapshot", "create", "web", "--revision", "1"]).expect(0);
    assert!(again.stdout.contains("saved already"), "{again:?}");
    assert_eq!(objects(&namespace, "record").len() + objects(&namespace, "snapshot").len(), 2, "no second copy");

    // Only where it is asked for, and only of the current revision, the workload is annotated; no rollout starts.
    namespace.run(&["snapshot", "create", "web", "--annotate", "--revision", "1"]).expect(2);
    let annotated = namespace.run(&["snapshot", "create", "web", "--annotate"]).expect(0);
    assert!(annotated.stdout.contains("deployment/web annotated"), "{annotated:?}");
    let after = namespace.at(DEPLOYMENTS, "web").get().ok();
    assert_eq!(after["spec"], before["spec"], "no rollout starts");
    assert!(after["metadata"]["annotations"]["saferollback.dev/record"].is_string(), "{after:#}");

    an_hour_later(&plane, &namespace);
    let check = namespace.run(&["check", "web", "--to-revision", "1", "-o", "json"]).expect(3).document();
    assert_eq!(reference(&check)["verdict"], "changed", "{check:#}");
    let undone = namespace.run(&["undo", "web", "--to-revision", "1", "-y", "--require=proof", "-o", "json"]);
    let undone = undone.expect(0).document();
    let action = &undone["actions"][0];
    assert_eq!((&action["source"], &action["grade"]), (&json!("snapshot"), &json!("proof")), "{undone:#}");
    assert_eq!(action["to"], snapshot["metadata"]["name"], "the one that was saved");
}

/// Without this only the bytes that are read today could be told an hour after a rollback, not that the Pods read them.
#[test]
fn an_undo_that_pins_records_what_its_pods_read() {
    let plane = ControlPlane::compact();
    let namespace = plane.namespace("recorded");
    let other = json!({"metadata": {"name": "other"}, "data": {"a": "1"}});
    namespace.all(CONFIGMAPS).create(&other).ok();
    let _player = incident::start(&namespace, AGED);
    let two = json!([{"configMapRef": {"name": "settings"}}, {"configMapRef": {"name": "other"}}]);
    let add = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/envFrom", "value": two}]);
    namespace.at(DEPLOYMENTS, "web").json_patch(&add).ok();
    incident::rolled_out(&namespace, "web");
    incident::trap(&namespace);
    let undone = namespace.run(&["undo", "web", "--to-revision", "2", "-y", "-o", "json"]).expect(0).document();
    let records = objects(&namespace, "record");
    assert_eq!(records.len(), 1, "{undone:#}");
    let name = format!("ConfigMap/{}", records[0]["metadata"]["name"].as_str().expect("a name"));
    assert!(undone["written"].as_array().is_some_and(|w| w.iter().any(|w| w["object"] == name.as_str())), "{undone:#}");

    an_hour_later(&plane, &namespace);
    let now = namespace.run(&["history", "web", "--revision", "4", "-o", "json"]).expect(0).document();
    for reference in now["revisions"][0]["references"].as_array().expect("references") {
        assert_eq!(reference["verdict"], "same", "{reference:#}");
        assert!(reference["evidence"].to_string().contains("\"record\""), "{reference:#}");
    }
    // What was kept is known, too, when it is edited: different, by its digest.
    namespace.at(CONFIGMAPS, "other").merge_patch(&json!({"data": {"a": "2"}})).ok();
    let now = namespace.run(&["history", "web", "--revision", "4", "-o", "json"]).expect(0).document();
    let references = now["revisions"][0]["references"].as_array().expect("references");
    let edited = references.iter().find(|r| r["name"] == "other").expect("the kept one");
    assert_eq!(edited["verdict"], "changed", "{edited:#}");
}
