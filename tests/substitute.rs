//! Which Pod is evicted, which one came in its place, and what was written in between.

use saferollback::core::object::Object;
use saferollback::core::substitute::{self, Evicted, Named};
use serde_json::{Value, json};

fn pod(name: &str, second: u8, ready: bool) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": format!("u-{name}"), "creationTimestamp": format!("2026-11-29T12:00:{second:02}Z"),
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": true}],
        },
        "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    })
}

fn with(mut pod: Value, pointer: &str, key: &str, value: Value) -> Object {
    pod.pointer_mut(pointer).and_then(Value::as_object_mut).expect("an object").insert(key.into(), value);
    Object(pod)
}

fn config_map(uid: &str, version: &str, immutable: bool) -> Object {
    Object(json!({"kind": "ConfigMap", "immutable": immutable,
        "metadata": {"name": "settings", "uid": uid, "resourceVersion": version}}))
}

fn named(object: Option<Object>) -> Named {
    object.map(|o| ("ConfigMap/settings".to_string(), o)).into_iter().collect()
}

/// Without this a Pod that is broken, leaving or somebody else's would be evicted, and its end prove nothing.
#[test]
fn the_newest_healthy_pod_of_the_revision_is_chosen() {
    let foreign = json!([{"kind": "ReplicaSet", "name": "other", "uid": "other", "controller": true}]);
    let pods = [
        Object(pod("a", 1, true)),
        Object(pod("b", 5, true)),
        Object(pod("broken", 7, false)),
        with(pod("leaving", 8, true), "/metadata", "deletionTimestamp", json!("2026-11-29T12:00:09Z")),
        with(pod("foreign", 9, true), "/metadata", "ownerReferences", foreign),
    ];
    let healthy: Vec<&str> = substitute::healthy(&pods, "rs").iter().map(|p| p.name()).collect();
    assert_eq!(healthy, ["b", "a"]);
}

/// Without this a neighbour that was there before would be called the substitute after a run that was cut off, or the
/// evicted Pod itself.
#[test]
fn a_substitute_is_younger_than_the_evicted_pod() {
    let evicted = Evicted::of(&Object(pod("b", 5, true)), &Named::new()).expect("it has a time");
    let of = |pods: &[Object]| evicted.substitute(pods, "rs").map(|p| p.name().to_string());
    let before = [Object(pod("a", 1, true)), Object(pod("twin", 5, true)), Object(pod("b", 5, true))];
    assert_eq!(of(&before), None);
    assert!(evicted.standing(&before).is_some());
    let after = [Object(pod("a", 1, true)), Object(pod("second", 9, true)), Object(pod("first", 7, false))];
    assert_eq!(of(&after), Some("first".into()), "the first that came, ready or not");
    assert!(evicted.standing(&after).is_none());
    let leaving = with(pod("b", 5, true), "/metadata", "deletionTimestamp", json!("2026-11-29T12:00:09Z"));
    assert!(evicted.standing(&[leaving]).is_none(), "it is evicted already");
    // What the annotation holds is what the next run reads.
    let text = serde_json::to_string(&evicted).expect("JSON");
    assert_eq!(serde_json::from_str::<Evicted>(&text).expect("the same"), evicted);
}

/// Without this a write between eviction and start would pass; or a touched snapshot would fail every proof.
#[test]
fn what_was_written_meanwhile_is_named() {
    let pod = Object(pod("b", 5, true));
    let moved = |before: Option<Object>, after: Option<Object>| {
        Evicted::of(&pod, &named(before)).expect("it has a time").moved(&named(after))
    };
    let one = || Some(config_map("u", "7", false));
    assert_eq!(moved(one(), one()), [""; 0]);
    assert_eq!(moved(None, None), [""; 0]);
    for (before, after) in [
        (one(), Some(config_map("u", "8", false))),
        (one(), Some(config_map("other", "7", false))),
        (one(), None),
        // Edited and frozen in one write.
        (one(), Some(config_map("u", "8", true))),
        (None, one()),
        (Some(config_map("u", "7", true)), Some(config_map("other", "8", true))),
    ] {
        assert_eq!(moved(before, after), ["configmap/settings"]);
    }
    let touched = moved(Some(config_map("u", "7", true)), Some(config_map("u", "8", true)));
    assert_eq!(touched, [""; 0], "an immutable object that is still the same one holds what it held");
}
