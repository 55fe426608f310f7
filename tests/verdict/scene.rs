//! Objects as a real API server shows them, to be changed one field at a time.
//!
//! Times are seconds after [`BASE`]. [`Scene::calm`] is the quiet case in which everything is proven; each test changes
//! what it is about. Numbers of a Pod: created at `n`, bound at `n + 10`, own number `n + 40`.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use saferollback::core::history::{self, History};
use saferollback::core::object::Object;
use saferollback::core::observed::{Domain, Lookup, Observed, Origin, Past, PastEnd, Version};
use saferollback::core::plan::{self, Judged, Plan};
use saferollback::core::policy::Rules;
use saferollback::core::record::Records;
use saferollback::core::recording;
use saferollback::core::references::Kind;
use saferollback::core::verdict::{Judgement, Verdict};
use serde_json::{Map, Value, json};

const BASE: &str = "2026-11-29T12:00:00Z";

/// The API server's spelling: whole seconds, UTC.
pub fn stamp(seconds: i64) -> String {
    time(seconds).to_string()
}

pub fn time(seconds: i64) -> Timestamp {
    let base: Timestamp = BASE.parse().unwrap();
    base + SignedDuration::from_secs(seconds)
}

/// Sets a member, with every object on the way to it; `null` stays as a member.
pub fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        at = match at {
            Value::Array(items) => &mut items[token.parse::<usize>().unwrap()],
            _ => {
                if !at.is_object() {
                    *at = json!({});
                }
                at.as_object_mut().unwrap().entry(token).or_insert(Value::Null)
            }
        };
    }
    *at = value;
}

pub fn without(object: &mut Value, pointer: &str) {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    if let Some(map) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        map.shift_remove(&last.replace("~1", "/"));
    }
}

/// A change to an object, and what to call it.
pub type Change = (&'static str, fn(&mut Value));

// ---- templates -------------------------------------------------------------------------------------------------

/// A template whose container `app` has these members besides name and image.
pub fn template(image: &str, app: Value) -> Value {
    let mut container = json!({"name": "app", "image": image});
    container.as_object_mut().unwrap().extend(app.as_object().unwrap().clone());
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [container], "restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}
    })
}

/// `envFrom: settings`.
pub fn env_from() -> Value {
    template("web:1", json!({"envFrom": [{"configMapRef": {"name": "settings"}}]}))
}

/// One key of `settings` as an environment variable.
pub fn key_ref(key: &str) -> Value {
    template("web:1", json!({"env": [key_env("settings", key)]}))
}

pub fn key_env(name: &str, key: &str) -> Value {
    json!({"name": key, "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}})
}

fn with_volume(mut template: Value) -> Value {
    set(&mut template, "/spec/volumes", json!([{"name": "config", "configMap": {"name": "settings"}}]));
    template
}

/// A whole volume, refreshed in place.
pub fn volume() -> Value {
    with_volume(template("web:1", json!({"volumeMounts": [{"name": "config", "mountPath": "/etc/app"}]})))
}

/// One key behind a subPath.
pub fn sub_path(key: &str) -> Value {
    let mount = json!({"name": "config", "mountPath": "/etc/app.conf", "subPath": key});
    with_volume(template("web:1", json!({"volumeMounts": [mount]})))
}

/// A volume that nobody mounts.
pub fn unmounted() -> Value {
    with_volume(template("web:1", json!({})))
}

/// The same beside a container's environment from the object.
pub fn unmounted_beside_an_environment() -> Value {
    with_volume(env_from())
}

/// Only the init container reads `settings`.
pub fn init_env() -> Value {
    let mut template = template("web:1", json!({}));
    let init = json!({"name": "migrate", "image": "web:1", "envFrom": [{"configMapRef": {"name": "settings"}}]});
    set(&mut template, "/spec/initContainers", json!([init]));
    template
}

/// Two containers, each with the environment of `settings`.
pub fn two_containers() -> Value {
    let mut template = env_from();
    let side = json!({"name": "side", "image": "side:1", "envFrom": [{"configMapRef": {"name": "settings"}}]});
    template.pointer_mut("/spec/containers").unwrap().as_array_mut().unwrap().push(side);
    template
}

/// The same template with another image: another revision.
pub fn image(mut template: Value, image: &str) -> Value {
    set(&mut template, "/spec/containers/0/image", json!(image));
    template
}

// ---- objects ---------------------------------------------------------------------------------------------------

pub fn managed(manager: &str, seconds: i64, fields: Value) -> Value {
    json!({
        "manager": manager, "operation": "Update", "apiVersion": "v1", "time": stamp(seconds),
        "fieldsType": "FieldsV1", "fieldsV1": fields
    })
}

fn owned_keys(data: &Map<String, Value>) -> Value {
    let keys: Map<String, Value> = std::iter::once((".".to_string(), json!({})))
        .chain(data.keys().map(|k| (format!("f:{k}"), json!({}))))
        .collect();
    json!({ "f:data": keys })
}

/// Created by one write, and not written since.
pub fn config_map(name: &str, data: Value, version: u64, created: i64) -> Value {
    let fields = owned_keys(data.as_object().unwrap());
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "creationTimestamp": stamp(created), "managedFields": [managed("kubectl-create", created, fields)]
        },
        "data": data
    })
}

