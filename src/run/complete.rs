//! What there is to choose from, for whoever presses TAB: names and revisions, and nothing about them that takes long.
//!
//! Each answer is handed on as it comes, since the asker waits for a second and takes what is there by then. A read that
//! fails leaves its names out without a word: there is no place for one on a command line that is being typed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::kubeconfig::{ConnectionFlags, Environment};
use crate::cluster::read::{List, ReadError, Resource, Select};
use crate::core::contents::VersionLine;
use crate::core::history::{self, History, REVISION};
use crate::core::references::{self, Kind};
use crate::core::workload::Target;
use crate::run::observe::selector;
use crate::run::{Failure, Scene, Source, contents, scene_in};

/// What can be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    Namespaces,
    /// Deployments, the one kind that can be rolled back so far.
    Workloads,
    ConfigMaps,
    /// Of this workload; of the only one where none is named.
    Revisions(Option<Target>),
    /// The ConfigMaps that this workload's revisions name.
    References(Option<Target>),
    /// The versions of this ConfigMap that are still known.
    Versions(String),
}

/// One of them that is there.
#[derive(Clone, Debug)]
pub enum Found {
    Namespace(String),
    Workload { name: String, revision: Option<String> },
    ConfigMap(String),
    Revision { number: u64, current: bool, first_started: Option<Timestamp>, at: Timestamp, images: Vec<String> },
    Reference(String),
    Version { version: VersionLine, at: Timestamp },
}

/// All at once; `found` is told of each. Nobody is asked for credentials.
pub async fn look_up(
    flags: &ConnectionFlags,
    from_file: &[PathBuf],
    lookups: &[Lookup],
    now: Timestamp,
    found: &dyn Fn(Found),
) {
    let environment = Environment { unattended: true, ..Environment::of_process() };
    if let Ok(scene) = scene_in(flags, &environment, from_file, |_| {}).await {
        join_all(lookups.iter().map(|lookup| one(&scene, lookup, now, found))).await;
    }
}

async fn one(scene: &Scene, lookup: &Lookup, now: Timestamp, found: &dyn Fn(Found)) -> Option<()> {
    match lookup {
        Lookup::Namespaces => {
            let namespaces = match &scene.source {
                Source::Live(cluster) => cluster.list_metadata(Resource::Namespaces, "").await.ok()?,
                Source::Dump(_) => List::default(),
            };
            namespaces.items.iter().for_each(|namespace| found(Found::Namespace(namespace.name().to_string())));
        }
        Lookup::Workloads => {
            for workload in scene.metadata(Resource::Deployments).await.ok()?.items {
                let revision = workload.0.pointer("/metadata/annotations").and_then(|a| a.get(REVISION)?.as_str());
                let revision = revision.map(str::to_string);
                found(Found::Workload { name: workload.name().to_string(), revision });
            }
        }
        Lookup::ConfigMaps => {
            let config_maps = scene.metadata(Resource::ConfigMaps).await.ok()?;
            config_maps.items.iter().for_each(|object| found(Found::ConfigMap(object.name().to_string())));
        }
        Lookup::Revisions(target) => {
            let at = match &scene.source {
                Source::Live(_) => now,
                Source::Dump(dump) => dump.newest_time().unwrap_or(now),
            };
            for revision in history_of(scene, target.as_ref()).await.ok()?.revisions {
                found(Found::Revision {
                    number: revision.number,
                    current: revision.current,
                    first_started: revision.first_started,
                    at,
                    images: images(&revision.template),
                });
            }
        }
        // First what takes one step: the way back may take longer than anybody waits.
        Lookup::Versions(name) => {
            for back in [false, true] {
                let known = contents::versions(scene, name, back, now).await.ok()?;
                for version in known.versions.iter().rev() {
                    found(Found::Version { version: VersionLine::of(version, &BTreeMap::new()), at: known.now });
                }
            }
        }
        Lookup::References(target) => {
            for revision in history_of(scene, target.as_ref()).await.ok()?.revisions {
                let named = references::extract(&revision.template).references;
                let config_maps = named.into_iter().filter(|reference| reference.kind == Kind::ConfigMap);
                config_maps.for_each(|reference| found(Found::Reference(reference.name)));
            }
        }
    }
    Some(())
}

async fn history_of(scene: &Scene, target: Option<&Target>) -> Result<History, Failure> {
    let workload = scene.workload(target).await?;
    let replica_sets = scene.list(Resource::ReplicaSets, Select::Labels(&selector(&workload))).await?;
    Ok(history::read(&workload, &replica_sets.items))
}

fn images(template: &Value) -> Vec<String> {
    let containers = template.pointer("/spec/containers").and_then(Value::as_array);
    let images = containers.into_iter().flatten().filter_map(|container| container.get("image")?.as_str());
    images.map(str::to_string).collect()
}

impl Scene {
    async fn metadata(&self, resource: Resource) -> Result<List, ReadError> {
        match &self.source {
            Source::Live(cluster) => cluster.list_metadata(resource, &self.namespace).await,
            Source::Dump(dump) => dump.list(resource, &self.namespace, Select::All),
        }
    }
}
