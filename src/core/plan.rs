//! Revision + verdicts + policy → a plan or a refusal. What is shown is what is executed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::core::history::{self, History, NoSuchRevision, Revision, Trail};
use crate::core::object::Object;
use crate::core::observed::{Lookup, Observed};
use crate::core::owners::{self, Owners};
use crate::core::pin;
use crate::core::policy::{self, Action, Code, Config, Decision, Rules};
use crate::core::readers;
use crate::core::reads;
use crate::core::record::Held;
use crate::core::recovery::Grade;
use crate::core::references::{self, Kind, Pinnable, Reference};
use crate::core::snapshot::{self, Snapshot};
use crate::core::substitute::Verify;
use crate::core::verdict::{Judgement, Verdict};

pub use crate::core::judged::{Judged, PodState, judge};

/// Pods that start, stay and go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodsPlanned {
    pub start: usize,
    pub stay: usize,
    /// One that stays has not started yet: it still has to read what it names.
    pub stay_unstarted: bool,
    pub stay_ready: usize,
    pub go: usize,
    pub go_target: usize,
    pub go_target_ready: usize,
    pub go_other: usize,
    pub go_other_ready: usize,
    /// Never fewer ready Pods than this, by the update strategy; `None` for `Recreate`.
    pub floor: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct Refusal {
    pub code: Code,
    /// `ConfigMap/settings`, where one reference is the reason.
    pub reference: Option<String>,
    pub verdict: Option<Verdict>,
    pub message: String,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub from: Option<u64>,
    pub to: u64,
    pub target: Judged,
    /// One a reference of the target, in the same order.
    pub decisions: Vec<Decision>,
    pub template: Value,
    pub snapshots: Vec<Snapshot>,
    pub pods: PodsPlanned,
    pub refusals: Vec<Refusal>,
    /// The workload is at the wanted template with the wanted content already.
    pub nothing_to_do: bool,
    /// Other workloads whose running Pods read a reference that is pinned or refused: `deployment/worker`.
    pub also_reading: BTreeMap<String, BTreeSet<String>>,
    /// Revisions that fall out of the history through this undo.
    pub falls_out: Vec<u64>,
    /// JSON pointers at which the target's template differs from the live one, before pinning.
    pub differs: Vec<String>,
    pub rules: Rules,
    /// `maxUnavailable 0, maxSurge 1`, or `Recreate`.
    pub strategy: String,
    /// Who else writes the workload; see [`Plan::owned`].
    pub owners: Owners,
    /// What is looked at after the rollout.
    pub verify: Verify,
    /// Will a Pod be evicted for it?
    pub evicts: bool,
    /// The way back, if the rollout or its verification fails; see [`back`].
    pub back: Option<Box<Plan>>,
}

/// Which revision is meant: `None` or 0 is the previous one.
pub fn choose<'a>(history: &'a History, workload: &Object, asked: Option<u64>) -> Result<&'a Revision, NoSuchRevision> {
    match asked.filter(|n| *n > 0) {
        None => history.previous(workload),
        Some(number) => {
            let found = history.find(number)?;
            match &found.damaged {
                Some(reason) => Err(NoSuchRevision::Damaged { number, reason: reason.clone() }),
                None => Ok(found),
            }
        }
    }
}

