//! Who fights a rollback, on a real API server: the tools' own types stand there as CRDs, and the tests play the tools.

use super::undo::writes;
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, Resource};
use crate::support::control_plane::{ControlPlane, Namespace, wait};
use crate::support::incident;
use crate::support::kubelet::Play;
use crate::support::player::Player;
use crate::support::product::Ran;
use crate::support::proxy::{Act, Passing, Proxy};
use crate::support::rights;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CRDS: Resource = Resource::new("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions");
const SECRETS: Resource = Resource::new("/api/v1", "secrets");
const HPAS: Resource = Resource::new("/apis/autoscaling/v2", "horizontalpodautoscalers");
const APPLICATIONS: Resource = Resource::new("/apis/argoproj.io/v1alpha1", "applications");
const KUSTOMIZATIONS: Resource = Resource::new("/apis/kustomize.toolkit.fluxcd.io/v1", "kustomizations");
const HELM_RELEASES: Resource = Resource::new("/apis/helm.toolkit.fluxcd.io/v2", "helmreleases");
const VPAS: Resource = Resource::new("/apis/autoscaling.k8s.io/v1", "verticalpodautoscalers");

/// Makes a type of its tool known, with any fields. Tests beside this one may do the same.
fn served(namespace: &Namespace, resource: Resource, (group, version): (&str, &str), kind: &str) {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let body = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            // Groups under k8s.io are protected.
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test's stand-in"},
        },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let answer = namespace.plane.call(CRDS, None, None).create(&body);
    assert!([201, 409].contains(&answer.status), "{answer:?}");
    wait("the type", || (namespace.all(resource).get().status == 200).then_some(()));
}

fn argo_cd(namespace: &Namespace) {
    served(namespace, APPLICATIONS, ("argoproj.io", "v1alpha1"), "Application");
}

fn labelled(namespace: &Namespace, labels: &Value) {
    namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"metadata": {"labels": labels}})).ok();
}

/// An Application that is named as its namespace is, so that tests do not meet, and the label that tracks it.
fn application(namespace: &Namespace, automated: &Value) {
    argo_cd(namespace);
    let spec = json!({"syncPolicy": {"automated": automated}});
    let body = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": namespace.name},
        "spec": spec});
    namespace.all(APPLICATIONS).create(&body).ok();
    labelled(namespace, &json!({"argocd.argoproj.io/instance": namespace.name}));
}

/// Two revisions that differ in an annotation, on a ConfigMap that nobody touches.
fn two_releases(namespace: &Namespace) -> Player {
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    namespace.all(DEPLOYMENTS).create(&incident::web(2)).ok();
    let player = Player::run(namespace, |_| Some(Play::ready()));
    incident::rolled_out(namespace, "web");
    incident::release(namespace, "two");
    incident::rolled_out(namespace, "web");
    player
}

const LIVE: [&str; 6] = ["undo", "web", "--to-revision", "1", "--config=live", "-y"];

/// What Argo CD does: it applies its own template again.
fn put_back(namespace: &Namespace) {
    let mut body = incident::web(2);
    body["spec"]["template"]["metadata"]["annotations"]["release"] = json!("two");
    body["spec"].as_object_mut().expect("a spec").remove("replicas");
    namespace.at(DEPLOYMENTS, "web").apply("argocd-controller", &body).ok();
}

