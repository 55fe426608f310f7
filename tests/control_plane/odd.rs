//! Large and odd: what is in no tutorial, and in every cluster that is old enough.

use super::numbers::says;
use super::undo::{numbered, writes};
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, NAMESPACES, REPLICASETS, Resource};
use crate::support::control_plane::{ControlPlane, Namespace, version, wait};
use crate::support::incident;
use crate::support::kubelet::{Health, Play};
use crate::support::player::Player;
use crate::support::product::Ran;
use crate::support::proxy::{Act, Passing, Proxy};
use serde_json::{Value, json};
use std::fs;

const QUOTAS: Resource = Resource::new("/api/v1", "resourcequotas");
const POLICIES: Resource = Resource::new("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicies");
const BINDINGS: Resource = Resource::new("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings");

/// Two revisions of a Deployment without Pods; `spec` is the first one's Pod spec.
fn unstarted(namespace: &Namespace, spec: &Value) {
    let mut body = incident::web(0);
    body["spec"]["template"]["spec"] = spec.clone();
    namespace.all(DEPLOYMENTS).create(&body).ok();
    numbered(namespace);
    incident::release(namespace, "two");
    numbered(namespace);
}

fn config_map(namespace: &Namespace, name: &str, data: &Value) -> Value {
    namespace.all(CONFIGMAPS).create(&json!({"metadata": {"name": name}, "data": data})).ok()
}

fn container(more: &Value) -> Value {
    let mut container = json!({"name": "app", "image": "registry.example/web:1.4"});
    container.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    container
}

/// A container that takes its environment from these ConfigMaps.
fn reading(names: &[&str]) -> Value {
    let sources: Vec<Value> = names.iter().map(|name| json!({"configMapRef": {"name": name}})).collect();
    json!({"containers": [container(&json!({"envFrom": sources}))]})
}

fn web(namespace: &Namespace) -> Value {
    namespace.at(DEPLOYMENTS, "web").get().ok()
}

fn bound(namespace: &Namespace, at: usize) -> String {
    let name = &web(namespace)["spec"]["template"]["spec"]["containers"][0]["envFrom"][at]["configMapRef"]["name"];
    name.as_str().expect("a name").to_string()
}

/// A file to hand over with `--use`.
fn file(name: &str, data: &Value) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    fs::write(file.path(), body.to_string()).expect("written");
    file
}

fn using(name: &str, file: &tempfile::NamedTempFile) -> String {
    format!("--use={name}={}", file.path().display())
}

/// `undo web --to-revision 1 -y` with these too.
fn undo(namespace: &Namespace, more: &[&str]) -> Ran {
    namespace.run(&[&["undo", "web", "--to-revision", "1", "-y", "--timeout=60s"], more].concat())
}

/// Refused: exit code 3, no mutating request, the workload and the number of ConfigMaps as they were.
#[track_caller]
fn refused(namespace: &Namespace, more: &[&str], words: &[&str]) -> Ran {
    let before = (web(namespace)["spec"].clone(), namespace.items(CONFIGMAPS).len(), writes(namespace).len());
    let ran = undo(namespace, more).expect(3);
    says(&ran, words);
    says(&ran, &["nothing was written"]);
    let after = (web(namespace)["spec"].clone(), namespace.items(CONFIGMAPS).len(), writes(namespace).len());
    assert_eq!(after, before, "{ran:?}");
    ran
}

// ---------------------------------------------------------------- templates

