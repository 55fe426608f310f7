//! Every document of every test is checked against the schema that other tools may rely on.

use serde_json::Value;
use std::sync::OnceLock;

static SCHEMA: &str = include_str!("../../schema/report.schema.json");

/// Fails the test with all that is wrong.
#[track_caller]
pub fn check(document: &Value) {
    static VALIDATOR: OnceLock<jsonschema::Validator> = OnceLock::new();
    let validator = VALIDATOR.get_or_init(|| {
        let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
        jsonschema::validator_for(&schema).expect("the schema is a schema")
    });
    let errors: Vec<String> =
        validator.iter_errors(document).map(|e| format!("{} at {}", e, e.instance_path())).collect();
    assert!(errors.is_empty(), "the document breaks its schema: {errors:#?}\n{document:#}");
}
