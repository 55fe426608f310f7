//! The Deployments of the histories, and how their templates read.

use super::dice::{Dice, WAYS, Way};
use crate::support::node;
use serde_json::{Value, json};

/// How the Pods are run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Image {
    Played,
    Real,
}

fn container(name: &str, port: u16, image: Image) -> Value {
    match image {
        Image::Played => {
            json!({"name": name, "image": "registry.example/web:1.4", "env": [], "envFrom": [], "volumeMounts": []})
        }
        Image::Real => {
            let port_text = port.to_string();
            let arguments = if name == "init" { ["init", name] } else { ["serve", &port_text] };
            let mut container = node::container(name, &arguments);
            container["env"] = json!([{"name": "HEALTHY", "value": "true"}]);
            container["envFrom"] = json!([]);
            container["volumeMounts"] = json!([]);
            if name != "init" {
                container["readinessProbe"] = json!({"httpGet": {"path": "/ready", "port": port}, "periodSeconds": 1});
            }
            container
        }
    }
}

fn push(container: &mut Value, member: &str, entry: Value) {
    container[member].as_array_mut().expect("a list").push(entry);
}

/// A Pod template with one to three uses; `release` makes it unlike every other.
pub fn template(dice: &mut Dice, app: &str, release: usize, main: &str, image: Image) -> Value {
    let mut web = container("app", 8080, image);
    let (mut side, mut init) = (None, None);
    let mut volumes = Vec::new();
    let mut plain = false;
    for index in 0..1 + dice.below(3) {
        let way = dice.weighted(WAYS);
        let name = if dice.chance(85) { main } else { "flags" };
        let variable = |key: &str, optional: bool| {
            let mut reference = json!({"name": name, "key": key});
            if optional {
                reference["optional"] = json!(true);
            }
            json!({"name": format!("V{index}"), "valueFrom": {"configMapKeyRef": reference}})
        };
        let volume = format!("v{index}");
        let mount = json!({"name": volume, "mountPath": format!("/config/{volume}")});
        let config_map = |more: Value| {
            let mut source = json!({"name": name});
            source.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            json!({"name": volume, "configMap": source})
        };
        let items = json!({"items": [{"key": "A", "path": "a"}]});
        match way {
            Way::Key => push(&mut web, "env", variable("A", false)),
            Way::OptionalKey => push(&mut web, "env", variable("C", true)),
            Way::From | Way::FromOptional | Way::FromPrefixed => {
                let mut from = json!({"configMapRef": {"name": name}});
                if way == Way::FromOptional {
                    from["configMapRef"]["optional"] = json!(true);
                }
                if way == Way::FromPrefixed || plain {
                    from["prefix"] = json!(format!("P{index}_"));
                } else {
                    plain = true;
                }
                push(&mut web, "envFrom", from);
            }
            Way::Whole | Way::OptionalVolume => {
                let more = if way == Way::Whole { json!({}) } else { json!({"optional": true}) };
                volumes.push(config_map(more));
                push(&mut web, "volumeMounts", mount);
            }
            Way::Items => {
                volumes.push(config_map(items));
                push(&mut web, "volumeMounts", mount);
            }
            Way::SubPath => {
                volumes.push(config_map(json!({})));
                let path = format!("/config/{volume}/A");
                push(&mut web, "volumeMounts", json!({"name": volume, "mountPath": path, "subPath": "A"}));
            }
            Way::Projected => {
                let mut source = json!({"configMap": {"name": name}});
                if dice.chance(50) {
                    source["configMap"]["items"] = items["items"].clone();
                }
                volumes.push(json!({"name": volume, "projected": {"sources": [source]}}));
                push(&mut web, "volumeMounts", mount);
            }
            Way::Unmounted => volumes.push(config_map(json!({}))),
            Way::InitKey => {
                push(init.get_or_insert_with(|| container("init", 0, image)), "env", variable("A", false));
            }
            Way::SideFrom => {
                let from = json!({"prefix": format!("S{index}_"), "configMapRef": {"name": name}});
                push(side.get_or_insert_with(|| container("side", 8081, image)), "envFrom", from);
            }
        }
    }
    if image == Image::Real
        && let Some(init) = &mut init
    {
        volumes.push(json!({"name": "shared", "emptyDir": {}}));
        for one in [init, &mut web] {
            push(one, "volumeMounts", json!({"name": "shared", "mountPath": "/shared"}));
        }
    }
    let containers: Vec<Value> = std::iter::once(web).chain(side).collect();
    let mut spec = json!({"containers": containers, "volumes": volumes, "terminationGracePeriodSeconds": 1});
    if let Some(init) = init {
        spec["initContainers"] = json!([init]);
    }
    json!({"metadata": {"labels": {"app": app}, "annotations": {"release": release.to_string()}}, "spec": spec})
}

pub fn deployment(dice: &mut Dice, name: &str, replicas: usize, template: Value) -> Value {
    let rolling = |surge: usize, unavailable: usize| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
    let strategies = [(3, 0), (2, 1), (1, 2)];
    let strategy = match dice.weighted(&strategies) {
        0 => rolling(1, 0),
        1 => rolling(0, 1),
        _ => json!({"type": "Recreate"}),
    };
    let limit = dice.weighted(&[(1, 1), (1, 2), (4, 10)]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "revisionHistoryLimit": limit, "strategy": strategy,
            "selector": {"matchLabels": {"app": name}}, "template": template,
        },
    })
}
