//! What a Pod takes from ConfigMaps, found the way a kubelet finds it. Written apart from the product's own walk
//! through templates: a mistake there must not repeat itself here.

use serde_json::Value;
use std::collections::BTreeMap;

pub type Taken = BTreeMap<String, Vec<u8>>;

/// One place in a Pod that takes something from a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    pub container: String,
    pub init: bool,
    pub config: String,
    pub optional: bool,
    pub how: How,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// The variable of this name from one key.
    Env { variable: String, key: String },
    /// Every key of `data`, with a prefix.
    EnvFrom { prefix: String },
    /// Files below this directory: key and path, or all.
    Files { directory: String, items: Option<Vec<(String, String)>> },
    /// One file, fixed when the container starts.
    SubPath { path: String, key: String },
    /// A volume that no container mounts. A kubelet passes it over.
    Unmounted,
}

/// The bytes of one ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub data: BTreeMap<String, String>,
    pub binary: BTreeMap<String, Vec<u8>>,
}

impl How {
    /// Read from the Pod's directory for the volume, which was filled before any container started.
    pub fn mounted(&self) -> bool {
        matches!(self, How::Files { .. } | How::SubPath { .. })
    }

    /// Kept current by the kubelet as long as the Pod lives.
    pub fn refreshed(&self) -> bool {
        matches!(self, How::Files { .. })
    }
}

impl Use {
    /// What it takes from these bytes, `None` being an absent ConfigMap; the error is what the container waits for.
    pub fn take(&self, bytes: Option<&Bytes>) -> Result<Taken, String> {
        let Some(bytes) = bytes else {
            return if !self.needed() { Ok(Taken::new()) } else { Err(format!("{} is not there", self.config)) };
        };
        let text = |key: &String| bytes.data.get(key).map(|text| text.clone().into_bytes());
        let file = |key: &String| text(key).or_else(|| bytes.binary.get(key).cloned());
        let need = |key: &String, found: Option<Vec<u8>>| match found {
            Some(found) => Ok([(key.clone(), found)].into()),
            None if self.optional => Ok(Taken::new()),
            None => Err(format!("{} has no key {key}", self.config)),
        };
        match &self.how {
            How::Env { key, .. } => need(key, text(key)),
            How::EnvFrom { .. } => {
                Ok(bytes.data.iter().map(|(key, text)| (key.clone(), text.clone().into_bytes())).collect())
            }
            How::Files { items: Some(items), .. } => {
                let mut taken = Taken::new();
                for (key, _) in items {
                    taken.extend(need(key, file(key))?);
                }
                Ok(taken)
            }
            How::Files { items: None, .. } => {
                let keys = bytes.data.keys().chain(bytes.binary.keys());
                Ok(keys.filter_map(|key| Some((key.clone(), file(key)?))).collect())
            }
            // A subPath that is not in the volume becomes an empty directory: the container starts without the file.
            How::SubPath { key, .. } => Ok(file(key).map(|found| (key.clone(), found)).into_iter().collect()),
            How::Unmounted => Ok(Taken::new()),
        }
    }

    /// Does a new Pod wait for the object?
    pub fn needed(&self) -> bool {
        !self.optional && self.how != How::Unmounted
    }

    /// A key that a new Pod needs and these bytes lack.
    pub fn lacks(&self, bytes: &Bytes) -> bool {
        self.take(Some(bytes)).is_err()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list<'a>(value: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> {
    value[member].as_array().into_iter().flatten()
}

/// Every use of a Pod's, or a template's, `spec`.
pub fn uses(spec: &Value) -> Vec<Use> {
    let mut uses = Vec::new();
    let mut mounted = Vec::new();
    for (member, init) in [("initContainers", true), ("containers", false)] {
        for container in list(spec, member) {
            let mut add = |reference: &Value, optional: &Value, how| {
                uses.push(Use {
                    container: text(&container["name"]),
                    init,
                    config: text(&reference["name"]),
                    optional: optional.as_bool().unwrap_or(false),
                    how,
                });
            };
            for variable in list(container, "env") {
                let reference = &variable["valueFrom"]["configMapKeyRef"];
                if reference.is_object() {
                    let how = How::Env { variable: text(&variable["name"]), key: text(&reference["key"]) };
                    add(reference, &reference["optional"], how);
                }
            }
            for from in list(container, "envFrom") {
                let reference = &from["configMapRef"];
                if reference.is_object() {
                    add(reference, &reference["optional"], How::EnvFrom { prefix: text(&from["prefix"]) });
                }
            }
            for mount in list(container, "volumeMounts") {
                mounted.push(text(&mount["name"]));
                let volume = list(spec, "volumes").find(|volume| volume["name"] == mount["name"]);
                for source in volume.into_iter().flat_map(sources) {
                    let items = source["items"].as_array().map(|items| {
                        items.iter().map(|item| (text(&item["key"]), text(&item["path"]))).collect::<Vec<_>>()
                    });
                    let path = text(&mount["mountPath"]);
                    let how = match mount["subPath"].as_str() {
                        None => How::Files { directory: path, items },
                        Some(file) => {
                            let key = items.and_then(|items| items.into_iter().find(|(_, path)| path == file));
                            How::SubPath { path, key: key.map_or(file.to_owned(), |(key, _)| key) }
                        }
                    };
                    add(source, &source["optional"], how);
                }
            }
        }
    }
    for volume in list(spec, "volumes").filter(|volume| !mounted.contains(&text(&volume["name"]))) {
        for source in sources(volume) {
            uses.push(Use {
                container: String::new(),
                init: false,
                config: text(&source["name"]),
                optional: source["optional"].as_bool().unwrap_or(false),
                how: How::Unmounted,
            });
        }
    }
    // Admission mounts it into every Pod: the cluster's own, and always there.
    uses.retain(|used| used.config != "kube-root-ca.crt");
    uses.sort();
    uses
}

/// The ConfigMaps of a volume; their name is `name` in both spellings.
fn sources(volume: &Value) -> Vec<&Value> {
    let projected = list(&volume["projected"], "sources").map(|source| &source["configMap"]);
    std::iter::once(&volume["configMap"]).chain(projected).filter(|source| source.is_object()).collect()
}
