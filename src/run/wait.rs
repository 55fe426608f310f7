//! Waits for a rollout by watching: done, failed, or no progress for too long.

use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::cluster::read::ReadError;
use crate::cluster::read::{Resource, Select};
use crate::cluster::watch::{Change, Event, Watch};
use crate::core::history;
use crate::core::object::Object;
use crate::core::owners::{self, Overwritten};
use crate::core::rollout::{self, Progress};
use crate::run::owners::sizes;
use crate::run::{Failure, Voice};

/// Kubernetes' default of `progressDeadlineSeconds`.
const PROGRESS_DEADLINE: u64 = 600;

/// The pause where nothing can be watched.
const UNWATCHED: Duration = Duration::from_secs(2);

/// For so long Pods may be denied (quota that a leaving Pod still holds, a webhook that starts) before the rollout has failed.
const DENIED: Duration = Duration::from_secs(15);

pub enum Ended {
    Done(String),
    /// Somebody wrote another template; and the ReplicaSets at that time.
    Overwritten(Overwritten, Vec<String>),
    Failed(String, Vec<String>),
    TimedOut(String, Vec<String>),
}

/// The stamp of the Progressing condition before our patch: a former rollout's verdict is not ours.
pub fn progress_stamp(workload: &Object) -> Option<String> {
    rollout::progressing(workload)?.get("lastUpdateTime")?.as_str().map(str::to_string)
}

pub fn is_done(workload: &Object, generation: i64) -> bool {
    matches!(rollout::deployment(workload, generation, None), Progress::Done(_))
}

