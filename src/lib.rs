//! kubectl-saferollback
