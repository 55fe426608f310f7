//! What people do to ConfigMaps and workloads, one step at a time.

use super::dice::{Step, WAITS, Where};
use super::ledger::State;
use super::pods::{Phase, Pod, Set};
use super::story::{Story, bytes, created};
use super::template;
use super::uses::{self, Bytes};
use crate::support::client::{Answer, CONFIGMAPS, DEPLOYMENTS, EVENTS, PODS, REPLICASETS};
use jiff::{SignedDuration, Timestamp};
use saferollback::core::digest::Content;
use saferollback::core::object::Object;
use serde_json::{Value, json};

impl Story<'_> {
    // ------------------------------------------------------------ ConfigMaps

    fn state(object: &Value) -> State {
        let time = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).and_then(|t| t.parse().ok());
        let data = serde_json::from_value(object["data"].clone()).unwrap_or_default();
        let content = Content::from_object(&Object(object.clone()));
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
                self.first.entry(name.to_owned()).or_insert_with(|| state.bytes.clone());
                self.ledger.wrote(name, Some(state));
            }
            // An immutable object says no.
            Err(answer) => self.note(format!("  refused: {}", answer.body["message"])),
        }
    }

    pub fn create(&mut self, name: &str, bytes: Bytes, immutable: bool) {
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

    pub fn step(&mut self, step: Step) {
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
            self.enter_gap();
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
                let former = self.first.get(&name).cloned().unwrap_or_default();
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
                let first = self.first.get(&name).cloned().unwrap_or_default();
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
    fn enter_gap(&mut self) {
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
            Step::OurUndo => {
                self.undo();
                self.hold_records();
            }
            Step::Save => self.save(),
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
        // One that reads all that the template reads is as good a witness as any: admission only added to it.
        let of = set["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let wanted = self.set(&of, set).uses.clone();
        if let Some(pod) = self.pods.get_mut(&uid).filter(|_| step == Step::Rewrite) {
            pod.witness = wanted.iter().all(|used| pod.uses.contains(used));
            pod.set = of;
        }
        self.settle();
        let name = made["metadata"]["name"].as_str().unwrap_or_default();
        self.space.at(PODS, name).merge_patch(&json!({"metadata": {"labels": {"app": "web"}}})).result().ok();
        if self.dice.chance(50) {
            let replicas = set["spec"]["replicas"].as_u64().unwrap_or(0) as usize;
            self.scale(replicas + 1);
        }
    }
}
