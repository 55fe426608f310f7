//! The ConfigMaps and Secrets that a Pod template names, and when each is read.
//!
//! The template is the value at `spec.template`; every pointer below is relative to it. The order is fixed and
//! independent of the order of JSON members: init containers, containers (`envFrom` before `env`, as the kubelet
//! resolves them), volumes, image pull secrets.
//!
//! # Caveats
//!
//! A program that reads a ConfigMap through the API leaves no reference. Arguments and annotations that seem to
//! name configuration are listed as [`NotTraced`]: a hint for the reader, never a reference. `ephemeralContainers`
//! are forbidden in templates and ignored.

use std::fmt;

use serde_json::Value;

use super::object::Object;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    ConfigMap,
    Secret,
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Kind::ConfigMap => "configmap",
            Kind::Secret => "secret",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::ConfigMap => "ConfigMap",
            Kind::Secret => "Secret",
        })
    }
}

/// When the content is taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Read {
    /// Environment variables: resolved at every container start, restarts included.
    ContainerStart,
    ImagePull,
    /// Behind a `subPath`: bound at container start, fixed for that container's life (kubernetes/kubernetes#50345).
    Mount,
    /// A mounted directory: the kubelet writes new content into it.
    RefreshedMount,
    /// A volume that no container mounts: it must exist for the Pod to start, and nobody reads it.
    Unmounted,
    /// Handed to a volume driver.
    Driver,
}

impl Read {
    pub fn word(self) -> &'static str {
        match self {
            Read::ContainerStart => "container-start",
            Read::ImagePull => "image-pull",
            Read::Mount => "mount",
            Read::RefreshedMount => "refreshed-mount",
            Read::Unmounted => "unmounted",
            Read::Driver => "driver",
        }
    }
}

/// The keys that a use takes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// `envFrom`: every key of `data`, none of `binaryData`.
    AllData,
    /// A key reference: that key of `data`, never of `binaryData`.
    Data(String),
    /// A whole volume: every key of both.
    All,
    /// The keys of a volume's `items` that the mount can see. An empty list reads nothing.
    Named(Vec<String>),
    /// The keys behind a `subPath` into a whole volume. Where one is absent the container starts all the same and
    /// finds an empty directory.
    File(Vec<String>),
}

/// May the name in the template be replaced?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinnable {
    Yes,
    /// A pinned CA bundle would be a frozen one: connections fail when the CA rotates.
    TrustBundle,
    ImagePull,
    Driver,
}

/// One use of an object: one environment entry, or one container's mounts of one volume source.
///
/// `pointer`, `container` and `read` together are unique. A container that mounts a volume both as a directory and
/// by `subPath` has two uses of it, since only one of them is refreshed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The element that makes the reference: `/spec/containers/0/env/3`, `/spec/volumes/1/projected/sources/0`.
    pub pointer: String,
    /// The string that holds the object's name.
    pub name_pointer: String,
    /// The reading container; `None` where the Pod as a whole reads.
    pub container: Option<String>,
    pub init: bool,
    pub read: Read,
    pub keys: Keys,
    pub optional: bool,
    /// Keys without which the Pod does not start, were it not `optional`. For `items` these are all of the volume's,
    /// whatever part of it this container mounts.
    pub listed: Vec<String>,
    pub pinnable: Pinnable,
}

impl Use {
    /// The keys without which a new Pod does not start.
    pub fn required_keys(&self) -> &[String] {
        if self.optional { &[] } else { &self.listed }
    }

    /// Environment variables come from `data` alone; volumes and drivers see `binaryData` too.
    pub fn data_only(&self) -> bool {
        matches!(self.keys, Keys::AllData | Keys::Data(_))
    }
}

/// One object that the template names, with all its uses in template order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub kind: Kind,
    pub name: String,
    pub uses: Vec<Use>,
}

impl Reference {
    /// Does a new Pod start without the object?
    pub fn optional(&self) -> bool {
        self.uses.iter().all(|u| u.optional)
    }

    /// The first reason why some use must keep its name; `Yes` where all may be replaced.
    pub fn pinnable(&self) -> Pinnable {
        self.uses
            .iter()
            .map(|u| u.pinnable)
            .find(|p| *p != Pinnable::Yes)
            .unwrap_or(Pinnable::Yes)
    }
}

