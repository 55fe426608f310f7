//! Why a rollout does not end, as its Pods show it.

use jiff::Timestamp;
use saferollback::core::object::Object;
use saferollback::core::pods::{Class, HOLD, Held, Sight, Standing, lasting, standing};
use saferollback::core::rollout::Progress;
use serde_json::{Value, json};
use std::time::Duration;

const SINCE: &str = "2026-11-29T12:00:00Z";

fn template(release: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}, "annotations": {"release": release}},
        "spec": {"containers": [{"name": "app", "image": "registry.example/web:1.4"}]}})
}

fn web() -> Object {
    Object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-web", "generation": 7,
            "annotations": {"deployment.kubernetes.io/revision": "2"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("two")},
        "status": {"observedGeneration": 7, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2,
            "conditions": [{"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
                "lastUpdateTime": SINCE}]},
    }))
}

fn set(name: &str, revision: &str, release: &str) -> Object {
    Object(json!({
        "kind": "ReplicaSet",
        "metadata": {"name": name, "uid": format!("u-{name}"), "annotations": {"deployment.kubernetes.io/revision": revision},
            "ownerReferences": [{"kind": "Deployment", "name": "web", "uid": "u-web", "controller": true}]},
        "spec": {"template": template(release)},
    }))
}

fn sets() -> Vec<Object> {
    vec![set("web-old", "1", "one"), set("web-new", "2", "two")]
}

/// A Pod of a ReplicaSet whose one container has this state.
fn pod(name: &str, of: &str, state: &Value) -> Object {
    let ready = if state.get("running").is_some() { "True" } else { "False" };
    Object(json!({
        "kind": "Pod",
        "metadata": {"name": name, "uid": format!("u-{name}"),
            "ownerReferences": [{"kind": "ReplicaSet", "name": of, "uid": format!("u-{of}"), "controller": true}]},
        "spec": {"nodeName": "node-a", "volumes": [
            {"name": "cfg", "configMap": {"name": "settings"}}, {"name": "key", "secret": {"secretName": "tls"}}]},
        "status": {"phase": if ready == "True" { "Running" } else { "Pending" },
            "conditions": [
                {"type": "PodReadyToStartContainers", "status": "True"},
                {"type": "Ready", "status": ready, "lastTransitionTime": SINCE},
                {"type": "ContainersReady", "status": ready, "lastTransitionTime": SINCE},
                {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"name": "app", "restartCount": 0, "state": state}]},
    }))
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": message}})
}

fn running() -> Value {
    json!({"running": {"startedAt": SINCE}})
}

fn seen(workload: &Object, sets: &[Object], pods: &[Object], events: &[Object]) -> Standing {
    let pods: Vec<&Object> = pods.iter().collect();
    let events: Vec<&Object> = events.iter().collect();
    standing(Sight { workload, replica_sets: Some(sets), pods: &pods, events: &events }, 7, None)
}

fn of(pods: &[Object]) -> Standing {
    seen(&web(), &sets(), pods, &[])
}

/// Without these a person would have to know what the kubelet's words mean, or look for the object that they do not name
/// (C80).
#[test]
fn c80_a_container_that_does_not_start_says_what_it_lacks() {
    let cases = [
        ("configmap \"settings\" not found", "configmap/settings is not there"),
        ("secret \"db\" not found", "secret/db is not there"),
        ("couldn't find key HEALTHY in ConfigMap shop/settings", "configmap/settings has no key HEALTHY"),
        ("couldn't find key password in Secret shop/db", "secret/db has no key password"),
        (
            "container has runAsNonRoot and image will run as root",
            "container has runAsNonRoot and image will run as root",
        ),
    ];
    for (message, why) in cases {
        let standing = of(&[pod("a", "web-new", &waiting("CreateContainerConfigError", message))]);
        let sentence = format!("pod/a: container app does not start: {why} (CreateContainerConfigError)");
        assert_eq!(standing.said(), [sentence]);
        let trouble = &standing.troubles[0];
        assert_eq!((trouble.class, trouble.message.as_str(), trouble.blocks), (Class::Config, message, true));
        assert_eq!(trouble.since, Some(SINCE.parse().expect("a time")), "a waiting container has no time of its own");
    }
    // An init container says it in its own list.
    let mut init = pod("a", "web-new", &waiting("PodInitializing", ""));
    init.0["status"]["initContainerStatuses"] =
        json!([{"name": "i", "state": waiting("CreateContainerConfigError", "configmap \"x\" not found")}]);
    assert_eq!(
        of(&[init]).said(),
        ["pod/a: container i does not start: configmap/x is not there (CreateContainerConfigError)"]
    );
    let other = of(&[pod("a", "web-new", &waiting("RunContainerError", "exec: \"app\": not found"))]);
    assert_eq!(other.said(), ["pod/a: container app does not start: exec: \"app\": not found (RunContainerError)"]);
}

