//! Whole commands: stdout, stderr and exit code together.

mod contents;
mod observe;
mod offline;
mod owners;
mod revisions;
mod status;
mod usage;
