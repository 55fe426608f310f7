//! Every document of every test is checked against the schema that other tools may rely on.

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../schema/report.schema.json")).expect("the schema is JSON")
});

static VALIDATOR: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let options = jsonschema::options().should_validate_formats(true);
    options.build(&SCHEMA).expect("the schema is a schema")
});

pub fn schema() -> &'static Value {
    &SCHEMA
}

/// All that is wrong with a document.
pub fn errors(document: &Value) -> Vec<String> {
    VALIDATOR.iter_errors(document).map(|e| format!("{} at {}", e, e.instance_path())).collect()
}

/// Fails the test with all that is wrong.
#[track_caller]
pub fn check(document: &Value) {
    let errors = errors(document);
    assert!(errors.is_empty(), "the document breaks its schema: {errors:#?}\n{document:#}");
}

/// As a reader of the schema would verify it: the member taken away, the rest in the order given.
#[track_caller]
pub fn check_digest(document: &Value) {
    let mut rest = document.clone();
    let said = rest.as_object_mut().and_then(|members| members.shift_remove("digest"));
    let hex: String = Sha256::digest(rest.to_string()).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(said, Some(Value::String(format!("sha256:{hex}"))), "the document's own digest");
}
