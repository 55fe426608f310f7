//! Whole commands: stdout, stderr and exit code together.

mod offline;
mod owners;
mod usage;
