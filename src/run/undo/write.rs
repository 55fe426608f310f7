//! The writes of an undo: snapshots, kept references read again, one patch.

use futures_util::future::{join_all, try_join_all};

use crate::cluster::Cluster;
use crate::cluster::read::{Resource, Select};
use crate::cluster::write::WriteError;
use crate::core::evidence;
use crate::core::observed::Domain;
use crate::core::patch;
use crate::core::pin;
use crate::core::plan::{Plan, Refusal};
use crate::core::policy::{Action, Code, Config};
use crate::core::recovery::Grade;
use crate::core::references::Kind;
use crate::core::snapshot;
use crate::run::observe::contents;
use crate::run::undo::{Run, TRIES, Undone};
use crate::run::writes;
use crate::run::{Failure, Phase};

impl Run<'_> {
    /// Creates the snapshots, reads again what is kept, patches, waits.
    pub(super) async fn write(&mut self, cluster: &Cluster) -> Result<Undone, Failure> {
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

        let (moved, last) = tokio::join!(self.moved(cluster, &self.plan), self.content_number(cluster, &namespace));
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
    pub(super) async fn moved(&self, cluster: &Cluster, plan: &Plan) -> Result<Option<String>, Failure> {
        if plan.rules.config == Config::Live {
            return Ok(None);
        }
        let kept = plan.target.references.iter().zip(&plan.decisions);
        let kept = kept.filter(|(_, d)| matches!(d.action, Action::Keep) && d.grade > Grade::None).map(|(j, _)| j);
        let checks =
            kept.filter_map(|j| j.live.as_ref().map(|live| (j.reference.kind, live))).map(|(kind, live)| async move {
                let namespace = self.seen.workload.namespace();
                let list = cluster.list(contents(kind), namespace, Select::Name(live.name())).await?;
                let same = list.items.first().is_some_and(|o| o.uid() == live.uid() && o.version() == live.version());
                Ok::<_, Failure>((!same).then(|| format!("{}/{}", kind.word(), live.name())))
            });
        Ok(try_join_all(checks).await?.into_iter().flatten().next())
    }
}
