//! Records: proof later of what was known once, and nothing that was not known then.

use saferollback::core::digest::Content;
use saferollback::core::object::Object;
use saferollback::core::plan::Judged;
use saferollback::core::record::{Held, ReadLine};
use saferollback::core::recording;
use saferollback::core::recovery::Grade;
use saferollback::core::references::Kind;
use saferollback::core::snapshot;
use saferollback::core::verdict::{Judgement, Verdict};
use serde_json::{Value, json};

use super::scene::*;

/// `calm` with a record of revision 1, and all that proved it gone since: Events, and the domain check.
fn recorded(template: Value) -> Scene {
    let mut scene = Scene::calm(template);
    scene.record(1, 1100);
    forget(&mut scene);
    scene
}

fn forget(scene: &mut Scene) {
    scene.events.clear();
    scene.domain = Default::default();
    scene.past.clear();
}

fn proven(judgement: &Judgement) -> bool {
    judgement.facts.iter().any(|f| f.source == "record" && f.proof)
}

/// Judges `settings` of revision 1 after a change to the recorded scene.
#[track_caller]
fn after(change: impl FnOnce(&mut Scene), verdict: Verdict) -> Judgement {
    let mut scene = recorded(env_from());
    change(&mut scene);
    let judgement = scene.judgement(1);
    assert_eq!(judgement.verdict, verdict, "{:#?}", judgement.facts);
    judgement
}

/// Without this a record would be worth nothing once the Events are gone.
#[test]
fn what_was_recorded_is_proof_when_everything_else_is_gone() {
    let mut forgetful = Scene::calm(env_from());
    forget(&mut forgetful);
    assert_eq!(forgetful.verdict(1), Verdict::Unknown, "else the record proves nothing here");

    assert!(proven(&after(|_| {}, Verdict::Same)));
    let changed = after(
        |s| {
            s.write(json!({"A": "2", "B": "2"}), 700, 5000).no_past();
        },
        Verdict::Changed,
    );
    assert!(proven(&changed) && changed.read.is_some());
    let candidate = changed.candidates.first().expect("the snapshot");
    assert_eq!((candidate.origin.word(), candidate.grade), ("snapshot", Grade::Proof));
    assert_eq!(changed.differing, ["A"]);
    // The same bytes again: another number, and still what was read.
    let again = |s: &mut Scene| {
        s.write(json!({"A": "2"}), 700, 5000);
        s.write(json!({"A": "1", "B": "2"}), 720, 5100).no_past();
    };
    assert!(proven(&after(again, Verdict::Same)));
    let gone = after(|s| s.objects.clear(), Verdict::Missing);
    assert_eq!(gone.candidates.first().map(|c| c.grade), Some(Grade::Proof), "it can be pinned");
}

/// Without this a record of one revision would speak of what another read.
#[test]
fn a_record_speaks_of_its_own_revision() {
    let mut scene = Scene::retired(env_from());
    scene.record(2, 2100);
    forget(&mut scene);
    scene.write(json!({"A": "2"}), 700, 5000).no_past();
    assert_eq!(scene.verdict(2), Verdict::Changed);
    let other = scene.judgement(1);
    assert!(!proven(&other), "{:#?}", other.facts);
    assert!(other.candidates.iter().all(|c| c.grade == Grade::None), "{:#?}", other.candidates);
}

/// Without this a record that knows less could hide one that knows more, and two that contradict each other would both be
/// believed.
#[test]
fn the_record_that_knows_most_speaks_and_contradictions_are_none() {
    let mut likely = Scene::calm(env_from());
    likely.events.clear();
    for (first, second) in [(1100, 1200), (1200, 1100)] {
        let mut scene = recorded(env_from());
        scene.records.clear();
        let mut sure = Scene::calm(env_from());
        scene.records.extend(sure.record(1, first).records.clone());
        scene.records.extend(likely.clone().record(1, second).records.clone());
        scene.write(json!({"A": "2"}), 700, 5000).no_past();
        assert_eq!(scene.verdict(1), Verdict::Changed, "proof, whichever came first");
    }
    let mut scene = recorded(env_from());
    let mut other = Scene::calm(env_from());
    other.objects[0]["data"] = json!({"A": "9"});
    scene.records.extend(other.record(1, 1200).records.clone());
    scene.write(json!({"A": "2"}), 700, 5000).no_past();
    let judgement = scene.judgement(1);
    assert!(!proven(&judgement) && judgement.read.is_none(), "{:#?}", judgement.facts);
}

