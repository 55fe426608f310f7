//! `history`: the verb and its screens.

use jiff::Timestamp;

use crate::cli::args::{self, Cli};
use crate::cli::output::Output;
use crate::cli::screen::{Look, Screen, age, count, listed};
use crate::cli::undo::quote;
use crate::cli::{contents, notice, print, typed, ui, warnings};
use crate::core::report::{Document, Evidence, Reference, Revision};
use crate::core::verdict::Verdict;
use crate::core::workload::{self, Target};
use crate::run::{self, Failure};

pub async fn verb(cli: &Cli, args: &args::History) -> Result<u8, Failure> {
    if let Some(name) = workload::config_map(&args.target.workload)? {
        return contents::verb(cli, args, &name).await;
    }
    let target = Target::parse(&args.target.workload)?;
    let scene = run::scene(&cli.connection.flags(), &args.target.from_file, notice).await?;
    let document = run::history::run(&scene, target.as_ref(), args.revision, Timestamp::now()).await?;
    warnings(&document);
    let output = args.output.clone().unwrap_or_default();
    match &output {
        output @ (Output::Table | Output::Wide) if args.revision.is_none() => {
            let typed = typed(&cli.connection, &args.target.from_file);
            let (table, notes) = table(&document, output.is_wide(), ui::look(), &typed);
            ui::out(&table);
            if !notes.is_empty() {
                ui::err(&format!("\n{notes}"));
            }
        }
        Output::Table | Output::Wide => ui::out(&detail(&document)),
        output => print(&document, output)?,
    }
    Ok(0)
}

/// The report's word → the verdict.
pub fn verdict(word: &str) -> Verdict {
    Verdict::ALL.into_iter().find(|v| v.word() == word).unwrap_or(Verdict::Unknown)
}

/// `configmap/settings`
pub fn object(reference: &Reference) -> String {
    format!("{}/{}", reference.kind.to_lowercase(), reference.name)
}

pub fn headline(document: &Document) -> String {
    format!("{}.apps/{}", document.workload.kind.to_lowercase(), document.workload.name)
}

/// The worst reference named, `+N` for further ones that are worse than LikelySame.
pub fn config_now(revision: &Revision) -> String {
    let Some(worst) = revision.references.iter().min_by_key(|r| verdict(r.verdict)) else { return "<none>".into() };
    let bad = revision.references.iter().filter(|r| verdict(r.verdict) < Verdict::LikelySame).count();
    let word = verdict(worst.verdict).screen();
    match bad {
        0 => word.to_string(),
        1 => format!("{word}:{}", worst.name),
        more => format!("{word}:{}+{}", worst.name, more - 1),
    }
}

fn images(revision: &Revision, whole: bool) -> String {
    let images = revision.images.values().map(|image| match image.rsplit_once('/') {
        Some((_, last)) if !whole => last.to_string(),
        _ => image.clone(),
    });
    let images: Vec<String> = images.collect();
    if images.is_empty() { "<none>".into() } else { images.join(",") }
}

fn numbers(numbers: &[u64]) -> String {
    if numbers.is_empty() { "<none>".into() } else { numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",") }
}

fn active(revision: &Revision) -> String {
    match (revision.current, revision.retired) {
        (true, _) => "now".into(),
        (_, Some(retired)) if revision.activity_known => age(revision.first_started, retired),
        _ => "<unknown>".into(),
    }
}

