//! `diff`: target → history → references → evidence → verdict, then one side against the other.

use jiff::Timestamp;

use crate::core::diff::{self, To};
use crate::core::plan::Judged;
use crate::core::report::{Document, DocumentKind, Outcome};
use crate::core::workload::Target;
use crate::run::check::because;
use crate::run::observe::Observation;
use crate::run::{Failure, Scene};

/// `from`: `None` is the current revision. `to`: `None` is today, what a new Pod would read.
///
/// # Errors
/// No such workload or revision, or the cluster could not be read.
pub async fn run(
    scene: &Scene,
    target: Option<&Target>,
    from: Option<u64>,
    to: Option<u64>,
    show: bool,
    now: Timestamp,
) -> Result<Document, Failure> {
    let Observation { seen, history, mut judged, .. } = scene.observe(target, now).await?;
    let pending = || Failure::Usage("the live template belongs to no revision yet: name one with --from".into());
    let from = match from {
        Some(asked) => history.find(asked).map_err(Failure::NoRevision)?.number,
        None => history.current().ok_or_else(pending)?.number,
    };
    let to = to.map(|asked| history.find(asked).map_err(Failure::NoRevision)).transpose()?.map(|r| r.number);
    let of = |number: u64| judged.iter().find(|j| j.revision.number == number);
    let live = seen.workload.0.pointer("/spec/template").cloned().unwrap_or_default();
    let unjudged = |number: u64| Failure::Usage(format!("revision {number} cannot be judged"));
    let left: &Judged = of(from).ok_or_else(|| unjudged(from))?;
    let right = match to {
        Some(number) => To::Revision(of(number).ok_or_else(|| unjudged(number))?),
        None => To::Now(&live),
    };
    let outcome = Outcome::Diff(Box::new(diff::diff(left, right, show, because)));
    judged.retain(|j| j.revision.number == from || Some(j.revision.number) == to);
    Ok(Document::new(DocumentKind::Diff, &seen, &history, &judged, outcome).seal())
}
