//! The examples of the help texts, run.

use super::{release, settings};
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS};
use crate::support::control_plane::ControlPlane;
use crate::support::incident;
use crate::support::kubelet::Play;
use crate::support::player::Player;
use crate::support::product::Ran;
use crate::support::verbs::all_examples;
use serde_json::json;

/// Does it change nothing, whoever runs it?
fn reads(example: &[String]) -> bool {
    let words: Vec<&str> = example.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["undo" | "restore", ..] | ["snapshot", "create" | "prune", ..] => {
            words.iter().any(|w| w.starts_with("--dry-run"))
        }
        ["completion", "install", rest @ ..] => rest.contains(&"--print"),
        _ => true,
    }
}

/// Otherwise the first line that a person copies could be the first that fails.
#[test]
fn every_example_that_only_reads_does_what_it_shows() {
    let namespace = ControlPlane::main().namespace("examples");
    settings(&namespace);
    namespace.all(DEPLOYMENTS).create(&incident::web(1)).ok();
    let _player = Player::run(&namespace, |_| Some(Play::ready()));
    incident::rolled_out(&namespace, "web");
    for name in ["two", "three", "four"] {
        namespace.at(DEPLOYMENTS, "web").merge_patch(&release(name)).ok();
        incident::rolled_out(&namespace, "web");
    }
    namespace.at(CONFIGMAPS, "settings").merge_patch(&json!({"data": {"a": "3"}})).ok();
    let folder = tempfile::tempdir().expect("a folder");
    let mut ran = 0;
    for example in all_examples().into_iter().filter(|example| reads(example)) {
        let line = example.join(" ");
        let arguments: Vec<&str> = example.iter().map(String::as_str).collect();
        // A namespace of its own is part of one.
        let mut command = match arguments.contains(&"-n") {
            false => namespace.product(&arguments),
            true => {
                let mut command = crate::support::product::command();
                command.args(&arguments);
                command
            }
        };
        let done = Ran::from(command.current_dir(folder.path()).output().expect("it runs"));
        // The answer may be no, and for diff 1 is an answer.
        let answers: &[i32] = match arguments[0] {
            "diff" => &[0, 1, 3],
            "check" | "undo" => &[0, 3],
            _ => &[0],
        };
        assert!(
            answers.contains(&done.code),
            "kubectl saferollback {line}: {}\n{}{}",
            done.code,
            done.stdout,
            done.stderr
        );
        assert!(!done.stdout.is_empty() || arguments.contains(&"--out"), "{line}: {}", done.stderr);
        ran += 1;
    }
    assert!(ran >= 20, "{ran} examples were run");
    let writes =
        namespace.audit().into_iter().filter(|e| e.user_agent.contains("kubectl-saferollback") && e.mutating());
    assert_eq!(writes.count(), 0);
}
