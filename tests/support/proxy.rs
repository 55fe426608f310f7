//! Stands between the binary and an API server, so that a test can act at one certain request: change something just
//! before a patch arrives, cut the connection, answer in the server's place, or slow everything down.
//!
//! The binary speaks plain HTTP/1.1 to the proxy; the proxy speaks to the server as a kubeconfig's user.

use super::control_plane::Namespace;
use super::product::Ran;
use futures_util::AsyncBufReadExt;
use http::{Method, Request};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use std::net::{SocketAddr, TcpStream as Plain};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// One request on its way, and what became of it.
#[derive(Clone, Debug)]
pub struct Passing {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub accept: String,
    pub body: Vec<u8>,
    /// What the binary was told; `None` where the connection was cut.
    pub status: Option<u16>,
    pub began: Instant,
    pub ended: Option<Instant>,
}

impl Passing {
    pub fn dry_run(&self) -> bool {
        self.target.contains("dryRun=All")
    }

    /// Does it ask for a lasting change?
    pub fn writes(&self) -> bool {
        self.method != "GET" && !self.dry_run()
    }

    /// Is it the one patch of the workload?
    pub fn is_the_patch(&self) -> bool {
        self.method == "PATCH" && self.target.contains("/deployments/") && !self.dry_run()
    }

    /// `PATCH /apis/…/web`, without the query.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.target.split('?').next().unwrap_or_default())
    }
}

/// What is done with a request.
pub enum Act {
    Pass,
    /// Later. Requests that wait do so side by side.
    After(Duration),
    /// The connection ends before the server hears of it.
    CutBefore,
    /// The server has done it, but its answer is lost.
    CutAfter,
    /// The server's answer, with this done to it.
    Change(Box<dyn FnOnce(&mut Value) + Send>),
    /// An answer in the server's place.
    Answer(u16, Value),
}

/// Called for each request in turn, on a thread where it may take its time; the number counts from 0.
type Rule = Box<dyn FnMut(usize, &Passing) -> Act + Send>;

struct Shared {
    rule: Mutex<(usize, Rule)>,
    log: Mutex<Vec<Passing>>,
    stop: AtomicBool,
    cut: Notify,
}

pub struct Proxy {
    pub kubeconfig: PathBuf,
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Proxy {
    pub fn new(namespace: &Namespace, rule: impl FnMut(usize, &Passing) -> Act + Send + 'static) -> Self {
        Self::as_user(&namespace.plane.kubeconfig, rule)
    }

    /// In front of the server of `upstream`, as its user.
    pub fn as_user(upstream: &Path, rule: impl FnMut(usize, &Passing) -> Act + Send + 'static) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket for the runtime");
        let address = listener.local_addr().expect("an address");
        let directory = tempfile::tempdir().expect("a directory");
        let kubeconfig = directory.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: proxy\nclusters:\n- name: proxy\n  cluster:\n    server: http://{address}\ncontexts:\n- name: proxy\n  context:\n    cluster: proxy\n    user: nobody\nusers:\n- name: nobody\n  user: {{}}\n"
        );
        std::fs::write(&kubeconfig, text).expect("a file");
        let shared = Arc::new(Shared {
            rule: Mutex::new((0, Box::new(rule))),
            log: Mutex::new(Vec::new()),
            stop: AtomicBool::new(false),
            cut: Notify::new(),
        });
        let (upstream, inner) = (upstream.to_owned(), Arc::clone(&shared));
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(serve(listener, upstream, inner));
            // A rule that still waits for its test must not keep the test from ending.
            runtime.shutdown_background();
        });
        Self { kubeconfig, address, shared, thread: Some(thread), _directory: directory }
    }

    pub fn log(&self) -> Vec<Passing> {
        lock(&self.shared.log).clone()
    }

    /// Ends every connection that is open, watches too.
    pub fn cut(&self) {
        self.shared.cut.notify_waiters();
    }

    /// The binary against this namespace, through the proxy.
    pub fn product(&self, namespace: &Namespace, arguments: &[&str]) -> Command {
        let mut command = namespace.product(arguments);
        command.env("KUBECONFIG", &self.kubeconfig);
        command
    }

    pub fn run(&self, namespace: &Namespace, arguments: &[&str]) -> Ran {
        self.product(namespace, arguments).output().expect("the binary runs").into()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let _ = Plain::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A panic elsewhere is that thread's own failure.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: std::net::TcpListener, upstream: PathBuf, shared: Arc<Shared>) {
    let file = Kubeconfig::read_from(upstream).expect("the upstream kubeconfig is readable");
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .expect("the upstream kubeconfig is complete");
    config.default_retry = false;
    config.read_timeout = None;
    let client = kube::Client::try_from(config).expect("a client for the control plane");
    let listener = TcpListener::from_std(listener).expect("a listening socket");
    while let Ok((stream, _)) = listener.accept().await {
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        let (client, shared) = (client.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            let cut = shared.cut.notified();
            tokio::select! {
                _ = connection(stream, client, Arc::clone(&shared)) => {}
                () = cut => {}
            }
        });
    }
}

