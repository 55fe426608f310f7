//! Our own rollbacks in between, and whether the Pods they start keep what the plan promised.

use super::dice::{Eyes, Where};
use super::pods::{Phase, Read};
use super::story::Story;
use serde_json::Value;

impl Story<'_> {
    pub fn undo(&mut self) {
        self.eyes = Eyes::All;
        self.turn(0);
        let sets = self.sets_of_web();
        let number = |set: &Value| {
            set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str().map(str::to_owned)
        };
        let Some((set, number)) = self.dice.pick(&sets).and_then(|set| Some((set.clone(), number(set)?))) else {
            return;
        };
        let uid = set["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let edited = self.set(&uid, &set).edited;
        let before = self.relevant(&uid);
        let known: Vec<String> = self.pods.keys().cloned().collect();
        let config = self.dice.weighted(&[(7, "--config=auto"), (2, "--config=pin"), (1, "--config=live")]);
        let ran =
            self.product(&["undo", "web", "--to-revision", &number, config, "-y", "-o", "json", "--timeout", "8s"]);
        self.note(format!("  to {number} {config}: exit {}", ran.code));
        self.tally.count(&format!("undo, exit {}", ran.code));
        if !matches!(ran.code, 0 | 3 | 4 | 5) {
            return self.fail(format!("undo ended with {}: {}{}", ran.code, ran.stdout, ran.stderr));
        }
        if edited && ran.code == 0 {
            return self.fail(format!("a damaged revision was chosen without consent: {}", ran.stdout));
        }
        if ran.code != 0 || config == "--config=live" {
            return;
        }
        let document = ran.document();
        if document["outcome"] != "done" {
            return;
        }
        self.settle();
        if self.place == Where::Split {
            return self.note("  numbers do not compare here".into());
        }
        for action in document["actions"].as_array().into_iter().flatten() {
            self.hold_promise(action, &before, &known);
        }
    }

    /// Each new Pod holds what the target's containers read, where the plan called that proven.
    fn hold_promise(&mut self, action: &Value, before: &[Read], known: &[String]) {
        let Some(name) = action["reference"].as_str().and_then(|r| r.strip_prefix("ConfigMap/")) else { return };
        let now = action["to"].as_str().unwrap_or(name);
        let mut broken = Vec::new();
        for (uid, pod) in &self.pods {
            if known.contains(uid) || !pod.witness || pod.phase != Phase::Reported {
                continue;
            }
            for read in pod.reads.iter().filter(|read| read.used.config == now) {
                let promised = before.iter().filter(|b| {
                    b.used.config == name
                        && (&b.used.container, b.used.init, &b.used.how)
                            == (&read.used.container, read.used.init, &read.used.how)
                });
                for promised in promised.filter(|promised| promised.taken != read.taken) {
                    broken.push(format!("{} read {:?}, promised was {:?}", pod.name, read, promised.taken));
                }
            }
        }
        let grade = action["grade"].as_str().unwrap_or_default();
        self.tally.count(&format!("promises kept or broken, {grade}"));
        for one in broken {
            if grade == "proof" {
                self.fail(format!("after the undo {one}\n  {action:#}"));
            } else {
                self.tally.count(&format!("promises broken, {grade}"));
                self.note(format!("  broken, {grade}: {one}"));
            }
        }
    }
}
