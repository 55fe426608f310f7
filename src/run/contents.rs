//! `history configmap/NAME`: the versions of one ConfigMap, and who reads it.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use jiff::Timestamp;

use crate::cluster::offline::Dump;
use crate::cluster::read::{Resource, Select};
use crate::core::contents::{self, ConfigMapHistory, ConfigMapLine, Known, VersionLine};
use crate::core::object::Object;
use crate::core::observed::{Origin, Past, PastEnd, Version};
use crate::core::readers::{self, Reader};
use crate::core::report::Cluster;
use crate::core::sheet::Sheet;
use crate::core::snapshot;
use crate::run::{Failure, Scene, Source, travel};

/// What is read of the namespace to say who reads a ConfigMap.
const READING: [Resource; 6] = [
    Resource::Pods,
    Resource::Deployments,
    Resource::StatefulSets,
    Resource::DaemonSets,
    Resource::CronJobs,
    Resource::Jobs,
];

/// The versions of one ConfigMap that are known.
pub struct Versions {
    pub now: Timestamp,
    pub namespace: String,
    pub live: Option<Object>,
    pub versions: Vec<Known>,
    pub looked_in: Vec<String>,
    pub warnings: Vec<String>,
}

/// Reads today's object and snapshots in one step; then looks back, where that is of use.
///
/// # Errors
/// The ConfigMap cannot be read. What else cannot be read is a warning.
pub async fn versions(scene: &Scene, name: &str, back: bool, now: Timestamp) -> Result<Versions, Failure> {
    let ours = format!("{}={}", snapshot::MANAGED_BY.0, snapshot::MANAGED_BY.1);
    let (list, snapshots) = tokio::join!(
        scene.list(Resource::ConfigMaps, Select::Name(name)),
        scene.list(Resource::ConfigMaps, Select::Labels(&ours)),
    );
    let list = list?;
    if let Some(other) = list.items.iter().skip(1).find(|o| o.namespace() != list.items[0].namespace()) {
        let namespaces = format!("{} and {}", list.items[0].namespace(), other.namespace());
        return Err(Failure::Usage(format!(
            "configmap/{name} is in several namespaces ({namespaces}): name one with -n"
        )));
    }
    let mut warnings = Vec::new();
    let listed = snapshots.is_ok();
    let mut snapshots = snapshots.map(|l| l.items).unwrap_or_else(|error| {
        warnings.push(format!("snapshots could not be listed: {error}"));
        Vec::new()
    });
    let (live, list_number) = (list.items.into_iter().next(), list.version);
    let namespace = live.as_ref().map_or(&*scene.namespace, |o| o.namespace()).to_string();
    snapshots.retain(|object| is_in(object, &namespace));
    let (now, past, mut looked_in) = match &scene.source {
        Source::Live(cluster) => {
            let (list, end) = (list_number, travel::deadline());
            let past = match back {
                true => travel::walk(cluster, &scene.namespace, name, live.as_ref(), list, None, end).await,
                false => Past::default(),
            };
            let looked_in = contents::looked_in(&past, live.as_ref());
            (now, past, vec![looked_in])
        }
        Source::Dump(dump) => {
            (dump.newest_time().unwrap_or(now), older(dump, &scene.namespace, name), vec!["the files".into()])
        }
    };
    let versions = contents::versions(name, live.as_ref(), &snapshots, &past);
    let count = |source| versions.iter().filter(|k| k.source == source).count();
    looked_in.push(match count(contents::Source::Snapshot) {
        _ if !listed => "snapshots: could not be listed".into(),
        0 => "snapshots: none".into(),
        n => format!("snapshots: {n}"),
    });
    Ok(Versions { now, namespace, live, versions, looked_in, warnings })
}

/// Files may hold several namespaces, and objects without one.
fn is_in(object: &Object, namespace: &str) -> bool {
    namespace.is_empty() || object.namespace().is_empty() || object.namespace() == namespace
}

/// Everything about one ConfigMap.
pub struct Contents {
    pub known: Versions,
    pub workloads: Vec<Object>,
    pub pods: Vec<Object>,
}

impl Contents {
    pub fn readers(&self, of: &str) -> Vec<Reader> {
        readers::readers(of, &self.workloads, &self.pods)
    }
}

/// Reads the versions and, beside them, who reads the ConfigMap.
///
/// # Errors
/// As [`versions`].
pub async fn look(scene: &Scene, name: &str, back: bool, now: Timestamp) -> Result<Contents, Failure> {
    let reading = join_all(READING.map(|resource| scene.list(resource, Select::All)));
    let (known, reading) = tokio::join!(versions(scene, name, back, now), reading);
    let mut known = known?;
    let (mut workloads, mut pods) = (Vec::new(), Vec::new());
    for (resource, answer) in READING.into_iter().zip(reading) {
        match answer {
            Ok(list) if resource == Resource::Pods => pods = list.items,
            Ok(list) => workloads.extend(list.items),
            Err(error) => known.warnings.push(format!("readers are not complete: {error}")),
        }
    }
    for objects in [&mut workloads, &mut pods] {
        objects.retain(|object| is_in(object, &known.namespace));
    }
    Ok(Contents { known, workloads, pods })
}

/// Earlier versions from files. Until when one held is known where a numbered list says so.
fn older(dump: &Dump, namespace: &str, name: &str) -> Past {
    let mut versions: Vec<Version> = dump
        .older(Resource::ConfigMaps, namespace, name)
        .into_iter()
        .map(|older| Version {
            until: older.held_until.map(|held| held + 1),
            until_time: None,
            origin: Origin::Dump,
            object: older.object,
        })
        .collect();
    versions.sort_by_key(|v| std::cmp::Reverse(v.object.version()));
    Past { versions, end: PastEnd::Enough }
}

/// The document; its exit code is 0 where any version is known, else 3.
///
/// # Errors
/// As [`look`].
pub async fn history(scene: &Scene, name: &str, now: Timestamp) -> Result<Sheet<ConfigMapHistory>, Failure> {
    let seen = look(scene, name, true, now).await?;
    let known = &seen.known;
    let held = known.versions.iter().filter(|k| k.held).map(|k| k.object.clone());
    let readers: BTreeMap<String, Vec<Reader>> = held.map(|object| (object.clone(), seen.readers(&object))).collect();
    let body = ConfigMapHistory {
        config_map: ConfigMapLine::of(&known.namespace, name, known.live.as_ref()),
        versions: known.versions.iter().map(|version| VersionLine::of(version, &readers)).collect(),
        looked_in: known.looked_in.clone(),
        exit_code: if known.versions.is_empty() { 3 } else { 0 },
    };
    let cluster = Cluster { server: scene.server.clone(), context: scene.context.clone() };
    Ok(Sheet::new("ConfigMapHistory", cluster, known.now, known.warnings.clone(), body))
}
