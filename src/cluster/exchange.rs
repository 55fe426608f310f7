//! One request and its answer: addressing, the deadline, and what a failure means.

use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, Read as _};
use std::pin::Pin;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use http_body::Body as _;
use serde_json::{Map, Value};

use crate::cluster::plugin::Failed;
use crate::cluster::read::{ReadError, Resource};
use crate::cluster::{Cluster, Notice};
use crate::core::object::Object;

/// What was asked for: the subject of every error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub verb: &'static str,
    /// The plural word (`configmaps`), or another path of the server (`/version`).
    pub resource: &'static str,
    /// Empty: all namespaces.
    pub namespace: Box<str>,
    pub name: Option<Box<str>>,
}

impl Asked {
    pub(super) fn new(verb: &'static str, resource: Resource, namespace: &str, name: Option<&str>) -> Asked {
        Asked { verb, resource: resource.plural(), namespace: namespace.into(), name: name.map(Into::into) }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &*self.namespace {
            "" if self.resource.starts_with('/') => Ok(()),
            "" => f.write_str(" in all namespaces"),
            namespace => write!(f, " in namespace {namespace}"),
        }
    }
}

/// A complete answer, of whatever status.
pub(super) struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    pub retry_after: Option<Duration>,
}

/// No complete answer.
pub(super) enum Broken {
    /// There is nothing to sign in with: nothing was sent.
    NoCredentials(Failed),
    /// There was no connection: nothing was sent. `again` when another try may find one.
    Unreachable {
        cause: String,
        again: bool,
    },
    /// The connection ended after the request may have been sent.
    Lost {
        cause: String,
    },
    Timeout {
        after: Duration,
    },
}

/// An answer that says no.
#[derive(Debug, Default)]
pub(super) struct Refused {
    pub code: u16,
    pub reason: String,
    pub message: String,
    pub causes: Vec<Cause>,
    /// Did the API server itself say it (a `Status` object), not a proxy before it?
    pub genuine: bool,
}

#[derive(Debug, Default)]
pub(super) struct Cause {
    pub reason: String,
    pub field: String,
    pub message: String,
}

impl Refused {
    pub fn parse(answer: &Answer) -> Refused {
        match serde_json::from_slice::<Value>(&answer.body) {
            Ok(status) if status.get("kind").and_then(Value::as_str) == Some("Status") => {
                Refused::from_status(answer.status, &status)
            }
            _ => {
                let text = one_line(&String::from_utf8_lossy(&answer.body));
                let message = match text.as_str() {
                    "" => format!("status {} without an explanation", answer.status),
                    // A proxy's error page says less than its status.
                    page if page.starts_with('<') => format!("status {} with an HTML page", answer.status),
                    text => text.chars().take(300).collect(),
                };
                Refused { code: answer.status, message, ..Refused::default() }
            }
        }
    }

    pub fn from_status(code: u16, status: &Value) -> Refused {
        let text = |value: &Value, key: &str| one_line(value.get(key).and_then(Value::as_str).unwrap_or(""));
        let causes = status.pointer("/details/causes").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let code = match status.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()) {
            Some(said) if said != 0 => said,
            _ => code,
        };
        let mut message = text(status, "message");
        if message.is_empty() {
            message = format!("status {code} without an explanation");
        }
        Refused {
            code,
            reason: text(status, "reason"),
            message,
            causes: causes
                .iter()
                .map(|c| Cause { reason: text(c, "reason"), field: text(c, "field"), message: text(c, "message") })
                .collect(),
            genuine: true,
        }
    }

    /// The server does not have the asked version yet. It says so as a timeout, after waiting for it; asking again
    /// would wait again.
    pub fn too_new(&self) -> bool {
        self.causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
            || self.message.contains("Too large resource version")
            || self.message.contains("future revision")
    }

    /// Is it worth asking again for a read?
    pub fn transient(&self) -> bool {
        matches!(self.code, 429 | 500 | 502 | 503 | 504) && !self.too_new()
    }
}

