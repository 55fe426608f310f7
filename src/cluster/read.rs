//! Reads: lists, single objects, and lists as they were at an earlier version.
//!
//! Reads are repeated after connection errors, 429 and 5xx, with a notice; their results are raw JSON, parsed once.

use std::time::Instant;

use http::Method;
use serde_json::Value;

pub use crate::cluster::exchange::Asked;
use crate::cluster::exchange::{Answer, Broken, Refused, named, path, request};
use crate::cluster::plugin::Failed;
use crate::cluster::{Cluster, Notice};
use crate::core::object::Object;

/// Items of one page. Bodies are held twice while they are parsed, so pages bound the memory.
const PAGE: &str = "500";

/// How often a list starts again because its continue token expired half way.
const RESTARTS: usize = 3;

/// The types this tool reads. No discovery: their paths are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    Deployments,
    StatefulSets,
    DaemonSets,
    ReplicaSets,
    ControllerRevisions,
    Pods,
    ConfigMaps,
    /// Always read as metadata: the values stay in the cluster.
    Secrets,
    /// The core ones: their `involvedObject.resourceVersion` is evidence.
    Events,
    CronJobs,
    Jobs,
    ReplicationControllers,
    PodTemplates,
    /// The next five belong to who else writes a workload; only the autoscaler is part of Kubernetes itself.
    HorizontalPodAutoscalers,
    VerticalPodAutoscalers,
    /// Of Argo CD.
    Applications,
    /// Of Flux.
    Kustomizations,
    /// Of Flux.
    HelmReleases,
    Services,
    /// Which Pods a Service leads to.
    EndpointSlices,
    /// Of the whole cluster: listed with an empty namespace.
    Namespaces,
}

impl Resource {
    pub const ALL: [Resource; 21] = [
        Resource::Deployments,
        Resource::StatefulSets,
        Resource::DaemonSets,
        Resource::ReplicaSets,
        Resource::ControllerRevisions,
        Resource::Pods,
        Resource::ConfigMaps,
        Resource::Secrets,
        Resource::Events,
        Resource::CronJobs,
        Resource::Jobs,
        Resource::ReplicationControllers,
        Resource::PodTemplates,
        Resource::HorizontalPodAutoscalers,
        Resource::VerticalPodAutoscalers,
        Resource::Applications,
        Resource::Kustomizations,
        Resource::HelmReleases,
        Resource::Services,
        Resource::EndpointSlices,
        Resource::Namespaces,
    ];

