//! Plan → the exact request bodies, with their preconditions.

use serde_json::{Value, json};

use crate::core::history::{CHANGE_CAUSE, TRAIL, Trail};
use crate::core::object::Object;
use crate::core::plan::Plan;
use crate::core::references::token;

/// The one JSON patch on the workload (ARCHITECTURE.md, rules 20 and 21).
///
/// Preconditions are uid, the raw template as it was read, paused and strategy. Not resourceVersion: status writes move
/// it during a rollout. Not generation: an autoscaler moves it. `test … null` holds for an absent member. The template
/// is replaced as a whole, never merged (kubernetes/kubernetes#91676).
pub fn workload(read: &Object, plan: &Plan) -> Value {
    let at = |pointer: &str| read.0.pointer(pointer).cloned().unwrap_or(Value::Null);
    let cause = match plan.from {
        Some(from) => format!("kubectl saferollback undo: revision {from} to revision {}", plan.to),
        None => format!("kubectl saferollback undo: to revision {}", plan.to),
    };
    let trail = serde_json::to_string(&plan.trail()).unwrap_or_default();
    let mut ops = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": at("/metadata/uid")}),
        json!({"op": "test", "path": "/spec/template", "value": at("/spec/template")}),
        json!({"op": "test", "path": "/spec/paused", "value": at("/spec/paused")}),
        json!({"op": "test", "path": "/spec/strategy", "value": at("/spec/strategy")}),
        json!({"op": "replace", "path": "/spec/template", "value": plan.template}),
    ];
    if at("/metadata/annotations").is_null() {
        ops.push(json!({"op": "test", "path": "/metadata/annotations", "value": null}));
        ops.push(json!({"op": "add", "path": "/metadata/annotations", "value": {CHANGE_CAUSE: cause, TRAIL: trail}}));
    } else {
        for (key, value) in [(CHANGE_CAUSE, cause), (TRAIL, trail)] {
            let path = format!("/metadata/annotations/{}", token(key));
            ops.push(json!({"op": "add", "path": path, "value": value}));
        }
    }
    Value::Array(ops)
}

/// Notes in our annotation which Pod is about to be evicted. The annotation is tested too: of two runs at once one notes its
/// Pod, and the other one then follows it.
pub fn evicting(read: &Object, trail: &Trail) -> Value {
    let at = |pointer: &str| read.0.pointer(pointer).cloned().unwrap_or(Value::Null);
    let path = format!("/metadata/annotations/{}", token(TRAIL));
    json!([
        {"op": "test", "path": "/metadata/uid", "value": at("/metadata/uid")},
        {"op": "test", "path": "/spec/template", "value": at("/spec/template")},
        {"op": "test", "path": path, "value": at(&path)},
        {"op": "add", "path": path, "value": serde_json::to_string(trail).unwrap_or_default()},
    ])
}

/// A Pod of the new template, for a dry run: quota and Pod security are only asked when a Pod is created.
pub fn trial_pod(read: &Object, plan: &Plan) -> Value {
    let metadata = plan.template.get("metadata").filter(|metadata| metadata.is_object());
    let mut metadata = metadata.cloned().unwrap_or_else(|| json!({}));
    metadata["generateName"] = json!(format!("{}-trial-", read.name().chars().take(200).collect::<String>()));
    metadata["namespace"] = json!(read.namespace());
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": plan.template.get("spec").cloned().unwrap_or(Value::Null),
    })
}

/// The pinned workload as an object to apply: what GitOps sources and offline use need.
pub fn manifest(read: &Object, plan: &Plan) -> Value {
    let mut object = read.0.clone();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("template".into(), plan.template.clone());
    }
    if let Some(map) = object.as_object_mut() {
        map.shift_remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in ["managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"] {
            metadata.shift_remove(key);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.shift_remove(crate::core::history::REVISION);
            annotations.shift_remove(crate::core::recovery::LAST_APPLIED);
            if annotations.is_empty() {
                metadata.shift_remove("annotations");
            }
        }
    }
    object
}
