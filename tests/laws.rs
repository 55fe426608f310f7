//! Laws that hold for every template and every content, checked on random ones.
//!
//! The templates are made by planting references at places that the generator itself writes down, among values that
//! look like references and are none. Nothing here asks the extractor where anything is.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use saferollback::core::content_name::recomputes;
use saferollback::core::digest::Content;
use saferollback::core::object::Object;
use saferollback::core::pin::{difference, pin, same, strip_hash};
use saferollback::core::references::{Keys, Kind, Pinnable, Read, extract};
use serde_json::{Map, Value, json};

/// Few names, so that objects are shared, kinds share names, and values look like them.
const NAMES: [&str; 6] = [
    "settings",
    "web",
    "app.conf",
    "kube-root-ca.crt",
    "a",
    "configmap-1",
];

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
struct Plan {
    init: Vec<Container>,
    main: Vec<Container>,
    volumes: Vec<Volume>,
    pull: Vec<&'static str>,
    /// A different order of members in every object.
    order: u64,
}

fn planted() -> impl Strategy<Value = Planted> {
    (
        select(&[Kind::ConfigMap, Kind::Secret][..]),
        select(&NAMES[..]),
        any::<bool>(),
    )
        .prop_map(|(kind, name, optional)| Planted {
            kind,
            name,
            optional,
        })
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
    let variable = (proptest::option::of(planted()), select(&NAMES[..]))
        .prop_map(|(source, key)| Variable { source, key });
    (vec(planted(), 0..3), vec(variable, 0..4), vec(way, 0..5))
        .prop_map(|(from, env, ways)| Container { from, env, ways })
}

fn plan() -> impl Strategy<Value = Plan> {
    (
        vec(container(), 0..3),
        vec(container(), 0..3),
        vec(volume(), 0..5),
        vec(select(&NAMES[..]), 0..2),
        any::<u64>(),
    )
        .prop_map(|(init, main, volumes, pull, order)| Plan {
            init,
            main,
            volumes,
            pull,
            order,
        })
}

/// What the generator planted, in a form that compares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Truth {
    kind: Kind,
    name: String,
    pointer: String,
    name_pointer: String,
    container: Option<String>,
    init: bool,
    read: Read,
    keys: String,
    required: Vec<String>,
    pinnable: bool,
}

type Rename = BTreeMap<(Kind, String), String>;

/// Writes a plan as a template. With names to replace, it writes the template that pinning must give.
struct Writer<'a> {
    rename: &'a Rename,
    truth: Vec<Truth>,
    order: u64,
}

