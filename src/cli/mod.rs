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

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use jiff::Timestamp;

use crate::cli::args::{Cli, Verb};
use crate::cli::options::Connection;
use crate::cli::output::Output;
use crate::cli::screen::escape;
use crate::cli::ui::{Progress, Speaker};
use crate::cluster::Notice;
use crate::cluster::offline::Dump;
use crate::cluster::read::{Resource, Select};
use crate::core::digest::Content;
use crate::core::history::NoSuchRevision;
use crate::core::observed::Origin;
use crate::core::policy::{Config, Given, Rules};
use crate::core::recovery::{Candidate, Grade};
use crate::core::report::{Document, Outcome};
use crate::core::snapshot as core_snapshot;
use crate::core::substitute::Verify;
use crate::core::workload::{self, Target};
use crate::run::several::Outcomes;
use crate::run::undo::{Asked, DryRun, OnFailure, Request};
use crate::run::{self, Failure, Phase};

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
        Verb::History(args) => {
            if let Some(name) = workload::config_map(&args.target.workload)? {
                return contents_verb(cli, args, &name).await;
            }
            let target = Target::parse(&args.target.workload)?;
            let scene = run::scene(&cli.connection.flags(), &args.target.from_file, notice).await?;
            let document = run::history::run(&scene, target.as_ref(), args.revision, Timestamp::now()).await?;
            warnings(&document);
            let output = args.output.clone().unwrap_or_default();
            match &output {
                output @ (Output::Table | Output::Wide) if args.revision.is_none() => {
                    let typed = typed(&cli.connection, &args.target.from_file);
                    let (table, notes) = history::table(&document, output.is_wide(), ui::look(), &typed);
                    ui::out(&table);
                    if !notes.is_empty() {
                        ui::err(&format!("\n{notes}"));
                    }
                }
                Output::Table | Output::Wide => ui::out(&history::detail(&document)),
                output => print(&document, output)?,
            }
            Ok(0)
        }
        Verb::Check(args) => {
            let target = Target::parse(&args.target.workload)?;
            let scene = run::scene(&cli.connection.flags(), &args.target.from_file, notice).await?;
            let document = run::check::run(&scene, target.as_ref(), args.to_revision, Timestamp::now()).await?;
            warnings(&document);
            let output = args.output.clone().unwrap_or_default();
            match &output {
                output @ (Output::Table | Output::Wide) => {
                    ui::out(&check::screen(&document, output.is_wide(), ui::look()));
                }
                output => print(&document, output)?,
            }
            let Outcome::Check(check) = &document.outcome else { return Ok(0) };
            for owner in &check.owners {
                ui::err(&format!("Note: {}\n", escape(&owner.says)));
            }
            Ok(check.exit_code)
        }
        Verb::Diff(args) => {
            let target = Target::parse(&args.target.workload)?;
            let scene = run::scene(&cli.connection.flags(), &args.target.from_file, notice).await?;
            let (from, to, show) = (args.from, args.to, args.show_content);
            let document = run::diff::run(&scene, target.as_ref(), from, to, show, Timestamp::now()).await?;
            warnings(&document);
            let Outcome::Diff(diff) = &document.outcome else { return Ok(0) };
            let output = args.output.clone().unwrap_or_default();
            match &output {
                output @ (Output::Table | Output::Wide) => ui::out(&diff::screen(&document, diff, output.is_wide())),
                output => print(&document, output)?,
            }
            Ok(diff.exit_code)
        }
        Verb::Restore(args) => restore::verb(cli, args).await,
        Verb::Observe(args) => observe::verb(cli, args).await,
        Verb::Status(args) => status_verb(cli, args).await,
        Verb::Undo(args) => undo_verb(cli, args).await,
        Verb::Snapshot(args) => snapshot::verb(cli, args).await,
        Verb::Rbac(args) => {
            let namespace = cli.connection.namespace.as_deref();
            let verb = args.verb.verb();
            if args.output == args::Manifest::Json {
                print(&rbac::role(verb, namespace), &Output::Json)?;
            } else {
                ui::out(&rbac::yaml(verb, namespace).map_err(Failure::Given)?);
            }
            Ok(0)
        }
    }
}

