//! Nothing of a value leaves the cluster: not of a Secret at all, not of a ConfigMap unless it is asked for.

use super::undo::writes;
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, PODS, REPLICASETS, Resource};
use crate::support::control_plane::{ControlPlane, Namespace, wait};
use crate::support::incident::{self, AGED};
use crate::support::player::Player;
use crate::support::product::{self, Ran};
use crate::support::proxy::{Act, Passing, Proxy};
use crate::support::rights;
use saferollback::core::digest::Content;
use saferollback::core::object::Object;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

const SECRETS: Resource = Resource::new("/api/v1", "secrets");
const POLICIES: Resource = Resource::new("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicies");
const BINDINGS: Resource = Resource::new("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings");

/// A password that a dictionary has, and what ConfigMaps and annotations hold.
const PASSWORD: &str = "correct-horse";
const FORMER_PASSWORD: &str = "battery-staple";
const SETTING: &str = "canary-of-settings";
const FORMER_SETTING: &str = "canary-from-before";
const APPLIED: &str = "canary-in-last-applied";
const VENDOR: &str = "canary-of-a-vendor";

/// Two revisions, an edit of the ConfigMap in between, and a Secret beside it.
fn planted(namespace: &Namespace) -> Player {
    let applied = |value: &str| {
        json!({"kubectl.kubernetes.io/last-applied-configuration": json!({"data": {"K": value}}).to_string(),
            "vendor.example/copy": VENDOR})
    };
    let mut settings = incident::settings(FORMER_SETTING, "true");
    settings["metadata"]["annotations"] = applied(APPLIED);
    namespace.all(CONFIGMAPS).create(&settings).ok();
    let secret = json!({"metadata": {"name": "password", "annotations": applied(FORMER_PASSWORD)},
        "stringData": {"PASSWORD": PASSWORD}});
    namespace.all(SECRETS).create(&secret).ok();
    std::thread::sleep(AGED);
    let mut web = incident::web(1);
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"] =
        json!([{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "password"}}]);
    namespace.all(DEPLOYMENTS).create(&web).ok();
    let player = Player::run(namespace, incident::honest(namespace));
    incident::rolled_out(namespace, "web");
    // The new Pod is not ready with it, so the old one stays, and proves.
    incident::edit(namespace, &json!({"CONFIG_REVISION": SETTING, "HEALTHY": "false"}));
    incident::release(namespace, "two");
    wait("the release's Pod", || {
        let started = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["running"].is_object();
        (namespace.items(PODS).iter().filter(|pod| started(pod)).count() == 2).then_some(())
    });
    player
}

/// The first word that a program of the system prints.
fn hashed(program: &str, value: &[u8]) -> String {
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("coreutils");
    child.stdin.take().expect("a pipe").write_all(value).expect("written");
    let text = String::from_utf8(child.wait_with_output().expect("it ends").stdout).expect("text");
    text.split_whitespace().next().expect("a digest").to_string()
}

/// What must not be found: the values in the spellings that they travel in, and of the Secret every plain digest.
fn forbidden() -> Vec<String> {
    let mut all = Vec::new();
    for value in [PASSWORD, FORMER_PASSWORD, SETTING, FORMER_SETTING, APPLIED, VENDOR] {
        all.push(value.to_string());
        // Without its last digits, which depend on what follows.
        let base64 = hashed("base64", value.as_bytes());
        all.push(base64.trim_end_matches('=')[..base64.len() - 4].to_string());
    }
    for value in [PASSWORD, FORMER_PASSWORD] {
        let secret =
            Content { data: [("PASSWORD".to_string(), value.as_bytes().to_vec())].into(), ..Content::default() };
        let canonical = secret.digest().to_string();
        all.push(canonical.trim_start_matches("sr1:")[..12].to_string());
        for program in ["md5sum", "sha1sum", "sha256sum"] {
            for ending in ["", "\n"] {
                all.push(hashed(program, format!("{value}{ending}").as_bytes())[..12].to_string());
            }
        }
    }
    all
}

#[track_caller]
fn clean(what: &str, text: &str) {
    for word in forbidden() {
        assert!(!text.contains(&word), "{word} is in {what}: {text}");
    }
}

#[track_caller]
fn all_clean(ran: &Ran) {
    clean("stdout", &ran.stdout);
    clean("stderr", &ran.stderr);
}

