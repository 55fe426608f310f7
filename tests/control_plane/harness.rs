//! Tests of the harness itself: a harness that plays the wrong shapes would prove nothing about the product.

use super::{settings, workload};
use crate::support::client::{CONFIGMAPS, DAEMONSETS, DEPLOYMENTS, EVENTS, PODS};
use crate::support::control_plane::{ControlPlane, version, wait};
use crate::support::kubelet::{Health, Kubelet, Play};
use crate::support::player::Player;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn pod(name: &str) -> Value {
    let mut pod = workload("Deployment", 1)["spec"]["template"].clone();
    pod["metadata"] = json!({"name": name});
    pod["spec"]["initContainers"] = json!([{"name": "prepare", "image": "registry.invalid/prepare:1"}]);
    pod
}

/// The product takes `involvedObject.resourceVersion` of these Events as the time before which a Pod read its
/// configuration: the numbers and field paths must be those the real scheduler and kubelet write.
#[test]
fn events_point_at_the_pod_before_the_act() {
    let namespace = ControlPlane::main().namespace("events");
    let created = namespace.all(PODS).create(&pod("one")).ok();
    let kubelet = Kubelet { namespace: &namespace };
    let ran = kubelet.start("one", &Play::ready()).expect("the Pod starts");
    let events = namespace.items(EVENTS);
    let told: Vec<_> =
        events.iter().map(|event| (event["reason"].as_str(), event["involvedObject"]["fieldPath"].as_str())).collect();
    let (init, app) = (Some("spec.initContainers{prepare}"), Some("spec.containers{app}"));
    for expected in [
        (Some("Scheduled"), None),
        (Some("Pulled"), init),
        (Some("Created"), init),
        (Some("Started"), init),
        (Some("Pulled"), app),
        (Some("Created"), app),
        (Some("Started"), app),
    ] {
        assert!(told.contains(&expected), "{expected:?} is missing in {told:?}");
    }
    for event in &events {
        let held = json!({"metadata": event["involvedObject"]});
        assert!(version(&held) < version(event), "{event}");
        assert_eq!(event["involvedObject"]["uid"], created["metadata"]["uid"]);
        if event["reason"] == "Scheduled" {
            assert_eq!(version(&held), version(&created), "the scheduler held the unbound Pod");
            assert!(
                event.get("count").is_none() && event["eventTime"].is_string() && event["firstTimestamp"].is_null(),
                "{event}"
            );
            assert_eq!(event["reportingComponent"], "default-scheduler");
        } else {
            assert!(version(&held) > version(&created) && version(&held) < version(&ran), "{event}");
            assert_eq!((&event["count"], &event["source"]["component"]), (&json!(1), &json!("kubelet")));
        }
    }
    assert_eq!(ran["status"]["phase"], "Running");
    assert_eq!(ran["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
}

/// A restart reads the environment anew; the product learns of it by count and start, since the repeated Event
/// keeps the number of the first one.
#[test]
fn a_restart_raises_counts_and_keeps_the_first_number() {
    let namespace = ControlPlane::main().namespace("restart");
    namespace.all(PODS).create(&pod("one")).ok();
    let kubelet = Kubelet { namespace: &namespace };
    kubelet.start("one", &Play::ready()).expect("the Pod starts");
    let started = |namespace: &crate::support::control_plane::Namespace| {
        let events = namespace.items(EVENTS).into_iter();
        let mut events = events.filter(|event| {
            event["reason"] == "Started" && event["involvedObject"]["fieldPath"] == "spec.containers{app}"
        });
        (events.next().expect("a Started Event"), events.count())
    };
    let (before, _) = started(&namespace);
    let crashed = kubelet.crash("one", "app").expect("the container crashes");
    assert_eq!(crashed["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(crashed["status"]["containerStatuses"][0]["restartCount"], 1);
    let again = kubelet.restart("one", "app", &Play::ready()).expect("it starts again");
    let status = &again["status"]["containerStatuses"][0];
    assert_eq!((&status["restartCount"], &status["ready"]), (&json!(2), &json!(true)));
    let (after, others) = started(&namespace);
    assert_eq!((&after["count"], others), (&json!(2), 0));
    assert_eq!(after["involvedObject"], before["involvedObject"]);
}

/// The knobs stand for nodes with wrong clocks, expired Events and containers that cannot start.
#[test]
fn a_play_can_go_wrong_in_the_ways_nodes_do() {
    let namespace = ControlPlane::main().namespace("wrong");
    let kubelet = Kubelet { namespace: &namespace };
    let start = |name: &str, play: &Play| {
        namespace.all(PODS).create(&pod(name)).ok();
        kubelet.start(name, play).expect("the Pod is played")["status"]["containerStatuses"][0].clone()
    };
    let ahead = Play { clock: Some(SignedDuration::from_hours(1)), events: false, node: "node-b", ..Play::not_ready() };
    let status = start("ahead", &ahead);
    let at: Timestamp = status["state"]["running"]["startedAt"].as_str().expect("a time").parse().expect("a time");
    assert!(at > Timestamp::now() + SignedDuration::from_mins(50));
    assert_eq!((&status["ready"], namespace.items(EVENTS).len()), (&json!(false), 0));
    assert_eq!(namespace.at(PODS, "ahead").get().ok()["spec"]["nodeName"], "node-b");

    let status = start("timeless", &Play { clock: None, ..Play::ready() });
    assert!(status["state"]["running"]["startedAt"].is_null());

    let health = Health::Waiting { reason: "CreateContainerConfigError", message: "configmap \"settings\" not found" };
    let status = start("stuck", &Play::new(health));
    assert_eq!(status["state"]["waiting"]["reason"], "CreateContainerConfigError");
    assert!(namespace.items(EVENTS).iter().any(|event| event["reason"] == "Failed"));
}

/// Whole commands wait for rollouts: Pods must come, become ready and go while they run.
#[test]
fn a_player_carries_rollouts_in_the_background() {
    let namespace = ControlPlane::main().namespace("player");
    settings(&namespace);
    let stuck = |pod: &Value| {
        let bad = pod["metadata"]["annotations"]["release"] == "bad";
        Some(if bad { Play::not_ready() } else { Play::ready() })
    };
    let _player = Player::run(&namespace, stuck);
    namespace.all(DEPLOYMENTS).create(&workload("Deployment", 2)).ok();
    let ready = |want: u64| {
        wait("ready Pods", || {
            (namespace.at(DEPLOYMENTS, "web").get().ok()["status"]["availableReplicas"] == want).then_some(())
        })
    };
    ready(2);
    namespace.at(DEPLOYMENTS, "web").merge_patch(&super::release("bad")).ok();
    wait("the bad Pod", || {
        namespace
            .items(PODS)
            .iter()
            .any(|pod| {
                stuck(pod).is_some_and(|play| play.health == Health::NotReady) && pod["status"]["phase"] == "Running"
            })
            .then_some(())
    });
    let undo = namespace.kubectl(&["rollout", "undo", "deployment/web"]);
    assert!(undo.status.success(), "{undo:?}");
    let status = namespace.kubectl(&["rollout", "status", "deployment/web", "--timeout=30s"]);
    assert!(status.status.success(), "{status:?}");
    namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"spec": {"replicas": 0}})).ok();
    wait("an empty namespace", || namespace.items(PODS).is_empty().then_some(()));
}

/// DaemonSets choose nodes themselves.
#[test]
fn daemon_sets_get_a_pod_on_each_node() {
    let namespace = ControlPlane::main().namespace("daemons");
    namespace.all(DAEMONSETS).create(&workload("DaemonSet", 0)).ok();
    Kubelet { namespace: &namespace }.settle(DAEMONSETS, "web");
    let pods = namespace.items(PODS);
    let mut nodes: Vec<_> = pods.iter().map(|pod| pod["spec"]["nodeName"].as_str().unwrap_or_default()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["node-a", "node-b"]);
}

/// Server-side apply by two managers: what the product meets where other tools write.
#[test]
fn apply_takes_fields_over() {
    let namespace = ControlPlane::main().namespace("apply");
    let body = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": value}});
    namespace.at(CONFIGMAPS, "settings").apply("one", &body("1")).ok();
    let second = namespace.at(CONFIGMAPS, "settings").apply("two", &body("2")).ok();
    let managers: Vec<_> = second["metadata"]["managedFields"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|entry| entry["manager"].clone())
        .collect();
    assert_eq!(managers, ["two"], "the first one owns nothing any more");
    let mut changed = second.clone();
    changed["data"]["a"] = json!("3");
    namespace.at(CONFIGMAPS, "settings").replace(&changed).ok();
    assert_eq!(namespace.at(CONFIGMAPS, "settings").replace(&changed).status, 409, "the read version is gone");
}

/// A test must never write to a cluster that it did not start.
#[test]
fn other_servers_are_refused() {
    let refusal = |config: &dyn Fn(String) -> String, marker: &str| {
        let plane = ControlPlane::main();
        let directory = tempfile::tempdir().expect("a directory");
        let own = plane.kubeconfig.parent().expect("a state directory");
        for name in ["server", "etcd-urls", "tools"] {
            fs::copy(own.join(name), directory.path().join(name)).expect("a copy");
        }
        let text = fs::read_to_string(&plane.kubeconfig).expect("the kubeconfig");
        fs::write(directory.path().join("kubeconfig"), config(text)).expect("a file");
        fs::write(directory.path().join("marker"), marker).expect("a file");
        let failure = catch_unwind(AssertUnwindSafe(|| ControlPlane::open(directory.path()))).err().expect("a refusal");
        failure.downcast_ref::<String>().cloned().unwrap_or_default()
    };
    let elsewhere = refusal(&|text| text.replace("127.0.0.1", "192.0.2.1"), "x");
    assert!(elsewhere.contains("is not the loopback server"), "{elsewhere}");
    let unmarked = refusal(&|text| text, "another");
    assert!(unmarked.contains("carries no marker"), "{unmarked}");
}
