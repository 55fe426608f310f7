//! `snapshot prune` against a real API server: nothing goes that anybody may need.

use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, PODS, Resource};
use crate::support::control_plane::{ControlPlane, Namespace, wait};
use crate::support::incident;
use crate::support::product::Ran;
use crate::support::proxy::{Act, Passing, Proxy};
use crate::support::rights;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

const JOBS: Resource = Resource::new("/apis/batch/v1", "jobs");
const CRON_JOBS: Resource = Resource::new("/apis/batch/v1", "cronjobs");
const CONTROLLERS: Resource = Resource::new("/api/v1", "replicationcontrollers");
const POD_TEMPLATES: Resource = Resource::new("/api/v1", "podtemplates");
const STATEFUL_SETS: Resource = Resource::new("/apis/apps/v1", "statefulsets");

/// An hour and more passes for the API server's clock, as the program asks for it: by an object that is not stored.
fn hours_later(passing: &Passing) -> Act {
    if passing.method == "POST" && passing.dry_run() {
        return Act::Change(Box::new(|answer| {
            let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(2);
            answer["metadata"]["creationTimestamp"] = json!(later.to_string());
        }));
    }
    Act::Pass
}

fn prune(namespace: &Namespace, arguments: &[&str]) -> Ran {
    let proxy = Proxy::new(namespace, |_, passing| hours_later(passing));
    proxy.run(namespace, &[&["snapshot", "prune"], arguments].concat())
}

fn snapshot(namespace: &Namespace, name: &str) {
    let body = json!({
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": "kubectl-saferollback", "saferollback.dev/kind": "snapshot"},
            "annotations": {"saferollback.dev/source": "settings"},
        },
        "immutable": true, "data": {"name": name},
    });
    namespace.all(CONFIGMAPS).create(&body).ok();
}

fn ours(namespace: &Namespace) -> BTreeSet<String> {
    let label = "app.kubernetes.io/managed-by=kubectl-saferollback";
    let list = namespace.all(CONFIGMAPS).query("labelSelector", label).get().ok();
    let names = list["items"].as_array().into_iter().flatten();
    names.filter_map(|o| o["metadata"]["name"].as_str()).map(str::to_string).collect()
}

fn template(label: &str, config: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": label}},
        "spec": {
            "restartPolicy": "Always",
            "containers": [{"name": "app", "image": "x", "envFrom": [{"configMapRef": {"name": config}}]}],
        },
    })
}

fn workload(label: &str, config: &str) -> Value {
    json!({
        "metadata": {"name": label},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": label}}, "template": template(label, config)},
    })
}

fn numbered(namespace: &Namespace, number: &str) {
    wait("the revision", || {
        let live = namespace.at(DEPLOYMENTS, "web").get().ok();
        (live["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == number).then_some(())
    });
}

/// Without this a revision that is scaled to zero, or another workload, would lose what it names (C51, C75, C76).
#[test]
fn c51_c76_only_what_nobody_names_goes() {
    let namespace = ControlPlane::main().namespace("prune");
    let users = ["live", "retired", "pod", "job", "cron", "sts", "rc", "template", "volume"];
    for user in users.iter().chain(&["unneeded", "unneeded-too"]) {
        snapshot(&namespace, user);
    }
    namespace.all(DEPLOYMENTS).create(&workload("web", "retired")).ok();
    numbered(&namespace, "1");
    let mut two = template("web", "live");
    two["spec"]["volumes"] = json!([{"name": "v", "projected": {"sources": [{"configMap": {"name": "volume"}}]}}]);
    namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"spec": {"template": two}})).ok();
    numbered(&namespace, "2");
    let mut pod = template("bare", "pod");
    pod["metadata"]["name"] = json!("bare");
    namespace.all(PODS).create(&pod).ok();
    let mut once = template("job", "job");
    once["spec"]["restartPolicy"] = json!("Never");
    namespace.all(JOBS).create(&json!({"metadata": {"name": "job"}, "spec": {"suspend": true, "template": once}})).ok();
    let mut cron = template("cron", "cron");
    cron["spec"]["restartPolicy"] = json!("Never");
    let cron = json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": cron}}});
    namespace.all(CRON_JOBS).create(&json!({"metadata": {"name": "cron"}, "spec": cron})).ok();
    let mut set = workload("sts", "sts");
    set["spec"]["serviceName"] = json!("sts");
    namespace.all(STATEFUL_SETS).create(&set).ok();
    let mut controller = workload("rc", "rc");
    controller["spec"]["selector"] = json!({"app": "rc"});
    namespace.all(CONTROLLERS).create(&controller).ok();
    let kept = json!({"metadata": {"name": "kept"}, "template": template("t", "template")});
    namespace.all(POD_TEMPLATES).create(&kept).ok();

    // Young ones stay, whoever names them.
    let young = namespace.run(&["snapshot", "prune", "-y", "-o", "json"]).expect(0).document();
    assert_eq!((&young["outcome"], ours(&namespace).len()), (&json!("nothing-to-do"), 11), "{young:#}");

    let dry = prune(&namespace, &["--dry-run", "-o", "json"]).expect(0).document();
    let going: Vec<&str> = dry["snapshots"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|s| s["prune"] == true)
        .filter_map(|s| s["name"].as_str())
        .collect();
    assert_eq!(going, ["unneeded", "unneeded-too"], "{dry:#}");
    assert_eq!(ours(&namespace).len(), 11, "a dry run deletes nothing");
    prune(&namespace, &["--dry-run=server"]).expect(0);
    assert_eq!(ours(&namespace).len(), 11, "neither does this one");

    let done = prune(&namespace, &["-y", "-o", "json"]).expect(0).document();
    assert_eq!(ours(&namespace), users.iter().map(ToString::to_string).collect(), "{done:#}");
    for kept in done["snapshots"].as_array().into_iter().flatten().filter(|s| s["prune"] == false) {
        assert!(kept["why"].as_str().is_some_and(|why| why.starts_with("named by ")), "{kept:#}");
    }
    let listed = namespace.run(&["snapshot", "list"]).expect(0).stdout;
    for words in
        ["cronjob/cron", "deployment/web", "statefulset/sts", "podtemplate/kept", "pod/bare", "configmap/settings"]
    {
        assert!(listed.contains(words), "{words} is not in\n{listed}");
    }
}

