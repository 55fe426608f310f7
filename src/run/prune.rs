//! `snapshot list` and `snapshot prune`: what was saved, who needs it, and what nothing needs any more.

use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::json;

use crate::cluster::Cluster;
use crate::cluster::read::{Resource, Select};
use crate::cluster::write::WriteError;
use crate::core::object::Object;
use crate::core::prune::{self, Fate, Held, Users};
use crate::core::report::{self, WrittenObject};
use crate::core::sheet::{HeldLine, Sheet, SnapshotList};
use crate::core::snapshot::MANAGED_BY;
use crate::run::undo::DryRun;
use crate::run::writes;
use crate::run::{Failure, Scene, Source, Voice};

/// Everything of Kubernetes itself that has a Pod template, or is a Pod.
const USERS: [Resource; 10] = [
    Resource::Pods,
    Resource::ReplicaSets,
    Resource::ControllerRevisions,
    Resource::Deployments,
    Resource::StatefulSets,
    Resource::DaemonSets,
    Resource::Jobs,
    Resource::CronJobs,
    Resource::ReplicationControllers,
    Resource::PodTemplates,
];
/// Owners whose templates are among them.
const KNOWN: [&str; 9] = [
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "ReplicationController",
    // Static Pods.
    "Node",
    "PodTemplate",
];

/// All snapshots and records of the namespace, with their readers.
///
/// # Errors
/// When they cannot be listed.
pub async fn list(scene: &Scene, now: Timestamp) -> Result<Sheet<SnapshotList>, Failure> {
    let (held, users) = look(scene).await?;
    let body = SnapshotList { snapshots: held.iter().map(|h| line(h, None)).collect(), ..SnapshotList::default() };
    Ok(sheet(scene, now, &users, body))
}

/// Deletes what nothing needs. The document lists what went and what stays, each with why.
///
/// # Errors
/// When they cannot be listed, the API server's time cannot be known, or the question cannot be asked.
pub async fn prune(
    scene: &Scene,
    dry_run: DryRun,
    voice: &mut dyn Voice,
    confirm: impl AsyncFnOnce(&Sheet<SnapshotList>) -> Result<bool, Failure>,
    now: Timestamp,
) -> Result<Sheet<SnapshotList>, Failure> {
    let Source::Live(cluster) = &scene.source else {
        return Err(Failure::Usage("snapshots are pruned in a cluster: files hold none".into()));
    };
    let (held, users) = look(scene).await?;
    let server_time = server_time(cluster, &scene.namespace).await?;
    let fates: Vec<(Held, Fate)> = held
        .into_iter()
        .map(|h| {
            let fate = prune::fate(&h, &users, server_time);
            (h, fate)
        })
        .collect();
    let body = |lines: Vec<HeldLine>, outcome: &'static str, exit_code: u8, written: Vec<WrittenObject>| {
        sheet(
            scene,
            now,
            &users,
            SnapshotList { snapshots: lines, deleted: written, outcome: Some(outcome), exit_code },
        )
    };
    let lines = || fates.iter().map(|(h, fate)| line(h, Some(fate))).collect::<Vec<_>>();
    let going: Vec<&Held> = fates.iter().filter(|(_, f)| *f == Fate::Goes).map(|(h, _)| h).collect();
    if going.is_empty() {
        return Ok(body(lines(), "nothing-to-do", 0, Vec::new()));
    }
    let planned = body(lines(), "planned", 0, Vec::new());
    if dry_run == DryRun::Client || (dry_run == DryRun::None && !confirm(&planned).await?) {
        return Ok(planned);
    }
    let dry = dry_run == DryRun::Server;
    let answers =
        join_all(going.iter().map(|h| cluster.delete(Resource::ConfigMaps, &scene.namespace, &h.object, dry))).await;
    if dry {
        return match answers.into_iter().find_map(Result::err) {
            Some(error) => Err(error.into()),
            None => Ok(planned),
        };
    }
    let mut deleted = Vec::new();
    let mut kept = Vec::new();
    let mut broken = None;
    for (held, answer) in going.iter().zip(answers) {
        match answer {
            Ok(()) => {
                voice.done(&format!("configmap {:?} deleted", held.object.name()));
                deleted.push(WrittenObject::of(&held.object));
            }
            // Somebody touched it since, or was faster: then it is needed, or gone.
            Err(WriteError::Conflict { .. }) => kept.push((held.object.name(), "it was used meanwhile".to_string())),
            Err(WriteError::NotFound { .. }) => kept.push((held.object.name(), "somebody else deleted it".to_string())),
            Err(error) if writes::denied(&error) => kept.push((held.object.name(), error.to_string())),
            Err(error) => broken = broken.or(Some(error)),
        }
    }
    if let Some(error) = broken {
        return Err(error.into());
    }
    let mut lines = lines();
    for line in &mut lines {
        if let Some((_, why)) = kept.iter().find(|(name, _)| *name == line.name) {
            (line.prune, line.why) = (Some(false), Some(why.clone()));
        }
    }
    let outcome = if deleted.is_empty() { "nothing-to-do" } else { "done" };
    Ok(body(lines, outcome, 0, deleted))
}

/// Ours first, then who may use them.
async fn look(scene: &Scene) -> Result<(Vec<Held>, Users), Failure> {
    let ours = format!("{}={}", MANAGED_BY.0, MANAGED_BY.1);
    let ours = scene.list(Resource::ConfigMaps, Select::Labels(&ours)).await?.items;
    let lists = join_all(USERS.map(|resource| scene.list(resource, Select::All))).await;
    let mut users = Users { objects: Vec::new(), unseen: Vec::new() };
    for list in lists {
        match list {
            Ok(list) => users.objects.extend(list.items),
            Err(error) => users.unseen.push(error.to_string()),
        }
    }
    // A workload of another kind may name a snapshot in a template that only it has.
    let foreign = users.objects.iter().filter_map(Object::controller).find(|o| !KNOWN.contains(&o.kind.as_str()));
    if let Some(owner) = foreign {
        users.unseen.push(format!(
            "the template of {}/{} is of a kind that is not read",
            owner.kind.to_lowercase(),
            owner.name
        ));
    }
    Ok((prune::held(&ours, &users), users))
}

/// The API server's clock, by an object that is not stored: this machine's may be wrong.
async fn server_time(cluster: &Cluster, namespace: &str) -> Result<Timestamp, Failure> {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "saferollback-clock-"}});
    let answer = cluster.create(Resource::ConfigMaps, namespace, &body, true).await?;
    answer.created().ok_or_else(|| Failure::Given("the API server does not tell its time".into()))
}

fn line(held: &Held, fate: Option<&Fate>) -> HeldLine {
    HeldLine {
        kind: held.ours.word(),
        name: held.object.name().to_string(),
        source: held.source.clone(),
        revisions: held.revisions.iter().copied().collect(),
        readers: held.users.iter().cloned().collect(),
        created: held.object.created(),
        prune: fate.map(|f| *f == Fate::Goes),
        why: match fate {
            Some(Fate::Stays(why)) => Some(why.clone()),
            _ => None,
        },
    }
}

fn sheet(scene: &Scene, now: Timestamp, users: &Users, body: SnapshotList) -> Sheet<SnapshotList> {
    let cluster = report::Cluster { server: scene.server.clone(), context: scene.context.clone() };
    Sheet::new("SnapshotList", cluster, now, users.unseen.clone(), body)
}
