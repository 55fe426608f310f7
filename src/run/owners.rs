//! Reads who else writes a workload, beside the second step of an observation: no request waits for these.

use std::time::Duration;

use futures_util::future::join_all;

use crate::cluster::Cluster;
use crate::cluster::read::{ReadError, Resource, Select};
use crate::core::object::Object;
use crate::core::owners::{self, Claim, Healing, Looked, Named, Owner, Owners, Tool};
use crate::core::plan::Plan;
use crate::core::policy::Code;
use crate::run::{Scene, Source, Voice};

/// Where Argo CD keeps its Applications unless told otherwise.
const ARGO_NAMESPACE: &str = "argocd";

const SETTLE: Duration = Duration::from_secs(10);

/// Everybody who writes `workload` too, as far as it can be read. What cannot be read is said, and is no failure: the
/// rights of a developer rarely reach these.
pub async fn of(scene: &Scene, workload: &Object) -> Owners {
    let named = join_all(owners::claims(workload).into_iter().map(|claim| judged(scene, workload, claim)));
    let (mut all, horizontal, vertical) = tokio::join!(
        named,
        autoscalers(scene, workload, Tool::Hpa, Resource::HorizontalPodAutoscalers, "/spec/scaleTargetRef"),
        autoscalers(scene, workload, Tool::Vpa, Resource::VerticalPodAutoscalers, "/spec/targetRef")
    );
    let mut unread = Vec::new();
    for scalers in [horizontal, vertical] {
        match scalers {
            Ok(scalers) => all.extend(scalers),
            Err(why) => unread.push(why),
        }
    }
    Owners { owners: all, unread }
}

async fn judged(scene: &Scene, workload: &Object, claim: Claim) -> Owner {
    let looked = match (&claim.object, claim.tool) {
        (Some(object), Tool::ArgoCd) => application(scene, workload, object).await,
        (Some(object), Tool::Flux) => {
            let resource = match object.kind.as_str() {
                "Kustomization" => Resource::Kustomizations,
                _ => Resource::HelmReleases,
            };
            one(scene, resource, &object.namespace, &object.name).await
        }
        (Some(release), Tool::Helm) => {
            let revision = release_revision(scene, release).await;
            let mut owner = owners::owner(claim, workload, &Looked::Absent);
            if let Some(revision) = revision {
                owner.why.push_str(&format!("; the release is at revision {revision}"));
            }
            return owner;
        }
        (Some(_), _) => Looked::Absent,
        (None, _) => Looked::Unknown("the workload does not name which of its objects it belongs to".into()),
    };
    owners::owner(claim, workload, &looked)
}

fn unreadable(error: &ReadError) -> Looked {
    match error {
        // The type is not served: its tool runs elsewhere, or is gone.
        ReadError::NotFound { .. } => Looked::Absent,
        error => Looked::Unknown(error.to_string()),
    }
}

async fn one(scene: &Scene, resource: Resource, namespace: &str, name: &str) -> Looked {
    let found = match &scene.source {
        Source::Live(cluster) => cluster.get(resource, namespace, name).await,
        Source::Dump(dump) => dump.list(resource, namespace, Select::Name(name)).map(|l| l.items.into_iter().next()),
    };
    match (found, &scene.source) {
        (Ok(Some(object)), _) => Looked::Found(Box::new(object)),
        (Ok(None), Source::Live(_)) => Looked::Absent,
        (Ok(None), Source::Dump(_)) => Looked::Unknown("it is not in the files".into()),
        (Err(error), _) => unreadable(&error),
    }
}

