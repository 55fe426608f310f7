//! What a Pod or a Service answers, asked through the API server's proxy: no network but the API server's is needed.
//!
//! Any answer of the application is an answer, also 503. Only what the API server itself says instead (a `Status` of a
//! failure, with the code of the answer) is an error. An application that imitates one cannot be told apart.

use std::time::Duration;

use http::{Method, Uri};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::cluster::exchange::{Answer, Asked, Refused, path, request};
use crate::cluster::read::{ReadError, Resource};

/// How long to wait for one answer: the API server itself tries for half a minute to reach a Pod that is gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// At most so much of an answer is read.
pub const MOST: usize = 1024 * 1024;

/// An application's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    pub status: u16,
    pub body: Vec<u8>,
    /// False: it was longer than [`MOST`], and this is its beginning.
    pub whole: bool,
}

impl Cluster {
    /// Asks a Pod (`resource` is Pods) or a Service once, by GET. Without a port the API server chooses one. `wanted`: the
    /// path with its query, as the application shall see it.
    ///
    /// # Errors
    /// The API server's own refusal, or no answer. Never because of what the application answered.
    pub async fn probe(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        port: Option<u16>,
        wanted: &str,
    ) -> Result<Answered, ReadError> {
        let asked = Asked::new("get", resource, namespace, Some(name));
        let port = port.map_or(String::new(), |port| format!(":{port}"));
        let path = format!("{}{port}/proxy{wanted}", path(&asked, resource)?);
        // The right that this takes is one of its own.
        let proxy = match resource {
            Resource::Services => "services/proxy",
            _ => "pods/proxy",
        };
        let asked = Asked { resource: proxy, ..asked };
        // A path that is none would ask the API server for something else.
        if !wanted.starts_with('/') || path.parse::<Uri>().is_err() {
            return Err(ReadError::BadName { asked, name: wanted.to_string() });
        }
        match self.exchange_some(request(Method::GET, &path, &[], "*/*", None), MOST, PATIENCE).await {
            Ok((answer, whole)) => match own_word(&answer) {
                Some(refused) => Err(ReadError::from_refused(&asked, refused)),
                None => Ok(Answered { status: answer.status, body: answer.body, whole }),
            },
            Err(broken) => Err(ReadError::from_broken(&asked, self.server(), broken)),
        }
    }
}

/// What the API server says in the application's place.
fn own_word(answer: &Answer) -> Option<Refused> {
    if answer.status < 400 {
        return None;
    }
    let status: Value = serde_json::from_slice(&answer.body).ok()?;
    let text = |key: &str| status.get(key).and_then(Value::as_str).unwrap_or("");
    let code = status.get("code").and_then(Value::as_u64);
    let own = (text("kind"), text("apiVersion"), text("status")) == ("Status", "v1", "Failure")
        && code == Some(answer.status.into());
    own.then(|| Refused::parse(answer))
}
