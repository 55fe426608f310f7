//! ReplicaSets → ordered revisions: numbers, reuse, gaps, orphans, damage.

use proptest::prelude::*;
use saferollback::core::history::{self, History, NoSuchRevision, Trail};
use saferollback::core::object::Object;
use saferollback::core::plan;
use serde_json::{Value, json};

use crate::verdict::scene::*;

const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";
const FORMER: &str = "/metadata/annotations/deployment.kubernetes.io~1revision-history";

/// A Deployment at `current`, and one ReplicaSet for each (number, image).
fn scene(current: &str, sets: &[(u64, &str)]) -> Scene {
    let mut scene = Scene::of(image(env_from(), current));
    for (i, (number, version)) in sets.iter().enumerate() {
        let mut set = replica_set(i as u64 + 1, &image(env_from(), version), 100 + number, 100 * i as i64, 0);
        self::set(&mut set, REVISION, json!(number.to_string()));
        scene.sets.push(set);
    }
    let highest = sets.iter().map(|(n, _)| *n).max().unwrap_or(0);
    set(&mut scene.workload, REVISION, json!(highest.to_string()));
    scene
}

fn previous(scene: &Scene) -> Result<u64, NoSuchRevision> {
    scene.history().previous(&Object(scene.workload.clone())).map(|r| r.number)
}

fn choose(scene: &Scene, asked: u64) -> Result<u64, NoSuchRevision> {
    plan::choose(&scene.history(), &Object(scene.workload.clone()), Some(asked)).map(|r| r.number)
}

/// Revision 1 → 2 → back to 1, which is now 3 and was 1.
fn reused() -> Scene {
    let mut scene = scene("v1", &[(3, "v1"), (2, "v2")]);
    set(&mut scene.sets[0], FORMER, json!("1"));
    scene
}

/// Without this a number that a person remembers would lead to another revision (C01).
#[test]
fn c01_a_reused_replica_set_keeps_its_former_numbers() {
    let scene = reused();
    let history = scene.history();
    assert_eq!(history.numbers(), [2, 3]);
    assert_eq!((history.revisions[1].former.clone(), history.revisions[1].current), (vec![1], true));
    // The former number of the current revision is "nothing to do"; of another one it is never taken silently.
    assert_eq!(choose(&scene, 1), Ok(3));
    let mut later = self::scene("v4", &[(3, "v1"), (2, "v2"), (4, "v4")]);
    set(&mut later.sets[0], FORMER, json!("1"));
    assert_eq!(choose(&later, 1), Err(NoSuchRevision::Renumbered { asked: 1, now: 3, object: rs_name(1) }));
    assert_eq!(
        choose(&later, 1).unwrap_err().to_string(),
        format!("revision 1 is now revision 3 (replicaset/{} was used again)", rs_name(1))
    );
}

/// Without this one odd entry would cost all former numbers (C01).
#[test]
fn c01_former_numbers_are_a_list_of_any_spelling() {
    let mut scene = scene("v1", &[(9, "v1")]);
    set(&mut scene.sets[0], FORMER, json!("5, 1,3,,x,3"));
    assert_eq!(scene.history().revisions[0].former, [1, 3, 5]);
}

/// Without this a reused ReplicaSet would be passed over because it is old (C02).
#[test]
fn c02_previous_goes_by_number_never_by_age() {
    // Revision 4 has the oldest ReplicaSet.
    let scene = self::scene("v5", &[(4, "v4"), (2, "v2"), (3, "v3"), (5, "v5")]);
    assert_eq!(previous(&scene), Ok(4));
    // And where it was cleaned up, that is said, not guessed.
    let gap = self::scene("v5", &[(2, "v2"), (3, "v3"), (5, "v5")]);
    let error = previous(&gap).unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"previous\" is not clear: revision 4 between 3 and 5 is gone; name one with --to-revision (there are revisions 2, 3, 5)"
    );
    assert_eq!(choose(&gap, 3), Ok(3), "asked for by number it is clear");
    // A reuse explains a gap.
    let mut explained = self::scene("v5", &[(3, "v3"), (5, "v5")]);
    set(&mut explained.sets[1], FORMER, json!("4"));
    assert_eq!(previous(&explained), Ok(3));
    // A twin with the current number is not before it.
    let twin = self::scene("v2", &[(1, "v1"), (2, "v2"), (2, "v3")]);
    assert_eq!(previous(&twin), Ok(1));
}