    /// The word of the URL and of messages.
    pub fn plural(self) -> &'static str {
        match self {
            Resource::Deployments => "deployments",
            Resource::StatefulSets => "statefulsets",
            Resource::DaemonSets => "daemonsets",
            Resource::ReplicaSets => "replicasets",
            Resource::ControllerRevisions => "controllerrevisions",
            Resource::Pods => "pods",
            Resource::ConfigMaps => "configmaps",
            Resource::Secrets => "secrets",
            Resource::Events => "events",
            Resource::CronJobs => "cronjobs",
            Resource::Jobs => "jobs",
            Resource::ReplicationControllers => "replicationcontrollers",
            Resource::PodTemplates => "podtemplates",
            Resource::HorizontalPodAutoscalers => "horizontalpodautoscalers",
            Resource::VerticalPodAutoscalers => "verticalpodautoscalers",
            Resource::Applications => "applications",
            Resource::Kustomizations => "kustomizations",
            Resource::HelmReleases => "helmreleases",
            Resource::Services => "services",
            Resource::EndpointSlices => "endpointslices",
            Resource::Namespaces => "namespaces",
        }
    }

    pub fn kind(self) -> &'static str {
        match self {
            Resource::Deployments => "Deployment",
            Resource::StatefulSets => "StatefulSet",
            Resource::DaemonSets => "DaemonSet",
            Resource::ReplicaSets => "ReplicaSet",
            Resource::ControllerRevisions => "ControllerRevision",
            Resource::Pods => "Pod",
            Resource::ConfigMaps => "ConfigMap",
            Resource::Secrets => "Secret",
            Resource::Events => "Event",
            Resource::CronJobs => "CronJob",
            Resource::Jobs => "Job",
            Resource::ReplicationControllers => "ReplicationController",
            Resource::PodTemplates => "PodTemplate",
            Resource::HorizontalPodAutoscalers => "HorizontalPodAutoscaler",
            Resource::VerticalPodAutoscalers => "VerticalPodAutoscaler",
            Resource::Applications => "Application",
            Resource::Kustomizations => "Kustomization",
            Resource::HelmReleases => "HelmRelease",
            Resource::Services => "Service",
            Resource::EndpointSlices => "EndpointSlice",
            Resource::Namespaces => "Namespace",
        }
    }

    pub fn api_version(self) -> &'static str {
        self.root().trim_start_matches("/apis/").trim_start_matches("/api/")
    }

    /// The path of the API that serves it.
    pub(super) fn root(self) -> &'static str {
        match self {
            Resource::Deployments
            | Resource::StatefulSets
            | Resource::DaemonSets
            | Resource::ReplicaSets
            | Resource::ControllerRevisions => "/apis/apps/v1",
            Resource::CronJobs | Resource::Jobs => "/apis/batch/v1",
            Resource::HorizontalPodAutoscalers => "/apis/autoscaling/v2",
            Resource::VerticalPodAutoscalers => "/apis/autoscaling.k8s.io/v1",
            Resource::Applications => "/apis/argoproj.io/v1alpha1",
            Resource::Kustomizations => "/apis/kustomize.toolkit.fluxcd.io/v1",
            Resource::HelmReleases => "/apis/helm.toolkit.fluxcd.io/v2",
            Resource::EndpointSlices => "/apis/discovery.k8s.io/v1",
            Resource::Pods
            | Resource::ConfigMaps
            | Resource::Secrets
            | Resource::Events
            | Resource::ReplicationControllers
            | Resource::PodTemplates
            | Resource::Services
            | Resource::Namespaces => "/api/v1",
        }
    }

    /// The Accept header for one object. No plain JSON behind it as a second choice: a server that cannot leave a
    /// Secret's values out shall refuse.
    pub(super) fn accept(self) -> &'static str {
        match self {
            Resource::Secrets => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            _ => "application/json",
        }
    }

    fn accept_list(self) -> &'static str {
        match self {
            Resource::Secrets => ACCEPT_METADATA,
            _ => "application/json",
        }
    }
}

const ACCEPT_METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Which objects of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select<'a> {
    All,
    /// A list of one by name: it carries the list's number, and RBAC by `resourceNames` allows it.
    Name(&'a str),
    /// A label selector as kubectl writes it.
    Labels(&'a str),
    /// A field selector as kubectl writes it.
    Fields(&'a str),
}

impl Select<'_> {
    pub(super) fn query(&self) -> Option<(&'static str, String)> {
        match self {
            Select::All => None,
            Select::Name(name) => Some(("fieldSelector", format!("metadata.name={name}"))),
            Select::Labels(labels) => Some(("labelSelector", labels.to_string())),
            Select::Fields(fields) => Some(("fieldSelector", fields.to_string())),
        }
    }
}

/// Objects of one type and the version of the store at which they were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List {
    /// Each with apiVersion and kind.
    pub items: Vec<Object>,
    /// `None` where the server's number is not a whole one: it has no order that we may use.
    pub version: Option<u64>,
}

/// What the API server says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerVersion {
    /// `v1.35.4`
    pub git: String,
    pub major: Option<u32>,
    pub minor: Option<u32>,
}

