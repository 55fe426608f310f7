//! JSON values as YAML text.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use crate::cli::screen::reorders;

/// `serde_json` keeps numbers as text (`arbitrary_precision`), which only its own serializer understands.
struct Plain<'a>(&'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(b) => serializer.serialize_bool(*b),
            // Only between double quotes can a character be spelled, as `document` does.
            Value::String(s) if s.chars().any(reorders) => serde_yaml::DoubleQuoted(s).serialize(serializer),
            Value::String(s) => serializer.serialize_str(s),
            Value::Number(n) => match (n.as_i64(), n.as_u64(), n.as_f64()) {
                (Some(i), _, _) => serializer.serialize_i64(i),
                (_, Some(u), _) => serializer.serialize_u64(u),
                (_, _, Some(f)) => serializer.serialize_f64(f),
                _ => serializer.serialize_str(&n.to_string()),
            },
            Value::Array(items) => {
                let mut seq = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    seq.serialize_element(&Plain(item))?;
                }
                seq.end()
            }
            Value::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (key, value) in members {
                    map.serialize_entry(key, &Plain(value))?;
                }
                map.end()
            }
        }
    }
}

/// One document, with a final newline and without a character that a terminal would obey: the serializer spells control
/// characters itself, and we what turns text around.
///
/// # Errors
/// The serializer's words.
pub fn document(value: &Value) -> Result<String, String> {
    let text = serde_yaml::to_string(&Plain(value)).map_err(|error| error.to_string())?;
    let spelled = |c: char| if reorders(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Ok(format!("{}\n", text.trim_end().chars().map(spelled).collect::<String>()))
}