/// Without this the tenth revision would come before the second (C03).
#[test]
fn c03_ten_comes_after_nine() {
    let scene = self::scene("v11", &[(10, "v10"), (11, "v11"), (8, "v8"), (9, "v9")]);
    assert_eq!(scene.history().numbers(), [8, 9, 10, 11]);
    assert_eq!(previous(&scene), Ok(10));
}

/// Without this a wrong number would be answered without those that are there (C05).
#[test]
fn c05_a_revision_that_is_not_there() {
    let scene = self::scene("v2", &[(1, "v1"), (2, "v2")]);
    let error = choose(&scene, 3).unwrap_err();
    assert_eq!(error.to_string(), "revision 3 not found: there are revisions 1, 2");
    assert_eq!(choose(&scene, u64::MAX), Err(NoSuchRevision::Unknown { asked: u64::MAX, numbers: vec![1, 2] }));
    assert_eq!(choose(&scene, 0), Ok(1), "0 is the previous one, as for kubectl");
}

/// Without this a first rollout and a history that is kept at none would be one answer (C06).
#[test]
fn c06_nothing_to_go_back_to() {
    let mut scene = self::scene("v1", &[(1, "v1")]);
    assert_eq!(previous(&scene), Err(NoSuchRevision::First));
    let mut none_kept = self::scene("v17", &[(17, "v17")]);
    none_kept.workload["spec"]["revisionHistoryLimit"] = json!(0);
    assert_eq!(previous(&none_kept), Err(NoSuchRevision::NoneKept));
    scene.sets.clear();
    assert!(matches!(previous(&scene), Err(NoSuchRevision::Unclear { .. })));
}

/// Without this "previous" could be the same template again (C08).
#[test]
fn c08_twins_are_one_template() {
    // Two ReplicaSets hold one template; the one with the Deployment's number is current, and neither is "previous".
    let scene = self::scene("v1", &[(4, "v1"), (5, "v2"), (6, "v1")]);
    let history = scene.history();
    let digests: Vec<_> = history.revisions.iter().map(|r| history::template_digest(&r.template)).collect();
    assert_eq!(digests[0], digests[2]);
    assert_ne!(digests[0], digests[1]);
    assert_eq!(history.current().map(|r| r.number), Some(6));
    assert_eq!(previous(&scene), Ok(5));
    let only_twins = self::scene("v1", &[(4, "v1"), (6, "v1")]);
    assert_eq!(previous(&only_twins), Err(NoSuchRevision::First));
}

/// Without this the wrong one of two equal ReplicaSets would be called current (C08).
#[test]
fn twins_go_by_the_deployments_number() {
    let mut scene = self::scene("v1", &[(4, "v1"), (6, "v1")]);
    set(&mut scene.workload, REVISION, json!("4"));
    assert_eq!(scene.history().current().map(|r| r.number), Some(4));
}

/// Without this the leftover of a deleted namesake would be a revision (C10).
#[test]
fn c10_orphans_are_no_targets() {
    let mut scene = self::scene("v2", &[(1, "v1"), (2, "v2"), (3, "v3"), (4, "v4"), (5, "v5")]);
    set(&mut scene.workload, REVISION, json!("2"));
    scene.sets[2]["metadata"]["ownerReferences"][0]["uid"] = json!("uid-of-a-deleted-web");
    scene.sets[3]["metadata"]["ownerReferences"] = json!([]);
    scene.sets[4]["metadata"]["ownerReferences"][0]["controller"] = json!(false);
    let history = scene.history();
    assert_eq!(history.numbers(), [1, 2]);
    let reasons: Vec<_> = history.unnumbered.iter().map(|u| u.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "owned by an earlier deployment/web (uid uid-of-a-deleted-web)",
            "selected but owned by no controller",
            "selected but owned by no controller",
        ]
    );
    assert!(choose(&scene, 3).is_err());
    // Another Deployment's ReplicaSet that the selector happens to match is none of ours, and no orphan.
    scene.sets[2]["metadata"]["ownerReferences"][0]["name"] = json!("worker");
    assert_eq!(scene.history().unnumbered.len(), 2);
}