/// Why a read has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    #[error("not allowed to {asked}: {message}")]
    Forbidden { asked: Asked, message: String },
    /// Of a list: the type is not served. A single object that is absent is no error but `None`.
    #[error("cannot {asked}: {message}")]
    NotFound { asked: Asked, message: String },
    /// 410: that version is compacted away, or a watch must start again from a list.
    #[error("cannot {asked}: the server no longer has that version: {message}")]
    Expired { asked: Asked, message: String },
    /// The asked version is higher than any the server has seen.
    #[error("cannot {asked}: the server does not have that version yet: {message}")]
    TooNew { asked: Asked, message: String },
    #[error("cannot {asked}: no connection to {server}: {cause}")]
    Unreachable { asked: Asked, server: String, cause: String },
    /// There is nothing to sign in with: nothing was sent. `hint`: how to get it, in the kubeconfig's words.
    #[error("cannot {asked}: {cause}")]
    NoCredentials { asked: Asked, cause: String, hint: Option<String> },
    #[error("cannot {asked}: no complete answer within {after:?}")]
    Timeout { asked: Asked, after: std::time::Duration },
    #[error("cannot {asked}: {message} ({code} {reason})")]
    Api { asked: Asked, code: u16, reason: String, message: String },
    /// The answer is not what was asked for. Never taken as an empty or partial result.
    #[error("cannot {asked}: the answer is not usable: {cause}")]
    Malformed { asked: Asked, cause: String },
    /// Refused by us: as part of a URL it would lead to another object.
    #[error("cannot {asked}: {name:?} cannot be a name")]
    BadName { asked: Asked, name: String },
}

impl ReadError {
    pub(super) fn from_refused(asked: &Asked, refused: Refused) -> ReadError {
        let asked = asked.clone();
        let too_new = refused.too_new();
        let Refused { code, message, reason, .. } = refused;
        match code {
            _ if too_new => ReadError::TooNew { asked, message },
            403 => ReadError::Forbidden { asked, message },
            404 => ReadError::NotFound { asked, message },
            410 => ReadError::Expired { asked, message },
            code => {
                let reason = match reason.as_str() {
                    "" => http::StatusCode::from_u16(code).ok().and_then(|s| s.canonical_reason()).unwrap_or("status"),
                    reason => reason,
                };
                ReadError::Api { asked, code, reason: reason.to_string(), message }
            }
        }
    }

    pub(super) fn from_broken(asked: &Asked, server: &str, broken: Broken) -> ReadError {
        let asked = asked.clone();
        match broken {
            Broken::NoCredentials(Failed { cause, hint }) => ReadError::NoCredentials { asked, cause, hint },
            Broken::Unreachable { cause, .. } | Broken::Lost { cause } => {
                ReadError::Unreachable { asked, server: server.to_string(), cause }
            }
            Broken::Timeout { after } => ReadError::Timeout { asked, after },
        }
    }
}

impl Cluster {
    /// Lists objects as they are now: no resourceVersion is sent, because 0 and caches may be stale. An empty
    /// namespace means all of them.
    ///
    /// Paged. If the continue token expires half way (410) the list starts again, at most three times, and the
    /// items of the abandoned one are forgotten, so the result is of one version and without duplicates.
    ///
    /// # Errors
    /// All of [`ReadError`]; never a partial list.
    pub async fn list(&self, resource: Resource, namespace: &str, select: Select<'_>) -> Result<List, ReadError> {
        let asked = Asked::new("list", resource, namespace, None);
        let mut left = RESTARTS;
        loop {
            match self.pages(&asked, resource, select, &[], resource.accept_list()).await {
                Err((error @ ReadError::Expired { .. }, paging)) if !paging || left == 0 => return Err(error),
                Err((ReadError::Expired { .. }, _)) => left -= 1,
                done => return done.map_err(|(error, _)| error),
            }
        }
    }

