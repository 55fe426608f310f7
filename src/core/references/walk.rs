//! The walk over a template that collects its references.

use serde_json::Value;

use super::volumes::{self, Mount};
use super::{Keys, Kind, Pinnable, Read, References, Use, token, trust_bundle};

/// Every reference of the template, and what may be one.
pub fn extract(template: &Value) -> References {
    let mut found = References::default();
    let root = At { value: template, pointer: String::new() };
    if let Some(annotations) = root.get("metadata").and_then(|m| m.get("annotations")) {
        annotation_hints(&annotations, &mut found);
    }
    let Some(spec) = root.get("spec") else {
        return found;
    };
    let mut mounts = Vec::new();
    for (field, init) in [("initContainers", true), ("containers", false)] {
        for container in spec.items(field) {
            environment(&container, init, &mut found);
            argument_hints(&container, &mut found);
            mounts.extend(container.items("volumeMounts").iter().filter_map(|m| Mount::of(m, &container, init)));
        }
    }
    for volume in spec.items("volumes") {
        let name = volume.text("name").unwrap_or("");
        let mounts: Vec<&Mount> = mounts.iter().filter(|m| m.volume == name).collect();
        volumes::sources(&volume, &mounts, &mut found);
    }
    for secret in spec.items("imagePullSecrets") {
        whole_pod(&secret, "name", &secret.pointer, Read::ImagePull, &mut found);
    }
    found
}

/// A value and where it stands. `null` counts as absent everywhere, as for the API server.
pub(super) struct At<'a> {
    pub(super) value: &'a Value,
    pub(super) pointer: String,
}

impl<'a> At<'a> {
    pub(super) fn get(&self, key: &str) -> Option<At<'a>> {
        let value = self.value.get(key).filter(|v| !v.is_null())?;
        Some(At { value, pointer: format!("{}/{}", self.pointer, token(key)) })
    }

    pub(super) fn items(&self, key: &str) -> Vec<At<'a>> {
        let Some(list) = self.get(key) else {
            return Vec::new();
        };
        let values = list.value.as_array().map_or(&[][..], Vec::as_slice);
        values.iter().enumerate().map(|(i, value)| At { value, pointer: format!("{}/{i}", list.pointer) }).collect()
    }

    /// A string that is not empty.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.value.get(key)?.as_str().filter(|s| !s.is_empty())
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        self.value.get(key).and_then(Value::as_bool) == Some(true)
    }

    fn members(&self) -> Vec<(&'a str, At<'a>)> {
        let Some(map) = self.value.as_object() else {
            return Vec::new();
        };
        map.iter().filter_map(|(key, _)| Some((key.as_str(), self.get(key)?))).collect()
    }
}

/// A source of configuration that this version does not know is said aloud, never passed over.
pub(super) fn unknown_members(at: &At, known: &[&str], found: &mut References) {
    for (key, member) in at.members() {
        if !known.contains(&key) {
            found.note(&member.pointer, format!("{key}: a field this version does not know"));
        }
    }
}

/// The object's name. A source without one names nothing: old servers accept it and no kubelet can resolve it.
pub(super) fn name_of<'a>(source: &At<'a>, key: &str, found: &mut References) -> Option<(&'a str, String)> {
    match source.text(key) {
        Some(name) => Some((name, format!("{}/{key}", source.pointer))),
        None => {
            let field = source.pointer.rsplit('/').next().unwrap_or_default();
            let field = if field.parse::<usize>().is_ok() { "imagePullSecrets entry" } else { field };
            found.note(&source.pointer, format!("{field} without a name"));
            None
        }
    }
}

pub(super) fn pinnable(kind: Kind, name: &str, read: Read) -> Pinnable {
    match read {
        Read::ImagePull => Pinnable::ImagePull,
        Read::Driver => Pinnable::Driver,
        _ if kind == Kind::ConfigMap && trust_bundle(name) => Pinnable::TrustBundle,
        _ => Pinnable::Yes,
    }
}

