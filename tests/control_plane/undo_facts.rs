//! Facts about writing, on which the product's undo rests.

use super::{release, two_revisions, workload};
use crate::support::client::{DEPLOYMENTS, STATEFULSETS};
use crate::support::control_plane::{ControlPlane, version};
use crate::support::kubelet::Kubelet;
use serde_json::{Value, json};

/// Otherwise an undo planned on one state could be done to another, or its refusal could not be told from an
/// invalid template.
#[test]
fn a_failed_test_refuses_the_whole_patch_without_a_detail() {
    let namespace = ControlPlane::main().namespace("patch");
    let read = namespace.all(DEPLOYMENTS).create(&workload("Deployment", 0)).ok();
    let mut other = read["spec"]["template"].clone();
    other["metadata"]["annotations"]["release"] = json!("two");
    let patch = |uid: &Value, template: &Value| {
        json!([
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "test", "path": "/spec/template", "value": read["spec"]["template"]},
            {"op": "test", "path": "/spec/paused", "value": null},
            {"op": "test", "path": "/spec/strategy", "value": read["spec"]["strategy"]},
            {"op": "replace", "path": "/spec/template", "value": template},
        ])
    };
    let web = || namespace.at(DEPLOYMENTS, "web");
    let refused = web().json_patch(&patch(&json!("another"), &other));
    assert_eq!((refused.status, &refused.body["reason"]), (422, &json!("Invalid")));
    assert!(refused.body["details"].get("causes").is_none(), "{}", refused.body);
    assert_eq!(web().get().ok()["spec"], read["spec"], "nothing of it was done");

    let mut invalid = other.clone();
    invalid["spec"]["containers"][0]["name"] = json!("No_Name");
    let refused = web().json_patch(&patch(&read["metadata"]["uid"], &invalid));
    assert_eq!(refused.status, 422);
    assert!(refused.body["details"]["causes"].is_array(), "an invalid template names its causes: {}", refused.body);

    let done = web().json_patch(&patch(&read["metadata"]["uid"], &other)).ok();
    assert_eq!(done["spec"]["template"], other);
    assert_eq!(done["metadata"]["generation"], 2, "the response tells the generation to watch for");
    // The same patch again meets the new template.
    assert_eq!(web().json_patch(&patch(&read["metadata"]["uid"], &other)).status, 422);
    web().merge_patch(&json!({"spec": {"paused": true}})).ok();
    let paused = json!([{"op": "test", "path": "/spec/paused", "value": null}]);
    assert_eq!(web().json_patch(&paused).status, 422, "null stands for absent only");
}

/// Otherwise resourceVersion or generation could serve as an undo's precondition: both move without any change of
/// the template, so an undo during a rollout or beside an autoscaler would be refused for nothing.
#[test]
fn version_and_generation_move_without_the_template() {
    let namespace = ControlPlane::main().namespace("moves");
    let read = namespace.all(DEPLOYMENTS).create(&workload("Deployment", 1)).ok();
    let rolled = Kubelet { namespace: &namespace }.settle(DEPLOYMENTS, "web");
    assert!(version(&rolled) > version(&read), "status moves the version");
    assert_eq!(rolled["metadata"]["generation"], read["metadata"]["generation"]);
    let scaled = namespace.at(DEPLOYMENTS, "web").sub("scale").merge_patch(&json!({"spec": {"replicas": 2}})).ok();
    assert_eq!(scaled["spec"]["replicas"], 2);
    let live = namespace.at(DEPLOYMENTS, "web").get().ok();
    assert_eq!(live["metadata"]["generation"], 2, "scaling moves the generation");
    assert_eq!(live["spec"]["template"], read["spec"]["template"]);
    // Nor can a patch ask for a generation by writing it.
    let patch = json!([{"op": "replace", "path": "/metadata/generation", "value": 77}]);
    let written = namespace.at(DEPLOYMENTS, "web").json_patch(&patch).ok();
    assert_eq!(written["metadata"]["generation"], 2);
}