impl Writer<'_> {
    fn name(&self, kind: Kind, name: &str, pinnable: bool) -> Value {
        let new = self
            .rename
            .get(&(kind, name.to_string()))
            .filter(|_| pinnable);
        json!(new.map_or(name, String::as_str))
    }

    /// Members in an order of their own, with fields that no version knows and numbers that no float keeps.
    fn object(&mut self, members: &[(&str, Value)], decoys: bool) -> Value {
        let mut members: Vec<(String, Value)> = members
            .iter()
            .map(|(k, v)| (k.to_string(), v.clone()))
            .collect();
        if decoys {
            let text = r#"{"name":"settings","configMapRef":{"name":"web"},"n":[1.0,1E-7,12345678901234567890123,-0]}"#;
            members.push((
                "zFuture".into(),
                serde_json::from_str(text).expect("a decoy"),
            ));
            members.push((
                "a/b~c".into(),
                json!({"secretName": "settings", "volumes": [{"configMap": {"name": "a"}}]}),
            ));
        }
        self.order = self
            .order
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
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
            let field = if planted.kind == Kind::ConfigMap {
                "configMapRef"
            } else {
                "secretRef"
            };
            let pointer = format!("{at}/envFrom/{i}");
            let (new, pinnable) = self.plant(planted, &pointer, &format!("{pointer}/{field}/name"));
            self.truth.push(Truth {
                container: Some(name.into()),
                init,
                read: Read::ContainerStart,
                keys: "every key of data".into(),
                ..pinnable
            });
            let inner = self.object(
                &[("name", new), ("optional", json!(planted.optional))],
                true,
            );
            from.push(self.object(&[(field, inner), ("prefix", json!("settings"))], false));
        }
        let mut env = Vec::new();
        for (i, variable) in container.env.iter().enumerate() {
            let Some(planted) = &variable.source else {
                env.push(self.object(
                    &[("name", json!(variable.key)), ("value", json!("settings"))],
                    false,
                ));
                continue;
            };
            let field = if planted.kind == Kind::ConfigMap {
                "configMapKeyRef"
            } else {
                "secretKeyRef"
            };
            let pointer = format!("{at}/env/{i}");
            let (new, truth) = self.plant(
                planted,
                &pointer,
                &format!("{pointer}/valueFrom/{field}/name"),
            );
            self.truth.push(Truth {
                container: Some(name.into()),
                init,
                read: Read::ContainerStart,
                keys: format!("data {}", variable.key),
                required: if planted.optional {
                    vec![]
                } else {
                    vec![variable.key.into()]
                },
                ..truth
            });
            let members = [
                ("name", new),
                ("key", json!(variable.key)),
                ("optional", json!(planted.optional)),
            ];
            let inner = self.object(&members, true);
            let value_from = self.object(&[(field, inner)], false);
            env.push(self.object(
                &[("name", json!("settings")), ("valueFrom", value_from)],
                false,
            ));
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
            mounts.push(self.object(
                &[
                    ("name", json!(format!("v{i}"))),
                    ("mountPath", json!("/settings")),
                    path,
                ],
                true,
            ));
        }
        let members = [
            ("name", json!(name)),
            ("envFrom", json!(from)),
            ("env", json!(env)),
            ("volumeMounts", json!(mounts)),
            (
                "args",
                json!(["--config=settings", "configmap/settings", "web"]),
            ),
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
        let (new, truth) = self.plant(
            &source.planted,
            element,
            &format!("{element}/{field}/{key}"),
        );
        let all: Vec<usize> = (0..source.items).collect();
        let list = |items: Vec<usize>| items.iter().map(|i| format!("k{i}")).collect::<Vec<_>>();
        let required = if source.planted.optional {
            vec![]
        } else {
            list(all.clone())
        };
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
                    read: if way == Way::Whole {
                        Read::RefreshedMount
                    } else {
                        Read::Mount
                    },
                    keys,
                    ..truth.clone()
                });
            }
        }
        if !mounted {
            self.truth.push(Truth {
                read: Read::Unmounted,
                keys: "named ".into(),
                ..truth
            });
        }
        let items: Vec<Value> = all
            .iter()
            .map(|i| json!({"key": format!("k{i}"), "path": format!("d{}/f{i}", i % 2)}))
            .collect();
        let members = [
            (key, new),
            ("items", json!(items)),
            ("optional", json!(source.planted.optional)),
        ];
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
                (
                    "projected".into(),
                    self.object(&[("sources", json!(list))], true),
                )
            }
            Volume::Csi(name) => {
                self.driver(name, &at, "csi/nodePublishSecretRef/name");
                let secret = self.object(&[("name", json!(name))], true);
                (
                    "csi".into(),
                    self.object(
                        &[
                            ("driver", json!("settings")),
                            ("nodePublishSecretRef", secret),
                        ],
                        true,
                    ),
                )
            }
            Volume::OldDriver("azureFile", name) => {
                self.driver(name, &at, "azureFile/secretName");
                (
                    "azureFile".into(),
                    self.object(
                        &[("secretName", json!(name)), ("shareName", json!("web"))],
                        true,
                    ),
                )
            }
            Volume::OldDriver(driver, name) => {
                self.driver(name, &at, &format!("{driver}/secretRef/name"));
                let secret = self.object(&[("name", json!(name))], true);
                (
                    driver.to_string(),
                    self.object(&[("secretRef", secret)], true),
                )
            }
            Volume::Other(name) => (
                "persistentVolumeClaim".into(),
                json!({"claimName": name, "name": name}),
            ),
        };
        self.object(
            &[("name", json!(format!("v{index}"))), (&field, inner)],
            false,
        )
    }

    fn driver(&mut self, name: &'static str, at: &str, below: &str) {
        let planted = Planted {
            kind: Kind::Secret,
            name,
            optional: false,
        };
        let (_, truth) = self.plant(&planted, at, &format!("{at}/{below}"));
        self.truth.push(Truth {
            pinnable: false,
            ..truth
        });
    }

    fn template(&mut self, plan: &Plan) -> Value {
        let mut list = |prefix: &str, field: &str, containers: &[Container]| -> Value {
            let write =
                |(i, c)| self.container(&format!("/spec/{field}/{i}"), &format!("{prefix}{i}"), c);
            containers.iter().enumerate().map(write).collect()
        };
        let init = list("i", "initContainers", &plan.init);
        let main = list("c", "containers", &plan.main);
        let volumes: Value = plan
            .volumes
            .iter()
            .enumerate()
            .map(|(i, v)| self.volume(plan, i, v))
            .collect();
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
        let labels =
            json!({"z": "settings", "pod-template-hash": "abc", "app": "web", "name": "a"});
        let metadata = self.object(
            &[
                ("labels", labels),
                ("annotations", json!({"x/configmap": "settings"})),
            ],
            true,
        );
        self.object(&[("metadata", metadata), ("spec", spec)], true)
    }
}