pub fn rs_name(number: u64) -> String {
    format!("web-5d59d6756{number}")
}

pub fn rs_uid(number: u64) -> String {
    format!("uid-rs-{number}")
}

pub fn replica_set(number: u64, template: &Value, version: u64, created: i64, replicas: u64) -> Value {
    let name = rs_name(number);
    let mut template = template.clone();
    set(&mut template, "/metadata/labels/pod-template-hash", json!(name.strip_prefix("web-").unwrap()));
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": name, "namespace": "shop", "uid": rs_uid(number), "resourceVersion": version.to_string(),
            "generation": 1, "creationTimestamp": stamp(created),
            "labels": template["metadata"]["labels"],
            "annotations": {
                "deployment.kubernetes.io/desired-replicas": "2", "deployment.kubernetes.io/max-replicas": "3",
                "deployment.kubernetes.io/revision": number.to_string()
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web",
                "controller": true, "blockOwnerDeletion": true
            }],
            "managedFields": [managed("kube-controller-manager", created, json!({
                "f:metadata": {"f:annotations": {}}, "f:spec": {"f:replicas": {}, "f:selector": {}, "f:template": {}}
            }))]
        },
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        "status": {"replicas": replicas, "readyReplicas": replicas, "observedGeneration": 1}
    })
}

pub fn pod_name(number: u64, suffix: &str) -> String {
    format!("{}-{suffix}", rs_name(number))
}

/// A running, ready Pod of the ReplicaSet, started two seconds after its creation.
pub fn pod(set: &Value, suffix: &str, version: u64, created: i64) -> Value {
    let text = |pointer: &str| set.pointer(pointer).and_then(Value::as_str).unwrap().to_string();
    let name = format!("{}-{suffix}", text("/metadata/name"));
    let mut spec = set["spec"]["template"]["spec"].clone();
    spec["nodeName"] = json!("node-1");
    let token = json!({"name": "kube-api-access-x7x7x", "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}
    ]}});
    match spec.get_mut("volumes").and_then(Value::as_array_mut) {
        Some(volumes) => volumes.push(token),
        None => spec["volumes"] = json!([token]),
    }
    let shown = spec.clone();
    let status = |field: &str, state: Value| -> Vec<Value> {
        let containers = shown.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
        let one = |c: Value| json!({"name": c["name"], "ready": true, "restartCount": 0, "state": state.clone()});
        containers.into_iter().map(one).collect()
    };
    for field in ["containers", "initContainers"] {
        for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            let mount = json!({"name": "kube-api-access-x7x7x", "readOnly": true,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"});
            match container.get_mut("volumeMounts").and_then(Value::as_array_mut) {
                Some(mounts) => mounts.push(mount),
                None => container["volumeMounts"] = json!([mount]),
            }
        }
    }
    let started = stamp(created + 2);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "generateName": format!("{}-", text("/metadata/name")), "namespace": "shop",
            "uid": format!("uid-{name}"), "resourceVersion": (version + 40).to_string(),
            "creationTimestamp": stamp(created), "labels": set["spec"]["template"]["metadata"]["labels"],
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": text("/metadata/name"),
                "uid": text("/metadata/uid"), "controller": true, "blockOwnerDeletion": true
            }],
            "managedFields": [
                managed("kube-controller-manager", created, json!({"f:spec": {}})),
                managed("kubelet", created + 3, json!({"f:status": {}}))
            ]
        },
        "spec": spec,
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(created)},
                {"type": "Ready", "status": "True", "lastTransitionTime": stamp(created + 3)}
            ],
            "initContainerStatuses": status("initContainers",
                json!({"terminated": {"startedAt": started, "finishedAt": started, "exitCode": 0}})),
            "containerStatuses": status("containers", json!({"running": {"startedAt": started}}))
        }
    })
}

