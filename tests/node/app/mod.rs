//! The program in the Pods of the real node: it says over HTTP what its own process has read. The tests take its
//! word, and no API object's, for the truth. `tests/node/image` compiles this file alone, without any crate.
//!
//! - `GET /` answers with the environment of the process, the files under `/config` as they were at its start, and
//!   as they are now.
//! - `GET /ready` answers the same, with status 200 if `HEALTHY` is `true` and 503 otherwise.
//! - `GET /crash` ends the process with code 1.
//!
//! With the argument `pause` it does nothing at all: a Pod's sandbox.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use std::{env, fs, process, thread};

type Texts = BTreeMap<String, String>;

fn main() {
    if env::args().nth(1).as_deref() == Some("pause") {
        loop {
            thread::park();
        }
    }
    let at_start = files();
    let listener = TcpListener::bind(("0.0.0.0", 8080)).expect("port 8080 is free");
    for stream in listener.incoming().flatten() {
        // A caller that went away is none of the others' business.
        let _ = answer(stream, &at_start);
    }
}

fn answer(mut stream: TcpStream, at_start: &Texts) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut request = String::new();
    let mut reader = BufReader::new(stream.try_clone()?);
    reader.read_line(&mut request)?;
    // The rest of the head is read too: a close with unread bytes would reset the connection.
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or("/");
    if path == "/crash" {
        process::exit(1);
    }
    let ready = env::var("HEALTHY").is_ok_and(|healthy| healthy == "true");
    let status = if path == "/ready" && !ready { "503 Service Unavailable" } else { "200 OK" };
    let body = document(&env::vars().collect(), at_start, &files());
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// The files under `/config`. The kubelet's own entries begin with two dots.
fn files() -> Texts {
    let entries = fs::read_dir("/config").into_iter().flatten().flatten();
    let named = entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
    let own = named.filter(|(name, _)| !name.starts_with(".."));
    own.filter_map(|(name, path)| Some((name, String::from_utf8_lossy(&fs::read(path).ok()?).into_owned()))).collect()
}

fn document(env: &Texts, at_start: &Texts, now: &Texts) -> String {
    format!("{{\"env\":{},\"filesAtStart\":{},\"files\":{}}}\n", object(env), object(at_start), object(now))
}

fn object(texts: &Texts) -> String {
    let members: Vec<String> = texts.iter().map(|(key, value)| format!("{}:{}", quoted(key), quoted(value))).collect();
    format!("{{{}}}", members.join(","))
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::{Texts, document};

    /// Otherwise a value with a quote in it would look like a Pod that does not answer.
    #[test]
    fn what_it_says_is_json() {
        let texts: Texts = [("a\"\\b", "\n\u{1}é"), ("", "")].map(|(k, v)| (k.into(), v.into())).into();
        let said: serde_json::Value = serde_json::from_str(&document(&texts, &Texts::new(), &texts)).expect("JSON");
        assert_eq!(said, serde_json::json!({"env": texts, "filesAtStart": {}, "files": texts}));
    }
}
