//! What lies below the client: real sockets, answered by hand.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use saferollback::cluster::Cluster;
use saferollback::cluster::kubeconfig::{Connection, ConnectionFlags, Environment};
use saferollback::cluster::read::{ReadError, Resource, Select};
use saferollback::cluster::write::WriteError;
use serde_json::json;

use crate::cluster::fake::patience;

fn connection(directory: &Path, server: &str) -> Connection {
    let file = directory.join("config");
    let text = format!(
        "contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{token: t0ken}}}}]\n"
    );
    std::fs::write(&file, text).unwrap();
    let flags = ConnectionFlags { kubeconfig: Some(file), ..ConnectionFlags::default() };
    Connection::load(&flags, &Environment::default()).unwrap()
}

/// A server that reads one request per connection and answers it with `answer`, then closes or hangs.
fn server(answer: impl Into<Vec<u8>>, hang: bool) -> (String, std::sync::mpsc::Receiver<String>) {
    let answer = answer.into();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (seen, requests) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer).unwrap_or(0);
            let _ = seen.send(String::from_utf8_lossy(&buffer[..read]).into_owned());
            let _ = stream.write_all(&answer);
            if hang {
                held.push(stream);
            }
        }
    });
    (address, requests)
}

async fn cluster(server: &str) -> Cluster {
    let directory = tempfile::tempdir().unwrap();
    Cluster::connect(&connection(directory.path(), server)).await.unwrap().with_patience(patience())
}

#[tokio::test]
async fn a_request_says_who_we_are_and_shows_no_token_without_tls() {
    let (address, requests) = server("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{\"gitVersion\":\"v1\"}\n", false);
    cluster(&format!("{address}/k8s/clusters/abc/")).await.server_version().await.unwrap();
    let request = requests.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(request.starts_with("GET /k8s/clusters/abc/version HTTP/1.1\r\n"), "{request}");
    assert!(!request.contains("t0ken"), "{request}");
    assert!(
        request.contains(&format!("user-agent: kubectl-saferollback/{} (", env!("CARGO_PKG_VERSION"))),
        "{request}"
    );
}

#[tokio::test]
async fn nobody_listening_is_unreachable_and_nothing_was_sent() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let cluster = cluster(&address).await;
    let error = cluster.list(Resource::Pods, "shop", Select::All).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(&format!("cannot list pods in namespace shop: no connection to {address}: ")), "{text}");
    assert!(text.to_lowercase().contains("refused") && !text.contains("client error"), "the deepest cause: {text}");
    assert_eq!(cluster.requests(), 4);
    let error = cluster.create(Resource::ConfigMaps, "shop", &json!({}), false).await.unwrap_err();
    assert!(matches!(error, WriteError::Unreachable { .. }) && !error.outcome_unknown(), "{error}");
    assert_eq!(cluster.requests(), 5);
}

#[tokio::test]
async fn a_server_that_accepts_and_never_answers_is_given_up() {
    for start in ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"kind\":"] {
        let (address, _requests) = server(start, true);
        let cluster = cluster(&address).await;
        let begin = Instant::now();
        let error = cluster.list(Resource::Pods, "shop", Select::All).await.unwrap_err();
        assert!(matches!(error, ReadError::Timeout { .. }), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(5));
        let error = cluster.create(Resource::ConfigMaps, "shop", &json!({}), false).await.unwrap_err();
        assert!(error.outcome_unknown(), "{error}");
    }
}

/// Otherwise an answer that never ends could be waited for for ever: the deadline is that of the whole body.
#[tokio::test]
async fn a_body_that_comes_byte_by_byte_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n");
            while stream.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    let begin = Instant::now();
    let error = cluster(&address).await.list(Resource::Pods, "shop", Select::All).await.unwrap_err();
    assert!(matches!(error, ReadError::Timeout { .. }), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_connection_that_ends_before_or_in_the_answer_leaves_a_write_in_doubt() {
    for start in ["", "HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{\"kind\":"] {
        let (address, requests) = server(start, false);
        let error = cluster(&address).await.create(Resource::ConfigMaps, "shop", &json!({}), false).await.unwrap_err();
        assert!(matches!(error, WriteError::Ambiguous { .. }), "{error}");
        assert_eq!(requests.try_iter().count(), 1, "sent once");
    }
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_not_asked_again() {
    let (address, _requests) = server("HTTP/1.1 400 Bad Request\r\n\r\n", false);
    let cluster = cluster(&address.replace("http://", "https://")).await;
    let error = cluster.list(Resource::Pods, "shop", Select::All).await.unwrap_err();
    assert!(matches!(error, ReadError::Unreachable { .. }), "{error}");
    assert_eq!(cluster.requests(), 1, "{error}");
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

/// Otherwise the half of a long list could be taken for all of it: what cannot be unpacked to its end is no answer.
#[tokio::test]
async fn a_compressed_answer_is_unpacked_whole_or_not_taken() {
    let answer = |body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let (first, last) = (packed(b"{\"gitVersion\":"), packed(b"\"v1\"}\n"));
    let (address, requests) = server(answer(&[first.clone(), last.clone()].concat()), false);
    assert_eq!(cluster(&address).await.server_version().await.unwrap().git, "v1", "of several pieces");
    assert!(requests.recv_timeout(Duration::from_secs(5)).unwrap().contains("accept-encoding: gzip\r\n"));

    let whole = packed(b"{\"gitVersion\":\"v1\"}\n");
    for broken in
        [&whole[..whole.len() - 9], &[&whole[..20], &[0; 8], &whole[28..]].concat(), b"{\"gitVersion\":\"v1\"}"]
    {
        let (address, _requests) = server(answer(broken), false);
        let error = cluster(&address).await.server_version().await.unwrap_err();
        assert!(matches!(error, ReadError::Unreachable { .. }), "{error}");
    }
}
