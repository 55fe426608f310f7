//! What is kept, pinned or refused, the plan that comes of it, and the patch.

use std::collections::BTreeMap;

use saferollback::core::digest::Content;
use saferollback::core::history;
use saferollback::core::object::Object;
use saferollback::core::observed::{Domain, Origin};
use saferollback::core::patch;
use saferollback::core::plan::Plan;
use saferollback::core::policy::{Action, Code, Config, Given, Rules, decide};
use saferollback::core::recovery::{Candidate, Grade};
use saferollback::core::verdict::Verdict;
use serde_json::{Value, json};

use crate::verdict::scene::*;

fn rules(config: Config, require: Grade) -> Rules {
    Rules { config, require, given: BTreeMap::new() }
}

fn auto() -> Rules {
    Rules::default()
}

/// `keep`, `pin live`, `pin time-travel`, or the refusal's code.
fn action(plan: &Plan) -> String {
    match &plan.decisions[0].action {
        Action::Keep => "keep".into(),
        Action::Pin(candidate) => format!("pin {}", candidate.origin.word()),
        Action::Refuse(code) => code.word().into(),
    }
}

/// Revision 1 retired with `settings` untouched: `same`.
fn same() -> Scene {
    Scene::retired(env_from())
}

/// `likely-same`: the Events of revision 1's start are gone, but for one near number.
fn likely() -> Scene {
    let mut scene = same();
    scene.keep_events(|e| e["reason"] == "Started");
    scene
}

/// `changed`, and the version that was read is known.
fn changed() -> Scene {
    let mut scene = same();
    scene.write(json!({"A": "bad", "B": "2"}), 590, 3000);
    scene
}

/// `written-after`, and nothing older is known.
fn lost() -> Scene {
    let mut scene = changed();
    scene.no_past();
    scene
}

fn missing() -> Scene {
    let mut scene = same();
    scene.objects.clear();
    scene
}

fn key_missing() -> Scene {
    let mut scene = Scene::retired(key_ref("A"));
    scene.write(json!({"B": "2"}), 590, 3000).no_past();
    scene
}

fn unreadable() -> Scene {
    let mut scene = missing();
    scene.unreadable.push(("settings".into(), "forbidden".into()));
    scene
}

#[test]
fn each_config_on_each_verdict() {
    use Config::*;
    use Grade::{Likely, Proof};
    let table: [(&str, Scene, [&str; 5]); 7] = [
        //                      auto, likely       auto, proof            pin, likely            pin, proof             live
        ("same", same(), ["keep", "keep", "pin live", "pin live", "keep"]),
        ("likely-same", likely(), ["keep", "content-not-proven", "pin live", "content-not-proven", "keep"]),
        ("changed", changed(), ["pin time-travel", "pin time-travel", "pin time-travel", "pin time-travel", "keep"]),
        ("written-after", lost(), ["content-not-found"; 5].map(|w| w)),
        (
            "missing",
            missing(),
            ["content-not-found", "content-not-found", "content-not-found", "content-not-found", "missing"],
        ),
        (
            "key-missing",
            key_missing(),
            ["content-not-found", "content-not-found", "content-not-found", "content-not-found", "key-missing"],
        ),
        ("unreadable", unreadable(), ["unreadable", "unreadable", "unreadable", "unreadable", "keep"]),
    ];
    for (verdict, scene, mut wanted) in table {
        if verdict == "written-after" {
            wanted[4] = "keep";
        }
        assert_eq!(scene.verdict(1).word(), verdict);
        let ways = [(Auto, Likely), (Auto, Proof), (Pin, Likely), (Pin, Proof), (Live, Likely)];
        for ((config, require), wanted) in ways.into_iter().zip(wanted) {
            let plan = scene.plan(1, &rules(config, require));
            assert_eq!(action(&plan), wanted, "{verdict}, {config:?} {require:?}");
            // A refusal writes nothing: no snapshot of the refused reference, and it is said why.
            let refused = matches!(plan.decisions[0].action, Action::Refuse(_));
            assert_eq!(plan.refused(), refused);
            assert_eq!(plan.snapshots.len(), usize::from(wanted.starts_with("pin")));
            assert!(
                plan.refusals.iter().all(|r| r.message.contains("configmap/settings") && !r.message.ends_with('.'))
            );
        }
    }
}

