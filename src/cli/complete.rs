//! What can come next on a command line that is being typed: the answer to TAB.
//!
//! kubectl runs `kubectl_complete-saferollback` with the words behind the plugin's name, as they were typed; the last one,
//! maybe empty, is the one to complete. It takes nothing out of them, `-n shop` included; what stands before the plugin's
//! name it refuses to complete at all. One candidate a line goes to stdout, with its description behind a tab, and
//! `:N` at last, with cobra's bits. Nothing goes to stderr, which would land in the middle of the line, nobody is asked
//! anything, and nothing is written.
//!
//! The commands and flags are walked here rather than by clap_complete's engine: that one is marked unstable, does not
//! speak this protocol, and would leave the lookups to us all the same.
//!
//! What it may mislead in: only what is known after a second is said.

mod line;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction};
use jiff::Timestamp;

use crate::cli::complete::line::{Last, Line};
use crate::cli::contents::whence;
use crate::cli::history::head;
use crate::cli::screen::{age, escape};
use crate::cli::undo::verb::bare;
use crate::cli::{command, ui};
use crate::cluster::kubeconfig::{ConnectionFlags, Environment, Names};
use crate::core::workload::{self, Kind, Target};
use crate::run::complete::{self, Found, Lookup};

/// Nobody waits longer for a TAB.
const DEADLINE: Duration = Duration::from_secs(1);
/// So much earlier the reads are given up, so that a program which was started for them is ended too.
const EARLIER: Duration = Duration::from_millis(50);

/// Cobra's bits.
const NO_SPACE: u8 = 2;
const NO_FILES: u8 = 4;
const KEEP_ORDER: u8 = 32;

/// Prints the answer for these words. There is no failure: what is not known is not said.
pub fn answer(words: &[String]) -> u8 {
    let began = Instant::now();
    let mut command = command();
    // Hands the connection's flags on to each verb.
    command.build();
    let line = Line::read(&command, words);
    let wish = line.wish();
    let mut candidates = wish.known;
    let found = look_up(&line, wish.lookups, began);
    if let Some(spelling) = &wish.spelling {
        candidates.extend(found.iter().flat_map(|one| spelling.candidates(one)));
    }
    let a_word = matches!(line.last, Last::Word);
    let again = |word: &String| a_word && line.words.contains(word);
    candidates.retain(|c| c.word.starts_with(line.typed) && !again(&c.word) && escape(&c.word) == c.word);
    let dated = found.iter().any(|one| matches!(one, Found::Revision { .. } | Found::Version { .. }));
    if wish.spelling.is_some() {
        sort(&mut candidates, dated);
    }
    // Nothing may follow, or it is not known yet.
    if candidates.is_empty() && line.typed.is_empty() && a_word {
        candidates = line.flags();
    }
    ui::out(&text(&candidates, wish.files, dated));
    0
}

fn text(candidates: &[Candidate], files: bool, dated: bool) -> String {
    let mut text = String::new();
    for candidate in candidates {
        text.push_str(&candidate.word);
        if let Some(about) = candidate.about.lines().next().filter(|about| !about.is_empty()) {
            text.push('\t');
            text.push_str(&escape(about));
        }
        text.push('\n');
    }
    let goes_on = !candidates.is_empty() && candidates.iter().all(|c| c.word.ends_with(['=', '/']));
    let bits = [(goes_on, NO_SPACE), (!files, NO_FILES), (dated, KEEP_ORDER)];
    let sum: u8 = bits.into_iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum();
    text + &format!(":{sum}\n")
}

/// Names by the alphabet, revisions by number with the newest first, versions as they were found; each once.
fn sort(candidates: &mut Vec<Candidate>, dated: bool) {
    match dated {
        true => candidates.sort_by_key(|c| std::cmp::Reverse(c.word.parse::<u64>().unwrap_or(0))),
        false => candidates.sort_by(|a, b| a.word.cmp(&b.word)),
    }
    let mut there = BTreeSet::new();
    candidates.retain(|candidate| there.insert(candidate.word.clone()));
}