/// Without these an image that cannot be pulled and a container that crashes would look like a slow start.
#[test]
fn images_and_crashes_are_told_in_words() {
    let pull = "Back-off pulling image \"registry.example/web:9\": ErrImagePull: not found";
    let standing = of(&[pod("a", "web-new", &waiting("ImagePullBackOff", pull))]);
    assert_eq!(
        standing.said(),
        [format!("pod/a: the image of container app cannot be pulled: {pull} (ImagePullBackOff)")]
    );

    let back_off = "back-off 10s restarting failed container=app pod=a_shop(u-a)";
    let crash = |last: Value| {
        let mut pod = pod("a", "web-new", &waiting("CrashLoopBackOff", back_off));
        pod.0["status"]["containerStatuses"][0]["lastState"] = last;
        of(&[pod]).said().join("\n")
    };
    let told = |words: &str| format!("pod/a: container app crashes again and again{words} (CrashLoopBackOff)");
    let ended = |more: Value| {
        let mut last = json!({"exitCode": 1, "reason": "Error", "startedAt": SINCE, "finishedAt": SINCE});
        last.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"terminated": last})
    };
    assert_eq!(crash(json!({})), told(&format!(": {back_off}")));
    assert_eq!(crash(ended(json!({}))), told(&format!(", exit code 1: {back_off}")));
    assert_eq!(crash(ended(json!({"exitCode": 137, "reason": "OOMKilled"}))), told(", exit code 137: OOMKilled"));
    assert_eq!(crash(ended(json!({"exitCode": 3, "message": "no HEALTHY\n"}))), told(", exit code 3: no HEALTHY"));
}

/// Without this a Pod that no node takes, or one that was not created at all, would be waited for in silence.
#[test]
fn what_is_not_scheduled_or_not_created_is_told() {
    let mut big = pod("big", "web-new", &json!({}));
    big.0["spec"].as_object_mut().expect("a spec").shift_remove("nodeName");
    big.0["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu.", "lastTransitionTime": SINCE}]});
    let standing = of(&[big]);
    assert_eq!(
        standing.said(),
        ["pod/big: no node takes it: 0/1 nodes are available: 1 Insufficient cpu. (Unschedulable)"]
    );
    assert_eq!(standing.troubles[0].since, Some(SINCE.parse().expect("a time")));

    let quota =
        "pods \"web-new-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
    let failure = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": quota,
        "lastTransitionTime": SINCE}]);
    let mut sets = sets();
    sets[1].0["status"] = json!({"conditions": failure});
    let standing = seen(&web(), &sets, &[], &[]);
    assert_eq!(standing.said(), [format!("replicaset/web-new: its Pods are not created: {quota} (FailedCreate)")]);
    assert!(standing.troubles[0].blocks);
    // The former revision's is none of ours.
    sets.swap(0, 1);
    sets[1].0["status"] = sets[0].0["status"].take();
    let standing = seen(&web(), &sets, &[], &[]);
    assert!(!standing.troubles[0].blocks, "{standing:#?}");

    let mut none = web();
    none.0["status"]["conditions"][0] = json!({"type": "Progressing", "status": "False",
        "reason": "ReplicaSetCreateError", "message": "exceeded quota: sets"});
    let standing = seen(&none, &[set("web-old", "1", "one")], &[], &[]);
    assert_eq!(
        standing.said(),
        ["deployment/web: its ReplicaSet is not created: exceeded quota: sets (ReplicaSetCreateError)"]
    );
}

fn event(pod: &str, reason: &str, message: &str) -> Object {
    Object(json!({"involvedObject": {"kind": "Pod", "uid": format!("u-{pod}")}, "reason": reason, "message": message,
        "type": "Warning", "firstTimestamp": SINCE, "lastTimestamp": SINCE}))
}