async fn status_verb(cli: &Cli, args: &args::Status) -> Result<u8, Failure> {
    let target = Target::parse(&args.target.workload)?;
    let watcher = RefCell::new(status::Watcher::new(ui::can_draw()));
    let work = async {
        let scene = run::scene(&cli.connection.flags(), &args.target.from_file, notice).await?;
        if !args.watch {
            return run::status::look(&scene, target.as_ref(), Timestamp::now()).await;
        }
        let mut voice = status::Shared(&watcher);
        run::status::watch(&scene, target.as_ref(), args.timeout, &mut voice, Timestamp::now()).await
    };
    let document = tokio::select! {
        document = work => document?,
        code = interrupted() => {
            let mut again = ["kubectl", "saferollback", "status"].map(String::from).to_vec();
            again.extend(args.target.workload.iter().cloned());
            again.extend(typed(&cli.connection, &args.target.from_file));
            if args.watch {
                again.push("--watch".to_string());
            }
            let stood = match watcher.borrow().stands() {
                "" => "it was not looked at yet".to_string(),
                line => line.trim_end_matches("...").to_string(),
            };
            let again = undo::quote(&again);
            ui::err(&format!("\n{}\n", escape(&format!("interrupted: {stood}; nothing was changed. Go on with: {again}"))));
            return Ok(code);
        }
    };
    warnings(&document);
    ui::err(&status::failure(&document));
    let output = args.output.clone().unwrap_or_default();
    match &output {
        Output::Table | Output::Wide => {
            ui::out(&status::screen(&document));
            ui::err(&status::notes(&document));
        }
        output => print(&document, output)?,
    }
    match &document.outcome {
        Outcome::Status(status) => Ok(status.exit_code),
        _ => Ok(0),
    }
}

fn dry_run(asked: args::DryRun) -> DryRun {
    match asked {
        args::DryRun::None => DryRun::None,
        args::DryRun::Client => DryRun::Client,
        args::DryRun::Server => DryRun::Server,
    }
}

async fn contents_verb(cli: &Cli, args: &args::History, name: &str) -> Result<u8, Failure> {
    if args.revision.is_some() {
        return Err(Failure::Usage("--revision is for workloads: a ConfigMap has no revisions".into()));
    }
    let scene = run::scene(&cli.connection.flags(), &args.target.from_file, notice).await?;
    let sheet = run::contents::history(&scene, name, Timestamp::now()).await?;
    for warning in &sheet.warnings {
        ui::err(&format!("Warning: {}\n", escape(warning)));
    }
    let nothing = sheet.body.versions.is_empty();
    let output = args.output.clone().unwrap_or_default();
    match &output {
        Output::Table | Output::Wide if nothing => {}
        output @ (Output::Table | Output::Wide) => {
            let (table, notes) =
                contents::table(&sheet, output.is_wide(), ui::look(), &typed(&cli.connection, &args.target.from_file));
            ui::out(&table);
            ui::err(&format!("\n{notes}"));
        }
        output => print(&sheet, output)?,
    }
    if nothing {
        ui::err(&contents::not_found(&sheet));
    }
    Ok(sheet.body.exit_code)
}