#[test]
fn a_likely_version_is_bound_or_not_proven_and_never_not_found() {
    // Would break: "not found" sends the person after a file, though --require=likely would bind what is there.
    let mut scene = likely();
    scene.overwrite(json!({"A": "x"}), 215).write(json!({"A": "bad"}), 590, 3000);
    assert_eq!(action(&scene.plan(1, &auto())), "pin time-travel");
    let proof = rules(Config::Auto, Grade::Proof);
    assert_eq!(action(&scene.plan(1, &proof)), "content-not-proven");
    // Nor where what is live is likely the same, and no content could be chosen to bind it.
    let mut judgement = likely().judgement(1);
    judgement.candidates.clear();
    assert!(matches!(decide(&judgement, &proof, true).action, Action::Refuse(Code::ContentNotProven)));
}

#[test]
fn live_keeps_a_missing_object_only_where_no_pod_starts() {
    let live = rules(Config::Live, Grade::Likely);
    let mut scene = missing();
    assert_eq!(action(&scene.plan(1, &live)), "missing");
    // The target's Pods are alive and stay: nothing has to start now.
    scene.pods = vec![pod(&scene.sets[0], "aaaaa", 200, 1000)];
    assert_eq!(action(&scene.plan(1, &live)), "keep");
    assert_eq!(scene.plan(1, &live).decisions[0].grade, Grade::None, "and it is not called safe");
    let mut lacking = key_missing();
    assert_eq!(action(&lacking.plan(1, &live)), "key-missing");
    lacking.pods = vec![pod(&lacking.sets[0], "aaaaa", 200, 1000)];
    assert_eq!(action(&lacking.plan(1, &live)), "keep", "a key that is missing stops no running container");
}

#[test]
fn a_pin_names_the_snapshot_and_changes_nothing_else() {
    // the whole old template, hash label gone, order and doubles kept, one name replaced.
    let mut template = env_from();
    template["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)/x"}, {"name": "A", "value": "2"}]);
    template["spec"]["futureField"] = json!({"a": 1});
    let mut scene = Scene::retired(template.clone());
    scene.write(json!({"A": "bad", "B": "2"}), 590, 3000);
    let plan = scene.plan(1, &auto());
    let name = plan.snapshots[0].name.clone();
    set(&mut template, "/spec/containers/0/envFrom/0/configMapRef/name", json!(name));
    assert_eq!(plan.template.to_string(), template.to_string(), "byte for byte, member order too");
    assert!(name.starts_with("settings-sr-"));
    let held: Vec<_> = plan.snapshots[0].content.data.values().cloned().collect();
    assert_eq!(held, [b"1".to_vec(), b"2".to_vec()], "what revision 1 read, not what is live");
}

/// Without this a credential that was rotated away would come back (C50).
#[test]
fn trust_bundles_are_kept_and_secrets_never_pinned() {
    let named = |change: fn(&mut Value)| {
        let mut scene = changed();
        scene.no_past();
        change(&mut scene.objects[0]);
        scene
    };
    let bundle: [fn(&mut Value); 3] = [
        |o| o["metadata"]["labels"] = json!({"config.openshift.io/inject-trusted-cabundle": "true"}),
        |o| o["metadata"]["labels"] = json!({"trust.cert-manager.io/bundle": "ca"}),
        |o| o["metadata"]["annotations"] = json!({"service.beta.openshift.io/inject-cabundle": "true"}),
    ];
    for change in bundle {
        for config in [Config::Auto, Config::Pin] {
            let plan = named(change).plan(1, &rules(config, Grade::Proof));
            assert_eq!(
                (action(&plan).as_str(), plan.snapshots.len()),
                ("keep", 0),
                "a pinned CA bundle is a frozen one"
            );
        }
    }
    let secret = |version: u64, config| {
        let mut template = env_from();
        template["spec"]["containers"][0]["envFrom"] = json!([{"secretRef": {"name": "settings"}}]);
        let mut scene = Scene::retired(template);
        scene.objects[0] = config_map("settings", json!({}), version, 0);
        scene.objects[0]["kind"] = json!("Secret");
        scene.objects[0]["metadata"]["managedFields"] = json!([managed("k", 0, json!({"f:data": {"f:p": {}}}))]);
        action(&scene.plan(1, &rules(config, Grade::Likely)))
    };
    assert_eq!(secret(100, Config::Auto), "keep");
    assert_eq!(secret(100, Config::Pin), "keep");
    assert_eq!(secret(590, Config::Auto), "secret-not-pinned");
    assert_eq!(secret(590, Config::Live), "keep");
}

/// A retired revision that reads this one object.
fn naming(source: &str, name: &str) -> Scene {
    let mut template = env_from();
    template["spec"]["containers"][0]["envFrom"] = json!([{source: {"name": name}}]);
    let mut scene = Scene::retired(template);
    scene.objects.clear();
    scene
}

