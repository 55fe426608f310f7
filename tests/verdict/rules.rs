//! Each rule of ARCHITECTURE.md's evidence table, with the counterexample that made it.

use saferollback::core::observed::{Domain, numbers_are_sound};
use saferollback::core::recovery::Grade;
use saferollback::core::verdict::Verdict::{self, *};
use serde_json::{Value, json};

use super::scene::*;

fn data(a: &str) -> Value {
    json!({"A": a, "B": "2"})
}

/// Revision 1 retired, and `settings` written at number 530, after revision 2's Pod had started.
fn edited_after() -> Scene {
    let mut scene = Scene::retired(env_from());
    scene.write(data("bad"), 590, 3000);
    scene
}

#[test]
fn rule_1_an_events_own_number_is_no_anchor() {
    // Would break: env resolved, edit at 215, Started written at 222: "215 < 222" is a false same.
    let mut scene = Scene::calm(env_from());
    scene.only_events(&["Started"]).overwrite(data("late"), 215).no_past();
    assert_eq!(scene.verdict(1), WrittenDuring);
}

#[test]
fn rule_1_a_labelled_event_proves_nothing_more() {
    // Would break: a label moves the Event's number above an edit, count stays 1.
    let mut scene = Scene::calm(env_from());
    scene.overwrite(data("late"), 235).no_past();
    for event in &mut scene.events {
        event["metadata"]["resourceVersion"] = json!("900");
        event["metadata"]["labels"] = json!({"x": "y"});
    }
    assert!(scene.verdict(1) < LikelySame, "{:?}", scene.verdict(1));
}

#[test]
fn rule_1_the_anchor_is_of_the_reading_container() {
    // Would break: the sidecar's later start (anchor 230) says nothing of app's read.
    let mut scene = Scene::calm(env_from());
    scene.events = vec![event(&scene.pods[0], "Started", Some("spec.containers{side}"), 230, 236, 1003)];
    scene.overwrite(data("late"), 225).no_past();
    assert_ne!(scene.verdict(1), Same);
    // Scheduled is of the whole Pod and has no fieldPath.
    let mut scene = Scene::calm(env_from());
    scene.only_events(&["Scheduled"]);
    assert_eq!(scene.verdict(1), Same);
}

#[test]
fn rule_1_other_reasons_are_no_anchors() {
    // Would break: Killing or BackOff of a running container hold a Pod version long after its read.
    for reason in ["Unhealthy", "BackOff", "Killing", "Pulling", "FailedMount"] {
        let mut scene = Scene::calm(env_from());
        scene.events = vec![event(&scene.pods[0], reason, Some("spec.containers{app}"), 235, 236, 1003)];
        scene.overwrite(data("late"), 225).no_past();
        assert_ne!(scene.verdict(1), Same, "{reason}");
    }
}

#[test]
fn rule_1_a_forged_event_of_a_gone_pod_is_no_anchor() {
    // Would break: an anchor above the retired ReplicaSet's number, or above the Event's own, "proves" anything.
    for (retired, edit) in [(true, 550), (false, 650)] {
        let mut scene = Scene::retired(env_from());
        scene.overwrite(data("bad"), edit).no_past();
        scene.keep_events(|e| !e["involvedObject"]["name"].as_str().unwrap().contains(&rs_name(1)));
        let gone = json!({"metadata": {"name": pod_name(1, "aaaaa"), "uid": "gone"}});
        scene.events.push(event(&gone, "Scheduled", None, 700, 610, 1000));
        // Retired at 560: no read is later. Otherwise the Event's own number 610 gives it away.
        scene.domain.events = !retired;
        scene.sets[0]["spec"]["replicas"] = json!(u8::from(!retired));
        assert_ne!(scene.verdict(1), Same, "{retired}");
    }
}

#[test]
fn rule_1_a_proof_names_its_event() {
    // Would break: nobody could look up what a proof rests on.
    let detail = |reason: &str| {
        let mut scene = Scene::calm(env_from());
        scene.only_events(&[reason]);
        scene.judgement(1).facts[0].detail.clone()
    };
    let pod = pod_name(1, "aaaaa");
    assert!(detail("Scheduled").ends_with(&format!("that the scheduler acted on (Event Scheduled of pod/{pod})")));
    assert!(detail("Started").ends_with(&format!("that the kubelet acted on (Event Started of pod/{pod})")));
    let mut scene = Scene::retired(env_from());
    scene.only_events(&["Started"]);
    let hint = &scene.judgement(1).facts[0].detail;
    assert!(hint.ends_with(&format!("below 222, the number of Event Started of pod/{pod}")), "{hint}");
}

#[test]
fn rule_2_a_number_above_the_anchor_is_no_write_of_content() {
    // Would break: a label alone moves the number. That is "written since", and never `changed`.
    let mut scene = Scene::calm(env_from());
    scene.overwrite(data("1"), 215).no_past();
    assert_eq!(scene.verdict(1), WrittenDuring);
    scene.overwrite(data("1"), 245);
    assert_eq!(scene.verdict(1), WrittenAfter);
}

#[test]
fn rule_3_the_refuter_comes_first() {
    // Would break: a mutable object whose name re-computes, written after the Pod's last change.
    let mut scene = Scene::calm(env_from());
    scene.events.clear();
    scene.overwrite(data("1"), 300).no_past();
    assert_eq!(scene.verdict(1), WrittenAfter, "managedFields show no write, the number does");
    // The retired ReplicaSet's number refutes too.
    let mut scene = edited_after();
    scene.events.clear();
    scene.no_past().overwrite(data("1"), 570);
    assert_eq!(scene.verdict(1), WrittenAfter);
}

#[test]
fn rule_3_times_and_managed_fields_alone_give_unknown() {
    // Would break: a removed key leaves no trace, so "no write is seen" is nothing.
    let mut scene = Scene::calm(env_from());
    scene.events.clear();
    scene.domain = Domain::default();
    assert_eq!(scene.verdict(1), Unknown);
}

#[test]
fn rule_3_likely_same_needs_a_near_number() {
    // The Pod's own number counts while its last change is at most 5 minutes after its start.
    let mut scene = Scene::calm(env_from());
    scene.events.clear();
    assert_eq!(scene.verdict(1), LikelySame);
    // Would break: a Pod that changed an hour later has a number an hour late.
    scene.pods[0]["status"]["conditions"][1]["lastTransitionTime"] = json!(stamp(4600));
    assert_eq!(scene.verdict(1), Unknown);
}

#[test]
fn rule_3_an_events_own_number_is_near_only_in_its_time() {
    // Would break: an Event of a later hour would make a write of that hour "likely the same".
    let verdict = |template: Value, retired: bool, at: i64, change: fn(&mut Scene)| {
        let mut scene = if retired { Scene::retired(template) } else { Scene::calm(template) };
        let first = if retired {
            json!({"metadata": {"name": pod_name(1, "aaaaa"), "uid": "gone"}})
        } else {
            scene.pods[0]["status"]["conditions"][1]["lastTransitionTime"] = json!(stamp(4600));
            scene.pods[0].clone()
        };
        scene.events = vec![event(&first, "Unhealthy", None, 235, 250, at)];
        change(&mut scene);
        scene.verdict(1)
    };
    for retired in [false, true] {
        let verdict = |at, change| verdict(env_from(), retired, at, change);
        assert_eq!(verdict(1300, |_| {}), LikelySame, "{retired}");
        assert_eq!(verdict(1303, |_| {}), Unknown, "{retired}");
        assert_eq!(verdict(1300, |s| s.domain.events = false), Unknown, "{retired}: Events of another store");
    }
    // A ReplicaSet that was used again started more than once: no Event tells which start it is near.
    let again = |s: &mut Scene| {
        set(&mut s.sets[0], "/metadata/annotations/deployment.kubernetes.io~1revision-history", json!("1"));
        set(&mut s.sets[0], "/metadata/annotations/deployment.kubernetes.io~1revision", json!("3"));
        set(&mut s.workload, "/metadata/annotations/deployment.kubernetes.io~1revision", json!("3"));
    };
    let mut scene = Scene::retired(env_from());
    scene.only_events(&["Started"]);
    again(&mut scene);
    assert_eq!(scene.verdict(3), Unknown);
}

