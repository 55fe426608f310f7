//! The real control planes that `tests/run` starts. A test that cannot reach its control plane fails; it never
//! skips, since a skipped test would look like a kept promise.

use super::client::{CONFIGMAPS, Call, Client, NAMESPACES, Resource, SERVICE_ACCOUNTS};
use serde_json::{Value, json};
use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// One running control plane.
#[derive(Clone)]
pub struct ControlPlane {
    /// Full rights.
    pub kubeconfig: PathBuf,
    pub directory: PathBuf,
    client: Arc<Client>,
}

impl ControlPlane {
    /// The control plane most tests share, each in a namespace of its own.
    pub fn main() -> Self {
        Self::from_environment("SAFEROLLBACK_TEST_MAIN")
    }

    /// For tests that end etcd's history, which would take it from the tests beside them: one at a time.
    pub fn compact() -> Alone {
        static ALONE: Mutex<()> = Mutex::new(());
        // A failed test leaves nothing behind that would disturb the next one.
        let turn = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Alone { plane: Self::from_environment("SAFEROLLBACK_TEST_COMPACT"), _turn: turn }
    }

    /// Pods and Events have an etcd of their own each: resourceVersions of different types do not compare.
    pub fn split() -> Self {
        Self::from_environment("SAFEROLLBACK_TEST_SPLIT")
    }

    fn from_environment(variable: &str) -> Self {
        let Some(directory) = std::env::var_os(variable) else {
            panic!("{variable} is not set: this test needs a real control plane; run it with tests/run");
        };
        Self::open(Path::new(&directory))
    }

    /// Opens a control plane by its state directory, and refuses every server that these tests did not start.
    pub fn open(directory: &Path) -> Self {
        let kubeconfig = directory.join("kubeconfig");
        let server = read(&directory.join("server"));
        // Checked in the file the client reads, not only in the note beside it.
        let config = read(&kubeconfig);
        assert!(
            server.starts_with("https://127.0.0.1:")
                && config.lines().any(|line| line.trim() == format!("server: {server}")),
            "refused: {server} is not the loopback server that these tests started"
        );
        let plane = Self { client: Arc::new(Client::new(&kubeconfig)), kubeconfig, directory: directory.to_owned() };
        let marker = plane.call(CONFIGMAPS, Some("kube-system"), Some("saferollback-tests")).get();
        assert!(
            marker.body["data"]["marker"] == read(&directory.join("marker")),
            "refused: {server} carries no marker of these tests (answer {})",
            marker.status
        );
        plane
    }

    /// The same control plane over a connection of its own, for another thread.
    pub fn reconnect(&self) -> Self {
        Self { client: Arc::new(Client::new(&self.kubeconfig)), ..self.clone() }
    }

    pub fn call(&self, resource: Resource, namespace: Option<&str>, name: Option<&str>) -> Call<'_> {
        self.client.call(resource, namespace, name)
    }

    /// A fresh namespace. Nothing deletes it: it goes with the control plane.
    pub fn namespace(&self, prefix: &str) -> Namespace {
        // RandomState is the standard library's only source of randomness, and enough for a name.
        let name = format!("{prefix}-{:08x}", RandomState::new().build_hasher().finish() as u32);
        self.call(NAMESPACES, None, None).create(&json!({"metadata": {"name": name}})).ok();
        // Without the account no Pod is admitted, and the workload controllers then wait before they try again.
        wait("the namespace's default service account", || {
            (self.call(SERVICE_ACCOUNTS, Some(&name), Some("default")).get().status == 200).then_some(())
        });
        Namespace { plane: self.clone(), name }
    }

    /// Ends history: what was written before is no longer readable from any of the etcds.
    pub fn compact_history(&self) {
        for url in read(&self.directory.join("etcd-urls")).lines() {
            let address = url.strip_prefix("http://").expect("etcd listens without TLS");
            let status = etcd(address, "/v3/maintenance/status", &json!({}));
            let revision = status["header"]["revision"].clone();
            assert!(revision.is_string(), "etcd told no revision: {status}");
            compact(address, &revision);
        }
    }

    /// What was asked of the API server about one namespace so far, in the order of the answers.
    pub fn audit(&self, namespace: &str) -> Vec<AuditEvent> {
        // An entry is written just before the end of its response, which a client may see a moment earlier.
        // A request of our own that is in the log has everything before it in the log too.
        let probe = format!("audit-{:016x}", RandomState::new().build_hasher().finish());
        self.call(CONFIGMAPS, Some(namespace), Some(&probe)).get();
        let log = wait("the audit log", || {
            let log = fs::read(self.directory.join("audit.log")).expect("the audit log is readable");
            let log = String::from_utf8(log).expect("the audit log is text");
            log.contains(&probe).then_some(log)
        });
        let quoted = format!("\"namespace\":\"{namespace}\"");
        log.lines()
            .filter(|line| line.contains(&quoted) && !line.contains("/configmaps/audit-"))
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|event| event["stage"] == "ResponseComplete")
            .map(AuditEvent::from)
            .collect()
    }

    /// The kubectl that was built with this control plane.
    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        self.kubectl_with(&self.kubeconfig, arguments)
    }

    /// The same with another way to the server.
    pub fn kubectl_with(&self, kubeconfig: &Path, arguments: &[&str]) -> Output {
        Command::new(PathBuf::from(read(&self.directory.join("tools"))).join("kubectl"))
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            // No proxy, no user's settings: the server is on loopback.
            .env("KUBERC", "off")
            .env("NO_PROXY", "127.0.0.1")
            .output()
            .expect("kubectl runs")
    }
}

