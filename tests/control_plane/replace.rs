//! `--verify=replace` and `--on-failure`: the proof on a substitute, and the way back, on real evictions.

use super::undo::writes;
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, PODS, Resource};
use crate::support::control_plane::{ControlPlane, Namespace, wait};
use crate::support::incident::{self, AGED};
use crate::support::kubelet::{Health, Play};
use crate::support::player::Player;
use crate::support::product::Ran;
use crate::support::proxy::{Act, Proxy};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BUDGETS: Resource = Resource::new("/apis/policy/v1", "poddisruptionbudgets");

const REPLACE: [&str; 9] = ["undo", "web", "--to-revision", "1", "--verify=replace", "--settle=1s", "-y", "-o", "json"];

/// Two releases of two Pods on a ConfigMap that nobody touched.
fn two_releases(namespace: &Namespace, replicas: u64, age: Duration) -> Player {
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    std::thread::sleep(age);
    namespace.all(DEPLOYMENTS).create(&incident::web(replicas)).ok();
    let player = Player::run(namespace, incident::honest(namespace));
    incident::rolled_out(namespace, "web");
    incident::release(namespace, "two");
    incident::rolled_out(namespace, "web");
    player
}

fn budget(namespace: &Namespace, least: u64) {
    let spec = json!({"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}});
    namespace.all(BUDGETS).create(&json!({"metadata": {"name": "careful"}, "spec": spec})).ok();
    wait("the budget's count", || {
        let status = namespace.at(BUDGETS, "careful").get().ok()["status"].clone();
        (status["observedGeneration"] == 1 && status["expectedPods"].as_u64() > Some(0)).then_some(())
    });
}

fn live(namespace: &Namespace) -> Value {
    namespace.at(DEPLOYMENTS, "web").get().ok()
}

fn release_of(namespace: &Namespace) -> Value {
    live(namespace)["spec"]["template"]["metadata"]["annotations"]["release"].clone()
}

fn pods(namespace: &Namespace) -> Vec<Value> {
    let mut pods = namespace.items(PODS);
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    pods
}

fn uids(namespace: &Namespace) -> Vec<String> {
    let mut uids: Vec<String> =
        pods(namespace).iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap_or_default().to_string()).collect();
    uids.sort();
    uids
}

/// Evictions that the binary asked for and the server granted.
fn evictions(namespace: &Namespace) -> usize {
    let audit = namespace.audit().into_iter();
    audit
        .filter(|e| e.user_agent.starts_with("kubectl-saferollback"))
        .filter(|e| e.subresource == "eviction" && !e.dry_run && e.code == 201)
        .count()
}

/// Without this the proof would be a word: no Pod would have gone, or none would have come that reads what was pinned; and
/// the record would know nothing of the one that did.
#[test]
fn the_substitute_of_an_evicted_pod_is_the_proof() {
    let namespace = ControlPlane::main().namespace("replace");
    let _player = incident::start(&namespace, AGED);
    incident::trap(&namespace);
    let done = namespace.run(&REPLACE).expect(0);
    let document = done.document();
    let seen = &document["verification"];
    assert_eq!((&seen["mode"], &seen["outcome"]), (&json!("replace"), &json!("as-planned")), "{document:#}");
    assert_eq!((&seen["substitute"]["ready"], &seen["substitute"]["restarts"]), (&json!(true), &json!(0)));
    let now = uids(&namespace);
    let uid = |of: &str| seen[of]["uid"].as_str().expect("a uid").to_string();
    assert!(!now.contains(&uid("evicted")) && now.contains(&uid("substitute")), "{seen:#} {now:?}");
    assert!(done.stderr.contains("took the place of") && done.stderr.contains("the pinned content"), "{done:?}");
    assert_eq!(evictions(&namespace), 1);
    let records = namespace.items(CONFIGMAPS).into_iter();
    let record = records.into_iter().find(|c| c["metadata"]["labels"]["saferollback.dev/kind"] == "record");
    let record = record.expect("a record").to_string();
    assert!(record.contains(&uid("substitute")), "the record covers the substitute: {record}");

    // The same command again: that Pod was evicted, so none is.
    let again = namespace.run(&REPLACE).expect(0);
    let document = again.document();
    assert_eq!(
        (&document["outcome"], &document["verification"]["evicted"]),
        (&json!("nothing-to-do"), &seen["evicted"])
    );
    assert_eq!(document["verification"]["substitute"]["uid"], seen["substitute"]["uid"]);
    assert!(again.stderr.contains("was evicted already"), "{again:?}");
    assert_eq!((evictions(&namespace), uids(&namespace)), (1, now));
}

/// Without this an earlier undo could never be proven later; or a plain workload would lose a Pod for nothing.
#[test]
fn an_undo_can_be_proven_later_and_nothing_else_can() {
    let namespace = ControlPlane::main().namespace("later");
    let _player = two_releases(&namespace, 2, Duration::ZERO);
    let current = ["undo", "web", "--to-revision", "2", "--verify=replace", "-y", "-o", "json"];
    let none = namespace.run(&current).expect(4).document();
    assert_eq!(none["verification"]["outcome"], "not-evicted", "{none:#}");
    assert_eq!(writes(&namespace), [""; 0], "nothing was rolled back, so nothing is evicted");
    namespace.run(&["undo", "web", "--to-revision", "1", "-y"]).expect(0);
    let later = namespace.run(&REPLACE).expect(0).document();
    assert_eq!((&later["outcome"], &later["verification"]["outcome"]), (&json!("nothing-to-do"), &json!("as-planned")));
    assert_eq!(evictions(&namespace), 1);
}

/// Without this a budget would be overridden, asked for ever, or hide what was done and what was not.
#[test]
fn a_budget_is_respected_and_named() {
    let namespace = ControlPlane::main().namespace("budget");
    let _player = incident::start(&namespace, AGED);
    incident::trap(&namespace);
    budget(&namespace, 2);
    let ran = namespace.run(&REPLACE).expect(4);
    let document = ran.document();
    assert_eq!((&document["outcome"], &document["verification"]["outcome"]), (&json!("failed"), &json!("budget")));
    assert_eq!(document["verification"]["evicted"], Value::Null, "{document:#}");
    for needed in ["careful", "2", "the rollback itself is done", "the same command"] {
        assert!(ran.stderr.contains(needed), "{needed:?} is not said: {}", ran.stderr);
    }
    assert_eq!(evictions(&namespace), 0);
    assert_eq!(release_of(&namespace), "one");

    // Now the Pods are there before any write, so the rehearsal hears it.
    let again = namespace.run(&REPLACE).expect(3).document();
    assert_eq!(again["refusals"][0]["code"], "eviction-denied", "{again:#}");
    assert_eq!(again["waysOn"][0]["id"], "verify-rollout");

    namespace.at(BUDGETS, "careful").delete(&json!({})).ok();
    let proven = namespace.run(&REPLACE).expect(0).document();
    assert_eq!(proven["verification"]["outcome"], "as-planned");
    assert_eq!(evictions(&namespace), 1);
}

/// Without this a service of one Pod would be down for a proof that nobody was asked about.
#[test]
fn the_only_pod_goes_on_consent_alone() {
    let namespace = ControlPlane::main().namespace("only");
    let _player = two_releases(&namespace, 1, Duration::ZERO);
    let refused = namespace.run(&REPLACE).expect(3);
    let document = refused.document();
    assert_eq!(document["refusals"][0]["code"], "downtime", "{document:#}");
    let ways: Vec<&str> =
        document["waysOn"].as_array().into_iter().flatten().filter_map(|w| w["id"].as_str()).collect();
    assert_eq!(ways, ["allow-downtime", "verify-rollout"]);
    assert_eq!(writes(&namespace), [""; 0], "refused means nothing was written");
    let done = namespace.run(&[&REPLACE[..], &["--allow-downtime"]].concat()).expect(0).document();
    assert_eq!(done["verification"]["outcome"], "as-planned");
    assert_eq!(evictions(&namespace), 1);
}

/// Without this a rollback of what is scaled to zero would claim a proof that no Pod gave.
#[test]
fn without_a_wanted_pod_nothing_is_proven() {
    let namespace = ControlPlane::main().namespace("zero");
    let _player = two_releases(&namespace, 2, Duration::ZERO);
    namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"spec": {"replicas": 0}})).ok();
    incident::release(&namespace, "three");
    wait("no Pod", || pods(&namespace).is_empty().then_some(()));
    let arguments = ["undo", "web", "--to-revision", "1", "--verify=replace", "--config=live", "-y", "-o", "json"];
    let ran = namespace.run(&arguments).expect(4);
    let document = ran.document();
    assert_eq!(document["verification"]["outcome"], "no-pod", "{document:#}");
    assert!(ran.stderr.contains("0 replicas are wanted"), "{}", ran.stderr);
    assert_eq!((release_of(&namespace), evictions(&namespace)), (json!("one"), 0));
}