/// Without this a volume would have two sources after a rollback, as after a merge, and no Pod could be made (C18).
#[test]
fn a_volume_of_another_type_has_one_source_again() {
    let others = [
        json!({"secret": {"secretName": "cfg-b", "optional": true}}),
        json!({"projected": {"sources": [{"configMap": {"name": "cfg-b", "optional": true}}]}}),
        json!({"hostPath": {"path": "/etc"}}),
    ];
    for other in others {
        let namespace = ControlPlane::main().namespace("volume");
        config_map(&namespace, "cfg-a", &json!({"A": "1"}));
        let mut spec = json!({"containers": [container(&json!({"volumeMounts": [{"name": "cfg", "mountPath": "/cfg"}]}))],
            "volumes": [{"name": "cfg", "configMap": {"name": "cfg-a"}}]});
        unstarted(&namespace, &spec);
        spec["volumes"][0] = json!({"name": "cfg"});
        spec["volumes"][0].as_object_mut().expect("a volume").extend(other.as_object().expect("a source").clone());
        let replace = json!([{"op": "replace", "path": "/spec/template/spec", "value": spec},
            {"op": "replace", "path": "/spec/template/metadata/annotations/release", "value": "three"}]);
        namespace.at(DEPLOYMENTS, "web").json_patch(&replace).ok();
        numbered(&namespace);
        let proxy = Proxy::new(&namespace, |_, _| Act::Pass);
        proxy.run(&namespace, &["undo", "web", "--to-revision", "1", "--config=live", "-y"]).expect(0);
        let patches: Vec<Value> = proxy
            .log()
            .iter()
            .filter(|p| p.is_the_patch())
            .map(|p| serde_json::from_slice(&p.body).expect("JSON"))
            .collect();
        assert!(matches!(patches.as_slice(), [Value::Array(_)]), "one JSON patch, no merge: {patches:#?}");
        let volume = &web(&namespace)["spec"]["template"]["spec"]["volumes"][0];
        assert_eq!(volume.as_object().expect("a volume").len(), 2, "{volume:#}");
        assert_eq!(volume["configMap"]["name"], "cfg-a");
        let mut first = super::replica_set(&namespace, "one")["spec"]["template"].clone();
        first["metadata"]["labels"].as_object_mut().expect("labels").shift_remove("pod-template-hash");
        assert_eq!(web(&namespace)["spec"]["template"], first);
    }
}

/// Without this a variable that is set twice would be lost or moved by a rollback, and what `$(A)` means with it (C20).
#[test]
fn doubled_variables_keep_their_number_and_order() {
    let namespace = ControlPlane::main().namespace("doubled");
    config_map(&namespace, "settings", &json!({"C": "today"}));
    let env = json!([
        {"name": "A", "value": "1"}, {"name": "B", "value": "$(A)/x"}, {"name": "A", "value": "2"},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "C"}}},
    ]);
    unstarted(&namespace, &json!({"containers": [container(&json!({"env": env}))]}));
    let moved = json!([{"name": "B", "value": "$(A)/x"}, {"name": "A", "value": "1"}]);
    let replace = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/env", "value": moved},
        {"op": "replace", "path": "/spec/template/metadata/annotations/release", "value": "three"}]);
    namespace.at(DEPLOYMENTS, "web").json_patch(&replace).ok();
    numbered(&namespace);
    let old = file("settings", &json!({"C": "then"}));
    let done = undo(&namespace, &[&using("settings", &old)]).expect(0);
    let live = web(&namespace)["spec"]["template"]["spec"]["containers"][0]["env"].clone();
    let mut expected = env.clone();
    let name = &live[3]["valueFrom"]["configMapKeyRef"]["name"];
    assert!(name.as_str().is_some_and(|name| name.starts_with("settings-sr-")), "{live:#}");
    expected[3]["valueFrom"]["configMapKeyRef"]["name"] = name.clone();
    assert_eq!(live.to_string(), expected.to_string(), "as text: order, number and spelling");
    says(&done, &["Warning: ", "hides previous definition of \"A\""]);
}

/// Without this the next `kubectl apply` would keep a container that came back with the rollback, and nobody would know
/// why (C23).
#[test]
fn what_the_next_apply_would_leave_is_said() {
    let namespace = ControlPlane::main().namespace("apply");
    let manifest = |second: &str, variable: &str| {
        let folder = tempfile::Builder::new().suffix(".json").tempfile().expect("a file");
        let mut body = incident::web(0);
        body["spec"]["template"]["metadata"]["annotations"]["release"] = json!(second);
        body["spec"]["template"]["spec"] = json!({"containers": [
            container(&json!({"env": [{"name": variable, "value": "1"}]})),
            {"name": second, "image": "registry.example/side:1"},
        ]});
        fs::write(folder.path(), body.to_string()).expect("written");
        folder
    };
    let apply = |file: &tempfile::NamedTempFile| {
        let done = namespace.kubectl(&["apply", "-f", file.path().to_str().expect("a path")]);
        assert!(done.status.success(), "{done:?}");
        numbered(&namespace);
    };
    let (first, second) = (manifest("side-b", "OLD"), manifest("side-c", "NEW"));
    apply(&first);
    apply(&second);
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let before = web(&namespace)["metadata"]["annotations"][annotation].clone();
    let done = undo(&namespace, &[]).expect(0);
    says(&done, &["the next one would leave it there: variable OLD of container app, container side-b"]);
    assert_eq!(web(&namespace)["metadata"]["annotations"][annotation], before, "the annotation is not ours to write");
    numbered(&namespace);
    apply(&second);
    let containers = web(&namespace)["spec"]["template"]["spec"]["containers"].to_string();
    for left in ["side-b", "side-c", "OLD", "NEW"] {
        assert!(containers.contains(left), "the warning is true: {containers}");
    }
}

