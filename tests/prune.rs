//! What of ours may go, as a decision.

use jiff::SignedDuration;
use saferollback::core::object::Object;
use saferollback::core::prune::{Fate, Ours, Users, YOUNG, fate, held};
use saferollback::core::references::Kind;
use serde_json::{Value, json};

use crate::verdict::scene::*;

const LABELS: [&str; 2] = ["app.kubernetes.io/managed-by", "saferollback.dev/kind"];

fn ours(name: &str, kind: &str, created: i64) -> Value {
    let mut object = config_map(name, json!({"A": "1"}), 100, created);
    object["metadata"]["labels"] = json!({LABELS[0]: "kubectl-saferollback", LABELS[1]: kind});
    object["metadata"]["annotations"] = json!({"saferollback.dev/source": "settings"});
    object
}

fn users(objects: &[Value]) -> Users {
    Users { objects: objects.iter().cloned().map(Object).collect(), unseen: Vec::new() }
}

/// One snapshot and these users: its readers and its fate two hours after its creation.
fn of(objects: &[Value]) -> (Vec<String>, Fate) {
    let users = users(objects);
    let all = held(&[Object(ours("settings-sr-x", "snapshot", 0))], &users);
    let [one] = all.as_slice() else { panic!("{all:?}") };
    (one.users.iter().cloned().collect(), fate(one, &users, time(7200)))
}

fn naming(pointer: &str, kind: &str) -> Value {
    let mut object = json!({"kind": kind, "metadata": {"name": "x", "uid": "u"}});
    let template = image(env_from(), "x");
    let text = template.to_string().replace("\"settings\"", "\"settings-sr-x\"");
    set(&mut object, pointer, serde_json::from_str(&text).unwrap());
    object
}

/// Without this a kind of workload would be overlooked, and what it names deleted.
#[test]
fn whoever_names_a_snapshot_keeps_it() {
    assert_eq!(of(&[]), (vec![], Fate::Goes));
    for (pointer, kind) in [
        ("/spec/template", "ReplicaSet"),
        ("/spec/template", "Deployment"),
        ("/spec/template", "Job"),
        ("/spec/jobTemplate/spec/template", "CronJob"),
        ("/data/spec/template", "ControllerRevision"),
        ("/template", "PodTemplate"),
    ] {
        let (readers, fate) = of(&[naming(pointer, kind)]);
        assert_eq!(readers, [format!("{}/x", kind.to_lowercase())], "{kind}");
        assert_eq!(fate, Fate::Stays(format!("named by {}/x", kind.to_lowercase())), "{kind}");
    }
    // A ReplicaSet, Job or revision is its owner's.
    let mut set = naming("/spec/template", "ReplicaSet");
    set["metadata"]["ownerReferences"] = json!([{"kind": "Deployment", "name": "web", "uid": "d", "controller": true}]);
    let pod = naming("", "Pod");
    let pod = json!({"kind": "Pod", "metadata": {"name": "p", "uid": "p"}, "spec": pod["spec"]});
    let mut bare = pod.clone();
    set_name(&mut bare);
    let (readers, fate) = of(&[set, bare]);
    assert_eq!(readers, ["deployment/web", "pod/p"]);
    assert_eq!(fate, Fate::Stays("named by deployment/web and 1 more".into()));
    // A Secret of that name is none.
    let secret = json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "a", "envFrom": [{"secretRef": {"name": "settings-sr-x"}}]}]}});
    assert!(saferollback::core::references::extract(&secret).get(Kind::Secret, "settings-sr-x").is_some());
    assert_eq!(of(&[secret]).1, Fate::Goes);
}

fn set_name(pod: &mut Value) {
    pod["spec"] = json!({"containers": [{"name": "a", "envFrom": [{"configMapRef": {"name": "settings-sr-x"}}]}]});
}

/// Without this what is young, in use by a run of this moment, or perhaps named by what cannot be seen would go.
#[test]
fn the_young_the_touched_and_the_unseen_stay() {
    let none = users(&[]);
    let at = |object: Value, seconds: i64| {
        let all = held(&[Object(object)], &none);
        fate(&all[0], &none, time(seconds))
    };
    let hour = YOUNG.as_secs();
    assert_eq!(YOUNG, SignedDuration::from_hours(1));
    assert_eq!(at(ours("a", "snapshot", 100), 100 + hour), Fate::Goes);
    assert!(matches!(at(ours("a", "snapshot", 100), 99 + hour), Fate::Stays(why) if why.contains("less than 1h")));
    let mut touched = ours("a", "snapshot", 100);
    touched["metadata"]["managedFields"].as_array_mut().unwrap().push(managed(
        "saferollback-annotate",
        5000,
        json!({}),
    ));
    assert!(matches!(at(touched.clone(), 100 + hour), Fate::Stays(_)));
    assert_eq!(at(touched, 5000 + hour), Fate::Goes);
    let mut ageless = ours("a", "snapshot", 100);
    without(&mut ageless, "/metadata/creationTimestamp");
    ageless["metadata"]["managedFields"] = json!([]);
    assert!(matches!(at(ageless, 100_000), Fate::Stays(why) if why.contains("age is not known")));
    let mut going = ours("a", "snapshot", 0);
    set(&mut going, "/metadata/deletionTimestamp", json!(stamp(10)));
    assert!(matches!(at(going, 100_000), Fate::Stays(why) if why.contains("being deleted")));
    let blind = Users { objects: Vec::new(), unseen: vec!["cronjobs is forbidden".into()] };
    let all = held(&[Object(ours("a", "snapshot", 0))], &blind);
    assert!(matches!(fate(&all[0], &blind, time(100_000)), Fate::Stays(why) if why.contains("cronjobs is forbidden")));
}

/// Without this a snapshot that only a record names would go while the revision is still there, and stay for ever after.
#[test]
fn a_record_is_in_use_as_long_as_its_replica_set_is_there() {
    let mut scene = Scene::calm(env_from());
    scene.record(1, 0);
    let mut snapshot = scene.snapshots[0].clone();
    set(&mut snapshot, "/metadata/creationTimestamp", json!(stamp(0)));
    set(&mut snapshot, "/metadata/uid", json!("uid-snapshot"));
    let all = [Object(snapshot), Object(scene.records[0].clone()), Object(ours("other", "neither", 0))];
    let there = users(&scene.sets);
    let kept = held(&all, &there);
    let words: Vec<(&str, &str, Vec<u64>)> =
        kept.iter().map(|h| (h.ours.word(), h.source.as_str(), h.revisions.iter().copied().collect())).collect();
    assert_eq!(words, [("snapshot", "configmap/settings", vec![1]), ("record", "deployment/web", vec![1])]);
    assert!(Ours::Snapshot < Ours::Record);
    let record = scene.records[0]["metadata"]["name"].as_str().unwrap();
    assert_eq!(fate(&kept[0], &there, time(100_000)), Fate::Stays(format!("named by configmap/{record}")));
    assert_eq!(fate(&kept[1], &there, time(100_000)), Fate::Stays("named by deployment/web".into()));
    let gone = users(&[]);
    for one in held(&all, &gone) {
        assert_eq!(fate(&one, &gone, time(100_000)), Fate::Goes, "{}", one.object.name());
    }
    // One that cannot be read names nothing, and is no reader.
    let mut broken = scene.records[0].clone();
    broken["data"]["record"] = json!("{");
    let unreadable = held(&[Object(broken)], &there);
    assert_eq!((unreadable[0].source.as_str(), unreadable[0].users.len()), ("<unreadable>", 0));
}
