//! The screens of `undo`: the plan, or the refusal with the ways on.

pub mod verb;

use crate::cli::check::{because, lower};
use crate::cli::history::{headline, object, source, verdict};
use crate::cli::screen::{Look, Screen, age, count, listed};
use crate::core::plan::Plan;
use crate::core::policy::Config;
use crate::core::report::{ActionLine, Document, DocumentKind, Outcome, Reference, Revision, Undo};
use crate::core::substitute::Verify;
use crate::run::undo::Request;

/// `Revision 2 -> revision 1`
fn arrow(undo: &Undo) -> String {
    match undo.from {
        Some(from) => format!("Revision {from} -> revision {}", undo.target),
        None => format!("To revision {}", undo.target),
    }
}

/// `deployment.apps/web, namespace shop, context prod-eu`
pub fn place(document: &Document) -> String {
    let mut place = headline(document);
    if !document.workload.namespace.is_empty() {
        place.push_str(&format!(", namespace {}", document.workload.namespace));
    }
    if !document.cluster.context.is_empty() {
        place.push_str(&format!(", context {}", document.cluster.context));
    }
    place
}

/// `deployment/web`
fn title(document: &Document) -> String {
    format!("{}/{}", document.workload.kind.to_lowercase(), document.workload.name)
}

/// Several workloads in one table, and what their Pods do.
pub fn plans(plans: &[(Document, Plan)], look: Look) -> String {
    let mut screen = Screen::default();
    let Some((first, _)) = plans.first() else { return screen.into_text() };
    let mut place = format!("namespace {}", first.workload.namespace);
    if !first.cluster.context.is_empty() {
        place.push_str(&format!(", context {}", first.cluster.context));
    }
    screen.line(&place);
    let mut rows = Vec::new();
    for (document, plan) in plans {
        let (Outcome::Undo(undo), Some(revision)) = (&document.outcome, document.revisions.first()) else { continue };
        let from = undo.from.map_or("<unknown>".to_string(), |from| from.to_string());
        let arrow = format!("{from}->{}", undo.target);
        if plan.nothing_to_do || revision.references.is_empty() {
            let last = if plan.nothing_to_do { "nothing to do" } else { "its template names no ConfigMap or Secret" };
            let none = || "<none>".to_string();
            rows.push(vec![title(document), arrow, none(), none(), none(), last.to_string()]);
            continue;
        }
        for (action, reference) in undo.actions.iter().zip(&revision.references) {
            let last = match action.action {
                "refuse" => because(document, reference),
                _ => reads(action, reference),
            };
            let mut cells = vec![title(document), arrow.clone()];
            cells.extend(row(action, reference, last));
            rows.push(cells);
        }
    }
    let header = ["WORKLOAD", "REVISION", "REFERENCE", "CONFIG-NOW", "UNDO", "A NEW POD WILL READ"];
    screen.table(&header, &rows, look);
    screen.blank();
    for (document, plan) in plans.iter().filter(|(_, plan)| !plan.refused() && !plan.nothing_to_do) {
        screen.hanging("Pods      ", &format!("{}: {}", title(document), pods(plan)));
    }
    screen.into_text()
}

/// One line for logs, beside a document on stdout.
pub fn brief(document: &Document) -> String {
    let Outcome::Undo(undo) = &document.outcome else { return String::new() };
    let mut arrow = arrow(undo);
    if let Some(first) = arrow.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    let mut screen = Screen::default();
    screen.line(&format!("{}: {arrow}", place(document)));
    screen.into_text()
}

