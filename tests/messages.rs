//! Everything that the program says, on one page.

use crate::support::product::root;
use crate::support::rust;
use std::fs;
use std::path::Path;

/// The sentences of one file, in its order: texts of three words and more, as they are written there.
fn sentences(source: &str) -> Vec<String> {
    let tokens = rust::tokens(source);
    let texts = tokens.iter().filter_map(rust::Token::text);
    // A line that goes on in the next one of the source is one line.
    let joined = texts.map(|text| {
        let lines: Vec<&str> = text.split("\\\n").map(str::trim_start).collect();
        lines.concat()
    });
    joined.filter(|text| text.split_whitespace().count() > 2).collect()
}

fn files(folder: &Path, found: &mut Vec<String>) {
    let mut entries: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path.strip_prefix(root()).expect("below the root").display().to_string());
        }
    }
}

/// Without the page nobody would read all messages in one sitting, and they would drift apart in tone. What is typed and
/// its help has a page of its own, the reference.
#[test]
fn all_messages_are_on_one_page() {
    let mut sources = Vec::new();
    files(&root().join("src"), &mut sources);
    let mut page = String::new();
    for file in sources.iter().filter(|file| !matches!(file.as_str(), "src/cli/args.rs" | "src/cli/options.rs")) {
        let said = sentences(&fs::read_to_string(root().join(file)).expect(file));
        if !said.is_empty() {
            page += &format!("{file}\n");
            said.iter().for_each(|sentence| page += &format!("  {sentence}\n"));
        }
    }
    for word in ["please", "sorry", "oops", "!\n"] {
        assert!(!page.to_lowercase().contains(word), "{word:?} is not how the program speaks");
    }
    insta::assert_snapshot!(page);
}
