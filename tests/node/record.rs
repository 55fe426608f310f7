//! Records the incident as API answers, for `--from-file`. `tests/incident/record` calls it for the files in the
//! repository; every other run records into a scratch directory, so that the recorder cannot rot.

use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, EVENTS, NAMESPACES, PODS, REPLICASETS, Resource};
use crate::support::control_plane::{Namespace, version};
use crate::support::incident::{self, AGED};
use crate::support::node::{self, Node};
use crate::support::product;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, thread};

/// The lists as the product itself reads them, in that order: the order is what allows the domain check on the dump.
fn record(namespace: &Namespace, into: &Path) {
    let list = |resource: Resource, query: &[(&str, &str)]| {
        query.iter().fold(namespace.all(resource), |call, (key, value)| call.query(key, value)).get().ok()
    };
    let settings = ("fieldSelector", "metadata.name=settings");
    let write = |name: &str, value: &Value| {
        let text = serde_json::to_string_pretty(value).expect("JSON");
        fs::write(into.join(name), format!("{text}\n")).expect("the recording can be written");
    };
    write("1-configmaps.json", &list(CONFIGMAPS, &[settings]));
    write("2-deployments.json", &list(DEPLOYMENTS, &[]));
    write("3-replicasets.json", &list(REPLICASETS, &[]));
    write("4-pods.json", &list(PODS, &[]));
    write("5-events.json", &list(EVENTS, &[("fieldSelector", "involvedObject.kind=Pod")]));
    let now = list(CONFIGMAPS, &[settings]);
    write("6-configmaps.json", &now);
    let before = (version(&now["items"][0]) - 1).to_string();
    let exact = [settings, ("resourceVersion", &*before), ("resourceVersionMatch", "Exact")];
    write("7-configmaps-before-the-edit.json", &list(CONFIGMAPS, &exact));
}

/// Without this the first command of the README could show what no cluster ever answered.
#[test]
fn the_recorded_incident_is_what_a_real_cluster_answers() {
    let asked: Option<PathBuf> = std::env::var_os("SAFEROLLBACK_RECORD").map(PathBuf::from);
    let plane = Node::open();
    let namespace = match asked {
        Some(_) => {
            let name = "shop".to_string();
            plane.call(NAMESPACES, None, None).create(&json!({"metadata": {"name": name}})).ok();
            Namespace { plane, name }
        }
        None => plane.namespace("record"),
    };
    let pause = |seconds| thread::sleep(Duration::from_secs(if asked.is_some() { seconds } else { 0 }));
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let into = asked.clone().unwrap_or_else(|| scratch.path().to_path_buf());

    let created = namespace.all(CONFIGMAPS).query("fieldManager", "kubectl-client-side-apply");
    created.create(&incident::settings("v1", "true")).ok();
    thread::sleep(AGED);
    node::deploy(&namespace, &node::web(2));
    node::deploy(&namespace, &node::real(incident::worker()));
    for pod in node::pods(&namespace, "web") {
        node::events_of_start(&namespace, &pod);
    }
    pause(180);
    incident::edit(&namespace, &json!({"CONFIG_REVISION": "v2", "HEALTHY": "false"}));
    pause(90);
    incident::trap(&namespace);
    pause(120);
    // Something else goes on: a dump's own clock is its newest time.
    namespace.at(DEPLOYMENTS, "worker").merge_patch(&json!({"metadata": {"annotations": {"team": "orders"}}})).ok();
    record(&namespace, &into);

    let files = into.display().to_string();
    let check = product::run(&["check", "web", "--to-revision", "1", "-o", "json", "--from-file", &files]);
    let check = check.expect(3).document();
    assert_eq!(check["revisions"][0]["references"][0]["verdict"], "changed", "{check:#}");
    let undo = product::run(&["undo", "web", "--to-revision", "1", "-o", "json", "--from-file", &files]);
    let undo = undo.expect(0).document();
    assert_eq!(undo["actions"][0]["grade"], "proof", "{undo:#}");
    assert_eq!(undo["written"], json!([]));

    // The objects to apply are accepted by a server that knows nothing of the plan.
    let objects = product::run(&["undo", "web", "--to-revision", "1", "-o", "yaml", "--from-file", &files]).expect(0);
    let manifest = scratch.path().join("objects.yaml");
    fs::write(&manifest, objects.stdout).expect("the objects can be written");
    let applied = namespace.kubectl(&["apply", "--dry-run=server", "-f", &manifest.display().to_string()]);
    assert!(applied.status.success(), "{applied:?}");
}
