//! `check`: the verb and its screen.

use jiff::Timestamp;

use crate::cli::args::{self, Cli};
use crate::cli::history::{headline, object, verdict};
use crate::cli::output::Output;
use crate::cli::screen::{Look, Screen, age, escape, listed};
use crate::cli::{notice, print, ui, warnings};
use crate::core::report::{Check, Document, Outcome, Reference};
use crate::core::verdict::Verdict;
use crate::core::workload::Target;
use crate::run::{self, Failure};

pub async fn verb(cli: &Cli, args: &args::Check) -> Result<u8, Failure> {
    let target = Target::parse(&args.target.workload)?;
    let scene = run::scene(&cli.connection.flags(), &args.target.from_file, notice).await?;
    let document = run::check::run(&scene, target.as_ref(), args.to_revision, Timestamp::now()).await?;
    warnings(&document);
    let output = args.output.clone().unwrap_or_default();
    match &output {
        output @ (Output::Table | Output::Wide) => {
            ui::out(&screen(&document, output.is_wide(), ui::look()));
        }
        output => print(&document, output)?,
    }
    let Outcome::Check(check) = &document.outcome else { return Ok(0) };
    for owner in &check.owners {
        ui::err(&format!("Note: {}\n", escape(&owner.says)));
    }
    Ok(check.exit_code)
}

/// The only four endings.
fn ending(check: &Check, references: &[Reference]) -> &'static str {
    let open = [Verdict::Unknown, Verdict::Unreadable, Verdict::Refreshed];
    match check.grade {
        "proof" => "safe",
        "likely" => "likely safe",
        _ if references.iter().map(|r| verdict(r.verdict)).any(|v| v < Verdict::LikelySame && !open.contains(&v)) => {
            "not safe as it stands"
        }
        _ => "not known to be safe",
    }
}

pub fn screen(document: &Document, wide: bool, look: Look) -> String {
    let mut screen = Screen::default();
    let Outcome::Check(check) = &document.outcome else { return screen.into_text() };
    let Some(revision) = document.revisions.first() else { return screen.into_text() };
    screen.line(&format!(
        "{} to revision {}: {}",
        headline(document),
        check.target,
        ending(check, &revision.references)
    ));
    if revision.references.is_empty() {
        screen.line("Its template names no ConfigMap or Secret.");
    } else {
        let rows: Vec<Vec<String>> = revision
            .references
            .iter()
            .map(|r| {
                vec![
                    object(r),
                    verdict(r.verdict).screen().to_string(),
                    r.action.unwrap_or("keep").to_string(),
                    because(document, r),
                ]
            })
            .collect();
        screen.table(&["REFERENCE", "CONFIG-NOW", "UNDO", "BECAUSE"], &rows, look);
    }
    let mut paragraphs: Vec<String> = Vec::new();
    let number = check.target;
    let broken: Vec<String> = named(&revision.references, &[Verdict::Missing, Verdict::KeyMissing]);
    let other: Vec<String> = named(&revision.references, &[Verdict::Changed, Verdict::Mixed]);
    let maybe: Vec<String> =
        named(&revision.references, &[Verdict::WrittenAfter, Verdict::WrittenDuring, Verdict::Recreated]);
    let would = "'kubectl rollout undo' would report success; the next Pod of revision";
    if !broken.is_empty() {
        paragraphs.push(format!("{would} {number} would not start: {} is not as it needs it.", listed(&broken)));
    } else if !other.is_empty() {
        paragraphs.push(format!(
            "{would} {number} would read today's {}, which revision {number} never ran with.",
            listed(&other)
        ));
    } else if !maybe.is_empty() {
        paragraphs.push(format!(
            "{would} {number} would read today's {}, which may differ from what revision {number} ran with.",
            listed(&maybe)
        ));
    }
    if revision.failing {
        paragraphs.push(format!("Revision {number}'s own Pods are not ready now."));
    }
    if check.grade == "none" {
        paragraphs.push(match check.undo {
            "planned" if revision.references.iter().any(|r| r.action == Some("pin")) => {
                "'kubectl saferollback undo' would pin the content from before the edit.".into()
            }
            "planned" => "'kubectl saferollback undo' would go on.".into(),
            _ => "'kubectl saferollback undo' would refuse, and say which ways on there are.".into(),
        });
    }
    for (reference, readers) in check.also_reading.iter().filter(|(_, readers)| !readers.is_empty()) {
        let readers: Vec<&str> = readers.iter().map(String::as_str).collect();
        paragraphs.push(format!("Also reading {}: {}", lower(reference), readers.join(", ")));
    }
    if !paragraphs.is_empty() {
        screen.blank();
    }
    for paragraph in paragraphs {
        screen.prose(&paragraph);
    }
    if wide {
        screen.assumptions(&document.assumptions);
    }
    screen.into_text()
}

/// The report's reason, with the age of the write where one was seen.
pub fn because(document: &Document, reference: &Reference) -> String {
    let text = reference.because.as_deref().unwrap_or("");
    let edited = [Verdict::Changed, Verdict::WrittenAfter, Verdict::WrittenDuring];
    match &reference.written {
        Some(written) if edited.contains(&verdict(reference.verdict)) => {
            let age = age(Some(written.at), document.observed_at);
            format!("written {age} ago, {}", text.strip_prefix("written ").unwrap_or(text))
        }
        _ => text.to_string(),
    }
}

fn named(references: &[Reference], verdicts: &[Verdict]) -> Vec<String> {
    references.iter().filter(|r| verdicts.contains(&verdict(r.verdict))).map(object).collect()
}

/// `ConfigMap/settings` → `configmap/settings`
pub fn lower(id: &str) -> String {
    match id.split_once('/') {
        Some((kind, name)) => format!("{}/{name}", kind.to_lowercase()),
        None => id.to_string(),
    }
}