/// A request that is on its way: said when it begins and when it ends, however it ends.
struct Call<'a> {
    cluster: &'a Cluster,
    number: u64,
    call: String,
    status: Option<u16>,
    began: Instant,
}

impl<'a> Call<'a> {
    fn begin(cluster: &'a Cluster, call: String) -> Call<'a> {
        let number = cluster.line.calls.fetch_add(1, Ordering::Relaxed);
        cluster.tell(Notice::Sent { number, call: call.clone() });
        Call { cluster, number, call, status: None, began: Instant::now() }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let (number, call) = (self.number, std::mem::take(&mut self.call));
        self.cluster.tell(Notice::Answered { number, call, status: self.status, took: self.began.elapsed() });
    }
}

impl Cluster {
    fn begin(&self, request: &Request<Vec<u8>>) -> Call<'_> {
        self.line.requests.fetch_add(1, Ordering::Relaxed);
        Call::begin(self, format!("{} {}{}", request.method(), self.server.trim_end_matches('/'), request.uri()))
    }

    /// Sends one request and collects the answer, under the deadline: once, save that a refused credential (401) is
    /// renewed, if it can be. A request that was not let in has done nothing, so that goes for writes too.
    pub(super) async fn exchange(&self, request: Request<Vec<u8>>) -> Result<Answer, Broken> {
        let key = self.sign_in().await?;
        let answer = self.exchange_once(request.clone()).await?;
        match self.refused(key, answer.status).await? {
            true => self.exchange_once(request).await,
            false => Ok(answer),
        }
    }

    /// Sees to it that requests can be signed; the number of what they are signed with.
    async fn sign_in(&self) -> Result<u64, Broken> {
        match &self.keys {
            Some(keys) => {
                let _call = Call::begin(self, "the credentials".to_string());
                keys.ready(self.patience.sign_in).await.map_err(Broken::NoCredentials)
            }
            None => Ok(0),
        }
    }

    /// Was the credential refused, and is there another one now?
    async fn refused(&self, key: u64, status: u16) -> Result<bool, Broken> {
        let Some(keys) = &self.keys else { return Ok(false) };
        if status == 401 {
            return keys.renewed(key, self.patience.sign_in).await.map_err(Broken::NoCredentials);
        }
        keys.accepted();
        Ok(false)
    }

