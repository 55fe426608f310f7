//! The versions of a ConfigMap on a real API server, and one of them put back in place.

use crate::control_plane::undo::writes;
use crate::faults::interrupt;
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, PODS, Resource};
use crate::support::control_plane::{ControlPlane, Namespace, version};
use crate::support::incident::{self, AGED};
use crate::support::product::Ran;
use crate::support::proxy::{Act, Passing, Proxy};
use crate::support::rights;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CRONJOBS: Resource = Resource::new("/apis/batch/v1", "cronjobs");
/// A value of a ConfigMap.
const MARKER: &str = "marker-51c0d";

fn settings(namespace: &Namespace) -> Value {
    namespace.at(CONFIGMAPS, "settings").get().ok()
}

/// Created as v1, labelled, and edited to v2 and v3, each a second apart: managedFields knows no less.
fn three_versions(namespace: &Namespace) {
    namespace.all(CONFIGMAPS).query("fieldManager", "kubectl-create").create(&incident::settings("v1", "true")).ok();
    let label = json!({"metadata": {"labels": {"team": "shop"}}});
    namespace.at(CONFIGMAPS, "settings").query("fieldManager", "kubectl-label").merge_patch(&label).ok();
    for revision in ["v2", "v3"] {
        std::thread::sleep(Duration::from_millis(1100));
        incident::edit(namespace, &json!({"CONFIG_REVISION": revision}));
    }
}

fn history(namespace: &Namespace, code: i32) -> Value {
    namespace.run(&["history", "configmap/settings", "-o", "json"]).expect(code).document()
}

/// `SOURCE WRITER dated`, a line a version.
fn lines(document: &Value) -> Vec<String> {
    let dated = |v: &Value| if v.is_null() { "-" } else { "+" };
    let line = |v: &Value| {
        let writer = v["writer"].as_str().unwrap_or("?");
        format!("{} {writer} {}{}", v["source"].as_str().unwrap_or(""), dated(&v["from"]), dated(&v["until"]))
    };
    document["versions"].as_array().into_iter().flatten().map(line).collect()
}

fn looked(document: &Value) -> String {
    document["lookedIn"].to_string()
}

/// Without this the versions could not be seen while they are still there, or a deleted ConfigMap would seem never to have
/// been (C53).
#[test]
fn c53_versions_are_listed_across_edits_deletion_and_creation() {
    let namespace = ControlPlane::main().namespace("versions");
    three_versions(&namespace);
    let edited = history(&namespace, 0);
    let expected = ["time-travel kubectl-create ++", "time-travel kubectl-edit ++", "live kubectl-edit +-"];
    assert_eq!(lines(&edited), expected, "{edited:#}");
    assert!(looked(&edited).contains("was not there before"), "{edited:#}");

    namespace.at(CONFIGMAPS, "settings").delete(&json!({})).ok();
    let gone = history(&namespace, 0);
    let expected = ["time-travel kubectl-create ++", "time-travel kubectl-edit ++", "time-travel kubectl-edit +-"];
    assert_eq!(lines(&gone), expected, "{gone:#}");
    assert_eq!((&gone["configMap"]["exists"], &gone["versions"][2]["held"]), (&json!(false), &json!(false)));
    let said = namespace.run(&["history", "cm/settings"]).expect(0).stderr;
    assert!(said.contains("does not exist now"), "{said}");

    namespace.all(CONFIGMAPS).create(&incident::settings("v4", "true")).ok();
    let again = history(&namespace, 0);
    let uids: Vec<&str> =
        again["versions"].as_array().into_iter().flatten().filter_map(|v| v["uid"].as_str()).collect();
    assert_eq!(uids.len(), 4, "{again:#}");
    assert!(uids[0] == uids[2] && uids[2] != uids[3], "{again:#}");
    // What another object of this name held is not what the last write replaced.
    namespace.run(&["restore", "cm/settings", "-y"]).expect(2);
    assert_eq!(writes(&namespace), [""; 0]);
}

