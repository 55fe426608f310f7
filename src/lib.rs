//! kubectl-saferollback: rollbacks whose configuration is known.

pub mod core;