#[test]
fn what_is_never_pinned_is_not_pinned_by_hand_either() {
    // Would break: --use would put a Secret's values, or a CA that rotates, into a ConfigMap of ours.
    let given = |name: &str| Rules { given: [(name.to_string(), file(json!({"A": "mine"})))].into(), ..auto() };
    let mut secret = config_map("settings", json!({}), 590, 0);
    secret["kind"] = json!("Secret");
    let mut scene = naming("secretRef", "settings");
    scene.objects = vec![secret];
    assert_eq!(action(&scene.plan(1, &given("settings"))), "secret-not-pinned");
    let mut scene = naming("configMapRef", "openshift-service-ca.crt");
    scene.objects = vec![config_map("openshift-service-ca.crt", json!({"ca": "new"}), 590, 0)];
    assert_eq!(action(&scene.plan(1, &given("openshift-service-ca.crt"))), "keep");
}

#[test]
fn what_is_never_pinned_is_refused_where_it_is_not_there() {
    // Would break: "is not pinned" sends the person the wrong way; the object is gone, or may not be read.
    assert_eq!(action(&naming("secretRef", "settings").plan(1, &auto())), "missing");
    let mut bundle = naming("configMapRef", "openshift-service-ca.crt");
    assert_eq!(action(&bundle.plan(1, &auto())), "missing", "a new Pod would wait for it");
    bundle.unreadable.push(("openshift-service-ca.crt".into(), "forbidden".into()));
    assert_eq!(action(&bundle.plan(1, &auto())), "unreadable");
}

#[test]
fn injected_references_are_kept_when_good_and_refused_otherwise() {
    let scene = |number: u64| {
        let mut scene = Scene::calm(env_from());
        let side = json!({"name": "mesh", "image": "mesh:1", "envFrom": [{"configMapRef": {"name": "mesh"}}]});
        scene.pods[0]["spec"]["containers"].as_array_mut().unwrap().push(side);
        let status = json!({"name": "mesh", "restartCount": 0, "state": {"running": {"startedAt": stamp(1002)}}});
        scene.pods[0]["status"]["containerStatuses"].as_array_mut().unwrap().push(status);
        scene.objects.push(config_map("mesh", json!({"M": "1"}), number, 0));
        scene.workload["spec"]["template"] = image(env_from(), "web:2");
        scene
    };
    let words = |number| {
        let plan = scene(number).plan(1, &rules(Config::Pin, Grade::Likely));
        plan.decisions.iter().map(|d| d.action.word()).collect::<Vec<_>>()
    };
    assert_eq!(words(110), ["pin", "keep"]);
    assert_eq!(words(590), ["pin", "refuse"]);
    let plan = scene(590).plan(1, &auto());
    assert_eq!(plan.refusals[0].code.word(), "injected");
}

fn file(data: Value) -> Given {
    let content = Content::from_object(&Object(json!({"data": data}))).unwrap();
    Given::File(Box::new(Candidate {
        digest: content.digest(),
        content,
        origin: Origin::File,
        source_uid: String::new(),
        from: None,
        until: None,
        grade: Grade::Proof,
    }))
}

fn using(given: Given) -> Rules {
    Rules { given: [("settings".to_string(), given)].into(), ..Rules::default() }
}

#[test]
fn use_takes_a_file_or_a_candidate_by_its_digest() {
    let plan = lost().plan(1, &using(file(json!({"A": "mine"}))));
    assert_eq!(action(&plan), "pin file");
    // A key that the template needs is not in the file: the new Pod would not start.
    let plan = key_missing().plan(1, &using(file(json!({"Z": "1"}))));
    assert_eq!(action(&plan), "key-missing");
    let scene = changed();
    let candidates = scene.judgement(1).candidates;
    let live = candidates.iter().find(|c| c.origin == Origin::Live).unwrap().digest;
    for given in [live.to_string(), live.short(), live.to_string()[..12].to_string()] {
        assert_eq!(action(&scene.plan(1, &using(Given::Digest(given)))), "pin live");
    }
    for unknown in ["sr1:0123456789abcdef", &live.to_string()[..11], "", "sr1:"] {
        assert_eq!(action(&scene.plan(1, &using(Given::Digest(unknown.into())))), "given-not-found", "{unknown}");
    }
}