    /// Lists objects as they were at `version` (`resourceVersionMatch=Exact`). Always a LIST: a GET ignores the
    /// parameters and answers 200 with the live object (kubernetes/kubernetes, "Resource versions" in the API
    /// concepts; measured). Selectors apply to the old labels.
    ///
    /// # Errors
    /// [`ReadError::Expired`] when the version is compacted away, [`ReadError::TooNew`] when it lies in the future,
    /// [`ReadError::Malformed`] when the answer holds anything newer than was asked for.
    pub async fn list_at(
        &self,
        resource: Resource,
        namespace: &str,
        select: Select<'_>,
        version: u64,
    ) -> Result<List, ReadError> {
        let asked = Asked::new("list", resource, namespace, None);
        let exact = [("resourceVersion", version.to_string()), ("resourceVersionMatch", "Exact".to_string())];
        let pages = self.pages(&asked, resource, select, &exact, resource.accept_list());
        let list = pages.await.map_err(|(error, _)| error)?;
        let malformed = |cause: String| ReadError::Malformed { asked: asked.clone(), cause };
        if list.version.is_none_or(|seen| seen > version) {
            return Err(malformed(format!("asked for version {version}, the list does not say that it is that old")));
        }
        if let Some(item) = list.items.iter().find(|item| item.version().is_none_or(|seen| seen > version)) {
            return Err(malformed(format!("asked for version {version}, {} is newer", item.name())));
        }
        Ok(list)
    }

    /// What the objects are called and what is annotated on them, without their content: ConfigMaps are not read in full
    /// for their names.
    ///
    /// # Errors
    /// As [`Cluster::list`].
    pub async fn list_metadata(&self, resource: Resource, namespace: &str) -> Result<List, ReadError> {
        let asked = Asked::new("list", resource, namespace, None);
        let pages = self.pages(&asked, resource, Select::All, &[], ACCEPT_METADATA);
        pages.await.map_err(|(error, _)| error)
    }

    /// The list's number alone, of a consistent read that fetches one object's metadata at most.
    ///
    /// # Errors
    /// As [`Cluster::list`].
    pub async fn list_one(&self, resource: Resource, namespace: &str) -> Result<Option<u64>, ReadError> {
        let asked = Asked::new("list", resource, namespace, None);
        let query = [("limit", "1".to_string())];
        let page = self.page(&asked, resource, &query, ACCEPT_METADATA).await?;
        Ok(page.version)
    }

    /// One object as it is now; `None` when the server says that it does not exist. Not found and forbidden are
    /// never the same answer.
    ///
    /// # Errors
    /// As [`Cluster::list`], save that 404 is `None`.
    pub async fn get(&self, resource: Resource, namespace: &str, name: &str) -> Result<Option<Object>, ReadError> {
        let asked = Asked::new("get", resource, namespace, Some(name));
        let path = path(&asked, resource)?;
        match self.ask(&asked, &path, &[], resource.accept()).await {
            Ok(body) => object(&asked, resource, &body).map(Some),
            Err(Failure::Refused(refused)) if refused.code == 404 && refused.genuine => Ok(None),
            Err(failure) => Err(self.read_error(&asked, failure)),
        }
    }

    /// # Errors
    /// As [`Cluster::list`].
    pub async fn server_version(&self) -> Result<ServerVersion, ReadError> {
        let asked = Asked { verb: "get", resource: "/version", namespace: Box::default(), name: None };
        let body = self
            .ask(&asked, "/version", &[], "application/json")
            .await
            .map_err(|failure| self.read_error(&asked, failure))?;
        let value: Value = parse(&asked, &body)?;
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or("");
        if text("gitVersion").is_empty() {
            return Err(ReadError::Malformed { asked, cause: "no gitVersion".to_string() });
        }
        // Some providers write "35+".
        let number = |key: &str| text(key).trim_end_matches('+').parse().ok();
        Ok(ServerVersion { git: text("gitVersion").to_string(), major: number("major"), minor: number("minor") })
    }

