//! Raw ReplicaSets → ordered revisions.
//!
//! Numbers order, never creation times (kubernetes/kubernetes#105732). A ReplicaSet belongs to the history when
//! the Deployment's uid controls it *and* the selector selects it. A reused ReplicaSet carries its former numbers
//! in `deployment.kubernetes.io/revision-history` (kubernetes/kubernetes#33844).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::core::evidence::CLOCK_MARGIN;
use crate::core::object::Object;
use crate::core::pin;
use crate::core::record::Held;
use crate::core::substitute::Evicted;

pub const REVISION: &str = "deployment.kubernetes.io/revision";
pub const FORMER: &str = "deployment.kubernetes.io/revision-history";
pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
/// The field manager of the Deployment controller, where it runs in its usual binary.
const CONTROLLER: &str = "kube-controller-manager";
/// Our one annotation on the workload. The Deployment controller copies it to ReplicaSets, so it names the
/// template it speaks of; see [`Trail`].
pub const TRAIL: &str = "saferollback.dev/rolled-back";

/// One template that the workload had, with its number.
#[derive(Clone, Debug)]
pub struct Revision {
    pub number: u64,
    /// Numbers this ReplicaSet had before it was used again, ascending.
    pub former: Vec<u64>,
    pub current: bool,
    pub object: Object,
    /// The template without `pod-template-hash`.
    pub template: Value,
    /// Why this revision must not be chosen without consent.
    pub damaged: Option<String>,
    /// Creation of its ReplicaSet, an API server's stamp: no Pod of it is older.
    pub first_started: Option<Timestamp>,
    /// When the next revision took over. `None` for the current one, and where a reused ReplicaSet hides it.
    pub retired: Option<Timestamp>,
    /// Is the start of its *last* active time known? Not where the ReplicaSet was used more than once.
    pub started_again: bool,
}

/// Something that looks like a revision and is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unnumbered {
    pub kind: String,
    pub name: String,
    pub reason: String,
}

/// What our last undo did, read from [`TRAIL`]: `from` was left for `to`, and the template it made has this digest.
/// The versions of what it kept, as they were right before the patch, are its intent: never evidence by themselves, and
/// what a run that was cut off still needs to write its record.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Trail {
    pub from: u64,
    pub to: u64,
    pub template: String,
    /// By `ConfigMap/settings`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept: BTreeMap<String, Held>,
    /// The Pod that `--verify=replace` evicts, noted before it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evicted: Option<Evicted>,
}

#[derive(Clone, Debug, Default)]
pub struct History {
    /// Ascending by number.
    pub revisions: Vec<Revision>,
    pub unnumbered: Vec<Unnumbered>,
    /// The live template belongs to no revision yet: paused, or the controller has not caught up.
    pub pending: bool,
    /// Set when the live template is the one that our own undo made.
    pub trail: Option<Trail>,
}

/// Why a revision cannot be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchRevision {
    #[error("revision {asked} not found: {}", available(.numbers))]
    Unknown { asked: u64, numbers: Vec<u64> },
    #[error("revision {asked} is now revision {now} (replicaset/{object} was used again)")]
    Renumbered { asked: u64, now: u64, object: String },
    #[error("there is no earlier revision: this is the first rollout")]
    First,
    #[error("there is no earlier revision: revisionHistoryLimit is 0, so Kubernetes keeps none")]
    NoneKept,
    #[error("\"previous\" is not clear: {why}; name one with --to-revision ({})", available(.numbers))]
    Unclear { why: String, numbers: Vec<u64> },
    #[error("revision {number} must not be chosen: {reason}")]
    Damaged { number: u64, reason: String },
    #[error("which revision was current at {at} is not clear: {why}; name one with --to-revision: {}", .starts.join(", "))]
    NotThen { at: Timestamp, why: String, starts: Vec<String> },
}

fn available(numbers: &[u64]) -> String {
    match numbers {
        [] => "there are none".into(),
        [one] => format!("there is revision {one}"),
        many => format!("there are revisions {}", list(many)),
    }
}

