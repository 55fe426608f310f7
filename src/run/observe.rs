//! The reads of one run, in three steps of parallel requests: workload beside the first domain probe; revisions,
//! Pods and Events; contents. Time travel follows only where a verdict depends on it.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::offline::Dump;
use crate::cluster::read::{List, ReadError, Resource, Select};
use crate::core::evidence;
use crate::core::history::{self, History};
use crate::core::object::Object;
use crate::core::observed::{Domain, Key, Lookup, Observed, Origin, Past, PastEnd, Version, numbers_are_sound};
use crate::core::owners::Owners;
use crate::core::plan::{self, Judged};
use crate::core::record::Records;
use crate::core::references::{self, Kind};
use crate::core::workload::{Kind as WorkloadKind, Target};
use crate::run::{Failure, Scene, Source, owners, travel};

const PODS: Select<'static> = Select::Fields("involvedObject.kind=Pod");
const RECORDS: Select<'static> = Select::Labels("saferollback.dev/kind=record");
const KINDS: [WorkloadKind; 3] = [WorkloadKind::Deployment, WorkloadKind::StatefulSet, WorkloadKind::DaemonSet];

/// Everything that the verdicts of one workload need.
pub struct Observation {
    pub seen: Observed,
    pub history: History,
    /// Every revision, ascending by number.
    pub judged: Vec<Judged>,
    /// Empty unless they were asked for.
    pub owners: Owners,
}

fn workloads(kind: WorkloadKind) -> Resource {
    match kind {
        WorkloadKind::Deployment => Resource::Deployments,
        WorkloadKind::StatefulSet => Resource::StatefulSets,
        WorkloadKind::DaemonSet => Resource::DaemonSets,
    }
}

/// What is read for a reference of this kind.
pub(super) fn contents(kind: Kind) -> Resource {
    match kind {
        Kind::ConfigMap => Resource::ConfigMaps,
        Kind::Secret => Resource::Secrets,
    }
}

impl Scene {
    pub(super) async fn list(&self, resource: Resource, select: Select<'_>) -> Result<List, ReadError> {
        match &self.source {
            Source::Live(cluster) => cluster.list(resource, &self.namespace, select).await,
            Source::Dump(dump) => dump.list(resource, &self.namespace, select),
        }
    }

    pub(super) async fn get(&self, resource: Resource, name: &str) -> Result<Option<Object>, ReadError> {
        match &self.source {
            Source::Live(cluster) => cluster.get(resource, &self.namespace, name).await,
            Source::Dump(dump) => {
                Ok(dump.list(resource, &self.namespace, Select::Name(name))?.items.into_iter().next())
            }
        }
    }

    /// The first half of the domain check; an error only turns proofs by number off.
    async fn probe(&self, resource: Resource) -> Option<u64> {
        match &self.source {
            Source::Live(cluster) => cluster.list_one(resource, &self.namespace).await.ok().flatten(),
            Source::Dump(_) => None,
        }
    }

    /// The workload that is meant. A bare name is looked up as every kind in one go; no name at all is the only
    /// workload of the namespace.
    pub(super) async fn workload(&self, target: Option<&Target>) -> Result<Object, Failure> {
        // A kind that could not be looked at: then "not found" would say too much.
        let mut unseen: Option<ReadError> = None;
        let found: Vec<(WorkloadKind, Object)> = match target {
            Some(Target { kind: Some(kind), name }) => {
                let object = self.get(workloads(*kind), name).await?;
                object.map(|o| (*kind, o)).into_iter().collect()
            }
            Some(Target { kind: None, name }) => {
                let answers = join_all(KINDS.map(|kind| self.get(workloads(kind), name))).await;
                one_kind_readable(&answers)?;
                unseen = answers.iter().find_map(|a| a.as_ref().err()).cloned();
                KINDS.into_iter().zip(answers).filter_map(|(kind, answer)| Some((kind, answer.ok()??))).collect()
            }
            None => self.all_workloads().await?,
        };
        let words = || found.iter().map(|(kind, o)| format!("{}/{}", kind.word(), o.name())).collect::<Vec<_>>();
        if let (true, Some(error)) = (found.is_empty(), unseen) {
            return Err(error.into());
        }
        match (found.as_slice(), target) {
            ([(WorkloadKind::Deployment, object)], _) => Ok(object.clone()),
            ([(kind, _)], _) => Err(Failure::NotYet(*kind)),
            ([], Some(target)) => Err(self.not_found(target)),
            ([], None) => match &self.source {
                Source::Dump(dump) => Err(Failure::NoWorkloadInFiles { kinds: kinds(dump) }),
                Source::Live(_) => Err(Failure::NoWorkload { namespace: self.namespace.clone() }),
            },
            (_, Some(target)) => Err(Failure::Ambiguous { name: target.name.clone(), found: words() }),
            (_, None) => Err(Failure::Several { found: words() }),
        }
    }