/// `None` at the end of the connection, whoever ended it.
async fn connection(mut stream: TcpStream, client: kube::Client, shared: Arc<Shared>) -> Option<()> {
    let _ = stream.set_nodelay(true);
    loop {
        let request = receive(&mut stream).await?;
        let accept = request.headers().get("accept").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        let passing = Passing {
            method: request.method().to_string(),
            target: request.uri().to_string(),
            accept,
            body: request.body().clone(),
            status: None,
            began: Instant::now(),
            ended: None,
        };
        let at = {
            let mut log = lock(&shared.log);
            log.push(passing.clone());
            log.len() - 1
        };
        let ruling = Arc::clone(&shared);
        // On a thread of its own: a rule may block, and the test client brings a runtime of its own.
        let act = tokio::task::spawn_blocking(move || {
            let mut rule = lock(&ruling.rule);
            let number = rule.0;
            rule.0 += 1;
            (rule.1)(number, &passing)
        });
        let answered = |status: u16| {
            let mut log = lock(&shared.log);
            log[at].status = Some(status);
            log[at].ended = Some(Instant::now());
        };
        let change = match act.await.ok()? {
            Act::Pass => None,
            Act::After(pause) => {
                tokio::time::sleep(pause).await;
                None
            }
            Act::CutBefore => return None,
            Act::CutAfter => {
                if request.uri().query().unwrap_or_default().contains("watch=true") {
                    let _ = client.request_stream(request).await;
                } else {
                    let _ = client.send(request.map(Body::from)).await.ok()?.into_body().collect_bytes().await;
                }
                return None;
            }
            Act::Answer(status, body) => {
                // As the API server asks for patience.
                let patience = if status == 429 { vec!["Retry-After: 1\r\n".to_string()] } else { Vec::new() };
                answer(&mut stream, status, &patience, body.to_string().as_bytes()).await?;
                answered(status);
                continue;
            }
            Act::Change(change) => Some(change),
        };
        if request.uri().query().unwrap_or_default().contains("watch=true") {
            match client.request_stream(request).await {
                Ok(lines) => {
                    answered(200);
                    return copy(&mut stream, lines).await;
                }
                Err(kube::Error::Api(status)) => {
                    let body = serde_json::to_vec(&*status).ok()?;
                    answer(&mut stream, status.code, &[], &body).await?;
                    answered(status.code);
                }
                Err(_) => return None,
            }
            continue;
        }
        let response = client.send(request.map(Body::from)).await.ok()?;
        let status = response.status().as_u16();
        let warnings: Vec<String> = response
            .headers()
            .get_all("warning")
            .iter()
            .filter_map(|value| Some(format!("Warning: {}\r\n", value.to_str().ok()?)))
            .collect();
        let mut body = response.into_body().collect_bytes().await.ok()?.to_vec();
        if let Some(change) = change {
            let mut value: Value = serde_json::from_slice(&body).expect("the answer to change is JSON");
            change(&mut value);
            body = value.to_string().into_bytes();
        }
        answer(&mut stream, status, &warnings, &body).await?;
        answered(status);
    }
}

async fn receive(stream: &mut TcpStream) -> Option<Request<Vec<u8>>> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let mut body = bytes.split_off(head + 4);
    let text = String::from_utf8(bytes).ok()?;
    let mut lines = text.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let mut request = Request::builder().method(Method::from_bytes(first.next()?.as_bytes()).ok()?).uri(first.next()?);
    let mut length = 0;
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            // Of this connection only.
            "host" | "connection" | "accept-encoding" => {}
            "transfer-encoding" => panic!("the proxy reads bodies of a stated length only"),
            _ => request = request.header(name, value),
        }
    }
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    request.body(body).ok()
}

async fn answer(stream: &mut TcpStream, status: u16, headers: &[String], body: &[u8]) -> Option<()> {
    let head = format!(
        "HTTP/1.1 {status} Answer\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n",
        body.len(),
        headers.concat()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).await.ok()
}

/// A watch: each piece as it comes, until either side ends.
async fn copy(stream: &mut TcpStream, lines: impl futures_util::AsyncBufRead) -> Option<()> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut lines = std::pin::pin!(lines);
    loop {
        let piece = lines.as_mut().fill_buf().await.ok()?.to_vec();
        let length = piece.len();
        let chunk = [format!("{length:x}\r\n").as_bytes(), &piece, b"\r\n"].concat();
        stream.write_all(&chunk).await.ok()?;
        if length == 0 {
            return None;
        }
        lines.as_mut().consume(length);
    }
}

/// How many requests had to follow one another: the longest row in which each began after the one before had ended.
pub fn rounds(log: &[Passing]) -> usize {
    let mut spans: Vec<(Instant, Instant)> = log.iter().filter_map(|p| Some((p.began, p.ended?))).collect();
    spans.sort_by_key(|(_, ended)| *ended);
    let mut last: Option<Instant> = None;
    let mut rounds = 0;
    for (began, ended) in spans {
        if last.is_none_or(|last| began >= last) {
            rounds += 1;
            last = Some(ended);
        }
    }
    rounds
}
