//! What is fed with bytes from anywhere. Each target must come back, whatever it gets: no panic, no hang.
//!
//! Two of them take the bytes as a file. The others take them as dice that change the recorded incident, because random
//! bytes are hardly ever an object. Shared with the coverage-guided runner, so only the library is used here.

use std::path::Path;

use saferollback::cluster::Cluster;
use saferollback::cluster::kubeconfig::{Connection, ConnectionFlags, Environment};
use saferollback::cluster::offline::Dump;
use saferollback::cluster::read::{Resource, Select};
use saferollback::core::history;
use saferollback::core::plan::Plan;
use saferollback::core::policy::{Config, Rules};
use saferollback::core::record;
use saferollback::core::recovery::Grade;
use saferollback::core::references;
use saferollback::core::report::Document;
use saferollback::core::substitute::Verify;
use saferollback::core::until::Until;
use saferollback::core::workload::{Kind, Target};
use saferollback::run::undo::{Asked, DryRun, OnFailure, Request};
use saferollback::run::{self, Failure, Phase, Scene, Source, Voice, Waiting};
use serde_json::{Map, Value, json};

pub const TARGETS: [(&str, fn(&[u8])); 5] = [
    ("dump", dump),
    ("kubeconfig", kubeconfig),
    ("annotations", annotations),
    ("objects", objects),
    ("records", records),
];

/// The recorded incident, a file each.
pub const INCIDENT: [&str; 7] = [
    include_str!("../incident/1-configmaps.json"),
    include_str!("../incident/2-deployments.json"),
    include_str!("../incident/3-replicasets.json"),
    include_str!("../incident/4-pods.json"),
    include_str!("../incident/5-events.json"),
    include_str!("../incident/6-configmaps.json"),
    include_str!("../incident/7-configmaps-before-the-edit.json"),
];

/// A kubeconfig with every field that is read.
pub const KUBECONFIG: &str = "apiVersion: v1
kind: Config
current-context: a
contexts:
- {name: a, context: {cluster: one, user: alice, namespace: shop}}
- {name: b, context: {cluster: two, user: bob}}
- {name: c, context: {cluster: two, user: eve}}
clusters:
- {name: one, cluster: {server: 'https://127.0.0.1:1/', tls-server-name: x, insecure-skip-tls-verify: false}}
- {name: two, cluster: {server: 'http://[::1]:1/a', certificate-authority-data: LS0tLS0K, proxy-url: 'http://x'}}
- {name: three, cluster: {server: 'https://x', extensions: [{name: client.authentication.k8s.io/exec, extension: {}}]}}
users:
- {name: alice, user: {token: t, username: u, password: p, as: v, as-groups: [g], as-user-extra: {k: [v]}}}
- {name: bob, user: {client-certificate-data: LS0t, client-key-data: LS0t}}
- {name: eve, user: {exec: {command: x, args: null, env: [{name: a, value: b}], apiVersion: client.authentication.k8s.io/v1,
  interactiveMode: Never, provideClusterInfo: true, installHint: y}}}
";

// ---------------------------------------------------------------- files

/// A file that is given as a dump, in either format.
pub fn dump(bytes: &[u8]) {
    for name in ["x.json", "x.yaml"] {
        let mut dump = Dump::default();
        if let Err(error) = dump.add(Path::new(name), bytes) {
            let _ = error.to_string();
            continue;
        }
        for resource in [Resource::Deployments, Resource::ConfigMaps, Resource::Secrets, Resource::Pods] {
            let _ = dump.list(resource, "", Select::All);
            let _ = dump.older(resource, "shop", "settings");
            let _ = dump.lists(resource);
        }
        let _ = (dump.kinds(), dump.newest_time(), dump.skipped().len());
        every_verb(dump);
    }
}

