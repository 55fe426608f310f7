//! What came of all histories: how often which verdict, how useful, how often wrong where a wrong answer is allowed.

use std::collections::BTreeMap;
use std::fmt;

/// What could be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Events are there, more or less.
    WithinTheHour,
    /// No Events, no history of the API.
    Older,
    /// Numbers that do not compare, or few rights.
    Blinded,
    /// A record says what the revision read, whatever else is known.
    Recorded,
}

#[derive(Clone, Debug, Default)]
pub struct Tally {
    verdicts: BTreeMap<(Class, String), usize>,
    counts: BTreeMap<String, usize>,
    /// Why `unknown`, in the report's words.
    unknowns: BTreeMap<String, usize>,
}

/// Verdicts that decide something, by the aim of the usefulness.
const DECIDED: [&str; 6] = ["same", "likely-same", "changed", "mixed", "recreated", "missing"];

impl Tally {
    pub fn verdict(&mut self, class: Class, verdict: &str) {
        *self.verdicts.entry((class, verdict.to_owned())).or_default() += 1;
    }

    pub fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    pub fn unknown(&mut self, why: &str) {
        // Names and numbers would make every reason its own.
        let bare = |word: &str| !word.contains('/') && !word.contains(|c: char| c.is_ascii_digit());
        let why: Vec<&str> = why.split(' ').map(|word| if bare(word) { word } else { "…" }).take(16).collect();
        *self.unknowns.entry(why.join(" ")).or_default() += 1;
    }

    pub fn of(&self, what: &str) -> usize {
        self.counts.get(what).copied().unwrap_or(0)
    }

    pub fn wrong_but_allowed(&self) -> usize {
        ["wrong likely-same", "wrong likely candidates", "promises broken, likely"]
            .iter()
            .map(|what| self.of(what))
            .sum()
    }

    pub fn verdicts_of(&self, wanted: &str) -> usize {
        self.verdicts.iter().filter(|((_, verdict), _)| verdict == wanted).map(|(_, n)| n).sum()
    }

    pub fn add(&mut self, other: Tally) {
        for (key, n) in other.verdicts {
            *self.verdicts.entry(key).or_default() += n;
        }
        for (mine, theirs) in [(&mut self.counts, other.counts), (&mut self.unknowns, other.unknowns)] {
            for (key, n) in theirs {
                *mine.entry(key).or_default() += n;
            }
        }
    }
}

fn share(part: usize, all: usize) -> String {
    if all == 0 { "–".into() } else { format!("{:.1} %", 100.0 * part as f64 / all as f64) }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for class in [Class::Recorded, Class::WithinTheHour, Class::Older, Class::Blinded] {
            let of_class = self.verdicts.iter().filter(|((c, _), _)| *c == class);
            let all: usize = of_class.clone().map(|(_, n)| n).sum();
            let decided: usize =
                of_class.clone().filter(|((_, v), _)| DECIDED.contains(&v.as_str())).map(|(_, n)| n).sum();
            writeln!(f, "{class:?}: {all} verdicts, decided {}", share(decided, all))?;
            for ((_, verdict), n) in of_class {
                writeln!(f, "  {verdict:<15} {n:>7}  {}", share(*n, all))?;
            }
        }
        let likely = self.verdicts_of("likely-same");
        writeln!(
            f,
            "likely-same that was wrong: {} of {likely}, {}",
            self.of("wrong likely-same"),
            share(self.of("wrong likely-same"), likely)
        )?;
        for (what, n) in &self.counts {
            writeln!(f, "{what}: {n}")?;
        }
        for (why, n) in &self.unknowns {
            writeln!(f, "unknown, {n} times: {why}")?;
        }
        Ok(())
    }
}
