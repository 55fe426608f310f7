//! Names that other tools made from content: does the suffix re-compute from the bytes of today?
//!
//! Both generators hash a ConfigMap as Go's `encoding/json` prints it (SHA-256, ten hexadecimal digits with
//! `0 1 3 a e` written `g h k m t` so that no words appear), but not the same JSON:
//!
//! - kustomize looks for the name where it is not, so it hashes an empty one, and absent `data` as `""`. It hashes
//!   `binaryData` as it lays it out in YAML: base64 in lines of 70 characters.
//! - `kubectl create configmap --append-hash` hashes the name before the suffix, empty `data` as `{}`, and
//!   `immutable` where it is set.
//!
//! # Caveats
//!
//! The suffix has 40 bits: equality is no chance, yet whoever writes both content and name could forge it.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use super::digest::Content;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generator {
    Kustomize,
    AppendHash,
}

impl fmt::Display for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Generator::Kustomize => "kustomize configMapGenerator",
            Generator::AppendHash => "kubectl create configmap --append-hash",
        })
    }
}

/// The generator whose suffix for `content` the ConfigMap's name ends with, if any does.
///
/// `None` says nothing where the name only looks generated; see [`looks_generated`].
pub fn recomputes(name: &str, content: &Content, immutable: bool) -> Option<Generator> {
    let (base, suffix) = split(name)?;
    // \b and \f: Go before 1.22 wrote them as \u0008 and \u000c.
    for short_escapes in [true, false] {
        let json = Json { short_escapes };
        if suffix_of(&json.kustomize(content)) == suffix {
            return Some(Generator::Kustomize);
        }
        // The flag may have been set after the name was made.
        for flag in [false, true] {
            if flag <= immutable && suffix_of(&json.append_hash(base, content, flag)) == suffix {
                return Some(Generator::AppendHash);
            }
        }
    }
    None
}

/// Could the name's end be such a suffix? Then content that does not re-compute is a sign of an edit, no proof: a
/// ReplicaSet-like suffix of the same alphabet is possible.
pub fn looks_generated(name: &str) -> bool {
    split(name).is_some()
}

fn split(name: &str) -> Option<(&str, &str)> {
    let (base, suffix) = name.rsplit_once('-')?;
    let fits = suffix.len() == 10 && suffix.bytes().all(|b| b"2456789bcdfghkmt".contains(&b));
    (fits && !base.is_empty()).then_some((base, suffix))
}

fn suffix_of(json: &str) -> String {
    let hash = Sha256::digest(json.as_bytes());
    let hex: String = hash.iter().take(5).map(|b| format!("{b:02x}")).collect();
    let spell = |c| match c {
        '0' => 'g',
        '1' => 'h',
        '3' => 'k',
        'a' => 'm',
        'e' => 't',
        other => other,
    };
    hex.chars().map(spell).collect()
}

/// Go's `json.Marshal` of maps: members sorted, HTML characters escaped.
struct Json {
    short_escapes: bool,
}

impl Json {
    fn kustomize(&self, content: &Content) -> String {
        let lines = |bytes: &[u8]| broken(&BASE64_STANDARD.encode(bytes));
        let binary = if content.binary.is_empty() {
            String::new()
        } else {
            format!("\"binaryData\":{},", self.map(&content.binary, lines))
        };
        let data = if content.data.is_empty() { "\"\"".to_string() } else { self.map(&content.data, text) };
        format!("{{{binary}\"data\":{data},\"kind\":\"ConfigMap\",\"name\":\"\"}}")
    }

    fn append_hash(&self, base: &str, content: &Content, immutable: bool) -> String {
        let binary = if content.binary.is_empty() {
            String::new()
        } else {
            format!("\"binaryData\":{},", self.map(&content.binary, |b| BASE64_STANDARD.encode(b)))
        };
        let flag = if immutable { "\"immutable\":true," } else { "" };
        let data = self.map(&content.data, text);
        let name = self.string(base);
        format!("{{{binary}\"data\":{data},{flag}\"kind\":\"ConfigMap\",\"name\":{name}}}")
    }

    fn map(&self, map: &BTreeMap<String, Vec<u8>>, value: impl Fn(&[u8]) -> String) -> String {
        let members: Vec<String> =
            map.iter().map(|(k, v)| format!("{}:{}", self.string(k), self.string(&value(v)))).collect();
        format!("{{{}}}", members.join(","))
    }

    fn string(&self, text: &str) -> String {
        let mut out = String::from("\"");
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' if self.short_escapes => out.push_str("\\b"),
                '\u{c}' if self.short_escapes => out.push_str("\\f"),
                '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    // Writing to a String does not fail.
                    let _ = write!(out, "\\u{:04x}", u32::from(c));
                }
                other => out.push(other),
            }
        }
        out.push('"');
        out
    }
}

/// `data` came as a JSON string, so it is UTF-8.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Lines of 70 characters, each with its line break; a single short line has none.
fn broken(base64: &str) -> String {
    const LINE: usize = 70;
    if base64.len() <= LINE {
        return base64.to_string();
    }
    let mut out = String::new();
    for (i, c) in base64.chars().enumerate() {
        if i > 0 && i % LINE == 0 {
            out.push('\n');
        }
        out.push(c);
    }
    out.push('\n');
    out
}
