//! `observe` against a real API server: what it says of Pods, and what it waits for. There is no node here, so nobody answers
//! its probes; `node::observe` has those.

use super::undo::writes;
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, PODS, SERVICES};
use crate::support::control_plane::{ControlPlane, Namespace, wait};
use crate::support::incident::{self, AGED};
use crate::support::kubelet::Play;
use crate::support::player::Player;
use crate::support::product::Ran;
use serde_json::{Value, json};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

fn service(namespace: &Namespace) {
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]});
    namespace.all(SERVICES).create(&json!({"metadata": {"name": "web"}, "spec": spec})).ok();
}

fn observe(namespace: &Namespace, arguments: &[&str]) -> Ran {
    namespace.run(&[&["observe", "deploy/web"], arguments].concat())
}

fn document(namespace: &Namespace, arguments: &[&str], code: i32) -> Value {
    observe(namespace, &[arguments, &["-o", "json"]].concat()).expect(code).document()
}

/// The Pods' uids, of one revision, sorted.
fn uids(pods: &Value, of: impl Fn(&Value) -> bool) -> Vec<String> {
    let pods = pods.as_array().expect("a list").iter().filter(|pod| of(pod));
    let mut uids: Vec<String> = pods.map(|pod| pod["uid"].as_str().expect("a uid").to_string()).collect();
    uids.sort();
    uids
}

fn today(pod: &Value) -> &str {
    pod["references"][0]["today"].as_str().expect("a word")
}

