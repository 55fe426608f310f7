//! The incident where less and less is known, and what happens between the plan and the patch.

use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, EVENTS, NAMESPACES, REPLICASETS, Resource};
use crate::support::control_plane::{ControlPlane, Namespace, version, wait};
use crate::support::incident;
use crate::support::kubelet::{Health, Play};
use crate::support::player::Player;
use crate::support::product::Ran;
use crate::support::proxy::{Act, Passing, Proxy};
use serde_json::{Value, json};
use std::time::Duration;

/// Lasting changes that the binary asked for, as the API server saw them.
pub fn writes(namespace: &Namespace) -> Vec<String> {
    let ours = namespace.audit().into_iter().filter(|e| e.user_agent.starts_with("kubectl-saferollback"));
    ours.filter(|e| e.mutating()).map(|e| format!("{} {}", e.verb, e.resource)).collect()
}

/// Events expire after an hour; here at once.
fn forget_events(namespace: &Namespace) {
    for event in namespace.items(EVENTS) {
        let name = event["metadata"]["name"].as_str().expect("a name").to_string();
        namespace.at(EVENTS, &name).delete(&json!({})).result().ok();
    }
}

fn codes(document: &Value) -> Vec<&str> {
    document["refusals"].as_array().into_iter().flatten().filter_map(|r| r["code"].as_str()).collect()
}

fn ways(document: &Value) -> Vec<&str> {
    document["waysOn"].as_array().into_iter().flatten().filter_map(|w| w["id"].as_str()).collect()
}

fn web(namespace: &Namespace) -> Value {
    namespace.at(DEPLOYMENTS, "web").get().ok()
}

fn bound(namespace: &Namespace) -> String {
    let name = &web(namespace)["spec"]["template"]["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"];
    name.as_str().expect("a name").to_string()
}

/// Without this an incident older than an hour could not be undone although the content is still there, or a guess
/// would be sold as proof.
#[test]
fn without_events_and_pod_history_the_content_is_likely() {
    let plane = ControlPlane::compact();
    let namespace = plane.namespace("likely");
    let _player = incident::start(&namespace, Duration::ZERO);
    forget_events(&namespace);
    // The Pods' first versions are gone; the version that the edit replaces is still today's.
    plane.compact_history();
    incident::trap(&namespace);
    let before = web(&namespace);

    let strict = ["undo", "web", "--to-revision", "1", "-y", "--require=proof", "-o", "json"];
    let strict = namespace.run(&strict).expect(3).document();
    assert_eq!(strict["outcome"], "refused");
    assert_eq!(codes(&strict), ["content-not-proven"], "{strict:#}");
    assert!(ways(&strict).contains(&"require-likely"), "{strict:#}");
    assert_eq!(writes(&namespace), [""; 0], "refused means nothing was written");
    assert_eq!(web(&namespace)["spec"], before["spec"]);
    assert_eq!(strict["written"], json!([]));

    let undone = namespace.run(&["undo", "web", "--to-revision", "1", "-y", "-o", "json"]).expect(0).document();
    assert_eq!(undone["outcome"], "done");
    assert_eq!((&undone["actions"][0]["action"], &undone["actions"][0]["grade"]), (&json!("pin"), &json!("likely")));
    let expected = ["create configmaps", "patch deployments", "create configmaps"];
    assert_eq!(writes(&namespace), expected, "the snapshot, the patch, the record, and nothing else");
    let snapshot = namespace.at(CONFIGMAPS, &bound(&namespace)).get().ok();
    assert_eq!(snapshot["data"], incident::settings("v1", "true")["data"]);
}

/// Without this lost Events would cost the proof although the API still knows the Pods' own past.
#[test]
fn without_events_the_pods_past_still_proves() {
    let namespace = ControlPlane::main().namespace("pod-past");
    let _player = incident::start(&namespace, incident::AGED);
    incident::trap(&namespace);
    namespace.all(EVENTS).delete(&json!({})).ok();
    let arguments = ["undo", "web", "--to-revision", "1", "--require=proof", "-y", "-o", "json"];
    let undone = namespace.run(&arguments).expect(0).document();
    assert_eq!((&undone["actions"][0]["action"], &undone["actions"][0]["grade"]), (&json!("pin"), &json!("proof")));
}

