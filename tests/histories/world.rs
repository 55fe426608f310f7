//! What all histories of a run share: control planes, a name made of content, and people with few rights.

use super::dice::{Eyes, Where};
use crate::support::control_plane::{Alone, ControlPlane, Namespace};
use crate::support::node::Node;
use crate::support::rights;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::NamedTempFile;

pub struct World {
    planes: BTreeMap<Where, ControlPlane>,
    /// As kubectl names a ConfigMap with the content that all of them have at first.
    pub content_name: String,
    eyes: BTreeMap<(Where, Eyes), NamedTempFile>,
    /// Histories end the API's memory now and then, which would take it from other tests.
    _alone: Option<Alone>,
}

impl World {
    pub fn played() -> Self {
        let alone = ControlPlane::compact();
        let compact = ControlPlane::clone(&alone);
        let planes =
            [(Where::Main, ControlPlane::main()), (Where::Compact, compact), (Where::Split, ControlPlane::split())];
        Self { _alone: Some(alone), ..Self::of(planes) }
    }

    pub fn real() -> Self {
        Self::of([(Where::Node, Node::open())])
    }

    fn of<const N: usize>(planes: [(Where, ControlPlane); N]) -> Self {
        let planes = BTreeMap::from(planes);
        let any = planes.values().next().expect("a control plane");
        let make = ["create", "configmap", "settings", "--from-literal=A=0", "--from-literal=B=0"];
        let named = any.kubectl(&[&make[..], &["--append-hash", "--dry-run=client", "-o", "name"]].concat());
        let named = String::from_utf8(named.stdout).expect("a name");
        let content_name = named.trim().strip_prefix("configmap/").expect("a ConfigMap").to_owned();
        let mut eyes = BTreeMap::new();
        for (place, plane) in &planes {
            let space = plane.namespace("eyes");
            for one in [Eyes::NoEvents, Eyes::NoPods, Eyes::ByName] {
                eyes.insert((*place, one), kubeconfig(&space, one));
            }
        }
        Self { planes, content_name, eyes, _alone: None }
    }

    pub fn plane(&self, place: Where) -> &ControlPlane {
        &self.planes[&place]
    }

    /// Whose kubeconfig, unless it is the one with all rights.
    pub fn eyes(&self, place: Where, eyes: Eyes) -> Option<&Path> {
        self.eyes.get(&(place, eyes)).map(NamedTempFile::path)
    }
}

fn kubeconfig(space: &Namespace, eyes: Eyes) -> NamedTempFile {
    let reads = |resources: &[&str]| -> Value {
        json!({"apiGroups": ["", "apps"], "resources": resources, "verbs": ["get", "list"]})
    };
    let mut rules = vec![reads(&["deployments", "replicasets"])];
    if eyes == Eyes::ByName {
        let mut by_name = reads(&["configmaps"]);
        by_name["resourceNames"] = json!(["settings", "flags"]);
        rules.push(by_name);
    } else {
        rules.push(reads(&["configmaps"]));
    }
    if eyes != Eyes::NoPods {
        rules.push(reads(&["pods"]));
    }
    if eyes != Eyes::NoEvents {
        rules.push(reads(&["events"]));
    }
    rights::everywhere(space, &format!("{eyes:?}").to_lowercase(), &json!(rules))
}