/// Otherwise adding our annotation could wipe one that came in between, or fail where there was none.
#[test]
fn an_absent_annotation_map_is_tested_as_null() {
    let namespace = ControlPlane::main().namespace("annotations");
    let read = namespace.all(STATEFULSETS).create(&workload("StatefulSet", 0)).ok();
    assert!(read["metadata"].get("annotations").is_none(), "{read}");
    let single = json!([{"op": "add", "path": "/metadata/annotations/ours", "value": "1"}]);
    assert_eq!(namespace.at(STATEFULSETS, "web").json_patch(&single).status, 422, "no map to add to");
    let whole = json!([
        {"op": "test", "path": "/metadata/annotations", "value": null},
        {"op": "add", "path": "/metadata/annotations", "value": {"ours": "1"}},
    ]);
    let written = namespace.at(STATEFULSETS, "web").json_patch(&whole).ok();
    assert_eq!(written["metadata"]["annotations"], json!({"ours": "1"}));
    assert_eq!(namespace.at(STATEFULSETS, "web").json_patch(&whole).status, 422, "the map is there now");
    namespace.at(STATEFULSETS, "web").json_patch(&single).ok();
}

/// Otherwise a field that this server does not know would vanish from a template without a word.
#[test]
fn unknown_fields_are_dropped_unless_validation_is_strict() {
    let namespace = ControlPlane::main().namespace("strict");
    namespace.all(DEPLOYMENTS).create(&workload("Deployment", 0)).ok();
    let patch = json!([{"op": "add", "path": "/spec/template/spec/notAField", "value": 1}]);
    let dry = || namespace.at(DEPLOYMENTS, "web").query("dryRun", "All");
    let dropped = dry().json_patch(&patch).ok();
    assert!(dropped["spec"]["template"]["spec"].get("notAField").is_none());
    let refused = dry().query("fieldValidation", "Strict").json_patch(&patch);
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert!(refused.body["details"]["causes"].is_array(), "not to be taken for a failed test: {}", refused.body);
}

/// Otherwise what the product does better than `kubectl rollout undo` would be a claim: kubectl's patch replaces
/// the template and all annotations on no condition, and it reads nothing that the template references.
#[test]
fn kubectl_undo_is_one_blind_patch() {
    let namespace = ControlPlane::main().namespace("kubectl");
    super::settings(&namespace);
    two_revisions(&namespace);
    namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"metadata": {"annotations": {"theirs": "kept"}}})).ok();
    let undo = namespace.kubectl(&["rollout", "undo", "deployment/web", "-v=9"]);
    assert!(undo.status.success(), "{undo:?}");
    let log = String::from_utf8_lossy(&undo.stderr).into_owned();
    assert!(log.contains("/spec/template") && log.contains("/metadata/annotations"), "{log}");
    assert!(!log.contains(r#""op":"test""#) && !log.contains(r#"\"op\":\"test\""#), "{log}");

    let audit = namespace.audit();
    let kubectl: Vec<_> = audit.iter().filter(|event| event.user_agent.starts_with("kubectl/")).collect();
    let writes: Vec<_> = kubectl.iter().filter(|event| event.mutating()).collect();
    assert_eq!(writes.len(), 1, "{kubectl:#?}");
    assert_eq!((writes[0].verb.as_str(), writes[0].resource.as_str(), writes[0].code), ("patch", "deployments", 200));
    assert!(writes[0].subresource.is_empty() && writes[0].uri.contains("/deployments/web"), "{kubectl:#?}");
    assert!(kubectl.iter().all(|event| event.resource != "configmaps"), "{kubectl:#?}");
}

/// Otherwise the audit helper would count a rehearsal as a change, and no test could show that a refused command
/// changed nothing.
#[test]
fn the_audit_log_tells_dry_runs_from_changes() {
    let namespace = ControlPlane::main().namespace("audit");
    namespace.all(DEPLOYMENTS).create(&workload("Deployment", 0)).ok();
    let web = || namespace.at(DEPLOYMENTS, "web");
    web().query("dryRun", "All").merge_patch(&release("two")).ok();
    web().merge_patch(&release("three")).ok();
    let refused = json!([{"op": "test", "path": "/metadata/uid", "value": "another"}]);
    assert_eq!(web().json_patch(&refused).status, 422);
    let audit = namespace.audit();
    let ours =
        audit.iter().filter(|event| event.user_agent == crate::support::client::USER_AGENT && event.verb == "patch");
    let seen: Vec<_> = ours.map(|event| (event.name.as_str(), event.mutating(), event.code)).collect();
    assert_eq!(seen, [("web", false, 200), ("web", true, 200), ("web", true, 422)], "{audit:#?}");
}
