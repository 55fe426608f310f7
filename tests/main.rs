//! One integration binary: one link step, and a test proves that no file is forgotten.

mod cli;
mod cluster;
mod control_plane;
mod digest;
mod domain;
mod faults;
mod laws;
mod references;
mod support;
mod target;
