//! A template with other object names in it, and nothing else changed; and when two templates are the same.
//!
//! Templates go through unchanged: member order, the spelling of numbers and fields that nobody here knows all
//! survive, since the result replaces `spec.template` as a whole.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::references::{Kind, Pinnable, extract, token};

const HASH: &str = "pod-template-hash";

/// A copy of `template` in which the pinnable uses of the objects in `names` carry the new names.
pub fn pin(template: &Value, names: &BTreeMap<(Kind, String), String>) -> Value {
    let mut pinned = template.clone();
    for reference in extract(template).references {
        let Some(name) = names.get(&(reference.kind, reference.name)) else {
            continue;
        };
        for one in reference.uses.iter().filter(|u| u.pinnable == Pinnable::Yes) {
            if let Some(place) = pinned.pointer_mut(&one.name_pointer) {
                *place = Value::String(name.clone());
            }
        }
    }
    pinned
}

/// Without the label that the Deployment controller adds to each ReplicaSet's template. Left in, it would make the
/// restored template a new one: another ReplicaSet at every undo (rancher/rancher#39103).
pub fn strip_hash(template: &Value) -> Value {
    let mut stripped = template.clone();
    if let Some(Value::Object(labels)) = stripped.pointer_mut("/metadata/labels") {
        // Not `remove`: it fills the gap with the last member.
        labels.shift_remove(HASH);
    }
    stripped
}

/// Are the two templates the same to Kubernetes? See [`difference`].
pub fn same(a: &Value, b: &Value) -> bool {
    difference(a, b).is_empty()
}

/// JSON pointers of the fields that differ. Lists of different lengths count as one field.
///
/// `pod-template-hash` is ignored, and absent, `null` and an empty list are the same, as in the comparison of the
/// Deployment controller; so are absent and empty labels and annotations. An empty object elsewhere is not: a
/// volume with `emptyDir: {}` differs from one without.
pub fn difference(a: &Value, b: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(Some(&plain(a)), Some(&plain(b)), String::new(), &mut found);
    found
}

fn plain(template: &Value) -> Value {
    let mut plain = strip_hash(template);
    if let Some(Value::Object(metadata)) = plain.get_mut("metadata") {
        metadata.retain(|key, value| {
            let empty = value.as_object().is_some_and(Map::is_empty);
            !(empty && matches!(key.as_str(), "labels" | "annotations"))
        });
    }
    plain
}

fn absent(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(list)) => list.is_empty(),
        Some(_) => false,
    }
}

fn compare(a: Option<&Value>, b: Option<&Value>, at: String, found: &mut Vec<String>) {
    if absent(a) && absent(b) {
        return;
    }
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                compare(a.get(key), b.get(key), format!("{at}/{}", token(key)), found);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                compare(Some(a), Some(b), format!("{at}/{i}"), found);
            }
        }
        _ if a == b => {}
        _ => found.push(at),
    }
}