/// Without this a removed key would give its version the date and the writer of the one before.
#[test]
fn a_version_that_only_lost_a_key_has_no_date() {
    let namespace = ControlPlane::main().namespace("lost-key");
    three_versions(&namespace);
    std::thread::sleep(Duration::from_millis(1100));
    incident::edit(&namespace, &json!({"HEALTHY": null}));
    let document = history(&namespace, 0);
    assert_eq!(lines(&document)[2..], ["time-travel kubectl-edit +-", "live ? --"], "{document:#}");
}

/// Without this "expired" would look like "never was", or a version would be made up.
#[test]
fn what_is_compacted_is_said_to_be_expired() {
    let plane = ControlPlane::compact();
    let namespace = plane.namespace("compacted");
    three_versions(&namespace);
    plane.compact_history();
    // The version that the compaction leaves is today's.
    let document = history(&namespace, 0);
    assert_eq!(lines(&document), ["live kubectl-edit +-"], "{document:#}");
    assert!(looked(&document).contains("expired"), "{document:#}");
    let ran = namespace.run(&["restore", "configmap/settings", "-y"]).expect(2);
    assert!(ran.stderr.contains("not known for certain"), "{}", ran.stderr);
    namespace.at(CONFIGMAPS, "settings").delete(&json!({})).ok();
    plane.compact_history();
    let none = history(&namespace, 3);
    assert_eq!(none["versions"], json!([]), "{none:#}");
    let ran = namespace.run(&["history", "configmap/settings"]).expect(3);
    assert!(ran.stderr.contains("not found") && ran.stderr.contains("expired"), "{}", ran.stderr);
    assert_eq!(writes(&namespace), [""; 0]);
}

fn report() -> Value {
    let mut job = incident::web(1)["spec"]["template"].clone();
    job["spec"]["restartPolicy"] = json!("Never");
    json!({
        "metadata": {"name": "report"},
        "spec": {"schedule": "0 3 1 1 *", "jobTemplate": {"spec": {"template": job}}},
    })
}

/// Name and uid of each Pod.
fn pods(namespace: &Namespace) -> Vec<String> {
    let mut all: Vec<String> = namespace.items(PODS).iter().map(|p| p["metadata"]["uid"].to_string()).collect();
    all.sort();
    all
}

