//! Enough of Rust's grammar to hold source files to rules: tokens, modules and paths.
//!
//! Comments go, strings and characters stay as values, so that neither is ever taken for code. Names are followed
//! through `use` (groups, renames, `self`, globs) and through `super`, and what comes out is where a path leads.

use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Word(String),
    /// The text between the quotes, as written.
    Text(String),
    Number(String),
    /// `::`, or one character.
    Sign(&'static str),
    Other(char),
}

#[derive(Clone, Debug)]
pub struct Token {
    pub line: usize,
    pub kind: Kind,
}

impl Token {
    pub fn word(&self) -> Option<&str> {
        if let Kind::Word(word) = &self.kind { Some(word) } else { None }
    }

    pub fn text(&self) -> Option<&str> {
        if let Kind::Text(text) = &self.kind { Some(text) } else { None }
    }

    pub fn is(&self, sign: char) -> bool {
        self.kind == Kind::Other(sign)
    }
}

const COLONS: Kind = Kind::Sign("::");

pub fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(c) = chars.get(at).copied() {
        let start = at;
        let next = |n: usize| chars.get(start + n).copied();
        let kind = if c == '/' && next(1) == Some('/') {
            at = end_of(&chars, at, |c, _| c == '\n');
            None
        } else if c == '/' && next(1) == Some('*') {
            let mut depth = 0;
            loop {
                match (chars.get(at), chars.get(at + 1)) {
                    (Some('/'), Some('*')) => (depth, at) = (depth + 1, at + 2),
                    (Some('*'), Some('/')) => (depth, at) = (depth - 1, at + 2),
                    (Some(_), _) => at += 1,
                    (None, _) => break,
                }
                if depth == 0 {
                    break;
                }
            }
            None
        } else if let Some(prefix) = string_prefix(&chars[at..]) {
            at += prefix.letters + prefix.hashes + 1;
            let open = at;
            let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', prefix.hashes)).collect();
            while at < chars.len() && !chars[at..].starts_with(&close) {
                at += if chars[at] == '\\' && !prefix.raw { 2 } else { 1 };
            }
            let end = at.min(chars.len());
            at = end + close.len();
            Some(Kind::Text(chars[open..end].iter().collect()))
        } else if c == '\'' && (next(1) == Some('\\') || next(2) == Some('\'')) {
            at += if next(1) == Some('\\') { 3 } else { 2 };
            at = end_of(&chars, at, |c, _| c == '\'') + 1;
            Some(Kind::Text(chars[start + 1..(at - 1).min(chars.len())].iter().collect()))
        } else if c == '\'' {
            // A lifetime or label.
            at = end_of(&chars, at + 1, |c, _| !part_of_word(c));
            None
        } else if c == 'r' && next(1) == Some('#') && next(2).is_some_and(part_of_word) {
            at = end_of(&chars, at + 2, |c, _| !part_of_word(c));
            Some(Kind::Word(chars[start + 2..at].iter().collect()))
        } else if c.is_ascii_digit() {
            at = end_of(&chars, at, |c, n| !(part_of_word(c) || c == '.' && n.is_some_and(|n| n.is_ascii_digit())));
            Some(Kind::Number(chars[start..at].iter().collect()))
        } else if part_of_word(c) {
            at = end_of(&chars, at, |c, _| !part_of_word(c));
            Some(Kind::Word(chars[start..at].iter().collect()))
        } else if c == ':' && next(1) == Some(':') {
            at += 2;
            Some(COLONS)
        } else {
            at += 1;
            (!c.is_whitespace()).then_some(Kind::Other(c))
        };
        found.extend(kind.map(|kind| Token { line, kind }));
        line += chars[start..at.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    found
}

fn part_of_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn end_of(chars: &[char], from: usize, end: impl Fn(char, Option<char>) -> bool) -> usize {
    (from..chars.len()).find(|i| end(chars[*i], chars.get(i + 1).copied())).unwrap_or(chars.len())
}

struct Prefix {
    letters: usize,
    hashes: usize,
    raw: bool,
}

/// `"`, `b"`, `c"`, `r"`, `r#"`, `br##"` …
fn string_prefix(chars: &[char]) -> Option<Prefix> {
    let letters = chars.iter().take(2).take_while(|c| matches!(c, 'b' | 'c' | 'r')).count();
    let raw = letters > 0 && chars[letters - 1] == 'r';
    let hashes = if raw { chars[letters..].iter().take_while(|c| **c == '#').count() } else { 0 };
    (chars.get(letters + hashes) == Some(&'"')).then_some(Prefix { letters, hashes, raw })
}

/// One place where a path is written, and where it leads: `crate`, the standard library's or another crate's name
/// first. A glob ends in `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub line: usize,
    pub steps: Vec<String>,
}

