//! The commands of the program, as clap knows them.

use clap::Command;

/// Every visible verb that can be run, with its words: `snapshot create`.
pub fn verbs() -> Vec<(String, Command)> {
    let mut command = saferollback::cli::command();
    command.build();
    let mut found = Vec::new();
    walk(&command, "", &mut found);
    found
}

fn walk(command: &Command, words: &str, found: &mut Vec<(String, Command)>) {
    let visible: Vec<&Command> = command.get_subcommands().filter(|c| !c.is_hide_set()).collect();
    if visible.is_empty() {
        found.push((words.to_string(), command.clone()));
    }
    for verb in visible {
        walk(verb, format!("{words} {}", verb.get_name()).trim_start(), found);
    }
}

/// The examples of a help text, without what the shell does with their output.
pub fn examples(help: &str) -> Vec<Vec<String>> {
    let lines = help.lines().map(str::trim).filter_map(|line| line.strip_prefix("kubectl saferollback "));
    let plain = lines.map(|line| line.split(['|', '>']).next().unwrap_or_default());
    plain.map(|line| line.split_whitespace().map(str::to_string).collect()).collect()
}

/// The examples of all verbs.
pub fn all_examples() -> Vec<Vec<String>> {
    let help = |mut verb: Command| verb.render_long_help().to_string();
    verbs().into_iter().flat_map(|(_, verb)| examples(&help(verb))).collect()
}
