//! `observe`: the Pods of a workload as they are, what they hold and answer; and the wait for a condition.
//!
//! A wait looks every second: at the workload, its ReplicaSets and its Pods. Only where the condition may hold everything is
//! read, and what is then seen decides.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::cluster::probe::Answered;
use crate::cluster::read::{ReadError, Resource, Select};
use crate::core::history;
use crate::core::object::Object;
use crate::core::observation::{self, Observation, PodLine, Probe, ProbeLine, ServiceLine};
use crate::core::report::{Document, DocumentKind, Outcome};
use crate::core::until::{self, Condition, Look, Memory, Part, Until};
use crate::core::workload::{Kind, Target};
use crate::run::{self, Failure, Scene, Source};

const PAUSE: Duration = Duration::from_secs(1);

/// So many Pods are asked at the same time.
const SIDE_BY_SIDE: usize = 16;

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// All of them must hold.
    pub until: Vec<Until>,
    /// Zero waits for ever.
    pub timeout: Duration,
    pub probe: Option<Probe>,
    /// Where an answer says which Pod gave it.
    pub pod_field: Option<String>,
    /// Shall bodies go into the document?
    pub show: bool,
}

/// The document; its exit code is 4 where the condition was not met in time.
///
/// # Errors
/// No such workload, or the cluster could not be read.
pub async fn run(
    scene: &Scene,
    target: Option<&Target>,
    request: &Request,
    say: &mut dyn FnMut(&str),
) -> Result<Document, Failure> {
    let start = Instant::now();
    let end = Some(request.timeout).filter(|t| !t.is_zero()).and_then(|t| start.checked_add(t));
    let mut wait = Wait { memory: Memory::default(), steady: start, said: String::new() };
    let mut target = target.cloned();
    let mut uid: Option<String> = None;
    loop {
        let seen = scene.observe(target.as_ref(), Timestamp::now()).await?;
        let workload = seen.seen.workload.clone();
        if uid.get_or_insert_with(|| workload.uid().to_string()) != workload.uid() {
            return Err(created_again(&workload));
        }
        // From here on this one is meant, whatever else appears.
        target = Some(Target { kind: Some(Kind::Deployment), name: workload.name().to_string() });
        if !request.until.is_empty()
            && let Err(words) = &seen.seen.pods
        {
            return Err(Failure::Given(format!("what --until waits for cannot be seen: {words}")));
        }
        wait.memory.events(seen.seen.all_events());
        wait.look(&workload, &seen.seen.replica_sets, seen.seen.all_pods());
        let (document, mut observed) = whole(scene, request, &seen).await?;
        if request.until.is_empty() {
            return Ok(sealed(document, observed));
        }
        let look = wait.asked(&workload, &seen.seen.replica_sets, &seen.history, seen.seen.all_pods());
        let condition = judge(request, &look, &plain(&document, &observed)?);
        let over = matches!(scene.source, Source::Dump(_)) || end.is_some_and(|end| Instant::now() >= end);
        if condition.met || over {
            observed.exit_code = if condition.met { 0 } else { 4 };
            observed.condition = Some(condition);
            return Ok(sealed(document, observed));
        }
        let line = waiting(&condition);
        wait.say(line, say);
        scene.until_it_may_hold(request, &workload, end, &mut wait, say).await?;
    }
}

/// What a wait knows of the time before.
struct Wait {
    memory: Memory,
    /// Since when no Pod was seen to change.
    steady: Instant,
    said: String,
}

impl Wait {
    fn look(&mut self, workload: &Object, sets: &[Object], pods: &[Object]) {
        if self.memory.look(workload, sets, pods) {
            self.steady = Instant::now();
        }
    }

    fn asked<'a>(
        &'a self,
        workload: &'a Object,
        sets: &'a [Object],
        history: &'a history::History,
        pods: &'a [Object],
    ) -> Look<'a> {
        Look { workload, sets, history, pods, steady: self.steady.elapsed(), memory: &self.memory }
    }

    /// Each new sentence once.
    fn say(&mut self, line: String, say: &mut dyn FnMut(&str)) {
        if line != self.said {
            say(&line);
            self.said = line;
        }
    }
}