    async fn exchange_once(&self, mut request: Request<Vec<u8>>) -> Result<Answer, Broken> {
        let mut call = self.begin(&request);
        if self.compressed {
            request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        self.within(self.patience.request, async {
            let response = self.client.send(request.map(kube::client::Body::from)).await.map_err(broken)?;
            self.hear_warnings(response.headers());
            let status = response.status().as_u16();
            call.status = Some(status);
            let retry_after = response
                .headers()
                .get(header::RETRY_AFTER)
                .and_then(|value| value.to_str().ok()?.trim().parse().ok())
                .map(Duration::from_secs);
            let packed = response.headers().get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip");
            // Once the head of an answer has come, a failure can no longer mean "never sent".
            let lost = |error: &(dyn StdError + 'static)| Broken::Lost { cause: deepest(error) };
            let bytes = response.into_body().collect_bytes().await.map_err(|error| lost(&error))?;
            if !packed {
                return Ok(Answer { status, body: bytes.to_vec(), retry_after });
            }
            let mut body = Vec::new();
            MultiGzDecoder::new(&*bytes).read_to_end(&mut body).map_err(|error| lost(&error))?;
            Ok(Answer { status, body, retry_after })
        })
        .await
    }

    /// As `exchange`, of an answer that may be of any size: at most so many bytes of its body, and whether that was all.
    /// What it warns of is not the API server's word.
    pub(super) async fn exchange_some(
        &self,
        request: Request<Vec<u8>>,
        most: usize,
        limit: Duration,
    ) -> Result<(Answer, bool), Broken> {
        self.sign_in().await?;
        let mut call = self.begin(&request);
        self.within(Some(self.patience.request.map_or(limit, |own| own.min(limit))), async {
            let response = self.client.send(request.map(kube::client::Body::from)).await.map_err(broken)?;
            let status = response.status().as_u16();
            call.status = Some(status);
            let mut stream = response.into_body();
            let mut body = Vec::new();
            let mut whole = true;
            while let Some(frame) = poll_fn(|context| Pin::new(&mut stream).poll_frame(context)).await {
                let frame = frame.map_err(|error| Broken::Lost { cause: deepest(&error) })?;
                body.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                if body.len() > most {
                    body.truncate(most);
                    whole = false;
                    break;
                }
            }
            Ok((Answer { status, body, retry_after: None }, whole))
        })
        .await
    }

    /// Opens a stream of lines. The deadline covers the head of the answer only.
    pub(super) async fn open(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<impl futures_util::AsyncBufRead + Send + use<>, Result<Refused, Broken>> {
        let key = self.sign_in().await.map_err(Err)?;
        let mut opened = self.open_once(request.clone()).await.map_err(Err)?;
        if let Err(kube::Error::Api(status)) = &opened
            && self.refused(key, status.code).await.map_err(Err)?
        {
            opened = self.open_once(request).await.map_err(Err)?;
        }
        opened.map_err(|error| match error {
            kube::Error::Api(status) => {
                Ok(Refused::from_status(status.code, &serde_json::to_value(&*status).unwrap_or(Value::Null)))
            }
            other => Err(broken(other)),
        })
    }

    async fn open_once(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<Result<impl futures_util::AsyncBufRead + Send + use<>, kube::Error>, Broken> {
        let mut call = self.begin(&request);
        let stream = self.client.request_stream(request);
        let opened = self.within(self.patience.request, async { Ok(stream.await) }).await?;
        call.status = match &opened {
            Ok(_) => Some(200),
            Err(kube::Error::Api(status)) => Some(status.code),
            Err(_) => None,
        };
        Ok(opened)
    }

    async fn within<T>(
        &self,
        limit: Option<Duration>,
        call: impl Future<Output = Result<T, Broken>>,
    ) -> Result<T, Broken> {
        match limit {
            None => call.await,
            Some(after) => tokio::time::timeout(after, call).await.unwrap_or(Err(Broken::Timeout { after })),
        }
    }

    fn hear_warnings(&self, headers: &HeaderMap) {
        for value in headers.get_all(header::WARNING) {
            for text in warning_texts(&String::from_utf8_lossy(value.as_bytes())) {
                let new = self.line.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(text.clone());
                if new {
                    self.tell(Notice::Warning(text));
                }
            }
        }
    }
}

/// The texts of a `Warning` header: `299 - "text"`, several joined by commas. Only code 299 counts, as in
/// client-go; what cannot be read is passed over.
fn warning_texts(value: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = value;
    while let Some((head, quoted)) = rest.split_once('"') {
        let mut text = String::new();
        let mut escaped = false;
        let mut end = None;
        for (at, c) in quoted.char_indices() {
            match c {
                _ if escaped => {
                    text.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => {
                    end = Some(at + 1);
                    break;
                }
                c => text.push(c),
            }
        }
        let Some(end) = end else { break };
        if head.trim_start_matches([',', ' ']).starts_with("299 ") {
            texts.push(text);
        }
        // A date in quotes may follow; its head is empty and does not begin with 299.
        rest = &quoted[end..];
    }
    texts
}

/// What a failed call of the client means for the request.
pub(super) fn broken(error: kube::Error) -> Broken {
    let mut connecting = false;
    let mut hopeless = false;
    let mut next: Option<&(dyn StdError + 'static)> = Some(&error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            connecting |= error.is_connect();
        }
        // rustls reports a bad certificate as invalid data: the same next time.
        if let Some(error) = error.downcast_ref::<io::Error>() {
            hopeless |= error.kind() == io::ErrorKind::InvalidData;
        }
        next = cause_of(error);
    }
    let cause = deepest(&error);
    match connecting {
        true => Broken::Unreachable { cause, again: !hopeless },
        false => Broken::Lost { cause },
    }
}

impl Cause {
    /// The cause as one text, without a long value: a JSON patch that fails strict validation is answered with the
    /// whole patched object quoted, values and all.
    pub fn without_values(&self) -> String {
        const LONGEST: usize = 200;
        let message = match self.message.find("strict decoding error") {
            Some(at) => &self.message[at..],
            None if self.message.len() <= LONGEST => &self.message,
            None => match self.message.strip_prefix("Invalid value: ").and_then(|rest| rest.rsplit_once("\": ")) {
                Some((_, reason)) => reason,
                None => &self.message,
            },
        };
        match self.field.as_str() {
            "" => message.to_string(),
            field => format!("{field}: {message}"),
        }
    }
}

/// The next error of a chain. `kube::Error::Service` names its inner error's source as its own, which would skip
/// the error that says whether a connection existed; `io::Error` does the same with the error it wraps.
fn cause_of<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    if let Some(kube::Error::Service(inner)) = error.downcast_ref::<kube::Error>() {
        return Some(&**inner);
    }
    if let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        return Some(inner);
    }
    error.source()
}

/// The innermost message of an error: the outer ones repeat it or say less ("client error (Connect)").
pub(super) fn deepest(error: &(dyn StdError + 'static)) -> String {
    let mut at = error;
    while let Some(next) = cause_of(at) {
        at = next;
    }
    one_line(&at.to_string())
}

pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The path of a resource or of one object. Names become path segments, so what would lead elsewhere is refused
/// (the rule of client-go's `IsValidPathSegmentName`).
pub(super) fn path(asked: &Asked, resource: Resource) -> Result<String, ReadError> {
    let segment = |text: &str| match text {
        "" | "." | ".." => Err(ReadError::BadName { asked: asked.clone(), name: text.to_string() }),
        text if text.contains(['/', '%']) => Err(ReadError::BadName { asked: asked.clone(), name: text.to_string() }),
        text => Ok(encode(text)),
    };
    let mut path = resource.root().to_string();
    // Only a list may cover all namespaces.
    if !asked.namespace.is_empty() || asked.name.is_some() || matches!(asked.verb, "create") {
        path += &format!("/namespaces/{}", segment(&asked.namespace)?);
    }
    path += &format!("/{}", resource.plural());
    if let Some(name) = &asked.name {
        path += &format!("/{}", segment(name)?);
    }
    Ok(path)
}

/// A request of ours; `query` is encoded here.
pub(super) fn request(
    method: Method,
    path: &str,
    query: &[(&str, String)],
    accept: &'static str,
    content: Option<(&'static str, Vec<u8>)>,
) -> Request<Vec<u8>> {
    let mut uri = path.to_string();
    for (at, (key, value)) in query.iter().enumerate() {
        uri.push(if at == 0 { '?' } else { '&' });
        uri += &format!("{key}={}", encode(value));
    }
    let mut request = Request::new(Vec::new());
    *request.method_mut() = method;
    // Every segment is encoded, so this cannot fail; an empty path would be refused by the server.
    *request.uri_mut() = uri.parse().unwrap_or_default();
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
    if let Some((kind, body)) = content {
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        *request.body_mut() = body;
    }
    request
}

fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// Gives an object its apiVersion and kind: items of a list do not carry them, and a metadata answer carries the
/// kind of the envelope. What must not leave a Secret is dropped here, whatever the server sent.
pub(super) fn named(resource: Resource, object: Map<String, Value>) -> Object {
    let mut whole = Map::with_capacity(object.len() + 2);
    whole.insert("apiVersion".into(), Value::Null);
    whole.insert("kind".into(), Value::Null);
    whole.extend(object);
    whole.insert("apiVersion".into(), resource.api_version().into());
    whole.insert("kind".into(), resource.kind().into());
    if resource == Resource::Secrets {
        bare_secret(&mut whole);
    }
    Object(Value::Object(whole))
}

/// Leaves of a Secret what says which version it is. Annotations go as well: last-applied and its like repeat the
/// values.
pub(super) fn bare_secret(secret: &mut Map<String, Value>) {
    secret.retain(|key, _| matches!(key.as_str(), "apiVersion" | "kind" | "metadata"));
    if let Some(Value::Object(metadata)) = secret.get_mut("metadata") {
        metadata.shift_remove("annotations");
    }
}
