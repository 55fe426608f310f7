//! `status`: where a rollout stands, and why it does not end.

use super::undo::writes;
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, PODS, Resource};
use crate::support::control_plane::{ControlPlane, Namespace, wait};
use crate::support::incident::{self, AGED};
use crate::support::kubelet::{Health, Kubelet, Play};
use crate::support::player::Player;
use crate::support::product::Ran;
use crate::support::proxy::{Act, Proxy};
use serde_json::{Value, json};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const QUOTAS: Resource = Resource::new("/api/v1", "resourcequotas");

const WATCH: [&str; 5] = ["status", "deploy/web", "--watch", "-o", "json"];

/// All of these are said, wherever.
#[track_caller]
fn says(ran: &Ran, words: &[&str]) {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = format!("{} {}", plain(&ran.stdout), plain(&ran.stderr));
    for word in words {
        assert!(said.contains(&plain(word)), "{word:?} is not said: {ran:?}");
    }
}

/// The release that a Pod is of.
fn release_of(pod: &Value) -> &str {
    pod["metadata"]["annotations"]["release"].as_str().unwrap_or("")
}

/// Release "one" is rolled out; of later ones no Pod is touched.
pub fn first(namespace: &Namespace, replicas: u64) -> Player {
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    namespace.all(DEPLOYMENTS).create(&incident::web(replicas)).ok();
    let player = Player::run(namespace, |pod| (release_of(pod) == "one").then(Play::ready));
    incident::rolled_out(namespace, "web");
    player
}

/// The Pod of a release, once it is there.
pub fn pod(namespace: &Namespace, release: &str) -> Value {
    wait("a Pod of the release", || namespace.items(PODS).into_iter().find(|pod| release_of(pod) == release))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("a name")
}

/// Started, and not ready: nothing is wrong yet, and nothing comes.
pub fn starting(namespace: &Namespace, release: &str) {
    let pod = pod(namespace, release);
    Kubelet { namespace }.start(name(&pod), &Play::not_ready()).expect("a Pod");
}

fn spawn(mut command: std::process::Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
}

fn ended(child: Child) -> Ran {
    child.wait_with_output().expect("it ends").into()
}

/// Without this an edit after the Pods' start would be known to `history` alone, and a rollout that is well would hide what
/// its next Pod will read.
#[test]
fn what_the_next_pod_would_read_is_said() {
    let namespace = ControlPlane::main().namespace("next");
    let _player = incident::start(&namespace, AGED);
    let before = namespace.run(&["status", "web"]).expect(0);
    assert_eq!(
        before.stdout,
        "deployment \"web\" successfully rolled out\nREVISION   READY   CONFIG-NOW\n1          2/2     Same\n"
    );
    assert_eq!(before.stderr, "");
    incident::edit(&namespace, &json!({"HEALTHY": "false"}));
    let after = namespace.run(&["status", "web"]).expect(0);
    says(
        &after,
        &["1          2/2     Changed:settings", "successfully rolled out", "its next Pod would not", "kubectl-edit"],
    );
    let document = namespace.run(&["status", "web", "-o", "json"]).expect(0).document();
    assert_eq!(
        (&document["kind"], &document["phase"], &document["exitCode"]),
        (&json!("Status"), &json!("done"), &json!(0))
    );
    assert_eq!(document["revisions"][0]["verdict"], "changed");
    assert_eq!(document["pods"].as_array().map(Vec::len), Some(2));
    assert_eq!(writes(&namespace), [""; 0]);
}

