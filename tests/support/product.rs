//! Runs the built binary as a person would, in an environment of its own.

use super::control_plane::Namespace;
use super::schema;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub const BINARY: &str = env!("CARGO_BIN_EXE_kubectl-saferollback");

/// One finished run.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        Self { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Ran {
    /// The document on stdout, checked against the schema.
    #[track_caller]
    pub fn document(&self) -> Value {
        let document = serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("no document ({e}) in {self:?}"));
        schema::check(&document);
        schema::check_digest(&document);
        document
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// Exit code, stdout and stderr in one text, as snapshots hold them.
    pub fn whole(&self) -> String {
        format!("exit {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

/// The binary without any of this machine's settings: no kubeconfig, no home, no colour, no proxies.
pub fn command() -> Command {
    let mut command = Command::new(BINARY);
    command.env_clear().env("HOME", "/nonexistent").stdin(Stdio::null());
    command
}

pub fn run(arguments: &[&str]) -> Ran {
    command().args(arguments).output().expect("the binary runs").into()
}

impl Namespace {
    /// The binary against this namespace.
    pub fn product(&self, arguments: &[&str]) -> Command {
        let mut command = command();
        command.env("KUBECONFIG", &self.plane.kubeconfig).args(arguments).args(["-n", &self.name]);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.product(arguments).output().expect("the binary runs").into()
    }
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
