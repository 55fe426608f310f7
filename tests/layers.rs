//! Who may import what: core < cluster < run < cli. The rules are proven on planted violations.

use crate::support::product::root;
use crate::support::rust::{self, Path, Token};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path as File, PathBuf};

/// What the files below one folder of `src` may use.
struct Layer {
    name: &'static str,
    /// Layers it may name.
    below: &'static [&'static str],
    /// Dependencies it may name. All others of Cargo.toml are closed to it, new ones too.
    crates: &'static [&'static str],
    /// Parts of the standard library that are closed to it.
    closed: &'static [&'static [&'static str]],
    clock: bool,
    prints: bool,
}

const EXIT: &[&str] = &["std", "process"];
const STDOUT: &[&str] = &["std", "io", "stdout"];
const STDERR: &[&str] = &["std", "io", "stderr"];

const LAYERS: [Layer; 4] = [
    Layer {
        name: "core",
        below: &[],
        crates: &["base64", "jiff", "serde", "serde_json", "sha2", "thiserror"],
        closed: &[
            &["std", "io"],
            &["std", "fs"],
            &["std", "net"],
            &["std", "os"],
            &["std", "env"],
            &["std", "thread"],
            &["std", "time", "SystemTime"],
            &["std", "time", "Instant"],
            EXIT,
        ],
        clock: false,
        prints: false,
    },
    Layer {
        name: "cluster",
        below: &["core"],
        #[rustfmt::skip]
        crates: &[
            "base64", "flate2", "futures_util", "http", "http_body", "hyper", "hyper_rustls", "hyper_util", "jiff", "kube", "serde_json",
            "serde_yaml", "thiserror", "tokio", "tower",
        ],
        closed: &[STDOUT, STDERR, &["std", "process", "exit"], &["std", "process", "abort"]],
        clock: true,
        prints: false,
    },
    Layer {
        name: "run",
        below: &["core", "cluster"],
        crates: &["futures_util", "jiff", "serde_json", "thiserror", "tokio"],
        closed: &[STDOUT, STDERR, EXIT],
        clock: true,
        prints: false,
    },
    Layer {
        name: "cli",
        below: &["core", "cluster", "run"],
        #[rustfmt::skip]
        crates: &[
            "clap", "comfy_table", "dialoguer", "jiff", "jsonpath_rust", "serde", "serde_json", "serde_yaml", "tokio",
        ],
        // main.rs hands the code over; an exit in between would skip the last words and destructors.
        closed: &[EXIT],
        clock: true,
        prints: true,
    },
];

/// The dependencies of Cargo.toml, as code spells them.
fn dependencies() -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let table = manifest.split("[dependencies]\n").nth(1).and_then(|rest| rest.split("\n[").next()).expect("a table");
    let names = table.lines().filter_map(|l| l.split_once(" = ")).filter(|(name, _)| !name.starts_with('#'));
    names.map(|(name, _)| name.replace('-', "_")).collect()
}

/// All that is wrong with one file, as `LINE: what`.
fn violations(layer: &Layer, tokens: &[Token], module: &[&str], dependencies: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for path in rust::paths(tokens, module) {
        wrong.extend(violation(layer, &path, dependencies).map(|why| format!("{}: {why}", path.line)));
    }
    let printing = ["print", "println", "eprint", "eprintln", "dbg"];
    for (line, name) in rust::macros(tokens).into_iter().filter(|(_, name)| printing.contains(name)) {
        if !layer.prints || name == "dbg" {
            wrong.push(format!("{line}: {name}!"));
        }
    }
    wrong
}

fn violation(layer: &Layer, path: &Path, dependencies: &BTreeSet<String>) -> Option<String> {
    let written = path.steps.join("::");
    let first = path.steps.first()?.as_str();
    if first == "crate" {
        let own = |name: &str| name == layer.name || layer.below.contains(&name);
        let closed = LAYERS.iter().filter(|l| !own(l.name)).find(|l| path.reaches(&["crate", l.name]));
        return closed.map(|l| format!("{} uses {}: {written}", layer.name, l.name));
    }
    if dependencies.contains(first) && !layer.crates.contains(&first) {
        return Some(format!("{} uses the crate {first}: {written}", layer.name));
    }
    if layer.closed.iter().any(|place| path.reaches(place)) {
        return Some(format!("{} uses {written}", layer.name));
    }
    // Timestamp::now, Zoned::now, Instant::now, by whatever name.
    let clock =
        path.steps.last().is_some_and(|last| last == "now") || path.reaches(&["jiff", "tz", "TimeZone", "system"]);
    (clock && !layer.clock).then(|| format!("{} has no clock: {written}", layer.name))
}