// ---------------------------------------------------------------- ConfigMaps

/// Without this a rollback to configuration that its generator has already pruned would leave Pods that cannot start
/// (C37).
#[test]
fn pruned_configuration_is_refused_whatever_reads_it() {
    let plane = ControlPlane::compact();
    let mounted = |volume: Value| {
        json!({"containers": [container(&json!({"volumeMounts": [{"name": "cfg", "mountPath": "/cfg"}]}))],
            "volumes": [volume]})
    };
    let forms = [
        reading(&["cfg-aaa"]),
        reading(&["kept-one", "cfg-aaa", "kept-two"]),
        mounted(json!({"name": "cfg", "configMap": {"name": "cfg-aaa"}})),
        mounted(json!({"name": "cfg", "projected": {"sources": [{"configMap": {"name": "cfg-aaa"}}]}})),
    ];
    for form in forms {
        let namespace = plane.namespace("pruned");
        for name in ["cfg-aaa", "kept-one", "kept-two", "cfg-bbb"] {
            config_map(&namespace, name, &json!({"A": name}));
        }
        let mut body = incident::web(1);
        body["spec"]["template"]["spec"] = form.clone();
        namespace.all(DEPLOYMENTS).create(&body).ok();
        numbered(&namespace);
        let next: Value = serde_json::from_str(&form.to_string().replace("cfg-aaa", "cfg-bbb")).expect("JSON");
        let replace = json!([{"op": "replace", "path": "/spec/template/spec", "value": next},
            {"op": "replace", "path": "/spec/template/metadata/annotations/release", "value": "two"}]);
        namespace.at(DEPLOYMENTS, "web").json_patch(&replace).ok();
        numbered(&namespace);
        namespace.at(CONFIGMAPS, "cfg-aaa").delete(&json!({})).ok();
        plane.compact_history();
        let check = namespace.run(&["check", "web", "--to-revision", "1", "-o", "json"]).expect(3).document();
        let references = check["revisions"][0]["references"].as_array().expect("references").clone();
        let gone = references.iter().find(|r| r["name"] == "cfg-aaa").expect("it is listed");
        assert_eq!(gone["verdict"], "missing");
        assert!(gone["uses"][0]["pointer"].is_string() && gone["uses"][0]["container"] == "app", "{gone:#}");
        let table = namespace.run(&["history", "web"]).expect(0).stdout;
        assert!(table.contains("Missing:cfg-aaa"), "{table}");
        refused(&namespace, &[], &["configmap/cfg-aaa"]);
        refused(&namespace, &["--config=live"], &["configmap/cfg-aaa does not exist"]);
    }
}

/// Without this a configuration as large as the API allows could not be rolled back, or would be written somewhere
/// where it does not fit (C71).
#[test]
fn the_largest_config_map_is_bound_and_a_larger_one_refused() {
    let namespace = ControlPlane::main().namespace("large");
    const LIMIT: usize = 1_048_576;
    config_map(&namespace, "settings", &json!({"A": "x".repeat(LIMIT - 1), "B": "y"}));
    // What others hang onto it does not count against the copy.
    let foreign = json!({"metadata": {"annotations": {"theirs": "z".repeat(200_000)}}});
    namespace.at(CONFIGMAPS, "settings").merge_patch(&foreign).ok();
    let tiny: serde_json::Map<String, Value> = (0..5000).map(|n| (format!("key-{n}"), json!(n.to_string()))).collect();
    config_map(&namespace, "many", &Value::Object(tiny));
    let _player = Player::run(&namespace, |_| Some(Play::ready()));
    let mut body = incident::web(1);
    body["spec"]["template"]["spec"] = reading(&["settings", "many"]);
    namespace.all(DEPLOYMENTS).create(&body).ok();
    incident::rolled_out(&namespace, "web");
    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");

    let over = file("settings", &json!({"A": "x".repeat(LIMIT + 1)}));
    refused(&namespace, &[&using("settings", &over)], &["Too long", "1048576"]);

    let originals = || ["settings", "many"].map(|name| version(&namespace.at(CONFIGMAPS, name).get().ok()));
    let before = originals();
    undo(&namespace, &["--config=pin"]).expect(0);
    for (at, source) in ["settings", "many"].into_iter().enumerate() {
        let copy = namespace.at(CONFIGMAPS, &bound(&namespace, at)).get().ok();
        let original = namespace.at(CONFIGMAPS, source).get().ok();
        assert_eq!(copy["data"], original["data"], "byte for byte");
        let annotations = copy["metadata"]["annotations"].to_string();
        assert!(annotations.len() < 1000 && !annotations.contains("zzzz"), "{annotations}");
    }
    assert_eq!(originals(), before, "the originals are not touched");
    let trail = web(&namespace)["metadata"]["annotations"].to_string();
    assert!(trail.len() < 2000, "no content in annotations: {trail}");
}

