//! People with few rights: a service account, and a kubeconfig that carries its token.

use super::client::{Resource, SERVICE_ACCOUNTS};
use super::control_plane::{Namespace, wait};
use serde_json::{Value, json};
use std::fs;
use tempfile::NamedTempFile;

const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: Resource = Resource::new("/apis/rbac.authorization.k8s.io/v1", "roles");
const BINDINGS: Resource = Resource::new("/apis/rbac.authorization.k8s.io/v1", "rolebindings");
const CLUSTER_ROLES: Resource = Resource::new("/apis/rbac.authorization.k8s.io/v1", "clusterroles");
const REVIEWS: Resource = Resource::new("/apis/authorization.k8s.io/v1", "subjectaccessreviews");
const CLUSTER_BINDINGS: Resource = Resource::new("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings");

/// A service account's kubeconfig with these rules in its namespace, and nothing else.
pub fn here(namespace: &Namespace, rules: &Value) -> NamedTempFile {
    named(namespace, "few", rules)
}

/// The same for an account of this name.
pub fn named(namespace: &Namespace, account: &str, rules: &Value) -> NamedTempFile {
    namespace.all(SERVICE_ACCOUNTS).create(&json!({"metadata": {"name": account}})).ok();
    namespace.all(ROLES).create(&json!({"metadata": {"name": account}, "rules": rules})).ok();
    namespace.all(BINDINGS).create(&binding(namespace, "Role", account, account)).ok();
    effective(namespace, account, rules);
    kubeconfig(namespace, account)
}

/// The same with these rules in every namespace.
pub fn everywhere(namespace: &Namespace, account: &str, rules: &Value) -> NamedTempFile {
    let role = format!("{}-{account}", namespace.name);
    namespace.all(SERVICE_ACCOUNTS).create(&json!({"metadata": {"name": account}})).ok();
    let plane = &namespace.plane;
    plane.call(CLUSTER_ROLES, None, None).create(&json!({"metadata": {"name": role}, "rules": rules})).ok();
    plane.call(CLUSTER_BINDINGS, None, None).create(&binding(namespace, "ClusterRole", &role, account)).ok();
    effective(namespace, account, rules);
    kubeconfig(namespace, account)
}

/// Waits until the server's authorizer has heard of them: it watches roles and bindings, and is late on a busy machine.
fn effective(namespace: &Namespace, account: &str, rules: &Value) {
    let Some(rule) = rules.as_array().and_then(|rules| rules.last()) else { return };
    let (resource, sub) = match rule["resources"][0].as_str().unwrap_or_default().split_once('/') {
        Some((resource, sub)) => (json!(resource), json!(sub)),
        None => (rule["resources"][0].clone(), Value::Null),
    };
    let review = json!({"spec": {
        "user": format!("system:serviceaccount:{}:{account}", namespace.name),
        "resourceAttributes": {
            "namespace": namespace.name, "verb": rule["verbs"][0], "group": rule["apiGroups"][0],
            "resource": resource, "subresource": sub, "name": rule["resourceNames"][0],
        },
    }});
    wait("rights to be in force", || {
        let answer = namespace.plane.call(REVIEWS, None, None).create(&review).ok();
        (answer["status"]["allowed"] == true).then_some(())
    });
}

fn binding(namespace: &Namespace, kind: &str, role: &str, account: &str) -> Value {
    json!({
        "metadata": {"name": role},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace.name}],
    })
}

fn kubeconfig(namespace: &Namespace, account: &str) -> NamedTempFile {
    let token = namespace.at(SERVICE_ACCOUNTS, account).sub("token").create(&json!({"spec": {}})).ok();
    let token = token["status"]["token"].as_str().expect("a token").to_string();
    let admin = fs::read_to_string(&namespace.plane.kubeconfig).expect("the kubeconfig");
    let lines: Vec<String> = admin
        .lines()
        .filter(|line| !line.contains("client-key-data"))
        .map(|line| match line.split_once("client-certificate-data") {
            Some((indent, _)) => format!("{indent}token: {token}"),
            None => line.to_string(),
        })
        .collect();
    let file = NamedTempFile::new().expect("a file");
    fs::write(file.path(), lines.join("\n")).expect("written");
    file
}
