//! A small world that plays an API server, a controller and kubelets, and remembers what each container truly read.
//!
//! One counter gives resourceVersions; stamps are cut to whole seconds; a kubelet reads the state of up to two seconds
//! ago (A2) and serves a deleted immutable namesake as long as a Pod names it. Left out is what ARCHITECTURE.md accepts:
//! a key removed without a trace less than two seconds before a Pod is created or a revision begins (the removal waits,
//! before and after), and cached namesakes that no Pod or revision in the API tells of (A1).

use std::collections::BTreeMap;

use proptest::prelude::*;
use saferollback::core::digest::Content;
use saferollback::core::object::Object;
use saferollback::core::observed::{Origin, Version};
use serde_json::{Value, json};

use super::scene::{Scene, event, image, key_env, managed, pod, pod_name, replica_set, set, stamp, template, time};

/// How revisions read `settings`: a revision's flavour is its number modulo this.
pub const FLAVOURS: usize = 5;

#[derive(Clone, Debug)]
pub enum Step {
    Wait(i64),
    /// Value `n` for key `A` or `B`, with its managedFields entry.
    Write(bool, u8),
    /// `B` to `A`: the same bytes may come back.
    RemoveWithoutTrace,
    /// A label comes: managedFields tell of it, or (added and removed) nothing does.
    TouchConfig(bool),
    Freeze,
    WipeManagedFields,
    Delete,
    Create {
        value: u8,
        frozen: bool,
    },
    /// A new revision with this flavour; its first Pod is created, the former's stay.
    Rollout(usize),
    RollBack(usize),
    ScaleUp,
    /// A quiet while, then a new Pod that comes up at once.
    Grow,
    /// The oldest Pods of former revisions go, and their ReplicaSets to zero.
    Retire,
    /// Only `spec.replicas` goes to zero; Pods and status follow later.
    HalfRetire,
    RemovePod(usize),
    /// Scheduling, start and report of a Pod are steps of their own, so that writes fall in between.
    Advance(usize),
    /// A status write between binding and start.
    TouchPod(usize),
    LabelReplicaSet(usize),
    Restart {
        pod: usize,
        container: usize,
        old_file: bool,
    },
    TouchEvent(usize),
    LoseEvent(usize),
    LoseOldEvents,
    /// A Pod of somebody else that names `settings` and stays.
    ForeignPod,
    /// How late the kubelet is from now on, and by how much the node's clock is off.
    Node {
        late: i64,
        skew: i64,
    },
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => prop_oneof![0..900i64, 900..4000i64, 4000..20_000i64, 60_000..400_000i64].prop_map(Step::Wait),
        4 => (any::<bool>(), 0..3u8).prop_map(|(b, v)| Step::Write(b, v)),
        1 => Just(Step::RemoveWithoutTrace),
        2 => any::<bool>().prop_map(Step::TouchConfig),
        1 => Just(Step::Freeze),
        1 => Just(Step::WipeManagedFields),
        1 => Just(Step::Delete),
        5 => Just(Step::Grow),
        3 => (0..3u8, any::<bool>()).prop_map(|(value, frozen)| Step::Create { value, frozen }),
        3 => (0..FLAVOURS).prop_map(Step::Rollout),
        1 => (0..4usize).prop_map(Step::RollBack),
        2 => Just(Step::ScaleUp),
        2 => Just(Step::Retire),
        1 => Just(Step::HalfRetire),
        1 => (0..4usize).prop_map(Step::RemovePod),
        10 => (0..4usize).prop_map(Step::Advance),
        1 => (0..4usize).prop_map(Step::TouchPod),
        1 => (0..4usize).prop_map(Step::LabelReplicaSet),
        2 => (0..4usize, 0..2usize, any::<bool>())
            .prop_map(|(pod, container, old_file)| Step::Restart { pod, container, old_file }),
        1 => (0..20usize).prop_map(Step::TouchEvent),
        1 => (0..20usize).prop_map(Step::LoseEvent),
        1 => Just(Step::LoseOldEvents),
        1 => Just(Step::ForeignPod),
        2 => (0..2001i64, -3000..3000i64).prop_map(|(late, skew)| Step::Node { late, skew }),
    ];
    proptest::collection::vec(step, 6..45)
}