#[test]
fn pods_that_start_stay_and_go() {
    // Revision 2 runs one Pod; no pin: revision 1's ReplicaSet comes back with a new Pod.
    let mut scene = same();
    scene.workload["spec"]["replicas"] = json!(3);
    let pods = scene.plan(1, &auto()).pods;
    assert_eq!((pods.start, pods.stay, pods.go, pods.go_target, pods.go_other), (3, 0, 1, 0, 1));
    assert_eq!((pods.stay_ready, pods.go_target_ready, pods.go_other_ready), (0, 0, 1));
    // A half-done rollout: two of the target's Pods are alive and stay, one of them ready.
    let mut second = pod(&scene.sets[0], "ddddd", 230, 1000);
    second["status"]["conditions"][1]["status"] = json!("False");
    scene.pods.push(pod(&scene.sets[0], "aaaaa", 200, 1000));
    scene.pods.push(second);
    let mut going = pod(&scene.sets[0], "eeeee", 240, 1000);
    going["metadata"]["deletionTimestamp"] = json!(stamp(5000));
    scene.pods.push(going);
    let pods = scene.plan(1, &auto()).pods;
    assert_eq!((pods.start, pods.stay, pods.stay_ready, pods.go), (1, 2, 1, 1));
    // A pin starts a new ReplicaSet even where the target's Pods are alive.
    let pods = scene.plan(1, &rules(Config::Pin, Grade::Likely)).pods;
    assert_eq!((pods.start, pods.stay, pods.go_target, pods.go_target_ready, pods.go_other), (3, 0, 2, 1, 1));
    // More alive than wanted: only so many stay.
    scene.workload["spec"]["replicas"] = json!(1);
    let pods = scene.plan(1, &auto()).pods;
    assert_eq!((pods.start, pods.stay, pods.go), (0, 1, 2));
    scene.workload["spec"]["replicas"] = json!(0);
    let pods = scene.plan(1, &auto()).pods;
    assert_eq!((pods.start, pods.stay, pods.go), (0, 0, 3));
}

#[test]
fn another_workloads_pods_do_not_count_but_are_told_of() {
    let mut scene = changed();
    let mut set = replica_set(9, &env_from(), 1, 1000, 1);
    set["metadata"]["name"] = json!("worker-5d59d67569");
    set["metadata"]["uid"] = json!("uid-worker");
    scene.pods.push(pod(&set, "zzzzz", 150, 1000));
    let mut bare = pod(&set, "bare0", 151, 1000);
    bare["metadata"]["ownerReferences"] = json!([]);
    bare["metadata"]["name"] = json!("debug");
    scene.pods.push(bare);
    let mut other = pod(&set, "0", 152, 1000);
    other["metadata"]["ownerReferences"][0]["kind"] = json!("StatefulSet");
    other["metadata"]["ownerReferences"][0]["name"] = json!("db");
    scene.pods.push(other);
    let plan = scene.plan(1, &auto());
    assert_eq!(plan.pods.go, 1);
    let readers: Vec<_> = plan.also_reading["ConfigMap/settings"].iter().cloned().collect();
    assert_eq!(readers, ["deployment/worker", "pod/debug", "statefulset/db"]);
}

#[test]
fn the_floor_of_a_rolling_update() {
    let floor = |replicas: u64, unavailable: Value, surge: Value| {
        let mut scene = same();
        scene.workload["spec"]["replicas"] = json!(replicas);
        scene.workload["spec"]["strategy"]["rollingUpdate"] = json!({"maxUnavailable": unavailable, "maxSurge": surge});
        scene.plan(1, &auto()).pods.floor
    };
    assert_eq!(floor(4, json!("25%"), json!("25%")), Some(3));
    assert_eq!(floor(3, json!("25%"), json!("25%")), Some(3), "rounds down, as the controller does");
    assert_eq!(floor(10, json!("49%"), json!(0)), Some(6));
    assert_eq!(floor(3, json!(0), json!(1)), Some(3));
    assert_eq!(floor(3, json!(5), json!(1)), Some(0));
    // Both come to nothing: the controller takes one.
    assert_eq!(floor(3, json!("10%"), json!(0)), Some(2));
    assert_eq!(floor(3, json!("10%"), json!("1%")), Some(3), "maxSurge rounds up");
    let mut scene = same();
    scene.workload["spec"]["strategy"] = json!({"type": "Recreate"});
    assert_eq!(scene.plan(1, &auto()).pods.floor, None);
    // And the plan says by which rule, as it was read.
    assert_eq!(scene.plan(1, &auto()).strategy, "Recreate");
    scene.workload["spec"]["strategy"] = json!({"rollingUpdate": {"maxUnavailable": 1}});
    assert_eq!(scene.plan(1, &auto()).strategy, "maxUnavailable 1, maxSurge 25%");
}

#[test]
fn rule_25_a_pin_may_push_revisions_out_of_the_history() {
    let falls = |limit: Value, config| {
        let mut scene = same();
        scene.workload["spec"]["revisionHistoryLimit"] = limit;
        scene.plan(1, &rules(config, Grade::Likely)).falls_out
    };
    assert_eq!(falls(json!(1), Config::Pin), [1]);
    assert_eq!(falls(json!(0), Config::Pin), [1, 2]);
    assert_eq!(falls(json!(2), Config::Pin), Vec::<u64>::new());
    assert_eq!(falls(Value::Null, Config::Pin), Vec::<u64>::new(), "ten by default");
    assert_eq!(falls(json!(1), Config::Auto), Vec::<u64>::new(), "no pin, no new revision");
}