fn environment(container: &At, init: bool, found: &mut References) {
    let add = |found: &mut References, kind, element: &At, source: &At, keys: Keys| {
        let Some((name, name_pointer)) = name_of(source, "name", found) else {
            return;
        };
        let listed = if let Keys::Data(key) = &keys { vec![key.clone()] } else { Vec::new() };
        let one = Use {
            pointer: element.pointer.clone(),
            name_pointer,
            container: container.text("name").map(str::to_string),
            init,
            read: Read::ContainerStart,
            keys,
            optional: source.flag("optional"),
            listed,
            pinnable: pinnable(kind, name, Read::ContainerStart),
        };
        found.add(kind, name, one);
    };
    for element in container.items("envFrom") {
        for (field, kind) in [("configMapRef", Kind::ConfigMap), ("secretRef", Kind::Secret)] {
            if let Some(source) = element.get(field) {
                add(found, kind, &element, &source, Keys::AllData);
            }
        }
        unknown_members(&element, &["prefix", "configMapRef", "secretRef"], found);
    }
    for element in container.items("env") {
        unknown_members(&element, &["name", "value", "valueFrom"], found);
        let Some(from) = element.get("valueFrom") else {
            continue;
        };
        for (field, kind) in [("configMapKeyRef", Kind::ConfigMap), ("secretKeyRef", Kind::Secret)] {
            let Some(source) = from.get(field) else {
                continue;
            };
            match source.text("key") {
                Some(key) => add(found, kind, &element, &source, Keys::Data(key.to_string())),
                None => found.note(&source.pointer, format!("{field} without a key")),
            }
        }
        if let Some(file) = from.get("fileKeyRef") {
            let volume = file.text("volumeName").unwrap_or("?");
            found.note(&file.pointer, format!("a file that a container writes into volume {volume} at run time"));
        }
        let known = ["configMapKeyRef", "secretKeyRef", "fileKeyRef", "fieldRef", "resourceFieldRef"];
        unknown_members(&from, &known, found);
    }
}

/// A Secret that the Pod as a whole needs. A missing image pull secret is passed over by the kubelet; a missing
/// driver secret stops the mount.
pub(super) fn whole_pod(source: &At, key: &str, element: &str, read: Read, found: &mut References) {
    let Some((name, name_pointer)) = name_of(source, key, found) else {
        return;
    };
    let one = Use {
        pointer: element.to_string(),
        name_pointer,
        container: None,
        init: false,
        read,
        keys: Keys::All,
        optional: read == Read::ImagePull,
        listed: Vec::new(),
        pinnable: pinnable(Kind::Secret, name, read),
    };
    found.add(Kind::Secret, name, one);
}

/// Only the place is kept: an argument may hold a password.
fn argument_hints(container: &At, found: &mut References) {
    for argument in ["command", "args"].iter().flat_map(|field| container.items(field)) {
        let text = argument.value.as_str().unwrap_or("").to_ascii_lowercase();
        if text.contains("configmap") || text.contains("config-map") {
            found.note(&argument.pointer, "an argument that seems to name a ConfigMap");
        } else if text.contains("secret/") || text.contains("secrets/") {
            found.note(&argument.pointer, "an argument that seems to name a Secret");
        }
    }
}

fn annotation_hints(annotations: &At, found: &mut References) {
    let mut vault = false;
    for (key, annotation) in annotations.members() {
        let what = match key {
            "configmap.reloader.stakater.com/reload" | "secret.reloader.stakater.com/reload" => {
                "configuration that Reloader watches for this workload"
            }
            "wave.pusher.com/extra-configmaps" | "wave.pusher.com/extra-secrets" => {
                "configuration that Wave watches for this workload"
            }
            _ if key.starts_with("vault.hashicorp.com/agent-inject") && !vault => {
                vault = true;
                "files that the Vault agent injects"
            }
            // Helm's digest of a rendered file: a witness, no name.
            _ if key.starts_with("checksum/") => continue,
            _ if key.to_ascii_lowercase().contains("configmap") => "an annotation that seems to name a ConfigMap",
            _ => continue,
        };
        found.note(&annotation.pointer, what);
    }
}