/// What a container took in, by use: the flavour says which uses there are.
#[derive(Clone, Debug)]
pub struct Taken {
    pub container: &'static str,
    pub content: Content,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Created,
    Bound,
    /// The containers have read and run; the status does not say so yet.
    Started,
    Reported,
}

#[derive(Clone, Debug)]
struct PlayedPod {
    revision: usize,
    suffix: String,
    created: i64,
    birth: u64,
    bound: u64,
    version: u64,
    phase: Phase,
    /// Last read of each container.
    reads: Vec<Taken>,
    /// The first, for the file that a restart may find again.
    first: Option<Content>,
    started: Vec<i64>,
    restarts: Vec<u64>,
    reported: i64,
}

#[derive(Clone, Debug)]
struct PlayedSet {
    numbers: Vec<u64>,
    flavour: usize,
    index: u64,
    created: i64,
    version: u64,
    replicas: u64,
    status: u64,
    generation: u64,
    observed: u64,
    wrote: i64,
    /// Everything that any container of it ever read.
    life: Vec<Taken>,
}

#[derive(Clone, Debug)]
struct Config {
    uid: String,
    data: BTreeMap<String, String>,
    version: u64,
    created: i64,
    immutable: bool,
    managed: Vec<Value>,
}

impl Config {
    fn object(&self) -> Value {
        let mut object =
            super::scene::config_map("settings", json!(self.data), self.version, self.created.div_euclid(1000));
        object["metadata"]["uid"] = json!(self.uid);
        object["metadata"]["managedFields"] = json!(self.managed);
        if self.immutable {
            object["immutable"] = json!(true);
        }
        object
    }

    fn content(&self) -> Content {
        let data = self.data.iter().map(|(key, value)| (key.clone(), value.clone().into_bytes())).collect();
        Content { data, binary: BTreeMap::new() }
    }
}

pub struct World {
    now: i64,
    counter: u64,
    uids: u64,
    config: Option<Config>,
    /// Every state that `settings` had, from its moment on.
    log: Vec<(i64, u64, Option<Config>)>,
    sets: Vec<PlayedSet>,
    pods: Vec<PlayedPod>,
    events: Vec<Value>,
    foreign: Vec<Value>,
    /// A deleted immutable object that the node still serves.
    cache: Option<Config>,
    late: i64,
    skew: i64,
}

pub fn flavoured(flavour: usize, index: u64) -> Value {
    let image_name = format!("web:{index}");
    let from = json!([{"configMapRef": {"name": "settings"}}]);
    match flavour {
        0 => template(&image_name, json!({"env": [key_env("settings", "A")]})),
        1 => template(&image_name, json!({"envFrom": from})),
        2 => image(super::scene::sub_path("A"), &image_name),
        3 => image(super::scene::volume(), &image_name),
        _ => {
            let mut both = template(&image_name, json!({"env": [key_env("settings", "A")]}));
            let side = json!({"name": "side", "image": "side:1", "envFrom": from});
            both.pointer_mut("/spec/containers").unwrap().as_array_mut().unwrap().push(side);
            both
        }
    }
}

fn containers(flavour: usize) -> &'static [&'static str] {
    if flavour == 4 { &["app", "side"] } else { &["app"] }
}

impl World {
    pub fn play(steps: &[Step]) -> World {
        let mut world = World {
            now: 0,
            counter: 100,
            uids: 0,
            config: None,
            log: vec![(i64::MIN, 0, None)],
            sets: Vec::new(),
            pods: Vec::new(),
            events: Vec::new(),
            foreign: Vec::new(),
            cache: None,
            late: 0,
            skew: 0,
        };
        world.create(0, false);
        world.now += 15_300;
        world.rollout(usize::from(steps.len().is_multiple_of(2)));
        for step in steps {
            world.step(step);
        }
        world
    }

    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn second(&self) -> i64 {
        self.now.div_euclid(1000)
    }

    fn changed(&mut self) {
        if let Some(config) = &mut self.config {
            self.counter += 1;
            config.version = self.counter;
        }
        self.log.push((self.now, self.counter, self.config.clone()));
    }

