//! Tests on a real node: what containers say they read is the truth, and no verdict may contradict it.

#[expect(dead_code, reason = "a program of its own: the tests only use how it spells what it read")]
mod app;
mod events;
mod facts;
mod lab;
mod namesake;
mod observe;
mod record;
mod restart;
mod status;
mod together;
mod trap;
mod uses;

use crate::support::client::CONFIGMAPS;
use crate::support::control_plane::Namespace;
use crate::support::incident::{self, AGED};
use serde_json::Value;

/// The ConfigMap of the incident, old enough for every proof, and nothing that names it.
fn aged_settings(namespace: &Namespace) -> Value {
    let made = namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    std::thread::sleep(AGED);
    made
}

/// The report on one revision's reference to `settings`.
#[track_caller]
fn judged(namespace: &Namespace, workload: &str, revision: u64) -> Value {
    let history = namespace.run(&["history", workload, "-o", "json"]).expect(0).document();
    let revisions = history["revisions"].as_array().expect("revisions");
    let found =
        revisions.iter().find(|r| r["number"] == revision).unwrap_or_else(|| panic!("no {revision}: {history:#}"));
    let references = found["references"].as_array().expect("references");
    references.iter().find(|r| r["name"] == "settings").unwrap_or_else(|| panic!("no settings in {found:#}")).clone()
}

/// Everything a reference's evidence says, in one text.
fn evidence(reference: &Value) -> String {
    let facts = reference["evidence"].as_array().into_iter().flatten();
    facts.filter_map(|fact| fact["detail"].as_str()).collect::<Vec<_>>().join("\n")
}
