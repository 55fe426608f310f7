//! The way to the server: straight, or through a proxy, by the rules of client-go and Go's `httpproxy`.
//!
//! A kubeconfig's `proxy-url` holds for its cluster, whatever `NO_PROXY` says. Else `HTTPS_PROXY` (for an http server
//! `HTTP_PROXY`) counts, but never for loopback. kube's own loader matches `NO_PROXY` against the proxy's address.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::InvalidHeaderValue;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::{Service, ServiceExt};

use crate::cluster::kubeconfig::Environment;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
    Socks5,
}

/// A proxy to go through.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    scheme: Scheme,
    /// Without credentials.
    uri: Uri,
    credentials: Option<(String, String)>,
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Socks5 => "socks5",
        };
        write!(f, "{scheme}://{}", self.uri.authority().map_or("", |authority| authority.as_str()))
    }
}

impl fmt::Debug for Proxy {
    /// Without the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

impl Proxy {
    /// # Errors
    /// What is wrong with it, without repeating it: it may hold a password.
    fn parse(text: &str) -> Result<Proxy, String> {
        let (scheme, rest) = text.split_once("://").ok_or("is no URL")?;
        let (scheme, port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (Scheme::Http, 80),
            "https" => (Scheme::Https, 443),
            "socks5" => (Scheme::Socks5, 1080),
            other => return Err(format!("has the scheme {other:?}; only http, https and socks5 are known")),
        };
        let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, host) = rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host));
        let address: Uri = host.parse().map_err(|_| "is no URL")?;
        let host = address.host().filter(|host| !host.is_empty()).ok_or("names no host")?;
        let port = address.port_u16().unwrap_or(port);
        // The scheme of the first hop: TLS is spoken to an https proxy alone.
        let hop = if scheme == Scheme::Https { "https" } else { "http" };
        let uri = format!("{hop}://{host}:{port}").parse().map_err(|_| "is no URL")?;
        let credentials = match user {
            Some(user) => {
                let (name, password) = user.split_once(':').unwrap_or((user, ""));
                Some((decoded(name).ok_or("has a user that is not URL-encoded")?, {
                    decoded(password).ok_or("has a password that is not URL-encoded")?
                }))
            }
            None => None,
        };
        Ok(Proxy { scheme, uri, credentials })
    }

    /// The proxy for `server`; `None`: straight.
    ///
    /// # Errors
    /// What is wrong, with the place where it stands.
    pub fn for_server(
        server: &Uri,
        proxy_url: Option<&str>,
        environment: &Environment,
    ) -> Result<Option<Proxy>, String> {
        if let Some(url) = proxy_url {
            return Proxy::parse(url).map(Some).map_err(|cause| format!("proxy-url {cause}"));
        }
        let (name, value) = match server.scheme_str() {
            Some("https") => ("HTTPS_PROXY", &environment.https_proxy),
            // A CGI program's HTTP_PROXY is a header of whoever calls it (https://golang.org/s/cgihttpproxy).
            _ if environment.cgi => return Ok(None),
            _ => ("HTTP_PROXY", &environment.http_proxy),
        };
        let Some(value) = value else { return Ok(None) };
        if bypassed(server, environment.no_proxy.as_deref().unwrap_or("")) {
            return Ok(None);
        }
        // The variables may leave the scheme out, and may ask for names to be resolved by the proxy: they always are.
        let url = match value.trim().split_once("://") {
            None => format!("http://{}", value.trim()),
            Some(("socks5h", rest)) => format!("socks5://{rest}"),
            Some(_) => value.trim().to_string(),
        };
        Proxy::parse(&url).map(Some).map_err(|cause| format!("{name} {cause}"))
    }

    /// Requests to a server without TLS are handed to an HTTP proxy as they are, as Go's client does: many proxies open
    /// tunnels to port 443 alone.
    pub(super) fn passes_on(&self, server: &Uri) -> bool {
        server.scheme_str() == Some("http") && self.scheme != Scheme::Socks5
    }

    /// What an HTTP proxy is told of the user; never shown.
    pub(super) fn authorization(&self) -> Option<Result<HeaderValue, InvalidHeaderValue>> {
        self.credentials.as_ref().map(|(name, password)| {
            let mut word = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))?;
            word.set_sensitive(true);
            Ok(word)
        })
    }
}

