//! `check`: would plain `kubectl rollout undo` be safe? The stages up to policy.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::core::plan;
use crate::core::policy::{Rules, kept_grade};
use crate::core::recovery::Grade;
use crate::core::report::{self, Check, Document, DocumentKind, Outcome};
use crate::core::verdict::{Judgement, Verdict};
use crate::core::workload::Target;
use crate::run::observe::Observation;
use crate::run::{Failure, Scene};

/// The answer as a document; its exit code is 0 for `safe` and `likely safe`, else 3.
///
/// # Errors
/// No such workload or revision, or the cluster could not be read.
pub async fn run(
    scene: &Scene,
    target: Option<&Target>,
    revision: Option<u64>,
    now: Timestamp,
) -> Result<Document, Failure> {
    let Observation { seen, history, mut judged, owners } = scene.observe_owned(target, now).await?;
    let chosen = plan::choose(&history, &seen.workload, revision).map_err(Failure::NoRevision)?.number;
    judged.retain(|j| j.revision.number == chosen);
    let Some(target) = judged.first().cloned() else {
        return Err(Failure::Usage(format!("revision {chosen} cannot be judged")));
    };
    let failing = target.failing();
    let grade = target.references.iter().map(|j| kept_grade(j.verdict)).min().unwrap_or(Grade::Proof);
    let grade = if failing { Grade::None } else { grade };
    let mut plan = plan::make(&seen, &history, target, &Rules::default());
    plan.owned(owners, false);
    let outcome = Outcome::Check(Check {
        target: chosen,
        safe: grade > Grade::None,
        grade: grade.word(),
        undo: if plan.refused() { "refused" } else { "planned" },
        also_reading: BTreeMap::clone(&plan.also_reading),
        owners: report::owners(&plan),
        owners_unread: plan.owners.unread.clone(),
        exit_code: if grade > Grade::None { 0 } else { 3 },
    });
    let mut document = Document::new(DocumentKind::Check, &seen, &history, &judged, outcome);
    report::with_decisions(&mut document, &plan, because);
    Ok(document.seal())
}

/// Half a sentence for the table's last column.
pub fn because(judgement: &Judgement) -> String {
    let proven =
        |source: &str| judgement.facts.iter().any(|f| f.source == source && f.says == judgement.verdict.word());
    match judgement.verdict {
        Verdict::Missing => "it does not exist".into(),
        Verdict::KeyMissing => {
            judgement.facts.iter().find(|f| f.says == "key-missing").map_or_else(String::new, |f| f.detail.clone())
        }
        Verdict::Changed if judgement.differing.is_empty() => "not what a record says was read".into(),
        Verdict::Changed => {
            let keys = judgement.live_content.as_ref().map_or(0, |c| judgement.reference.consumed(c).keys().count());
            format!("{} of {} keys differ", judgement.differing.len(), keys.max(judgement.differing.len()))
        }
        Verdict::Mixed => "its Pods read different contents".into(),
        Verdict::Recreated => "created again after what names it".into(),
        Verdict::WrittenAfter => "written after Pod start".into(),
        Verdict::WrittenDuring => "written while the revision ran".into(),
        Verdict::Unreadable => judgement.facts.first().map_or_else(String::new, |f| f.detail.clone()),
        Verdict::Unknown => judgement.facts.last().map_or_else(String::new, |f| f.detail.clone()),
        Verdict::Same if proven("content-name") => "immutable, and named by its content".into(),
        Verdict::Same if judgement.facts.iter().all(|f| f.source == "template") => "no container mounts it".into(),
        Verdict::Same if proven("immutable") => "immutable since before Pod start".into(),
        Verdict::Same if proven("record") => "recorded, and not written since".into(),
        Verdict::Same if proven("time-travel") || proven("dump") => "written since, with the same bytes".into(),
        Verdict::Same => "no write since before Pod start".into(),
        Verdict::LikelySame => "no write since about Pod start".into(),
        Verdict::Refreshed => "written since; running Pods have today's files".into(),
        Verdict::OptionalAbsent => "optional, and absent then too".into(),
    }
}