/// What is done to the new Pod, and the words that tell it.
type Stuck = (&'static str, fn(&Namespace, &Value), &'static [&'static str]);

fn waiting(namespace: &Namespace, pod: &Value, reason: &'static str, message: &'static str) {
    Kubelet { namespace }.start(name(pod), &Play::new(Health::Waiting { reason, message })).expect("a Pod");
}

const STUCK: [Stuck; 5] = [
    (
        "config",
        |namespace, pod| {
            waiting(
                namespace,
                pod,
                "CreateContainerConfigError",
                "couldn't find key HEALTHY in ConfigMap shop/settings",
            )
        },
        &["configmap/settings has no key HEALTHY", "CreateContainerConfigError"],
    ),
    (
        "image",
        |namespace, pod| waiting(namespace, pod, "ImagePullBackOff", "no such image"),
        &["cannot be pulled: no such image"],
    ),
    (
        "crash",
        |namespace, pod| {
            let kubelet = Kubelet { namespace };
            kubelet.start(name(pod), &Play::not_ready()).expect("a Pod");
            kubelet.crash(name(pod), "app").expect("a Pod");
        },
        &["container app crashes again and again, exit code 1"],
    ),
    (
        "unschedulable",
        |namespace, pod| {
            let status = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu."}]}});
            namespace.at(PODS, name(pod)).sub("status").merge_patch(&status).ok();
        },
        &["no node takes it: 0/1 nodes are available"],
    ),
    (
        "mount",
        |namespace, pod| {
            let kubelet = Kubelet { namespace };
            let held = kubelet.bind(pod, &Play::ready()).expect("a Pod");
            kubelet.prepare(&held).expect("a Pod");
            let message = "MountVolume.SetUp failed for volume \"cfg\" : configmap \"settings\" not found";
            kubelet.event(&held, "", "FailedMount", message).expect("an Event");
        },
        &["a volume cannot be mounted: configmap/settings is not there"],
    ),
];

#[track_caller]
fn fails_early(namespace: &Namespace, what: &str, words: &[&str]) -> Value {
    let began = Instant::now();
    let ran = namespace.run(&WATCH).expect(4);
    let took = began.elapsed();
    let document = ran.document();
    assert_eq!((&document["phase"], &document["exitCode"]), (&json!("failed"), &json!(4)), "{what}: {document:#}");
    let first = ran.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    for word in [&["error: deployment \"web\" does not roll out: "], words].concat() {
        assert!(first.contains(word), "{what}, {word:?}: {}", ran.stderr);
    }
    assert_eq!(first.trim_start_matches("error: "), document["sentence"], "{what}");
    // A trouble must hold for 10 s; one that Events tell is first looked for after 5 s.
    assert!((9..40).contains(&took.as_secs()), "{what} took {took:?}");
    document
}

/// Without these a person would wait ten minutes for what is known after seconds, and then look for the reason (C80).
#[test]
fn c80_a_rollout_that_cannot_end_ends_early_with_the_reason() {
    thread::scope(|scope| {
        for (what, act, words) in STUCK {
            scope.spawn(move || {
                let namespace = ControlPlane::main().namespace(what);
                let _player = first(&namespace, 1);
                incident::release(&namespace, "two");
                let stuck = pod(&namespace, "two");
                act(&namespace, &stuck);
                let document = fails_early(&namespace, what, words);
                let reason = &document["reasons"][0];
                assert_eq!(
                    (&reason["pod"], &reason["revision"], &reason["blocks"]),
                    (&json!(name(&stuck)), &json!(2), &json!(true))
                );
                assert!(reason["since"].is_string(), "{reason:#}");
            });
        }
        scope.spawn(|| {
            let namespace = ControlPlane::main().namespace("denied");
            let _player = first(&namespace, 1);
            let quota = json!({"metadata": {"name": "full"}, "spec": {"hard": {"pods": "1"}}});
            namespace.all(QUOTAS).create(&quota).ok();
            wait("the quota", || {
                (namespace.at(QUOTAS, "full").get().ok()["status"]["used"]["pods"] == "1").then_some(())
            });
            incident::release(&namespace, "two");
            let document = fails_early(&namespace, "quota", &["its Pods are not created", "exceeded quota: full"]);
            assert_eq!(document["reasons"][0]["pod"], Value::Null);
        });
    });
}

/// Without this what a person reads right after a rollback would be the failure of the rollout before it (C79).
#[test]
fn c79_the_former_rollouts_deadline_fails_nothing_and_its_own_does() {
    let namespace = ControlPlane::main().namespace("stale");
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    let mut web = incident::web(1);
    web["spec"]["progressDeadlineSeconds"] = json!(2);
    namespace.all(DEPLOYMENTS).create(&web).ok();
    let let_back = Arc::new(AtomicBool::new(true));
    let back = Arc::clone(&let_back);
    let _player = Player::run(&namespace, move |pod| match release_of(pod) {
        "two" => Some(Play::ready()),
        "one" if back.load(Ordering::Relaxed) => Some(Play::ready()),
        _ => Some(Play::not_ready()),
    });
    incident::rolled_out(&namespace, "web");
    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");
    let_back.store(false, Ordering::Relaxed);
    incident::release(&namespace, "three");
    let own = namespace.run(&[&WATCH[..], &["--timeout=60s"]].concat()).expect(4);
    says(&own, &["error: deployment \"web\" exceeded its progress deadline"]);
    assert_eq!(own.document()["phase"], "failed");
    // A look says so, too.
    assert_eq!(namespace.run(&["status", "web", "-o", "json"]).expect(4).document()["phase"], "failed");

    // Back to a ReplicaSet that is used again: the condition stays, and speaks of another one.
    namespace.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=1"]);
    let live = wait("the controller", || {
        let live = namespace.at(DEPLOYMENTS, "web").get().ok();
        (live["status"]["observedGeneration"] == live["metadata"]["generation"]).then_some(live)
    });
    let conditions = live["status"]["conditions"].as_array().expect("conditions");
    let stale = conditions.iter().any(|c| c["reason"] == "ProgressDeadlineExceeded");
    let look = namespace.run(&["status", "web", "-o", "json"]);
    if stale {
        assert_eq!(look.expect(0).document()["phase"], "waiting");
    }
    let_back.store(true, Ordering::Relaxed);
    let done = namespace.run(&[&WATCH[..], &["--timeout=60s"]].concat()).expect(0);
    assert_eq!(done.document()["phase"], "done");
}

/// Without this a rollout would be called done while Pods of the old release still work, and nobody would know (C83).
#[test]
fn c83_terminating_pods_are_said_and_never_counted() {
    let namespace = ControlPlane::main().namespace("leaving");
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    namespace.all(DEPLOYMENTS).create(&incident::web(2)).ok();
    // Whoever is told to end takes its time.
    let _player = Player::run(&namespace, |pod| pod["metadata"]["deletionTimestamp"].is_null().then(Play::ready));
    incident::rolled_out(&namespace, "web");
    incident::release(&namespace, "two");
    let ran = namespace.run(&["status", "web", "--watch"]).expect(0);
    says(&ran, &["deployment \"web\" successfully rolled out", "2          2/2     ", "2 old Pods still terminating"]);
    let document = namespace.run(&["status", "web", "-o", "json"]).expect(0).document();
    assert_eq!((&document["phase"], &document["terminating"]), (&json!("done"), &json!(2)));
    let pods = document["pods"].as_array().expect("Pods");
    assert_eq!(pods.iter().filter(|p| p["ready"] == true && p["terminating"] == false).count(), 2, "{pods:#?}");
    assert_eq!(document["revisions"][0]["pods"]["ready"], 2);
    // An undo says it as well.
    let undo = namespace.run(&["undo", "web", "--to-revision", "1", "--config=live", "-y"]).expect(0);
    says(&undo, &["old Pods still terminating"]);
}

/// Without this Pods that have been ready for a moment would end the wait, whatever `minReadySeconds` says (C86).
#[test]
fn c86_available_pods_count_not_ready_ones() {
    let namespace = ControlPlane::main().namespace("min-ready");
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    let mut web = incident::web(1);
    web["spec"]["minReadySeconds"] = json!(60);
    namespace.all(DEPLOYMENTS).create(&web).ok();
    let _player = Player::run(&namespace, |_| Some(Play::ready()));
    wait("a ready Pod", || (namespace.at(DEPLOYMENTS, "web").get().ok()["status"]["readyReplicas"] == 1).then_some(()));
    let look = namespace.run(&["status", "web"]).expect(0);
    says(&look, &["Waiting for deployment \"web\" rollout to finish: 0 of 1 updated replicas are available..."]);
    let late = namespace.run(&[&WATCH[..], &["--timeout=3s"]].concat()).expect(4);
    assert_eq!(late.document()["phase"], "timed-out");
    says(
        &late,
        &["error: timed out waiting for deployment \"web\": Waiting for", "0 of 1 updated replicas are available"],
    );
    namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"spec": {"minReadySeconds": 1}})).ok();
    namespace.run(&["status", "web", "--watch"]).expect(0);
}

