//! `history`: target → history → references → evidence → verdict.

use jiff::Timestamp;

use crate::core::report::{Document, DocumentKind, Outcome};
use crate::core::workload::Target;
use crate::run::observe::Observation;
use crate::run::{Failure, Scene};

/// The document, with one row or, with `--revision`, that one alone.
///
/// # Errors
/// No such workload or revision, or the cluster could not be read.
pub async fn run(
    scene: &Scene,
    target: Option<&Target>,
    revision: Option<u64>,
    now: Timestamp,
) -> Result<Document, Failure> {
    let Observation { seen, history, mut judged, .. } = scene.observe(target, now).await?;
    if let Some(asked) = revision {
        let number = history.find(asked).map_err(Failure::NoRevision)?.number;
        judged.retain(|j| j.revision.number == number);
    }
    Ok(Document::new(DocumentKind::History, &seen, &history, &judged, Outcome::History {}).seal())
}