/// Without this what one use took would be held against another's.
#[test]
fn each_use_has_its_own_digest() {
    let mut template = key_ref("A");
    template["spec"]["containers"][0]["env"].as_array_mut().unwrap().push(key_env("settings", "B"));
    let after = |data: Value| {
        let mut scene = recorded(template.clone());
        scene.write(data, 700, 5000).no_past();
        scene.verdict(1)
    };
    assert_eq!(after(json!({"A": "1", "B": "2", "C": "3"})), Verdict::Same, "the same in both keys, at another number");
    assert_eq!(after(json!({"A": "1", "B": "x"})), Verdict::Changed);
    assert_eq!(after(json!({"A": "x", "B": "2"})), Verdict::Changed);
}

/// Without this a record would speak of reads that came after it.
#[test]
fn a_record_speaks_of_the_reads_that_it_lists() {
    let write = |s: &mut Scene| {
        s.write(json!({"A": "2"}), 700, 5000).no_past();
    };
    // Another Pod, and the recorded one gone: it may have started on either side of the write.
    after(
        |s| {
            write(s);
            s.pods = vec![pod(&s.sets[0], "ddddd", 800, 4998)];
        },
        Verdict::WrittenDuring,
    );
    // The container restarted since.
    after(
        |s| {
            write(s);
            s.pods[0]["status"]["containerStatuses"][0]["restartCount"] = json!(1);
        },
        Verdict::WrittenAfter,
    );
    // Restarted, but nothing was written since the record: it read the same again.
    let restart = |s: &mut Scene| s.pods[0]["status"]["containerStatuses"][0]["restartCount"] = json!(1);
    assert!(proven(&after(restart, Verdict::Same)));
    // One of two Pods is not listed, and there was a write.
    after(
        |s| {
            s.pods.push(pod(&s.sets[0], "ddddd", 800, 4998));
            write(s);
        },
        Verdict::Changed,
    );
}

/// Without this a record of one revision, or of another workload, could not say that an object is as it was for Pods that
/// started later; and a late kubelet could make that a false proof.
#[test]
fn a_record_dates_the_version_for_everything_that_starts_later() {
    let later = |born: i64| {
        move |s: &mut Scene| {
            s.pods = vec![pod(&s.sets[0], "ddddd", 800, born)];
        }
    };
    assert!(proven(&after(later(1103), Verdict::Same)));
    // Two seconds are what a kubelet may be late, and whole seconds hide one more.
    after(later(1102), Verdict::Unknown);
    // Of another workload's record the same holds.
    let foreign = |s: &mut Scene| {
        s.pods = vec![pod(&s.sets[0], "ddddd", 800, 1103)];
        s.workload["metadata"]["uid"] = json!("another");
        s.sets[0]["metadata"]["ownerReferences"][0]["uid"] = json!("another");
    };
    assert!(proven(&after(foreign, Verdict::Same)));
    // Created again since, with the same bytes.
    after(
        |s| {
            s.recreate(json!({"A": "1", "B": "2"}), 700, 5000);
        },
        Verdict::Recreated,
    );
}

/// Without this files that are kept current would be held for what was read once.
#[test]
fn refreshed_files_move_on() {
    let mut scene = recorded(volume());
    assert_eq!(scene.verdict(1), Verdict::Same);
    scene.write(json!({"A": "2"}), 700, 5000).no_past();
    assert_eq!(scene.verdict(1), Verdict::Refreshed);
    // A retired revision's Pod has been reading on, too.
    let mut scene = Scene::retired(volume());
    let pod = pod(&scene.sets[0], "aaaaa", 200, 1000);
    scene.pods.push(pod);
    scene.record(1, 2100);
    forget(&mut scene);
    scene.write(json!({"A": "2"}), 700, 5000).no_past();
    assert_ne!(scene.verdict(1), Verdict::Changed, "it may have read the edit");
}