/// Without this a restore would write something else than the content, restart what it was not asked to, or surprise
/// another team: that is why undo does not do it (kubernetes/community#1163) (C36).
#[test]
fn c36_a_restore_writes_the_content_alone_and_says_whom_it_concerns() {
    let namespace = ControlPlane::main().namespace("restore");
    let _player = incident::start(&namespace, Duration::ZERO);
    namespace.all(DEPLOYMENTS).create(&incident::worker()).ok();
    namespace.all(CRONJOBS).create(&report()).ok();
    incident::rolled_out(&namespace, "worker");
    let labels = json!({"app.kubernetes.io/managed-by": "Helm", "team": "shop"});
    let theirs = json!({"metadata": {"labels": labels, "annotations": {"meta.helm.sh/release-name": "shop"}}});
    namespace.at(CONFIGMAPS, "settings").merge_patch(&theirs).ok();
    incident::edit(&namespace, &json!({"CONFIG_REVISION": "v2", "HEALTHY": null, "NEW": "1"}));
    let (before, running) = (settings(&namespace), pods(&namespace));
    let generation = || namespace.at(DEPLOYMENTS, "web").get().ok()["metadata"]["generation"].clone();
    let generation_before = generation();

    let planned = namespace.run(&["restore", "cm/settings", "--dry-run=server", "-o", "json"]).expect(0).document();
    assert_eq!((&planned["outcome"], &planned["written"]), (&json!("planned"), &json!([])));
    let changes: Vec<String> =
        planned["changes"].as_array().into_iter().flatten().map(|c| format!("{} {}", c["key"], c["change"])).collect();
    assert_eq!(changes, ["\"CONFIG_REVISION\" \"changed\"", "\"HEALTHY\" \"added\"", "\"NEW\" \"removed\""]);
    let readers: Vec<String> = planned["readers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|r| format!("{} {}", r["reader"], r["fixed"]))
        .collect();
    assert_eq!(readers, ["\"cronjob/report\" 0", "\"deployment/web\" 2", "\"deployment/worker\" 1"], "{planned:#}");
    assert!(planned["managed"].to_string().contains("Helm Release shop"), "{planned:#}");
    assert_eq!(writes(&namespace), [""; 0], "a dry run writes nothing");

    let ran = namespace.run(&["restore", "configmap/settings", "-y"]).expect(0);
    for needed in [
        "deployment/worker",
        "cronjob/report",
        "No Pod was restarted.",
        "3 Pods read it only when restarted:",
        &format!("kubectl rollout restart deployment/web -n {}", namespace.name),
        "may bring the edit back",
    ] {
        assert!(ran.stdout.contains(needed), "{needed:?} is not said in:\n{}", ran.stdout);
    }
    assert_eq!(writes(&namespace), ["patch configmaps"], "and nothing else");
    let after = settings(&namespace);
    assert_eq!(after["data"], incident::settings("v1", "true")["data"]);
    for member in ["uid", "labels", "annotations"] {
        assert_eq!(after["metadata"][member], before["metadata"][member], "{member}");
    }
    let owners = after["metadata"]["managedFields"].to_string();
    assert!(owners.contains("\"manager\":\"saferollback\""), "{owners}");
    assert_eq!((pods(&namespace), generation()), (running, generation_before), "nothing is restarted");

    let again = history(&namespace, 0);
    let today = again["versions"].as_array().and_then(|v| v.last()).expect("today's").clone();
    let digest = today["digest"].as_str().expect("a digest").to_string();
    let ran = namespace.run(&["restore", "cm/settings", "-y", "--from", &digest, "-o", "json"]).expect(0).document();
    assert_eq!(ran["outcome"], "nothing-to-do");
    assert_eq!(version(&settings(&namespace)), version(&after), "nothing to do writes nothing");
    // By the number at which it was there, and back.
    let number = version(&before).to_string();
    let back = namespace.run(&["restore", "cm/settings", "-y", "--from", &number, "-o", "json"]).expect(0).document();
    assert_eq!((&back["outcome"], &back["written"][0]["object"]), (&json!("done"), &json!("ConfigMap/settings")));
    assert_eq!(settings(&namespace)["data"], before["data"]);
}

/// Runs a restore; `act` decides about its patch.
fn restored(namespace: &Namespace, act: impl FnOnce(&Namespace) -> Act + Send + 'static) -> Ran {
    let other = Namespace { plane: namespace.plane.reconnect(), name: namespace.name.clone() };
    let mut act = Some(act);
    let is_the_patch = |p: &Passing| p.method == "PATCH" && p.writes();
    let proxy = Proxy::new(namespace, move |_, passing| match act.take_if(|_| is_the_patch(passing)) {
        Some(act) => act(&other),
        None => Act::Pass,
    });
    let ran = proxy.run(namespace, &["restore", "cm/settings", "-y", "-o", "json"]);
    assert_eq!(proxy.log().iter().filter(|p| is_the_patch(p)).count(), 1, "a write is sent once: {ran:?}");
    ran
}

/// Without this an edit that came between plan and write would be lost without a word.
#[test]
fn c22_what_was_written_since_the_plan_is_never_overwritten() {
    let namespace = ControlPlane::main().namespace("meddled");
    three_versions(&namespace);
    let edits = [
        json!({"data": {"CONFIG_REVISION": "hotfix"}}),
        json!({"data": {"NEW": "1"}}),
        json!({"metadata": {"labels": {"theirs": "new"}}}),
    ];
    for edit in edits {
        let seen = Arc::new(Mutex::new(Value::Null));
        let kept = Arc::clone(&seen);
        let ran = restored(&namespace, move |namespace| {
            *kept.lock().expect("one thread") = namespace.at(CONFIGMAPS, "settings").merge_patch(&edit).ok();
            Act::Pass
        });
        assert_eq!(ran.code, 5, "{ran:?}");
        assert!(ran.stderr.contains("since the plan"), "{}", ran.stderr);
        let document = ran.document();
        assert_eq!((&document["outcome"], &document["written"]), (&json!("conflict"), &json!([])));
        assert_eq!(settings(&namespace), *seen.lock().expect("one thread"), "the other's write stands whole");
    }
    // Gone and created again: another object.
    let ran = restored(&namespace, |namespace| {
        namespace.at(CONFIGMAPS, "settings").delete(&json!({})).ok();
        namespace.all(CONFIGMAPS).create(&incident::settings("other", "true")).ok();
        Act::Pass
    });
    assert_eq!(ran.code, 5, "{ran:?}");
    assert_eq!(settings(&namespace)["data"]["CONFIG_REVISION"], "other");
}

/// Without this a lost answer would be called a failure although it was done, or success although it was not.
#[test]
fn a_lost_answer_is_looked_after() {
    let namespace = ControlPlane::main().namespace("lost");
    three_versions(&namespace);
    let ran = restored(&namespace, |_| Act::CutBefore);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(settings(&namespace)["data"]["CONFIG_REVISION"], "v3");
    let ran = restored(&namespace, |_| Act::CutAfter);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.document()["outcome"], "done");
    assert_eq!(settings(&namespace)["data"]["CONFIG_REVISION"], "v2");
}

