//! One handshake for the first requests of a run.
//!
//! A client learns from the first TLS handshake whether the server speaks HTTP/2. Until then each parallel request opens
//! a connection of its own, and all but one are thrown away: measured, five handshakes for the five first reads.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::Connection;
use tokio::sync::Mutex;
use tower::Service;

/// The pool hands a new HTTP/2 connection to everyone who waits, at once. Who is left over connects after this.
const LEFT_OVER: Duration = Duration::from_secs(2);

/// Lets one connection be made at a time; those who waited for one that speaks HTTP/2 leave it to the pool.
#[derive(Clone)]
pub(super) struct OneFirst<C> {
    connector: C,
    /// Locked while a connection is being made. Does the last one made speak HTTP/2?
    shared: Arc<Mutex<bool>>,
}

impl<C> OneFirst<C> {
    pub(super) fn new(connector: C) -> OneFirst<C> {
        OneFirst { connector, shared: Arc::default() }
    }
}

impl<C> Service<Uri> for OneFirst<C>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
    C::Response: Connection + Send + 'static,
    C::Error: Send + 'static,
{
    type Response = C::Response;
    type Error = C::Error;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, C::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connect = self.connector.call(uri);
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            if let Ok(mut shared) = shared.try_lock() {
                let stream = connect.await;
                *shared = stream.as_ref().is_ok_and(|s| s.connected().is_negotiated_h2());
                return stream;
            }
            if *shared.lock().await {
                tokio::time::sleep(LEFT_OVER).await;
            }
            connect.await
        })
    }
}
