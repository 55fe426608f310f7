//! One version of a ConfigMap put back in place: the plan or the refusal, and the one patch.
//!
//! The only write of this program to a ConfigMap that it did not create, and only on demand: every reader of the object
//! is given the content, which is why `undo` does not do it.
//!
//! A ConfigMap that is gone is never created again. Kubelets may still hold an immutable one of that name and serve it
//! (ARCHITECTURE.md, rule 5), and whether it was immutable when it was deleted is not known: the history shows it only as
//! it was before its last writes.

use serde::Serialize;
use serde_json::{Value, json};

use crate::core::changes::{self, KeyChange};
use crate::core::contents::{ConfigMapLine, Known, VersionLine};
use crate::core::digest::{Content, ContentError};
use crate::core::object::Object;
use crate::core::owners::{self, Tool};
use crate::core::readers::Reader;
use crate::core::recovery::LAST_APPLIED;
use crate::core::references;
use crate::core::report::{WayOn, WrittenObject};

/// Why nothing is restored: a closed list, part of the report's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    Absent,
    Terminating,
    Immutable,
    DryRunDenied,
}

impl Bar {
    pub fn word(self) -> &'static str {
        match self {
            Bar::Absent => "absent",
            Bar::Terminating => "terminating",
            Bar::Immutable => "immutable",
            Bar::DryRunDenied => "dry-run-denied",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub name: String,
    pub chosen: Known,
    /// Today's object, as the patch expects it.
    pub live: Option<Object>,
    pub changes: Vec<KeyChange>,
    pub readers: Vec<Reader>,
    /// Readers whose next Pod would not start, with the keys that they need.
    pub stopped: Vec<(String, Vec<String>)>,
    /// Who may write it again: tools that have marked it as theirs.
    pub managed: Vec<String>,
    pub refusals: Vec<(Bar, String)>,
    pub nothing_to_do: bool,
}

/// # Errors
/// Today's content cannot be understood.
pub fn plan(
    name: &str,
    live: Option<&Object>,
    chosen: Known,
    readers: Vec<Reader>,
    stopped: Vec<(String, Vec<String>)>,
    show: bool,
) -> Result<Plan, ContentError> {
    let today = live.map_or(Ok(Content::default()), Content::from_object)?;
    let equal = live.is_some() && today == chosen.content;
    let frozen = live.is_some_and(|o| o.0.get("immutable").and_then(Value::as_bool) == Some(true));
    let mut refusals = Vec::new();
    match live {
        None => refusals.push((
            Bar::Absent,
            format!("configmap/{name} does not exist, and what is gone is not created again under its name"),
        )),
        Some(object) if object.terminating() => {
            refusals.push((Bar::Terminating, format!("configmap/{name} is being deleted")));
        }
        Some(_) if frozen && !equal => {
            refusals.push((Bar::Immutable, format!("configmap/{name} is immutable: its content cannot be changed")));
        }
        Some(_) => {}
    }
    Ok(Plan {
        name: name.to_string(),
        changes: if live.is_some() { changes::between(&today, &chosen.content, show) } else { Vec::new() },
        chosen,
        nothing_to_do: equal && refusals.is_empty(),
        managed: live.map_or(Vec::new(), managed),
        live: live.cloned(),
        readers,
        stopped,
        refusals,
    })
}

/// Tools that have marked the object as theirs, or write it.
fn managed(object: &Object) -> Vec<String> {
    let mut found = Vec::new();
    if object.annotation(LAST_APPLIED).is_some() {
        found.push("kubectl apply".into());
    }
    found.extend(owners::claims(object).into_iter().map(|claim| match claim.object {
        Some(owner) if claim.tool == Tool::Operator => format!("{}/{}", owner.kind.to_lowercase(), owner.name),
        Some(owner) => format!("{} {} {}", claim.tool.name(), owner.kind, owner.name),
        None => format!("{} ({})", claim.tool.name(), claim.sign),
    }));
    // Of a ConfigMap the id names the core group, which is empty.
    let own = format!(":/ConfigMap:{}/{}", object.namespace(), object.name());
    let tracked = object.annotation("argocd.argoproj.io/tracking-id").and_then(|id| id.strip_suffix(&own));
    found.extend(tracked.map(|application| format!("Argo CD Application {application}")));
    if references::trust_bundle(object.name()) || references::injected_trust_bundle(object) {
        found.push("a controller that puts CA certificates into it".into());
    }
    found
}

impl Plan {
    pub fn refused(&self) -> bool {
        !self.refusals.is_empty()
    }