/// Without this there would be a rollout for nothing (C30).
#[test]
fn c30_already_there_is_nothing_to_do() {
    let scene = same();
    let plan = scene.plan(2, &auto());
    assert!(plan.nothing_to_do && !plan.refused() && plan.snapshots.is_empty());
    // Not where a content is lost: the next Pod would read something else, and "nothing to do" would hide it.
    let edited = lost();
    assert!(!edited.plan(2, &auto()).nothing_to_do && edited.plan(2, &auto()).refused());
    assert!(edited.plan(2, &rules(Config::Live, Grade::Likely)).nothing_to_do, "asked for as it is");
    let mut paused = same();
    paused.workload["spec"]["paused"] = json!(true);
    assert!(!paused.plan(2, &auto()).refused(), "a paused one too");
    // The same template with a pin is a write.
    assert!(!scene.plan(2, &rules(Config::Pin, Grade::Likely)).nothing_to_do);
    assert!(!scene.plan(1, &auto()).nothing_to_do);
}

/// The scene after `plan` was carried out: template, annotation, a third ReplicaSet, the snapshot.
fn after(mut scene: Scene, plan: &Plan) -> Scene {
    scene.workload["spec"]["template"] = plan.template.clone();
    let trail = serde_json::to_string(&plan.trail()).unwrap();
    set(&mut scene.workload, "/metadata/annotations/saferollback.dev~1rolled-back", json!(trail));
    set(&mut scene.workload, "/metadata/annotations/deployment.kubernetes.io~1revision", json!("3"));
    let third = replica_set(3, &plan.template, 780, 5000, 1);
    scene.pods = vec![pod(&third, "ggggg", 700, 5000)];
    scene.sets[1]["spec"]["replicas"] = json!(0);
    scene.sets.push(third);
    for snapshot in &plan.snapshots {
        let mut object = snapshot.body.clone();
        set(&mut object, "/metadata/uid", json!(format!("uid-{}", snapshot.name)));
        set(&mut object, "/metadata/creationTimestamp", json!(stamp(4990)));
        set(&mut object, "/metadata/resourceVersion", json!("690"));
        scene.objects.push(object);
    }
    scene
}

#[test]
fn the_same_undo_again_finds_its_job_done() {
    let first = changed().plan(1, &auto());
    // API history has expired since: the content could not be found again, and need not be.
    let mut done = after(changed(), &first);
    done.no_past();
    let again = done.plan(1, &auto());
    assert!(again.nothing_to_do && !again.refused() && again.snapshots.is_empty());
    assert!(done.plan(1, &rules(Config::Pin, Grade::Likely)).nothing_to_do);
    // Another target is another job.
    assert!(!done.plan(2, &auto()).nothing_to_do);
    // Somebody edited the template since: the annotation no longer speaks of it.
    let mut edited = done.clone();
    set(&mut edited.workload, "/spec/template/spec/containers/0/image", json!("web:9"));
    assert!(!edited.plan(1, &auto()).nothing_to_do);
}

#[test]
fn the_same_undo_again_is_done_before_any_pod_shows_what_it_reads() {
    // Would break: run again at once, it would be refused. What was kept brought revision 1's ReplicaSet back, as 3.
    let first = same().plan(1, &auto());
    let mut done = after(same(), &first);
    done.sets.truncate(2);
    done.pods.clear();
    done.events.clear();
    let rs = "/metadata/annotations/deployment.kubernetes.io~1revision";
    set(&mut done.sets[0], rs, json!("3"));
    set(&mut done.sets[0], &format!("{rs}-history"), json!("1"));
    assert_eq!(done.verdict(3).word(), "unknown");
    assert!(done.plan(3, &auto()).nothing_to_do);
    without(&mut done.workload, "/metadata/annotations/saferollback.dev~1rolled-back");
    assert!(done.plan(3, &auto()).refused(), "nobody says that it was this undo");
}

