//! The Role that a verb needs: to be applied as it is, with what is lost without each rule beside it.

use serde_json::{Value, json};

use crate::cli::args::{self, Cli};
use crate::cli::output::Output;
use crate::cli::{print, ui};
use crate::core::rights::{self, Verb};
use crate::run::Failure;

pub fn verb(cli: &Cli, args: &args::Rbac) -> Result<u8, Failure> {
    let namespace = cli.connection.namespace.as_deref();
    let verb = args.verb.verb();
    if args.output == args::Manifest::Json {
        print(&role(verb, namespace), &Output::Json)?;
    } else {
        ui::out(&yaml(verb, namespace).map_err(Failure::Given)?);
    }
    Ok(0)
}

/// `namespace`: where the Role is for; without it the one where it is applied.
pub fn role(verb: Verb, namespace: Option<&str>) -> Value {
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": format!("saferollback-{}", verb.word())},
    });
    if let Some(namespace) = namespace {
        role["metadata"]["namespace"] = json!(namespace);
    }
    let rule = |r: &rights::Rule| json!({"apiGroups": [r.group], "resources": [r.resource], "verbs": r.verbs});
    role["rules"] = rights::of(verb).iter().map(rule).collect();
    role
}

/// The Role as YAML, with a comment before each rule.
///
/// # Errors
/// The serializer's words.
pub fn yaml(verb: Verb, namespace: Option<&str>) -> Result<String, String> {
    let mut role = role(verb, namespace);
    let rules = role["rules"].take();
    if let Some(members) = role.as_object_mut() {
        members.shift_remove("rules");
    }
    let mut text = super::yaml::document(&role)?;
    text.push_str("rules:\n");
    for (rule, written) in rights::of(verb).iter().zip(rules.as_array().into_iter().flatten()) {
        text.push_str(&format!("# Without it: {}\n", rule.without));
        let rule = super::yaml::document(written)?;
        for (number, line) in rule.lines().enumerate() {
            text.push_str(if number == 0 { "- " } else { "  " });
            text.push_str(line);
            text.push('\n');
        }
    }
    Ok(text)
}
