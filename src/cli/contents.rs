//! `history configmap/NAME`: the verb and its screen, and what `restore` and `diff` share with it.

use jiff::Timestamp;

use crate::cli::args::{self, Cli};
use crate::cli::history::{head, short, source};
use crate::cli::output::Output;
use crate::cli::screen::{Look, Screen, age, escape, listed};
use crate::cli::undo::quote;
use crate::cli::{notice, print, typed, ui};
use crate::core::changes::KeyChange;
use crate::core::contents::{ConfigMapHistory, VersionLine};
use crate::core::readers::Reader;
use crate::core::sheet::Sheet;
use crate::run::{self, Failure};

pub async fn verb(cli: &Cli, args: &args::History, name: &str) -> Result<u8, Failure> {
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
                table(&sheet, output.is_wide(), ui::look(), &typed(&cli.connection, &args.target.from_file));
            ui::out(&table);
            ui::err(&format!("\n{notes}"));
        }
        output => print(&sheet, output)?,
    }
    if nothing {
        ui::err(&not_found(&sheet));
    }
    Ok(sheet.body.exit_code)
}

/// One token, so that a column can be counted.
fn token(text: Option<&str>) -> String {
    match text.filter(|t| !t.is_empty()) {
        Some(text) => text.split_whitespace().collect::<Vec<_>>().join("_"),
        None => "<unknown>".into(),
    }
}

fn readers(readers: Option<&[Reader]>) -> String {
    match readers {
        None => "<unknown>".into(),
        Some([]) => "<none>".into(),
        Some(all) => all.iter().map(|r| format!("{} ({})", r.reader, r.pods)).collect::<Vec<_>>().join(", "),
    }
}

/// The table, and the notes that go to stderr.
pub fn table(sheet: &Sheet<ConfigMapHistory>, wide: bool, look: Look, typed: &[String]) -> (String, String) {
    let (body, now) = (&sheet.body, sheet.observed_at);
    let mut screen = Screen::default();
    if look.headers {
        screen.line(&format!("configmap/{}", body.config_map.name));
    }
    let mut header = vec!["VERSION", "DIGEST", "SOURCE", "FROM", "UNTIL", "WRITER", "GRADE"];
    if wide {
        header.push("OBJECT");
    }
    header.push("READERS");
    let row = |line: &VersionLine| {
        let until = match line.until {
            None if line.held => "now".into(),
            until => age(until, now),
        };
        let mut row = vec![
            line.resource_version.clone().unwrap_or_else(|| "<none>".into()),
            if wide { line.digest.clone() } else { short(&line.digest) },
            line.source.to_string(),
            age(line.from, now),
            until,
            token(line.writer.as_deref()),
            line.grade.to_string(),
        ];
        if wide {
            row.push(line.object.to_lowercase());
        }
        row.push(readers(line.readers.as_deref()));
        row
    };
    if !body.versions.is_empty() {
        screen.table(&header, &body.versions.iter().map(row).collect::<Vec<_>>(), look);
    }
    (screen.into_text(), notes(sheet, typed))
}

/// For stderr, where nothing is known.
pub fn not_found(sheet: &Sheet<ConfigMapHistory>) -> String {
    let line = &sheet.body.config_map;
    let mut screen = Screen::default();
    let place = if line.namespace.is_empty() { String::new() } else { format!(" in namespace {}", line.namespace) };
    screen.prose(&format!("error: configmap/{} not found{place}, and no version of it is known", line.name));
    screen.hanging("Looked in  ", &sheet.body.looked_in.join("; "));
    screen.into_text()
}

fn notes(sheet: &Sheet<ConfigMapHistory>, typed: &[String]) -> String {
    let body = &sheet.body;
    let mut notes = Screen::default();
    let name = &body.config_map.name;
    if !body.config_map.exists {
        notes.prose(&format!("Note: configmap/{name} does not exist now."));
    } else if body.config_map.terminating {
        notes.prose(&format!("Note: configmap/{name} is being deleted."));
    } else if body.config_map.immutable == Some(true) {
        notes.prose(&format!("Note: configmap/{name} is immutable: it cannot be restored in place."));
    }
    notes.hanging("Looked in  ", &body.looked_in.join("; "));
    let today = body.versions.iter().find(|v| v.source == "live" && v.immutable == Some(false));
    // The newest of the others, as one that can be typed.
    let other = body.versions.iter().rev().find(|v| today.is_some_and(|today| v.digest != today.digest));
    if let Some(other) = other {
        let mut argv = ["kubectl", "saferollback", "restore"].map(String::from).to_vec();
        argv.extend([format!("configmap/{name}"), "--from".into(), head(&other.digest).to_string()]);
        argv.extend(typed.iter().cloned());
        notes.prose("Put one back in place, for all who read it:");
        notes.line(&format!("  {}", quote(&argv)));
    }
    notes.into_text()
}

/// `API history, until 3m ago`: where a version was found, and its dates.
pub fn whence(line: &VersionLine, now: Timestamp) -> String {
    let place = match line.source {
        "live" => "now".to_string(),
        "snapshot" => line.object.to_lowercase(),
        word => source(word).to_string(),
    };
    let mut parts = vec![place];
    match (line.source, line.from, line.until) {
        ("last-applied", ..) => parts.push("of unknown date".into()),
        ("live", Some(from), _) => {
            let by = line.writer.as_ref().map_or(String::new(), |by| format!(" by {by}"));
            parts.push(format!("written {} ago{by}", age(Some(from), now)));
        }
        ("snapshot", Some(from), _) => parts.push(format!("made {} ago", age(Some(from), now))),
        (_, _, Some(until)) => parts.push(format!("until {} ago", age(Some(until), now))),
        _ => {}
    }
    parts.join(", ")
}

/// One line a key: `+` added, `-` removed, `~` changed. Without `--show-content` values are stars.
pub fn changes(screen: &mut Screen, changes: &[KeyChange], indent: &str) {
    for change in changes {
        let (key, mask) = (&change.key, "***".to_string());
        let shown = change.before.is_some() || change.after.is_some();
        let value =
            |value: &Option<String>| if shown { value.as_deref().map_or(mask.clone(), quoted) } else { mask.clone() };
        let (before, after) = (value(&change.before), value(&change.after));
        match change.change {
            "added" => screen.line(&format!("{indent}+ {key}: {after}")),
            "removed" => screen.line(&format!("{indent}- {key}: {before}")),
            "moved" => {
                screen.line(&format!("{indent}~ {key}: the same bytes, now in the other of data and binaryData"))
            }
            _ => match (&change.before, &change.after) {
                (Some(before), Some(after)) if before.contains('\n') || after.contains('\n') => {
                    screen.line(&format!("{indent}~ {key}:"));
                    lines(screen, before, after, &format!("{indent}  "));
                }
                _ => screen.line(&format!("{indent}~ {key}: {before} -> {after}")),
            },
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// The lines that went and came, without those before and after them that stayed.
fn lines(screen: &mut Screen, before: &str, after: &str, indent: &str) {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.split('\n').collect(), after.split('\n').collect());
    let head = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    let rest = before.len().min(after.len()) - head;
    let tail = before.iter().rev().zip(after.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    for (sign, lines) in [('-', &before), ('+', &after)] {
        for line in &lines[head..lines.len() - tail] {
            screen.line(&format!("{indent}{sign} {line}"));
        }
    }
}

/// `deployment/web and cronjob/report`
pub fn names(readers: &[&Reader]) -> String {
    listed(&readers.iter().map(|r| r.reader.clone()).collect::<Vec<_>>())
}
