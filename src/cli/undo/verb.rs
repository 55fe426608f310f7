//! `undo`: from the command line to the exit code.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use jiff::Timestamp;

use crate::cli::args::{self, Cli};
use crate::cli::output::Output;
use crate::cli::screen::escape;
use crate::cli::ui::{Progress, Speaker};
use crate::cli::undo::{afterwards, refusal};
use crate::cli::{content_of_file, dry_run, error, interrupted, notice, print, typed, ui, warnings, yaml};
use crate::core::history::NoSuchRevision;
use crate::core::policy::{Config, Given, Rules};
use crate::core::recovery::Grade;
use crate::core::report::Outcome;
use crate::core::snapshot;
use crate::core::substitute::Verify;
use crate::core::workload::Target;
use crate::run::several::Outcomes;
use crate::run::undo::{Asked, DryRun, OnFailure, Request};
use crate::run::{self, Failure, Phase};

pub async fn verb(cli: &Cli, args: &args::Undo) -> Result<u8, Failure> {
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
                return Box::pin(verb(cli, &args::Undo { to_revision: Some(*number), ..args.clone() })).await;
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
            ui::err(&refusal(&undone.document));
        }
    }
    match &output {
        Output::Table | Output::Wide => {
            for undone in &outcomes.undone {
                ui::out(&afterwards(&undone.document, &request, several));
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

/// The name of `--use NAME=…`, which may be written with its kind.
pub fn bare(name: &str) -> &str {
    name.trim_start_matches("configmap/").trim_start_matches("cm/")
}

fn rules(args: &args::Undo, namespace: Option<&str>) -> Result<Rules, Failure> {
    let mut given = BTreeMap::new();
    for one in &args.given {
        let wrong = || Failure::Usage(format!("--use {one:?}: write NAME=FILE, NAME=sr1:DIGEST or NAME=SNAPSHOT"));
        let (name, what) = one.split_once('=').filter(|(n, w)| !n.is_empty() && !w.is_empty()).ok_or_else(wrong)?;
        let name = bare(name);
        let what = match what.starts_with("sr1:") {
            true => Given::Digest(what.to_string()),
            false if snapshot::is_of(what, name) && !Path::new(what).exists() => Given::Snapshot(what.to_string()),
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