/// The table, and the notes that go to stderr.
pub fn table(document: &Document, wide: bool, look: Look, typed: &[String]) -> (String, String) {
    let mut screen = Screen::default();
    if look.headers {
        screen.line(&headline(document));
    }
    let mut header = vec!["REVISION", "AGE", "ACTIVE", "READY", "CONFIG-NOW", "IMAGES"];
    if wide {
        header.extend(["FORMER", "OBJECT"]);
    }
    header.push("CHANGE-CAUSE");
    let rows: Vec<Vec<String>> = document
        .revisions
        .iter()
        .map(|r| {
            let mut row = vec![
                r.number.to_string(),
                age(r.first_started, document.observed_at),
                active(r),
                format!("{}/{}", r.pods.ready, r.pods.total),
                config_now(r),
                images(r, wide),
            ];
            if wide {
                row.extend([numbers(&r.former_numbers), format!("{}/{}", r.object.kind.to_lowercase(), r.object.name)]);
            }
            row.push(r.change_cause.clone().filter(|c| !c.is_empty()).unwrap_or_else(|| "<none>".into()));
            row
        })
        .collect();
    screen.table(&header, &rows, look);
    if wide && !document.assumptions.is_empty() {
        screen.blank();
        screen.assumptions(&document.assumptions);
    }
    (screen.into_text(), notes(document, typed))
}

fn notes(document: &Document, typed: &[String]) -> String {
    let mut notes = Screen::default();
    for revision in document.revisions.iter().filter(|r| !r.former_numbers.is_empty()) {
        let former = revision.former_numbers.iter().map(u64::to_string).collect::<Vec<_>>();
        let word = if former.len() == 1 { "revision" } else { "revisions" };
        notes.prose(&format!(
            "Note: {word} {} is now revision {} (its ReplicaSet was reused).",
            listed(&former),
            revision.number
        ));
    }
    let gone = gaps(document);
    if !gone.is_empty() {
        let word = if gone.len() == 1 { "revision" } else { "revisions" };
        notes.prose(&format!("Note: {word} {} gone from the history.", is_are(&gone)));
    }
    for revision in document.revisions.iter().filter(|r| r.damaged.is_some()) {
        let why = revision.damaged.as_deref().unwrap_or("");
        notes.prose(&format!("Note: revision {} is damaged: {why}.", revision.number));
    }
    for odd in &document.unnumbered {
        notes.prose(&format!("Note: {}/{} is no revision: {}.", odd.kind.to_lowercase(), odd.name, odd.reason));
    }
    if let Some((revision, reference)) = trap(document) {
        notes.prose(&trap_note(document, revision, reference));
        let mut command = vec!["kubectl saferollback".to_string()];
        let recovered = reference.candidates.first().filter(|c| c.grade != "none" && c.to.is_some());
        let asked = format!("{}/{}", document.workload.kind.to_lowercase(), document.workload.name);
        match recovered {
            Some(candidate) => {
                match candidate.source {
                    "time-travel" => {
                        notes.prose("The earlier content can be read for a few minutes more. Save it, or roll back:");
                        let mut save = command.clone();
                        save.push(format!("snapshot create {asked} --revision {}", revision.number));
                        save.push(quote(typed));
                        notes.line(&format!("  {}", save.join(" ").trim_end()));
                    }
                    _ => notes.prose("The earlier content is there. Roll back with it:"),
                }
                command.push(format!("undo {asked} --to-revision {}", revision.number));
            }
            None => {
                notes.prose("Reasons:");
                command.push(format!("history {asked} --revision {}", revision.number));
            }
        }
        command.push(quote(typed));
        notes.line(&format!("  {}", command.join(" ").trim_end()));
    } else if let Some((revision, reference)) = fleeting(document) {
        let asked = format!("{}/{}", document.workload.kind.to_lowercase(), document.workload.name);
        notes.prose(&format!(
            "Note: what revision {} read from {} can be read from the API's history for a few minutes more. Save it:",
            revision.number,
            object(reference)
        ));
        let mut command = vec![format!("kubectl saferollback snapshot create {asked} --revision {}", revision.number)];
        command.push(quote(typed));
        notes.line(&format!("  {}", command.join(" ").trim_end()));
    }
    notes.into_text()
}

/// A content that is known, no longer there, and not saved yet.
fn fleeting(document: &Document) -> Option<(&Revision, &Reference)> {
    document.revisions.iter().rev().find_map(|r| {
        let soon_gone = |x: &&Reference| {
            x.candidates.first().is_some_and(|c| c.source == "time-travel" && c.grade != "none")
                && verdict(x.verdict) < Verdict::LikelySame
        };
        Some((r, r.references.iter().find(soon_gone)?))
    })
}

