//! The node as the tests play it: each start in phases, so that anything may happen in between. The moment of each read
//! is ours, and so is the truth about it.

use super::pods::{Phase, Pod, Read};
use super::story::Story;
use super::uses::{How, Use};
use crate::support::kubelet::{self, Health, Kubelet, Play, Step as Act};
use jiff::Timestamp;
use serde_json::Value;

/// Gone or moved meanwhile: the next look tells.
fn tolerated(act: Act) -> Option<Value> {
    match act {
        Ok(object) => Some(object),
        Err(answer) => {
            assert!(matches!(answer.status, 403 | 404 | 409 | 422), "the played node met {answer:?}");
            None
        }
    }
}

impl Story<'_> {
    /// One step of one Pod; did it get forward?
    pub fn act(&mut self, uid: &str, object: Value, percent: usize) -> bool {
        let space = self.space.clone();
        let kubelet = Kubelet { namespace: &space };
        if !self.dice.chance(percent) {
            return false;
        }
        if !object["metadata"]["deletionTimestamp"].is_null() {
            return tolerated(kubelet.finish(&object)).is_some();
        }
        let Some(pod) = self.pods.get(uid) else { return false };
        match pod.phase {
            Phase::Created => {
                let play = Play { events: !self.dice.chance(8), ..Play::ready() };
                let Some(bound) = tolerated(kubelet.bind(&object, &play)) else { return false };
                self.forward(uid, Phase::Bound, |pod| pod.held = bound);
                true
            }
            Phase::Bound => {
                let read = pod.read(&self.ledger, self.late, |used| used.init || used.how.mounted());
                let Some(reads) = self.or_wait(uid, read) else { return false };
                if self.dice.chance(50)
                    && let Some(prepared) = self.pods.get(uid).and_then(|pod| tolerated(kubelet.prepare(&pod.held)))
                    && self.dice.chance(50)
                {
                    self.forward(uid, Phase::Bound, |pod| pod.held = prepared);
                }
                self.forward(uid, Phase::Mounted, |pod| pod.reads = reads);
                true
            }
            Phase::Mounted => {
                let read = pod.read(&self.ledger, self.late, |used| !used.init && !used.how.mounted());
                let Some(reads) = self.or_wait(uid, read) else { return false };
                self.forward(uid, Phase::Started, |pod| {
                    pod.reads.extend(reads);
                    pod.started = Some(Timestamp::now());
                });
                true
            }
            Phase::Started => {
                self.tell(uid, &kubelet);
                true
            }
            Phase::Reported => false,
        }
    }

    fn forward(&mut self, uid: &str, phase: Phase, change: impl FnOnce(&mut Pod)) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        change(pod);
        pod.phase = phase;
        let line = format!("    {} {phase:?} {}", pod.name, shown(&pod.reads));
        self.note(line);
    }

    /// What could be read, or a container that waits for it.
    fn or_wait(&mut self, uid: &str, read: Result<Vec<Read>, String>) -> Option<Vec<Read>> {
        match read {
            Ok(reads) => Some(reads),
            Err(why) => {
                let name = self.pods.get(uid).map_or("", |pod| &pod.name);
                let line = format!("    {name} waits: {why}");
                // A waiting Pod is looked at again and again.
                if !self.log.iter().rev().take(5).any(|last| last.ends_with(&line)) {
                    self.note(line);
                }
                None
            }
        }
    }

    /// The Events and the status of a start, later than the start itself.
    fn tell(&mut self, uid: &str, kubelet: &Kubelet<'_>) {
        let Some(pod) = self.pods.get(uid) else { return };
        let (held, started) = (pod.held.clone(), pod.started);
        let name = pod.name.clone();
        for (container, path) in kubelet::containers(&held) {
            for reason in ["Pulled", "Created", "Started"] {
                // Some are lost at once: a full store, a rate limit.
                if self.dice.chance(60) {
                    tolerated(kubelet.new_event(&held, &path, reason, &format!("{reason} {}", container["name"])));
                }
            }
        }
        let health = if self.dice.chance(6) { Health::NotReady } else { Health::Ready };
        let clock = self.skew.zip(started).map(|(skew, started)| started + skew);
        if tolerated(kubelet.report(&held, &Play::new(health), clock)).is_some() {
            self.forward(uid, Phase::Reported, |_| ());
        } else {
            self.note(format!("    {name} could not be reported"));
        }
    }

    /// A container ends and starts again: its environment is read anew, its files behind a subPath perhaps not.
    pub fn crash_played(&mut self, uid: &str) {
        let Some(pod) = self.pods.get(uid) else { return };
        let containers: Vec<String> = kubelet::containers(&pod.held)
            .into_iter()
            .filter(|(_, path)| path.starts_with("spec.containers"))
            .filter_map(|(container, _)| Some(container["name"].as_str()?.to_owned()))
            .collect();
        let Some(container) = self.dice.pick(&containers).cloned() else { return };
        let stale = self.dice.chance(50);
        let fixed = |used: &Use| matches!(used.how, How::SubPath { .. });
        let again =
            |used: &Use| used.container == container && !used.init && (!used.how.mounted() || (fixed(used) && !stale));
        let read = pod.read(&self.ledger, self.late, again);
        let name = pod.name.clone();
        let space = self.space.clone();
        let kubelet = Kubelet { namespace: &space };
        let Some(reads) = self.or_wait(uid, read) else {
            tolerated(kubelet.crash(&name, &container));
            return;
        };
        let play = Play { clock: self.skew, events: self.dice.chance(70), ..Play::ready() };
        if tolerated(kubelet.restart(&name, &container, &play)).is_some() {
            self.restarted(uid, reads, again);
        }
    }

    /// The former run's reads become history.
    pub fn restarted(&mut self, uid: &str, reads: Vec<Read>, again: impl Fn(&Use) -> bool) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let (former, kept): (Vec<Read>, Vec<Read>) = pod.reads.drain(..).partition(|read| again(&read.used));
        pod.reads = kept;
        pod.reads.extend(reads);
        let line = format!("    {} restarted {}", pod.name, shown(&pod.reads));
        let (set, testifies) = (pod.set.clone(), pod.testifies());
        if let Some(set) = self.sets.get_mut(&set).filter(|_| testifies) {
            set.life.extend(former);
        }
        self.note(line);
    }
}

/// Reads in the short form of the log.
pub fn shown(reads: &[Read]) -> String {
    let one = |read: &Read| {
        let taken: Vec<String> =
            read.taken.iter().map(|(key, value)| format!("{key}={}", String::from_utf8_lossy(value))).collect();
        format!("{}/{}:{}", read.used.container, read.used.config, taken.join(","))
    };
    reads.iter().map(one).collect::<Vec<_>>().join(" ")
}