    fn create(&mut self, value: u8, frozen: bool) {
        if self.config.is_some() {
            return;
        }
        self.uids += 1;
        let data: BTreeMap<String, String> =
            [("A".into(), value.to_string()), ("B".into(), "0".to_string())].into_iter().collect();
        let mut fields = json!({"f:data": {".": {}, "f:A": {}, "f:B": {}}});
        if frozen {
            fields["f:immutable"] = json!({});
        }
        self.config = Some(Config {
            uid: format!("uid-settings-{}", self.uids),
            data,
            version: 0,
            created: self.now,
            immutable: frozen,
            managed: vec![managed("kubectl-create", self.second(), fields)],
        });
        self.changed();
    }

    /// A write to the object with its managedFields entry; none where the object cannot be written.
    fn write(&mut self, fields: Value, manager: &str, change: impl FnOnce(&mut Config)) {
        let entry = managed(manager, self.second(), fields);
        let Some(config) = &mut self.config else { return };
        change(config);
        config.managed.retain(|e| e["manager"] != manager);
        config.managed.push(entry);
        self.changed();
    }

    fn writable(&self) -> bool {
        self.config.as_ref().is_some_and(|c| !c.immutable)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Wait(ms) => self.now += ms,
            Step::Write(b, value) => {
                let key = if b { "B" } else { "A" };
                let same = self.config.as_ref().is_none_or(|c| c.data.get(key) == Some(&value.to_string()));
                if self.writable() && !same {
                    let field = json!({"f:data": {format!("f:{key}"): {}}});
                    self.write(field, "kubectl-edit", |c| {
                        c.data.insert(key.into(), value.to_string());
                    });
                }
            }
            Step::RemoveWithoutTrace => {
                if self.writable() && self.config.as_ref().is_some_and(|c| c.data.contains_key("B")) {
                    self.now += 3000;
                    self.config.as_mut().unwrap().data.remove("B");
                    self.changed();
                    self.now += 3000;
                }
            }
            Step::TouchConfig(traced) => {
                if traced {
                    self.write(json!({"f:metadata": {"f:labels": {}}}), "kubectl-label", |_| {});
                } else if self.config.is_some() {
                    self.changed();
                    self.changed();
                }
            }
            Step::Freeze => {
                if self.writable() {
                    self.write(json!({"f:immutable": {}}), "kubectl-patch", |c| c.immutable = true);
                }
            }
            Step::WipeManagedFields => {
                if let Some(config) = &mut self.config {
                    config.managed.clear();
                    self.changed();
                }
            }
            Step::Delete => {
                let Some(config) = self.config.take() else { return };
                self.counter += 1;
                self.log.push((self.now, self.counter, None));
                let held = self.pods.iter().any(|p| matches!(p.phase, Phase::Started | Phase::Reported));
                if config.immutable && held {
                    self.cache = Some(config);
                }
            }
            Step::Create { value, frozen } => self.create(value, frozen),
            Step::Rollout(flavour) => self.rollout(flavour),
            Step::RollBack(i) => self.roll_back(i),
            Step::ScaleUp => {
                if let Some(i) = self.current() {
                    self.start_pod(i);
                }
            }
            Step::Grow => {
                if let Some(i) = self.current() {
                    self.now += 12_000;
                    self.start_pod(i);
                    for _ in 0..3 {
                        self.now += 400;
                        self.advance(self.pods.len() - 1);
                    }
                }
            }
            Step::Retire => self.retire(),
            Step::HalfRetire => {
                let current = self.current();
                for i in (0..self.sets.len()).filter(|i| Some(*i) != current) {
                    if self.sets[i].replicas > 0 {
                        self.sets[i].replicas = 0;
                        self.sets[i].generation += 1;
                        self.sets[i].version = self.next();
                        self.sets[i].wrote = self.second();
                    }
                }
            }
            Step::RemovePod(i) => {
                if let Some(i) = self.pick(i) {
                    self.remove_pod(i);
                }
            }
            Step::Advance(i) => {
                let open: Vec<usize> =
                    (0..self.pods.len()).filter(|i| self.pods[*i].phase != Phase::Reported).collect();
                if let Some(i) = open.get(i % open.len().max(1)) {
                    self.advance(*i);
                }
            }
            Step::TouchPod(i) => {
                if let Some(i) = self.pick(i) {
                    self.pods[i].version = self.next();
                }
            }
            Step::LabelReplicaSet(i) => {
                let i = i % self.sets.len();
                self.sets[i].version = self.next();
            }
            Step::Restart { pod, container, old_file } => {
                if let Some(i) = self.pick(pod).filter(|i| self.pods[*i].phase == Phase::Reported) {
                    self.restart(i, container, old_file);
                }
            }
            Step::TouchEvent(i) => {
                if !self.events.is_empty() {
                    let own = self.next();
                    let i = i % self.events.len();
                    self.events[i]["metadata"]["resourceVersion"] = json!(own.to_string());
                }
            }
            Step::LoseEvent(i) => {
                if !self.events.is_empty() {
                    self.events.remove(i % self.events.len());
                }
            }
            Step::LoseOldEvents => {
                let limit = stamp(self.second() - 20);
                self.events.retain(|e| e["metadata"]["creationTimestamp"].as_str().unwrap() >= limit.as_str());
            }
            Step::ForeignPod => {
                let mut set = replica_set(9, &flavoured(1, 99), 1, self.second(), 1);
                set["metadata"]["name"] = json!("other-5d59d67569");
                set["metadata"]["uid"] = json!("uid-other");
                let version = self.next();
                let pod = pod(&set, &format!("f{:04}", self.foreign.len()), version, self.second());
                self.foreign.push(pod);
            }
            Step::Node { late, skew } => (self.late, self.skew) = (late, skew),
        }
    }

    fn pick(&self, i: usize) -> Option<usize> {
        (!self.pods.is_empty()).then(|| i % self.pods.len())
    }

    fn current(&self) -> Option<usize> {
        (0..self.sets.len()).max_by_key(|i| self.sets[*i].numbers.last().copied())
    }

    fn highest(&self) -> u64 {
        self.sets.iter().filter_map(|s| s.numbers.last().copied()).max().unwrap_or(0)
    }

    fn rollout(&mut self, flavour: usize) {
        if self.sets.len() >= 6 {
            return;
        }
        let set = PlayedSet {
            numbers: vec![self.highest() + 1],
            flavour,
            index: self.sets.len() as u64 + 1,
            created: self.now,
            version: self.next(),
            replicas: 0,
            status: 0,
            generation: 1,
            observed: 1,
            wrote: self.second(),
            life: Vec::new(),
        };
        self.sets.push(set);
        self.start_pod(self.sets.len() - 1);
    }

    fn roll_back(&mut self, i: usize) {
        let i = i % self.sets.len();
        if Some(i) != self.current() {
            let number = self.highest() + 1;
            self.sets[i].numbers.push(number);
            self.start_pod(i);
        }
    }

    fn start_pod(&mut self, revision: usize) {
        let set = &mut self.sets[revision];
        set.replicas += 1;
        set.generation += 1;
        set.wrote = self.now.div_euclid(1000);
        self.counter += 1;
        self.uids += 1;
        let birth = self.counter;
        self.pods.push(PlayedPod {
            revision,
            suffix: format!("p{:04}", self.uids),
            created: self.now,
            birth,
            bound: 0,
            version: birth,
            phase: Phase::Created,
            reads: Vec::new(),
            first: None,
            started: Vec::new(),
            restarts: Vec::new(),
            reported: 0,
        });
        self.report_set(revision);
    }

    /// The ReplicaSet's status catches up.
    fn report_set(&mut self, i: usize) {
        let alive = self.pods.iter().filter(|p| p.revision == i).count() as u64;
        let version = self.next();
        let set = &mut self.sets[i];
        (set.status, set.observed, set.version) = (alive, set.generation, version);
    }

    fn remove_pod(&mut self, i: usize) {
        let pod = self.pods.remove(i);
        self.next();
        let set = &mut self.sets[pod.revision];
        set.replicas = set.replicas.saturating_sub(1);
        set.generation += 1;
        self.report_set(pod.revision);
        self.forget();
    }

    fn forget(&mut self) {
        if !self.pods.iter().any(|p| matches!(p.phase, Phase::Started | Phase::Reported)) {
            self.cache = None;
        }
    }

    fn retire(&mut self) {
        let current = self.current();
        for i in (0..self.sets.len()).filter(|i| Some(*i) != current) {
            if self.sets[i].replicas > 0 || self.pods.iter().any(|p| p.revision == i) {
                self.sets[i].replicas = 0;
                self.sets[i].generation += 1;
                self.sets[i].wrote = self.second();
                self.pods.retain(|p| p.revision != i);
                self.report_set(i);
            }
        }
        self.forget();
    }

    /// What the kubelet takes for the object's content now: the state of `late` ago.
    fn kubelet_sees(&mut self) -> Option<Content> {
        let moment = self.now - self.late;
        let state = self.log.iter().rev().find(|(at, ..)| *at <= moment).and_then(|(.., c)| c.clone());
        self.cache.clone().or(state).map(|c| c.content())
    }

    fn advance(&mut self, i: usize) {
        let name = pod_name(self.sets[self.pods[i].revision].index, &self.pods[i].suffix);
        let involved = json!({"metadata": {"name": name, "uid": format!("uid-{name}")}});
        let flavour = self.sets[self.pods[i].revision].flavour;
        match self.pods[i].phase {
            Phase::Created => {
                let (anchor, bound) = (self.pods[i].version, self.next());
                let own = self.next();
                self.events.push(event(&involved, "Scheduled", None, anchor, own, self.second()));
                self.pods[i].bound = bound;
                self.pods[i].version = bound;
                self.pods[i].phase = Phase::Bound;
            }
            Phase::Bound => {
                let Some(content) = self.kubelet_sees() else { return };
                for container in containers(flavour) {
                    let field = format!("spec.containers{{{container}}}");
                    for reason in ["Pulled", "Created", "Started"] {
                        let own = self.next();
                        // The kubelet holds the version of the binding, or one that it has seen since.
                        let anchor = if own.is_multiple_of(2) { self.pods[i].bound } else { self.pods[i].version };
                        self.events.push(event(&involved, reason, Some(&field), anchor, own, self.second()));
                    }
                    let taken = Taken { container, content: content.clone() };
                    self.pods[i].reads.push(taken.clone());
                    self.pods[i].started.push(self.now + self.skew);
                    self.pods[i].restarts.push(0);
                    self.sets[self.pods[i].revision].life.push(taken);
                }
                self.pods[i].first = Some(content);
                self.pods[i].phase = Phase::Started;
            }
            Phase::Started => {
                self.pods[i].version = self.next();
                self.pods[i].reported = self.now;
                self.pods[i].phase = Phase::Reported;
            }
            Phase::Reported => {}
        }
    }

    fn restart(&mut self, i: usize, container: usize, old_file: bool) {
        let flavour = self.sets[self.pods[i].revision].flavour;
        let names = containers(flavour);
        let container = container % names.len();
        let Some(mut content) = self.kubelet_sees() else { return };
        // Behind a subPath the directory may still hold the old file.
        if flavour == 2 && old_file {
            content = self.pods[i].first.clone().unwrap();
        }
        let name = pod_name(self.sets[self.pods[i].revision].index, &self.pods[i].suffix);
        let involved = json!({"metadata": {"name": name, "uid": format!("uid-{name}")}});
        let field = format!("spec.containers{{{}}}", names[container]);
        let (anchor, own) = (self.pods[i].version, self.next());
        self.events.push(event(&involved, "Pulled", Some(&field), anchor, own, self.second()));
        let taken = Taken { container: names[container], content };
        self.sets[self.pods[i].revision].life.push(taken.clone());
        let version = self.next();
        let pod = &mut self.pods[i];
        pod.reads[container] = taken;
        pod.restarts[container] += 1;
        pod.started[container] = self.now + self.skew;
        pod.version = version;
        pod.reported = self.now;
    }

    pub fn live(&self) -> Option<Content> {
        self.config.as_ref().map(Config::content)
    }

    /// By revision number: what its surviving containers hold, or, where none reports, everything it ever read.
    pub fn truth(&self) -> BTreeMap<u64, Vec<Taken>> {
        let taken = |i: usize| {
            let set = &self.sets[i];
            let alive: Vec<&PlayedPod> =
                self.pods.iter().filter(|p| p.revision == i && p.phase == Phase::Reported).collect();
            if alive.is_empty() {
                return set.life.clone();
            }
            let mut taken: Vec<Taken> = alive.iter().flat_map(|p| p.reads.clone()).collect();
            if set.flavour == 3 {
                // The directory is refreshed: everything since the oldest start was there to be read.
                let since = alive.iter().map(|p| p.created).min().unwrap();
                let later = self.log.iter().filter(|(at, ..)| *at >= since);
                taken.extend(
                    later.filter_map(|(.., c)| Some(Taken { container: "app", content: c.as_ref()?.content() })),
                );
            }
            taken
        };
        (0..self.sets.len()).map(|i| (*self.sets[i].numbers.last().unwrap(), taken(i))).collect()
    }

    /// The objects as the API shows them. `reach`: how many numbers back time travel sees; `births`: for Pods too.
    pub fn scene(&self, reach: u64, births: bool) -> Scene {
        let current = self.current().unwrap();
        let set = &self.sets[current];
        let mut scene = Scene::of(flavoured(set.flavour, set.index));
        let number = set.numbers.last().unwrap().to_string();
        super::scene::set(
            &mut scene.workload,
            "/metadata/annotations/deployment.kubernetes.io~1revision",
            json!(number),
        );
        scene.sets = self.sets.iter().map(shown_set).collect();
        scene.pods = self.pods.iter().map(|p| shown_pod(p, &scene.sets[p.revision])).collect();
        scene.pods.extend(self.foreign.clone());
        scene.events = self.events.clone();
        scene.objects = self.config.iter().map(Config::object).collect();
        let oldest = self.counter.saturating_sub(reach);
        let mut versions: Vec<Version> = Vec::new();
        for pair in self.log.windows(2) {
            let ((.., state), (at, until, next)) = (&pair[0], &pair[1]);
            let Some(state) = state.as_ref().filter(|_| *until > oldest) else { continue };
            let traced = next.as_ref().is_some_and(|n| n.managed != state.managed);
            versions.insert(
                0,
                Version {
                    object: Object(state.object()),
                    until: Some(*until),
                    until_time: traced.then(|| time(at.div_euclid(1000))),
                    origin: Origin::TimeTravel,
                },
            );
        }
        scene.past.insert("settings".into(), versions);
        if births {
            let birth = |p: &PlayedPod| {
                let name = pod_name(self.sets[p.revision].index, &p.suffix);
                (format!("uid-{name}"), p.birth)
            };
            scene.births = self.pods.iter().map(birth).collect();
        }
        scene
    }
}