/// A word that may stand there.
#[derive(Clone, Debug)]
struct Candidate {
    word: String,
    about: String,
}

impl Candidate {
    fn new(word: impl Into<String>, about: impl Into<String>) -> Candidate {
        Candidate { word: word.into(), about: about.into() }
    }
}

/// What is wanted for the last word.
#[derive(Default)]
struct Wish {
    known: Vec<Candidate>,
    lookups: Vec<Lookup>,
    /// How what is found is to be written. None: nothing is looked for.
    spelling: Option<Spelling>,
    /// May the shell offer names of files?
    files: bool,
}

/// What stands before a name, as often as there are ways to write it.
#[derive(Clone, Debug, Default)]
struct Spelling {
    workload: Vec<String>,
    config_map: Vec<String>,
    /// Before a digest.
    digest: String,
}

impl Spelling {
    fn candidates(&self, found: &Found) -> Vec<Candidate> {
        let all = |prefixes: &[String], name: &str, about: &str| {
            prefixes.iter().map(|prefix| Candidate::new(format!("{prefix}{name}"), about)).collect()
        };
        match found {
            Found::Namespace(name) => vec![Candidate::new(name, "")],
            Found::Workload { name, revision } => match revision {
                Some(revision) => all(&self.workload, name, &format!("Deployment, revision {revision}")),
                None => all(&self.workload, name, "Deployment"),
            },
            Found::ConfigMap(name) => all(&self.config_map, name, "ConfigMap"),
            Found::Version { version, at } => {
                vec![Candidate::new(format!("{}{}", self.digest, head(&version.digest)), whence(version, *at))]
            }
            Found::Reference(name) => vec![Candidate::new(format!("{name}="), "ConfigMap")],
            Found::Revision { number, current, first_started, at, images } => {
                let mut about = vec![format!("{} old", age(*first_started, *at))];
                if *current {
                    about.insert(0, "current".to_string());
                }
                about.extend(images.iter().map(|image| image.rsplit('/').next().unwrap_or(image).to_string()));
                vec![Candidate::new(number.to_string(), about.join(", "))]
            }
        }
    }
}