/// Makes the plan for going to `target`.
pub fn make(seen: &Observed, history: &History, target: Judged, rules: &Rules) -> Plan {
    let workload = &seen.workload;
    let live = workload.0.pointer("/spec/template").cloned().unwrap_or_default();
    let wanted = target.revision.template.clone();
    let nothing_to_do = done_before(seen, history, &target, &live, rules);

    // Whether Pods start decides what `live` may keep; a pin always starts them.
    let unpinned = pods_planned(seen, &target, Some(&target.revision));
    let mut decisions: Vec<Decision> = target
        .references
        .iter()
        .map(|j| policy::decide(j, rules, unpinned.start > 0 || unpinned.stay_unstarted))
        .collect();
    // Already at the template, and what it names is good. Where it is not, "nothing to do" would be false comfort.
    let all_kept = decisions.iter().all(|d| matches!(d.action, Action::Keep));
    let nothing_to_do = nothing_to_do || (all_kept && pin::same(&wanted, &live));
    if nothing_to_do {
        decisions = target
            .references
            .iter()
            .map(|j| Decision { action: Action::Keep, grade: policy::kept_grade(j.verdict) })
            .collect();
    }

    let mut names: BTreeMap<(Kind, String), String> = BTreeMap::new();
    let mut snapshots = Vec::new();
    let mut refusals = Vec::new();
    let mut also_reading = BTreeMap::new();
    for (judgement, decision) in target.references.iter().zip(&decisions) {
        let reference = &judgement.reference;
        let id = format!("{}/{}", reference.kind, reference.name);
        match &decision.action {
            Action::Keep => {}
            Action::Pin(candidate) => {
                let made = snapshot::of(workload.namespace(), &reference.name, candidate, snapshot::LENGTHS[0]);
                names.insert((reference.kind, reference.name.clone()), made.name.clone());
                snapshots.push(made);
            }
            Action::Refuse(code) => refusals.push(Refusal {
                code: *code,
                reference: Some(id.clone()),
                verdict: Some(judgement.verdict),
                message: refusal_message(*code, judgement, target.revision.number),
            }),
        }
        if !matches!(decision.action, Action::Keep) {
            also_reading.insert(id, other_readers(seen, reference.kind, &reference.name));
        }
    }
    let template = pin::pin(&wanted, &names);
    let already = pin::same(&template, &live);
    // A snapshot that somebody deleted is made again, whatever the template says.
    let all_there = snapshots.iter().all(|s| !is_gone(seen, &s.name));
    let nothing_to_do = nothing_to_do || (already && all_there && refusals.is_empty());
    if !nothing_to_do {
        refusals.splice(0..0, workload_refusals(workload));
    }
    // An earlier undo may have left a ReplicaSet of just this template: then no new revision is made.
    let landing =
        std::iter::once(&target.revision).chain(&history.revisions).find(|r| pin::same(&r.template, &template));
    Plan {
        from: history.current().map(|r| r.number),
        to: target.revision.number,
        pods: pods_planned(seen, &target, landing),
        nothing_to_do,
        falls_out: falls_out(workload, history, landing.is_none()),
        differs: pin::difference(&live, &wanted),
        snapshots,
        decisions,
        template,
        refusals,
        also_reading,
        rules: rules.clone(),
        strategy: strategy(workload),
        owners: Owners::default(),
        verify: Verify::default(),
        evicts: false,
        back: None,
        target,
    }
}

/// The way back to the revision that `plan` leaves: what an undo to it would plan once `plan` is written. What was given
/// for the target says nothing of it.
pub fn back(seen: &Observed, plan: &Plan, left: &Judged) -> Plan {
    let mut then = seen.clone();
    if let Some(template) = then.workload.0.pointer_mut("/spec/template").filter(|_| !plan.nothing_to_do) {
        template.clone_from(&plan.template);
    }
    let history = history::read(&then.workload, &then.replica_sets);
    let rules = Rules { require: plan.rules.require, ..Rules::default() };
    make(&then, &history, left.clone(), &rules)
}

fn strategy(workload: &Object) -> String {
    let text = |name: &str| match workload.0.pointer(&format!("/spec/strategy/rollingUpdate/{name}")) {
        Some(Value::String(text)) => text.clone(),
        Some(number) => number.to_string(),
        None => "25%".into(),
    };
    match workload.str_at("/spec/strategy/type") {
        "Recreate" => "Recreate".into(),
        _ => format!("maxUnavailable {}, maxSurge {}", text("maxUnavailable"), text("maxSurge")),
    }
}

fn is_gone(seen: &Observed, config_map: &str) -> bool {
    matches!(seen.objects.get(&(Kind::ConfigMap, config_map.to_string())), Some(Lookup::Absent))
}

/// Did an earlier undo of ours already do what is asked? Its annotation says so for exactly the live template, that
/// template is the revision's but for names of snapshots, those are still there, and what it kept was not lost since.
fn done_before(seen: &Observed, history: &History, judged: &Judged, live: &Value, rules: &Rules) -> bool {
    let target = &judged.revision;
    let Some(trail) = &history.trail else { return false };
    if trail.to != target.number && !target.former.contains(&trail.to) {
        return false;
    }
    let lost = |reference: &Reference| {
        let of = |j: &&Judgement| (j.reference.kind, &j.reference.name) == (reference.kind, &reference.name);
        judged.references.iter().find(of).is_some_and(|j| j.verdict < Verdict::Unreadable)
    };
    let mut names = BTreeMap::new();
    for reference in references::extract(&target.template).references {
        let Some(pointer) = reference.uses.first().map(|u| &u.name_pointer) else { continue };
        let now = live.pointer(pointer).and_then(Value::as_str).unwrap_or("");
        let pinned = snapshot::is_of(now, &reference.name);
        if pinned && is_gone(seen, now) {
            return false;
        }
        let asked = match (rules.given.get(&reference.name), rules.config) {
            (Some(given), _) => pinned && policy::binds(given, &reference.name, now),
            (None, Config::Live) => !pinned,
            (None, Config::Pin) => pinned || reference.kind == Kind::Secret || reference.pinnable() != Pinnable::Yes,
            (None, Config::Auto) => true,
        };
        if !asked || (!pinned && rules.config != Config::Live && lost(&reference)) {
            return false;
        }
        if pinned {
            names.insert((reference.kind, reference.name.clone()), now.to_string());
        }
    }
    pin::same(&pin::pin(&target.template, &names), live)
}

