//! What is typed and what is shown: the only code that prints or decides the exit code.

mod args;
mod check;
mod complete;
mod completion;
mod contents;
mod diff;
mod error;
mod file;
mod help;
mod history;
mod observe;
mod options;
pub mod output;
mod rbac;
mod restore;
mod screen;
mod snapshot;
mod status;
mod traffic;
mod ui;
mod undo;
mod yaml;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cli::args::{Cli, Verb};
use crate::cli::options::Connection;
use crate::cli::output::Output;
use crate::cli::screen::escape;
use crate::cluster::Notice;
use crate::cluster::offline::Dump;
use crate::cluster::read::{Resource, Select};
use crate::core::digest::Content;
use crate::core::observed::Origin;
use crate::core::recovery::{Candidate, Grade};
use crate::core::report::Document;
use crate::run::Failure;
use crate::run::undo::DryRun;

/// All verbs and flags: what the reference pages are made of.
pub fn command() -> clap::Command {
    options::command()
}

/// Parses the command line, runs the verb, prints, and returns the exit code.
pub fn main() -> u8 {
    let words: Vec<OsString> = std::env::args_os().collect();
    let text: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    // Before clap: these words are no command line of ours yet, and may hold anything.
    if complete::is_called(text.first()) {
        return complete::answer(text.get(1..).unwrap_or_default());
    }
    if text.get(1).is_some_and(|word| word == "__complete") {
        return complete::answer(text.get(2..).unwrap_or_default());
    }
    let cli = match options::parse(&words) {
        Ok(cli) => cli,
        Err(error) => {
            // clap's own: help and version go to stdout with 0, usage errors to stderr with 2.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(error::USAGE);
        }
    };
    ui::set_up(!cli.printing.no_headers, cli.printing.colour);
    traffic::set_up(cli.printing.verbosity);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(async {
            tokio::select! {
                result = verb(&cli) => result,
                never = traffic::silence() => match never {},
            }
        }),
        Err(problem) => Err(Failure::Given(format!("cannot start: {problem}"))),
    };
    match result {
        Ok(code) => match ui::lost() {
            None => code,
            Some(why) => {
                ui::err(&format!("error: the result could not be written to stdout: {why}\n"));
                if code == 0 { error::COULD_NOT } else { code }
            }
        },
        Err(failure) => {
            let (words, hint) = error::words(&failure);
            ui::err(&format!("{}\n", escape(&words)));
            if let Some(hint) = hint {
                // How to install a credential plugin may take several lines.
                let lines: Vec<String> = hint.lines().map(escape).collect();
                ui::err(&format!("hint: {}\n", lines.join("\n")));
            }
            match cli.verb {
                Verb::Diff(_) => error::exit_code_of_diff(&failure),
                _ => error::exit_code(&failure),
            }
        }
    }
}

fn notice(notice: Notice) {
    let label = match notice {
        Notice::Sent { .. } | Notice::Answered { .. } => return traffic::heard(&notice),
        Notice::Warning(_) => "Warning",
        Notice::Note(_) | Notice::Retry { .. } => "Note",
    };
    ui::err(&format!("{label}: {}\n", escape(&notice.to_string())));
}

async fn verb(cli: &Cli) -> Result<u8, Failure> {
    match &cli.verb {
        Verb::Completion(args) => completion::verb(args),
        Verb::Options => {
            ui::out(&options::list());
            Ok(0)
        }
        Verb::Version => {
            ui::out(&format!("kubectl-saferollback v{}\n", env!("CARGO_PKG_VERSION")));
            Ok(0)
        }
        Verb::History(args) => history::verb(cli, args).await,
        Verb::Check(args) => check::verb(cli, args).await,
        Verb::Diff(args) => diff::verb(cli, args).await,
        Verb::Restore(args) => restore::verb(cli, args).await,
        Verb::Observe(args) => observe::verb(cli, args).await,
        Verb::Status(args) => status::verb(cli, args).await,
        Verb::Undo(args) => undo::verb::verb(cli, args).await,
        Verb::Snapshot(args) => snapshot::verb(cli, args).await,
        Verb::Rbac(args) => rbac::verb(cli, args),
    }
}

fn dry_run(asked: args::DryRun) -> DryRun {
    match asked {
        args::DryRun::None => DryRun::None,
        args::DryRun::Client => DryRun::Client,
        args::DryRun::Server => DryRun::Server,
    }
}

/// The flags to repeat in printed commands.
fn typed(connection: &Connection, from_file: &[PathBuf]) -> Vec<String> {
    let mut typed = connection.typed();
    for file in from_file {
        typed.extend(["--from-file".to_string(), file.display().to_string()]);
    }
    typed
}

fn warnings(document: &Document) {
    for warning in &document.warnings {
        ui::err(&format!("Warning: {}\n", escape(warning)));
    }
}

fn print(document: &impl serde::Serialize, output: &Output) -> Result<(), Failure> {
    ui::out(&output.text(document).map_err(Failure::Given)?);
    Ok(())
}

/// The content of ConfigMap `name` in a manifest file: of that name, or the only ConfigMap in it.
fn content_of_file(name: &str, path: &Path, namespace: Option<&str>) -> Result<Candidate, Failure> {
    let dump = Dump::load(&[path.to_path_buf()], &mut std::io::stdin())?;
    let all = dump.list(Resource::ConfigMaps, namespace.unwrap_or(""), Select::All)?.items;
    let named = all.iter().find(|o| o.name() == name);
    let object = match (named, all.as_slice()) {
        (Some(object), _) | (None, [object]) => object,
        _ => {
            let message = format!("{} holds no ConfigMap {name:?}", path.display());
            return Err(Failure::Given(message));
        }
    };
    let content = Content::from_object(object).map_err(|e| Failure::Given(format!("{}: {e}", path.display())))?;
    Ok(Candidate {
        digest: content.digest(),
        content,
        origin: Origin::File,
        source_uid: String::new(),
        from: None,
        until: None,
        grade: Grade::None,
    })
}

/// Resolves on SIGINT or SIGTERM, with the exit code.
async fn interrupted() -> u8 {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            return tokio::select! {
                _ = tokio::signal::ctrl_c() => error::INTERRUPTED,
                _ = terminate.recv() => error::TERMINATED,
            };
        }
    }
    let _ = tokio::signal::ctrl_c().await;
    error::INTERRUPTED
}
