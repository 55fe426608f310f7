//! Bytes from anywhere: dumps, kubeconfigs, annotations, whole objects. Here for a moment and always with the same seeds;
//! `tests/fuzz` goes on for as long as it is told, led by coverage.

pub mod targets;

use crate::support::product;
use std::fs;
use std::time::{Duration, Instant};
use targets::{Dice, INCIDENT, KUBECONFIG};

/// xorshift64: the same everywhere, and no dependency.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, sides: usize) -> usize {
        usize::try_from(self.next() % sides.max(1) as u64).expect("it is below a usize")
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| u8::try_from(self.next() >> 56).expect("eight bits")).collect()
    }
}

/// Pieces of YAML and JSON, so that changes meet the grammar.
const PIECES: [&str; 26] = [
    "---\n",
    "...\n",
    "- ",
    ": ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "&a ",
    "*a",
    "<<: ",
    "!!binary ",
    "|\n",
    ">\n",
    "# ",
    "null",
    "~",
    "1e999",
    "0x",
    "\t",
    "\u{feff}",
    "\0",
    "\u{1b}",
    "%YAML 1.1\n",
];

/// One to six changes: bits, cuts, copies, pieces.
fn changed(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(40)).min(bytes.len());
        match random.below(5) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            3 => {
                let piece = PIECES[random.below(PIECES.len())].repeat(1 + random.below(3));
                bytes.splice(at..at, piece.into_bytes());
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
    bytes
}

/// Feeds one target, and says which input it did not come back from. A panic ends the test with it.
fn feed(target: fn(&[u8]), seed: u64, rounds: usize, input: impl Fn(&mut Random) -> Vec<u8>) {
    for round in 0..rounds {
        let mut random = Random(seed + 1_000_003 * round as u64);
        random.next();
        let bytes = input(&mut random);
        let began = Instant::now();
        let caught = std::panic::catch_unwind(|| target(&bytes));
        let shown = String::from_utf8_lossy(&bytes);
        assert!(caught.is_ok(), "seed {seed}, round {round}: a panic on\n{shown}");
        assert!(began.elapsed() < Duration::from_secs(20), "seed {seed}, round {round}: too slow on\n{shown}");
    }
}

/// Without this a target could be tried here and not be among those that `tests/fuzz` knows.
#[test]
fn the_script_knows_the_targets() {
    let script = fs::read_to_string(product::root().join("tests/fuzz")).expect("the script");
    let names = targets::TARGETS.map(|(name, _)| name).join(" ");
    assert!(script.contains(&format!("all=({names})")), "{names}");
}

/// Without this a file from anywhere could end the program in the middle of an outage.
#[test]
fn no_dump_ends_the_program() {
    let small = "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: web, namespace: shop, uid: u}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: web}}\n  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, envFrom: [{configMapRef: {name: settings}}]}]}}\n---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: settings, namespace: shop}\ndata: {A: |\n    text\n  }\nbinaryData: {B: !!binary AAEC}\n";
    feed(targets::dump, 1, 300, |random| changed(small.as_bytes(), random));
    feed(targets::dump, 2, 20, |random| {
        let file = INCIDENT[random.below(INCIDENT.len())];
        changed(file.as_bytes(), random)
    });
}

/// Without this a kubeconfig that some tool wrote could end the program before it says what is wrong with it.
#[test]
fn no_kubeconfig_ends_the_program() {
    feed(targets::kubeconfig, 3, 300, |random| changed(KUBECONFIG.as_bytes(), random));
}

/// Without this an annotation that anybody may write could keep everybody from a rollback.
#[test]
fn no_annotation_ends_the_program() {
    feed(targets::annotations, 4, 40, |random| random.bytes(200));
}

/// Without this a record, which anybody may write who may create ConfigMaps, could keep everybody from a rollback.
#[test]
fn no_record_ends_the_program() {
    feed(targets::records, 7, 40, |random| random.bytes(200));
}

/// Without this an object of an unexpected shape could keep everybody from a rollback.
#[test]
fn no_object_ends_the_program() {
    feed(targets::objects, 5, 40, |random| random.bytes(200));
}

/// Without this an object could do to a screen what it cannot do to the report: end it, or reach the terminal (C107).
#[test]
fn no_object_reaches_the_terminal_raw() {
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..60 {
        let mut random = Random(6 + 1_000_003 * round);
        random.next();
        let mut documents = targets::documents();
        targets::change(&mut documents, &mut Dice::new(&random.bytes(200)));
        for (number, document) in documents.iter().enumerate() {
            fs::write(folder.path().join(format!("{number}.json")), document.to_string()).expect("written");
        }
        let dump = folder.path().display().to_string();
        for arguments in [
            &["history", "web", "-o", "wide"][..],
            &["history", "web", "--revision", "1"],
            &["check", "web", "--to-revision", "1", "-o", "wide"],
            &["undo", "web", "--to-revision", "1", "-o", "wide"],
            &["undo", "web", "--to-revision", "1", "--config=live"],
        ] {
            let ran = product::run(&[arguments, &["--from-file", &dump]].concat());
            assert!([0, 1, 2, 3].contains(&ran.code), "round {round}: {ran:?}");
            for text in [&ran.stdout, &ran.stderr] {
                assert!(!text.contains("panicked"), "round {round}: {ran:?}");
                let raw = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
                assert_eq!(raw, None, "round {round}: {ran:?}");
            }
        }
    }
}
