//! Which revision is meant, asked on a real control plane: the numbers move, and a wrong one must write nothing.

use super::undo::{numbered, writes};
use crate::support::client::{DEPLOYMENTS, REPLICASETS};
use crate::support::control_plane::{ControlPlane, Namespace, wait};
use crate::support::incident;
use crate::support::product::Ran;
use serde_json::{Value, json};

/// A Deployment without Pods and without configuration: only its numbers matter.
fn bare(namespace: &Namespace, releases: &[&str]) {
    let mut body = incident::web(0);
    body["spec"]["template"]["spec"]["containers"][0].as_object_mut().expect("a container").shift_remove("envFrom");
    namespace.all(DEPLOYMENTS).create(&body).ok();
    numbered(namespace);
    for name in releases {
        incident::release(namespace, name);
        numbered(namespace);
    }
}

fn web(namespace: &Namespace) -> Value {
    namespace.at(DEPLOYMENTS, "web").get().ok()
}

/// Runs what must write nothing, whatever it answers.
#[track_caller]
fn unwritten(namespace: &Namespace, arguments: &[&str], code: i32) -> Ran {
    let (before, already) = (web(namespace), writes(namespace).len());
    let ran = namespace.run(arguments).expect(code);
    assert_eq!(writes(namespace).len(), already, "{arguments:?} wrote something: {ran:?}");
    assert_eq!(web(namespace)["metadata"]["generation"], before["metadata"]["generation"], "{arguments:?}");
    ran
}

#[track_caller]
pub fn says(ran: &Ran, words: &[&str]) {
    // Prose is wrapped.
    let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(said.contains(word), "{word:?} is not said: {ran:?}");
    }
}

fn numbers(document: &Value) -> Vec<u64> {
    document["revisions"].as_array().into_iter().flatten().filter_map(|r| r["number"].as_u64()).collect()
}

/// Without this a number that a person remembers would lead to another revision than the one they mean (C01).
#[test]
fn a_number_that_moved_is_named_and_never_another() {
    let namespace = ControlPlane::main().namespace("moved");
    bare(&namespace, &["two", "one"]);
    let history = namespace.run(&["history", "web", "-o", "json"]).expect(0).document();
    assert_eq!(numbers(&history), [2, 3]);
    assert_eq!(history["revisions"][1]["formerNumbers"], json!([1]));
    let same = unwritten(&namespace, &["undo", "web", "--to-revision", "1", "-y"], 0);
    assert!(same.stdout.contains("nothing to do"), "{same:?}");
    incident::release(&namespace, "four");
    numbered(&namespace);
    let moved = unwritten(&namespace, &["undo", "web", "--to-revision", "1", "-y"], 3);
    let object = history["revisions"][1]["object"]["name"].as_str().expect("a name").to_string();
    says(&moved, &["revision 1 is now revision 3", &format!("replicaset/{object}")]);
}

/// Without this an undo without a number could land on a much older version, because the one before is gone (C02).
#[test]
fn previous_is_not_guessed_over_a_gap() {
    let namespace = ControlPlane::main().namespace("gap");
    bare(&namespace, &["two", "three"]);
    let second = super::replica_set(&namespace, "two")["metadata"]["name"].as_str().expect("a name").to_string();
    namespace.at(REPLICASETS, &second).delete(&json!({})).ok();
    let unclear = unwritten(&namespace, &["undo", "web", "-y"], 3);
    says(&unclear, &["revision 2 between 1 and 3 is gone", "--to-revision"]);
    namespace.run(&["undo", "web", "--to-revision", "1", "-y"]).expect(0);
    assert_eq!(web(&namespace)["spec"]["template"]["metadata"]["annotations"]["release"], "one");
}

/// Without this a typo in a number would look like a rollback that worked, or end the program (C05).
#[test]
fn a_number_that_is_not_there_is_answered_with_those_that_are() {
    let namespace = ControlPlane::main().namespace("typo");
    bare(&namespace, &["two"]);
    for verb in [&["undo", "-y"][..], &["check"]] {
        let asked = |number: &str| [verb, &["web", &format!("--to-revision={number}")]].concat().join(" ");
        let run = |number: &str, code| {
            let line = asked(number);
            unwritten(&namespace, &line.split(' ').collect::<Vec<_>>(), code)
        };
        says(&run("3", 3), &["revision 3 not found", "there are revisions 1, 2"]);
        says(&run("-1", 2), &["--to-revision"]);
        says(&run("99999999999999999999", 2), &["--to-revision"]);
    }
    // 0 is the previous one, as for kubectl.
    let zero = namespace.run(&["check", "web", "--to-revision", "0", "-o", "json"]).expect(0).document();
    assert_eq!(zero["target"], 1);
}

