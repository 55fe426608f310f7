//! Facts about what the API remembers and tells, on which the product's verdicts rest. Each asserts what the real
//! server does, so that a Kubernetes version that behaves otherwise is noticed here and not in a wrong verdict.

use super::{release, replica_set, settings, two_revisions, workload};
use crate::support::client::{CONFIGMAPS, CONTROLLER_REVISIONS, DEPLOYMENTS, PODS, REPLICASETS, STATEFULSETS};
use crate::support::control_plane::{ControlPlane, items, version, wait};
use crate::support::kubelet::Kubelet;
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";

/// Otherwise a number that the person remembers could not be resolved through `revision-history`, and
/// `--to-revision` would need another way to find what the number stood for.
#[test]
fn a_revision_that_comes_back_gets_a_new_number_and_keeps_its_old_ones() {
    let namespace = ControlPlane::main().namespace("numbers");
    two_revisions(&namespace);
    assert_eq!(replica_set(&namespace, "one")["metadata"]["annotations"][REVISION], "1");
    let undo = namespace.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=1"]);
    assert!(undo.status.success(), "{undo:?}");
    Kubelet { namespace: &namespace }.settle(DEPLOYMENTS, "web");

    let back = replica_set(&namespace, "one");
    assert_eq!(back["metadata"]["annotations"][REVISION], "3");
    assert_eq!(back["metadata"]["annotations"][HISTORY], "1");
    assert_eq!(replica_set(&namespace, "two")["metadata"]["annotations"][REVISION], "2");
    let again = namespace.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=1"]);
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("unable to find"), "{again:?}");
}

/// Otherwise the product could not read what an object held before its last write.
#[test]
fn an_exact_list_reads_the_past_and_an_exact_get_does_not() {
    let namespace = ControlPlane::main().namespace("past");
    let first = settings(&namespace);
    let patch = json!({"data": {"a": "9"}, "metadata": {"labels": {"edited": "yes"}}});
    let live = namespace.at(CONFIGMAPS, "settings").merge_patch(&patch).ok();
    let before = (version(&live) - 1).to_string();

    let then = items(namespace.back_at(CONFIGMAPS, "settings", &before).ok());
    assert_eq!(then[0]["data"], first["data"]);
    assert_eq!(version(&then[0]), version(&first), "the former number, from which to go on further back");
    // A selector by label meets the labels of that time.
    let labelled = namespace.all(CONFIGMAPS).query("labelSelector", "edited=yes");
    let labelled = labelled.query("resourceVersion", &before).query("resourceVersionMatch", "Exact");
    assert_eq!(items(labelled.get().ok()), Vec::<Value>::new());

    let get =
        namespace.at(CONFIGMAPS, "settings").query("resourceVersion", &before).query("resourceVersionMatch", "Exact");
    let get = get.get().ok();
    assert_eq!(get["data"]["a"], "9", "GET ignores Exact: it would pass the live content off as the old one");
}

/// Otherwise Pods and ReplicaSets could not be walked back to an anchor.
#[test]
fn pods_and_replica_sets_have_a_past_too() {
    let namespace = ControlPlane::main().namespace("podpast");
    namespace.all(DEPLOYMENTS).create(&workload("Deployment", 1)).ok();
    Kubelet { namespace: &namespace }.settle(DEPLOYMENTS, "web");
    for (resource, path) in [(PODS, "/status/containerStatuses"), (REPLICASETS, "/status/readyReplicas")] {
        let live = namespace.items(resource).remove(0);
        assert!(live.pointer(path).is_some(), "{live}");
        let name = live["metadata"]["name"].as_str().expect("a name");
        let mut steps = 0;
        let mut now = live.clone();
        while now.pointer(path).is_some() {
            let earlier = items(namespace.back_at(resource, name, &(version(&now) - 1).to_string()).ok());
            let Some(earlier) = earlier.into_iter().next() else { panic!("{name} had no version before {path}") };
            assert!(version(&earlier) < version(&now));
            (now, steps) = (earlier, steps + 1);
        }
        assert!(steps > 0);
    }
}

