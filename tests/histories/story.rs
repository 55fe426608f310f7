//! One history: a namespace, what happens in it, and the truth about it.

use super::dice::{AGES, Dice, Eyes, PLANES, STEPS, Step, WAITS, Where};
use super::ledger::{Ledger, State};
use super::pods::{Phase, Pod, Set};
use super::template::{self, Image};
use super::uses::{self, Bytes};
use super::world::World;
use crate::support::client::{Answer, CONFIGMAPS, DEPLOYMENTS, EVENTS, PODS, REPLICASETS};
use crate::support::control_plane::{Namespace, items};
use crate::support::product::Ran;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
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
    pub tally: super::tally::Tally,
    began: Instant,
    main: String,
    releases: usize,
    templates: Vec<Value>,
    former: BTreeMap<String, Vec<Bytes>>,
    pub late: SignedDuration,
    pub skew: Option<SignedDuration>,
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
            tally: super::tally::Tally::default(),
            began: Instant::now(),
            main,
            releases: 0,
            templates: Vec::new(),
            former: BTreeMap::new(),
            late: SignedDuration::ZERO,
            skew: Some(SignedDuration::ZERO),
            old: false,
        };
        story.begin();
        for _ in 0..4 + story.dice.below(8) {
            let step = story.dice.weighted(STEPS);
            story.step(step);
            if story.dice.chance(60) {
                story.settle();
            }
            if story.dice.chance(20) {
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

    fn image(&self) -> Image {
        if self.place == Where::Node { Image::Real } else { Image::Played }
    }

    fn sleep(&mut self, ms: u64) {
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

    fn new_template(&mut self) -> Value {
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

    // ------------------------------------------------------------ ConfigMaps

    fn state(object: &Value) -> State {
        let time = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).and_then(|t| t.parse().ok());
        let data = serde_json::from_value(object["data"].clone()).unwrap_or_default();
        let content =
            saferollback::core::digest::Content::from_object(&saferollback::core::object::Object(object.clone()));
        State {
            uid: object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            version: object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned(),
            created: time("/metadata/creationTimestamp").unwrap_or(Timestamp::UNIX_EPOCH),
            bytes: Bytes { data, binary: content.map(|c| c.binary).unwrap_or_default() },
            immutable: object["immutable"] == true,
        }
    }

    /// The server's answer to our own write: what we know of the object from then on.
    fn wrote(&mut self, name: &str, answer: Answer) {
        match answer.result() {
            Ok(object) => {
                let state = Self::state(&object);
                // The server takes a write that changes nothing for none.
                if self.ledger.live(name).is_some_and(|live| live.version == state.version) {
                    return;
                }
                self.note(format!("  {name} is {:?}{}", state.bytes, if state.immutable { ", immutable" } else { "" }));
                let known = self.former.entry(name.to_owned()).or_default();
                if !known.contains(&state.bytes) {
                    known.push(state.bytes.clone());
                }
                self.ledger.wrote(name, Some(state));
            }
            // An immutable object says no.
            Err(answer) => self.note(format!("  refused: {}", answer.body["message"])),
        }
    }

    fn create(&mut self, name: &str, bytes: Bytes, immutable: bool) {
        let mut body = json!({"metadata": {"name": name}, "data": bytes.data});
        if immutable {
            body["immutable"] = json!(true);
        }
        let answer = self.space.all(CONFIGMAPS).query("fieldManager", "kubectl-create").create(&body);
        self.wrote(name, answer);
    }

    fn delete(&mut self, name: &str) {
        if self.ledger.live(name).is_none() {
            return;
        }
        self.turn(60);
        let named = self.pods.values().any(|pod| pod.phase >= Phase::Bound && pod.names(name));
        self.space.at(CONFIGMAPS, name).delete(&json!({})).ok();
        self.ledger.deleted(name, named);
    }

    /// The snapshots that our own undo made: known once they are asked for.
    pub fn fetch(&mut self, name: &str) {
        if name.contains("-sr-") && !self.ledger.knows(name) {
            let answer = self.space.at(CONFIGMAPS, name).get();
            if answer.status == 200 {
                self.ledger.wrote(name, Some(Self::state(&answer.body)));
            }
        }
    }

    fn merge(&mut self, name: &str, manager: &str, body: Value) {
        let answer = self.space.at(CONFIGMAPS, name).query("fieldManager", manager).merge_patch(&body);
        self.wrote(name, answer);
    }

    // ------------------------------------------------------------ steps

    fn step(&mut self, step: Step) {
        self.note(format!("{step:?}"));
        let name = if self.dice.chance(85) { self.main.clone() } else { "flags".to_owned() };
        let live = self.ledger.live(&name).cloned();
        let value = self.dice.below(3).to_string();
        let gap = match step {
            Step::RemoveKey => 60,
            Step::Set | Step::PutBack | Step::Replace | Step::Delete | Step::RecreateEqual => 10,
            _ => 0,
        };
        let gap = self.late.is_zero() && self.dice.chance(gap);
        if gap {
            self.into_gap();
        }
        match step {
            Step::Wait => {
                let ms = self.dice.weighted(WAITS);
                self.sleep(ms);
            }
            Step::Turn => {
                self.turn(60);
            }
            Step::Late => {
                let late = if self.dice.chance(60) { self.dice.between(0, 1_900) } else { 0 };
                self.late = SignedDuration::from_millis(late as i64);
                let skew = self.dice.between(0, 6_000) as i64 - 3_000;
                self.skew = (!self.dice.chance(20)).then(|| SignedDuration::from_millis(skew));
                self.note(format!("  the kubelet is {late} ms late, its clock {:?} off", self.skew));
            }
            Step::Set if live.is_some() => {
                let key = if self.dice.chance(70) { "A" } else { "B" };
                self.merge(&name, "kubectl-edit", json!({"data": {key: value}}));
            }
            Step::PutBack if live.is_some() => {
                let former = self.former.get(&name).and_then(|known| known.first()).cloned().unwrap_or_default();
                self.replace(&name, &former, "kubectl-edit");
            }
            Step::AddKey if live.is_some() => self.merge(&name, "kubectl-patch", json!({"data": {"C": value}})),
            Step::RemoveKey if live.is_some() => self.remove_key(&name),
            Step::Label if live.is_some() => {
                self.merge(&name, "kubectl-label", json!({"metadata": {"labels": {"team": value}}}));
            }
            Step::LabelAndBack if live.is_some() => {
                for label in [json!("x"), Value::Null] {
                    self.merge(&name, "kubectl-label", json!({"metadata": {"labels": {"tier": label}}}));
                }
            }
            Step::Apply if live.is_some() => {
                let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"A": value, "B": "0"}});
                let answer = self.space.at(CONFIGMAPS, &name).apply("kubectl", &body);
                self.wrote(&name, answer);
            }
            Step::Replace if live.is_some() => {
                let new = bytes([("A", &value), ("B", "1")]);
                self.replace(&name, &new, "kubectl-replace");
            }
            Step::NoOp => {
                if let Some(live) = live {
                    self.merge(&name, "kubectl-edit", json!({"data": live.bytes.data}));
                }
            }
            Step::ToBinary if live.is_some() => {
                // The same file for a volume, no variable any more.
                self.merge(&name, "kubectl-patch", json!({"data": {"B": null}, "binaryData": {"B": "MA=="}}));
            }
            Step::WipeManagedFields if live.is_some() => {
                self.merge(&name, "kubectl-edit", json!({"metadata": {"managedFields": [{}]}}));
            }
            Step::Freeze if live.is_some() => self.merge(&name, "kubectl-patch", json!({"immutable": true})),
            Step::Delete => self.delete(&name),
            Step::RecreateEqual | Step::RecreateOther | Step::RecreateImmutable => {
                self.delete(&name);
                let pause = self.dice.weighted(&[(3, 0), (2, 1_100), (1, 3_200)]);
                self.sleep(pause);
                let first = self.former.get(&name).and_then(|known| known.first()).cloned().unwrap_or_default();
                let other = bytes([("A", &value), ("B", "0")]);
                let immutable = step == Step::RecreateImmutable || self.dice.chance(20);
                let equal = step == Step::RecreateEqual || (step == Step::RecreateImmutable && self.dice.chance(40));
                self.create(&name, if equal { first } else { other }, immutable);
            }
            Step::OtherWorkload => {
                let image = self.image();
                let mut template = template::template(&mut self.dice, "other", 0, &self.main, image);
                let from = json!([{"configMapRef": {"name": self.main}}]);
                template["spec"]["containers"][0]["envFrom"] = from;
                let other = template::deployment(&mut self.dice, "other", 1, template);
                self.space.all(DEPLOYMENTS).create(&other).result().ok();
            }
            Step::OtherWorkloadGoes => {
                self.space.at(DEPLOYMENTS, "other").delete(&json!({"propagationPolicy": "Background"})).result().ok();
            }
            Step::LoseEvents => {
                self.space.all(EVENTS).delete(&json!({})).ok();
            }
            Step::LoseAnEvent | Step::LabelEvent => {
                let events = self.space.items(EVENTS);
                if let Some(event) = self.dice.pick(&events) {
                    let at = self.space.at(EVENTS, event["metadata"]["name"].as_str().unwrap_or_default());
                    if step == Step::LoseAnEvent {
                        at.delete(&json!({})).result().ok();
                    } else {
                        at.merge_patch(&json!({"metadata": {"labels": {"seen": value}}})).result().ok();
                    }
                }
            }
            Step::Compact if self.place == Where::Compact => self.space.plane.compact_history(),
            _ => self.workload_step(step),
        }
        if gap {
            // Now it is tempting: a look before anything else happens.
            self.settle();
            self.check();
        }
    }

    fn replace(&mut self, name: &str, bytes: &Bytes, manager: &str) {
        let mut object = self.space.at(CONFIGMAPS, name).get().ok();
        object["data"] = json!(bytes.data);
        object.as_object_mut().expect("an object").remove("binaryData");
        let answer = self.space.at(CONFIGMAPS, name).query("fieldManager", manager).replace(&object);
        self.wrote(name, answer);
    }

    /// Goes on to the moment in which a container has read and nobody has heard of it yet.
    fn into_gap(&mut self) {
        if self.place == Where::Node {
            return;
        }
        if self.dice.chance(60) {
            self.note("  in the gap of the only Pod's start".into());
            self.scale(0);
            self.settle();
            self.scale(1);
        } else if let Some(name) = self.some_pod(|pod| pod.witness) {
            self.note(format!("  in the gap of the substitute of {name}"));
            self.space.at(PODS, &name).delete(&json!({})).result().ok();
        }
        for _ in 0..40 {
            self.turn(100);
            if self.pods.values().any(|pod| pod.witness && pod.phase == Phase::Started) {
                return;
            }
            self.sleep(20);
        }
    }

    /// Without a trace in managedFields. A late kubelet and no trace together are beyond every proof (A2), so there the
    /// removal stands alone.
    fn remove_key(&mut self, name: &str) {
        let bytes = self.ledger.live(name).map(|live| live.bytes.clone()).unwrap_or_default();
        let keys: Vec<&String> = bytes.data.keys().collect();
        let Some(key) = self.dice.pick(&keys) else { return };
        let patch = json!([{"op": "remove", "path": format!("/data/{key}")}]);
        let late = !self.late.is_zero() || self.place == Where::Node;
        if late {
            self.settle();
        }
        let answer = self.space.at(CONFIGMAPS, name).query("fieldManager", "kubectl-patch").json_patch(&patch);
        self.wrote(name, answer);
        if late {
            self.sleep(2_100);
        }
    }

    fn workload_step(&mut self, step: Step) {
        match step {
            Step::Rollout => {
                let template = match self.dice.pick(&self.templates.clone()) {
                    Some(former) if self.dice.chance(15) => former.clone(),
                    _ => self.new_template(),
                };
                self.note(format!("  {}", template["spec"]));
                let patch = json!([{"op": "replace", "path": "/spec/template", "value": template}]);
                self.space.at(DEPLOYMENTS, "web").json_patch(&patch).ok();
            }
            Step::Restart => {
                let now = Timestamp::now().to_string();
                let template = json!({"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": now}}});
                self.space.at(DEPLOYMENTS, "web").merge_patch(&json!({"spec": {"template": template}})).ok();
            }
            Step::KubectlUndo => {
                let done = self.space.kubectl(&["rollout", "undo", "deployment/web"]);
                self.note(format!("  {}", String::from_utf8_lossy(&done.stdout).trim()));
            }
            Step::OurUndo => self.undo(),
            Step::Scale => {
                let replicas = self.dice.below(4);
                self.scale(replicas);
            }
            Step::ToZeroAndBack => {
                self.scale(0);
                self.settle();
                let replicas = 1 + self.dice.below(2);
                self.scale(replicas);
            }
            Step::DeletePod => {
                if let Some(name) = self.some_pod(|_| true) {
                    self.note(format!("  {name}"));
                    self.space.at(PODS, &name).delete(&json!({})).result().ok();
                }
            }
            Step::Crash => {
                let running: Vec<String> = self
                    .pods
                    .iter()
                    .filter(|(_, pod)| pod.phase == Phase::Reported)
                    .map(|(uid, _)| uid.clone())
                    .collect();
                if let Some(uid) = self.dice.pick(&running).cloned() {
                    if self.place == Where::Node { self.crash_real(&uid) } else { self.crash_played(&uid) }
                }
            }
            Step::TouchPod => {
                if let Some(name) = self.some_pod(|_| true) {
                    let body = json!({"metadata": {"annotations": {"touched": Timestamp::now().to_string()}}});
                    self.space.at(PODS, &name).merge_patch(&body).result().ok();
                }
            }
            Step::Relabel | Step::RelabelBack => {
                let (wanted, app) = if step == Step::Relabel { ("web", "debug") } else { ("", "web") };
                if let Some(name) = self.some_pod(|pod| pod.owner.is_empty() == wanted.is_empty()) {
                    self.note(format!("  {name}"));
                    self.space
                        .at(PODS, &name)
                        .merge_patch(&json!({"metadata": {"labels": {"app": app}}}))
                        .result()
                        .ok();
                }
            }
            Step::Adopt | Step::Rewrite => self.foreign(step),
            Step::EditRetired | Step::LabelReplicaSet => {
                let retired = |set: &&Value| step == Step::LabelReplicaSet || set["spec"]["replicas"] == 0;
                let sets = self.sets_of_web();
                let sets: Vec<&Value> = sets.iter().filter(retired).collect();
                let Some(set) = self.dice.pick(&sets) else { return };
                let name = set["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                self.note(format!("  {name}"));
                let body = if step == Step::LabelReplicaSet {
                    json!({"metadata": {"labels": {"seen": Timestamp::now().as_millisecond().to_string()}}})
                } else {
                    json!({"spec": {"template": {"metadata": {"annotations": {"edited": "yes"}}}}})
                };
                let edited = self.space.at(REPLICASETS, &name).query("fieldManager", "kubectl-edit").merge_patch(&body);
                if step == Step::EditRetired && edited.status == 200 {
                    let uid = set["metadata"]["uid"].as_str().unwrap_or_default();
                    self.set(uid, set).edited = true;
                }
            }
            _ => self.note("  nothing to do it to".into()),
        }
    }

    fn scale(&mut self, replicas: usize) {
        let body = json!({"spec": {"replicas": replicas}});
        self.space.at(DEPLOYMENTS, "web").sub("scale").merge_patch(&body).ok();
    }

    fn some_pod(&mut self, which: impl Fn(&Pod) -> bool) -> Option<String> {
        let names: Vec<String> = self.pods.values().filter(|pod| which(pod)).map(|pod| pod.name.clone()).collect();
        self.dice.pick(&names).cloned()
    }

    pub fn sets_of_web(&self) -> Vec<Value> {
        let mut sets = self.space.items(REPLICASETS);
        sets.retain(|set| set["metadata"]["ownerReferences"][0]["name"] == "web");
        sets
    }

    /// What is known of a ReplicaSet, from its first sight on.
    pub fn set(&mut self, uid: &str, object: &Value) -> &mut Set {
        self.sets.entry(uid.to_owned()).or_insert_with(|| Set {
            uses: uses::uses(&object["spec"]["template"]["spec"]),
            created: created(object),
            life: Vec::new(),
            silent: false,
            edited: false,
        })
    }

    /// A Pod that the workload's controller did not make from the template: a bare one that it adopts, or one that bears
    /// all signs of it, as where admission rewrote what it names. Ready before it is adopted, and dear to the controller,
    /// else it would be the first to go.
    fn foreign(&mut self, step: Step) {
        let sets = self.sets_of_web();
        let Some(set) = sets.iter().find(|set| set["spec"]["replicas"].as_u64().unwrap_or(0) > 0) else { return };
        let image = self.image();
        let name = if self.dice.chance(50) { "flags".to_owned() } else { self.main.clone() };
        let mut body = template::template(&mut self.dice, "guest", 0, &name, image);
        let prefix = set["metadata"]["name"].as_str().filter(|_| step == Step::Rewrite).unwrap_or("bare");
        body["metadata"]["generateName"] = json!(format!("{prefix}-"));
        body["metadata"]["labels"]["pod-template-hash"] = set["metadata"]["labels"]["pod-template-hash"].clone();
        body["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"] = json!("1000");
        let made = self.space.all(PODS).create(&body).ok();
        let uid = made["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        self.born(&uid, &made, false);
        self.settle();
        let name = made["metadata"]["name"].as_str().unwrap_or_default();
        self.space.at(PODS, name).merge_patch(&json!({"metadata": {"labels": {"app": "web"}}})).result().ok();
        if self.dice.chance(50) {
            let replicas = set["spec"]["replicas"].as_u64().unwrap_or(0) as usize;
            self.scale(replicas + 1);
        }
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
        let waits = arguments[0] == "undo";
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
        while quiet < 3 && Instant::now() < end {
            quiet = if self.turn(100) { 0 } else { quiet + 1 };
            thread::sleep(Duration::from_millis(pause / if quiet == 0 { 3 } else { 1 }));
        }
    }

    /// One look at the namespace: what came, what went, and a step forward for so many percent of the Pods. Did anything
    /// move?
    pub fn turn(&mut self, percent: usize) -> bool {
        let mut list = self.space.all(PODS);
        if percent > 0 {
            // From the server's cache: a little late is good enough for a node, and cheap.
            list = list.query("resourceVersion", "0");
        }
        let listed = items(list.get().ok());
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
                pod.owner = owner;
            }
            moved |=
                if self.place == Where::Node { self.listen(&uid, &object) } else { self.act(&uid, object, percent) };
        }
        moved
    }

    fn born(&mut self, uid: &str, object: &Value, witness: bool) {
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
                if let Some(set) = self.sets.get_mut(&pod.set).filter(|_| pod.witness) {
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
