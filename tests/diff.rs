//! One side of a comparison against the other: decisions alone.

use saferollback::core::diff::{Diff, To, diff};
use saferollback::core::digest::Content;
use saferollback::core::history::Revision;
use saferollback::core::judged::Judged;
use saferollback::core::object::Object;
use saferollback::core::observed::Origin;
use saferollback::core::recovery::{Candidate, Grade};
use saferollback::core::references::{self, Kind};
use saferollback::core::verdict::{Judgement, Verdict};
use serde_json::{Value, json};

fn content(value: &str) -> Content {
    Content::from_object(&Object(json!({"kind": "ConfigMap", "data": {"a": value}}))).expect("content")
}

fn template(config_map: &str) -> Value {
    json!({"spec": {"containers": [{
        "name": "app", "image": "web:1",
        "envFrom": [{"configMapRef": {"name": config_map}}, {"secretRef": {"name": "db"}}],
    }]}})
}

/// A revision, its ConfigMap and its Secret not known.
fn revision(number: u64, config_map: &str) -> Judged {
    let template = template(config_map);
    let one = |reference: &references::Reference| Judgement {
        reference: reference.clone(),
        verdict: Verdict::Unknown,
        facts: Vec::new(),
        injected: false,
        live: None,
        live_content: None,
        read: None,
        candidates: Vec::new(),
        differing: Vec::new(),
        floor: None,
        unanchored: false,
    };
    Judged {
        references: references::extract(&template).references.iter().map(one).collect(),
        not_traced: Vec::new(),
        pods: Vec::new(),
        set_aside: Vec::new(),
        revision: Revision {
            number,
            former: Vec::new(),
            object: Object(json!({"kind": "ReplicaSet", "metadata": {"name": format!("web-{number}")}})),
            template,
            first_started: None,
            retired: None,
            current: false,
            started_again: false,
            damaged: None,
        },
    }
}

fn read(mut judged: Judged, value: &str, grade: Grade) -> Judged {
    let content = content(value);
    judged.references[0].candidates.push(Candidate {
        digest: content.digest(),
        content,
        origin: Origin::TimeTravel,
        source_uid: String::new(),
        from: None,
        until: None,
        grade,
    });
    judged
}

fn today(mut judged: Judged, value: &str, verdict: Verdict) -> Judged {
    let name = judged.references[0].reference.name.clone();
    judged.references[0].verdict = verdict;
    judged.references[0].live = Some(Object(json!({"kind": "ConfigMap", "metadata": {"name": name}})));
    judged.references[0].live_content = Some(content(value));
    judged
}

fn secret(mut judged: Judged, verdict: Verdict) -> Judged {
    assert_eq!(judged.references[1].reference.kind, Kind::Secret);
    judged.references[1].verdict = verdict;
    judged
}

fn against_today(judged: &Judged) -> Diff {
    diff(judged, To::Now(&judged.revision.template), false, |j| j.verdict.word().to_string())
}

fn between(from: &Judged, to: &Judged) -> Diff {
    diff(from, To::Revision(to), false, |j| j.verdict.word().to_string())
}

/// `answer grade`, of the ConfigMap.
fn first(diff: &Diff) -> String {
    format!("{} {}", diff.contents[0].answer, diff.contents[0].grade)
}

