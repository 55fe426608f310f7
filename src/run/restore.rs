//! `restore configmap/NAME`: one version put back in place. Three steps, so that the plan can be shown and asked about in
//! between: [`prepare`], [`write`], [`sheet`].

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::cluster::Cluster;
use crate::cluster::read::Resource;
use crate::cluster::write::WriteError;
use crate::core::contents::{self, ConfigMapLine, VersionLine, Wanted};
use crate::core::object::Object;
use crate::core::readers;
use crate::core::report::{self, WrittenObject};
use crate::core::restore::{self, Bar, Barred, Ending, Plan, Restore, Stopped};
use crate::core::sheet::Sheet;
use crate::run::contents::Contents;
use crate::run::undo::DryRun;
use crate::run::{Failure, Scene, Source, writes};

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    pub name: String,
    pub wanted: Wanted,
    pub dry_run: DryRun,
    /// Shall values go into plan and document?
    pub show: bool,
    /// The connection flags as typed, repeated in every command that we print.
    pub typed: Vec<String>,
}

/// A plan, and what is known of its end so far.
pub struct Prepared {
    pub seen: Contents,
    pub plan: Plan,
    /// Set where there is nothing to ask or to write any more.
    pub ending: Option<Ending>,
}

/// Reads, chooses, plans, and asks the server whether it would accept the write.
///
/// # Errors
/// The ConfigMap cannot be read, or no version is meant clearly.
pub async fn prepare(scene: &Scene, request: &Request, now: Timestamp) -> Result<Prepared, Failure> {
    let name = &request.name;
    let back = !matches!(request.wanted, Wanted::Content(_));
    let seen = crate::run::contents::look(scene, name, back, now).await?;
    let chosen = contents::choose(name, &seen.known.versions, &request.wanted).map_err(Failure::NoVersion)?;
    let stopped = readers::stopped(name, &chosen.content, &seen.workloads, &seen.pods);
    let made = restore::plan(name, seen.known.live.as_ref(), chosen, seen.readers(name), stopped, request.show);
    let mut plan = made.map_err(|error| Failure::Given(format!("configmap/{name}: {error}")))?;
    let mut ending = match &plan {
        plan if plan.refused() => Some(Ending::Refused),
        plan if plan.nothing_to_do => Some(Ending::NothingToDo),
        _ if request.dry_run == DryRun::Client => Some(Ending::Planned),
        _ => None,
    };
    if ending.is_none() {
        ending = match patch(live(scene)?, scene, &plan, true).await {
            Ok(_) if request.dry_run == DryRun::Server => Some(Ending::Planned),
            Ok(_) => None,
            Err(error) if moved(&error) => Some(Ending::Conflict),
            Err(error) if writes::denied(&error) => {
                plan.refusals.push((Bar::DryRunDenied, format!("the API server would not accept it: {error}")));
                Some(Ending::Refused)
            }
            Err(error) => return Err(error.into()),
        };
    }
    Ok(Prepared { seen, plan, ending })
}

/// The one patch. It is sent once; where its answer is lost, a look tells what it did.
///
/// # Errors
/// It could not be sent, or what it did is not known.
pub async fn write(scene: &Scene, plan: &mut Plan) -> Result<Ending, Failure> {
    match patch(live(scene)?, scene, plan, false).await {
        Ok(object) => Ok(Ending::Done(Box::new(object))),
        Err(error) if moved(&error) => Ok(Ending::Conflict),
        Err(error) if writes::denied(&error) => {
            plan.refusals.push((Bar::DryRunDenied, format!("the API server did not accept it: {error}")));
            Ok(Ending::Refused)
        }
        Err(error) if error.outcome_unknown() => match scene.get(Resource::ConfigMaps, &plan.name).await? {
            Some(now) if plan.holds(&now) => Ok(Ending::Done(Box::new(now))),
            _ => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Is it no longer as it was read?
fn moved(error: &WriteError) -> bool {
    matches!(error, WriteError::TestFailed { .. } | WriteError::Conflict { .. } | WriteError::NotFound { .. })
}

fn live(scene: &Scene) -> Result<&Cluster, Failure> {
    match &scene.source {
        Source::Live(cluster) => Ok(cluster),
        Source::Dump(_) => Err(Failure::Usage("files cannot be restored into: name a cluster".into())),
    }
}

async fn patch(cluster: &Cluster, scene: &Scene, plan: &Plan, dry_run: bool) -> Result<Object, WriteError> {
    cluster.json_patch(Resource::ConfigMaps, &scene.namespace, &plan.name, &plan.patch(), dry_run).await
}

/// The document.
pub fn sheet(scene: &Scene, request: &Request, prepared: &Prepared, ending: &Ending) -> Sheet<Restore> {
    let (seen, plan) = (&prepared.seen, &prepared.plan);
    let readers = BTreeMap::from([(plan.name.clone(), plan.readers.clone())]);
    let now = seen.known.versions.iter().find(|k| k.source == contents::Source::Live);
    let written: Vec<WrittenObject> = match ending {
        Ending::Done(object) => vec![WrittenObject::of(object)],
        _ => Vec::new(),
    };
    let body = Restore {
        config_map: ConfigMapLine::of(&seen.known.namespace, &plan.name, plan.live.as_ref()),
        now: now.map(|known| VersionLine::of(known, &readers)),
        version: VersionLine::of(&plan.chosen, &readers),
        changes: plan.changes.clone(),
        readers: plan.readers.clone(),
        stopped: plan.stopped.iter().map(|(who, keys)| Stopped { reader: who.clone(), keys: keys.clone() }).collect(),
        managed: plan.managed.clone(),
        restarts: plan.restarts(&request.typed),
        refusals: plan
            .refusals
            .iter()
            .map(|(bar, message)| Barred { code: bar.word(), message: message.clone() })
            .collect(),
        ways_on: plan.ways_on(&request.typed),
        written,
        outcome: ending.word(),
        exit_code: ending.exit_code(),
    };
    let cluster = report::Cluster { server: scene.server.clone(), context: scene.context.clone() };
    Sheet::new("Restore", cluster, seen.known.now, seen.known.warnings.clone(), body)
}
