//! After the patch: the wait, what the new Pods name, and the record.

use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::read::{Resource, Select};
use crate::core::object::Object;
use crate::core::policy::Config;
use crate::core::references::{self, Kind};
use crate::core::report::{self, Verification};
use crate::core::snapshot;
use crate::core::substitute::{Finding, Verify};
use crate::run::owners;
use crate::run::recorded::{self, Whose};
use crate::run::undo::replace::Proof;
use crate::run::undo::{DryRun, OnFailure, Run, Undone};
use crate::run::wait::{self, Ended};
use crate::run::{Failure, Phase};

/// What was found, and what can be said of it.
type Look = (Finding, Option<String>);

impl Run<'_> {
    /// The patch has arrived: says so, and waits if asked to.
    pub(super) async fn patched(&mut self, cluster: &Cluster, patched: &Object) -> Result<Undone, Failure> {
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

    pub(super) async fn nothing_to_do(&mut self, cluster: &Cluster) -> Result<Undone, Failure> {
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
        let workload = self.seen.workload.clone();
        match wait::is_done(&workload, generation) {
            true if self.plan.verify == Verify::Replace => self.replaced(cluster, &workload, "nothing-to-do").await,
            true => {
                self.record(cluster).await;
                Ok(self.end("nothing-to-do", 0))
            }
            false => self.watch(cluster, &workload, None, "nothing-to-do").await,
        }
    }

    pub(super) async fn watch(
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
                self.rolled_out(cluster, patched, outcome).await
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
                self.way_back(cluster).await;
                Ok(self.end("failed", 4))
            }
            Ended::TimedOut(line, reasons) => {
                self.voice.fail(&line, &reasons);
                self.way_back(cluster).await;
                Ok(self.end("timed-out", 4))
            }
        }
    }

    /// The rollback failed: the way back, if it is wanted.
    async fn way_back(&mut self, cluster: &Cluster) {
        if self.request.on_failure == OnFailure::Revert {
            self.revert(cluster).await;
        }
    }

    /// The rollout is done: what is proven with it.
    async fn rolled_out(
        &mut self,
        cluster: &Cluster,
        patched: &Object,
        outcome: &'static str,
    ) -> Result<Undone, Failure> {
        // The workload is written: what cannot be read now is a rollout that was not verified, not a run that could not.
        match self.started_well(cluster).await {
            Ok(Ok((finding, line))) => {
                self.looked(finding);
                if let Some(line) = line {
                    self.voice.done(&line);
                }
                match self.plan.verify {
                    Verify::Replace => self.replaced(cluster, patched, outcome).await,
                    Verify::Rollout | Verify::None => {
                        self.record(cluster).await;
                        Ok(self.end(outcome, 0))
                    }
                }
            }
            Ok(Err((finding, why))) => {
                self.looked(finding);
                self.voice.fail(&why, &[]);
                self.way_back(cluster).await;
                Ok(self.end("failed", 4))
            }
            Err(failure) => {
                self.looked(Finding::Unread);
                self.voice.fail(&format!("what the new Pods read could not be looked at: {failure}"), &[]);
                Ok(self.end("failed", 4))
            }
        }
    }

    fn looked(&mut self, finding: Finding) {
        let (mode, outcome) = (self.plan.verify.word(), finding.word());
        let verification = Verification { mode, evicted: None, substitute: None, outcome };
        self.verification.get_or_insert(verification).outcome = outcome;
    }

    /// The proof on a substitute, and then the record, which covers it too.
    async fn replaced(
        &mut self,
        cluster: &Cluster,
        patched: &Object,
        outcome: &'static str,
    ) -> Result<Undone, Failure> {
        self.looked(Finding::Unread);
        match self.replace(cluster, patched).await {
            Ok(Proof::Given(line)) => {
                self.looked(Finding::AsPlanned);
                self.moment("substitute verified");
                self.voice.done(&line);
                self.record(cluster).await;
                Ok(self.end(outcome, 0))
            }
            Ok(Proof::NotGiven(why)) => {
                self.looked(why.finding);
                self.moment(format!("not verified: {}", why.finding.word()));
                self.voice.fail(&why.why, &why.reasons);
                if why.finding.failed() {
                    self.way_back(cluster).await;
                }
                Ok(self.end("failed", 4))
            }
            Err(failure) => {
                self.voice.fail(&format!("the substitute could not be looked at: {failure}"), &[]);
                Ok(self.end("failed", 4))
            }
        }
    }

    /// After the last new Pod: what was kept must still be what was planned, and each new Pod must name what was pinned.
    async fn started_well(&self, cluster: &Cluster) -> Result<Result<Look, (Finding, String)>, Failure> {
        if let Some(which) = self.moved(cluster, &self.plan).await? {
            return Ok(Err((Finding::Moved, format!("configuration moved: {which} was written while Pods started"))));
        }
        for snapshot in &self.plan.snapshots {
            let now = cluster.get(Resource::ConfigMaps, self.seen.workload.namespace(), &snapshot.name).await?;
            if !now.is_some_and(|o| snapshot::serves(&o, snapshot)) {
                let why = format!("configuration moved: configmap/{} is gone or was replaced", snapshot.name);
                return Ok(Err((Finding::Moved, why)));
            }
        }
        let started = self.plan.pods.start > 0;
        match (self.plan.verify, self.plan.snapshots.is_empty()) {
            (Verify::None, _) => return Ok(Ok((Finding::NotLooked, None))),
            (_, true) if started => return Ok(Ok((Finding::AsPlanned, None))),
            (verify, true) => {
                let live = self.request.rules.config == Config::Live && verify == Verify::Rollout;
                let line = "No Pod was started, so nothing is proven about the next one. --verify=replace would.";
                return Ok(Ok((Finding::NoPodStarted, live.then(|| line.to_string()))));
            }
            (_, false) => {}
        }
        let bound = |pod: &&Object| {
            let names = references::extract(&pod.0);
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
        Ok(match i64::try_from(mine.len()).is_ok_and(|n| n >= wanted) {
            true => Ok((Finding::AsPlanned, Some(line))),
            false => Err((Finding::Rewritten, line)),
        })
    }

    /// Records what the new Pods read, if this run pinned, or if one before it was cut off before it could.
    async fn record(&mut self, cluster: &Cluster) {
        let replaced = self.verification.as_ref().is_some_and(|v| v.substitute.is_some());
        let (trail, whose) = match (&self.history.trail, self.history.current(), &self.seen.records) {
            _ if !self.plan.nothing_to_do => (self.plan.trail(), Whose::ThisRun),
            (Some(trail), Some(current), Ok(records)) if !records.knows(current) || replaced => {
                (trail.clone(), Whose::AnEarlierRun)
            }
            _ => return,
        };
        if let Some(object) = recorded::after_undo(cluster, &self.ready.seen, &trail, whose, &mut *self.voice).await {
            self.voice.done(&format!("configmap/{} created", object.name()));
            self.note_written(&object);
        }
    }
}