/// The workload rarely says in which namespace: then all are asked for the name, and, where that is not allowed, Argo CD's
/// usual one.
async fn application(scene: &Scene, workload: &Object, named: &Named) -> Looked {
    if !named.namespace.is_empty() {
        return one(scene, Resource::Applications, &named.namespace, &named.name).await;
    }
    let select = Select::Name(&named.name);
    let (everywhere, usual) = match &scene.source {
        Source::Live(cluster) => tokio::join!(
            cluster.list(Resource::Applications, "", select),
            cluster.get(Resource::Applications, ARGO_NAMESPACE, &named.name)
        ),
        Source::Dump(dump) => (dump.list(Resource::Applications, "", select), Ok(None)),
    };
    match (everywhere, usual) {
        (Ok(list), _) if !list.items.is_empty() => match owners::one_application(&list.items, workload) {
            Ok(one) => Looked::Found(Box::new(one.clone())),
            Err(why) => Looked::Unknown(why),
        },
        (Err(_), Ok(Some(object))) => Looked::Found(Box::new(object)),
        (Err(error), _) => unreadable(&error),
        (Ok(_), _) if matches!(scene.source, Source::Dump(_)) => Looked::Unknown("it is not in the files".into()),
        (Ok(_), _) => Looked::Absent,
    }
}

/// Secrets are read as metadata only. One that may not read them is not told the number.
async fn release_revision(scene: &Scene, release: &Named) -> Option<u64> {
    let labels = format!("owner=helm,name={}", release.name);
    let secrets = match &scene.source {
        Source::Live(cluster) => cluster.list(Resource::Secrets, &release.namespace, Select::Labels(&labels)).await,
        Source::Dump(dump) => dump.list(Resource::Secrets, &release.namespace, Select::Labels(&labels)),
    };
    owners::release_revision(&secrets.ok()?.items, &release.name)
}

async fn autoscalers(
    scene: &Scene,
    workload: &Object,
    tool: Tool,
    resource: Resource,
    pointer: &str,
) -> Result<Vec<Owner>, String> {
    let found = match &scene.source {
        Source::Live(cluster) => cluster.list(resource, workload.namespace(), Select::All).await,
        Source::Dump(dump) => dump.list(resource, workload.namespace(), Select::All),
    };
    match found {
        Ok(list) => Ok(owners::scalers(tool, pointer, &list.items, workload)),
        // A cluster without it has none.
        Err(ReadError::NotFound { .. }) => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}

/// Says who may fight the plan, before the question. A refusal names its owners itself.
pub fn say(plan: &Plan, voice: &mut dyn Voice) {
    if plan.nothing_to_do {
        return;
    }
    let refused = plan.refusals.iter().any(|r| r.code == Code::Managed);
    for owner in plan.owners.owners.iter().filter(|o| !refused || o.healing != Healing::Yes) {
        match owner.tool.writes_templates() {
            true => voice.warn(&owner.sentence()),
            false => voice.note(&owner.sentence()),
        }
    }
}

/// How long the state must hold after the rollout. Argo CD's first self-heal comes within 5 s, so 10 s see it; a
/// Kustomization may take its whole interval, which nobody waits for. Where nobody is recognised who could put it back
/// there is nothing to wait for.
pub fn settle(plan: &Plan, asked: Option<Duration>) -> Duration {
    asked.unwrap_or(if plan.owners.may_be_put_back() { SETTLE } else { Duration::ZERO })
}

/// ReplicaSets of the workload with their Pods, for a failure's words; best effort.
pub async fn sizes(cluster: &Cluster, workload: &Object) -> Vec<String> {
    let Ok(sets) = cluster.list(Resource::ReplicaSets, workload.namespace(), Select::All).await else {
        return Vec::new();
    };
    let own = sets.items.iter().filter(|s| s.controller().is_some_and(|o| o.uid == workload.uid()));
    let counts = |set: &Object| {
        let number = |pointer: &str| set.int_at(pointer).unwrap_or(0);
        (number("/spec/replicas"), number("/status/readyReplicas"))
    };
    let line = |set: &Object| {
        let (wanted, ready) = counts(set);
        format!("replicaset/{}: {wanted} wanted, {ready} ready", set.name())
    };
    own.filter(|set| counts(set) != (0, 0)).map(line).collect()
}