impl Path {
    pub fn starts_with(&self, start: &[&str]) -> bool {
        self.steps.len() >= start.len() && self.steps.iter().zip(start).all(|(a, b)| a == b)
    }

    /// Does it lead there or below, or does its glob bring that in?
    pub fn reaches(&self, place: &[&str]) -> bool {
        let glob = self.steps.last().is_some_and(|last| last == "*") && self.steps.len() <= place.len();
        self.starts_with(place) || (glob && self.steps.iter().zip(place).all(|(a, b)| a == b || a == "*"))
    }
}

/// Every path of a file. `module`: where the file is, as `["core", "references"]`.
///
/// A name that is imported anywhere in the file counts as imported everywhere in it.
pub fn paths(tokens: &[Token], module: &[&str]) -> Vec<Path> {
    let scopes = scopes(tokens, module);
    let mut written: Vec<(Path, Option<String>)> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let scope = &scopes[at];
        match tokens[at].word() {
            // `use<>` in a type captures lifetimes.
            Some("use") if tokens.get(at + 1).is_some_and(|t| t.is('<')) => at += 1,
            Some("use") => at = tree(tokens, at + 1, &Vec::new(), scope, &mut written),
            // `extern crate kube as k;`
            Some("crate") if at > 0 && tokens[at - 1].word() == Some("extern") => {
                at = tree(tokens, at + 1, &Vec::new(), scope, &mut written);
            }
            Some(_) => {
                let (steps, end) = steps(tokens, at);
                if steps.len() > 1 {
                    written.push((Path { line: tokens[at].line, steps: absolute(steps, scope) }, None));
                }
                at = end;
            }
            None if tokens[at].kind == COLONS => {
                // `::kube::Client` names a crate, `<T>::now` a member of something that is not followed. Which of them
                // it is where `>` comes before is not asked: it counts as both.
                let (steps, end) = steps(tokens, at + 1);
                if !steps.is_empty() {
                    let line = tokens[at].line;
                    let member = std::iter::once("<>".to_string()).chain(steps.iter().cloned()).collect();
                    written.push((Path { line, steps: member }, None));
                    written.push((Path { line, steps }, None));
                }
                at = end.max(at + 1);
            }
            None => at += 1,
        }
    }
    let names: HashMap<String, Vec<String>> =
        written.iter().filter_map(|(path, name)| Some((name.clone()?, path.steps.clone()))).collect();
    written.into_iter().map(|(path, _)| Path { steps: followed(path.steps, &names), ..path }).collect()
}

#[rustfmt::skip]
const KEYWORDS: [&str; 31] = [
    "as", "async", "await", "break", "const", "continue", "dyn", "else", "enum", "extern", "fn", "for", "if", "impl",
    "in", "let", "loop", "match", "mod", "move", "mut", "pub", "ref", "return", "static", "struct", "trait", "type",
    "unsafe", "where", "while",
];

/// `a::b::c` from `at` on, and what comes after. A turbofish ends it; what follows is a path of its own.
fn steps(tokens: &[Token], mut at: usize) -> (Vec<String>, usize) {
    let mut steps = Vec::new();
    while let Some(word) = tokens.get(at).and_then(Token::word) {
        at += 1;
        // `return ::kube::x` is no path of three.
        if KEYWORDS.contains(&word) {
            break;
        }
        steps.push(word.to_string());
        if tokens.get(at).is_none_or(|t| t.kind != COLONS) || tokens.get(at + 1).and_then(Token::word).is_none() {
            break;
        }
        at += 1;
    }
    (steps, at)
}

/// One tree of a `use`, from `at` on: pushes its leaves with the names they bind, and says where it ends.
fn tree(
    tokens: &[Token],
    mut at: usize,
    prefix: &[String],
    scope: &[String],
    found: &mut Vec<(Path, Option<String>)>,
) -> usize {
    let mut steps: Vec<String> = prefix.to_vec();
    let line = tokens.get(at).map_or(0, |t| t.line);
    let mut global = false;
    loop {
        let Some(token) = tokens.get(at) else { return at };
        if token.kind == COLONS {
            global |= steps.is_empty();
            at += 1;
        } else if token.is('{') {
            at += 1;
            while tokens.get(at).is_some_and(|t| !t.is('}')) {
                at = tree(tokens, at, &steps, scope, found);
                if tokens.get(at).is_some_and(|t| t.is(',')) {
                    at += 1;
                }
            }
            return at + 1;
        } else if token.is('*') {
            steps.push("*".into());
            at += 1;
        } else if let Some(word) = token.word() {
            at += 1;
            if word == "as" {
                let name = tokens.get(at).and_then(Token::word).unwrap_or("_").to_string();
                found.push((leaf(line, steps, scope, global), Some(name)));
                return at + 1;
            }
            // `{self}` is the prefix itself; a leading `self` is this module.
            if word != "self" || steps.is_empty() {
                steps.push(word.to_string());
            }
        } else {
            let name = steps.last().filter(|last| *last != "*").cloned();
            found.push((leaf(line, steps, scope, global), name));
            return at;
        }
    }
}

