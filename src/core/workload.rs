//! The words a person types for a workload, and the kinds we know.

use std::fmt;

/// The workload kinds this tool speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
}

impl Kind {
    /// kubectl's word in messages: `deployment`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Deployment => "deployment",
            Kind::StatefulSet => "statefulset",
            Kind::DaemonSet => "daemonset",
        }
    }

    /// Plural, singular and short name, as `kubectl api-resources` lists them.
    fn words(self) -> [&'static str; 3] {
        match self {
            Kind::Deployment => ["deployments", "deployment", "deploy"],
            Kind::StatefulSet => ["statefulsets", "statefulset", "sts"],
            Kind::DaemonSet => ["daemonsets", "daemonset", "ds"],
        }
    }

    /// `deploy`, `deployments.apps`, `deployments.v1.apps`, in any case.
    fn parse(word: &str) -> Option<Kind> {
        let word = word.to_ascii_lowercase();
        let (base, group) = word.split_once('.').unwrap_or((&word, "apps"));
        [Kind::Deployment, Kind::StatefulSet, Kind::DaemonSet]
            .into_iter()
            .find(|kind| kind.words().contains(&base) && ["apps", "v1.apps"].contains(&group))
    }
}

impl fmt::Display for Kind {
    /// The API's kind: `Deployment`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Deployment => "Deployment",
            Kind::StatefulSet => "StatefulSet",
            Kind::DaemonSet => "DaemonSet",
        })
    }
}

/// What was typed: a bare name, or a kind with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub kind: Option<Kind>,
    pub name: String,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TargetError {
    #[error("{0:?} is not a workload this tool knows: use deployment, statefulset or daemonset, as TYPE/NAME")]
    UnknownKind(String),
    #[error("{0:?} names no workload: use TYPE/NAME, as in deployment/web")]
    NoName(String),
    #[error("{0:?} names no ConfigMap: use configmap/NAME")]
    NoConfigMap(String),
    #[error("one workload at a time: got {0:?}")]
    TooMany(Vec<String>),
}

impl Target {
    /// Several of them, as kubectl takes them: `web worker`, `deploy/web sts/db`, `deployment web worker`.
    pub fn parse_all(words: &[String]) -> Result<Vec<Target>, TargetError> {
        let one = |word: &String| Target::parse(std::slice::from_ref(word));
        match words.split_first() {
            Some((kind, names)) if !names.is_empty() && Kind::parse(kind).is_some() => {
                let of_kind = |name: &String| Target::parse(&[kind.clone(), name.clone()]);
                names.iter().filter_map(|name| of_kind(name).transpose()).collect()
            }
            _ => words.iter().filter_map(|word| one(word).transpose()).collect(),
        }
    }

    /// `[]` → none typed; `[web]`, `[deploy/web]`, `[deployment, web]` → a target.
    pub fn parse(words: &[String]) -> Result<Option<Target>, TargetError> {
        let (kind, name) = match words {
            [] => return Ok(None),
            [one] => match one.split_once('/') {
                Some((kind, name)) => (Some(kind), name),
                // kubectl: a kind alone is no name.
                None if Kind::parse(one).is_some() => return Err(TargetError::NoName(one.clone())),
                None => (None, one.as_str()),
            },
            [kind, name] if !kind.contains('/') && !name.contains('/') => (Some(kind.as_str()), name.as_str()),
            more => return Err(TargetError::TooMany(more.to_vec())),
        };
        let kind = match kind {
            Some(word) => Some(Kind::parse(word).ok_or_else(|| TargetError::UnknownKind(word.into()))?),
            None => None,
        };
        if name.is_empty() || name.contains('/') {
            return Err(TargetError::NoName(words.join(" ")));
        }
        Ok(Some(Target { kind, name: name.to_string() }))
    }
}

/// `[cm/settings]`, `[configmaps, settings]` → the name of a ConfigMap; `None` for the words of a workload. A word alone is a
/// workload's name, also where it is `cm`.
///
/// # Errors
/// A ConfigMap is meant, and its name cannot be one.
pub fn config_map(words: &[String]) -> Result<Option<String>, TargetError> {
    let (kind, name) = match words {
        [one] => match one.split_once('/') {
            Some(split) => split,
            None => return Ok(None),
        },
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => return Ok(None),
    };
    if !["configmaps", "configmap", "cm"].contains(&kind.to_ascii_lowercase().as_str()) {
        return Ok(None);
    }
    if name.is_empty() || name.contains('/') {
        return Err(TargetError::NoConfigMap(words.join(" ")));
    }
    Ok(Some(name.to_string()))
}
