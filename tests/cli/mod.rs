//! Whole commands: stdout, stderr and exit code together.

mod contents;
mod observe;
mod offline;
mod options;
mod output;
mod owners;
mod revisions;
mod status;
mod usage;
