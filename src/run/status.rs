//! `status`: where the rollout stands, or its end, and what the next Pod of the wanted revision would read.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::core::object::Object;
use crate::core::observed::Observed;
use crate::core::pods::{self, Ending, Sight, Standing};
use crate::core::report::{Document, DocumentKind, Outcome, Status};
use crate::core::rollout::Progress;
use crate::core::workload::{Kind, Target};
use crate::run::observe::Observation;
use crate::run::wait::{self, Ended, Wait, Waited};
use crate::run::{Failure, Scene, Source, Waiting};

/// One look.
///
/// # Errors
/// No such workload, or the cluster could not be read.
pub async fn look(scene: &Scene, target: Option<&Target>, now: Timestamp) -> Result<Document, Failure> {
    let observation = scene.observe(target, now).await?;
    let standing = stands(&observation.seen);
    let (ending, sentence) = match (&standing.progress, pods::lasting(&standing, observation.seen.now)) {
        (Progress::Done(line), _) => (Ending::Done, line.clone()),
        (Progress::Failed(line), _) => (Ending::Failed, line.clone()),
        (Progress::Waiting(_), Some(trouble)) => {
            let why = standing.sentence(trouble);
            (Ending::Failed, format!("deployment {:?} does not roll out: {why}", standing.name))
        }
        (Progress::Waiting(line), None) => (Ending::Waiting, line.clone()),
    };
    let said = standing.said().into_iter().filter(|line| !sentence.ends_with(line.as_str())).collect();
    let status = Status::of(&standing, ending, sentence, said, |_, trouble| trouble.since);
    Ok(document(observation, status, &standing))
}

fn stands(seen: &Observed) -> Standing {
    let pods: Vec<&Object> = seen.all_pods().iter().collect();
    let mut events: Vec<&Object> = seen.all_events().iter().collect();
    events.sort_by_key(|e| (e.time_at("/lastTimestamp"), e.version()));
    let sight =
        Sight { workload: &seen.workload, replica_sets: Some(&seen.replica_sets), pods: &pods, events: &events };
    pods::standing(sight, seen.workload.int_at("/metadata/generation").unwrap_or(0), None)
}

/// Waits for the end of the rollout: done, failed, or `timeout`.
///
/// # Errors
/// No such workload, or it cannot be read any more.
pub async fn watch(
    scene: &Scene,
    target: Option<&Target>,
    timeout: Option<Duration>,
    voice: &mut dyn Waiting,
    now: Timestamp,
) -> Result<Document, Failure> {
    let Source::Live(cluster) = &scene.source else {
        return Err(Failure::Usage("--watch needs a cluster: files do not change".into()));
    };
    let before = scene.observe(target, now).await?;
    let first = before.seen.workload.clone();
    let wait = Wait { first: &first, ours: false, stale: None, timeout, settle: Duration::ZERO };
    let Waited { ended, standing, held, seen } = wait::follow(cluster, &wait, voice).await?;
    let (ending, sentence, said) = match ended {
        Ended::Done(line) => (Ending::Done, line, standing.said()),
        Ended::Failed(line, reasons) => (Ending::Failed, line, reasons),
        Ended::TimedOut(line, reasons) => (Ending::TimedOut, line, reasons),
        Ended::Overwritten(other, reasons) => (Ending::Failed, other.line(), reasons),
    };
    let end = Timestamp::now();
    // What the next Pod would read may have changed meanwhile.
    let again = Target { kind: Some(Kind::Deployment), name: first.name().to_string() };
    let after = match seen {
        true => scene.observe(Some(&again), end).await.ok().filter(|o| o.seen.workload.uid() == first.uid()),
        false => None,
    };
    // Of a rollout that is done the Pods count as they are now: each type was watched by itself.
    let (standing, held) = match &after {
        Some(after) if ending == Ending::Done => (stands(&after.seen), Vec::new()),
        _ => (standing, held),
    };
    let since = |i: usize, trouble: &pods::Trouble| {
        let held = held.get(i).and_then(|held| SignedDuration::try_from(*held).ok());
        trouble.since.or(held.and_then(|held| end.checked_sub(held).ok()))
    };
    let status = Status::of(&standing, ending, sentence, said, since);
    Ok(document(after.unwrap_or(before), status, &standing))
}

/// The wanted revision's row, and the status.
fn document(observation: Observation, status: Status, standing: &Standing) -> Document {
    let Observation { seen, history, mut judged, .. } = observation;
    judged.retain(|j| Some(j.revision.number) == standing.revision);
    Document::new(DocumentKind::Status, &seen, &history, &judged, Outcome::Status(Box::new(status))).seal()
}