#[test]
fn rule_3_the_predecessors_number_is_near_where_it_went_for_this_revision() {
    // Revision 2 came up at 2000, its container at 2002; revision 1 was scaled to zero for it at number 560.
    let verdict = |number: u64, gone: i64, change: fn(&mut Scene)| {
        let mut scene = Scene::retired(env_from());
        scene.events.clear();
        scene.pods[0]["status"]["conditions"][1]["lastTransitionTime"] = json!(stamp(9000));
        scene.sets[0]["metadata"]["managedFields"][0]["time"] = json!(stamp(gone));
        scene.overwrite(data("x"), number).no_past();
        change(&mut scene);
        scene.verdict(2)
    };
    assert_eq!(verdict(530, 2005, |_| {}), LikelySame);
    assert_eq!(verdict(565, 2005, |_| {}), WrittenAfter, "the Pod's own number is 540");
    assert_eq!([1999, 2000, 2302, 2303].map(|at| verdict(530, at, |_| {})), [Unknown, LikelySame, LikelySame, Unknown]);
    // Would break: its number moved for another reason, or is of another store.
    assert_eq!(verdict(530, 2005, |s| s.sets[0]["spec"]["replicas"] = json!(1)), Unknown);
    assert_eq!(verdict(530, 2005, |s| s.domain.replica_sets = false), Unknown);
    let again = |s: &mut Scene| {
        set(&mut s.sets[1], "/metadata/annotations/deployment.kubernetes.io~1revision-history", json!("1"))
    };
    assert_eq!(verdict(530, 2005, again), Unknown, "it was used again: which of its starts was that?");
}

#[test]
fn rule_3_a_near_number_below_the_objects_own_says_nothing() {
    // No sound bound is left on either side, and the write came after the near number.
    let mut scene = Scene::retired(env_from());
    scene.only_events(&["Started"]);
    scene.sets[0]["spec"]["replicas"] = json!(1);
    assert_eq!(scene.verdict(1), LikelySame);
    scene.overwrite(data("x"), 300).no_past();
    assert_eq!(scene.verdict(1), Unknown);
}

#[test]
fn rule_3_of_several_near_numbers_the_lowest_counts() {
    // Would break: a repeated Event (a restart within minutes) has a number above an edit that followed the first read.
    let mut scene = Scene::retired(env_from());
    scene.sets[0]["spec"]["replicas"] = json!(1);
    let started = pod(&scene.sets[0], "aaaaa", 200, 1000);
    scene.events = [212, 700].map(|own| event(&started, "Started", None, 0, own, 1003)).into();
    assert_eq!(scene.verdict(1), LikelySame);
    scene.overwrite(data("x"), 300).no_past();
    assert_eq!(scene.verdict(1), Unknown);
}

#[test]
fn rule_3_signs_are_told_from_each_other_by_two_seconds() {
    // Would break: a write that the stamps cannot tell from the start would pass for one before it.
    let started = |at: i64| {
        let mut scene = Scene::calm(env_from());
        scene.events.clear();
        scene.domain = Domain::default();
        scene.write(data("x"), 225, at).no_past();
        scene.verdict(1)
    };
    // The container started at 1002.
    assert_eq!((started(1000), started(1001)), (Unknown, WrittenDuring));
    // Would break: "written after" of a write that the revision's last Pods may have read. It retired at 2000.
    let retired = |at: i64| {
        let mut scene = Scene::retired(env_from());
        scene.events.clear();
        scene.domain = Domain::default();
        scene.write(data("x"), 590, at).no_past();
        scene.verdict(1)
    };
    assert_eq!([1999, 2000, 2002, 2003].map(retired), [WrittenDuring, WrittenDuring, WrittenDuring, WrittenAfter]);
}

#[test]
fn rule_3_a_near_number_outweighs_a_stamp_of_the_start() {
    // The write is stamped a second before the start, and the Pod's number says that it came before.
    let mut scene = Scene::calm(env_from());
    scene.events.clear();
    scene.write(data("x"), 190, 1001).no_past();
    assert_eq!(scene.verdict(1), LikelySame);
    // Would break: a stamp after the start is a write since, whatever a number that came late says.
    let mut scene = Scene::calm(env_from());
    scene.events.clear();
    scene.write(data("x"), 225, 1003).no_past();
    assert_eq!(scene.verdict(1), WrittenDuring);
}

#[test]
fn rule_3_a_creation_is_no_write_since() {
    // Would break: applied together, and the object's own creation would be told as an edit of it.
    let mut scene = Scene::calm(env_from());
    scene.events.clear();
    scene.domain = Domain::default();
    scene.objects[0] = config_map("settings", data("1"), 190, 1000);
    scene.pods[0]["status"]["containerStatuses"][0]["state"] = json!({"running": {"startedAt": stamp(1001)}});
    assert_eq!(scene.verdict(1), Unknown);
}

#[test]
fn rule_3_a_directory_written_since_its_pods_last_change_is_refreshed() {
    // Would break: without Events and managedFields only the Pod's own number tells of the write; a name that
    // re-computes, or another Pod that started after it, must not hide that the files were others before.
    let mut scene = Scene::calm(volume());
    scene.events.clear();
    scene.overwrite(data("x"), 900).no_past();
    scene.objects[0]["metadata"]["managedFields"] = json!([]);
    assert_eq!(scene.verdict(1), Refreshed);
    let younger = pod(&scene.sets[0], "younger", 950, 2000);
    scene.pods.push(younger);
    assert_eq!(scene.verdict(1), Refreshed, "not likely-same, although the younger Pod saw no write");
}

#[test]
fn rule_3_unknown_says_which_numbers_are_missing() {
    // Would break: the person looks for Events that are gone, where a right to read them is missing.
    let words = |change: fn(&mut Scene)| {
        let mut scene = Scene::calm(env_from());
        scene.events.clear();
        scene.pods[0]["status"]["conditions"][1]["lastTransitionTime"] = json!(stamp(4600));
        change(&mut scene);
        let judgement = scene.judgement(1);
        assert_eq!(judgement.verdict, Unknown);
        judgement.facts[0].detail.clone()
    };
    assert!(words(|_| {}).starts_with("the Events of the start are gone"));
    assert!(words(|s| s.no_events = true).starts_with("Events could not be read"));
    assert!(words(|s| s.domain = Domain::default()).contains("the domain check failed"));
}

#[test]
fn rule_4_the_domain_check() {
    // Would break: Pods in an etcd of their own count on their own.
    let check = |first, pods, last| Domain::check(first, [pods, None, None], last).pods;
    assert!(check(Some(5), Some(5), Some(5)) && check(Some(5), Some(6), Some(9)));
    assert!(!check(Some(5), Some(4), Some(9)) && !check(Some(5), Some(10), Some(9)));
    assert!(!check(None, Some(5), Some(5)) && !check(Some(5), None, Some(5)) && !check(Some(5), Some(5), None));
    // Each pair for itself: Events may live elsewhere while Pods do not.
    let domain = Domain::check(Some(5), [Some(6), Some(99), Some(7)], Some(9));
    assert_eq!(domain, Domain { pods: true, replica_sets: false, events: true });
}

#[test]
fn rule_4_a_list_below_one_of_its_objects_is_unsound() {
    // Would break: after a restored etcd an object is newer than the counter.
    let object = |version: &str| saferollback::core::object::Object(json!({"metadata": {"resourceVersion": version}}));
    assert!(numbers_are_sound(Some(9), &[object("9"), object("1")]));
    assert!(!numbers_are_sound(Some(9), &[object("10")]));
    assert!(!numbers_are_sound(Some(9), &[object("0x9")]), "a number that is no number has no order");
    assert!(!numbers_are_sound(None, &[]));
}

#[test]
fn rule_4_equal_numbers_are_of_two_stores() {
    // Would break: one store gives a number once, so "as high as" is no order and confirms nothing.
    let mut scene = Scene::calm(env_from());
    scene.only_events(&["Scheduled"]).overwrite(data("x"), 200).no_past();
    assert_eq!(scene.verdict(1), Unknown, "as high as the created Pod's");
    let mut scene = Scene::calm(env_from());
    scene.events.clear();
    scene.overwrite(data("x"), 240).no_past();
    assert_eq!(scene.verdict(1), Unknown, "as high as the Pod's own");
    scene.write(data("y"), 240, 1001).no_past();
    assert_eq!(scene.verdict(1), WrittenDuring, "and what managedFields show still counts");
    // An Event is written after the act that it tells of.
    let mut scene = Scene::retired(env_from());
    scene.only_events(&["Scheduled"]);
    assert_eq!(scene.verdict(1), Same);
    scene.events[0]["metadata"]["resourceVersion"] = json!("200");
    assert_ne!(scene.verdict(1), Same);
}

#[test]
fn rule_4_without_the_domain_no_number_confirms_or_refutes() {
    for scene in [Scene::calm(env_from()), edited_after()] {
        let mut scene = scene;
        scene.no_past();
        scene.domain = Domain::default();
        let judgement = scene.judgement(1);
        assert!(judgement.facts.iter().all(|f| f.source != "resource-version"), "{:?}", judgement.facts);
    }
    // The ReplicaSet's number alone is off.
    let mut scene = edited_after();
    scene.no_past().domain.replica_sets = false;
    scene.events.clear();
    scene.objects[0]["metadata"]["managedFields"].as_array_mut().unwrap().truncate(1);
    assert_eq!(scene.verdict(1), Unknown);
}

