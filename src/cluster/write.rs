//! Writes: create, JSON patch, merge patch, delete, evict, each with a dry run.
//!
//! A write is sent once. When its outcome is unknown the error says so, and the caller looks before it acts again.
//! Every write is strictly validated: without it the server drops unknown fields and answers 200.

use http::Method;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::cluster::exchange::{Answer, Asked, Broken, Cause, Refused, path, request};
use crate::cluster::read::{ReadError, Resource, object};
use crate::core::object::Object;

/// The field manager of everything we write. It does not begin with `kubectl`: Flux takes all fields of such managers
/// away at its next apply, so that nobody could tell any more who wrote (fluxcd/kustomize-controller#982).
pub const FIELD_MANAGER: &str = "saferollback";
/// That of annotations put on an object of ours later. An owner's time moves with each of its writes, and that of a
/// snapshot's `immutable` must stay the creation's: it is what proves for how long it has been so.
pub const ANNOTATOR: &str = "saferollback-annotate";

/// Who forbade a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ban {
    /// The user lacks the right.
    Rights,
    /// A ResourceQuota is used up, or demands fields that are not set.
    Quota,
    /// The namespace is being deleted: nothing can be created in it any more.
    Terminating,
    /// Another admission rule, such as PodSecurity.
    Admission,
}

/// Why a write was not, or may not have been, carried out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    #[error("cannot {asked}: it exists already")]
    AlreadyExists { asked: Asked },
    /// Somebody else's write came first, or a precondition on uid or version failed.
    #[error("cannot {asked}: {message}")]
    Conflict { asked: Asked, message: String },
    /// A `test` of a JSON patch failed: the object is no longer as it was read. The server says this as 422 without
    /// any details; a patch that removes an absent path gets the same answer.
    #[error("cannot {asked}: the object changed since it was read")]
    TestFailed { asked: Asked },
    /// The object or patch is wrong by the API's rules.
    #[error("cannot {asked}: {}", .causes.join("; "))]
    Invalid { asked: Asked, causes: Vec<String> },
    #[error("not allowed to {asked}: {message}")]
    Forbidden { asked: Asked, by: Ban, message: String },
    /// An admission webhook or policy of the cluster said no.
    #[error("cannot {asked}: {message}")]
    Denied { asked: Asked, message: String },
    #[error("cannot {asked}: {message}")]
    NotFound { asked: Asked, message: String },
    /// A PodDisruptionBudget does not allow the eviction, or is not worked out yet.
    #[error("cannot {asked}: {message}")]
    Budget { asked: Asked, message: String },
    /// There was no connection: nothing was sent.
    #[error("cannot {asked}: no connection to {server}: {cause}")]
    Unreachable { asked: Asked, server: String, cause: String },
    /// There is nothing to sign in with: nothing was sent.
    #[error("cannot {asked}: {cause}")]
    NoCredentials { asked: Asked, cause: String },
    /// The request may have been carried out.
    #[error("cannot tell whether it was done: {asked}: {cause}")]
    Ambiguous { asked: Asked, cause: String },
    /// As `Ambiguous`: the request may have been carried out, or may still be.
    #[error("cannot tell whether it was done: {asked}: no complete answer within {after:?}")]
    Timeout { asked: Asked, after: std::time::Duration },
    #[error("cannot {asked}: {message} ({code} {reason})")]
    Api { asked: Asked, code: u16, reason: String, message: String },
    /// Refused by us: as part of a URL it would lead to another object.
    #[error("cannot {asked}: {name:?} cannot be a name")]
    BadName { asked: Asked, name: String },
}

