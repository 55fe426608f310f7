//! Waits for a rollout by watching the workload, its ReplicaSets and its Pods: done, failed with a reason, or no
//! progress for too long. Nothing is asked for while nothing happens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{LocalBoxStream, SelectAll, StreamExt};
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::cluster::follow::News;
use crate::cluster::read::{Resource, Select};
use crate::cluster::watch::Event;
use crate::core::object::Object;
use crate::core::owners::{self, Overwritten};
use crate::core::pods::{self, Held, Sight, Standing};
use crate::core::rollout::{self, Progress};
use crate::run::observe::selector;
use crate::run::owners::sizes;
use crate::run::{Failure, Voice, Waiting};

/// Kubernetes' default of `progressDeadlineSeconds`.
const PROGRESS_DEADLINE: u64 = 600;

/// Kubernetes' word for no deadline.
const NO_DEADLINE: u64 = 2_147_483_647;

/// The deployment controller notices a passed deadline a moment after it: its own word, which kubectl prints too, comes
/// before ours.
const CONTROLLERS_WORD: Duration = Duration::from_secs(10);

/// A Pod that says nothing for so long is asked for in the Events.
const MUTE: Duration = Duration::from_secs(5);

const WARNINGS: Select<'static> = Select::Fields("involvedObject.kind=Pod,type=Warning");

pub enum Ended {
    Done(String),
    /// Somebody wrote another template; and the ReplicaSets at that time.
    Overwritten(Overwritten, Vec<String>),
    Failed(String, Vec<String>),
    TimedOut(String, Vec<String>),
}

/// What to wait for, and how long.
pub struct Wait<'a> {
    /// The workload as it was read or written last.
    pub first: &'a Object,
    /// Wait for this very template: another one at a later generation is a failure. Else for the one that is wanted.
    pub ours: bool,
    /// The stamp of the Progressing condition of the former rollout.
    pub stale: Option<String>,
    /// For the whole wait, zero for ever; without it the workload's progress deadline, from the last new sign of progress.
    pub timeout: Option<Duration>,
    /// For so long it must stay rolled out; a shorter `timeout` cuts that short.
    pub settle: Duration,
}

/// The end of a wait, and where the rollout stood then.
pub struct Waited {
    pub ended: Ended,
    pub standing: Standing,
    /// For how long each of its troubles was seen to hold, in their order.
    pub held: Vec<Duration>,
    /// Is the workload still there, and could it be seen?
    pub seen: bool,
}

/// The stamp of the Progressing condition before our patch: a former rollout's verdict is not ours.
pub fn progress_stamp(workload: &Object) -> Option<String> {
    rollout::progressing(workload)?.get("lastUpdateTime")?.as_str().map(str::to_string)
}

/// How long nothing may move.
pub(super) fn patience(workload: &Object) -> Duration {
    let seconds = workload.int_at("/spec/progressDeadlineSeconds").and_then(|s| u64::try_from(s).ok());
    Duration::from_secs(seconds.filter(|s| *s < NO_DEADLINE).unwrap_or(PROGRESS_DEADLINE))
}

pub fn is_done(workload: &Object, generation: i64) -> bool {
    matches!(rollout::deployment(workload, generation, None, &[]), Progress::Done(_))
}

/// Waits from the object that our patch returned, for its template.
///
/// # Errors
/// When the workload may not be read any more.
pub async fn deployment(
    cluster: &Cluster,
    patched: &Object,
    stale: Option<String>,
    timeout: Option<Duration>,
    settle: Duration,
    voice: &mut dyn Voice,
) -> Result<Ended, Failure> {
    let wait = Wait { first: patched, ours: true, stale, timeout, settle };
    let Waited { ended, standing, .. } = follow(cluster, &wait, voice).await?;
    if let (Ended::Done(_), Some(leaving)) = (&ended, standing.leaving()) {
        voice.note(&leaving);
    }
    Ok(ended)
}