impl Line<'_> {
    fn wish(&self) -> Wish {
        match self.last {
            Last::Value(arg) => self.value(arg),
            Last::Flag => Wish { known: self.flags(), ..Wish::default() },
            Last::Word if self.words.is_empty() && self.command.has_subcommands() => {
                let verbs = self.command.get_subcommands().filter(|verb| !verb.is_hide_set());
                Wish {
                    known: verbs.map(|v| Candidate::new(v.get_name(), about(v.get_about()))).collect(),
                    ..Wish::default()
                }
            }
            Last::Word => self.word(),
        }
    }

    fn value(&self, arg: &Arg) -> Wish {
        let values = values(arg);
        if !values.is_empty() {
            return Wish { known: values, ..Wish::default() };
        }
        let from_config = |pick: &dyn Fn(Names) -> Vec<Candidate>| {
            let names = Names::load(&self.connection(), &Environment::of_process());
            let known = names.map_or_else(|_| Vec::new(), pick);
            Wish { known, spelling: Some(Spelling::default()), ..Wish::default() }
        };
        let plain = |names: Vec<String>| names.into_iter().map(|name| Candidate::new(name, "")).collect();
        let live = |lookup| Wish { lookups: vec![lookup], spelling: Some(Spelling::default()), ..Wish::default() };
        match (arg.get_long().unwrap_or_default(), self.verb.as_str()) {
            ("namespace", _) => {
                let known = from_config(&|names| plain(names.namespaces.into_iter().collect()));
                Wish { lookups: vec![Lookup::Namespaces], ..known }
            }
            ("context", _) => from_config(&|names| {
                names.contexts.into_iter().map(|(name, cluster)| Candidate::new(name, cluster)).collect()
            }),
            ("cluster", _) => from_config(&|names| plain(names.clusters)),
            ("user", _) => from_config(&|names| plain(names.users)),
            ("revision" | "to-revision", _) | ("from" | "to", "diff") => match self.target() {
                Ok(target) => live(Lookup::Revisions(target)),
                Err(_) => Wish::default(),
            },
            ("use", _) => match (self.typed.split_once('='), self.target()) {
                (Some((name, what)), _) => versions(bare(name), what, &format!("{name}=")),
                (None, Ok(target)) => live(Lookup::References(target)),
                (None, Err(_)) => Wish::default(),
            },
            ("from", "restore") => match workload::config_map(&self.words) {
                Ok(Some(name)) => versions(&name, self.typed, ""),
                _ => Wish { files: true, ..Wish::default() },
            },
            _ => {
                Wish { files: alternatives(arg).any(|name| name.contains("FILE") || name == "DIR"), ..Wish::default() }
            }
        }
    }

    /// A word that is neither a verb nor a flag.
    fn word(&self) -> Wish {
        let Some(arg) = self.command.get_positionals().next() else { return Wish::default() };
        let config_maps = match self.verb.as_str() {
            "restore" => true,
            "history" => !self.typed.is_empty() || !self.words.is_empty(),
            _ => false,
        };
        let workloads = arg.get_value_names().is_some_and(|names| names.iter().any(|name| *name == "TYPE/NAME"));
        let many = arg.get_action().takes_values() && arg.get_num_args().is_some_and(|range| range.max_values() > 2);
        let mut wish = Wish::default();
        let mut spelling = Spelling::default();
        match self.words.split_first() {
            None => {
                if workloads {
                    spelling.workload = workload_spellings(self.typed);
                }
                if config_maps {
                    spelling.config_map = config_map_spellings(self.typed);
                }
            }
            // TYPE NAME, or TYPE NAME NAME
            Some((kind, rest)) if rest.is_empty() || many => match kind_of(kind) {
                Some(Kind::Deployment) if workloads => spelling.workload.push(String::new()),
                Some(_) => {}
                None if config_maps && is_config_map(kind) => spelling.config_map.push(String::new()),
                None if many => spelling.workload = workload_spellings(self.typed),
                None => {}
            },
            Some(_) => {}
        }
        if !spelling.workload.is_empty() {
            wish.lookups.push(Lookup::Workloads);
        }
        if !spelling.config_map.is_empty() {
            wish.lookups.push(Lookup::ConfigMaps);
        }
        wish.spelling = Some(spelling);
        wish
    }

    fn flags(&self) -> Vec<Candidate> {
        let mut flags = Vec::new();
        // What a verb's help leaves out since every verb takes it is there for who begins to type it.
        let shown = |arg: &&Arg| !arg.is_hide_set() || (arg.is_global_set() && !self.typed.is_empty());
        for arg in self.command.get_arguments().filter(|arg| !arg.is_positional()).filter(shown) {
            let again = matches!(arg.get_action(), ArgAction::Append | ArgAction::Count);
            if !again && self.given.iter().any(|(given, _)| given.get_id() == arg.get_id()) {
                continue;
            }
            let help = about(arg.get_help());
            if let Some(long) = arg.get_long() {
                flags.push(Candidate::new(format!("--{long}"), &help));
                // Only this spelling takes a value. Of yes and no nobody needs a list.
                if arg.is_require_equals_set() {
                    let values = arg.get_possible_values();
                    let values =
                        values.iter().filter(|v| !v.is_hide_set() && !["true", "false"].contains(&v.get_name()));
                    flags.extend(values.map(|v| Candidate::new(format!("--{long}={}", v.get_name()), &help)));
                }
            }
            // Offered only where it stands there already: then it gets its blank.
            if let Some(short) = arg.get_short().filter(|short| self.typed == format!("-{short}")) {
                flags.push(Candidate::new(format!("-{short}"), &help));
            }
        }
        flags
    }
}

