//! Facts of a real cluster that the design rests on: a Kubernetes that changes them must be noticed.

use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, PODS, REPLICASETS};
use crate::support::control_plane::{Namespace, version, wait};
use crate::support::incident;
use crate::support::node::{self, Node, Texts, settings};
use serde_json::{Value, json};

const REVISION: &str = "deployment.kubernetes.io/revision";
const FORMER: &str = "deployment.kubernetes.io/revision-history";

fn set(namespace: &Namespace, release: &str) -> Value {
    let sets = namespace.items(REPLICASETS);
    let of = |set: &&Value| set["spec"]["template"]["metadata"]["annotations"]["release"] == release;
    sets.iter().find(of).unwrap_or_else(|| panic!("no ReplicaSet of release {release}")).clone()
}

fn annotation(namespace: &Namespace, release: &str, key: &str) -> Value {
    set(namespace, release)["metadata"]["annotations"][key].clone()
}

/// Without this the numbers that a person types after a rollback would mean other revisions than we think.
#[test]
fn an_undo_renumbers_its_target_and_keeps_the_former_number() {
    let namespace = Node::namespace("numbers");
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    node::deploy(&namespace, &node::web(1));
    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");
    let undo = || namespace.kubectl(&["rollout", "undo", "deployment/web", "--to-revision=1"]);
    assert!(undo().status.success());
    incident::rolled_out(&namespace, "web");
    assert_eq!(annotation(&namespace, "one", REVISION), "3");
    assert_eq!(annotation(&namespace, "one", FORMER), "1");
    assert_eq!(annotation(&namespace, "two", REVISION), "2");
    let again = undo();
    assert!(!again.status.success(), "kubectl finds no revision 1 any more: {again:?}");
    // We do, by the former number.
    let ours = namespace.run(&["undo", "web", "--to-revision", "1", "-y", "-o", "json"]).expect(0).document();
    assert_eq!(ours["outcome"], "nothing-to-do", "{ours:#}");
}

/// Without this our annotation on a workload would be taken for one of its current revision alone.
#[test]
fn an_annotation_is_copied_to_the_current_replica_set_and_stays_there() {
    let namespace = Node::namespace("copied");
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    node::deploy(&namespace, &node::web(1));
    let before = namespace.at(DEPLOYMENTS, "web").get().ok();
    let pods = node::pods(&namespace, "web");
    let note = |text: &str| {
        let body = json!({"metadata": {"annotations": {"tests/note": text}}});
        namespace.at(DEPLOYMENTS, "web").merge_patch(&body).ok()
    };
    note("first");
    wait("the copy", || (annotation(&namespace, "one", "tests/note") == "first").then_some(()));
    let after = namespace.at(DEPLOYMENTS, "web").get().ok();
    // The API server counts a Deployment's annotations into its generation, so a moved one is no sign of a rollout.
    assert_eq!((&before["metadata"]["generation"], &after["metadata"]["generation"]), (&json!(1), &json!(2)));
    let uids = |pods: Vec<Value>| pods.iter().map(|pod| pod["metadata"]["uid"].clone()).collect::<Vec<_>>();
    assert_eq!(uids(node::pods(&namespace, "web")), uids(pods), "no rollout");

    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");
    note("second");
    wait("the copy", || (annotation(&namespace, "two", "tests/note") == "second").then_some(()));
    assert_eq!(annotation(&namespace, "one", "tests/note"), "first", "a retired one keeps what it had");
    incident::release(&namespace, "one");
    incident::rolled_out(&namespace, "web");
    wait("the overwritten copy", || (annotation(&namespace, "one", "tests/note") == "second").then_some(()));
}

/// A Deployment and its immutable ConfigMap, both of this name.
fn own(name: &str) -> (Value, Value) {
    let mut web = node::web(1);
    web["metadata"]["name"] = json!(name);
    web["spec"]["selector"]["matchLabels"]["app"] = json!(name);
    web["spec"]["template"]["metadata"]["labels"]["app"] = json!(name);
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"] = json!(name);
    (web, immutable(name, "v1"))
}

fn immutable(name: &str, revision: &str) -> Value {
    let mut content = incident::settings(revision, "true");
    content["metadata"]["name"] = json!(name);
    content["immutable"] = json!(true);
    content
}

fn recreated(namespace: &Namespace, name: &str) {
    namespace.at(CONFIGMAPS, name).delete(&json!({})).ok();
    namespace.all(CONFIGMAPS).create(&immutable(name, "v2")).ok();
}

