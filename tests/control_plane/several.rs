//! Several workloads in one undo, and which revision is meant by a time.

use super::undo::writes;
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS};
use crate::support::control_plane::{ControlPlane, Namespace, wait};
use crate::support::incident::{self, AGED};
use crate::support::kubelet::Play;
use crate::support::player::Player;
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

/// `web` and `worker` on one ConfigMap, which is edited after both are up, and then a release of each.
fn both(namespace: &Namespace) -> Player {
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    thread::sleep(AGED);
    for body in [incident::web(1), incident::worker()] {
        let mut body = body;
        body["metadata"]["labels"] = json!({"team": "shop"});
        namespace.all(DEPLOYMENTS).create(&body).ok();
    }
    let player = Player::run(namespace, |_| Some(Play::ready()));
    incident::rolled_out(namespace, "web");
    incident::rolled_out(namespace, "worker");
    incident::edit(namespace, &json!({"CONFIG_REVISION": "v2"}));
    for name in ["web", "worker"] {
        let release = json!({"spec": {"template": {"metadata": {"annotations": {"release": "two"}}}}});
        namespace.at(DEPLOYMENTS, name).merge_patch(&release).ok();
        incident::rolled_out(namespace, name);
    }
    player
}

/// The content from before the edit, for `--use`.
fn old() -> (tempfile::NamedTempFile, String) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), incident::settings("v1", "true").to_string()).expect("written");
    let given = format!("settings={}", file.path().display());
    (file, given)
}

fn bound(namespace: &Namespace, name: &str) -> String {
    let live = namespace.at(DEPLOYMENTS, name).get().ok();
    let name = &live["spec"]["template"]["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"];
    name.as_str().expect("a name").to_string()
}

/// Without this an incident of several workloads would need as many plans and questions, and as many copies.
#[test]
fn several_are_planned_first_and_share_their_snapshots() {
    let namespace = ControlPlane::main().namespace("several");
    let _player = both(&namespace);
    let (_file, given) = old();
    let dry = namespace.run(&["undo", "web", "worker", "--dry-run=client", "--use", &given]).expect(0);
    for words in ["deployment/web      2->1", "deployment/worker   2->1", "(new)", "Pods      deployment/web: "] {
        assert!(dry.stdout.contains(words), "{words:?} is not in\n{}", dry.stdout);
    }
    assert_eq!(writes(&namespace), [""; 0]);

    let done = namespace.run(&["undo", "-l", "team=shop", "-y", "-o", "json", "--use", &given]).expect(0).document();
    assert_eq!(
        (&done["kind"], &done["items"][0]["outcome"], &done["items"][1]["outcome"]),
        (&json!("RollbackList"), &json!("done"), &json!("done")),
        "{done:#}"
    );
    assert_eq!(bound(&namespace, "web"), bound(&namespace, "worker"), "one snapshot");
    let snapshots = namespace
        .items(CONFIGMAPS)
        .iter()
        .filter(|c| c["metadata"]["labels"]["saferollback.dev/kind"] == "snapshot")
        .count();
    assert_eq!(snapshots, 1);
    let again = namespace.run(&["undo", "deployment", "web", "worker", "-y"]);
    assert_eq!(again.code, 3, "previous is not clear after our own undo: {again:?}");
}

/// Without this half of an incident would be rolled back and the other half refused, or one that can be saved would wait
/// for one that cannot.
#[test]
fn one_refusal_keeps_all_from_being_written_unless_partial() {
    let namespace = ControlPlane::main().namespace("partial");
    let _player = both(&namespace);
    let (_file, given) = old();
    namespace.at(DEPLOYMENTS, "worker").merge_patch(&json!({"spec": {"paused": true}})).ok();
    let all = namespace.run(&["undo", "web", "worker", "-y", "-o", "json", "--use", &given]).expect(3);
    let document: Value = all.document();
    let outcomes: Vec<&Value> = document["items"].as_array().into_iter().flatten().map(|d| &d["outcome"]).collect();
    assert_eq!(outcomes, ["planned", "refused"], "{document:#}");
    assert_eq!(writes(&namespace), [""; 0], "refused means nothing was written");
    assert!(all.stderr.contains("paused"), "{}", all.stderr);
    // Nor is one that has no such revision.
    let absent = namespace.run(&["undo", "web", "nobody", "-y"]).expect(1);
    assert!(absent.stderr.contains("nobody"), "{absent:?}");
    assert_eq!(writes(&namespace), [""; 0]);

    let partial = namespace
        .run(&["undo", "web", "worker", "--partial", "-y", "-o", "json", "--use", &given])
        .expect(3)
        .document();
    let outcomes: Vec<&Value> = partial["items"].as_array().into_iter().flatten().map(|d| &d["outcome"]).collect();
    assert_eq!(outcomes, ["done", "refused"], "{partial:#}");
    assert!(bound(&namespace, "web").starts_with("settings-sr-"));
    assert_eq!(bound(&namespace, "worker"), "settings", "the paused one is as it was");
}