/// `anchor`: `involvedObject.resourceVersion`; `own`: the Event's own number.
pub fn event(pod: &Value, reason: &str, field: Option<&str>, anchor: u64, own: u64, seconds: i64) -> Value {
    let name = pod["metadata"]["name"].as_str().unwrap();
    let mut involved = json!({
        "apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": name, "uid": pod["metadata"]["uid"],
        "resourceVersion": anchor.to_string()
    });
    if let Some(field) = field {
        involved["fieldPath"] = json!(field);
    }
    let scheduled = reason == "Scheduled";
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {
            "name": format!("{name}.{own:x}"), "namespace": "shop", "uid": format!("uid-event-{own}"),
            "resourceVersion": own.to_string(), "creationTimestamp": stamp(seconds)
        },
        "involvedObject": involved, "reason": reason, "type": "Normal",
        "eventTime": if scheduled { json!(format!("{}.123456Z", stamp(seconds).trim_end_matches('Z'))) } else { Value::Null },
        "firstTimestamp": if scheduled { Value::Null } else { json!(stamp(seconds)) },
        "lastTimestamp": if scheduled { Value::Null } else { json!(stamp(seconds)) },
        "count": if scheduled { Value::Null } else { json!(1) }
    })
}

/// The four Events of a start of `app`: Scheduled on the created version, the others on the bound one.
pub fn start_events(pod: &Value, version: u64, created: i64) -> Vec<Value> {
    let field = Some("spec.containers{app}");
    vec![
        event(pod, "Scheduled", None, version, version + 12, created),
        event(pod, "Pulled", field, version + 10, version + 20, created + 1),
        event(pod, "Created", field, version + 10, version + 21, created + 2),
        event(pod, "Started", field, version + 10, version + 22, created + 2),
    ]
}

// ---- the scene -------------------------------------------------------------------------------------------------

#[derive(Clone)]
pub struct Scene {
    pub workload: Value,
    pub sets: Vec<Value>,
    pub pods: Vec<Value>,
    pub events: Vec<Value>,
    pub objects: Vec<Value>,
    /// Names of ConfigMaps that a read was refused for.
    pub unreadable: Vec<(String, String)>,
    pub past: BTreeMap<String, Vec<Version>>,
    pub births: BTreeMap<String, u64>,
    pub records: Vec<Value>,
    /// Contents of `settings` that snapshots hold.
    pub snapshots: Vec<Value>,
    pub domain: Domain,
    pub no_pods: bool,
    pub no_events: bool,
}