/// Otherwise what a revision ran with would be told from a guess, or equal bytes of another object would pass as equal.
#[test]
fn a_revision_against_today() {
    let of = |judged: Judged| {
        let diff = against_today(&secret(judged, Verdict::Same));
        (first(&diff), diff.contents[0].changes.len(), diff.exit_code)
    };
    let one = || revision(1, "settings");
    let proven = |value| read(one(), value, Grade::Proof);
    let answer = |words: &str, changes: usize, code: u8| (words.to_string(), changes, code);
    assert_eq!(of(today(proven("1"), "2", Verdict::Changed)), answer("different proof", 1, 1));
    assert_eq!(of(today(proven("1"), "1", Verdict::Same)), answer("same proof", 0, 0));
    assert_eq!(of(today(read(one(), "1", Grade::Likely), "1", Verdict::LikelySame)), answer("same likely", 0, 0));
    assert_eq!(
        of(today(read(one(), "1", Grade::Likely), "2", Verdict::WrittenAfter)),
        answer("different likely", 1, 1)
    );
    assert_eq!(of(today(read(one(), "1", Grade::None), "2", Verdict::WrittenAfter)), answer("unknown none", 0, 3));
    assert_eq!(of(today(one(), "2", Verdict::WrittenDuring)), answer("unknown none", 0, 3));
    assert_eq!(of(today(proven("1"), "1", Verdict::Recreated)), answer("unknown proof", 0, 3));
    assert_eq!(of(today(proven("1"), "2", Verdict::Recreated)), answer("different proof", 1, 1));
    assert_eq!(of(today(proven("1"), "1", Verdict::Refreshed)), answer("unknown none", 0, 3));
    assert_eq!(of(today(one(), "1", Verdict::Mixed)), answer("different proof", 0, 1));
    assert_eq!(of(today(one(), "1", Verdict::Changed)), answer("different proof", 0, 1));
    assert_eq!(of(today(one(), "1", Verdict::KeyMissing)), answer("different proof", 0, 1));
    let mut gone = proven("1");
    gone.references[0].verdict = Verdict::Missing;
    assert_eq!(of(gone), answer("different proof", 1, 1));
    let mut gone = one();
    gone.references[0].verdict = Verdict::Missing;
    assert_eq!(of(gone), answer("different proof", 0, 1));
}

/// Otherwise today's content would silently stand for what one of two revisions read.
#[test]
fn two_revisions() {
    let known = |number, name, value| secret(read(revision(number, name), value, Grade::Proof), Verdict::Same);
    let unknown = |value| secret(today(revision(2, "settings"), value, Verdict::WrittenAfter), Verdict::Same);
    let same = between(&known(1, "settings", "1"), &known(2, "settings", "1"));
    assert_eq!((first(&same), same.exit_code), ("same proof".into(), 0));
    let other = between(&known(1, "settings", "1"), &known(2, "settings", "2"));
    assert_eq!((first(&other), other.contents[0].changes.len(), other.exit_code), ("different proof".into(), 1, 1));
    let half = between(&known(1, "settings", "1"), &unknown("9"));
    assert_eq!((first(&half), half.contents[0].changes.len(), half.exit_code), ("unknown none".into(), 1, 3));
    assert!(half.contents[0].because.contains("what revision 2 read is not known"), "{}", half.contents[0].because);

    // Records know digests, and not always bytes.
    let recorded = |number, digest: &str| {
        let mut judged = secret(revision(number, "settings"), Verdict::Same);
        judged.references[0].read = Some(digest.into());
        judged
    };
    assert_eq!(first(&between(&recorded(1, "x"), &recorded(2, "x"))), "same proof");
    assert_eq!(first(&between(&recorded(1, "x"), &recorded(2, "y"))), "different proof");
    let mut other = recorded(2, "x");
    other.references[0].reference.uses[0].keys = references::Keys::All;
    assert_eq!(first(&between(&recorded(1, "x"), &other)), "unknown none", "digests of other keys do not compare");

    // A snapshot stands for its source: the name differs, the bytes do not.
    let pinned = between(&known(1, "settings", "1"), &known(2, "settings-sr-0123456789abcdef", "1"));
    assert_eq!((first(&pinned), pinned.contents.len()), ("same proof".into(), 2));
    assert_eq!(pinned.contents[0].replaced.as_deref(), Some("ConfigMap/settings-sr-0123456789abcdef"));
    assert_eq!((pinned.template.len(), pinned.exit_code), (1, 1), "the template names another object");
}