/// Without this "what ran ten minutes ago" would be guessed where two revisions are close.
#[test]
fn a_time_names_the_revision_that_was_current_then() {
    let namespace = ControlPlane::main().namespace("to-time");
    let _player = incident::start(&namespace, Duration::ZERO);
    thread::sleep(Duration::from_secs(3));
    let between = jiff::Timestamp::now().to_string();
    thread::sleep(Duration::from_secs(3));
    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");
    wait("the second revision", || {
        let live = namespace.at(DEPLOYMENTS, "web").get().ok();
        (live["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2").then_some(())
    });
    let plan = |time: &str| namespace.run(&["undo", "web", "--to-time", time, "--dry-run=client", "-o", "json"]);
    assert_eq!(plan(&between).expect(0).document()["target"], 1);
    let long_ago = plan("2h").expect(3);
    assert!(long_ago.stderr.contains("is not clear") && long_ago.stderr.contains("1 (since "), "{long_ago:?}");
    let live = namespace.at(DEPLOYMENTS, "web").get().ok();
    let created = live["metadata"]["creationTimestamp"].as_str().expect("a stamp");
    assert!(plan(created).expect(3).stderr.contains("within 2s"));
    assert_eq!(writes(&namespace), [""; 0]);
}

/// Without this a snapshot that no record speaks of could not be named, or a file of that name would be taken for it.
#[test]
fn a_snapshot_can_be_named() {
    let plane = ControlPlane::compact();
    let namespace = plane.namespace("use-snapshot");
    let _player = incident::start(&namespace, Duration::ZERO);
    namespace.run(&["snapshot", "create", "web"]).expect(0);
    let made = namespace.items(CONFIGMAPS);
    let name = |kind: &str| {
        let found = made.iter().find(|c| c["metadata"]["labels"]["saferollback.dev/kind"] == kind);
        found.and_then(|c| c["metadata"]["name"].as_str()).expect("one").to_string()
    };
    namespace.at(CONFIGMAPS, &name("record")).delete(&json!({})).ok();
    incident::trap(&namespace);
    super::records::an_hour_later(&plane, &namespace);
    namespace.run(&["undo", "web", "--to-revision", "1", "-y"]).expect(3);
    let unknown = "settings=settings-sr-0123456789abcdef";
    let refused = namespace.run(&["undo", "web", "--to-revision", "1", "-y", "--use", unknown]).expect(3);
    assert!(refused.stderr.contains("was not found"), "{refused:?}");
    let digest = namespace.at(CONFIGMAPS, &name("snapshot")).get().ok();
    let digest = digest["metadata"]["annotations"]["saferollback.dev/digest"].as_str().expect("a digest").to_string();
    for given in [name("snapshot"), digest] {
        let given = format!("settings={given}");
        let planned = ["undo", "web", "--to-revision", "1", "--dry-run=client", "--use", &given, "-o", "json"];
        let planned = namespace.run(&planned).expect(0).document();
        assert_eq!(planned["actions"][0]["source"], "snapshot", "{planned:#}");
    }
    let given = format!("settings={}", name("snapshot"));
    namespace.run(&["undo", "web", "--to-revision", "1", "-y", "--use", &given]).expect(0);
    assert_eq!(bound(&namespace, "web"), name("snapshot"));
}