#[test]
fn the_same_undo_again_is_not_done_where_what_it_kept_was_edited_since() {
    // Would break: "with the planned content, nothing to do" about a name whose next Pod reads something else.
    let first = same().plan(1, &auto());
    let mut done = after(same(), &first);
    done.sets.truncate(2);
    done.sets[0]["spec"]["replicas"] = json!(1);
    let rs = "/metadata/annotations/deployment.kubernetes.io~1revision";
    set(&mut done.sets[0], rs, json!("3"));
    set(&mut done.sets[0], &format!("{rs}-history"), json!("1"));
    done.pods = vec![pod(&done.sets[0], "ggggg", 700, 5000)];
    assert!(done.plan(3, &auto()).nothing_to_do);
    done.write(json!({"A": "bad"}), 900, 6000).no_past();
    let again = done.plan(3, &auto());
    assert!(!again.nothing_to_do && again.refused());
    assert!(done.plan(3, &rules(Config::Live, Grade::Likely)).nothing_to_do, "asked for as it is");
}

#[test]
fn a_pin_of_all_is_done_though_secrets_and_bundles_stay() {
    // Would break: --config=pin again would look for contents that have expired, to pin what is pinned already.
    let mut template = env_from();
    let more = [json!({"secretRef": {"name": "token"}}), json!({"configMapRef": {"name": "kube-root-ca.crt"}})];
    template["spec"]["containers"][0]["envFrom"].as_array_mut().unwrap().extend(more);
    let mut scene = Scene::retired(template);
    scene.write(json!({"A": "bad", "B": "2"}), 590, 3000);
    let mut secret = config_map("token", json!({"p": ""}), 110, 0);
    secret["kind"] = json!("Secret");
    scene.objects.extend([secret, config_map("kube-root-ca.crt", json!({"ca": "1"}), 120, 0)]);
    let pin = rules(Config::Pin, Grade::Likely);
    let first = scene.plan(1, &pin);
    let words: Vec<_> = first.decisions.iter().map(|d| d.action.word()).collect();
    assert_eq!(words, ["pin", "keep", "keep"]);
    let mut done = after(scene, &first);
    done.no_past();
    assert!(done.plan(1, &pin).nothing_to_do);
}

#[test]
fn done_before_is_no_answer_to_another_wish() {
    let first = changed().plan(1, &auto());
    let done = after(changed(), &first);
    // Would break: --use and --config=live silently did nothing.
    let live = done.judgement(1).candidates.iter().find(|c| c.origin == Origin::Live).unwrap().digest;
    let bound = first.snapshots[0].content.digest();
    let by = |digest: String| done.plan(1, &using(Given::Digest(digest)));
    assert!(!by(live.to_string()).nothing_to_do);
    assert!(by(bound.to_string()).nothing_to_do);
    assert!(by(bound.short()).nothing_to_do);
    assert!(done.plan(1, &using(file(json!({"A": "1", "B": "2"})))).nothing_to_do, "the file holds what is bound");
    assert!(!done.plan(1, &using(file(json!({"A": "3"})))).nothing_to_do);
    assert!(!done.plan(1, &rules(Config::Live, Grade::Likely)).nothing_to_do);
    // Would break: the API's history is gone, and the same command would not find the content that is bound already.
    let mut expired = done.clone();
    expired.no_past();
    let by = |digest: String| expired.plan(1, &using(Given::Digest(digest)));
    for digest in [bound.to_string(), bound.short(), bound.to_string()[..12].to_string()] {
        assert!(by(digest.clone()).nothing_to_do, "{digest}");
    }
    for digest in [live.to_string(), bound.to_string()[..11].to_string(), format!("{}0", bound.short()), String::new()]
    {
        assert!(!by(digest.clone()).nothing_to_do, "{digest}");
    }
}

#[test]
fn a_bound_snapshot_that_was_deleted_is_made_again() {
    // a cleaner took it; the next Pod would not start, so "nothing to do" would be false.
    let first = changed().plan(1, &auto());
    let mut done = after(changed(), &first);
    done.objects.truncate(1);
    let plan = done.plan(1, &auto());
    assert!(!plan.nothing_to_do);
    assert_eq!(plan.snapshots[0].name, first.snapshots[0].name);
    assert_eq!(plan.template, first.template);
    // The ReplicaSet of that template is there already: its Pod stays, and no revision is made.
    assert_eq!((plan.pods.stay, plan.pods.start), (1, 0));
    assert!(plan.falls_out.is_empty());
}

/// Without this an undo would wait for what cannot come (C28).
#[test]
fn c28_paused_and_terminating_workloads_are_refused_before_anything_else() {
    let codes = |change: fn(&mut Value)| {
        let mut scene = lost();
        change(&mut scene.workload);
        scene.plan(1, &auto()).refusals.iter().map(|r| r.code.word()).collect::<Vec<_>>()
    };
    assert_eq!(codes(|w| w["spec"]["paused"] = json!(true)), ["paused", "content-not-found"]);
    assert_eq!(codes(|w| w["spec"]["paused"] = json!(false)), ["content-not-found"]);
    assert_eq!(codes(|w| w["metadata"]["deletionTimestamp"] = json!(stamp(9))), ["terminating", "content-not-found"]);
}

