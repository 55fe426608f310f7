//! A small blocking client for tests. Bodies are raw JSON, so that a test sees exactly what the server answers;
//! spawning kubectl for every step would cost 100 ms each.

use http::{Method, Request, header};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Tells the harness's own requests from the product's in the audit log.
pub const USER_AGENT: &str = "saferollback-tests";

/// One kind of object as the API's paths name it.
#[derive(Clone, Copy)]
pub struct Resource {
    base: &'static str,
    plural: &'static str,
}

impl Resource {
    pub const fn new(base: &'static str, plural: &'static str) -> Self {
        Self { base, plural }
    }
}

pub const NAMESPACES: Resource = Resource::new("/api/v1", "namespaces");
pub const CONFIGMAPS: Resource = Resource::new("/api/v1", "configmaps");
pub const PODS: Resource = Resource::new("/api/v1", "pods");
pub const EVENTS: Resource = Resource::new("/api/v1", "events");
pub const EVENTS_V1: Resource = Resource::new("/apis/events.k8s.io/v1", "events");
pub const SERVICES: Resource = Resource::new("/api/v1", "services");
pub const SERVICE_ACCOUNTS: Resource = Resource::new("/api/v1", "serviceaccounts");
pub const DEPLOYMENTS: Resource = Resource::new("/apis/apps/v1", "deployments");
pub const REPLICASETS: Resource = Resource::new("/apis/apps/v1", "replicasets");
pub const STATEFULSETS: Resource = Resource::new("/apis/apps/v1", "statefulsets");
pub const DAEMONSETS: Resource = Resource::new("/apis/apps/v1", "daemonsets");
pub const CONTROLLER_REVISIONS: Resource = Resource::new("/apis/apps/v1", "controllerrevisions");

/// Status code and body of one response, whatever the code.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    /// The body of a success; a failure is the test's failure, with what the server said.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "the server answered {}: {}", self.status, self.body);
        self.body
    }

    /// For callers that meet failures in normal work, such as a Pod that went meanwhile.
    pub fn result(self) -> Result<Value, Answer> {
        if (200..300).contains(&self.status) { Ok(self.body) } else { Err(self) }
    }
}

/// A connection to one API server.
pub struct Client {
    runtime: Runtime,
    client: kube::Client,
}

impl Client {
    pub fn new(kubeconfig: &Path) -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for the test client");
        let client = runtime.block_on(async {
            let file = Kubeconfig::read_from(kubeconfig).expect("the control plane's kubeconfig is readable");
            let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .expect("the control plane's kubeconfig is complete");
            // A test wants the first answer, also when it is 429 or 504.
            config.default_retry = false;
            // One of the connection would run while nobody asks, since the runtime stands still then.
            config.read_timeout = None;
            kube::Client::try_from(config).expect("a client for the control plane")
        });
        Self { runtime, client }
    }

    fn send(&self, request: Request<Body>) -> Answer {
        self.runtime.block_on(async {
            let what = format!("{} {}", request.method(), request.uri());
            let response = match tokio::time::timeout(Duration::from_secs(60), self.client.send(request)).await {
                Ok(Ok(response)) => response,
                problem => panic!("the control plane does not answer {what}: {problem:?}"),
            };
            let status = response.status().as_u16();
            let bytes = response.into_body().collect_bytes().await.expect("a whole response");
            // Health checks and some errors are plain text.
            let body = serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
            Answer { status, body }
        })
    }

    /// A call to the path of a resource: a collection without `name`, one object with it.
    pub fn call(&self, resource: Resource, namespace: Option<&str>, name: Option<&str>) -> Call<'_> {
        let mut path = resource.base.to_owned();
        for (before, part) in [("/namespaces/", namespace), ("/", Some(resource.plural)), ("/", name)] {
            if let Some(part) = part {
                path.push_str(before);
                path.push_str(part);
            }
        }
        Call { client: self, path, query: Vec::new(), accept: "application/json" }
    }
}

/// One request in the making; the last method sends it.
#[must_use]
pub struct Call<'a> {
    client: &'a Client,
    path: String,
    query: Vec<(String, String)>,
    accept: &'static str,
}

impl Call<'_> {
    /// A subresource such as `status` or `binding`.
    pub fn sub(mut self, name: &str) -> Self {
        self.path.push('/');
        self.path.push_str(name);
        self
    }

    pub fn query(mut self, key: &str, value: &str) -> Self {
        self.query.push((key.to_owned(), value.to_owned()));
        self
    }

    pub fn accept(mut self, media_type: &'static str) -> Self {
        self.accept = media_type;
        self
    }

    pub fn get(self) -> Answer {
        self.send(Method::GET, None)
    }

    pub fn create(self, body: &Value) -> Answer {
        self.send(Method::POST, Some(("application/json", body)))
    }

    pub fn replace(self, body: &Value) -> Answer {
        self.send(Method::PUT, Some(("application/json", body)))
    }

    pub fn merge_patch(self, body: &Value) -> Answer {
        self.send(Method::PATCH, Some(("application/merge-patch+json", body)))
    }

    pub fn json_patch(self, body: &Value) -> Answer {
        self.send(Method::PATCH, Some(("application/json-patch+json", body)))
    }

    /// Server-side apply, taking fields over where others own them.
    pub fn apply(self, manager: &str, body: &Value) -> Answer {
        self.query("fieldManager", manager)
            .query("force", "true")
            .send(Method::PATCH, Some(("application/apply-patch+yaml", body)))
    }

    /// With DeleteOptions, `{}` for the defaults.
    pub fn delete(self, options: &Value) -> Answer {
        self.send(Method::DELETE, Some(("application/json", options)))
    }

    fn send(self, method: Method, body: Option<(&'static str, &Value)>) -> Answer {
        let mut uri = self.path;
        for (index, (key, value)) in self.query.iter().enumerate() {
            uri.push(if index == 0 { '?' } else { '&' });
            uri.push_str(key);
            uri.push('=');
            uri.push_str(&escape(value));
        }
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::ACCEPT, self.accept)
            .header(header::USER_AGENT, USER_AGENT);
        let bytes = match body {
            Some((kind, body)) => {
                request = request.header(header::CONTENT_TYPE, kind);
                serde_json::to_vec(body).expect("JSON is writable")
            }
            None => Vec::new(),
        };
        self.client.send(request.body(Body::from(bytes)).expect("a well-formed request"))
    }
}

/// Percent-encodes a query value.
fn escape(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}
