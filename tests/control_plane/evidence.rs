//! Histories that tempt to a false "same", each played on a real API server.

use super::undo::writes;
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, EVENTS, PODS, REPLICASETS};
use crate::support::control_plane::{ControlPlane, Namespace, version, wait};
use crate::support::incident::{self, AGED};
use crate::support::kubelet::{Health, Play};
use crate::support::player::Player;
use serde_json::{Value, json};
use std::thread;

/// The one reference of one revision, as `history` reports it.
#[track_caller]
fn reference(namespace: &Namespace, revision: u64) -> Value {
    let history = namespace.run(&["history", "web", "-o", "json"]).expect(0).document();
    let found = history["revisions"].as_array().into_iter().flatten().find(|r| r["number"] == revision).cloned();
    let found = found.unwrap_or_else(|| panic!("no revision {revision}: {history:#}"));
    assert_eq!(found["references"].as_array().map(Vec::len), Some(1), "{found:#}");
    found["references"][0].clone()
}

#[track_caller]
fn verdict(namespace: &Namespace, revision: u64) -> String {
    reference(namespace, revision)["verdict"].as_str().expect("a word").to_string()
}

fn proofs(reference: &Value) -> Vec<&str> {
    let all = reference["evidence"].as_array().into_iter().flatten();
    all.filter(|e| e["proof"] == true).filter_map(|e| e["source"].as_str()).collect()
}

#[track_caller]
fn not_same(namespace: &Namespace, revision: u64) {
    let found = reference(namespace, revision);
    assert!(
        !["same", "likely-same", "optional-absent"].contains(&found["verdict"].as_str().unwrap_or("")),
        "{found:#}"
    );
}

/// Two Pods with the settings, every one started well.
fn running(namespace: &Namespace) -> Player {
    namespace.all(DEPLOYMENTS).create(&incident::web(2)).ok();
    let player = Player::run(namespace, |_| Some(Play::ready()));
    incident::rolled_out(namespace, "web");
    player
}

/// Namespaces whose settings are old enough for proof; the wait is one for all.
fn aged<const N: usize>(plane: &ControlPlane, names: [&str; N]) -> [Namespace; N] {
    let namespaces = names.map(|name| plane.namespace(name));
    for namespace in &namespaces {
        namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    }
    thread::sleep(AGED);
    namespaces
}

fn forget_events(namespace: &Namespace) {
    for event in namespace.items(EVENTS) {
        namespace.at(EVENTS, event["metadata"]["name"].as_str().expect("a name")).delete(&json!({})).ok();
    }
}

fn settings(namespace: &Namespace) -> Value {
    namespace.at(CONFIGMAPS, "settings").get().ok()
}

/// Without this a removed key, the one edit that managedFields never shows, would pass for "unchanged".
#[test]
fn a_removed_key_is_never_the_same() {
    let (plane, split) = (ControlPlane::main(), ControlPlane::split());
    let [namespace] = aged(&plane, ["removed"]);
    let _player = running(&namespace);
    assert_eq!(verdict(&namespace, 1), "same", "the control: before the edit");
    let before = settings(&namespace);
    let remove = json!([{"op": "remove", "path": "/data/CONFIG_REVISION"}]);
    let after = namespace.at(CONFIGMAPS, "settings").json_patch(&remove).ok();
    assert_eq!(
        before["metadata"]["managedFields"][0]["time"], after["metadata"]["managedFields"][0]["time"],
        "no trace"
    );
    let found = reference(&namespace, 1);
    assert_eq!(found["verdict"], "changed", "{found:#}");
    assert_eq!(found["differingKeys"], json!(["CONFIG_REVISION"]));
    forget_events(&namespace);
    not_same(&namespace, 1);

    // Where numbers of two types do not compare there is nothing left to see it by.
    let [elsewhere] = aged(&split, ["removed"]);
    let _other = running(&elsewhere);
    elsewhere.at(CONFIGMAPS, "settings").json_patch(&remove).ok();
    forget_events(&elsewhere);
    not_same(&elsewhere, 1);
}

/// Without these a ConfigMap that only looks like the one that was read would be called the same (C53).
#[test]
fn look_alikes_are_told_apart() {
    let plane = ControlPlane::main();
    let [recreated, scaled, labelled, retired] = aged(&plane, ["recreated", "scaled", "labelled", "retired"]);

    // Created again with equal bytes: a kubelet may still serve the deleted one.
    let _first = running(&recreated);
    recreated.at(CONFIGMAPS, "settings").delete(&json!({})).ok();
    recreated.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    let found = reference(&recreated, 1);
    assert_eq!(found["verdict"], "recreated", "{found:#}");
    let check = recreated.run(&["check", "web", "--to-revision", "1", "-o", "json"]).expect(3).document();
    assert_eq!(check["safe"], false);

    // Edited while the revision ran, then scaled: the ReplicaSet's number moves above the edit's.
    let _second = running(&scaled);
    incident::edit(&scaled, &json!({"CONFIG_REVISION": "v2"}));
    let at = scaled.at(DEPLOYMENTS, "web").sub("scale");
    at.merge_patch(&json!({"spec": {"replicas": 3}})).ok();
    incident::rolled_out(&scaled, "web");
    let set = &scaled.items(REPLICASETS)[0];
    assert!(version(set) > version(&settings(&scaled)), "the tempting number");
    let found = reference(&scaled, 1);
    // The third Pod started within the age check's margin of the edit, so what it read is only likely.
    assert!(["changed", "mixed"].contains(&found["verdict"].as_str().unwrap_or("")), "{found:#}");

    // The same with all of the revision's Pods gone.
    let _third = running(&retired);
    incident::edit(&retired, &json!({"CONFIG_REVISION": "v2"}));
    incident::release(&retired, "two");
    incident::rolled_out(&retired, "web");
    wait("the old Pods' end", || (retired.items(PODS).len() == 2).then_some(()));
    let old = retired.items(REPLICASETS).into_iter().find(|set| set["spec"]["replicas"] == 0).expect("a retired set");
    assert!(version(&old) > version(&settings(&retired)), "the tempting number");
    not_same(&retired, 1);
    assert_eq!(verdict(&retired, 2), "likely-same", "the second revision's Pods started after the edit");

    // A label is no content.
    let _fourth = running(&labelled);
    labelled.at(CONFIGMAPS, "settings").merge_patch(&json!({"metadata": {"labels": {"team": "shop"}}})).ok();
    let found = reference(&labelled, 1);
    assert_eq!(found["verdict"], "same", "what was read is known from history and equals today's: {found:#}");
    forget_events(&labelled);
    assert_ne!(verdict(&labelled, 1), "changed");
}

