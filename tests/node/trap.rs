//! The incident end to end, with containers that really read.

use super::{aged_settings, evidence, judged};
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, PODS};
use crate::support::control_plane::{Namespace, version, wait};
use crate::support::incident;
use crate::support::node::{self, Node, settings};
use serde_json::{Value, json};

/// Two good Pods of revision 1; an edit in place; a release whose Pod reads the edit and is not ready. The good Pods.
pub(super) fn sprung(namespace: &Namespace) -> Vec<Value> {
    aged_settings(namespace);
    node::deploy(namespace, &node::web(2));
    let good = node::pods(namespace, "web");
    incident::edit(namespace, &json!({"CONFIG_REVISION": "v2", "HEALTHY": "false"}));
    incident::release(namespace, "two");
    let (new, said) = node::newcomer(namespace, "web", &good);
    assert_eq!(said.settings(), settings("v2", "false"), "the new Pod reads the edit");
    let probe = wait("a probe", || node::pod_answer(namespace, &new, node::PORT, "/ready"));
    assert_eq!(probe.status, 503);
    for pod in &good {
        assert_eq!(
            node::said(namespace, node::name(pod)).settings(),
            settings("v1", "true"),
            "old Pods keep their env"
        );
    }
    good
}

/// Without the trap the product has no point; without the proof from real Events it could not undo it.
#[test]
fn an_undo_brings_back_what_the_good_pods_read() {
    let namespace = Node::namespace("undone");
    let good = sprung(&namespace);
    let edited = namespace.at(CONFIGMAPS, "settings").get().ok();

    let one = judged(&namespace, "web", 1);
    node::honest(&one, &[settings("v1", "true"), settings("v1", "true")], &settings("v2", "false"));
    assert_eq!(one["verdict"], "changed", "{one:#}");
    assert_eq!(one["digest"]["read"], node::digest(&settings("v1", "true")), "{one:#}");
    let two = judged(&namespace, "web", 2);
    node::honest(&two, &[settings("v2", "false")], &settings("v2", "false"));

    let undone = namespace.run(&["undo", "web", "--to-revision", "1", "--require", "proof", "-y", "-o", "json"]);
    let undone = undone.expect(0).document();
    assert_eq!(undone["outcome"], "done", "{undone:#}");
    assert_eq!(undone["actions"][0]["action"], "pin");
    assert_eq!(undone["actions"][0]["grade"], "proof");
    incident::rolled_out(&namespace, "web");

    let said = node::all_said(&namespace, "web");
    assert_eq!(said.len(), 2);
    for (pod, said) in said {
        assert!(good.iter().all(|old| node::name(old) != pod), "a pin starts new Pods");
        assert_eq!(said.settings(), settings("v1", "true"), "{pod} reads what the good Pods read");
        assert_eq!(node::pod_answer(&namespace, &pod, node::PORT, "/ready").map(|ready| ready.status), Some(200));
    }
    let (_, next) = node::replace(&namespace, "web", node::name(&node::pods(&namespace, "web")[0]));
    assert_eq!(next.settings(), settings("v1", "true"), "and so does the next one");
    let untouched = namespace.at(CONFIGMAPS, "settings").get().ok();
    assert_eq!(version(&untouched), version(&edited), "the original is never touched");
}

/// The main job, in one command: without this nobody could end the incident and know that the next Pod is well.
#[test]
fn one_command_ends_the_incident_and_proves_it_on_a_substitute() {
    let namespace = Node::namespace("main-job");
    let good = sprung(&namespace);
    let edited = namespace.at(CONFIGMAPS, "settings").get().ok();
    // The number is observed, not guessed: that of the revision whose Pods are the good ones.
    let history = namespace.run(&["history", "web", "-o", "json"]).expect(0).document();
    let owner = &good[0]["metadata"]["ownerReferences"][0]["uid"];
    let revisions = history["revisions"].as_array().expect("revisions");
    let observed =
        revisions.iter().find(|r| r["object"]["uid"] == *owner).expect("the good revision")["number"].to_string();

    let undo = ["undo", "web", "--to-revision", &observed, "--config=auto", "--verify=replace", "-y", "-o", "json"];
    let document = namespace.run(&undo).expect(0).document();
    assert_eq!(document["outcome"], "done", "{document:#}");
    let seen = &document["verification"];
    assert_eq!((&seen["outcome"], &seen["substitute"]["ready"]), (&json!("as-planned"), &json!(true)), "{seen:#}");
    let pods = node::pods(&namespace, "web");
    let uids: Vec<&Value> = pods.iter().map(|pod| &pod["metadata"]["uid"]).collect();
    assert!(uids.contains(&&seen["substitute"]["uid"]) && !uids.contains(&&seen["evicted"]["uid"]), "{seen:#}");
    assert!(good.iter().all(|old| !uids.contains(&&old["metadata"]["uid"])), "a pin starts new Pods");

    let substitute = seen["substitute"]["name"].as_str().expect("a name");
    let snapshot = document["actions"][0]["to"].as_str().expect("a snapshot");
    let spec = namespace.at(PODS, substitute).get().ok();
    assert_eq!(spec["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"], snapshot);
    for (pod, said) in node::all_said(&namespace, "web") {
        assert_eq!(said.settings(), settings("v1", "true"), "{pod}");
    }
    assert!(node::ready(&namespace, substitute));
    let untouched = namespace.at(CONFIGMAPS, "settings").get().ok();
    assert_eq!(version(&untouched), version(&edited), "the original is never touched");
    let now = judged_pin(&namespace, snapshot);
    node::honest(&now, &[settings("v1", "true")], &node::data(&namespace, snapshot));
    assert_eq!(now["verdict"], "same", "the record covers every Pod, the substitute too: {now:#}");
}

