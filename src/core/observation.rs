//! What the Pods of a workload are, hold and answer at one moment, and which of them answers for its Services.
//!
//! # Caveats
//!
//! A program that answers with another Pod's name is believed. A name or uid counts only where the EndpointSlices named that
//! Pod as ready before and after the question.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::core::digest::Content;
use crate::core::evidence::{self, Case, Witness, Witnesses};
use crate::core::field;
use crate::core::history::{History, Revision};
use crate::core::judged::PodState;
use crate::core::object::Object;
use crate::core::observed::{Lookup, Observed};
use crate::core::reads;
use crate::core::references::{self, Kind, Reference};
use crate::core::until::Condition;
use crate::core::verdict::{self, Verdict};

/// What `observe` adds to the report.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    /// By revision and name; null where Pods could not be read.
    pub pods: Option<Vec<PodLine>>,
    /// Those that select its Pods; null where they could not be read.
    pub services: Option<Vec<ServiceLine>>,
    pub configs: Vec<ConfigLine>,
    pub condition: Option<Condition>,
    pub exit_code: u8,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodLine {
    pub name: String,
    pub uid: String,
    pub ready: bool,
    pub terminating: bool,
    pub phase: String,
    pub created: Option<Timestamp>,
    /// Of its ReplicaSet; null where that has none.
    pub revision: Option<u64>,
    /// Up to the workload.
    pub owners: Vec<OwnerUid>,
    pub containers: Vec<ContainerLine>,
    pub references: Vec<HeldLine>,
    /// Null: it was not asked.
    pub probe: Option<ProbeLine>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnerUid {
    pub kind: String,
    pub name: String,
    pub uid: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerLine {
    pub name: String,
    pub init: bool,
    pub ready: bool,
    /// Of its last known run, by the node's clock.
    pub started_at: Option<Timestamp>,
    pub restart_count: i64,
    /// Why it does not run.
    pub waiting: Option<String>,
}

/// Does a Pod hold today's content of one reference?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holds {
    /// Proven to be something else.
    Changed,
    Unknown,
    LikelySame,
    /// Mounted files that the kubelet keeps current; what the process did with them is not known.
    Refreshed,
    /// Proven.
    Same,
    /// No container that reads it has started.
    NotStarted,
}

impl Holds {
    pub fn word(self) -> &'static str {
        match self {
            Holds::Changed => "changed",
            Holds::Unknown => "unknown",
            Holds::LikelySame => "likely-same",
            Holds::Refreshed => "refreshed",
            Holds::Same => "same",
            Holds::NotStarted => "not-started",
        }
    }

    fn of(verdict: Verdict) -> Holds {
        match verdict {
            // What it needs is not there any more: it holds what is gone.
            Verdict::Missing | Verdict::KeyMissing | Verdict::Changed | Verdict::Mixed => Holds::Changed,
            Verdict::Recreated | Verdict::WrittenAfter | Verdict::WrittenDuring => Holds::Unknown,
            Verdict::Unreadable | Verdict::Unknown => Holds::Unknown,
            Verdict::LikelySame => Holds::LikelySame,
            Verdict::Refreshed => Holds::Refreshed,
            Verdict::Same | Verdict::OptionalAbsent => Holds::Same,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct HeldLine {
    pub reference: String,
    pub today: &'static str,
    /// For this Pod alone; null where nothing was read.
    pub verdict: Option<&'static str>,
    /// Consumed digest of what it read, where that is proven.
    pub read: Option<String>,
    pub because: String,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeLine {
    /// The application's; null: it gave no answer.
    pub status: Option<u16>,
    /// SHA-256 of the body; null where that was too long, or there is none.
    pub digest: Option<String>,
    /// Why there is no answer, or not all of it.
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_cut: Option<bool>,
}

/// At most so many bytes of a body are shown.
const SHOWN: usize = 64 * 1024;

impl ProbeLine {
    /// An answer. `whole`: is this all of its body?
    pub fn of(status: u16, body: &[u8], whole: bool) -> ProbeLine {
        let hex = || Sha256::digest(body).iter().map(|b| format!("{b:02x}")).collect::<String>();
        ProbeLine {
            status: Some(status),
            digest: whole.then(|| format!("sha256:{}", hex())),
            error: (!whole).then(|| format!("only the first {} bytes of its answer were read", body.len())),
            ..ProbeLine::default()
        }
    }

    pub fn show(&mut self, body: &[u8]) {
        let shown = body.get(..SHOWN).unwrap_or(body);
        self.body = Some(String::from_utf8_lossy(shown).into_owned());
        self.body_cut = Some(shown.len() < body.len() || self.digest.is_none());
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceLine {
    pub name: String,
    pub uid: String,
    /// The ready ones, by EndpointSlices.
    pub endpoints: Vec<Endpoint>,
    pub probe: Option<ProbeLine>,
    pub answered_by: Option<AnsweredBy>,
    pub attribution: &'static str,
    pub because: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Endpoint {
    pub pod: String,
    pub uid: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AnsweredBy {
    pub pod: String,
    pub uid: String,
    /// Is it a Pod of this workload?
    pub ours: bool,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigLine {
    pub kind: String,
    pub name: String,
    pub state: &'static str,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub immutable: Option<bool>,
    /// Of the whole content.
    pub digest: Option<String>,
}

/// The Pods of a workload, each with the ReplicaSet that owns it.
pub fn owned<'a>(workload: &Object, sets: &'a [Object], pods: &'a [Object]) -> Vec<(&'a Object, &'a Object)> {
    let ours = sets.iter().filter(|set| set.controller().is_some_and(|owner| owner.uid == workload.uid()));
    let sets: BTreeMap<&str, &Object> = ours.map(|set| (set.uid(), set)).collect();
    pods.iter().filter_map(|pod| Some((pod, *sets.get(pod.controller()?.uid.as_str())?))).collect()
}

/// A line for each Pod of the workload.
pub fn pods(seen: &Observed, history: &History) -> Vec<PodLine> {
    let case = Case::new(seen, history);
    let mut lines: Vec<PodLine> = Vec::new();
    let mut set_aside: BTreeMap<u64, BTreeMap<String, String>> = BTreeMap::new();
    for (pod, set) in owned(&seen.workload, &seen.replica_sets, seen.all_pods()) {
        let revision = history.revisions.iter().find(|r| r.object.uid() == set.uid());
        let state = PodState::of(pod);
        let aside = revision.and_then(|r| {
            let of = |r| evidence::witnesses(r, seen.all_pods()).set_aside.into_iter().collect();
            set_aside.entry(r.number).or_insert_with(|| of(r)).get(pod.name()).cloned()
        });
        let owner = |object: &Object| OwnerUid {
            kind: object.kind().into(),
            name: object.name().into(),
            uid: object.uid().into(),
        };
        lines.push(PodLine {
            name: state.name,
            uid: pod.uid().into(),
            ready: state.ready,
            terminating: state.terminating,
            phase: pod.str_at("/status/phase").into(),
            created: pod.created(),
            revision: revision.map(|r| r.number),
            owners: vec![owner(set), owner(&seen.workload)],
            containers: containers(pod),
            references: revision.map_or_else(Vec::new, |r| held(&case, r, pod, aside.as_deref())),
            probe: None,
        });
    }
    lines.sort_by(|a, b| (a.revision, &a.name).cmp(&(b.revision, &b.name)));
    lines
}

fn containers(pod: &Object) -> Vec<ContainerLine> {
    let of = |field: &'static str, init: bool| {
        pod.items_at(field).iter().map(move |status| {
            let status = Object(status.clone());
            let waiting = status.str_at("/state/waiting/reason");
            ContainerLine {
                name: status.str_at("/name").into(),
                init,
                ready: status.0.get("ready").and_then(Value::as_bool).unwrap_or(false),
                started_at: [
                    "/state/running/startedAt",
                    "/state/terminated/startedAt",
                    "/lastState/terminated/startedAt",
                ]
                .iter()
                .find_map(|pointer| status.time_at(pointer)),
                restart_count: status.int_at("/restartCount").unwrap_or(0),
                waiting: Some(waiting.to_string()).filter(|reason| !reason.is_empty()),
            }
        })
    };
    of("/status/initContainerStatuses", true).chain(of("/status/containerStatuses", false)).collect()
}

/// What one Pod holds of each reference of its revision, and of those that it got at admission.
fn held(case: &Case<'_>, revision: &Revision, pod: &Object, aside: Option<&str>) -> Vec<HeldLine> {
    let template = references::extract(&revision.template);
    let alone = Witnesses {
        witnesses: vec![Witness { pod, references: references::extract(&pod.0) }],
        set_aside: Vec::new(),
        rewritten: None,
    };
    let injected = if aside.is_some() { Vec::new() } else { evidence::injected(&template, &alone) };
    let named = template.references.iter().map(|r| (r, false)).chain(injected.iter().map(|r| (r, true)));
    named
        .map(|(reference, injected)| match aside {
            Some(why) => line(reference, Holds::Unknown, why.to_string()),
            None => one_held(case, revision, &alone, reference, injected),
        })
        .collect()
}

fn line(reference: &Reference, holds: Holds, because: String) -> HeldLine {
    let reference = format!("{}/{}", reference.kind, reference.name);
    HeldLine { reference, today: holds.word(), verdict: None, read: None, because }
}

fn one_held(
    case: &Case<'_>,
    revision: &Revision,
    alone: &Witnesses<'_>,
    reference: &Reference,
    injected: bool,
) -> HeldLine {
    // A container that has not started holds nothing, and would be judged by the revision's whole life.
    let reported = |used: &&references::Use| {
        let spans = reads::spans(case, revision, alone, reference.kind, used);
        spans.iter().any(|span| span.pod.is_some() && span.reported)
    };
    let uses: Vec<references::Use> = reference.uses.iter().filter(reported).cloned().collect();
    if uses.is_empty() {
        return line(reference, Holds::NotStarted, "no container that reads it has reported a start".into());
    }
    let judged = verdict::judge(case, revision, alone, &Reference { uses, ..reference.clone() }, injected);
    let says = judged.verdict.word();
    let fact = judged.facts.iter().find(|fact| fact.says == says).or(judged.facts.first());
    HeldLine {
        verdict: Some(says),
        read: judged.read,
        ..line(reference, Holds::of(judged.verdict), fact.map_or_else(String::new, |fact| fact.detail.clone()))
    }
}

/// Everything that its revisions and Pods name, as it is now.
pub fn configs(seen: &Observed) -> Vec<ConfigLine> {
    let of = |((kind, name), lookup): (&(Kind, String), &Lookup)| {
        let (state, object) = match lookup {
            Lookup::Found(object) => ("found", Some(object)),
            Lookup::Absent => ("absent", None),
            Lookup::Unreadable(_) => ("unreadable", None),
        };
        let readable = object.filter(|_| *kind == Kind::ConfigMap);
        ConfigLine {
            kind: kind.to_string(),
            name: name.clone(),
            state,
            uid: object.map(|o| o.uid().to_string()),
            resource_version: object.map(|o| o.str_at("/metadata/resourceVersion").to_string()),
            immutable: readable.map(|o| o.0.get("immutable").and_then(Value::as_bool).unwrap_or(false)),
            digest: readable.and_then(|o| Content::from_object(o).ok()).map(|content| content.digest().to_string()),
        }
    };
    seen.objects.iter().map(of).collect()
}

/// The Services that select Pods of the workload, those of its template included: of one that is scaled to zero there is
/// no Pod to ask.
pub fn selecting<'a>(workload: &Object, pods: &[&Object], services: &'a [Object]) -> Vec<&'a Object> {
    let template = workload.0.pointer("/spec/template").cloned().unwrap_or_default();
    let template = Object(template);
    let selects = |service: &Object| {
        let Some(selector) = service.0.pointer("/spec/selector").and_then(Value::as_object) else { return false };
        let matches = |object: &Object| selector.iter().all(|(key, value)| object.label(key) == value.as_str());
        !selector.is_empty() && (matches(&template) || pods.iter().any(|pod| matches(pod)))
    };
    let mut found: Vec<&Object> = services.iter().filter(|service| selects(service)).collect();
    found.sort_by_key(|service| service.name().to_string());
    found
}

/// The ready endpoints of a Service that are Pods.
pub fn endpoints(service: &str, slices: &[Object]) -> Vec<Endpoint> {
    let its = slices.iter().filter(|slice| slice.label("kubernetes.io/service-name") == Some(service));
    let found: BTreeSet<Endpoint> = its
        .flat_map(|slice| slice.items_at("/endpoints"))
        // "A nil value should be interpreted as true."
        .filter(|e| e.pointer("/conditions/ready").and_then(Value::as_bool).unwrap_or(true))
        .filter(|e| e.pointer("/targetRef/kind").and_then(Value::as_str) == Some("Pod"))
        .map(|e| {
            let text = |pointer: &str| e.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_string();
            Endpoint { pod: text("/targetRef/name"), uid: text("/targetRef/uid") }
        })
        .collect();
    found.into_iter().collect()
}

impl ServiceLine {
    pub fn of(service: &Object, slices: &[Object]) -> ServiceLine {
        ServiceLine {
            name: service.name().into(),
            uid: service.uid().into(),
            endpoints: endpoints(service.name(), slices),
            probe: None,
            answered_by: None,
            attribution: Attribution::NotAsked.word(),
            because: None,
        }
    }

    /// Ties the answer to a Pod. `later`: the endpoints after it was given.
    pub fn attribute(&mut self, body: &[u8], pod_field: &str, later: &[Endpoint], ours: &BTreeSet<String>) {
        match attribute(body, pod_field, &self.endpoints, later) {
            Ok(endpoint) => {
                self.attribution = Attribution::Attributed.word();
                self.answered_by =
                    Some(AnsweredBy { ours: ours.contains(&endpoint.uid), pod: endpoint.pod, uid: endpoint.uid });
            }
            Err(why) => self.unattributed(why),
        }
    }

    pub fn unattributed(&mut self, why: String) {
        self.attribution = Attribution::Unattributed.word();
        self.because = Some(why);
    }
}

/// Is it known which Pod answered for a Service?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribution {
    /// Nobody asked.
    NotAsked,
    Attributed,
    Unattributed,
}

impl Attribution {
    pub fn word(self) -> &'static str {
        match self {
            Attribution::NotAsked => "not-asked",
            Attribution::Attributed => "attributed",
            Attribution::Unattributed => "unattributed",
        }
    }
}

/// The Pod that an answer names by uid or name, if that was a ready endpoint before the question and after the answer.
///
/// # Errors
/// Why the answer belongs to no Pod, in words; nothing of the answer is quoted.
pub fn attribute(body: &[u8], pod_field: &str, before: &[Endpoint], after: &[Endpoint]) -> Result<Endpoint, String> {
    let Ok(answer) = serde_json::from_slice::<Value>(body) else { return Err("its answer is no JSON".into()) };
    let found = field::at(&answer, pod_field);
    let [Value::String(pod)] = found.as_slice() else {
        return Err(format!("its answer has no text at {pod_field}"));
    };
    let is_it = |endpoint: &&Endpoint| !pod.is_empty() && (endpoint.uid == *pod || endpoint.pod == *pod);
    match before.iter().find(is_it) {
        Some(endpoint) if after.contains(endpoint) => Ok(endpoint.clone()),
        Some(endpoint) => Err(format!("pod/{} ceased to be a ready endpoint meanwhile", endpoint.pod)),
        None => Err("the Pod that its answer names was no ready endpoint".into()),
    }
}

/// What to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// With its query, from `/` on.
    pub path: String,
    pub port: Option<u16>,
}

impl Probe {
    /// `PATH[:PORT]`.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Probe, String> {
        let (path, port) = match text.rsplit_once(':') {
            Some((path, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
                let number = port.parse().ok().filter(|n| *n > 0);
                (path, Some(number.ok_or_else(|| format!("{port} is no port"))?))
            }
            _ => (text, None),
        };
        let path = if path.starts_with('/') { path.to_string() } else { format!("/{path}") };
        let folders = path.split('?').next().unwrap_or("").split('/');
        if folders.into_iter().any(|folder| [".", ".."].contains(&folder)) {
            return Err("a path with . or .. in it would lead elsewhere".into());
        }
        if !path.bytes().all(|b| b.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&b)) {
            return Err("write a path as it stands in a URL, as /ready or /ready:8080".into());
        }
        Ok(Probe { path, port })
    }

    /// The Pods' port: the given one, the first that the template declares, or where a Service leads to. `None`: the API
    /// server's choice.
    pub fn pod_port(&self, workload: &Object, services: &[&Object]) -> Option<u16> {
        let declared = || {
            let containers = workload.items_at("/spec/template/spec/containers").iter();
            let ports = containers.flat_map(|c| c.get("ports").and_then(Value::as_array).into_iter().flatten());
            ports.filter_map(|port| number(port.get("containerPort")?)).next()
        };
        let led = || {
            let ports = services.iter().flat_map(|service| service.items_at("/spec/ports"));
            ports.filter_map(|port| number(port.get("targetPort")?)).next()
        };
        self.port.or_else(declared).or_else(led)
    }

    /// The port of a Service that leads to the Pods' port: by number, or by the name that a container declares.
    ///
    /// # Errors
    /// None does, or it is not clear which.
    pub fn service_port(&self, workload: &Object, service: &Object) -> Result<u16, String> {
        let ports = service.items_at("/spec/ports");
        let own = |port: &Value| port.get("port").and_then(number);
        let Some(wanted) = self.port else {
            return match ports {
                [one] => own(one).ok_or_else(|| "it has no port".to_string()),
                [] => Err("it has no port".into()),
                _ => Err("it has several ports: name one, as in /ready:8080".into()),
            };
        };
        let leads = |port: &&Value| match port.get("targetPort") {
            Some(Value::String(name)) => declared(workload, name) == Some(wanted),
            Some(target) => number(target) == Some(wanted),
            None => own(port) == Some(wanted),
        };
        let found = ports.iter().find(leads).or_else(|| ports.iter().find(|port| own(port) == Some(wanted)));
        found.and_then(own).ok_or_else(|| format!("none of its ports leads to port {wanted}"))
    }
}

/// The port that a container of the template declares under this name.
fn declared(workload: &Object, name: &str) -> Option<u16> {
    let containers = workload.items_at("/spec/template/spec/containers").iter();
    let mut ports = containers.flat_map(|c| c.get("ports").and_then(Value::as_array).into_iter().flatten());
    let found = ports.find(|port| port.get("name").and_then(Value::as_str) == Some(name))?;
    number(found.get("containerPort")?)
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|n| u16::try_from(n).ok())
}
