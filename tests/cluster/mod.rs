//! The traffic layer against an API server that says what a test tells it to.

mod fake;
mod kubeconfig;
mod offline;
mod probe;
mod proxy;
mod read;
mod socket;
mod watch;
mod write;
