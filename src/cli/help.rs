//! The first page: all verbs on one screen, by what one is about to do.

use clap::Command;

const GROUPS: [(&str, &[&str]); 3] = [
    ("Roll back", &["history", "check", "diff", "undo", "status"]),
    ("Configuration", &["snapshot", "restore"]),
    ("Scripts and labs", &["observe", "rbac", "completion", "options", "version"]),
];

/// The command with that page as its help.
pub fn on_one_screen(command: Command) -> Command {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut page = format!("{about}\n\nStart with: kubectl saferollback history TYPE/NAME\n");
    for (group, verbs) in GROUPS {
        page += &format!("\n{group}:\n");
        for verb in verbs.iter().filter_map(|verb| command.find_subcommand(verb)) {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            page += &format!("  {:<10}  {about}\n", verb.get_name());
        }
    }
    page += "\nUsage: kubectl saferollback VERB [flags]; more about one: VERB --help\n";
    command.override_help(page)
}
