//! Configuration that is saved in between, and whether what is recorded as read was read.

use super::dice::{EYES, Step};
use super::story::Story;
use crate::support::client::{CONFIGMAPS, PODS};
use crate::support::control_plane::items;
use serde_json::Value;

fn list<'a>(value: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> {
    value[member].as_array().into_iter().flatten()
}

impl Story<'_> {
    /// `snapshot create`, while the nodes go on.
    pub fn save(&mut self) {
        // What tempts most: a write right before it and a Pod right after, or an edit and a crash that reads it.
        let (fresh, crash) = (self.dice.chance(25), self.dice.chance(35));
        if fresh {
            self.step(Step::Set);
        }
        self.create_snapshots();
        if fresh {
            self.step(Step::DeletePod);
            self.settle();
        } else if crash {
            self.step(Step::Set);
            self.step(Step::Crash);
            self.settle();
        }
    }

    fn create_snapshots(&mut self) {
        self.eyes = self.dice.weighted(EYES);
        self.turn(0);
        let which = self.dice.below(4);
        let sets = self.sets_of_web();
        let number = self.dice.pick(&sets).and_then(|set| {
            set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str().map(str::to_owned)
        });
        let mut arguments = vec!["snapshot", "create", "web", "-o", "json"];
        match (which, &number) {
            (0, _) => arguments.push("--all-revisions"),
            (1, Some(number)) => arguments.extend(["--revision", number]),
            _ => (),
        }
        let ran = self.product(&arguments);
        self.note(format!("  {arguments:?}, as {:?}: exit {}", self.eyes, ran.code));
        self.tally.count(&format!("snapshot create, exit {}", ran.code));
        if !matches!(ran.code, 0 | 3) {
            return self.fail(format!("snapshot create ended with {}: {}{}", ran.code, ran.stdout, ran.stderr));
        }
        self.hold_records();
    }

    /// No record tells of a read that was another.
    pub fn hold_records(&mut self) {
        self.turn(0);
        let label = "saferollback.dev/kind=record";
        let records = items(self.space.all(CONFIGMAPS).query("labelSelector", label).get().ok());
        let pods = items(self.space.all(PODS).get().ok());
        for record in records {
            let name = record["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if !self.held.insert(name.clone()) {
                continue;
            }
            self.tally.count("records");
            let text = record["data"]["record"].as_str().unwrap_or_default();
            let stated: Value = serde_json::from_str(text).expect("a record is JSON");
            self.note(format!("  record {name}: {text}"));
            let mut wrong = Vec::new();
            for entry in list(&stated, "references").filter(|entry| entry["kind"] == "ConfigMap") {
                let set = stated["revision"]["uid"].as_str().unwrap_or_default();
                let config = entry["name"].as_str().unwrap_or_default();
                self.fetch(config);
                let read = &entry["read"];
                if read.is_null() {
                    continue;
                }
                self.recorded.insert((set.to_owned(), config.to_owned()));
                if read["grade"] != "proof" {
                    continue;
                }
                wrong.extend(self.contradicted(&stated, set, config, &read["digest"], &pods));
            }
            for what in wrong {
                self.fail(format!("record {name}: {what}\n{stated:#}"));
            }
        }
    }

    /// What its listed Pods, or a revision that is over, read otherwise.
    fn contradicted(&mut self, record: &Value, set: &str, config: &str, digest: &Value, pods: &[Value]) -> Vec<String> {
        let states: Vec<_> = self.ledger.states(config).cloned().collect();
        let Some(state) = states.iter().find(|s| digest == &s.content().digest().to_string()) else {
            return vec![format!("{config} never held what it says")];
        };
        let mut reads = Vec::new();
        if record["revision"]["over"] == true {
            reads.extend(self.sets.get(set).into_iter().flat_map(|set| set.life.clone()));
        }
        for listed in list(record, "pods") {
            let Some(uid) = listed["uid"].as_str() else { continue };
            let Some(object) = pods.iter().find(|p| p["metadata"]["uid"] == uid) else { continue };
            let Some(pod) = self.pods.get(uid).filter(|pod| pod.testifies()) else { continue };
            let statuses = ["initContainerStatuses", "containerStatuses"].map(|field| list(&object["status"], field));
            let statuses: Vec<&Value> = statuses.into_iter().flatten().collect();
            // What restarted since has read again.
            let as_then = |container: &str| {
                let status = statuses.iter().find(|s| s["name"] == container);
                status.is_some_and(|s| listed["restarts"][container] == s["restartCount"])
            };
            reads.extend(pod.reads.iter().filter(|r| as_then(&r.used.container)).cloned());
        }
        let of_config = reads.iter().filter(|r| r.used.config == config && !r.used.how.refreshed());
        let mut wrong = Vec::new();
        for read in of_config {
            self.tally.count("recorded reads");
            if read.used.take(Some(&state.bytes)).as_ref() != Ok(&read.taken) {
                wrong.push(format!("recorded was {:?}, and it read {read:?}", state.bytes));
            }
        }
        let hidden = self.hidden_namesake(config);
        if hidden { Vec::new() } else { wrong }
    }
}
