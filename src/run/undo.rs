//! `undo`: all stages. Refused means that no mutating request was sent (server dry runs excepted).
//!
//! Order of writes: every write as a dry run; snapshots; kept references read again; one patch with preconditions;
//! after the last new Pod, kept references read again.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::read::{Resource, Select};
use crate::cluster::write::{Ban, WriteError};
use crate::core::apply;
use crate::core::evidence;
use crate::core::history::{History, NoSuchRevision};
use crate::core::object::Object;
use crate::core::observed::{Domain, Observed};
use crate::core::patch;
use crate::core::pin;
use crate::core::plan::{self, Judged, Plan, Refusal};
use crate::core::policy::{Action, Code, Config, Given, Rules};
use crate::core::recovery::Grade;
use crate::core::references::Kind;
use crate::core::report::{self, Document, DocumentKind, Moment, Outcome, Undo, WrittenObject};
use crate::core::snapshot;
use crate::core::workload::Target;
use crate::run::check::because;
use crate::run::observe::Observation;
use crate::run::recorded::{self, Whose};
use crate::run::wait::{self, Ended};
use crate::run::{Failure, Phase, Scene, Source, Voice};
use crate::run::{owners, ways, writes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    None,
    Client,
    Server,
}

/// Which revision to go to.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// The one before the current, if that is clear.
    Previous,
    Number(u64),
    /// The one that was current at a moment, if that is clear.
    At(Timestamp),
}

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    pub revision: Asked,
    pub rules: Rules,
    pub dry_run: DryRun,
    pub wait: bool,
    /// `None`: the workload's progress deadline, restarting with progress.
    pub timeout: Option<Duration>,
    /// How long the new state must hold; `None`: as long as the owners ask for, see [`owners::settle`].
    pub settle: Option<Duration>,
    /// Write although somebody is known to put it back.
    pub allow_managed: bool,
    /// The connection flags as typed, repeated in every command that we print.
    pub typed: Vec<String>,
    /// The workload as typed.
    pub words: Vec<String>,
}

/// The end of an undo: the document, and the objects that would bring the workload there.
pub struct Undone {
    pub document: Document,
    pub manifests: Vec<Value>,
}

const SNAPSHOTS: Select<'static> = Select::Labels("saferollback.dev/kind=snapshot");

impl Undone {
    pub fn exit_code(&self) -> u8 {
        match &self.document.outcome {
            Outcome::Undo(undo) => undo.exit_code,
            _ => 0,
        }
    }
}

/// A try may meet writes to annotations that we do not own: read again and patch again, so often.
const TRIES: usize = 3;

/// # Errors
/// No such workload or revision, or the cluster could not be read. Everything that ends after the plan was made is no
/// error but an outcome of the document.
pub async fn run(
    scene: &Scene,
    target: Option<&Target>,
    request: &Request,
    voice: &mut dyn Voice,
    now: Timestamp,
) -> Result<Undone, Failure> {
    let observation = scene.observe_owned(target, now).await?;
    let mut ready = match prepare(scene, observation, request, voice).await? {
        Prepared::Ready(ready) => ready,
        Prepared::Ended(undone) => return Ok(*undone),
    };
    let planned = ready.run(request, voice).document("planned", 0);
    voice.plan(&planned, &ready.plan);
    owners::say(&ready.plan, voice);
    if ready.asks(scene, request) && !voice.confirm("Roll back?")? {
        return Ok(ready.run(request, voice).end("planned", 0));
    }
    ready.finish(scene, request, voice).await
}

/// One workload with its plan, rehearsed where that was asked for.
pub struct Ready {
    seen: Observed,
    history: History,
    pub plan: Plan,
    /// The number of a list of Pods after the contents were read: for the second domain check.
    pods: Option<u64>,
    /// Snapshots that the dry run found to be there.
    there: BTreeSet<String>,
    timeline: Vec<Moment>,
    written: Vec<WrittenObject>,
    overwritten: Option<report::Overwritten>,
}

pub enum Prepared {
    Ready(Box<Ready>),
    /// The workload changed while its writes were rehearsed.
    Ended(Box<Undone>),
}

