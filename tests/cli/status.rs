//! `status` on dumps.

use crate::support::product;

const DUMP: &str = "tests/incident";

/// Otherwise nobody could ask of the files of an incident where its rollout stood, and what a new Pod would have read.
#[test]
fn the_screens_of_the_recorded_incident() {
    insta::assert_snapshot!("status", product::run(&["status", "web", "--from-file", DUMP]).whole());
    let ran = product::run(&["status", "web", "--from-file", DUMP, "-o", "json"]);
    let document = ran.document();
    assert_eq!((&document["kind"], document["revisions"].as_array().map(Vec::len)), (&"Status".into(), Some(1)));
}

/// Otherwise a time limit without a wait, or a wait for files to change, would be passed over.
#[test]
fn what_cannot_be_waited_for_is_a_usage_error() {
    let alone = product::run(&["status", "web", "--from-file", DUMP, "--timeout", "5s"]).expect(2);
    assert!(alone.stderr.contains("--watch"), "{alone:?}");
    let files = product::run(&["status", "web", "--from-file", DUMP, "--watch"]).expect(2);
    assert!(files.stderr.contains("files do not change"), "{files:?}");
}