/// Without this a Pod whose volume has no ConfigMap would be "ContainerCreating" for ever: only Events say why (C80).
#[test]
fn c80_a_volume_that_cannot_be_mounted_is_found_in_events() {
    let mut stuck = pod("a", "web-new", &waiting("ContainerCreating", ""));
    stuck.0["status"]["conditions"][0]["status"] = json!("False");
    let silent = of(std::slice::from_ref(&stuck));
    assert!(silent.pods[0].mute && silent.troubles.is_empty(), "{silent:#?}");
    let cases = [
        (
            "FailedMount",
            "MountVolume.SetUp failed for volume \"cfg\" : configmap \"settings\" not found",
            "a volume cannot be mounted: configmap/settings is not there",
        ),
        (
            "FailedMount",
            "MountVolume.SetUp failed for volume \"cfg\" : configmap references non-existent config key: app.conf",
            "a volume cannot be mounted: configmap/settings has no key app.conf",
        ),
        (
            "FailedMount",
            "MountVolume.SetUp failed for volume \"key\" : references non-existent secret key: tls.key",
            "a volume cannot be mounted: secret/tls has no key tls.key",
        ),
        ("FailedAttachVolume", "Multi-Attach error", "a volume cannot be mounted: Multi-Attach error"),
        ("FailedCreatePodSandBox", "no network", "its sandbox cannot be made: no network"),
    ];
    for (reason, message, what) in cases {
        let events =
            [event("a", reason, message), event("other", "FailedMount", "another's"), event("a", "Unhealthy", "probe")];
        let found = seen(&web(), &sets(), std::slice::from_ref(&stuck), &events);
        assert_eq!(found.said(), [format!("pod/a: {what} ({reason})")]);
        assert_eq!(found.troubles[0].class, Class::Mount);
    }
    // Once the sandbox stands the volumes are mounted: what Events said before is over.
    stuck.0["status"]["conditions"][0]["status"] = json!("True");
    let pulling = seen(&web(), &sets(), &[stuck], &[event("a", "FailedMount", "timed out")]);
    assert!(pulling.troubles.is_empty() && !pulling.pods[0].mute, "{pulling:#?}");
}

/// Without this a rollback would fail for the very Pods that it replaces (C82).
#[test]
fn c82_trouble_is_the_new_pods_own() {
    let broken = waiting("CreateContainerConfigError", "configmap \"settings\" not found");
    let mut going = pod("going", "web-new", &broken);
    going.0["metadata"]["deletionTimestamp"] = json!(SINCE);
    let mut foreign = pod("foreign", "web-new", &broken);
    foreign.0["metadata"]["ownerReferences"][0]["uid"] = json!("u-else");
    let pods =
        [pod("a", "web-new", &broken), pod("b", "web-new", &broken), pod("old", "web-old", &broken), going, foreign];
    let standing = of(&pods);
    let blocking: Vec<&str> = standing.troubles.iter().filter(|t| t.blocks).map(|t| t.object.as_str()).collect();
    assert_eq!(blocking, ["pod/a", "pod/b"]);
    let lines = [
        "pod/a: container app does not start: configmap/settings is not there (CreateContainerConfigError) (and 1 Pod alike)",
        "pod/old of revision 1: container app does not start: configmap/settings is not there (CreateContainerConfigError)",
    ];
    assert_eq!(standing.said(), lines, "the old one is listed all the same");
    let mut held = Held::default();
    let old = of(&[pod("old", "web-old", &broken)]);
    held.look(&old, Duration::ZERO);
    assert!(held.first(&old, Duration::ZERO).is_none(), "and ends nothing");
    assert!(lasting(&old, "2026-11-29T13:00:00Z".parse().expect("a time")).is_none());
    // At the time-out whoever is left is named.
    let left = of(&[pod("a", "web-new", &running()), pod("left", "web-old", &running())]);
    assert_eq!(left.reasons(), ["pod/left: of revision 1, still there"]);
}

/// Without this an old Pod that still works would count as a replacement, or not be spoken of (C83).
#[test]
fn c83_terminating_pods_are_said_and_never_counted() {
    let leaving = |name: &str, of: &str| {
        let mut pod = pod(name, of, &running());
        pod.0["metadata"]["deletionTimestamp"] = json!(SINCE);
        pod
    };
    let pods =
        [leaving("x", "web-old"), leaving("y", "web-old"), leaving("z", "web-new"), pod("a", "web-new", &running())];
    let standing = of(&pods);
    assert_eq!((standing.ready(), standing.terminating()), (1, 2));
    assert_eq!(standing.leaving().as_deref(), Some("2 old Pods still terminating"));
    assert_eq!(of(&pods[..1]).leaving().as_deref(), Some("1 old Pod still terminating"));
    assert_eq!(of(&pods[3..]).leaving(), None);
}

/// Without this a status right after a rollback would report the failure of the rollout before it (C79).
#[test]
fn c79_the_condition_names_the_replica_set_that_it_speaks_of() {
    let exceeded = |name: &str| {
        let mut workload = web();
        workload.0["status"]["conditions"][0] = json!({"type": "Progressing", "status": "False",
            "reason": "ProgressDeadlineExceeded", "lastUpdateTime": SINCE,
            "message": format!("ReplicaSet {name:?} has timed out progressing.")});
        seen(&workload, &sets(), &[], &[]).progress
    };
    assert!(matches!(exceeded("web-old"), Progress::Waiting(_)));
    assert!(matches!(exceeded("web-new"), Progress::Failed(_)));
    assert!(matches!(exceeded("no-longer-there"), Progress::Failed(_)));
}

