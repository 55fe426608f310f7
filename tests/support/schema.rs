//! Every document of every test is checked against the schema that other tools may rely on.

use serde_json::Value;
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