/// A kubeconfig, and the client that would be built from it. Nothing is sent.
pub fn kubeconfig(bytes: &[u8]) {
    let Ok(file) = tempfile::NamedTempFile::new() else { return };
    if std::fs::write(file.path(), bytes).is_err() {
        return;
    }
    let environment = Environment { kubeconfig: Some(file.path().as_os_str().to_owned()), ..Environment::default() };
    for context in [None, Some("b".to_string()), Some("c".to_string())] {
        let flags = ConnectionFlags { context, ..ConnectionFlags::default() };
        match Connection::load(&flags, &environment) {
            Ok(connection) => {
                let _ = format!("{connection:?}");
                let _ = block_on(Cluster::connect(&connection)).map_err(|error| error.to_string());
            }
            Err(error) => {
                let _ = error.to_string();
            }
        }
    }
}

// ---------------------------------------------------------------- dice

/// Decisions read from bytes; when they are used up, all are 0.
pub struct Dice<'a>(&'a [u8]);

impl<'a> Dice<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `sides`.
    fn below(&mut self, sides: usize) -> usize {
        let number = usize::from(self.byte()) * 65536 + usize::from(self.byte()) * 256 + usize::from(self.byte());
        number % sides.max(1)
    }

    fn text(&mut self) -> String {
        let length = self.below(24).min(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Values that a program may not expect where it finds them.
    fn odd(&mut self) -> Value {
        const NUMBERS: [&str; 10] = [
            "0",
            "-1",
            "1.5",
            "1e400",
            "-0",
            "9223372036854775807",
            "18446744073709551615",
            "18446744073709551616",
            "99999999999999999999999999",
            "1E-400",
        ];
        const TEXTS: [&str; 18] = [
            "",
            "0",
            "-1",
            "18446744073709551615",
            "18446744073709551616",
            "\u{1b}[2J",
            "a\nb",
            "\u{202e}x",
            "/",
            "..",
            "~1",
            "é",
            "2026-11-29T12:00:00Z",
            "9999-12-30T22:00:00Z",
            "-009999-01-01T00:00:00Z",
            "sr1:0123456789abcdef",
            "{\"from\":1,\"to\":2,\"template\":\"\"}",
            "settings-sr-0123456789abcdef",
        ];
        match self.below(9) {
            0 => Value::Null,
            1 => Value::Bool(self.byte().is_multiple_of(2)),
            2 => serde_json::from_str(NUMBERS[self.below(NUMBERS.len())]).unwrap_or_default(),
            3 | 4 => Value::String(TEXTS[self.below(TEXTS.len())].to_string()),
            5 => Value::String(self.text()),
            6 => json!([]),
            7 => json!({}),
            _ => Value::String(self.text().repeat(1 + self.below(100))),
        }
    }
}

/// The documents of the incident, in the order of its files.
pub fn documents() -> Vec<Value> {
    INCIDENT.iter().filter_map(|text| serde_json::from_str(text).ok()).collect()
}

/// Pointers of all values below, parents first.
fn pointers(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                pointers(member, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                pointers(item, format!("{at}/{i}"), found);
            }
        }
        _ => {}
    }
    found.push(at);
}

/// One to eight changes anywhere: odd values, lost and doubled members, pieces of elsewhere.
pub fn change(documents: &mut [Value], dice: &mut Dice<'_>) {
    for _ in 0..=dice.below(8) {
        let which = dice.below(documents.len());
        let mut all = Vec::new();
        pointers(&documents[which], String::new(), &mut all);
        let (pointer, other) = (all[dice.below(all.len())].clone(), all[dice.below(all.len())].clone());
        let piece = documents[which].pointer(&other).cloned().unwrap_or_default();
        let odd = dice.odd();
        let Some(place) = documents[which].pointer_mut(&pointer) else { continue };
        match (dice.below(6), place) {
            (0 | 1, place) => *place = odd,
            (2, place) => *place = piece,
            (3, Value::Object(members)) => {
                let key = members.keys().nth(dice.below(members.len())).cloned();
                key.and_then(|key| members.shift_remove(&key));
            }
            (3 | 4, Value::Array(items)) if !items.is_empty() => {
                let item = items[dice.below(items.len())].clone();
                items.push(item);
            }
            (4, Value::Object(members)) => {
                members.insert(dice.text(), odd);
            }
            (_, Value::String(text)) => {
                let at = dice.below(text.chars().count() + 1);
                let byte = text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
                let more = dice.text();
                text.insert_str(byte, &more);
            }
            (_, place) => *place = odd,
        }
        if dice.is_empty() {
            break;
        }
    }
}