/// Waits, and says on the way where it stands.
///
/// # Errors
/// When the workload may not be read any more.
pub async fn follow(cluster: &Cluster, wait: &Wait<'_>, voice: &mut dyn Waiting) -> Result<Waited, Failure> {
    let first = wait.first;
    let (namespace, name) = (first.namespace(), first.name());
    let labels = selector(first);
    let start = Instant::now();
    let mut news = SelectAll::new();
    for (resource, select) in [
        (Resource::Deployments, Select::Name(name)),
        (Resource::ReplicaSets, Select::Labels(&labels)),
        (Resource::Pods, Select::Labels(&labels)),
    ] {
        news.push(tagged(cluster, resource, namespace, select));
    }
    let mut view = View::new(first);
    let mut held = Held::default();
    let mut clock = Clock::new(wait, start);
    let mut mute: Option<Instant> = None;
    loop {
        let standing = view.standing(wait);
        let look = start.elapsed();
        held.look(&standing, look);
        if view.heard() {
            voice.standing(&standing);
        }
        let now = &view.workload;
        let waited = |ended: Ended| Waited {
            ended,
            held: standing.troubles.iter().map(|t| look.saturating_sub(held.since(t).unwrap_or(look))).collect(),
            standing: standing.clone(),
            seen: view.gone.is_none() && view.lost.is_empty(),
        };
        if let Some(gone) = &view.gone {
            return Ok(waited(Ended::Failed(gone.clone(), Vec::new())));
        }
        if let Some(other) = owners::overwritten(first, now).filter(|_| wait.ours) {
            return Ok(waited(Ended::Overwritten(other, sizes(cluster, now).await)));
        }
        clock.look(&standing, now);
        if let Some(broken) = clock.broken(&standing) {
            return Ok(waited(Ended::Failed(broken, standing.reasons())));
        }
        let seen = view.seen();
        match &standing.progress {
            Progress::Done(line) if seen && wait.settle.is_zero() => return Ok(waited(Ended::Done(line.clone()))),
            Progress::Done(line) if seen => {
                let new = clock.done(now, line);
                if new {
                    let settle = wait.settle;
                    voice.progress(&format!("deployment {name:?} is rolled out; {settle:?} to see that it stays..."));
                }
            }
            Progress::Failed(line) if seen => {
                return Ok(waited(Ended::Failed(line.clone(), standing.reasons())));
            }
            Progress::Waiting(line) => {
                let new = clock.waiting(standing.revision, line);
                if new {
                    voice.progress(line);
                }
            }
            _ => {}
        }
        // A Pod that does not start and does not say why: its Events may.
        match standing.pods.iter().any(|p| p.current && p.mute) {
            true if !view.asked_events => mute = mute.or(Some(Instant::now())),
            _ => mute = None,
        }
        // What is not seen now may be over.
        let failing = held.first(&standing, clock.progressed.duration_since(start)).filter(|_| seen);
        let fails = failing.and_then(|(at, _)| start.checked_add(at));
        let asks = mute.and_then(|since| since.checked_add(MUTE));
        let ends = clock.deadline(wait, seen);
        let next = match [fails, asks, ends].into_iter().flatten().min() {
            Some(at) => tokio::time::timeout_at(at, news.next()).await.ok(),
            None => Some(news.next().await),
        };
        let Some(next) = next else {
            let at = Instant::now();
            if let (true, Some((_, trouble))) = (fails.is_some_and(|f| f <= at), failing) {
                let line = format!("deployment {name:?} does not roll out: {}", standing.sentence(trouble));
                let mut reasons = standing.reasons();
                reasons.retain(|reason| !line.ends_with(reason));
                return Ok(waited(Ended::Failed(line, reasons)));
            }
            if ends.is_some_and(|end| end <= at) {
                let lost = view.lost.values().next().map_or(String::new(), |why| format!(" (not seen now: {why})"));
                return Ok(waited(match clock.held.take() {
                    Some((_, _, line)) if seen => Ended::Done(line),
                    _ => {
                        let line = format!("timed out waiting for deployment {name:?}: {}{lost}", clock.said);
                        Ended::TimedOut(line, standing.reasons())
                    }
                }));
            }
            if asks.is_some_and(|asks| asks <= at) {
                view.asked_events = true;
                news.push(tagged(cluster, Resource::Events, namespace, WARNINGS));
            }
            continue;
        };
        // All that is there before the next look.
        let mut next = next;
        while let Some((resource, one)) = next.take() {
            view.take(resource, one, voice)?;
            next = news.next().now_or_never().flatten();
        }
    }
}