/// Without this a wait would go on for what is no longer there, or be taken in by another Deployment of that name (C93).
#[test]
fn c93_a_deleted_or_replaced_workload_ends_the_wait_at_once() {
    let namespace = ControlPlane::main().namespace("gone");
    let _player = first(&namespace, 1);
    incident::release(&namespace, "two");
    starting(&namespace, "two");
    let down = Arc::new(AtomicBool::new(false));
    let is_down = Arc::clone(&down);
    let watches = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&watches);
    let proxy = Proxy::new(&namespace, move |_, passing| {
        if passing.target.contains("watch=true") {
            seen.fetch_add(1, Ordering::Relaxed);
        }
        if is_down.load(Ordering::Relaxed) { Act::CutBefore } else { Act::Pass }
    });
    let watching =
        |before: usize| wait("the watches", || (watches.load(Ordering::Relaxed) >= before + 3).then_some(()));

    // Replaced while nobody could see it.
    let child = spawn(proxy.product(&namespace, &WATCH));
    watching(0);
    down.store(true, Ordering::Relaxed);
    proxy.cut();
    thread::sleep(Duration::from_secs(1));
    namespace.at(DEPLOYMENTS, "web").delete(&json!({"propagationPolicy": "Background"})).ok();
    wait("the end", || (namespace.at(DEPLOYMENTS, "web").get().status == 404).then_some(()));
    namespace.all(DEPLOYMENTS).create(&incident::web(1)).ok();
    thread::sleep(Duration::from_secs(3));
    down.store(false, Ordering::Relaxed);
    let ran = ended(child).expect(4);
    says(&ran, &["error: deployment \"web\" was deleted and created again", "trying again"]);
    assert_eq!(ran.document()["phase"], "failed");

    // Deleted before everybody's eyes.
    let before = watches.load(Ordering::Relaxed);
    incident::release(&namespace, "two");
    starting(&namespace, "two");
    let child = spawn(proxy.product(&namespace, &WATCH));
    watching(before);
    let began = Instant::now();
    namespace.at(DEPLOYMENTS, "web").delete(&json!({"propagationPolicy": "Background"})).ok();
    let ran = ended(child).expect(4);
    says(&ran, &["error: deployment \"web\" was deleted"]);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// Without this a load balancer that ends a watch, an API server that restarts, or a version that is gone would end the