impl Scene {
    /// Looks every second, until what can be told by a look holds, or the time is over.
    async fn until_it_may_hold(
        &self,
        request: &Request,
        workload: &Object,
        end: Option<Instant>,
        wait: &mut Wait,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), Failure> {
        loop {
            let next = Instant::now() + PAUSE;
            tokio::time::sleep_until(end.map_or(next, |end| end.min(next))).await;
            let selector = run::observe::selector(workload);
            let (now, sets, pods) = tokio::join!(
                self.get(Resource::Deployments, workload.name()),
                self.list(Resource::ReplicaSets, Select::Labels(&selector)),
                self.list(Resource::Pods, Select::Labels(&selector))
            );
            let (Some(now), sets, pods) = (now?, sets?.items, pods?.items) else {
                return Err(Failure::Given(format!("deployment {:?} was deleted", workload.name())));
            };
            if now.uid() != workload.uid() {
                return Err(created_again(&now));
            }
            wait.look(&now, &sets, &pods);
            let history = history::read(&now, &sets);
            let look = wait.asked(&now, &sets, &history, &pods);
            let not_yet = request.until.iter().find_map(|until| match until::holds(until, &look) {
                Some((false, because)) => Some(format!("Waiting for {until}: {because}")),
                _ => None,
            });
            let over = end.is_some_and(|end| Instant::now() >= end);
            match not_yet {
                Some(line) if !over => wait.say(line, say),
                _ => return Ok(()),
            }
        }
    }
}

fn created_again(workload: &Object) -> Failure {
    Failure::Given(format!("deployment {:?} was deleted and created again", workload.name()))
}

fn waiting(condition: &Condition) -> String {
    let part = condition.parts.iter().find(|part| !part.met);
    part.map_or_else(String::new, |part| format!("Waiting for {}: {}", part.until, part.because))
}

fn sealed(mut document: Document, observed: Observation) -> Document {
    document.outcome = Outcome::Observation(Box::new(observed));
    document.seal()
}

/// The document as others will read it, without its condition.
fn plain(document: &Document, observed: &Observation) -> Result<Value, Failure> {
    let mut document = document.clone();
    document.outcome = Outcome::Observation(Box::new(observed.clone()));
    serde_json::to_value(&document).map_err(|error| Failure::Given(format!("cannot write the report: {error}")))
}

fn judge(request: &Request, look: &Look<'_>, document: &Value) -> Condition {
    let parts: Vec<Part> = request
        .until
        .iter()
        .map(|until| {
            let (met, because) = match (until, until::holds(until, look)) {
                (_, Some(answer)) => answer,
                (Until::Field { field, value }, None) => until::in_document(field, value, document),
                (_, None) => (false, "it cannot be told".into()),
            };
            Part { until: until.to_string(), met, because }
        })
        .collect();
    let met = parts.iter().all(|part| part.met);
    Condition { met, parts, look_at: if met { Vec::new() } else { until::look_at(look) } }
}

