//! Proxies as they stand between people and API servers: HTTP over plain TCP or TLS, SOCKS5, or bytes passed on. They
//! write down where they were asked to lead, and whatever that is called it is looked for on loopback: names that
//! nobody resolves are then reached through the proxy alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

#[derive(Clone)]
pub enum Kind {
    Connect,
    /// Certificate and key.
    ConnectTls(Arc<ServerConfig>),
    /// Says 403 to everybody.
    Closed,
    Socks,
    /// To this port; it writes down how many bytes each connection brought back.
    Forward(u16),
}

pub fn tls(certificate: &Path, key: &Path) -> Kind {
    let chain = CertificateDer::pem_file_iter(certificate).expect("a certificate").map(|c| c.expect("PEM")).collect();
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).expect("a pair");
    Kind::ConnectTls(Arc::new(config))
}

pub struct Hop {
    pub address: SocketAddr,
    taken: Arc<Mutex<Vec<String>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Hop {
    /// `credentials`: `name:password`, which it then insists on.
    pub fn start(kind: Kind, at: &str, credentials: Option<&'static str>) -> Hop {
        let listener = std::net::TcpListener::bind(at).expect("a free port");
        listener.set_nonblocking(true).expect("a socket for the runtime");
        let address = listener.local_addr().expect("an address");
        let taken = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = oneshot::channel();
        let log = Arc::clone(&taken);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                let serve = async {
                    loop {
                        let Ok((stream, _)) = listener.accept().await else { return };
                        // Whoever goes away meanwhile is of no interest.
                        tokio::spawn(lead(stream, kind.clone(), credentials, Arc::clone(&log)));
                    }
                };
                tokio::select! { () = serve => {}, _ = stopped => {} }
            });
            runtime.shutdown_background();
        });
        Hop { address, taken, stop: Some(stop), thread: Some(thread) }
    }

    /// Where it led since the last time it was asked.
    pub fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.taken.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Log = Arc<Mutex<Vec<String>>>;

async fn lead(mut stream: TcpStream, kind: Kind, credentials: Option<&'static str>, log: Log) -> io::Result<()> {
    match kind {
        Kind::Forward(port) => {
            let answered = pass(&mut stream, port).await?;
            log.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{answered} bytes"));
            Ok(())
        }
        Kind::Socks => {
            let target = socks(&mut stream, credentials).await?;
            let port = note(&log, &target)?;
            stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
            pass(&mut stream, port).await.map(|_| ())
        }
        Kind::Connect => connect(stream, credentials, log).await,
        Kind::ConnectTls(config) => connect(TlsAcceptor::from(config).accept(stream).await?, credentials, log).await,
        Kind::Closed => {
            head(&mut stream).await?;
            stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await
        }
    }
}

/// Written down, and the port of it.
fn note(log: &Log, target: &str) -> io::Result<u16> {
    log.lock().unwrap_or_else(PoisonError::into_inner).push(target.to_string());
    let port = target.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    port.ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))
}

/// How many bytes came back.
async fn pass(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), port: u16) -> io::Result<u64> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    copy_bidirectional(stream, &mut server).await.map(|(_, back)| back)
}

async fn head(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
        // Not HTTP but TLS.
        if head[0] == 22 {
            return Err(ErrorKind::InvalidInput.into());
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

async fn connect(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    credentials: Option<&'static str>,
    log: Log,
) -> io::Result<()> {
    let head = head(&mut stream).await?;
    let wanted = credentials.map(|pair| format!("Basic {}", STANDARD.encode(pair)));
    let given = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("proxy-authorization").then(|| value.to_string())
    });
    if given != wanted {
        return stream.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n").await;
    }
    let no = || io::Error::from(ErrorKind::InvalidInput);
    let mut words = head.split(' ');
    let (method, target) = (words.next().ok_or_else(no)?, words.next().ok_or_else(no)?);
    if method != "CONNECT" {
        // A request with its server's name: passed on, as all that follow on this connection.
        let server = target.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let mut onward = TcpStream::connect(("127.0.0.1", note(&log, &server)?)).await?;
        onward.write_all(head.as_bytes()).await?;
        return copy_bidirectional(&mut stream, &mut onward).await.map(|_| ());
    }
    let port = note(&log, target)?;
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    pass(&mut stream, port).await.map(|_| ())
}

/// The handshake of RFC 1928 and 1929 up to the request, which stays to be answered.
async fn socks(stream: &mut TcpStream, credentials: Option<&'static str>) -> io::Result<String> {
    let bytes = async |stream: &mut TcpStream, count: u8| {
        let mut bytes = vec![0; count.into()];
        stream.read_exact(&mut bytes).await?;
        io::Result::Ok(bytes)
    };
    let greeting = bytes(stream, 2).await?;
    let methods = bytes(stream, greeting[1]).await?;
    let method = if credentials.is_some() { 2 } else { 0 };
    if !methods.contains(&method) {
        stream.write_all(&[5, 0xff]).await?;
        return Err(ErrorKind::PermissionDenied.into());
    }
    stream.write_all(&[5, method]).await?;
    if let Some(pair) = credentials {
        let length = bytes(stream, 2).await?[1];
        let name = bytes(stream, length).await?;
        let length = bytes(stream, 1).await?[0];
        let password = bytes(stream, length).await?;
        if [name.as_slice(), b":", &password].concat() != pair.as_bytes() {
            stream.write_all(&[1, 1]).await?;
            return Err(ErrorKind::PermissionDenied.into());
        }
        stream.write_all(&[1, 0]).await?;
    }
    let request = bytes(stream, 4).await?;
    let host = match request[3] {
        1 => {
            let b = bytes(stream, 4).await?;
            format!("{}.{}.{}.{}", b[0], b[1], b[2], b[3])
        }
        3 => {
            let length = bytes(stream, 1).await?[0];
            String::from_utf8_lossy(&bytes(stream, length).await?).into_owned()
        }
        _ => return Err(ErrorKind::Unsupported.into()),
    };
    let port = bytes(stream, 2).await?;
    Ok(format!("{host}:{}", u16::from_be_bytes([port[0], port[1]])))
}