fn background(namespace: &Namespace, arguments: &[&str]) -> Child {
    let mut command = namespace.product(&[&["observe", "deploy/web", "-o", "json"], arguments].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
}

/// Without this the edit would not be seen before the next Pod starts with it, or Pods be tied to the wrong revision; and
/// what is waited for would be saved before it is there.
#[test]
fn an_edit_under_running_pods_is_seen_pod_by_pod() {
    let namespace = ControlPlane::main().namespace("observe");
    service(&namespace);
    let _player = incident::start(&namespace, AGED);
    let before = document(&namespace, &["--until", "complete"], 0);
    assert!(before["pods"].as_array().expect("pods").iter().all(|pod| today(pod) == "same"), "{before:#}");

    incident::edit(&namespace, &json!({"CONFIG_REVISION": "v2", "HEALTHY": "false"}));
    let edited = document(&namespace, &[], 0);
    let changed = edited["pods"].as_array().expect("pods").iter().all(|pod| today(pod) == "changed");
    assert!(changed, "no rollout yet, and seen: {edited:#}");
    assert_eq!(uids(&edited["pods"], |_| true), uids(&before["pods"], |_| true));
    assert_ne!(edited["configs"][0]["digest"], before["configs"][0]["digest"]);
    assert_eq!(edited["configs"][0]["uid"], before["configs"][0]["uid"]);
    let screen = observe(&namespace, &[]).expect(0);
    assert!(screen.stdout.contains("Changed:settings"), "{}", screen.stdout);
    assert!(screen.stderr.contains("2 Pods hold other content than today's configmap/settings"), "{}", screen.stderr);

    // The release comes while somebody waits for it.
    let waiting = background(&namespace, &["--until", "incomplete"]);
    std::thread::sleep(Duration::from_secs(2));
    incident::release(&namespace, "two");
    let incomplete = Ran::from(waiting.wait_with_output().expect("it ends"));
    assert!(incomplete.stderr.contains("Waiting for incomplete: "), "{}", incomplete.stderr);
    let incomplete = incomplete.expect(0).document();
    let of = |number: u64| move |pod: &Value| pod["revision"] == number;
    assert_eq!(uids(&incomplete["pods"], of(1)), uids(&before["pods"], |_| true));
    assert_eq!(uids(&incomplete["pods"], of(2)).len(), 1);
    let live = namespace.at(DEPLOYMENTS, "web").get().ok();
    for pod in incomplete["pods"].as_array().expect("pods") {
        let actual = namespace.at(PODS, pod["name"].as_str().expect("a name")).get().ok();
        assert_eq!(pod["uid"], actual["metadata"]["uid"]);
        assert_eq!(pod["owners"][0]["uid"], actual["metadata"]["ownerReferences"][0]["uid"]);
        assert_eq!(pod["owners"][1]["uid"], live["metadata"]["uid"]);
    }
    // Not ready is no endpoint.
    let service = wait("the endpoints", || {
        let service = document(&namespace, &[], 0)["services"][0].clone();
        (service["endpoints"].as_array().map(Vec::len) == Some(2)).then_some(service)
    });
    assert_eq!(uids(&service["endpoints"], |_| true), uids(&before["pods"], |_| true), "{service:#}");
    assert_eq!(service["attribution"], "not-asked");

    // Never complete: a timeout, the Pod to look at, and no file.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out.json");
    let arguments = ["--until", "complete", "--timeout", "3s", "--out", file.to_str().expect("a path")];
    let whole = || namespace.audit().iter().filter(|e| e.verb == "list" && e.resource == "events").count();
    let (began, before) = (Instant::now(), whole());
    let failed = observe(&namespace, &arguments).expect(4);
    assert!(began.elapsed() >= Duration::from_secs(3));
    assert_eq!(whole() - before, 2, "everything is read at the beginning and the end, and not in between");
    let new = incomplete["pods"][2]["name"].as_str().expect("a name").to_string();
    let logs = format!("kubectl logs pod/{new} -n {}", namespace.name);
    let words = ["timed out after 3s: complete: Waiting for deployment \"web\"", &new, &logs, "Nothing was saved"];
    for word in words {
        assert!(failed.stderr.contains(word), "{word:?} is missing in {}", failed.stderr);
    }
    assert!(!file.exists());
    assert_eq!(writes(&namespace), [""; 0], "it only looks");
}

/// Without this a capture of the lab's failing substitute would be of another Pod, or of a moment in which it was well.
#[test]
fn a_substitute_is_waited_for_and_a_loss_is_told_from_a_rollout() {
    let namespace = ControlPlane::main().namespace("replaced");
    let _player = incident::start(&namespace, Duration::ZERO);
    let began = Instant::now();
    let stable = document(&namespace, &["--until", "stable"], 0);
    assert!(began.elapsed() >= Duration::from_secs(5), "stable is no moment");
    let uid = stable["pods"][0]["uid"].as_str().expect("a uid").to_string();
    let name = stable["pods"][0]["name"].as_str().expect("a name").to_string();
    let other = stable["pods"][1]["uid"].clone();
    let degraded = document(&namespace, &["--until", "degraded", "--timeout", "1s"], 4);
    assert!(degraded["condition"]["parts"][0]["because"].as_str().is_some_and(|b| b.starts_with("2 of 2")));

    incident::edit(&namespace, &json!({"HEALTHY": "false"}));
    let until = format!("pod-replaced={uid}");
    let still = document(&namespace, &["--until", &until, "--timeout", "1s"], 4);
    assert_eq!(still["condition"]["parts"][0]["because"], format!("pod/{name} is still there"));
    let waiting = background(&namespace, &["--until", &until]);
    std::thread::sleep(Duration::from_secs(3));
    namespace.at(PODS, &name).delete(&json!({})).ok();
    let replaced = Ran::from(waiting.wait_with_output().expect("it ends")).expect(0).document();
    assert!(uids(&replaced["pods"], |_| true).iter().all(|known| *known != uid), "{replaced:#}");
    assert!(replaced["pods"].as_array().expect("pods").iter().any(|pod| pod["uid"] == other), "{replaced:#}");

    let lost = document(&namespace, &["--until", "degraded"], 0);
    let failing: Vec<&Value> = lost["pods"].as_array().expect("pods").iter().filter(|p| p["ready"] == false).collect();
    assert_eq!(failing.len(), 1, "{lost:#}");
    assert!(failing[0]["uid"] != json!(uid) && failing[0]["uid"] != other);
    document(&namespace, &["--until", "complete", "--timeout", "1s"], 4);
    // One that nobody ever saw was not replaced.
    let unknown = document(&namespace, &["--until", "pod-replaced=u-0", "--timeout", "1s"], 4);
    assert!(
        unknown["condition"]["parts"][0]["because"].as_str().is_some_and(|b| b.contains("was seen")),
        "{unknown:#}"
    );
}

/// Without this a capture that somebody gives up would leave half a file, or none would know that there is none.
#[test]
fn an_interrupted_wait_saves_nothing() {
    let namespace = ControlPlane::main().namespace("interrupted");
    let _player = incident::start(&namespace, Duration::ZERO);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out.json");
    let out = file.to_str().expect("a path");
    for (signal, code) in [(libc::SIGINT, 130), (libc::SIGTERM, 143)] {
        let waiting = background(&namespace, &["--until", "degraded", "--out", out]);
        std::thread::sleep(Duration::from_secs(2));
        let id = i32::try_from(waiting.id()).expect("a process id");
        // A signal to a process of our own, which has not been waited for.
        assert_eq!(unsafe { libc::kill(id, signal) }, 0);
        let ran = Ran::from(waiting.wait_with_output().expect("it ends")).expect(code);
        assert!(ran.stderr.ends_with("interrupted: nothing was saved\n") && ran.stdout.is_empty(), "{ran:?}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}

/// Without this one Pod that cannot be asked would end the observation of all others.
#[test]
fn a_probe_that_nobody_answers_is_said_of_each() {
    let namespace = ControlPlane::main().namespace("unanswered");
    service(&namespace);
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    namespace.all(DEPLOYMENTS).create(&incident::web(2)).ok();
    let _player = Player::run(&namespace, |_| Some(Play::not_ready()));
    let pods = wait("two Pods that run", || {
        let mut pods = namespace.items(PODS);
        pods.retain(|pod| pod["status"]["phase"] == "Running");
        (pods.len() == 2).then_some(pods)
    });
    // An address to which no API server goes, whatever network this machine has.
    let nowhere = json!({"status": {"podIP": "127.0.0.9", "podIPs": [{"ip": "127.0.0.9"}]}});
    for pod in pods {
        namespace.at(PODS, pod["metadata"]["name"].as_str().expect("a name")).sub("status").merge_patch(&nowhere).ok();
    }
    let asked = ["--probe", "/ready:8080", "--probe-pod-field", "pod"];
    let document = document(&namespace, &asked, 0);
    for pod in document["pods"].as_array().expect("pods") {
        let error = pod["probe"]["error"].as_str().unwrap_or_else(|| panic!("{pod:#}"));
        assert!(pod["probe"]["status"].is_null() && error.starts_with("cannot get pods/proxy web-"), "{pod:#}");
    }
    let service = &document["services"][0];
    let error = service["probe"]["error"].as_str().unwrap_or_else(|| panic!("{service:#}"));
    assert!(error.starts_with("cannot get services/proxy web ") && error.contains("no endpoints"), "{service:#}");
    assert_eq!((&service["attribution"], &service["answeredBy"]), (&json!("unattributed"), &Value::Null));
    let screen = observe(&namespace, &asked).expect(0);
    assert_eq!(screen.stdout.matches("Failed").count(), 3, "{}", screen.stdout);
    assert!(screen.stderr.contains("Note: service/web: cannot get services/proxy"), "{}", screen.stderr);
}

/// Without this a Pod that is kept from starting would hold "other content", or a ConfigMap that is gone be none's concern.
#[test]
fn what_has_not_started_holds_nothing_and_what_is_gone_is_said() {
    let namespace = ControlPlane::main().namespace("gone");
    let _player = incident::start(&namespace, Duration::ZERO);
    namespace.at(CONFIGMAPS, "settings").delete(&json!({})).ok();
    let document = document(&namespace, &[], 0);
    assert_eq!(document["configs"][0]["state"], "absent");
    let pods = document["pods"].as_array().expect("pods");
    assert!(pods.iter().all(|pod| today(pod) == "changed" && pod["references"][0]["verdict"] == "missing"));
    // Bound to no node, no Pod of it ever starts.
    let unplayed = ControlPlane::main().namespace("unplayed");
    unplayed.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    unplayed.all(DEPLOYMENTS).create(&incident::web(1)).ok();
    let until = ["--until", "pods.0.references.0.today=not-started", "-o", "json"];
    let waits = observe(&unplayed, &until).expect(0).document();
    assert_eq!(waits["pods"][0]["references"][0]["verdict"], Value::Null);
    let screen = observe(&unplayed, &["--until", "complete", "--timeout", "1s"]).expect(4);
    assert!(screen.stderr.contains("not scheduled"), "{}", screen.stderr);
}
