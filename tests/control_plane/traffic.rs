//! What a person hears of the requests.

use crate::support::client::{CONFIGMAPS, DEPLOYMENTS};
use crate::support::control_plane::{ControlPlane, Namespace, wait};
use crate::support::hop::{Hop, Kind};
use crate::support::incident;
use crate::support::product::Ran;
use crate::support::proxy::{Act, Proxy};
use crate::support::terminal::Terminal;
use serde_json::json;
use std::fs;
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
    // Ages go on meanwhile.
    assert_eq!(same.stdout.lines().count(), quiet.stdout.lines().count());
}

/// Without this a large ConfigMap would travel at its whole length over a thin line, where kubectl's does not.
#[test]
fn long_answers_travel_compressed_unless_that_is_turned_off() {
    let namespace = ControlPlane::main().namespace("long");
    let text = "the same line again and again\n".repeat(20_000);
    namespace.all(CONFIGMAPS).create(&json!({"metadata": {"name": "long"}, "data": {"text": text}})).ok();
    let kubeconfig = fs::read_to_string(&namespace.plane.kubeconfig).expect("a kubeconfig");
    let (_, server) = kubeconfig.split_once("https://127.0.0.1:").expect("a server");
    let port = server.split(|c: char| !c.is_ascii_digit()).next().expect("a port");
    let line = Hop::start(Kind::Forward(port.parse().expect("a port")), "127.0.0.1:0", None);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kubeconfig");
    let through = kubeconfig.replace(&format!("https://127.0.0.1:{port}"), &format!("https://{}", line.address));
    fs::write(&file, through).expect("written");
    let travelled = |flags: &[&str]| {
        let digest = ["history", "configmap/long", "-o", "jsonpath={.versions[*].digest}"];
        let mut command = namespace.product(&[&digest[..], flags].concat());
        let ran = Ran::from(command.env("KUBECONFIG", &file).output().expect("it runs")).expect(0);
        let connections = wait("the end of the connection", || Some(line.taken()).filter(|all| !all.is_empty()));
        let bytes = connections.iter().filter_map(|line| line.strip_suffix(" bytes")?.parse::<usize>().ok());
        (ran.stdout, bytes.sum::<usize>())
    };
    let (digest, packed) = travelled(&[]);
    let (same, whole) = travelled(&["--disable-compression"]);
    assert!(whole > text.len() && packed < text.len() / 4, "{packed} and {whole} bytes");
    assert_eq!(digest, same);
}
