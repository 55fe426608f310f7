//! A raw Kubernetes object and what its metadata says.
//!
//! Objects stay `serde_json::Value` on every path that can end in a write: typed structs drop the fields they
//! do not know (openkruise/rollouts#335), and a template that went through one is no longer the template.

use jiff::Timestamp;
use serde_json::Value;

/// A Kubernetes object as the API server sent it.
#[derive(Clone, Debug, PartialEq)]
pub struct Object(pub Value);

/// The controller that owns an object (`ownerReferences` with `controller: true`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

/// One managedFields entry. Its time has second resolution and moves only when a field was added or changed:
/// a write that only removes keys leaves no trace here.
#[derive(Clone, Debug)]
pub struct FieldOwner<'a> {
    pub manager: &'a str,
    pub subresource: &'a str,
    pub time: Option<Timestamp>,
    fields: &'a Value,
}

impl FieldOwner<'_> {
    /// Does this entry own the field at `path` (`["f:data", "f:KEY"]`) or anything below it?
    pub fn owns(&self, path: &[&str]) -> bool {
        let mut at = self.fields;
        for step in path {
            match at.get(step) {
                Some(next) => at = next,
                None => return false,
            }
        }
        true
    }
}

impl Object {
    pub fn str_at(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or("")
    }

    /// A whole number at `pointer`; `None` when absent or not one.
    pub fn int_at(&self, pointer: &str) -> Option<i64> {
        self.0.pointer(pointer).and_then(Value::as_i64)
    }

    pub fn time_at(&self, pointer: &str) -> Option<Timestamp> {
        self.0.pointer(pointer).and_then(Value::as_str).and_then(|s| s.parse().ok())
    }

    pub fn items_at(&self, pointer: &str) -> &[Value] {
        self.0.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub fn kind(&self) -> &str {
        self.str_at("/kind")
    }

    pub fn name(&self) -> &str {
        self.str_at("/metadata/name")
    }

    pub fn namespace(&self) -> &str {
        self.str_at("/metadata/namespace")
    }

    pub fn uid(&self) -> &str {
        self.str_at("/metadata/uid")
    }

    /// The resourceVersion as a number. `None` where it is not a whole number: such a server's numbers have no
    /// order that we may use.
    pub fn version(&self) -> Option<u64> {
        self.str_at("/metadata/resourceVersion").parse().ok()
    }

    pub fn created(&self) -> Option<Timestamp> {
        self.time_at("/metadata/creationTimestamp")
    }

    /// Is it being deleted?
    pub fn terminating(&self) -> bool {
        self.0.pointer("/metadata/deletionTimestamp").is_some_and(|v| !v.is_null())
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.0.get("metadata")?.get("labels")?.get(key)?.as_str()
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.0.get("metadata")?.get("annotations")?.get(key)?.as_str()
    }

    /// The controlling owner, if there is exactly one as the API demands.
    pub fn controller(&self) -> Option<Owner> {
        let owner = self
            .items_at("/metadata/ownerReferences")
            .iter()
            .find(|o| o.get("controller").and_then(Value::as_bool) == Some(true))?;
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or("").to_string();
        Some(Owner { kind: text("kind"), name: text("name"), uid: text("uid") })
    }

    pub fn field_owners(&self) -> impl Iterator<Item = FieldOwner<'_>> {
        self.items_at("/metadata/managedFields").iter().map(|entry| {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or("");
            FieldOwner {
                manager: text("manager"),
                subresource: text("subresource"),
                time: entry.get("time").and_then(Value::as_str).and_then(|s| s.parse().ok()),
                fields: entry.get("fieldsV1").unwrap_or(&Value::Null),
            }
        })
    }

    /// Newest managedFields time over all entries: when somebody was last *seen* to write. A sign, never proof.
    pub fn last_seen_write(&self) -> Option<Timestamp> {
        self.field_owners().filter_map(|entry| entry.time).max()
    }
}
