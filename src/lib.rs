//! kubectl-saferollback: rollbacks whose configuration is known.

pub mod cli;
pub mod cluster;
pub mod core;
pub mod run;
