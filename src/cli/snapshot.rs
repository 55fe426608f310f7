//! `snapshot`, and its screens.

use std::cell::RefCell;
use std::rc::Rc;

use jiff::Timestamp;

use crate::cli::args::{self, Cli, Snapshot};
use crate::cli::check::lower;
use crate::cli::history::source;
use crate::cli::output::Output;
use crate::cli::screen::{Look, Screen, age};
use crate::cli::ui::{Progress, Speaker};
use crate::cli::undo::place;
use crate::cli::{dry_run, notice, print, ui, warnings};
use crate::core::report::{Document, Outcome, SavedLine};
use crate::core::sheet::{HeldLine, Sheet, SnapshotList};
use crate::core::workload::Target;
use crate::run::snapshot::Which;
use crate::run::undo::DryRun;
use crate::run::{self, Failure};

pub async fn verb(cli: &Cli, args: &Snapshot) -> Result<u8, Failure> {
    match args {
        Snapshot::Create(args) => create(cli, args).await,
        Snapshot::List(args) => {
            let scene = run::scene(&cli.connection.flags(), &[], notice).await?;
            let sheet = run::prune::list(&scene, Timestamp::now()).await?;
            let output = args.output.clone().unwrap_or_default();
            match &output {
                Output::Table | Output::Wide => ui::out(&list(&sheet, ui::look())),
                output => print(&sheet, output)?,
            }
            Ok(0)
        }
        Snapshot::Prune(args) => prune(cli, args).await,
    }
}

async fn create(cli: &Cli, args: &args::SnapshotCreate) -> Result<u8, Failure> {
    let target = Target::parse(&args.workload)?;
    let which = match (args.revision, args.all_revisions) {
        (Some(number), _) => Which::One(number),
        (None, true) => Which::All,
        (None, false) => Which::Current { annotate: args.annotate },
    };
    let output = args.output.clone().unwrap_or_default();
    let scene = run::scene(&cli.connection.flags(), &[], notice).await?;
    let progress = Rc::new(RefCell::new(Progress::default()));
    let mut speaker = Speaker { output: output.clone(), yes: true, progress };
    let now = Timestamp::now();
    let dry_run = dry_run(args.dry_run);
    let document = run::snapshot::create(&scene, target.as_ref(), which, dry_run, &mut speaker, now).await?;
    warnings(&document);
    match &output {
        Output::Table | Output::Wide => {
            ui::out(&found(&document, ui::look()));
            ui::out(&closing(&document));
        }
        output => print(&document, output)?,
    }
    match &document.outcome {
        Outcome::Saved(saved) => Ok(saved.exit_code),
        _ => Ok(0),
    }
}

async fn prune(cli: &Cli, args: &args::SnapshotPrune) -> Result<u8, Failure> {
    let dry_run = dry_run(args.dry_run);
    if dry_run == DryRun::None && !args.yes && !ui::can_ask() {
        return Err(Failure::Usage("snapshot prune needs --yes when there is no terminal to ask on".into()));
    }
    let output = args.output.clone().unwrap_or_default();
    let shown = matches!(output, Output::Table | Output::Wide);
    let scene = run::scene(&cli.connection.flags(), &[], notice).await?;
    let progress = Rc::new(RefCell::new(Progress::default()));
    let mut speaker = Speaker { output: output.clone(), yes: args.yes, progress };
    let confirm = async |planned: &Sheet<SnapshotList>| {
        if shown {
            ui::out(&prune_plan(planned, ui::look()));
        }
        if args.yes { Ok(true) } else { ui::ask("Delete them?") }
    };
    let sheet = run::prune::prune(&scene, dry_run, &mut speaker, confirm, Timestamp::now()).await?;
    if shown && dry_run != DryRun::None && sheet.body.outcome == Some("planned") {
        ui::out(&prune_plan(&sheet, ui::look()));
    }
    match shown {
        true => ui::out(&pruned(&sheet, ui::look())),
        false => print(&sheet, &output)?,
    }
    Ok(sheet.body.exit_code)
}