/// Configuration that the template hints at but does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTraced {
    pub pointer: String,
    pub what: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// One per object, in order of first use.
    pub references: Vec<Reference>,
    pub not_traced: Vec<NotTraced>,
}

impl References {
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Reference> {
        self.references
            .iter()
            .find(|r| r.kind == kind && r.name == name)
    }

    fn add(&mut self, kind: Kind, name: &str, one: Use) {
        match self
            .references
            .iter_mut()
            .find(|r| r.kind == kind && r.name == name)
        {
            Some(reference) => reference.uses.push(one),
            None => self.references.push(Reference {
                kind,
                name: name.to_string(),
                uses: vec![one],
            }),
        }
    }

    fn note(&mut self, pointer: &str, what: impl Into<String>) {
        self.not_traced.push(NotTraced {
            pointer: pointer.to_string(),
            what: what.into(),
        });
    }
}

/// Is this the name of a ConfigMap into which a controller injects CA certificates?
pub fn trust_bundle(name: &str) -> bool {
    matches!(
        name,
        "kube-root-ca.crt"
            | "openshift-service-ca.crt"
            | "istio-ca-root-cert"
            | "linkerd-identity-trust-roots"
    )
}

/// Does the ConfigMap itself say that a controller injects CA certificates into it? Such bundles have any name.
pub fn injected_trust_bundle(object: &Object) -> bool {
    object.label("config.openshift.io/inject-trusted-cabundle") == Some("true")
        || object.annotation("service.beta.openshift.io/inject-cabundle") == Some("true")
        || object.label("trust.cert-manager.io/bundle").is_some()
}

pub fn extract(template: &Value) -> References {
    let mut found = References::default();
    let root = At {
        value: template,
        pointer: String::new(),
    };
    if let Some(annotations) = root.get("metadata").and_then(|m| m.get("annotations")) {
        annotation_hints(&annotations, &mut found);
    }
    let Some(spec) = root.get("spec") else {
        return found;
    };
    let mut mounts = Vec::new();
    for (field, init) in [("initContainers", true), ("containers", false)] {
        for container in spec.items(field) {
            environment(&container, init, &mut found);
            argument_hints(&container, &mut found);
            mounts.extend(
                container
                    .items("volumeMounts")
                    .iter()
                    .filter_map(|m| Mount::of(m, &container, init)),
            );
        }
    }
    for volume in spec.items("volumes") {
        let name = volume.text("name").unwrap_or("");
        let mounts: Vec<&Mount> = mounts.iter().filter(|m| m.volume == name).collect();
        volume_sources(&volume, &mounts, &mut found);
    }
    for secret in spec.items("imagePullSecrets") {
        whole_pod(
            Kind::Secret,
            &secret,
            "name",
            &secret.pointer,
            Read::ImagePull,
            &mut found,
        );
    }
    found
}

/// A value and where it stands. `null` counts as absent everywhere, as for the API server.
struct At<'a> {
    value: &'a Value,
    pointer: String,
}

impl<'a> At<'a> {
    fn get(&self, key: &str) -> Option<At<'a>> {
        let value = self.value.get(key).filter(|v| !v.is_null())?;
        Some(At {
            value,
            pointer: format!("{}/{}", self.pointer, token(key)),
        })
    }

    fn items(&self, key: &str) -> Vec<At<'a>> {
        let Some(list) = self.get(key) else {
            return Vec::new();
        };
        let values = list.value.as_array().map_or(&[][..], Vec::as_slice);
        values
            .iter()
            .enumerate()
            .map(|(i, value)| At {
                value,
                pointer: format!("{}/{i}", list.pointer),
            })
            .collect()
    }

    /// A string that is not empty.
    fn text(&self, key: &str) -> Option<&'a str> {
        self.value.get(key)?.as_str().filter(|s| !s.is_empty())
    }

    fn flag(&self, key: &str) -> bool {
        self.value.get(key).and_then(Value::as_bool) == Some(true)
    }

    fn members(&self) -> Vec<(&'a str, At<'a>)> {
        let Some(map) = self.value.as_object() else {
            return Vec::new();
        };
        map.iter()
            .filter_map(|(key, _)| Some((key.as_str(), self.get(key)?)))
            .collect()
    }
}