    async fn all_workloads(&self) -> Result<Vec<(WorkloadKind, Object)>, Failure> {
        let answers = join_all(KINDS.map(|kind| self.list(workloads(kind), Select::All))).await;
        one_kind_readable(&answers)?;
        let unseen = answers.iter().find_map(|a| a.as_ref().err()).cloned();
        let lists = KINDS.into_iter().zip(answers).filter_map(|(kind, answer)| Some((kind, answer.ok()?.items)));
        let all: Vec<_> = lists.flat_map(|(kind, items)| items.into_iter().map(move |o| (kind, o))).collect();
        match unseen {
            // A kind that may not be read is not called absent.
            Some(error) if all.is_empty() => Err(error.into()),
            _ => Ok(all),
        }
    }

    /// The Deployments of the namespace, as `deployment/web`: what a person may pick from.
    ///
    /// # Errors
    /// When they cannot be listed, or there are none.
    pub async fn pickable(&self) -> Result<Vec<String>, Failure> {
        let all = self.all_workloads().await?;
        let known = all.iter().filter(|(kind, _)| *kind == WorkloadKind::Deployment);
        let names: Vec<String> = known.map(|(kind, o)| format!("{}/{}", kind.word(), o.name())).collect();
        if names.is_empty() { Err(Failure::NoWorkload { namespace: self.namespace.clone() }) } else { Ok(names) }
    }

    fn not_found(&self, target: &Target) -> Failure {
        if let Source::Dump(dump) = &self.source
            && dump.workload_namespaces().is_empty()
        {
            return Failure::NoWorkloadInFiles { kinds: kinds(dump) };
        }
        Failure::NotFound {
            kind: target.kind.map_or("workload", WorkloadKind::word).to_string(),
            name: target.name.clone(),
            namespace: self.namespace.clone(),
        }
    }

    /// Reads what the verdicts of `target` need. `now` is the clock of a live run; a dump's is its newest time.
    pub async fn observe(&self, target: Option<&Target>, now: Timestamp) -> Result<Observation, Failure> {
        self.observe_with(target, now, false).await
    }

    /// And who else writes the workload: for what ends in a write, or speaks of one.
    pub async fn observe_owned(&self, target: Option<&Target>, now: Timestamp) -> Result<Observation, Failure> {
        self.observe_with(target, now, true).await
    }

    async fn observe_with(&self, target: Option<&Target>, now: Timestamp, owned: bool) -> Result<Observation, Failure> {
        let (workload, first_config_maps, first_secrets) =
            tokio::join!(self.workload(target), self.probe(Resource::ConfigMaps), self.probe(Resource::Secrets));
        let workload = workload?;
        let selector = selector(&workload);
        let (replica_sets, pods, events, records, owners) = tokio::join!(
            self.list(Resource::ReplicaSets, Select::Labels(&selector)),
            self.list(Resource::Pods, Select::All),
            self.list(Resource::Events, PODS),
            self.list(Resource::ConfigMaps, RECORDS),
            async { if owned { owners::of(self, &workload).await } else { Owners::default() } }
        );
        let replica_sets = replica_sets?;
        let mut history = history::read(&workload, &replica_sets.items);
        let mut records = records.map(|list| Records::of(&list.items));
        if let Ok(records) = &mut records {
            records.match_to(&workload, &mut history);
        }
        let numbers =
            [&pods, &events].map(|list| list.as_ref().ok().filter(|l| numbers_are_sound(l.version, &l.items)));
        let between = [
            numbers[0].and_then(|l| l.version),
            replica_sets.version.filter(|_| numbers_are_sound(replica_sets.version, &replica_sets.items)),
            numbers[1].and_then(|l| l.version),
        ];
        let words = |error: ReadError| error.to_string();
        let mut seen = Observed {
            now,
            server: self.server.clone(),
            context: self.context.clone(),
            replica_sets: replica_sets.items,
            pods: pods.map(|l| l.items).map_err(words),
            events: events.map(|l| l.items).map_err(words),
            objects: BTreeMap::new(),
            list_number: None,
            config_maps: Domain::default(),
            secrets: Domain::default(),
            past: BTreeMap::new(),
            records: records.map_err(words),
            snapshots: BTreeMap::new(),
            pod_births: BTreeMap::new(),
            workload,
        };
        let (last, snapshots) = tokio::join!(self.read_contents(&history, &seen), self.read_snapshots(&seen));
        let (last, objects) = last;
        seen.objects = objects;
        seen.snapshots = snapshots;
        seen.list_number = last.config_maps.map(|(lowest, _)| lowest);
        seen.config_maps = Domain::check(first_config_maps, between, seen.list_number);
        seen.secrets = Domain::check(first_secrets, between, last.secrets.map(|(lowest, _)| lowest));
        let judged = match &self.source {
            Source::Live(cluster) => {
                self.check_around(&mut seen, [first_config_maps, first_secrets], between, &last).await;
                travel::look_back(cluster, &self.namespace, &mut seen, &history).await
            }
            Source::Dump(dump) => {
                self.look_into_dump(dump, &mut seen);
                plan::judge(&seen, &history)
            }
        };
        Ok(Observation { seen, history, judged, owners })
    }

