//! What the next client-side `kubectl apply` would leave in a template because the last one did not know it.
//!
//! It deletes what the last-applied annotation has and the manifest has not; what neither has stays
//! (kubernetes/kubectl#1301). Only names come out of the annotation.

use serde_json::Value;

use crate::core::object::Object;
use crate::core::recovery::LAST_APPLIED;

/// Lists that are merged by name: where, and what an item is called.
const LISTS: [(&str, &str); 3] =
    [("/spec/containers", "container"), ("/spec/initContainers", "init container"), ("/spec/volumes", "volume")];

/// `container sidecar`: items of `template` that the last applied template does not have. None where nobody applied.
pub fn left_behind(workload: &Object, template: &Value) -> Vec<String> {
    let applied = workload.annotation(LAST_APPLIED).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(applied) = applied.as_ref().and_then(|applied| applied.pointer("/spec/template")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (list, what) in LISTS {
        let known = items(applied, list);
        for (name, item) in items(template, list) {
            let Some((_, same)) = known.iter().find(|(other, _)| *other == name) else {
                found.push(format!("{what} {name}"));
                continue;
            };
            let variables = items(same, "/env");
            let more = items(item, "/env").into_iter().filter(|(v, _)| !variables.iter().any(|(known, _)| known == v));
            found.extend(more.map(|(variable, _)| format!("variable {variable} of {what} {name}")));
        }
    }
    found
}

/// The named items of a list.
fn items<'a>(value: &'a Value, list: &str) -> Vec<(&'a str, &'a Value)> {
    let items = value.pointer(list).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| Some((item.get("name")?.as_str()?, item))).collect()
}
