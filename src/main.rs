//! Parse, run, map the outcome to an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(saferollback::cli::main())
}