/// wait, or leave it blind for ever (C93).
#[test]
fn c93_a_lost_watch_is_taken_up_again() {
    let namespace = ControlPlane::main().namespace("lost");
    let _player = first(&namespace, 1);
    incident::release(&namespace, "two");
    starting(&namespace, "two");
    let down = Arc::new(AtomicBool::new(false));
    let is_down = Arc::clone(&down);
    let mut gone = true;
    let proxy = Proxy::new(&namespace, move |_, passing| {
        let watches_pods = passing.target.contains("watch=true") && passing.line().ends_with("/pods");
        if is_down.load(Ordering::Relaxed) {
            return Act::CutBefore;
        }
        if watches_pods && std::mem::take(&mut gone) {
            let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired",
                "message": "too old resource version"});
            return Act::Answer(410, body);
        }
        Act::Pass
    });
    let child = spawn(proxy.product(&namespace, &[&WATCH[..], &["--timeout=60s"]].concat()));
    let lists = || {
        let log = proxy.log();
        log.iter()
            .filter(|p| {
                p.line().ends_with("/pods") && p.target.contains("labelSelector") && !p.target.contains("watch")
            })
            .count()
    };
    wait("a list after the 410", || (lists() >= 2).then_some(()));
    // Down for longer than a read is repeated, and what happens meanwhile is not missed.
    down.store(true, Ordering::Relaxed);
    proxy.cut();
    thread::sleep(Duration::from_secs(8));
    Kubelet { namespace: &namespace }.set_ready(name(&pod(&namespace, "two")), true).expect("a Pod");
    down.store(false, Ordering::Relaxed);
    let ran = ended(child).expect(0);
    assert_eq!(ran.document()["phase"], "done");
    says(&ran, &["trying again until the wait ends", "the API server answers again"]);

    // And what never comes back ends with the time that was given.
    incident::release(&namespace, "three");
    starting(&namespace, "three");
    let began = Instant::now();
    let child = spawn(proxy.product(&namespace, &[&WATCH[..], &["--timeout=6s"]].concat()));
    thread::sleep(Duration::from_secs(2));
    down.store(true, Ordering::Relaxed);
    proxy.cut();
    let ran = ended(child).expect(4);
    says(&ran, &["timed out waiting for deployment \"web\"", "not seen now"]);
    assert!(began.elapsed() < Duration::from_secs(15), "a hard deadline: {:?}", began.elapsed());
}

/// Without this everybody who waits would ask the API server again and again.
#[test]
fn a_watch_asks_nothing_while_nothing_happens() {
    let namespace = ControlPlane::main().namespace("quiet");
    drop(first(&namespace, 1));
    incident::release(&namespace, "two");
    starting(&namespace, "two");
    let child = spawn(namespace.product(&[&WATCH[..], &["--timeout=45s"]].concat()));
    thread::sleep(Duration::from_secs(6));
    let asked = || -> Vec<String> {
        let log = namespace.audit().into_iter().filter(|e| e.user_agent.starts_with("kubectl-saferollback"));
        log.filter(|e| e.verb != "watch").map(|e| e.uri).collect()
    };
    let before = asked();
    assert!(!before.is_empty(), "it has read the rollout");
    thread::sleep(Duration::from_secs(30));
    assert_eq!(asked()[before.len()..], [""; 0], "thirty quiet seconds");
    let ran = ended(child).expect(4);
    assert_eq!(ran.document()["phase"], "timed-out");
    let lines: Vec<&str> = ran.stderr.lines().filter(|l| l.starts_with("Waiting for")).collect();
    assert_eq!(lines.len(), 1, "a line for each change, and none besides: {}", ran.stderr);
}
