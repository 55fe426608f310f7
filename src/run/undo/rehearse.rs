//! Every write of an undo as a server dry run, before anybody is asked.

use futures_util::future::join_all;

use crate::cluster::Cluster;
use crate::cluster::read::Resource;
use crate::cluster::write::{Ban, WriteError};
use crate::core::judged::PodState;
use crate::core::patch;
use crate::core::pin;
use crate::core::plan::Refusal;
use crate::core::policy::Code;
use crate::core::snapshot::{self, Snapshot};
use crate::run::Failure;
use crate::run::undo::{Run, TRIES};
use crate::run::writes;

impl Run<'_> {
    /// Dry-runs every write, strictly validated, and one Pod of the new template: quota and Pod security are asked only
    /// when a Pod is created. Settles the snapshots' names on the way. Returns what changed, if the plan no longer holds.
    pub(super) async fn rehearse(&mut self, cluster: &Cluster) -> Result<Option<Vec<String>>, Failure> {
        let mut longer = snapshot::LENGTHS.into_iter().skip(1);
        let mut tries = TRIES;
        loop {
            let patch = patch::workload(&self.seen.workload, &self.plan);
            let pod = patch::trial_pod(&self.seen.workload, &self.plan);
            let (namespace, name) = (self.seen.workload.namespace().to_string(), self.seen.workload.name().to_string());
            // The snapshots of the way back are made only on it, and their names are settled now.
            let back = self.plan.back.iter().flat_map(|back| &back.snapshots);
            let snapshots: Vec<Snapshot> = self.plan.snapshots.iter().chain(back).cloned().collect();
            let creates = join_all(snapshots.iter().map(|s| writes::existing_or_new(cluster, &namespace, s)));
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
            for (snapshot, answer) in snapshots.iter().zip(creates) {
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
                self.plan.back.iter_mut().for_each(|back| back.rename(digits));
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

    /// Asks whether a Pod may be evicted, of the ready ones that are there. A budget that stands against it is a refusal only
    /// where the same Pods will be there after the rollout: others may have used it up.
    pub(super) async fn rehearse_eviction(&mut self, cluster: &Cluster) -> Result<(), Failure> {
        if !self.plan.evicts || self.plan.refused() {
            return Ok(());
        }
        let pods = self.seen.all_pods();
        let sets = self.history.revisions.iter().map(|r| r.object.uid().to_string()).collect::<Vec<_>>();
        let own = pods.iter().filter(|p| p.controller().is_some_and(|o| sets.contains(&o.uid)));
        let ready = own.filter(|p| !p.terminating() && PodState::of(p).ready);
        let Some(pod) = ready.max_by_key(|p| (p.created(), p.name().to_string())).cloned() else { return Ok(()) };
        match cluster.evict(&pod, true).await {
            Ok(()) => {}
            Err(WriteError::Budget { message, .. }) => {
                let pods = self.plan.pods;
                if self.plan.nothing_to_do || (pods.start == 0 && pods.stay_ready == pods.stay) {
                    self.plan.refuse(Code::EvictionDenied, format!("--verify=replace could evict no Pod: {message}"));
                }
            }
            // It went meanwhile.
            Err(WriteError::NotFound { .. } | WriteError::Conflict { .. }) => {}
            Err(error) if writes::denied(&error) => {
                self.plan.refuse(Code::EvictionDenied, format!("--verify=replace could evict no Pod: {error}"));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
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
}
