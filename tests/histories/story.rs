//! One history: a namespace, what happens in it, and the truth about it.

use super::dice::{AGES, Dice, Eyes, PLANES, STEPS, Where};
use super::ledger::Ledger;
use super::pods::{Phase, Pod, Set};
use super::template::{self, Image};
use super::uses::{self, Bytes};
use super::world::World;
use crate::support::client::{DEPLOYMENTS, EVENTS, PODS, REPLICASETS};
use crate::support::control_plane::{Namespace, items};
use crate::support::product::Ran;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

pub struct Story<'a> {
    pub world: &'a World,
    pub space: Namespace,
    pub place: Where,
    pub eyes: Eyes,
    pub dice: Dice,
    pub ledger: Ledger,
    pub pods: BTreeMap<String, Pod>,
    pub sets: BTreeMap<String, Set>,
    /// Its steps and what came of them, for the reader of a failure.
    pub log: Vec<String>,
    pub found: Vec<String>,
    /// What the last report called the same: ReplicaSet and ConfigMap.
    pub claims: Vec<(String, String)>,
    /// Records that were held against the truth, and the reads that they state: ReplicaSet and ConfigMap.
    pub held: BTreeSet<String>,
    pub recorded: BTreeSet<(String, String)>,
    pub tally: super::tally::Tally,
    began: Instant,
    /// The ConfigMap that most of it is about.
    pub main: String,
    /// What each ConfigMap held at first.
    pub first: BTreeMap<String, Bytes>,
    pub templates: Vec<Value>,
    releases: usize,
    /// The number of the last list of Pods.
    looked: String,
    /// How late the kubelet is, and by how much its clock is off; `None`: it leaves `startedAt` out.
    pub late: SignedDuration,
    pub skew: Option<SignedDuration>,
    /// Events and the API's history are gone.
    pub old: bool,
}

impl<'a> Story<'a> {
    pub fn play(world: &'a World, seed: u64, index: u64, real: bool) -> Self {
        let mut dice = Dice::new(seed, index);
        let place = if real { Where::Node } else { dice.weighted(PLANES) };
        let space = world.plane(place).reconnect().namespace(&format!("h{index}"));
        // A quarter names its ConfigMap by its content, as kustomize and `kubectl create --append-hash` do.
        let main = if dice.chance(25) { world.content_name.clone() } else { "settings".to_owned() };
        let mut story = Story {
            world,
            space,
            place,
            eyes: Eyes::All,
            dice,
            ledger: Ledger::default(),
            pods: BTreeMap::new(),
            sets: BTreeMap::new(),
            log: Vec::new(),
            found: Vec::new(),
            claims: Vec::new(),
            held: BTreeSet::new(),
            recorded: BTreeSet::new(),
            tally: super::tally::Tally::default(),
            began: Instant::now(),
            main,
            first: BTreeMap::new(),
            templates: Vec::new(),
            releases: 0,
            looked: "0".to_owned(),
            late: SignedDuration::ZERO,
            skew: Some(SignedDuration::ZERO),
            old: false,
        };
        story.begin();
        for _ in 0..3 + story.dice.below(7) {
            let step = story.dice.weighted(STEPS);
            story.step(step);
            if story.dice.chance(60) {
                story.settle();
            }
            if story.dice.chance(15) {
                story.check();
            }
        }
        if story.place == Where::Compact && story.dice.chance(60) {
            story.grow_old();
        }
        story.check();
        if real {
            story.replace_one();
            story.finish();
        }
        story
    }

    pub fn note(&mut self, what: String) {
        let at = self.began.elapsed().as_millis();
        self.log.push(format!("{:>3}.{:03} {what}", at / 1000, at % 1000));
    }

    pub fn fail(&mut self, what: String) {
        self.note(format!("FALSE: {what}"));
        self.found.push(what);
    }

    pub fn image(&self) -> Image {
        if self.place == Where::Node { Image::Real } else { Image::Played }
    }

    pub fn sleep(&mut self, ms: u64) {
        thread::sleep(Duration::from_millis(ms));
    }