    /// The JSON patch. Nothing but the content is replaced, and only if the object is as it was read.
    pub fn patch(&self) -> Value {
        let at = |pointer: &str| self.live.as_ref().and_then(|o| o.0.pointer(pointer)).cloned().unwrap_or(Value::Null);
        let mut ops = Vec::new();
        for pointer in ["/metadata/uid", "/metadata/resourceVersion", "/data", "/binaryData"] {
            ops.push(json!({"op": "test", "path": pointer, "value": at(pointer)}));
        }
        let (data, binary) = self.chosen.content.fields();
        for (pointer, map) in [("/data", data), ("/binaryData", binary)] {
            if !map.is_empty() {
                // `add` replaces a member that is there.
                ops.push(json!({"op": "add", "path": pointer, "value": map}));
            } else if !at(pointer).is_null() {
                ops.push(json!({"op": "remove", "path": pointer}));
            }
        }
        Value::Array(ops)
    }

    /// Has the object the planned content, and is it still the same object?
    pub fn holds(&self, now: &Object) -> bool {
        self.live.as_ref().is_some_and(|read| read.uid() == now.uid())
            && Content::from_object(now).is_ok_and(|content| content == self.chosen.content)
    }

    /// `kubectl rollout restart …`, one for each workload whose Pods took the content in at their start.
    pub fn restarts(&self, typed: &[String]) -> Vec<Vec<String>> {
        let kinds = ["deployment/", "statefulset/", "daemonset/"];
        let fixed = self.readers.iter().filter(|r| r.fixed > 0 && kinds.iter().any(|k| r.reader.starts_with(k)));
        fixed
            .map(|reader| {
                let head = ["kubectl", "rollout", "restart", &reader.reader].map(String::from);
                head.into_iter().chain(typed.iter().cloned()).collect()
            })
            .collect()
    }

    /// Only what can work here.
    pub fn ways_on(&self, typed: &[String]) -> Vec<WayOn> {
        let barred = |bar: Bar| self.refusals.iter().any(|(b, _)| *b == bar);
        let mut ways = Vec::new();
        if barred(Bar::Immutable) || barred(Bar::Absent) {
            for reader in self.readers.iter().filter(|r| r.named && r.reader.starts_with("deployment/")) {
                let head = ["kubectl", "saferollback", "undo", &reader.reader, "--to-revision", "N"].map(String::from);
                let given = ["--use".to_string(), format!("{}=FILE", self.name)];
                ways.push(WayOn {
                    id: "undo",
                    why: format!("bind the content to {} under a new name, from a file", reader.reader),
                    argv: head.into_iter().chain(given).chain(typed.iter().cloned()).collect(),
                });
            }
        }
        if barred(Bar::Absent) && self.chosen.immutable != Some(true) {
            ways.push(WayOn {
                id: "create",
                why: "you have it in a file, and it was not immutable".into(),
                argv: ["kubectl", "create", "-f", "FILE"].map(String::from).into_iter().chain(typed.to_vec()).collect(),
            });
        }
        ways
    }
}

/// How a restore ended.
#[derive(Clone, Debug)]
pub enum Ending {
    Planned,
    Done(Box<Object>),
    NothingToDo,
    Refused,
    /// Somebody wrote it since the plan: nothing was written.
    Conflict,
}

impl Ending {
    pub fn word(&self) -> &'static str {
        match self {
            Ending::Planned => "planned",
            Ending::Done(_) => "done",
            Ending::NothingToDo => "nothing-to-do",
            Ending::Refused => "refused",
            Ending::Conflict => "conflict",
        }
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Ending::Planned | Ending::Done(_) | Ending::NothingToDo => 0,
            Ending::Refused => 3,
            Ending::Conflict => 5,
        }
    }
}

/// The body of a document of kind `Restore`. The patch is left out: it holds the content.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restore {
    pub config_map: ConfigMapLine,
    /// Today's version, where there is one.
    pub now: Option<VersionLine>,
    pub version: VersionLine,
    pub changes: Vec<KeyChange>,
    pub readers: Vec<Reader>,
    pub stopped: Vec<Stopped>,
    pub managed: Vec<String>,
    /// Commands after which all readers have the content; none of them is run.
    pub restarts: Vec<Vec<String>>,
    pub refusals: Vec<Barred>,
    pub ways_on: Vec<WayOn>,
    pub written: Vec<WrittenObject>,
    pub outcome: &'static str,
    pub exit_code: u8,
}

#[derive(Clone, Debug, Serialize)]
pub struct Stopped {
    pub reader: String,
    pub keys: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Barred {
    pub code: &'static str,
    pub message: String,
}
