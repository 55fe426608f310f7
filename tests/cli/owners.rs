//! Owners on the screen, from files: there nobody can be asked but what the files hold.

use crate::support::product::{self, Ran, root};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// The recorded incident, with these labels on the workload and these objects beside it.
fn incident(labels: &Value, objects: &[Value]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for file in fs::read_dir(root().join("tests/incident")).expect("the incident").flatten() {
        if file.path().extension().is_none_or(|end| end != "json") {
            continue;
        }
        let mut value: Value = serde_json::from_slice(&fs::read(file.path()).expect("a file")).expect("JSON");
        for item in value["items"].as_array_mut().into_iter().flatten().filter(|o| o["metadata"]["name"] == "web") {
            item["metadata"]["labels"] = labels.clone();
        }
        fs::write(folder.path().join(file.file_name()), value.to_string()).expect("written");
    }
    for (number, object) in objects.iter().enumerate() {
        fs::write(folder.path().join(format!("9-{number}.json")), object.to_string()).expect("written");
    }
    folder
}

fn run(folder: &TempDir, arguments: &[&str]) -> Ran {
    let mut command = product::command();
    command.current_dir(folder.path()).args(arguments).args(["--from-file", "."]).output().expect("it runs").into()
}

fn tracked() -> Value {
    json!({"argocd.argoproj.io/instance": "storefront"})
}

fn application(self_heal: bool) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "storefront", "namespace": "argocd"},
        "spec": {"syncPolicy": {"automated": {"selfHeal": self_heal}}},
    })
}

/// Otherwise a person would roll back by hand what is put back a moment later, and not hear of it.
#[test]
fn c25_owners_are_on_the_screens() {
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    });
    let open = incident(&tracked(), &[autoscaler]);
    insta::assert_snapshot!("undo_owner_unread", run(&open, &["undo", "web", "--to-revision", "1"]).whole());
    insta::assert_snapshot!("check_owner_unread", run(&open, &["check", "web", "--to-revision", "1"]).whole());
    let document = run(&open, &["undo", "web", "--to-revision", "1", "-o", "json"]).expect(0).document();
    let owners = document["owners"].as_array().expect("owners");
    assert_eq!(owners.len(), 2, "{owners:#?}");
    assert_eq!((&owners[0]["tool"], &owners[0]["healing"]), (&json!("argo-cd"), &json!("unknown")));
    assert_eq!(owners[1]["object"], json!({"kind": "HorizontalPodAutoscaler", "namespace": "shop", "name": "web"}));

    let manual = incident(&tracked(), &[application(false)]);
    let said = run(&manual, &["undo", "web", "--to-revision", "1"]).expect(0);
    assert!(said.stderr.contains("brings its own template back at the next sync"), "{}", said.stderr);
}

/// Otherwise the refusal would be a dead end: what it offers must lead to the objects to commit (C25).
#[test]
fn c25_a_self_healing_owner_refuses_with_ways_on_that_work() {
    let healed = incident(&tracked(), &[application(true)]);
    let arguments = ["undo", "web", "--to-revision", "1"];
    let refused = run(&healed, &arguments);
    insta::assert_snapshot!("undo_managed", refused.whole());
    let document = run(&healed, &[&arguments[..], &["-o", "json"]].concat()).expect(3).document();
    assert_eq!(document["refusals"][0]["code"], "managed");
    let check = run(&healed, &["check", "web", "--to-revision", "1", "-o", "json"]).expect(3).document();
    assert_eq!((&check["undo"], &check["owners"][0]["healing"]), (&json!("refused"), &json!("yes")));

    let mut ways = document["waysOn"].as_array().expect("ways").iter();
    let mut way = |id: &str| -> Ran {
        let way = ways.next().expect("a way");
        assert_eq!(way["id"], id);
        let argv: Vec<&str> = way["argv"].as_array().expect("words").iter().filter_map(Value::as_str).collect();
        let mut command = product::command();
        command.current_dir(healed.path()).args(&argv[2..]).output().expect("it runs").into()
    };
    let commit = way("commit").expect(0);
    let objects = commit.stdout.split("---\n").map(|text| serde_yaml::from_str(text).expect("YAML"));
    let objects: Vec<Value> = objects.collect();
    let kinds: Vec<&str> = objects.iter().filter_map(|o| o["kind"].as_str()).collect();
    assert_eq!(kinds, ["ConfigMap", "Deployment"]);
    assert_eq!(objects[1]["metadata"]["labels"], tracked(), "the workload stays its owner's");
    assert!(objects[0]["metadata"]["labels"].get("argocd.argoproj.io/instance").is_none(), "the snapshot is nobody's");
    let allowed = way("allow-managed").expect(0);
    assert!(allowed.stdout.contains("Owned by  application/storefront"), "{}", allowed.stdout);
    assert!(allowed.stderr.contains("Warning: application/storefront"), "{}", allowed.stderr);
}

/// Otherwise a refusal for two reasons would offer ways that the other reason refuses again.
#[test]
fn with_another_reason_each_way_leads_to_the_repository() {
    // Without the older copies nothing is known of what was read.
    let healed = incident(&tracked(), &[application(true)]);
    for file in fs::read_dir(healed.path()).expect("the folder").flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        if name.ends_with("before-the-edit.json") || name.starts_with("1-") {
            fs::remove_file(file.path()).expect("removed");
        }
    }
    let document = run(&healed, &["undo", "web", "--to-revision", "1", "-o", "json"]).expect(3).document();
    let codes: Vec<&str> =
        document["refusals"].as_array().expect("refusals").iter().filter_map(|r| r["code"].as_str()).collect();
    assert_eq!(codes, ["managed", "content-not-found"], "{document:#}");
    for way in document["waysOn"].as_array().expect("ways") {
        let argv: Vec<&str> = way["argv"].as_array().expect("words").iter().filter_map(Value::as_str).collect();
        assert!(argv.ends_with(&["--dry-run=client", "-o", "yaml"]), "{argv:?}");
    }
}
