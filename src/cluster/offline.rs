//! The same reads, answered from YAML and JSON files: what `kubectl get -o yaml` or `--raw` wrote down.
//!
//! A dump may hold an object several times, at different versions. The one with the highest resourceVersion is
//! today's; the others are what it was before. A raw API list at number N proves that each of its objects had its
//! version at N. Secrets are cut down to their metadata while they are read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::cluster::decode;
use crate::cluster::dump::{Selector, documents, newest_time};
use crate::cluster::exchange::{Asked, bare_secret};
use crate::cluster::read::{List, ReadError, Resource, Select};
use crate::core::object::Object;

/// Why a dump cannot be used. A file that cannot be read in full is an error, never a shorter dump.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DumpError {
    #[error("cannot read {}: {cause}", .path.display())]
    Read { path: PathBuf, cause: String },
    #[error("{}:{line}: {cause}", .path.display())]
    Parse { path: PathBuf, line: u64, cause: String },
    #[error("{} holds no .yaml, .yml or .json file", .path.display())]
    Empty { path: PathBuf },
}

/// An earlier version of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Older {
    pub object: Object,
    /// The highest list number at which the object still had this version; `None` if no list tells.
    pub held_until: Option<u64>,
}

/// One version of one object.
#[derive(Clone, Debug)]
struct Seen {
    object: Object,
    held_until: Option<u64>,
}

/// The objects of some files.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// Per object (apiVersion, kind, namespace, name) its versions, the newest last.
    objects: BTreeMap<Key, Vec<Seen>>,
    /// The keys in the order of the documents.
    order: Vec<Key>,
    lists: Vec<(usize, String, String, u64)>,
    kinds: BTreeMap<String, usize>,
    newest: Option<Timestamp>,
    skipped: Vec<String>,
    documents: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
}

impl Dump {
    /// Reads files, directories (their `*.yaml`, `*.yml` and `*.json`, in the order of their names, not deeper) and
    /// `-`, which stands for `stdin`.
    ///
    /// # Errors
    /// See [`DumpError`]; the first problem ends it.
    pub fn load(sources: &[PathBuf], stdin: &mut dyn io::Read) -> Result<Dump, DumpError> {
        let mut dump = Dump::default();
        for source in sources {
            let read_error =
                |path: &Path, error: io::Error| DumpError::Read { path: path.to_path_buf(), cause: error.to_string() };
            if source.as_os_str() == "-" {
                let mut bytes = Vec::new();
                stdin.read_to_end(&mut bytes).map_err(|error| read_error(Path::new("stdin"), error))?;
                dump.add(Path::new("stdin"), &bytes)?;
            } else if source.is_dir() {
                let mut files = Vec::new();
                for entry in fs::read_dir(source).map_err(|error| read_error(source, error))? {
                    let path = entry.map_err(|error| read_error(source, error))?.path();
                    let wanted = path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json");
                    if wanted && path.is_file() {
                        files.push(path);
                    }
                }
                if files.is_empty() {
                    return Err(DumpError::Empty { path: source.clone() });
                }
                files.sort();
                for path in files {
                    let bytes = fs::read(&path).map_err(|error| read_error(&path, error))?;
                    dump.add(&path, &bytes)?;
                }
            } else {
                let bytes = fs::read(source).map_err(|error| read_error(source, error))?;
                dump.add(source, &bytes)?;
            }
        }
        Ok(dump)
    }

    /// Adds the documents of one file.
    ///
    /// # Errors
    /// [`DumpError::Parse`] with the line of the first problem.
    pub fn add(&mut self, path: &Path, bytes: &[u8]) -> Result<(), DumpError> {
        let parse_error = |line: u64, cause: String| DumpError::Parse { path: path.to_path_buf(), line, cause };
        let text = decode(bytes).map_err(|cause| parse_error(1, cause.to_string()))?;
        let json_only = path.extension().is_some_and(|end| end == "json");
        for document in documents(&text, json_only).map_err(|(line, cause)| parse_error(line, cause))? {
            let place = format!("{}:{}", path.display(), document.line);
            if document.value.is_null() {
                continue;
            }
            self.documents += 1;
            match document.value {
                Value::Array(values) => values.into_iter().for_each(|value| self.add_value(value, None, &place)),
                value => self.add_value(value, None, &place),
            }
        }
        for versions in self.objects.values_mut() {
            // Stable: without numbers the later document is the newer one.
            versions.sort_by_key(|seen| seen.object.version());
        }
        Ok(())
    }

    /// Objects of one type as they are today, in the order of the documents, selected as a server would. An object
    /// without a namespace is in every namespace; an empty namespace asks for all.
    ///
    /// Its version is the highest number of a list of that type. A list may have been a selection, so that an object
    /// is absent from a later one does not show that it was deleted.
    ///
    /// # Errors
    /// [`ReadError::Malformed`] for a selector that cannot be read.
    pub fn list(&self, resource: Resource, namespace: &str, select: Select<'_>) -> Result<List, ReadError> {
        let selector = Selector::parse(select)
            .map_err(|cause| ReadError::Malformed { asked: Asked::new("list", resource, namespace, None), cause })?;
        let items = self
            .order
            .iter()
            .filter(|key| key.is(resource, namespace))
            .filter_map(|key| self.objects.get(key)?.last())
            .filter(|seen| selector.matches(&seen.object))
            .map(|seen| seen.object.clone())
            .collect();
        let version = self.lists(resource).into_iter().map(|(_, version)| version).max();
        Ok(List { items, version })
    }

