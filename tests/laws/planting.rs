//! Templates with planted references, and the truth about them, written down by the generator.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use saferollback::core::references::{Keys, Kind, Pinnable, Read, extract};
use serde_json::{Map, Value, json};

/// Few names, so that objects are shared, kinds share names, and values look like them.
pub const NAMES: [&str; 6] = ["settings", "web", "app.conf", "kube-root-ca.crt", "a", "configmap-1"];

#[derive(Clone, Debug)]
struct Planted {
    kind: Kind,
    name: &'static str,
    optional: bool,
}

#[derive(Clone, Debug)]
struct Variable {
    /// `None`: a plain value.
    source: Option<Planted>,
    key: &'static str,
}

#[derive(Clone, Debug)]
struct Source {
    planted: Planted,
    /// Item `i` is key `k<i>` at path `d<i % 2>/f<i>`; none at all: the whole object.
    items: usize,
}

#[derive(Clone, Debug)]
enum Volume {
    One(Source),
    /// `None`: a token.
    Projected(Vec<Option<Source>>),
    Csi(&'static str),
    OldDriver(&'static str, &'static str),
    Other(&'static str),
}

/// How a container mounts a volume.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Not,
    Whole,
    /// The directory `d0` or `d1`.
    Directory(usize),
    /// The file of item `i`.
    Item(usize),
    Expression,
}

#[derive(Clone, Debug)]
struct Container {
    from: Vec<Planted>,
    env: Vec<Variable>,
    /// One per volume; volumes beyond are not mounted.
    ways: Vec<Way>,
}

#[derive(Clone, Debug)]
pub struct Plan {
    init: Vec<Container>,
    main: Vec<Container>,
    volumes: Vec<Volume>,
    pull: Vec<&'static str>,
    /// A different order of members in every object.
    order: u64,
}

impl Plan {
    pub fn in_order(self, order: u64) -> Plan {
        Plan { order, ..self }
    }
}

fn planted() -> impl Strategy<Value = Planted> {
    (select(&[Kind::ConfigMap, Kind::Secret][..]), select(&NAMES[..]), any::<bool>())
        .prop_map(|(kind, name, optional)| Planted { kind, name, optional })
}

fn source() -> impl Strategy<Value = Source> {
    (planted(), 0..4_usize).prop_map(|(planted, items)| Source { planted, items })
}

fn volume() -> impl Strategy<Value = Volume> {
    prop_oneof![
        4 => source().prop_map(Volume::One),
        3 => vec(proptest::option::of(source()), 0..4).prop_map(Volume::Projected),
        1 => select(&NAMES[..]).prop_map(Volume::Csi),
        1 => (select(&["cephfs", "iscsi", "rbd", "azureFile"][..]), select(&NAMES[..]))
            .prop_map(|(driver, name)| Volume::OldDriver(driver, name)),
        1 => select(&NAMES[..]).prop_map(Volume::Other),
    ]
}

fn container() -> impl Strategy<Value = Container> {
    let way = prop_oneof![
        Just(Way::Not),
        Just(Way::Whole),
        (0..2_usize).prop_map(Way::Directory),
        (0..3_usize).prop_map(Way::Item),
        Just(Way::Expression),
    ];
    let variable =
        (proptest::option::of(planted()), select(&NAMES[..])).prop_map(|(source, key)| Variable { source, key });
    (vec(planted(), 0..3), vec(variable, 0..4), vec(way, 0..5)).prop_map(|(from, env, ways)| Container {
        from,
        env,
        ways,
    })
}

pub fn plan() -> impl Strategy<Value = Plan> {
    (vec(container(), 0..3), vec(container(), 0..3), vec(volume(), 0..5), vec(select(&NAMES[..]), 0..2), any::<u64>())
        .prop_map(|(init, main, volumes, pull, order)| Plan { init, main, volumes, pull, order })
}

/// What the generator planted, in a form that compares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Truth {
    pub kind: Kind,
    pub name: String,
    pub pointer: String,
    pub name_pointer: String,
    pub container: Option<String>,
    pub init: bool,
    pub read: Read,
    pub keys: String,
    pub required: Vec<String>,
    pub pinnable: bool,
}

