//! What requests are signed with: made when the first one is sent, kept, and renewed when it expires or is refused.
//!
//! Before a request, not inside of it: its deadline is the server's, not that of a person who signs in.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use jiff::Timestamp;
use kube::client::Body;
use tokio::sync::Mutex;
use tower::{BoxError, Service};

use crate::cluster::connect::{ConnectError, Http, http};
use crate::cluster::kubeconfig::{Connection, Credential, Token};
use crate::cluster::plugin::{Failed, Given};

/// How often a token file is read again, as in client-go.
const FRESH: Duration = Duration::from_secs(50);

/// One credential and the connections that were opened with it.
struct Key {
    header: Option<HeaderValue>,
    http: Http,
    /// The client certificate that a plugin gave; another one needs new connections.
    certificate: Option<String>,
    expires: Option<Timestamp>,
    made: Instant,
    number: u64,
}

/// What the last way to a credential led to.
struct Turn {
    made: u64,
    /// Nobody accepted the last one yet, which had been made because the one before was refused.
    doubtful: bool,
    /// There is no use in running the plugin once more.
    failed: Option<Failed>,
}

pub(super) struct Keys {
    connection: Connection,
    now: Lock<Option<Arc<Key>>>,
    /// Held while a credential is made, so that parallel requests make one.
    turn: Mutex<Turn>,
}

impl Keys {
    /// Makes what needs no program to be run: then certificates and keys that cannot be used are known before any
    /// request.
    pub(super) fn new(connection: &Connection) -> Result<Keys, ConnectError> {
        let turn = Mutex::new(Turn { made: 0, doubtful: false, failed: None });
        let keys = Keys { connection: connection.clone(), now: Lock::default(), turn };
        if connection.plugin.is_none() {
            let header = header(&connection.credential);
            let header =
                header.map_err(|cause| ConnectError::Credentials { server: connection.server.clone(), cause })?;
            keys.keep(Key {
                header,
                http: http(connection, None)?,
                certificate: None,
                expires: None,
                made: Instant::now(),
                number: 0,
            });
        }
        Ok(keys)
    }

    fn key(&self) -> Option<Arc<Key>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, key: Key) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
    }

    /// Sees to it that there is a credential, and returns its number. `limit` in place of a plugin's usual deadline.
    pub(super) async fn ready(&self, limit: Option<Duration>) -> Result<u64, Failed> {
        if let Some(key) = self.key().filter(|key| self.holds(key)) {
            return Ok(key.number);
        }
        let mut turn = self.turn.lock().await;
        // Somebody else may have made it meanwhile.
        if let Some(key) = self.key().filter(|key| self.holds(key)) {
            return Ok(key.number);
        }
        self.make(&mut turn, limit).await
    }

    fn holds(&self, key: &Key) -> bool {
        match &self.connection.credential {
            Credential::File { .. } => key.made.elapsed() < FRESH,
            _ => key.expires.is_none_or(|end| Timestamp::now() < end),
        }
    }

    /// The server refused the credential of that number (401). Is there another one now? Once, until one is accepted.
    pub(super) async fn renewed(&self, number: u64, limit: Option<Duration>) -> Result<bool, Failed> {
        if self.connection.plugin.is_none() && !matches!(self.connection.credential, Credential::File { .. }) {
            return Ok(false);
        }
        let mut turn = self.turn.lock().await;
        if self.key().is_some_and(|key| key.number != number) {
            return Ok(true);
        }
        // To read a file once more costs nothing.
        if turn.doubtful && self.connection.plugin.is_some() {
            return Ok(false);
        }
        turn.doubtful = true;
        Ok(self.make(&mut turn, limit).await? != number)
    }

    /// The server took a credential.
    pub(super) fn accepted(&self) {
        // Whoever holds the lock makes another one, which is as doubtful as it was.
        if let Ok(mut turn) = self.turn.try_lock() {
            turn.doubtful = false;
        }
    }

    async fn make(&self, turn: &mut Turn, limit: Option<Duration>) -> Result<u64, Failed> {
        if let Some(failed) = &turn.failed {
            return Err(failed.clone());
        }
        let made = match &self.connection.plugin {
            Some(plugin) => match plugin.run(limit).await {
                Ok(given) => self.given(turn.made + 1, given),
                Err(failed) => Err(failed),
            },
            None => self.read_again(turn.made + 1),
        };
        match made {
            Ok(number) => {
                turn.made = number;
                Ok(number)
            }
            Err(failed) => {
                turn.failed = Some(failed.clone());
                Err(failed)
            }
        }
    }

    fn given(&self, number: u64, given: Given) -> Result<u64, Failed> {
        let fail = |cause: String| Failed { cause, hint: None };
        let credential = given.token.map_or(Credential::None, Credential::Token);
        let header = header(&credential).map_err(fail)?;
        let certificate = given.certificate.as_ref().map(|(certificate, _)| certificate.clone());
        let http = match self.key().filter(|key| key.certificate == certificate) {
            Some(key) => key.http.clone(),
            None => http(&self.connection, given.certificate).map_err(|error| fail(error.to_string()))?,
        };
        // A clock that is off makes every credential an expired one: then the server's word counts.
        let expires = given.expires.filter(|end| *end > Timestamp::now());
        self.keep(Key { header, http, certificate, expires, made: Instant::now(), number });
        Ok(number)
    }

    /// The token file once more. Where it cannot be read, or is empty, the last token stays
    /// (kubernetes/kubernetes#68164).
    fn read_again(&self, number: u64) -> Result<u64, Failed> {
        let Some(key) = self.key() else { return Ok(number) };
        let again = match &self.connection.credential {
            Credential::File { path, .. } => token(path),
            _ => None,
        };
        let header = match again {
            Some(token) => header(&Credential::Token(token)).unwrap_or_else(|_| key.header.clone()),
            None => key.header.clone(),
        };
        let number = if header == key.header { key.number } else { number };
        let (http, certificate) = (key.http.clone(), key.certificate.clone());
        self.keep(Key { header, http, certificate, expires: None, made: Instant::now(), number });
        Ok(number)
    }
}

fn token(path: &Path) -> Option<Token> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_string()).filter(|token| !token.is_empty()).map(Token)
}

fn header(credential: &Credential) -> Result<Option<HeaderValue>, String> {
    let word = match credential {
        Credential::None => return Ok(None),
        Credential::Token(token) | Credential::File { token, .. } => format!("Bearer {}", token.0),
        Credential::Password { username, password } => {
            format!("Basic {}", STANDARD.encode(format!("{username}:{}", password.0)))
        }
    };
    let mut value = HeaderValue::try_from(word).map_err(|_| "the token has characters that no token has")?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// Signs a request with the credential of the moment.
#[derive(Clone)]
pub(super) struct Signing(pub(super) Arc<Keys>);

impl Service<Request<Body>> for Signing {
    type Response = <Http as Service<Request<Body>>>::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Some(key) = self.0.key() else {
            return Box::pin(std::future::ready(Err("a request before the credentials".into())));
        };
        if let Some(header) = &key.header {
            request.headers_mut().insert(AUTHORIZATION, header.clone());
        }
        let answer = key.http.clone().call(request);
        Box::pin(async move { Ok(answer.await?) })
    }
}