fn tagged<'a>(
    cluster: &Cluster,
    resource: Resource,
    namespace: &'a str,
    select: Select<'a>,
) -> LocalBoxStream<'a, (Resource, News)> {
    cluster.follow(resource, namespace, select).map(move |news| (resource, news)).boxed_local()
}

/// Everything that is watched, as it was last seen.
struct View {
    uid: String,
    workload: Object,
    /// The workload is no more, or is another one.
    gone: Option<String>,
    /// By uid; a type that was not read yet, or may not be, is not there.
    objects: BTreeMap<Resource, BTreeMap<String, Object>>,
    denied: BTreeSet<Resource>,
    /// What cannot be seen now, and why.
    lost: BTreeMap<Resource, String>,
    told: bool,
    asked_events: bool,
}

impl View {
    fn new(first: &Object) -> View {
        View {
            uid: first.uid().to_string(),
            workload: first.clone(),
            gone: None,
            objects: BTreeMap::new(),
            denied: BTreeSet::new(),
            lost: BTreeMap::new(),
            told: false,
            asked_events: false,
        }
    }

    /// Is there an answer for each type? Before that nothing is shown.
    fn heard(&self) -> bool {
        let answered = |resource: &Resource| self.objects.contains_key(resource) || self.denied.contains(resource);
        [Resource::Deployments, Resource::ReplicaSets, Resource::Pods].iter().all(answered)
    }

    /// And a connection? Before that nothing is decided.
    fn seen(&self) -> bool {
        self.lost.is_empty() && self.heard()
    }

    fn all(&self, resource: Resource) -> Vec<&Object> {
        self.objects.get(&resource).map_or(Vec::new(), |known| known.values().collect())
    }

    fn standing(&self, wait: &Wait<'_>) -> Standing {
        let mut events = self.all(Resource::Events);
        events.sort_by_key(|e| (e.time_at("/lastTimestamp"), e.version()));
        let own = |o: &Object| o.int_at("/metadata/generation").unwrap_or(0);
        let generation = if wait.ours { own(wait.first) } else { own(&self.workload) };
        let sets = self.objects.get(&Resource::ReplicaSets);
        let sets: Option<Vec<Object>> = sets.map(|known| known.values().cloned().collect());
        let sight = Sight {
            workload: &self.workload,
            replica_sets: sets.as_deref(),
            pods: &self.all(Resource::Pods),
            events: &events,
        };
        pods::standing(sight, generation, wait.stale.as_deref())
    }

