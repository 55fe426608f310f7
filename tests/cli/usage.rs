//! What a wrong command line gets: one clear error, exit code 2 or 1, and no request.

use crate::support::product::{self, Ran};
use std::fs;

#[track_caller]
fn refused(arguments: &[&str], code: i32, words: &[&str]) -> Ran {
    let ran = product::run(arguments).expect(code);
    assert_eq!(ran.stdout, "", "an error leaves stdout empty");
    for word in words {
        assert!(ran.stderr.contains(word), "{word:?} is missing in {:?}", ran.stderr);
    }
    ran
}

/// Otherwise a typo would be taken for another command, or for none.
#[test]
fn usage_errors_exit_2() {
    refused(&["undo", "web", "--to-revision", "x", "-y"], 2, &["--to-revision"]);
    refused(&["undo", "web", "--to-revision", "99999999999999999999", "-y"], 2, &["--to-revision"]);
    refused(&["undo", "web", "--to-revision", "-1", "-y"], 2, &[]);
    refused(&["histroy", "web"], 2, &["history"]);
    for verb in ["history", "check", "diff", "status", "observe", "undo"] {
        refused(&[verb, "web", "-o", "table"], 2, &["wide, json, yaml, name and jsonpath="]);
    }
    refused(&["history", "web", "-o", "jsonpath={.a"], 2, &["'{' has no end"]);
    refused(&["undo", "pods/web", "-y"], 2, &["pods", "deployment"]);
    refused(&["history", "deploy/"], 2, &["names no workload"]);
    refused(&["history", "deployment"], 2, &["names no workload"]);
    refused(&["undo", "web", "-y", "--use", "settings"], 2, &["NAME=FILE"]);
    refused(&["undo", "web", "-y", "--timeout", "soon"], 2, &["duration"]);
    refused(&["undo", "web", "-y", "--settle", "long"], 2, &["duration"]);
    refused(&["undo", "-y"], 2, &["TYPE/NAME"]);
    refused(&["undo", "web", "-y", "--to-time", "yesterday"], 2, &["write 10m"]);
    refused(&["undo", "web", "-y", "--to-time", "10m", "--to-revision", "1"], 2, &["--to-time"]);
    refused(&["undo", "web", "worker", "-y", "--to-revision", "1"], 2, &["--to-revision names a revision of one"]);
    refused(&["undo", "web", "-l", "app=web", "-y"], 2, &["--selector"]);
    refused(&["history", "cm/"], 2, &["names no ConfigMap"]);
    refused(&["history", "cm/settings", "--revision", "1"], 2, &["no revisions"]);
    refused(&["restore", "-y"], 2, &["configmap/NAME"]);
    refused(&["restore", "settings", "-y"], 2, &["configmap/NAME"]);
    refused(&["restore", "deploy/web", "-y"], 2, &["configmap/NAME"]);
    refused(&["restore", "cm/settings", "-y", "--from", "/nonexistent.yaml"], 1, &["/nonexistent.yaml"]);
    refused(&["diff", "web", "--from", "x"], 2, &["--from"]);
    refused(&[], 2, &["Usage"]);
}

/// Otherwise a flag of a later version would be accepted and do nothing (C95).
#[test]
fn what_is_not_built_is_not_accepted() {
    for flag in ["--exec", "--include-secrets", "--force"] {
        refused(&["undo", "web", flag, "-y"], 2, &[flag.split('=').next().expect("a flag")]);
    }
}

/// Otherwise a proof that was asked for would silently not be given.
#[test]
fn a_proof_and_a_way_back_need_the_wait() {
    for flag in ["--verify=replace", "--on-failure=revert"] {
        refused(&["undo", "web", flag, "--wait=false", "-y"], 2, &["come after the wait for the rollout"]);
    }
}

/// Otherwise a script without a terminal would wait for an answer for ever, or write without one (C96).
#[test]
fn no_terminal_and_no_yes_is_refused_before_any_request() {
    // No kubeconfig is there, so any attempt to connect would fail with another error.
    refused(&["undo", "web"], 2, &["error: undo needs --yes when there is no terminal to ask on"]);
    refused(&["restore", "cm/x"], 2, &["error: restore needs --yes when there is no terminal to ask on"]);
}

/// Otherwise a person would search for the reason in the cluster (C96).
#[test]
fn a_missing_kubeconfig_and_context_are_named() {
    refused(&["history", "web", "--kubeconfig", "/nonexistent/config"], 1, &["/nonexistent/config"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config");
    fs::write(&file, "apiVersion: v1\nkind: Config\ncontexts: [{name: one, context: {cluster: c, user: u}}]\n")
        .expect("write");
    let file = file.display().to_string();
    refused(&["history", "web", "--kubeconfig", &file, "--context", "two"], 1, &["two", "one"]);
}

/// Otherwise the version of an installed plugin could not be told.
#[test]
fn version_and_help_go_to_stdout() {
    let version = product::run(&["version"]).expect(0);
    assert_eq!(version.stdout, format!("kubectl-saferollback v{}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(product::run(&["--version"]).expect(0).stdout, version.stdout);
    let help = product::run(&["--help"]).expect(0);
    assert!(help.stdout.contains("kubectl saferollback history TYPE/NAME"), "{}", help.stdout);
    assert!(help.stdout.lines().count() <= 40, "the help fits a screen");
}
