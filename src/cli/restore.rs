//! `restore`: the plan, the question, the result.

use std::cell::Cell;
use std::path::Path;

use jiff::Timestamp;

use crate::cli::args::{self, Cli};
use crate::cli::contents::{changes, names, whence};
use crate::cli::history::{head, short};
use crate::cli::output::Output;
use crate::cli::screen::{Screen, count, escape, listed};
use crate::cli::undo::quote;
use crate::cli::{content_of_file, dry_run, interrupted, notice, print, ui};
use crate::core::contents::Wanted;
use crate::core::readers::{self, Reader};
use crate::core::restore::{Ending, Restore};
use crate::core::sheet::Sheet;
use crate::core::workload;
use crate::run::restore::{Prepared, Request};
use crate::run::undo::DryRun;
use crate::run::{self, Failure, Phase, Scene};

pub async fn verb(cli: &Cli, args: &args::Restore) -> Result<u8, Failure> {
    let name = workload::config_map(&args.config_map)?;
    let name = name.ok_or_else(|| Failure::Usage("restore needs a ConfigMap: name it as configmap/NAME".into()))?;
    let writes = args.dry_run == args::DryRun::None && args.from_file.is_empty();
    if writes && !args.yes && !ui::can_ask() {
        return Err(Failure::Usage("restore needs --yes when there is no terminal to ask on".into()));
    }
    let request = Request {
        wanted: wanted(args.from.as_deref(), &name, cli.connection.namespace.as_deref())?,
        dry_run: match args.dry_run {
            _ if !args.from_file.is_empty() => DryRun::Client,
            asked => dry_run(asked),
        },
        show: args.show_content,
        typed: cli.connection.typed(),
        name,
    };
    let output = args.output.clone().unwrap_or_default();
    let phase = Cell::new(Phase::NothingWritten);
    let work = async {
        let scene = run::scene(&cli.connection.flags(), &args.from_file, notice).await?;
        let prepared = run::restore::prepare(&scene, &request, Timestamp::now()).await?;
        perform(&scene, &request, prepared, output, args.yes, &phase).await
    };
    tokio::select! {
        code = work => code,
        code = interrupted() => {
            ui::err(match phase.get() {
                Phase::NothingWritten => "\ninterrupted: nothing was written\n",
                _ => "\ninterrupted while the ConfigMap was being written: it may or may not have been; the same command tells\n",
            });
            Ok(code)
        }
    }
}

/// `sr1:…`, a resourceVersion, or the name of a file.
fn wanted(from: Option<&str>, name: &str, namespace: Option<&str>) -> Result<Wanted, Failure> {
    let Some(from) = from else { return Ok(Wanted::Previous) };
    if from.starts_with("sr1:") {
        return Ok(Wanted::Digest(from.to_string()));
    }
    if let Ok(number) = from.parse() {
        return Ok(Wanted::Number(number));
    }
    Ok(Wanted::Content(Box::new(content_of_file(name, Path::new(from), namespace)?.content)))
}

async fn perform(
    scene: &Scene,
    request: &Request,
    mut prepared: Prepared,
    output: Output,
    yes: bool,
    phase: &Cell<Phase>,
) -> Result<u8, Failure> {
    let tables = matches!(output, Output::Table | Output::Wide);
    for warning in &prepared.seen.known.warnings {
        ui::err(&format!("Warning: {}\n", escape(warning)));
    }
    let ending = match prepared.ending.take() {
        Some(ending) => {
            if tables {
                let sheet = run::restore::sheet(scene, request, &prepared, &ending);
                ui::out(&plan(&sheet));
            }
            ending
        }
        None => {
            let planned = run::restore::sheet(scene, request, &prepared, &Ending::Planned);
            if tables {
                ui::out(&plan(&planned));
                ui::out("\n");
            }
            if yes || ui::ask("Restore?")? {
                phase.set(Phase::Patching);
                let ending = run::restore::write(scene, &mut prepared.plan).await?;
                phase.set(Phase::Patched);
                ending
            } else {
                Ending::Planned
            }
        }
    };
    let sheet = run::restore::sheet(scene, request, &prepared, &ending);
    let result = result(&sheet, request);
    if tables {
        ui::out(&result)
    } else {
        ui::err(&result)
    }
    ui::err(&problem(&sheet));
    if !tables {
        print(&sheet, &output)?;
    }
    Ok(sheet.body.exit_code)
}

