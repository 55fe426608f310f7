//! `-o`: kubectl's words for the form of a result, and what the document becomes then.

use std::fmt::Write;
use std::str::FromStr;

use jsonpath_rust::JsonPath;
use jsonpath_rust::parser::parse_json_path;
use serde_json::Value;

use crate::cli::screen::{escape, harmless};
use crate::cli::yaml;

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Output {
    #[default]
    Table,
    Wide,
    Json,
    Yaml,
    /// TYPE/NAME alone.
    Name,
    JsonPath(Template),
}

impl FromStr for Output {
    type Err = String;

    fn from_str(text: &str) -> Result<Output, String> {
        match text {
            "wide" => Ok(Output::Wide),
            "json" => Ok(Output::Json),
            "yaml" => Ok(Output::Yaml),
            "name" => Ok(Output::Name),
            _ => match text.strip_prefix("jsonpath=") {
                Some(template) => template.parse().map(Output::JsonPath),
                None => Err("allowed are wide, json, yaml, name and jsonpath=TEMPLATE".into()),
            },
        }
    }
}

impl Output {
    /// Is it for a person? Else stdout is the document's alone.
    pub fn is_table(&self) -> bool {
        matches!(self, Output::Table | Output::Wide)
    }

    pub fn is_wide(&self) -> bool {
        *self == Output::Wide
    }

    /// The document in this form; a table is its verb's own.
    ///
    /// # Errors
    /// In words, where it cannot be spelt.
    pub fn text(&self, document: &impl serde::Serialize) -> Result<String, String> {
        let wrong = |error: serde_json::Error| format!("cannot print the report: {error}");
        let value = || serde_json::to_value(document).map_err(wrong);
        match self {
            Output::Yaml => yaml::document(&value()?),
            Output::Name => Ok(names(&value()?).iter().map(|name| escape(name) + "\n").collect()),
            Output::JsonPath(template) => template.fill(&value()?),
            Output::Table | Output::Wide | Output::Json => {
                Ok(harmless(&serde_json::to_string_pretty(document).map_err(wrong)?) + "\n")
            }
        }
    }
}

/// The objects that a document is about, as kubectl names them; of a write that was not made there is none.
fn names(document: &Value) -> Vec<String> {
    let writes = ["Rollback", "Plan", "Restore"].contains(&document["kind"].as_str().unwrap_or_default());
    // Refused, or another one's write came first.
    if writes && [3, 5].iter().any(|code| document["exitCode"] == *code) {
        return Vec::new();
    }
    let name = |of: &Value| of["name"].as_str().unwrap_or_default().to_string();
    let list = |member: &str| document[member].as_array().cloned().unwrap_or_default();
    match document["kind"].as_str().unwrap_or_default() {
        "RollbackList" => list("items").iter().flat_map(names).collect(),
        "SnapshotList" => list("snapshots")
            .iter()
            .filter(|one| one["prune"] != false)
            .map(|one| format!("configmap/{}", name(one)))
            .collect(),
        "Saved" => {
            let snapshot = |one: &Value| one["snapshot"].as_str().map(|name| format!("configmap/{name}"));
            list("snapshots").iter().filter_map(snapshot).collect()
        }
        "ConfigMapHistory" | "Restore" => vec![format!("configmap/{}", name(&document["configMap"]))],
        _ => {
            let kind = document["workload"]["kind"].as_str().unwrap_or_default().to_lowercase();
            vec![format!("{kind}.apps/{}", name(&document["workload"]))]
        }
    }
}