    /// All pages of one list. With an error: whether at least one page had come.
    async fn pages(
        &self,
        asked: &Asked,
        resource: Resource,
        select: Select<'_>,
        at: &[(&'static str, String)],
        accept: &'static str,
    ) -> Result<List, (ReadError, bool)> {
        let mut list = List::default();
        let mut next: Option<String> = None;
        loop {
            let paging = next.is_some();
            let mut query = vec![("limit", PAGE.to_string())];
            query.extend(select.query());
            match next.take() {
                // The token carries the version; the server refuses both together.
                Some(token) => query.push(("continue", token)),
                None => query.extend(at.iter().cloned()),
            }
            let page = self.page(asked, resource, &query, accept).await.map_err(|error| (error, paging))?;
            if !paging {
                list.version = page.version;
            }
            list.items.extend(page.items);
            match page.next {
                Some(token) => next = Some(token),
                None => return Ok(list),
            }
        }
    }

    async fn page(
        &self,
        asked: &Asked,
        resource: Resource,
        query: &[(&str, String)],
        accept: &'static str,
    ) -> Result<Page, ReadError> {
        let path = path(asked, resource)?;
        let body = self.ask(asked, &path, query, accept).await.map_err(|failure| self.read_error(asked, failure))?;
        let malformed = |cause: &str| ReadError::Malformed { asked: asked.clone(), cause: cause.to_string() };
        let mut value: Value = parse(asked, &body)?;
        if !value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List")) {
            return Err(malformed("not a list"));
        }
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or("");
        let version = text("/metadata/resourceVersion").parse().ok();
        let next = Some(text("/metadata/continue")).filter(|token| !token.is_empty()).map(str::to_string);
        let items = match value.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            Some(Value::Null) | None => Vec::new(),
            Some(_) => return Err(malformed("its items are not a list")),
        };
        let mut named_items = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Value::Object(item) => named_items.push(named(resource, item)),
                _ => return Err(malformed("one of its items is not an object")),
            }
        }
        Ok(Page { items: named_items, version, next })
    }

    /// One read, repeated where that is of use.
    async fn ask(
        &self,
        asked: &Asked,
        path: &str,
        query: &[(&str, String)],
        accept: &'static str,
    ) -> Result<Vec<u8>, Failure> {
        let start = Instant::now();
        let mut pauses = self.patience.pauses.iter();
        loop {
            let answer = self.exchange(request(Method::GET, path, query, accept, None)).await;
            let (failure, cause, server_wait) = match answer {
                Ok(Answer { status: 200..=299, body, .. }) => return Ok(body),
                Ok(answer) => {
                    let refused = Refused::parse(&answer);
                    if !refused.transient() {
                        return Err(Failure::Refused(refused));
                    }
                    let cause = refused.message.clone();
                    (Failure::Refused(refused), cause, answer.retry_after)
                }
                Err(Broken::Unreachable { cause, again: true }) => {
                    (Failure::Broken(Broken::Unreachable { cause: cause.clone(), again: true }), cause, None)
                }
                Err(Broken::Lost { cause }) => (Failure::Broken(Broken::Lost { cause: cause.clone() }), cause, None),
                Err(broken) => return Err(Failure::Broken(broken)),
            };
            let Some(pause) = pauses.next() else { return Err(failure) };
            let wait = server_wait.unwrap_or(*pause);
            if start.elapsed() + wait > self.patience.all {
                return Err(failure);
            }
            self.tell(Notice::Retry { call: asked.to_string(), cause, wait });
            tokio::time::sleep(wait).await;
        }
    }

    fn read_error(&self, asked: &Asked, failure: Failure) -> ReadError {
        let error = match failure {
            Failure::Refused(refused) => ReadError::from_refused(asked, refused),
            Failure::Broken(broken) => ReadError::from_broken(asked, &self.server, broken),
        };
        self.note_failed(&error);
        error
    }
}

struct Page {
    items: Vec<Object>,
    version: Option<u64>,
    next: Option<String>,
}

enum Failure {
    Refused(Refused),
    Broken(Broken),
}

fn parse(asked: &Asked, body: &[u8]) -> Result<Value, ReadError> {
    serde_json::from_slice(body)
        .map_err(|error| ReadError::Malformed { asked: asked.clone(), cause: error.to_string() })
}

/// One object out of a body.
pub(super) fn object(asked: &Asked, resource: Resource, body: &[u8]) -> Result<Object, ReadError> {
    match parse(asked, body)? {
        Value::Object(object) if object.get("metadata").is_some_and(Value::is_object) => Ok(named(resource, object)),
        _ => Err(ReadError::Malformed { asked: asked.clone(), cause: "not an object".to_string() }),
    }
}