async fn undo_verb(cli: &Cli, args: &args::Undo) -> Result<u8, Failure> {
    let mut targets = Target::parse_all(&args.workload)?;
    let writes = args.dry_run == args::DryRun::None && args.from_file.is_empty();
    let unnamed = targets.is_empty() && args.selector.is_none();
    if writes && unnamed && (args.yes || !ui::can_ask()) {
        return Err(Failure::Usage("undo needs a workload: name it as TYPE/NAME".into()));
    }
    if writes && !args.yes && !ui::can_ask() {
        return Err(Failure::Usage("undo needs --yes when there is no terminal to ask on".into()));
    }
    if !args.wait && (args.verify == args::Verify::Replace || args.on_failure == args::OnFailure::Revert) {
        return Err(Failure::Usage(
            "--verify=replace and --on-failure=revert come after the wait for the rollout".into(),
        ));
    }
    let now = Timestamp::now();
    let several = targets.len() > 1 || args.selector.is_some();
    if several && args.to_revision.is_some() {
        let why =
            "--to-revision names a revision of one workload; for several use --to-time, or none for the previous one";
        return Err(Failure::Usage(why.into()));
    }
    let mut request = Request {
        revision: match (args.to_time, args.to_revision.filter(|n| *n > 0)) {
            (Some(args::Moment::At(moment)), _) => Asked::At(moment),
            (Some(args::Moment::Ago(ago)), _) => {
                let ago = jiff::SignedDuration::try_from(ago).ok().and_then(|ago| now.checked_sub(ago).ok());
                Asked::At(ago.ok_or_else(|| Failure::Usage("--to-time is too long ago".into()))?)
            }
            (None, Some(number)) => Asked::Number(number),
            (None, None) => Asked::Previous,
        },
        rules: rules(args, cli.connection.namespace.as_deref())?,
        dry_run: match args.dry_run {
            _ if !args.from_file.is_empty() => DryRun::Client,
            asked => dry_run(asked),
        },
        wait: args.wait,
        timeout: args.timeout,
        settle: args.settle,
        verify: match args.verify {
            args::Verify::Rollout => Verify::Rollout,
            args::Verify::Replace => Verify::Replace,
            args::Verify::None => Verify::None,
        },
        allow_downtime: args.allow_downtime,
        asks: !args.yes,
        on_failure: match args.on_failure {
            args::OnFailure::Report => OnFailure::Report,
            args::OnFailure::Revert => OnFailure::Revert,
        },
        // Objects for a repository are what an owner is given: nothing is written then.
        allow_managed: args.allow_managed || (!writes && args.output == Some(Output::Yaml)),
        typed: typed(&cli.connection, &args.from_file),
        uses: args.given.clone(),
        words: args.workload.clone(),
    };
    let output = args.output.clone().unwrap_or_default();
    let progress = Rc::new(RefCell::new(Progress::default()));
    let mut speaker = Speaker { output: output.clone(), yes: args.yes, progress: Rc::clone(&progress) };
    let work = async {
        let scene = run::scene(&cli.connection.flags(), &args.from_file, notice).await?;
        if let Some(labels) = &args.selector {
            targets = scene.selected(labels).await?;
        }
        if several {
            return run::several::run(&scene, &targets, &request, args.partial, &mut speaker, now).await;
        }
        if writes && unnamed {
            // Never write to what was neither typed nor picked, even where there is only one.
            let Some(picked) = ui::pick("Roll back which workload?", &scene.pickable().await?)? else {
                return Err(Failure::Usage("no workload was picked".into()));
            };
            targets = Target::parse_all(std::slice::from_ref(&picked))?;
            request.words = vec![picked];
        }
        let undone = run::undo::run(&scene, targets.first(), &request, &mut speaker, now).await?;
        Ok(Outcomes { exit_code: undone.exit_code(), undone: vec![undone] })
    };
    let outcomes = tokio::select! {
        outcomes = work => match outcomes {
            // Which one is meant is not clear: a person can say.
            Err(Failure::NoRevision(NoSuchRevision::Unclear { why, numbers }))
                if !several && !args.yes && ui::can_ask() && !numbers.is_empty() =>
            {
                ui::err(&format!("\"previous\" is not clear: {}\n", escape(&why)));
                let words: Vec<String> = numbers.iter().map(|n| format!("revision {n}")).collect();
                let picked = ui::pick("Roll back to which revision?", &words)?;
                let at = picked.and_then(|word| words.iter().position(|w| *w == word));
                let Some(number) = at.and_then(|i| numbers.get(i)) else {
                    return Err(Failure::Usage("no revision was picked".into()));
                };
                return Box::pin(undo_verb(cli, &args::Undo { to_revision: Some(*number), ..args.clone() })).await;
            }
            outcomes => outcomes?,
        },
        code = interrupted() => {
            let progress = progress.borrow();
            ui::err(&format!("\n{}\n", escape(&interruption(&progress))));
            return Ok(code);
        }
    };
    for undone in &outcomes.undone {
        warnings(&undone.document);
        if let Outcome::Undo(undo) = &undone.document.outcome
            && !undo.refusals.is_empty()
        {
            ui::err(&undo::refusal(&undone.document));
        }
    }
    match &output {
        Output::Table | Output::Wide => {
            for undone in &outcomes.undone {
                ui::out(&undo::afterwards(&undone.document, &request, several));
            }
        }
        Output::Yaml if outcomes.undone.iter().all(|u| u.exit_code() != error::NO) => {
            let mut texts: Vec<String> = Vec::new();
            for manifest in outcomes.undone.iter().flat_map(|u| &u.manifests) {
                let text = yaml::document(manifest).map_err(Failure::Given)?;
                // Of one snapshot that several workloads share there is one.
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
            ui::out(&texts.join("---\n"));
        }
        Output::Yaml => {}
        output if several => print(&run::several::sheet(&outcomes, now), output)?,
        output => outcomes.undone.iter().try_for_each(|undone| print(&undone.document, output))?,
    }
    Ok(outcomes.exit_code)
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

fn rules(args: &args::Undo, namespace: Option<&str>) -> Result<Rules, Failure> {
    let mut given = BTreeMap::new();
    for one in &args.given {
        let wrong = || Failure::Usage(format!("--use {one:?}: write NAME=FILE, NAME=sr1:DIGEST or NAME=SNAPSHOT"));
        let (name, what) = one.split_once('=').filter(|(n, w)| !n.is_empty() && !w.is_empty()).ok_or_else(wrong)?;
        let name = name.trim_start_matches("configmap/").trim_start_matches("cm/");
        let what = match what.starts_with("sr1:") {
            true => Given::Digest(what.to_string()),
            false if core_snapshot::is_of(what, name) && !Path::new(what).exists() => Given::Snapshot(what.to_string()),
            false => Given::File(Box::new(content_of_file(name, Path::new(what), namespace)?)),
        };
        given.insert(name.to_string(), what);
    }
    Ok(Rules {
        config: match args.config {
            args::Config::Auto => Config::Auto,
            args::Config::Pin => Config::Pin,
            args::Config::Live => Config::Live,
        },
        require: match args.require {
            args::Require::Likely => Grade::Likely,
            args::Require::Proof => Grade::Proof,
        },
        given,
    })
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

fn interruption(progress: &Progress) -> String {
    let made = match progress.created.as_slice() {
        [] => String::new(),
        made => format!("; snapshots made so far: {} (the same command uses them)", made.join(", ")),
    };
    match progress.phase {
        Phase::NothingWritten if progress.stands.is_empty() => "interrupted: nothing was written".into(),
        Phase::NothingWritten => {
            let stood = progress.stands.trim_end_matches("...");
            format!(
                "interrupted: nothing was written by this run; the rollout goes on ({stood}); the same command waits for it"
            )
        }
        Phase::Snapshots => format!("interrupted before the workload was written{made}"),
        Phase::Patching => {
            format!(
                "interrupted while the workload was being written: it may or may not have been; the same command finishes the job{made}"
            )
        }
        Phase::Patched => {
            let stood = progress.stands.trim_end_matches("...");
            let stood = if stood.is_empty() { String::new() } else { format!(" ({stood})") };
            format!(
                "interrupted after the workload was written: the rollout goes on{stood}; the same command waits for it"
            )
        }
    }
}
