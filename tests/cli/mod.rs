//! Whole commands: stdout, stderr and exit code together.

mod complete;
mod completion;
mod contents;
mod examples;
mod help;
mod observe;
mod offline;
mod options;
mod output;
mod owners;
mod revisions;
mod status;
mod usage;
