//! `--verify=replace`: one healthy Pod is evicted, and its substitute must start as planned and stay ready.
//!
//! The order is: the eviction as a dry run, a note in our annotation which Pod it is, the eviction. A run that is cut off
//! anywhere in between is finished by the same command, which evicts that Pod or none.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::try_join_all;
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::cluster::follow::News;
use crate::cluster::read::{Resource, Select};
use crate::cluster::watch::Event;
use crate::cluster::write::WriteError;
use crate::core::history;
use crate::core::judged::PodState;
use crate::core::object::Object;
use crate::core::owners;
use crate::core::patch;
use crate::core::pin;
use crate::core::pods::{self, Sight};
use crate::core::references::{self, Kind};
use crate::core::report::{PodName, Substitute};
use crate::core::substitute::{self, Evicted, Finding, Named};
use crate::run::observe;
use crate::run::undo::{Run, TRIES};
use crate::run::wait;
use crate::run::{Failure, Phase};

/// How long a substitute must be ready without a restart, unless `--settle` says otherwise.
const SETTLE: Duration = Duration::from_secs(10);

/// Between the choice of a Pod and its eviction: then its substitute is younger by the stamps of the API server, which are
/// whole seconds.
const APART: Duration = Duration::from_secs(1);

/// A budget that has just changed is not worked out at once: so often and so far apart the eviction is asked for.
const ASKED: usize = 4;

/// What the look at a substitute came to.
pub(super) enum Proof {
    /// It is as planned, and this is what can be said.
    Given(String),
    NotGiven(NotGiven),
}

pub(super) struct NotGiven {
    pub finding: Finding,
    pub why: String,
    pub reasons: Vec<String>,
}

fn not_given(finding: Finding, why: impl Into<String>, reasons: Vec<String>) -> Proof {
    Proof::NotGiven(NotGiven { finding, why: why.into(), reasons })
}

/// The wanted revision as it is now.
struct Scene {
    workload: Object,
    sets: Vec<Object>,
    replica_set: String,
    pods: Vec<Object>,
    template: Value,
}

impl Scene {
    /// What keeps these Pods of the wanted revision from starting, in sentences.
    fn blocking(&self, pods: &[&Object]) -> Vec<String> {
        let sight = Sight { workload: &self.workload, replica_sets: Some(&self.sets), pods, events: &[] };
        let standing = pods::standing(sight, 0, None);
        standing.troubles.iter().filter(|t| t.blocks).map(|t| standing.sentence(t)).collect()
    }
}

/// What came in the evicted Pod's place.
struct Came {
    pod: Option<Object>,
    settled: bool,
    reasons: Vec<String>,
}

