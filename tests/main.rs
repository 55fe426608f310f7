//! One integration binary: one link step, and a test proves that no file is forgotten.

#![allow(clippy::type_complexity, reason = "tables of cases")]

mod cases;
mod cli;
mod cluster;
mod contents;
mod control_plane;
mod diff;
mod digest;
mod domain;
mod faults;
mod files;
mod fuzzing;
mod histories;
mod history;
mod laws;
mod layers;
mod messages;
mod node;
mod observation;
mod owners;
mod pods;
mod policy;
mod prune;
mod readme;
mod reference;
mod references;
mod rollout;
mod schema;
mod snapshot;
mod substitute;
mod support;
mod target;
mod verdict;