/// Without this a revision without Pods could only be judged for an hour; and one that was recorded while it ran would be
/// taken for one that ended that way.
#[test]
fn a_revision_that_is_over_stays_known() {
    let over = |change: fn(&mut Scene)| {
        let mut scene = Scene::retired(env_from());
        assert_eq!(scene.verdict(1), Verdict::Same);
        scene.record(1, 2100);
        forget(&mut scene);
        scene.write(json!({"A": "2"}), 700, 5000).no_past();
        change(&mut scene);
        let set = scene.sets[0]["metadata"]["annotations"]["deployment.kubernetes.io/revision"].clone();
        scene.judgement(set.as_str().unwrap().parse().unwrap())
    };
    let judgement = over(|_| {});
    assert!(judgement.verdict == Verdict::Changed && proven(&judgement), "{:#?}", judgement.facts);
    // It came back for a while and is gone again: what it read then is not recorded.
    let again = over(|s| set(&mut s.sets[0], "/metadata/annotations/deployment.kubernetes.io~1revision", json!("3")));
    assert_ne!(again.verdict, Verdict::Changed);
    // Recorded while its Pod ran, which is gone since: likely, and no more.
    let mut scene = Scene::calm(env_from());
    scene.record(1, 1100);
    let records = (scene.records.clone(), scene.snapshots.clone());
    let mut scene = Scene::retired(env_from());
    (scene.records, scene.snapshots) = records;
    forget(&mut scene);
    scene.write(json!({"A": "2"}), 700, 5000).no_past();
    let judgement = scene.judgement(1);
    assert_ne!(judgement.verdict, Verdict::Changed);
    let snapshot = judgement.candidates.iter().find(|c| c.origin.word() == "snapshot");
    assert_eq!(snapshot.map(|c| c.grade), Some(Grade::Likely), "{:#?}", judgement.candidates);
}

/// Without this what was only likely would be proof a day later.
#[test]
fn a_likely_read_stays_likely() {
    let mut scene = Scene::calm(env_from());
    scene.events.clear();
    assert_eq!(scene.verdict(1), Verdict::LikelySame);
    scene.record(1, 1100);
    forget(&mut scene);
    assert_eq!(scene.verdict(1), Verdict::LikelySame);
    scene.write(json!({"A": "2"}), 700, 5000).no_past();
    let judgement = scene.judgement(1);
    assert!(judgement.verdict != Verdict::Changed && judgement.read.is_none(), "{:#?}", judgement.facts);
    assert_eq!(judgement.candidates.first().map(|c| (c.origin.word(), c.grade)), Some(("snapshot", Grade::Likely)));
}

/// Without this what was saved in time without a known reader would be pruned after an hour, and found by nobody.
#[test]
fn what_was_saved_without_a_known_reader_is_named_and_found() {
    let mut scene = Scene::calm(env_from());
    scene.write(json!({"A": "2"}), 700, 1050);
    // Nothing bounds the read any more: both versions are worth saving, and none is known to have been read. Today's needs no
    // snapshot to be found.
    (scene.events, scene.domain) = (Vec::new(), Default::default());
    scene.record(1, 1100);
    let text = scene.records[0]["data"]["record"].as_str().expect("text").to_string();
    assert!(!text.contains("\"read\"") && text.matches("settings-sr-").count() == 2, "{text}");
    forget(&mut scene);
    let judgement = scene.judgement(1);
    let saved: Vec<_> =
        judgement.candidates.iter().filter(|c| c.origin.word() == "snapshot").map(|c| c.grade).collect();
    assert_eq!(saved, [Grade::None], "{:#?}", judgement.candidates);
}

