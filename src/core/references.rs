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

use super::object::Object;

mod volumes;
mod walk;

pub use walk::extract;

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
    /// A volume that no container mounts: nobody reads it, and the kubelet passes it over, so that the Pod starts without
    /// the object too.
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
        if self.optional || self.read == Read::Unmounted { &[] } else { &self.listed }
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
        self.uses.iter().all(|u| u.optional || u.read == Read::Unmounted)
    }

    /// Does no container take anything in?
    pub fn unread(&self) -> bool {
        self.uses.iter().all(|u| u.read == Read::Unmounted)
    }

    /// The first reason why some use must keep its name; `Yes` where all may be replaced.
    pub fn pinnable(&self) -> Pinnable {
        self.uses.iter().map(|u| u.pinnable).find(|p| *p != Pinnable::Yes).unwrap_or(Pinnable::Yes)
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
        self.references.iter().find(|r| r.kind == kind && r.name == name)
    }

    fn add(&mut self, kind: Kind, name: &str, one: Use) {
        match self.references.iter_mut().find(|r| r.kind == kind && r.name == name) {
            Some(reference) => reference.uses.push(one),
            None => self.references.push(Reference { kind, name: name.to_string(), uses: vec![one] }),
        }
    }

    fn note(&mut self, pointer: &str, what: impl Into<String>) {
        self.not_traced.push(NotTraced { pointer: pointer.to_string(), what: what.into() });
    }
}

/// Is this the name of a ConfigMap into which a controller injects CA certificates?
pub fn trust_bundle(name: &str) -> bool {
    matches!(
        name,
        "kube-root-ca.crt" | "openshift-service-ca.crt" | "istio-ca-root-cert" | "linkerd-identity-trust-roots"
    )
}

/// Does the ConfigMap itself say that a controller injects CA certificates into it? Such bundles have any name.
pub fn injected_trust_bundle(object: &Object) -> bool {
    object.label("config.openshift.io/inject-trusted-cabundle") == Some("true")
        || object.annotation("service.beta.openshift.io/inject-cabundle") == Some("true")
        || object.label("trust.cert-manager.io/bundle").is_some()
}

/// A member's name as a JSON pointer token (RFC 6901).
pub(crate) fn token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
