//! Who else writes this workload, and whether they put back what others change.
//!
//! Two steps: what the workload says of itself ([`claims`]), and what the object that it names says then ([`owner`]).
//! Labels alone never tell whether somebody heals: that stands in an Application, a Kustomization or a HelmRelease. One
//! that cannot be read leaves the question open, and open is an answer.
//!
//! The formats are those of the tools' own documentation: Argo CD's resource tracking, Flux's labels and managers, Helm's
//! ownership metadata, kapp's label. Where it may mislead: a manager in managedFields stays there when its tool is gone.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::core::object::Object;

pub const RELEASE_NAME: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";
const ARGO_INSTANCE: &str = "argocd.argoproj.io/instance";
/// Argo CD's default until 3.0; many charts set it too, so it says nothing alone.
const INSTANCE: &str = "app.kubernetes.io/instance";
const KAPP_APP: &str = "kapp.k14s.io/app";
/// Of server-side and of older client-side syncs.
const ARGO_MANAGERS: [&str; 2] = ["argocd-controller", "argocd-application-controller"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    ArgoCd,
    Flux,
    Helm,
    Kapp,
    Operator,
    Hpa,
    Vpa,
}

impl Tool {
    pub fn word(self) -> &'static str {
        match self {
            Tool::ArgoCd => "argo-cd",
            Tool::Flux => "flux",
            Tool::Helm => "helm",
            Tool::Kapp => "kapp",
            Tool::Operator => "operator",
            Tool::Hpa => "hpa",
            Tool::Vpa => "vpa",
        }
    }

    /// Its own spelling.
    pub fn name(self) -> &'static str {
        match self {
            Tool::ArgoCd => "Argo CD",
            Tool::Flux => "Flux",
            Tool::Helm => "Helm",
            Tool::Kapp => "kapp",
            Tool::Operator => "operator",
            Tool::Hpa | Tool::Vpa => "autoscaler",
        }
    }

    /// Does it write the template? Autoscalers do not.
    pub fn writes_templates(self) -> bool {
        !matches!(self, Tool::Hpa | Tool::Vpa)
    }
}

/// Does it put back what others write?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Healing {
    Yes,
    No,
    Unknown,
}

impl Healing {
    pub fn word(self) -> &'static str {
        match self {
            Healing::Yes => "yes",
            Healing::No => "no",
            Healing::Unknown => "unknown",
        }
    }
}

/// The object behind an owner. `namespace` is empty where it is not known, and for what has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl Named {
    fn new(kind: &str, namespace: &str, name: &str) -> Named {
        Named { kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// What a workload says about who writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub tool: Tool,
    /// What to ask whether it heals; `None` where the workload does not name it.
    pub object: Option<Named>,
    /// What says so: `label argocd.argoproj.io/instance`.
    pub sign: String,
}

/// The object that a claim names, as far as it could be read.
#[derive(Clone, Debug)]
pub enum Looked {
    Found(Box<Object>),
    /// It was asked for and is not there.
    Absent,
    /// There is none to ask for, or it could not be read, in words.
    Unknown(String),
}

/// One that writes the workload, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub tool: Tool,
    pub object: Option<Named>,
    pub healing: Healing,
    /// What on the workload, or on the owner, says that it owns it.
    pub sign: String,
    /// Why it heals, or does not, or why that is open; in words.
    pub why: String,
}

/// All of them, and what could not be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    pub owners: Vec<Owner>,
    /// Kinds that may hold owners and could not be read, in words.
    pub unread: Vec<String>,
}

impl Owners {
    /// Those that are known to put back what others write.
    pub fn healers(&self) -> impl Iterator<Item = &Owner> {
        self.owners.iter().filter(|o| o.healing == Healing::Yes)
    }

    /// Is anybody there who puts back, or may?
    pub fn may_be_put_back(&self) -> bool {
        self.owners.iter().any(|o| o.tool.writes_templates() && o.healing != Healing::No)
    }
}