/// Without this a rollback to what is edited would look proven: its old Pods are well, and the next one is not.
#[test]
fn a_substitute_that_reads_the_edit_is_no_proof() {
    let namespace = ControlPlane::main().namespace("edited");
    let _player = incident::start(&namespace, AGED);
    incident::trap(&namespace);
    let arguments = [&REPLACE[..], &["--config=live", "--timeout=4s"]].concat();
    let ran = namespace.run(&arguments).expect(4);
    let document = ran.document();
    assert_eq!((&document["outcome"], &document["verification"]["outcome"]), (&json!("failed"), &json!("not-ready")));
    assert_eq!(document["verification"]["substitute"]["ready"], json!(false));
    let other = "it reads other content than revision 1's Pods did: configmap/settings (Changed)";
    assert!(ran.stderr.contains(other), "{}", ran.stderr);
    assert_eq!(evictions(&namespace), 1);
    namespace.run(&arguments).expect(4);
    assert_eq!(evictions(&namespace), 1, "a failure is no reason to evict a second one");
}

/// Without this a substitute that comes up with other bytes than were planned would be called as planned.
#[test]
fn c91_an_edit_before_the_substitute_starts_is_told() {
    let namespace = ControlPlane::main().namespace("between");
    let _player = two_releases(&namespace, 2, AGED);
    let other = Namespace { plane: namespace.plane.reconnect(), name: namespace.name.clone() };
    // After the last look before the eviction.
    let proxy = Proxy::new(&namespace, move |_, passing| {
        if passing.line().ends_with("/eviction") && passing.writes() {
            incident::edit(&other, &json!({"CONFIG_REVISION": "v2"}));
        }
        Act::Pass
    });
    let ran = proxy.run(&namespace, &REPLACE).expect(4);
    let document = ran.document();
    assert_eq!(document["verification"]["outcome"], "moved", "{document:#}");
    let said = "but the substitute reads other content than was planned: configmap/settings was written meanwhile";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
}