/// Without this the tool would guess where nothing is known, or write on the way to saying so (C52).
#[test]
fn content_that_is_nowhere_is_refused_without_a_write() {
    let plane = ControlPlane::compact();
    let namespace = plane.namespace("nowhere");
    let _player = incident::start(&namespace, Duration::ZERO);
    incident::trap(&namespace);
    plane.compact_history();
    let (before, objects) = (web(&namespace), namespace.items(CONFIGMAPS).len());

    let arguments = ["undo", "web", "--to-revision", "1", "-y", "-o", "json"];
    let refused = namespace.run(&arguments).expect(3).document();
    assert_eq!((&refused["outcome"], &refused["exitCode"]), (&json!("refused"), &json!(3)));
    assert_eq!(codes(&refused), ["content-not-found"], "{refused:#}");
    assert_eq!(ways(&refused), ["use-file", "config-live"], "only what can work here: {refused:#}");
    let said = namespace.run(&["undo", "web", "--to-revision", "1", "-y"]).expect(3).stderr;
    for needed in ["nothing was written", "settings", "--use settings=FILE", "--config=live", "Looked in"] {
        assert!(said.contains(needed), "{needed:?} is not said in:\n{said}");
    }
    assert_eq!(writes(&namespace), [""; 0], "refused means nothing was written");
    assert_eq!(web(&namespace)["spec"], before["spec"]);
    assert_eq!(namespace.items(CONFIGMAPS).len(), objects);

    // The same detector sees the way on that the refusal named.
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), incident::settings("v1", "true").to_string()).expect("written");
    let given = format!("settings={}", file.path().display());
    let used = ["undo", "web", "--to-revision", "1", "-y", "--use", &given, "-o", "json"];
    let used = namespace.run(&used).expect(0).document();
    assert_eq!(used["outcome"], "done");
    assert_eq!(writes(&namespace), ["create configmaps", "patch deployments", "create configmaps"]);
    assert_eq!(namespace.at(CONFIGMAPS, &bound(&namespace)).get().ok()["data"]["HEALTHY"], "true");
}

/// A Deployment whose Pods nobody starts: always in mid-rollout.
fn unfinished(namespace: &Namespace) {
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    let mut body = incident::web(2);
    body["spec"]["revisionHistoryLimit"] = json!(100);
    namespace.all(DEPLOYMENTS).create(&body).ok();
    numbered(namespace);
}

