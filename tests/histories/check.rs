//! The report held against the truth.

use super::dice::{EYES, Eyes, Where};
use super::ledger::State;
use super::pods::{Phase, Pod, Read};
use super::story::Story;
use super::tally::Class;
use super::uses::{How, Taken, Use};
use crate::support::client::PODS;
use serde_json::{Value, json};

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> {
    value[member].as_array().into_iter().flatten()
}

/// Every read of a use.
fn reads_of<'a>(used: &'a Use, reads: &'a [Read]) -> impl Iterator<Item = &'a Read> {
    reads.iter().filter(move |read| read.used == *used)
}

impl Story<'_> {
    /// Asks the product about all revisions, at a moment in which nothing moves, and holds every word against the truth.
    pub fn check(&mut self) {
        self.eyes = if self.place == Where::Split { Eyes::All } else { self.dice.weighted(EYES) };
        for _ in 0..4 {
            self.turn(0);
            let (before, sets) = self.moment();
            let ran = self.product(&["history", "web", "-o", "json"]);
            self.turn(0);
            if self.moment().0 != before {
                continue;
            }
            if ran.code != 0 {
                self.fail(format!("history ended with {}: {}", ran.code, ran.stderr));
                return;
            }
            self.note(format!("check, as {:?}", self.eyes));
            self.claims.clear();
            let document = ran.document();
            for revision in list(&document, "revisions") {
                self.hold_revision(revision, &sets);
            }
            self.tally.count("checks");
            return;
        }
        self.tally.count("checks given up: the namespace did not come to rest");
    }

    /// The question behind every verdict, put to a container: a Pod goes, and its substitute must hold what the others
    /// hold wherever that was called the same.
    pub fn replace_one(&mut self) {
        let claimed = |pod: &&Pod| pod.witness && self.claims.iter().any(|(set, _)| *set == pod.owner);
        let Some((name, set)) = self.pods.values().find(claimed).map(|pod| (pod.name.clone(), pod.owner.clone()))
        else {
            return;
        };
        let before = self.relevant(&set);
        let known: Vec<String> = self.pods.values().map(|pod| pod.name.clone()).collect();
        self.note(format!("the substitute of {name}"));
        self.space.at(PODS, &name).delete(&json!({})).result().ok();
        self.settle();
        let new = self.pods.values().filter(|pod| pod.witness && pod.owner == set && !known.contains(&pod.name));
        let mut wrong = Vec::new();
        for read in new.flat_map(|pod| &pod.reads) {
            if !self.claims.contains(&(set.clone(), read.used.config.clone())) {
                continue;
            }
            self.tally.count("substitutes' reads called the same beforehand");
            if before.iter().any(|one| one.used == read.used && one.taken != read.taken) {
                wrong.push(format!("called the same, and the substitute of {name} read {read:?}"));
            }
        }
        for what in wrong {
            self.fail(what);
        }
    }

    /// Everything that moves by itself, and the ReplicaSets.
    fn moment(&self) -> (Vec<(String, String)>, Vec<Value>) {
        let pods = self.pods.values().map(|pod| (pod.name.clone(), pod.version.clone()));
        let sets = self.sets_of_web();
        let named = |set: &Value, member| text(&set["metadata"], member).to_owned();
        let moving = sets.iter().map(|set| (named(set, "name"), named(set, "resourceVersion")));
        (pods.chain(moving).collect(), sets)
    }

    fn hold_revision(&mut self, revision: &Value, sets: &[Value]) {
        let uid = text(&revision["object"], "uid").to_owned();
        let Some(object) = sets.iter().find(|set| set["metadata"]["uid"] == *uid) else {
            return self.fail(format!("a revision of an unknown object: {revision:#}"));
        };
        self.set(&uid, object);
        let edited = self.sets[&uid].edited;
        if edited {
            self.tally.count("damaged revisions");
            if revision["damaged"].is_null() {
                self.fail(format!(
                    "revision {} was edited after it retired, and is not called damaged",
                    revision["number"]
                ));
            }
            return;
        }
        let reads = self.relevant(&uid);
        // A Pod of it went before it could tell: what it read nobody knows.
        if self.sets[&uid].silent && self.survivors(&uid).next().is_none() {
            self.tally.count("revisions of which a Pod went without a word");
            return;
        }
        for reference in list(revision, "references").filter(|reference| reference["injected"] == false) {
            self.hold(&uid, object, revision, reference, &reads);
        }
    }

    /// The Pods that testify and are known to have started.
    fn survivors(&self, set: &str) -> impl Iterator<Item = &Pod> {
        self.pods.values().filter(move |pod| pod.testifies() && pod.set == set && pod.phase == Phase::Reported)
    }

    /// The reads of a revision: of its surviving Pods, or of its whole life.
    pub fn relevant(&self, set: &str) -> Vec<Read> {
        if self.survivors(set).next().is_some() && self.eyes != Eyes::NoPods {
            return self.survivors(set).flat_map(|pod| pod.reads_until_now(&self.ledger)).collect();
        }
        let life = self.sets.get(set).map(|set| set.life.clone()).unwrap_or_default();
        let own = self.pods.values().filter(|pod| pod.testifies() && pod.set == set);
        life.into_iter().chain(own.flat_map(|pod| pod.reads_until_now(&self.ledger))).collect()
    }

    fn hold(&mut self, set: &str, object: &Value, revision: &Value, reference: &Value, reads: &[Read]) {
        let (name, verdict) = (text(reference, "name"), text(reference, "verdict"));
        self.fetch(name);
        let number = &revision["number"];
        let all = &self.sets[set].uses;
        let uses: Vec<Use> = all.iter().filter(|used| used.config == name).cloned().collect();
        let reads: Vec<Read> = reads.iter().filter(|read| read.used.config == name).cloned().collect();
        let live = self.ledger.live(name).cloned();
        let next = self.ledger.next_read(name).cloned();
        let hidden = self.hidden_namesake(name);
        let class = if self.recorded.contains(&(set.to_owned(), name.to_owned())) && self.eyes != Eyes::ByName {
            Class::Recorded
        } else if self.place == Where::Split || self.eyes != Eyes::All {
            Class::Blinded
        } else if self.old {
            Class::Older
        } else {
            Class::WithinTheHour
        };
        self.tally.verdict(class, verdict);
        let mut wrong: Vec<String> = Vec::new();
        let mut must = |holds: bool, what: &str| {
            if !holds {
                wrong.push(what.to_owned());
            }
        };

        let take = |used: &Use, state: Option<&State>| used.take(state.map(|state| &state.bytes));
        let differs = |read: &Read| take(&read.used, next.as_ref()).as_ref() != Ok(&read.taken);
        let equal = !reads.iter().any(differs);
        // Where files were refreshed the report says so beside it.
        let says = |word: &str| list(reference, "evidence").any(|fact| fact["says"] == *word);
        let refreshed = says("refreshed");
        let likely = !reads.iter().any(|read| differs(read) && !(refreshed && read.used.how.refreshed()));
        let missing = live.is_none() && uses.iter().any(Use::needed);
        let lacking = live.as_ref().is_some_and(|live| uses.iter().any(|used| used.lacks(&live.bytes)));

        must(!uses.is_empty(), "a reference that the template does not have");
        if verdict == "unreadable" {
            must(self.eyes != Eyes::All, "unreadable, with all rights");
        } else {
            must((verdict == "missing") == missing, "missing exactly when it is");
            must((verdict == "key-missing") == lacking, "key-missing exactly when it is");
        }
        match verdict {
            // Under A1 the reader is told of caches that no API shows.
            "same" if !equal && hidden => self.tally.count("same against a namesake that only A1 excludes"),
            "same" => {
                must(equal, "same, but a container read something else");
                self.claims.push((set.to_owned(), name.to_owned()));
            }
            "likely-same" if !likely => {
                self.tally.count("wrong likely-same");
                self.note(format!("  wrong likely-same of revision {number}: {}", reference["evidence"]));
            }
            "changed" | "mixed" => must(!equal || reads.is_empty(), "changed, but all read what is there today"),
            _ => (),
        }
        if verdict == "mixed" {
            let split = |used: &Use| {
                let taken: Vec<&Taken> = reads_of(used, &reads).map(|read| &read.taken).collect();
                taken.windows(2).any(|pair| pair[0] != pair[1])
            };
            must(uses.iter().any(split), "mixed, but all read the same");
        }
        // A number above those of all its Pods tells of a write after their reads, whatever else is known.
        let read_once = uses.iter().all(|used| !used.how.refreshed() && used.how != How::Unmounted);
        let comparable = self.place != Where::Split && self.eyes != Eyes::NoPods && !name.contains("-sr-");
        let told = self.pods.values().filter(|pod| pod.owner == set).all(|pod| pod.phase == Phase::Reported);
        // Where admission rewrites Pods, nothing that they read is taken for the template's.
        let rewritten = list(reference, "evidence").any(|fact| fact["source"] == "witness-pods");
        let comparable = comparable && !rewritten;
        if live.is_some() && comparable && read_once && told && self.survivors(set).next().is_some() {
            let refutes = |pod: &Pod| self.ledger.written_since(name, pod.changed);
            // What a refuted Pod read may be known from the API's history, be it equal or not.
            let known =
                list(reference, "evidence").any(|fact| ["time-travel", "record"].iter().any(|s| fact["source"] == *s));
            must(
                known || verdict != "likely-same" || !self.survivors(set).any(refutes),
                "likely-same, and its number is above that of a Pod",
            );
            must(
                known || !["unknown", "written-during"].contains(&verdict) || !self.survivors(set).all(refutes),
                "its number is above those of all Pods, and that is not said",
            );
        }
        let older = |stamp: jiff::Timestamp| live.as_ref().is_some_and(|live| stamp < live.created);
        let another = |read: &Read| match (&read.uid, &live) {
            (Some(read), Some(live)) => *read != live.uid,
            _ => false,
        };
        if verdict == "recreated" {
            let pods = self.pods.values().filter(|pod| pod.names(name)).any(|pod| older(pod.created));
            let sets = self.sets.values().filter(|set| set.uses.iter().any(|used| used.config == name));
            must(
                reads.iter().any(another) || pods || sets.map(|set| set.created).any(older),
                "recreated, and nothing older names it",
            );
        }
        let named_before = self.sets.get(set).is_some_and(|set| older(set.created));
        let of_another = named_before && reads.iter().any(|read| read.used.how != How::Unmounted && another(read));
        if of_another {
            let said = ["recreated", "missing", "key-missing", "unreadable", "changed", "mixed"].contains(&verdict);
            must(said, "another object was read, and it is not called recreated");
        }
        let proves = |word: &str| {
            list(reference, "evidence")
                .any(|fact| fact["proof"] == true && fact["says"] == *word && fact["source"] == "resource-version")
        };
        if proves("written-after")
            && let Some(first) = reads.iter().map(|read| read.at).min()
        {
            must(self.ledger.written_since(name, first), "written after, but nobody wrote");
        }

        let states: Vec<State> = self.ledger.states(name).cloned().collect();
        let as_read =
            |state: &State| reads.iter().all(|read| take(&read.used, Some(state)).as_ref() == Ok(&read.taken));
        if let Some(claimed) = reference["digest"]["read"].as_str() {
            self.tally.count("read digests");
            let references = saferollback::core::references::extract(&object["spec"]["template"]).references;
            let consumed = references.into_iter().find(|one| one.name == name);
            let digest =
                |state: &State| consumed.as_ref().map(|one| one.consumed(&state.content()).digest().to_string());
            let right = states.iter().any(|state| digest(state).as_deref() == Some(claimed) && as_read(state));
            must(right || hidden, "a read digest of something that was not read");
        }
        for candidate in list(reference, "candidates") {
            let (digest, grade) = (text(candidate, "digest"), text(candidate, "grade"));
            if grade == "none" {
                continue;
            }
            let right = states.iter().any(|state| state.content().digest().to_string() == digest && as_read(state));
            self.tally.count(&format!("{grade} candidates"));
            match grade {
                "proof" => must(right || hidden, "a proven candidate that was not read"),
                _ if !right => {
                    self.tally.count("wrong likely candidates");
                    self.log.push(format!("wrong likely candidate of revision {number}: {reference}"));
                }
                _ => (),
            }
        }
        if verdict == "unknown" {
            let why = list(reference, "evidence").find(|fact| fact["says"] == "unknown");
            let why = why.map_or("", |fact| text(fact, "detail"));
            must(why.len() > 20, "unknown, and the report does not say what was looked for");
            self.tally.unknown(why);
        }
        for what in wrong {
            let reads = super::played::shown(&reads);
            let next = next.as_ref().map(|next| &next.bytes);
            self.fail(format!(
                "revision {number}, {name}: {what}\n  verdict {verdict}, read {reads}, a new Pod reads {next:?}\n  {reference:#}"
            ));
        }
    }

    /// A kubelet keeps a deleted namesake, and nothing in the API that names it is older than today's object.
    pub fn hidden_namesake(&self, name: &str) -> bool {
        let Some(live) = self.ledger.live(name) else { return self.ledger.keeps(name) };
        let pods = self.pods.values().filter(|pod| pod.names(name)).map(|pod| pod.created);
        let sets = self.sets.values().filter(|set| set.uses.iter().any(|used| used.config == name));
        self.ledger.keeps(name) && !pods.chain(sets.map(|set| set.created)).any(|stamp| stamp <= live.created)
    }
}