/// Everything that is known now: what was read, and what Pods and Services answer.
async fn whole(
    scene: &Scene,
    request: &Request,
    read: &run::observe::Observation,
) -> Result<(Document, Observation), Failure> {
    let (seen, history) = (&read.seen, &read.history);
    let mut pods = seen.pods.is_ok().then(|| observation::pods(seen, history));
    let owned = observation::owned(&seen.workload, &seen.replica_sets, seen.all_pods());
    let owned: Vec<&Object> = owned.into_iter().map(|(pod, _)| pod).collect();
    let (services, slices) =
        tokio::join!(scene.list(Resource::Services, Select::All), scene.list(Resource::EndpointSlices, Select::All));
    let mut warnings = Vec::new();
    let (services, slices) = match (services, slices) {
        (Ok(services), Ok(slices)) => (Some(services.items), slices.items),
        (services, slices) => {
            let errors = [services.err(), slices.err()].into_iter().flatten();
            warnings.extend(errors.map(|error| format!("which Services lead to the Pods is not known: {error}")));
            (None, Vec::new())
        }
    };
    let selecting = services.as_ref().map(|services| observation::selecting(&seen.workload, &owned, services));
    let mut lines: Option<Vec<ServiceLine>> =
        selecting.as_ref().map(|all| all.iter().map(|service| ServiceLine::of(service, &slices)).collect());
    if let (Some(probe), Source::Live(cluster)) = (&request.probe, &scene.source) {
        let asking = Asking { cluster, scene, request, probe, workload: &seen.workload };
        let selecting = selecting.unwrap_or_default();
        let port = probe.pod_port(&seen.workload, &selecting);
        asking.pods(pods.as_deref_mut().unwrap_or_default(), port).await;
        let ours: BTreeSet<String> = owned.iter().map(|pod| pod.uid().to_string()).collect();
        asking.services(&selecting, lines.as_deref_mut().unwrap_or_default(), &ours).await;
    }
    let observed =
        Observation { pods, services: lines, configs: observation::configs(seen), condition: None, exit_code: 0 };
    let outcome = Outcome::Observation(Box::new(observed.clone()));
    let mut document = Document::new(DocumentKind::Observation, seen, history, &read.judged, outcome);
    document.warnings.extend(warnings);
    Ok((document, observed))
}

/// Who asks, and what.
struct Asking<'a> {
    cluster: &'a Cluster,
    scene: &'a Scene,
    request: &'a Request,
    probe: &'a Probe,
    workload: &'a Object,
}

impl Asking<'_> {
    async fn ask(&self, resource: Resource, name: &str, port: Option<u16>) -> Result<Answered, ReadError> {
        self.cluster.probe(resource, &self.scene.namespace, name, port, &self.probe.path).await
    }

    async fn pods(&self, pods: &mut [PodLine], port: Option<u16>) {
        for some in pods.chunks_mut(SIDE_BY_SIDE) {
            let answers = join_all(some.iter().map(|pod| self.ask(Resource::Pods, &pod.name, port))).await;
            for (pod, answer) in some.iter_mut().zip(answers) {
                pod.probe = Some(self.line(&answer));
            }
        }
    }

    async fn services(&self, services: &[&Object], lines: &mut [ServiceLine], ours: &BTreeSet<String>) {
        let answers = join_all(services.iter().map(|service| async {
            match self.probe.service_port(self.workload, service) {
                Ok(port) => self.ask(Resource::Services, service.name(), Some(port)).await.map_err(|e| e.to_string()),
                Err(why) => Err(why),
            }
        }))
        .await;
        // Asked once more: an endpoint that came or went meanwhile may not be the one that answered.
        let later = match self.request.pod_field {
            Some(_) if !lines.is_empty() => self.scene.list(Resource::EndpointSlices, Select::All).await,
            _ => Ok(Default::default()),
        };
        for (line, answer) in lines.iter_mut().zip(answers) {
            line.probe = Some(self.line(&answer));
            let Some(field) = &self.request.pod_field else { continue };
            match (&answer, &later) {
                (Ok(answered), Ok(slices)) => {
                    let later = observation::endpoints(&line.name, &slices.items);
                    line.attribute(&answered.body, field, &later, ours);
                }
                (Err(_), _) => line.unattributed("there was no answer".into()),
                (_, Err(error)) => line.unattributed(error.to_string()),
            }
        }
    }

    fn line(&self, answer: &Result<Answered, impl ToString>) -> ProbeLine {
        let answered = match answer {
            Ok(answered) => answered,
            Err(error) => return ProbeLine { error: Some(error.to_string()), ..ProbeLine::default() },
        };
        let mut line = ProbeLine::of(answered.status, &answered.body, answered.whole);
        if self.request.show {
            line.show(&answered.body);
        }
        line
    }
}