const READING: [&[&str]; 18] = [
    &["history", "web"],
    &["history", "web", "-o", "wide"],
    &["history", "web", "-o", "json"],
    &["history", "web", "-o", "yaml"],
    &["history", "web", "--revision", "1"],
    &["history", "web", "--revision", "2", "-o", "json"],
    &["check", "web", "--to-revision", "1"],
    &["check", "web", "--to-revision", "1", "-o", "json"],
    &["undo", "web", "--to-revision", "1", "--dry-run=client"],
    &["undo", "web", "--to-revision", "1", "--dry-run=server", "-o", "wide"],
    &["undo", "web", "--to-revision", "1", "--dry-run=server", "-o", "json"],
    &["undo", "web", "--to-revision", "1", "--use=settings=sr1:0123456789abcdef", "-y"],
    &["diff", "web", "--from", "1"],
    &["diff", "web", "--from", "1", "--to", "2", "-o", "json"],
    &["history", "configmap/settings", "-o", "wide"],
    &["restore", "configmap/settings", "--dry-run=server", "-o", "json"],
    &["snapshot", "create", "web", "--all-revisions", "--dry-run=server", "-o", "json"],
    &["snapshot", "list", "-o", "json"],
];

/// Without this whoever reads a CI log, a report or the metadata of an object would read a password, or could guess it
/// from a digest (C105, C106).
#[test]
fn no_value_is_anywhere() {
    let namespace = ControlPlane::main().namespace("values");
    let _player = planted(&namespace);
    for arguments in READING {
        let ran = namespace.run(arguments);
        let differs = arguments[0] == "diff" && ran.code == 1;
        assert!([0, 3].contains(&ran.code) || differs, "{arguments:?}: {ran:?}");
        all_clean(&ran);
    }
    // The detector sees what is printed on purpose: the objects to apply hold the ConfigMap's values, and no Secret's.
    let yaml = namespace.run(&["undo", "web", "--to-revision", "1", "--dry-run=client", "-o", "yaml"]).expect(0);
    assert!(yaml.stdout.contains(FORMER_SETTING), "{yaml:?}");
    clean("the objects to apply, without the setting", &yaml.stdout.replace(FORMER_SETTING, ""));
    clean("stderr", &yaml.stderr);

    errors_are_clean(&namespace);

    let undone = namespace.run(&["undo", "web", "--to-revision", "1", "-y", "-o", "json"]).expect(0);
    all_clean(&undone);
    assert_eq!(writes(&namespace), ["create configmaps", "patch deployments", "create configmaps"], "and its record");
    for resource in [CONFIGMAPS, DEPLOYMENTS, REPLICASETS] {
        for object in namespace.items(resource) {
            let ours = object["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "kubectl-saferollback";
            if ours || object["kind"] != "ConfigMap" && object["metadata"]["name"] != "settings" {
                let mut metadata = object["metadata"].clone();
                metadata.as_object_mut().expect("metadata").shift_remove("managedFields");
                clean("metadata", &metadata.to_string());
            }
            if ours && object["metadata"]["labels"]["saferollback.dev/kind"] == "snapshot" {
                let content = Content::from_object(&Object(object)).expect("content");
                assert_eq!(content.data["CONFIG_REVISION"], FORMER_SETTING.as_bytes());
            } else if ours {
                clean("a record", &object["data"].to_string());
            }
        }
    }
}

/// Errors: few rights, files that are broken, a denial that quotes the object.
fn errors_are_clean(namespace: &Namespace) {
    let few = rights::here(
        namespace,
        &json!([
            {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]},
        ]),
    );
    for arguments in READING {
        let ran = namespace.product(arguments).env("KUBECONFIG", few.path()).output().expect("it runs").into();
        all_clean(&ran);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let broken = write("broken", format!("users: [{{name: a, user: {{token: {PASSWORD}\n}}\n"));
    let mistyped = write("mistyped", format!("users: [{{name: a, user: {{token: [{PASSWORD}]}}}}]\n"));
    for kubeconfig in [broken, mistyped] {
        let ran: Ran =
            product::command().args(["history", "web", "--kubeconfig", &kubeconfig]).output().expect("it runs").into();
        all_clean(&ran.expect(1));
    }
    let bad = [
        format!("kind: Secret\napiVersion: v1\nmetadata: {{name: s}}\nstringData: {{A: {PASSWORD}\n"),
        format!("kind: ConfigMap\napiVersion: v1\nmetadata: {{name: settings}}\ndata: {{A: [{SETTING}]}}\n"),
        format!("kind: ConfigMap\napiVersion: v1\nmetadata: {{name: settings}}\nbinaryData: {{A: '{SETTING}!'}}\n"),
        format!("{{\"kind\": \"Secret\", \"data\": \"{PASSWORD}\" \"x\"}}"),
    ];
    for (number, text) in bad.into_iter().enumerate() {
        let file = write(&format!("bad-{number}.yaml"), text);
        let ran = product::run(&["history", "web", "--from-file", &file]);
        assert_ne!(ran.code, 0, "{ran:?}");
        all_clean(&ran);
        let ran = namespace.run(&["undo", "web", "--to-revision", "1", "-y", &format!("--use=settings={file}")]);
        assert_ne!(ran.code, 0, "{ran:?}");
        all_clean(&ran);
    }

    let plane = &namespace.plane;
    let name = format!("{}-echo", namespace.name);
    let policy = json!({"metadata": {"name": name}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["CREATE"]}]},
        "validations": [{"expression": "false", "messageExpression": "'not this: ' + object.data.CONFIG_REVISION"}]}});
    plane.call(POLICIES, None, None).create(&policy).ok();
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}}}}});
    plane.call(BINDINGS, None, None).create(&binding).ok();
    let probe = json!({"metadata": {"name": "probe"}, "data": {"CONFIG_REVISION": "probe"}});
    wait("the policy", || {
        (namespace.all(CONFIGMAPS).query("dryRun", "All").create(&probe).status == 422).then_some(())
    });
    for output in [&[][..], &["-o", "json"]] {
        let ran = namespace.run(&[&["undo", "web", "--to-revision", "1", "-y"], output].concat()).expect(3);
        assert!(ran.stderr.contains("not this: <value>"), "the denial is quoted: {ran:?}");
        all_clean(&ran);
    }
    plane.call(BINDINGS, None, Some(&name)).delete(&json!({})).ok();
    wait("the policy's end", || {
        (namespace.all(CONFIGMAPS).query("dryRun", "All").create(&probe).status == 201).then_some(())
    });
}