impl WriteError {
    /// May the write have been carried out all the same?
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, WriteError::Ambiguous { .. } | WriteError::Timeout { .. })
    }

    fn from_refused(asked: Asked, refused: Refused, dry_run: bool) -> WriteError {
        let Refused { code, reason, message, causes, genuine } = refused;
        let webhook = message.contains("admission webhook ") && message.contains("denied the request");
        let policy = message.contains("ValidatingAdmissionPolicy ") && message.contains("denied request");
        // Webhooks choose the code of their denial freely, so their text is asked first.
        if webhook || policy {
            return WriteError::Denied { asked, message };
        }
        match code {
            409 if reason == "AlreadyExists" => WriteError::AlreadyExists { asked },
            409 => WriteError::Conflict { asked, message },
            422 if causes.is_empty() && asked.verb.ends_with(JSON_PATCH) => WriteError::TestFailed { asked },
            422 => {
                // A uid in a merge patch is a precondition; that it does not hold is said as an attempt to change it.
                if asked.verb.ends_with(MERGE_PATCH) && causes.iter().any(|cause| cause.field == "metadata.uid") {
                    return WriteError::Conflict { asked, message: "another object has that name now".to_string() };
                }
                let mut causes: Vec<String> = causes.iter().map(Cause::without_values).collect();
                causes.dedup();
                if causes.is_empty() {
                    causes.push(message);
                }
                WriteError::Invalid { asked, causes }
            }
            400 if message.contains("strict decoding error") => WriteError::Invalid { asked, causes: vec![message] },
            403 => {
                let by = if causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
                    || message.contains("because it is being terminated")
                {
                    Ban::Terminating
                } else if message.contains("exceeded quota") || message.contains("failed quota") {
                    Ban::Quota
                } else if message.contains(" cannot ") && message.contains(" resource ") {
                    Ban::Rights
                } else {
                    Ban::Admission
                };
                WriteError::Forbidden { asked, by, message }
            }
            429 if causes.iter().any(|cause| cause.reason == "DisruptionBudget") => {
                let budgets = causes.iter().filter(|cause| cause.reason == "DisruptionBudget");
                let words: Vec<&str> = budgets.map(|cause| cause.message.as_str()).collect();
                WriteError::Budget { asked, message: words.join("; ") }
            }
            404 => WriteError::NotFound { asked, message },
            // A webhook that cannot be called fails before anything is stored. Any other 5xx may come from a proxy
            // that had passed the request on, or from a store that was too slow to say yes.
            500..=599 if !(dry_run || genuine && message.contains("failed calling webhook")) => {
                WriteError::Ambiguous { asked, cause: format!("{message} ({code})") }
            }
            code => {
                let reason = if reason.is_empty() { "status".to_string() } else { reason };
                WriteError::Api { asked, code, reason, message }
            }
        }
    }

    fn from_broken(asked: Asked, server: &str, broken: Broken, dry_run: bool) -> WriteError {
        match broken {
            Broken::NoCredentials(failed) => WriteError::NoCredentials { asked, cause: failed.cause },
            Broken::Lost { cause } if !dry_run => WriteError::Ambiguous { asked, cause },
            Broken::Unreachable { cause, .. } | Broken::Lost { cause } => {
                WriteError::Unreachable { asked, server: server.to_string(), cause }
            }
            Broken::Timeout { after } => WriteError::Timeout { asked, after },
        }
    }
}

const JSON_PATCH: &str = "patch";
const MERGE_PATCH: &str = "change";

impl Cluster {
    /// Creates an object. `dry_run` asks the server to check it and store nothing.
    ///
    /// # Errors
    /// See [`WriteError`]; of a dry run none means that anything was written.
    pub async fn create(
        &self,
        resource: Resource,
        namespace: &str,
        body: &Value,
        dry_run: bool,
    ) -> Result<Object, WriteError> {
        let asked = Asked::new(if dry_run { "dry-run create" } else { "create" }, resource, namespace, None);
        let name = body.pointer("/metadata/name").and_then(Value::as_str).map(Into::into);
        let path = path(&asked, resource);
        self.write(
            Method::POST,
            path,
            Asked { name, ..asked },
            resource,
            ("application/json", FIELD_MANAGER),
            body,
            dry_run,
        )
        .await
    }

    /// Applies a JSON patch (RFC 6902): all of it or nothing, so its `test` operations are preconditions that hold
    /// at the moment of the write.
    ///
    /// # Errors
    /// See [`WriteError`]; a precondition that does not hold is [`WriteError::TestFailed`].
    pub async fn json_patch(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        ops: &Value,
        dry_run: bool,
    ) -> Result<Object, WriteError> {
        let verb = if dry_run { "dry-run patch" } else { JSON_PATCH };
        let asked = Asked::new(verb, resource, namespace, Some(name));
        let path = path(&asked, resource);
        self.write(Method::PATCH, path, asked, resource, ("application/json-patch+json", FIELD_MANAGER), ops, dry_run)
            .await
    }

    /// Applies a merge patch (RFC 7386) as [`ANNOTATOR`]. `metadata.uid` or `metadata.resourceVersion` in it are preconditions.
    ///
    /// # Errors
    /// See [`WriteError`]; a precondition that does not hold is [`WriteError::Conflict`].
    pub async fn merge_patch(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        patch: &Value,
        dry_run: bool,
    ) -> Result<Object, WriteError> {
        let verb = if dry_run { "dry-run change" } else { MERGE_PATCH };
        let asked = Asked::new(verb, resource, namespace, Some(name));
        let path = path(&asked, resource);
        self.write(Method::PATCH, path, asked, resource, ("application/merge-patch+json", ANNOTATOR), patch, dry_run)
            .await
    }

