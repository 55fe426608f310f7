//! One integration binary: one link step, and a test proves that no file is forgotten.

mod cli;
mod cluster;
mod control_plane;
mod digest;
mod domain;
mod faults;
mod files;
mod laws;
mod layers;
mod node;
mod readme;
mod references;
mod schema;
mod support;
mod target;
mod verdict;
