//! The screens of `snapshot`.

use crate::cli::check::lower;
use crate::cli::history::source;
use crate::cli::screen::Screen;
use crate::cli::undo::place;
use crate::core::report::{Document, Outcome, SavedLine};

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
        screen.line(&format!("{} created", lower(&written.object)));
    }
    match saved.outcome {
        "already-saved" => screen.line("Everything was saved already."),
        "planned" => screen.line("Nothing was written."),
        _ => {}
    }
    screen.into_text()
}
