//! `diff`: the verb and its screen.

use jiff::Timestamp;
use serde_json::Value;

use crate::cli::args::{self, Cli};
use crate::cli::check::lower;
use crate::cli::contents::changes;
use crate::cli::history::headline;
use crate::cli::output::Output;
use crate::cli::screen::Screen;
use crate::cli::{notice, print, ui, warnings};
use crate::core::diff::{Diff, FieldChange};
use crate::core::report::Document;
use crate::core::report::Outcome;
use crate::core::workload::Target;
use crate::run::{self, Failure};

pub async fn verb(cli: &Cli, args: &args::Diff) -> Result<u8, Failure> {
    let target = Target::parse(&args.target.workload)?;
    let scene = run::scene(&cli.connection.flags(), &args.target.from_file, notice).await?;
    let (from, to, show) = (args.from, args.to, args.show_content);
    let document = run::diff::run(&scene, target.as_ref(), from, to, show, Timestamp::now()).await?;
    warnings(&document);
    let Outcome::Diff(diff) = &document.outcome else { return Ok(0) };
    let output = args.output.clone().unwrap_or_default();
    match &output {
        output @ (Output::Table | Output::Wide) => ui::out(&screen(&document, diff, output.is_wide())),
        output => print(&document, output)?,
    }
    Ok(diff.exit_code)
}

pub fn screen(document: &Document, diff: &Diff, wide: bool) -> String {
    let mut screen = Screen::default();
    let to = diff.to.map_or("today".to_string(), |to| format!("revision {to}"));
    screen.line(&format!("{}: revision {} -> {to}", headline(document), diff.from));
    screen.line(if diff.template.is_empty() { "Template: same" } else { "Template: different" });
    for field in &diff.template {
        screen.line(&one_field(field));
    }
    for compared in &diff.contents {
        let name = match &compared.replaced {
            Some(other) => format!("{} -> {}", lower(&compared.reference), lower(other)),
            None => lower(&compared.reference),
        };
        let grade = match compared.grade {
            "likely" => " (likely)",
            _ => "",
        };
        screen.prose(&format!("{name}: {}{grade}, {}", compared.answer, compared.because));
        changes(&mut screen, &compared.changes, "  ");
    }
    if diff.contents.is_empty() {
        screen.line("Neither template names a ConfigMap or Secret.");
    }
    if wide {
        screen.assumptions(&document.assumptions);
    }
    screen.into_text()
}

fn one_field(field: &FieldChange) -> String {
    let pointer = &field.pointer;
    let text = |value: &Value| value.to_string();
    match (field.before.as_ref().map(text), field.after.as_ref().map(text)) {
        (Some(before), Some(after)) => format!("  ~ {pointer}: {before} -> {after}"),
        (Some(before), None) => format!("  - {pointer}: {before}"),
        (None, after) => format!("  + {pointer}: {}", after.unwrap_or_default()),
    }
}