/// Waits until the live template has its ReplicaSet and number.
pub fn numbered(namespace: &Namespace) {
    wait("the new revision", || {
        let live = web(namespace);
        let number = &live["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
        let release = &live["spec"]["template"]["metadata"]["annotations"]["release"];
        let sets = namespace.items(REPLICASETS);
        sets.iter()
            .any(|set| {
                set["spec"]["template"]["metadata"]["annotations"]["release"] == *release
                    && set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == *number
            })
            .then_some(())
    });
}

/// Runs the binary, and `meddle` once just before its patch arrives.
fn meddled(namespace: &Namespace, arguments: &[&str], meddle: impl FnOnce(&Namespace) + Send + 'static) -> Ran {
    let other = Namespace { plane: namespace.plane.reconnect(), name: namespace.name.clone() };
    let mut meddle = Some(meddle);
    let proxy = Proxy::new(namespace, move |_, passing| {
        if passing.is_the_patch()
            && let Some(meddle) = meddle.take()
        {
            meddle(&other);
        }
        Act::Pass
    });
    let ran = proxy.run(namespace, arguments);
    assert!(proxy.log().iter().any(Passing::is_the_patch), "no patch came: {ran:?}");
    ran
}

/// Without this an undo in a rollout, beside an autoscaler or beside another tool's annotation would fail for nothing.
/// (C22)
#[test]
fn what_a_rollout_moves_is_no_conflict() {
    let namespace = ControlPlane::main().namespace("moving");
    unfinished(&namespace);
    for round in 0..20 {
        incident::release(&namespace, &format!("bad-{round}"));
        numbered(&namespace);
        let ran = meddled(&namespace, &["undo", "web", "--config=live", "--wait=false", "-y"], move |namespace| {
            let at = || namespace.at(DEPLOYMENTS, "web");
            let version_before = version(&at().get().ok());
            at().sub("scale").merge_patch(&json!({"spec": {"replicas": 2 + round % 3}})).ok();
            let theirs = json!({"metadata": {"annotations": {format!("theirs-{round}"): "kept"}}});
            at().merge_patch(&theirs).ok();
            let condition = json!({"type": "Meddled", "status": "True", "reason": "Round", "message": format!("{round}"),
                "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let status = at()
                .sub("status")
                .json_patch(&json!([{"op": "add", "path": "/status/conditions/-", "value": condition}]));
            // Until the controller has written a status there is no list to add to.
            assert!([200, 422].contains(&status.status), "{status:?}");
            assert!(version(&at().get().ok()) > version_before, "the meddling must move the number");
        });
        assert_eq!(ran.code, 0, "round {round}: {ran:?}");
        let live = web(&namespace);
        assert_eq!(live["spec"]["template"]["metadata"]["annotations"]["release"], "one");
        assert_eq!(live["metadata"]["annotations"][format!("theirs-{round}")], "kept", "round {round}");
        assert_eq!(live["spec"]["replicas"], 2 + round % 3, "the scaling stands");
        numbered(&namespace);
    }
}

/// Without this an undo would throw away what somebody else just released (C22).
#[test]
fn a_template_that_changed_since_the_plan_is_never_overwritten() {
    let namespace = ControlPlane::main().namespace("changed");
    unfinished(&namespace);
    let start = web(&namespace);
    let template = |change: Value| json!({"spec": {"template": change}});
    let container = |change: Value| {
        let mut container = json!({"name": "app", "image": "registry.example/web:1.4"});
        container.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        template(json!({"spec": {"containers": [container]}}))
    };
    let changes: Vec<(Value, &str)> = vec![
        (container(json!({"image": "registry.example/web:2"})), "/spec/template/spec/containers/0/image"),
        (container(json!({"env": [{"name": "A", "value": "1"}]})), "/spec/template/spec/containers/0/env"),
        (
            template(json!({"metadata": {"annotations": {"theirs": "new"}}})),
            "/spec/template/metadata/annotations/theirs",
        ),
        (
            template(json!({"spec": {"terminationGracePeriodSeconds": 5}})),
            "/spec/template/spec/terminationGracePeriodSeconds",
        ),
        (json!({"spec": {"paused": true}}), "/spec/paused"),
        (json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}}), "/spec/strategy"),
    ];
    for round in 0..20 {
        let (change, field) = changes[round % changes.len()].clone();
        let mut spec = start["spec"].clone();
        spec["template"]["metadata"]["annotations"]["release"] = json!(format!("bad-{round}"));
        namespace.at(DEPLOYMENTS, "web").json_patch(&json!([{"op": "replace", "path": "/spec", "value": spec}])).ok();
        numbered(&namespace);
        let arguments = ["undo", "web", "--to-revision", "1", "--config=live", "--wait=false", "-y", "-o", "json"];
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Value::Null));
        let kept = std::sync::Arc::clone(&seen);
        let ran = meddled(&namespace, &arguments, move |namespace| {
            *kept.lock().expect("one thread") = namespace.at(DEPLOYMENTS, "web").merge_patch(&change).ok();
        });
        assert_eq!(ran.code, 5, "round {round}: {ran:?}");
        assert!(ran.stderr.contains(field), "{field} is not named: {}", ran.stderr);
        let document = ran.document();
        assert_eq!((&document["outcome"], &document["written"]), (&json!("conflict"), &json!([])));
        let after = web(&namespace);
        assert_eq!(after["spec"], seen.lock().expect("one thread")["spec"], "the other's change stands whole");
    }
    let refused = namespace
        .audit()
        .into_iter()
        .filter(|e| e.user_agent.starts_with("kubectl-saferollback") && e.mutating() && e.code == 200);
    assert_eq!(refused.count(), 0, "none of our patches was accepted");
}

