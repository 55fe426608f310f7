//! With few rights: what may not be read is unknown, never absent; and Secrets are never read.

use super::undo::writes;
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, Resource};
use crate::support::control_plane::{ControlPlane, Namespace};
use crate::support::incident::{self, AGED};
use crate::support::kubelet::Play;
use crate::support::player::Player;
use crate::support::product::Ran;
use crate::support::proxy::{Act, Proxy};
use crate::support::rights;
use serde_json::{Value, json};
use std::thread;

const SECRETS: Resource = Resource::new("/api/v1", "secrets");

/// Two ConfigMaps, one of them optional, and a Secret.
fn workload(namespace: &Namespace) -> Player {
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    namespace.all(CONFIGMAPS).create(&json!({"metadata": {"name": "other"}, "data": {"a": "1"}})).ok();
    let secret = json!({"metadata": {"name": "password"}, "stringData": {"PASSWORD": "correct-horse"}});
    namespace.all(SECRETS).create(&secret).ok();
    thread::sleep(AGED);
    let mut web = incident::web(1);
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json!([
        {"configMapRef": {"name": "settings"}},
        {"configMapRef": {"name": "other", "optional": true}},
        {"secretRef": {"name": "password"}},
    ]);
    namespace.all(DEPLOYMENTS).create(&web).ok();
    let player = Player::run(namespace, |_| Some(Play::ready()));
    incident::rolled_out(namespace, "web");
    incident::release(namespace, "two");
    incident::rolled_out(namespace, "web");
    player
}

fn verdict(document: &Value, name: &str) -> String {
    let references = document["revisions"][0]["references"].as_array().into_iter().flatten();
    let found = references.into_iter().find(|r| r["name"] == name).unwrap_or_else(|| panic!("{name}: {document:#}"));
    found["verdict"].as_str().expect("a word").to_string()
}

/// Without this a person with the rights of a developer could not use the tool, or would be told that what they may
/// not see does not exist.
#[test]
fn forbidden_is_not_absent() {
    let namespace = ControlPlane::main().namespace("few");
    let _player = workload(&namespace);
    let few = rights::here(
        &namespace,
        &json!([
            {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["settings"], "verbs": ["get", "list"]},
        ]),
    );
    let run = |arguments: &[&str]| -> Ran {
        let mut command = namespace.product(arguments);
        command.env("KUBECONFIG", few.path()).output().expect("the binary runs").into()
    };
    // The bare name asks for kinds that are forbidden too.
    let history = run(&["history", "web", "--revision", "2", "-o", "json"]).expect(0).document();
    assert_eq!(verdict(&history, "other"), "unreadable", "{history:#}");
    assert_eq!(verdict(&history, "password"), "unreadable", "{history:#}");
    let settings = verdict(&history, "settings");
    assert!(["same", "likely-same", "unknown"].contains(&&*settings), "{settings}: {history:#}");
    let table = run(&["history", "deploy/web"]).expect(0).stdout;
    assert!(table.contains("Unknown"), "{table}");

    let check = run(&["check", "web", "--to-revision", "1", "-o", "json"]).expect(3).document();
    assert_eq!(check["safe"], false, "what cannot be read is not safe");
    let undo = run(&["undo", "web", "--to-revision", "1", "-y", "-o", "json"]).expect(3).document();
    let refusals = undo["refusals"].as_array().cloned().unwrap_or_default();
    for reference in ["ConfigMap/other", "Secret/password"] {
        let found = refusals.iter().find(|r| r["reference"] == reference).expect("a refusal");
        assert_eq!(found["code"], "unreadable", "{found:#}");
    }
    let live = run(&["undo", "web", "--to-revision", "1", "--config=live", "-y"]).expect(3);
    assert!(live.stderr.contains("patch") && live.stderr.contains("deployments"), "the missing right: {}", live.stderr);
    assert_eq!(writes(&namespace), [""; 0], "a missing right is found by the dry run");

    let nothing = namespace.product(&["history", "absent"]).env("KUBECONFIG", few.path()).output().expect("it runs");
    let nothing = Ran::from(nothing);
    assert_ne!(nothing.code, 0);
    assert!(
        nothing.stderr.to_lowercase().contains("forbidden") || nothing.stderr.contains("statefulsets"),
        "StatefulSets could not be looked at, so \"not found\" says too much: {}",
        nothing.stderr
    );
}

/// Without this a tool that needs no Secret would copy all of them over the line.
#[test]
fn secrets_are_asked_for_as_metadata_only() {
    let namespace = ControlPlane::main().namespace("metadata");
    let _player = workload(&namespace);
    let proxy = Proxy::new(&namespace, |_, _| Act::Pass);
    for arguments in [
        &["history", "web", "-o", "json"][..],
        &["check", "web", "--to-revision", "1", "-o", "json"],
        &["undo", "web", "--to-revision", "1", "-y", "-o", "json"],
    ] {
        let ran = proxy.run(&namespace, arguments);
        assert!(!ran.stdout.contains("correct-horse") && !ran.stderr.contains("correct-horse"), "{ran:?}");
    }
    let log = proxy.log();
    let secrets: Vec<_> =
        log.iter().filter(|p| p.line().ends_with("/secrets") || p.target.contains("/secrets/")).collect();
    assert!(secrets.len() >= 3, "the detector must have seen some");
    for passing in secrets {
        assert!(passing.method == "GET" && !passing.target.contains("watch=true"), "{passing:?}");
        let metadata = passing.accept.split(',').all(|kind| kind.contains("as=PartialObjectMetadata"));
        assert!(metadata && !passing.accept.is_empty(), "{}: {}", passing.target, passing.accept);
    }
}