    /// Where the first probe was refused (RBAC by resourceNames), one more step of lists closes the check from the
    /// other side.
    async fn check_around(
        &self,
        seen: &mut Observed,
        first: [Option<u64>; 2],
        before: [Option<u64>; 3],
        contents: &LastNumbers,
    ) {
        let needed =
            [first[0].is_none() && contents.config_maps.is_some(), first[1].is_none() && contents.secrets.is_some()];
        if needed == [false, false] {
            return;
        }
        let (pods, replica_sets, events) =
            tokio::join!(self.probe(Resource::Pods), self.probe(Resource::ReplicaSets), self.probe(Resource::Events));
        let after = [pods, replica_sets, events];
        if needed[0] {
            seen.config_maps = Domain::check_around(before, contents.config_maps, after);
        }
        if needed[1] {
            seen.secrets = Domain::check_around(before, contents.secrets, after);
        }
    }

    /// Contents are read by LIST with a name selector: for the list's number, and for RBAC by resourceNames.
    async fn read_contents(&self, history: &History, seen: &Observed) -> (LastNumbers, BTreeMap<Key, Lookup>) {
        let keys: Vec<Key> = named(seen, history).into_iter().collect();
        let mut objects = BTreeMap::new();
        let lists = join_all(keys.iter().map(|(kind, name)| self.list(contents(*kind), Select::Name(name)))).await;
        let mut last = LastNumbers::default();
        let mut unsound = BTreeSet::new();
        for ((kind, name), list) in keys.into_iter().zip(lists) {
            let lookup = match list {
                Ok(list) => {
                    let number = list.version.filter(|_| numbers_are_sound(list.version, &list.items));
                    let slot = match kind {
                        Kind::ConfigMap => &mut last.config_maps,
                        Kind::Secret => &mut last.secrets,
                    };
                    // One unsound list is enough to turn its type off.
                    *slot = match (*slot, number) {
                        (Some((low, high)), Some(n)) => Some((n.min(low), n.max(high))),
                        (None, Some(n)) if !unsound.contains(&kind) => Some((n, n)),
                        _ => {
                            unsound.insert(kind);
                            None
                        }
                    };
                    match (list.items.into_iter().next(), &self.source) {
                        (Some(object), _) => Lookup::Found(object),
                        (None, Source::Live(_)) => Lookup::Absent,
                        // Files may simply not hold it: that is no proof of absence.
                        (None, Source::Dump(_)) => {
                            Lookup::Unreadable(format!("{}/{name} is not in the files", kind.word()))
                        }
                    }
                }
                Err(error) => Lookup::Unreadable(error.to_string()),
            };
            objects.insert((kind, name), lookup);
        }
        (last, objects)
    }

    /// The snapshots that records of this workload name. One that is gone or may not be read is no candidate.
    async fn read_snapshots(&self, seen: &Observed) -> BTreeMap<String, Vec<Object>> {
        let wanted = seen.records.as_ref().map_or_else(|_| Vec::new(), Records::snapshots);
        let lists = join_all(wanted.iter().map(|(_, name)| self.list(Resource::ConfigMaps, Select::Name(name)))).await;
        let mut snapshots: BTreeMap<String, Vec<Object>> = BTreeMap::new();
        for ((source, _), list) in wanted.into_iter().zip(lists) {
            snapshots.entry(source).or_default().extend(list.unwrap_or_default().items);
        }
        snapshots
    }

