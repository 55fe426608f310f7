//! Credential plugins (`exec` in a kubeconfig): run once, with a deadline, as client-go runs them.
//!
//! kube runs a plugin three times per client, without a deadline, without asking whether there is a terminal, and never
//! again when its token is refused.

use std::fmt;
use std::io::IsTerminal;
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::cluster::kubeconfig::{Token, filled};

/// How long a plugin may take with nobody at the terminal, and with somebody who signs in.
const ALONE: Duration = Duration::from_secs(60);
const ATTENDED: Duration = Duration::from_secs(300);

/// More than any credential is long.
const LONGEST: u64 = 1 << 20;

/// A plugin to run.
#[derive(Clone, PartialEq)]
pub struct Plugin {
    command: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    version: String,
    mode: ExecInteractiveMode,
    hint: String,
    /// What it is told about the cluster, if it asks for that.
    cluster: Option<Value>,
    /// It may neither ask nor say anything.
    unattended: bool,
}

impl fmt::Debug for Plugin {
    /// Without arguments and environment: they may hold credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plugin({:?})", self.command)
    }
}

/// What a plugin gave.
pub(super) struct Given {
    pub token: Option<Token>,
    /// Certificate and key, in PEM.
    pub certificate: Option<(String, Token)>,
    pub expires: Option<Timestamp>,
}

/// Why a plugin gave nothing. No message repeats what it printed.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub cause: String,
    /// How to install it, in the kubeconfig's words.
    pub hint: Option<String>,
}

impl Plugin {
    /// `cluster` is what a plugin with provideClusterInfo is told.
    ///
    /// # Errors
    /// What is wrong with the entry, by kubectl's rules.
    pub(super) fn new(exec: &ExecConfig, cluster: Value, unattended: bool) -> Result<Plugin, String> {
        let command = filled(&exec.command).ok_or("has a credential plugin (exec) without a command")?;
        let version = filled(&exec.api_version).ok_or("has a credential plugin (exec) without an apiVersion")?;
        let mode = match (version.as_str(), &exec.interactive_mode) {
            ("client.authentication.k8s.io/v1" | "client.authentication.k8s.io/v1beta1", Some(mode)) => mode.clone(),
            ("client.authentication.k8s.io/v1beta1", None) => ExecInteractiveMode::IfAvailable,
            ("client.authentication.k8s.io/v1", None) => {
                return Err(
                    "has a credential plugin (exec) without an interactiveMode: IfAvailable, Never or Always".into()
                );
            }
            (other, _) => {
                return Err(format!(
                    "has a credential plugin (exec) of apiVersion {other:?}; known are client.authentication.k8s.io/v1 and v1beta1"
                ));
            }
        };
        let mut env = Vec::new();
        for entry in exec.env.iter().flatten() {
            let name = entry.get("name").filter(|name| !name.is_empty());
            let name = name.ok_or("has a credential plugin (exec) with an env entry without a name")?;
            env.push((name.clone(), entry.get("value").cloned().unwrap_or_default()));
        }
        Ok(Plugin {
            command,
            args: exec.args.clone().unwrap_or_default(),
            env,
            version,
            mode,
            hint: exec.install_hint.clone().unwrap_or_default(),
            cluster: exec.provide_cluster_info.then_some(cluster),
            unattended,
        })
    }

    /// Runs it, its words going to our stderr. `limit` in place of the usual deadline.
    pub(super) async fn run(&self, limit: Option<Duration>) -> Result<Given, Failed> {
        let fail =
            |cause: String| Failed { cause: format!("the credential plugin {:?} {cause}", self.command), hint: None };
        let terminal = !self.unattended && std::io::stdin().is_terminal();
        let interactive = match self.mode {
            ExecInteractiveMode::Never => false,
            ExecInteractiveMode::IfAvailable => terminal,
            ExecInteractiveMode::Always if terminal => true,
            ExecInteractiveMode::Always => {
                return Err(fail("needs a terminal (interactiveMode: Always), and stdin is none".to_string()));
            }
        };
        let limit = limit.unwrap_or(if terminal { ATTENDED } else { ALONE });
        let mut command = Command::new(&self.command);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("KUBERNETES_EXEC_INFO", self.info(interactive).to_string())
            .stdin(if interactive { Stdio::inherit() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(if self.unattended { Stdio::null() } else { Stdio::inherit() })
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                let hint = Some(self.hint.trim().to_string()).filter(|hint| !hint.is_empty());
                Failed { hint, ..fail("is not installed".to_string()) }
            }
            _ => fail(format!("cannot be run: {error}")),
        })?;
        let run = async {
            let mut answer = Vec::new();
            if let Some(stdout) = child.stdout.take() {
                stdout.take(LONGEST).read_to_end(&mut answer).await?;
            }
            Ok((child.wait().await?, answer))
        };
        let (status, answer) = tokio::time::timeout(limit, run)
            .await
            .map_err(|_| fail(format!("did not end within {limit:?}")))?
            .map_err(|error: std::io::Error| fail(format!("was lost: {error}")))?;
        if !status.success() {
            return Err(fail(format!("failed ({status})")));
        }
        self.given(&answer).map_err(fail)
    }

    fn info(&self, interactive: bool) -> Value {
        let mut spec = Map::new();
        if let Some(cluster) = &self.cluster {
            spec.insert("cluster".to_string(), cluster.clone());
        }
        spec.insert("interactive".to_string(), interactive.into());
        json!({"kind": "ExecCredential", "apiVersion": self.version, "spec": spec})
    }

    /// No message repeats the answer: it holds the credential.
    fn given(&self, answer: &[u8]) -> Result<Given, String> {
        // client-go reads YAML, too.
        let text = String::from_utf8_lossy(answer);
        let read = serde_json::from_str(&text).ok().or_else(|| serde_yaml::from_str(&text).ok());
        let answer: Value = read.ok_or("printed neither JSON nor YAML")?;
        let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        match (text("/kind"), text("/apiVersion")) {
            (Some("ExecCredential"), Some(version)) if version == self.version => {}
            (Some("ExecCredential"), version) => {
                return Err(format!("answered in version {:?}, not {:?}", version.unwrap_or(""), self.version));
            }
            _ => return Err("did not print an ExecCredential".to_string()),
        }
        let token = text("/status/token").map(|token| Token(token.to_string()));
        let certificate = match (text("/status/clientCertificateData"), text("/status/clientKeyData")) {
            (Some(certificate), Some(key)) => Some((certificate.to_string(), Token(key.to_string()))),
            (None, None) => None,
            _ => return Err("gave a certificate without a key, or a key without a certificate".to_string()),
        };
        if token.is_none() && certificate.is_none() {
            return Err("gave neither a token nor a certificate".to_string());
        }
        let expires = match text("/status/expirationTimestamp") {
            Some(time) => Some(time.parse().map_err(|_| "gave an expirationTimestamp that is no time".to_string())?),
            None => None,
        };
        Ok(Given { token, certificate, expires })
    }
}