/// Everything up to the plan. Nothing is written.
///
/// # Errors
/// No such revision, or the cluster could not be asked.
pub async fn prepare(
    scene: &Scene,
    observation: Observation,
    request: &Request,
    voice: &mut dyn Voice,
) -> Result<Prepared, Failure> {
    let Observation { mut seen, history, mut judged, owners } = observation;
    resolve_given(scene, &mut seen, &history, &mut judged, &request.rules).await?;
    let chosen = match request.revision {
        Asked::Previous => plan::choose(&history, &seen.workload, None),
        Asked::Number(number) => plan::choose(&history, &seen.workload, Some(number)),
        Asked::At(moment) => {
            history.at(moment).map(|r| r.number).and_then(|n| plan::choose(&history, &seen.workload, Some(n)))
        }
    };
    let chosen = chosen.map_err(Failure::NoRevision)?.number;
    judged.retain(|j| j.revision.number == chosen);
    let Some(target) = judged.first().cloned() else {
        return Err(Failure::NoRevision(NoSuchRevision::Unknown { asked: chosen, numbers: history.numbers() }));
    };
    let mut plan = plan::make(&seen, &history, target, &request.rules);
    plan.owned(owners, request.allow_managed);
    let mut ready = Ready {
        seen,
        history,
        plan,
        pods: None,
        there: BTreeSet::new(),
        timeline: Vec::new(),
        written: Vec::new(),
        overwritten: None,
    };
    let mut run = ready.run(request, voice);
    run.moment("planned");
    if let Source::Live(cluster) = &scene.source
        && !run.plan.refused()
        && !run.plan.nothing_to_do
        && request.dry_run != DryRun::Client
        && let Some(changed) = run.rehearse(cluster).await?
    {
        return Ok(Prepared::Ended(Box::new(run.conflict(&changed))));
    }
    Ok(Prepared::Ready(Box::new(ready)))
}

/// A content that is named by its snapshot or digest may be in a snapshot that no record speaks of: then all snapshots of
/// the ConfigMap are candidates.
async fn resolve_given(
    scene: &Scene,
    seen: &mut Observed,
    history: &History,
    judged: &mut Vec<Judged>,
    rules: &Rules,
) -> Result<(), Failure> {
    let named = |given: &&Given| matches!(given, Given::Digest(_) | Given::Snapshot(_));
    if !rules.given.values().any(|given| named(&given)) {
        return Ok(());
    }
    for object in scene.list(Resource::ConfigMaps, SNAPSHOTS).await?.items {
        for source in rules.given.iter().filter(|(_, given)| named(given)).map(|(source, _)| source) {
            if snapshot::is_of(object.name(), source) {
                seen.snapshots.entry(source.clone()).or_default().push(object.clone());
            }
        }
    }
    *judged = plan::judge(seen, history);
    Ok(())
}

impl Ready {
    fn run<'a>(&'a mut self, request: &'a Request, voice: &'a mut dyn Voice) -> Run<'a> {
        Run { ready: self, request, voice }
    }

    /// Would it write, so that the question is asked?
    pub fn asks(&self, scene: &Scene, request: &Request) -> bool {
        let live = matches!(scene.source, Source::Live(_));
        live && request.dry_run == DryRun::None && !self.plan.refused() && !self.plan.nothing_to_do
    }

    pub fn document(&mut self, request: &Request, voice: &mut dyn Voice, outcome: &'static str) -> Document {
        self.run(request, voice).document(outcome, 0)
    }

    /// Ends without a write.
    pub fn ended(&mut self, request: &Request, voice: &mut dyn Voice, outcome: &'static str, exit_code: u8) -> Undone {
        self.run(request, voice).end(outcome, exit_code)
    }

    /// Does what is planned, and was agreed to.
    ///
    /// # Errors
    /// When the cluster cannot be asked any more.
    pub async fn finish(&mut self, scene: &Scene, request: &Request, voice: &mut dyn Voice) -> Result<Undone, Failure> {
        let mut run = self.run(request, voice);
        if run.plan.refused() {
            return Ok(run.end("refused", 3));
        }
        let Source::Live(cluster) = &scene.source else { return Ok(run.end("planned", 0)) };
        match (run.plan.nothing_to_do, request.dry_run) {
            (true, _) => run.nothing_to_do(cluster).await,
            (false, DryRun::None) => run.write(cluster).await,
            (false, _) => Ok(run.end("planned", 0)),
        }
    }
}