/// The plan as a person reads it before saying yes.
pub fn plan(document: &Document, plan: &Plan, wide: bool, look: Look) -> String {
    let mut screen = Screen::default();
    let Outcome::Undo(undo) = &document.outcome else { return screen.into_text() };
    if plan.nothing_to_do {
        return screen.into_text();
    }
    screen.line(&place(document));
    screen.line(&arrow(undo));
    let Some(revision) = document.revisions.first() else { return screen.into_text() };
    if revision.references.is_empty() {
        screen.line("Its template names no ConfigMap or Secret.");
    } else if plan.refused() {
        let rows: Vec<Vec<String>> =
            undo.actions.iter().zip(&revision.references).map(|(a, r)| row(a, r, because(document, r))).collect();
        screen.table(&["REFERENCE", "CONFIG-NOW", "UNDO", "BECAUSE"], &rows, look);
    } else {
        let rows: Vec<Vec<String>> =
            undo.actions.iter().zip(&revision.references).map(|(a, r)| row(a, r, reads(a, r))).collect();
        screen.table(&["REFERENCE", "CONFIG-NOW", "UNDO", "A NEW POD WILL READ"], &rows, look);
    }
    if plan.refused() {
        return screen.into_text();
    }
    screen.blank();
    for (action, reference) in undo.actions.iter().zip(&revision.references) {
        if action.action == "pin" {
            screen.hanging("Content   ", &content(document, revision, action, reference));
        }
    }
    screen.hanging("Template  ", &template(plan));
    screen.hanging("Pods      ", &pods(plan));
    let untouched: Vec<String> = undo
        .also_reading
        .iter()
        .map(|(id, readers)| {
            let readers: Vec<String> = readers.iter().cloned().collect();
            match readers.len() {
                0 => lower(id),
                1 => format!("{}; {} reads it too", lower(id), readers[0]),
                _ => format!("{}; {} read it too", lower(id), listed(&readers)),
            }
        })
        .collect();
    if !untouched.is_empty() {
        screen.hanging("Untouched ", &untouched.join(". "));
    }
    for owner in &plan.owners.owners {
        let label = if owner.tool.writes_templates() { "Owned by  " } else { "Scaled by " };
        screen.hanging(label, &format!("{}, which {}", owner.title(), owner.deed()));
    }
    match (plan.verify, plan.replicas()) {
        (Verify::Rollout | Verify::None, _) => {}
        (Verify::Replace, 0) => {
            screen.hanging("Verify    ", "0 replicas are wanted: no Pod can be replaced, so nothing is proven")
        }
        (Verify::Replace, 1) => {
            screen.hanging("Verify    ", "then the only Pod is evicted: nobody answers until its substitute is ready");
        }
        (Verify::Replace, n) => {
            let words = format!("then 1 of the {n} Pods is evicted, and its substitute must start as planned");
            screen.hanging("Verify    ", &words);
        }
    }
    if let Some(back) = &plan.back {
        screen.hanging("Failing   ", &format!("goes back to revision {}{}", back.to, left(back)));
    }
    if !plan.falls_out.is_empty() {
        let numbers: Vec<String> = plan.falls_out.iter().map(u64::to_string).collect();
        let word = if numbers.len() == 1 { "revision" } else { "revisions" };
        screen.hanging("History   ", &format!("{word} {} will be gone (revisionHistoryLimit)", listed(&numbers)));
    }
    screen.line("Not rolled back: Secret values, databases, requests already sent");
    if wide {
        screen.assumptions(&document.assumptions);
    }
    screen.into_text()
}

/// With which configuration the way back goes.
fn left(back: &Plan) -> String {
    let pinned: Vec<String> = back.snapshots.iter().map(|s| s.name.clone()).collect();
    match (pinned.is_empty(), back.decisions.is_empty()) {
        (false, _) => format!(", with {}", listed(&pinned)),
        (true, false) => ", with its configuration as it is now".into(),
        (true, true) => String::new(),
    }
}

fn reads(action: &ActionLine, reference: &Reference) -> String {
    match &action.to {
        Some(snapshot) if action.source == Some("snapshot") => snapshot.clone(),
        Some(snapshot) => format!("{snapshot} (new)"),
        None => format!("{} as it is now", reference.name),
    }
}

fn row(action: &ActionLine, reference: &Reference, last: String) -> Vec<String> {
    vec![object(reference), verdict(reference.verdict).screen().to_string(), action.action.to_string(), last]
}

fn content(document: &Document, revision: &Revision, action: &ActionLine, reference: &Reference) -> String {
    let name = &reference.name;
    let chosen = reference.candidates.iter().find(|c| Some(c.source) == action.source && c.grade == action.grade);
    let whose = match revision.pods.total {
        0 => format!("revision {}", revision.number),
        _ => format!("revision {}'s Pods", revision.number),
    };
    match (action.source, chosen) {
        (Some("file"), _) => format!("{name} as given by you; not compared with what {whose} read"),
        (Some("snapshot"), Some(candidate)) if candidate.grade != "none" => {
            format!("{name} as a record says, {} what {whose} read", grade(candidate.grade))
        }
        (Some("live"), _) => format!("{name} as it is now, {} what {whose} read", grade(action.grade)),
        (Some(word), Some(candidate)) => {
            let until = match candidate.to {
                Some(to) => format!("as it was until {} ago", age(Some(to), document.observed_at)),
                None => "as it was".into(),
            };
            match candidate.grade {
                "none" => format!("{name} {until} ({}), chosen by you", source(word)),
                _ => format!("{name} {until} ({}), {} what {whose} read", source(word), grade(candidate.grade)),
            }
        }
        _ => format!("{name}, chosen by you"),
    }
}

fn grade(word: &str) -> &'static str {
    match word {
        "proof" => "proven to be",
        "likely" => "likely",
        _ => "not known to be",
    }
}

fn template(plan: &Plan) -> String {
    let annotations = plan.differs.iter().filter(|p| p.starts_with("/metadata/annotations")).count();
    let images = plan.differs.iter().filter(|p| p.ends_with("/image")).count();
    let others = plan.differs.len() - annotations - images;
    let mut parts = Vec::new();
    if annotations > 0 {
        parts.push(differ(annotations, "annotation"));
    }
    if others > 0 {
        parts.push(differ(others, "field"));
    }
    match (images, parts.is_empty()) {
        (0, true) => return "no difference but the pinned names".into(),
        (0, false) => parts.push("images are the same".into()),
        (n, _) => parts.push(differ(n, "image")),
    }
    parts.join(", ")
}