/// Without this the longest names that the API allows could not be pinned, or two of them would share a snapshot (C67).
#[test]
fn the_longest_names_are_bound_and_stay_apart() {
    let namespace = ControlPlane::main().namespace("long");
    let stem = format!("{}.{}", "a".repeat(200), "b".repeat(51));
    let names = [format!("{stem}x"), format!("{stem}y"), stem.clone()];
    assert_eq!(names.each_ref().map(String::len), [253, 253, 252]);
    for name in &names {
        config_map(&namespace, name, &json!({"A": "the same in all"}));
    }
    let _player = Player::run(&namespace, |_| Some(Play::ready()));
    // A name that no label could hold.
    let long = "w".repeat(100);
    let mut body = incident::web(1);
    body["metadata"]["name"] = json!(long);
    body["spec"]["template"]["spec"] = reading(&names.each_ref().map(String::as_str));
    namespace.all(DEPLOYMENTS).create(&body).ok();
    incident::rolled_out(&namespace, &long);
    let release = json!({"spec": {"template": {"metadata": {"annotations": {"release": "two"}}}}});
    namespace.at(DEPLOYMENTS, &long).merge_patch(&release).ok();
    incident::rolled_out(&namespace, &long);
    // Names of Pods are cut at 63 characters, so Events tell nothing of the retired revision of such a workload.
    let files = names.each_ref().map(|name| file(name, &json!({"A": "the same in all"})));
    let given: Vec<String> = names.iter().zip(&files).map(|(name, file)| using(name, file)).collect();
    let mut arguments = vec!["undo", &long, "--to-revision", "1", "-y", "--timeout=60s"];
    arguments.extend(given.iter().map(String::as_str));
    namespace.run(&arguments).expect(0);
    let live = namespace.at(DEPLOYMENTS, &long).get().ok();
    let sources = live["spec"]["template"]["spec"]["containers"][0]["envFrom"].as_array().expect("three").clone();
    let mut bound: Vec<&str> = sources.iter().filter_map(|s| s["configMapRef"]["name"].as_str()).collect();
    for (name, source) in bound.iter().zip(&names) {
        let copy = namespace.at(CONFIGMAPS, name).get().ok();
        assert_eq!(copy["metadata"]["annotations"]["saferollback.dev/source"], json!(source));
        assert!(name.len() <= 253);
    }
    bound.sort_unstable();
    bound.dedup();
    assert_eq!(bound.len(), 3, "{bound:#?}");
}

/// Without this an immutable ConfigMap could not be pinned, or a run would end in the API's refusal to edit one (C70).
#[test]
fn immutable_objects_are_copied_and_never_edited() {
    let namespace = ControlPlane::main().namespace("frozen");
    let frozen = json!({"metadata": {"name": "settings"}, "immutable": true, "data": {"A": "1"}});
    let frozen = namespace.all(CONFIGMAPS).create(&frozen).ok();
    let _player = Player::run(&namespace, |_| Some(Play::ready()));
    let mut body = incident::web(1);
    body["spec"]["template"]["spec"] = reading(&["settings"]);
    namespace.all(DEPLOYMENTS).create(&body).ok();
    incident::rolled_out(&namespace, "web");
    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");
    let pin = ["--config=pin"];
    undo(&namespace, &pin).expect(0);
    let snapshot = bound(&namespace, 0);
    assert_eq!(namespace.at(CONFIGMAPS, "settings").get().ok(), frozen, "not one byte, not one number");
    // The second use of the snapshot changes its metadata alone.
    incident::release(&namespace, "three");
    incident::rolled_out(&namespace, "web");
    let proxy = Proxy::new(&namespace, |_, _| Act::Pass);
    proxy.run(&namespace, &["undo", "web", "--to-revision", "1", "-y", "--config=pin"]).expect(0);
    assert_eq!(bound(&namespace, 0), snapshot);
    let edits: Vec<Passing> =
        proxy.log().into_iter().filter(|p| p.method == "PATCH" && p.target.contains("/configmaps/")).collect();
    assert_eq!(edits.len(), 1);
    let edit: Value = serde_json::from_slice(&edits[0].body).expect("JSON");
    assert_eq!(edit.as_object().expect("a patch").keys().collect::<Vec<_>>(), ["metadata"], "{edit:#}");
}

