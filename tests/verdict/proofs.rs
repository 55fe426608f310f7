//! The proofs of `same`: each holds when all of its conditions do, and falls with any one of them.

use saferollback::core::verdict::Verdict;
use serde_json::{Value, json};

use super::scene::*;

/// A scene, one change to it, and the verdict that must come of it.
type Step = (&'static str, fn(&mut Scene), Verdict);

fn check(name: &str, start: impl Fn() -> Scene, revision: u64, steps: &[Step]) {
    let scene = start();
    let judgement = scene.judgement(revision);
    assert_eq!(judgement.verdict, Verdict::Same, "{name}: {:#?}", judgement.facts);
    assert!(judgement.facts.iter().all(|f| f.proof), "{name}: {:#?}", judgement.facts);
    for (what, change, verdict) in steps {
        let mut scene = start();
        change(&mut scene);
        let judgement = scene.judgement(revision);
        assert_eq!(judgement.verdict, *verdict, "{name}, {what}: {:#?}", judgement.facts);
        let live = judgement.candidates.iter().find(|c| c.origin.word() == "live");
        assert!(live.is_none_or(|c| c.grade.word() != "proof"), "{name}, {what}: {live:#?}");
    }
}

/// Takes away every number that could bound a read.
fn numberless(scene: &mut Scene) {
    scene.events.clear();
    scene.domain = Default::default();
}

#[test]
fn resource_version_order() {
    use Verdict::*;
    check(
        "Events of the start",
        || Scene::calm(env_from()),
        1,
        &[
            (
                "written since",
                |s| {
                    s.overwrite(json!({"A": "2"}), 215);
                },
                WrittenDuring,
            ),
            (
                "written after the Pod's last change",
                |s| {
                    s.overwrite(json!({"A": "2"}), 245);
                },
                WrittenAfter,
            ),
            ("no Events, domain off", |s| numberless(s), Unknown),
            ("no Events", |s| s.events.clear(), LikelySame),
            ("Pods' numbers are of another store", |s| s.domain.pods = false, LikelySame),
            (
                "only other reasons",
                |s| {
                    s.only_events(&["Unhealthy"]);
                },
                LikelySame,
            ),
            (
                "the Events are of another Pod",
                |s| {
                    for e in &mut s.events {
                        e["involvedObject"]["uid"] = json!("another");
                    }
                },
                LikelySame,
            ),
            (
                "anchor above the Pod's own number",
                |s| {
                    for e in &mut s.events {
                        e["involvedObject"]["resourceVersion"] = json!("99999");
                    }
                },
                LikelySame,
            ),
            (
                "anchor is no number",
                |s| {
                    for e in &mut s.events {
                        e["involvedObject"]["resourceVersion"] = json!("abc");
                    }
                },
                LikelySame,
            ),
            (
                "created 9 s before the Pod",
                |s| {
                    s.objects[0] = config_map("settings", json!({"A": "1"}), 100, 991);
                },
                LikelySame,
            ),
            (
                "written 9 s before the Pod",
                |s| {
                    s.write(json!({"A": "2"}), 190, 991);
                },
                LikelySame,
            ),
            (
                "written after the Pod was created, by managedFields",
                |s| {
                    s.write(json!({"A": "2"}), 190, 1001);
                },
                LikelySame,
            ),
            (
                "managedFields wiped: a late kubelet may have read the state before an unseen write",
                |s| {
                    s.objects[0]["metadata"]["managedFields"] = json!([]);
                },
                LikelySame,
            ),
            ("no creation time", |s| without(&mut s.objects[0], "/metadata/creationTimestamp"), LikelySame),
            (
                "the Pod's node was NotReady",
                |s| {
                    let event = event(&s.pods[0], "NodeNotReady", None, 241, 242, 1100);
                    s.events.push(event);
                },
                LikelySame,
            ),
            (
                "a second Pod without Events",
                |s| {
                    let pod = pod(&s.sets[0], "ccccc", 600, 3000);
                    s.pods.push(pod);
                },
                LikelySame,
            ),
            (
                "created one second before the Deployment's Pods",
                |s| {
                    s.objects[0] = config_map("settings", json!({"A": "1"}), 100, 999);
                },
                LikelySame,
            ),
            (
                "re-created after the Pod",
                |s| {
                    s.recreate(json!({"A": "1", "B": "2"}), 300, 1100);
                },
                Recreated,
            ),
            ("Pods unreadable", |s| s.no_pods = true, LikelySame),
        ],
    );
}

#[test]
fn each_event_of_the_start_is_enough_alone() {
    for reason in ["Scheduled", "Pulled", "Created", "Started"] {
        let mut scene = Scene::calm(env_from());
        scene.only_events(&[reason]);
        assert_eq!(scene.verdict(1), Verdict::Same, "{reason}");
    }
}

#[test]
fn pod_time_travel() {
    use Verdict::*;
    let start = || {
        let mut scene = Scene::calm(env_from());
        scene.events.clear();
        scene.births.insert(scene.pods[0]["metadata"]["uid"].as_str().unwrap().into(), 200);
        scene
    };
    check(
        "created version of the Pod",
        start,
        1,
        &[
            (
                "born before the write",
                |s| {
                    s.overwrite(json!({"A": "2"}), 205);
                },
                WrittenDuring,
            ),
            ("domain off", |s| s.domain.pods = false, Unknown),
            ("another Pod's birth", |s| s.births = [("another".to_string(), 200)].into(), LikelySame),
            (
                "too fresh",
                |s| {
                    s.write(json!({"A": "2"}), 190, 995);
                },
                LikelySame,
            ),
        ],
    );
}

#[test]
fn plain_immutable() {
    use Verdict::*;
    let start = || {
        let mut scene = Scene::retired(env_from());
        scene.immutable(10);
        numberless(&mut scene);
        scene
    };
    check(
        "immutable since before the first Pod",
        start,
        1,
        &[
            ("the flag is not set", |s| s.objects[0]["immutable"] = json!(false), Unknown),
            (
                "the flag was set later",
                |s| {
                    s.objects[0]["metadata"]["managedFields"][1]["time"] = json!(stamp(1500));
                },
                WrittenDuring,
            ),
            (
                "the flag was set in the second of the first Pod",
                |s| {
                    s.objects[0]["metadata"]["managedFields"][1]["time"] = json!(stamp(1000));
                },
                WrittenDuring,
            ),
            (
                "the flag was set a second before",
                |s| {
                    s.objects[0]["metadata"]["managedFields"][1]["time"] = json!(stamp(999));
                },
                WrittenDuring,
            ),
            ("managedFields wiped", |s| s.objects[0]["metadata"]["managedFields"] = json!([]), Unknown),
            (
                "no entry owns the flag",
                |s| {
                    s.objects[0]["metadata"]["managedFields"].as_array_mut().unwrap().truncate(1);
                },
                Unknown,
            ),
            (
                "younger than revision 1",
                |s| {
                    let flag = s.objects[0]["metadata"]["managedFields"][1].clone();
                    s.recreate(json!({"A": "1"}), 300, 1100);
                    s.objects[0]["immutable"] = json!(true);
                    s.objects[0]["metadata"]["managedFields"].as_array_mut().unwrap().push(flag);
                },
                Recreated,
            ),
            (
                "created together with revision 1",
                |s| {
                    let flag = s.objects[0]["metadata"]["managedFields"][1].clone();
                    s.objects[0] = config_map("settings", json!({"A": "1"}), 100, 999);
                    s.objects[0]["immutable"] = json!(true);
                    s.objects[0]["metadata"]["managedFields"] = json!([flag]);
                },
                Unknown,
            ),
        ],
    );
}

/// The snapshot that this tool would make of `data`.
fn snapshot(data: &Value, version: u64, created: i64) -> Value {
    let mut object = config_map("settings", data.clone(), version, created);
    let content = saferollback::core::digest::Content::from_object(&saferollback::core::object::Object(object.clone()));
    let name = saferollback::core::snapshot::name("settings", &content.unwrap(), 16);
    object["metadata"]["name"] = json!(name);
    object["immutable"] = json!(true);
    object["metadata"]["managedFields"] =
        json!([managed("saferollback", created, json!({"f:data": {}, "f:immutable": {}}))]);
    object
}

fn renamed(mut template: Value, name: &Value) -> Value {
    set(&mut template, "/spec/containers/0/envFrom/0/configMapRef/name", name.clone());
    template
}

#[test]
fn content_named_and_immutable() {
    let data = json!({"A": "1"});
    let start = |created: i64| {
        let object = snapshot(&data, 100, created);
        let mut scene = Scene::retired(renamed(env_from(), &object["metadata"]["name"]));
        numberless(&mut scene);
        scene.objects = vec![object];
        scene
    };
    let verdict = |scene: &Scene| scene.judged(1).references[0].verdict;
    assert_eq!(verdict(&start(900)), Verdict::Same);
    // It needs no age: a namesake has the same bytes.
    let mut scene = start(900);
    scene.pods.push(json!({
        "metadata": {"name": "older", "uid": "older", "creationTimestamp": stamp(10)},
        "spec": renamed(env_from(), &scene.objects[0]["metadata"]["name"])["spec"]
    }));
    assert_eq!(verdict(&scene), Verdict::Same, "older Pods may name it");
    let mut scene = start(900);
    scene.objects[0]["data"] = json!({"A": "hotfix"});
    assert_eq!(scene.judged(1).references[0].facts[0].source, "immutable", "the name no longer re-computes");
    let mut scene = start(900);
    scene.objects[0]["immutable"] = json!(false);
    assert_eq!(verdict(&scene), Verdict::LikelySame, "mutable: the bytes may have been others at the read");
    let mut scene = start(900);
    scene.objects[0]["metadata"]["managedFields"] = json!([]);
    assert_eq!(verdict(&scene), Verdict::LikelySame, "nobody knows since when it is immutable");
    assert_ne!(verdict(&start(1000)), Verdict::Same, "set in the second of the first Pod");
    assert_ne!(verdict(&start(1500)), Verdict::Same, "younger than the first Pod");
}

/// Would break: a name made by kubectl may have held a hotfix, frozen by hand, deleted and created again as generated. The
/// node keeps the hotfix as long as an older Pod names it. Snapshots of ours never had other bytes.
#[test]
fn a_generated_name_is_no_shield_against_a_namesake() {
    let mut object = snapshot(&json!({"k": "v"}), 100, 900);
    object["metadata"]["name"] = json!("plain-cht782m4gm");
    let mut scene = Scene::retired(renamed(env_from(), &object["metadata"]["name"]));
    numberless(&mut scene);
    scene.objects = vec![object];
    let judged = scene.judged(1);
    assert_eq!((judged.references[0].verdict, judged.references[0].facts[0].source), (Verdict::Same, "content-name"));
    scene.pods.push(json!({
        "metadata": {"name": "older", "uid": "older", "creationTimestamp": stamp(10)},
        "spec": renamed(env_from(), &scene.objects[0]["metadata"]["name"])["spec"]
    }));
    assert_eq!(scene.judged(1).references[0].verdict, Verdict::Recreated);
}

/// Would break: an undo that uses a snapshot again touches it, and its number then is above every Pod that read it
/// before. It would be called edited, although it cannot be.
#[test]
fn a_touched_snapshot_was_not_edited() {
    let object = snapshot(&json!({"A": "1"}), 900, 998);
    let name = object["metadata"]["name"].clone();
    let mut scene = Scene::calm(renamed(env_from(), &name));
    scene.objects = vec![object];
    assert_eq!(scene.judged(1).references[0].verdict, Verdict::LikelySame, "made within seconds of its Pod");
    scene.objects[0]["metadata"]["managedFields"][0]["time"] = json!(stamp(900));
    scene.objects[0]["metadata"]["creationTimestamp"] = json!(stamp(900));
    assert_eq!(scene.judged(1).references[0].verdict, Verdict::Same, "the flag's owner did not touch it");
    scene.objects[0]["immutable"] = json!(false);
    assert_eq!(scene.judged(1).references[0].verdict, Verdict::WrittenAfter, "mutable: its bytes may have been others");
}