/// Without this a conflict would forget the snapshots that were made, and the next run would make others.
#[test]
fn a_conflict_lists_its_snapshots_and_the_next_run_uses_them() {
    let namespace = ControlPlane::main().namespace("again");
    let _player = incident::start(&namespace, Duration::ZERO);
    incident::trap(&namespace);
    let arguments = ["undo", "web", "--to-revision", "1", "-y", "-o", "json"];
    let ran = meddled(&namespace, &arguments, |namespace| {
        incident::release(namespace, "three");
    });
    assert_eq!(ran.code, 5, "{ran:?}");
    let document = ran.document();
    let written: Vec<&str> =
        document["written"].as_array().into_iter().flatten().filter_map(|w| w["object"].as_str()).collect();
    assert!(matches!(written.as_slice(), [one] if one.starts_with("ConfigMap/settings-sr-")), "{document:#}");
    let snapshot = |c: &&Value| c["metadata"]["labels"]["saferollback.dev/kind"] == "snapshot";
    let copies = || namespace.items(CONFIGMAPS).iter().filter(snapshot).count();
    assert_eq!(copies(), 1);
    numbered(&namespace);
    let undone = namespace.run(&arguments).expect(0).document();
    assert_eq!(undone["outcome"], "done", "{undone:#}");
    assert_eq!(copies(), 1, "the snapshot is used again");
    assert_eq!(format!("ConfigMap/{}", bound(&namespace)), written[0]);
    // The touch must not move the date of the flag's owner: it is what proves for how long the bytes are the same.
    let used = namespace.at(CONFIGMAPS, &bound(&namespace)).get().ok();
    assert!(used["metadata"]["annotations"]["saferollback.dev/touched"].is_string(), "{used:#}");
    let owners = used["metadata"]["managedFields"].as_array().into_iter().flatten();
    let of_flag: Vec<&Value> = owners.filter(|owner| owner["fieldsV1"]["f:immutable"].is_object()).collect();
    assert_eq!(of_flag.len(), 1, "{used:#}");
    assert_eq!(of_flag[0]["manager"], "saferollback");
    assert_eq!(of_flag[0]["time"], used["metadata"]["creationTimestamp"]);
}