/// Without this an undo would be written that a controller takes back, and called done (C25).
#[test]
fn c25_known_self_healers_are_refused_without_a_write() {
    let namespace = ControlPlane::main().namespace("healed");
    let _player = incident::start(&namespace, Duration::ZERO);
    incident::trap(&namespace);
    application(&namespace, &json!({"selfHeal": true}));
    let arguments = ["undo", "web", "--to-revision", "1", "-y", "-o", "json"];
    let refuse = |owner: &str| {
        let proxy = Proxy::new(&namespace, |_, _| Act::Pass);
        let ran = proxy.run(&namespace, &arguments).expect(3);
        let document = ran.document();
        assert_eq!((&document["outcome"], &document["written"]), (&json!("refused"), &json!([])));
        assert_eq!(document["refusals"][0]["code"], "managed", "{document:#}");
        let ways: Vec<&str> =
            document["waysOn"].as_array().into_iter().flatten().filter_map(|w| w["id"].as_str()).collect();
        assert_eq!(ways, ["commit", "allow-managed"]);
        assert!(ran.stderr.contains("puts back what others write"), "{}", ran.stderr);
        assert!(ran.stderr.replace('\n', " ").contains(owner), "{owner} is not named: {}", ran.stderr);
        let log: Vec<String> = proxy.log().iter().filter(|p| p.method != "GET").map(Passing::line).collect();
        assert_eq!(log, [""; 0], "not even a dry run");
        assert_eq!(writes(&namespace), [""; 0], "refused means nothing was written");
    };
    refuse(&format!("application/{}", namespace.name));

    let none = json!({"argocd.argoproj.io/instance": null, "kustomize.toolkit.fluxcd.io/name": "apps",
        "kustomize.toolkit.fluxcd.io/namespace": namespace.name});
    served(&namespace, KUSTOMIZATIONS, ("kustomize.toolkit.fluxcd.io", "v1"), "Kustomization");
    let body = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "apps"},
        "spec": {"interval": "10m"}});
    namespace.all(KUSTOMIZATIONS).create(&body).ok();
    labelled(&namespace, &none);
    refuse("kustomization/apps");

    let helm = json!({"kustomize.toolkit.fluxcd.io/name": null, "kustomize.toolkit.fluxcd.io/namespace": null,
        "helm.toolkit.fluxcd.io/name": "shop", "helm.toolkit.fluxcd.io/namespace": namespace.name});
    served(&namespace, HELM_RELEASES, ("helm.toolkit.fluxcd.io", "v2"), "HelmRelease");
    let body = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "shop"},
        "spec": {"driftDetection": {"mode": "enabled"}}});
    namespace.all(HELM_RELEASES).create(&body).ok();
    labelled(&namespace, &helm);
    refuse("helmrelease/shop");

    // Suspended it is only warned of, and with consent it is written.
    namespace.at(HELM_RELEASES, "shop").merge_patch(&json!({"spec": {"suspend": true}})).ok();
    let plan = namespace.run(&["undo", "web", "--to-revision", "1", "--dry-run=client", "-o", "json"]).expect(0);
    assert_eq!(plan.document()["owners"][0]["healing"], "no");
    assert!(plan.stderr.contains("Warning: helmrelease/shop"), "{}", plan.stderr);
    namespace.at(HELM_RELEASES, "shop").merge_patch(&json!({"spec": {"suspend": false}})).ok();
    let allowed = [&arguments[..], &["--allow-managed", "--settle=1s"]].concat();
    let done = namespace.run(&allowed).expect(0);
    let document = done.document();
    assert_eq!((&document["outcome"], &document["overwritten"]), (&json!("done"), &Value::Null));
    assert_eq!(document["owners"][0]["healing"], "yes");
    assert!(done.stderr.contains("Warning: helmrelease/shop"), "{}", done.stderr);
    assert_eq!(writes(&namespace)[..2], ["create configmaps", "patch deployments"]);
}

/// Without this a developer who may not read Applications could not undo anything under Argo CD, or would hear that
/// nobody is there.
#[test]
fn an_owner_that_may_not_be_read_is_warned_of() {
    let namespace = ControlPlane::main().namespace("unread");
    let _player = two_releases(&namespace);
    application(&namespace, &json!({"selfHeal": true}));
    let few = rights::here(
        &namespace,
        &json!([
            {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["get", "list", "patch"]},
            {"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": ["get", "list"]},
        ]),
    );
    let mut command = namespace.product(&[
        "undo",
        "deploy/web",
        "--to-revision",
        "1",
        "--config=live",
        "-y",
        "--wait=false",
        "-o",
        "json",
    ]);
    let ran = Ran::from(command.env("KUBECONFIG", few.path()).output().expect("it runs")).expect(0);
    let document = ran.document();
    assert_eq!(document["owners"][0]["healing"], "unknown", "{document:#}");
    assert!(ran.stderr.contains("Warning: application/") && ran.stderr.contains("not allowed"), "{}", ran.stderr);
    let unread = document["ownersUnread"].to_string();
    assert!(unread.contains("horizontalpodautoscalers"), "an autoscaler could not be looked for: {unread}");
}

