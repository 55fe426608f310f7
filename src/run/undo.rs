//! `undo`: all stages. Refused means that no mutating request was sent (server dry runs excepted).
//!
//! Order of writes: every write as a dry run; snapshots; kept references read again; one patch with preconditions;
//! after the last new Pod, kept references read again; one Pod evicted, if that is asked for; the record.

mod after;
mod rehearse;
mod replace;
mod revert;
mod write;

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::read::{Resource, Select};
use crate::core::apply;
use crate::core::history::{History, NoSuchRevision};
use crate::core::object::Object;
use crate::core::observed::Observed;
use crate::core::patch;
use crate::core::pin;
use crate::core::plan::{self, Judged, Plan};
use crate::core::policy::{Code, Given, Rules};
use crate::core::report::{self, Document, DocumentKind, Moment, Outcome, Undo, WrittenObject};
use crate::core::snapshot;
use crate::core::substitute::Verify;
use crate::core::workload::Target;
use crate::run::check::because;
use crate::run::observe::Observation;
use crate::run::{Failure, Scene, Source, Voice};
use crate::run::{owners, ways};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    None,
    Client,
    Server,
}

/// What is done where the rollout or its verification fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    Report,
    Revert,
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
    pub verify: Verify,
    /// Evict the only Pod without a question.
    pub allow_downtime: bool,
    /// Is there somebody who answers questions?
    pub asks: bool,
    pub on_failure: OnFailure,
    /// Write although somebody is known to put it back.
    pub allow_managed: bool,
    /// The connection flags as typed, repeated in every command that we print.
    pub typed: Vec<String>,
    /// Each `--use` as typed, for the commands of a refusal.
    pub uses: Vec<String>,
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
    if ready.asks(scene, request) && !voice.confirm(ready.question())? {
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
    verification: Option<report::Verification>,
    reverted: Option<report::Reverted>,
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
    let Some(target) = judged.iter().find(|j| j.revision.number == chosen).cloned() else {
        return Err(Failure::NoRevision(NoSuchRevision::Unknown { asked: chosen, numbers: history.numbers() }));
    };
    let mut plan = plan::make(&seen, &history, target, &request.rules);
    plan.owned(owners, request.allow_managed);
    plan.verified(request.verify, &seen, &history);
    consented(&mut plan, request);
    if request.on_failure == OnFailure::Revert && !plan.refused() {
        way_back(&mut plan, &seen, &history, &judged);
    }
    let mut ready = Ready {
        seen,
        history,
        plan,
        pods: None,
        there: BTreeSet::new(),
        timeline: Vec::new(),
        written: Vec::new(),
        overwritten: None,
        verification: None,
        reverted: None,
    };
    let mut run = ready.run(request, voice);
    run.moment("planned");
    if let Source::Live(cluster) = &scene.source
        && !run.plan.refused()
        && request.dry_run != DryRun::Client
    {
        if !run.plan.nothing_to_do
            && let Some(changed) = run.rehearse(cluster).await?
        {
            return Ok(Prepared::Ended(Box::new(run.conflict(&changed))));
        }
        run.rehearse_eviction(cluster).await?;
    }
    Ok(Prepared::Ready(Box::new(ready)))
}

/// The proof on a substitute takes the only Pod away: that is asked about by name, or allowed by name. `--yes` answers the
/// question about the plan, and is no answer to this one.
fn consented(plan: &mut Plan, request: &Request) {
    if plan.downtime() && !request.allow_downtime && !request.asks && request.dry_run == DryRun::None {
        plan.refuse(
            Code::Downtime,
            "--verify=replace would evict the only Pod, and nobody answers until its substitute is ready".into(),
        );
    }
}

/// Plans the way back before the first write; where there is none, nothing is written.
fn way_back(plan: &mut Plan, seen: &Observed, history: &History, judged: &[Judged]) {
    let left = match plan.nothing_to_do {
        // What an earlier run left, if it was one.
        true => history.trail.as_ref().map(|trail| trail.from),
        false => plan.from,
    };
    let left = left.and_then(|number| judged.iter().find(|j| j.revision.number == number));
    let Some(left) = left else {
        if !plan.nothing_to_do {
            let why = "--on-failure=revert has nothing to go back to: the live template belongs to no revision";
            plan.refuse(Code::NoWayBack, why.into());
        }
        return;
    };
    let number = left.revision.number;
    if seen.workload.int_at("/spec/revisionHistoryLimit") == Some(0) {
        let why = "--on-failure=revert needs a history, and revisionHistoryLimit is 0";
        plan.refuse(Code::NoWayBack, why.into());
        return;
    }
    let back = plan::back(seen, plan, left);
    match back.refusals.first() {
        Some(refusal) => {
            let why = format!("--on-failure=revert could not go back to revision {number}: {}", refusal.message);
            plan.refuse(Code::NoWayBack, why);
        }
        None => plan.back = Some(Box::new(back)),
    }
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
        let writes = !self.plan.nothing_to_do || self.plan.evicts;
        live && request.dry_run == DryRun::None && !self.plan.refused() && writes
    }

    /// The one question.
    pub fn question(&self) -> &'static str {
        match (self.plan.nothing_to_do, self.plan.downtime()) {
            (false, false) => "Roll back?",
            (false, true) => "Roll back, and then evict the only Pod (downtime until its substitute is ready)?",
            (true, false) => "Evict one Pod?",
            (true, true) => "Evict the only Pod (downtime until its substitute is ready)?",
        }
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

    fn conflict(&mut self, changed: &[String]) -> Undone {
        let name = self.seen.workload.name();
        let line = format!("deployment.apps/{name} changed since the plan was made; it was not written. Changed are");
        self.voice.fail(&line, changed);
        self.end("conflict", 5)
    }

    /// What is written twice is listed as it was last.
    fn note_written(&mut self, object: &Object) {
        let written = WrittenObject::of(object);
        self.written.retain(|w| w.uid != written.uid);
        self.written.push(written);
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
            verification: self.verification.clone(),
            reverted: self.reverted.clone(),
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