/// Without this a variable whose key moved to binaryData would be called there, and its Pod would not start (C38).
#[test]
fn a_key_in_binary_data_is_no_variable_but_a_file() {
    let namespace = ControlPlane::main().namespace("binary");
    let binary = json!({"metadata": {"name": "settings"}, "binaryData": {"A": "AAEC/w=="}});
    namespace.all(CONFIGMAPS).create(&binary).ok();
    let variable = json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "A"}}}]});
    let mut body = incident::web(1);
    body["spec"]["template"]["spec"] = json!({"containers": [container(&variable)]});
    namespace.all(DEPLOYMENTS).create(&body).ok();
    numbered(&namespace);
    let mounted = json!({"containers": [container(&json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}))],
        "volumes": [{"name": "v", "configMap": {"name": "settings", "items": [{"key": "A", "path": "a"}]}}]});
    let replace = json!([{"op": "replace", "path": "/spec/template/spec", "value": mounted},
        {"op": "replace", "path": "/spec/template/metadata/annotations/release", "value": "two"}]);
    namespace.at(DEPLOYMENTS, "web").json_patch(&replace).ok();
    numbered(&namespace);
    let history = namespace.run(&["history", "web", "-o", "json"]).expect(0).document();
    assert_eq!(history["revisions"][0]["references"][0]["verdict"], "key-missing", "{history:#}");
    assert_ne!(history["revisions"][1]["references"][0]["verdict"], "key-missing", "a file of it is there");
    refused(&namespace, &[], &["configmap/settings"]);
}

/// Without this a ConfigMap without any data would be an error, or a snapshot that differs from it (C71).
#[test]
fn an_empty_config_map_is_bound_empty() {
    let namespace = ControlPlane::main().namespace("empty");
    namespace.all(CONFIGMAPS).create(&json!({"metadata": {"name": "none"}})).ok();
    namespace.all(CONFIGMAPS).create(&json!({"metadata": {"name": "null"}, "data": null, "binaryData": null})).ok();
    config_map(&namespace, "empty", &json!({}));
    let _player = Player::run(&namespace, |_| Some(Play::ready()));
    let mut body = incident::web(1);
    body["spec"]["template"]["spec"] = reading(&["none", "null", "empty"]);
    namespace.all(DEPLOYMENTS).create(&body).ok();
    incident::rolled_out(&namespace, "web");
    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");
    undo(&namespace, &["--config=pin"]).expect(0);
    for at in 0..3 {
        let copy = namespace.at(CONFIGMAPS, &bound(&namespace, at)).get().ok();
        assert!(copy["data"].is_null() && copy["binaryData"].is_null() && copy["immutable"] == true, "{copy:#}");
    }
}

// ---------------------------------------------------------------- what says no

/// Without this a full quota would be found out half way, without its name, or leave copies that nobody is told of (C72).
#[test]
fn a_full_quota_is_named_with_its_numbers() {
    let namespace = ControlPlane::main().namespace("quota");
    let files = ["one", "two", "three"].map(|name| {
        config_map(&namespace, name, &json!({"A": "today"}));
        (name, file(name, &json!({"A": "then"})))
    });
    unstarted(&namespace, &reading(&["one", "two", "three"]));
    let given = files.each_ref().map(|(name, file)| using(name, file));
    let given = given.each_ref().map(String::as_str);
    let there = namespace.items(CONFIGMAPS).len();
    let limit = |number: usize| json!({"spec": {"hard": {"count/configmaps": number.to_string()}}});
    let settled = |number: usize| {
        wait("the quota", || {
            let status = namespace.at(QUOTAS, "full").get().ok()["status"].clone();
            let said = |which: &str| status[which]["count/configmaps"].as_str().and_then(|text| text.parse().ok());
            (said("hard") == Some(number) && said("used") == Some(namespace.items(CONFIGMAPS).len())).then_some(())
        });
    };
    let mut quota = limit(there);
    quota["metadata"] = json!({"name": "full"});
    namespace.all(QUOTAS).create(&quota).ok();
    settled(there);
    let numbers = format!("used: count/configmaps={there}, limited: count/configmaps={there}");
    refused(&namespace, &given, &["exceeded quota: full", &numbers]);

    // Room for two of three: the dry runs, one by one, all pass. No kubectl client side knows the sum.
    namespace.at(QUOTAS, "full").merge_patch(&limit(there + 2)).ok();
    settled(there + 2);
    let before = web(&namespace);
    let ran = undo(&namespace, &[&given[..], &["-o", "json"]].concat()).expect(3);
    says(&ran, &["exceeded quota: full", "the workload was not written"]);
    let document = ran.document();
    assert_eq!((&document["outcome"], &document["exitCode"]), (&json!("refused"), &json!(3)));
    let written: Vec<&str> =
        document["written"].as_array().into_iter().flatten().filter_map(|w| w["object"].as_str()).collect();
    assert_eq!(written.len(), 2, "what was created is listed: {document:#}");
    assert_eq!(web(&namespace), before, "the workload was not written");
    assert_eq!(namespace.items(CONFIGMAPS).len(), there + 2);

    // With room for it the same command uses what is there.
    namespace.at(QUOTAS, "full").merge_patch(&limit(there + 3)).ok();
    settled(there + 3);
    undo(&namespace, &given).expect(0);
    assert_eq!(namespace.items(CONFIGMAPS).len(), there + 3);
    for object in written {
        let name = object.strip_prefix("ConfigMap/").expect("a ConfigMap");
        assert!((0..3).any(|at| bound(&namespace, at) == name), "{name} is used");
    }
}

