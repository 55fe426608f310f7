//! Never a false `same` or `changed`, never a wrong proven candidate or read digest: played worlds against their truth.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use saferollback::core::digest::Content;
use saferollback::core::recovery::Grade;
use saferollback::core::references::{Reference, Use};
use saferollback::core::verdict::Verdict;
use saferollback::core::{history, plan};

use super::world::{Taken, World, steps};

/// The truth, use by use: what its container took in.
fn read_by<'a>(used: &'a Use, truth: &'a [Taken]) -> impl Iterator<Item = &'a Content> {
    truth.iter().filter(|t| used.container.as_deref().is_none_or(|c| c == t.container)).map(|t| &t.content)
}

fn all_read(reference: &Reference, truth: &[Taken], content: &Content) -> bool {
    reference.uses.iter().all(|used| read_by(used, truth).all(|read| used.reads_same(read, content)))
}

/// Cases to play; `PROPTEST_CASES` asks for more.
fn config() -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() }
}

#[test]
fn no_proof_is_ever_false() {
    let counted: RefCell<BTreeMap<&'static str, usize>> = RefCell::default();
    let count = |what: &'static str| *counted.borrow_mut().entry(what).or_default() += 1;
    let cases = (steps(), prop_oneof![Just(0u64), 5..60u64, Just(10_000)], any::<bool>());
    let result = TestRunner::new(config()).run(&cases, |(steps, reach, births)| {
        let world = World::play(&steps);
        let (truth, live) = (world.truth(), world.live());
        let seen = world.scene(reach, births).observed();
        let history = history::read(&seen.workload, &seen.replica_sets);
        for judged in plan::judge(&seen, &history) {
            let number = judged.revision.number;
            let truth = &truth[&number];
            let judgement = &judged.references[0];
            let reference = &judgement.reference;
            let fail = |what: &str| {
                let shown =
                    format!("revision {number}: {what}\nfacts {:#?}\ntruth {truth:?}\nlive {live:?}", judgement.facts);
                Err(TestCaseError::fail(shown))
            };
            count(judgement.verdict.word());
            let equal = live.as_ref().is_some_and(|live| all_read(reference, truth, live));
            match judgement.verdict {
                Verdict::Same if !equal => return fail("same, but a container read something else"),
                // A revision none of whose containers ever read is spoken of by what it would have read.
                Verdict::Changed | Verdict::Mixed if equal && !truth.is_empty() => {
                    return fail("changed, but all read today's bytes");
                }
                Verdict::Mixed => {
                    let one = |used: &Use| {
                        let reads: Vec<&Content> = read_by(used, truth).collect();
                        reads.windows(2).all(|pair| used.reads_same(pair[0], pair[1]))
                    };
                    if reference.uses.iter().all(one) {
                        return fail("mixed, but all read the same");
                    }
                }
                _ => {}
            }
            if let Some(read) = &judgement.read {
                count("read digest");
                if truth.iter().any(|t| reference.consumed(&t.content).digest().to_string() != *read) {
                    return fail("a proven read digest that a container did not read");
                }
            }
            for candidate in judgement.candidates.iter().filter(|c| c.grade == Grade::Proof) {
                count("proven candidate");
                if !all_read(reference, truth, &candidate.content) {
                    return fail("a proven candidate that a container did not read");
                }
            }
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    // Not vacuous: the worlds reach every verdict that is a claim. Few of them may miss the rarest by chance.
    let counted = counted.into_inner();
    if config().cases < 500 {
        return;
    }
    for claim in
        ["same", "changed", "mixed", "likely-same", "recreated", "written-after", "read digest", "proven candidate"]
    {
        assert!(counted.get(claim).is_some_and(|n| *n > 0), "no world reached {claim}: {counted:?}");
    }
    eprintln!("{counted:?}");
}
