//! `status`: the verb, the answer, and the tree that is drawn while it watches.

use std::cell::RefCell;
use std::collections::BTreeSet;

use dialoguer::console::{measure_text_width, truncate_str};
use jiff::Timestamp;

use crate::cli::args::{self, Cli};
use crate::cli::history::{config_now, headline, trap, trap_note};
use crate::cli::output::Output;
use crate::cli::screen::{Screen, count, escape};
use crate::cli::ui;
use crate::cli::{interrupted, notice, print, typed, undo, warnings};
use crate::core::pods::{PodLine, Standing};
use crate::core::report::{Document, Outcome};
use crate::core::rollout::Progress;
use crate::core::workload::Target;
use crate::run::Waiting;
use crate::run::{self, Failure};

pub async fn verb(cli: &Cli, args: &args::Status) -> Result<u8, Failure> {
    let target = Target::parse(&args.target.workload)?;
    let watcher = RefCell::new(Watcher::new(ui::can_draw()));
    let work = async {
        let scene = run::scene(&cli.connection.flags(), &args.target.from_file, notice).await?;
        if !args.watch {
            return run::status::look(&scene, target.as_ref(), Timestamp::now()).await;
        }
        let mut voice = Shared(&watcher);
        run::status::watch(&scene, target.as_ref(), args.timeout, &mut voice, Timestamp::now()).await
    };
    let document = tokio::select! {
        document = work => document?,
        code = interrupted() => {
            let mut again = ["kubectl", "saferollback", "status"].map(String::from).to_vec();
            again.extend(args.target.workload.iter().cloned());
            again.extend(typed(&cli.connection, &args.target.from_file));
            if args.watch {
                again.push("--watch".to_string());
            }
            let stood = match watcher.borrow().stands() {
                "" => "it was not looked at yet".to_string(),
                line => line.trim_end_matches("...").to_string(),
            };
            let again = undo::quote(&again);
            ui::err(&format!("\n{}\n", escape(&format!("interrupted: {stood}; nothing was changed. Go on with: {again}"))));
            return Ok(code);
        }
    };
    warnings(&document);
    ui::err(&failure(&document));
    let output = args.output.clone().unwrap_or_default();
    match &output {
        Output::Table | Output::Wide => {
            ui::out(&screen(&document));
            ui::err(&notes(&document));
        }
        output => print(&document, output)?,
    }
    match &document.outcome {
        Outcome::Status(status) => Ok(status.exit_code),
        _ => Ok(0),
    }
}

/// The answer. A failure's sentence is not here but on stderr.
pub fn screen(document: &Document) -> String {
    let mut screen = Screen::default();
    let Outcome::Status(status) = &document.outcome else { return screen.into_text() };
    if ["done", "waiting"].contains(&status.phase) {
        screen.line(&status.sentence);
    }
    match document.revisions.first() {
        Some(revision) => {
            let ready = format!("{}/{}", revision.pods.ready, status.wanted);
            let row = vec![revision.number.to_string(), ready, config_now(revision)];
            screen.table(&["REVISION", "READY", "CONFIG-NOW"], &[row], ui::look());
        }
        None => screen.line(&format!("{}: its template belongs to no revision yet", headline(document))),
    }
    if status.phase == "done" || status.phase == "waiting" {
        for line in &status.said {
            screen.line(line);
        }
        match status.terminating {
            0 => {}
            n => screen.line(&format!("{} still terminating", count(n, "old Pod"))),
        }
    }
    screen.into_text()
}

/// What the next Pod would read, where that is not what these read; for stderr.
pub fn notes(document: &Document) -> String {
    let mut screen = Screen::default();
    if let Some((revision, reference)) = trap(document) {
        screen.prose(&trap_note(document, revision, reference));
    }
    screen.into_text()
}

/// Why it failed, for stderr.
pub fn failure(document: &Document) -> String {
    let mut screen = Screen::default();
    let Outcome::Status(status) = &document.outcome else { return screen.into_text() };
    if status.exit_code != 0 {
        screen.line(&format!("error: {}", status.sentence));
        for line in &status.said {
            screen.line(&format!("  {line}"));
        }
    }
    screen.into_text()
}

/// Says the changes in lines, or draws a tree in place where somebody looks.
#[derive(Default)]
pub struct Watcher {
    /// Lines of the frame that stands.
    drawn: usize,
    frame: Vec<String>,
    stands: String,
    told: BTreeSet<String>,
    /// Is there a screen to draw on?
    draws: bool,
}

impl Watcher {
    pub fn new(draws: bool) -> Watcher {
        Watcher { draws, ..Watcher::default() }
    }

    /// Where it stood, for the last line of an interruption.
    pub fn stands(&self) -> &str {
        &self.stands
    }

    /// Below the frame, which stays.
    fn line(&mut self, line: &str) {
        ui::err(&format!("{}\n", escape(line)));
        self.drawn = 0;
        self.frame.clear();
    }
}

/// A watcher that an interruption can ask, too.
pub struct Shared<'a>(pub &'a RefCell<Watcher>);

impl Waiting for Shared<'_> {
    fn progress(&mut self, line: &str) {
        self.0.borrow_mut().progress(line);
    }

    fn note(&mut self, line: &str) {
        self.0.borrow_mut().note(line);
    }

    fn standing(&mut self, standing: &Standing) {
        self.0.borrow_mut().standing(standing);
    }
}

