//! Public bug reports about rollbacks, configuration and plugins, each turned into a state: tests/cases.tsv says which
//! tests play it, and those carry its number.

use crate::files::{case_numbers, module_file};
use crate::support::product::root;
use std::collections::BTreeSet;
use std::fs;

/// The cases of the tags that are kept here. Numbers have gaps.
const KNOWN: [(&str, &[u16]); 10] = [
    ("history", &[1, 2, 3, 5, 6, 8, 10, 11, 12, 13, 15, 16]),
    ("undo", &[18, 19, 20, 21, 22, 23, 25, 26, 28, 30, 31, 32, 33, 35, 36]),
    ("refs", &[37, 38, 40, 41, 42, 43, 45, 46, 48, 50, 51]),
    ("provenance", &[52, 53, 55, 56, 58, 60, 61, 62, 63]),
    ("snapshot", &[65, 66, 67, 68, 70, 71, 72, 73, 75, 76]),
    ("verify", &[78, 79, 80, 81, 82, 83, 85, 86, 88, 90, 91, 92, 93]),
    ("cli", &[95, 96, 102]),
    ("auth", &[98, 100, 101]),
    ("scale", &[103]),
    ("security", &[105, 106, 107]),
];

pub struct Case {
    pub number: String,
    tag: String,
    state: String,
    tests: Vec<String>,
    reason: Option<String>,
}

pub fn cases() -> Vec<Case> {
    let table = fs::read_to_string(root().join("tests/cases.tsv")).expect("tests/cases.tsv");
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("number\ttag\tstate\ttests\treason"));
    let given = |cell: &str| (cell != "-").then(|| cell.to_string());
    lines
        .map(|line| match line.split('\t').collect::<Vec<_>>().as_slice() {
            [number, tag, state, tests, reason] => Case {
                number: (*number).to_string(),
                tag: (*tag).to_string(),
                state: (*state).to_string(),
                tests: given(tests).map_or(Vec::new(), |tests| tests.split(", ").map(String::from).collect()),
                reason: given(reason),
            },
            cells => panic!("five cells, not {cells:?}"),
        })
        .collect()
}

/// The comment above `fn NAME`; `None` where there is no such function.
fn comment_of(text: &str, name: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let heads = [format!("fn {name}("), format!("async fn {name}(")];
    let at = lines.iter().position(|line| heads.iter().any(|head| line.starts_with(head)))?;
    let above = lines[..at].iter().rev().skip_while(|line| line.starts_with("#["));
    let mut comment: Vec<&str> = above.map_while(|line| line.strip_prefix("///")).collect();
    comment.reverse();
    Some(comment.join("\n"))
}

/// Without this a case could be forgotten, or be listed without anything that plays it.
#[test]
fn every_case_is_listed_once_with_a_test_or_a_reason() {
    let mut listed: Vec<(String, String)> = cases().into_iter().map(|c| (c.tag, c.number)).collect();
    let all = KNOWN.iter().flat_map(|(tag, numbers)| numbers.iter().map(|n| (tag.to_string(), format!("C{n:02}"))));
    let mut known: Vec<(String, String)> = all.collect();
    listed.sort();
    known.sort();
    assert_eq!(listed, known);
    for case in cases() {
        assert!(!case.state.is_empty(), "{}", case.number);
        assert!(!case.tests.is_empty() || case.reason.is_some(), "{} has neither", case.number);
    }
}

/// Without this a test that is renamed or rewritten would take its case along without a word.
#[test]
fn every_test_of_a_case_is_there_and_says_so() {
    let mut wrong = Vec::new();
    for case in cases() {
        for test in &case.tests {
            let steps: Vec<&str> = test.split("::").collect();
            let (name, module) = steps.split_last().expect("a step");
            let file = module_file(module).map(|file| fs::read_to_string(file).expect("a file"));
            match file.and_then(|text| comment_of(&text, name)) {
                None => wrong.push(format!("{}: there is no {test}", case.number)),
                Some(comment) if !case_numbers(&comment).contains(&case.number.as_str()) => {
                    wrong.push(format!("{}: the comment of {test} does not carry it", case.number));
                }
                Some(_) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let text = "/// One\n/// (C12).\n#[test]\n#[cfg(unix)]\nfn f() {}\n\n/// Two.\nasync fn g() {}\nfn h(";
    let comment = |name| comment_of(text, name);
    assert_eq!((comment("f"), comment("g")), (Some(" One\n (C12).".into()), Some(" Two.".into())));
    assert_eq!((comment("h"), comment("i")), (Some(String::new()), None));
}

/// The numbers that comments may cite.
pub fn numbers() -> BTreeSet<String> {
    cases().into_iter().map(|case| case.number).collect()
}
