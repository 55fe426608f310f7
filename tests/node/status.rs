//! The words of a real kubelet and scheduler for what keeps a Pod from running: the product reads them.

use crate::support::client::{CONFIGMAPS, DEPLOYMENTS};
use crate::support::incident;
use crate::support::node::{self, Node};
use serde_json::{Value, json};
use std::thread;

type Case = (&'static str, fn(&mut Value), &'static str);

/// A volume that no container mounts is no kubelet's matter.
fn mount(spec: &mut Value, config_map: &Value) {
    spec["volumes"] = json!([{"name": "cfg", "configMap": config_map}]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "cfg", "mountPath": "/config"}]);
}

const CASES: [Case; 6] = [
    (
        "no-key",
        |spec| {
            spec["containers"][0]["env"] =
                json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "NOPE"}}}]);
        },
        "container app does not start: configmap/settings has no key NOPE (CreateContainerConfigError)",
    ),
    (
        "no-object",
        |spec| spec["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "absent"}}]),
        "container app does not start: configmap/absent is not there (CreateContainerConfigError)",
    ),
    (
        "no-volume",
        |spec| mount(spec, &json!({"name": "absent"})),
        "a volume cannot be mounted: configmap/absent is not there (FailedMount)",
    ),
    (
        "no-file",
        |spec| {
            mount(spec, &json!({"name": "settings", "items": [{"key": "NOPE", "path": "nope"}]}));
        },
        "a volume cannot be mounted: configmap/settings has no key NOPE (FailedMount)",
    ),
    (
        "no-image",
        |spec| {
            spec["containers"][0]["image"] = json!("registry.invalid/absent:1");
            spec["containers"][0]["imagePullPolicy"] = json!("Never");
        },
        "the image of container app cannot be pulled: ",
    ),
    (
        "no-room",
        |spec| spec["containers"][0]["resources"] = json!({"requests": {"cpu": "4000"}}),
        "no node takes it: 0/1 nodes are available: ",
    ),
];

/// Without this a kubelet that words it otherwise would leave a person with a sentence that they have to look up (C80).
#[test]
fn c80_a_real_kubelets_reasons_are_told_in_words() {
    thread::scope(|scope| {
        for (name, change, words) in CASES {
            scope.spawn(move || {
                let namespace = Node::namespace(name);
                namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
                let mut web = node::web(1);
                change(&mut web["spec"]["template"]["spec"]);
                namespace.all(DEPLOYMENTS).create(&web).ok();
                let ran = namespace.run(&["status", "deploy/web", "--watch", "--timeout=120s", "-o", "json"]).expect(4);
                let document = ran.document();
                let sentence = document["sentence"].as_str().unwrap_or_default();
                assert!(sentence.contains(words), "{name}: {document:#}");
                assert_eq!(document["phase"], "failed", "{name}: {document:#}");
            });
        }
    });
}