    // ------------------------------------------------------------ the beginning and the end

    fn begin(&mut self) {
        let age = self.dice.weighted(AGES);
        self.note(format!("{:?} {}, its ConfigMap {} is {age:?} ms old", self.place, self.space.name, self.main));
        let immutable = self.dice.chance(15);
        let first = bytes([("A", "0"), ("B", "0")]);
        if age.is_some() {
            self.create(&self.main.clone(), first.clone(), immutable);
        }
        self.create("flags", first.clone(), false);
        self.sleep(age.unwrap_or(0));
        let template = self.new_template();
        let replicas = 1 + self.dice.below(2);
        let web = template::deployment(&mut self.dice, "web", replicas, template);
        self.note(format!("deployment {}", web["spec"]));
        self.space.all(DEPLOYMENTS).create(&web).ok();
        if age.is_none() {
            self.turn(100);
            self.sleep(1200);
            self.turn(100);
            self.create(&self.main.clone(), first, immutable);
        }
        self.settle();
    }

    /// Takes the load off the node. Played Pods are none.
    fn finish(&mut self) {
        for kind in [DEPLOYMENTS, REPLICASETS] {
            self.space.all(kind).query("propagationPolicy", "Orphan").delete(&json!({})).result().ok();
        }
        self.space.all(PODS).delete(&json!({"gracePeriodSeconds": 0})).result().ok();
    }

    /// All Events are gone, and the API's history with them, as after an hour.
    fn grow_old(&mut self) {
        self.settle();
        self.space.all(EVENTS).delete(&json!({})).ok();
        self.space.plane.compact_history();
        self.old = true;
        self.note("an hour passes: no Events, no history".into());
    }

    pub fn new_template(&mut self) -> Value {
        self.releases += 1;
        let image = self.image();
        let mut template = match self.templates.last() {
            // Only the release differs: a change of code.
            Some(last) if self.dice.chance(35) => last.clone(),
            _ => template::template(&mut self.dice, "web", self.releases, &self.main, image),
        };
        template["metadata"]["annotations"]["release"] = json!(self.releases.to_string());
        self.templates.push(template.clone());
        template
    }

    // ------------------------------------------------------------ the product

    /// The product at work; the nodes go on meanwhile.
    pub fn product(&mut self, arguments: &[&str]) -> Ran {
        let file = || tempfile::tempfile().expect("a file");
        let (out, err) = (file(), file());
        let clone = |file: &File| Stdio::from(file.try_clone().expect("a file"));
        let mut command = self.space.product(arguments);
        if let Some(kubeconfig) = self.world.eyes(self.place, self.eyes) {
            command.env("KUBECONFIG", kubeconfig);
        }
        let mut child = command.stdout(clone(&out)).stderr(clone(&err)).spawn().expect("the binary runs");
        let waits = arguments[0] != "history";
        let status = loop {
            if waits {
                self.turn(100);
                thread::sleep(Duration::from_millis(60));
            } else {
                break child.wait().expect("a child");
            }
            if let Some(status) = child.try_wait().expect("a child") {
                break status;
            }
        };
        let text = |mut file: File| {
            use std::io::{Read, Seek};
            let mut text = String::new();
            file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("output is text");
            text
        };
        Ran { code: status.code().unwrap_or(-1), stdout: text(out), stderr: text(err) }
    }

    // ------------------------------------------------------------ time

    /// Lets controllers and nodes go on until nothing moves any more.
    pub fn settle(&mut self) {
        let (pause, end) = if self.place == Where::Node { (250, 12) } else { (70, 6) };
        let end = Instant::now() + Duration::from_secs(end);
        let mut quiet = 0;
        while (quiet < 3 || self.starting()) && Instant::now() < end {
            quiet = if self.turn(100) { 0 } else { quiet + 1 };
            thread::sleep(Duration::from_millis(pause / if quiet == 0 { 3 } else { 1 }));
        }
    }

