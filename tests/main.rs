//! One integration binary: one link step, and a test proves that no file is forgotten.

mod cluster;
mod control_plane;
mod digest;
mod history;
mod laws;
mod policy;
mod references;
mod rollout;
mod snapshot;
mod support;
mod verdict;