/// Without this what admission adds to every Pod would fail each proof, or a name that it rewrites would pass.
#[test]
fn c90_what_admission_adds_is_no_drift() {
    let template =
        json!({"spec": {"containers": [{"name": "a", "envFrom": [{"configMapRef": {"name": "settings-v1"}}]}]}});
    let mut pod = template.clone();
    pod["spec"]["volumes"] = json!([
        {"name": "kube-api-access", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}},
        {"name": "istio", "configMap": {"name": "istio-ca-root-cert"}},
    ]);
    pod["spec"]["initContainers"] =
        json!([{"name": "proxy", "restartPolicy": "Always", "envFrom": [{"configMapRef": {"name": "mesh"}}]}]);
    let unnamed = |pod: &Value| {
        let pod = saferollback::core::object::Object(pod.clone());
        saferollback::core::substitute::unnamed(&template, &pod)
    };
    assert_eq!(unnamed(&pod), [""; 0]);
    pod["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"] = json!("settings");
    assert_eq!(unnamed(&pod), ["configmap/settings-v1"]);
}

/// Without this a substitute that never starts would be waited for until the deadline, without a word why.
#[test]
fn a_substitute_that_cannot_start_is_told_early() {
    let namespace = ControlPlane::main().namespace("stuck");
    let player = two_releases(&namespace, 2, Duration::ZERO);
    namespace.run(&["undo", "web", "--to-revision", "1", "-y"]).expect(0);
    drop(player);
    let known = uids(&namespace);
    let stuck = Health::Waiting { reason: "ImagePullBackOff", message: "no such image" };
    let _player = Player::run(&namespace, move |pod| {
        let old = pod["metadata"]["uid"].as_str().is_some_and(|uid| known.iter().any(|k| k == uid));
        Some(if old { Play::ready() } else { Play::new(stuck.clone()) })
    });
    let began = std::time::Instant::now();
    let ran = namespace.run(&REPLACE).expect(4);
    assert_eq!(ran.document()["verification"]["outcome"], "not-ready");
    for needed in ["no such image", "ImagePullBackOff"] {
        assert!(ran.stderr.contains(needed), "{}", ran.stderr);
    }
    assert!(began.elapsed() < Duration::from_secs(60), "the progress deadline is ten minutes");
}

/// A rollout that fails because of what was pinned: its Pods never start.
fn failing(namespace: &Namespace) -> Player {
    drop(two_releases(namespace, 2, Duration::ZERO));
    let play = |pod: &Value| {
        let one = pod["metadata"]["annotations"]["release"] == "one";
        Some(if one { Play::not_ready() } else { Play::ready() })
    };
    Player::run(namespace, play)
}

const REVERT: [&str; 9] =
    ["undo", "web", "--to-revision", "1", "--on-failure=revert", "--timeout=5s", "-y", "-o", "json"];