/// Without this a connection that dies at a certain request could leave half a content, or a success that is none.
#[test]
fn a_cut_at_any_request_loses_nothing() {
    let namespace = ControlPlane::main().namespace("cuts");
    three_versions(&namespace);
    let file = tempfile::Builder::new().suffix(".json").tempfile().expect("a file");
    std::fs::write(file.path(), incident::settings("good", "true").to_string()).expect("written");
    let path = file.path().display().to_string();
    let arguments = ["restore", "cm/settings", "-y", "--from", &path];
    let now = || settings(&namespace)["data"]["CONFIG_REVISION"].as_str().expect("a value").to_string();
    for (cut, word) in [(false, "before"), (true, "after")] {
        let mut at = 0;
        loop {
            incident::edit(&namespace, &json!({"CONFIG_REVISION": "bad"}));
            let proxy = Proxy::new(&namespace, move |number, _| match (number == at, cut) {
                (true, false) => Act::CutBefore,
                (true, true) => Act::CutAfter,
                (false, _) => Act::Pass,
            });
            let ran = proxy.run(&namespace, &arguments);
            let what = format!("cut {word} request {at}: {ran:?}");
            let (log, after) = (proxy.log(), now());
            let Some(hit) = log.get(at) else { break };
            assert!([0, 1].contains(&ran.code) && ["bad", "good"].contains(&after.as_str()), "{what}");
            assert!(ran.code == 1 || after == "good", "{what} was called a success");
            assert!(ran.code == 0 || after == "bad" || hit.writes(), "{what}");
            namespace.run(&arguments).expect(0);
            assert_eq!(now(), "good", "{what}");
            at += 1;
        }
        assert!(at > 8, "only {at} requests were tried");
    }
}

/// Without this a person who pressed Ctrl-C would not know whether anything was written.
#[test]
fn c35_an_interruption_says_how_far_it_came() {
    let namespace = ControlPlane::main().namespace("signals");
    three_versions(&namespace);
    let arguments = ["restore", "cm/settings", "-y"];
    let dry = |p: &Passing| p.method == "PATCH" && p.dry_run();
    let (code, said) = interrupt(&namespace, &arguments, dry, false, libc::SIGINT);
    assert!(code == 130 && said.contains("nothing was written"), "{code} {said}");
    let (code, said) = interrupt(&namespace, &arguments, Passing::writes, false, libc::SIGTERM);
    assert!(code == 143 && said.contains("may or may not"), "{code} {said}");
    assert_eq!(settings(&namespace)["data"]["CONFIG_REVISION"], "v3");
}