struct Run<'a> {
    ready: &'a mut Ready,
    request: &'a Request,
    voice: &'a mut dyn Voice,
}

impl Deref for Run<'_> {
    type Target = Ready;

    fn deref(&self) -> &Ready {
        self.ready
    }
}

impl DerefMut for Run<'_> {
    fn deref_mut(&mut self) -> &mut Ready {
        self.ready
    }
}

impl Run<'_> {
    fn moment(&mut self, what: impl Into<String>) {
        self.timeline.push(Moment { at: Timestamp::now(), what: what.into() });
    }

    /// Dry-runs every write, strictly validated, and one Pod of the new template: quota and Pod security are asked only
    /// when a Pod is created. Settles the snapshots' names on the way. Returns what changed, if the plan no longer holds.
    async fn rehearse(&mut self, cluster: &Cluster) -> Result<Option<Vec<String>>, Failure> {
        let mut longer = snapshot::LENGTHS.into_iter().skip(1);
        let mut tries = TRIES;
        loop {
            let patch = patch::workload(&self.seen.workload, &self.plan);
            let pod = patch::trial_pod(&self.seen.workload, &self.plan);
            let (namespace, name) = (self.seen.workload.namespace().to_string(), self.seen.workload.name().to_string());
            let creates = join_all(self.plan.snapshots.iter().map(|s| writes::existing_or_new(cluster, &namespace, s)));
            let (creates, pods, patched, pod) = tokio::join!(
                creates,
                cluster.list_one(Resource::Pods, &namespace),
                cluster.json_patch(Resource::Deployments, &namespace, &name, &patch, true),
                async {
                    match self.plan.pods.start {
                        0 => None,
                        _ => cluster.create(Resource::Pods, &namespace, &pod, true).await.err(),
                    }
                }
            );
            self.pods = pods.ok().flatten();
            let mut taken = false;
            self.there.clear();
            for (snapshot, answer) in self.plan.snapshots.clone().iter().zip(creates) {
                match answer {
                    Ok(writes::Standing::New) => {}
                    Ok(writes::Standing::Ours) => drop(self.there.insert(snapshot.name.clone())),
                    Ok(writes::Standing::Taken) => taken = true,
                    Err(error) => self.deny("a snapshot", &error)?,
                }
            }
            if taken && !self.plan.refused() {
                let Some(digits) = longer.next() else {
                    let message = "every name for a snapshot is taken by an object with other content";
                    return Err(Failure::Given(message.into()));
                };
                self.plan.rename(digits);
                continue;
            }
            match patched {
                Err(WriteError::TestFailed { .. } | WriteError::Conflict { .. }) if tries > 0 => {
                    tries -= 1;
                    if let Some(changed) = writes::reread(cluster, &mut self.ready.seen).await? {
                        return Ok(Some(changed));
                    }
                    continue;
                }
                Ok(answer) => {
                    let got = answer.0.pointer("/spec/template").cloned().unwrap_or_default();
                    if !pin::same(&got, &self.plan.template) {
                        let fields = pin::difference(&self.plan.template, &got);
                        self.voice.warn(&format!("the API server changes the template at {}", fields.join(", ")));
                    }
                }
                Err(error) => self.deny("the rollback", &error)?,
            }
            match pod {
                // No right to create Pods: the controller has it, so this says nothing.
                Some(WriteError::Forbidden { by: Ban::Rights, .. }) | None => {}
                Some(error) => self.deny("a new Pod", &error)?,
            }
            return Ok(None);
        }
    }

    fn conflict(&mut self, changed: &[String]) -> Undone {
        let name = self.seen.workload.name();
        let line = format!("deployment.apps/{name} changed since the plan was made; it was not written. Changed are");
        self.voice.fail(&line, changed);
        self.end("conflict", 5)
    }

    /// A denied dry run is a refusal; a broken connection is a failure.
    fn deny(&mut self, what: &str, error: &WriteError) -> Result<(), Failure> {
        match error {
            error if writes::denied(error) || matches!(error, WriteError::TestFailed { .. }) => {
                let message = format!("the API server would not accept {what}: {error}");
                let message = snapshot::without_values(&message, &self.plan.snapshots);
                self.plan.refusals.push(Refusal { code: Code::DryRunDenied, reference: None, verdict: None, message });
                Ok(())
            }
            other => Err(other.clone().into()),
        }
    }

    async fn nothing_to_do(&mut self, cluster: &Cluster) -> Result<Undone, Failure> {
        let current = self.history.current().map_or(self.plan.to, |r| r.number);
        let planned = if self.history.trail.is_some() { " with the planned content" } else { "" };
        self.voice.done(&format!(
            "deployment.apps/{} is at revision {}'s template{planned} (revision {current}): nothing to do",
            self.seen.workload.name(),
            self.plan.to,
        ));
        if !self.request.wait || self.request.dry_run != DryRun::None {
            return Ok(self.end("nothing-to-do", 0));
        }
        // An earlier run may have been cut off while it waited: finish its job.
        let generation = self.seen.workload.int_at("/metadata/generation").unwrap_or(0);
        if wait::is_done(&self.seen.workload, generation) {
            self.record(cluster).await;
            return Ok(self.end("nothing-to-do", 0));
        }
        self.watch(cluster, &self.seen.workload.clone(), None, "nothing-to-do").await
    }

    /// Creates the snapshots, reads again what is kept, patches, waits.
    async fn write(&mut self, cluster: &Cluster) -> Result<Undone, Failure> {
        let namespace = self.seen.workload.namespace().to_string();
        let name = self.seen.workload.name().to_string();
        self.voice.phase(Phase::Snapshots);
        let snapshots = self.plan.snapshots.clone();
        let there = self.there.clone();
        let made = snapshots.iter().map(|s| writes::ensure(cluster, &namespace, s, there.contains(&s.name)));
        let made = join_all(made).await;
        let mut broken = None;
        for (snapshot, made) in snapshots.iter().zip(made) {
            match made {
                Ok(made) => {
                    if made.created {
                        self.voice.done(&format!("configmap/{} created", snapshot.name));
                    }
                    self.note_written(&made.object);
                }
                // Whether it exists is not known, or the server was not there: no answer, so no refusal either.
                Err(Failure::Write(error)) if !writes::denied(&error) => broken = Some(Failure::Write(error)),
                Err(error @ Failure::Read(_)) => broken = Some(error),
                Err(error) => {
                    // Nothing of the workload is written; what was created is listed and used by the next run.
                    self.plan.refusals.push(Refusal {
                        code: Code::DryRunDenied,
                        reference: Some(format!("ConfigMap/{}", snapshot.source)),
                        verdict: None,
                        message: snapshot::without_values(
                            &format!("a snapshot could not be created: {error}"),
                            &snapshots,
                        ),
                    });
                }
            }
        }
        if let Some(failure) = broken {
            return Err(failure);
        }
        if self.plan.refused() {
            return Ok(self.end("refused", 3));
        }
        self.moment("snapshots are there");
        // A kubelet that does not see it yet (A2) would start the Pod without what is optional. One that is used again may
        // be as young: a run that met a conflict made it a moment ago.
        if let Some(snapshot) = snapshots.iter().find(|s| self.plan.optional(&s.name)) {
            tokio::time::sleep(evidence::CLOCK_MARGIN.unsigned_abs()).await;
            self.voice.done(&format!("2s waited, for kubelets to see configmap/{}, which is optional", snapshot.name));
        }

        let (moved, last) = tokio::join!(self.moved(cluster), self.content_number(cluster, &namespace));
        if let Some(which) = moved? {
            self.voice.fail(&format!("{which} was written since the plan was made; the workload was not written"), &[]);
            return Ok(self.end("conflict", 5));
        }
        // Two stores' counters may meet by coincidence: nothing is written on one meeting alone.
        let again = Domain::check(self.seen.list_number, [self.pods, None, None], last).pods;
        if self.seen.config_maps.pods && !again && self.rests_on_numbers() {
            self.voice.fail(
                "the numbers of ConfigMaps and Pods are not of one store after all; the workload was not written",
                &[],
            );
            return Ok(self.end("conflict", 5));
        }

        for _ in 0..TRIES {
            let patch = patch::workload(&self.seen.workload, &self.plan);
            self.voice.phase(Phase::Patching);
            let answer = cluster.json_patch(Resource::Deployments, &namespace, &name, &patch, false).await;
            match answer {
                Ok(patched) => return self.patched(cluster, &patched).await,
                Err(WriteError::TestFailed { .. } | WriteError::Conflict { .. } | WriteError::NotFound { .. }) => {
                    self.voice.phase(Phase::Snapshots);
                    if let Some(changed) = writes::reread(cluster, &mut self.ready.seen).await? {
                        return Ok(self.conflict(&changed));
                    }
                }
                Err(error) if error.outcome_unknown() => {
                    let now = cluster.get(Resource::Deployments, &namespace, &name).await?;
                    let arrived = now
                        .as_ref()
                        .filter(|o| o.0.pointer("/spec/template").is_some_and(|t| pin::same(t, &self.plan.template)));
                    let Some(arrived) = arrived.cloned() else { return Err(error.into()) };
                    return self.patched(cluster, &arrived).await;
                }
                Err(error) if !writes::denied(&error) => {
                    self.voice.phase(Phase::Snapshots);
                    return Err(error.into());
                }
                Err(error) => {
                    self.voice.phase(Phase::Snapshots);
                    self.plan.refusals.push(Refusal {
                        code: Code::DryRunDenied,
                        reference: None,
                        verdict: None,
                        message: format!("the API server did not accept the rollback: {error}"),
                    });
                    return Ok(self.end("refused", 3));
                }
            }
        }
        self.voice
            .fail(&format!("deployment.apps/{name} is being written all the time; it was not written by us"), &[]);
        Ok(self.end("conflict", 5))
    }

    /// The patch has arrived: says so, and waits if asked to.
    async fn patched(&mut self, cluster: &Cluster, patched: &Object) -> Result<Undone, Failure> {
        self.voice.phase(Phase::Patched);
        self.note_written(patched);
        self.moment("patched");
        let now = self.new_revision().map_or(String::new(), |n| format!(", now revision {n}"));
        let (name, to) = (patched.name(), self.plan.to);
        self.voice.done(&format!("deployment.apps/{name} rolled back to revision {to}{now}"));
        if !self.request.wait {
            return Ok(self.end("done", 0));
        }
        let stale = wait::progress_stamp(&self.seen.workload);
        self.watch(cluster, patched, stale, "done").await
    }

    /// The number of a LIST of ConfigMaps, for the second domain check. By the name of one that the target uses, since
    /// RBAC by resourceNames allows no other.
    async fn content_number(&self, cluster: &Cluster, namespace: &str) -> Option<u64> {
        let used = self.plan.target.references.iter().find(|j| j.reference.kind == Kind::ConfigMap)?;
        let list = cluster.list(Resource::ConfigMaps, namespace, Select::Name(&used.reference.name)).await;
        list.ok()?.version
    }

    /// Does what is kept or pinned rest on numbers of two types?
    fn rests_on_numbers(&self) -> bool {
        self.request.rules.config != Config::Live
            && self
                .plan
                .target
                .references
                .iter()
                .any(|j| j.facts.iter().any(|f| ["resource-version", "time-travel"].contains(&f.source)))
    }

    /// A kept reference whose uid or number is no longer the planned one.
    async fn moved(&self, cluster: &Cluster) -> Result<Option<String>, Failure> {
        if self.request.rules.config == Config::Live {
            return Ok(None);
        }
        let kept = self.plan.target.references.iter().zip(&self.plan.decisions);
        let kept = kept.filter(|(_, d)| matches!(d.action, Action::Keep) && d.grade > Grade::None).map(|(j, _)| j);
        let checks =
            kept.filter_map(|j| j.live.as_ref().map(|live| (j.reference.kind, live))).map(|(kind, live)| async move {
                let resource = match kind {
                    Kind::ConfigMap => Resource::ConfigMaps,
                    Kind::Secret => Resource::Secrets,
                };
                let list = cluster.list(resource, self.seen.workload.namespace(), Select::Name(live.name())).await?;
                let same = list.items.first().is_some_and(|o| o.uid() == live.uid() && o.version() == live.version());
                Ok::<_, Failure>((!same).then(|| format!("{}/{}", kind.word(), live.name())))
            });
        Ok(try_join_all(checks).await?.into_iter().flatten().next())
    }

    async fn watch(
        &mut self,
        cluster: &Cluster,
        patched: &Object,
        stale: Option<String>,
        outcome: &'static str,
    ) -> Result<Undone, Failure> {
        let settle = owners::settle(&self.plan, self.request.settle);
        let ended = wait::deployment(cluster, patched, stale, self.request.timeout, settle, &mut *self.voice).await?;
        match ended {
            Ended::Done(line) => {
                self.moment("rolled out");
                self.voice.done(&line);
                // The workload is written: what cannot be read now is a rollout that was not verified, not a run that could not.
                let after = match self.started_well(cluster).await {
                    Ok(after) => after,
                    Err(failure) => Err(format!("what the new Pods read could not be looked at: {failure}")),
                };
                match after {
                    Ok(line) => {
                        if let Some(line) = line {
                            self.voice.done(&line);
                        }
                        self.record(cluster).await;
                        Ok(self.end(outcome, 0))
                    }
                    Err(why) => {
                        self.voice.fail(&why, &[]);
                        Ok(self.end("failed", 4))
                    }
                }
            }
            Ended::Overwritten(other, mut sizes) => {
                sizes.insert(0, other.detail());
                self.moment(format!("{}, generation {}", other.line(), other.generation));
                self.voice.fail(&other.line(), &sizes);
                self.overwritten = Some(report::Overwritten::of(&other));
                Ok(self.end("failed", 4))
            }
            Ended::Failed(line, reasons) => {
                self.voice.fail(&line, &reasons);
                Ok(self.end("failed", 4))
            }
            Ended::TimedOut(line, reasons) => {
                self.voice.fail(&line, &reasons);
                Ok(self.end("timed-out", 4))
            }
        }
    }

    /// After the last new Pod: what was kept must still be what was planned, and each new Pod must name what was pinned.
    async fn started_well(&self, cluster: &Cluster) -> Result<Result<Option<String>, String>, Failure> {
        if let Some(which) = self.moved(cluster).await? {
            return Ok(Err(format!("configuration moved: {which} was written while Pods started")));
        }
        for snapshot in &self.plan.snapshots {
            let now = cluster.get(Resource::ConfigMaps, self.seen.workload.namespace(), &snapshot.name).await?;
            if !now.is_some_and(|o| snapshot::serves(&o, snapshot)) {
                return Ok(Err(format!("configuration moved: configmap/{} is gone or was replaced", snapshot.name)));
            }
        }
        if self.plan.snapshots.is_empty() {
            let none = self.plan.pods.start == 0 && self.request.rules.config == Config::Live;
            return Ok(Ok(none.then(|| "No Pod was started, so nothing is proven about the next one.".to_string())));
        }
        let bound = |pod: &&Object| {
            let names = crate::core::references::extract(&pod.0);
            self.plan.snapshots.iter().all(|s| names.get(Kind::ConfigMap, &s.name).is_some())
        };
        let pods = cluster.list(Resource::Pods, self.seen.workload.namespace(), Select::All).await?.items;
        let mine: Vec<&Object> = pods.iter().filter(|p| !p.terminating()).filter(bound).collect();
        let restarts: i64 = mine
            .iter()
            .flat_map(|p| p.items_at("/status/containerStatuses"))
            .filter_map(|c| c.get("restartCount").and_then(Value::as_i64))
            .sum();
        // An autoscaler may have moved it meanwhile.
        let now = cluster.get(Resource::Deployments, self.seen.workload.namespace(), self.seen.workload.name()).await?;
        let wanted = now.as_ref().unwrap_or(&self.seen.workload).int_at("/spec/replicas").unwrap_or(1);
        let word = if restarts == 1 { "restart" } else { "restarts" };
        let line = format!("{} of {wanted} Pods started with the pinned content, {restarts} {word}", mine.len());
        Ok(if i64::try_from(mine.len()).is_ok_and(|n| n >= wanted) { Ok(Some(line)) } else { Err(line) })
    }

    /// Records what the new Pods read, if this run pinned, or if one before it was cut off before it could.
    async fn record(&mut self, cluster: &Cluster) {
        let (trail, whose) = match (&self.history.trail, self.history.current(), &self.seen.records) {
            _ if !self.plan.nothing_to_do => (self.plan.trail(), Whose::ThisRun),
            (Some(trail), Some(current), Ok(records)) if !records.knows(current) => {
                (trail.clone(), Whose::AnEarlierRun)
            }
            _ => return,
        };
        if let Some(object) = recorded::after_undo(cluster, &self.ready.seen, &trail, whose, &mut *self.voice).await {
            self.voice.done(&format!("configmap/{} created", object.name()));
            self.note_written(&object);
        }
    }

    fn note_written(&mut self, object: &Object) {
        self.written.push(WrittenObject::of(object));
    }

    /// The controller's own rule: one above the highest, unless the template is the current one.
    fn new_revision(&self) -> Option<u64> {
        if let Some(current) = self.history.current().filter(|r| pin::same(&r.template, &self.plan.template)) {
            return Some(current.number);
        }
        self.history.numbers().into_iter().max().map(|n| n + 1)
    }

    fn document(&self, outcome: &'static str, exit_code: u8) -> Document {
        let (kind, plan) = (self.kind(), &self.plan);
        let patched = self.written.iter().any(|w| w.object.starts_with("Deployment/"));
        let undo = Undo {
            from: plan.from,
            target: plan.to,
            new_revision: self.new_revision().filter(|_| patched),
            actions: report::actions(plan),
            pods_planned: report::PodsPlanned { start: plan.pods.start, stay: plan.pods.stay, go: plan.pods.go },
            refusals: plan
                .refusals
                .iter()
                .map(|r| report::Refusal {
                    code: r.code.word(),
                    reference: r.reference.clone(),
                    verdict: r.verdict.map(crate::core::verdict::Verdict::word),
                    message: r.message.clone(),
                })
                .collect(),
            ways_on: ways::ways_on(plan, self.request),
            looked_in: report::looked_in(&self.seen, plan),
            not_looked_in: if plan.refused() { ways::not_looked_in(plan) } else { Vec::new() },
            also_reading: plan.also_reading.clone(),
            owners: report::owners(plan),
            owners_unread: plan.owners.unread.clone(),
            patch: patch::workload(&self.seen.workload, plan),
            written: self.written.clone(),
            timeline: self.timeline.clone(),
            overwritten: self.overwritten.clone(),
            outcome,
            exit_code,
        };
        let judged = std::slice::from_ref(&plan.target);
        let mut document = Document::new(kind, &self.seen, &self.history, judged, Outcome::Undo(Box::new(undo)));
        report::with_decisions(&mut document, plan, because);
        let left = apply::left_behind(&self.seen.workload, &plan.template);
        if !plan.nothing_to_do && !left.is_empty() {
            document.warnings.push(format!(
                "the last kubectl apply did not know what comes back here, so the next one would leave it there: {}",
                left.join(", ")
            ));
        }
        document.seal()
    }

    fn kind(&self) -> DocumentKind {
        if self.request.dry_run == DryRun::None { DocumentKind::Rollback } else { DocumentKind::Plan }
    }

    fn end(&mut self, outcome: &'static str, exit_code: u8) -> Undone {
        let mut manifests: Vec<Value> = self.plan.snapshots.iter().map(|s| s.body.clone()).collect();
        manifests.push(patch::manifest(&self.seen.workload, &self.plan));
        Undone { document: self.document(outcome, exit_code), manifests }
    }
}