pub type Rename = BTreeMap<(Kind, String), String>;

/// Writes a plan as a template. With names to replace, it writes the template that pinning must give.
struct Writer<'a> {
    rename: &'a Rename,
    truth: Vec<Truth>,
    order: u64,
}

impl Writer<'_> {
    fn name(&self, kind: Kind, name: &str, pinnable: bool) -> Value {
        let new = self.rename.get(&(kind, name.to_string())).filter(|_| pinnable);
        json!(new.map_or(name, String::as_str))
    }

    /// Members in an order of their own, with fields that no version knows and numbers that no float keeps.
    fn object(&mut self, members: &[(&str, Value)], decoys: bool) -> Value {
        let mut members: Vec<(String, Value)> = members.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
        if decoys {
            let text = r#"{"name":"settings","configMapRef":{"name":"web"},"n":[1.0,1E-7,12345678901234567890123,-0]}"#;
            members.push(("zFuture".into(), serde_json::from_str(text).expect("a decoy")));
            members
                .push(("a/b~c".into(), json!({"secretName": "settings", "volumes": [{"configMap": {"name": "a"}}]})));
        }
        self.order = self.order.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let turn = (self.order >> 33) as usize % members.len().max(1);
        members.rotate_left(turn);
        Value::Object(members.into_iter().collect::<Map<_, _>>())
    }

    fn pinnable(kind: Kind, name: &str) -> bool {
        !(kind == Kind::ConfigMap && name == "kube-root-ca.crt")
    }

    fn container(&mut self, at: &str, name: &str, container: &Container) -> Value {
        let init = at.contains("init");
        let mut from = Vec::new();
        for (i, planted) in container.from.iter().enumerate() {
            let field = if planted.kind == Kind::ConfigMap { "configMapRef" } else { "secretRef" };
            let pointer = format!("{at}/envFrom/{i}");
            let (new, pinnable) = self.plant(planted, &pointer, &format!("{pointer}/{field}/name"));
            self.truth.push(Truth {
                container: Some(name.into()),
                init,
                read: Read::ContainerStart,
                keys: "every key of data".into(),
                ..pinnable
            });
            let inner = self.object(&[("name", new), ("optional", json!(planted.optional))], true);
            from.push(self.object(&[(field, inner), ("prefix", json!("settings"))], false));
        }
        let mut env = Vec::new();
        for (i, variable) in container.env.iter().enumerate() {
            let Some(planted) = &variable.source else {
                env.push(self.object(&[("name", json!(variable.key)), ("value", json!("settings"))], false));
                continue;
            };
            let field = if planted.kind == Kind::ConfigMap { "configMapKeyRef" } else { "secretKeyRef" };
            let pointer = format!("{at}/env/{i}");
            let (new, truth) = self.plant(planted, &pointer, &format!("{pointer}/valueFrom/{field}/name"));
            self.truth.push(Truth {
                container: Some(name.into()),
                init,
                read: Read::ContainerStart,
                keys: format!("data {}", variable.key),
                required: if planted.optional { vec![] } else { vec![variable.key.into()] },
                ..truth
            });
            let members = [("name", new), ("key", json!(variable.key)), ("optional", json!(planted.optional))];
            let inner = self.object(&members, true);
            let value_from = self.object(&[(field, inner)], false);
            env.push(self.object(&[("name", json!("settings")), ("valueFrom", value_from)], false));
        }
        let mut mounts = Vec::new();
        for (i, way) in container.ways.iter().enumerate() {
            let path = match way {
                Way::Not => continue,
                Way::Whole => ("readOnly", json!(true)),
                Way::Directory(d) => ("subPath", json!(format!("d{d}"))),
                Way::Item(item) => ("subPath", json!(format!("d{}/f{item}", item % 2))),
                Way::Expression => ("subPathExpr", json!("$(settings)")),
            };
            mounts
                .push(self.object(&[("name", json!(format!("v{i}"))), ("mountPath", json!("/settings")), path], true));
        }
        let members = [
            ("name", json!(name)),
            ("envFrom", json!(from)),
            ("env", json!(env)),
            ("volumeMounts", json!(mounts)),
            ("args", json!(["--config=settings", "configmap/settings", "web"])),
        ];
        self.object(&members, true)
    }

    /// The name to write, and what is known wherever the reference stands.
    fn plant(&self, planted: &Planted, pointer: &str, name_pointer: &str) -> (Value, Truth) {
        let pinnable = Self::pinnable(planted.kind, planted.name);
        let truth = Truth {
            kind: planted.kind,
            name: planted.name.into(),
            pointer: pointer.into(),
            name_pointer: name_pointer.into(),
            container: None,
            init: false,
            read: Read::Driver,
            keys: "all".into(),
            required: vec![],
            pinnable,
        };
        (self.name(planted.kind, planted.name, pinnable), truth)
    }

    /// A source of volume `v<index>`: one truth for each container that mounts it.
    fn source(
        &mut self,
        plan: &Plan,
        index: usize,
        source: &Source,
        element: &str,
        projected: bool,
    ) -> (String, Value) {
        let (field, key) = match (source.planted.kind, projected) {
            (Kind::ConfigMap, _) => ("configMap", "name"),
            (Kind::Secret, false) => ("secret", "secretName"),
            (Kind::Secret, true) => ("secret", "name"),
        };
        let (new, truth) = self.plant(&source.planted, element, &format!("{element}/{field}/{key}"));
        let all: Vec<usize> = (0..source.items).collect();
        let list = |items: Vec<usize>| items.iter().map(|i| format!("k{i}")).collect::<Vec<_>>();
        let required = if source.planted.optional { vec![] } else { list(all.clone()) };
        let truth = Truth { required, ..truth };
        let mut mounted = false;
        let groups = [("i", true, &plan.init), ("c", false, &plan.main)];
        for (prefix, init, containers) in groups {
            for (n, container) in containers.iter().enumerate() {
                let way = container.ways.get(index).copied().unwrap_or(Way::Not);
                let chosen = match way {
                    Way::Not => continue,
                    Way::Whole | Way::Expression => all.clone(),
                    Way::Directory(d) => all.iter().copied().filter(|i| i % 2 == d).collect(),
                    Way::Item(item) => all.iter().copied().filter(|i| *i == item).collect(),
                };
                let keys = match (source.items, way) {
                    (0, Way::Whole | Way::Expression) => "all".into(),
                    (0, Way::Directory(d)) => format!("file d{d}"),
                    (0, Way::Item(item)) => format!("file d{}", item % 2),
                    _ => format!("named {}", list(chosen).join(" ")),
                };
                mounted = true;
                self.truth.push(Truth {
                    container: Some(format!("{prefix}{n}")),
                    init,
                    read: if way == Way::Whole { Read::RefreshedMount } else { Read::Mount },
                    keys,
                    ..truth.clone()
                });
            }
        }
        if !mounted {
            self.truth.push(Truth { read: Read::Unmounted, keys: "named ".into(), required: vec![], ..truth });
        }
        let items: Vec<Value> =
            all.iter().map(|i| json!({"key": format!("k{i}"), "path": format!("d{}/f{i}", i % 2)})).collect();
        let members = [(key, new), ("items", json!(items)), ("optional", json!(source.planted.optional))];
        (field.into(), self.object(&members, true))
    }

    fn volume(&mut self, plan: &Plan, index: usize, volume: &Volume) -> Value {
        let at = format!("/spec/volumes/{index}");
        let (field, inner) = match volume {
            Volume::One(source) => self.source(plan, index, source, &at, false),
            Volume::Projected(sources) => {
                let mut list = Vec::new();
                for (i, source) in sources.iter().enumerate() {
                    list.push(match source {
                        None => {
                            json!({"serviceAccountToken": {"path": "settings", "name": "settings"}})
                        }
                        Some(source) => {
                            let element = format!("{at}/projected/sources/{i}");
                            let (field, inner) = self.source(plan, index, source, &element, true);
                            self.object(&[(&field, inner)], false)
                        }
                    });
                }
                ("projected".into(), self.object(&[("sources", json!(list))], true))
            }
            Volume::Csi(name) => {
                self.driver(name, &at, "csi/nodePublishSecretRef/name");
                let secret = self.object(&[("name", json!(name))], true);
                ("csi".into(), self.object(&[("driver", json!("settings")), ("nodePublishSecretRef", secret)], true))
            }
            Volume::OldDriver("azureFile", name) => {
                self.driver(name, &at, "azureFile/secretName");
                ("azureFile".into(), self.object(&[("secretName", json!(name)), ("shareName", json!("web"))], true))
            }
            Volume::OldDriver(driver, name) => {
                self.driver(name, &at, &format!("{driver}/secretRef/name"));
                let secret = self.object(&[("name", json!(name))], true);
                (driver.to_string(), self.object(&[("secretRef", secret)], true))
            }
            Volume::Other(name) => ("persistentVolumeClaim".into(), json!({"claimName": name, "name": name})),
        };
        self.object(&[("name", json!(format!("v{index}"))), (&field, inner)], false)
    }

    fn driver(&mut self, name: &'static str, at: &str, below: &str) {
        let planted = Planted { kind: Kind::Secret, name, optional: false };
        let (_, truth) = self.plant(&planted, at, &format!("{at}/{below}"));
        self.truth.push(Truth { pinnable: false, ..truth });
    }

    fn template(&mut self, plan: &Plan) -> Value {
        let mut list = |prefix: &str, field: &str, containers: &[Container]| -> Value {
            let write = |(i, c)| self.container(&format!("/spec/{field}/{i}"), &format!("{prefix}{i}"), c);
            containers.iter().enumerate().map(write).collect()
        };
        let init = list("i", "initContainers", &plan.init);
        let main = list("c", "containers", &plan.main);
        let volumes: Value = plan.volumes.iter().enumerate().map(|(i, v)| self.volume(plan, i, v)).collect();
        for (i, name) in plan.pull.iter().enumerate() {
            let at = format!("/spec/imagePullSecrets/{i}");
            self.driver(name, &at, "name");
            if let Some(last) = self.truth.last_mut() {
                last.read = Read::ImagePull;
            }
        }
        let pull: Vec<Value> = plan.pull.iter().map(|name| json!({"name": name})).collect();
        let members = [
            ("initContainers", init),
            ("containers", main),
            ("volumes", volumes),
            ("imagePullSecrets", json!(pull)),
            ("serviceAccountName", json!("settings")),
        ];
        let spec = self.object(&members, true);
        let labels = json!({"z": "settings", "pod-template-hash": "abc", "app": "web", "name": "a"});
        let metadata = self.object(&[("labels", labels), ("annotations", json!({"x/configmap": "settings"}))], true);
        self.object(&[("metadata", metadata), ("spec", spec)], true)
    }
}

pub fn write(plan: &Plan, rename: &Rename) -> (Value, Vec<Truth>) {
    let mut writer = Writer { rename, truth: Vec::new(), order: plan.order };
    let template = writer.template(plan);
    let mut truth = writer.truth;
    truth.sort();
    (template, truth)
}

pub fn found(template: &Value) -> Vec<Truth> {
    let mut out = Vec::new();
    for reference in extract(template).references {
        for one in reference.uses {
            let keys = match &one.keys {
                Keys::AllData => "every key of data".into(),
                Keys::Data(key) => format!("data {key}"),
                Keys::All => "all".into(),
                Keys::Named(keys) => format!("named {}", keys.join(" ")),
                Keys::File(keys) => format!("file {}", keys.join(" ")),
            };
            out.push(Truth {
                kind: reference.kind,
                name: reference.name.clone(),
                pointer: one.pointer.clone(),
                name_pointer: one.name_pointer.clone(),
                container: one.container.clone(),
                init: one.init,
                read: one.read,
                keys,
                required: one.required_keys().to_vec(),
                pinnable: one.pinnable == Pinnable::Yes,
            });
        }
    }
    out.sort();
    out
}
