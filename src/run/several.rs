//! `undo` of several workloads: all are planned before the first is written, there is one question, and they are written
//! one after the other, so that the first that goes wrong ends it.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use jiff::Timestamp;

use crate::cluster::read::{Resource, Select};
use crate::core::plan::Plan;
use crate::core::report::Document;
use crate::core::sheet::{RollbackList, Sheet};
use crate::core::workload::{Kind, Target};
use crate::run::undo::{self, Prepared, Ready, Request, Undone};
use crate::run::{Failure, Scene, Voice, owners};

/// One workload on its way.
struct Part {
    request: Request,
    step: Step,
}

enum Step {
    Ready(Box<Ready>),
    /// It ended before its plan: the workload changed.
    Ended(Box<Undone>),
    /// It could not be planned, which was said.
    Unplanned,
}

/// What became of each, in the order in which they were named.
pub struct Outcomes {
    pub undone: Vec<Undone>,
    /// The first that is not 0.
    pub exit_code: u8,
}

impl Scene {
    /// The Deployments that a label selector selects.
    ///
    /// # Errors
    /// When they cannot be listed, or there are none.
    pub async fn selected(&self, labels: &str) -> Result<Vec<Target>, Failure> {
        let list = self.list(Resource::Deployments, Select::Labels(labels)).await?;
        let target = |name: &str| Target { kind: Some(Kind::Deployment), name: name.to_string() };
        let found: Vec<Target> = list.items.iter().map(|o| target(o.name())).collect();
        if found.is_empty() { Err(Failure::NoWorkload { namespace: self.namespace.clone() }) } else { Ok(found) }
    }
}

/// `partial`: those that are refused do not keep the others from being written.
///
/// # Errors
/// When one of them cannot be found or read, nothing is written at all.
pub async fn run(
    scene: &Scene,
    targets: &[Target],
    request: &Request,
    partial: bool,
    voice: &mut dyn Voice,
    now: Timestamp,
) -> Result<Outcomes, Failure> {
    let observations = try_join_all(targets.iter().map(|t| scene.observe_owned(Some(t), now))).await?;
    let mut names = BTreeSet::new();
    let mut parts: Vec<Part> = Vec::new();
    for observation in observations {
        let workload = &observation.seen.workload;
        let name = format!("{}/{}", workload.kind().to_lowercase(), workload.name());
        if !names.insert(name.clone()) {
            return Err(Failure::Usage(format!("{name} is named twice")));
        }
        let request = Request { words: vec![name.clone()], ..request.clone() };
        let step = match undo::prepare(scene, observation, &request, voice).await {
            Ok(Prepared::Ready(ready)) => Step::Ready(ready),
            Ok(Prepared::Ended(undone)) => Step::Ended(undone),
            Err(failure) if !partial => return Err(named(&name, failure)),
            Err(failure) => {
                voice.fail(&format!("{name}: {failure}"), &[]);
                Step::Unplanned
            }
        };
        parts.push(Part { request, step });
    }
    show(&mut parts, voice);
    let any_blocked = parts.iter().any(|part| match &part.step {
        Step::Ready(ready) => ready.plan.refused(),
        _ => true,
    });
    let asks = |part: &&Part| matches!(&part.step, Step::Ready(ready) if ready.asks(scene, &part.request));
    let asked: Vec<&str> =
        parts.iter().filter(asks).filter_map(|part| part.request.words.first().map(String::as_str)).collect();
    let alone = |part: &&Part| matches!(&part.step, Step::Ready(ready) if ready.plan.downtime());
    let alone = parts.iter().filter(asks).filter(alone).filter_map(|part| part.request.words.first());
    let alone: Vec<&str> = alone.map(String::as_str).collect();
    let then = match alone.as_slice() {
        [] => String::new(),
        names => format!(", and then evict the only Pod of {} (downtime)", names.join(", ")),
    };
    let question = match asked.as_slice() {
        [one] => format!("Roll back {one}{then}?"),
        many => format!("Roll back these {} workloads{then}?", many.len()),
    };
    let go = (partial || !any_blocked) && (asked.is_empty() || voice.confirm(&question)?);
    let mut outcomes = Outcomes { undone: Vec::new(), exit_code: 0 };
    for Part { request, step } in parts {
        let undone = match step {
            Step::Unplanned => {
                outcomes.note(3);
                continue;
            }
            Step::Ended(undone) => *undone,
            Step::Ready(mut ready) if ready.plan.refused() => ready.ended(&request, voice, "refused", 3),
            // Nothing is begun after one that went wrong, and nothing at all without a yes.
            Step::Ready(mut ready) if !go || outcomes.went_wrong() => ready.ended(&request, voice, "planned", 0),
            Step::Ready(mut ready) => match ready.finish(scene, &request, voice).await {
                Ok(undone) => undone,
                Err(failure) => {
                    voice.fail(&format!("{}: {failure}", request.words.join(" ")), &[]);
                    outcomes.note(1);
                    ready.ended(&request, voice, "failed", 4)
                }
            },
        };
        outcomes.note(undone.exit_code());
        outcomes.undone.push(undone);
    }
    Ok(outcomes)
}

impl Outcomes {
    fn note(&mut self, exit_code: u8) {
        if self.exit_code == 0 {
            self.exit_code = exit_code;
        }
    }

    /// A refusal is none: with `--partial` the others go on.
    fn went_wrong(&self) -> bool {
        !matches!(self.exit_code, 0 | 3)
    }
}

fn show(parts: &mut [Part], voice: &mut dyn Voice) {
    let mut shown: Vec<(Document, Plan)> = Vec::new();
    for Part { request, step } in parts.iter_mut() {
        if let Step::Ready(ready) = step {
            let document = ready.document(request, voice, "planned");
            shown.push((document, ready.plan.clone()));
        }
    }
    voice.plans(&shown);
    for (_, plan) in &shown {
        owners::say(plan, voice);
    }
}

/// A failure that does not name its workload.
fn named(name: &str, failure: Failure) -> Failure {
    match failure {
        Failure::NoRevision(why) => Failure::NoRevisionOf { name: name.to_string(), why },
        other => other,
    }
}

/// The documents of all, as one.
pub fn sheet(outcomes: &Outcomes, now: Timestamp) -> Sheet<RollbackList> {
    let items: Vec<Document> = outcomes.undone.iter().map(|u| u.document.clone()).collect();
    let cluster = items.first().map(|d| d.cluster.clone()).unwrap_or_default();
    Sheet::new("RollbackList", cluster, now, Vec::new(), RollbackList { items, exit_code: outcomes.exit_code })
}