/// A policy that denies in this namespace; waits until it does.
fn deny(namespace: &Namespace, group: &str, resource: &str, operation: &str, expression: &str, message: &str) {
    let name = format!("{}-{resource}", namespace.name);
    let plane = &namespace.plane;
    plane
        .call(POLICIES, None, None)
        .create(&json!({"metadata": {"name": name}, "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": [group], "apiVersions": ["v1"], "resources": [resource],
                "operations": [operation]}]},
            "validations": [{"expression": expression, "messageExpression": message}]}}))
        .ok();
    plane
        .call(BINDINGS, None, None)
        .create(&json!({"metadata": {"name": name}, "spec": {
            "policyName": name, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}}}}}))
        .ok();
}

/// Without this a policy that came after the old template would be met half way, with snapshots made in vain (C33).
#[test]
fn a_template_that_is_no_longer_admitted_is_refused_first() {
    let namespace = ControlPlane::main().namespace("denied");
    config_map(&namespace, "settings", &json!({"A": "today"}));
    unstarted(&namespace, &reading(&["settings"]));
    let old = file("settings", &json!({"A": "then"}));
    let given = using("settings", &old);
    let expression = "object.spec.template.metadata.annotations['release'] != 'one'";
    deny(&namespace, "apps", "deployments", "UPDATE", expression, "'release one is \\u001b[31mnot signed'");
    let one = json!({"spec": {"template": {"metadata": {"annotations": {"release": "one"}}}}});
    wait("the policy", || {
        let probe = namespace.at(DEPLOYMENTS, "web").query("dryRun", "All").merge_patch(&one);
        (probe.status == 422).then_some(())
    });
    let ran = refused(&namespace, &[&given], &["denied request", "not signed"]);
    raw(&ran);
    assert!(ran.stderr.contains("u{1b}"), "the escape is shown, not sent: {ran:?}");
}

/// Without this a Pod that is denied would be a long wait that ends in a time-out, and not the words of who denies it
/// (C33).
#[test]
fn pods_that_are_denied_are_told_with_the_reason() {
    let namespace = ControlPlane::main().namespace("no-pods");
    config_map(&namespace, "settings", &json!({"A": "today"}));
    let _player = Player::run(&namespace, |_| Some(Play::ready()));
    let mut body = incident::web(1);
    body["spec"]["template"]["spec"] = reading(&["settings"]);
    namespace.all(DEPLOYMENTS).create(&body).ok();
    incident::rolled_out(&namespace, "web");
    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");
    // The controller's Pods alone, so that our trial of one does not meet it.
    let expression = "!request.userInfo.username.endsWith(':replicaset-controller')";
    deny(&namespace, "", "pods", "CREATE", expression, "'no more Pods today'");
    wait("the policy", || {
        let pod = json!({"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
        let as_controller = namespace.kubectl(&[
            "create",
            "--dry-run=server",
            "--as=system:serviceaccount:kube-system:replicaset-controller",
            "--as-group=system:masters",
            "-f",
            file_of(&pod).path().to_str().expect("a path"),
        ]);
        String::from_utf8_lossy(&as_controller.stderr).contains("no more Pods today").then_some(())
    });
    let began = std::time::Instant::now();
    let ran = undo(&namespace, &["--config=pin", "-o", "json"]).expect(4);
    says(&ran, &["no more Pods today"]);
    assert_eq!(ran.document()["outcome"], "failed", "{ran:?}");
    assert!(began.elapsed().as_secs() < 60, "not the ten minutes of a progress deadline");
}

fn file_of(pod: &Value) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".json").tempfile().expect("a file");
    let mut pod = pod.clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    fs::write(file.path(), pod.to_string()).expect("written");
    file
}