    fn take(&mut self, resource: Resource, news: News, voice: &mut dyn Waiting) -> Result<(), Failure> {
        match news {
            News::Denied(error) if resource == Resource::Deployments => return Err(error.into()),
            News::Denied(error) => {
                self.denied.insert(resource);
                voice.note(&format!("why Pods do not start is not fully known: {error}"));
            }
            News::Lost(error, times) => {
                // A connection that is there again at once is nobody's matter.
                if times > 1 && !self.told {
                    self.told = true;
                    voice.note(&format!("{error}; trying again until the wait ends"));
                }
                self.lost.insert(resource, error.to_string());
            }
            News::Listed(objects) => {
                self.lost.remove(&resource);
                if self.told && self.lost.is_empty() {
                    self.told = false;
                    voice.note("the API server answers again");
                }
                if resource == Resource::Deployments {
                    match objects.first() {
                        Some(object) => self.workload(object),
                        None => self.deleted(),
                    }
                }
                self.objects.insert(resource, objects.into_iter().map(|o| (o.uid().to_string(), o)).collect());
            }
            News::Changed(change) => {
                let known = self.objects.entry(resource).or_default();
                match (change.event, resource) {
                    (Event::Deleted, Resource::Deployments) => self.deleted(),
                    (_, Resource::Deployments) => self.workload(&change.object),
                    (Event::Deleted, _) => {
                        known.remove(change.object.uid());
                    }
                    _ => {
                        known.insert(change.object.uid().to_string(), change.object);
                    }
                }
            }
        }
        Ok(())
    }

    fn workload(&mut self, object: &Object) {
        if object.uid() == self.uid {
            self.workload = object.clone();
        } else {
            self.gone = Some(format!("deployment {:?} was deleted and created again", object.name()));
        }
    }

    fn deleted(&mut self) {
        if self.gone.is_none() {
            self.gone = Some(format!("deployment {:?} was deleted", self.workload.name()));
        }
    }
}

/// When the wait ends, whatever happens.
struct Clock {
    patience: Duration,
    end: Option<Instant>,
    progressed: Instant,
    said: String,
    /// Only a sentence that is new is progress: what goes to and fro must not last for ever.
    sentences: BTreeSet<(Option<u64>, String)>,
    /// Since when it is rolled out, at which generation, and the sentence that says so.
    held: Option<(Instant, i64, String)>,
    /// It was rolled out, and is not any more.
    broken: bool,
}

impl Clock {
    fn new(wait: &Wait<'_>, start: Instant) -> Clock {
        Clock {
            patience: patience(wait.first) + CONTROLLERS_WORD,
            // Zero waits for ever, as kubectl's --timeout.
            end: wait.timeout.filter(|t| !t.is_zero()).and_then(|t| start.checked_add(t)),
            progressed: start,
            said: String::new(),
            sentences: BTreeSet::new(),
            held: None,
            broken: false,
        }
    }

    fn look(&mut self, standing: &Standing, now: &Object) {
        if let (Some((_, before, _)), Progress::Waiting(_)) = (&self.held, &standing.progress) {
            // Scaled meanwhile: that is another rollout's beginning. Else nobody asked for it.
            self.broken = *before == generation(now);
            self.held = None;
        }
    }

    fn broken(&self, standing: &Standing) -> Option<String> {
        match &standing.progress {
            Progress::Waiting(line) if self.broken => {
                Some(format!("deployment {:?} was rolled out and did not stay so: {line}", standing.name))
            }
            _ => None,
        }
    }

    /// It is rolled out; is that new?
    fn done(&mut self, now: &Object, line: &str) -> bool {
        let new = self.held.is_none();
        if new {
            self.held = Some((Instant::now(), generation(now), line.to_string()));
        }
        new
    }

    /// It is not; is the sentence another one than before?
    fn waiting(&mut self, revision: Option<u64>, line: &str) -> bool {
        if self.sentences.insert((revision, line.to_string())) {
            self.progressed = Instant::now();
        }
        let new = self.said != line;
        if new {
            self.said = line.to_string();
        }
        new
    }

    fn deadline(&self, wait: &Wait<'_>, seen: bool) -> Option<Instant> {
        let settled = self.held.as_ref().filter(|_| seen).and_then(|(since, ..)| since.checked_add(wait.settle));
        match (self.end, wait.timeout) {
            _ if settled.is_some() => settled.min(self.end.or(settled)),
            (Some(end), _) => Some(end),
            (None, Some(_)) => None,
            (None, None) => self.progressed.checked_add(self.patience),
        }
    }
}

fn generation(object: &Object) -> i64 {
    object.int_at("/metadata/generation").unwrap_or(0)
}
