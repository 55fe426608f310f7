//! The shapes that the played node imitates, as the real one makes them.

use super::aged_settings;
use crate::support::control_plane::version;
use crate::support::node::{self, Node};
use serde_json::Value;

/// The tests on played nodes prove nothing if a real kubelet's Events point elsewhere.
#[test]
fn a_real_kubelet_points_at_the_pod_it_held_before_it_acted() {
    let namespace = Node::namespace("shapes");
    let settings = aged_settings(&namespace);
    node::deploy(&namespace, &node::web(1));
    let pod = node::pods(&namespace, "web").remove(0);
    let events = node::events_of_start(&namespace, &pod);
    let pointed = |event: &Value| -> u64 {
        let text = event["involvedObject"]["resourceVersion"].as_str();
        text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("it points at no version: {event:#}"))
    };
    for reason in ["Scheduled", "Pulled", "Created", "Started"] {
        let event = events.iter().find(|event| event["reason"] == reason);
        let event = event.unwrap_or_else(|| panic!("no {reason} in {events:#?}"));
        assert!(version(&settings) < pointed(event), "{event:#}");
        assert!(pointed(event) < version(event), "an Event is written after the version it points at: {event:#}");
        assert!(pointed(event) < version(&pod), "{event:#}");
        if reason == "Scheduled" {
            assert!(event["count"].is_null() && event["eventTime"].is_string(), "{event:#}");
        } else {
            assert_eq!(event["involvedObject"]["fieldPath"], "spec.containers{app}");
            assert_eq!(event["count"], 1);
        }
    }
    let status = &pod["status"]["containerStatuses"][0];
    assert!(status["state"]["running"]["startedAt"].is_string() && status["restartCount"] == 0, "{status:#}");
}
