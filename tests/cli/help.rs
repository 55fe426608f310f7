//! The first page of help.

use crate::support::product;
use std::collections::BTreeSet;

/// Without this a person at night would scroll for the one verb that helps, or not find it at all.
#[test]
fn all_verbs_are_on_one_screen() {
    let page = product::run(&["--help"]).expect(0).stdout;
    assert!(page.contains("Start with: kubectl saferollback history TYPE/NAME"), "{page}");
    assert!(page.lines().count() <= 24, "more than a screen: {page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "wider than a screen: {page}");
    let command = saferollback::cli::command();
    let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let visible: BTreeSet<&str> = visible.map(clap::Command::get_name).collect();
    let shown: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    assert_eq!(shown.len(), visible.len(), "each once: {page}");
    assert_eq!(shown.into_iter().collect::<BTreeSet<_>>(), visible, "{page}");
    assert_eq!(product::run(&["-h"]).expect(0).stdout, page);
    assert_eq!(product::run(&[]).expect(2).stderr, page, "and without a verb");
}