/// A member's name as a JSON pointer token (RFC 6901).
pub(crate) fn token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// A source of configuration that this version does not know is said aloud, never passed over.
fn unknown_members(at: &At, known: &[&str], found: &mut References) {
    for (key, member) in at.members() {
        if !known.contains(&key) {
            found.note(
                &member.pointer,
                format!("{key}: a field this version does not know"),
            );
        }
    }
}

/// The object's name. A source without one names nothing: old servers accept it and no kubelet can resolve it.
fn name_of<'a>(source: &At<'a>, key: &str, found: &mut References) -> Option<(&'a str, String)> {
    match source.text(key) {
        Some(name) => Some((name, format!("{}/{key}", source.pointer))),
        None => {
            let field = source.pointer.rsplit('/').next().unwrap_or_default();
            let field = if field.parse::<usize>().is_ok() {
                "imagePullSecrets entry"
            } else {
                field
            };
            found.note(&source.pointer, format!("{field} without a name"));
            None
        }
    }
}

fn pinnable(kind: Kind, name: &str, read: Read) -> Pinnable {
    match read {
        Read::ImagePull => Pinnable::ImagePull,
        Read::Driver => Pinnable::Driver,
        _ if kind == Kind::ConfigMap && trust_bundle(name) => Pinnable::TrustBundle,
        _ => Pinnable::Yes,
    }
}

fn environment(container: &At, init: bool, found: &mut References) {
    let add = |found: &mut References, kind, element: &At, source: &At, keys: Keys| {
        let Some((name, name_pointer)) = name_of(source, "name", found) else {
            return;
        };
        let listed = if let Keys::Data(key) = &keys {
            vec![key.clone()]
        } else {
            Vec::new()
        };
        let one = Use {
            pointer: element.pointer.clone(),
            name_pointer,
            container: container.text("name").map(str::to_string),
            init,
            read: Read::ContainerStart,
            keys,
            optional: source.flag("optional"),
            listed,
            pinnable: pinnable(kind, name, Read::ContainerStart),
        };
        found.add(kind, name, one);
    };
    for element in container.items("envFrom") {
        for (field, kind) in [
            ("configMapRef", Kind::ConfigMap),
            ("secretRef", Kind::Secret),
        ] {
            if let Some(source) = element.get(field) {
                add(found, kind, &element, &source, Keys::AllData);
            }
        }
        unknown_members(&element, &["prefix", "configMapRef", "secretRef"], found);
    }
    for element in container.items("env") {
        unknown_members(&element, &["name", "value", "valueFrom"], found);
        let Some(from) = element.get("valueFrom") else {
            continue;
        };
        for (field, kind) in [
            ("configMapKeyRef", Kind::ConfigMap),
            ("secretKeyRef", Kind::Secret),
        ] {
            let Some(source) = from.get(field) else {
                continue;
            };
            match source.text("key") {
                Some(key) => add(found, kind, &element, &source, Keys::Data(key.to_string())),
                None => found.note(&source.pointer, format!("{field} without a key")),
            }
        }
        if let Some(file) = from.get("fileKeyRef") {
            let volume = file.text("volumeName").unwrap_or("?");
            found.note(
                &file.pointer,
                format!("a file that a container writes into volume {volume} at run time"),
            );
        }
        let known = [
            "configMapKeyRef",
            "secretKeyRef",
            "fileKeyRef",
            "fieldRef",
            "resourceFieldRef",
        ];
        unknown_members(&from, &known, found);
    }
}

/// A container's mount of a volume.
struct Mount<'a> {
    volume: &'a str,
    /// Tells containers apart even where their names are missing or equal.
    reader: String,
    container: Option<String>,
    init: bool,
    /// Bound once, at container start.
    fixed: bool,
    /// The path below the volume that is mounted; empty for all of it.
    below: Vec<&'a str>,
}

