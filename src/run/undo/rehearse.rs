//! Every write of an undo as a server dry run, before anybody is asked.

use futures_util::future::join_all;

use crate::cluster::Cluster;
use crate::cluster::read::Resource;
use crate::cluster::write::{Ban, WriteError};
use crate::core::patch;
use crate::core::pin;
use crate::core::plan::Refusal;
use crate::core::policy::Code;
use crate::core::snapshot;
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