#[test]
fn the_plans_grade_is_its_weakest() {
    assert_eq!(same().plan(1, &auto()).grade(), Grade::Proof);
    assert_eq!(likely().plan(1, &auto()).grade(), Grade::Likely);
    assert_eq!(changed().plan(1, &auto()).grade(), Grade::Proof);
    assert_eq!(lost().plan(1, &auto()).grade(), Grade::None);
    let mut numberless = same();
    numberless.events.clear();
    numberless.domain = Domain::default();
    assert_eq!(numberless.plan(1, &rules(Config::Live, Grade::Likely)).grade(), Grade::None);
    let bare = Scene::retired(template("web:1", json!({})));
    assert_eq!(bare.plan(1, &auto()).grade(), Grade::Proof, "nothing is named, so nothing can differ");
}

#[test]
fn a_taken_name_is_made_longer_everywhere() {
    let mut plan = changed().plan(1, &auto());
    let short = plan.snapshots[0].name.clone();
    plan.rename(32);
    let name = &plan.snapshots[0].name;
    assert!(name.starts_with(&short) && name.len() == short.len() + 16);
    assert_eq!(plan.snapshots[0].body["metadata"]["name"], json!(name));
    assert_eq!(plan.template["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"], json!(name));
}

/// Without this a revision that lost its `optional` would be called startable, since a later one has it (C45).
#[test]
fn the_flag_of_the_revision_itself_decides() {
    let mut scene = Scene::retired(env_from());
    scene.objects.clear();
    for template in [&mut scene.sets[1]["spec"]["template"], &mut scene.workload["spec"]["template"]] {
        set(template, "/spec/containers/0/envFrom/0/configMapRef/optional", json!(true));
    }
    for pod in &mut scene.pods {
        set(pod, "/spec/containers/0/envFrom/0/configMapRef/optional", json!(true));
    }
    assert_eq!((scene.verdict(1), scene.verdict(2)), (Verdict::Missing, Verdict::Unknown));
    let plan = scene.plan(1, &auto());
    assert!(plan.refused());
    assert!(plan.refusals.iter().any(|r| r.verdict == Some(Verdict::Missing)), "{:?}", plan.refusals);
}

// ---- the patch -------------------------------------------------------------------------------------------------

fn ops(scene: &Scene, plan: &Plan) -> Vec<(String, String, Value)> {
    let patch = patch::workload(&Object(scene.workload.clone()), plan);
    let text = |op: &Value, key: &str| op[key].as_str().unwrap().to_string();
    let op = |op: &Value| (text(op, "op"), text(op, "path"), op["value"].clone());
    patch.as_array().unwrap().iter().map(op).collect()
}

/// Without this the patch could overwrite what changed, or merge where it must replace (C18).
#[test]
fn rule_20_the_preconditions_are_all_that_an_undo_rests_on() {
    let scene = changed();
    let plan = scene.plan(1, &auto());
    let ops = ops(&scene, &plan);
    let tests: Vec<_> = ops.iter().filter(|o| o.0 == "test").map(|o| (o.1.as_str(), o.2.clone())).collect();
    let spec = &scene.workload["spec"];
    assert_eq!(
        tests,
        [
            ("/metadata/uid", json!("uid-web")),
            ("/spec/template", spec["template"].clone()),
            ("/spec/paused", Value::Null),
            ("/spec/strategy", spec["strategy"].clone()),
        ]
    );
    // Tests first, then one whole replacement (never a merge), then annotations; nothing else is written.
    let writes: Vec<_> = ops.iter().skip(4).map(|o| (o.0.as_str(), o.1.as_str())).collect();
    assert_eq!(
        writes,
        [
            ("replace", "/spec/template"),
            ("add", "/metadata/annotations/kubernetes.io~1change-cause"),
            ("add", "/metadata/annotations/saferollback.dev~1rolled-back"),
        ]
    );
    assert_eq!(ops[4].2, plan.template);
    assert!(!ops.iter().any(|o| o.1.contains("resourceVersion") || o.1.contains("generation")));
}

#[test]
fn rule_20_paused_and_strategy_are_tested_as_they_were_read() {
    let mut scene = changed();
    scene.workload["spec"]["paused"] = json!(false);
    scene.workload["spec"].as_object_mut().unwrap().shift_remove("strategy");
    let ops = ops(&scene, &scene.plan(1, &auto()));
    assert!(ops.contains(&("test".into(), "/spec/paused".into(), json!(false))));
    assert!(ops.contains(&("test".into(), "/spec/strategy".into(), Value::Null)));
}

