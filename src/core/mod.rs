//! Decisions: pure functions from objects to facts, verdicts and plans. No I/O, no clock, no printing.

pub mod content_name;
pub mod digest;
pub mod evidence;
pub mod history;
pub mod judged;
pub mod ladder;
pub mod object;
pub mod observed;
pub mod owners;
pub mod patch;
pub mod pin;
pub mod plan;
pub mod policy;
pub mod prune;
pub mod reads;
pub mod record;
pub mod recording;
pub mod recovery;
pub mod references;
pub mod report;
pub mod rollout;
pub mod sheet;
pub mod snapshot;
pub mod verdict;
pub mod witness;
pub mod workload;
