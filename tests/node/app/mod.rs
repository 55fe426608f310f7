//! The program in the Pods of the real node: it says over HTTP what its own process has read. The tests take its
//! word, and no API object's, for the truth. `tests/node/image` compiles this file alone, without any crate.
//!
//! Without arguments, or as `serve PORT`, it serves on port 8080, or PORT:
//!
//! - `GET /` answers with the environment of the process, the files below `/config` as they were at its start and as
//!   they are now, and what the Pod's init containers left under `/shared`.
//! - `GET /ready` answers the same, with status 200 if `HEALTHY` is `true` and 503 otherwise.
//! - `GET /crash` ends the process with code 1.
//!
//! As `init NAME` it leaves its environment and files in `/shared/NAME.json` and ends. As `pause` it does nothing at
//! all: a Pod's sandbox.
//!
//! A text that begins with a zero byte is none of a container's: see [`told`].

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use std::{env, fs, process, str, thread};

type Texts = BTreeMap<String, String>;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve(8080),
        ["serve", port] => serve(port.parse().expect("PORT is a number")),
        ["init", name] => init(name),
        ["pause"] => loop {
            thread::park();
        },
        _ => {
            eprintln!("usage: app [serve PORT | init NAME | pause]");
            process::exit(2);
        }
    }
}

fn serve(port: u16) {
    let at_start = files(Path::new("/config"));
    let listener = TcpListener::bind(("0.0.0.0", port)).expect("the port is free");
    for stream in listener.incoming().flatten() {
        // A caller that went away is none of the others' business.
        let _ = answer(stream, &at_start);
    }
}

fn init(name: &str) {
    let path = Path::new("/shared").join(format!("{name}.json"));
    let document = object(at_start(&environment(), &files(Path::new("/config"))));
    if let Err(error) = fs::write(&path, document) {
        eprintln!("{}: {error}", path.display());
        process::exit(1);
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
    let body = document(&environment(), at_start, &files(Path::new("/config")), &documents(Path::new("/shared")));
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

fn environment() -> Texts {
    env::vars_os().map(|(name, value)| (told(name.as_bytes()), told(value.as_bytes()))).collect()
}

/// The files below a folder by their paths from there. Read until two readings agree: the kubelet replaces all files
/// of a volume at once, and a single reading might see some from before and some from after.
fn files(folder: &Path) -> Texts {
    let mut last = Texts::new();
    gather(folder, "", &mut last);
    loop {
        let mut now = Texts::new();
        gather(folder, "", &mut now);
        if now == last {
            return now;
        }
        last = now;
    }
}

/// Symbolic links are followed: the kubelet's lead to its own entries, which begin with two dots and are left out.
fn gather(folder: &Path, above: &str, found: &mut Texts) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        if name.as_bytes().starts_with(b"..") {
            continue;
        }
        let below = format!("{above}{}", told(name.as_bytes()));
        if path.is_dir() {
            gather(&path, &format!("{below}/"), found);
        } else {
            // A file that cannot be read is no absent one.
            let text = fs::read(&path).map_or_else(|error| format!("\0not read: {error}"), |bytes| told(&bytes));
            found.insert(below, text);
        }
    }
}

/// What the init containers left, JSON already, by the names they gave themselves.
fn documents(folder: &Path) -> Texts {
    let paths = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let documents = paths.filter(|path| path.extension() == Some(OsStr::new("json")));
    documents.filter_map(|path| Some((path.file_stem()?.to_str()?.into(), fs::read_to_string(&path).ok()?))).collect()
}

/// Bytes as a text: the text that they are, or else a zero byte and their hexadecimal digits. No two are told alike.
pub fn told(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) if !text.starts_with('\0') => text.to_owned(),
        _ => bytes.iter().fold(String::from('\0'), |text, byte| format!("{text}{byte:02x}")),
    }
}

fn at_start(env: &Texts, files: &Texts) -> [(&'static str, String); 2] {
    [("env", texts(env)), ("filesAtStart", texts(files))]
}

fn document(env: &Texts, files_at_start: &Texts, files: &Texts, init: &Texts) -> String {
    let [env, files_at_start] = at_start(env, files_at_start);
    let init = object(init.iter().map(|(name, document)| (name.as_str(), document.clone())));
    object([env, files_at_start, ("files", texts(files)), ("init", init)])
}

fn texts(texts: &Texts) -> String {
    object(texts.iter().map(|(name, text)| (name.as_str(), quoted(text))))
}

/// A JSON object of members whose values are JSON already.
fn object<'a>(members: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let members: Vec<String> = members.into_iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
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
    use super::{Texts, at_start, document, files, object, told};
    use serde_json::{Value, json};
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Otherwise a value with a quote in it would look like a Pod that does not answer.
    #[test]
    fn what_it_says_is_json() {
        let texts: Texts = [("a\"\\b", "\n\u{1}é"), ("", "")].map(|(k, v)| (k.into(), v.into())).into();
        let none = Texts::new();
        let init = Texts::from([("a\"b".into(), object(at_start(&texts, &none)))]);
        let said: Value = serde_json::from_str(&document(&texts, &none, &texts, &init)).expect("JSON");
        let init = json!({"a\"b": {"env": texts, "filesAtStart": {}}});
        assert_eq!(said, json!({"env": texts, "filesAtStart": {}, "files": texts, "init": init}));
        let said: Value = serde_json::from_str(&document(&none, &none, &none, &none)).expect("JSON");
        assert_eq!(said["init"], json!({}));
    }

    /// Two binary contents that are told alike would pass for the same.
    #[test]
    fn no_two_contents_are_told_alike() {
        let all: [&[u8]; 7] = [b"", b"ff", b"\xff", b"\xfe", b"\0", b"\0ff", "\u{fffd}".as_bytes()];
        let told: std::collections::BTreeSet<String> = all.into_iter().map(told).collect();
        assert_eq!(told.len(), all.len(), "{told:?}");
        assert!(told.contains("ff") && told.contains("\0ff") && told.contains("\u{fffd}"), "{told:?}");
    }

    /// A kubelet's volume is links into a folder of its own: read as plain files, nothing would be found, or all twice.
    #[test]
    fn files_are_told_once_by_the_names_that_a_container_sees() {
        let config = tempfile::tempdir().expect("a folder");
        let own = config.path().join("volume/..2026_01_02");
        fs::create_dir_all(own.join("deep/er")).expect("folders");
        fs::write(own.join("A"), "a").expect("a file");
        fs::write(own.join("deep/er/B"), b"\xff").expect("a file");
        fs::write(config.path().join("page"), "p").expect("a file");
        fs::create_dir(config.path().join("empty")).expect("a folder");
        for (link, to) in
            [("..data", "..2026_01_02"), ("A", "..data/A"), ("deep", "..data/deep"), ("gone", "..data/gone")]
        {
            symlink(to, config.path().join("volume").join(link)).expect("a link");
        }
        let mut said = files(config.path());
        let gone = said.remove("volume/gone").expect("what cannot be read is no absent file");
        assert!(gone.starts_with("\0not read: "), "{gone}");
        let expected = [("page", "p"), ("volume/A", "a"), ("volume/deep/er/B", "\0ff")];
        assert_eq!(said, expected.map(|(k, v)| (k.into(), v.into())).into());
        assert_eq!(files(&config.path().join("nowhere")), Texts::new());
    }
}
