//! Volumes made of ConfigMaps and Secrets, and what each container sees of them.

use super::walk::{At, name_of, pinnable, unknown_members, whole_pod};
use super::{Keys, Kind, Read, References, Use};

/// A container's mount of a volume.
pub(super) struct Mount<'a> {
    pub(super) volume: &'a str,
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
    pub(super) fn of(mount: &At<'a>, container: &At<'a>, init: bool) -> Option<Mount<'a>> {
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
        Some(Mount { volume: mount.text("name")?, reader, container: name, init, fixed, below })
    }

    fn sees(&self, path: &[&str]) -> bool {
        self.below.iter().zip(path).all(|(a, b)| a == b)
    }

    fn keys(&self, items: Option<&[Item]>) -> Keys {
        match (items, self.below.first()) {
            (None, None) => Keys::All,
            // Keys have no slash, so the first step of the path decides.
            (None, Some(first)) => Keys::File(vec![first.to_string()]),
            (Some(items), _) => Keys::Named(distinct(items.iter().filter(|i| self.sees(&i.path)).map(|i| i.key))),
        }
    }
}

fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|p| !p.is_empty() && *p != ".").collect()
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
    let item = |i: &At<'a>| Some(Item { key: i.text("key")?, path: parts(i.text("path").unwrap_or("")) });
    Some(items.iter().filter_map(item).collect())
}

pub(super) fn sources(volume: &At, mounts: &[&Mount], found: &mut References) {
    if let Some(source) = volume.get("configMap") {
        files(Kind::ConfigMap, volume, &source, "name", mounts, found);
    }
    if let Some(source) = volume.get("secret") {
        files(Kind::Secret, volume, &source, "secretName", mounts, found);
    }
    for source in volume.get("projected").map(|p| p.items("sources")).unwrap_or_default() {
        for (field, kind) in [("configMap", Kind::ConfigMap), ("secret", Kind::Secret)] {
            if let Some(object) = source.get(field) {
                files(kind, &source, &object, "name", mounts, found);
            }
        }
        unknown_members(&source, &PROJECTED, found);
    }
    if let Some(csi) = volume.get("csi") {
        if let Some(secret) = csi.get("nodePublishSecretRef") {
            whole_pod(&secret, "name", &volume.pointer, Read::Driver, found);
        }
        if let Some(attributes) = csi.get("volumeAttributes")
            && let Some(class) = attributes.text("secretProviderClass")
        {
            let pointer = format!("{}/secretProviderClass", attributes.pointer);
            found.note(&pointer, format!("SecretProviderClass {class}: its content comes from outside the cluster"));
        }
    }
    if let Some(azure) = volume.get("azureFile") {
        whole_pod(&azure, "secretName", &volume.pointer, Read::Driver, found);
    }
    for driver in SECRET_REF_DRIVERS {
        if let Some(secret) = volume.get(driver).and_then(|d| d.get("secretRef")) {
            whole_pod(&secret, "name", &volume.pointer, Read::Driver, found);
        }
    }
    unknown_members(volume, &VOLUMES, found);
}

/// The projected sources of core/v1.
const PROJECTED: [&str; 6] =
    ["configMap", "secret", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];

/// Volume types of core/v1 with a `secretRef`. Most are gone from the kubelet; the fields remain in the API.
const SECRET_REF_DRIVERS: [&str; 7] = ["cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"];

/// The fields of a volume in core/v1.
#[rustfmt::skip]
const VOLUMES: [&str; 31] = [
    "name", "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "configMap", "csi", "downwardAPI",
    "emptyDir", "ephemeral", "fc", "flexVolume", "flocker", "gcePersistentDisk", "gitRepo", "glusterfs", "hostPath",
    "image", "iscsi", "nfs", "persistentVolumeClaim", "photonPersistentDisk", "portworxVolume", "projected",
    "quobyte", "rbd", "scaleIO", "secret", "storageos", "vsphereVolume",
];

/// A ConfigMap or Secret that becomes files: one use per reading container and way of mounting.
fn files(kind: Kind, element: &At, source: &At, key: &str, mounts: &[&Mount], found: &mut References) {
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
        let read = if mount.fixed { Read::Mount } else { Read::RefreshedMount };
        let keys = mount.keys(items.as_deref());
        match uses.iter_mut().find(|(reader, u)| *reader == mount.reader && u.read == read) {
            Some((_, former)) => former.keys = former.keys.and(keys),
            None => uses.push((&mount.reader, one(read, keys, mount.container.clone(), mount.init))),
        }
    }
    if uses.is_empty() {
        found.add(kind, name, one(Read::Unmounted, Keys::Named(Vec::new()), None, false));
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
