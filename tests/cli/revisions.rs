//! Which revision a screen or a document is about.

use std::fs;

use crate::support::product::{self, Ran};
use crate::verdict::scene::*;
use serde_json::{Value, json};

/// The scene as a dump, and the binary on it.
fn run(scene: &Scene, arguments: &[&str]) -> Ran {
    let folder = tempfile::tempdir().expect("a folder");
    let all = [&[scene.workload.clone()][..], &scene.sets, &scene.pods, &scene.events, &scene.objects].concat();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
    fs::write(folder.path().join("dump.json"), list.to_string()).expect("written");
    product::run(&[arguments, &["--from-file", &folder.path().display().to_string()]].concat())
}

/// Deployment `web` at `web:3`, with a ReplicaSet for `web:1`, `web:2` and `web:3`.
fn three() -> Scene {
    let mut scene = Scene::of(image(env_from(), "web:3"));
    for number in 1..=3 {
        let template = image(env_from(), &format!("web:{number}"));
        let mut set = replica_set(number, &template, 100 + number, 100 * i64::try_from(number).expect("small"), 0);
        self::set(&mut set, "/metadata/annotations/deployment.kubernetes.io~1revision", json!(number.to_string()));
        scene.sets.push(set);
    }
    set(&mut scene.workload, "/metadata/annotations/deployment.kubernetes.io~1revision", json!("3"));
    scene
}

/// Without this a question about one revision could be answered with another one (C13).
#[test]
fn every_format_shows_the_revision_that_was_asked_for() {
    let scene = three();
    for number in 1..=3 {
        let asked = number.to_string();
        for output in ["table", "wide", "json", "yaml"] {
            let mut arguments = vec!["history", "web", "--revision", &asked];
            if output != "table" {
                arguments.extend(["-o", output]);
            }
            let ran = run(&scene, &arguments).expect(0);
            for other in 1..=3 {
                let there = ran.stdout.contains(&format!("web:{other}"));
                assert_eq!(there, other == number, "{output} of revision {number}: {ran:?}");
            }
            assert!(ran.stdout.contains("settings"), "and its references: {ran:?}");
        }
        let check = run(&scene, &["check", "web", "--to-revision", &asked, "-o", "json"]).document();
        assert_eq!(
            (&check["target"], &check["revisions"][0]["images"]["app"]),
            (&json!(number), &json!(format!("web:{number}")))
        );
    }
}

/// Without this a ReplicaSet that a restored backup left behind would be taken for a revision of the workload (C10).
#[test]
fn an_orphan_is_listed_and_no_target() {
    let mut scene = three();
    for number in 4..=6u64 {
        let mut set = replica_set(number, &image(env_from(), "web:9"), 200, 500, 0);
        self::set(&mut set, "/metadata/annotations/deployment.kubernetes.io~1revision", json!(number.to_string()));
        match number {
            4 => set["metadata"]["ownerReferences"][0]["uid"] = json!("uid-of-a-deleted-web"),
            5 => set["metadata"]["ownerReferences"] = json!([]),
            _ => set["metadata"]["ownerReferences"][0]["controller"] = json!(false),
        }
        scene.sets.push(set);
    }
    let document = run(&scene, &["history", "web", "-o", "json"]).expect(0).document();
    let reasons: Vec<&Value> = document["unnumbered"].as_array().into_iter().flatten().map(|u| &u["reason"]).collect();
    assert_eq!(reasons.len(), 3, "{document:#}");
    for number in ["4", "5", "6"] {
        let refused = run(&scene, &["undo", "web", "--to-revision", number]).expect(3);
        assert!(refused.stderr.contains(&format!("revision {number} not found")), "{refused:?}");
        assert_eq!(refused.stdout, "");
    }
}
