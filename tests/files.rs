//! Rules about the files of this repository: none forgotten, nothing in them that has no place there.

use crate::cases;
use crate::support::product::root;
use crate::support::rust::{self, Token};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Every text file of the repository, as far as `.gitignore` lets it in.
fn files() -> Vec<PathBuf> {
    let ignored = fs::read_to_string(root().join(".gitignore")).expect(".gitignore");
    let ignored: Vec<&str> = ignored.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).collect();
    let mut found = Vec::new();
    walk(root(), &ignored, &mut found);
    found.sort();
    found
}

fn walk(folder: &Path, ignored: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let below = path.strip_prefix(root()).expect("below the root").display().to_string();
        let out = ignored.iter().any(|rule| match rule.strip_prefix('/') {
            Some(rule) => below == rule,
            None => rule.strip_prefix('*').map_or(name == *rule, |end| name.ends_with(end)),
        });
        if out || name == ".git" {
            continue;
        }
        if path.is_dir() { walk(&path, ignored, found) } else { found.push(path) }
    }
}

fn below_root(path: &Path) -> String {
    path.strip_prefix(root()).expect("below the root").display().to_string()
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).expect("a file")).into_owned()
}

fn ends(path: &Path, end: &str) -> bool {
    path.extension().is_some_and(|e| e == end)
}

/// Without this a test file that nobody declares would never run, and never fail.
#[test]
fn every_test_file_is_part_of_the_binary() {
    let mut reached = BTreeSet::new();
    reach(&root().join("tests/main.rs"), &mut reached);
    let there: BTreeSet<PathBuf> =
        files().into_iter().filter(|f| below_root(f).starts_with("tests/") && ends(f, "rs")).collect();
    // Programs of their own, built by the scripts beside them.
    let own = |file: &&PathBuf| {
        ["tests/bench/", "tests/fuzzing/led/", "tests/node/app/"].iter().any(|dir| below_root(file).starts_with(dir))
    };
    let forgotten: Vec<&PathBuf> = there.difference(&reached).filter(|file| !own(file)).collect();
    assert!(forgotten.is_empty(), "declare them in tests/main.rs or their mod.rs: {forgotten:#?}");
}

/// Follows `mod x;` from one file on.
fn reach(file: &Path, reached: &mut BTreeSet<PathBuf>) {
    reached.insert(file.to_path_buf());
    let folder = match file.file_stem().and_then(|s| s.to_str()) {
        Some("main" | "mod") => file.parent().expect("a folder").to_path_buf(),
        _ => file.with_extension(""),
    };
    for module in rust::modules(&rust::tokens(&read(file))) {
        let next = [folder.join(format!("{module}.rs")), folder.join(module).join("mod.rs")];
        let next = next.into_iter().find(|path| path.is_file());
        reach(&next.unwrap_or_else(|| panic!("mod {module} of {} has no file", file.display())), reached);
    }
}

/// Lines of attributes that contain the word.
fn attributes_with(tokens: &[Token], word: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate() {
        let opens = token.is('[') && i > 0 && (tokens[i - 1].is('#') || (i > 1 && tokens[i - 2].is('#')));
        if opens || (depth > 0 && token.is('[')) {
            depth += 1;
        } else if depth > 0 && token.is(']') {
            depth -= 1;
        } else if depth > 0 && token.word() == Some(word) {
            lines.push(token.line);
        }
    }
    lines
}

/// A test that does not run is a promise nobody checks.
#[test]
fn no_test_is_ignored() {
    for file in files().into_iter().filter(|f| ends(f, "rs")) {
        let lines = attributes_with(&rust::tokens(&read(&file)), "ignore");
        assert!(lines.is_empty(), "{}: ignored at {lines:?}", file.display());
    }
    let planted = ["#[test]\n#[ignore]\nfn f() {}", "#[cfg_attr(unix, ignore = \"x\")] fn f() {}", "#![ignore]"];
    for text in planted {
        assert!(!attributes_with(&rust::tokens(text), "ignore").is_empty(), "{text}");
    }
    assert!(attributes_with(&rust::tokens("// #[ignore]\nlet ignore = [1]; \"#[ignore]\""), "ignore").is_empty());
}

