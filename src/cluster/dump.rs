//! The text of a dump: documents with their lines, selectors, times.

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::exchange::one_line;
use crate::cluster::read::Select;
use crate::core::object::Object;

/// One document and the line at which it begins.
pub(super) struct Document {
    pub line: u64,
    pub value: Value,
}

/// The documents of a text: JSON where it looks like it (numbers keep their spelling), YAML otherwise. The error
/// is (line, cause); causes never quote the text, which may be a Secret's.
pub(super) fn documents(text: &str, json_only: bool) -> Result<Vec<Document>, (u64, String)> {
    if json_only || text.trim_start().starts_with(['{', '[']) {
        match json_documents(text) {
            // YAML's flow style looks like JSON.
            Err(_) if !json_only && let Ok(documents) = yaml_documents(text) => return Ok(documents),
            result => return result,
        }
    }
    yaml_documents(text)
}

fn json_documents(text: &str) -> Result<Vec<Document>, (u64, String)> {
    let mut documents = Vec::new();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    loop {
        let line = line_of(text, values.byte_offset());
        match values.next() {
            None => return Ok(documents),
            Some(Ok(value)) => documents.push(Document { line, value }),
            Some(Err(error)) => {
                let message = error.to_string();
                let cause = message.split(" at line ").next().unwrap_or("not JSON").to_string();
                return Err((u64::try_from(error.line().max(1)).unwrap_or(1), format!("not JSON: {cause}")));
            }
        }
    }
}

fn line_of(text: &str, offset: usize) -> u64 {
    let rest = text.get(offset..).unwrap_or("");
    let start = offset + (rest.len() - rest.trim_start().len());
    let breaks = text.as_bytes().iter().take(start).filter(|byte| **byte == b'\n').count();
    u64::try_from(breaks).unwrap_or(0) + 1
}

/// Splits at the document markers ourselves: the reader counts lines of one document only. A marker at the start of
/// a line is one even within a block scalar (YAML 1.2.2, rule c-forbidden).
fn yaml_documents(text: &str) -> Result<Vec<Document>, (u64, String)> {
    let mut documents = Vec::new();
    let mut start = 0;
    let mut first_line = 1;
    let mut at = 0;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let marker =
            line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if marker && at > start {
            documents.extend(yaml_document(&text[start..at], first_line)?);
            (start, first_line) = (at, number);
        }
        at += line.len();
    }
    documents.extend(yaml_document(&text[start..], first_line)?);
    Ok(documents)
}

fn yaml_document(text: &str, first_line: u64) -> Result<Vec<Document>, (u64, String)> {
    let content = text
        .split('\n')
        .map(|line| line.trim())
        .position(|line| !(line.is_empty() || line.starts_with('#') || line == "---" || line.starts_with('%')));
    let Some(content) = content else { return Ok(Vec::new()) };
    let line = first_line + u64::try_from(content).unwrap_or(0);
    // A cluster's dump is large but flat. The limits that stay keep a hostile file from filling memory or stack.
    let options = serde_yaml::options! {
        budget: serde_yaml::budget! {
            max_reader_input_bytes: None,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_documents: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_total_comment_bytes: usize::MAX,
            max_depth: 200,
        },
        strict_booleans: true,
        underscored_numbers_as_strings: true,
        // kubectl reads a file mode 0644 as octal, so that is what the cluster would get.
        legacy_octal_numbers: true,
    };
    let value = serde_yaml::from_str_with_options::<Value>(text, options).map_err(|error| {
        let at = error.location().map_or(line, |at| first_line + at.line().saturating_sub(1));
        let message = one_line(&error.without_snippet().to_string());
        // The place is said once, and as the file's line, not the document's.
        let cause = message.split(" at line ").next().unwrap_or_default();
        (at, format!("not YAML: {cause}"))
    })?;
    Ok(vec![Document { line, value }])
}

/// What [`Select`] asks, understood.
pub(super) enum Selector {
    All,
    Name(String),
    Labels(Vec<Requirement>),
    Fields(Vec<(String, bool, String)>),
}

/// One requirement of a label selector.
pub(super) struct Requirement {
    key: String,
    test: Test,
}

enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

impl Selector {
    pub(super) fn parse(select: Select<'_>) -> Result<Selector, String> {
        Ok(match select {
            Select::All => Selector::All,
            Select::Name(name) => Selector::Name(name.to_string()),
            Select::Labels(text) => Selector::Labels(label_requirements(text)?),
            Select::Fields(text) => Selector::Fields(
                split(text)
                    .into_iter()
                    .map(|part| {
                        let (key, equal, value) = if let Some((key, value)) = part.split_once("!=") {
                            (key, false, value)
                        } else if let Some((key, value)) = part.split_once('=') {
                            (key, true, value.strip_prefix('=').unwrap_or(value))
                        } else {
                            return Err(format!("{part:?} is no field selector"));
                        };
                        Ok((format!("/{}", key.trim().replace('.', "/")), equal, value.trim().to_string()))
                    })
                    .collect::<Result<_, _>>()?,
            ),
        })
    }

    pub(super) fn matches(&self, object: &Object) -> bool {
        match self {
            Selector::All => true,
            Selector::Name(name) => object.name() == name,
            Selector::Fields(fields) => {
                fields.iter().all(|(pointer, equal, value)| (object.str_at(pointer) == value) == *equal)
            }
            Selector::Labels(requirements) => requirements.iter().all(|requirement| {
                let label = object.label(&requirement.key);
                let within = |values: &[String]| label.is_some_and(|label| values.iter().any(|value| value == label));
                match &requirement.test {
                    Test::In(values) => within(values),
                    Test::NotIn(values) => !within(values),
                    Test::Exists => label.is_some(),
                    Test::Absent => label.is_none(),
                }
            }),
        }
    }
}

/// The parts between commas, those in brackets kept together.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let parts = text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Label selectors as kubectl and the API write them: `a=b`, `a==b`, `a!=b`, `c in (x,y)`, `c notin (x)`, `d`, `!e`.
fn label_requirements(text: &str) -> Result<Vec<Requirement>, String> {
    let set = |values: &str| -> Option<Vec<String>> {
        let values = values.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(values.split(',').map(|value| value.trim().to_string()).collect())
    };
    split(text)
        .into_iter()
        .map(|part| {
            let wrong = || format!("{part:?} is no label selector");
            let (key, test) = if let Some((key, value)) = part.split_once("!=") {
                (key, Test::NotIn(vec![value.trim().to_string()]))
            } else if let Some((key, value)) = part.split_once('=') {
                (key, Test::In(vec![value.strip_prefix('=').unwrap_or(value).trim().to_string()]))
            } else if let Some((key, values)) = part.split_once(" notin") {
                (key, Test::NotIn(set(values).ok_or_else(wrong)?))
            } else if let Some((key, values)) = part.split_once(" in") {
                (key, Test::In(set(values).ok_or_else(wrong)?))
            } else if let Some(key) = part.strip_prefix('!') {
                (key, Test::Absent)
            } else {
                (part, Test::Exists)
            };
            let key = key.trim();
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
            if key.is_empty() || !key.chars().all(plain) {
                return Err(wrong());
            }
            Ok(Requirement { key: key.to_string(), test })
        })
        .collect()
}

/// The newest time in the parts of an object that only servers, controllers and kubelets write.
pub(super) fn newest_time(object: &Object) -> Option<Timestamp> {
    let mut newest = object.created().max(object.last_seen_write());
    if object.kind() == "Event" {
        for pointer in ["/firstTimestamp", "/lastTimestamp", "/eventTime", "/series/lastObservedTime"] {
            newest = newest.max(object.time_at(pointer));
        }
    }
    if let Some(status) = object.0.get("status") {
        status_times(status, &mut newest);
    }
    newest
}

fn status_times(value: &Value, newest: &mut Option<Timestamp>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str() {
                    // lastTransitionTime, startTime, startedAt, finishedAt: text of a message is no time.
                    Some(text) if key.ends_with("Time") || key.ends_with("At") => {
                        *newest = (*newest).max(text.parse().ok());
                    }
                    _ => status_times(value, newest),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| status_times(item, newest)),
        _ => {}
    }
}