/// A control plane that one test has for itself until this is dropped.
pub struct Alone {
    plane: ControlPlane,
    _turn: MutexGuard<'static, ()>,
}

impl Deref for Alone {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        &self.plane
    }
}

/// A namespace of one test.
#[derive(Clone)]
pub struct Namespace {
    pub plane: ControlPlane,
    pub name: String,
}

impl Namespace {
    pub fn at(&self, resource: Resource, name: &str) -> Call<'_> {
        self.plane.call(resource, Some(&self.name), Some(name))
    }

    pub fn all(&self, resource: Resource) -> Call<'_> {
        self.plane.call(resource, Some(&self.name), None)
    }

    /// The items of a list.
    #[track_caller]
    pub fn items(&self, resource: Resource) -> Vec<Value> {
        items(self.all(resource).get().ok())
    }

    /// The LIST that reads one object as it was at `version`.
    pub fn back_at(&self, resource: Resource, name: &str, version: &str) -> super::client::Answer {
        self.all(resource)
            .query("fieldSelector", &format!("metadata.name={name}"))
            .query("resourceVersion", version)
            .query("resourceVersionMatch", "Exact")
            .get()
    }

    pub fn audit(&self) -> Vec<AuditEvent> {
        self.plane.audit(&self.name)
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        self.plane.kubectl(&[&["--namespace", &self.name], arguments].concat())
    }
}

/// One request as the API server saw it.
#[derive(Debug)]
pub struct AuditEvent {
    pub verb: String,
    pub resource: String,
    pub subresource: String,
    pub name: String,
    pub uri: String,
    pub user_agent: String,
    pub dry_run: bool,
    pub code: i64,
    /// Whom the server took the request for, whoever sent it.
    pub user: Value,
}

impl From<Value> for AuditEvent {
    fn from(event: Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let uri = text(&event["requestURI"]);
        Self {
            verb: text(&event["verb"]),
            resource: text(&event["objectRef"]["resource"]),
            subresource: text(&event["objectRef"]["subresource"]),
            name: text(&event["objectRef"]["name"]),
            user_agent: text(&event["userAgent"]),
            // A deletion's dry run may also stand in its body, which is not logged: ask for it by query.
            dry_run: uri.split(['?', '&']).any(|part| part == "dryRun=All"),
            code: event["responseStatus"]["code"].as_i64().unwrap_or_default(),
            user: match &event["impersonatedUser"] {
                Value::Null => event["user"].clone(),
                user => user.clone(),
            },
            uri,
        }
    }
}

impl AuditEvent {
    /// Whether the request asked for a lasting change, also when it was refused.
    pub fn mutating(&self) -> bool {
        !self.dry_run && matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }
}

/// Polls until there is an answer; the wait is long only where the machine is busy.
#[track_caller]
pub fn wait<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(Instant::now() < end, "waited 30 s in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The items of a list, by value.
pub fn items(mut list: Value) -> Vec<Value> {
    match list["items"].take() {
        Value::Array(items) => items,
        other => panic!("a list has items, this has {other}"),
    }
}

/// An object's resourceVersion as a number.
#[track_caller]
pub fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no numeric resourceVersion in {object}"))
}

fn read(path: &Path) -> String {
    match fs::read_to_string(path) {
        Ok(text) => text.trim_end().to_owned(),
        Err(error) => panic!("{}: {error}; control planes are started by tests/run", path.display()),
    }
}

/// Another test may have done it meanwhile, and further.
fn compact(address: &str, revision: &Value) {
    let answer = call_etcd(address, "/v3/kv/compaction", &json!({"revision": revision, "physical": true}));
    assert!(answer.is_ok() || answer.as_ref().is_err_and(|text| text.contains("has been compacted")), "{answer:?}");
}

fn etcd(address: &str, path: &str, body: &Value) -> Value {
    call_etcd(address, path, body).unwrap_or_else(|answer| panic!("etcd refused {path}: {answer}"))
}

/// One call through etcd's HTTP gateway; the error is the whole answer. HTTP/1.0, so that it is not in chunks.
fn call_etcd(address: &str, path: &str, body: &Value) -> Result<Value, String> {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).expect("etcd answers");
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("etcd reads the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("etcd answers in text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    if head.split(' ').nth(1) != Some("200") {
        return Err(answer);
    }
    Ok(serde_json::from_str(body).expect("etcd answers in JSON"))
}