fn workload_refusals(workload: &Object) -> Vec<Refusal> {
    let plain = |code, message: &str| Refusal { code, reference: None, verdict: None, message: message.into() };
    let mut refusals = Vec::new();
    if workload.terminating() {
        refusals.push(plain(Code::Terminating, "the workload is being deleted"));
    }
    if workload.0.pointer("/spec/paused").and_then(Value::as_bool) == Some(true) {
        refusals.push(plain(Code::Paused, "it is paused: its template may hold an edit that an undo would lose"));
    }
    refusals
}

/// One sentence, without a full stop, that names the object.
fn refusal_message(code: Code, judgement: &Judgement, revision: u64) -> String {
    let name = format!("{}/{}", judgement.reference.kind.word(), judgement.reference.name);
    match code {
        Code::ContentNotFound => format!("the content that revision {revision} read from {name} was not found"),
        Code::ContentNotProven => {
            format!("what revision {revision} read from {name} is only likely, and --require=proof asks for proof")
        }
        Code::GivenNotFound => format!("--use names a content of {name} that was not found"),
        Code::SecretNotPinned => {
            format!("{name} is not known to be what revision {revision} read, and Secrets are not pinned")
        }
        Code::BundleNotPinned => format!("{name} is a CA bundle, and a pinned one would be a frozen one"),
        Code::Injected => {
            format!("{name} is put into Pods at admission and is not known to be what revision {revision} read")
        }
        Code::Missing => format!("{name} does not exist, so a new Pod of revision {revision} would not start"),
        Code::KeyMissing => format!("{name} lacks a key that revision {revision} needs, so a new Pod would not start"),
        Code::Unreadable => format!("{name} could not be read"),
        Code::Paused
        | Code::Terminating
        | Code::Managed
        | Code::DryRunDenied
        | Code::Downtime
        | Code::EvictionDenied
        | Code::NoWayBack => code.word().into(),
    }
}

/// `landing`: the revision whose ReplicaSet has the planned template already; `None`: a new one is made.
fn pods_planned(seen: &Observed, target: &Judged, landing: Option<&Revision>) -> PodsPlanned {
    let workload = &seen.workload;
    let replicas = usize::try_from(workload.int_at("/spec/replicas").unwrap_or(1)).unwrap_or(0);
    let owned = |pod: &Object, by: &Revision| pod.controller().is_some_and(|o| o.uid == by.object.uid());
    let mut planned = PodsPlanned { floor: floor(workload, replicas), ..PodsPlanned::default() };
    let mut stay = 0;
    for pod in seen.all_pods().iter().filter(|p| belongs(seen, p) && !p.terminating()) {
        let ready = PodState::of(pod).ready;
        if landing.is_some_and(|r| owned(pod, r)) && stay < replicas {
            stay += 1;
            planned.stay_ready += usize::from(ready);
            planned.stay_unstarted |= !ready && reads::starts(pod).is_empty();
        } else if owned(pod, &target.revision) {
            planned.go_target += 1;
            planned.go_target_ready += usize::from(ready);
        } else {
            planned.go_other += 1;
            planned.go_other_ready += usize::from(ready);
        }
    }
    planned.stay = stay;
    planned.start = replicas - stay;
    planned.go = planned.go_target + planned.go_other;
    planned
}

/// Is this Pod of one of the workload's ReplicaSets?
fn belongs(seen: &Observed, pod: &Object) -> bool {
    pod.controller().is_some_and(|owner| {
        seen.replica_sets
            .iter()
            .any(|rs| rs.uid() == owner.uid && rs.controller().is_some_and(|o| o.uid == seen.workload.uid()))
    })
}

/// Ready Pods that the rolling update keeps: replicas − maxUnavailable. As the controller does, percentages of it round
/// down and those of maxSurge up, and where both come to nothing one Pod may be unavailable.
fn floor(workload: &Object, replicas: usize) -> Option<usize> {
    if workload.str_at("/spec/strategy/type") == "Recreate" {
        return None;
    }
    let share = |name: &str, round: fn(usize) -> usize| match workload
        .0
        .pointer(&format!("/spec/strategy/rollingUpdate/{name}"))
    {
        Some(Value::String(text)) => {
            let percent: usize = text.trim_end_matches('%').parse().unwrap_or(25);
            round(replicas.saturating_mul(percent))
        }
        Some(number) => number.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
        None => round(replicas.saturating_mul(25)),
    };
    let unavailable = share("maxUnavailable", |hundredths| hundredths / 100);
    let surge = share("maxSurge", |hundredths| hundredths.div_ceil(100));
    Some(replicas.saturating_sub(if unavailable == 0 && surge == 0 { 1 } else { unavailable }))
}