/// Without this two revisions with one text would be taken for one (C11).
#[test]
fn c11_a_change_cause_is_text() {
    let mut scene = self::scene("v2", &[(1, "v1"), (2, "v2")]);
    for set in &mut scene.sets {
        self::set(set, "/metadata/annotations/kubernetes.io~1change-cause", json!("kubectl apply X"));
    }
    let history = scene.history();
    assert_ne!(
        history::template_digest(&history.revisions[0].template),
        history::template_digest(&history.revisions[1].template)
    );
    assert_eq!(previous(&scene), Ok(1));
}

/// Without this an edit that waits would be taken for what runs (C12).
#[test]
fn c12_a_paused_edit_is_pending() {
    let mut scene = self::scene("v3", &[(1, "v1"), (2, "v2")]);
    scene.workload["spec"]["paused"] = json!(true);
    let history = scene.history();
    assert!(history.pending);
    assert_eq!(history.current().map(|r| r.number), Some(2));
    assert!(!self::scene("v2", &[(1, "v1"), (2, "v2")]).history().pending);
}

#[test]
fn damaged_entries_are_told_and_never_chosen() {
    let mut scene = self::scene("v2", &[(1, "v1"), (2, "v2"), (3, "x"), (4, "y"), (5, "z")]);
    set(&mut scene.workload, REVISION, json!("2"));
    set(&mut scene.sets[2], REVISION, json!("three"));
    set(&mut scene.sets[3], REVISION, json!("0"));
    scene.sets[4]["spec"]["template"] = json!({"metadata": {}});
    let history = scene.history();
    assert_eq!(history.numbers(), [1, 2]);
    assert_eq!(history.unnumbered.len(), 3, "{:?}", history.unnumbered);
    // Two ReplicaSets with one number: neither is it.
    let twice = self::scene("v2", &[(1, "v1"), (1, "v0"), (2, "v2")]);
    assert!(matches!(choose(&twice, 1), Err(NoSuchRevision::Damaged { number: 1, .. })));
    assert!(matches!(previous(&twice), Err(NoSuchRevision::Damaged { number: 1, .. })));
}

fn left(scene: &mut Scene, from: u64, to: u64) {
    let trail = Trail {
        from,
        to,
        template: history::template_digest(&scene.workload["spec"]["template"]),
        kept: Default::default(),
        evicted: None,
    };
    let text = serde_json::to_string(&trail).unwrap();
    set(&mut scene.workload, "/metadata/annotations/saferollback.dev~1rolled-back", json!(text));
}

/// Without this a repeat would return to what was just left (C31).
#[test]
fn c31_a_plain_repeat_of_our_undo_is_not_clear() {
    // 9 is bad; our undo went from 9 to 8, whose ReplicaSet is now 10. "Previous" would be 9 again.
    let mut scene = self::scene("v8", &[(9, "v9"), (10, "v8")]);
    assert_eq!(previous(&scene), Ok(9), "without a trail nothing is doubtful");
    left(&mut scene, 9, 8);
    let error = previous(&scene).unwrap_err().to_string();
    assert!(error.contains("from revision 9 to revision 8"), "{error}");
    assert_eq!(choose(&scene, 9), Ok(9), "by number it is clear");
    // The annotation is copied along; after another rollout it speaks of another template.
    scene.workload["spec"]["template"] = image(env_from(), "v9");
    assert_eq!(scene.history().trail, None);
}

/// Without this a reused ReplicaSet would be dated by its creation (C61).
#[test]
fn retirement_is_the_birth_of_the_next_number_where_that_is_known() {
    let scene = self::scene("v3", &[(1, "v1"), (2, "v2"), (3, "v3")]);
    let retired: Vec<_> = scene.history().revisions.iter().map(|r| r.retired).collect();
    assert_eq!(retired, [Some(time(100)), Some(time(200)), None]);
    // a reused ReplicaSet is never dated by its creation.
    let reused = reused().history();
    assert_eq!(reused.revisions[0].retired, None);
    assert!(reused.revisions[1].started_again);
}

#[test]
fn template_digests_ignore_spelling_and_nothing_else() {
    let a = json!({"spec": {"containers": [{"name": "a"}], "x": null}, "metadata": {"labels": {"pod-template-hash": "h", "b": "c"}}});
    let b = json!({"metadata": {"labels": {"b": "c"}}, "spec": {"containers": [{"name": "a"}]}});
    assert_eq!(history::template_digest(&a), history::template_digest(&b));
    for other in [
        json!({"metadata": {"labels": {"b": "d"}}, "spec": {"containers": [{"name": "a"}]}}),
        json!({"metadata": {"labels": {"b": "c"}}, "spec": {"containers": [{"name": "a"}, {"name": "a"}]}}),
    ] {
        assert_ne!(history::template_digest(&a), history::template_digest(&other));
    }
}