/// Who writes the workload, by its own labels, annotations, managers and owners; in the order of [`Tool`].
pub fn claims(workload: &Object) -> Vec<Claim> {
    let mut claims: Vec<Claim> = argo(workload).into_iter().collect();
    claims.extend(flux(workload, "kustomize.toolkit.fluxcd.io", "Kustomization", "kustomize-controller"));
    claims.extend(flux(workload, "helm.toolkit.fluxcd.io", "HelmRelease", "helm-controller"));
    claims.extend(helm(workload));
    if let Some(app) = workload.label(KAPP_APP) {
        claims.push(Claim { tool: Tool::Kapp, object: None, sign: format!("label {KAPP_APP}={app}") });
    }
    claims.extend(operators(workload));
    claims
}

/// Does a manager own fields of the template? The rest of an object is written by many.
fn writes_template(workload: &Object, manager: &str) -> bool {
    workload.field_owners().any(|o| o.manager == manager && o.owns(&["f:spec", "f:template"]))
}

fn argo(workload: &Object) -> Option<Claim> {
    let manager = ARGO_MANAGERS.into_iter().find(|m| writes_template(workload, m));
    let named = |instance: &str, sign: String| {
        // An Application outside Argo CD's own namespace is tracked as `NAMESPACE_NAME`.
        let (namespace, name) = instance.split_once('_').unwrap_or(("", instance));
        Some(Claim { tool: Tool::ArgoCd, object: Some(Named::new("Application", namespace, name)), sign })
    };
    if let Some(id) = workload.annotation(TRACKING_ID) {
        // `APP:GROUP/KIND:NAMESPACE/NAME`. Argo CD passes over one that names another object: it was copied here.
        let own = format!(":apps/{}:{}/{}", workload.kind(), workload.namespace(), workload.name());
        if let Some(instance) = id.strip_suffix(&own).filter(|i| !i.is_empty()) {
            return named(instance, format!("annotation {TRACKING_ID}"));
        }
    }
    if let Some(instance) = workload.label(ARGO_INSTANCE) {
        return named(instance, format!("label {ARGO_INSTANCE}"));
    }
    let manager = manager?;
    match workload.label(INSTANCE) {
        Some(instance) => named(instance, format!("label {INSTANCE}, and {manager} in managedFields")),
        None => Some(Claim { tool: Tool::ArgoCd, object: None, sign: format!("{manager} in managedFields") }),
    }
}

fn flux(workload: &Object, group: &str, kind: &str, manager: &str) -> Option<Claim> {
    let label = |name: &str| workload.label(&format!("{group}/{name}"));
    if let (Some(name), Some(namespace)) = (label("name"), label("namespace")) {
        let object = Some(Named::new(kind, namespace, name));
        return Some(Claim { tool: Tool::Flux, object, sign: format!("label {group}/name") });
    }
    writes_template(workload, manager).then(|| Claim {
        tool: Tool::Flux,
        object: None,
        sign: format!("{manager} in managedFields"),
    })
}

fn helm(workload: &Object) -> Option<Claim> {
    let name =
        workload.annotation(RELEASE_NAME).filter(|_| workload.label("app.kubernetes.io/managed-by") == Some("Helm"));
    let namespace = workload.annotation(RELEASE_NAMESPACE).unwrap_or(workload.namespace());
    let object = Some(Named::new("Release", namespace, name?));
    Some(Claim { tool: Tool::Helm, object, sign: format!("annotation {RELEASE_NAME}") })
}

fn operators(workload: &Object) -> Vec<Claim> {
    let references = workload.items_at("/metadata/ownerReferences").iter();
    let claim = |reference: &Value| {
        let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or("");
        let controls = reference.get("controller").and_then(Value::as_bool) == Some(true);
        let what = if controls { "the controller" } else { "an owner, not the controller" };
        Claim {
            tool: Tool::Operator,
            object: Some(Named::new(text("kind"), workload.namespace(), text("name"))),
            sign: format!("ownerReferences name it as {what}"),
        }
    };
    references.map(claim).collect()
}