/// What changes, and for whom.
fn plan(sheet: &Sheet<Restore>) -> String {
    let (body, now) = (&sheet.body, sheet.observed_at);
    let mut screen = Screen::default();
    if body.outcome == "nothing-to-do" {
        return screen.into_text();
    }
    let mut place = format!("configmap/{}", body.config_map.name);
    if !body.config_map.namespace.is_empty() {
        place.push_str(&format!(", namespace {}", body.config_map.namespace));
    }
    if !sheet.cluster.context.is_empty() {
        place.push_str(&format!(", context {}", sheet.cluster.context));
    }
    screen.line(&place);
    if let Some(today) = &body.now {
        screen.hanging("Now      ", &format!("{}  {}", short(&today.digest), whence(today, now)));
    }
    screen.hanging("Restore  ", &format!("{}  {}", short(&body.version.digest), whence(&body.version, now)));
    changes(&mut screen, &body.changes, "  ");
    if body.readers.is_empty() {
        screen.line("No workload and no Pod of the namespace names it.");
    } else {
        let rows: Vec<Vec<String>> = body.readers.iter().map(row).collect();
        screen.table(&["READER", "PODS", "RESTART", "REFRESHED", "NEXT-POD"], &rows, ui::look());
    }
    for stopped in &body.stopped {
        let keys = listed(&stopped.keys);
        let lacks = if stopped.keys.len() == 1 { "is not in this version" } else { "are not in this version" };
        screen.prose(&format!("Missing: {keys} {lacks}. The next Pod of {} would not start.", stopped.reader));
    }
    if !body.managed.is_empty() {
        screen.hanging("Managed  ", &format!("{}: may bring the edit back", body.managed.join("; ")));
    }
    screen.into_text()
}

fn row(reader: &Reader) -> Vec<String> {
    let next = if reader.named { "reads it" } else { "does not read it" };
    let number = |n: usize| n.to_string();
    vec![reader.reader.clone(), number(reader.pods), number(reader.fixed), number(reader.refreshed), next.into()]
}

/// The result, and what remains to be done.
fn result(sheet: &Sheet<Restore>, request: &Request) -> String {
    let body = &sheet.body;
    let name = &body.config_map.name;
    let mut screen = Screen::default();
    match body.outcome {
        "nothing-to-do" => {
            screen.line(&format!(
                "configmap/{name} has this content already ({}): nothing to do",
                short(&body.version.digest)
            ));
        }
        "planned" => {
            screen.blank();
            screen.line("Nothing was written.");
        }
        "done" => {
            screen.line(&format!("configmap/{name} restored to {}", short(&body.version.digest)));
            screen.blank();
            remains(&mut screen, body);
            if let Some(today) = &body.now {
                let verb = ["kubectl", "saferollback", "restore"].map(String::from);
                let rest = [format!("configmap/{name}"), "--from".into(), head(&today.digest).to_string()];
                let argv: Vec<String> = verb.into_iter().chain(rest).chain(request.typed.iter().cloned()).collect();
                screen.prose("To return, for the few minutes that the API history lasts:");
                screen.line(&format!("  {}", quote(&argv)));
            }
        }
        _ => {}
    }
    screen.into_text()
}

fn remains(screen: &mut Screen, body: &Restore) {
    let (fixed, refreshed) = readers::pods(&body.readers);
    let mut words = "No Pod was restarted.".to_string();
    if refreshed > 0 {
        let pods = count(refreshed, "Pod");
        let (get, its) = if refreshed == 1 { ("gets", "its") } else { ("get", "their") };
        words.push_str(&format!(" {pods} {get} it into {its} mounted files within about two minutes."));
    }
    if fixed > 0 {
        let (pods, reads) = (count(fixed, "Pod"), if fixed == 1 { "reads" } else { "read" });
        words.push_str(&format!(" {pods} {reads} it only when restarted:"));
    }
    screen.prose(&words);
    for argv in &body.restarts {
        screen.line(&format!("  {}", quote(argv)));
    }
    let restarted = |r: &Reader| body.restarts.iter().any(|argv| argv.contains(&r.reader));
    let others: Vec<&Reader> = body.readers.iter().filter(|r| r.fixed > 0 && !restarted(r)).collect();
    if !others.is_empty() {
        screen.prose(&format!("Pods of {} have no such command: they must be created again.", names(&others)));
    }
    screen.prose("The next apply of its manifest may bring the edit back.");
}

/// Why nothing was written, for stderr.
fn problem(sheet: &Sheet<Restore>) -> String {
    let body = &sheet.body;
    let mut screen = Screen::default();
    for refusal in &body.refusals {
        screen.prose(&format!("error: refused, nothing was written: {}", refusal.message));
    }
    if body.outcome == "conflict" {
        let name = &body.config_map.name;
        screen.prose(&format!("error: configmap/{name} was written since the plan was made; it was not written by us"));
    }
    if !body.ways_on.is_empty() {
        screen.blank();
        screen.line("Ways on, safest first:");
    }
    for way in &body.ways_on {
        screen.line(&format!("  # {}", way.why));
        screen.line(&format!("  {}", quote(&way.argv)));
    }
    screen.into_text()
}