    /// The earlier versions of an object, the newest first; of another uid if it was re-created.
    pub fn older(&self, resource: Resource, namespace: &str, name: &str) -> Vec<Older> {
        self.objects
            .iter()
            .filter(|(key, _)| key.is(resource, namespace) && key.name == name)
            .flat_map(|(_, versions)| versions.iter().rev().skip(1))
            .map(|seen| Older { object: seen.object.clone(), held_until: seen.held_until })
            .collect()
    }

    /// The numbered lists of a type: the position of the document among all of them, and the number.
    pub fn lists(&self, resource: Resource) -> Vec<(usize, u64)> {
        self.lists
            .iter()
            .filter(|(_, api_version, kind, _)| api_version == resource.api_version() && kind == resource.kind())
            .map(|(document, _, _, version)| (*document, *version))
            .collect()
    }

    /// How many objects of each kind were found, versions of one object counted once.
    pub fn kinds(&self) -> BTreeMap<String, usize> {
        self.kinds.clone()
    }

    /// The newest time that the API server, a controller or a kubelet wrote into any object: the "now" of a dump.
    /// Annotations are not asked: anybody writes anything there.
    pub fn newest_time(&self) -> Option<Timestamp> {
        self.newest
    }

    /// The namespaces that hold a Deployment, StatefulSet or DaemonSet; empty for one without a namespace.
    pub fn workload_namespaces(&self) -> BTreeSet<String> {
        let workloads = [Resource::Deployments, Resource::StatefulSets, Resource::DaemonSets];
        self.order
            .iter()
            .filter(|key| workloads.iter().any(|resource| key.is(*resource, "")))
            .map(|key| key.namespace.clone())
            .collect()
    }

    /// Documents that are no Kubernetes object, as `FILE:LINE`.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// Adds an object or the items of a list. `list` is (apiVersion, kind of its items, number).
    fn add_value(&mut self, value: Value, list: Option<(&str, &str, Option<u64>)>, place: &str) {
        let Value::Object(mut object) = value else {
            self.skipped.push(place.to_string());
            return;
        };
        let text = |object: &Map<String, Value>, key: &str| {
            object.get(key).and_then(Value::as_str).unwrap_or_default().to_string()
        };
        let (mut api_version, mut kind) = (text(&object, "apiVersion"), text(&object, "kind"));
        if let Some(item_kind) = kind.strip_suffix("List")
            && object.get("items").is_none_or(|items| items.is_array() || items.is_null())
        {
            // The numbers of kubectl's own `List` mean nothing: it puts several answers together.
            let number = match item_kind {
                "" => None,
                _ => object.get("metadata").and_then(|m| m.get("resourceVersion")?.as_str()?.parse().ok()),
            };
            if let Some(number) = number {
                self.lists.push((self.documents - 1, api_version.clone(), item_kind.to_string(), number));
            }
            if let Some(Value::Array(items)) = object.remove("items") {
                for item in items {
                    self.add_value(item, Some((&api_version, item_kind, number)), place);
                }
            }
            return;
        }
        let mut held_until = None;
        if let Some((list_api_version, list_kind, number)) = list {
            held_until = number;
            if kind.is_empty() {
                kind = list_kind.to_string();
            }
            if api_version.is_empty() {
                api_version = list_api_version.to_string();
            }
        }
        let name = object.get("metadata").map(|metadata| metadata.get("name").and_then(Value::as_str).unwrap_or(""));
        if kind.is_empty() || name.is_none_or(str::is_empty) {
            self.skipped.push(place.to_string());
            return;
        }
        let mut whole = Map::with_capacity(object.len() + 2);
        whole.insert("apiVersion".into(), api_version.as_str().into());
        whole.insert("kind".into(), kind.as_str().into());
        object.retain(|key, _| key != "apiVersion" && key != "kind");
        whole.extend(object);
        if kind == "Secret" {
            bare_secret(&mut whole);
        }
        let object = Object(Value::Object(whole));
        self.newest = self.newest.max(newest_time(&object));
        let key = Key { api_version, kind, namespace: object.namespace().to_string(), name: object.name().to_string() };
        let seen = Seen { object, held_until };
        match self.objects.get_mut(&key) {
            None => {
                *self.kinds.entry(key.kind.clone()).or_default() += 1;
                self.order.push(key.clone());
                self.objects.insert(key, vec![seen]);
            }
            Some(versions) => {
                let same = |known: &&mut Seen| {
                    known.object.uid() == seen.object.uid()
                        && known.object.str_at("/metadata/resourceVersion")
                            == seen.object.str_at("/metadata/resourceVersion")
                        // Two manifests without a number are the same only if they say the same.
                        && (seen.object.version().is_some() || known.object == seen.object)
                };
                match versions.iter_mut().find(same) {
                    Some(known) => known.held_until = known.held_until.max(seen.held_until),
                    None => versions.push(seen),
                }
            }
        }
    }
}

impl Key {
    fn is(&self, resource: Resource, namespace: &str) -> bool {
        self.kind == resource.kind()
            && self.api_version == resource.api_version()
            && (namespace.is_empty() || self.namespace.is_empty() || self.namespace == namespace)
    }
}