/// What was found, and how well it is known. The lines of what was created follow it or, with a dry run, do not.
pub fn found(document: &Document, look: Look) -> String {
    let mut screen = Screen::default();
    let Outcome::Saved(saved) = &document.outcome else { return screen.into_text() };
    screen.line(&place(document));
    if saved.snapshots.is_empty() {
        screen.line(match saved.outcome {
            "nothing-found" => "Nothing was found that could be saved.",
            _ => "No content needs a snapshot.",
        });
        return screen.into_text();
    }
    let rows: Vec<Vec<String>> = saved
        .snapshots
        .iter()
        .map(|s| vec![s.revision.to_string(), lower(&s.reference), s.snapshot.clone(), known(s)])
        .collect();
    screen.table(&["REVISION", "REFERENCE", "SNAPSHOT", "HOW-KNOWN"], &rows, look);
    screen.into_text()
}

fn known(line: &SavedLine) -> String {
    let read = match line.grade {
        "proof" => "proven to be what it read",
        "likely" => "likely what it read",
        _ => "not known to be what it read",
    };
    match line.source {
        "live" => format!("as it is now, {read}"),
        word => format!("{}, {read}", source(word)),
    }
}

/// What was made of it.
pub fn closing(document: &Document) -> String {
    let mut screen = Screen::default();
    let Outcome::Saved(saved) = &document.outcome else { return screen.into_text() };
    for written in &saved.written {
        let what = if written.object.starts_with("ConfigMap/") { "created" } else { "annotated" };
        screen.line(&format!("{} {what}", lower(&written.object)));
    }
    match saved.outcome {
        "already-saved" => screen.line("Everything was saved already."),
        "planned" => screen.line("Nothing was written."),
        _ => {}
    }
    screen.into_text()
}

/// `snapshot list`.
pub fn list(sheet: &Sheet<SnapshotList>, look: Look) -> String {
    let mut screen = Screen::default();
    if sheet.body.snapshots.is_empty() {
        screen.line("No snapshots or records in this namespace.");
        return screen.into_text();
    }
    let none = || "<none>".to_string();
    let joined = |words: &[String]| if words.is_empty() { none() } else { words.join(",") };
    let rows: Vec<Vec<String>> = sheet
        .body
        .snapshots
        .iter()
        .map(|held| {
            let revisions: Vec<String> = held.revisions.iter().map(u64::to_string).collect();
            vec![
                held.name.clone(),
                held.kind.to_string(),
                age(held.created, sheet.observed_at),
                joined(&revisions),
                held.source.clone(),
                joined(&held.readers),
            ]
        })
        .collect();
    screen.table(&["NAME", "KIND", "AGE", "REVISION", "SOURCE", "READERS"], &rows, look);
    screen.into_text()
}

/// What `snapshot prune` is about to delete.
pub fn prune_plan(sheet: &Sheet<SnapshotList>, look: Look) -> String {
    let going = sheet.body.snapshots.iter().filter(|h| h.prune == Some(true));
    let rows: Vec<Vec<String>> = going
        .map(|h| vec![h.name.clone(), h.kind.to_string(), age(h.created, sheet.observed_at), h.source.clone()])
        .collect();
    let mut screen = Screen::default();
    screen.line("Nothing needs these any more:");
    screen.table(&["NAME", "KIND", "AGE", "SOURCE"], &rows, look);
    screen.into_text()
}

/// What it kept, and why.
pub fn pruned(sheet: &Sheet<SnapshotList>, look: Look) -> String {
    let mut screen = Screen::default();
    if sheet.body.outcome != Some("done") {
        screen.line("Nothing was deleted.");
    }
    let kept: Vec<&HeldLine> = sheet.body.snapshots.iter().filter(|h| h.prune != Some(true)).collect();
    if !kept.is_empty() {
        screen.line(&format!("{} kept:", kept.len()));
        let rows: Vec<Vec<String>> = kept
            .iter()
            .map(|h| vec![h.name.clone(), h.kind.to_string(), h.why.clone().unwrap_or_else(|| "<none>".into())])
            .collect();
        screen.table(&["NAME", "KIND", "BECAUSE"], &rows, look);
    }
    screen.into_text()
}