fn shown_set(played: &PlayedSet) -> Value {
    let (created, template) = (played.created.div_euclid(1000), flavoured(played.flavour, played.index));
    let mut object = replica_set(played.index, &template, played.version, created, played.replicas);
    let (last, former) = played.numbers.split_last().unwrap();
    let former: Vec<String> = former.iter().map(u64::to_string).collect();
    set(&mut object, "/metadata/annotations/deployment.kubernetes.io~1revision", json!(last.to_string()));
    if !former.is_empty() {
        let former = json!(former.join(","));
        set(&mut object, "/metadata/annotations/deployment.kubernetes.io~1revision-history", former);
    }
    object["metadata"]["generation"] = json!(played.generation);
    object["metadata"]["managedFields"][0]["time"] = json!(stamp(played.wrote));
    object["status"] = json!({"replicas": played.status, "observedGeneration": played.observed});
    object
}

fn shown_pod(played: &PlayedPod, set: &Value) -> Value {
    let mut object = pod(set, &played.suffix, 0, played.created.div_euclid(1000));
    object["metadata"]["resourceVersion"] = json!(played.version.to_string());
    if played.phase != Phase::Reported {
        object["status"] = json!({"phase": "Pending"});
        object["metadata"]["managedFields"].as_array_mut().unwrap().truncate(1);
        return object;
    }
    object["metadata"]["managedFields"][1]["time"] = json!(stamp(played.reported.div_euclid(1000)));
    object["status"]["conditions"][1]["lastTransitionTime"] = json!(stamp(played.reported.div_euclid(1000)));
    for (i, started) in played.started.iter().enumerate() {
        let status = &mut object["status"]["containerStatuses"][i];
        status["restartCount"] = json!(played.restarts[i]);
        status["state"] = json!({"running": {"startedAt": stamp(started.div_euclid(1000))}});
    }
    object
}
