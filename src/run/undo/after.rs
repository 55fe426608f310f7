//! After the patch: the wait, what the new Pods name, and the record.

use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::read::{Resource, Select};
use crate::core::object::Object;
use crate::core::policy::Config;
use crate::core::references::{self, Kind};
use crate::core::report;
use crate::core::snapshot;
use crate::run::owners;
use crate::run::recorded::{self, Whose};
use crate::run::undo::{DryRun, Run, Undone};
use crate::run::wait::{self, Ended};
use crate::run::{Failure, Phase};

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
        if wait::is_done(&self.seen.workload, generation) {
            self.record(cluster).await;
            return Ok(self.end("nothing-to-do", 0));
        }
        self.watch(cluster, &self.seen.workload.clone(), None, "nothing-to-do").await
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
}