fn list(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

impl History {
    pub fn current(&self) -> Option<&Revision> {
        self.revisions.iter().find(|r| r.current)
    }

    pub fn numbers(&self) -> Vec<u64> {
        self.revisions.iter().map(|r| r.number).collect()
    }

    /// Numbers of revisions that hold one template (argoproj/argo-rollouts#4755): two names for one thing.
    pub fn twins(&self) -> Vec<Vec<u64>> {
        let mut alike: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for revision in &self.revisions {
            alike.entry(template_digest(&revision.template)).or_default().push(revision.number);
        }
        let mut twins: Vec<Vec<u64>> = alike.into_values().filter(|numbers| numbers.len() > 1).collect();
        twins.sort();
        twins
    }

    /// The revision that has, or before its reuse had, this number. A former number is never taken silently for
    /// another revision: only for the current one, where asking for it means "nothing to do" (`undo` says so).
    pub fn find(&self, asked: u64) -> Result<&Revision, NoSuchRevision> {
        if let Some(found) = self.revisions.iter().find(|r| r.number == asked) {
            return Ok(found);
        }
        match self.revisions.iter().find(|r| r.former.contains(&asked)) {
            Some(r) if r.current => Ok(r),
            Some(r) => Err(NoSuchRevision::Renumbered { asked, now: r.number, object: r.object.name().to_string() }),
            None => Err(NoSuchRevision::Unknown { asked, numbers: self.numbers() }),
        }
    }

    /// The revision that was current at a moment. A revision begins with the creation of its ReplicaSet, unless that was
    /// used again: then only its first number has a known beginning, and whatever lies beside an unknown one is not clear.
    pub fn at(&self, at: Timestamp) -> Result<&Revision, NoSuchRevision> {
        let mut numbers: Vec<(u64, Option<Timestamp>, &Revision)> = Vec::new();
        for revision in &self.revisions {
            for (i, number) in revision.former.iter().chain([&revision.number]).enumerate() {
                numbers.push((*number, revision.first_started.filter(|_| i == 0), revision));
            }
        }
        numbers.sort_by_key(|(number, ..)| *number);
        let not_then = |why: String| {
            let start = |(number, start, _): &(u64, Option<Timestamp>, &Revision)| {
                format!("{number} (since {})", start.map_or("<unknown>".to_string(), |s| s.to_string()))
            };
            Err(NoSuchRevision::NotThen { at, why, starts: numbers.iter().map(start).collect() })
        };
        // A stamp has whole seconds, and `at` may come from another clock.
        let near = |start: &Timestamp| at.duration_since(*start).abs() < CLOCK_MARGIN;
        if let Some((number, ..)) = numbers.iter().find(|(_, start, _)| start.as_ref().is_some_and(near)) {
            return not_then(format!("revision {number} began within 2s of it"));
        }
        let Some(i) = numbers.iter().rposition(|(_, start, _)| start.is_some_and(|s| s <= at)) else {
            return not_then("no revision that is still there was current then".into());
        };
        let (number, _, revision) = numbers[i];
        match numbers.get(i + 1) {
            None if revision.number == number && revision.current => Ok(revision),
            None => not_then(format!("what followed revision {number} is not known")),
            Some((next, Some(_), _)) if *next == number + 1 => Ok(revision),
            Some((next, Some(_), _)) => not_then(format!("a revision between {number} and {next} is gone")),
            Some((next, None, _)) => {
                not_then(format!("revision {next} is one that was used again, since when is not known"))
            }
        }
    }

    /// The highest number below the current one whose template differs from the current one. Refused where that is
    /// doubtful: our own undo made the live template (a plain repeat would return to what was just left), or numbers
    /// are missing in between that no reuse explains.
    pub fn previous(&self, workload: &Object) -> Result<&Revision, NoSuchRevision> {
        let Some(current) = self.current() else {
            return Err(NoSuchRevision::Unclear {
                why: "the live template belongs to no revision yet".into(),
                numbers: self.numbers(),
            });
        };
        if let Some(trail) = &self.trail {
            return Err(NoSuchRevision::Unclear {
                why: format!(
                    "the last rollback went from revision {} to revision {}, so a repeat could return to what was left",
                    trail.from, trail.to
                ),
                numbers: self.numbers(),
            });
        }
        let found = self
            .revisions
            .iter()
            .rev()
            .find(|r| r.number < current.number && !pin::same(&r.template, &current.template));
        let Some(found) = found else {
            return Err(match workload.int_at("/spec/revisionHistoryLimit") {
                Some(0) => NoSuchRevision::NoneKept,
                _ => NoSuchRevision::First,
            });
        };
        let explained = |n: &u64| self.revisions.iter().any(|r| r.number == *n || r.former.contains(n));
        let gaps: Vec<u64> =
            (found.number.saturating_add(1)..current.number).take(100).filter(|n| !explained(n)).collect();
        if !gaps.is_empty() {
            return Err(NoSuchRevision::Unclear {
                why: format!("revision {} between {} and {} is gone", list(&gaps), found.number, current.number),
                numbers: self.numbers(),
            });
        }
        if let Some(reason) = &found.damaged {
            return Err(NoSuchRevision::Damaged { number: found.number, reason: reason.clone() });
        }
        Ok(found)
    }
}

/// Orders a Deployment's ReplicaSets. Laws: the order of `replica_sets` never matters.
pub fn read(workload: &Object, replica_sets: &[Object]) -> History {
    let mut history = History::default();
    for rs in replica_sets {
        let set_aside = |reason: String| Unnumbered { kind: "ReplicaSet".into(), name: rs.name().into(), reason };
        match rs.controller() {
            Some(owner) if owner.uid == workload.uid() => {}
            Some(owner) => {
                // Another workload's, unless it bears our name: then it is a leftover of a deleted namesake.
                if owner.name == workload.name() {
                    history.unnumbered.push(set_aside(format!(
                        "owned by an earlier {}/{} (uid {})",
                        owner.kind.to_lowercase(),
                        owner.name,
                        owner.uid
                    )));
                }
                continue;
            }
            None => {
                history.unnumbered.push(set_aside("selected but owned by no controller".into()));
                continue;
            }
        }
        let number = rs.annotation(REVISION).unwrap_or("");
        let Some(number) = number.parse::<u64>().ok().filter(|n| *n > 0) else {
            history.unnumbered.push(set_aside(format!("its {REVISION} is {number:?}, not a number")));
            continue;
        };
        let Some(template) = rs.0.pointer("/spec/template").filter(|t| t.get("spec").is_some_and(Value::is_object))
        else {
            history.unnumbered.push(set_aside("it has no Pod template".into()));
            continue;
        };
        let mut former: Vec<u64> =
            rs.annotation(FORMER).unwrap_or("").split(',').filter_map(|n| n.trim().parse().ok()).collect();
        former.sort_unstable();
        former.dedup();
        history.revisions.push(Revision {
            number,
            started_again: !former.is_empty(),
            former,
            current: false,
            template: pin::strip_hash(template),
            damaged: edited(rs),
            first_started: rs.created(),
            retired: None,
            object: rs.clone(),
        });
    }
    history.revisions.sort_by(|a, b| (a.number, a.object.name()).cmp(&(b.number, b.object.name())));
    history.unnumbered.sort_by(|a, b| a.name.cmp(&b.name));
    for i in 1..history.revisions.len() {
        if history.revisions[i].number == history.revisions[i - 1].number {
            for at in [i - 1, i] {
                history.revisions[at].damaged = Some("two ReplicaSets carry its number".into());
            }
        }
    }
    mark_current(workload, &mut history);
    date_retirement(&mut history);
    history.trail = trail(workload);
    history
}

/// ARCHITECTURE.md, rule 12: a retired ReplicaSet's template can be edited in place; then a manager besides the Deployment
/// controller owns a field of it. (An edit that only removes fields leaves no trace: no API shows it.)
fn edited(rs: &Object) -> Option<String> {
    let owners: Vec<_> = rs.field_owners().filter(|entry| entry.owns(&["f:spec", "f:template"])).collect();
    // Entries are sorted by time, and scaling moves the controller's: it need not be the first.
    let controller = owners.iter().find(|o| o.manager == CONTROLLER).or(owners.first())?.manager;
    let other = owners.iter().find(|entry| entry.manager != controller)?;
    Some(format!("{} edited the template of replicaset/{}", other.manager, rs.name()))
}

/// The controller's own rule: the current ReplicaSet is the one whose template equals the workload's.
fn mark_current(workload: &Object, history: &mut History) {
    let live = workload.0.pointer("/spec/template").map(pin::strip_hash).unwrap_or_default();
    let number = workload.annotation(REVISION).and_then(|n| n.parse::<u64>().ok());
    let equal: Vec<usize> =
        (0..history.revisions.len()).filter(|i| pin::same(&history.revisions[*i].template, &live)).collect();
    // Twins (argoproj/argo-rollouts#4755): the one with the workload's number, else the highest.
    let chosen = equal.iter().copied().find(|i| Some(history.revisions[*i].number) == number).or(equal.last().copied());
    history.pending = chosen.is_none();
    // Without an equal one the workload's own number still says which revision runs now.
    let running = chosen.or_else(|| history.revisions.iter().position(|r| Some(r.number) == number));
    if let Some(i) = running {
        history.revisions[i].current = true;
    }
}

/// R retired when the next number was first wanted; that is the creation of its ReplicaSet where it never had
/// another number. Where a reuse hides it, the time stays unknown.
fn date_retirement(history: &mut History) {
    let starts: Vec<(u64, Option<Timestamp>)> =
        history.revisions.iter().map(|r| (r.former.first().copied().unwrap_or(r.number), r.first_started)).collect();
    for revision in history.revisions.iter_mut().filter(|r| !r.current) {
        let next = revision.number.saturating_add(1);
        revision.retired = starts.iter().find(|(first, _)| *first == next).and_then(|(_, start)| *start);
    }
}

/// Our annotation, where it speaks of just the live template.
pub fn trail(workload: &Object) -> Option<Trail> {
    let trail: Trail = serde_json::from_str(workload.annotation(TRAIL)?).ok()?;
    let live = workload.0.pointer("/spec/template")?;
    (trail.template == template_digest(live)).then_some(trail)
}

/// Digest of a template in a canonical spelling: keys sorted, `null` members and `pod-template-hash` left out.
pub fn template_digest(template: &Value) -> String {
    fn write(value: &Value, out: &mut String) {
        match value {
            Value::Object(map) => {
                let mut members: Vec<_> = map.iter().filter(|(_, v)| !v.is_null()).collect();
                members.sort_by_key(|(key, _)| key.as_str());
                out.push('{');
                for (key, value) in members {
                    out.push_str(&Value::String(key.clone()).to_string());
                    out.push(':');
                    write(value, out);
                    out.push(',');
                }
                out.push('}');
            }
            Value::Array(items) => {
                out.push('[');
                for item in items {
                    write(item, out);
                    out.push(',');
                }
                out.push(']');
            }
            scalar => out.push_str(&scalar.to_string()),
        }
    }
    let mut text = String::new();
    write(&pin::strip_hash(template), &mut text);
    Sha256::digest(text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect()
}