fn shown(history: &History) -> Vec<String> {
    let row = |r: &history::Revision| {
        format!("{} {:?} {} {:?} {}", r.number, r.former, r.current, r.damaged, r.object.name())
    };
    history.revisions.iter().map(row).collect()
}

/// ReplicaSets as they may come: reused, doubled, orphaned, unnumbered.
fn sets() -> impl Strategy<Value = Vec<Value>> {
    let one = (0..12u64, 0..4u8, 0..6u8, "[0-9,]{0,5}");
    proptest::collection::vec(one, 0..8).prop_map(|all| {
        let make = |(i, (number, version, owner, former)): (usize, (u64, u8, u8, String))| {
            let template = image(env_from(), &format!("v{version}"));
            let mut set = replica_set(i as u64 + 1, &template, 100, 10 * i as i64, 0);
            self::set(&mut set, REVISION, json!(number.to_string()));
            self::set(&mut set, FORMER, json!(former));
            match owner {
                0 => set["metadata"]["ownerReferences"] = json!([]),
                1 => set["metadata"]["ownerReferences"][0]["uid"] = json!("other"),
                _ => {}
            }
            set
        };
        all.into_iter().enumerate().map(make).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without this the answer would depend on the order in which the server lists (C03).
    #[test]
    fn law_the_order_of_the_answer_never_matters(sets in sets(), seed in any::<u64>(), number in 0..12u64) {
        let mut scene = Scene::of(image(env_from(), "v1"));
        set(&mut scene.workload, REVISION, json!(number.to_string()));
        scene.sets = sets;
        let (before, chosen) = (scene.history(), previous(&scene));
        let mut state = seed;
        for i in (1..scene.sets.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            scene.sets.swap(i, (state >> 33) as usize % (i + 1));
        }
        let after = scene.history();
        prop_assert_eq!(shown(&before), shown(&after));
        prop_assert_eq!(&before.unnumbered, &after.unnumbered);
        prop_assert_eq!(chosen, previous(&scene));
        // And it is in order, with one current revision at most.
        prop_assert!(before.numbers().is_sorted());
        prop_assert!(before.revisions.iter().filter(|r| r.current).count() <= 1);
    }
}

/// Without this a revision that was used again, or one that is gone, would be dated by guess.
#[test]
fn a_moment_names_a_revision_only_where_it_is_clear() {
    let deployment = env_from();
    let mut scene = Scene::retired(deployment);
    let at =
        |scene: &Scene, seconds: i64| scene.history().at(time(seconds)).map(|r| r.number).map_err(|e| e.to_string());
    assert_eq!(at(&scene, 1500), Ok(1));
    assert_eq!(at(&scene, 2500), Ok(2));
    for (seconds, words) in [(900, "no revision that is still there"), (2001, "within 2s"), (1999, "within 2s")] {
        let said = at(&scene, seconds).expect_err("not clear");
        assert!(said.contains(words) && said.contains("1 (since 2026-11-29T12:16:40Z)"), "{said}");
    }
    // Revision 1 is used again as 3: since when is not known.
    set(&mut scene.sets[0], "/metadata/annotations/deployment.kubernetes.io~1revision", json!("3"));
    set(&mut scene.sets[0], "/metadata/annotations/deployment.kubernetes.io~1revision-history", json!("1"));
    assert_eq!(at(&scene, 1500), Ok(3), "it was revision 1 then");
    assert!(at(&scene, 2500).expect_err("not clear").contains("used again"));
    // A revision in between is gone.
    set(&mut scene.sets[0], "/metadata/annotations/deployment.kubernetes.io~1revision", json!("1"));
    without(&mut scene.sets[0], "/metadata/annotations/deployment.kubernetes.io~1revision-history");
    set(&mut scene.sets[1], "/metadata/annotations/deployment.kubernetes.io~1revision", json!("4"));
    assert!(at(&scene, 1500).expect_err("not clear").contains("between 1 and 4 is gone"));
}
