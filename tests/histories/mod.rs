//! Random histories on real API servers and a real node, each with its truth written down by who drives it: no verdict
//! may contradict what containers read. `tests/truth` plays as many as asked for.

mod check;
mod dice;
mod ledger;
mod played;
mod pods;
mod real;
mod records;
mod steps;
mod story;
mod tally;
mod template;
mod undo;
mod uses;
mod world;

use std::collections::hash_map::RandomState;
use std::env;
use std::fs::OpenOptions;
use std::hash::{BuildHasher, Hasher};
use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;
use story::Story;
use tally::Tally;
use world::World;

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}, not a number")))
}

/// Plays histories side by side; most of each is waiting.
fn play(world: &World, real: bool, usual: u64, side_by_side: u64) {
    let seed = number("SAFEROLLBACK_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish() >> 32);
    let first = number("SAFEROLLBACK_FIRST").unwrap_or(0);
    let count = number("SAFEROLLBACK_HISTORIES").unwrap_or(usual);
    let side_by_side = number("SAFEROLLBACK_SIDE_BY_SIDE").unwrap_or(side_by_side);
    let kind = if real { "--real " } else { "" };
    eprintln!("histories {first} to {} of seed {seed}", first + count - 1);
    let next = AtomicU64::new(first);
    let total = Mutex::new(Tally::default());
    let failures: Mutex<Vec<String>> = Mutex::default();
    // What was likely and wrong is no fault, but worth a look.
    let doubtful: Mutex<Vec<String>> = Mutex::default();
    let began = Instant::now();
    let enough = |failures: &Mutex<Vec<String>>| {
        let stop = env::var_os("SAFEROLLBACK_STOP_AT_FIRST").is_some();
        stop && !failures.lock().expect("a list").is_empty()
    };
    thread::scope(|scope| {
        for _ in 0..side_by_side {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= first + count || enough(&failures) {
                        break;
                    }
                    let played = panic::catch_unwind(AssertUnwindSafe(|| Story::play(world, seed, index, real)));
                    let again = format!("tests/truth {kind}--seed {seed} --only {index}");
                    match played {
                        Ok(story) => {
                            let log = format!("{again}\n{}\n", story.log.join("\n"));
                            if env::var_os("SAFEROLLBACK_LOGS").is_some() {
                                eprintln!("{log}");
                            }
                            if !story.found.is_empty() {
                                failures.lock().expect("a list").push(log);
                            } else if story.tally.wrong_but_allowed() > 0 {
                                doubtful.lock().expect("a list").push(log);
                            }
                            let mut total = total.lock().expect("a tally");
                            total.add(story.tally);
                            total.count("histories");
                            if total.of("histories").is_multiple_of(50) {
                                eprintln!("{} played", total.of("histories"));
                            }
                        }
                        Err(_) => failures.lock().expect("a list").push(format!("{again}\nit broke off; see above\n")),
                    }
                }
            });
        }
    });
    let total = total.into_inner().expect("a tally");
    let failures = failures.into_inner().expect("a list");
    let summary = format!("seed {seed}, {first} + {count} in {} s\n{total}", began.elapsed().as_secs());
    eprintln!("{summary}");
    if let Some(path) = env::var_os("SAFEROLLBACK_SUMMARY") {
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("the summary's file");
        let doubtful = doubtful.into_inner().expect("a list").join("\n");
        write!(file, "{summary}\nfaults: {}\n{}\nlikely and wrong:\n{doubtful}", failures.len(), failures.join("\n"))
            .expect("the summary is written");
    }
    let shown: Vec<&str> = failures.iter().take(3).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} of {count} histories show a fault:\n{}", failures.len(), shown.join("\n"));
    for claim in ["same", "likely-same", "changed", "recreated", "missing", "written-after", "unknown"] {
        assert!(count < 100 || total.verdicts_of(claim) > 0, "no history reached {claim}: {total}");
    }
}

/// Without this a proof could rest on what merely looks like one.
#[test]
fn no_verdict_contradicts_what_played_containers_read() {
    play(&World::played(), false, 150, 24);
}

/// The played node may share our mistakes; a real kubelet and real containers do not.
#[test]
fn no_verdict_contradicts_what_real_containers_read() {
    play(&World::real(), true, 30, 6);
}