/// Without this a name would be used twice and trusted: a kubelet may serve the deleted object to new Pods. Whatever it
/// did, the product says that the object is another one.
#[test]
fn of_ten_names_used_twice_some_are_served_from_the_past() {
    let namespace = Node::namespace("ten");
    let names: Vec<String> = (0..10).map(|n| format!("try-{n}")).collect();
    for name in &names {
        let (web, content) = own(name);
        namespace.all(CONFIGMAPS).create(&content).ok();
        namespace.all(DEPLOYMENTS).create(&web).ok();
    }
    names.iter().for_each(|name| incident::rolled_out(&namespace, name));
    // Times in the API are whole seconds: within one of them a Pod could as well have waited for its ConfigMap.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let mut past = 0;
    for name in &names {
        let known = node::pods(&namespace, name);
        recreated(&namespace, name);
        namespace.at(DEPLOYMENTS, name).sub("scale").merge_patch(&json!({"spec": {"replicas": 2}})).ok();
        let (_, said) = node::newcomer(&namespace, name, &known);
        past += usize::from(said.settings() == settings("v1", "true"));
        let history = namespace.run(&["history", name, "-o", "json"]).expect(0).document();
        let reference = &history["revisions"][0]["references"][0];
        assert_eq!(reference["verdict"], "recreated", "{name}: {reference:#}");
    }
    assert!(past > 0, "no kubelet served a deleted object any more: A1 and the namesake check can be thought over");
}

/// Without this what is pinned would be as fragile as any other name: a snapshot that is deleted and made again has the
/// same bytes, since they are its name.
#[test]
fn a_snapshot_that_is_made_again_is_immune() {
    let namespace = Node::namespace("immune");
    let (web, content) = own("web");
    namespace.all(CONFIGMAPS).create(&content).ok();
    node::deploy(&namespace, &web);
    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), immutable("web", "v1").to_string()).expect("written");
    recreated(&namespace, "web");
    let given = format!("web={}", file.path().display());
    let undo = ["undo", "web", "--to-revision", "1", "--use", &given, "-y", "-o", "json"];
    let undone = namespace.run(&undo).expect(0).document();
    let snapshot = undone["actions"][0]["to"].as_str().expect("a snapshot").to_string();
    let read = |pod: &str| -> Texts { node::said(&namespace, pod).settings() };
    let first = node::name(&node::pods(&namespace, "web")[0]).to_owned();
    assert_eq!(read(&first), settings("v1", "true"));

    namespace.at(CONFIGMAPS, &snapshot).delete(&json!({})).ok();
    namespace.run(&undo).expect(0);
    let made = namespace.at(CONFIGMAPS, &snapshot).get().ok();
    assert_eq!(made["data"], incident::settings("v1", "true")["data"]);
    let (_, said) = node::replace(&namespace, "web", &first);
    assert_eq!(said.settings(), settings("v1", "true"), "whichever of the two the kubelet served");
}

/// Without this the reads of a retired revision would be thought to end where its ReplicaSet is at zero: files of Pods on
/// their way out still follow the object.
#[test]
fn a_pod_on_its_way_out_gets_newer_files() {
    let namespace = Node::namespace("leaving");
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    let mut web = node::web(1);
    let spec = &mut web["spec"]["template"]["spec"];
    // The program is the container's first process, which no SIGTERM ends.
    spec["terminationGracePeriodSeconds"] = json!(60);
    spec["volumes"] = json!([{"name": "v", "configMap": {"name": "settings"}}]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/config"}]);
    node::deploy(&namespace, &web);
    let pods = node::pods(&namespace, "web");
    let pod = node::name(&pods[0]);
    namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"spec": {"replicas": 0}})).ok();
    let at_zero = wait("a ReplicaSet at zero", || {
        let set = namespace.items(REPLICASETS).remove(0);
        (set["status"]["replicas"] == 0 && set["spec"]["replicas"] == 0).then_some(set)
    });
    let edited = incident::edit(&namespace, &json!({"CONFIG_REVISION": "v2"}));
    assert!(version(&at_zero) < version(&edited));
    wait("files that were written after it", || {
        (node::said(&namespace, pod).files["CONFIG_REVISION"] == "v2").then_some(())
    });
    assert!(!namespace.at(PODS, pod).get().ok()["metadata"]["deletionTimestamp"].is_null());
    namespace.at(PODS, pod).delete(&json!({"gracePeriodSeconds": 0})).ok();
}

/// Without this a rollback would be refused for an object that nobody needs; older descriptions say that it stops the Pod.
#[test]
fn a_pod_starts_without_what_no_container_mounts() {
    let namespace = Node::namespace("unmounted");
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    let mut web = node::web(1);
    let items = json!([{"key": "NOPE", "path": "nope"}]);
    web["spec"]["template"]["spec"]["volumes"] = json!([
        {"name": "a", "configMap": {"name": "absent"}},
        {"name": "b", "secret": {"secretName": "absent"}},
        {"name": "c", "configMap": {"name": "settings", "items": items}},
        {"name": "d", "projected": {"sources": [{"configMap": {"name": "gone", "items": items}}]}},
    ]);
    node::deploy(&namespace, &web);
    let history = namespace.run(&["history", "web", "-o", "json"]).expect(0).document();
    let verdict = |name: &str| -> Vec<&str> {
        let references = history["revisions"][0]["references"].as_array().expect("references");
        references.iter().filter(|r| r["name"] == name).filter_map(|r| r["verdict"].as_str()).collect()
    };
    assert_eq!((verdict("absent"), verdict("gone")), (vec!["same", "same"], vec!["same"]), "{history:#}");
    assert!(["same", "likely-same"].contains(&verdict("settings")[0]), "{history:#}");
}