/// Without this a restore would try what cannot be, or make an object under a name that kubelets may still serve from
/// memory (kubernetes/kubernetes#119733) (C70).
#[test]
fn c68_c70_immutable_and_deleted_config_maps_are_refused_without_a_write() {
    let namespace = ControlPlane::main().namespace("barred");
    three_versions(&namespace);
    namespace.all(DEPLOYMENTS).create(&incident::web(1)).ok();
    namespace.at(CONFIGMAPS, "settings").merge_patch(&json!({"immutable": true})).ok();
    let refused = |code: &str, way: &str| {
        let ran = namespace.run(&["restore", "cm/settings", "-y"]).expect(3);
        assert!(ran.stderr.contains("refused, nothing was written") && ran.stderr.contains(way), "{}", ran.stderr);
        let document = namespace.run(&["restore", "cm/settings", "-y", "-o", "json"]).expect(3).document();
        assert_eq!((&document["outcome"], &document["refusals"][0]["code"]), (&json!("refused"), &json!(code)));
        assert_eq!(writes(&namespace), [""; 0], "refused means nothing was written");
    };
    refused("immutable", "undo deployment/web --to-revision N --use settings=FILE");
    namespace.at(CONFIGMAPS, "settings").merge_patch(&json!({"metadata": {"finalizers": ["test.example/wait"]}})).ok();
    namespace.at(CONFIGMAPS, "settings").delete(&json!({})).ok();
    refused("terminating", "being deleted");
    namespace.at(CONFIGMAPS, "settings").merge_patch(&json!({"metadata": {"finalizers": null}})).ok();
    refused("absent", "undo deployment/web");
    let said = namespace.run(&["restore", "cm/settings", "-y"]).expect(3).stderr;
    assert!(!said.contains("kubectl create"), "it was immutable: {said}");
    assert_eq!(namespace.at(CONFIGMAPS, "settings").get().status, 404);
}

/// Without this a reader would stop to start, and nobody would be told before.
#[test]
fn a_version_that_lacks_a_needed_key_is_warned_of() {
    let namespace = ControlPlane::main().namespace("needed");
    three_versions(&namespace);
    let mut web = incident::web(1);
    let from = json!({"configMapKeyRef": {"name": "settings", "key": "NEW"}});
    web["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "NEW", "valueFrom": from}]);
    namespace.all(DEPLOYMENTS).create(&web).ok();
    incident::edit(&namespace, &json!({"NEW": "1"}));
    let planned = namespace.run(&["restore", "cm/settings", "--dry-run=client"]).expect(0).stdout;
    assert!(planned.contains("NEW is not in this version. The next Pod of deployment/web would not"), "{planned}");
}

/// Without this a value would stand in a log because a server's refusal or a plan quotes it (C106).
#[test]
fn c106_no_value_is_in_any_output() {
    let namespace = ControlPlane::main().namespace("marker");
    let body = json!({"metadata": {"name": "settings"}, "data": {"TOKEN": format!("{MARKER}-1")}});
    namespace.all(CONFIGMAPS).create(&body).ok();
    namespace.all(DEPLOYMENTS).create(&incident::web(1)).ok();
    crate::control_plane::undo::numbered(&namespace);
    incident::edit(&namespace, &json!({"TOKEN": format!("{MARKER}-2")}));
    // The API server refuses such a key, and says so.
    let file = tempfile::Builder::new().suffix(".json").tempfile().expect("a file");
    let bad = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
        "data": {"no key": format!("{MARKER}-3"), "TOKEN": format!("{MARKER}-4")},
    });
    std::fs::write(file.path(), bad.to_string()).expect("written");
    let bad = file.path().display().to_string();
    let runs: [(&[&str], i32); 8] = [
        (&["history", "cm/settings"], 0),
        (&["history", "cm/settings", "-o", "json"], 0),
        (&["diff", "web", "-o", "json"], 3),
        (&["diff", "web", "--from", "1"], 3),
        (&["restore", "cm/settings", "--dry-run=server"], 0),
        (&["restore", "cm/settings", "-y", "--from", &bad], 3),
        (&["restore", "cm/settings", "-y", "--from", &bad, "-o", "json"], 3),
        (&["restore", "cm/settings", "-y", "-o", "yaml"], 0),
    ];
    for (arguments, code) in runs {
        let ran = namespace.run(arguments).expect(code);
        assert!(!ran.whole().contains(MARKER), "{arguments:?}: {}", ran.whole());
    }
    let shown = namespace.run(&["restore", "cm/settings", "--dry-run=client", "--show-content"]).expect(0).stdout;
    assert!(shown.contains(MARKER), "asked for: {shown}");
}