/// Without this it would be found out in the outage that there is nothing to go back to, and not why (C06).
#[test]
fn nothing_to_go_back_to_says_why_and_is_warned_of_before() {
    let namespace = ControlPlane::main().namespace("first");
    bare(&namespace, &[]);
    says(&unwritten(&namespace, &["undo", "web", "-y"], 3), &["this is the first rollout"]);
    for (limit, warning) in [(1, "revisionHistoryLimit is 1"), (0, "revisionHistoryLimit is 0")] {
        namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"spec": {"revisionHistoryLimit": limit}})).ok();
        says(&unwritten(&namespace, &["history", "web"], 0), &[warning]);
    }
    incident::release(&namespace, "two");
    numbered(&namespace);
    wait("the clean-up", || (namespace.items(REPLICASETS).len() == 1).then_some(()));
    says(&unwritten(&namespace, &["undo", "web", "-y"], 3), &["revisionHistoryLimit is 0"]);
}

/// Without this two ReplicaSets with one template would be two versions, and going from one to the other a rollback (C08).
#[test]
fn twins_are_one_template() {
    let namespace = ControlPlane::main().namespace("twins");
    bare(&namespace, &["two"]);
    let mut twin = super::replica_set(&namespace, "two");
    let hash = twin["metadata"]["labels"]["pod-template-hash"].as_str().expect("a hash").to_string();
    let other: Value = serde_json::from_str(&twin.to_string().replace(&hash, "twin")).expect("JSON");
    twin = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": other["spec"], "metadata": {
        "name": "web-twin", "labels": other["metadata"]["labels"], "ownerReferences": other["metadata"]["ownerReferences"],
        "annotations": {"deployment.kubernetes.io/revision": "7"}}});
    namespace.all(REPLICASETS).create(&twin).ok();
    // The controller keeps the older of the two and counts it above the other.
    wait("the new number", || {
        (web(&namespace)["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "8").then_some(())
    });
    wait("the ReplicaSet's number", || {
        (super::replica_set(&namespace, "one")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
            && numbers(&namespace.run(&["history", "web", "-o", "json"]).document()) == [1, 7, 8])
        .then_some(())
    });
    says(&unwritten(&namespace, &["history", "web"], 0), &["revisions 7 and 8 have the same template"]);
    let same = unwritten(&namespace, &["undo", "web", "--to-revision", "7", "-y"], 0);
    assert!(same.stdout.contains("nothing to do"), "{same:?}");
    let document = unwritten(&namespace, &["undo", "web", "--to-revision", "7", "-y", "-o", "json"], 0).document();
    assert_eq!(document["outcome"], "nothing-to-do");
}

/// Without this an edit that waits in a paused Deployment would be lost by an undo, or taken for the running revision
/// (C12, C28).
#[test]
fn a_paused_edit_is_said_and_not_lost() {
    let namespace = ControlPlane::main().namespace("paused");
    bare(&namespace, &["two"]);
    namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"spec": {"paused": true}})).ok();
    incident::release(&namespace, "three");
    says(&unwritten(&namespace, &["history", "web"], 0), &["belongs to no revision yet"]);
    let refused = unwritten(&namespace, &["undo", "web", "--to-revision", "1", "-y"], 3);
    says(&refused, &["paused", "an edit that an undo would lose", "nothing was written"]);
    assert_eq!(web(&namespace)["spec"]["template"]["metadata"]["annotations"]["release"], "three");
}

/// Without this a rollback to what runs already would be a needless rollout (C30).
#[test]
fn the_current_revision_is_nothing_to_do() {
    let namespace = ControlPlane::main().namespace("there");
    bare(&namespace, &["two"]);
    let same = unwritten(&namespace, &["undo", "web", "--to-revision", "2", "-y"], 0);
    assert!(same.stdout.contains("nothing to do"), "{same:?}");
}

/// Without this the same command typed twice would bring the broken version back (C31).
#[test]
fn undo_twice_does_not_return_to_the_broken_version() {
    let namespace = ControlPlane::main().namespace("twice");
    bare(&namespace, &["two"]);
    namespace.run(&["undo", "web", "-y"]).expect(0);
    numbered(&namespace);
    let again = unwritten(&namespace, &["undo", "web", "-y"], 3);
    says(&again, &["from revision 2 to revision 1", "--to-revision"]);
    assert_eq!(web(&namespace)["spec"]["template"]["metadata"]["annotations"]["release"], "one");
}