/// Claim and object → owner.
pub fn owner(claim: Claim, workload: &Object, looked: &Looked) -> Owner {
    let kustomized = claim.object.as_ref().is_some_and(|o| o.kind == "Kustomization");
    let controls =
        |o: &Named| workload.controller().is_some_and(|c| (c.kind, c.name) == (o.kind.clone(), o.name.clone()));
    let (healing, why) = match (claim.tool, looked) {
        (Tool::Operator, _) if claim.object.as_ref().is_some_and(controls) => {
            (Healing::Yes, "a controller reconciles what it owns".to_string())
        }
        (Tool::Operator, _) => (Healing::Unknown, "whether it reconciles is not known".into()),
        (Tool::Helm, _) => (Healing::No, "Helm writes only when it is called".into()),
        (Tool::Kapp, _) => {
            (Healing::Unknown, "kapp writes only when it is called, but a kapp-controller may call it".into())
        }
        (Tool::Hpa | Tool::Vpa, _) => (Healing::No, "it does not write the template".into()),
        (Tool::Flux, _) if kustomized && let Some(by) = exempt(workload) => {
            (Healing::No, format!("{by} on the workload exempts it"))
        }
        (Tool::ArgoCd, Looked::Found(object)) => application(object),
        (Tool::Flux, Looked::Found(object)) => reconciled(object, workload),
        (_, Looked::Absent) => (Healing::Unknown, "it is not in this cluster, another one's may be meant".into()),
        (_, Looked::Unknown(why)) => (Healing::Unknown, why.clone()),
    };
    let object = match (claim.object, looked) {
        (Some(named), Looked::Found(object)) => Some(Named { namespace: object.namespace().into(), ..named }),
        (named, _) => named,
    };
    Owner { tool: claim.tool, object, healing, sign: claim.sign, why }
}

/// Labels and annotations by which a Kustomization leaves one object alone.
fn exempt(workload: &Object) -> Option<String> {
    let ways = [
        ("kustomize.toolkit.fluxcd.io/reconcile", &["disabled"][..]),
        ("kustomize.toolkit.fluxcd.io/ssa", &["ignore", "ifnotpresent"][..]),
    ];
    ways.into_iter().find_map(|(key, values)| {
        let set = workload.annotation(key).or_else(|| workload.label(key))?;
        values.contains(&set.to_ascii_lowercase().as_str()).then(|| format!("{key}={set}"))
    })
}

fn flag(object: &Object, pointer: &str) -> bool {
    object.0.pointer(pointer).and_then(Value::as_bool) == Some(true)
}

fn application(object: &Object) -> (Healing, String) {
    let automated = object.0.pointer("/spec/syncPolicy/automated").filter(|a| a.is_object());
    let switched_off = automated.is_some_and(|a| a.get("enabled").and_then(Value::as_bool) == Some(false));
    if object.annotation("argocd.argoproj.io/skip-reconcile") == Some("true") {
        return (Healing::No, "it skips reconciliation".into());
    }
    match automated {
        None => (Healing::No, "its sync is manual".into()),
        Some(_) if switched_off => (Healing::No, "its automated sync is switched off".into()),
        Some(_) if flag(object, "/spec/syncPolicy/automated/selfHeal") => {
            (Healing::Yes, "its sync is automated, with selfHeal".into())
        }
        Some(_) => (Healing::No, "its sync is automated, without selfHeal".into()),
    }
}

