//! The real node: the kubelet reads, and the containers say what they read.

use super::pods::{Phase, Read};
use super::story::Story;
use super::uses::{How, Taken, Use};
use crate::support::client::PODS;
use crate::support::node::{self, Said, Texts};
use jiff::SignedDuration;
use serde_json::Value;
use std::collections::BTreeMap;

/// Where each serving container answers.
const PORTS: [(&str, u16); 2] = [("app", 8080), ("side", 8081)];
/// Keys that our ConfigMaps ever have: an environment without a prefix holds more than theirs.
const KEYS: [&str; 3] = ["A", "B", "C"];

impl Story<'_> {
    /// Asks the containers of a Pod that have started since the last look; did one?
    pub fn listen(&mut self, uid: &str, object: &Value) -> bool {
        let Some(pod) = self.pods.get_mut(uid) else { return false };
        if pod.phase == Phase::Created && object["spec"]["nodeName"].is_string() {
            pod.phase = Phase::Bound;
        }
        if !object["metadata"]["deletionTimestamp"].is_null() {
            return false;
        }
        let name = pod.name.clone();
        let runs: BTreeMap<String, u64> = object["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|status| status["state"]["running"].is_object())
            .filter_map(|status| Some((status["name"].as_str()?.to_owned(), status["restartCount"].as_u64()?)))
            .collect();
        let containers = object["spec"]["containers"].as_array().map_or(0, Vec::len);
        // All at once at first: until then nobody knows what a revision of this Pod read.
        if runs.len() < containers && pod.phase < Phase::Reported {
            return false;
        }
        let mut heard = false;
        for (container, restarts) in runs {
            let Some(pod) = self.pods.get(uid) else { continue };
            if pod.restarts.get(&container) == Some(&restarts) {
                continue;
            }
            let Some((_, port)) = PORTS.iter().find(|(known, _)| *known == container) else { continue };
            let Some(said) = node::pod_answer(&self.space, &name, *port, "/") else { continue };
            // A container that ends between the two looks has told of a start that the status does not know.
            let again = self.space.at(PODS, &name).get();
            if again.body["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
                continue;
            }
            self.told(uid, &container, restarts, &said);
            heard = true;
        }
        heard
    }

    fn told(&mut self, uid: &str, container: &str, restarts: u64, said: &Said) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let first = pod.restarts.insert(container.to_owned(), restarts).is_none();
        // No read of this Pod is older: the stamp is in whole seconds, and a kubelet may be late.
        let at = pod.created - SignedDuration::from_secs(2);
        let mut reads = Vec::new();
        for used in pod.uses.clone() {
            let of_init = first && container == "app" && used.init;
            let of_volume = first && container == "app" && used.how == How::Unmounted;
            let taken = if of_init {
                said.init.get(&used.container).map(|init| took(&used, &init.env, &init.files_at_start))
            } else if of_volume {
                Some(Taken::new())
            } else {
                (used.container == container && !used.init).then(|| took(&used, &said.env, &said.files_at_start))
            };
            if let Some(taken) = taken {
                reads.push(Read { used, taken, uid: None, at });
            }
        }
        let told: Vec<Use> = reads.iter().map(|read| read.used.clone()).collect();
        self.restarted(uid, reads, |used| told.contains(used));
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if pod.uses.iter().all(|used| pod.reads.iter().any(|read| read.used == *used)) {
            pod.phase = Phase::Reported;
        }
    }

    /// Ends a process and waits for the next one's word.
    pub fn crash_real(&mut self, uid: &str) {
        let Some(pod) = self.pods.get(uid) else { return };
        let name = pod.name.clone();
        let running: Vec<String> = pod.restarts.keys().cloned().collect();
        let Some(container) = self.dice.pick(&running).cloned() else { return };
        let Some((_, port)) = PORTS.iter().find(|(known, _)| *known == container) else { return };
        self.space.at(PODS, &format!("{name}:{port}")).sub("proxy/crash").get();
        self.settle();
    }
}

/// What a use took, by the process's own account.
fn took(used: &Use, env: &Texts, files: &Texts) -> Taken {
    let bytes = |text: &String| text.clone().into_bytes();
    match &used.how {
        How::Env { variable, key } => env.get(variable).map(|text| (key.clone(), bytes(text))).into_iter().collect(),
        How::EnvFrom { prefix } => {
            KEYS.iter().filter_map(|key| Some((key.to_string(), bytes(env.get(&format!("{prefix}{key}"))?)))).collect()
        }
        How::Files { directory, items } => {
            let below = directory.strip_prefix("/config/").unwrap_or(directory);
            let own =
                files.iter().filter_map(|(path, text)| Some((path.strip_prefix(below)?.strip_prefix('/')?, text)));
            let key = |path: &str| match items {
                None => Some(path.to_owned()),
                Some(items) => items.iter().find(|(_, at)| at == path).map(|(key, _)| key.clone()),
            };
            own.filter_map(|(path, text)| Some((key(path)?, bytes(text)))).collect()
        }
        How::SubPath { path, key } => {
            let at = path.strip_prefix("/config/").unwrap_or(path);
            files.get(at).map(|text| (key.clone(), bytes(text))).into_iter().collect()
        }
        How::Unmounted => Taken::new(),
    }
}
