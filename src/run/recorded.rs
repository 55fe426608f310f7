//! The record of an undo that pinned: written after its last new Pod started.
//!
//! Best effort: nothing that was done depends on it, so what cannot be recorded is a warning.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use crate::cluster::Cluster;
use crate::cluster::read::{ReadError, Resource, Select};
use crate::cluster::write::FIELD_MANAGER;
use crate::core::history::{self, Trail};
use crate::core::object::Object;
use crate::core::observed::{Key, Observed};
use crate::core::record::Record;
use crate::core::recording;
use crate::core::references::{self, Kind};
use crate::core::snapshot;
use crate::run::observe::contents;
use crate::run::{Voice, writes};

/// Whose undo is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    ThisRun,
    /// One that was cut off: what it had seen before its patch is not known, but its time is.
    AnEarlierRun,
}

/// Records what the Pods of the template that `trail` speaks of read. `None`: there is nothing to record, or it could not
/// be, which was said.
pub async fn after_undo(
    cluster: &Cluster,
    seen: &Observed,
    trail: &Trail,
    whose: Whose,
    voice: &mut dyn Voice,
) -> Option<Object> {
    match record(cluster, seen, trail, whose).await {
        Ok(None) => None,
        Ok(Some(record)) => writes::record(cluster, seen.workload.namespace(), &record, voice).await,
        Err(error) => {
            voice.warn(&format!("what the containers read could not be recorded: {error}"));
            None
        }
    }
}

async fn record(cluster: &Cluster, seen: &Observed, trail: &Trail, whose: Whose) -> Result<Option<Record>, ReadError> {
    let (namespace, name) = (seen.workload.namespace(), seen.workload.name());
    let (workload, sets, pods) = tokio::join!(
        cluster.get(Resource::Deployments, namespace, name),
        cluster.list(Resource::ReplicaSets, namespace, Select::All),
        cluster.list(Resource::Pods, namespace, Select::All)
    );
    let (Some(workload), sets, pods) = (workload?, sets?, pods?) else { return Ok(None) };
    let history = history::read(&workload, &sets.items);
    let Some(revision) = history.current().filter(|r| history::template_digest(&r.template) == trail.template) else {
        return Ok(None);
    };
    let named = references::extract(&revision.template).references;
    let pins = named.iter().any(|r| r.kind == Kind::ConfigMap && snapshot::is_one(&r.name));
    if !pins {
        return Ok(None);
    }
    let lists = join_all(named.iter().map(|r| cluster.list(contents(r.kind), namespace, Select::Name(&r.name)))).await;
    let mut objects: BTreeMap<Key, Object> = BTreeMap::new();
    for (reference, list) in named.iter().zip(lists) {
        // One that may not be read is not recorded.
        if let Some(object) = list.unwrap_or_default().items.into_iter().next() {
            objects.insert((reference.kind, reference.name.clone()), object);
        }
    }
    let patched = workload.field_owners().filter(|e| e.manager == FIELD_MANAGER && e.owns(&["f:spec", "f:template"]));
    let patched = patched.filter_map(|e| e.time).max();
    let set = &revision.object;
    let new = match whose {
        Whose::ThisRun => !seen.replica_sets.iter().any(|known| known.uid() == set.uid()),
        Whose::AnEarlierRun => matches!((patched, set.created()), (Some(at), Some(created)) if created >= at),
    };
    let none = BTreeMap::new();
    let kept = if new { &trail.kept } else { &none };
    Ok(recording::after_undo(&workload, revision, &pods.items, kept, &objects))
}