/// Without this a kubelet that is late would not see the new snapshot, and start the Pod without it: it is optional.
#[test]
fn a_pin_of_what_is_optional_waits_until_kubelets_see_it() {
    let namespace = ControlPlane::main().namespace("optional");
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    let mut optional = incident::web(1);
    optional["spec"]["template"]["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["optional"] = json!(true);
    namespace.all(DEPLOYMENTS).create(&optional).ok();
    let _player = Player::run(&namespace, |_| Some(Play::ready()));
    incident::rolled_out(&namespace, "web");
    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");
    let undone =
        namespace.run(&["undo", "web", "--to-revision", "1", "--config=pin", "--require=likely", "-y", "-o", "json"]);
    let said = undone.stderr.clone();
    let document = undone.expect(0).document();
    assert!(said.contains("which is optional"), "{said}");
    let moment = |what: &str| -> jiff::Timestamp {
        let moments = document["timeline"].as_array().into_iter().flatten();
        let found = moments.into_iter().find(|m| m["what"].as_str().is_some_and(|text| text.contains(what)));
        let at = found.and_then(|m| m["at"].as_str()).unwrap_or_else(|| panic!("no {what} in {document:#}"));
        at.parse().expect("a time")
    };
    let waited = moment("patched").duration_since(moment("snapshots are there"));
    assert!(waited >= jiff::SignedDuration::from_secs(2), "{waited}");
}

/// Without this a rollback of ours would be a dead end for everybody who uses kubectl.
#[test]
fn kubectl_agrees_and_goes_on_from_there() {
    let namespace = ControlPlane::main().namespace("kubectl-after");
    let _player = incident::start(&namespace, Duration::ZERO);
    incident::trap(&namespace);
    namespace.run(&["undo", "web", "--to-revision", "1", "-y"]).expect(0);
    let status = namespace.kubectl(&["rollout", "status", "deployment/web", "--timeout=20s"]);
    assert!(status.status.success(), "{status:?}");
    let undo = namespace.kubectl(&["rollout", "undo", "deployment/web"]);
    assert!(undo.status.success(), "{undo:?}");
    assert_eq!(web(&namespace)["spec"]["template"]["metadata"]["annotations"]["release"], "two");
    let history = namespace.kubectl(&["rollout", "history", "deployment/web"]);
    let history = String::from_utf8_lossy(&history.stdout).into_owned();
    assert!(history.contains("kubectl saferollback undo: revision 2 to revision 1"), "{history}");
}

/// Without this a ConfigMap that was deleted would be given up although the API still has it.
#[test]
fn a_deleted_config_map_is_found_and_pinned() {
    let namespace = ControlPlane::main().namespace("deleted");
    let _player = incident::start(&namespace, Duration::ZERO);
    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");
    namespace.at(CONFIGMAPS, "settings").delete(&json!({})).ok();
    // Other writes lie between the deletion and the search.
    for number in 0..30 {
        let body = json!({"metadata": {"name": format!("noise-{number}")}, "data": {"a": "1"}});
        namespace.all(CONFIGMAPS).create(&body).ok();
    }
    let check = namespace.run(&["check", "web", "--to-revision", "2", "-o", "json"]).expect(3).document();
    assert_eq!(check["revisions"][0]["references"][0]["verdict"], "missing");
    let arguments = ["undo", "web", "--to-revision", "2", "-y", "-o", "json"];
    // A search gives up after two seconds, which a busy machine may need: then the answer is a refusal, never "nothing
    // to do", and asking again is safe.
    let at_it = wait("a search that comes through", || {
        let ran = namespace.run(&arguments);
        let document = ran.document();
        if ran.code == 3 {
            assert_eq!((&document["outcome"], &document["written"]), (&json!("refused"), &json!([])), "{document:#}");
            return None;
        }
        assert_eq!(ran.code, 0, "{document:#}");
        Some(document)
    });
    assert_eq!(at_it["actions"][0]["action"], "pin", "{at_it:#}");
    assert_eq!(at_it["actions"][0]["source"], "time-travel");
    let snapshot = namespace.at(CONFIGMAPS, &bound(&namespace)).get().ok();
    assert_eq!(snapshot["data"], incident::settings("v1", "true")["data"]);
    assert_eq!(namespace.at(CONFIGMAPS, "settings").get().status, 404, "the original is not made again");
}

/// Without these an undo would write where it cannot or must not end well.
#[test]
fn what_cannot_end_well_is_refused_before_any_write() {
    let plane = ControlPlane::main();
    let quotas = Resource::new("/api/v1", "resourcequotas");
    let refused = |namespace: &Namespace, code: &str| {
        let arguments = ["undo", "web", "--to-revision", "1", "-y", "-o", "json"];
        let document = namespace.run(&arguments).expect(3).document();
        assert!(codes(&document).contains(&code), "{code}: {document:#}");
        assert_eq!((&document["outcome"], &document["written"]), (&json!("refused"), &json!([])));
        assert_eq!(writes(namespace), [""; 0], "{code}: refused means nothing was written");
    };
    let namespace = plane.namespace("refused");
    let _player = incident::start(&namespace, Duration::ZERO);
    incident::trap(&namespace);

    let at = || namespace.at(DEPLOYMENTS, "web");
    at().merge_patch(&json!({"spec": {"paused": true}})).ok();
    refused(&namespace, "paused");
    at().merge_patch(&json!({"spec": {"paused": null}})).ok();

    let full = json!({"metadata": {"name": "full"}, "spec": {"hard": {"configmaps": "2"}}});
    namespace.all(quotas).create(&full).ok();
    wait("the quota's count", || {
        (namespace.at(quotas, "full").get().ok()["status"]["used"]["configmaps"] == "2").then_some(())
    });
    refused(&namespace, "dry-run-denied");
    namespace.at(quotas, "full").delete(&json!({})).ok();

    let level = |level: Value| json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
    let space = || plane.call(NAMESPACES, None, Some(&namespace.name));
    space().merge_patch(&level(json!("restricted"))).ok();
    refused(&namespace, "dry-run-denied");
    space().merge_patch(&level(Value::Null)).ok();

    // The namespace goes, held up by what does not want to go.
    at().merge_patch(&json!({"metadata": {"finalizers": ["tests.saferollback.dev/hold"]}})).ok();
    space().delete(&json!({})).ok();
    wait("the Deployment's deletion", || (!web(&namespace)["metadata"]["deletionTimestamp"].is_null()).then_some(()));
    let gone = namespace.run(&["undo", "web", "--to-revision", "1", "-y"]);
    // Its ReplicaSets may be gone already.
    assert!([1, 3].contains(&gone.code), "{gone:?}");
    assert_eq!(writes(&namespace), [""; 0]);
    at().merge_patch(&json!({"metadata": {"finalizers": null}})).ok();
}

/// Without this a key that a container requires would be missed until the Pod fails to start (C38).
#[test]
fn a_missing_required_key_is_named() {
    let namespace = ControlPlane::main().namespace("key");
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    let mut body = incident::web(1);
    let container = &mut body["spec"]["template"]["spec"]["containers"][0];
    container.as_object_mut().expect("an object").shift_remove("envFrom");
    container["env"] =
        json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "CONFIG_REVISION"}}}]);
    namespace.all(DEPLOYMENTS).create(&body).ok();
    let _player = Player::run(&namespace, |_| Some(Play::ready()));
    incident::rolled_out(&namespace, "web");
    let remove = json!([{"op": "remove", "path": "/data/CONFIG_REVISION"}]);
    namespace.at(CONFIGMAPS, "settings").json_patch(&remove).ok();
    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");
    let live = ["undo", "web", "--to-revision", "1", "--config=live", "-y", "-o", "json"];
    let live = namespace.run(&live).expect(3);
    assert_eq!(codes(&live.document()), ["key-missing"]);
    let detail = &live.document()["revisions"][0]["references"][0]["evidence"];
    assert!(detail.to_string().contains("CONFIG_REVISION"), "{detail:#}");
    assert_eq!(writes(&namespace), [""; 0]);
}