/// What ends the program in the middle of a rollback.
const PANICS: [&str; 9] = [
    "unwrap",
    "expect",
    "unwrap_err",
    "expect_err",
    "unwrap_unchecked",
    "panic",
    "todo",
    "unimplemented",
    "unreachable",
];

/// FILE, what, and why it is right there.
const PANICS_ALLOWED: [(&str, &str, &str); 0] = [];

fn panics(text: &str) -> Vec<(usize, String)> {
    let tokens = rust::tokens(text);
    let called = rust::methods(&tokens).into_iter().chain(rust::macros(&tokens));
    let mut found: Vec<(usize, String)> =
        called.filter(|(_, name)| PANICS.contains(name)).map(|(line, name)| (line, name.to_string())).collect();
    // `map(Result::unwrap)`
    for path in rust::paths(&tokens, &[]) {
        found.extend(path.steps.last().filter(|l| PANICS.contains(&l.as_str())).map(|l| (path.line, l.clone())));
    }
    found
}

/// Without this a surprise in an answer could end an undo between snapshot and patch without a word.
#[test]
fn the_program_does_not_panic_on_purpose() {
    let mut wrong = Vec::new();
    for file in files().into_iter().filter(|f| below_root(f).starts_with("src/") && ends(f, "rs")) {
        let place = below_root(&file);
        for (line, what) in panics(&read(&file)) {
            if !PANICS_ALLOWED.iter().any(|(f, w, _)| *f == place && *w == what) {
                wrong.push(format!("{place}:{line}: {what}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for text in ["x.unwrap();", "x\n  .expect(\"y\")", "panic!(\"x\")", "todo!()", "x.map(Option::unwrap)"] {
        assert!(!panics(text).is_empty(), "{text}");
    }
    for text in ["x.unwrap_or(1)", "#[expect(dead_code)] fn f() {}", "// x.unwrap()", "\"panic!()\"", "fn expect() {}"]
    {
        assert!(panics(text).is_empty(), "{text}");
    }
}

/// Pieces, so that this file is not the first to break the rule.
const FORBIDDEN: [(&str, &str, &str); 9] = [
    ("crates", ".io", "a package registry"),
    ("proxy.golang", ".org", "a package registry"),
    ("sum.golang", ".org", "a package registry"),
    ("registry.npmjs", ".org", "a package registry"),
    ("pypi", ".org", "a package registry"),
    ("..", "/shared", "a folder outside"),
    ("/wo", "rk/", "somebody's machine"),
    ("/ro", "ot/", "somebody's machine"),
    ("/ho", "me/", "somebody's machine"),
];

/// FILE, word, and why it is right there.
const ALLOWED: [(&str, &str, &str); 2] = [
    ("Cargo.lock", "crates.", "cargo writes the registry's index into it"),
    ("tests/fuzzing/led/Cargo.lock", "crates.", "the same"),
];

/// Otherwise the repository would work, or make sense, on one machine only.
#[test]
fn no_file_names_a_registry_or_a_machine() {
    let mut wrong = Vec::new();
    for file in files() {
        let (place, text) = (below_root(&file), read(&file));
        for (head, tail, what) in FORBIDDEN {
            let word = format!("{head}{tail}");
            let allowed = ALLOWED.iter().any(|(f, w, _)| *f == place && word.starts_with(w));
            for (number, _) in text.lines().enumerate().filter(|(_, line)| line.contains(&word) && !allowed) {
                wrong.push(format!("{place}:{}: {word} ({what})", number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `C12` and its like: a case.
pub fn case_numbers(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let is_case = |digits: &str| (1..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    words.filter(|word| word.strip_prefix('C').is_some_and(is_case)).collect()
}

/// Otherwise a comment would lean on a page that is not here: tests cite cases of tests/cases.tsv, all else cites none.
#[test]
fn comments_need_no_other_page() {
    let here = [root().join(file!()), root().join("tests/cases.rs")];
    let known = cases::numbers();
    for file in files().into_iter().filter(|f| (ends(f, "rs") || ends(f, "md")) && !here.contains(f)) {
        let test = below_root(&file).starts_with("tests/");
        let text = read(&file);
        let unknown: Vec<&str> = case_numbers(&text).into_iter().filter(|n| !(test && known.contains(*n))).collect();
        assert_eq!(unknown, [""; 0], "{}", file.display());
    }
    assert_eq!(case_numbers("see C7 (and C123): C, C1234, XC12, 0xC1"), ["C7", "C123"]);
}

/// The pages, each with its text outside of code blocks.
fn pages() -> Vec<(PathBuf, String)> {
    let found = files().into_iter().filter(|f| ends(f, "md"));
    found
        .map(|file| {
            let mut code = false;
            let text = read(&file);
            let lines = text.lines().filter(|line| {
                let fence = line.trim_start().starts_with("```");
                code ^= fence;
                !code && !fence
            });
            let text = lines.collect::<Vec<_>>().join("\n");
            (file, text)
        })
        .collect()
}

/// `[text](target)` → target.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// A heading's anchor, as the usual renderers make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Otherwise the pages would rot at every rename.
#[test]
fn every_link_of_every_page_leads_somewhere() {
    let mut dead = Vec::new();
    for (page, text) in pages() {
        for link in links(&text).into_iter().filter(|l| !l.contains("://")) {
            let (file, heading) = link.split_once('#').map_or((link, None), |(f, h)| (f, Some(h)));
            let target = if file.is_empty() { page.clone() } else { page.parent().expect("a folder").join(file) };
            let found = target.exists()
                && heading.is_none_or(|h| {
                    read(&target).lines().filter_map(|l| l.strip_prefix('#')).any(|l| anchor(l.trim_matches('#')) == h)
                });
            if !found {
                dead.push(format!("{}: {link}", below_root(&page)));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

/// Text in single backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The file that holds the module `steps` of the test binary.
pub fn module_file(steps: &[&str]) -> Option<PathBuf> {
    let path = root().join("tests").join(steps.iter().collect::<PathBuf>());
    [path.with_extension("rs"), path.join("mod.rs")].into_iter().find(|p| p.is_file())
}

/// ARCHITECTURE.md names tests as `cargo test` does: `module::file::test`.
fn tests_of(text: &str) -> BTreeSet<&str> {
    let small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_test = |word: &&str| {
        let steps: Vec<&str> = word.split("::").collect();
        steps.len() > 1 && steps.iter().all(|s| !s.is_empty() && s.chars().all(small))
    };
    quoted(text).filter(is_test).collect()
}

/// Otherwise the page would name guards that are gone.
#[test]
fn every_test_that_the_architecture_names_exists() {
    let text = read(&root().join("ARCHITECTURE.md"));
    let named = tests_of(&text);
    assert!(named.len() >= 20, "the evidence table names its tests: {named:?}");
    let mut gone = Vec::new();
    for name in named {
        let steps: Vec<&str> = name.split("::").collect();
        let (test, module) = steps.split_last().expect("two steps");
        let there = module_file(module).is_some_and(|file| {
            let tokens = rust::tokens(&read(&file));
            tokens.windows(2).any(|w| w[0].word() == Some("fn") && w[1].word() == Some(test))
        });
        if !there {
            gone.push(name);
        }
    }
    assert!(gone.is_empty(), "{gone:#?}");
}

/// Otherwise `rule 16` in a comment would lead nowhere, or to another rule.
#[test]
fn every_rule_that_the_code_cites_is_in_the_architecture() {
    let page = read(&root().join("ARCHITECTURE.md"));
    let rules = page.split("\n### Rules\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the rules");
    let rules: Vec<usize> = rules
        .lines()
        .filter_map(|line| line.split_once(". "))
        .filter_map(|(number, rest)| rest.starts_with("**").then(|| number.parse().ok())?)
        .collect();
    assert_eq!(rules, (1..=rules.len()).collect::<Vec<_>>(), "the rules are numbered without a gap");
    let mut cited = BTreeSet::new();
    for file in files().into_iter().filter(|f| ends(f, "rs")) {
        for rest in read(&file).to_lowercase().split("rule ").skip(1) {
            let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
            cited.extend(number.parse::<usize>());
        }
    }
    assert!(cited.len() > 5, "the code cites rules: {cited:?}");
    let unknown: Vec<&usize> = cited.iter().filter(|n| !rules.contains(n)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