/// Another workload's Pod that names `settings`.
fn foreign_pod(created: i64) -> Value {
    let mut set = replica_set(9, &env_from(), 1, created, 1);
    set["metadata"]["name"] = json!("worker-abc");
    set["metadata"]["uid"] = json!("uid-worker");
    pod(&set, "zzzzz", 150, created)
}

#[test]
fn rule_5_a_namesake_younger_than_anothers_pod_is_recreated() {
    // Would break: the node still serves the deleted namesake to the new Deployment's Pods.
    for frozen in [false, true] {
        let mut scene = Scene::calm(env_from());
        if frozen {
            scene.immutable(10);
        }
        scene.pods.push(foreign_pod(-500));
        assert_eq!(scene.verdict(1), Recreated, "immutable {frozen}");
        assert_eq!(scene.judgement(1).candidates[0].grade, Grade::None);
    }
}

#[test]
fn rule_5_within_two_seconds_nothing_is_proven() {
    // Would break: second-resolution stamps and two servers' clocks.
    for (created, verdict) in [(2, Same), (1, LikelySame), (0, LikelySame), (-1, Recreated)] {
        let mut scene = Scene::calm(env_from());
        scene.pods.push(foreign_pod(created));
        assert_eq!(scene.verdict(1), verdict, "another's Pod at {created}, settings at 0");
    }
}

/// Without this an object that was created again immutable would be called the same (C68).
#[test]
fn rule_5_immutability_alone_is_not_enough() {
    // Would break: another's Pod of the same second may have kept a deleted namesake alive.
    let mut scene = Scene::retired(env_from());
    scene.immutable(10);
    scene.events.clear();
    scene.domain = Domain::default();
    assert_eq!(scene.verdict(1), Same);
    scene.pods.push(foreign_pod(1));
    assert_ne!(scene.verdict(1), Same);
}

#[test]
fn rule_5_revisions_name_it_too() {
    // Would break: revision 1's Pods are gone, but they may have kept the former object alive on the node.
    let mut scene = Scene::retired(env_from());
    scene.recreate(data("1"), 450, 1500);
    assert_eq!(scene.verdict(2), Recreated);
    let facts = scene.judgement(2).facts;
    // No container of it is left whose start could tell a re-creation from a wait (rule 15).
    assert!(facts[0].detail.contains("revision 1,") && facts[0].detail.contains("or late"), "{facts:?}");
}

#[test]
fn rule_5_revisions_tell_where_pods_may_not_be_read() {
    // Would break: without the right to read Pods a number of the start would make a new object "likely the same".
    let mut scene = Scene::retired(env_from());
    scene.no_pods = true;
    assert_ne!(scene.verdict(1), Same, "Pods that nobody sees may be older");
    scene.recreate(data("1"), 450, 1500);
    assert_eq!((scene.verdict(1), scene.verdict(2)), (Recreated, Recreated));
}

#[test]
fn rule_5_init_and_volume_users_count() {
    let mut scene = Scene::calm(env_from());
    let mut other = foreign_pod(-500);
    other["spec"] = json!({"containers": [{"name": "c", "image": "c"}], "volumes": [
        {"name": "v", "projected": {"sources": [{"configMap": {"name": "settings"}}]}}]});
    scene.pods.push(other);
    assert_eq!(scene.verdict(1), Recreated);
}

/// Without this an edit that was put back would be called proven (C63).
#[test]
fn rule_6_a_recomputed_name_shows_intent_only() {
    // Would break: edited to a hotfix, Pod replaced, bytes put back: the name re-computes, the Pod holds the hotfix.
    let mut scene = Scene::calm(env_from());
    let content =
        saferollback::core::digest::Content::from_object(&saferollback::core::object::Object(scene.objects[0].clone()));
    let name = saferollback::core::snapshot::name("settings", &content.unwrap(), 16);
    scene.objects[0]["metadata"]["name"] = json!(name);
    let pointer = "/spec/template/spec/containers/0/envFrom/0/configMapRef/name";
    set(&mut scene.workload, pointer, json!(name));
    set(&mut scene.sets[0], pointer, json!(name));
    set(&mut scene.pods[0], "/spec/containers/0/envFrom/0/configMapRef/name", json!(name));
    scene.events.clear();
    scene.domain = Domain::default();
    assert_eq!(scene.judged(1).references[0].verdict, LikelySame);
    scene.domain = Domain { pods: true, replica_sets: true, events: true };
    scene.objects[0]["metadata"]["resourceVersion"] = json!("300");
    assert_eq!(scene.judged(1).references[0].verdict, WrittenAfter, "and the refuter comes first");
}

#[test]
fn rule_6_the_flag_goes_into_an_append_hash_name_only_where_it_is_set() {
    // Would break: frozen when it was named, and the name would not re-compute; or mutable, and it would by chance.
    let named = |immutable: Value| {
        let mut object = config_map("plain-bt59274db9", json!({"k": "v"}), 100, 0);
        object["immutable"] = immutable;
        let object = saferollback::core::object::Object(object);
        let content = saferollback::core::digest::Content::from_object(&object).unwrap();
        saferollback::core::evidence::content_named(&object, &content)
    };
    assert_eq!(named(json!(true)).as_deref(), Some("kubectl create configmap --append-hash"));
    assert_eq!((named(json!(false)), named(Value::Null)), (None, None));
}

#[test]
fn rule_7_of_several_owners_of_the_flag_the_earliest_counts_and_none_is_no_proof() {
    let mut scene = Scene::retired(env_from());
    scene.events.clear();
    scene.domain = Domain::default();
    scene.immutable(10).immutable(1500);
    assert_eq!(scene.verdict(1), Same);
    scene.objects[0]["metadata"]["managedFields"][2]["time"] = Value::Null;
    assert_ne!(scene.verdict(1), Same, "an owner without a time may be the first");
}

#[test]
fn rule_7_the_flag_must_be_older_than_the_revisions_first_pod() {
    // Would break: frozen between the revision's first Pod and the survivor: the revision ran with other bytes too.
    let mut scene = Scene::calm(env_from());
    scene.events.clear();
    scene.domain = Domain::default();
    scene.immutable(990);
    scene.sets[0]["metadata"]["creationTimestamp"] = json!(stamp(500));
    assert_ne!(scene.verdict(1), Same);
    scene.sets[0]["metadata"]["creationTimestamp"] = json!(stamp(1000));
    assert_eq!(scene.verdict(1), Same);
}

#[test]
fn rule_7_whole_second_stamps_hide_a_second() {
    // Would break: edited and frozen at 998.9, Pod at 1000.0, a kubelet two seconds late: it read the state before.
    for (at, verdict) in [(997, Same), (998, WrittenDuring)] {
        let mut scene = Scene::retired(env_from());
        scene.events.clear();
        scene.domain = Domain::default();
        scene.immutable(at);
        assert_eq!(scene.verdict(1) == Same, verdict == Same, "{at}: {:?}", scene.verdict(1));
    }
}

#[test]
fn rule_7_entries_from_before_creation_are_copies() {
    // Would break: a copy from a backup brings its managedFields along; its mutable namesake held a hotfix.
    let mut scene = Scene::retired(env_from());
    scene.immutable(10);
    scene.objects[0]["metadata"]["creationTimestamp"] = json!(stamp(1500));
    assert_eq!(scene.verdict(1), Recreated);
    let object = saferollback::core::object::Object(scene.objects[0].clone());
    assert_eq!(saferollback::core::evidence::immutable_since(&object), Some(time(1500)));
}

/// Without this a node's clock would decide what is proven (C61).
#[test]
fn rule_8_a_nodes_clock_proves_nothing() {
    // Would break: startedAt three seconds off, either way, around an edit.
    for skew in [-3, 0, 3] {
        for edit in [1000, 1001, 1004] {
            let mut scene = Scene::calm(env_from());
            scene.events.clear();
            scene.domain = Domain::default();
            scene.write(data("late"), 225, edit);
            let started = json!({"running": {"startedAt": stamp(1002 + skew)}});
            scene.pods[0]["status"]["containerStatuses"][0]["state"] = started;
            let judgement = scene.judgement(1);
            assert!(judgement.facts.iter().all(|f| !f.proof), "{skew} {edit}: {:?}", judgement.facts);
            assert!(judgement.candidates.iter().all(|c| c.grade < Grade::Proof));
            assert_ne!(judgement.verdict, Changed);
        }
    }
}

/// What was written around a Pod's start may or may not be what it read (C91).
#[test]
fn rule_9_ten_seconds_before_the_pod_are_enough_and_nine_are_not() {
    for (at, verdict) in [(990, Same), (991, LikelySame)] {
        let mut scene = Scene::calm(env_from());
        scene.write(data("x"), 190, at);
        assert_eq!(scene.verdict(1), verdict, "{at}");
    }
}