/// Otherwise a history that is gone would look like an object that never was, or like an empty one.
#[test]
fn compacted_history_answers_410_and_never_content() {
    let plane = ControlPlane::compact();
    let namespace = plane.namespace("gone");
    let first = settings(&namespace);
    let live = namespace.at(CONFIGMAPS, "settings").merge_patch(&json!({"data": {"a": "9"}})).ok();
    let at = version(&first).to_string();
    let then = items(namespace.back_at(CONFIGMAPS, "settings", &at).ok());
    assert_eq!(then[0]["data"]["a"], "1", "still readable before the compaction");

    plane.compact_history();
    let gone = namespace.back_at(CONFIGMAPS, "settings", &at);
    assert_eq!((gone.status, &gone.body["reason"]), (410, &json!("Expired")), "{}", gone.body);
    let all = namespace.all(CONFIGMAPS).query("resourceVersion", &at).query("resourceVersionMatch", "Exact").get();
    assert_eq!(all.status, 410, "{}", all.body);
    let now = namespace.at(CONFIGMAPS, "settings").get().ok();
    assert_eq!(version(&now), version(&live), "the live object stays");
}

/// Otherwise a number from another store would be taken for an old one of this store.
#[test]
fn a_future_number_times_out_and_zero_is_refused() {
    let namespace = ControlPlane::main().namespace("future");
    let live = settings(&namespace);
    let began = Instant::now();
    let future = namespace.back_at(CONFIGMAPS, "settings", &(version(&live) + 1_000_000_000).to_string());
    assert_eq!(future.status, 504, "{}", future.body);
    assert!(began.elapsed() < Duration::from_secs(10), "the wait is bounded by the server");
    assert_eq!(namespace.back_at(CONFIGMAPS, "settings", "0").status, 422);
}

/// Otherwise managedFields could serve as proof that nobody wrote; a removed key leaves no trace in them.
#[test]
fn a_removed_key_leaves_no_trace_in_managed_fields() {
    let namespace = ControlPlane::main().namespace("trace");
    let first = settings(&namespace);
    // Times there have whole seconds: a write within the same second would prove nothing.
    thread::sleep(Duration::from_millis(1100));
    let patch = json!([{"op": "remove", "path": "/data/b"}]);
    let live = namespace.at(CONFIGMAPS, "settings").query("fieldManager", "someone-else").json_patch(&patch).ok();
    assert!(version(&live) > version(&first));
    let mut expected = first["metadata"]["managedFields"].clone();
    let data = expected[0]["fieldsV1"]["f:data"].as_object_mut().expect("the data's owners");
    data.remove("f:b").expect("an owner of b");
    assert_eq!(live["metadata"]["managedFields"], expected);
}

/// On the usual single etcd every type counts in one sequence; with a store of their own, Pods do not. Without this
/// difference the domain check could not tell the two apart, and number order would be no proof anywhere.
#[test]
fn numbers_compare_across_types_only_within_one_store() {
    let bounds = |namespace: &crate::support::control_plane::Namespace| {
        let list = |resource| version(&namespace.all(resource).query("limit", "1").get().ok());
        (list(CONFIGMAPS), list(PODS), list(CONFIGMAPS))
    };
    let (before, between, after) = bounds(&ControlPlane::main().namespace("onestore"));
    assert!(before <= between && between <= after, "{before} {between} {after}");
    let (before, between, after) = bounds(&ControlPlane::split().namespace("twostores"));
    assert!(between < before && before <= after, "{before} {between} {after}");
}

/// Otherwise a ReplicaSet's own number could date its template; it moves with every status.
#[test]
fn a_replica_sets_number_moves_with_its_status() {
    let namespace = ControlPlane::main().namespace("status");
    namespace.all(DEPLOYMENTS).create(&workload("Deployment", 1)).ok();
    let young = wait("the ReplicaSet", || namespace.items(REPLICASETS).into_iter().next());
    Kubelet { namespace: &namespace }.settle(DEPLOYMENTS, "web");
    let old = namespace.items(REPLICASETS).remove(0);
    assert!(version(&old) > version(&young));
    assert_eq!(old["spec"]["template"], young["spec"]["template"]);
}