/// Without this a name that somebody else took would end in a failure, or in their content.
#[test]
fn a_taken_snapshot_name_is_made_longer() {
    let namespace = ControlPlane::main().namespace("taken");
    let _player = incident::start(&namespace, Duration::ZERO);
    incident::trap(&namespace);
    let plan = ["undo", "web", "--to-revision", "1", "--dry-run=client", "-o", "json"];
    let plan = namespace.run(&plan).expect(0).document();
    let name = plan["actions"][0]["to"].as_str().expect("a name").to_string();
    let theirs = json!({"metadata": {"name": name}, "data": {"theirs": "1"}});
    let theirs = namespace.all(CONFIGMAPS).create(&theirs).ok();
    let done = namespace.run(&["undo", "web", "--to-revision", "1", "-y", "-o", "json"]).expect(0).document();
    let longer = done["actions"][0]["to"].as_str().expect("a name");
    assert!(longer.starts_with(&name) && longer.len() == name.len() + 16, "{longer}");
    assert_eq!(bound(&namespace), longer);
    assert_eq!(version(&namespace.at(CONFIGMAPS, &name).get().ok()), version(&theirs), "theirs is not touched");
    assert_eq!(namespace.at(CONFIGMAPS, longer).get().ok()["data"], incident::settings("v1", "true")["data"]);
}

/// Without this a rollback whose Pods never start would end in silence, or look like success.
#[test]
fn a_rollout_that_fails_says_why() {
    let namespace = ControlPlane::main().namespace("fails");
    let player = incident::start(&namespace, Duration::ZERO);
    incident::trap(&namespace);
    drop(player);
    let stuck = Health::Waiting { reason: "CreateContainerConfigError", message: "configmap is not there" };
    let _player = Player::run(&namespace, move |pod| {
        let name = &pod["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"];
        name.as_str().is_some_and(|n| n.contains("-sr-")).then(|| Play::new(stuck.clone()))
    });
    let arguments = ["undo", "web", "--to-revision", "1", "-y", "-o", "json", "--timeout", "3s"];
    let late = namespace.run(&arguments).expect(4);
    assert_eq!(late.document()["outcome"], "timed-out");
    for word in
        ["error: timed out waiting for deployment \"web\"", "CreateContainerConfigError", "configmap is not there"]
    {
        assert!(late.stderr.contains(word), "{word}: {}", late.stderr);
    }
    // The same command finds nothing to write and goes on waiting, by the workload's own deadline.
    let deadline = json!({"spec": {"progressDeadlineSeconds": 1}});
    namespace.at(DEPLOYMENTS, "web").merge_patch(&deadline).ok();
    let failed = namespace.run(&["undo", "web", "--to-revision", "1", "-y", "-o", "json"]).expect(4);
    assert_eq!(failed.document()["outcome"], "failed");
    assert!(failed.stderr.contains("exceeded its progress deadline"), "{}", failed.stderr);
    assert_eq!(writes(&namespace).len(), 2, "one snapshot, one patch, and nothing twice");
}

/// Without this a look at the plan could change something.
#[test]
fn dry_runs_are_dry() {
    let namespace = ControlPlane::main().namespace("dry");
    let _player = incident::start(&namespace, Duration::ZERO);
    incident::trap(&namespace);
    let ours = || -> Vec<(String, bool)> {
        let all = namespace.audit().into_iter().filter(|e| e.user_agent.starts_with("kubectl-saferollback"));
        all.filter(|e| !["get", "list", "watch"].contains(&e.verb.as_str())).map(|e| (e.verb, e.dry_run)).collect()
    };
    namespace.run(&["undo", "web", "--to-revision", "1", "--dry-run=client"]).expect(0);
    assert_eq!(ours(), []);
    namespace.run(&["undo", "web", "--to-revision", "1", "--dry-run=server"]).expect(0);
    let asked = ours();
    assert!(asked.len() >= 3 && asked.iter().all(|(_, dry)| *dry), "{asked:?}");
    assert_eq!(bound(&namespace), "settings");
}