/// kubectl's JSONPath template: text, `{.path}`, `{"text"}`, `{range .path}…{end}`. What is not there is nothing, several
/// values are joined by blanks, objects and lists are compact JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Path(String),
    Range(String, Vec<Part>),
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Template, String> {
        let mut open: Vec<(String, Vec<Part>)> = Vec::new();
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find('{') {
            let (before, tail) = rest.split_at(start);
            if !before.is_empty() {
                parts.push(Part::Text(before.to_string()));
            }
            let end = closing(tail).ok_or_else(|| format!("in {text:?} a '{{' has no end"))?;
            let inside = tail[1..end].trim();
            rest = &tail[end + 1..];
            if inside == "end" {
                let (over, before) = open.pop().ok_or_else(|| format!("in {text:?} {{end}} ends no {{range}}"))?;
                let within = std::mem::replace(&mut parts, before);
                parts.push(Part::Range(over, within));
            } else if let Some(over) = inside.strip_prefix("range ") {
                open.push((path(over)?, std::mem::take(&mut parts)));
            } else if let Some(quoted) = quoted(inside) {
                parts.push(Part::Text(quoted));
            } else {
                parts.push(Part::Path(path(inside)?));
            }
        }
        if !open.is_empty() {
            return Err(format!("in {text:?} a {{range}} has no {{end}}"));
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_string()));
        }
        Ok(Template(parts))
    }
}

/// Where the brace that opens `text` is closed: quotes may hold another.
fn closing(text: &str) -> Option<usize> {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', _) => escaped = true,
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            ('}', None) => return Some(at),
            _ => {}
        }
    }
    None
}

/// The text of a quoted string, with Go's usual escapes.
fn quoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut out = String::new();
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            },
            c => c,
        });
    }
    Some(out)
}

/// kubectl's spelling of a path in that of RFC 9535: `.a.b-c` and `.a.b\.c` are members of these names.
fn path(text: &str) -> Result<String, String> {
    let text = text.trim();
    let mut rest = text.strip_prefix(['$', '@']).unwrap_or(text);
    let mut out = String::from("$");
    if !rest.is_empty() && !rest.starts_with(['.', '[']) {
        rest = member(rest, &mut out);
    }
    while let Some(c) = rest.chars().next() {
        let tail = &rest[c.len_utf8()..];
        match c {
            '.' if tail.starts_with('.') => {
                out.push_str("..");
                rest = member(&tail[1..], &mut out);
            }
            '.' if tail.starts_with('[') => rest = tail,
            '.' if tail.is_empty() => rest = tail,
            '.' => rest = member(tail, &mut out),
            '[' => {
                let end = closing_bracket(rest).ok_or_else(|| format!("in {text:?} a '[' has no end"))?;
                out.push_str(&rest[..=end]);
                rest = &rest[end + 1..];
            }
            _ => return Err(format!("{text:?} is no JSONPath")),
        }
    }
    parse_json_path(&out).map_err(|_| format!("{text:?} is no JSONPath"))?;
    Ok(out)
}

/// One name up to the next dot or bracket, which a backslash takes the meaning from. What comes after it.
fn member<'a>(text: &'a str, out: &mut String) -> &'a str {
    let (mut name, mut end, mut escaped) = (String::new(), text.len(), false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => {
                escaped = false;
                name.push(c);
            }
            '\\' => escaped = true,
            '.' | '[' => {
                end = at;
                break;
            }
            c => name.push(c),
        }
    }
    if name == "*" {
        out.push_str("[*]");
    } else if !name.is_empty() {
        let _ = write!(out, "['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"));
    }
    &text[end..]
}

fn closing_bracket(text: &str) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0_u32);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            ('[', None) => depth += 1,
            (']', None) => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

impl Template {
    /// # Errors
    /// In words, where a value cannot be looked up.
    pub fn fill(&self, document: &Value) -> Result<String, String> {
        let mut out = String::new();
        fill(&self.0, document, &mut out)?;
        Ok(out)
    }
}

fn fill(parts: &[Part], value: &Value, out: &mut String) -> Result<(), String> {
    let found = |path: &str| value.query(path).map_err(|error| format!("{path}: {error}"));
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Path(path) => {
                let shown: Vec<String> = found(path)?.into_iter().map(shown).collect();
                out.push_str(&shown.join(" "));
            }
            Part::Range(path, within) => {
                for one in found(path)? {
                    fill(within, one, out)?;
                }
            }
        }
    }
    Ok(())
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => escape(text),
        Value::Null => String::new(),
        other => harmless(&other.to_string()),
    }
}