/// Otherwise what admission put into Pods would be called a difference, only because no Pod of the other revision is left.
#[test]
fn what_one_side_alone_has() {
    let known = |number| secret(read(revision(number, "settings"), "1", Grade::Proof), Verdict::Same);
    let mut injected = known(1);
    let extra = references::extract(&template("extra")).references.remove(0);
    injected.references.push(Judgement { reference: extra, injected: true, ..injected.references[0].clone() });
    let diff = between(&injected, &known(2));
    assert_eq!((diff.contents[2].answer, diff.exit_code), ("unknown", 3));
    injected.references[2].injected = false;
    // In the place of the other's `settings`, which has a twin of its own.
    assert_eq!(between(&injected, &known(2)).contents[2].because, "only revision 1 names it");
    injected.references.rotate_right(1);
    assert_eq!(between(&injected, &known(2)).contents[0].because, "only revision 1 names it");
    assert_eq!(between(&known(2), &injected).contents[2].because, "only revision 1 names it");

    // A live template that is of no revision yet.
    let pending = template("pending");
    let diff = diff_with(&known(1), To::Now(&pending));
    assert_eq!(diff.contents[2].because, "only the live template names it");
    assert_eq!(diff.exit_code, 1);
}

fn diff_with(from: &Judged, to: To<'_>) -> Diff {
    diff(from, to, false, |j| j.verdict.word().to_string())
}

/// Otherwise a Secret that nobody wrote would be called unknown, or one that somebody wrote unchanged.
#[test]
fn secrets_are_known_by_number_alone() {
    let with = |number, verdict| secret(read(revision(number, "settings"), "1", Grade::Proof), verdict);
    let answer = |a, b| {
        let diff = between(&with(1, a), &with(2, b));
        format!("{} {}", diff.contents[1].answer, diff.contents[1].grade)
    };
    assert_eq!(answer(Verdict::Same, Verdict::Same), "same proof");
    assert_eq!(answer(Verdict::Same, Verdict::LikelySame), "same likely");
    assert_eq!(answer(Verdict::Same, Verdict::WrittenAfter), "unknown none");
    assert_eq!(answer(Verdict::Missing, Verdict::Same), "unknown none");
    let now = |verdict| against_today(&today(with(1, verdict), "1", Verdict::Same));
    assert_eq!((now(Verdict::Same).contents[1].answer, now(Verdict::Same).exit_code), ("same", 0));
    assert_eq!((now(Verdict::WrittenAfter).contents[1].answer, now(Verdict::WrittenAfter).exit_code), ("unknown", 3));
    assert_eq!(now(Verdict::Missing).contents[1].answer, "different");
}

/// Otherwise a password in a template would be printed, or an image hidden: a field is masked where it is a variable's
/// value, also inside of a whole list that came or went.
#[test]
fn values_of_variables_are_masked_wherever_they_stand() {
    let of = |env: Value, show: bool| {
        let (from, mut to) = (revision(1, "settings"), revision(2, "settings"));
        to.revision.template["spec"]["containers"][0]["env"] = env;
        to.revision.template["spec"]["containers"][0]["args"] = json!(["--value=x"]);
        diff(&from, To::Revision(&to), show, |_| String::new())
    };
    let env =
        json!([{"name": "A", "value": "secret"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "value"}}}]);
    let hidden = of(env.clone(), false);
    let field =
        |diff: &Diff, end: &str| diff.template.iter().find(|f| f.pointer.ends_with(end)).cloned().expect("a field");
    let mut masked = env.clone();
    masked[0]["value"] = json!("***");
    assert_eq!(field(&hidden, "/env").after, Some(masked));
    assert_eq!(field(&hidden, "/env").before, None);
    assert_eq!(field(&hidden, "/args").after, Some(json!(["--value=x"])));
    assert_eq!(field(&of(env.clone(), true), "/env").after, Some(env));
}