/// Without this few rights would end in an error, or in a list of readers that looks complete.
#[test]
fn readers_that_may_not_be_listed_are_said() {
    let namespace = ControlPlane::main().namespace("few");
    three_versions(&namespace);
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "patch"]}]);
    let file = rights::here(&namespace, &rules);
    let with = |arguments: &[&str]| -> Ran {
        let mut command = namespace.product(arguments);
        command.env("KUBECONFIG", file.path()).output().expect("the binary runs").into()
    };
    let ran = with(&["history", "cm/settings"]).expect(0);
    assert_eq!(ran.stderr.matches("Warning: readers are not complete").count(), 6, "{}", ran.stderr);
    with(&["restore", "cm/settings", "-y"]).expect(0);
    assert_eq!(settings(&namespace)["data"]["CONFIG_REVISION"], "v2");
}

/// Without this nobody would see, before a rollback, that the same template means another configuration.
#[test]
fn a_diff_tells_what_was_read_from_what_is_there() {
    let namespace = ControlPlane::main().namespace("diff");
    let _player = incident::start(&namespace, AGED);
    let calm = namespace.run(&["diff", "web", "-o", "json"]).expect(0).document();
    assert_eq!((&calm["contents"][0]["answer"], &calm["contents"][0]["grade"]), (&json!("same"), &json!("proof")));
    incident::trap(&namespace);
    let trap = namespace.run(&["diff", "web", "--from", "1", "--to", "2", "-o", "json"]).expect(1).document();
    assert_eq!(trap["template"][0]["pointer"], "/metadata/annotations/release");
    let read = &trap["contents"][0];
    assert_eq!(read["answer"], "different", "{trap:#}");
    let keys: Vec<&str> = read["changes"].as_array().into_iter().flatten().filter_map(|c| c["key"].as_str()).collect();
    assert_eq!(keys, ["CONFIG_REVISION", "HEALTHY"], "{trap:#}");
    let shown = namespace.run(&["diff", "web", "--from", "1", "--show-content"]).expect(1).stdout;
    assert!(shown.contains("~ HEALTHY: \"true\" -> \"false\""), "{shown}");
    assert_eq!(writes(&namespace), [""; 0]);

    // After the undo a snapshot stands in the place of its source. The Pods that told what revision 1 read are gone.
    namespace.run(&["undo", "web", "--to-revision", "1", "-y"]).expect(0);
    let undone = namespace.run(&["diff", "web", "--from", "1", "--to", "3", "-o", "json"]).expect(1).document();
    let content = &undone["contents"][0];
    assert_eq!(content["reference"], "ConfigMap/settings");
    assert!(content["replaced"].as_str().is_some_and(|r| r.starts_with("ConfigMap/settings-sr-")), "{undone:#}");
    assert_eq!(content["answer"], "unknown", "{undone:#}");
    assert!(content["because"].as_str().is_some_and(|b| b.contains("today's content stands for it")), "{undone:#}");
}
