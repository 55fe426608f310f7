//! A command line as far as it is typed, read by the commands and flags that clap knows.
//!
//! Not by clap itself, which reads complete lines only: what it would refuse, for want of a value or of a verb, is the usual
//! case here. What is not known is passed over.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, FromArgMatches};

use crate::cli::args::Cli;
use crate::cli::command;
use crate::cluster::kubeconfig::ConnectionFlags;
use crate::core::workload::{Target, TargetError};

/// Where the last word stands.
pub(super) enum Last<'a> {
    /// It is a value of this option.
    Value(&'a Arg),
    Flag,
    Word,
}

/// A command line as far as it is typed.
pub(super) struct Line<'a> {
    /// The verb, or all of them where none is typed yet.
    pub command: &'a Command,
    /// `snapshot create`
    pub verb: String,
    pub given: Vec<(&'a Arg, Option<String>)>,
    /// All that is neither a verb nor a flag.
    pub words: Vec<String>,
    pub last: Last<'a>,
    /// What of it is there already; of `--flag=value` the value.
    pub typed: &'a str,
}

impl<'a> Line<'a> {
    pub fn read(command: &'a Command, words: &'a [String]) -> Line<'a> {
        let (typed, before) = words.split_last().map_or(("", words), |(last, before)| (last.as_str(), before));
        let mut line =
            Line { command, verb: String::new(), given: Vec::new(), words: Vec::new(), last: Last::Word, typed };
        // An option that waits for its value.
        let mut waits: Option<&Arg> = None;
        let mut no_more_flags = false;
        for word in before {
            if let Some(arg) = waits.take() {
                line.given.push((arg, Some(word.clone())));
            } else if no_more_flags || word == "-" || !word.starts_with('-') {
                match line.command.find_subcommand(word).filter(|_| line.words.is_empty() && !no_more_flags) {
                    Some(verb) => {
                        line.verb = format!("{} {}", line.verb, verb.get_name()).trim().to_string();
                        line.command = verb;
                    }
                    None => line.words.push(word.clone()),
                }
            } else if word == "--" {
                no_more_flags = true;
            } else {
                waits = line.flag(word);
            }
        }
        if let Some(arg) = waits {
            line.last = Last::Value(arg);
        } else if typed.starts_with('-') && !no_more_flags {
            line.last = match typed.split_once('=').and_then(|(name, value)| Some((named(line.command, name)?, value)))
            {
                Some((arg, value)) => {
                    line.typed = value;
                    Last::Value(arg)
                }
                None => Last::Flag,
            };
        }
        line
    }

    /// Notes `--flag`, `--flag=value`, `-f`, `-fvalue` and `-abf`; the flag that is still to get its value.
    fn flag(&mut self, word: &str) -> Option<&'a Arg> {
        if word.starts_with("--") {
            let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            let arg = named(self.command, name)?;
            if value.is_none() && takes_next(arg) {
                return Some(arg);
            }
            self.given.push((arg, value.map(str::to_string)));
            return None;
        }
        let mut rest = word.trim_start_matches('-');
        while let Some(short) = rest.chars().next() {
            rest = &rest[short.len_utf8()..];
            let arg = self.command.get_arguments().find(|arg| arg.get_short() == Some(short))?;
            if arg.get_action().takes_values() {
                if rest.is_empty() && takes_next(arg) {
                    return Some(arg);
                }
                self.given.push((arg, Some(rest.trim_start_matches('=').to_string())));
                return None;
            }
            self.given.push((arg, None));
        }
        None
    }

    /// The one workload that is named; `None` stands for the only one.
    pub fn target(&self) -> Result<Option<Target>, TargetError> {
        Target::parse(&self.words)
    }

    /// The flags of the connection, read as a run would read them. What does not hold together is as if it were not there.
    pub fn connection(&self) -> ConnectionFlags {
        let mut words = vec!["kubectl-saferollback".to_string(), "version".to_string()];
        for (i, (arg, value)) in self.given.iter().enumerate().filter(|(_, (arg, _))| arg.is_global_set()) {
            let later = self.given.iter().skip(i + 1).any(|(other, _)| other.get_id() == arg.get_id());
            if later && !matches!(arg.get_action(), ArgAction::Append) {
                continue;
            }
            let long = arg.get_long().unwrap_or_default();
            words.push(value.as_ref().map_or_else(|| format!("--{long}"), |value| format!("--{long}={value}")));
        }
        let read = command().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
        read.map(|cli| cli.connection.flags()).unwrap_or_default()
    }

    pub fn files(&self) -> Vec<PathBuf> {
        let given = self.given.iter().filter(|(arg, _)| arg.get_long() == Some("from-file"));
        given.filter_map(|(_, value)| value.as_ref().map(PathBuf::from)).collect()
    }
}

/// The option with this name, as `--name` or `-n`.
fn named<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| name == format!("-{short}")),
    })
}

/// Is the next word its value?
fn takes_next(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}