/// Without this each run with fewer rights, or with a shorter memory, would add a record that says less.
#[test]
fn what_is_stated_already_is_not_recorded_again() {
    let states = |scene: &Scene, later: &Scene| {
        let (seen, _) = later.observe();
        let recording = recording::of(&seen, &later.judged(1));
        let mut record = recording.record.expect("a record");
        recording::name_snapshots(&mut record, &recording.savings);
        // How it was known is another question.
        record.references.iter_mut().filter_map(|e| e.read.as_mut()).for_each(|read| read.by = "elsewhere".into());
        scene.observed().records.expect("records").states(&record)
    };
    let mut scene = Scene::calm(env_from());
    scene.record(1, 1100);
    let mut bare = scene.clone();
    (bare.records, bare.snapshots) = (Vec::new(), Vec::new());
    // A likely read of the same is less; so is none.
    let mut likely = bare.clone();
    likely.events.clear();
    let mut blind = likely.clone();
    forget(&mut blind);
    assert_eq!((likely.verdict(1), blind.verdict(1)), (Verdict::LikelySame, Verdict::Unknown));
    assert!(states(&scene, &likely) && states(&scene, &blind));
    // A write, another Pod, a restart: something new.
    let mut written = bare.clone();
    written.overwrite(json!({"A": "2"}), 700);
    assert!(!states(&scene, &written));
    let mut restarted = bare.clone();
    restarted.pods[0]["status"]["containerStatuses"][0]["restartCount"] = json!(1);
    assert!(!states(&scene, &restarted));
    // And proof is more than likely.
    let mut weak = Scene::calm(env_from());
    weak.events.clear();
    weak.record(1, 1100);
    assert!(!states(&weak, &bare));
}

/// The forger's way: edit the object, then have it recorded. Without this today's bytes would be tomorrow's proof of what
/// was read before the edit.
#[test]
fn todays_bytes_are_never_recorded_as_read_before_the_last_write() {
    for traceless in [false, true] {
        let mut scene = Scene::calm(env_from());
        if traceless {
            scene.overwrite(json!({"A": "2"}), 700);
        } else {
            scene.write(json!({"A": "2"}), 700, 1050).no_past();
        }
        let before = scene.verdict(1);
        scene.record(1, 1100);
        let text = scene.records[0]["data"]["record"].as_str().expect("text").to_string();
        assert!(!text.contains("\"read\""), "{text}");
        // The snapshot of today's bytes is there, and is no candidate for what was read.
        assert_eq!(scene.verdict(1), before);
        let judgement = scene.judgement(1);
        assert!(judgement.read.is_none());
        assert!(judgement.candidates.iter().all(|c| c.grade == Grade::None), "{:#?}", judgement.candidates);
        forget(&mut scene);
        assert!(!matches!(scene.verdict(1), Verdict::Same | Verdict::LikelySame));
    }
}

/// A change to the record's object, and what is said of it.
type Forged = (&'static str, fn(&mut Scene), Option<&'static str>);

/// Without this a record that was edited, copied, of a namesake or of a later version would be believed.
#[test]
fn records_that_are_none_are_recognised() {
    let cases: [Forged; 6] = [
        ("mutable", |s| without(&mut s.records[0], "/immutable"), Some("not immutable")),
        (
            "edited",
            |s| {
                let text = s.records[0]["data"]["record"].as_str().unwrap().replace("\"likely\"", "\"proof\"");
                s.records[0]["data"]["record"] = json!(format!("{text} "));
            },
            Some("not what its name was made from"),
        ),
        (
            "of a later version",
            |s| {
                let text = s.records[0]["data"]["record"].as_str().unwrap().replace("record/v1", "record/v2");
                s.records[0]["data"]["record"] = json!(text);
            },
            Some("record/v2"),
        ),
        ("no JSON", |s| s.records[0]["data"]["record"] = json!("{"), Some("cannot be read")),
        (
            "of a deleted namesake",
            |s| {
                s.workload["metadata"]["uid"] = json!("another");
                s.sets[0]["metadata"]["ownerReferences"][0]["uid"] = json!("another");
            },
            Some("another workload of that name"),
        ),
        ("being deleted", |s| set(&mut s.records[0], "/metadata/deletionTimestamp", json!(stamp(2000))), None),
    ];
    for (name, forge, words) in cases {
        let mut scene = recorded(env_from());
        forge(&mut scene);
        let judgement = scene.judgement(1);
        assert!(!proven(&judgement), "{name}: {:#?}", judgement.facts);
        let unusable = scene.observed().records.expect("records").unusable;
        match words {
            Some(words) => assert!(unusable.iter().any(|u| u.contains(words)), "{name}: {unusable:?}"),
            None => assert!(unusable.is_empty(), "{name}: {unusable:?}"),
        }
    }
}