impl<'a> Mount<'a> {
    fn of(mount: &At<'a>, container: &At<'a>, init: bool) -> Option<Mount<'a>> {
        let mut below = Vec::new();
        let mut fixed = false;
        if let Some(path) = mount.text("subPath") {
            below = parts(path);
            fixed = !below.is_empty();
            // The kubelet's link to the current files: a directory that is bound as it is.
            if below.first() == Some(&"..data") {
                below.remove(0);
            }
            if below.contains(&"..") {
                below.clear();
            }
        }
        // Expanded from the container's environment: any key may be behind it.
        if mount.text("subPathExpr").is_some() {
            below.clear();
            fixed = true;
        }
        let name = container.text("name").map(str::to_string);
        let reader = container.pointer.clone();
        Some(Mount {
            volume: mount.text("name")?,
            reader,
            container: name,
            init,
            fixed,
            below,
        })
    }

    fn sees(&self, path: &[&str]) -> bool {
        self.below.iter().zip(path).all(|(a, b)| a == b)
    }

    fn keys(&self, items: Option<&[Item]>) -> Keys {
        match (items, self.below.first()) {
            (None, None) => Keys::All,
            // Keys have no slash, so the first step of the path decides.
            (None, Some(first)) => Keys::File(vec![first.to_string()]),
            (Some(items), _) => Keys::Named(distinct(
                items.iter().filter(|i| self.sees(&i.path)).map(|i| i.key),
            )),
        }
    }
}

fn parts(path: &str) -> Vec<&str> {
    path.split('/')
        .filter(|p| !p.is_empty() && *p != ".")
        .collect()
}

fn distinct<'a>(keys: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for key in keys {
        if !out.iter().any(|k| k == key) {
            out.push(key.to_string());
        }
    }
    out
}

struct Item<'a> {
    key: &'a str,
    path: Vec<&'a str>,
}

/// `None`: no items, so the volume holds every key.
fn items_of<'a>(source: &At<'a>) -> Option<Vec<Item<'a>>> {
    let items = source.items("items");
    if items.is_empty() {
        return None;
    }
    let item = |i: &At<'a>| {
        Some(Item {
            key: i.text("key")?,
            path: parts(i.text("path").unwrap_or("")),
        })
    };
    Some(items.iter().filter_map(item).collect())
}

fn volume_sources(volume: &At, mounts: &[&Mount], found: &mut References) {
    if let Some(source) = volume.get("configMap") {
        files(Kind::ConfigMap, volume, &source, "name", mounts, found);
    }
    if let Some(source) = volume.get("secret") {
        files(Kind::Secret, volume, &source, "secretName", mounts, found);
    }
    for source in volume
        .get("projected")
        .map(|p| p.items("sources"))
        .unwrap_or_default()
    {
        for (field, kind) in [("configMap", Kind::ConfigMap), ("secret", Kind::Secret)] {
            if let Some(object) = source.get(field) {
                files(kind, &source, &object, "name", mounts, found);
            }
        }
        unknown_members(&source, &PROJECTED, found);
    }
    if let Some(csi) = volume.get("csi") {
        if let Some(secret) = csi.get("nodePublishSecretRef") {
            whole_pod(
                Kind::Secret,
                &secret,
                "name",
                &volume.pointer,
                Read::Driver,
                found,
            );
        }
        if let Some(attributes) = csi.get("volumeAttributes")
            && let Some(class) = attributes.text("secretProviderClass")
        {
            let pointer = format!("{}/secretProviderClass", attributes.pointer);
            found.note(
                &pointer,
                format!("SecretProviderClass {class}: its content comes from outside the cluster"),
            );
        }
    }
    if let Some(azure) = volume.get("azureFile") {
        whole_pod(
            Kind::Secret,
            &azure,
            "secretName",
            &volume.pointer,
            Read::Driver,
            found,
        );
    }
    for driver in SECRET_REF_DRIVERS {
        if let Some(secret) = volume.get(driver).and_then(|d| d.get("secretRef")) {
            whole_pod(
                Kind::Secret,
                &secret,
                "name",
                &volume.pointer,
                Read::Driver,
                found,
            );
        }
    }
    unknown_members(volume, &VOLUMES, found);
}

/// The projected sources of core/v1.
const PROJECTED: [&str; 6] = [
    "configMap",
    "secret",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
];

/// Volume types of core/v1 with a `secretRef`. Most are gone from the kubelet; the fields remain in the API.
const SECRET_REF_DRIVERS: [&str; 7] = [
    "cephfs",
    "cinder",
    "flexVolume",
    "iscsi",
    "rbd",
    "scaleIO",
    "storageos",
];

/// The fields of a volume in core/v1.
#[rustfmt::skip]
const VOLUMES: [&str; 31] = [
    "name", "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "configMap", "csi", "downwardAPI",
    "emptyDir", "ephemeral", "fc", "flexVolume", "flocker", "gcePersistentDisk", "gitRepo", "glusterfs", "hostPath",
    "image", "iscsi", "nfs", "persistentVolumeClaim", "photonPersistentDisk", "portworxVolume", "projected",
    "quobyte", "rbd", "scaleIO", "secret", "storageos", "vsphereVolume",
];