impl Run<'_> {
    /// Evicts one Pod of what `patched` brought, unless an earlier run did, and watches its substitute.
    pub(super) async fn replace(&mut self, cluster: &Cluster, patched: &Object) -> Result<Proof, Failure> {
        let mut tries = TRIES;
        let (scene, evicted) = loop {
            let scene = match self.scene_of(cluster, patched).await? {
                Ok(scene) => scene,
                Err(proof) => return Ok(proof),
            };
            match self.choose(cluster, &scene).await? {
                Ok(Some(evicted)) => break (scene, evicted),
                // Somebody wrote the annotation in between: another run, perhaps.
                Ok(None) if tries > 0 => tries -= 1,
                Ok(None) => {
                    return Ok(not_given(
                        Finding::NotEvicted,
                        "the workload is being written all the time",
                        Vec::new(),
                    ));
                }
                Err(proof) => return Ok(proof),
            }
        };
        let name = PodName { name: evicted.name.clone(), uid: evicted.uid.clone() };
        if let Some(pod) = evicted.standing(&scene.pods) {
            tokio::time::sleep(APART).await;
            if let Err(proof) = self.evict(cluster, pod).await? {
                return Ok(proof);
            }
            self.moment(format!("pod/{} evicted", pod.name()));
            self.voice.done(&format!("pod/{} evicted", pod.name()));
        } else {
            self.voice.note(&format!("pod/{} was evicted already: no second Pod is", evicted.name));
        }
        if let Some(verification) = &mut self.verification {
            verification.evicted = Some(name);
        }
        self.voice.progress(&format!("Waiting for the substitute of pod/{}...", evicted.name));
        let came = self.substitute(cluster, &scene, &evicted).await?;
        self.judge(cluster, patched, &scene, &evicted, came).await
    }

    async fn scene_of(&self, cluster: &Cluster, patched: &Object) -> Result<Result<Scene, Proof>, Failure> {
        let (namespace, name) = (patched.namespace(), patched.name());
        let selector = observe::selector(patched);
        let (workload, sets, pods) = tokio::join!(
            cluster.get(Resource::Deployments, namespace, name),
            cluster.list(Resource::ReplicaSets, namespace, Select::Labels(&selector)),
            cluster.list(Resource::Pods, namespace, Select::Labels(&selector))
        );
        let (workload, sets, pods) = (workload?, sets?.items, pods?.items);
        let Some(workload) = workload.filter(|w| w.uid() == patched.uid()) else {
            return Ok(Err(not_given(Finding::NotEvicted, format!("deployment {name:?} was deleted"), Vec::new())));
        };
        if let Some(other) = owners::overwritten(patched, &workload) {
            return Ok(Err(not_given(Finding::NotEvicted, other.line(), vec![other.detail()])));
        }
        let template = workload.0.pointer("/spec/template").cloned().unwrap_or_default();
        let history = history::read(&workload, &sets);
        let current = history.current().filter(|r| pin::same(&r.template, &template));
        let Some(current) = current else {
            return Ok(Err(not_given(Finding::NotEvicted, "the live template belongs to no revision yet", Vec::new())));
        };
        let replica_set = current.object.uid().to_string();
        Ok(Ok(Scene { workload, sets, replica_set, pods, template }))
    }

    /// The Pod to be evicted, noted in the workload; or the one that an earlier run noted. `None`: the note met another write.
    async fn choose(&mut self, cluster: &Cluster, scene: &Scene) -> Result<Result<Option<Evicted>, Proof>, Failure> {
        if scene.workload.int_at("/spec/replicas") == Some(0) {
            let why = "0 replicas are wanted, so there is no Pod to replace: nothing is proven about the next one";
            return Ok(Err(not_given(Finding::NoPod, why, Vec::new())));
        }
        // Without our annotation on just this template nothing was rolled back, and nothing would tell the next run.
        let Some(trail) = history::trail(&scene.workload) else {
            let why = "this template was not brought by an undo of ours, so no Pod was evicted";
            return Ok(Err(not_given(Finding::NotEvicted, why, Vec::new())));
        };
        if let Some(evicted) = trail.evicted {
            return Ok(Ok(Some(evicted)));
        }
        let healthy = substitute::healthy(&scene.pods, &scene.replica_set);
        let Some(pod) = healthy.first() else {
            return Ok(Err(not_given(Finding::NoPod, "no ready Pod is there to be evicted", Vec::new())));
        };
        if healthy.len() == 1 && !self.request.allow_downtime && !self.plan.downtime() {
            let why =
                format!("pod/{} was not evicted: no other Pod is ready now, so that would be downtime", pod.name());
            return Ok(Err(not_given(Finding::Downtime, why, vec!["with --allow-downtime it would be".into()])));
        }
        if let Err(proof) = self.asked(cluster, pod, true).await? {
            return Ok(Err(proof));
        }
        let named = named(cluster, scene.workload.namespace(), &scene.template).await?;
        let Some(evicted) = Evicted::of(pod, &named) else {
            return Ok(Err(not_given(
                Finding::NotEvicted,
                format!("pod/{} has no creation time", pod.name()),
                Vec::new(),
            )));
        };
        let trail = history::Trail { evicted: Some(evicted.clone()), ..trail };
        let ops = patch::evicting(&scene.workload, &trail);
        // From here on an interruption comes after a write.
        self.voice.phase(Phase::Patched);
        let (namespace, name) = (scene.workload.namespace(), scene.workload.name());
        match cluster.json_patch(Resource::Deployments, namespace, name, &ops, false).await {
            Ok(noted) => {
                self.note_written(&noted);
                Ok(Ok(Some(evicted)))
            }
            // The next look tells whether it arrived.
            Err(error) if error.outcome_unknown() => Ok(Ok(None)),
            Err(WriteError::TestFailed { .. } | WriteError::Conflict { .. }) => Ok(Ok(None)),
            Err(error) => Ok(Err(not_given(Finding::NotEvicted, error.to_string(), Vec::new()))),
        }
    }

    async fn evict(&mut self, cluster: &Cluster, pod: &Object) -> Result<Result<(), Proof>, Failure> {
        self.asked(cluster, pod, false).await
    }

    /// Asks for the eviction. A budget that stands against it is asked a few times more, since it follows Pods with a delay;
    /// it is never overridden.
    async fn asked(&mut self, cluster: &Cluster, pod: &Object, dry_run: bool) -> Result<Result<(), Proof>, Failure> {
        let mut left = ASKED;
        loop {
            let error = match cluster.evict(pod, dry_run).await {
                Ok(()) => return Ok(Ok(())),
                Err(error) => error,
            };
            match error {
                WriteError::Budget { .. } if left > 1 => {
                    left -= 1;
                    tokio::time::sleep(APART).await;
                }
                WriteError::Budget { message, .. } => {
                    let why = format!("pod/{} was not evicted: {message}", pod.name());
                    let reasons = vec![
                        "the rollback itself is done; nothing is proven about the next Pod".into(),
                        "once the budget allows it the same command goes on from here".into(),
                    ];
                    return Ok(Err(not_given(Finding::Budget, why, reasons)));
                }
                // Is it gone all the same, evicted or by itself? Then a substitute comes.
                error
                    if error.outcome_unknown()
                        || matches!(error, WriteError::NotFound { .. } | WriteError::Conflict { .. }) =>
                {
                    let list = cluster.list(Resource::Pods, pod.namespace(), Select::Name(pod.name())).await?;
                    if !list.items.iter().any(|p| p.uid() == pod.uid() && !p.terminating()) {
                        return Ok(Ok(()));
                    }
                    return Ok(Err(not_given(Finding::NotEvicted, error.to_string(), Vec::new())));
                }
                error => return Ok(Err(not_given(Finding::NotEvicted, error.to_string(), Vec::new()))),
            }
        }
    }

    /// Watches until the substitute has been ready for long enough, cannot start, or the time is up.
    async fn substitute(&mut self, cluster: &Cluster, scene: &Scene, evicted: &Evicted) -> Result<Came, Failure> {
        let (namespace, selector) = (scene.workload.namespace(), observe::selector(&scene.workload));
        let settle = self.request.settle.unwrap_or(SETTLE);
        let patience = self.request.timeout.unwrap_or_else(|| wait::patience(&scene.workload));
        // Zero waits for ever, as in the wait before.
        let end = Some(patience).filter(|p| !p.is_zero()).and_then(|p| Instant::now().checked_add(p));
        // Since when which Pod is ready, with how many restarts; and since when one cannot start.
        let mut held: Option<(Instant, String, i64)> = None;
        let mut stuck: Option<Instant> = None;
        let mut news = cluster.follow(Resource::Pods, namespace, Select::Labels(&selector));
        let mut pods: BTreeMap<String, Object> = BTreeMap::new();
        loop {
            let now = Instant::now();
            let pod = evicted.substitute(pods.values(), &scene.replica_set);
            let state = pod.map(|p| (p.uid().to_string(), PodState::of(p)));
            held = match (&state, held) {
                (Some((uid, state)), Some((since, of, restarts)))
                    if state.ready && *uid == of && restarts == state.restarts =>
                {
                    Some((since, of, restarts))
                }
                (Some((uid, state)), _) if state.ready => {
                    let name = &state.name;
                    self.voice.progress(&format!("pod/{name} is ready; {settle:?} to see that it stays..."));
                    Some((now, uid.clone(), state.restarts))
                }
                _ => None,
            };
            let reasons = pod.map_or(Vec::new(), |pod| scene.blocking(&[pod]));
            stuck = if reasons.is_empty() { None } else { stuck.or(Some(now)) };
            let settled = held.as_ref().and_then(|(since, _, _)| since.checked_add(settle));
            let given_up = stuck.and_then(|since| since.checked_add(pods::HOLD));
            if settled.is_some_and(|at| at <= now) {
                return Ok(Came { pod: pod.cloned(), settled: true, reasons });
            }
            if [given_up, end].into_iter().flatten().any(|at| at <= now) {
                return Ok(Came { pod: pod.cloned(), settled: false, reasons });
            }
            let next = match [settled, given_up, end].into_iter().flatten().min() {
                Some(at) => tokio::time::timeout_at(at, news.next()).await,
                None => Ok(news.next().await),
            };
            match next {
                // One of the times above has come, or the Pods cannot be seen now and are tried again.
                Err(_) | Ok(Some(News::Lost(..))) => {}
                Ok(Some(News::Listed(all))) => pods = all.into_iter().map(|p| (p.uid().to_string(), p)).collect(),
                Ok(Some(News::Changed(change))) => match change.event {
                    Event::Bookmark => {}
                    Event::Deleted => drop(pods.remove(change.object.uid())),
                    _ => drop(pods.insert(change.object.uid().to_string(), change.object)),
                },
                Ok(Some(News::Denied(error))) => return Err(error.into()),
                Ok(None) => return Err(Failure::Given("the Pods are not told any more".into())),
            }
        }
    }

    /// Was it what was planned?
    async fn judge(
        &mut self,
        cluster: &Cluster,
        patched: &Object,
        before: &Scene,
        evicted: &Evicted,
        came: Came,
    ) -> Result<Proof, Failure> {
        // The owner chain once more, after it has settled: ReplicaSet and workload are still those of before.
        let scene = match self.scene_of(cluster, patched).await? {
            Ok(scene) => scene,
            Err(proof) => return Ok(proof),
        };
        let named = named(cluster, scene.workload.namespace(), &scene.template).await?;
        if let Some(pod) = &came.pod {
            let state = PodState::of(pod);
            let line = Substitute {
                name: pod.name().to_string(),
                uid: pod.uid().to_string(),
                ready: state.ready,
                restarts: state.restarts,
            };
            if let Some(verification) = &mut self.verification {
                verification.substitute = Some(line);
            }
        }
        // What it reads, in words: also for one that does not come up, since that is often why.
        let to = self.plan.to;
        let (differs, unknown) = substitute::against(&self.plan.target, &scene.template);
        let mut content: Vec<String> = Vec::new();
        let since_plan = self.moved_since_plan(&named, &scene.template);
        let moved = [evicted.moved(&named), since_plan].concat();
        if !moved.is_empty() {
            content.push(format!("it reads other content than was planned: {} written meanwhile", listed(&moved)));
        }
        if !differs.is_empty() {
            content.push(format!("it reads other content than revision {to}'s Pods did: {}", differs.join(", ")));
        }
        if !unknown.is_empty() {
            content.push(format!("it is not known to read what revision {to} read: {}", unknown.join(", ")));
        }
        let Some(pod) = came.pod else {
            let reasons = scene.blocking(&[]);
            return Ok(not_given(Finding::NotReady, format!("no substitute of pod/{} came", evicted.name), reasons));
        };
        let name = pod.name();
        if !came.settled {
            let mut reasons = came.reasons;
            if reasons.is_empty() {
                reasons.push(format!("pod/{name} runs, and is not ready for long enough"));
            }
            reasons.extend(content);
            let why = format!("the substitute of pod/{} does not come up", evicted.name);
            return Ok(not_given(Finding::NotReady, why, reasons));
        }
        if scene.replica_set != before.replica_set {
            return Ok(not_given(Finding::NotEvicted, "another revision became current meanwhile", Vec::new()));
        }
        let rewritten = substitute::unnamed(&scene.template, &pod);
        if !rewritten.is_empty() {
            let why = format!("pod/{name} does not name {}: it was rewritten at admission", rewritten.join(", "));
            return Ok(not_given(Finding::Rewritten, why, Vec::new()));
        }
        if !content.is_empty() {
            let finding = match (moved.is_empty(), differs.is_empty()) {
                (_, false) => Finding::OtherContent,
                (false, _) => Finding::Moved,
                _ => Finding::MayDiffer,
            };
            let first = content.remove(0).replacen("it ", "the substitute ", 1);
            return Ok(not_given(finding, format!("pod/{name} is ready, but {first}"), content));
        }
        let restarts = PodState::of(&pod).restarts;
        let word = if restarts == 1 { "restart" } else { "restarts" };
        let what = if references::extract(&scene.template).references.iter().any(|r| pinned(&r.name)) {
            "the pinned content"
        } else {
            "the planned content"
        };
        let settle = self.request.settle.unwrap_or(SETTLE);
        let mut line = format!(
            "pod/{name} took the place of pod/{}: it started with {what}; ready for {settle:?}, {restarts} {word}",
            evicted.name
        );
        let late = substitute::not_provable(&named, &pod);
        if !late.is_empty() {
            line.push_str(&format!(". Of {} the name is verified, the content is not provable", late.join(", ")));
        }
        Ok(Proof::Given(line))
    }

    /// What was written between the plan and the eviction. Undos that keep nothing by proof look for it nowhere else.
    fn moved_since_plan(&self, named: &Named, template: &Value) -> Vec<String> {
        let names = references::extract(template);
        let planned = self.plan.target.references.iter().filter_map(|j| Some((&j.reference, j.live.as_ref()?)));
        let planned = planned.filter(|(r, _)| names.get(r.kind, &r.name).is_some());
        let moved = planned.filter(|(reference, live)| {
            let now = named.get(&substitute::id(reference));
            now.is_none_or(|now| (now.uid(), now.version()) != (live.uid(), live.version()))
        });
        moved.map(|(r, _)| format!("{}/{}", r.kind.word(), r.name)).collect()
    }
}

fn pinned(name: &str) -> bool {
    crate::core::snapshot::is_one(name)
}

fn listed(words: &[String]) -> String {
    let mut words = words.to_vec();
    words.sort();
    words.dedup();
    let verb = if words.len() == 1 { "was" } else { "were" };
    format!("{} {verb}", words.join(", "))
}

/// Everything that the template names, as it is now. What may not be read is a failure: nothing could be said of it.
async fn named(cluster: &Cluster, namespace: &str, template: &Value) -> Result<Named, Failure> {
    let references = references::extract(template).references;
    let lists = try_join_all(references.iter().map(|reference| {
        let resource = match reference.kind {
            Kind::ConfigMap => Resource::ConfigMaps,
            Kind::Secret => Resource::Secrets,
        };
        cluster.list(resource, namespace, Select::Name(&reference.name))
    }))
    .await?;
    let found = references.iter().zip(lists);
    Ok(found.filter_map(|(r, list)| Some((substitute::id(r), list.items.into_iter().next()?))).collect())
}