    /// A dump holds no history of its own, but older copies: of a recorded API list the number tells until when the
    /// object had that version. And its lists, in the order of the documents, allow the domain check.
    fn look_into_dump(&self, dump: &Dump, seen: &mut Observed) {
        if let Some(newest) = dump.newest_time() {
            seen.now = newest;
        }
        let lists = dump.lists(Resource::ConfigMaps);
        let sandwiched = |resource: Resource, items: &[Object]| {
            dump.lists(resource).iter().any(|(at, number)| {
                numbers_are_sound(Some(*number), items)
                    && lists.iter().any(|(i, a)| i < at && a <= number)
                    && lists.iter().any(|(k, c)| k > at && c >= number)
            })
        };
        seen.config_maps = Domain {
            pods: sandwiched(Resource::Pods, seen.all_pods()),
            replica_sets: sandwiched(Resource::ReplicaSets, &seen.replica_sets),
            events: sandwiched(Resource::Events, seen.all_events()),
        };
        let names: Vec<String> =
            seen.objects.keys().filter(|(kind, _)| *kind == Kind::ConfigMap).map(|(_, name)| name.clone()).collect();
        for name in names {
            let key = (Kind::ConfigMap, name);
            let live = match seen.objects.get(&key) {
                Some(Lookup::Found(object)) => Some(object.clone()),
                _ => None,
            };
            let mut versions: Vec<Version> = dump
                .older(Resource::ConfigMaps, &self.namespace, &key.1)
                .into_iter()
                .map(|older| {
                    let until = older.held_until.map(|held| held + 1);
                    let ended = live.as_ref().filter(|o| o.version() == until && until.is_some());
                    Version {
                        until,
                        until_time: ended.and_then(evidence::write_sign).map(|(time, _)| time),
                        origin: Origin::Dump,
                        object: older.object,
                    }
                })
                .collect();
            versions.sort_by_key(|v| std::cmp::Reverse(v.object.version()));
            let end = if versions.is_empty() { PastEnd::NotLooked } else { PastEnd::Enough };
            seen.past.insert(key, Past { versions, end });
        }
    }
}

/// Lowest and highest number of the lists that the contents came with.
#[derive(Default)]
struct LastNumbers {
    config_maps: Option<(u64, u64)>,
    secrets: Option<(u64, u64)>,
}

/// Is at least one kind readable? Otherwise the first refusal is the answer, not "not found".
fn one_kind_readable<T>(answers: &[Result<T, ReadError>]) -> Result<(), Failure> {
    match answers.iter().find_map(|a| a.as_ref().err()) {
        Some(error) if answers.iter().all(Result::is_err) || !matches!(error, ReadError::Forbidden { .. }) => {
            Err(error.clone().into())
        }
        _ => Ok(()),
    }
}

/// Every object that a revision names, and every one that its Pods got at admission.
fn named(seen: &Observed, history: &History) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    for revision in &history.revisions {
        let template = references::extract(&revision.template);
        let witnesses = evidence::witnesses(revision, seen.all_pods());
        let injected = evidence::injected(&template, &witnesses);
        keys.extend(template.references.iter().chain(&injected).map(|r| (r.kind, r.name.clone())));
    }
    keys
}

/// `spec.selector` as a label selector in kubectl's spelling.
pub(super) fn selector(workload: &Object) -> String {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or("").to_string();
    let labels = workload.0.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let mut parts: Vec<String> =
        labels.into_iter().flatten().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    for expression in workload.items_at("/spec/selector/matchExpressions") {
        let key = text(expression, "key");
        let values = expression.get("values").and_then(Value::as_array);
        let values: Vec<&str> = values.into_iter().flatten().filter_map(Value::as_str).collect();
        parts.push(match text(expression, "operator").as_str() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key,
            _ => format!("!{key}"),
        });
    }
    parts.join(",")
}

fn kinds(dump: &Dump) -> String {
    let kinds: Vec<String> = dump.kinds().into_iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    if kinds.is_empty() { "nothing".into() } else { kinds.join(", ") }
}
