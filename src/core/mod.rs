//! Decisions: pure functions from objects to facts, verdicts and plans. No I/O, no clock, no printing.

pub mod content_name;
pub mod digest;
pub mod evidence;
pub mod history;
pub mod object;
pub mod observed;
pub mod pin;
pub mod recovery;
pub mod references;
pub mod verdict;
pub mod workload;