impl Scene {
    /// Deployment `web` at `template`; `replicas` 1.
    pub fn of(template: Value) -> Scene {
        let workload = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "uid-web", "resourceVersion": "900", "generation": 1,
                "creationTimestamp": stamp(0), "annotations": {"deployment.kubernetes.io/revision": "1"}
            },
            "spec": {
                "replicas": 1, "revisionHistoryLimit": 10, "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
                "template": template
            },
            "status": {"observedGeneration": 1}
        });
        Scene {
            workload,
            sets: Vec::new(),
            pods: Vec::new(),
            events: Vec::new(),
            objects: Vec::new(),
            unreadable: Vec::new(),
            past: BTreeMap::new(),
            births: BTreeMap::new(),
            records: Vec::new(),
            snapshots: Vec::new(),
            domain: Domain { pods: true, replica_sets: true, events: true },
            no_pods: false,
            no_events: false,
        }
    }

    /// One revision, one running Pod with all Events of its start, and `settings` written long before.
    pub fn calm(template: Value) -> Scene {
        let mut scene = Scene::of(template.clone());
        let rs = replica_set(1, &template, 260, 1000, 1);
        let pod = pod(&rs, "aaaaa", 200, 1000);
        scene.events = start_events(&pod, 200, 1000);
        scene.sets = vec![rs];
        scene.pods = vec![pod];
        scene.objects = vec![config_map("settings", json!({"A": "1", "B": "2"}), 100, 0)];
        scene
    }

    /// [`Scene::calm`], then a rollout to revision 2 at 2000 that left none of revision 1's Pods; `settings` unwritten.
    /// Revision 1's ReplicaSet was scaled to zero at number 560.
    pub fn retired(template: Value) -> Scene {
        let mut scene = Scene::calm(template.clone());
        scene.sets[0] = replica_set(1, &template, 560, 1000, 0);
        let next = image(template, "web:2");
        scene.workload["spec"]["template"] = next.clone();
        set(&mut scene.workload, "/metadata/annotations/deployment.kubernetes.io~1revision", json!("2"));
        let rs = replica_set(2, &next, 580, 2000, 1);
        let second = pod(&rs, "bbbbb", 500, 2000);
        scene.events.extend(start_events(&second, 500, 2000));
        scene.sets.push(rs);
        scene.pods = vec![second];
        scene
    }

    /// `settings` was written at number `version` and time `seconds`, and the write shows in managedFields.
    pub fn write(&mut self, data: Value, version: u64, seconds: i64) -> &mut Scene {
        let former = self.objects[0].clone();
        self.overwrite(data.clone(), version);
        let fields = owned_keys(data.as_object().unwrap());
        self.objects[0]["metadata"]["managedFields"].as_array_mut().unwrap().push(managed(
            "kubectl-edit",
            seconds,
            fields,
        ));
        // The version before, as time travel would show it; `past` is used only where a test asks for it.
        self.push_past(former, version, Some(seconds));
        self
    }

    /// The same without any trace but the number.
    pub fn overwrite(&mut self, data: Value, version: u64) -> &mut Scene {
        self.objects[0]["data"] = data;
        self.objects[0]["metadata"]["resourceVersion"] = json!(version.to_string());
        self
    }

    fn push_past(&mut self, former: Value, until: u64, seconds: Option<i64>) {
        let version = Version {
            object: Object(former),
            until: Some(until),
            until_time: seconds.map(time),
            origin: Origin::TimeTravel,
        };
        self.past.entry("settings".into()).or_default().insert(0, version);
    }

    pub fn no_past(&mut self) -> &mut Scene {
        self.past.clear();
        self
    }

    /// Deletes `settings` and creates it again.
    pub fn recreate(&mut self, data: Value, version: u64, created: i64) -> &mut Scene {
        let former = self.objects[0].clone();
        self.objects[0] = config_map("settings", data, version, created);
        self.objects[0]["metadata"]["uid"] = json!("uid-settings-again");
        self.push_past(former, version - 1, None);
        self
    }

    /// `settings` is immutable, and the entry that owns the flag is of this time.
    pub fn immutable(&mut self, seconds: i64) -> &mut Scene {
        self.objects[0]["immutable"] = json!(true);
        let entry = managed("kubectl-patch", seconds, json!({"f:immutable": {}}));
        self.objects[0]["metadata"]["managedFields"].as_array_mut().unwrap().push(entry);
        self
    }

    /// Keeps the Events that `keep` says.
    pub fn keep_events(&mut self, keep: impl Fn(&Value) -> bool) -> &mut Scene {
        self.events.retain(keep);
        self
    }

    pub fn only_events(&mut self, reasons: &[&str]) -> &mut Scene {
        self.keep_events(|e| reasons.contains(&e["reason"].as_str().unwrap()))
    }

    /// What `snapshot create` would record of the revision now, as the API server would show it.
    pub fn record(&mut self, revision: u64, seconds: i64) -> &mut Scene {
        let (seen, _) = self.observe();
        let recording = recording::of(&seen, &self.judged(revision));
        let mut record = recording.record.expect("something to record");
        recording::name_snapshots(&mut record, &recording.savings);
        let (_, mut body) = record.body("shop");
        set(&mut body, "/metadata/creationTimestamp", json!(stamp(seconds)));
        set(&mut body, "/metadata/uid", json!(format!("uid-record-{seconds}")));
        self.records.push(body);
        self.snapshots.extend(recording.savings.into_iter().map(|s| s.snapshot.body));
        self
    }

    pub fn observed(&self) -> Observed {
        self.observe().0
    }

    pub fn observe(&self) -> (Observed, History) {
        let objects = |values: &[Value]| values.iter().cloned().map(Object).collect::<Vec<_>>();
        let kind = |o: &Value| if o["kind"] == "Secret" { Kind::Secret } else { Kind::ConfigMap };
        let mut found: BTreeMap<_, _> = self
            .objects
            .iter()
            .map(|o| {
                let name = o["metadata"]["name"].as_str().unwrap().to_string();
                ((kind(o), name), Lookup::Found(Object(o.clone())))
            })
            .collect();
        for (name, words) in &self.unreadable {
            found.insert((Kind::ConfigMap, name.clone()), Lookup::Unreadable(words.clone()));
        }
        // What a template names and nobody has is absent.
        let templates = self.sets.iter().map(|s| &s["spec"]["template"]).chain(&self.pods);
        for r in templates.flat_map(|t| saferollback::core::references::extract(t).references) {
            found.entry((r.kind, r.name)).or_insert(Lookup::Absent);
        }
        let past = self.past.iter().map(|(name, versions)| {
            let past = Past { versions: versions.clone(), end: PastEnd::Expired };
            ((Kind::ConfigMap, name.clone()), past)
        });
        let workload = Object(self.workload.clone());
        let mut history = history::read(&workload, &objects(&self.sets));
        let mut records = Records::of(&objects(&self.records));
        records.match_to(&workload, &mut history);
        let named: Vec<String> = records.snapshots().into_iter().map(|(_, name)| name).collect();
        let mut snapshots = objects(&self.snapshots);
        snapshots.retain(|s| named.iter().any(|n| n == s.name()));
        let seen = Observed {
            records: Ok(records),
            snapshots: BTreeMap::from([("settings".to_string(), snapshots)]),
            now: time(86_400),
            server: "https://127.0.0.1:6443".into(),
            context: "shop".into(),
            workload,
            replica_sets: objects(&self.sets),
            pods: if self.no_pods { Err("pods is forbidden".into()) } else { Ok(objects(&self.pods)) },
            events: if self.no_events { Err("events is forbidden".into()) } else { Ok(objects(&self.events)) },
            objects: found,
            list_number: Some(1000),
            config_maps: self.domain,
            secrets: self.domain,
            past: past.collect(),
            pod_births: self.births.clone(),
        };
        (seen, history)
    }

    pub fn history(&self) -> History {
        self.observe().1
    }

    pub fn judged(&self, revision: u64) -> Judged {
        let (seen, history) = self.observe();
        plan::judge(&seen, &history).into_iter().find(|j| j.revision.number == revision).unwrap()
    }

    /// The judgement of the revision's only reference, or of `settings`.
    pub fn judgement(&self, revision: u64) -> Judgement {
        let judged = self.judged(revision);
        judged.references.into_iter().find(|j| j.reference.name == "settings" && !j.injected).unwrap()
    }

    pub fn verdict(&self, revision: u64) -> Verdict {
        self.judgement(revision).verdict
    }

    pub fn plan(&self, revision: u64, rules: &Rules) -> Plan {
        let (seen, history) = self.observe();
        plan::make(&seen, &history, self.judged(revision), rules)
    }
}
