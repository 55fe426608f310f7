//! What the kubeconfig files have names for.

use std::collections::BTreeSet;

use kube::config::Context;

use super::files::Files;
use super::{ConnectionFlags, Environment, KubeconfigError};

/// What can be named on a command line, as far as kubeconfig files tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Each with the cluster it leads to.
    pub contexts: Vec<(String, String)>,
    pub clusters: Vec<String>,
    pub users: Vec<String>,
    /// Of the contexts that lead to the same cluster as the chosen one.
    pub namespaces: BTreeSet<String>,
}

impl Names {
    /// # Errors
    /// A file cannot be read.
    pub fn load(flags: &ConnectionFlags, environment: &Environment) -> Result<Names, KubeconfigError> {
        let merged = Files::load(flags, environment)?.merged;
        let chosen = flags.context.as_ref().or(merged.current_context.as_ref());
        let contexts: Vec<(String, Context)> =
            merged.contexts.into_iter().map(|named| (named.name, named.context.unwrap_or_default())).collect();
        let cluster = contexts.iter().find(|(name, _)| Some(name) == chosen).map(|(_, context)| &context.cluster);
        let beside = contexts.iter().filter(|(_, context)| Some(&context.cluster) == cluster);
        Ok(Names {
            namespaces: beside.filter_map(|(_, context)| context.namespace.clone()).collect(),
            clusters: merged.clusters.into_iter().map(|named| named.name).collect(),
            users: merged.auth_infos.into_iter().map(|named| named.name).collect(),
            contexts: contexts.into_iter().map(|(name, context)| (name, context.cluster)).collect(),
        })
    }
}
