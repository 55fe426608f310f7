//! All traffic with a cluster, and the same reads from files.
//!
//! `kubeconfig` decides where to go and as whom, `proxy` by which way, `plugin` and `keys` get and keep what requests
//! are signed with, `connect` builds the client, `read`, `write` and `watch` speak to the API server, `probe` through it
//! to Pods and Services, `offline` answers the reads from a dump. Objects stay raw JSON in both directions. Nothing here
//! prints: what a person should hear while a call is still running goes to [`Cluster::on_notice`].

pub mod connect;
mod dump;
mod exchange;
pub mod follow;
mod keys;
pub mod kubeconfig;
pub mod offline;
mod one_first;
mod plugin;
pub mod probe;
mod proxy;
pub mod read;
pub mod watch;
pub mod write;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cluster::connect::ConnectError;
use crate::cluster::keys::Keys;
use crate::cluster::kubeconfig::Connection;
use crate::cluster::read::ReadError;

/// Something a person should hear while a call is still going on. The text comes from the cluster: escape it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A `Warning:` header of the API server, each text once a run.
    Warning(String),
    /// Something about the connection that a person may not expect.
    Note(String),
    /// A read is about to be repeated.
    Retry { call: String, cause: String, wait: Duration },
    /// A request is on its way, or what signs it is being got: `GET https://…`. It never holds a credential.
    Sent { number: u64, call: String },
    /// That request came to its end: with a status, or with none.
    Answered { number: u64, call: String, status: Option<u16>, took: Duration },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Warning(text) | Notice::Note(text) => f.write_str(text),
            Notice::Retry { call, cause, wait } => write!(f, "{call}: {cause}; trying again in {wait:?}"),
            Notice::Sent { call, .. } => f.write_str(call),
            Notice::Answered { call, status, took, .. } => {
                let status = status.map_or("no answer".to_string(), |code| code.to_string());
                write!(f, "{call} {status} in {} milliseconds", took.as_millis())
            }
        }
    }
}

/// How long to wait for an answer, and how often to ask again for a read.
#[derive(Clone, Debug)]
pub struct Patience {
    /// The deadline of one request, its body included; `None` waits for ever.
    pub request: Option<Duration>,
    /// That of a credential plugin; `None`: longer where somebody may be signing in.
    pub sign_in: Option<Duration>,
    /// The pauses before the repetitions of a failed read, unless the server names its own.
    pub pauses: Vec<Duration>,
    /// No repetition starts later than this after the first try.
    pub all: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            request: Some(Duration::from_secs(30)),
            sign_in: None,
            pauses: [200, 800, 2000].map(Duration::from_millis).to_vec(),
            all: Duration::from_secs(10),
        }
    }
}

type Listener = Box<dyn Fn(Notice) + Send + Sync>;

/// What all clones of a [`Cluster`] share.
#[derive(Default)]
struct Line {
    requests: AtomicU64,
    /// Numbers for notices about them.
    calls: AtomicU64,
    warned: Mutex<BTreeSet<String>>,
    /// The last note about a repetition, and when that was.
    retried: Mutex<Option<(Notice, Instant)>>,
    listener: Mutex<Option<Listener>>,
    failed: Mutex<Vec<String>>,
}

/// One API server, spoken to as one user. Clones share the connection.
#[derive(Clone)]
pub struct Cluster {
    client: kube::Client,
    /// None of a client made elsewhere.
    keys: Option<Arc<Keys>>,
    server: Arc<str>,
    /// May the server compress long answers? It does from 128 KiB on.
    compressed: bool,
    patience: Patience,
    line: Arc<Line>,
}

impl Cluster {
    /// Prepares the client; nothing is sent or run yet. Asynchronous only because the client needs a running runtime.
    ///
    /// # Errors
    /// When certificates, keys or tokens of the connection cannot be used.
    pub async fn connect(connection: &Connection) -> Result<Cluster, ConnectError> {
        let keys = Arc::new(Keys::new(connection)?);
        let client = connect::client(connection, Arc::clone(&keys))?;
        let mut cluster = Cluster::over(client, &connection.server);
        cluster.keys = Some(keys);
        cluster.compressed = !connection.config.disable_compression;
        if let Some(limit) = connection.request_timeout {
            cluster.patience.request = Some(limit).filter(|limit| !limit.is_zero());
        }
        Ok(cluster)
    }

    /// A cluster behind a client made elsewhere: the seam for tests.
    pub fn over(client: kube::Client, server: &str) -> Cluster {
        let (patience, line) = (Patience::default(), Arc::default());
        Cluster { client, keys: None, server: server.into(), compressed: false, patience, line }
    }

    pub fn with_patience(self, patience: Patience) -> Cluster {
        Cluster { patience, ..self }
    }

    /// Where notices go from now on. Without a listener they are dropped.
    pub fn on_notice(&self, listener: impl Fn(Notice) + Send + Sync + 'static) {
        *self.line.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(listener));
    }

    /// The server's address, as printed in plans and reports.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Requests sent so far, repetitions and watches included.
    pub fn requests(&self) -> u64 {
        self.line.requests.load(Ordering::Relaxed)
    }

    /// Reads that failed so far for a reason that may be gone next time: not for lack of a right, and not because there is
    /// nothing. What was concluded without them is less than could be known.
    pub fn failed_reads(&self) -> Vec<String> {
        self.line.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_failed(&self, error: &ReadError) {
        let lasting = matches!(
            error,
            ReadError::Forbidden { .. }
                | ReadError::NotFound { .. }
                | ReadError::Expired { .. }
                | ReadError::TooNew { .. }
                | ReadError::BadName { .. }
        );
        if !lasting {
            self.line.failed.lock().unwrap_or_else(PoisonError::into_inner).push(error.to_string());
        }
    }

    fn tell(&self, notice: Notice) {
        // Reads that run side by side meet the same: once is enough.
        if let Notice::Retry { call, cause, wait } = &notice {
            let mut last = self.line.retried.lock().unwrap_or_else(PoisonError::into_inner);
            let beside = last.as_ref().is_some_and(|(said, at)| {
                matches!(said, Notice::Retry { call: c, cause: a, wait: w } if c != call && a == cause && w == wait)
                    && at.elapsed() < Duration::from_secs(1)
            });
            if beside {
                return;
            }
            *last = Some((notice.clone(), Instant::now()));
        }
        if let Some(listener) = &*self.line.listener.lock().unwrap_or_else(PoisonError::into_inner) {
            listener(notice);
        }
    }
}

/// The text of a file or stream that may come from Windows: UTF-8 with or without a byte order mark, or UTF-16
/// with one (what PowerShell's `>` writes).
fn decode(bytes: &[u8]) -> Result<String, &'static str> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, rest) = bytes.as_chunks::<2>();
        if !rest.is_empty() {
            return Err("not valid UTF-16");
        }
        String::from_utf16(&pairs.iter().map(|pair| unit(*pair)).collect::<Vec<_>>()).map_err(|_| "not valid UTF-16")
    };
    match bytes {
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8(rest.to_vec()).map_err(|_| "not valid UTF-8"),
        _ => String::from_utf8(bytes.to_vec()).map_err(|_| "not valid UTF-8"),
    }
}