/// Without this a wait that sees the old template come back would end in success: the rollout of it is done, too (C25).
#[test]
fn c25_a_put_back_during_the_wait_fails_and_names_the_manager() {
    let namespace = ControlPlane::main().namespace("put-back");
    let _player = two_releases(&namespace);
    let other = Namespace { plane: namespace.plane.reconnect(), name: namespace.name.clone() };
    let mut at_the_watch = Some(move || put_back(&other));
    let proxy = Proxy::new(&namespace, move |_, passing| {
        if passing.target.contains("watch=true")
            && let Some(act) = at_the_watch.take()
        {
            act();
        }
        Act::Pass
    });
    let ran = proxy.run(&namespace, &[&LIVE[..], &["-o", "json"]].concat()).expect(4);
    let document = ran.document();
    assert_eq!((&document["outcome"], &document["exitCode"]), (&json!("failed"), &json!(4)));
    assert_eq!(document["overwritten"]["by"], json!(["argocd-controller"]), "{document:#}");
    assert_eq!(document["overwritten"]["differs"], json!(["/metadata/annotations/release"]));
    assert_ne!(document["overwritten"]["planned"], document["overwritten"]["live"]);
    let needed = "error: the rolled back change was overwritten by argocd-controller (managedFields)";
    assert!(ran.stderr.contains(needed), "{}", ran.stderr);
    assert!(!ran.stderr.contains("successfully rolled out"), "{}", ran.stderr);
}

/// Runs an undo, and `act` when it says that the rollout is done and settles.
fn settling(namespace: &Namespace, arguments: &[&str], act: impl FnOnce()) -> (i32, String) {
    let mut child =
        namespace.product(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut lines = BufReader::new(child.stderr.take().expect("stderr"));
    let mut said = String::new();
    while !said.contains(" is rolled out; ") {
        let read = lines.read_line(&mut said).expect("text");
        assert!(read > 0, "it never settled: {said}");
    }
    act();
    lines.read_to_string(&mut said).expect("text");
    (child.wait().expect("it ends").code().unwrap_or(-1), said)
}

/// Without this an undo would be called done seconds before it is put back; and that nothing is said after it
/// would be taken for good (C81).
#[test]
fn c81_a_put_back_within_the_settle_time_is_no_success() {
    let namespace = ControlPlane::main().namespace("settle");
    let _player = two_releases(&namespace);
    // Argo CD in another cluster: nobody knows whether it heals, so by default it is watched.
    labelled(&namespace, &json!({"argocd.argoproj.io/instance": namespace.name}));
    let (code, said) = settling(&namespace, &LIVE, || put_back(&namespace));
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("overwritten by argocd-controller (managedFields)"), "{said}");
    assert!(said.contains("generation ") && said.contains("replicaset/"), "the small timeline: {said}");
}

/// Without this an autoscaler at work within the settle time would fail every undo (C81).
#[test]
fn c81_scaling_within_the_settle_time_is_no_put_back() {
    let namespace = ControlPlane::main().namespace("scaled");
    let _player = two_releases(&namespace);
    let arguments = [&LIVE[..], &["--settle=2s"]].concat();
    let (code, said) = settling(&namespace, &arguments, || {
        let scale = json!({"spec": {"replicas": 3}});
        namespace.at(DEPLOYMENTS, "web").sub("scale").merge_patch(&scale).ok();
    });
    assert_eq!(code, 0, "{said}");
}

/// Without this Pods that come up and break a moment later would be a success (C81).
#[test]
fn c81_pods_that_do_not_stay_ready_are_no_success() {
    let namespace = ControlPlane::main().namespace("unstable");
    drop(two_releases(&namespace));
    let ready = Arc::new(AtomicBool::new(true));
    let health = Arc::clone(&ready);
    let play = move |_: &Value| Some(if health.load(Ordering::Relaxed) { Play::ready() } else { Play::not_ready() });
    let _player = Player::run(&namespace, play);
    let arguments = [&LIVE[..], &["--settle=10s"]].concat();
    let (code, said) = settling(&namespace, &arguments, || ready.store(false, Ordering::Relaxed));
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("was rolled out and did not stay so"), "{said}");
}