fn differ(n: usize, one: &str) -> String {
    format!("{} {}", count(n, one), if n == 1 { "differs" } else { "differ" })
}

fn pods(plan: &Plan) -> String {
    let p = plan.pods;
    let target = plan.to;
    let ready = |ready: usize, all: usize| match (ready, all) {
        (0, _) => "not ready".to_string(),
        (ready, all) if ready == all => "ready".into(),
        (ready, _) => format!("{ready} ready"),
    };
    let verb = |n: usize| if n == 1 { "starts" } else { "start" };
    let mut text = format!("{} {}.", p.start, verb(p.start));
    if p.stay > 0 {
        let stays = if p.stay == 1 { "stays" } else { "stay" };
        text.push_str(&format!(" {} of revision {target} {stays} ({}).", p.stay, ready(p.stay_ready, p.stay)));
    }
    if p.go > 0 {
        let mut from = Vec::new();
        if p.go_target > 0 {
            from.push(format!("{} of revision {target} ({})", p.go_target, ready(p.go_target_ready, p.go_target)));
        }
        if p.go_other > 0 {
            let whose =
                plan.from.filter(|f| *f != target).map_or("other revisions".into(), |f| format!("revision {f}"));
            from.push(format!("{} of {whose} ({})", p.go_other, ready(p.go_other_ready, p.go_other)));
        }
        let go = if p.go == 1 { "goes" } else { "go" };
        match from.as_slice() {
            [one] => text.push_str(&format!(" {one} {go}.")),
            many => text.push_str(&format!(" {} {go}: {}.", p.go, many.join(", "))),
        }
    }
    match p.floor {
        None => text.push_str(&format!(" All go before the first starts ({}).", plan.strategy)),
        Some(floor) if p.start > 0 => text.push_str(&format!(" Never below {floor} ready ({})", plan.strategy)),
        Some(_) => {}
    }
    text
}

/// The error and the ways on, for stderr.
pub fn refusal(document: &Document) -> String {
    let mut screen = Screen::default();
    let Outcome::Undo(undo) = &document.outcome else { return screen.into_text() };
    let what = if undo.written.is_empty() { "nothing was written" } else { "the workload was not written" };
    for refusal in &undo.refusals {
        screen.prose(&format!("error: refused, {what}: {}", refusal.message));
    }
    for line in &undo.looked_in {
        screen.hanging("Looked in      ", line);
    }
    if !undo.looked_in.is_empty() && !undo.not_looked_in.is_empty() {
        screen.hanging("Not looked in  ", &undo.not_looked_in.join(", "));
    }
    if !undo.ways_on.is_empty() {
        screen.blank();
        screen.line("Ways on, safest first:");
    }
    for way in &undo.ways_on {
        screen.line(&format!("  # {}", way.why));
        screen.line(&format!("  {}", quote(&way.argv)));
    }
    screen.into_text()
}

/// What remains to be done, and the way back.
pub fn afterwards(document: &Document, request: &Request, several: bool) -> String {
    let mut screen = Screen::default();
    let Outcome::Undo(undo) = &document.outcome else { return screen.into_text() };
    if undo.outcome == "planned" && document.kind == DocumentKind::Plan {
        screen.blank();
        screen.line("Nothing was written. With -o yaml: the objects to apply.");
    } else if undo.outcome == "planned" {
        screen.line("Nothing was written.");
    }
    if undo.outcome != "done" {
        return screen.into_text();
    }
    let name = &document.workload.name;
    let pinned: Vec<String> = undo.actions.iter().filter(|a| a.action == "pin").map(|a| lower(&a.reference)).collect();
    screen.blank();
    if !pinned.is_empty() {
        let holds = if pinned.len() == 1 { "holds the edit" } else { "hold the edits" };
        screen.prose(&format!(
            "Still to do: {name}'s manifest names {}, which {holds}. The next deploy of that manifest brings the problem back.",
            listed(&pinned)
        ));
    } else if request.rules.config == Config::Live {
        screen.prose("Still to do: the configuration itself was not rolled back.");
    }
    if let Some(from) = undo.from {
        let mut argv: Vec<String> = ["kubectl", "saferollback", "undo"].map(String::from).to_vec();
        match several {
            true => argv.push(title(document)),
            false => argv.extend(request.words.iter().cloned()),
        }
        argv.extend(request.typed.iter().cloned());
        argv.extend(["--to-revision".to_string(), from.to_string()]);
        screen.line(&format!("To return: {}", quote(&argv)));
    }
    screen.into_text()
}

/// A command that can be pasted into a shell.
pub fn quote(argv: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+".contains(c);
    let words: Vec<String> = argv
        .iter()
        .map(|word| match !word.is_empty() && word.chars().all(plain) {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', "'\\''")),
        })
        .collect();
    words.join(" ")
}
