//! What a person hears of the requests.

use crate::support::client::{CONFIGMAPS, DEPLOYMENTS};
use crate::support::control_plane::{ControlPlane, Namespace};
use crate::support::incident;
use crate::support::proxy::{Act, Proxy};
use crate::support::terminal::Terminal;
use std::time::Duration;

fn deployed(prefix: &str) -> Namespace {
    let namespace = ControlPlane::main().namespace(prefix);
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    namespace.all(DEPLOYMENTS).create(&incident::web(1)).ok();
    namespace
}

/// Without this a person would not know whether the program hangs or the server.
#[test]
fn after_a_second_of_silence_a_terminal_hears_what_is_waited_for() {
    let namespace = deployed("silent");
    let slow = Proxy::new(&namespace, |_, passing| match passing.target.contains("/deployments") {
        true => Act::After(Duration::from_millis(2500)),
        false => Act::Pass,
    });
    let seen = Terminal::start(slow.product(&namespace, &["history", "web"]), 40, 100).end().expect(0).stderr;
    // On a busy machine others may take as long.
    let waits =
        |line: &&str| line.starts_with("Waiting for GET http://127.0.0.1:") && line.contains("/deployments/web");
    assert_eq!(seen.lines().filter(waits).count(), 1, "once: {seen}");
    // A log needs no such line.
    assert!(!slow.run(&namespace, &["history", "web"]).expect(0).stderr.contains("Waiting for"));
}

/// Without this nobody could see which request is slow or refused; with a credential in it nobody could show it.
#[test]
fn v_6_names_each_request_and_no_credential() {
    let namespace = deployed("verbose");
    let quiet = namespace.run(&["history", "web"]).expect(0);
    assert!(!quiet.stderr.contains("milliseconds"), "{}", quiet.stderr);
    let told = namespace.run(&["history", "web", "-v", "6", "--token", "not-to-be-seen"]);
    let lines: Vec<&str> = told.stderr.lines().filter(|line| line.ends_with(" milliseconds")).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.starts_with("GET https://127.0.0.1:")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("/deployments/web ")), "{lines:#?}");
    assert!(!told.stderr.contains("not-to-be-seen"), "{}", told.stderr);
    let same = namespace.run(&["--v=6", "history", "web"]).expect(0);
    assert!(same.stderr.contains("/deployments/web 200 in "), "{}", same.stderr);
    assert_eq!(same.stdout, quiet.stdout);
}