/// The current revision's reference to a snapshot.
fn judged_pin(namespace: &Namespace, snapshot: &str) -> Value {
    let history = namespace.run(&["history", "web", "-o", "json"]).expect(0).document();
    let revisions = history["revisions"].as_array().expect("revisions");
    let current = revisions.iter().find(|r| r["current"] == true).expect("a current revision");
    let references = current["references"].as_array().expect("references");
    references.iter().find(|r| r["name"] == snapshot).unwrap_or_else(|| panic!("{current:#}")).clone()
}

/// The same incident with today's content: the substitute reads the edit, and that is said; nothing else is lost.
#[test]
fn a_proof_on_todays_content_fails_aloud() {
    let namespace = Node::namespace("live-proof");
    let good = sprung(&namespace);
    let undo = ["undo", "web", "--to-revision", "1", "--config=live", "-y"];
    let silent = namespace.run(&undo).expect(0);
    assert!(silent.stdout.contains("No Pod was started, so nothing is proven about the next one."), "{silent:?}");
    let proof = [&undo[..], &["--verify=replace", "--timeout=15s", "-o", "json"]].concat();
    let ran = namespace.run(&proof).expect(4);
    let document = ran.document();
    assert_eq!(document["verification"]["outcome"], "not-ready", "{document:#}");
    assert!(ran.stderr.contains("it reads other content than revision"), "{}", ran.stderr);
    let name = document["verification"]["substitute"]["name"].as_str().expect("a substitute");
    assert_eq!(node::said(&namespace, name).settings(), settings("v2", "false"));
    let left = good.iter().filter(|pod| namespace.at(PODS, node::name(pod)).get().status == 200).count();
    assert_eq!(left, 1, "one Pod of two was evicted");
}

/// The undo that only looks successful: kubectl's. What the product says then must hold against the containers.
#[test]
fn a_plain_rollout_undo_only_looks_successful() {
    let namespace = Node::namespace("plain");
    let good = sprung(&namespace);
    let undo = namespace.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=1"]);
    assert!(undo.status.success(), "{undo:?}");
    let status = namespace.kubectl(&["rollout", "status", "deployment/web", "--timeout=30s"]);
    assert!(status.status.success(), "{status:?}");
    incident::rolled_out(&namespace, "web");
    let uids = |pods: &[Value]| pods.iter().map(|pod| pod["metadata"]["uid"].clone()).collect::<Vec<_>>();
    assert_eq!(uids(&node::pods(&namespace, "web")), uids(&good), "nothing was replaced");

    // Rolled back, ready, and a trap all the same: seen before any Pod goes.
    let apparent = judged(&namespace, "web", 3);
    node::honest(&apparent, &[settings("v1", "true"), settings("v1", "true")], &settings("v2", "false"));
    assert_eq!(apparent["verdict"], "changed", "{apparent:#}");

    let (substitute, said) = node::replace(&namespace, "web", node::name(&good[0]));
    assert_eq!(said.settings(), settings("v2", "false"), "a substitute of the same revision reads the edit");
    assert!(!node::ready(&namespace, &substitute));
    // One revision, two contents: neither is what "the revision" read.
    let split = judged(&namespace, "web", 3);
    node::honest(&split, &[settings("v1", "true"), settings("v2", "false")], &settings("v2", "false"));
    assert!(!matches!(split["verdict"].as_str(), Some("same" | "likely-same" | "unknown")), "{split:#}");
}

/// The proof must come from what a real kubelet writes, not only from the API's short history.
#[test]
fn an_unchanged_config_map_is_proven_by_real_events() {
    let namespace = Node::namespace("events");
    aged_settings(&namespace);
    node::deploy(&namespace, &node::web(1));
    node::events_of_start(&namespace, &node::pods(&namespace, "web")[0]);
    let one = judged(&namespace, "web", 1);
    let said: Vec<_> = node::all_said(&namespace, "web").into_values().map(|said| said.settings()).collect();
    node::honest(&one, &said, &node::data(&namespace, "settings"));
    assert_eq!(one["verdict"], "same", "{one:#}");
    assert!(evidence(&one).contains("the kubelet acted on (Event "), "{one:#}");
    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");
    // Its Pod is gone; the Scheduled Event of the first one is left.
    wait("the end of the old Pod", || (node::pods(&namespace, "web").len() == 1).then_some(()));
    let retired = judged(&namespace, "web", 1);
    node::honest(&retired, &said, &node::data(&namespace, "settings"));
    assert_eq!(retired["verdict"], "same", "{retired:#}");
    assert!(namespace.at(DEPLOYMENTS, "web").get().ok()["status"]["availableReplicas"] == 1);
}