/// Without these the person would not hear which release to look at, or that somebody else sets the number of Pods.
#[test]
fn helm_and_autoscalers_are_told_and_secrets_stay_closed() {
    let namespace = ControlPlane::main().namespace("told");
    let _player = two_releases(&namespace);
    labelled(&namespace, &json!({"app.kubernetes.io/managed-by": "Helm"}));
    let release = json!({"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": namespace.name});
    namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"metadata": {"annotations": release}})).ok();
    for (number, status) in [(3, "superseded"), (4, "deployed")] {
        let labels = json!({"owner": "helm", "name": "shop", "status": status, "version": number.to_string()});
        let body = json!({"metadata": {"name": format!("sh.helm.release.v1.shop.v{number}"), "labels": labels},
            "type": "helm.sh/release.v1", "stringData": {"release": "correct-horse"}});
        namespace.all(SECRETS).create(&body).ok();
    }
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let hpa = json!({"metadata": {"name": "scaler"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}});
    namespace.all(HPAS).create(&hpa).ok();
    let proxy = Proxy::new(&namespace, |_, _| Act::Pass);
    // Before the type is known there is none, and nothing to be said about it.
    let check = proxy.run(&namespace, &["check", "web", "--to-revision", "1", "-o", "json"]).document();
    let tools = |document: &Value| -> Vec<String> {
        let owners = document["owners"].as_array().into_iter().flatten();
        owners
            .map(|o| format!("{} {}", o["tool"].as_str().unwrap_or(""), o["object"]["name"].as_str().unwrap_or("")))
            .collect()
    };
    assert_eq!(tools(&check), ["helm shop", "hpa scaler"]);
    assert_eq!(check["ownersUnread"], json!([]));
    served(&namespace, VPAS, ("autoscaling.k8s.io", "v1"), "VerticalPodAutoscaler");
    let vpa = json!({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "sizer"}, "spec": {"targetRef": target}});
    namespace.all(VPAS).create(&vpa).ok();

    let ran = proxy.run(&namespace, &["undo", "web", "--to-revision", "1", "--dry-run=client", "-o", "json"]);
    let document = ran.document();
    assert_eq!(tools(&document), ["helm shop", "hpa scaler", "vpa sizer"]);
    let said = &ran.stderr;
    assert!(said.contains("Warning: release/shop") && said.contains("the release is at revision 4"), "{said}");
    assert!(
        said.contains("Note: horizontalpodautoscaler/scaler") && said.contains("Note: verticalpodautoscaler/sizer"),
        "{said}"
    );
    assert!(!ran.stdout.contains("correct-horse") && !said.contains("correct-horse"));
    let log = proxy.log();
    let secrets: Vec<&Passing> =
        log.iter().filter(|p| p.line().ends_with("/secrets") && p.target.contains("helm")).collect();
    assert!(!secrets.is_empty());
    for passing in secrets {
        assert!(passing.accept.split(',').all(|kind| kind.contains("as=PartialObjectMetadata")), "{passing:?}");
    }
    assert_eq!(writes(&namespace), [""; 0]);
}

/// Without this the command that a refusal prints would fail, or act on another cluster's workload of that name (C28).
#[test]
fn c28_the_command_for_a_paused_workload_hits_the_same_object() {
    let namespace = ControlPlane::main().namespace("resume");
    let _player = two_releases(&namespace);
    namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"spec": {"paused": true}})).ok();
    let folder = tempfile::Builder::new().prefix("a person's folder").tempdir().expect("a folder");
    let kubeconfig = folder.path().join("config");
    std::fs::copy(&namespace.plane.kubeconfig, &kubeconfig).expect("copied");
    let file = kubeconfig.display().to_string();
    let flags = ["--context", "saferollback-tests", "--kubeconfig", &file];
    let arguments = [&["undo", "web", "--to-revision", "1", "-y"][..], &flags].concat();
    let mut command = namespace.product(&arguments);
    let ran = Ran::from(command.env("KUBECONFIG", "/nonexistent").output().expect("it runs")).expect(3);
    let line = ran.stderr.lines().find(|l| l.contains("rollout resume")).expect("a command").trim().to_string();
    // As a shell reads it.
    let script = format!("set -- {line}; for word; do printf '%s\\n' \"$word\"; done");
    let words = std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell").stdout;
    let words = String::from_utf8(words).expect("text");
    let words: Vec<&str> = words.lines().collect();
    assert_eq!(words[..4], ["kubectl", "rollout", "resume", "deployment/web"]);
    for needed in [&flags[..], &["-n", &namespace.name]].concat() {
        assert!(words.contains(&needed), "{needed}: {line}");
    }
    assert_eq!(writes(&namespace), [""; 0], "refused means nothing was written");
    let resumed = namespace.plane.kubectl(&words[1..]);
    assert!(resumed.status.success(), "{resumed:?}");
    assert_ne!(namespace.at(DEPLOYMENTS, "web").get().ok()["spec"]["paused"], true);
}
