//! Who reads a ConfigMap: workloads whose template names it, and running Pods that do.
//!
//! # Caveats
//!
//! A program that reads it through the API leaves no reference, and workloads of other kinds are seen by their Pods alone.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::core::digest::Content;
use crate::core::object::Object;
use crate::core::references::{self, Kind, Read, Reference};

/// One reader, its Pods counted together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reader {
    /// `deployment/web`; `pod/x` for a Pod that nothing controls.
    pub reader: String,
    /// Its template names the ConfigMap: its next Pod reads it.
    pub named: bool,
    /// Its running Pods that name it.
    pub pods: usize,
    /// Of these, the ones that took it in at their start: environment, or a file behind a subPath.
    pub fixed: usize,
    /// Of these, the ones that have it as a mounted directory alone, which the kubelet keeps current.
    pub refreshed: usize,
}

/// How many Pods must be started anew to read a change, and how many are given it.
pub fn pods(readers: &[Reader]) -> (usize, usize) {
    (readers.iter().map(|r| r.fixed).sum(), readers.iter().map(|r| r.refreshed).sum())
}

/// Who controls a Pod: `deployment/web`, `cronjob/report`, `pod/x`. `jobs`: the owner of each Job that has one.
pub fn owner(pod: &Object, jobs: &BTreeMap<String, String>) -> String {
    let Some(owner) = pod.controller() else { return format!("pod/{}", pod.name()) };
    let hash = pod.label("pod-template-hash").map(|hash| format!("-{hash}"));
    match (owner.kind.as_str(), hash) {
        ("ReplicaSet", Some(hash)) if owner.name.ends_with(&hash) => {
            format!("deployment/{}", owner.name.strip_suffix(&hash).unwrap_or(&owner.name))
        }
        ("Job", _) => jobs.get(&owner.name).cloned().unwrap_or_else(|| format!("job/{}", owner.name)),
        (kind, _) => format!("{}/{}", kind.to_lowercase(), owner.name),
    }
}

/// The readers of ConfigMap `name`, by their words. `workloads`: Deployments, StatefulSets, DaemonSets, CronJobs, Jobs.
pub fn readers(name: &str, workloads: &[Object], all_pods: &[Object]) -> Vec<Reader> {
    let jobs = owners_of_jobs(workloads);
    let mut found: BTreeMap<String, Reader> = BTreeMap::new();
    let mut at = |word: String, change: &dyn Fn(&mut Reader)| {
        let new = || Reader { reader: word.clone(), named: false, pods: 0, fixed: 0, refreshed: 0 };
        change(found.entry(word.clone()).or_insert_with(new));
    };
    for workload in workloads {
        if template(workload).is_some_and(|t| names(t, name).is_some()) {
            at(word(workload, &jobs), &|reader| reader.named = true);
        }
    }
    for pod in all_pods.iter().filter(|p| runs(p)) {
        let Some(reference) = names(&pod.0, name) else { continue };
        let reads = |read: &[Read]| reference.uses.iter().any(|used| read.contains(&used.read));
        let fixed = reads(&[Read::ContainerStart, Read::Mount]);
        let refreshed = !fixed && reads(&[Read::RefreshedMount]);
        at(owner(pod, &jobs), &|reader| {
            reader.pods += 1;
            reader.fixed += usize::from(fixed);
            reader.refreshed += usize::from(refreshed);
        });
    }
    found.into_values().collect()
}

/// Readers that need a key which `content` lacks, each with these keys: their next Pod would not start.
pub fn stopped(name: &str, content: &Content, workloads: &[Object], all_pods: &[Object]) -> Vec<(String, Vec<String>)> {
    let jobs = owners_of_jobs(workloads);
    let templates = workloads.iter().filter_map(|w| Some((word(w, &jobs), template(w)?)));
    let pods = all_pods.iter().filter(|p| runs(p)).map(|p| (owner(p, &jobs), &p.0));
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (who, template) in templates.chain(pods) {
        let missing = names(template, name).map_or(Vec::new(), |reference| reference.missing_keys(content));
        if !missing.is_empty() {
            found.entry(who).or_default().extend(missing);
        }
    }
    found.into_iter().map(|(who, keys)| (who, keys.into_iter().collect())).collect()
}

fn names(template: &Value, name: &str) -> Option<Reference> {
    references::extract(template).get(Kind::ConfigMap, name).cloned()
}

/// The Pod template; none of a Job that has ended, since it starts no Pod any more.
fn template(workload: &Object) -> Option<&Value> {
    match workload.kind() {
        "CronJob" => workload.0.pointer("/spec/jobTemplate/spec/template"),
        "Job" if ended(workload) => None,
        _ => workload.0.pointer("/spec/template"),
    }
}

fn ended(job: &Object) -> bool {
    job.items_at("/status/conditions").iter().any(|c| {
        let text = |key: &str| c.get(key).and_then(Value::as_str).unwrap_or("");
        ["Complete", "Failed"].contains(&text("type")) && text("status") == "True"
    })
}

/// Has its containers, or will have them.
fn runs(pod: &Object) -> bool {
    !pod.terminating() && !["Succeeded", "Failed"].contains(&pod.str_at("/status/phase"))
}

/// A CronJob's Jobs count as it.
fn word(workload: &Object, jobs: &BTreeMap<String, String>) -> String {
    match jobs.get(workload.name()).filter(|_| workload.kind() == "Job") {
        Some(owner) => owner.clone(),
        None => format!("{}/{}", workload.kind().to_lowercase(), workload.name()),
    }
}

fn owners_of_jobs(workloads: &[Object]) -> BTreeMap<String, String> {
    let jobs = workloads.iter().filter(|w| w.kind() == "Job");
    jobs.filter_map(|job| {
        let owner = job.controller()?;
        Some((job.name().to_string(), format!("{}/{}", owner.kind.to_lowercase(), owner.name)))
    })
    .collect()
}