    /// A real Pod takes its time in which nothing is to be seen; one that waits for a ConfigMap is not waited for.
    fn starting(&self) -> bool {
        let young = Timestamp::now() - SignedDuration::from_secs(6);
        self.place == Where::Node && self.pods.values().any(|pod| pod.phase < Phase::Reported && pod.created > young)
    }

    /// One look at the namespace: what came, what went, and a step forward for so many percent of the Pods. Did anything
    /// move?
    pub fn turn(&mut self, percent: usize) -> bool {
        let mut list = self.space.all(PODS);
        if percent > 0 {
            // From the server's cache: cheap, and not older than the last look.
            list = list.query("resourceVersion", &self.looked).query("resourceVersionMatch", "NotOlderThan");
        }
        let list = list.get().ok();
        self.looked = list["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned();
        let listed = items(list);
        let mut moved = self.went(&listed);
        for object in listed {
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            if !self.pods.contains_key(&uid) {
                self.born(&uid, &object, true);
                moved = true;
            }
            let owner = controller(&object).to_owned();
            let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            if let Some(pod) = self.pods.get_mut(&uid) {
                if pod.version != version {
                    (pod.version, pod.changed, moved) = (version, Timestamp::now(), true);
                }
                // Released by relabelling: what it reads from now on is no longer the revision's.
                let released = pod.testifies() && owner != pod.set;
                pod.owner = owner;
                if released && let Some(set) = self.sets.get_mut(&pod.set) {
                    set.life.extend(pod.reads_until_now(&self.ledger));
                }
            }
            moved |=
                if self.place == Where::Node { self.listen(&uid, &object) } else { self.act(&uid, object, percent) };
        }
        moved
    }

    pub fn born(&mut self, uid: &str, object: &Value, witness: bool) {
        let owner = controller(object).to_owned();
        if !owner.is_empty() && !self.sets.contains_key(&owner) && object["metadata"]["labels"]["app"] == "web" {
            let sets = self.sets_of_web();
            if let Some(set) = sets.iter().find(|set| set["metadata"]["uid"] == *owner) {
                self.set(&owner, set);
            }
        }
        let uses = uses::uses(&object["spec"]);
        for used in &uses {
            self.fetch(&used.config);
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.note(format!("    + {name}"));
        let pod = Pod {
            name,
            set: owner.clone(),
            owner,
            witness,
            created: created(object),
            uses,
            phase: Phase::Created,
            reads: Vec::new(),
            held: Value::Null,
            started: None,
            version: String::new(),
            changed: Timestamp::now(),
            restarts: BTreeMap::new(),
        };
        self.pods.insert(uid.to_owned(), pod);
    }

    fn went(&mut self, listed: &[Value]) -> bool {
        let here = |uid: &String| listed.iter().any(|object| object["metadata"]["uid"] == **uid);
        let gone: Vec<String> = self.pods.keys().filter(|uid| !here(uid)).cloned().collect();
        for uid in &gone {
            if let Some(pod) = self.pods.remove(uid) {
                self.log.push(format!("            - {}", pod.name));
                let late = pod.reads_until_now(&self.ledger);
                let silent = pod.phase == Phase::Bound && self.place == Where::Node;
                if let Some(set) = self.sets.get_mut(&pod.set).filter(|_| pod.testifies()) {
                    set.life.extend(late);
                    set.silent |= silent;
                }
            }
        }
        let pods = &self.pods;
        self.ledger.forget(|name| pods.values().any(|pod| pod.phase >= Phase::Bound && pod.names(name)));
        !gone.is_empty()
    }
}

pub fn bytes<const N: usize>(data: [(&str, &str); N]) -> Bytes {
    Bytes { data: data.map(|(key, text)| (key.to_owned(), text.to_owned())).into(), binary: BTreeMap::new() }
}

/// The server's stamp: whole seconds.
pub fn created(object: &Value) -> Timestamp {
    let text = object["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
    text.parse().expect("objects carry their creation")
}

fn controller(object: &Value) -> &str {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let owner = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
    owner.and_then(|owner| owner["uid"].as_str()).unwrap_or_default()
}