/// A file, or what is known of a ConfigMap: nobody waits for that where the name of a file is begun.
fn versions(name: &str, typed: &str, before: &str) -> Wish {
    let digest = typed.starts_with("sr1:") || "sr1:".starts_with(typed);
    Wish {
        lookups: if digest { vec![Lookup::Versions(name.to_string())] } else { Vec::new() },
        spelling: Some(Spelling { digest: before.to_string(), ..Spelling::default() }),
        files: true,
        ..Wish::default()
    }
}

/// `json|yaml` → `json`, `yaml`.
fn alternatives(arg: &Arg) -> impl Iterator<Item = &str> {
    arg.get_value_names().unwrap_or_default().iter().flat_map(|names| names.split('|'))
}

/// The words that it takes: those that clap knows, or that its help lists in small letters. `jsonpath=…` goes on.
fn values(arg: &Arg) -> Vec<Candidate> {
    let known = arg.get_possible_values();
    let known = known.iter().filter(|value| !value.is_hide_set());
    let known: Vec<Candidate> = known.map(|v| Candidate::new(v.get_name(), about(v.get_help()))).collect();
    let listed = || alternatives(arg).map(|name| name.split_inclusive('=').next().unwrap_or_default());
    let is_word = |name: &str| !name.is_empty() && name.trim_end_matches('=').chars().all(|c| c.is_ascii_lowercase());
    match known.is_empty() && listed().all(is_word) {
        true => listed().map(|word| Candidate::new(word, "")).collect(),
        false => known,
    }
}

fn about(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

fn kind_of(word: &str) -> Option<Kind> {
    Target::parse(&[word.to_string(), "x".to_string()]).ok().flatten()?.kind
}

fn is_config_map(word: &str) -> bool {
    matches!(workload::config_map(&[word.to_string(), "x".to_string()]), Ok(Some(_)))
}

/// `web`, and `deployment/web` where that is begun.
fn workload_spellings(typed: &str) -> Vec<String> {
    match typed.split_once('/') {
        Some((kind, _)) if kind_of(kind) == Some(Kind::Deployment) => vec![format!("{kind}/")],
        Some(_) => Vec::new(),
        None if !typed.is_empty() && "deployment".starts_with(typed) => vec![String::new(), "deployment/".to_string()],
        None => vec![String::new()],
    }
}

fn config_map_spellings(typed: &str) -> Vec<String> {
    match typed.split_once('/') {
        Some((kind, _)) if is_config_map(kind) => vec![format!("{kind}/")],
        None if typed == "cm" => vec!["cm/".to_string()],
        None if "configmap".starts_with(typed) => vec!["configmap/".to_string()],
        _ => Vec::new(),
    }
}

/// What is found until the deadline. The thread that looks is left to itself then, and ends with the process: a name
/// service or a disk that does not answer cannot hold the shell up.
fn look_up(line: &Line, lookups: Vec<Lookup>, began: Instant) -> Vec<Found> {
    let from_file = line.files();
    let mut all = Vec::new();
    // What is piped in is for the command, which has not been run yet.
    if lookups.is_empty() || from_file.iter().any(|file| file.as_os_str() == "-") {
        return all;
    }
    let flags = line.connection();
    let (send, found) = channel();
    let left = (DEADLINE - EARLIER).saturating_sub(began.elapsed());
    if thread::Builder::new().spawn(move || look(&flags, &from_file, &lookups, left, &send)).is_err() {
        return all;
    }
    while let Ok(one) = found.recv_timeout(DEADLINE.saturating_sub(began.elapsed())) {
        all.push(one);
    }
    all
}

fn look(flags: &ConnectionFlags, from_file: &[PathBuf], lookups: &[Lookup], left: Duration, send: &Sender<Found>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    // Nobody listens any more once the deadline has passed.
    let found = |one| drop(send.send(one));
    let work = complete::look_up(flags, from_file, lookups, Timestamp::now(), &found);
    let _ = runtime.block_on(async { tokio::time::timeout(left, work).await });
}

/// Is it run under kubectl's name for the completer of a plugin, by a link or as a copy?
pub fn is_called(program: Option<&String>) -> bool {
    let name = program.map(PathBuf::from).and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    name.is_some_and(|name| name.starts_with("kubectl_complete-"))
}