/// Watches from the object that our patch returned. `timeout` is for the whole wait; without it the workload's progress
/// deadline counts, from the last sign of progress on. Done is what is rolled out and stays so for `settle`; a shorter
/// `timeout` cuts that short.
///
/// # Errors
/// When the cluster cannot be read any more.
pub async fn deployment(
    cluster: &Cluster,
    patched: &Object,
    stale: Option<String>,
    timeout: Option<Duration>,
    settle: Duration,
    voice: &mut dyn Voice,
) -> Result<Ended, Failure> {
    let (namespace, name) = (patched.namespace(), patched.name());
    let generation = patched.int_at("/metadata/generation").unwrap_or(0);
    let seconds = patched.int_at("/spec/progressDeadlineSeconds").and_then(|s| u64::try_from(s).ok());
    let patience = Duration::from_secs(seconds.unwrap_or(PROGRESS_DEADLINE));
    let start = Instant::now();
    // Zero waits for ever, as kubectl's --timeout.
    let end = timeout.filter(|t| !t.is_zero()).and_then(|t| start.checked_add(t));
    let mut progressed = start;
    let mut said = String::new();
    // Since when it is rolled out, at which generation, and the sentence that says so.
    let mut held: Option<(Instant, i64, String)> = None;
    let mut denied: Option<Instant> = None;
    let mut now = patched.clone();
    loop {
        // Without the right to watch it is asked for again and again.
        let mut watch = cluster.watch(Resource::Deployments, namespace, Select::Name(name), now.version()).await.ok();
        loop {
            if let Some(other) = owners::overwritten(patched, &now) {
                return Ok(Ended::Overwritten(other, sizes(cluster, &now).await));
            }
            let at = now.int_at("/metadata/generation").unwrap_or(0);
            let progress = rollout::deployment(&now, generation, stale.as_deref());
            if let (Some((_, before, _)), Progress::Waiting(line)) = (&held, &progress) {
                // Scaled meanwhile: that is another rollout's beginning. Else nobody asked for it.
                if *before == at {
                    let line = format!("deployment {name:?} was rolled out and did not stay so: {line}");
                    return Ok(Ended::Failed(line, trouble(cluster, &now).await));
                }
                held = None;
            }
            match progress {
                Progress::Done(line) if settle.is_zero() => return Ok(Ended::Done(line)),
                Progress::Done(line) => {
                    if held.is_none() {
                        voice.progress(&format!(
                            "deployment {name:?} is rolled out; {settle:?} to see that it stays..."
                        ));
                        held = Some((Instant::now(), at, line));
                    }
                }
                Progress::Failed(line) => return Ok(Ended::Failed(line, trouble(cluster, &now).await)),
                Progress::Waiting(line) if line != said => {
                    voice.progress(&line);
                    said = line;
                    progressed = Instant::now();
                }
                Progress::Waiting(_) => {}
            }
            let settled = held.as_ref().and_then(|(since, _, _)| since.checked_add(settle));
            let deadline = match (end, timeout) {
                _ if settled.is_some() => settled.min(end.or(settled)),
                (Some(end), _) => Some(end),
                (None, Some(_)) => None,
                (None, None) => progressed.checked_add(patience),
            };
            denied = if rollout::pods_denied(&now) { denied.or(Some(Instant::now())) } else { None };
            let look = denied.and_then(|since| since.max(progressed).checked_add(DENIED));
            let next = match [deadline, look].into_iter().flatten().min() {
                Some(end) => match tokio::time::timeout_at(end, next(&mut watch)).await {
                    Ok(next) => next,
                    Err(_) if deadline.is_none_or(|deadline| end < deadline) => {
                        // The condition is also there for another revision's Pods, which do not matter.
                        if own_pods_denied(cluster, &now).await {
                            let line = format!("deployment {name:?} cannot create its Pods");
                            return Ok(Ended::Failed(line, trouble(cluster, &now).await));
                        }
                        denied = Some(Instant::now());
                        continue;
                    }
                    Err(_) => {
                        if let Some((_, _, line)) = held {
                            return Ok(Ended::Done(line));
                        }
                        let line = format!("timed out waiting for deployment {name:?}: {said}");
                        return Ok(Ended::TimedOut(line, trouble(cluster, &now).await));
                    }
                },
                None => next(&mut watch).await,
            };
            match next {
                Ok(Some(change)) => match change.event {
                    Event::Deleted => {
                        return Ok(Ended::Failed(format!("deployment {name:?} was deleted"), Vec::new()));
                    }
                    Event::Bookmark => {}
                    _ if change.object.uid() != patched.uid() => {
                        return Ok(Ended::Failed(
                            format!("deployment {name:?} was deleted and created again"),
                            Vec::new(),
                        ));
                    }
                    _ => now = change.object,
                },
                // The watch ended or broke: read and watch again.
                Ok(None) | Err(_) => break,
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        match cluster.get(Resource::Deployments, namespace, name).await? {
            Some(object) if object.uid() == patched.uid() => now = object,
            _ => return Ok(Ended::Failed(format!("deployment {name:?} was deleted"), Vec::new())),
        }
    }
}

/// The next change; without a watch "it ended", after a pause.
async fn next(watch: &mut Option<Watch>) -> Result<Option<Change>, ReadError> {
    match watch {
        Some(watch) => watch.next().await,
        None => {
            tokio::time::sleep(UNWATCHED).await;
            Ok(None)
        }
    }
}

/// Is it the wanted revision whose Pods are denied?
async fn own_pods_denied(cluster: &Cluster, workload: &Object) -> bool {
    let sets = cluster.list(Resource::ReplicaSets, workload.namespace(), Select::All).await;
    let history = sets.map(|sets| history::read(workload, &sets.items)).unwrap_or_default();
    history.current().is_some_and(|revision| rollout::pods_denied(&revision.object))
}

/// Reasons from the new Pods, best effort: the rollout has failed whether or not they can be read.
async fn trouble(cluster: &Cluster, workload: &Object) -> Vec<String> {
    let namespace = workload.namespace();
    let (sets, pods) = tokio::join!(
        cluster.list(Resource::ReplicaSets, namespace, Select::All),
        cluster.list(Resource::Pods, namespace, Select::All)
    );
    let (Ok(sets), Ok(pods)) = (sets, pods) else { return Vec::new() };
    let history = history::read(workload, &sets.items);
    history.current().map_or(Vec::new(), |r| rollout::trouble(&pods.items, r.object.uid(), workload))
}