/// A Kustomization or a HelmRelease.
fn reconciled(object: &Object, workload: &Object) -> (Healing, String) {
    if flag(object, "/spec/suspend") {
        return (Healing::No, "it is suspended".into());
    }
    let every = match object.str_at("/spec/interval") {
        "" => String::new(),
        interval => format!(", every {interval}"),
    };
    if object.kind() != "HelmRelease" {
        return (Healing::Yes, format!("it is not suspended{every}"));
    }
    // A HelmRelease looks at its objects only when it is told to.
    let off = "helm.toolkit.fluxcd.io/driftDetection";
    let exempted = [workload.label(off), workload.annotation(off)].contains(&Some("disabled"));
    match object.str_at("/spec/driftDetection/mode") {
        "enabled" if exempted => (Healing::No, format!("{off} on the workload exempts it")),
        "enabled" => (Healing::Yes, format!("its drift detection is enabled{every}")),
        "" => (Healing::No, "its drift detection is not enabled".into()),
        mode => (Healing::No, format!("its drift detection is {mode}")),
    }
}

/// Of several Applications of one name, the one that lists the workload.
pub fn one_application<'a>(found: &'a [Object], workload: &Object) -> Result<&'a Object, String> {
    let lists = |application: &&Object| {
        application.items_at("/status/resources").iter().any(|r| {
            let text = |key: &str| r.get(key).and_then(Value::as_str).unwrap_or("");
            (text("group"), text("kind")) == ("apps", workload.kind())
                && (text("namespace"), text("name")) == (workload.namespace(), workload.name())
        })
    };
    match (found, found.iter().filter(lists).collect::<Vec<_>>().as_slice()) {
        ([one], _) => Ok(one),
        (_, [one]) => Ok(*one),
        _ => Err(format!("{} Applications have that name", found.len())),
    }
}

/// Autoscalers whose target this workload is: `pointer` is where they name it.
pub fn scalers(tool: Tool, pointer: &str, objects: &[Object], workload: &Object) -> Vec<Owner> {
    let targets = |object: &&Object| {
        let text = |key: &str| object.str_at(&format!("{pointer}/{key}"));
        text("kind") == workload.kind()
            && text("name") == workload.name()
            && text("apiVersion").split('/').next() == Some("apps")
    };
    let owner = |object: &Object| {
        let object = Named::new(object.kind(), object.namespace(), object.name());
        let claim = Claim { tool, object: Some(object), sign: pointer.trim_start_matches("/spec/").to_string() };
        self::owner(claim, workload, &Looked::Absent)
    };
    objects.iter().filter(targets).map(owner).collect()
}

/// The revision of a Helm release, from the metadata of the Secrets that hold it: `sh.helm.release.v1.NAME.vN`. The
/// deployed one, else the highest.
pub fn release_revision(secrets: &[Object], release: &str) -> Option<u64> {
    let prefix = format!("sh.helm.release.v1.{release}.v");
    let number = |secret: &Object| secret.name().strip_prefix(&prefix)?.parse().ok();
    let deployed = secrets.iter().filter(|s| s.label("status") == Some("deployed")).filter_map(number).max();
    deployed.or_else(|| secrets.iter().filter_map(number).max())
}

impl Owner {
    /// `application/web in namespace argocd (Argo CD)`. What owns or scales by a reference is beside the workload.
    pub fn title(&self) -> String {
        let Some(object) = &self.object else { return self.tool.name().to_string() };
        let short = format!("{}/{}", object.kind.to_lowercase(), object.name);
        match (self.tool, object.namespace.as_str()) {
            (Tool::Operator | Tool::Hpa | Tool::Vpa, _) => short,
            (tool, "") => format!("{short} ({})", tool.name()),
            (tool, namespace) => format!("{short} in namespace {namespace} ({})", tool.name()),
        }
    }