/// A ConfigMap or Secret that becomes files: one use per reading container and way of mounting.
fn files(
    kind: Kind,
    element: &At,
    source: &At,
    key: &str,
    mounts: &[&Mount],
    found: &mut References,
) {
    let Some((name, name_pointer)) = name_of(source, key, found) else {
        return;
    };
    let items = items_of(source);
    let listed = distinct(items.iter().flatten().map(|i| i.key));
    let one = |read, keys, container, init| Use {
        pointer: element.pointer.clone(),
        name_pointer: name_pointer.clone(),
        container,
        init,
        read,
        keys,
        optional: source.flag("optional"),
        listed: listed.clone(),
        pinnable: pinnable(kind, name, read),
    };
    let mut uses: Vec<(&str, Use)> = Vec::new();
    for mount in mounts {
        let read = if mount.fixed {
            Read::Mount
        } else {
            Read::RefreshedMount
        };
        let keys = mount.keys(items.as_deref());
        match uses
            .iter_mut()
            .find(|(reader, u)| *reader == mount.reader && u.read == read)
        {
            Some((_, former)) => former.keys = former.keys.and(keys),
            None => uses.push((
                &mount.reader,
                one(read, keys, mount.container.clone(), mount.init),
            )),
        }
    }
    if uses.is_empty() {
        found.add(
            kind,
            name,
            one(Read::Unmounted, Keys::Named(Vec::new()), None, false),
        );
    }
    for (_, one) in uses {
        found.add(kind, name, one);
    }
}

impl Keys {
    /// What two mounts of one volume source see together.
    fn and(&self, other: Keys) -> Keys {
        let both = |a: &[String], b: &[String]| distinct(a.iter().chain(b).map(String::as_str));
        match (self, &other) {
            (Keys::File(a), Keys::File(b)) => Keys::File(both(a, b)),
            (Keys::Named(a), Keys::Named(b)) => Keys::Named(both(a, b)),
            _ => Keys::All,
        }
    }
}

/// A Secret that the Pod as a whole needs. A missing image pull secret is passed over by the kubelet; a missing
/// driver secret stops the mount.
fn whole_pod(
    kind: Kind,
    source: &At,
    key: &str,
    element: &str,
    read: Read,
    found: &mut References,
) {
    let Some((name, name_pointer)) = name_of(source, key, found) else {
        return;
    };
    let one = Use {
        pointer: element.to_string(),
        name_pointer,
        container: None,
        init: false,
        read,
        keys: Keys::All,
        optional: read == Read::ImagePull,
        listed: Vec::new(),
        pinnable: pinnable(kind, name, read),
    };
    found.add(kind, name, one);
}

/// Only the place is kept: an argument may hold a password.
fn argument_hints(container: &At, found: &mut References) {
    for argument in ["command", "args"]
        .iter()
        .flat_map(|field| container.items(field))
    {
        let text = argument.value.as_str().unwrap_or("").to_ascii_lowercase();
        if text.contains("configmap") || text.contains("config-map") {
            found.note(
                &argument.pointer,
                "an argument that seems to name a ConfigMap",
            );
        } else if text.contains("secret/") || text.contains("secrets/") {
            found.note(&argument.pointer, "an argument that seems to name a Secret");
        }
    }
}

fn annotation_hints(annotations: &At, found: &mut References) {
    let mut vault = false;
    for (key, annotation) in annotations.members() {
        let what = match key {
            "configmap.reloader.stakater.com/reload" | "secret.reloader.stakater.com/reload" => {
                "configuration that Reloader watches for this workload"
            }
            "wave.pusher.com/extra-configmaps" | "wave.pusher.com/extra-secrets" => {
                "configuration that Wave watches for this workload"
            }
            _ if key.starts_with("vault.hashicorp.com/agent-inject") && !vault => {
                vault = true;
                "files that the Vault agent injects"
            }
            _ if key.to_ascii_lowercase().contains("configmap") => {
                "an annotation that seems to name a ConfigMap"
            }
            _ => continue,
        };
        found.note(&annotation.pointer, what);
    }
}