/// The incident with changes anywhere.
pub fn objects(bytes: &[u8]) {
    let mut documents = documents();
    change(&mut documents, &mut Dice::new(bytes));
    for document in &documents {
        let _ = references::extract(document);
    }
    every_verb(loaded(&documents));
}

/// Keys of annotations that somebody reads: this program, or the tools that it knows.
const KEYS: [&str; 6] = [
    "deployment.kubernetes.io/revision",
    "deployment.kubernetes.io/revision-history",
    "kubernetes.io/change-cause",
    "kubectl.kubernetes.io/last-applied-configuration",
    "saferollback.dev/rolled-back",
    "saferollback.dev/touched",
];

/// The incident with changed annotations on workloads, ReplicaSets and ConfigMaps.
pub fn annotations(bytes: &[u8]) {
    let mut documents = documents();
    let mut dice = Dice::new(bytes);
    for _ in 0..=dice.below(6) {
        let which = [0, 1, 2, 2, 5][dice.below(5)];
        let items = documents[which]["items"].as_array_mut();
        let Some(items) = items.filter(|items| !items.is_empty()) else { continue };
        let item = dice.below(items.len());
        let at = if dice.below(4) == 0 { "/spec/template/metadata" } else { "/metadata" };
        let Some(Value::Object(metadata)) = items[item].pointer_mut(at) else { continue };
        let map = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        let key = KEYS[dice.below(KEYS.len())];
        let value = match dice.below(5) {
            0 => Value::String(json!({"from": dice.below(5), "to": dice.below(5), "template": dice.odd()}).to_string()),
            1 => Value::String(json!({"data": {"A": dice.odd()}, "binaryData": dice.odd()}).to_string()),
            2 => Value::String(dice.below(20).to_string()),
            _ => dice.odd(),
        };
        match map {
            Value::Object(map) => drop(map.insert(key.to_string(), value)),
            other => *other = value,
        }
    }
    every_verb(loaded(&documents));
}

