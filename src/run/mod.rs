//! One file a verb, read top to bottom in stage order.

pub mod check;
pub mod complete;
pub mod contents;
pub mod diff;
pub mod history;
pub mod observation;
pub mod observe;
mod owners;
pub mod prune;
mod recorded;
pub mod restore;
pub mod several;
pub mod snapshot;
pub mod status;
pub mod travel;
pub mod undo;
pub mod wait;
mod ways;
mod writes;

use std::path::PathBuf;

use crate::cluster::connect::ConnectError;
use crate::cluster::kubeconfig::{Connection, ConnectionFlags, Environment, KubeconfigError};
use crate::cluster::offline::{Dump, DumpError};
use crate::cluster::read::ReadError;
use crate::cluster::write::WriteError;
use crate::cluster::{Cluster, Notice};
use crate::core::contents::NoSuchVersion;
use crate::core::history::NoSuchRevision;
use crate::core::plan::Plan;
use crate::core::pods::Standing;
use crate::core::report::Document;
use crate::core::workload::{Kind, TargetError};

/// Where the objects come from.
pub enum Source {
    Live(Cluster),
    Dump(Dump),
}

/// A source and the names that go with it.
pub struct Scene {
    pub source: Source,
    pub namespace: String,
    pub context: String,
    pub server: String,
}

/// How far an undo has come: what an interruption has to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    NothingWritten,
    /// Snapshots may exist; the workload is as it was.
    Snapshots,
    /// The patch was sent and not answered: the workload is in its old state or its new one.
    Patching,
    /// The workload is at the new template.
    Patched,
}

/// What a wait says. The cli prints it; nothing here does.
pub trait Waiting {
    /// kubectl's waiting sentences.
    fn progress(&mut self, line: &str);
    fn note(&mut self, line: &str);
    /// Where the rollout stands, at each look: for who draws it.
    fn standing(&mut self, _standing: &Standing) {}
}

/// What a verb says while it runs.
pub trait Voice: Waiting {
    /// The plan, before anything is written.
    fn plan(&mut self, document: &Document, plan: &Plan);
    /// The plans for several workloads, before anything is written.
    fn plans(&mut self, plans: &[(Document, Plan)]);
    /// The one question about the plan.
    ///
    /// # Errors
    /// When it cannot be asked.
    fn confirm(&mut self, question: &str) -> Result<bool, Failure>;
    /// A result: `configmap/x created`.
    fn done(&mut self, line: &str);
    fn warn(&mut self, line: &str);
    /// Why the run ends with a failure, and what else is known of it.
    fn fail(&mut self, line: &str, reasons: &[String]);
    fn phase(&mut self, phase: Phase);
}

/// Why a verb has no result. The cli maps each to words and an exit code.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Dump(#[from] DumpError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("{kind} {name:?} not found in namespace {namespace}")]
    NotFound { kind: String, name: String, namespace: String },
    #[error("no workload in namespace {namespace}")]
    NoWorkload { namespace: String },
    #[error("no workload in the files; they hold {kinds}")]
    NoWorkloadInFiles { kinds: String },
    #[error("{name:?} is the name of several workloads: {}", .found.join(", "))]
    Ambiguous { name: String, found: Vec<String> },
    #[error("which workload? There are {}", .found.join(", "))]
    Several { found: Vec<String> },
    #[error("{0}s are not supported yet, only Deployments")]
    NotYet(Kind),
    #[error("{0}")]
    NoRevision(NoSuchRevision),
    #[error("{name}: {why}")]
    NoRevisionOf { name: String, why: NoSuchRevision },
    #[error("{0}")]
    NoVersion(NoSuchVersion),
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Given(String),
    #[error("interrupted: nothing was written")]
    Interrupted,
}

/// Reads the files, or decides the connection.
pub async fn scene(
    flags: &ConnectionFlags,
    from_file: &[PathBuf],
    on_notice: impl Fn(Notice) + Send + Sync + 'static,
) -> Result<Scene, Failure> {
    scene_in(flags, &Environment::of_process(), from_file, on_notice).await
}

async fn scene_in(
    flags: &ConnectionFlags,
    environment: &Environment,
    from_file: &[PathBuf],
    on_notice: impl Fn(Notice) + Send + Sync + 'static,
) -> Result<Scene, Failure> {
    if from_file.is_empty() {
        let connection = Connection::load(flags, environment)?;
        let cluster = Cluster::connect(&connection).await?;
        for said in connection.notices {
            on_notice(said);
        }
        cluster.on_notice(on_notice);
        return Ok(Scene {
            server: cluster.server().to_string(),
            source: Source::Live(cluster),
            namespace: connection.namespace,
            context: connection.context,
        });
    }
    let dump = Dump::load(from_file, &mut std::io::stdin())?;
    let namespaces = dump.workload_namespaces();
    let namespace = match (&flags.namespace, namespaces.len()) {
        (Some(namespace), _) => namespace.clone(),
        (None, 1) => namespaces.first().cloned().unwrap_or_default(),
        (None, 0) => String::new(),
        (None, _) => {
            let all: Vec<String> = namespaces.into_iter().collect();
            return Err(Failure::Usage(format!(
                "the files hold workloads of several namespaces ({}): name one with -n",
                all.join(", ")
            )));
        }
    };
    Ok(Scene { source: Source::Dump(dump), namespace, context: String::new(), server: "files".into() })
}
