//! What a ConfigMap or Secret holds, what a use takes from it, and the canonical digest `sr1` of either.
//!
//! SHA-256 over the tag `sr1\n`, then for every key in byte order of the key: one byte `d` (data), `b` (binaryData)
//! or `m` (consumed but absent), the key's length, the key, the value's length, the value. Lengths are u64,
//! big-endian. Nothing else goes in: not the name, not labels, not `immutable`. Text is never joined with
//! separators: `{A: "1", B: "2"}` and `{A: "1\nB=2"}` must not meet.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::STANDARD as BASE64;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::object::Object;
use super::references::{Keys, Reference, Use};

/// A content digest. Never of a Secret where it can be printed or stored: short secrets are guessed from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    fn hex(&self, bytes: usize) -> String {
        self.0.iter().take(bytes).map(|b| format!("{b:02x}")).collect()
    }

    /// For tables.
    pub fn short(&self) -> String {
        format!("sr1:{}...", self.hex(6))
    }

    /// For object names.
    pub fn hex16(&self) -> String {
        self.hex(8)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("sr1:{}", self.hex(32)))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a content digest: expected sr1: and 64 lower-case hexadecimal digits")]
pub struct ParseDigestError;

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let hex = text.strip_prefix("sr1:").ok_or(ParseDigestError)?.as_bytes();
        if hex.len() != 64 {
            return Err(ParseDigestError);
        }
        let digit = |b: u8| match b {
            b'0'..=b'9' => Ok(b - b'0'),
            b'a'..=b'f' => Ok(b - b'a' + 10),
            _ => Err(ParseDigestError),
        };
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            for b in pair {
                *byte = (*byte << 4) | digit(*b)?;
            }
        }
        Ok(Digest(bytes))
    }
}

/// An object whose content cannot be read. Names the key, never the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    #[error("{0} is not a map")]
    NotAMap(&'static str),
    #[error("{field}[{key:?}] is not a string")]
    NotAString { field: &'static str, key: String },
    #[error("{field}[{key:?}] is not valid base64")]
    NotBase64 { field: &'static str, key: String },
    #[error("key {0:?} is in data and in binaryData")]
    InBoth(String),
    #[error("a {0}, not a {1}")]
    WrongKind(String, &'static str),
}

/// The bytes of a ConfigMap or Secret. `Debug` shows keys and lengths, no values.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Content {
    pub data: BTreeMap<String, Vec<u8>>,
    pub binary: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Content ")?;
        self.all().fmt(f)
    }
}

impl Content {
    /// Of a ConfigMap.
    pub fn from_object(object: &Object) -> Result<Content, ContentError> {
        check_kind(object, "ConfigMap")?;
        let text = |value: &str| Some(value.as_bytes().to_vec());
        let content = Content {
            data: field(object, "data", text, |field, key| ContentError::NotAString { field, key })?,
            binary: field(object, "binaryData", decode, |field, key| ContentError::NotBase64 { field, key })?,
        };
        match content.binary.keys().find(|key| content.data.contains_key(*key)) {
            Some(key) => Err(ContentError::InBoth(key.clone())),
            None => Ok(content),
        }
    }

    /// Of a Secret: its `data` is base64 on the wire.
    pub fn from_secret(object: &Object) -> Result<Content, ContentError> {
        check_kind(object, "Secret")?;
        let data = field(object, "data", decode, |field, key| ContentError::NotBase64 { field, key })?;
        Ok(Content { data, binary: BTreeMap::new() })
    }

    /// `data` and `binaryData` as the API takes them.
    pub fn fields(&self) -> (Map<String, Value>, Map<String, Value>) {
        // `data` came as JSON strings, so it is UTF-8.
        let text = |bytes: &[u8]| Value::String(String::from_utf8_lossy(bytes).into_owned());
        let data = self.data.iter().map(|(key, value)| (key.clone(), text(value)));
        let binary = self.binary.iter().map(|(key, value)| (key.clone(), Value::String(BASE64.encode(value))));
        (data.collect(), binary.collect())
    }

    /// Of the whole object.
    pub fn digest(&self) -> Digest {
        self.all().digest()
    }

    /// Of the keys that these uses take in, together.
    pub fn digest_of<'a>(&'a self, uses: impl IntoIterator<Item = &'a Use>) -> Digest {
        self.consumed_by(uses).digest()
    }

    fn all(&self) -> Consumed<'_> {
        let mut all = Consumed::default();
        all.fields(&self.data, Field::Data);
        all.fields(&self.binary, Field::Binary);
        all
    }

    fn consumed_by<'a>(&'a self, uses: impl IntoIterator<Item = &'a Use>) -> Consumed<'a> {
        let mut union = Consumed::default();
        for one in uses {
            union.0.extend(one.consumed(self).0);
        }
        union
    }

    fn file<'a>(&'a self, key: &'a str) -> ((&'a str, Field), &'a [u8]) {
        if let Some(bytes) = self.data.get(key) {
            ((key, Field::Data), bytes)
        } else if let Some(bytes) = self.binary.get(key) {
            ((key, Field::Binary), bytes)
        } else {
            ((key, Field::Missing), &[])
        }
    }
}

/// Items of a list carry no kind of their own.
fn check_kind(object: &Object, wanted: &'static str) -> Result<(), ContentError> {
    match object.kind() {
        "" => Ok(()),
        kind if kind == wanted => Ok(()),
        kind => Err(ContentError::WrongKind(kind.to_string(), wanted)),
    }
}

