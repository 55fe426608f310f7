//! `snapshot create`: saves what can be found of a workload's configuration, and records what its containers read.
//!
//! Nothing is patched and no rollout starts. What is saved are immutable ConfigMaps named by their content, so a second
//! run finds them and makes nothing.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::json;

use crate::cluster::Cluster;
use crate::cluster::read::Resource;
use crate::core::history::NoSuchRevision;
use crate::core::observed::Observed;
use crate::core::plan::Judged;
use crate::core::recording::{self, Saving};
use crate::core::report::{Document, DocumentKind, Outcome, Saved, SavedLine, WrittenObject};
use crate::core::snapshot;
use crate::core::verdict::Verdict;
use crate::core::workload::Target;
use crate::run::observe::Observation;
use crate::run::undo::DryRun;
use crate::run::writes::{self, Standing};
use crate::run::{Failure, Scene, Source, Voice};

/// On the workload, with `--annotate`: the name of the newest record.
const RECORD: &str = "saferollback.dev/record";

/// Which revisions are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// `annotate`: name its record on the workload.
    Current {
        annotate: bool,
    },
    One(u64),
    All,
}

/// The document; its exit code is 0 where something is saved, 3 where nothing was found.
///
/// # Errors
/// No such workload or revision, the cluster could not be read, or a snapshot could not be created.
pub async fn create(
    scene: &Scene,
    target: Option<&Target>,
    which: Which,
    dry_run: DryRun,
    voice: &mut dyn Voice,
    now: Timestamp,
) -> Result<Document, Failure> {
    let Observation { seen, history, mut judged, .. } = scene.observe(target, now).await?;
    match which {
        Which::All => {}
        Which::One(asked) => {
            let number = history.find(asked).map_err(Failure::NoRevision)?.number;
            judged.retain(|j| j.revision.number == number);
        }
        Which::Current { .. } => {
            let Some(number) = history.current().map(|r| r.number) else {
                let why = "the live template belongs to no revision yet".into();
                return Err(Failure::NoRevision(NoSuchRevision::Unclear { why, numbers: history.numbers() }));
            };
            judged.retain(|j| j.revision.number == number);
        }
    }
    // Saved and recorded is what could be known, not what a broken connection left of it.
    if let Source::Live(cluster) = &scene.source
        && let Some(failed) = cluster.failed_reads().into_iter().next()
    {
        return Err(Failure::Given(format!("nothing was saved, since not everything could be looked at: {failed}")));
    }
    let recordings: Vec<_> = judged.iter().map(|j| recording::of(&seen, j)).collect();
    let mut saved = Saved { outcome: "nothing-found", exit_code: 3, ..Saved::default() };
    let mut savings: Vec<Saving> = recordings.iter().flat_map(|r| r.savings.clone()).collect();
    let Source::Live(cluster) = &scene.source else {
        return Err(Failure::Usage("snapshots are saved in a cluster: files hold none".into()));
    };
    let there = settle_names(cluster, &seen, &mut savings).await?;
    saved.snapshots = savings.iter().map(line).collect();
    let document = |saved: Saved| {
        let mut document =
            Document::new(DocumentKind::Saved, &seen, &history, &judged, Outcome::Saved(Box::new(saved)));
        document.warnings.extend(unread(&judged));
        document.seal()
    };
    if savings.is_empty() && !records_something(&judged) {
        return Ok(document(saved));
    }
    if dry_run != DryRun::None {
        (saved.outcome, saved.exit_code) = ("planned", 0);
        return Ok(document(saved));
    }
    (saved.outcome, saved.exit_code) = ("already-saved", 0);
    let namespace = seen.workload.namespace();
    // Of one content that several revisions read there is one snapshot.
    let mut distinct: Vec<&Saving> = Vec::new();
    for saving in &savings {
        if !distinct.iter().any(|s| s.snapshot.name == saving.snapshot.name) {
            distinct.push(saving);
        }
    }
    let made = join_all(distinct.iter().map(|s| {
        let there = there.contains(&s.snapshot.name);
        writes::ensure(cluster, namespace, &s.snapshot, there)
    }))
    .await;
    let mut refused = None;
    for made in made {
        match made {
            Ok(made) => {
                if made.created {
                    saved.outcome = "saved";
                    saved.written.push(WrittenObject::of(&made.object));
                }
            }
            Err(Failure::Write(error)) if writes::denied(&error) => refused = refused.or(Some(error)),
            Err(failure) => return Err(failure),
        }
    }
    if let Some(error) = refused {
        let line = format!("refused: a snapshot could not be created: {error}");
        let snapshots: Vec<_> = savings.iter().map(|s| s.snapshot.clone()).collect();
        voice.fail(&snapshot::without_values(&line, &snapshots), &[]);
        (saved.outcome, saved.exit_code) = ("refused", 3);
        return Ok(document(saved));
    }
    for mut record in recordings.into_iter().filter_map(|r| r.record) {
        recording::name_snapshots(&mut record, &savings);
        if seen.records.as_ref().is_ok_and(|known| known.states(&record)) {
            continue;
        }
        if let Some(object) = writes::record(cluster, namespace, &record, voice).await {
            saved.outcome = "saved";
            saved.written.push(WrittenObject::of(&object));
            if which == (Which::Current { annotate: true }) {
                saved.written.push(annotate(cluster, &seen, object.name()).await?);
            }
        }
    }
    Ok(document(saved))
}

