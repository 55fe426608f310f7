//! One place in a document: a JSON pointer (`/pods/0/uid`) or a dotted name (`pods.0.uid`).

use serde_json::Value;

/// The values there. A step is a member's name, an item's number or the `name` that an item has, or `*` for all of them.
pub fn at<'a>(value: &'a Value, field: &str) -> Vec<&'a Value> {
    let steps: Vec<String> = match field.strip_prefix('/') {
        Some(pointer) => pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect(),
        None => field.split('.').map(str::to_string).collect(),
    };
    steps.iter().fold(vec![value], |found, step| found.into_iter().flat_map(|value| below(value, step)).collect())
}

fn below<'a>(value: &'a Value, step: &str) -> Vec<&'a Value> {
    match value {
        Value::Object(members) if step == "*" => members.values().collect(),
        Value::Object(members) => members.get(step).into_iter().collect(),
        Value::Array(items) if step == "*" => items.iter().collect(),
        Value::Array(items) => match step.parse::<usize>() {
            Ok(number) => items.get(number).into_iter().collect(),
            Err(_) => items.iter().filter(|i| i.get("name").and_then(Value::as_str) == Some(step)).collect(),
        },
        _ => Vec::new(),
    }
}

/// A value as it is typed: a text without its quotes.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