#[test]
fn rule_21_an_absent_annotation_map_is_tested_and_added_whole() {
    for absent in [true, false] {
        let mut scene = changed();
        match absent {
            true => without(&mut scene.workload, "/metadata/annotations"),
            false => scene.workload["metadata"]["annotations"] = Value::Null,
        }
        let ops = ops(&scene, &scene.plan(1, &auto()));
        let annotations: Vec<_> = ops.iter().filter(|o| o.1.starts_with("/metadata/annotations")).collect();
        assert_eq!((annotations[0].0.as_str(), &annotations[0].2), ("test", &Value::Null));
        assert_eq!((annotations[1].0.as_str(), annotations[1].1.as_str()), ("add", "/metadata/annotations"));
        assert_eq!(annotations[1].2.as_object().unwrap().len(), 2);
        assert_eq!(annotations.len(), 2);
    }
}

#[test]
fn rule_21_our_annotation_names_the_template_it_is_valid_for() {
    let scene = changed();
    let plan = scene.plan(1, &auto());
    let ops = ops(&scene, &plan);
    let (_, _, trail) = ops.last().unwrap();
    let trail: Value = serde_json::from_str(trail.as_str().unwrap()).unwrap();
    assert_eq!(trail, json!({"from": 2, "to": 1, "template": history::template_digest(&plan.template)}));
    let cause = &ops[5].2;
    assert_eq!(cause, &json!("kubectl saferollback undo: revision 2 to revision 1"));
}

/// Without this a copied label would make a ReplicaSet more with every undo (C19, C32).
#[test]
fn c19_no_hash_label_and_no_deployment_annotation_is_written() {
    let scene = same();
    let plan = scene.plan(1, &auto());
    assert!(scene.sets[0]["spec"]["template"]["metadata"]["labels"]["pod-template-hash"].is_string());
    let text = patch::workload(&Object(scene.workload.clone()), &plan).to_string();
    assert!(!text.contains("pod-template-hash") && !text.contains("deployment.kubernetes.io/"));
    assert_eq!(plan.template["metadata"]["labels"], json!({"app": "web"}), "other labels stay");
}

#[test]
fn the_trial_pod_is_the_new_template_and_no_more() {
    let scene = changed();
    let plan = scene.plan(1, &auto());
    let pod = patch::trial_pod(&Object(scene.workload.clone()), &plan);
    assert_eq!(pod["spec"], plan.template["spec"]);
    assert_eq!(pod["metadata"], json!({"labels": {"app": "web"}, "generateName": "web-trial-", "namespace": "shop"}));
    let mut long = scene.workload.clone();
    long["metadata"]["name"] = json!("w".repeat(253));
    let pod = patch::trial_pod(&Object(long), &plan);
    assert!(pod["metadata"]["generateName"].as_str().unwrap().len() <= 248);
}

/// Found by fuzzing: without this a file with a workload of another shape would end the program.
#[test]
fn a_workload_of_another_shape_ends_no_plan() {
    let mut plan = changed().plan(1, &auto());
    let odd = Object(json!({"kind": "Deployment", "metadata": {"name": "web"}, "spec": "text"}));
    assert_eq!(patch::manifest(&odd, &plan)["spec"], json!("text"));
    plan.template["metadata"] = json!("text");
    assert_eq!(patch::trial_pod(&odd, &plan)["metadata"]["generateName"], json!("web-trial-"));
}

#[test]
fn the_manifest_is_the_workload_without_what_the_server_made() {
    let mut scene = changed();
    set(&mut scene.workload, "/metadata/annotations/on-call", json!("team-a"));
    set(&mut scene.workload, "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration", json!("{}"));
    let plan = scene.plan(1, &auto());
    let manifest = patch::manifest(&Object(scene.workload.clone()), &plan);
    assert_eq!(manifest["metadata"], json!({"name": "web", "namespace": "shop", "annotations": {"on-call": "team-a"}}));
    assert_eq!(manifest["spec"]["template"], plan.template);
    assert_eq!(manifest["spec"]["replicas"], json!(1));
    assert!(manifest.get("status").is_none());
}

/// Without this everybody else who reads the ConfigMap would be rolled back too (C36).
#[test]
fn c36_no_request_ever_names_the_original() {
    let scene = changed();
    let plan = scene.plan(1, &auto());
    let patch = patch::workload(&Object(scene.workload.clone()), &plan);
    let written: Vec<_> =
        patch.as_array().unwrap().iter().filter(|o| o["op"] != "test").map(|o| o["value"].to_string()).collect();
    assert!(!written.concat().contains("\"settings\""));
    assert!(plan.snapshots.iter().all(|s| s.name != "settings" && s.body["kind"] == "ConfigMap"));
}
