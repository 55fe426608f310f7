//! `observe` on the recorded incident: the screens, and the file that it saves.

use crate::support::product::{self, Ran};
use std::fs;
use std::path::Path;

const INCIDENT: [&str; 4] = ["observe", "web", "--from-file", "tests/incident"];

fn observe(arguments: &[&str]) -> Ran {
    let mut command = product::command();
    command.current_dir(product::root()).args(INCIDENT).args(arguments).output().expect("it runs").into()
}

/// Otherwise a ConfigMap that was edited under its Pods would be seen in another verb alone, or the screens could change
/// without anybody reading them.
#[test]
fn the_screens_of_the_recorded_incident() {
    insta::assert_snapshot!("observe", observe(&[]).whole());
    insta::assert_snapshot!("observe_wide", observe(&["-o", "wide"]).whole());
    insta::assert_snapshot!(
        "observe_until",
        observe(&["--until", "incomplete", "--until", "pods.*.ready=true"]).whole()
    );
    insta::assert_snapshot!("observe_not", observe(&["--until", "incomplete", "--until", "complete"]).whole());
}

/// Otherwise a tool that reads the document would not know what each Pod holds, or which condition failed it.
#[test]
fn the_document_says_what_each_pod_holds() {
    let document = observe(&["--until", "degraded", "-o", "json"]).expect(4).document();
    let pods = document["pods"].as_array().expect("pods");
    let today: Vec<_> = pods.iter().map(|p| (p["revision"].as_u64(), p["references"][0]["today"].as_str())).collect();
    assert_eq!(today, [(Some(1), Some("changed")), (Some(1), Some("changed")), (Some(2), Some("same"))]);
    let one = &document["revisions"][0];
    assert_eq!(pods[0]["owners"][0]["uid"], one["object"]["uid"]);
    assert_eq!(pods[0]["owners"][1]["uid"], document["workload"]["uid"]);
    assert_eq!(pods[0]["references"][0]["read"], one["references"][0]["digest"]["read"]);
    assert_eq!(document["configs"][0]["uid"], one["references"][0]["uid"]);
    assert_eq!((&document["condition"]["met"], &document["exitCode"]), (&false.into(), &4.into()));
    assert_eq!(document["condition"]["parts"][0]["until"], "degraded");
    assert_eq!(document["condition"]["lookAt"][0]["pod"], pods[2]["name"]);
}

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("a folder")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Otherwise what did not hold would be found in a file as if it had, or an earlier record be lost to a later state.
#[test]
fn a_file_is_saved_only_where_the_condition_held_and_never_over_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("web.json");
    let out = ["--out", file.to_str().expect("a path")];
    let failed = observe(&[&out[..], &["--until", "complete"]].concat()).expect(4);
    assert!(failed.stderr.contains("Nothing was saved to "), "{}", failed.stderr);
    assert_eq!(entries(folder.path()), [""; 0]);

    let held = observe(&[&out[..], &["--until", "incomplete", "-o", "json"]].concat()).expect(0);
    assert_eq!(entries(folder.path()), ["web.json"], "and nothing beside it");
    let saved = fs::read_to_string(&file).expect("a file");
    assert_eq!(saved, held.stdout, "the file is the document");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    }

    let again = observe(&out).expect(2);
    assert_eq!(again.stdout, "", "nothing was read");
    assert!(again.stderr.contains("exists already; --overwrite replaces it"), "{}", again.stderr);
    assert_eq!(fs::read_to_string(&file).expect("a file"), saved);
    observe(&[&out[..], &["--overwrite", "--until", "stable"]].concat()).expect(4);
    assert_eq!(fs::read_to_string(&file).expect("a file"), saved, "not over it by what did not hold");
    let replaced = observe(&[&out[..], &["--overwrite", "-o", "json"]].concat()).expect(0);
    assert_eq!(fs::read_to_string(&file).expect("a file"), replaced.stdout);
    assert_ne!(replaced.stdout, saved);
    assert_eq!(entries(folder.path()), ["web.json"]);

    let nowhere = folder.path().join("absent/web.json");
    let nowhere = observe(&["--out", nowhere.to_str().expect("a path")]).expect(1);
    assert!(nowhere.stderr.contains("cannot write"), "{}", nowhere.stderr);
}

/// Otherwise a typo would wait for its timeout, or a flag do nothing.
#[test]
fn usage_errors_exit_2() {
    for (arguments, word) in [
        (&["--until", "done"][..], "complete, incomplete"),
        (&["--until", "pod-replaced="], "pod-replaced=UID"),
        (&["--probe", "/a/../b"], "would lead elsewhere"),
        (&["--probe", "/ready"], "files hold none that runs"),
        (&["--probe-pod-field", "pod"], "--probe"),
        (&["--show-content"], "--probe"),
        (&["--overwrite"], "--out"),
        (&["--timeout", "5s"], "--until"),
        (&["--until", "stable", "--timeout", "soon"], "duration"),
    ] {
        let ran = observe(arguments).expect(2);
        assert!(ran.stdout.is_empty() && ran.stderr.contains(word), "{arguments:?}: {}", ran.stderr);
    }
}
