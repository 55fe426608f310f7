//! Watches: the changes of objects as they happen.
//!
//! A watch ends by itself after a while, and with [`ReadError::Expired`] when its version is gone. The caller lists
//! again and opens a new one; the list, not the watch, is what it decides by.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{AsyncBufRead, AsyncBufReadExt};
use http::Method;
use http::header::{ACCEPT_ENCODING, HeaderValue};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::exchange::{Asked, Broken, Refused, deepest, named, path, request};
use crate::cluster::read::{ReadError, Resource, Select};
use crate::core::object::Object;

/// Below the idle limit of common load balancers (240 s): a watch cut by one would end without a word
/// (kube-rs/kube#1798).
const SERVER_TIMEOUT: Duration = Duration::from_secs(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Added,
    Modified,
    Deleted,
    /// Only the version moved: the object has metadata.resourceVersion and nothing else.
    Bookmark,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub event: Event,
    pub object: Object,
}

/// An open watch.
pub struct Watch {
    asked: Asked,
    resource: Resource,
    server: String,
    stream: Pin<Box<dyn AsyncBufRead + Send>>,
    line: Vec<u8>,
    idle: Duration,
}

impl Cluster {
    /// Watches from a list's version on; without one the server first sends what exists as `Added`.
    ///
    /// # Errors
    /// As for a list. Not repeated: the caller has to list again anyway.
    pub async fn watch(
        &self,
        resource: Resource,
        namespace: &str,
        select: Select<'_>,
        from_version: Option<u64>,
    ) -> Result<Watch, ReadError> {
        let asked = Asked::new("watch", resource, namespace, None);
        let path = path(&asked, resource)?;
        let mut query = vec![
            ("watch", "true".to_string()),
            ("allowWatchBookmarks", "true".to_string()),
            ("timeoutSeconds", SERVER_TIMEOUT.as_secs().to_string()),
        ];
        query.extend(select.query());
        query.extend(from_version.map(|version| ("resourceVersion", version.to_string())));
        let mut request = request(Method::GET, &path, &query, resource.accept(), None);
        // Since 1.37 each event may be compressed on its own, which common decoders stop after.
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let stream = self.open(request).await.map_err(|failure| match failure {
            Ok(refused) => ReadError::from_refused(&asked, refused),
            Err(broken) => ReadError::from_broken(&asked, &self.server, broken),
        })?;
        Ok(Watch {
            asked,
            resource,
            server: self.server.to_string(),
            stream: Box::pin(stream),
            line: Vec::new(),
            idle: SERVER_TIMEOUT + Duration::from_secs(10),
        })
    }
}

impl Watch {
    /// The next change; `None` when the server ended the watch. May be dropped half way and called again.
    ///
    /// # Errors
    /// [`ReadError::Expired`]: list again. [`ReadError::Timeout`]: the server broke its own time limit, so the
    /// connection is dead. Others as for a list.
    pub async fn next(&mut self) -> Result<Option<Change>, ReadError> {
        loop {
            let read = self.stream.read_until(b'\n', &mut self.line);
            let Ok(read) = tokio::time::timeout(self.idle, read).await else {
                return Err(ReadError::from_broken(&self.asked, &self.server, Broken::Timeout { after: self.idle }));
            };
            if let Err(error) = read {
                let cause = deepest(&error);
                return Err(ReadError::from_broken(&self.asked, &self.server, Broken::Lost { cause }));
            }
            // A line that ends with the stream is half an event: the next list has the whole.
            if self.line.pop_if(|last| *last == b'\n').is_none() {
                return Ok(None);
            }
            let line = std::mem::take(&mut self.line);
            if !line.iter().all(u8::is_ascii_whitespace) {
                return self.change(&line).map(Some);
            }
        }
    }

    fn change(&self, line: &[u8]) -> Result<Change, ReadError> {
        let malformed = |cause: String| ReadError::Malformed { asked: self.asked.clone(), cause };
        let mut event: Value = serde_json::from_slice(line).map_err(|error| malformed(error.to_string()))?;
        let kind = event.get("type").and_then(Value::as_str).unwrap_or("").to_string();
        let object = event.get_mut("object").map(Value::take).unwrap_or_default();
        let event = match kind.as_str() {
            "ADDED" => Event::Added,
            "MODIFIED" => Event::Modified,
            "DELETED" => Event::Deleted,
            "BOOKMARK" => Event::Bookmark,
            "ERROR" => return Err(ReadError::from_refused(&self.asked, Refused::from_status(500, &object))),
            other => return Err(malformed(format!("unknown event {other:?}"))),
        };
        match object {
            Value::Object(object) => Ok(Change { event, object: named(self.resource, object) }),
            _ => Err(malformed("an event without an object".to_string())),
        }
    }
}