fn write(plan: &Plan, rename: &Rename) -> (Value, Vec<Truth>) {
    let mut writer = Writer {
        rename,
        truth: Vec::new(),
        order: plan.order,
    };
    let template = writer.template(plan);
    let mut truth = writer.truth;
    truth.sort();
    (template, truth)
}

fn found(template: &Value) -> Vec<Truth> {
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

fn rename() -> impl Strategy<Value = Rename> {
    let kinds = select(&[Kind::ConfigMap, Kind::Secret][..]);
    let new = prop_oneof![
        select(&NAMES[..]).prop_map(str::to_string),
        "[a-z]{1,8}-sr-[0-9a-f]{16}"
    ];
    btree_map(
        (kinds, select(&NAMES[..]).prop_map(str::to_string)),
        new,
        0..8,
    )
}

/// A small alphabet with separators in it, so that contents nearly collide.
fn content() -> impl Strategy<Value = Content> {
    let map = || btree_map("[ab=\n;.]{1,3}", vec(select(&b"ab=\n;d\0"[..]), 0..4), 0..4);
    (map(), map()).prop_map(|(data, binary)| Content { data, binary })
}

/// Any JSON built of the words that the extractor looks for, in any wrong place.
fn wild() -> impl Strategy<Value = Value> {
    const WORDS: [&str; 22] = [
        "metadata",
        "annotations",
        "labels",
        "spec",
        "containers",
        "initContainers",
        "env",
        "envFrom",
        "valueFrom",
        "configMapRef",
        "configMapKeyRef",
        "secretRef",
        "name",
        "key",
        "optional",
        "volumes",
        "configMap",
        "secret",
        "secretName",
        "projected",
        "sources",
        "items",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        select(&WORDS[..]).prop_map(Value::from),
        "\\PC{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 96, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec((select(&WORDS[..]), inner), 0..5).prop_map(|m| Value::Object(
                m.into_iter().map(|(k, v)| (k.to_string(), v)).collect()
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    /// An overlooked reference is a false "safe"; an invented one blocks a rollback or gets a value rewritten.
    #[test]
    fn all_planted_references_are_found_and_nothing_else(plan in plan()) {
        let (template, truth) = write(&plan, &Rename::new());
        prop_assert_eq!(found(&template), truth);
        let extracted = extract(&template);
        let distinct: BTreeSet<_> = extracted.references.iter().map(|r| (r.kind, &r.name)).collect();
        prop_assert_eq!(distinct.len(), extracted.references.len(), "an object is listed once");
        for note in &extracted.not_traced {
            prop_assert!(template.pointer(&note.pointer).is_some(), "{} leads nowhere", note.pointer);
        }
    }

    /// `pointer`, container and way of reading identify a use: verdicts are kept by them.
    #[test]
    fn uses_have_an_identity(plan in plan()) {
        let (template, truth) = write(&plan, &Rename::new());
        let ids: BTreeSet<_> = truth.iter().map(|t| (t.pointer.clone(), t.container.clone(), t.read)).collect();
        prop_assert_eq!(ids.len(), found(&template).len());
    }

    /// The order of members is the server's affair: a report that depends on it changes without a cause.
    #[test]
    fn references_do_not_depend_on_member_order(plan in plan(), order in any::<u64>()) {
        let (a, _) = write(&plan, &Rename::new());
        let (b, _) = write(&Plan { order, ..plan }, &Rename::new());
        prop_assert_eq!(extract(&a).references, extract(&b).references);
        prop_assert!(same(&a, &b));
    }

    /// Whatever pinning changes beside the names is a change that nobody asked for, in the middle of an incident.
    #[test]
    fn pinning_replaces_planted_names_and_no_other_byte(plan in plan(), rename in rename()) {
        let (template, truth) = write(&plan, &Rename::new());
        let (expected, _) = write(&plan, &rename);
        let pinned = pin(&template, &rename);
        prop_assert_eq!(serde_json::to_string(&pinned).unwrap(), serde_json::to_string(&expected).unwrap());
        let mut renamed = truth;
        for t in &mut renamed {
            if let Some(new) = rename.get(&(t.kind, t.name.clone())).filter(|_| t.pinnable) {
                t.name = new.clone();
                t.pinnable = !(t.kind == Kind::ConfigMap && new == "kube-root-ca.crt");
            }
        }
        renamed.sort();
        prop_assert_eq!(found(&pinned), renamed, "pin, then extract");
    }

    /// The fields shown as different must be the fields that are.
    #[test]
    fn a_pinned_template_differs_at_the_names_only(plan in plan()) {
        let (template, truth) = write(&plan, &Rename::new());
        let rename: Rename = truth.iter().map(|t| ((t.kind, t.name.clone()), format!("{}-x", t.name))).collect();
        let expected: BTreeSet<String> =
            truth.iter().filter(|t| t.pinnable).map(|t| t.name_pointer.clone()).collect();
        let shown: BTreeSet<String> = difference(&template, &pin(&template, &rename)).into_iter().collect();
        prop_assert_eq!(shown, expected);
    }

    /// The label that is left in makes a new ReplicaSet; anything else that goes with it is lost.
    #[test]
    fn stripping_the_hash_takes_one_label(plan in plan()) {
        let (template, _) = write(&plan, &Rename::new());
        let stripped = strip_hash(&template);
        prop_assert_eq!(&strip_hash(&stripped), &stripped);
        prop_assert!(same(&template, &stripped));
        let text = serde_json::to_string(&template).unwrap();
        prop_assert_eq!(serde_json::to_string(&stripped).unwrap(), text.replace(r#""pod-template-hash":"abc","#, ""));
    }

    /// A file from anywhere must not end the program, nor may a name be replaced outside of strings.
    #[test]
    fn wild_templates_are_survived(template in wild(), rename in rename()) {
        let extracted = extract(&template);
        let uses = extracted.references.iter().flat_map(|r| r.uses.iter().map(|u| (&r.name, u)));
        for (name, one) in uses {
            prop_assert_eq!(template.pointer(&one.name_pointer).and_then(Value::as_str), Some(name.as_str()));
            prop_assert!(template.pointer(&one.pointer).is_some());
        }
        let pinned = pin(&template, &rename);
        let names: BTreeSet<String> = extracted.references.iter().flat_map(|r| &r.uses).map(|u| u.name_pointer.clone()).collect();
        for pointer in difference(&template, &pinned) {
            prop_assert!(names.contains(&pointer));
        }
        prop_assert!(same(&template, &strip_hash(&template)));
    }

    /// Two contents with one digest would share a snapshot: one application starts with the other's configuration.
    #[test]
    fn digests_are_equal_only_for_equal_content(a in content(), b in content()) {
        prop_assert_eq!(a.digest() == b.digest(), a == b);
    }

    /// A flipped bit, a dropped or a moved byte anywhere must show.
    #[test]
    fn the_digest_depends_on_every_byte(content in content(), bit in 0..8_u32) {
        let whole = content.digest();
        for (key, value) in &content.data {
            for i in 0..value.len() {
                let mut flipped = content.clone();
                flipped.data.get_mut(key).unwrap()[i] ^= 1 << bit;
                prop_assert_ne!(flipped.digest(), whole);
                let mut shorter = content.clone();
                shorter.data.get_mut(key).unwrap().remove(i);
                prop_assert_ne!(shorter.digest(), whole);
            }
            let mut renamed = content.clone();
            let value = renamed.data.remove(key).unwrap();
            prop_assert_ne!(renamed.digest(), whole);
            renamed.data.insert(format!("{key}!"), value.clone());
            prop_assert_ne!(renamed.digest(), whole);
            let mut moved = content.clone();
            moved.data.remove(key);
            if moved.binary.insert(key.clone(), value).is_none() {
                prop_assert_ne!(moved.digest(), whole, "data and binaryData are told apart");
            }
        }
    }

    /// The server may send keys in any order; a digest that follows it calls every object edited.
    #[test]
    fn the_digest_ignores_key_order(
        data in btree_map("[-._a-zA-Z0-9]{1,6}", "\\PC{0,6}", 0..6),
        turn in any::<prop::sample::Index>(),
    ) {
        let read = |members: Vec<(String, Value)>| {
            let map: Map<String, Value> = members.into_iter().collect();
            Content::from_object(&Object(json!({"kind": "ConfigMap", "data": map}))).expect("a ConfigMap").digest()
        };
        let sorted: Vec<(String, Value)> = data.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        let mut other = sorted.clone();
        other.reverse();
        if !other.is_empty() {
            let turn = turn.index(other.len());
            other.rotate_left(turn);
        }
        prop_assert_eq!(read(sorted), read(other));
    }

    /// "Same for this use" and "nothing differs for it" are one statement, and equal digests imply it.
    #[test]
    fn consumption_is_consistent(plan in plan(), a in content(), b in content()) {
        let (template, _) = write(&plan, &Rename::new());
        for reference in extract(&template).references {
            prop_assert_eq!(reference.reads_same(&a, &b), reference.differing_keys(&a, &b).is_empty());
            prop_assert!(reference.reads_same(&a, &a));
            if reference.consumed(&a).digest() == reference.consumed(&b).digest() {
                prop_assert!(reference.reads_same(&a, &b));
            }
            for one in &reference.uses {
                prop_assert_eq!(one.differing_keys(&a, &b), one.differing_keys(&b, &a));
                // Keys outside the consumed ones do not count.
                let mut more = a.clone();
                if !matches!(one.keys, Keys::All | Keys::AllData) {
                    more.data.insert("nobody-reads-this".into(), b"x".to_vec());
                    prop_assert_eq!(one.consumed(&more).digest(), one.consumed(&a).digest());
                }
            }
        }
    }

    /// Chance matches would pass an edited object for a frozen one.
    #[test]
    fn other_content_does_not_recompute(content in content(), suffix in "[2456789bcdfghkmt]{10}") {
        prop_assert_eq!(recomputes(&format!("settings-{suffix}"), &content, true), None);
    }
}
