//! Single writes of an undo, each with the look that tells what it did.

use jiff::Timestamp;
use serde_json::json;

use crate::cluster::Cluster;
use crate::cluster::read::Resource;
use crate::cluster::write::{Ban, WriteError};
use crate::core::object::Object;
use crate::core::observed::Observed;
use crate::core::pin;
use crate::core::record::Record;
use crate::core::snapshot;
use crate::run::{Failure, Voice};

/// Did the server say no, to this request as it stands? Anything else is a failure: the answer may be another next time.
pub fn denied(error: &WriteError) -> bool {
    matches!(error, WriteError::Forbidden { .. } | WriteError::Denied { .. } | WriteError::Invalid { .. })
}

pub enum Standing {
    New,
    Ours,
    Taken,
}

/// A dry-run create, and what stands there already. A full quota is asked before the name is, so it does not yet say that
/// there is something to create.
pub async fn existing_or_new(
    cluster: &Cluster,
    namespace: &str,
    wanted: &snapshot::Snapshot,
) -> Result<Standing, WriteError> {
    match cluster.create(Resource::ConfigMaps, namespace, &wanted.body, true).await {
        Ok(_) => Ok(Standing::New),
        Err(error @ (WriteError::AlreadyExists { .. } | WriteError::Forbidden { by: Ban::Quota, .. })) => {
            match (cluster.get(Resource::ConfigMaps, namespace, &wanted.name).await, error) {
                (Ok(Some(object)), _) if snapshot::serves(&object, wanted) => Ok(Standing::Ours),
                (Ok(Some(_)), _) | (Ok(None), WriteError::AlreadyExists { .. }) => Ok(Standing::Taken),
                (Err(error), WriteError::AlreadyExists { asked }) => {
                    Err(WriteError::Conflict { asked, message: error.to_string() })
                }
                (_, full) => Err(full),
            }
        }
        Err(error) => Err(error),
    }
}

pub struct Made {
    pub object: Object,
    pub created: bool,
}

/// Creates the snapshot, or takes the one that is there: `AlreadyExists` is success only for equal, immutable, ours. One
/// that is used again is touched, so that nothing prunes it in between. `there`: it was found a moment ago, so it is not
/// created in vain, which would count against a quota all the same.
pub async fn ensure(
    cluster: &Cluster,
    namespace: &str,
    wanted: &snapshot::Snapshot,
    there: bool,
) -> Result<Made, Failure> {
    match made(cluster, namespace, wanted, there).await {
        // It was pruned between the look and the touch: then it is not there, and can be made.
        Err(Failure::Write(WriteError::NotFound { .. } | WriteError::Conflict { .. })) => {
            made(cluster, namespace, wanted, false).await
        }
        done => done,
    }
}

async fn made(cluster: &Cluster, namespace: &str, wanted: &snapshot::Snapshot, there: bool) -> Result<Made, Failure> {
    if there
        && let Some(object) = cluster.get(Resource::ConfigMaps, namespace, &wanted.name).await?
        && snapshot::serves(&object, wanted)
    {
        return touched(cluster, namespace, &object).await;
    }
    let answer = cluster.create(Resource::ConfigMaps, namespace, &wanted.body, false).await;
    let lost = match answer {
        Ok(object) => return Ok(Made { object, created: true }),
        Err(WriteError::AlreadyExists { .. }) => None,
        Err(error) if error.outcome_unknown() => Some(error),
        Err(error) => return Err(error.into()),
    };
    let existing = cluster.get(Resource::ConfigMaps, namespace, &wanted.name).await?;
    match (existing, lost) {
        (Some(object), Some(_)) if snapshot::serves(&object, wanted) => Ok(Made { object, created: true }),
        (Some(object), None) if snapshot::serves(&object, wanted) => touched(cluster, namespace, &object).await,
        (None, Some(error)) => Err(error.into()),
        _ => Err(Failure::Given(format!("configmap/{} exists with other content", wanted.name))),
    }
}

/// Writes a record. Returns the object where it is new. One that cannot be written is no failure: it would have been proof
/// later, and nothing that was done depends on it.
pub async fn record(cluster: &Cluster, namespace: &str, record: &Record, voice: &mut dyn Voice) -> Option<Object> {
    let (_, body) = record.body(namespace);
    match cluster.create(Resource::ConfigMaps, namespace, &body, false).await {
        Ok(object) => Some(object),
        // The same statement has the same name.
        Err(WriteError::AlreadyExists { .. }) => None,
        Err(error) => {
            voice.warn(&format!("what the containers read could not be recorded: {error}"));
            None
        }
    }
}

async fn touched(cluster: &Cluster, namespace: &str, snapshot: &Object) -> Result<Made, Failure> {
    let touch = json!({
        "metadata": {
            "uid": snapshot.uid(),
            "annotations": { snapshot::TOUCHED: Timestamp::now().to_string() },
        }
    });
    let object = cluster.merge_patch(Resource::ConfigMaps, namespace, snapshot.name(), &touch, false).await?;
    Ok(Made { object, created: false })
}

/// Reads the workload again after a failed precondition. Returns the fields that the plan rests on and that changed, or
/// nothing where only annotations came or went: then the same plan holds.
pub async fn reread(cluster: &Cluster, seen: &mut Observed) -> Result<Option<Vec<String>>, Failure> {
    let now = cluster.get(Resource::Deployments, seen.workload.namespace(), seen.workload.name()).await?;
    let Some(now) = now else { return Ok(Some(vec!["/metadata (it was deleted)".into()])) };
    let changed = changed_fields(&seen.workload, &now);
    if !changed.is_empty() {
        return Ok(Some(changed));
    }
    seen.workload = now;
    Ok(None)
}

/// Fields of the workload that the plan rests on and that are no longer as they were read.
pub fn changed_fields(read: &Object, now: &Object) -> Vec<String> {
    let mut fields = Vec::new();
    for pointer in ["/metadata/uid", "/spec/paused", "/spec/strategy"] {
        if read.0.pointer(pointer) != now.0.pointer(pointer) {
            fields.push(pointer.to_string());
        }
    }
    let template = |o: &Object| o.0.pointer("/spec/template").cloned().unwrap_or_default();
    let (before, after) = (template(read), template(now));
    if before != after {
        let inner = pin::difference(&before, &after);
        let inner = if inner.is_empty() { vec![String::new()] } else { inner };
        fields.extend(inner.into_iter().map(|f| format!("/spec/template{f}")));
    }
    fields
}