/// Without this a rollback that makes it worse would stay, or what is put back would read something else than it did.
#[test]
fn a_failed_rollback_goes_back_with_its_own_configuration() {
    let namespace = ControlPlane::main().namespace("revert");
    let _player = failing(&namespace);
    let before = live(&namespace);
    let ran = namespace.run(&[&REVERT[..], &["--config=pin"]].concat()).expect(4);
    let document = ran.document();
    assert_eq!(document["outcome"], "timed-out", "the rollback failed, whatever came after: {document:#}");
    let reverted = &document["reverted"];
    assert_eq!((&reverted["target"], &reverted["outcome"]), (&json!(2), &json!("done")), "{document:#}");
    assert_eq!(reverted["newRevision"], 4);
    assert!(ran.stderr.contains("put back to revision 2"), "{}", ran.stderr);
    let after = live(&namespace);
    assert_eq!(after["spec"]["template"], before["spec"]["template"]);
    assert_eq!(after["metadata"]["annotations"]["team"], "shop");
}

/// Without this a rollback would begin whose way back is not there.
#[test]
fn without_a_way_back_nothing_is_begun() {
    let namespace = ControlPlane::main().namespace("no-way");
    let _player = two_releases(&namespace, 1, Duration::ZERO);
    let refused = |ran: Ran, why: &str| {
        let document = ran.expect(3).document();
        assert_eq!(document["refusals"][0]["code"], "no-way-back", "{document:#}");
        assert!(document["refusals"][0]["message"].as_str().is_some_and(|m| m.contains(why)), "{document:#}");
        assert_eq!(document["waysOn"][0]["id"], "report");
        assert_eq!(writes(&namespace), [""; 0], "refused means nothing was written");
    };
    // What revision 2 reads is gone, and what revision 1 shall read is given.
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), incident::settings("v1", "true").to_string()).expect("written");
    let given = format!("settings={}", file.path().display());
    namespace.at(CONFIGMAPS, "settings").delete(&json!({})).ok();
    namespace.all(CONFIGMAPS).create(&incident::settings("v9", "true")).ok();
    let strict = [&REVERT[..], &["--use", &given, "--require=proof"]].concat();
    refused(namespace.run(&strict), "could not go back to revision 2");

    namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"spec": {"revisionHistoryLimit": 0}})).ok();
    let ran = namespace.run(&[&REVERT[..], &["--use", &given]].concat());
    // The controller may have taken revision 1 away by now.
    if ran.stdout.is_empty() {
        assert_eq!(ran.code, 3, "{ran:?}");
    } else {
        refused(ran, "revisionHistoryLimit");
    }
}

/// Without this a proof that failed would leave the workload at what was just found to be broken; or a way back would be
/// taken although what it would read has moved.
#[test]
fn a_failed_proof_goes_back_too() {
    let back = |namespace: &Namespace, arguments: &[&str], edits: bool| {
        drop(two_releases(namespace, 2, AGED));
        let broken = Arc::new(AtomicBool::new(false));
        let (breaks, seen) = (Arc::clone(&broken), Mutex::new(HashMap::new()));
        let play = move |pod: &Value| {
            let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_string();
            let well = pod["metadata"]["annotations"]["release"] == "two" || !broken.load(Ordering::Relaxed);
            let play = if well { Play::ready() } else { Play::not_ready() };
            Some(seen.lock().expect("one thread").entry(uid).or_insert(play).clone())
        };
        let player = Player::run(namespace, play);
        let other = Namespace { plane: namespace.plane.reconnect(), name: namespace.name.clone() };
        let proxy = Proxy::new(namespace, move |_, passing| {
            if passing.line().ends_with("/eviction") && passing.writes() {
                breaks.store(true, Ordering::Relaxed);
                if edits {
                    incident::edit(&other, &json!({"CONFIG_REVISION": "v2"}));
                }
            }
            Act::Pass
        });
        let ran = proxy.run(namespace, arguments).expect(4);
        drop(player);
        ran
    };
    let arguments = [&REPLACE[..], &["--on-failure=revert", "--timeout=5s"]].concat();
    let namespace = ControlPlane::main().namespace("proof-back");
    let document = back(&namespace, &arguments, false).document();
    assert_eq!((&document["outcome"], &document["verification"]["outcome"]), (&json!("failed"), &json!("not-ready")));
    assert_eq!(document["reverted"]["outcome"], "done", "{document:#}");
    assert_eq!((release_of(&namespace), evictions(&namespace)), (json!("two"), 1));

    let namespace = ControlPlane::main().namespace("moved-back");
    let ran = back(&namespace, &arguments, true);
    assert_eq!(ran.document()["reverted"]["outcome"], "not-written");
    assert!(ran.stderr.contains("so revision 2 was not put back"), "{}", ran.stderr);
    assert_eq!(release_of(&namespace), "one");
}
