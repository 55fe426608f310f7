use saferollback::cluster::probe::{Answered, MOST};
use saferollback::cluster::read::{ReadError, Resource};
use serde_json::json;

use crate::cluster::fake::{Fake, Reply, status};

async fn ask(reply: Reply) -> (Result<Answered, ReadError>, Fake) {
    let fake = Fake::new(vec![reply]);
    (fake.cluster.probe(Resource::Pods, "shop", "web-1", Some(8080), "/ready?deep=1").await, fake)
}

/// Without this a Pod that says that it is not ready could not be told from one that nobody reaches.
#[tokio::test]
async fn what_the_application_says_is_an_answer() {
    let (answer, fake) = ask(Reply::Raw(503, vec![], "not well".into())).await;
    assert_eq!(answer.unwrap(), Answered { status: 503, body: b"not well".to_vec(), whole: true });
    let seen = &fake.seen()[0];
    assert_eq!((&*seen.method, &*seen.path), ("GET", "/api/v1/namespaces/shop/pods/web-1:8080/proxy/ready"));
    assert_eq!(seen.query["deep"], "1");
    // Asked once: a 503 is not asked for again.
    assert_eq!(fake.cluster.requests(), 1);
    for (code, body) in [
        (503, json!({"kind": "Status", "status": "down"})),
        (503, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500})),
        (200, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 200})),
        (404, json!("not here")),
        (302, json!("")),
    ] {
        let (answer, _) = ask(Reply::Json(code, body.clone())).await;
        assert_eq!(answer.unwrap().status, code, "{body}");
    }
}

/// Without this the API server's words about itself would be told as the application's.
#[tokio::test]
async fn what_the_api_server_says_itself_is_none() {
    let (answer, _) = ask(status(503, "ServiceUnavailable", "error trying to reach service: dial tcp: refused")).await;
    let error = answer.unwrap_err();
    assert!(matches!(error, ReadError::Api { code: 503, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "cannot get pods/proxy web-1 in namespace shop: error trying to reach service: dial tcp: refused (503 ServiceUnavailable)"
    );
    let (answer, _) = ask(status(403, "Forbidden", "pods \"web-1\" is forbidden")).await;
    assert!(matches!(answer.unwrap_err(), ReadError::Forbidden { .. }));
    let (answer, _) = ask(Reply::Cut).await;
    assert!(matches!(answer.unwrap_err(), ReadError::Unreachable { .. }));
    let (answer, _) = ask(Reply::Silence).await;
    assert!(matches!(answer.unwrap_err(), ReadError::Timeout { .. }));
}

/// Without this an endless answer would fill the memory.
#[tokio::test]
async fn an_answer_is_read_up_to_a_limit() {
    for (length, whole) in [(MOST, true), (MOST + 1, false)] {
        let (answer, _) = ask(Reply::Raw(200, vec![], "x".repeat(length))).await;
        let answer = answer.unwrap();
        assert_eq!((answer.body.len(), answer.whole), (MOST, whole));
    }
}

/// Without this an odd path would ask the API server for something else.
#[tokio::test]
async fn what_is_no_path_is_not_sent() {
    let fake = Fake::new(vec![]);
    for path in ["ready", "/a b", ""] {
        let answer = fake.cluster.probe(Resource::Services, "shop", "web", None, path).await;
        assert!(matches!(answer.unwrap_err(), ReadError::BadName { .. }), "{path}");
    }
    let answer = fake.cluster.probe(Resource::Services, "shop", "../x", None, "/").await;
    assert!(matches!(answer.unwrap_err(), ReadError::BadName { .. }));
    assert_eq!(fake.cluster.requests(), 0);
}