impl Waiting for Watcher {
    fn progress(&mut self, line: &str) {
        if !self.draws {
            self.line(line);
        }
    }

    fn note(&mut self, line: &str) {
        self.line(&format!("Note: {line}"));
    }

    fn standing(&mut self, standing: &Standing) {
        let (Progress::Done(line) | Progress::Failed(line) | Progress::Waiting(line)) = &standing.progress;
        self.stands.clone_from(line);
        if self.draws {
            let (height, width) = ui::size();
            let frame = tree(standing, height, width);
            if frame == self.frame {
                return;
            }
            let mut text = String::new();
            if self.drawn > 0 {
                // To the first line of the last frame, and nothing of it left.
                text.push_str(&format!("\x1b[{}A\r\x1b[J", self.drawn));
            }
            for line in &frame {
                text.push_str(line);
                text.push('\n');
            }
            ui::draw();
            ui::err(&text);
            self.drawn = frame.len();
            self.frame = frame;
            return;
        }
        let now: BTreeSet<String> = standing.said().into_iter().collect();
        for line in now.difference(&self.told.clone()) {
            self.line(&format!("Note: {line}"));
        }
        self.told = now;
    }
}

/// The rollout as a tree of at most `height - 1` lines (the cursor has the last one), each within `width`.
pub fn tree(standing: &Standing, height: usize, width: usize) -> Vec<String> {
    let (Progress::Done(line) | Progress::Failed(line) | Progress::Waiting(line)) = &standing.progress;
    let mut lines = vec![line.trim_end_matches("...").to_string()];
    let room = height.saturating_sub(2).max(1);
    let mut groups: Vec<(String, Vec<&PodLine>)> = Vec::new();
    for pod in &standing.pods {
        let name = pod.revision.map_or("<unknown>".to_string(), |n| format!("revision {n}"));
        match groups.last_mut().filter(|(last, _)| *last == name) {
            Some((_, pods)) => pods.push(pod),
            None => groups.push((name, vec![pod])),
        }
    }
    // One line a group, one for what is left out of it, and the rest for Pods: those first that are not well.
    let mut spare = room.saturating_sub(groups.len());
    let last = groups.len().saturating_sub(1);
    for (i, (name, mut pods)) in groups.into_iter().enumerate() {
        let (branch, stem) = if i == last { ("└─", "   ") } else { ("├─", "│  ") };
        let current = pods.first().is_some_and(|p| p.current);
        let ready = pods.iter().filter(|p| p.ready && !p.terminating).count();
        let all = if current { usize::try_from(standing.wanted).unwrap_or(0) } else { pods.len() };
        let head =
            if current { format!("{name}   {ready}/{all} ready") } else { format!("{name}   {}", count(all, "Pod")) };
        lines.push(format!("{branch} {head}"));
        pods.sort_by_key(|pod| (trouble(standing, pod).is_none(), pod.terminating, pod.ready, &pod.name));
        let shown = if pods.len() <= spare { pods.len() } else { spare.saturating_sub(1) };
        for pod in pods.iter().take(shown) {
            let end = if shown == pods.len() && pods.last().is_some_and(|l| l.name == pod.name) {
                "└─"
            } else {
                "├─"
            };
            lines.push(format!("{stem}{end} pod/{}   {}", pod.name, state(standing, pod)));
        }
        if shown < pods.len() && spare > 0 {
            lines.push(format!("{stem}└─ {}", rest(&pods[shown..])));
            spare -= 1;
        }
        spare = spare.saturating_sub(shown);
    }
    for line in standing.troubles.iter().filter(|t| !t.object.starts_with("pod/")).take(spare) {
        lines.push(standing.sentence(line));
    }
    lines.truncate(height.saturating_sub(1).max(1));
    let fits = |line: String| {
        let line = escape(&line);
        if measure_text_width(&line) < width {
            line
        } else {
            truncate_str(&line, width.saturating_sub(1), "...").into_owned()
        }
    };
    lines.into_iter().map(fits).collect()
}

/// `+37 ready`
fn rest(pods: &[&PodLine]) -> String {
    let words = ["terminating", "not ready", "ready"].into_iter().filter_map(|word| {
        match pods.iter().filter(|p| plain(p) == word).count() {
            0 => None,
            n => Some(format!("+{n} {word}")),
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

fn plain(pod: &PodLine) -> &'static str {
    match (pod.terminating, pod.ready) {
        (true, _) => "terminating",
        (_, true) => "ready",
        _ => "not ready",
    }
}

fn trouble(standing: &Standing, pod: &PodLine) -> Option<String> {
    let found = standing.troubles.iter().find(|t| t.object.strip_prefix("pod/") == Some(&pod.name))?;
    Some(found.short())
}

fn state(standing: &Standing, pod: &PodLine) -> String {
    let restarts = match usize::try_from(pod.restarts) {
        Ok(n) if n > 0 => format!(", {}", count(n, "restart")),
        _ => String::new(),
    };
    trouble(standing, pod).unwrap_or_else(|| format!("{}{restarts}", plain(pod)))
}
