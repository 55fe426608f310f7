use saferollback::cluster::read::Resource;
use saferollback::cluster::write::{Ban, WriteError};
use saferollback::core::object::Object;
use serde_json::{Value, json};

use crate::cluster::fake::{Fake, Reply, config_map, status, status_with};

const DEPLOYMENTS: Resource = Resource::Deployments;

async fn patch(reply: Reply) -> WriteError {
    let fake = Fake::new(vec![reply]);
    let error = fake.cluster.json_patch(DEPLOYMENTS, "shop", "web", &json!([]), false).await.unwrap_err();
    assert_eq!(fake.cluster.requests(), 1, "a write is sent once: {error}");
    assert!(fake.notices().is_empty());
    error
}

async fn create(reply: Reply) -> WriteError {
    let fake = Fake::new(vec![reply]);
    let body = json!({"metadata": {"name": "s"}});
    let error = fake.cluster.create(Resource::ConfigMaps, "shop", &body, false).await.unwrap_err();
    assert_eq!(fake.cluster.requests(), 1, "a write is sent once: {error}");
    error
}

/// Otherwise Flux would take our fields for kubectl's and strip them, and nobody could tell who wrote (C26).
#[tokio::test]
async fn c26_writes_are_strict_name_their_manager_and_can_be_dry() {
    let ops = json!([{"op": "test", "path": "/metadata/uid", "value": "u"}]);
    let fake = Fake::new((0..4).map(|_| Reply::Json(200, config_map("s", 7))).collect());
    let cluster = &fake.cluster;
    let created = cluster.create(Resource::ConfigMaps, "shop", &config_map("s", 1), true).await.unwrap();
    assert_eq!((created.kind(), created.version()), ("ConfigMap", Some(7)));
    cluster.create(Resource::ConfigMaps, "shop", &config_map("s", 1), false).await.unwrap();
    cluster.json_patch(DEPLOYMENTS, "shop", "web", &ops, false).await.unwrap();
    cluster.merge_patch(Resource::ConfigMaps, "shop", "s", &json!({"metadata": {}}), true).await.unwrap();
    let seen = fake.seen();
    for (request, own) in seen.iter().zip(["", "", "", "-annotate"]) {
        assert_eq!(request.query["fieldManager"], format!("saferollback{own}"));
        assert_eq!(request.query["fieldValidation"], "Strict");
    }
    let dry: Vec<Option<&str>> = seen.iter().map(|r| r.query.get("dryRun").map(String::as_str)).collect();
    assert_eq!(dry, [Some("All"), None, None, Some("All")]);
    assert_eq!((seen[1].method.as_str(), seen[1].path.as_str()), ("POST", "/api/v1/namespaces/shop/configmaps"));
    assert_eq!(
        (seen[2].method.as_str(), seen[2].path.as_str()),
        ("PATCH", "/apis/apps/v1/namespaces/shop/deployments/web")
    );
    assert_eq!((seen[2].content_type.as_str(), &seen[2].body), ("application/json-patch+json", &ops));
    assert_eq!(seen[3].content_type, "application/merge-patch+json");
}

