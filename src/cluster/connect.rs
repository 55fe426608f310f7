//! From a connection to a client.
//!
//! The stack is our own because kube's speaks HTTP/1.1 only, where every parallel read costs a TLS handshake, and
//! repeats writes on 429, 503 and 504 (kube-rs/kube#2082). Ours offers HTTP/2 and repeats nothing.

use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use tower::{BoxError, Layer, ServiceExt};

use crate::cluster::exchange::deepest;
use crate::cluster::one_first::OneFirst;

/// Why no client could be made. Nothing was sent.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot prepare TLS for {server}: {cause}")]
    Tls { server: String, cause: String },
    #[error("cannot use the credentials for {server}: {cause}")]
    Credentials { server: String, cause: String },
}

/// A client for `config`. Must be called inside a runtime.
pub(super) fn client(config: &kube::Config) -> Result<kube::Client, ConnectError> {
    let server = || config.cluster_url.to_string();
    let tls = config
        .rustls_client_config()
        .map_err(|error| ConnectError::Tls { server: server(), cause: deepest(&error) })?;

    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(config.connect_timeout);
    tcp.set_keepalive(Some(Duration::from_secs(30)));
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(|_| ConnectError::Tls {
            server: server(),
            cause: format!("tls-server-name {name:?} is neither a host name nor an address"),
        })?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let connector = builder.enable_all_versions().wrap_connector(tcp);

    // A quiet HTTP/2 connection is asked whether it still lives, with client-go's times: a watch behind a load
    // balancer that forgot it would otherwise wait for ever.
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(Duration::from_secs(30))
        .http2_keep_alive_timeout(Duration::from_secs(15))
        .build(OneFirst::new(connector));

    let mut config = config.clone();
    config.headers.push((USER_AGENT, user_agent()));
    let credentials = |error: kube::Error| ConnectError::Credentials {
        server: config.cluster_url.to_string(),
        cause: deepest(&error),
    };
    let headers = config.extra_headers_layer().map_err(credentials)?;
    let auth = config.auth_layer().map_err(credentials)?;
    let service = headers.layer(http.map_err(BoxError::from));
    let service = tower::util::option_layer(auth).layer(service);
    let service = config.base_uri_layer().layer(service);
    Ok(kube::Client::new(service, config.default_namespace.clone()))
}

/// `kubectl-saferollback/0.1.0 (linux/amd64)`, so that audit logs name us; in Go's words, as kubectl says it.
fn user_agent() -> HeaderValue {
    let os = match std::env::consts::OS {
        "macos" => "darwin",
        os => os,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        arch => arch,
    };
    HeaderValue::try_from(format!("kubectl-saferollback/{} ({os}/{arch})", env!("CARGO_PKG_VERSION")))
        .unwrap_or(HeaderValue::from_static("kubectl-saferollback"))
}