/// Without this a namespace that goes would be taken for missing rights, or written to until the end (C73).
#[test]
fn a_namespace_that_goes_is_refused_by_that_name() {
    let namespace = ControlPlane::main().namespace("going");
    config_map(&namespace, "settings", &json!({"A": "today"}));
    unstarted(&namespace, &reading(&["settings"]));
    let old = file("settings", &json!({"A": "then"}));
    let given = using("settings", &old);
    // Held up, so that history stays: by a finalizer on each.
    let hold = json!({"metadata": {"finalizers": ["tests.saferollback.dev/hold"]}});
    namespace.at(DEPLOYMENTS, "web").merge_patch(&hold).ok();
    for set in namespace.items(REPLICASETS) {
        namespace.at(REPLICASETS, set["metadata"]["name"].as_str().expect("a name")).merge_patch(&hold).ok();
    }
    // The moment in which the namespace is marked and the workload is not yet: told by the answers.
    let proxy = Proxy::new(&namespace, |_, passing| match passing.method.as_str() {
        "POST" => Act::Answer(
            403,
            json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
                "message": "configmaps \"x\" is forbidden: unable to create new content in namespace going because it is being terminated",
                "details": {"causes": [{"reason": "NamespaceTerminating", "message": "namespace going is being terminated", "field": "metadata.namespace"}]}}),
        ),
        _ => Act::Pass,
    });
    let ran = proxy.run(&namespace, &["undo", "web", "--to-revision", "1", "-y", &given]).expect(3);
    says(&ran, &["being terminated", "nothing was written"]);
    assert!(!proxy.log().iter().any(Passing::writes), "{ran:?}");
    assert_eq!(proxy.log().iter().filter(|p| p.method == "POST" && p.target.contains("configmaps")).count(), 1);

    namespace.plane.call(NAMESPACES, None, Some(&namespace.name)).delete(&json!({})).ok();
    wait("the Deployment's deletion", || (!web(&namespace)["metadata"]["deletionTimestamp"].is_null()).then_some(()));
    // ConfigMaps come and go with the namespace, so only ours are counted.
    let ran = undo(&namespace, &["--config=live"]).expect(3);
    says(&ran, &["nothing was written", "the workload is being deleted"]);
    assert_eq!(writes(&namespace), [""; 0], "{ran:?}");
    let free = json!({"metadata": {"finalizers": null}});
    namespace.at(DEPLOYMENTS, "web").merge_patch(&free).ok();
    for set in namespace.items(REPLICASETS) {
        let _ = namespace.at(REPLICASETS, set["metadata"]["name"].as_str().expect("a name")).merge_patch(&free);
    }
}

/// Without this an edit or a re-creation between plan and patch would be read by Pods that were promised what was
/// there before (C22, C53).
#[test]
fn a_kept_reference_that_moves_stops_the_undo() {
    let meddlers: [fn(&Namespace); 2] = [
        |namespace| {
            incident::edit(namespace, &json!({"CONFIG_REVISION": "v2"}));
        },
        |namespace| {
            namespace.at(CONFIGMAPS, "settings").delete(&json!({})).ok();
            namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
        },
    ];
    for meddle in meddlers {
        let namespace = ControlPlane::main().namespace("kept");
        let _player = incident::start(&namespace, incident::AGED);
        incident::release(&namespace, "two");
        incident::rolled_out(&namespace, "web");
        let before = web(&namespace)["spec"].clone();
        let other = Namespace { plane: namespace.plane.reconnect(), name: namespace.name.clone() };
        let mut once = Some(meddle);
        let proxy = Proxy::new(&namespace, move |_, passing| {
            // With the dry run the plan is made.
            if passing.dry_run()
                && passing.method == "PATCH"
                && let Some(meddle) = once.take()
            {
                meddle(&other);
            }
            Act::Pass
        });
        let ran = proxy.run(&namespace, &["undo", "web", "--to-revision", "1", "-y", "-o", "json"]).expect(5);
        says(&ran, &["configmap/settings was written since the plan was made; the workload was not written"]);
        assert_eq!((&ran.document()["outcome"], &ran.document()["written"]), (&json!("conflict"), &json!([])));
        assert!(!proxy.log().iter().any(Passing::writes), "{ran:?}");
        assert_eq!(web(&namespace)["spec"], before);
    }
}

