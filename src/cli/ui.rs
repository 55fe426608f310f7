//! Standard output, standard error, the terminal: the only place that prints.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use dialoguer::theme::Theme;

use crate::cli::args::Colour;
use crate::cli::output::Output;
use crate::cli::screen::{Look, escape};
use crate::cli::undo as screens;
use crate::core::plan::Plan;
use crate::core::report::{Document, DocumentKind};
use crate::run::{Failure, Phase, Voice, Waiting};

/// Writes to stdout. A closed pipe (`| head -1`) is the reader's right and no failure: nothing more is written. Anything
/// else, as a full disk, is told at the end: what is being done to the cluster is brought to its end first.
pub fn out(text: &str) {
    spoke();
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error.to_string());
    }
}

static LOST: OnceLock<String> = OnceLock::new();

/// Why the result did not reach stdout.
pub fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

pub fn err(text: &str) {
    spoke();
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

static SPOKE: Mutex<Option<Instant>> = Mutex::new(None);

fn spoke() {
    *SPOKE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
}

/// For how long nothing was printed.
pub fn quiet() -> Duration {
    let spoke = *SPOKE.lock().unwrap_or_else(PoisonError::into_inner);
    spoke.map_or(Duration::MAX, |at| at.elapsed())
}

static DRAWS: AtomicBool = AtomicBool::new(false);

/// From now on lines are drawn again: nobody else may write between them.
pub fn draw() {
    DRAWS.store(true, Ordering::Relaxed);
}

pub fn draws() -> bool {
    DRAWS.load(Ordering::Relaxed)
}

static LOOK: OnceLock<Look> = OnceLock::new();

/// What was asked for, once, before anything is printed.
pub fn set_up(headers: bool, colour: Colour) {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let terminal = io::stdout().is_terminal();
    let width = terminal.then(|| columns.unwrap_or_else(|| usize::from(dialoguer::console::Term::stdout().size().1)));
    let colour = match colour {
        Colour::Always => true,
        Colour::Never => false,
        // https://no-color.org: set, and not empty.
        Colour::Auto => {
            terminal
                && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty())
                && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
        }
    };
    let _ = LOOK.set(Look { width, headers, colour });
}

/// How tables are printed.
pub fn look() -> Look {
    *LOOK.get_or_init(|| Look { width: None, headers: true, colour: false })
}

/// Is stderr a terminal on which lines can be drawn again?
pub fn can_draw() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

/// Lines and columns of stderr's terminal.
pub fn size() -> (usize, usize) {
    let (height, width) = dialoguer::console::Term::stderr().size();
    (usize::from(height), usize::from(width))
}

/// May questions be asked? stdout may be a pipe.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// A choice from a list; `None` when it was left with Escape.
///
/// # Errors
/// When the terminal cannot be used.
pub fn pick(prompt: &str, from: &[String]) -> Result<Option<String>, Failure> {
    let shown: Vec<String> = from.iter().map(|name| escape(name)).collect();
    let answer = dialoguer::Select::new().with_prompt(prompt).items(&shown).default(0).interact_opt();
    let answer = answer.map_err(unanswered)?;
    Ok(answer.and_then(|i| from.get(i).cloned()))
}

/// The one question about a plan. The answer needs Enter: a stray key must not change anything.
///
/// # Errors
/// When the terminal cannot be used.
pub fn ask(question: &str) -> Result<bool, Failure> {
    let question = dialoguer::Confirm::with_theme(&Plain).with_prompt(question).default(false);
    Ok(question.wait_for_newline(true).interact_opt().map_err(unanswered)? == Some(true))
}

/// Ctrl-C at a prompt leaves the cursor hidden (console-rs/dialoguer#77): show it again.
fn unanswered(error: dialoguer::Error) -> Failure {
    if io::stderr().is_terminal() {
        let _ = dialoguer::console::Term::stderr().show_cursor();
    }
    match error {
        dialoguer::Error::IO(error) if error.kind() == io::ErrorKind::Interrupted => Failure::Interrupted,
        error => Failure::Usage(format!("cannot ask on this terminal: {error}")),
    }
}

/// kubectl's form of a question.
struct Plain;

impl Theme for Plain {
    fn format_confirm_prompt(&self, f: &mut dyn fmt::Write, prompt: &str, _: Option<bool>) -> fmt::Result {
        write!(f, "{prompt} (y/N): ")
    }

    fn format_confirm_prompt_selection(
        &self,
        f: &mut dyn fmt::Write,
        prompt: &str,
        selection: Option<bool>,
    ) -> fmt::Result {
        write!(f, "{prompt} (y/N): {}", if selection == Some(true) { "y" } else { "n" })
    }
}

/// What an interruption needs to know of a running undo.
#[derive(Default)]
pub struct Progress {
    pub phase: Phase,
    pub created: Vec<String>,
    /// The last sentence of the wait.
    pub stands: String,
}

/// The voice of `undo`.
pub struct Speaker {
    pub output: Output,
    pub yes: bool,
    pub progress: Rc<RefCell<Progress>>,
}

impl Waiting for Speaker {
    fn progress(&mut self, line: &str) {
        self.progress.borrow_mut().stands = line.to_string();
        err(&format!("{}\n", escape(line)));
    }

    fn note(&mut self, line: &str) {
        err(&format!("Note: {}\n", escape(line)));
    }
}

impl Voice for Speaker {
    fn plan(&mut self, document: &Document, plan: &Plan) {
        match &self.output {
            output @ (Output::Table | Output::Wide) => {
                out(&screens::plan(document, plan, output.is_wide(), look()));
            }
            _ if !plan.refused() && !plan.nothing_to_do => err(&screens::brief(document)),
            _ => {}
        }
        if (plan.refused() || document.kind == DocumentKind::Rollback) && self.output == Output::Table {
            out("\n");
        }
    }

    fn plans(&mut self, plans: &[(Document, Plan)]) {
        if self.output.is_table() {
            out(&screens::plans(plans, look()));
        } else {
            plans.iter().filter(|(_, p)| !p.nothing_to_do).for_each(|(d, _)| err(&screens::brief(d)));
        }
    }

    fn confirm(&mut self, question: &str) -> Result<bool, Failure> {
        if self.yes {
            return Ok(true);
        }
        ask(question)
    }

    fn done(&mut self, line: &str) {
        self.progress.borrow_mut().stands.clear();
        if line.ends_with(" created") {
            self.progress.borrow_mut().created.push(line.trim_end_matches(" created").to_string());
        }
        let line = format!("{}\n", escape(line));
        if self.output.is_table() { out(&line) } else { err(&line) }
    }

    fn warn(&mut self, line: &str) {
        err(&format!("Warning: {}\n", escape(line)));
    }

    fn fail(&mut self, line: &str, reasons: &[String]) {
        err(&format!("error: {}\n", escape(line)));
        for reason in reasons {
            err(&format!("  {}\n", escape(reason)));
        }
    }

    fn phase(&mut self, phase: Phase) {
        self.progress.borrow_mut().phase = phase;
    }
}
