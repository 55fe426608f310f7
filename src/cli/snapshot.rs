//! The screens of `snapshot`.

use crate::cli::check::lower;
use crate::cli::history::source;
use crate::cli::screen::{Screen, age};
use crate::cli::undo::place;
use crate::core::report::{Document, Outcome, SavedLine};
use crate::core::sheet::{HeldLine, Sheet, SnapshotList};

/// What was found, and how well it is known. The lines of what was created follow it or, with a dry run, do not.
pub fn found(document: &Document, width: Option<usize>) -> String {
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
    screen.table(&["REVISION", "REFERENCE", "SNAPSHOT", "HOW-KNOWN"], &rows, width);
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
pub fn list(sheet: &Sheet<SnapshotList>, width: Option<usize>) -> String {
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
    screen.table(&["NAME", "KIND", "AGE", "REVISION", "SOURCE", "READERS"], &rows, width);
    screen.into_text()
}

/// What `snapshot prune` is about to delete.
pub fn prune_plan(sheet: &Sheet<SnapshotList>, width: Option<usize>) -> String {
    let going = sheet.body.snapshots.iter().filter(|h| h.prune == Some(true));
    let rows: Vec<Vec<String>> = going
        .map(|h| vec![h.name.clone(), h.kind.to_string(), age(h.created, sheet.observed_at), h.source.clone()])
        .collect();
    let mut screen = Screen::default();
    screen.line("Nothing needs these any more:");
    screen.table(&["NAME", "KIND", "AGE", "SOURCE"], &rows, width);
    screen.into_text()
}

/// What it kept, and why.
pub fn pruned(sheet: &Sheet<SnapshotList>, width: Option<usize>) -> String {
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
        screen.table(&["NAME", "KIND", "BECAUSE"], &rows, width);
    }
    screen.into_text()
}
