//! `observe` where containers answer: what they say of themselves is the truth, and the document must agree.

use super::trap::sprung;
use super::{aged_settings, judged};
use crate::support::client::{PODS, SERVICES};
use crate::support::control_plane::{Namespace, wait};
use crate::support::incident;
use crate::support::node::{self, Node, settings};
use crate::support::product::Ran;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

const READY: [&str; 2] = ["--probe", "/ready:8080"];
const BY_NAME: [&str; 2] = ["--probe-pod-field", "env.HOSTNAME"];

fn service(namespace: &Namespace) {
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": node::PORT}]});
    namespace.all(SERVICES).create(&json!({"metadata": {"name": "web"}, "spec": spec})).ok();
}

fn observe(namespace: &Namespace, arguments: &[&[&str]]) -> Ran {
    namespace.run(&[&["observe", "web", "-o", "json"], &arguments.concat()[..]].concat())
}

fn of_revision(document: &Value, number: u64) -> Vec<&Value> {
    document["pods"].as_array().expect("pods").iter().filter(|pod| pod["revision"] == number).collect()
}

fn uids<'a>(pods: impl IntoIterator<Item = &'a Value>) -> BTreeSet<&'a str> {
    pods.into_iter().map(|pod| pod["uid"].as_str().expect("a uid")).collect()
}

fn endpoints(document: &Value) -> BTreeSet<&str> {
    uids(document["services"][0]["endpoints"].as_array().expect("endpoints"))
}

/// The incident step by step, as the lab walks through it: each step's document is held against the containers' own word.
/// Without this a rollback that only looks successful would be recorded as one that brought the configuration back.
#[test]
fn the_incident_is_observed_as_the_containers_tell_it() {
    let namespace = Node::namespace("observed");
    service(&namespace);
    let good = sprung(&namespace);

    // A release that is not ready answers 503, the old Pods and the Service do not.
    let saved = tempfile::tempdir().expect("a folder");
    let file = saved.path().join("rollout-incomplete.json");
    let until = ["--until", "incomplete", "--until", "pods.*.probe.status=503"];
    let out = ["--show-content", "--out", file.to_str().expect("a path")];
    let ran = observe(&namespace, &[&READY, &BY_NAME, &until, &out]).expect(0);
    assert_eq!(std::fs::read_to_string(&file).expect("saved"), ran.stdout);
    let incomplete = ran.document();
    let (old, new) = (of_revision(&incomplete, 1), of_revision(&incomplete, 2));
    let good_uids: BTreeSet<&str> = good.iter().map(|p| p["metadata"]["uid"].as_str().expect("a uid")).collect();
    assert_eq!(uids(old.iter().copied()), good_uids);
    assert_eq!((new.len(), &new[0]["ready"]), (1, &json!(false)));
    // The new one started within seconds of the edit: no proof, and no doubt either.
    let new_one = (&new[0], 503, "likely-same", settings("v2", "false"));
    let old_ones = old.iter().map(|pod| (pod, 200, "changed", settings("v1", "true")));
    for (pod, status, today, content) in old_ones.chain([new_one]) {
        let held = &pod["references"][0];
        assert_eq!((&pod["probe"]["status"], &held["today"]), (&json!(status), &json!(today)), "{pod:#}");
        let read = if today == "changed" { json!(node::digest(&content)) } else { Value::Null };
        assert_eq!(held["read"], read, "{pod:#}");
        let body = pod["probe"]["body"].as_str().expect("a body");
        let said: Value = serde_json::from_str(body).expect("the container's words");
        assert_eq!(said["env"]["HOSTNAME"], pod["name"]);
        for (key, value) in &content {
            assert_eq!(said["env"][key], json!(value), "{pod:#}");
        }
        let hex: String = Sha256::digest(body).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(pod["probe"]["digest"], format!("sha256:{hex}"));
        let actual = namespace.at(PODS, pod["name"].as_str().expect("a name")).get().ok();
        let status = &actual["status"]["containerStatuses"][0];
        assert_eq!(pod["containers"][0]["startedAt"], status["state"]["running"]["startedAt"]);
    }
    assert_eq!(endpoints(&incomplete), good_uids, "a Pod that is not ready is no endpoint");
    let answered = &incomplete["services"][0];
    assert_eq!((&answered["probe"]["status"], &answered["attribution"]), (&json!(200), &json!("attributed")));
    assert!(good_uids.contains(answered["answeredBy"]["uid"].as_str().expect("a uid")), "{answered:#}");
    assert_eq!(answered["answeredBy"]["ours"], true);

    // kubectl's rollback: complete, well, and its Pods hold what the next one will not read.
    let undo = namespace.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=1"]);
    assert!(undo.status.success(), "{undo:?}");
    let apparent = observe(&namespace, &[&READY, &["--until", "stable"]]).expect(0).document();
    let pods = of_revision(&apparent, 3);
    assert_eq!(uids(pods.iter().copied()), good_uids, "no Pod was started");
    assert!(pods.iter().all(|pod| pod["probe"]["status"] == 200 && pod["references"][0]["today"] == "changed"));
    assert!(pods.iter().all(|pod| pod["probe"]["body"].is_null()), "a body only where it is asked for");
    assert_eq!(judged(&namespace, "web", 3)["verdict"], "changed");

    // One is replaced, and only afterwards anybody looks: the kubelet's Event tells of it.
    let gone = pods[0]["uid"].as_str().expect("a uid");
    let (substitute, said) = node::replace(&namespace, "web", pods[0]["name"].as_str().expect("a name"));
    assert_eq!(said.settings(), settings("v2", "false"));
    let name = pods[0]["name"].as_str().expect("a name");
    wait("the end of the Pod", || (namespace.at(PODS, name).get().status == 404).then_some(()));
    let until = format!("pod-replaced={gone}");
    let until = ["--until", &until, "--until", "degraded", "--until", "pods.*.probe.status=503"];
    let replaced = observe(&namespace, &[&READY, &BY_NAME, &until]).expect(0).document();
    let failing: Vec<&Value> = of_revision(&replaced, 3).into_iter().filter(|pod| pod["ready"] == false).collect();
    assert_eq!((failing.len(), &failing[0]["name"]), (1, &json!(substitute)));
    assert_eq!(failing[0]["probe"]["status"], 503);
    let today = failing[0]["references"][0]["today"].as_str();
    assert!(matches!(today, Some("same" | "likely-same")), "it read the edit: {failing:#?}");
    assert!(!uids(replaced["pods"].as_array().expect("pods")).contains(gone));
    let left = pods[1]["uid"].as_str().expect("a uid");
    assert_eq!(endpoints(&replaced), BTreeSet::from([left]));
    assert_eq!(replaced["services"][0]["answeredBy"]["uid"], left, "{replaced:#}");
}