/// Numbers between the first and the last that no ReplicaSet has or had.
fn gaps(document: &Document) -> Vec<String> {
    let known: Vec<u64> =
        document.revisions.iter().flat_map(|r| r.former_numbers.iter().copied().chain([r.number])).collect();
    let (Some(first), Some(last)) = (known.iter().min(), known.iter().max()) else { return Vec::new() };
    (*first..*last).filter(|n| !known.contains(n)).take(20).map(|n| n.to_string()).collect()
}

fn is_are(words: &[String]) -> String {
    format!("{} {}", listed(words), if words.len() == 1 { "is" } else { "are" })
}

/// The trap: Pods that run with another content than their next one would read.
pub fn trap(document: &Document) -> Option<(&Revision, &Reference)> {
    let written = [Verdict::Changed, Verdict::Mixed, Verdict::WrittenAfter, Verdict::WrittenDuring];
    document.revisions.iter().rev().filter(|r| r.pods.total > 0).find_map(|r| {
        let reference = r.references.iter().find(|x| written.contains(&verdict(x.verdict)))?;
        Some((r, reference))
    })
}

pub fn trap_note(document: &Document, revision: &Revision, reference: &Reference) -> String {
    let written = match &reference.written {
        Some(w) => format!("was written {} ago by {}", age(Some(w.at), document.observed_at), w.by),
        None => "was written since".into(),
    };
    let pods = count(revision.pods.total, "Pod");
    let (run, its) = if revision.pods.total == 1 { ("runs", "its") } else { ("run", "its") };
    let sure = verdict(reference.verdict);
    match sure {
        Verdict::Changed | Verdict::WrittenAfter => format!(
            "Note: {} {written}. Revision {}'s {pods} {run} with the content from before; {its} next Pod would not.",
            object(reference),
            revision.number
        ),
        _ => format!(
            "Note: {} {written}, while revision {} ran: its {pods} may differ from its next one.",
            object(reference),
            revision.number
        ),
    }
}

/// Everything about one revision.
pub fn detail(document: &Document) -> String {
    let mut screen = Screen::default();
    let Some(r) = document.revisions.first() else { return screen.into_text() };
    let now = document.observed_at;
    screen.line(&format!("{} with revision #{}", headline(document), r.number));
    let mut field = |name: &str, text: &str| screen.hanging(&format!("{name:<15}"), text);
    field("Object:", &format!("{}/{}", r.object.kind.to_lowercase(), r.object.name));
    if !r.former_numbers.is_empty() {
        field("Former:", &numbers(&r.former_numbers));
    }
    field(
        "Active:",
        &match (r.current, r.retired) {
            (true, _) => format!("now, first started {} ago", age(r.first_started, now)),
            (_, Some(at)) => format!("{}, until {} ago", active(r), age(Some(at), now)),
            _ => "<unknown>".into(),
        },
    );
    field(
        "Pods:",
        &match r.pods.total {
            0 => "none".to_string(),
            n => format!(
                "{n} running, {} ready, started {} ago, {}",
                r.pods.ready,
                age(r.pods.oldest_start, now),
                count(usize::try_from(r.pods.restarts).unwrap_or(0), "restart")
            ),
        },
    );
    let images: Vec<String> = r.images.iter().map(|(container, image)| format!("{container}={image}")).collect();
    field("Images:", &images.join(" "));
    field("Change-Cause:", r.change_cause.as_deref().unwrap_or("<none>"));
    field("Config now:", &format!("{}{}", config_now(r), if r.failing { ", but failing" } else { "" }));
    for pod in &r.set_aside {
        field("Set aside:", &format!("pod/{}: {}", pod.pod, pod.reason));
    }
    if let Some(damaged) = &r.damaged {
        field("Damaged:", damaged);
    }
    screen.blank();
    for reference in &r.references {
        one_reference(&mut screen, document, reference);
    }
    if !r.references.is_empty() {
        screen.blank();
    }
    screen.hanging("Not traced: ", "what the process reads through the API or from outside the cluster");
    for not in &document.not_traced {
        screen.hanging("            ", &format!("{} ({})", not.what, not.pointer));
    }
    screen.assumptions(&document.assumptions);
    screen.into_text()
}