#[test]
fn rule_9_the_doubt_says_on_which_side_of_the_pods_creation_the_write_was() {
    // Would break: a write after the creation is no lateness of a kubelet, and the words would say so.
    for (at, words) in [(995, "less than 10s before"), (1000, "less than 10s before"), (1001, "written after the Pod")]
    {
        let mut scene = Scene::calm(env_from());
        scene.write(data("x"), 190, at);
        let judgement = scene.judgement(1);
        assert_eq!(judgement.verdict, LikelySame);
        assert!(judgement.facts[0].detail.contains(words), "{at}: {:?}", judgement.facts);
    }
}

#[test]
fn rule_9_a_node_that_was_not_ready_is_late() {
    let mut scene = Scene::calm(env_from());
    let mut other = foreign_pod(900);
    other["spec"]["containers"] = json!([{"name": "c", "image": "c"}]);
    scene.events.push(event(&other, "NodeNotReady", None, 1, 241, 1100));
    scene.pods.push(other.clone());
    assert_eq!(scene.verdict(1), LikelySame, "told of another Pod of the node");
    scene.pods[1]["spec"]["nodeName"] = json!("node-2");
    assert_eq!(scene.verdict(1), Same, "another node");
}

#[test]
fn rule_9_a_node_that_was_not_ready_is_late_for_a_pod_that_is_gone_too() {
    // Would break: the Pod is gone and with it its node's name, but the Event tells that this Pod's kubelet was cut off.
    let mut scene = Scene::retired(env_from());
    let gone = json!({"metadata": {"name": pod_name(1, "aaaaa"), "uid": "gone"}});
    scene.events.push(event(&gone, "NodeNotReady", None, 241, 242, 1100));
    assert_eq!((scene.verdict(1), scene.verdict(2)), (LikelySame, Same));
    scene.write(data("bad"), 590, 3000);
    assert_eq!(scene.judgement(1).candidates[0].grade, Grade::Likely);
}

#[test]
fn rule_10_absent_now_is_not_absent_then() {
    // Would break: an optional object was there at the start and was deleted since.
    let mut optional = env_from();
    set(&mut optional, "/spec/containers/0/envFrom/0/configMapRef/optional", json!(true));
    let mut scene = Scene::calm(optional);
    scene.objects.clear();
    assert_eq!(scene.verdict(1), Unknown);
    let mut scene = Scene::calm(env_from());
    scene.objects.clear();
    assert_eq!(scene.verdict(1), Missing);
}

#[test]
fn rule_11_an_adopted_pod_is_no_witness() {
    // Would break: a bare Pod, relabelled and adopted, read who knows what.
    let mut scene = Scene::retired(env_from());
    let mut bare = pod(&scene.sets[0], "ccccc", 700, 4000);
    bare["metadata"].as_object_mut().unwrap().shift_remove("generateName");
    scene.pods.push(bare);
    scene.write(data("bad"), 690, 3500);
    let judged = scene.judged(1);
    assert_eq!(judged.set_aside.len(), 1, "{:?}", judged.set_aside);
    assert_ne!(judged.references[0].verdict, Same);
}

/// A name that admission changed is another matter than one that it adds (C90).
#[test]
fn rule_11_pods_rewritten_at_admission_testify_nothing() {
    // Would break: a webhook swaps the name in each Pod; the template's object was never read.
    let start = || {
        let mut scene = Scene::calm(env_from());
        set(&mut scene.pods[0], "/spec/containers/0/envFrom/0/configMapRef/name", json!("settings-blue"));
        scene
    };
    let judged = start().judged(1);
    assert_eq!(judged.references[0].verdict, Unknown);
    assert_eq!(judged.references[0].read, None);
    assert!(judged.references[0].candidates.iter().all(|c| c.grade == Grade::None));
    // Nor does time travel then: no container read the version that held.
    let mut scene = start();
    scene.write(data("bad"), 590, 3000);
    let judgement = &scene.judged(1).references[0];
    assert!(judgement.verdict != Changed && judgement.candidates.iter().all(|c| c.grade == Grade::None));
    // Not even where the rest of the revision's life is known from both sides.
    let mut scene = Scene::retired(env_from());
    let mut going = pod(&scene.sets[0], "ccccc", 205, 1000);
    going["spec"]["containers"][0]["envFrom"] = json!([]);
    going["metadata"]["deletionTimestamp"] = json!(stamp(2000));
    scene.pods.push(going);
    scene.write(data("bad"), 590, 3000);
    let judgement = scene.judgement(1);
    assert_eq!((judgement.verdict, judgement.read), (Unknown, None));
    assert!(judgement.facts.iter().all(|f| !f.proof), "{:?}", judgement.facts);
    assert!(judgement.candidates.iter().all(|c| c.grade == Grade::None), "{:?}", judgement.candidates);
    // One of two Pods is enough: the next may be the one.
    let mut scene = Scene::calm(env_from());
    let mut second = pod(&scene.sets[0], "ccccc", 205, 1000);
    second["spec"]["containers"][0]["envFrom"] = json!([]);
    scene.pods.push(second);
    assert_eq!(scene.judged(1).references[0].verdict, Unknown);
}

#[test]
fn rule_11_containers_and_keys_must_be_the_templates() {
    // Would break: the same object, but read by another container, by other keys, or made optional.
    let change: [Change; 4] = [
        ("other key", |p| p["spec"]["containers"][0]["env"][0]["valueFrom"]["configMapKeyRef"]["key"] = json!("B")),
        ("other container", |p| {
            p["spec"]["containers"][0]["name"] = json!("b");
            p["status"]["containerStatuses"][0]["name"] = json!("b");
        }),
        ("optional", |p| {
            p["spec"]["containers"][0]["env"][0]["valueFrom"]["configMapKeyRef"]["optional"] = json!(true)
        }),
        ("as init container", |p| {
            p["spec"]["initContainers"] = p["spec"]["containers"].clone();
            p["spec"]["containers"] = json!([{"name": "x", "image": "x"}]);
        }),
    ];
    for (what, change) in change {
        let mut scene = Scene::calm(key_ref("A"));
        change(&mut scene.pods[0]);
        assert_eq!(scene.verdict(1), Unknown, "{what}");
    }
}

/// What admission adds is listed, and spoils nothing of the template's own (C90).
#[test]
fn rule_11_injected_references_are_listed_and_judged() {
    // a sidecar and its ConfigMap come in at admission; the service account's CA is no news.
    let mut scene = Scene::calm(env_from());
    scene.pods[0]["spec"]["imagePullSecrets"] = json!([{"name": "registry"}]);
    let side = json!({"name": "mesh", "image": "mesh:1", "envFrom": [{"configMapRef": {"name": "mesh"}}]});
    scene.pods[0]["spec"]["initContainers"] = json!([side]);
    scene.objects.push(config_map("mesh", json!({"M": "1"}), 110, 0));
    let judged = scene.judged(1);
    let injected: Vec<_> = judged.references.iter().filter(|j| j.injected).map(|j| &j.reference.name).collect();
    assert_eq!(injected, ["mesh"]);
    assert_eq!(judged.references[0].verdict, Same, "extras never spoil the template's own");
}

