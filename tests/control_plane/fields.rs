//! What the patch carries: the whole template as it was, and nothing of anybody else's.

use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, REPLICASETS};
use crate::support::control_plane::ControlPlane;
use crate::support::incident;
use crate::support::proxy::{Act, Passing, Proxy};
use serde_json::{Value, json};
use std::time::Duration;

/// A field of some later Kubernetes, with an order and a spelling that a parser could lose.
const FUTURE: &str = r#"{"z":1.50,"a":[{"y":1e+21,"b":null}],"empty":{}}"#;

fn the_patch(log: &[Passing]) -> (String, Vec<Value>) {
    let bodies: Vec<&Passing> = log.iter().filter(|p| p.is_the_patch()).collect();
    assert_eq!(bodies.len(), 1, "one patch and no more");
    let text = String::from_utf8(bodies[0].body.clone()).expect("JSON is text");
    let operations = serde_json::from_str(&text).expect("a JSON patch");
    (text, operations)
}

fn replaced(operations: &[Value]) -> &Value {
    let replaces: Vec<&Value> = operations.iter().filter(|o| o["op"] != "test" && o["op"] != "add").collect();
    assert_eq!(replaces.len(), 1, "{operations:#?}");
    assert_eq!((&replaces[0]["op"], &replaces[0]["path"]), (&json!("replace"), &json!("/spec/template")));
    &replaces[0]["value"]
}

/// Without this a field that this program does not know would be dropped from a template by a rollback. The server of
/// the tests knows no field that the client library lacks, so the answers are given one (C21).
#[test]
fn a_field_from_the_future_survives_byte_for_byte() {
    let namespace = ControlPlane::main().namespace("future");
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    namespace.all(DEPLOYMENTS).create(&incident::web(1)).ok();
    super::undo::numbered(&namespace);
    incident::release(&namespace, "two");
    super::undo::numbered(&namespace);
    let live = namespace.at(DEPLOYMENTS, "web").get().ok();

    let add = |object: &mut Value| {
        if let Some(spec) = object.pointer_mut("/spec/template/spec") {
            spec["futureField"] = serde_json::from_str(FUTURE).expect("JSON");
        }
    };
    let proxy = Proxy::new(&namespace, move |_, passing| {
        if passing.method == "GET"
            && (passing.target.contains("/deployments/") || passing.target.contains("/replicasets"))
        {
            return Act::Change(Box::new(move |answer| {
                add(answer);
                for item in answer["items"].as_array_mut().into_iter().flatten() {
                    add(item);
                }
            }));
        }
        // The real server would refuse the field.
        if passing.method == "PATCH" {
            let operations: Vec<Value> = serde_json::from_slice(&passing.body).expect("a JSON patch");
            let mut answer = live.clone();
            answer["spec"]["template"] =
                operations.iter().find(|o| o["op"] == "replace").expect("a replace")["value"].clone();
            return Act::Answer(200, answer);
        }
        if passing.method == "POST" { Act::Answer(201, json!({"metadata": {}})) } else { Act::Pass }
    });
    proxy.run(&namespace, &["undo", "web", "--to-revision", "1", "--config=live", "--wait=false", "-y"]).expect(0);
    let (text, operations) = the_patch(&proxy.log());
    let field = format!("\"futureField\":{FUTURE}");
    assert_eq!(text.matches(&field).count(), 2, "in the test and in the replacement: {text}");
    assert_eq!(replaced(&operations)["metadata"]["annotations"]["release"], "one");
}

/// Without this a rollback would take other people's annotations along, or make a new ReplicaSet for a label that only
/// the controller sets (C11, C19, C32).
#[test]
fn nothing_but_template_and_own_annotations_changes() {
    let namespace = ControlPlane::main().namespace("fields");
    let _player = incident::start(&namespace, Duration::ZERO);
    let theirs = json!({"metadata": {"annotations": {"theirs": "kept", "kubernetes.io/change-cause": "release two"},
        "labels": {"app.kubernetes.io/part-of": "shop"}}});
    namespace.at(DEPLOYMENTS, "web").merge_patch(&theirs).ok();
    incident::trap(&namespace);
    let before = namespace.at(DEPLOYMENTS, "web").get().ok();
    let proxy = Proxy::new(&namespace, |_, _| Act::Pass);
    proxy.run(&namespace, &["undo", "web", "--to-revision", "1", "-y"]).expect(0);

    let (_, operations) = the_patch(&proxy.log());
    let template = replaced(&operations);
    assert!(template["metadata"]["labels"].get("pod-template-hash").is_none(), "{template:#}");
    let added: Vec<&str> = operations.iter().filter(|o| o["op"] == "add").filter_map(|o| o["path"].as_str()).collect();
    let own =
        ["/metadata/annotations/kubernetes.io~1change-cause", "/metadata/annotations/saferollback.dev~1rolled-back"];
    assert_eq!(added, own);

    let after = namespace.at(DEPLOYMENTS, "web").get().ok();
    assert_eq!(after["metadata"]["annotations"]["theirs"], "kept");
    assert_eq!(after["metadata"]["annotations"]["team"], "shop");
    assert_eq!(
        after["metadata"]["annotations"]["kubernetes.io/change-cause"],
        "kubectl saferollback undo: revision 2 to revision 1"
    );
    assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    let spec = |object: &Value| {
        let mut spec = object["spec"].clone();
        spec["template"] = Value::Null;
        spec
    };
    assert_eq!(spec(&after), spec(&before));
    // The template is the first revision's but for the pinned name.
    let first = namespace
        .items(REPLICASETS)
        .into_iter()
        .find(|set| set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1");
    let mut wanted = first.expect("revision 1")["spec"]["template"].clone();
    wanted["metadata"]["labels"].as_object_mut().expect("labels").shift_remove("pod-template-hash");
    let pointer = "/spec/containers/0/envFrom/0/configMapRef/name";
    *wanted.pointer_mut(pointer).expect("a reference") =
        after["spec"]["template"].pointer(pointer).expect("one").clone();
    assert_eq!(after["spec"]["template"], wanted);
}