#[tokio::test]
async fn a_body_is_sent_byte_for_byte_in_its_order() {
    let body: Value = serde_json::from_str(r#"{"z":1.50,"a":0.10,"metadata":{"name":"s"}}"#).unwrap();
    let fake = Fake::new(vec![Reply::Json(200, config_map("s", 7))]);
    fake.cluster.create(Resource::ConfigMaps, "shop", &body, false).await.unwrap();
    assert_eq!(fake.seen()[0].body.to_string(), r#"{"z":1.50,"a":0.10,"metadata":{"name":"s"}}"#);
}

#[tokio::test]
async fn a_failed_test_is_told_from_an_invalid_template() {
    let generic = "the server rejected our request due to an error in our request";
    assert!(matches!(patch(status(422, "Invalid", generic)).await, WriteError::TestFailed { .. }));
    let details = json!({"name": "web", "kind": "Deployment", "causes": [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.template.spec.containers[0].image"}]});
    let error = patch(status_with(422, "Invalid", "Deployment.apps \"web\" is invalid", details)).await;
    assert_eq!(
        error.to_string(),
        "cannot patch deployments web in namespace shop: spec.template.spec.containers[0].image: Required value"
    );
    assert!(matches!(error, WriteError::Invalid { .. }));
    // Only a JSON patch has tests.
    assert!(matches!(create(status(422, "Invalid", generic)).await, WriteError::Invalid { .. }));
    let strict = "strict decoding error: unknown field \"spec.foo\"";
    assert!(matches!(create(status(400, "BadRequest", strict)).await, WriteError::Invalid { .. }));
}

/// Measured on 1.35: strict validation of a JSON patch quotes the whole patched object.
#[tokio::test]
async fn a_refused_patch_does_not_repeat_the_object() {
    let quoted = r#"Invalid value: "{\"data\":{\"pin\":\"hunter2\"}}": strict decoding error: unknown field "foo""#;
    let long = format!("Invalid value: \"{}\": must be shorter", "hunter2 ".repeat(40));
    let details = json!({"causes": [{"reason": "FieldValueInvalid", "field": "patch", "message": quoted},
        {"reason": "FieldValueInvalid", "field": "data", "message": long}]});
    let error = patch(status_with(422, "Invalid", "hunter2", details)).await.to_string();
    assert!(!error.contains("hunter2") && error.contains("unknown field \"foo\""), "{error}");
    assert!(error.ends_with("; data: must be shorter"), "{error}");
}

/// Measured on 1.35: the server calls it an attempt to change an immutable field.
#[tokio::test]
async fn a_uid_in_a_merge_patch_is_a_precondition() {
    let details = json!({"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid",
        "message": "Invalid value: \"x\": field is immutable"}]});
    let fake = Fake::new(vec![status_with(422, "Invalid", "invalid", details)]);
    let body = json!({"metadata": {"uid": "x"}});
    let error = fake.cluster.merge_patch(Resource::ConfigMaps, "shop", "s", &body, false).await.unwrap_err();
    assert!(matches!(error, WriteError::Conflict { .. }), "{error}");
}

#[tokio::test]
async fn the_two_kinds_of_409_are_different() {
    let exists = create(status(409, "AlreadyExists", "configmaps \"s\" already exists")).await;
    assert!(matches!(exists, WriteError::AlreadyExists { .. }));
    assert_eq!(exists.to_string(), "cannot create configmaps s in namespace shop: it exists already");
    assert!(matches!(
        patch(status(409, "Conflict", "the object has been modified")).await,
        WriteError::Conflict { .. }
    ));
}

/// Without this a full quota, a missing right and a namespace that goes would be one answer (C73).
#[tokio::test]
async fn who_forbade_it() {
    let by = |error: WriteError| match error {
        WriteError::Forbidden { by, .. } => by,
        other => panic!("{other}"),
    };
    let forbidden = |message: &str| status(403, "Forbidden", message);
    assert_eq!(
        by(create(forbidden("configmaps is forbidden: User \"eve\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"shop\"")).await),
        Ban::Rights
    );
    assert_eq!(
        by(create(forbidden("configmaps \"s\" is forbidden: exceeded quota: q, requested: count/configmaps=1")).await),
        Ban::Quota
    );
    assert_eq!(by(create(forbidden("pods \"p\" is forbidden: failed quota: q: must specify cpu")).await), Ban::Quota);
    assert_eq!(
        by(create(forbidden("pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\"")).await),
        Ban::Admission
    );
    let terminating =
        "configmaps \"s\" is forbidden: unable to create new content in namespace shop because it is being terminated";
    assert_eq!(by(create(forbidden(terminating)).await), Ban::Terminating);
    let details = json!({"causes": [{"reason": "NamespaceTerminating", "message": "namespace shop is being terminated", "field": "metadata.namespace"}]});
    assert_eq!(by(create(status_with(403, "Forbidden", "no", details)).await), Ban::Terminating);
}

/// Without this a denial would be taken for a failed precondition, and its words lost (C33).
#[tokio::test]
async fn a_webhook_is_quoted_whatever_code_it_chose() {
    for code in [400, 403, 409, 422, 500] {
        let message = "admission webhook \"policy.example.com\" denied the request: images\nmust be signed";
        let error = patch(status(code, "", message)).await;
        assert!(matches!(error, WriteError::Denied { .. }), "{code}: {error}");
        assert!(error.to_string().ends_with("denied the request: images must be signed"), "one line: {error}");
    }
    let policy =
        "deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
    assert!(matches!(patch(status(422, "Invalid", policy)).await, WriteError::Denied { .. }));
    // It could not be asked: nothing was stored.
    let failed =
        patch(status(500, "InternalError", "Internal error occurred: failed calling webhook \"x\": refused")).await;
    assert!(matches!(failed, WriteError::Api { code: 500, .. }) && !failed.outcome_unknown());
}

/// Without this another Pod of that name could be evicted, a rehearsal could evict one, or a budget would be taken for a
/// server that is busy.
#[tokio::test]
async fn an_eviction_is_of_one_pod_and_a_budget_is_told() {
    let pod = Object(json!({"metadata": {"name": "web-1", "namespace": "shop", "uid": "u-1"}}));
    let done = || status(201, "", "");
    let budget =
        json!({"causes": [{"reason": "DisruptionBudget", "message": "careful needs 2 healthy pods and has 2"}]});
    let no = "Cannot evict pod as it would violate the pod's disruption budget.";
    let refused = || status_with(429, "TooManyRequests", no, budget.clone());
    let fake = Fake::new(vec![done(), done(), refused(), status(429, "TooManyRequests", "busy")]);
    fake.cluster.evict(&pod, true).await.unwrap();
    fake.cluster.evict(&pod, false).await.unwrap();
    let error = fake.cluster.evict(&pod, false).await.unwrap_err();
    assert!(matches!(error, WriteError::Budget { .. }) && !error.outcome_unknown());
    assert!(error.to_string().ends_with("careful needs 2 healthy pods and has 2"), "{error}");
    assert!(matches!(fake.cluster.evict(&pod, false).await.unwrap_err(), WriteError::Api { code: 429, .. }));
    let seen = fake.seen();
    assert_eq!(seen.len(), 4, "a write is sent once");
    assert_eq!(
        (seen[0].method.as_str(), seen[0].path.as_str()),
        ("POST", "/api/v1/namespaces/shop/pods/web-1/eviction")
    );
    assert_eq!(seen[0].body["deleteOptions"]["preconditions"]["uid"], "u-1");
    let dry: Vec<Option<&str>> = seen.iter().map(|r| r.query.get("dryRun").map(String::as_str)).collect();
    assert_eq!(dry, [Some("All"), None, None, None]);
}

// kube-rs/kube#2082: a POST that was answered 503 or 504 may have been carried out.
#[tokio::test]
async fn writes_are_never_repeated_and_doubt_is_said() {
    let cases = [
        Reply::Cut,
        Reply::Silence,
        status(500, "InternalError", "etcdserver: request timed out"),
        status(503, "ServiceUnavailable", "busy"),
        status(504, "Timeout", "timed out"),
        Reply::Raw(502, vec![], "<html>".to_string()),
        // Done, but the answer is garbled.
        Reply::Raw(201, vec![], "{".to_string()),
    ];
    for reply in cases {
        let error = patch(reply).await;
        assert!(error.outcome_unknown(), "{error}");
        assert!(error.to_string().starts_with("cannot tell whether it was done: "), "{error}");
    }
    let refused = patch(Reply::Raw(429, vec![("retry-after", "0")], "slow down".to_string())).await;
    assert!(matches!(refused, WriteError::Api { code: 429, .. }) && !refused.outcome_unknown());
}

#[tokio::test]
async fn a_dry_run_leaves_no_doubt() {
    for reply in [Reply::Cut, status(503, "ServiceUnavailable", "busy"), Reply::Raw(200, vec![], "{".to_string())] {
        let fake = Fake::new(vec![reply]);
        let error = fake.cluster.json_patch(DEPLOYMENTS, "shop", "web", &json!([]), true).await.unwrap_err();
        assert!(!error.outcome_unknown(), "{error}");
    }
}

#[tokio::test]
async fn a_write_needs_one_place() {
    let fake = Fake::new(vec![]);
    for (namespace, name) in [("", "web"), ("shop", ""), ("shop", "../x")] {
        let error = fake.cluster.json_patch(DEPLOYMENTS, namespace, name, &json!([]), false).await.unwrap_err();
        assert!(matches!(error, WriteError::BadName { .. }), "{error}");
    }
    assert!(fake.cluster.create(DEPLOYMENTS, "", &json!({}), false).await.is_err());
}