/// Without this numbers of two stores would be compared, and a later write taken for an earlier one.
#[test]
fn numbers_of_two_stores_do_not_count() {
    let (main, split) = (ControlPlane::main(), ControlPlane::split());
    for (plane, comparable) in [(&main, true), (&split, false)] {
        let [namespace] = aged(plane, ["stores"]);
        let _player = incident_player(&namespace);
        let found = reference(&namespace, 1);
        let by_number = found["evidence"].as_array().into_iter().flatten().any(|e| e["source"] == "resource-version");
        assert_eq!(by_number, comparable, "{found:#}");
        assert_eq!(found["verdict"] == "same", comparable, "{found:#}");
        assert_ne!(found["verdict"], "likely-same", "{found:#}");

        incident::trap(&namespace);
        let found = reference(&namespace, 1);
        let proven = found["candidates"].as_array().into_iter().flatten().any(|c| c["grade"] != "none");
        assert_eq!(proven, comparable, "{found:#}");
        let arguments = ["undo", "web", "--to-revision", "1", "-y", "-o", "json"];
        if comparable {
            let undone = namespace.run(&arguments).expect(0).document();
            assert_eq!(undone["actions"][0]["grade"], "proof");
            assert_eq!(writes(&namespace), ["create configmaps", "patch deployments", "create configmaps"]);
        } else {
            let refused = namespace.run(&arguments).expect(3).document();
            assert_eq!(refused["refusals"][0]["code"], "content-not-found", "{refused:#}");
            assert_eq!(writes(&namespace), [""; 0]);
        }
    }
}

fn incident_player(namespace: &Namespace) -> Player {
    namespace.all(DEPLOYMENTS).create(&incident::web(2)).ok();
    let player = Player::run(namespace, incident::honest(namespace));
    incident::rolled_out(namespace, "web");
    player
}

/// Without this a Deployment that was applied before its ConfigMap would count as proven, or as broken for ever.
#[test]
fn a_late_config_map_is_said_to_be_late() {
    let namespace = ControlPlane::main().namespace("late");
    namespace.all(DEPLOYMENTS).create(&incident::web(1)).ok();
    let waiting = Play::new(Health::Waiting {
        reason: "CreateContainerConfigError",
        message: "configmap \"settings\" not found",
    });
    let other = Namespace { plane: namespace.plane.reconnect(), name: namespace.name.clone() };
    let _player = Player::run(&namespace, move |_| {
        let there = other.at(CONFIGMAPS, "settings").get().status == 200;
        Some(if there { Play::ready() } else { waiting.clone() })
    });
    wait("the waiting Pod", || {
        let pods = namespace.items(PODS);
        pods.iter()
            .any(|p| p["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError")
            .then_some(())
    });
    assert_eq!(verdict(&namespace, 1), "missing");
    thread::sleep(std::time::Duration::from_millis(1100));
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    incident::rolled_out(&namespace, "web");
    let found = reference(&namespace, 1);
    assert_eq!(found["verdict"], "recreated", "{found:#}");
}

/// Without this a flag that was set after the read would count as if it had always been there.
#[test]
fn immutable_counts_from_when_it_was_set() {
    // In two stores, so that the flag alone has to do.
    let plane = ControlPlane::split();
    let [always, later] = [plane.namespace("always"), plane.namespace("later")];
    let mut frozen = incident::settings("v1", "true");
    frozen["immutable"] = json!(true);
    always.all(CONFIGMAPS).create(&frozen).ok();
    later.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    thread::sleep(AGED);
    let (_first, _second) = (running(&always), running(&later));
    let found = reference(&always, 1);
    assert_eq!((found["verdict"].as_str(), proofs(&found)), (Some("same"), vec!["immutable"]), "{found:#}");
    forget_events(&always);
    assert_eq!(verdict(&always, 1), "same", "for ever");
    later.at(CONFIGMAPS, "settings").merge_patch(&json!({"immutable": true})).ok();
    let found = reference(&later, 1);
    not_same(&later, 1);
    assert!(!proofs(&found).contains(&"immutable"), "{found:#}");
}