    /// Deletes the object, if it is the one with this uid and resourceVersion.
    ///
    /// # Errors
    /// See [`WriteError`]; a precondition that does not hold is [`WriteError::Conflict`], an object that is gone is
    /// [`WriteError::NotFound`].
    pub async fn delete(
        &self,
        resource: Resource,
        namespace: &str,
        object: &Object,
        dry_run: bool,
    ) -> Result<(), WriteError> {
        let verb = if dry_run { "dry-run delete" } else { "delete" };
        let asked = Asked::new(verb, resource, namespace, Some(object.name()));
        let path = match path(&asked, resource) {
            Ok(path) => path,
            Err(_) => return Err(WriteError::BadName { asked, name: object.name().to_string() }),
        };
        let mut options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": object.uid(), "resourceVersion": object.str_at("/metadata/resourceVersion")},
        });
        if dry_run {
            options["dryRun"] = json!(["All"]);
        }
        let content = Some(("application/json", options.to_string().into_bytes()));
        match self.exchange(request(Method::DELETE, &path, &[], resource.accept(), content)).await {
            Ok(Answer { status: 200..=299, .. }) => Ok(()),
            Ok(answer) => Err(WriteError::from_refused(asked, Refused::parse(&answer), dry_run)),
            Err(broken) => Err(WriteError::from_broken(asked, &self.server, broken, dry_run)),
        }
    }

    /// Evicts the Pod, if it is the one with this uid and no PodDisruptionBudget stands against it.
    ///
    /// # Errors
    /// See [`WriteError`]; a budget that does not allow it is [`WriteError::Budget`], another Pod of that name
    /// [`WriteError::Conflict`].
    pub async fn evict(&self, pod: &Object, dry_run: bool) -> Result<(), WriteError> {
        let verb = if dry_run { "dry-run evict" } else { "evict" };
        let asked = Asked::new(verb, Resource::Pods, pod.namespace(), Some(pod.name()));
        let path = match path(&asked, Resource::Pods) {
            Ok(path) => format!("{path}/eviction"),
            Err(_) => return Err(WriteError::BadName { asked, name: pod.name().to_string() }),
        };
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name(), "namespace": pod.namespace()},
            "deleteOptions": {"preconditions": {"uid": pod.uid()}},
        });
        let mut query = vec![("fieldManager", FIELD_MANAGER.to_string()), ("fieldValidation", "Strict".to_string())];
        if dry_run {
            query.push(("dryRun", "All".to_string()));
        }
        let content = Some(("application/json", body.to_string().into_bytes()));
        match self.exchange(request(Method::POST, &path, &query, Resource::Pods.accept(), content)).await {
            Ok(Answer { status: 200..=299, .. }) => Ok(()),
            Ok(answer) => Err(WriteError::from_refused(asked, Refused::parse(&answer), dry_run)),
            Err(broken) => Err(WriteError::from_broken(asked, &self.server, broken, dry_run)),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one private seam; three callers that each fill in all of it")]
    async fn write(
        &self,
        method: Method,
        path: Result<String, ReadError>,
        asked: Asked,
        resource: Resource,
        (content_type, manager): (&'static str, &str),
        body: &Value,
        dry_run: bool,
    ) -> Result<Object, WriteError> {
        let path = match path {
            Ok(path) => path,
            Err(ReadError::BadName { name, .. }) => return Err(WriteError::BadName { asked, name }),
            Err(other) => return Err(WriteError::BadName { asked, name: other.to_string() }),
        };
        let mut query = vec![("fieldManager", manager.to_string()), ("fieldValidation", "Strict".to_string())];
        if dry_run {
            query.push(("dryRun", "All".to_string()));
        }
        let content = Some((content_type, body.to_string().into_bytes()));
        let answer = self.exchange(request(method, &path, &query, resource.accept(), content)).await;
        match answer {
            Ok(Answer { status: 200..=299, body, .. }) => object(&asked, resource, &body).map_err(|error| {
                let cause = format!("the server said yes, but {error}");
                match dry_run {
                    true => WriteError::Api { asked, code: 200, reason: "Malformed".to_string(), message: cause },
                    false => WriteError::Ambiguous { asked, cause },
                }
            }),
            Ok(answer) => Err(WriteError::from_refused(asked, Refused::parse(&answer), dry_run)),
            Err(broken) => Err(WriteError::from_broken(asked, &self.server, broken, dry_run)),
        }
    }
}