/// Otherwise an annotation of ours on a Deployment could be read as saying something of the ReplicaSet that it
/// was copied to.
#[test]
fn a_deployments_annotation_is_copied_to_its_current_replica_set_and_stays_there() {
    let namespace = ControlPlane::main().namespace("copied");
    namespace.all(DEPLOYMENTS).create(&workload("Deployment", 1)).ok();
    let kubelet = Kubelet { namespace: &namespace };
    let before = kubelet.settle(DEPLOYMENTS, "web");
    let note = json!({"metadata": {"annotations": {"note": "first"}}});
    let after = namespace.at(DEPLOYMENTS, "web").merge_patch(&note).ok();
    // The generation moves though nothing rolls out: a Deployment's annotations count as its spec there.
    assert_eq!((&before["metadata"]["generation"], &after["metadata"]["generation"]), (&json!(1), &json!(2)));
    let copied = |release, value| {
        wait("the copy", || {
            (replica_set(&namespace, release)["metadata"]["annotations"]["note"] == value).then_some(())
        })
    };
    copied("one", "first");
    assert_eq!(namespace.items(REPLICASETS).len(), 1, "no rollout");

    namespace.at(DEPLOYMENTS, "web").merge_patch(&release("two")).ok();
    kubelet.settle(DEPLOYMENTS, "web");
    namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"metadata": {"annotations": {"note": "second"}}})).ok();
    copied("two", "second");
    copied("one", "first");
    // Current again, the first one's is overwritten.
    namespace.at(DEPLOYMENTS, "web").merge_patch(&release("one")).ok();
    kubelet.settle(DEPLOYMENTS, "web");
    copied("one", "second");
}

/// Otherwise StatefulSet revisions could not be read, told apart by a revision's hash, or dated.
#[test]
fn controller_revisions_hold_a_patch_and_are_used_again() {
    let namespace = ControlPlane::main().namespace("revisions");
    namespace.all(STATEFULSETS).create(&workload("StatefulSet", 1)).ok();
    let kubelet = Kubelet { namespace: &namespace };
    kubelet.settle(STATEFULSETS, "web");
    let first = namespace.items(CONTROLLER_REVISIONS).remove(0);
    assert_eq!(first["revision"], 1);
    assert_eq!(first["data"]["spec"]["template"]["$patch"], "replace");
    assert_eq!(first["data"].as_object().map(|data| data.len()), Some(1));
    assert!(first["metadata"]["labels"]["controller.kubernetes.io/hash"].is_string(), "{first}");

    namespace.at(STATEFULSETS, "web").merge_patch(&release("two")).ok();
    kubelet.settle(STATEFULSETS, "web");
    namespace.at(STATEFULSETS, "web").merge_patch(&release("one")).ok();
    kubelet.settle(STATEFULSETS, "web");
    let name = first["metadata"]["name"].as_str().expect("a name");
    assert_eq!(namespace.items(CONTROLLER_REVISIONS).len(), 2, "an equal template makes no third one");
    let again = namespace.at(CONTROLLER_REVISIONS, name).get().ok();
    assert_eq!(again["revision"], 3);

    // A label put on and taken off again: the number moved, and nothing else says so.
    let label = |value: Value| {
        namespace.at(CONTROLLER_REVISIONS, name).merge_patch(&json!({"metadata": {"labels": {"touched": value}}})).ok()
    };
    label(json!("yes"));
    let mut touched = label(Value::Null);
    assert!(version(&touched) > version(&again));
    touched["metadata"]["resourceVersion"] = again["metadata"]["resourceVersion"].clone();
    assert_eq!(touched, again);
}

/// Otherwise immutability and its age could not be told without the right to read contents in full.
#[test]
fn metadata_alone_shows_immutability_only_through_its_owner() {
    let namespace = ControlPlane::main().namespace("metadata");
    let body = json!({"metadata": {"name": "fixed"}, "data": {"a": "1"}, "immutable": true});
    namespace.all(CONFIGMAPS).create(&body).ok();
    let partial =
        namespace.at(CONFIGMAPS, "fixed").accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let partial = partial.get().ok();
    assert_eq!(partial["kind"], "PartialObjectMetadata");
    assert!(partial.get("immutable").is_none() && partial.get("data").is_none(), "{partial}");
    assert!(partial["metadata"]["managedFields"][0]["fieldsV1"]["f:immutable"].is_object(), "{partial}");
}