pub fn short(digest: &str) -> String {
    match head(digest) {
        head if head.len() < digest.len() => format!("{head}..."),
        whole => whole.to_string(),
    }
}

/// As much of a digest as is typed to mean it.
pub fn head(digest: &str) -> &str {
    digest.char_indices().nth(16).map_or(digest, |(at, _)| &digest[..at])
}

fn one_reference(screen: &mut Screen, document: &Document, reference: &Reference) {
    let now = document.observed_at;
    let sure = verdict(reference.verdict);
    screen.line(&format!("{}: {}", object(reference), sure.screen()));
    let mut field = |name: &str, text: &str| screen.hanging(&format!("  {name:<11}"), text);
    for used in &reference.uses {
        let container = used.container.as_ref().map_or("the Pod".to_string(), |c| format!("container {c}"));
        let how =
            used.pointer.split('/').nth(if used.pointer.starts_with("/spec/volumes") { 2 } else { 4 }).unwrap_or("");
        let keys = used.keys.as_ref().map_or(String::new(), |k| format!(" {}", k.join(" ")));
        let when = match used.read {
            "container-start" => "read when the container starts",
            "refreshed-mount" => "mounted, and refreshed while it runs",
            "mount" => "mounted by subPath: read when the container starts",
            "unmounted" => "no container mounts it",
            "image-pull" => "read when the image is pulled",
            _ => "read by the volume's driver",
        };
        let optional = if used.optional { ", optional" } else { "" };
        field("Used by:", &format!("{container}, {how}{keys}; {when}{optional}"));
    }
    if reference.injected {
        field("Injected:", "the template does not name it; Pods get it at admission");
    }
    let digest = &reference.digest;
    let written = reference.written.as_ref();
    let written = written.map_or(String::new(), |w| format!("  written {} ago by {}", age(Some(w.at), now), w.by));
    match (&digest.read, reference.candidates.first().filter(|c| c.grade != "none")) {
        (Some(read), candidate) => {
            let until =
                candidate.and_then(|c| c.to).map_or(String::new(), |t| format!("  until {} ago", age(Some(t), now)));
            field("Ran with:", &format!("{}{until} (proven)", short(read)));
        }
        (None, Some(c)) if c.source != "live" => {
            let until = c.to.map_or(String::new(), |t| format!("  until {} ago", age(Some(t), now)));
            field("Ran with:", &format!("{}{until} ({}, {})", short(&c.digest), source(c.source), c.grade));
        }
        _ => {}
    }
    match (&digest.live, reference.kind.as_str()) {
        (Some(live), _) => field("Now:", &format!("{}{written}", short(live))),
        (None, "Secret") if reference.uid.is_some() => {
            field("Digest:", "not computed, Secrets are read as metadata only");
        }
        _ => {}
    }
    if sure == Verdict::Changed {
        let verb = if reference.differing_keys.len() == 1 { "differs" } else { "differ" };
        field("Keys:", &format!("{} {verb}", listed(&reference.differing_keys)));
    }
    // One line for all that say the same of different Pods.
    let mut label = "Because:";
    for (i, evidence) in reference.evidence.iter().enumerate() {
        let alike = |e: &&Evidence| (e.source, e.says, e.proof) == (evidence.source, evidence.says, evidence.proof);
        if reference.evidence.iter().take(i).any(|e| alike(&e)) {
            continue;
        }
        let more = reference.evidence.iter().skip(i + 1).filter(alike).count();
        let more = if more == 0 { String::new() } else { format!(" (and {more} more alike)") };
        field(label, &format!("{}{more}", evidence.detail));
        label = "";
    }
}

/// Where a content was found, for a person.
pub fn source(word: &str) -> &str {
    match word {
        "time-travel" => "API history",
        "dump" => "the files",
        "last-applied" => "last applied",
        "file" => "given by you",
        "snapshot" => "own snapshot",
        other => other,
    }
}