/// Without this a right that is missing would be taken for an absence.
#[test]
fn where_users_cannot_be_seen_everything_stays() {
    let namespace = ControlPlane::main().namespace("prune-blind");
    snapshot(&namespace, "unneeded");
    let few = rights::here(
        &namespace,
        &json!([
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "delete"]},
            {"apiGroups": [""], "resources": ["pods", "replicationcontrollers", "podtemplates"], "verbs": ["list"]},
            {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["list"]},
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]},
        ]),
    );
    let proxy = Proxy::as_user(few.path(), |_, passing| hours_later(passing));
    let ran = proxy.run(&namespace, &["snapshot", "prune", "-y"]).expect(0);
    assert_eq!(ours(&namespace).len(), 1, "{ran:?}");
    assert!(ran.stdout.contains("cannot be seen") && ran.stdout.contains("cronjobs"), "{ran:?}");
    let log = proxy.log();
    assert!(log.iter().all(|p| p.method != "DELETE"), "nothing was even asked to be deleted");
    // A workload of a kind that is not read may name anything in its own template.
    let namespace = ControlPlane::main().namespace("prune-custom");
    snapshot(&namespace, "unneeded");
    let mut pod = template("bare", "none");
    pod["metadata"]["name"] = json!("of-a-rollout");
    let owner =
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "r", "uid": "u", "controller": true});
    pod["metadata"]["ownerReferences"] = json!([owner]);
    namespace.all(PODS).create(&pod).ok();
    let ran = prune(&namespace, &["-y"]).expect(0);
    assert!(ran.stdout.contains("rollout/r"), "{ran:?}");
    assert_eq!(ours(&namespace).len(), 1, "{ran:?}");
}

/// Without this two people who tidy up at once would fail each other.
#[test]
fn two_prunes_at_once_end_well() {
    let namespace = ControlPlane::main().namespace("prune-twice");
    for n in 0..5 {
        snapshot(&namespace, &format!("unneeded-{n}"));
    }
    let proxy = Proxy::new(&namespace, |_, passing| match passing.method.as_str() {
        "DELETE" => Act::After(Duration::from_millis(300)),
        _ => hours_later(passing),
    });
    let (one, two) = thread::scope(|scope| {
        let run = || proxy.run(&namespace, &["snapshot", "prune", "-y", "-o", "json"]).expect(0).document();
        let (one, two) = (scope.spawn(run), scope.spawn(run));
        (one.join().expect("a run"), two.join().expect("a run"))
    });
    assert!(ours(&namespace).is_empty());
    let count = |document: &Value| document["deleted"].as_array().map_or(0, Vec::len);
    assert_eq!(count(&one) + count(&two), 5, "{one:#}{two:#}");
}

/// Without this a snapshot that an undo is about to use could go between its plan and its patch.
#[test]
fn a_prune_during_an_undo_takes_nothing_that_it_needs() {
    let namespace = ControlPlane::main().namespace("prune-undo");
    let _player = incident::start(&namespace, incident::AGED);
    incident::trap(&namespace);
    namespace.run(&["snapshot", "create", "web", "--revision", "1"]).expect(0);
    // Without its record nothing but the undo needs the snapshot.
    for name in ours(&namespace).into_iter().filter(|name| name.starts_with("web-sr-")) {
        namespace.at(CONFIGMAPS, &name).delete(&json!({})).ok();
    }
    let saved = ours(&namespace);
    assert_eq!(saved.len(), 1);
    // The prune has decided; before it deletes, an undo relies on the snapshot.
    let other = namespace.clone();
    let mut undone = false;
    let proxy = Proxy::new(&namespace, move |_, passing| {
        if passing.method == "DELETE" && !undone {
            undone = true;
            other.run(&["undo", "web", "--to-revision", "1", "-y"]).expect(0);
        }
        hours_later(passing)
    });
    let ran = proxy.run(&namespace, &["snapshot", "prune", "-y"]).expect(0);
    assert!(proxy.log().iter().any(|p| p.method == "DELETE"), "the prune meant to delete it: {ran:?}");
    assert!(ours(&namespace).is_superset(&saved), "{ran:?}");
    assert!(ran.stdout.contains("used meanwhile"), "{ran:?}");
    // And the other way round: it is gone when the undo comes to it.
    let other = namespace.clone();
    incident::release(&namespace, "three");
    let gone = saved.first().expect("one").clone();
    let mut pruned = false;
    let proxy = Proxy::new(&namespace, move |_, passing| {
        if passing.method == "PATCH" && passing.target.contains("/configmaps/") && !pruned {
            pruned = true;
            other.at(CONFIGMAPS, &gone).delete(&json!({})).ok();
        }
        Act::Pass
    });
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), incident::settings("v1", "true").to_string()).expect("written");
    let given = format!("settings={}", file.path().display());
    let ran = proxy.run(&namespace, &["undo", "web", "--to-revision", "2", "-y", "--use", &given]).expect(0);
    assert!(ours(&namespace).is_superset(&saved), "made again: {ran:?}");
}