/// Percent-decoded.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Does a server need no proxy of the environment? Go's rules: loopback never does; of `NO_PROXY`, `*` is all, an
/// address or a network (CIDR) its addresses, a name itself and what ends with it, a name with a leading dot (or
/// `*.`) only the latter; each but a network may have a port.
fn bypassed(server: &Uri, no_proxy: &str) -> bool {
    let Some(host) = server.host() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let port = server.port_u16().unwrap_or(if server.scheme_str() == Some("https") { 443 } else { 80 });
    let address: Option<IpAddr> = host.parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.to_canonical().is_loopback()) {
        return true;
    }
    no_proxy.split(',').map(|entry| entry.trim().to_ascii_lowercase()).filter(|entry| !entry.is_empty()).any(|entry| {
        if entry == "*" {
            return true;
        }
        if let Some((network, bits)) = entry.split_once('/') {
            return address.is_some_and(|address| within(address, network, bits));
        }
        let (name, wanted) = name_and_port(&entry);
        if wanted.is_some_and(|wanted| wanted != port.to_string()) {
            return false;
        }
        match (name.parse::<IpAddr>(), address) {
            (Ok(listed), Some(address)) => listed.to_canonical() == address.to_canonical(),
            (Err(_), None) => {
                let name = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
                match name.strip_prefix('.') {
                    Some(parent) => !parent.is_empty() && host.ends_with(name),
                    None => !name.is_empty() && (host == name || host.ends_with(&format!(".{name}"))),
                }
            }
            _ => false,
        }
    })
}

/// `host:port` and `[address]:port` in two; a bare IPv6 address has no port.
fn name_and_port(entry: &str) -> (&str, Option<&str>) {
    match entry.rsplit_once(':') {
        Some((host, port)) if host.starts_with('[') && host.ends_with(']') => {
            (host.trim_start_matches('[').trim_end_matches(']'), Some(port))
        }
        Some((host, port)) if !host.contains(':') => (host, Some(port)),
        _ => (entry, None),
    }
}

fn within(address: IpAddr, network: &str, bits: &str) -> bool {
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else { return false };
    let same = |a: u128, b: u128, width: u32| bits <= width && (bits == 0 || (a ^ b) >> (width - bits) == 0);
    match (address.to_canonical(), network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => same(u32::from(a).into(), u32::from(n).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(n)) => same(a.into(), n.into(), 128),
        _ => false,
    }
}

/// Why the proxy led nowhere.
#[derive(Debug)]
pub(super) struct Lost(String);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Lost {}

type BoxError = Box<dyn StdError + Send + Sync>;

/// Opens connections along the way that was decided.
#[derive(Clone)]
pub(super) struct Way {
    tcp: HttpConnector,
    proxy: Option<Proxy>,
    /// To a proxy that speaks TLS itself.
    tls: HttpsConnector<HttpConnector>,
}

impl Way {
    pub(super) fn new(tcp: HttpConnector, proxy: Option<Proxy>, tls: HttpsConnector<HttpConnector>) -> Way {
        Way { tcp, proxy, tls }
    }
}

/// A connection, and whether a proxy at its other end passes requests on: then each has to name its server.
pub(super) struct Hop {
    stream: MaybeHttpsStream<TokioIo<TcpStream>>,
    passes_on: bool,
}

impl Hop {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut MaybeHttpsStream<TokioIo<TcpStream>>> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl Connection for Hop {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.passes_on)
    }
}

impl Read for Hop {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read(context, buffer)
    }
}

impl Write for Hop {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}

impl Service<Uri> for Way {
    type Response = Hop;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Hop, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let Way { tcp, proxy, tls } = self.clone();
        Box::pin(async move {
            let straight = |stream| Hop { stream, passes_on: false };
            let Some(proxy) = proxy else {
                return Ok(straight(MaybeHttpsStream::Http(tcp.oneshot(server).await?)));
            };
            let lost = |error: BoxError| -> BoxError {
                Box::new(Lost(format!("through the proxy {proxy}: {}", crate::cluster::exchange::deepest(&*error))))
            };
            let to = proxy.uri.clone();
            if proxy.passes_on(&server) {
                // Of an http address this opens no TLS.
                let stream = tls.oneshot(to).await.map_err(lost)?;
                return Ok(Hop { stream, passes_on: true });
            }
            match (proxy.scheme, &proxy.credentials) {
                (Scheme::Socks5, credentials) => {
                    let mut socks = SocksV5::new(to, tcp);
                    if let Some((name, password)) = credentials {
                        socks = socks.with_auth(name.clone(), password.clone());
                    }
                    let stream = socks.oneshot(with_port(server)).await.map_err(|error| lost(error.into()))?;
                    Ok(straight(MaybeHttpsStream::Http(stream)))
                }
                (Scheme::Http | Scheme::Https, _) => {
                    let mut tunnel = Tunnel::new(to, tls);
                    if let Some(word) = proxy.authorization() {
                        tunnel = tunnel.with_auth(word?);
                    }
                    tunnel.oneshot(server).await.map(straight).map_err(|error| lost(error.into()))
                }
            }
        })
    }
}

/// SOCKS takes 443 for a port that is not named.
fn with_port(server: Uri) -> Uri {
    let (Some("http"), None, Some(host)) = (server.scheme_str(), server.port(), server.host()) else { return server };
    format!("http://{host}:80").parse().unwrap_or(server)
}