fn field(
    object: &Object,
    name: &'static str,
    bytes: impl Fn(&str) -> Option<Vec<u8>>,
    error: impl Fn(&'static str, String) -> ContentError,
) -> Result<BTreeMap<String, Vec<u8>>, ContentError> {
    let map = match object.0.get(name) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(ContentError::NotAMap(name)),
    };
    map.iter()
        .map(|(key, value)| {
            let text = value.as_str().ok_or_else(|| ContentError::NotAString { field: name, key: key.clone() })?;
            Ok((key.clone(), bytes(text).ok_or_else(|| error(name, key.clone()))?))
        })
        .collect()
}

/// As Go decodes it: spare bits in the last character are ignored. Line breaks come from generated files.
fn decode(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    let packed: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    GeneralPurpose::new(&STANDARD, LENIENT).decode(packed).ok()
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Binary,
    Data,
    Missing,
}

/// The keys that one or more uses take in, with the bytes they find; absent keys are kept as absent.
///
/// Where an env key reference and a volume both name a key of `binaryData`, the union holds it twice: the one does
/// not see it, the other does.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Consumed<'a>(BTreeMap<(&'a str, Field), &'a [u8]>);

impl fmt::Debug for Consumed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |field: &Field| match field {
            Field::Binary => "binary",
            Field::Data => "data",
            Field::Missing => "missing",
        };
        f.debug_map().entries(self.0.iter().map(|((key, field), v)| (key, (word(field), v.len())))).finish()
    }
}

impl<'a> Consumed<'a> {
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        hash.update(b"sr1\n");
        for ((key, field), value) in &self.0 {
            hash.update(match field {
                Field::Binary => b"b",
                Field::Data => b"d",
                Field::Missing => b"m",
            });
            for part in [key.as_bytes(), value] {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
        }
        Digest(hash.finalize().into())
    }

    /// The keys taken in, absent ones included.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> + '_ {
        let distinct: BTreeSet<&'a str> = self.0.keys().map(|(key, _)| *key).collect();
        distinct.into_iter()
    }

    fn fields(&mut self, map: &'a BTreeMap<String, Vec<u8>>, field: Field) {
        self.0.extend(map.iter().map(|(key, value)| ((key.as_str(), field), value.as_slice())));
    }

    /// The bytes the reader finds: a file is a file, whichever field it came from.
    fn seen(&self) -> BTreeMap<&'a str, &'a [u8]> {
        let held = self.0.iter().filter(|((_, field), _)| *field != Field::Missing);
        held.map(|((key, _), value)| (*key, *value)).collect()
    }
}

impl Use {
    /// Of what this use takes from `content`: equal where the reader cannot tell two contents apart. For records, which
    /// know no bytes.
    pub fn taken(&self, content: &Content) -> Digest {
        let consumed = self.consumed(content);
        let files = consumed.seen().into_iter().map(|(key, value)| ((key, Field::Data), value)).collect();
        Consumed(files).digest()
    }

    /// What this use takes from `content`.
    pub fn consumed<'a>(&'a self, content: &'a Content) -> Consumed<'a> {
        let mut taken = Consumed::default();
        match &self.keys {
            Keys::AllData => taken.fields(&content.data, Field::Data),
            Keys::Data(key) => {
                let (field, value) = match content.data.get(key) {
                    Some(value) => (Field::Data, value.as_slice()),
                    None => (Field::Missing, &[][..]),
                };
                taken.0.insert((key, field), value);
            }
            Keys::All => taken = content.all(),
            Keys::Named(keys) | Keys::File(keys) => taken.0.extend(keys.iter().map(|key| content.file(key))),
        }
        taken
    }

    /// The consumed keys that differ between two contents, in byte order. Empty: the reader cannot tell them apart.
    pub fn differing_keys(&self, a: &Content, b: &Content) -> Vec<String> {
        let (a, b) = (self.consumed(a), self.consumed(b));
        let (a, b) = (a.seen(), b.seen());
        let keys: BTreeSet<&str> = a.keys().chain(b.keys()).copied().collect();
        keys.into_iter().filter(|key| a.get(key) != b.get(key)).map(str::to_string).collect()
    }

    pub fn reads_same(&self, a: &Content, b: &Content) -> bool {
        self.differing_keys(a, b).is_empty()
    }

    /// The keys whose absence stops a new Pod: for a key reference also one that is in `binaryData` only.
    pub fn missing_keys(&self, content: &Content) -> Vec<String> {
        let held =
            |key: &String| content.data.contains_key(key) || (!self.data_only() && content.binary.contains_key(key));
        self.required_keys().iter().filter(|key| !held(key)).cloned().collect()
    }
}

impl Reference {
    /// What all uses together take from `content`.
    pub fn consumed<'a>(&'a self, content: &'a Content) -> Consumed<'a> {
        content.consumed_by(&self.uses)
    }

    /// The keys that differ for at least one use, in byte order.
    pub fn differing_keys(&self, a: &Content, b: &Content) -> Vec<String> {
        let keys: BTreeSet<String> = self.uses.iter().flat_map(|u| u.differing_keys(a, b)).collect();
        keys.into_iter().collect()
    }

    pub fn reads_same(&self, a: &Content, b: &Content) -> bool {
        self.uses.iter().all(|u| u.reads_same(a, b))
    }

    /// The keys whose absence stops a new Pod, in byte order.
    pub fn missing_keys(&self, content: &Content) -> Vec<String> {
        let keys: BTreeSet<String> = self.uses.iter().flat_map(|u| u.missing_keys(content)).collect();
        keys.into_iter().collect()
    }
}