fn sources(folder: &File) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(sources(&path)),
            path if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            _ => {}
        }
    }
    found.sort();
    found
}

/// `src/core/references/walk.rs` → `core`, `references`, `walk`.
fn module(file: &File) -> Vec<String> {
    let inside = file.strip_prefix(root().join("src")).expect("below src").with_extension("");
    let steps: Vec<String> = inside.iter().map(|s| s.to_string_lossy().into_owned()).collect();
    steps.into_iter().filter(|s| s != "mod").collect()
}

/// Without this the pure core would grow I/O one import at a time.
#[test]
fn every_source_file_keeps_to_its_layer() {
    let dependencies = dependencies();
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for file in sources(&root().join("src")) {
        let module = module(&file);
        let steps: Vec<&str> = module.iter().map(String::as_str).collect();
        let tokens = rust::tokens(&fs::read_to_string(&file).expect("a source file"));
        let Some(layer) = LAYERS.iter().find(|l| steps.first() == Some(&l.name)) else {
            assert!(matches!(steps[..], ["main" | "lib"]), "{} belongs to no layer", file.display());
            continue;
        };
        seen.insert(layer.name);
        let found = violations(layer, &tokens, &steps, &dependencies);
        wrong.extend(found.into_iter().map(|what| format!("{}:{what}", file.display())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(seen.len(), LAYERS.len(), "a layer without files is a rule about nothing");
}

/// main.rs is the seam to the operating system, and nothing else.
#[test]
fn main_calls_the_cli_alone() {
    let tokens = rust::tokens(&fs::read_to_string(root().join("src/main.rs")).expect("main.rs"));
    for path in rust::paths(&tokens, &[]) {
        let fine = path.starts_with(&["crate", "cli", "main"]) || path.starts_with(&["std", "process", "ExitCode"]);
        assert!(fine, "main.rs uses {}", path.steps.join("::"));
    }
    assert!(rust::macros(&tokens).is_empty());
}

/// A permission that nobody uses is a hole nobody sees.
#[test]
fn every_permitted_crate_is_used() {
    let dependencies = dependencies();
    for layer in &LAYERS {
        let files = sources(&root().join("src").join(layer.name));
        let used: BTreeSet<String> = files
            .iter()
            .flat_map(|file| {
                let tokens = rust::tokens(&fs::read_to_string(file).expect("a source file"));
                rust::paths(&tokens, &[]).into_iter().filter_map(|p| p.steps.first().cloned()).collect::<Vec<_>>()
            })
            .collect();
        for name in layer.crates {
            assert!(dependencies.contains(*name), "{} may use {name}, which is no dependency", layer.name);
            assert!(used.contains(*name), "{} may use {name} and does not", layer.name);
        }
    }
}

/// One planted file: the layer, where it stands, its text.
type Plant = (&'static str, &'static [&'static str], &'static str);

const WRONG: &[Plant] = &[
    // A plain import, in all its spellings.
    ("core", &["core", "plan"], "use kube::Client;"),
    ("core", &["core", "plan"], "use ::kube::Client;"),
    ("core", &["core", "plan"], "use kube;"),
    ("core", &["core", "plan"], "use kube as cubes;"),
    ("core", &["core", "plan"], "extern crate tokio;"),
    ("core", &["core", "plan"], "pub use k8s_openapi::api::core::v1::Pod;"),
    ("core", &["core", "plan"], "use {serde_json::Value, hyper_util::rt::TokioTimer};"),
    ("core", &["core", "plan"], "use r#tower::Service;"),
    ("run", &["run", "undo"], "use http::Method;"),
    ("cli", &["cli", "ui"], "use kube::Error;"),
    // A path without an import.
    ("core", &["core", "plan"], "fn f() { let _ = http::Method::GET; }"),
    ("core", &["core", "plan"], "fn f() -> ::kube::Client { todo() }"),
    ("core", &["core", "plan"], "fn f() { return ::tokio::task::yield_now(); }"),
    ("core", &["core", "plan"], "struct S { c: Option<kube::Client> }"),
    ("core", &["core", "plan"], "fn f() { let v = Vec::<kube::Client>::new(); }"),
    ("core", &["core", "plan"], "fn f() { g(format!(\"{}\", crate::cluster::x())); }"),
    ("core", &["core", "plan"], "fn f(x: &dyn ::tower::Service<u8>) {}"),
    ("core", &["core", "plan"], "#[derive(kube::CustomResource)] struct S;"),
    // A layer above.
    ("core", &["core", "plan"], "use crate::run;"),
    ("core", &["core", "plan"], "use crate::{cluster::read::List, core::object::Object};"),
    ("core", &["core", "plan"], "use crate::{core::{object::Object}, cli as shown};"),
    ("core", &["core", "plan"], "use crate::*;"),
    ("core", &["core", "plan"], "use crate as everything; fn f() { everything::cluster::x(); }"),
    ("core", &["core", "plan"], "use crate::{self as everything}; fn f() { everything::cli::main(); }"),
    ("core", &["core", "plan"], "fn f() { crate::cluster::x(); }"),
    ("core", &["core", "plan"], "fn f() { super::super::cluster::x(); }"),
    ("core", &["core", "plan"], "use super::super::{run, cli};"),
    ("core", &["core", "plan"], "use super::{super::cluster::read, object};"),
    ("core", &["core", "plan"], "use super::super as up; fn f() { up::cli::main(); }"),
    ("core", &["core", "plan"], "use self::super::super::run;"),
    ("core", &["core", "references", "walk"], "use super::super::super::cluster;"),
    ("core", &["core"], "use super::cluster;"),
    ("core", &["core", "plan"], "mod inner { use super::super::super::cluster; }"),
    ("core", &["core", "plan"], "macro_rules! m { () => { $crate::cluster::x() } }"),
    ("core", &["core", "plan"], "pub(in crate::run) fn f() {}"),
    ("core", &["core", "plan"], "use saferollback::cluster;"),
    ("cluster", &["cluster", "read"], "use crate::run::Failure;"),
    ("cluster", &["cluster", "read"], "fn f() { super::super::cli::main(); }"),
    ("run", &["run", "undo"], "use crate::cli::ui;"),
    // Input, output, processes.
    ("core", &["core", "plan"], "use std::fs;"),
    ("core", &["core", "plan"], "use std::{collections::BTreeMap, env};"),
    ("core", &["core", "plan"], "use std::{collections::{BTreeMap, BTreeSet}, io::{self, Write}};"),
    ("core", &["core", "plan"], "use std::*;"),
    ("core", &["core", "plan"], "use std as s; fn f() { s::fs::read(\"x\"); }"),
    ("core", &["core", "plan"], "use std::{self as s, fmt}; fn f() { s::thread::sleep(d); }"),
    ("core", &["core", "plan"], "fn f() { std::net::TcpStream::connect(a); }"),
    ("core", &["core", "plan"], "fn f() { ::std::process::exit(1); }"),
    ("core", &["core", "plan"], "fn f() { core::net::Ipv4Addr::LOCALHOST; }"),
    ("run", &["run", "undo"], "use std::process;"),
    ("run", &["run", "undo"], "use std::process::*;"),
    ("run", &["run", "undo"], "fn f() { std::process::exit(3); }"),
    ("run", &["run", "undo"], "use std::io; fn f() { io::stdout(); }"),
    ("run", &["run", "undo"], "use std::io::{stderr as say, Write};"),
    ("cluster", &["cluster", "read"], "use std::io; fn f() { io::stderr().write_all(b\"x\"); }"),
    ("cluster", &["cluster", "read"], "fn f() { std::process::exit(1); }"),
    ("cli", &["cli", "ui"], "fn f() { std::process::exit(1); }"),
    // The clock.
    ("core", &["core", "plan"], "use std::time::{Duration, Instant};"),
    ("core", &["core", "plan"], "use std::time::SystemTime as T;"),
    ("core", &["core", "plan"], "use std::time; fn f() { time::Instant::now(); }"),
    ("core", &["core", "plan"], "use jiff::Timestamp; fn f() { Timestamp::now(); }"),
    ("core", &["core", "plan"], "use jiff::Timestamp as T; fn f() { T::now(); }"),
    ("core", &["core", "plan"], "fn f() { let t = x.unwrap_or_else(jiff::Zoned::now); }"),
    ("core", &["core", "plan"], "fn f() { <jiff::Timestamp>::now(); }"),
    ("core", &["core", "plan"], "fn f() { jiff::tz::TimeZone::system(); }"),
    // Printing.
    ("core", &["core", "plan"], "fn f() { println!(\"x\"); }"),
    ("core", &["core", "plan"], "fn f() { std::eprintln!{\"x\"} }"),
    ("cluster", &["cluster", "read"], "fn f() { eprint!(\"x\"); }"),
    ("run", &["run", "undo"], "fn f() { print ! [\"x\"]; }"),
    ("run", &["run", "undo"], "fn f() { dbg!(1); }"),
    ("cli", &["cli", "ui"], "fn f() { dbg!(1); }"),
    // What only looks like the end of code.
    ("core", &["core", "plan"], "/* a /* b */ c */ use kube::Client;"),
    ("core", &["core", "plan"], "const Q: char = '\"'; use kube::Client; // \""),
    ("core", &["core", "plan"], "const Q: &str = \"\\\\\"; use kube::Client; // \""),
    ("core", &["core", "plan"], "const Q: &str = r#\"\"\"#; use kube::Client;"),
    ("core", &["core", "plan"], "fn f<'a>(x: &'a str) { kube::x(b'\\'', '\\u{1b}'); }"),
];

const FINE: &[Plant] = &[
    ("core", &["core", "plan"], "// use kube::Client;\n/// [`crate::cluster`]\n//! println!(\"x\")\nfn f() {}"),
    ("core", &["core", "plan"], "/* use kube::Client; /* nested */ crate::cli::main() */ fn f() {}"),
    ("core", &["core", "plan"], "const A: &str = \"use kube::Client; println!()\";"),
    ("core", &["core", "plan"], "const A: &str = \"an escaped \\\" quote, kube::Client\";"),
    ("core", &["core", "plan"], "const A: &str = r#\"\"crate::cluster::x\"\"#; const B: &[u8] = br\"kube::x\";"),
    ("core", &["core", "plan"], "const A: &str = \"two\nlines std::fs::read\";"),
    ("core", &["core", "plan"], "const A: char = '\\''; const B: &str = \" std::fs::read \";"),
    ("core", &["core", "plan"], "fn f<'kube>(x: &'kube str) -> &'kube str { 'tokio: loop { break 'tokio; } }"),
    // Names that are somebody else's.
    ("core", &["core", "plan"], "use crate::core::{object, references::{self, Kind}};"),
    ("core", &["core", "plan"], "use super::object::Object; use super::*;"),
    ("core", &["core", "references", "walk"], "use super::super::object; use super::{Keys, Use};"),
    ("core", &["core", "plan"], "mod inner { use super::super::object; }"),
    ("core", &["core", "plan"], "fn f() { let http = 1; let kube = http + 1; kube.max(http); }"),
    ("core", &["core", "plan"], "fn f() { crate::core::cluster_words(); crate::core::clid::x(); }"),
    ("core", &["core", "plan"], "struct S { now: u8 } fn f(s: S, t: T) { s.now; t.now(); let now = 1; }"),
    ("core", &["core", "plan"], "use jiff::{SignedDuration, Timestamp}; fn f(t: Timestamp) {}"),
    ("core", &["core", "plan"], "use std::time::Duration; use std::{fmt, iter::Iterator, ops::Not};"),
    ("core", &["core", "plan"], "use std::fmt::Write; fn f() { let _ = write!(out, \"x\"); }"),
    ("core", &["core", "plan"], "fn f(print: u8, println: u8) -> bool { print != println && !(print > 1) }"),
    ("core", &["core", "plan"], "fn print() {} fn f() { print(); self.println(\"x\"); debug_assert!(true); }"),
    ("core", &["core", "plan"], "fn f() -> impl Iterator<Item = u8> + use<> { g() }"),
    ("core", &["core", "plan"], "fn f() { core::mem::swap(a, b); env!(\"CARGO_PKG_VERSION\"); }"),
    // What the layer may do.
    ("cluster", &["cluster", "read"], "use std::{env, fs, io}; use kube::Client; use crate::core::object::Object;"),
    ("cluster", &["cluster", "read"], "fn f() { std::process::Command::new(\"aws\"); std::time::Instant::now(); }"),
    ("run", &["run", "undo"], "use crate::{cluster::Cluster, core::plan}; use jiff::Timestamp;"),
    ("run", &["run", "undo"], "fn f() { Timestamp::now(); std::io::stdin(); tokio::time::Instant::now(); }"),
    ("cli", &["cli", "ui"], "use crate::{cluster::Notice, core::report, run}; fn f() { println!(\"x\"); }"),
    ("cli", &["cli", "ui"], "use std::io::{self, Write}; fn f() { io::stdout().write_all(b\"x\"); }"),
];

fn planted((layer, module, text): &Plant) -> Vec<String> {
    let layer = LAYERS.iter().find(|l| l.name == *layer).expect("a layer");
    violations(layer, &rust::tokens(text), module, &dependencies())
}

/// Otherwise a rule could be blind, and the test above would be green for that.
#[test]
fn planted_violations_are_caught() {
    let missed: Vec<&str> = WRONG.iter().filter(|plant| planted(plant).is_empty()).map(|(_, _, text)| *text).collect();
    assert!(missed.is_empty(), "not caught: {missed:#?}");
}

/// Otherwise a rule would be worked around, and then dropped.
#[test]
fn look_alikes_are_let_through() {
    for plant in FINE {
        assert_eq!(planted(plant), [""; 0], "{}", plant.2);
    }
}
