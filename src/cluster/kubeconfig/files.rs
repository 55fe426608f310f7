//! The kubeconfig files: which ones, read once, merged.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;
use serde_json::Value;

use super::{ConnectionFlags, Environment, KubeconfigError};
use crate::cluster::decode;

/// The merged kubeconfig files.
pub(super) struct Files {
    pub merged: Kubeconfig,
    pub read: Vec<PathBuf>,
    missing: Vec<PathBuf>,
}

impl Files {
    /// `--kubeconfig`, else the `KUBECONFIG` list, else `~/.kube/config`. Only the flag's file must be there.
    pub fn load(flags: &ConnectionFlags, environment: &Environment) -> Result<Files, KubeconfigError> {
        let asked = flags.kubeconfig.as_ref().filter(|path| !path.as_os_str().is_empty());
        let mut paths = Vec::new();
        if let Some(path) = asked {
            paths.push(path.clone());
        } else {
            if let Some(list) = &environment.kubeconfig {
                paths.extend(std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()));
            }
            if paths.is_empty() {
                paths.extend(environment.home.iter().map(|home| home.join(".kube").join("config")));
            }
        }
        let mut files = Files { merged: Kubeconfig::default(), read: Vec::new(), missing: Vec::new() };
        for path in paths {
            match fs::read(&path) {
                Ok(bytes) => {
                    merge(&mut files.merged, parse(&path, &bytes)?);
                    files.read.push(path);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && asked.is_none() => {
                    files.missing.push(path);
                }
                Err(error) => return Err(KubeconfigError::Read { path, cause: error.to_string() }),
            }
        }
        Ok(files)
    }

    /// The files that were read, for messages.
    pub fn names(&self) -> String {
        join(&self.read)
    }

    pub fn looked(&self) -> String {
        match join(&self.missing) {
            list if list.is_empty() => "nothing: no home directory".to_string(),
            list => list,
        }
    }
}

fn join(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// One file, its relative paths resolved against its directory. As in kubectl only the first document counts, of a key that
/// is there twice the last, and a number is no text.
fn parse(path: &Path, bytes: &[u8]) -> Result<Kubeconfig, KubeconfigError> {
    let fail = |line: Option<u64>, cause: String| KubeconfigError::Parse { path: path.to_path_buf(), line, cause };
    let text = decode(bytes).map_err(|cause| fail(None, cause.to_string()))?;
    let options = serde_yaml::options! { duplicate_keys: serde_yaml::DuplicateKeyPolicy::LastWins };
    let documents: Vec<Value> = serde_yaml::from_multiple_with_options(&text, options).map_err(|error| {
        // The snippet that the message would carry may show a credential, and so may its text.
        fail(error.location().map(|at| at.line()), "not a kubeconfig".to_string())
    })?;
    let mut config: Kubeconfig = match documents.into_iter().next() {
        None | Some(Value::Null) => Kubeconfig::default(),
        Some(document) => serde_json::from_value(document).map_err(|_| fail(None, "not a kubeconfig".to_string()))?,
    };
    let other =
        |said: &Option<String>, known: &str| said.as_ref().is_some_and(|said| !said.is_empty() && said != known);
    if other(&config.kind, "Config") || other(&config.api_version, "v1") {
        return Err(fail(None, "not a kubeconfig, but another kind of object".to_string()));
    }
    let directory = path.parent().unwrap_or(Path::new(""));
    let resolve = |file: &mut Option<String>| {
        if let Some(file) = file.as_mut().filter(|file| !file.is_empty()) {
            // Joining keeps an absolute path as it is.
            *file = directory.join(&*file).to_string_lossy().into_owned();
        }
    };
    let lists: [(&str, Vec<&String>); 3] = [
        ("cluster", config.clusters.iter().map(|named| &named.name).collect()),
        ("context", config.contexts.iter().map(|named| &named.name).collect()),
        ("user", config.auth_infos.iter().map(|named| &named.name).collect()),
    ];
    for (what, names) in lists {
        let mut seen = BTreeSet::new();
        if let Some(twice) = names.into_iter().find(|name| !seen.insert(*name)) {
            return Err(fail(None, format!("{what} {twice:?} is there twice")));
        }
    }
    for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        resolve(&mut cluster.certificate_authority);
    }
    for user in config.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        resolve(&mut user.client_certificate);
        resolve(&mut user.client_key);
        resolve(&mut user.token_file);
        // A command without a separator is looked up on the PATH.
        if let Some(exec) = user.exec.as_mut()
            && exec.command.as_ref().is_some_and(|command| command.contains(['/', std::path::MAIN_SEPARATOR]))
        {
            resolve(&mut exec.command);
        }
    }
    Ok(config)
}

/// The first file to set a name or value wins; entries of one name are never mixed
/// (<https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#merging-kubeconfig-files>).
fn merge(into: &mut Kubeconfig, from: Kubeconfig) {
    fn add<T>(into: &mut Vec<T>, from: Vec<T>, name: impl Fn(&T) -> &str) {
        for entry in from {
            if !into.iter().any(|known| name(known) == name(&entry)) {
                into.push(entry);
            }
        }
    }
    add(&mut into.clusters, from.clusters, |named| &named.name);
    add(&mut into.contexts, from.contexts, |named| &named.name);
    add(&mut into.auth_infos, from.auth_infos, |named| &named.name);
    if into.current_context.as_ref().is_none_or(String::is_empty) {
        into.current_context = from.current_context;
    }
}
