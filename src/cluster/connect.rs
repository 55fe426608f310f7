//! From a connection to a client.
//!
//! The stack is our own because kube's speaks HTTP/1.1 only, where every parallel read costs a TLS handshake, and
//! repeats writes on 429, 503 and 504 (kube-rs/kube#2082). Ours offers HTTP/2 and repeats nothing.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::{PROXY_AUTHORIZATION, USER_AGENT};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::config::AuthInfo;
use serde_json::json;
use tower::Layer;

use crate::cluster::exchange::deepest;
use crate::cluster::keys::{Keys, Signing};
use crate::cluster::kubeconfig::{Connection, Token};
use crate::cluster::one_first::OneFirst;
use crate::cluster::proxy::{Proxy, Way};

/// Why no client could be made. Nothing was sent.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot prepare TLS for {server}: {cause}")]
    Tls { server: String, cause: String },
    #[error("cannot use the credentials for {server}: {cause}")]
    Credentials { server: String, cause: String },
}

/// What connections are made with.
pub(super) type Http = HttpClient<OneFirst<HttpsConnector<Way>>, Body>;

/// A client that signs with `keys`. Must be called inside a runtime.
pub(super) fn client(connection: &Connection, keys: Arc<Keys>) -> Result<kube::Client, ConnectError> {
    let mut config = connection.config.clone();
    let wrong = |cause: String| ConnectError::Credentials { server: connection.server.clone(), cause };
    config.headers.push((USER_AGENT, user_agent()));
    if let Some(word) =
        connection.proxy.as_ref().filter(|p| p.passes_on(&config.cluster_url)).and_then(Proxy::authorization)
    {
        config.headers.push((PROXY_AUTHORIZATION, word.map_err(|error| wrong(error.to_string()))?));
    }
    let headers = config.extra_headers_layer().map_err(|error| wrong(deepest(&error)))?;
    let service = headers.layer(Signing(keys));
    let service = config.base_uri_layer().layer(service);
    Ok(kube::Client::new(service, config.default_namespace.clone()))
}

/// Connections with the user's client certificate, or with that of a plugin: certificate and key.
pub(super) fn http(connection: &Connection, certificate: Option<(String, Token)>) -> Result<Http, ConnectError> {
    let wrong = |cause: String| ConnectError::Tls { server: connection.server.clone(), cause };
    let mut config = connection.config.clone();
    if let Some((certificate, key)) = certificate {
        // Through JSON, because the type hides its secrets.
        let pem = |text: &str| STANDARD.encode(format!("{text}\n"));
        let fields = json!({"client-certificate-data": pem(&certificate), "client-key-data": pem(&key.0)});
        config.auth_info = serde_json::from_value(fields).map_err(|error| wrong(error.to_string()))?;
    }
    let tls = |config: &kube::Config| config.rustls_client_config().map_err(|error| wrong(deepest(&error)));

    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(config.connect_timeout);
    tcp.set_keepalive(Some(Duration::from_secs(30)));

    // A proxy's certificate is checked as the server's is, as in client-go; ours is not for the proxy.
    let mut hop = config.clone();
    hop.auth_info = AuthInfo::default();
    let hop = HttpsConnectorBuilder::new().with_tls_config(tls(&hop)?).https_or_http().enable_http1();
    let way = Way::new(tcp.clone(), connection.proxy.clone(), hop.wrap_connector(tcp));

    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls(&config)?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name
            .clone()
            .try_into()
            .map_err(|_| wrong(format!("tls-server-name {name:?} is neither a host name nor an address")))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let connector = builder.enable_all_versions().wrap_connector(way);

    // A quiet HTTP/2 connection is asked whether it still lives, with client-go's times: a watch behind a load
    // balancer that forgot it would otherwise wait for ever.
    Ok(HttpClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(Duration::from_secs(30))
        .http2_keep_alive_timeout(Duration::from_secs(15))
        .build(OneFirst::new(connector)))
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