/// Without this an answer would be tied to a Pod by a word that does not name one, or a refused connection be taken for an
/// answer of the application, or end the run.
#[test]
fn what_names_no_endpoint_is_unattributed() {
    let namespace = Node::namespace("unattributed");
    service(&namespace);
    aged_settings(&namespace);
    let mut web = node::web(1);
    let container = &mut web["spec"]["template"]["spec"]["containers"][0];
    container["env"] = json!([{"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]);
    node::deploy(&namespace, &web);
    let ready = ["--until", "complete", "--until", "services.web.probe.status=200"];
    let by_uid = observe(&namespace, &[&READY, &["--probe-pod-field", "/env/POD_UID"], &ready]).expect(0).document();
    let service = &by_uid["services"][0];
    assert_eq!(service["answeredBy"]["uid"], by_uid["pods"][0]["uid"], "{service:#}");
    for (field, why) in [("env.HEALTHY", "was no ready endpoint"), ("env.NOBODY", "no text at env.NOBODY")] {
        let not = observe(&namespace, &[&READY, &["--probe-pod-field", field]]).expect(0).document();
        let service = &not["services"][0];
        assert_eq!((&service["probe"]["status"], &service["attribution"]), (&json!(200), &json!("unattributed")));
        assert!(service["because"].as_str().is_some_and(|because| because.contains(why)), "{service:#}");
        assert!(service["answeredBy"].is_null());
    }

    // Nobody listens there. The API server says so, with the very code that an application may answer.
    let closed = observe(&namespace, &[&["--probe", "/ready:9"], &BY_NAME]).expect(0).document();
    let probe = &closed["pods"][0]["probe"];
    let error = probe["error"].as_str().expect("why");
    assert!(probe["status"].is_null() && error.contains("503") && error.contains("pods/proxy"), "{probe:#}");
    let service = &closed["services"][0];
    assert!(service["probe"]["error"].as_str().is_some_and(|why| why.contains("none of its ports leads to port 9")));

    // Not well any more, and the last one: the Service has no endpoint, and the API server answers in its place.
    incident::edit(&namespace, &json!({"HEALTHY": "false"}));
    node::crash(&namespace, by_uid["pods"][0]["name"].as_str().expect("a name"));
    let until = ["--until", "pods.0.ready=false", "--until", "services.web.probe.status=null"];
    let lost = observe(&namespace, &[&READY, &BY_NAME, &until]).expect(0).document();
    assert_eq!(lost["pods"][0]["probe"]["status"], 503, "{lost:#}");
    assert_eq!(lost["services"][0]["endpoints"], json!([]));
    assert_eq!(lost["services"][0]["attribution"], "unattributed");
}