/// Requests for Secrets that ask for more than metadata.
fn in_full(log: &[Passing]) -> Vec<String> {
    let secrets = log.iter().filter(|p| p.line().ends_with("/secrets") || p.target.contains("/secrets/"));
    let metadata = |p: &&Passing| {
        !p.accept.is_empty() && p.accept.split(',').all(|kind| kind.contains("as=PartialObjectMetadata"))
    };
    secrets.filter(|p| !metadata(p)).map(|p| format!("{} {}", p.method, p.target)).collect()
}

/// Without this passwords would travel to every laptop that asks for a history (C106).
#[test]
fn no_secret_is_ever_asked_for_in_full() {
    let namespace = ControlPlane::main().namespace("in-full");
    let _player = planted(&namespace);
    let proxy = Proxy::new(&namespace, |_, _| Act::Pass);
    for arguments in READING {
        proxy.run(&namespace, arguments);
    }
    proxy.run(&namespace, &["undo", "web", "--to-revision", "1", "-y"]).expect(0);
    assert_eq!(in_full(&proxy.log()), [""; 0]);
    let asked = |log: &[Passing]| log.iter().filter(|p| p.line().ends_with("/secrets")).count();
    assert!(asked(&proxy.log()) >= READING.len(), "the detector must have seen some");
    // As the API server counts them: nothing went another way, and nothing but lists.
    let audited = namespace.audit().into_iter().filter(|e| e.user_agent.starts_with("kubectl-saferollback"));
    let verbs: Vec<String> = audited.filter(|e| e.resource == "secrets").map(|e| e.verb).collect();
    assert_eq!(verbs.len(), asked(&proxy.log()));
    assert!(verbs.iter().all(|verb| verb == "list"), "{verbs:?}");
    // The same detector catches who does it.
    let path = format!("/api/v1/namespaces/{}/secrets/password", namespace.name);
    let kubectl = namespace.plane.kubectl_with(&proxy.kubeconfig, &["get", "--raw", &path]);
    assert!(kubectl.status.success(), "{kubectl:?}");
    let caught = in_full(&proxy.log());
    assert!(matches!(caught.as_slice(), [one] if one.contains("/secrets/password")), "{caught:?}");
    let seen: Value = serde_json::from_slice(&kubectl.stdout).expect("JSON");
    assert!(forbidden().iter().any(|word| seen["data"].to_string().contains(word)), "and what it shows");
}