// ---------------------------------------------------------------- terminals

/// Clears the screen, sets a title, returns, breaks the line, goes back, turns the text around, and an eight-bit CSI.
const ESCAPES: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\rSame\nSame\u{8}\u{202e}\u{9b}31m\u{7f}";

/// No character that a terminal would obey.
#[track_caller]
fn raw(ran: &Ran) {
    for text in [&ran.stdout, &ran.stderr] {
        let found = text.chars().find(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{202a}'..='\u{202e}'));
        assert_eq!(found, None, "{ran:?}");
    }
}

/// Without this whoever may write an annotation could clear a screen, or forge a row that says "Same" (C107).
#[test]
fn escapes_of_the_cluster_reach_no_terminal() {
    let namespace = ControlPlane::main().namespace("escapes");
    let player = incident::start(&namespace, std::time::Duration::ZERO);
    let cause = json!({"metadata": {"annotations": {"kubernetes.io/change-cause": ESCAPES}}});
    namespace.at(DEPLOYMENTS, "web").merge_patch(&cause).ok();
    // The controller hands it on to the revision that is current when it gets to it.
    wait("the cause of revision 1", || {
        let set = namespace.items(REPLICASETS).remove(0);
        (set["metadata"]["annotations"]["kubernetes.io/change-cause"] == json!(ESCAPES)).then_some(())
    });
    incident::trap(&namespace);
    drop(player);
    let stuck =
        Health::Waiting { reason: "CreateContainerConfigError", message: "no \u{1b}[2Jsuch\nSame\r\u{9b}31m key" };
    let _player = Player::run(&namespace, move |pod| {
        let name = &pod["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"];
        name.as_str().is_some_and(|n| n.contains("-sr-")).then(|| Play::new(stuck.clone()))
    });
    // A context is named by whoever wrote the file.
    let admin = fs::read_to_string(&namespace.plane.kubeconfig).expect("a kubeconfig");
    let mut config: Value = serde_yaml::from_str(&admin).expect("YAML");
    config["current-context"] = json!(ESCAPES);
    config["contexts"][0]["name"] = json!(ESCAPES);
    let kubeconfig = tempfile::NamedTempFile::new().expect("a file");
    // YAML takes such characters only escaped.
    let escaped =
        |c: char| if c.is_ascii() && c != '\u{7f}' { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) };
    let text: String = config.to_string().chars().map(escaped).collect();
    fs::write(kubeconfig.path(), text).expect("written");
    let run = |arguments: &[&str]| -> Ran {
        let mut command = namespace.product(arguments);
        command.env("KUBECONFIG", kubeconfig.path()).output().expect("the binary runs").into()
    };
    let verbs: [&[&str]; 9] = [
        &["history", "web"],
        &["history", "web", "-o", "wide"],
        &["history", "web", "--revision", "1"],
        &["history", "web", "-o", "json"],
        &["history", "web", "-o", "yaml"],
        &["check", "web", "--to-revision", "1"],
        &["undo", "web", "--to-revision", "1", "--dry-run=server"],
        &["undo", "web", "--to-revision", "1", "--dry-run=client", "-o", "yaml"],
        &["undo", "web", "--to-revision", "1", "-y", "--timeout", "3s"],
    ];
    for arguments in verbs {
        let ran = run(arguments);
        raw(&ran);
        assert!([0, 3, 4].contains(&ran.code), "{arguments:?}: {ran:?}");
        if arguments.contains(&"-o") && arguments.contains(&"json") {
            let document = ran.document();
            assert_eq!(document["revisions"][0]["changeCause"], json!(ESCAPES), "the report has the exact text");
            assert_eq!(document["cluster"]["context"], json!(ESCAPES));
        }
        let forged = ran.stdout.lines().chain(ran.stderr.lines()).filter(|line| line.trim() == "Same").count();
        assert_eq!(forged, 0, "{ran:?}");
    }
    let stuck = run(&["undo", "web", "--to-revision", "1", "-y", "--timeout", "3s"]);
    assert_eq!(stuck.code, 4, "{stuck:?}");
    assert!(stuck.stderr.contains("CreateContainerConfigError") && stuck.stderr.contains("u{1b}"), "{stuck:?}");
    for arguments in [&["history", "web"][..], &["undo", "web", "-y"]] {
        let lost = namespace.product(&[arguments, &["--context", ESCAPES]].concat());
        let mut lost = lost;
        let ran = Ran::from(lost.output().expect("the binary runs"));
        assert_eq!(ran.code, 1, "{ran:?}");
        raw(&ran);
    }
}
