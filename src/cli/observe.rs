//! `observe`: the screen, and the file.

use crate::cli::args::{self, Cli};
use crate::cli::history::{headline, verdict};
use crate::cli::output::Output;
use crate::cli::screen::{Look, Screen, age, count, escape};
use crate::cli::undo::quote;
use crate::cli::{file, interrupted, notice, print, typed, ui, warnings};
use crate::core::observation::{HeldLine, Observation, PodLine, ProbeLine, ServiceLine};
use crate::core::report::{Document, Outcome};
use crate::core::verdict::Verdict;
use crate::core::workload::Target;
use crate::run::observation::Request;
use crate::run::{self, Failure};

pub async fn verb(cli: &Cli, args: &args::Observe) -> Result<u8, Failure> {
    let target = Target::parse(&args.target.workload)?;
    if args.probe.is_some() && !args.target.from_file.is_empty() {
        return Err(Failure::Usage("--probe asks Pods, and files hold none that runs".into()));
    }
    if let Some(path) = &args.out {
        file::check(path, args.overwrite)?;
    }
    let request = Request {
        until: args.until.clone(),
        timeout: args.timeout,
        probe: args.probe.clone(),
        pod_field: args.probe_pod_field.clone(),
        show: args.show_content,
    };
    let work = async {
        let scene = run::scene(&cli.connection.flags(), &args.target.from_file, notice).await?;
        let mut say = |line: &str| ui::err(&format!("{}\n", escape(line)));
        run::observation::run(&scene, target.as_ref(), &request, &mut say).await
    };
    let document = tokio::select! {
        document = work => document?,
        code = interrupted() => {
            let saved = if args.out.is_some() { ": nothing was saved" } else { "" };
            ui::err(&format!("\ninterrupted{saved}\n"));
            return Ok(code);
        }
    };
    warnings(&document);
    let Outcome::Observation(observed) = &document.outcome else { return Ok(0) };
    let output = args.output.clone().unwrap_or_default();
    match &output {
        output @ (Output::Table | Output::Wide) => {
            ui::out(&screen(&document, observed, output.is_wide(), ui::look()));
        }
        output => print(&document, output)?,
    }
    let notes = notes(&document, observed, &typed(&cli.connection, &args.target.from_file), args.timeout);
    if !notes.is_empty() {
        ui::err(&format!("\n{notes}"));
    }
    if let Some(path) = &args.out {
        if observed.exit_code != 0 {
            ui::err(&format!("Nothing was saved to {}.\n", escape(&path.display().to_string())));
            return Ok(observed.exit_code);
        }
        if observed.pods.is_none() || observed.services.is_none() {
            return Err(Failure::Given(format!("not all could be read, so nothing was saved to {}", path.display())));
        }
        file::write(path, &Output::Json.text(&document).map_err(Failure::Given)?, args.overwrite)?;
    }
    Ok(observed.exit_code)
}

fn screen(document: &Document, observed: &Observation, wide: bool, look: Look) -> String {
    let mut screen = Screen::default();
    if look.headers {
        screen.line(&headline(document));
    }
    match observed.pods.as_deref() {
        None => screen.line("Its Pods could not be read."),
        Some([]) => screen.line("It has no Pods."),
        Some(pods) => {
            let mut header = vec!["POD", "READY", "REVISION", "CONFIG", "AGE", "RESTARTS", "PROBE"];
            let mut rows: Vec<Vec<String>> = pods.iter().map(|pod| pod_row(document, pod)).collect();
            if wide {
                header.push("UID");
                rows.iter_mut().zip(pods).for_each(|(row, pod)| row.push(pod.uid.clone()));
            }
            screen.table(&header, &rows, look);
        }
    }
    screen.blank();
    match observed.services.as_deref() {
        None => screen.line("Which Services lead to them could not be read."),
        Some([]) if document.cluster.server == "files" => screen.line("The files hold no Service that selects them."),
        Some([]) => screen.line("No Service selects them."),
        Some(services) => {
            let mut header = vec!["SERVICE", "ENDPOINTS", "PROBE", "ANSWERED-BY"];
            let mut rows: Vec<Vec<String>> = services.iter().map(service_row).collect();
            if wide {
                header.push("UID");
                rows.iter_mut().zip(services).for_each(|(row, service)| row.push(service.uid.clone()));
            }
            screen.table(&header, &rows, look);
        }
    }
    if wide && !document.assumptions.is_empty() {
        screen.blank();
        screen.assumptions(&document.assumptions);
    }
    if observed.condition.as_ref().is_some_and(|condition| condition.met) {
        screen.blank();
    }
    for part in observed.condition.iter().filter(|c| c.met).flat_map(|c| &c.parts) {
        screen.line(&format!("{}: {}", part.until, part.because));
    }
    screen.into_text()
}

fn pod_row(document: &Document, pod: &PodLine) -> Vec<String> {
    let main: Vec<_> = pod.containers.iter().filter(|c| !c.init).collect();
    let ready = match pod.terminating {
        true => "Terminating".into(),
        // None has reported yet.
        false if main.is_empty() => "<none>".into(),
        false => format!("{}/{}", main.iter().filter(|c| c.ready).count(), main.len()),
    };
    let restarts = pod.containers.iter().map(|c| c.restart_count).max().unwrap_or(0);
    vec![
        pod.name.clone(),
        ready,
        pod.revision.map_or("<unknown>".into(), |number| number.to_string()),
        config(&pod.references),
        age(pod.created, document.observed_at),
        restarts.to_string(),
        probe(pod.probe.as_ref()),
    ]
}