fn leaf(line: usize, steps: Vec<String>, scope: &[String], global: bool) -> Path {
    Path { line, steps: if global { steps } else { absolute(steps, scope) } }
}

/// Leading `self` and `super` as places in the crate. `$crate` is written without its sign.
fn absolute(steps: Vec<String>, scope: &[String]) -> Vec<String> {
    let leading = steps.iter().take_while(|s| *s == "self" || *s == "super").count();
    if leading == 0 {
        return steps;
    }
    let up = steps.iter().take(leading).filter(|s| *s == "super").count();
    let here = &scope[..scope.len().saturating_sub(up)];
    std::iter::once("crate".to_string()).chain(here.iter().cloned()).chain(steps.into_iter().skip(leading)).collect()
}

/// First steps that were imported, replaced by what they stand for.
fn followed(mut steps: Vec<String>, names: &HashMap<String, Vec<String>>) -> Vec<String> {
    // A rename of a rename of …: nobody writes more.
    for _ in 0..8 {
        match steps.first().and_then(|first| Some((first, names.get(first)?))) {
            Some((first, whole)) if whole.first().is_some_and(|w| w != first) => {
                steps = whole.iter().cloned().chain(steps.into_iter().skip(1)).collect();
            }
            _ => break,
        }
    }
    if let Some(first) = steps.first_mut() {
        match first.as_str() {
            // The same items under other names.
            "core" | "alloc" => *first = "std".into(),
            "saferollback" => *first = "crate".into(),
            _ => {}
        }
    }
    steps
}

/// The module of every token: the file's own, deeper within `mod x { … }`.
fn scopes(tokens: &[Token], module: &[&str]) -> Vec<Vec<String>> {
    let mut scope: Vec<String> = module.iter().map(ToString::to_string).collect();
    let (mut depth, mut opened) = (0, Vec::new());
    let mut scopes = Vec::with_capacity(tokens.len());
    for (i, token) in tokens.iter().enumerate() {
        if token.is('{') {
            depth += 1;
            if i >= 2
                && tokens[i - 2].word() == Some("mod")
                && let Some(name) = tokens[i - 1].word()
            {
                scope.push(name.to_string());
                opened.push(depth);
            }
        } else if token.is('}') {
            if opened.last() == Some(&depth) {
                opened.pop();
                scope.pop();
            }
            depth -= 1;
        }
        scopes.push(scope.clone());
    }
    scopes
}

/// `println!` and `std::println!` → `println`, with its line.
pub fn macros(tokens: &[Token]) -> Vec<(usize, &str)> {
    tokens
        .windows(3)
        .filter(|w| w[1].is('!') && (w[2].is('(') || w[2].is('[') || w[2].is('{')))
        .filter_map(|w| Some((w[0].line, w[0].word()?)))
        .collect()
}

/// `.unwrap(` → `unwrap`, with its line.
pub fn methods(tokens: &[Token]) -> Vec<(usize, &str)> {
    tokens
        .windows(3)
        .filter(|w| w[0].is('.') && (w[2].is('(') || w[2].kind == COLONS))
        .filter_map(|w| Some((w[1].line, w[1].word()?)))
        .collect()
}

/// The modules that a file declares without a body.
pub fn modules(tokens: &[Token]) -> Vec<&str> {
    tokens.windows(3).filter(|w| w[0].word() == Some("mod") && w[2].is(';')).filter_map(|w| w[1].word()).collect()
}

/// The tokens between the braces of the first `opening` (words in a row, as `["impl", "Code"]`), and after it the
/// first of `inner`.
pub fn body<'a>(tokens: &'a [Token], opening: &[&str]) -> &'a [Token] {
    let start = tokens.windows(opening.len()).position(|w| w.iter().zip(opening).all(|(t, o)| t.word() == Some(o)));
    let Some(open) = start.and_then(|s| Some(s + tokens[s..].iter().position(|t| t.is('{'))?)) else { return &[] };
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        depth += i32::from(token.is('{')) - i32::from(token.is('}'));
        if depth == 0 {
            return &tokens[open + 1..i];
        }
    }
    &[]
}