/// The one annotation that is asked for. No template changes, so no rollout starts.
async fn annotate(cluster: &Cluster, seen: &Observed, record: &str) -> Result<WrittenObject, Failure> {
    let workload = &seen.workload;
    let patch = json!({"metadata": {"uid": workload.uid(), "annotations": {RECORD: record}}});
    let (namespace, name) = (workload.namespace(), workload.name());
    let object = cluster.merge_patch(Resource::Deployments, namespace, name, &patch, false).await?;
    Ok(WrittenObject::of(&object))
}

/// What could not be read is neither saved nor recorded.
fn unread(judged: &[Judged]) -> Vec<String> {
    let unreadable = judged.iter().flat_map(|j| &j.references).filter(|r| r.verdict == Verdict::Unreadable);
    let mut lines: Vec<String> = unreadable
        .map(|r| {
            let why = r.facts.first().map_or("", |f| f.detail.as_str());
            format!("{}/{} is not recorded: {why}", r.reference.kind.word(), r.reference.name)
        })
        .collect();
    lines.sort();
    lines.dedup();
    lines
}

/// A record is worth writing even where all content is saved by its names.
fn records_something(judged: &[Judged]) -> bool {
    judged.iter().any(|j| j.references.iter().any(|r| r.live.is_some()))
}

fn line(saving: &Saving) -> SavedLine {
    SavedLine {
        revision: saving.revision,
        reference: saving.reference.clone(),
        snapshot: saving.snapshot.name.clone(),
        digest: saving.snapshot.content.digest().to_string(),
        source: saving.origin.word(),
        grade: saving.grade.word(),
    }
}

/// A dry run of each: a name that is taken by other content gets longer. The names of those that are there already.
async fn settle_names(cluster: &Cluster, seen: &Observed, savings: &mut [Saving]) -> Result<BTreeSet<String>, Failure> {
    let namespace = seen.workload.namespace();
    for digits in snapshot::LENGTHS {
        let answers = join_all(savings.iter().map(|s| writes::existing_or_new(cluster, namespace, &s.snapshot))).await;
        let mut taken = false;
        let mut there = BTreeSet::new();
        for (saving, answer) in savings.iter_mut().zip(answers) {
            match answer {
                Ok(Standing::New) => {}
                Ok(Standing::Ours) => drop(there.insert(saving.snapshot.name.clone())),
                // A denial is said when it is written; a dry run of another's must not hide what can be saved.
                Err(error) if writes::denied(&error) => {}
                Ok(Standing::Taken) => {
                    let longer = snapshot::LENGTHS.into_iter().find(|d| *d > digits).unwrap_or(digits);
                    saving.snapshot.rename(longer);
                    taken = true;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if !taken {
            return Ok(there);
        }
    }
    Err(Failure::Given("every name for a snapshot is taken by an object with other content".into()))
}
