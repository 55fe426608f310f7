//! A scripted API server behind `kube::Client`: it gives its replies in order and keeps every request.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use saferollback::cluster::{Cluster, Notice, Patience};
use serde_json::{Value, json};
use tower::BoxError;

pub enum Reply {
    Json(u16, Value),
    Raw(u16, Vec<(&'static str, &'static str)>, String),
    /// The connection ends without an answer.
    Cut,
    /// No answer ever.
    Silence,
}

#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
    pub accept: String,
    pub content_type: String,
    pub body: Value,
}

#[derive(Clone)]
pub struct Fake {
    pub cluster: Cluster,
    seen: Arc<Mutex<Vec<Seen>>>,
    notices: Arc<Mutex<Vec<Notice>>>,
}

impl Fake {
    pub fn new(replies: Vec<Reply>) -> Fake {
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let replies = Arc::new(Mutex::new(VecDeque::from(replies)));
        let log = seen.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, replies) = (log.clone(), replies.clone());
            async move {
                let (head, body) = request.into_parts();
                let bytes = body.collect_bytes().await?;
                let header = |name: &str| head.headers.get(name).map_or("", |v| v.to_str().unwrap()).to_string();
                log.lock().unwrap().push(Seen {
                    method: head.method.to_string(),
                    path: head.uri.path().to_string(),
                    query: query(head.uri.query().unwrap_or("")),
                    accept: header("accept"),
                    content_type: header("content-type"),
                    body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
                });
                let reply = replies.lock().unwrap().pop_front().expect("a request that the test did not foresee");
                match reply {
                    Reply::Json(code, value) => Ok(answer(code, &[], value.to_string())),
                    Reply::Raw(code, headers, text) => Ok(answer(code, &headers, text)),
                    Reply::Cut => Err(BoxError::from("connection reset by peer")),
                    Reply::Silence => std::future::pending().await,
                }
            }
        });
        let cluster = Cluster::over(kube::Client::new(service, "default"), "https://fake").with_patience(patience());
        let notices: Arc<Mutex<Vec<Notice>>> = Arc::default();
        let heard = notices.clone();
        cluster.on_notice(move |notice| {
            if !matches!(notice, Notice::Sent { .. } | Notice::Answered { .. }) {
                heard.lock().unwrap().push(notice);
            }
        });
        Fake { cluster, seen, notices }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn notices(&self) -> Vec<Notice> {
        self.notices.lock().unwrap().clone()
    }
}

/// The default's shape in milliseconds.
pub fn patience() -> Patience {
    Patience {
        sign_in: None,
        request: Some(Duration::from_millis(200)),
        pauses: vec![Duration::from_millis(1); 3],
        all: Duration::from_secs(10),
    }
}

fn answer(code: u16, headers: &[(&str, &str)], text: String) -> Response<Body> {
    let mut response = Response::builder().status(code);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Body::from(text.into_bytes())).unwrap()
}

fn query(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap()).map(|(key, value)| (decode(key), decode(value))).collect()
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let hex = [rest.next().unwrap(), rest.next().unwrap()];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}

pub fn status(code: u16, reason: &str, message: &str) -> Reply {
    status_with(code, reason, message, json!({}))
}

pub fn status_with(code: u16, reason: &str, message: &str, details: Value) -> Reply {
    Reply::Json(
        code,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
               "message": message, "reason": reason, "details": details, "code": code}),
    )
}

pub fn config_map(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"),
           "resourceVersion": version.to_string()}, "data": {"k": "v"}})
}

pub fn list(version: &str, next: Option<&str>, items: Vec<Value>) -> Reply {
    let mut metadata = json!({"resourceVersion": version});
    if let Some(next) = next {
        metadata["continue"] = next.into();
    }
    Reply::Json(200, json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items}))
}