    /// What it will do about a rollback: half a sentence after the title.
    pub fn deed(&self) -> &'static str {
        match (self.tool, self.healing) {
            (Tool::Hpa, _) => "sets the number of Pods",
            (Tool::Vpa, _) => "sets what its Pods request",
            (_, Healing::Yes) => "puts back what others write",
            (Tool::Helm, _) => "brings its own template back at the next upgrade",
            (_, Healing::No) => "brings its own template back at the next sync",
            (_, Healing::Unknown) => "may put back what others write",
        }
    }

    /// Why the plan is refused.
    pub fn refusal(&self) -> String {
        format!("{} {}: {} ({})", self.title(), self.deed(), self.why, self.sign)
    }

    /// The whole of it, for stderr.
    pub fn sentence(&self) -> String {
        if !self.tool.writes_templates() {
            return format!("{} {}", self.title(), self.deed());
        }
        let mut text = self.refusal();
        match (self.tool, &self.object) {
            (Tool::Helm, Some(release)) if plain(&release.name) && plain(&release.namespace) => {
                let (name, namespace) = (&release.name, &release.namespace);
                text.push_str(&format!(
                    ". Helm's own way: helm history {name} -n {namespace}; helm rollback {name} REVISION -n {namespace}"
                ));
            }
            // It takes its own fields back by server-side apply, and leaves those of other managers.
            (Tool::Flux, _) => text.push_str(". What is written now and its source does not set may outlive it"),
            _ => {}
        }
        text
    }
}

/// May it stand in a command that is to be pasted? The text is the cluster's.
fn plain(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// A change of ours that did not stay: somebody wrote another template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overwritten {
    /// The managers whose entries in managedFields moved since, and that own fields of the template.
    pub by: Vec<String>,
    pub generation: i64,
    /// Digests of our template and of the one that is there.
    pub ours: String,
    pub theirs: String,
    /// JSON pointers at which they differ.
    pub differs: Vec<String>,
}

impl Overwritten {
    pub fn line(&self) -> String {
        let by = match self.by.as_slice() {
            [] => "somebody whom managedFields does not name".to_string(),
            names => format!("{} (managedFields)", names.join(" and ")),
        };
        format!("the rolled back change was overwritten by {by}")
    }

    /// What there is to compare.
    pub fn detail(&self) -> String {
        let short = |hex: &str| hex.chars().take(12).collect::<String>();
        let (ours, theirs) = (short(&self.ours), short(&self.theirs));
        let fields = self.differs.join(", ");
        format!("generation {}: template {theirs} instead of ours, {ours}; at {fields}", self.generation)
    }
}

/// Is the workload no longer as we wrote it? Scaling moves the generation too and is no matter.
pub fn overwritten(ours: &Object, now: &Object) -> Option<Overwritten> {
    let generation = |o: &Object| o.int_at("/metadata/generation").unwrap_or(0);
    let template = |o: &Object| o.0.pointer("/spec/template").cloned().unwrap_or_default();
    if generation(now) <= generation(ours) {
        return None;
    }
    let differs = crate::core::pin::difference(&template(ours), &template(now));
    if differs.is_empty() {
        return None;
    }
    let before = ours.items_at("/metadata/managedFields");
    let wrote = now.items_at("/metadata/managedFields").iter().filter(|entry| {
        let same = |other: &&Value| {
            ["manager", "operation", "apiVersion", "subresource"].iter().all(|k| entry.get(k) == other.get(k))
        };
        // An entry that only lost fields to others keeps its time: that is ours, not theirs.
        let moved = before.iter().find(same).is_none_or(|old| {
            old.get("time") != entry.get("time") || gained(entry.get("fieldsV1"), old.get("fieldsV1"))
        });
        moved && entry.pointer("/fieldsV1/f:spec/f:template").is_some()
    });
    let by: BTreeSet<String> = wrote.filter_map(|entry| entry.get("manager")?.as_str()).map(str::to_string).collect();
    let digest = |o: &Object| crate::core::history::template_digest(&template(o));
    Some(Overwritten {
        by: by.into_iter().collect(),
        generation: generation(now),
        ours: digest(ours),
        theirs: digest(now),
        differs,
    })
}

/// Is there a field in `now` that `old` does not have?
fn gained(now: Option<&Value>, old: Option<&Value>) -> bool {
    let Some(Value::Object(now)) = now else { return false };
    now.iter().any(|(key, fields)| match old.and_then(|o| o.get(key)) {
        None => true,
        inner => gained(Some(fields), inner),
    })
}