/// Revisions that the controller will delete because a pin makes a new one (revisionHistoryLimit, default 10).
fn falls_out(workload: &Object, history: &History, new_revision: bool) -> Vec<u64> {
    if !new_revision {
        return Vec::new();
    }
    let limit = workload.int_at("/spec/revisionHistoryLimit").and_then(|n| usize::try_from(n).ok()).unwrap_or(10);
    let old: Vec<u64> = history.numbers();
    old[..old.len().saturating_sub(limit)].to_vec()
}

/// Owners of running Pods, other than this workload's, that name the object.
fn other_readers(seen: &Observed, kind: Kind, name: &str) -> BTreeSet<String> {
    seen.all_pods()
        .iter()
        .filter(|pod| !belongs(seen, pod) && references::extract(&pod.0).get(kind, name).is_some())
        .map(|pod| readers::owner(pod, &BTreeMap::new()))
        .collect()
}

impl Plan {
    /// May a Pod of the planned template start without this ConfigMap?
    pub fn optional(&self, config_map: &str) -> bool {
        let references = references::extract(&self.template);
        let pinned = references.get(Kind::ConfigMap, config_map);
        pinned.is_some_and(|reference| reference.uses.iter().any(|used| used.optional))
    }

    /// The weakest grade of what a new Pod will read; `None` of the three words where something is refused.
    pub fn grade(&self) -> Grade {
        self.decisions.iter().map(|d| d.grade).min().unwrap_or(Grade::Proof)
    }

    /// Our annotation for the template this plan writes.
    pub fn trail(&self) -> Trail {
        let kept = self.target.references.iter().zip(&self.decisions);
        let kept =
            kept.filter(|(_, d)| matches!(d.action, Action::Keep) && d.grade > Grade::None).filter_map(|(j, _)| {
                Some((format!("{}/{}", j.reference.kind, j.reference.name), Held::of(j.live.as_ref()?)))
            });
        Trail {
            from: self.from.unwrap_or(0),
            to: self.to,
            template: history::template_digest(&self.template),
            // Only a run that pins writes a record.
            kept: if self.snapshots.is_empty() { BTreeMap::new() } else { kept.collect() },
            evicted: None,
        }
    }

    /// Gives every snapshot a longer name, because a short one is taken by other content.
    pub fn rename(&mut self, digits: usize) {
        let mut names = BTreeMap::new();
        for snapshot in &mut self.snapshots {
            snapshot.rename(digits);
            names.insert((Kind::ConfigMap, snapshot.source.clone()), snapshot.name.clone());
        }
        self.template = pin::pin(&self.target.revision.template, &names);
    }

    /// Takes in who else writes the workload. Whoever is known to put back what others write is a reason to refuse, unless
    /// that is `allowed`.
    pub fn owned(&mut self, owners: Owners, allowed: bool) {
        if !allowed && !self.nothing_to_do {
            let refusal = |owner: &owners::Owner| Refusal {
                code: Code::Managed,
                reference: None,
                verdict: None,
                message: owner.refusal(),
            };
            self.refusals.splice(0..0, owners.healers().map(refusal));
        }
        self.owners = owners;
    }

    /// How many Pods are wanted.
    pub fn replicas(&self) -> usize {
        self.pods.start + self.pods.stay
    }

    /// Does the proof on a substitute take the only Pod away?
    pub fn downtime(&self) -> bool {
        self.evicts && self.replicas() == 1
    }

    /// What is to be looked at after the rollout. An earlier run may have evicted its Pod already; and where no undo of ours
    /// brought the template no Pod is evicted, since nothing would tell the next run.
    pub fn verified(&mut self, verify: Verify, seen: &Observed, history: &History) {
        self.verify = verify;
        let due = match (&history.trail, self.nothing_to_do) {
            (_, false) => true,
            (None, true) => false,
            (Some(trail), true) => trail.evicted.as_ref().is_none_or(|e| e.standing(seen.all_pods()).is_some()),
        };
        self.evicts = verify == Verify::Replace && due && self.replicas() > 0;
    }

    pub fn refuse(&mut self, code: Code, message: String) {
        self.refusals.push(Refusal { code, reference: None, verdict: None, message });
    }

    pub fn refused(&self) -> bool {
        !self.refusals.is_empty()
    }
}