/// Without this an edit of a retired ReplicaSet that removes fields, which leaves no trace in it, would be chosen.
#[test]
fn a_record_tells_that_a_template_was_edited() {
    let mut scene = recorded(env_from());
    scene.sets[0]["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    let history = scene.history();
    let damaged = history.revisions[0].damaged.as_deref().unwrap_or_default();
    assert!(damaged.contains("recorded another template"), "{damaged:?}");
    let Judged { references, .. } = scene.judged(1);
    assert!(references.iter().all(|j| !proven(j)));
}

/// What an undo records of `settings` that stood like this right before its patch, and now like this.
fn after_undo(scene: &Scene, before: Option<&Value>, now: &Value) -> Option<ReadLine> {
    let name = now["metadata"]["name"].as_str().expect("a name");
    let kept = before.map(|before| (format!("ConfigMap/{name}"), Held::of(&Object(before.clone()))));
    let objects = [((Kind::ConfigMap, name.to_string()), Object(now.clone()))].into();
    let pods: Vec<Object> = scene.pods.iter().cloned().map(Object).collect();
    let (workload, history) = (Object(scene.workload.clone()), scene.history());
    let revision = history.current().expect("a current revision");
    let record = recording::after_undo(&workload, revision, &pods, &kept.into_iter().collect(), &objects);
    record.expect("a record").references.remove(0).read
}

/// Without this an edit between the patch and the record would be recorded as what the new Pods read: tomorrow's false Same.
#[test]
fn an_undo_records_what_it_kept_only_where_that_never_moved() {
    let scene = Scene::calm(env_from());
    let settings = &scene.objects[0];
    let read = after_undo(&scene, Some(settings), settings).expect("the sandwich");
    assert_eq!((read.grade.as_str(), read.by.as_str()), ("proof", "undo"));
    assert_eq!(after_undo(&scene, None, settings), None, "nobody looked before the patch");
    let moved = scene.clone().overwrite(json!({"A": "2"}), 300).objects[0].clone();
    assert_eq!(after_undo(&scene, Some(settings), &moved), None, "it was written meanwhile");
    let again = scene.clone().recreate(json!({"A": "1", "B": "2"}), 100, 0).objects[0].clone();
    assert_eq!(after_undo(&scene, Some(settings), &again), None, "another object of that name and number");
    let fresh = scene.clone().recreate(json!({"A": "1", "B": "2"}), 100, 995).objects[0].clone();
    assert_eq!(after_undo(&scene, Some(&fresh), &fresh), None, "a kubelet may still have seen the one before");
}

/// Without this a bound snapshot would need the sandwich, or a namesake that can be edited would pass for one.
#[test]
fn an_undo_records_its_snapshots_by_their_names() {
    let content = Content::from_object(&Object(config_map("settings", json!({"A": "1"}), 1, 0))).expect("a content");
    let name = snapshot::name("settings", &content, 16);
    let mut template = env_from();
    template["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"] = json!(name);
    let scene = Scene::calm(template);
    let mut bound = config_map(&name, json!({"A": "1"}), 300, 999);
    assert_eq!(after_undo(&scene, None, &bound), None, "it is not immutable");
    bound["immutable"] = json!(true);
    let read = after_undo(&scene, None, &bound).expect("its name says what it holds");
    assert_eq!(read.snapshot.as_ref(), Some(&name));
    bound["data"] = json!({"A": "2"});
    assert_eq!(after_undo(&scene, None, &bound), None, "its name says something else");
}
