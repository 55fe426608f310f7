//! `--on-failure=revert`: the revision that was left, with its own configuration, as planned before the first write.

use futures_util::future::join_all;

use crate::cluster::Cluster;
use crate::cluster::read::Resource;
use crate::core::history::REVISION;
use crate::core::object::Object;
use crate::core::patch;
use crate::core::pin;
use crate::core::plan::Plan;
use crate::core::report::{Reverted, WrittenObject};
use crate::run::undo::Run;
use crate::run::wait::{self, Ended};
use crate::run::{Failure, owners, writes};

impl Run<'_> {
    /// Puts back what was left. Whatever comes of it is said and reported; the run has failed all the same.
    pub(super) async fn revert(&mut self, cluster: &Cluster) {
        let Some(back) = self.plan.back.clone() else {
            self.voice.note("this run rolled nothing back, so nothing is put back");
            return;
        };
        self.moment(format!("going back to revision {}", back.to));
        let mut reverted =
            Reverted { target: back.to, new_revision: None, written: Vec::new(), outcome: "not-written" };
        if let Err(failure) = self.put_back(cluster, &back, &mut reverted).await {
            self.voice.fail(&format!("revision {} could not be put back: {failure}", back.to), &[]);
        }
        self.reverted = Some(reverted);
    }

    async fn put_back(&mut self, cluster: &Cluster, back: &Plan, reverted: &mut Reverted) -> Result<(), Failure> {
        let (namespace, name) = (self.seen.workload.namespace().to_string(), self.seen.workload.name().to_string());
        let made = back.snapshots.iter().map(|s| writes::ensure(cluster, &namespace, s, self.there.contains(&s.name)));
        let made = join_all(made).await;
        for (snapshot, made) in back.snapshots.iter().zip(made) {
            let made = made?;
            if made.created {
                self.voice.done(&format!("configmap/{} created", snapshot.name));
            }
            reverted.written.push(WrittenObject::of(&made.object));
        }
        if let Some(which) = self.moved(cluster, back).await? {
            let why = format!("{which} was written since the plan was made, so revision {} was not put back", back.to);
            self.voice.fail(&why, &[]);
            return Ok(());
        }
        let Some(now) = cluster.get(Resource::Deployments, &namespace, &name).await? else {
            return Err(Failure::Given("the workload was deleted".into()));
        };
        let ours = if self.plan.nothing_to_do { self.seen.workload.0.pointer("/spec/template") } else { None };
        let ours = ours.unwrap_or(&self.plan.template);
        if now.uid() != self.seen.workload.uid() || now.0.pointer("/spec/template").is_none_or(|t| !pin::same(t, ours))
        {
            return Err(Failure::Given("somebody else wrote another template meanwhile".into()));
        }
        let ops = patch::workload(&now, back);
        let patched = match cluster.json_patch(Resource::Deployments, &namespace, &name, &ops, false).await {
            Ok(patched) => patched,
            Err(error) if error.outcome_unknown() => {
                let arrived = cluster.get(Resource::Deployments, &namespace, &name).await?;
                let arrived = arrived.filter(|o| is_at(o, back));
                arrived.ok_or(error)?
            }
            Err(error) => return Err(error.into()),
        };
        reverted.written.push(WrittenObject::of(&patched));
        reverted.outcome = "failed";
        self.voice.done(&format!("deployment.apps/{name} put back to revision {}", back.to));
        let (stale, settle) = (wait::progress_stamp(&now), owners::settle(&self.plan, self.request.settle));
        let ended = wait::deployment(cluster, &patched, stale, self.request.timeout, settle, &mut *self.voice).await?;
        match ended {
            Ended::Done(line) => {
                reverted.outcome = "done";
                self.voice.done(&line);
            }
            Ended::Overwritten(other, _) => self.voice.fail(&other.line(), &[other.detail()]),
            Ended::Failed(line, reasons) => self.voice.fail(&line, &reasons),
            Ended::TimedOut(line, reasons) => {
                reverted.outcome = "timed-out";
                self.voice.fail(&line, &reasons);
            }
        }
        self.moment(format!("revision {} put back: {}", back.to, reverted.outcome));
        let now = cluster.get(Resource::Deployments, &namespace, &name).await?.filter(|o| is_at(o, back));
        reverted.new_revision = now.and_then(|o| o.annotation(REVISION)?.parse().ok());
        Ok(())
    }
}

fn is_at(workload: &Object, plan: &Plan) -> bool {
    workload.0.pointer("/spec/template").is_some_and(|t| pin::same(t, &plan.template))
}
