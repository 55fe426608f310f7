//! The man pages and the Markdown reference in `docs/`, made from the program's own help.
//!
//! With `SAFEROLLBACK_UPDATE_REFERENCE=1` they are written instead of compared.

use crate::support::product::{self, root};
use crate::support::verbs::verbs;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn markdown() -> String {
    let mut page = "# Reference\n\nAll verbs with their `--help`, as the program prints it. Made by a test from the program: do not edit.\n\n".to_string();
    let verbs = verbs();
    for (words, verb) in &verbs {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        page += &format!("- [{words}](#{}): {about}\n", words.replace(' ', "-"));
    }
    for (words, verb) in verbs {
        // The width of a page, whatever the terminal of the test.
        let help = verb.term_width(100).render_long_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        page += &format!("\n## {words}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
        if words == "options" {
            let list = product::run(&["options"]).expect(0).stdout;
            page += &format!("\nIt prints:\n\n```text\n{}\n```\n", list.trim_end());
        }
    }
    page
}

fn man() -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    // The pages put a v before it.
    let mut command = saferollback::cli::command().version(env!("CARGO_PKG_VERSION"));
    command.build();
    // What no verb's help repeats stands on the first page.
    let command = command.mut_args(|arg| if arg.is_global_set() { arg.hide(false) } else { arg });
    clap_mangen::generate_to(command, folder.path()).expect("pages");
    pages(folder.path())
}

fn pages(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    entries
        .map(|e| (e.file_name().to_string_lossy().into_owned(), fs::read_to_string(e.path()).expect("a page")))
        .collect()
}

/// Otherwise the pages would describe another version than the program beside them.
#[test]
fn the_reference_is_that_of_this_program() {
    let (reference, folder) = (root().join("docs/reference.md"), root().join("docs/man"));
    if std::env::var_os("SAFEROLLBACK_UPDATE_REFERENCE").is_some_and(|value| value == "1") {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(&reference, markdown()).expect("a page");
        man().iter().for_each(|(name, text)| fs::write(folder.join(name), text).expect("a page"));
        return;
    }
    let how = "SAFEROLLBACK_UPDATE_REFERENCE=1 cargo test --test main reference:: writes docs anew";
    assert_eq!(fs::read_to_string(&reference).unwrap_or_default(), markdown(), "{how}");
    let made = man();
    assert!(made.keys().any(|name| name == "kubectl-saferollback-snapshot-create.1"), "{:?}", made.keys());
    assert_eq!(pages(&folder), made, "{how}");
}
