//! Failures → words and exit codes.

use crate::cluster::kubeconfig::KubeconfigError;
use crate::cluster::read::ReadError;
use crate::core::contents::NoSuchVersion;
use crate::run::Failure;

/// The exit codes. The report carries the outcome in words too, since Windows flattens plugin exit codes.
pub const COULD_NOT: u8 = 1;
pub const USAGE: u8 = 2;
/// The answer is no: refused, not safe, not found. The workload was not written.
pub const NO: u8 = 3;
pub const INTERRUPTED: u8 = 130;
#[cfg(unix)]
pub const TERMINATED: u8 = 143;

pub fn exit_code(failure: &Failure) -> u8 {
    match failure {
        Failure::Target(_) | Failure::Usage(_) | Failure::Several { .. } | Failure::Ambiguous { .. } => USAGE,
        Failure::NoRevisionOf { .. } | Failure::NoRevision(_) => NO,
        Failure::NoVersion(
            NoSuchVersion::NoDigest { .. } | NoSuchVersion::NoNumber { .. } | NoSuchVersion::Gone { .. },
        ) => NO,
        Failure::NoVersion(_) => USAGE,
        Failure::Interrupted => INTERRUPTED,
        _ => COULD_NOT,
    }
}

/// `diff` says 1 for a difference, so whatever could not be done is 2, as with diff(1).
pub fn exit_code_of_diff(failure: &Failure) -> u8 {
    match exit_code(failure) {
        COULD_NOT => USAGE,
        code => code,
    }
}

/// kubectl's form of an error, and at most one hint.
pub fn words(failure: &Failure) -> (String, Option<String>) {
    let hint = match failure {
        Failure::NotFound { namespace, .. } => {
            Some(format!("it was looked for in namespace {namespace}; -n names another"))
        }
        Failure::Several { .. } | Failure::Ambiguous { .. } => Some("name one as TYPE/NAME".into()),
        Failure::Read(ReadError::Unreachable { cause, .. }) if cause.contains("CaUsedAsEndEntity") => {
            Some("the server shows the certificate of a CA itself; it needs one that the CA has signed".into())
        }
        Failure::Read(ReadError::Unreachable { cause, .. }) if cause.contains("invalid peer certificate") => Some(
            "--certificate-authority names the CA of the server, --tls-server-name a name in its certificate".into(),
        ),
        Failure::Read(ReadError::Api { code: 401, .. }) => {
            Some("the server does not take these credentials: sign in again, or name another --user".into())
        }
        Failure::Read(ReadError::Api { code: 400, message, .. })
            if message.contains("HTTP request to an HTTPS server") =>
        {
            Some("a server without a scheme is reached without TLS, as by kubectl: write https:// before it".into())
        }
        Failure::Read(ReadError::Unreachable { .. }) => {
            Some("is the cluster up, and is this the right --context?".into())
        }
        Failure::Read(ReadError::NoCredentials { hint, .. }) => hint.clone(),
        Failure::Kubeconfig(KubeconfigError::None { .. }) => {
            Some("--kubeconfig names a file, KUBECONFIG a list of them, --server an API server".into())
        }
        _ => None,
    };
    let text = match failure {
        Failure::NotFound { kind, name, .. } => {
            format!("Error from server (NotFound): {} {name:?} not found", plural(kind))
        }
        Failure::Read(ReadError::Forbidden { .. }) => format!("Error from server (Forbidden): {failure}"),
        other => format!("error: {other}"),
    };
    (text, hint)
}

fn plural(kind: &str) -> String {
    match kind {
        "workload" => "workload".into(),
        kind => format!("{kind}s.apps"),
    }
}