/// Without this a rollout whose ReplicaSet is not made yet would be judged by the Pods of the one before.
#[test]
fn until_the_new_replica_set_is_there_no_pod_is_of_the_rollout() {
    let broken = waiting("CreateContainerConfigError", "configmap \"settings\" not found");
    let mut ahead = web();
    ahead.0["spec"]["template"] = template("three");
    let standing = seen(&ahead, &sets(), &[pod("a", "web-new", &broken)], &[]);
    assert_eq!((standing.revision, standing.ready()), (None, 0));
    assert!(standing.troubles.iter().all(|t| !t.blocks), "{standing:#?}");
    let unread = standing_without_sets(&ahead);
    assert!(unread.pods.is_empty() && unread.troubles.is_empty());
}

fn standing_without_sets(workload: &Object) -> Standing {
    standing(Sight { workload, replica_sets: None, pods: &[], events: &[] }, 7, None)
}

/// Without this a Pod that is unschedulable for a second would end a rollout; and one that goes to and fro between two
/// crashes, or between a pull and the pause after it, never would.
#[test]
fn only_what_holds_ends_a_rollout() {
    let at = Duration::from_secs;
    let image = |reason: &str| of(&[pod("a", "web-new", &waiting(reason, "not found"))]);
    let mut held = Held::default();
    for (second, standing) in [(0, image("ErrImagePull")), (4, image("ImagePullBackOff")), (8, image("ErrImagePull"))] {
        held.look(&standing, at(second));
        let (end, trouble) = held.first(&standing, Duration::ZERO).expect("a trouble");
        assert_eq!((end, held.since(trouble)), (HOLD, Some(Duration::ZERO)), "pull and pause are one");
    }
    // Gone for a moment: it begins anew.
    held.look(&of(&[pod("a", "web-new", &waiting("ContainerCreating", ""))]), at(9));
    let again = image("ErrImagePull");
    held.look(&again, at(10));
    assert_eq!(held.first(&again, Duration::ZERO).expect("a trouble").0, at(20));

    // Between two crashes the container runs, and is not ready.
    let mut held = Held::default();
    let back_off = of(&[pod("a", "web-new", &waiting("CrashLoopBackOff", "back-off"))]);
    let mut between = pod("a", "web-new", &running());
    between.0["status"]["conditions"][1]["status"] = json!("False");
    held.look(&back_off, at(0));
    let runs = of(std::slice::from_ref(&between));
    held.look(&runs, at(8));
    assert!(held.first(&runs, Duration::ZERO).is_none(), "while it runs there is nothing to fail for");
    held.look(&back_off, at(12));
    assert_eq!(held.first(&back_off, Duration::ZERO).expect("a trouble").0, HOLD, "it is one loop");
    held.look(&of(&[pod("a", "web-new", &running())]), at(13));
    held.look(&back_off, at(14));
    assert_eq!(held.first(&back_off, Duration::ZERO).expect("a trouble").0, at(24), "it was ready in between");

    // What is not created waits for the room of those that leave, as long as Pods come on.
    let mut sets = sets();
    sets[1].0["status"] = json!({"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
        "message": "exceeded quota"}]});
    let full = seen(&web(), &sets, &[], &[]);
    let mut held = Held::default();
    held.look(&full, at(0));
    assert_eq!(held.first(&full, at(7)).expect("a trouble").0, at(17));
}

/// Without this a single look could not say that a rollout is stuck, or would say so of one that has just begun.
#[test]
fn a_single_look_goes_by_the_objects_own_times() {
    let stuck = of(&[pod("a", "web-new", &waiting("CreateContainerConfigError", "configmap \"settings\" not found"))]);
    let at = |text: &str| -> Timestamp { text.parse().expect("a time") };
    assert!(lasting(&stuck, at("2026-11-29T12:00:09Z")).is_none());
    assert!(lasting(&stuck, at("2026-11-29T12:00:10Z")).is_some());
}

/// Without this nobody would know why a paused rollout does not move.
#[test]
fn a_paused_rollout_says_so() {
    let mut paused = web();
    paused.0["spec"]["paused"] = json!(true);
    let said = seen(&paused, &sets(), &[], &[]).said();
    assert_eq!(said, ["deployment/web is paused: nothing rolls out until it is resumed"]);
}