#[test]
fn rule_11_another_use_of_a_named_object_is_judged_too() {
    // Would break: the template takes key A, the injected sidecar all keys: B was edited, and the sidecar's next start differs.
    let mut scene = Scene::calm(key_ref("A"));
    let side = json!({"name": "mesh", "image": "mesh:1", "envFrom": [{"configMapRef": {"name": "settings"}}]});
    scene.pods[0]["spec"]["containers"].as_array_mut().unwrap().push(side);
    let status =
        json!({"name": "mesh", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": stamp(1002)}}});
    scene.pods[0]["status"]["containerStatuses"].as_array_mut().unwrap().push(status);
    scene.write(json!({"A": "1", "B": "new"}), 590, 3000);
    let judged = scene.judged(1);
    let verdicts: Vec<_> = judged.references.iter().map(|j| (j.injected, j.verdict)).collect();
    assert_eq!(verdicts, [(false, Same), (true, Changed)]);
}

#[test]
fn rule_11_what_several_pods_have_injected_is_listed_once_with_all_its_uses() {
    // Would break: a Secret passes for the ConfigMap of its name, one Pod's sidecar hides the other's, or the
    // template's own use is said to be put in.
    let mut scene = Scene::calm(key_ref("A"));
    let (map, secret) = (|name: &str| json!({"configMapRef": {"name": name}}), json!({"secretRef": {"name": "mesh"}}));
    let mesh = json!({"name": "mesh", "image": "m:1", "envFrom": [map("settings"), map("mesh"), secret]});
    let log = json!({"name": "log", "image": "l:1", "envFrom": [map("mesh")]});
    scene.pods.push(pod(&scene.sets[0], "ccccc", 205, 1000));
    for pod in &mut scene.pods {
        pod["spec"]["containers"].as_array_mut().unwrap().push(mesh.clone());
    }
    scene.pods[1]["spec"]["containers"].as_array_mut().unwrap().push(log);
    let judged = scene.judged(1);
    let injected = judged.references.iter().filter(|j| j.injected).map(|j| &j.reference);
    let listed: Vec<_> = injected
        .map(|r| {
            (format!("{}/{}", r.kind, r.name), r.uses.iter().filter_map(|u| u.container.clone()).collect::<Vec<_>>())
        })
        .collect();
    let wanted =
        [("ConfigMap/settings", &["mesh"][..]), ("ConfigMap/mesh", &["mesh", "log"]), ("Secret/mesh", &["mesh"])];
    let wanted =
        wanted.map(|(name, uses)| (name.to_string(), uses.iter().map(ToString::to_string).collect::<Vec<_>>()));
    assert_eq!(listed, wanted);
}

#[test]
fn rule_11_survivors_that_are_not_ready_make_it_failing() {
    // Would break: "same" as what never ran well.
    let mut scene = Scene::calm(env_from());
    assert!(!scene.judged(1).failing());
    scene.pods[0]["status"]["conditions"][1]["status"] = json!("False");
    let judged = scene.judged(1);
    assert_eq!((judged.summary(), judged.failing()), (Some(Same), true));
    scene.pods[0]["metadata"]["deletionTimestamp"] = json!(stamp(5000));
    assert!(!scene.judged(1).failing(), "Pods that go are no survivors");
}

#[test]
fn rule_11_a_container_that_waits_has_read_nothing() {
    // Would break: `changed` by what a container that never ran "read"; its first start reads today's.
    let waits = |restarts: u64, change: fn(&mut Scene)| {
        let mut scene = Scene::calm(env_from());
        let status = &mut scene.pods[0]["status"]["containerStatuses"][0];
        status["restartCount"] = json!(restarts);
        status["state"] = json!({"waiting": {"reason": "ImagePullBackOff"}});
        change(&mut scene);
        scene.judgement(1)
    };
    let edited = waits(0, |s| {
        s.write(data("bad"), 590, 3000);
    });
    assert_eq!((edited.verdict, edited.read), (WrittenDuring, None));
    // One that was restarted has read, even where the node has forgotten the run itself.
    assert!(waits(1, |_| {}).read.is_some());
}

#[test]
fn rule_12_an_edited_replica_set_is_damaged() {
    // Would break: `kubectl edit rs` on a retired revision: its template is no longer what ran.
    for first in [false, true] {
        let mut scene = Scene::retired(env_from());
        let entry = managed("kubectl-edit", 2500, json!({"f:spec": {"f:template": {"f:spec": {}}}}));
        let entries = scene.sets[0]["metadata"]["managedFields"].as_array_mut().unwrap();
        entries.insert(if first { 0 } else { 1 }, entry);
        let damaged = scene.history().revisions[0].damaged.clone();
        assert!(damaged.as_ref().is_some_and(|d| d.starts_with("kubectl-edit ")), "{damaged:?}");
        let seen = scene.observed();
        assert!(saferollback::core::plan::choose(&scene.history(), &seen.workload, Some(1)).is_err());
    }
    // The scale subresource and status are no edits of the template.
    let mut scene = Scene::retired(env_from());
    let entry = managed("kubectl-scale", 2500, json!({"f:spec": {"f:replicas": {}}}));
    scene.sets[0]["metadata"]["managedFields"].as_array_mut().unwrap().push(entry);
    assert_eq!(scene.history().revisions[0].damaged, None);
}

fn restarted(template: Value, at: i64) -> Scene {
    let mut scene = Scene::calm(template);
    let status = &mut scene.pods[0]["status"]["containerStatuses"][0];
    status["restartCount"] = json!(1);
    status["state"] = json!({"running": {"startedAt": stamp(at)}});
    status["lastState"] = json!({"terminated": {"exitCode": 1, "startedAt": stamp(1002), "finishedAt": stamp(at - 1)}});
    scene.pods[0]["metadata"]["resourceVersion"] = json!("400");
    scene
}

#[test]
fn rule_13_behind_a_sub_path_only_the_time_before_the_pod_counts() {
    // Would break: the mount is made before the first pull, so Pulled, Created and Started come after the read.
    let mut scene = Scene::calm(sub_path("A"));
    scene.only_events(&["Pulled", "Created", "Started"]).overwrite(data("late"), 205).no_past();
    assert_ne!(scene.verdict(1), Same);
    let mut scene = Scene::calm(sub_path("A"));
    assert_eq!(scene.verdict(1), Same);
    scene.only_events(&["Pulled", "Created", "Started"]);
    assert_eq!(scene.verdict(1), LikelySame);
    // After a restart env may be new and the file old.
    let mut scene = restarted(sub_path("A"), 3000);
    assert_eq!(scene.verdict(1), Same, "unchanged since before the Pod");
    scene.write(data("late"), 300, 2500);
    assert_eq!(scene.verdict(1), WrittenDuring);
    assert!(scene.judgement(1).candidates.iter().all(|c| c.grade == Grade::None));
}

#[test]
fn rule_13_a_restart_with_only_its_own_events_left_says_nothing_of_the_first_start() {
    // Would break: Pulled of the restart holds Pod version 350; an edit at 300 is below it, and mounts are older.
    for template in [env_from(), sub_path("A")] {
        let mut scene = restarted(template, 3000);
        scene.events = vec![event(&scene.pods[0], "Pulled", Some("spec.containers{app}"), 350, 355, 3000)];
        scene.overwrite(data("late"), 300).no_past();
        assert_ne!(scene.verdict(1), Same);
    }
    // Would break: the Pod's number is near the restart, and the mount is two thousand seconds older.
    let mut scene = restarted(sub_path("A"), 3000);
    scene.events.clear();
    scene.overwrite(data("late"), 300).no_past();
    assert_eq!(scene.verdict(1), Unknown);
}

#[test]
fn rule_13_init_containers_have_reads_of_their_own() {
    let mut scene = Scene::calm(init_env());
    let name = "spec.initContainers{migrate}";
    scene.events = vec![event(&scene.pods[0], "Pulled", Some(name), 210, 220, 1001)];
    assert_eq!(scene.verdict(1), Same);
    // Would break: a container of that name is not the init container.
    scene.events[0]["involvedObject"]["fieldPath"] = json!("spec.containers{migrate}");
    assert_eq!(scene.verdict(1), LikelySame);
    // Would break: app's start is later than the init container's read.
    scene.events[0]["involvedObject"]["fieldPath"] = json!("spec.containers{app}");
    scene.overwrite(data("late"), 208).no_past();
    assert_ne!(scene.verdict(1), Same);
}

#[test]
fn rule_13_a_pull_is_older_than_a_restart() {
    // Would break: the image was pulled before the first start; a Secret that was written since would be likely the same.
    let mut template = template("web:1", json!({}));
    template["spec"]["imagePullSecrets"] = json!([{"name": "registry"}]);
    let secret = |number: u64, written: i64| {
        let mut secret = config_map("registry", json!({}), number, 0);
        secret["kind"] = json!("Secret");
        secret["metadata"]["managedFields"] = json!([managed("kubectl-edit", written, json!({"f:data": {}}))]);
        secret
    };
    let mut scene = restarted(template, 3000);
    scene.events.clear();
    let mut verdict = |number: u64, written: i64| {
        scene.objects = vec![secret(number, written)];
        scene.judged(1).references[0].verdict
    };
    assert_eq!((verdict(300, 0), verdict(300, 2500), verdict(590, 3500)), (Unknown, WrittenDuring, WrittenAfter));
}

#[test]
fn rule_14_changed_only_on_consumed_keys() {
    let edited = |template: Value, data: Value| {
        let mut scene = Scene::calm(template);
        scene.write(data, 590, 3000);
        scene.judgement(1)
    };
    let changed = edited(key_ref("A"), json!({"A": "bad", "B": "2"}));
    assert_eq!((changed.verdict, changed.differing), (Changed, vec!["A".to_string()]));
    assert!(changed.read.is_some());
    assert_eq!(edited(key_ref("A"), json!({"A": "1", "B": "new"})).verdict, Same, "B is read by nobody");
    assert_eq!(edited(env_from(), json!({"A": "1", "B": "new"})).verdict, Changed);
    assert_eq!(edited(env_from(), json!({"A": "1", "B": "2"})).verdict, Same, "the same bytes came back");
    assert_eq!(edited(env_from(), json!({"A": "1", "B": "2", "C": "3"})).verdict, Changed, "a key that came");
    // Would break: the screen names the key, and says it as a person would.
    assert!(changed.facts[0].detail.ends_with("is known from the API's history; A differs"), "{:?}", changed.facts);
    let both = edited(env_from(), json!({"A": "bad", "B": "bad"}));
    assert!(both.facts[0].detail.ends_with("; A and B differ"), "{:?}", both.facts);
}

/// Without this a generator that moves a key would be an edit of a file (C55).
#[test]
fn rule_14_data_and_binary_data() {
    let edited = |template: Value, change: fn(&mut Value)| {
        let mut scene = Scene::calm(template);
        scene.write(json!({"B": "2"}), 590, 3000);
        change(&mut scene.objects[0]);
        scene.verdict(1)
    };
    // env looks at data only; a file is a file, whichever field it came from.
    let moved: fn(&mut Value) = |o| o["binaryData"] = json!({"A": "MQ=="});
    assert_eq!(edited(key_ref("A"), moved), KeyMissing);
    assert_eq!(edited(env_from(), moved), Changed);
    assert_eq!(edited(sub_path("A"), moved), Same);
    assert_eq!(edited(sub_path("A"), |o| o["binaryData"] = json!({"A": "M\nQ=="})), Same, "wrapped base64");
    assert_eq!(edited(sub_path("A"), |o| o["binaryData"] = json!({"A": "Mg=="})), Changed);
}

#[test]
fn rule_14_one_sided_knowledge_is_no_changed() {
    // Would break: the last-applied annotation or a version of unknown age "differs".
    let mut scene = Scene::calm(env_from());
    scene.events.clear();
    scene.write(data("bad"), 225, 3000).no_past();
    let applied = json!({"kind": "ConfigMap", "data": {"A": "other"}}).to_string();
    scene.objects[0]["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": applied});
    let judgement = scene.judgement(1);
    assert!(matches!(judgement.verdict, WrittenDuring | WrittenAfter), "{:?}", judgement.verdict);
    assert!(judgement.candidates.iter().all(|c| c.grade == Grade::None), "{:?}", judgement.candidates);
    assert_eq!(judgement.candidates.len(), 2);
}

#[test]
fn rule_15_recreated_or_late() {
    // A Deployment applied before its ConfigMap waits, then reads it: said as such, and no proof.
    let mut scene = Scene::calm(env_from());
    scene.objects[0] = config_map("settings", data("1"), 205, 1030);
    scene.pods[0]["status"]["containerStatuses"][0]["state"] = json!({"running": {"startedAt": stamp(1040)}});
    scene.sets[0]["metadata"]["creationTimestamp"] = json!(stamp(1060));
    let judgement = scene.judgement(1);
    assert_eq!(judgement.verdict, Recreated);
    assert!(judgement.facts[0].detail.contains("or late"), "{:?}", judgement.facts);
    // A container that started before the object was created read another one.
    scene.pods[0]["status"]["containerStatuses"][0]["state"] = json!({"running": {"startedAt": stamp(1010)}});
    assert!(!scene.judgement(1).facts[0].detail.contains("or late"));
}

#[test]
fn rule_15_a_pod_that_read_the_former_one_decides_over_one_that_waited() {
    // Would break: "or late" would comfort, or a Pod of the same second would hide the older one altogether.
    let mut scene = Scene::calm(env_from());
    let mut waited = foreign_pod(-500);
    waited["status"]["containerStatuses"][0]["state"] = json!({"running": {"startedAt": stamp(5)}});
    scene.pods.push(waited.clone());
    let late = |scene: &Scene| {
        let judgement = scene.judgement(1);
        assert_eq!(judgement.verdict, Recreated);
        judgement.facts[0].detail.contains("or late")
    };
    assert!(late(&scene));
    scene.pods.push(foreign_pod(1));
    assert!(late(&scene), "of the same second");
    scene.pods.push(foreign_pod(-300));
    assert!(!late(&scene), "it ran before the object was there");
    scene.pods.push(waited);
    assert!(!late(&scene), "whatever their order");
}

/// Without this bytes that a kubelet does not serve would count (C53).
#[test]
fn rule_15_equal_bytes_do_not_heal_a_recreated_object() {
    // same data, another uid: kubelets may serve the deleted one. What was read is still known.
    let mut scene = Scene::calm(env_from());
    scene.recreate(data("1"), 300, 2000);
    let judgement = scene.judgement(1);
    assert_eq!(judgement.verdict, Recreated);
    assert!(judgement.read.is_some(), "time travel shows the deleted one");
    let best = &judgement.candidates[0];
    assert_eq!((best.grade, best.origin.word()), (Grade::Proof, "time-travel"));
}

#[test]
fn rule_15_recreated_within_the_pods_second_is_another_object_still() {
    // Would break: stamps cannot tell, equal bytes would look the same; the uid that was read tells.
    let mut scene = Scene::calm(env_from());
    scene.recreate(data("1"), 300, 1000);
    assert_eq!(scene.verdict(1), Recreated);
    // A later Pod that read today's does not outweigh it.
    let second = pod(&scene.sets[0], "ccccc", 600, 4000);
    scene.events.extend(start_events(&second, 600, 4000));
    scene.pods.push(second);
    assert_eq!(scene.verdict(1), Recreated);
}

#[test]
fn rule_16_a_version_is_proven_by_both_its_ends() {
    // [v, next): v below the lower anchor 210, next above the Pod's own number 240.
    let candidate = |from: u64, until: u64| {
        let mut scene = Scene::calm(env_from());
        scene.write(data("bad"), until, 3000);
        let versions = scene.past.get_mut("settings").unwrap();
        versions[0].object.0["metadata"]["resourceVersion"] = json!(from.to_string());
        versions[0].until_time = None;
        let judgement = scene.judgement(1);
        let old = judgement.candidates.iter().find(|c| c.origin.word() == "time-travel").unwrap().grade;
        (judgement.verdict, old)
    };
    assert_eq!(candidate(100, 590), (Changed, Grade::Proof));
    assert_eq!(candidate(209, 241), (Changed, Grade::Proof));
    // Would break: the version began when the read was over, or ended before it had begun.
    assert_eq!(candidate(210, 241).1, Grade::None);
    assert_eq!(candidate(209, 240).1, Grade::None);
    assert_eq!(candidate(209, 240).0, WrittenDuring);
}

#[test]
fn rule_16_live_minus_one_may_be_an_edit_too_late() {
    let mut scene = Scene::calm(env_from());
    scene.write(data("later"), 230, 1500).write(data("bad"), 590, 3000);
    let judgement = scene.judgement(1);
    let grades: Vec<_> = judgement.candidates.iter().map(|c| (c.origin.word(), c.grade)).collect();
    assert!(grades.iter().all(|(_, g)| *g == Grade::None), "{grades:?}");
    assert_eq!(judgement.candidates.len(), 3, "all are listed, none is chosen");
    assert_eq!(judgement.verdict, WrittenAfter);
}

#[test]
fn rule_16_a_near_anchor_gives_likely_at_most() {
    // Would break: written without a trace between the read (about 210) and the Event's own number 222.
    let mut scene = Scene::retired(env_from());
    scene.only_events(&["Started"]);
    scene.overwrite(data("x"), 215).write(data("bad"), 590, 3000);
    let judgement = scene.judgement(1);
    assert_eq!((judgement.candidates[0].grade, judgement.verdict), (Grade::Likely, WrittenAfter));
    assert_eq!(judgement.read, None);
    // Would break: a version that came after the near number would be likely, though the reads were before it.
    for (from, grade) in [(221, Grade::Likely), (222, Grade::None), (230, Grade::None)] {
        let mut scene = Scene::retired(env_from());
        scene.only_events(&["Started"]);
        scene.overwrite(data("x"), from).write(data("bad"), 590, 3000);
        assert_eq!(scene.judgement(1).candidates[0].grade, grade, "{from}");
    }
}

#[test]
fn rule_16_a_version_carries_the_doubts_of_its_object_and_node() {
    // Would break: `changed` by bytes that a cached namesake, or a kubelet that was cut off, never gave out.
    let likely = |scene: &Scene| {
        let judgement = scene.judgement(1);
        assert_ne!(judgement.verdict, Changed);
        assert_eq!((judgement.candidates[0].grade, judgement.read), (Grade::Likely, None));
    };
    let mut scene = Scene::calm(env_from());
    scene.write(data("bad"), 590, 3000);
    assert_eq!(scene.verdict(1), Changed);
    let mut close = scene.clone();
    close.pods.push(foreign_pod(1));
    likely(&close);
    let unready = event(&scene.pods[0], "NodeNotReady", None, 241, 242, 1100);
    scene.events.push(unready);
    likely(&scene);
}

#[test]
fn rule_16_two_likely_contents_are_no_choice() {
    // A label moved the near number above an edit; both edits came after the end of the revision.
    let mut scene = Scene::retired(env_from());
    scene.only_events(&["Started"]).domain.replica_sets = false;
    scene.events[0]["metadata"]["resourceVersion"] = json!("900");
    scene.write(data("x"), 300, 2500);
    assert_eq!(scene.judgement(1).candidates[0].grade, Grade::Likely, "one alone is");
    scene.write(data("y"), 400, 3000);
    let grades: Vec<_> = scene.judgement(1).candidates.iter().map(|c| c.grade).collect();
    assert_eq!(grades, [Grade::None; 3]);
}

#[test]
fn rule_16_one_content_has_its_best_grade() {
    // Would break: the same bytes were there once before, and that older version would take their proof away.
    let mut scene = Scene::calm(env_from());
    scene.write(data("x"), 150, 100).write(data("1"), 160, 200);
    let judgement = scene.judgement(1);
    assert_eq!(judgement.verdict, Same);
    let candidates: Vec<_> = judgement.candidates.iter().map(|c| (c.origin.word(), c.grade)).collect();
    assert_eq!(candidates, [("live", Grade::Proof), ("time-travel", Grade::None)]);
}

#[test]
fn rule_17_a_walk_back_ends_below_the_lowest_number_of_a_read() {
    // Would break: the walk ends above the version that was read, or goes through all of the history for nothing.
    let mut scene = Scene::calm(env_from());
    assert_eq!(scene.judgement(1).floor, Some(210));
    let second = pod(&scene.sets[0], "ccccc", 600, 4000);
    scene.events.extend(start_events(&second, 600, 4000));
    scene.pods.push(second);
    assert_eq!(scene.judgement(1).floor, Some(210), "the lowest of several");
    scene.keep_events(|e| e["involvedObject"]["uid"] != "uid-web-5d59d67561-aaaaa");
    assert_eq!(scene.judgement(1).floor, Some(240), "a near number where there is no better one");
    scene.pods[0]["status"]["conditions"][1]["lastTransitionTime"] = json!(stamp(4600));
    assert_eq!(scene.judgement(1).floor, None, "a read without a number may be as old as can be");
}

#[test]
fn rule_17_a_pods_past_is_asked_for_only_where_it_decides() {
    // Would break: requests for nothing, or a proof given away because nobody looked for the Pod's created version.
    let unanchored = |mut scene: Scene, change: fn(&mut Scene)| {
        change(&mut scene);
        scene.judgement(1).unanchored
    };
    let calm = || Scene::calm(env_from());
    assert!(unanchored(calm(), |s| s.events.clear()));
    assert!(!unanchored(calm(), |_| {}));
    let fresh = |s: &mut Scene| {
        s.write(data("x"), 190, 995);
    };
    assert!(!unanchored(calm(), fresh), "the Pod has a number already, and the doubt is another one");
    let frozen = |s: &mut Scene| {
        s.events.clear();
        s.immutable(10);
    };
    assert!(!unanchored(calm(), frozen), "proven without");
    assert!(!unanchored(Scene::retired(env_from()), |s| s.events.clear()), "no Pod is left to ask");
}

#[test]
fn rule_16_without_an_upper_number_the_edit_must_come_after_the_end() {
    // Would break: an edit within the revision's life, and what its later Pods read would be called likely.
    for (edit, grade) in [(1500, Grade::None), (2002, Grade::None), (2003, Grade::Likely)] {
        let mut scene = Scene::retired(env_from());
        scene.only_events(&["Started"]).domain.replica_sets = false;
        scene.write(data("x"), 300, edit);
        assert_eq!(scene.judgement(1).candidates[0].grade, grade, "{edit}");
    }
}

#[test]
fn rule_16_several_likely_versions_are_no_choice() {
    // Without an upper number two versions may both look likely.
    let mut scene = Scene::calm(volume());
    scene.write(data("x"), 300, 3000).write(data("y"), 400, 4000);
    let grades: Vec<_> = scene.judgement(1).candidates.iter().map(|c| c.grade).collect();
    assert!(grades.iter().all(|g| *g == Grade::None), "{grades:?}");
    // Versions that no consumer can tell apart are one content.
    let mut scene = Scene::calm(key_ref("A"));
    scene.write(json!({"A": "1", "B": "new"}), 590, 3000);
    let judgement = scene.judgement(1);
    assert_eq!(judgement.verdict, Same);
    assert!(judgement.candidates.iter().all(|c| c.grade == Grade::Proof), "{:?}", judgement.candidates);
}

#[test]
fn rule_16_the_retired_revision_is_bounded_by_its_replica_set() {
    let scene = edited_after();
    let judgement = scene.judgement(1);
    assert_eq!(judgement.verdict, Changed);
    assert_eq!(judgement.candidates[0].grade, Grade::Proof);
    // Would break: a size that the controller has not seen to, or Pods still counted.
    let changes: [fn(&mut Value); 3] = [
        |rs| rs["metadata"]["generation"] = json!(2),
        |rs| rs["status"]["replicas"] = json!(1),
        |rs| rs["spec"]["replicas"] = json!(1),
    ];
    for change in changes {
        let mut scene = edited_after();
        change(&mut scene.sets[0]);
        assert!(scene.judgement(1).candidates.iter().all(|c| c.grade < Grade::Proof));
    }
}

#[test]
fn rule_16_a_version_that_was_fresh_at_the_start_is_likely_only() {
    let mut scene = Scene::calm(env_from());
    scene.write(data("fresh"), 190, 995).write(data("bad"), 590, 3000);
    let judgement = scene.judgement(1);
    let best = &judgement.candidates[0];
    assert_eq!((best.grade, judgement.verdict), (Grade::Likely, WrittenAfter));
}

#[test]
fn rule_17_a_refreshed_mount_is_read_as_long_as_the_pod_lives() {
    // Would break: mid-rollout the old Pod's directory was refreshed after the successor had started.
    let mut scene = Scene::retired(volume());
    let survivor = pod(&scene.sets[0], "aaaaa", 200, 1000);
    scene.pods.push(survivor);
    scene.sets[0]["spec"]["replicas"] = json!(1);
    scene.sets[0]["status"]["replicas"] = json!(1);
    scene.write(data("new"), 700, 4000);
    let judgement = scene.judgement(1);
    assert_eq!((judgement.verdict, judgement.read), (WrittenDuring, None));
    assert!(judgement.candidates.iter().all(|c| c.grade < Grade::Proof));
    // The current revision's Pods have today's files.
    assert_eq!(scene.verdict(2), Refreshed);
}

#[test]
fn rule_16_a_retired_revisions_files_followed_until_its_last_pod_was_gone() {
    // Would break: its ReplicaSet is at zero while Pods are on their way out, whose files the kubelet still refreshes
    // (node::facts): an edit after that number may have been in them, and so may its taking back.
    let edited = |template: Value| {
        let mut scene = Scene::retired(template);
        scene.write(data("new"), 570, 2001);
        scene
    };
    let fixed = edited(env_from()).judgement(1);
    assert_eq!(fixed.verdict, Changed, "what is read at the start alone is over");
    assert!(fixed.read.is_some() && fixed.candidates.iter().any(|c| c.grade == Grade::Proof));
    let files = edited(volume()).judgement(1);
    assert_eq!((files.verdict, files.read), (WrittenDuring, None), "{:#?}", files.facts);
    assert!(files.candidates.iter().all(|c| c.grade < Grade::Proof), "{:#?}", files.candidates);
    let mut back = edited(volume());
    back.write(json!({"A": "1", "B": "2"}), 575, 2002);
    assert_ne!(back.verdict(1), Same, "in between another content was there to be read");
    assert_eq!(Scene::retired(volume()).verdict(1), Same, "never written: nothing else was there");
}

#[test]
fn a_volume_that_nobody_mounts_is_read_by_nobody() {
    let mut scene = Scene::calm(unmounted());
    scene.write(data("new"), 700, 4000).no_past();
    assert_eq!(scene.verdict(1), Same);
    assert_eq!(scene.judgement(1).read, None);
    scene.objects.clear();
    assert_eq!(scene.verdict(1), Same, "nor need it be there");
    // What another use reads of the object is still read.
    let mut scene = Scene::calm(unmounted_beside_an_environment());
    scene.write(data("new"), 700, 4000).no_past();
    assert_eq!(scene.verdict(1), WrittenAfter);
    scene.objects.clear();
    assert_eq!(scene.verdict(1), Missing);
}

#[test]
fn rule_18_mixed_is_judged_per_use() {
    // One Pod, two containers: side restarted after the edit and holds other bytes than app.
    let mut scene = Scene::calm(two_containers());
    let second = pod(&scene.sets[0], "ccccc", 600, 4000);
    scene.events.extend(start_events(&second, 600, 4000));
    let side = event(&second, "Pulled", Some("spec.containers{side}"), 610, 620, 4001);
    scene.events.push(side);
    scene.pods.push(second);
    scene.write(data("new"), 590, 3000);
    assert_eq!(scene.verdict(1), Mixed, "two Pods of one revision hold two contents");
    // Two uses with other keys each are no mixture.
    let mut scene = Scene::calm(key_ref("A"));
    let second = pod(&scene.sets[0], "ccccc", 600, 4000);
    scene.events.extend(start_events(&second, 600, 4000));
    scene.pods.push(second);
    scene.write(json!({"A": "1", "B": "new"}), 590, 3000);
    assert_eq!(scene.verdict(1), Same);
}

#[test]
fn rule_19_a_template_that_no_replica_set_has_is_pending() {
    // paused with an edited image: revision 2 runs, and "current" is not mislabelled as equal.
    let mut scene = Scene::retired(env_from());
    scene.workload["spec"]["paused"] = json!(true);
    scene.workload["spec"]["template"] = image(env_from(), "web:3");
    let history = scene.history();
    assert!(history.pending);
    assert_eq!(history.current().map(|r| r.number), Some(2));
}

#[test]
fn retired_without_pods_the_first_scheduled_event_decides() {
    // Revision 1 ran from 1000 to 2000 and has no Pod left.
    assert_eq!(Scene::retired(env_from()).verdict(1), Same);
    let without = |change: fn(&mut Scene)| {
        let mut scene = Scene::retired(env_from());
        change(&mut scene);
        scene.verdict(1)
    };
    // Would break: a used-again ReplicaSet's first life has no Event any more.
    assert_ne!(
        without(|s| set(
            &mut s.sets[0],
            "/metadata/annotations/deployment.kubernetes.io~1revision-history",
            json!("1")
        )),
        Same
    );
    // Would break: an earlier Pod's Event may be lost.
    assert_ne!(without(|s| s.sets[0]["metadata"]["creationTimestamp"] = json!(stamp(997))), Same);
    assert_eq!(without(|s| s.sets[0]["metadata"]["creationTimestamp"] = json!(stamp(999))), Same);
    // Would break: the kubelet's Events may be of a later Pod.
    assert_ne!(
        without(|s| {
            s.keep_events(|e| e["reason"] != "Scheduled");
        }),
        Same
    );
    // Would break: another ReplicaSet whose name begins alike.
    assert_ne!(
        without(|s| for e in &mut s.events {
            let name = e["involvedObject"]["name"].as_str().unwrap().replace("-aaaaa", "-x-aaaaa");
            e["involvedObject"]["name"] = json!(name);
        }),
        Same
    );
    // Would break: a Pod made by hand under such a name, without the five letters of a ReplicaSet's.
    assert_ne!(
        without(|s| {
            for e in &mut s.events {
                let name = e["involvedObject"]["name"].as_str().unwrap().replace("-aaaaa", "-by-hand");
                e["involvedObject"]["name"] = json!(name.replace("-by-", "-"));
            }
        }),
        Same
    );
    // Of several the first counts.
    let mut scene = Scene::retired(env_from());
    let gone = json!({"metadata": {"name": pod_name(1, "ccccc"), "uid": "gone"}});
    scene.events.push(event(&gone, "Scheduled", None, 400, 410, 1900));
    scene.write(data("x"), 300, 1500).no_past();
    assert_eq!(scene.verdict(1), WrittenDuring);
}

#[test]
fn retired_without_pods_the_first_of_several_first_pods_counts() {
    // Would break: an edit between two Pods that were scheduled within the same two seconds.
    let mut scene = Scene::retired(env_from());
    let gone = json!({"metadata": {"name": pod_name(1, "ccccc"), "uid": "gone"}});
    scene.events.push(event(&gone, "Scheduled", None, 230, 232, 1001));
    scene.overwrite(data("x"), 215).no_past();
    assert_eq!(scene.verdict(1), WrittenDuring);
}

#[test]
fn the_replica_sets_own_number_is_no_lower_bound() {
    // Would break: scaling (or the retirement itself) moves it above an edit of the revision's life.
    let mut scene = edited_after();
    scene.no_past().events.clear();
    scene.overwrite(data("bad"), 550);
    scene.objects[0]["metadata"]["managedFields"].as_array_mut().unwrap().truncate(1);
    assert!(scene.verdict(1) < Same && scene.verdict(1) != Same);
}

/// Without this the edit that leaves no trace would pass for none (C52).
#[test]
fn c52_a_key_removed_without_trace_is_never_same_nor_likely() {
    // The number moved, and nothing else tells.
    for (events, number) in [(true, 215), (true, 590), (false, 590)] {
        let mut scene = Scene::calm(env_from());
        scene.overwrite(json!({"A": "1"}), number).no_past();
        if !events {
            scene.events.clear();
        }
        let verdict = scene.verdict(1);
        assert!(matches!(verdict, WrittenAfter | WrittenDuring), "{verdict:?}");
    }
    let mut scene = Scene::calm(env_from());
    scene.overwrite(json!({"A": "1"}), 590).no_past();
    scene.domain = Domain::default();
    assert_eq!(scene.verdict(1), Unknown);
}

/// Without this every label would be an edit (C58).
#[test]
fn c58_a_label_alone_is_no_change_of_content() {
    let mut scene = Scene::calm(env_from());
    scene.write(data("1"), 590, 3000);
    let judgement = scene.judgement(1);
    assert_eq!((judgement.verdict, judgement.facts[0].source), (Same, "time-travel"));
}

/// Without this a checksum of unknown recipe would count as proof (C60).
#[test]
fn c60_checksum_annotations_prove_nothing() {
    let mut scene = edited_after();
    scene.no_past();
    let without = scene.verdict(1);
    for template in [&mut scene.sets[0]["spec"]["template"], &mut scene.workload["spec"]["template"]] {
        set(template, "/metadata/annotations/checksum~1config", json!("abc"));
    }
    set(&mut scene.sets[1], "/spec/template/metadata/annotations/checksum~1config", json!("abc"));
    assert_eq!(scene.verdict(1), without);
}

/// Without this a laptop's clock would decide what is safe (C61).
#[test]
fn c61_the_local_clock_decides_nothing() {
    let scene = edited_after();
    let mut seen = scene.observed();
    let history = scene.history();
    let verdicts = |seen: &saferollback::core::observed::Observed| -> Vec<Option<Verdict>> {
        saferollback::core::plan::judge(seen, &history).iter().map(|j| j.summary()).collect()
    };
    let before = verdicts(&seen);
    seen.now = time(-7200);
    assert_eq!(verdicts(&seen), before);
}

/// Without this staying would look safe where it is the trap (C62).
#[test]
fn c62_the_current_revision_is_judged_too() {
    let mut scene = Scene::retired(env_from());
    scene.write(data("bad"), 590, 3000);
    assert_eq!(scene.verdict(2), Changed, "its running Pods and the next one differ: the trap before any rollback");
}

/// Without this any name with a dash would be proof (C63).
#[test]
fn c63_a_hash_in_the_name_is_no_content_name() {
    let mut scene = Scene::calm(env_from());
    scene.events.clear();
    scene.domain = Domain::default();
    assert_eq!(scene.verdict(1), Unknown);
    let content = saferollback::core::digest::Content::default();
    let object = saferollback::core::object::Object(config_map("settings-m5k9f6h2g4", json!({}), 1, 0));
    assert_eq!(saferollback::core::evidence::content_named(&object, &content), None);
}

/// Without this a missing right would be told as a deleted object (C101).
#[test]
fn c101_unreadable_is_neither_missing_nor_unknown() {
    let mut scene = Scene::calm(env_from());
    scene.objects.clear();
    scene.unreadable.push(("settings".into(), "configmaps \"settings\" is forbidden".into()));
    let judgement = scene.judgement(1);
    assert_eq!(judgement.verdict, Unreadable);
    assert!(judgement.facts[0].detail.contains("forbidden"));
}

/// Without this a Secret would have to be read to be judged (C50).
#[test]
fn secrets_are_judged_by_number_and_never_by_bytes() {
    let secret = |version: u64| {
        let mut template = env_from();
        template["spec"]["containers"][0]["envFrom"] = json!([{"secretRef": {"name": "settings"}}]);
        let mut scene = Scene::calm(template);
        let mut object = config_map("settings", json!({}), version, 0);
        object["kind"] = json!("Secret");
        without(&mut object, "/data");
        object["metadata"]["managedFields"] = json!([managed("kubectl-create", 0, json!({"f:data": {"f:p": {}}}))]);
        scene.objects = vec![object];
        scene.judgement(1)
    };
    assert_eq!(secret(100).verdict, Same);
    assert_eq!(secret(590).verdict, WrittenAfter);
    assert!(secret(100).read.is_none() && secret(100).candidates.is_empty());
}

#[test]
fn the_summary_is_the_worst_verdict_in_the_documented_order() {
    let order = [
        Missing,
        KeyMissing,
        Changed,
        Mixed,
        Recreated,
        WrittenAfter,
        WrittenDuring,
        Unreadable,
        Unknown,
        LikelySame,
        Refreshed,
        Same,
        OptionalAbsent,
    ];
    assert!(order.is_sorted());
    let mut scene = Scene::calm(env_from());
    scene.pods[0]["spec"]["containers"][0]["envFrom"]
        .as_array_mut()
        .unwrap()
        .push(json!({"configMapRef": {"name": "gone"}}));
    assert_eq!(scene.judged(1).summary(), Some(Missing), "what is injected counts");
}