/// The worst reference named, `+N` for further ones that are worse than LikelySame: the words of `history`.
fn config(references: &[HeldLine]) -> String {
    let of = |line: &HeldLine| line.verdict.map(verdict);
    let known = references.iter().filter_map(|line| Some((of(line)?, line)));
    let Some((worst, line)) = known.min_by_key(|(verdict, _)| *verdict) else {
        return if references.is_empty() { "<none>".into() } else { "<unknown>".into() };
    };
    let bad = references.iter().filter_map(of).filter(|v| *v < Verdict::LikelySame).count();
    let name = line.reference.split_once('/').map_or("", |(_, name)| name);
    match bad {
        0 => worst.screen().to_string(),
        1 => format!("{}:{name}", worst.screen()),
        more => format!("{}:{name}+{}", worst.screen(), more - 1),
    }
}

fn probe(probe: Option<&ProbeLine>) -> String {
    match probe {
        None => "<none>".into(),
        Some(ProbeLine { status: Some(status), .. }) => status.to_string(),
        Some(_) => "Failed".into(),
    }
}

fn service_row(service: &ServiceLine) -> Vec<String> {
    let answered = match (&service.answered_by, service.attribution) {
        (Some(by), _) => by.pod.clone(),
        (None, "unattributed") => "Unattributed".into(),
        _ => "<none>".into(),
    };
    vec![service.name.clone(), service.endpoints.len().to_string(), probe(service.probe.as_ref()), answered]
}

/// What the tables cannot hold, for stderr.
fn notes(document: &Document, observed: &Observation, typed: &[String], timeout: std::time::Duration) -> String {
    let mut notes = Screen::default();
    let pods = observed.pods.as_deref().unwrap_or_default();
    let services = observed.services.as_deref().unwrap_or_default();
    for line in trapped(document, pods) {
        notes.prose(&line);
    }
    for pod in pods {
        if let Some(error) = pod.probe.as_ref().and_then(|p| p.error.as_ref()) {
            notes.prose(&format!("Note: pod/{}: {error}.", pod.name));
        }
    }
    for service in services {
        if let Some(error) = service.probe.as_ref().and_then(|p| p.error.as_ref()) {
            notes.prose(&format!("Note: service/{}: {error}.", service.name));
        } else if let Some(why) = &service.because {
            notes.prose(&format!("Note: service/{}: which Pod answered is not known: {why}.", service.name));
        }
    }
    let Some(condition) = observed.condition.as_ref().filter(|c| !c.met) else { return notes.into_text() };
    let files = document.cluster.server == "files";
    let how = if files { "not so in the files".to_string() } else { format!("timed out after {timeout:?}") };
    for part in condition.parts.iter().filter(|part| !part.met) {
        notes.line(&format!("error: {how}: {}: {}", part.until, part.because));
    }
    for pod in &condition.look_at {
        notes.line(&format!("  pod/{}: {}", pod.pod, pod.because));
    }
    if let (Some(pod), false) = (condition.look_at.first(), files) {
        notes.line("Look at it:");
        for verb in ["describe", "logs"] {
            let mut command = vec![format!("  kubectl {verb} pod/{}", pod.pod)];
            command.push(quote(typed));
            notes.line(command.join(" ").trim_end());
        }
    }
    notes.into_text()
}

/// Pods that hold other content than today's, object by object: their next one would not read what they run with.
fn trapped(document: &Document, pods: &[PodLine]) -> Vec<String> {
    let mut names: Vec<&str> =
        pods.iter().flat_map(|pod| &pod.references).map(|line| line.reference.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut lines = Vec::new();
    for name in names {
        let with = |verdicts: &[Verdict]| {
            let alive = pods.iter().filter(|pod| !pod.terminating).flat_map(|pod| &pod.references);
            alive.filter(|l| l.reference == name && l.verdict.is_some_and(|v| verdicts.contains(&verdict(v)))).count()
        };
        let other = with(&[Verdict::Changed, Verdict::Mixed]);
        let gone = with(&[Verdict::Missing, Verdict::KeyMissing]);
        let maybe = with(&[Verdict::WrittenAfter, Verdict::WrittenDuring, Verdict::Recreated]);
        let written = document.revisions.iter().flat_map(|r| &r.references);
        let written = written.filter(|r| format!("{}/{}", r.kind, r.name) == name).find_map(|r| r.written.as_ref());
        let written = written
            .map_or(String::new(), |w| format!(", written {} ago by {}", age(Some(w.at), document.observed_at), w.by));
        let object = crate::cli::check::lower(name);
        let holds = |n: usize| format!("{} {}", count(n, "Pod"), if n == 1 { "holds" } else { "hold" });
        if other > 0 {
            lines.push(format!(
                "Note: {} other content than today's {object}{written}: the next Pod would read today's.",
                holds(other)
            ));
        }
        if gone > 0 {
            lines.push(format!("Note: {} what {object} no longer has: the next Pod would not start.", holds(gone)));
        }
        if maybe > 0 {
            let may = count(maybe, "Pod");
            lines.push(format!("Note: {may} may hold other content than today's {object}{written}."));
        }
    }
    lines
}