/// The incident with a record of revision 1, changed anywhere; mostly under the name that its data asks for.
pub fn records(bytes: &[u8]) {
    let mut documents = documents();
    let mut dice = Dice::new(bytes);
    let find = |document: &Value, name: &str, pointer: &str| -> Value {
        let items = document["items"].as_array().into_iter().flatten();
        let found = items.into_iter().find(|i| i["metadata"]["name"].as_str().is_some_and(|n| n.starts_with(name)));
        found.and_then(|i| i.pointer(pointer)).cloned().unwrap_or_default()
    };
    let sets: Vec<&Value> = documents[2]["items"].as_array().into_iter().flatten().collect();
    let set = sets.iter().find(|s| s["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1");
    let set = set.map(|s| (*s).clone()).unwrap_or_default();
    let held = json!({
        "uid": find(&documents[5], "settings", "/metadata/uid"),
        "resourceVersion": find(&documents[5], "settings", "/metadata/resourceVersion"),
    });
    let digest = "sr1:c1da0820312297e4c1da0820312297e4c1da0820312297e4c1da0820312297e4";
    let mut stated = vec![json!({
        "format": "saferollback.dev/record/v1",
        "workload": {"kind": "Deployment", "name": "web", "uid": find(&documents[1], "web", "/metadata/uid")},
        "revision": {
            "number": 1, "uid": set["metadata"]["uid"], "over": false,
            "template": history::template_digest(&set["spec"]["template"]),
        },
        "pods": [{"uid": find(&documents[3], "web", "/metadata/uid"), "restarts": {"app": 0}}],
        "references": [{
            "kind": "ConfigMap", "name": "settings", "live": held,
            "read": {
                "grade": "proof", "by": "undo", "held": held, "digest": digest, "consumed": digest,
                "taken": {"/spec/containers/0/envFrom/0 app container-start": digest},
                "snapshot": "settings-sr-c1da0820312297e4",
            },
        }],
    })];
    if dice.below(8) > 0 {
        change(&mut stated, &mut dice);
    }
    let text = stated[0].to_string();
    let name = if dice.below(8) > 0 { record::name("web", &text) } else { dice.text() };
    let mut body = vec![json!({
        "apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "data": {"record": text},
        "metadata": {
            "name": name, "namespace": find(&documents[1], "web", "/metadata/namespace"), "uid": "u-record",
            "resourceVersion": "1", "creationTimestamp": "2026-11-29T12:00:00Z",
            "labels": {"app.kubernetes.io/managed-by": "kubectl-saferollback", "saferollback.dev/kind": "record"},
        },
    })];
    if dice.below(4) == 0 {
        change(&mut body, &mut dice);
    }
    documents.extend(body);
    every_verb(loaded(&documents));
}

fn loaded(documents: &[Value]) -> Dump {
    let mut dump = Dump::default();
    for (number, document) in documents.iter().enumerate() {
        let text = document.to_string();
        dump.add(Path::new(&format!("{number}.json")), text.as_bytes()).expect("it was JSON a moment ago");
    }
    dump
}

// ---------------------------------------------------------------- verbs

/// Says nothing, and would never agree.
struct Silent;

impl Waiting for Silent {
    fn progress(&mut self, _: &str) {}
    fn note(&mut self, _: &str) {}
}

impl Voice for Silent {
    fn plan(&mut self, _: &Document, _: &Plan) {}
    fn plans(&mut self, _: &[(Document, Plan)]) {}
    fn confirm(&mut self, _: &str) -> Result<bool, Failure> {
        Ok(false)
    }
    fn done(&mut self, _: &str) {}
    fn warn(&mut self, _: &str) {}
    fn fail(&mut self, _: &str, _: &[String]) {}
    fn phase(&mut self, _: Phase) {}
}

/// Every verb that reads dumps, on every revision that it finds.
fn every_verb(dump: Dump) {
    let scene =
        Scene { source: Source::Dump(dump), namespace: String::new(), context: String::new(), server: "files".into() };
    let now = "2026-11-29T12:00:00Z".parse().unwrap_or_default();
    block_on(async {
        let target = Target { kind: Some(Kind::Deployment), name: "web".into() };
        let targets = [Some(&target), None];
        for target in targets {
            let Ok(document) = run::history::run(&scene, target, None, now).await else { continue };
            let again: Value = serde_json::from_str(&serde_json::to_string(&document).expect("a document is JSON"))
                .expect("a document reads back");
            assert_eq!(again["kind"], "History");
            let until = ["complete", "incomplete", "stable", "degraded", "pod-replaced=u-1", "pods.*.ready=true"];
            let until = until.iter().filter_map(|text| Until::parse(text).ok()).collect();
            let request = run::observation::Request { until, ..run::observation::Request::default() };
            let _ = run::observation::run(&scene, target, &request, &mut |_| ()).await;
            let _ = run::status::look(&scene, target, now).await;
            let numbers: Vec<u64> = document.revisions.iter().map(|r| r.number).take(5).collect();
            for revision in numbers.into_iter().map(Some).chain([None]) {
                let _ = run::check::run(&scene, target, revision, now).await;
                let _ = run::diff::run(&scene, target, revision, None, true, now).await;
                for config in [Config::Auto, Config::Pin, Config::Live] {
                    let request = Request {
                        revision: revision.map_or(Asked::Previous, Asked::Number),
                        rules: Rules { config, require: Grade::Likely, ..Rules::default() },
                        dry_run: DryRun::Client,
                        wait: false,
                        timeout: None,
                        settle: None,
                        verify: Verify::Replace,
                        allow_downtime: false,
                        asks: true,
                        on_failure: OnFailure::Revert,
                        allow_managed: false,
                        typed: Vec::new(),
                        uses: Vec::new(),
                        words: vec!["web".into()],
                    };
                    let _ = run::undo::run(&scene, target, &request, &mut Silent, now).await;
                }
            }
        }
    });
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(work)
}
