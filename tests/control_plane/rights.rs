//! `rbac` prints what a verb needs: no less, and no more.

use super::numbers::says;
use super::undo::writes;
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, REPLICASETS, Resource, SERVICES};
use crate::support::control_plane::{ControlPlane, Namespace, wait};
use crate::support::incident::{self, AGED};
use crate::support::player::Player;
use crate::support::product::{self, Ran};
use crate::support::rights;
use saferollback::core::rights::{Verb, of};
use saferollback::core::verdict::Verdict;
use serde_json::{Value, json};
use std::path::Path;

const SECRETS: Resource = Resource::new("/api/v1", "secrets");

/// The rules of the Role that `rbac` prints.
fn printed(verb: &str, namespace: &Namespace) -> Vec<Value> {
    let ran = product::run(&["rbac", "--for", verb, "-n", &namespace.name, "-o", "json"]).expect(0);
    let role: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!((&role["kind"], &role["metadata"]["namespace"]), (&json!("Role"), &json!(namespace.name)));
    role["rules"].as_array().expect("rules").clone()
}

fn run_as(namespace: &Namespace, kubeconfig: &Path, arguments: &[&str]) -> Ran {
    let mut command = namespace.product(arguments);
    command.env("KUBECONFIG", kubeconfig).output().expect("the binary runs").into()
}

/// The rule as a person would say it, and as every message must: `list secrets`.
fn spoken(rule: &Value) -> (String, String) {
    let text = |member: &str| rule[member][0].as_str().expect("one word").to_string();
    (text("verbs"), text("resources"))
}

/// The incident, with a Secret and a ConfigMap that nobody touched beside it.
fn incident_and_more(namespace: &Namespace, age: std::time::Duration) -> Player {
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    namespace.all(CONFIGMAPS).create(&json!({"metadata": {"name": "other"}, "data": {"a": "1"}})).ok();
    namespace.all(SECRETS).create(&json!({"metadata": {"name": "password"}, "stringData": {"P": "x"}})).ok();
    std::thread::sleep(age);
    let mut web = incident::web(2);
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json!([
        {"configMapRef": {"name": "settings"}}, {"configMapRef": {"name": "other"}}, {"secretRef": {"name": "password"}},
    ]);
    namespace.all(DEPLOYMENTS).create(&web).ok();
    let player = Player::run(namespace, incident::honest(namespace));
    incident::rolled_out(namespace, "web");
    incident::trap(namespace);
    player
}

/// How much a verdict claims. Less is what a missing right may lead to, more never.
fn claim(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Unknown | Verdict::Unreadable => 0,
        Verdict::Recreated | Verdict::WrittenAfter | Verdict::WrittenDuring | Verdict::Refreshed => 1,
        Verdict::LikelySame => 2,
        Verdict::Missing | Verdict::KeyMissing => 3,
        Verdict::Changed | Verdict::Mixed | Verdict::Same | Verdict::OptionalAbsent => 3,
    }
}

fn verdicts(document: &Value) -> Vec<(String, Verdict)> {
    let revisions = document["revisions"].as_array().into_iter().flatten();
    let references = revisions.flat_map(|r| r["references"].as_array().into_iter().flatten().map(move |x| (r, x)));
    references
        .map(|(revision, reference)| {
            let word = reference["verdict"].as_str().expect("a word");
            let verdict = Verdict::ALL.into_iter().find(|v| v.word() == word).expect("a verdict");
            (format!("{} {}", revision["number"], reference["name"]), verdict)
        })
        .collect()
}

/// Without this a Role that we print would be too small to work with, or its gaps would be passed over in silence, and an
/// answer would sound better for what could not be read.
#[test]
fn reading_verbs_work_with_their_role_and_claim_no_more_with_less() {
    let namespace = ControlPlane::main().namespace("role");
    let _player = incident_and_more(&namespace, AGED);
    let history = ["history", "deploy/web", "-o", "json"];
    let whole = namespace.run(&history).expect(0).document();
    assert!(verdicts(&whole).iter().any(|(_, v)| *v == Verdict::Changed), "{whole:#}");
    assert!(verdicts(&whole).iter().any(|(_, v)| *v == Verdict::Same), "{whole:#}");
    let rules = printed("history", &namespace);
    let mut checking = printed("check", &namespace);
    let exact_check = rights::named(&namespace, "check", &json!(checking));
    checking.retain(|rule| !rule["apiGroups"][0].as_str().is_some_and(|group| group.starts_with("autoscaling")));
    assert_eq!(rules, checking, "check reads nothing more but autoscalers");
    let exact = rights::named(&namespace, "exact", &json!(rules));
    assert_eq!(verdicts(&run_as(&namespace, exact.path(), &history).expect(0).document()), verdicts(&whole));
    let check = run_as(&namespace, exact_check.path(), &["check", "deploy/web", "--to-revision", "1"]).expect(3);
    assert!(!check.stderr.contains("autoscalers"), "{check:?}");

    for left_out in 0..rules.len() {
        let mut less = rules.clone();
        let (verb, resource) = spoken(&less.remove(left_out));
        let few = rights::named(&namespace, &format!("without-{left_out}"), &json!(less));
        let ran = run_as(&namespace, few.path(), &history);
        let said = format!("{} {}", ran.stderr, ran.stdout);
        for word in [&verb, &resource, &namespace.name] {
            assert!(said.contains(word.as_str()), "without {verb} {resource}, {word:?} is not said: {ran:?}");
        }
        if ["deployments", "replicasets"].contains(&resource.as_str()) {
            assert_eq!(ran.code, 1, "without {verb} {resource}: {ran:?}");
            continue;
        }
        let document = ran.expect(0).document();
        let mut weaker = 0;
        for (name, less) in verdicts(&document) {
            let before = verdicts(&whole).into_iter().find(|(n, _)| *n == name).expect("the same references").1;
            assert!(claim(less) <= claim(before), "without {verb} {resource}: {name} {before:?} became {less:?}");
            assert!(claim(less) < claim(before) || less == before, "{name}: {before:?} became {less:?}");
            weaker += usize::from(less != before);
        }
        // The API's own history is still there in a test, so Events alone cost nothing yet.
        assert!(weaker > 0 || resource == "events", "{verb} {resource} is not needed: {document:#}");
    }
    assert_eq!(writes(&namespace), [""; 0]);
}

/// Without this somebody who was given the Role for an undo would be stopped half way through one.
#[test]
fn an_undo_works_with_its_role_and_says_which_right_is_missing() {
    let undo = [
        "undo",
        "deploy/web",
        "--to-revision",
        "1",
        "-y",
        "-o",
        "json",
        "--timeout=60s",
        "--verify=replace",
        "--settle=1s",
    ];
    let own: Vec<Value> = {
        let namespace = ControlPlane::main().namespace("undo-role");
        let _player = incident_and_more(&namespace, AGED);
        let rules = printed("undo", &namespace);
        let exact = rights::named(&namespace, "exact", &json!(rules));
        let done = run_as(&namespace, exact.path(), &undo).expect(0);
        assert_eq!(done.document()["outcome"], "done");
        assert!(!done.stderr.contains("Warning"), "nothing is missing: {done:?}");
        let reading = printed("check", &namespace);
        rules.into_iter().filter(|rule| !reading.contains(rule)).collect()
    };
    assert_eq!(own.len(), 11, "{own:#?}");
    std::thread::scope(|scope| {
        for left_out in &own {
            scope.spawn(move || {
                let (verb, resource) = spoken(left_out);
                let namespace = ControlPlane::main().namespace("less");
                let _player = incident_and_more(&namespace, AGED);
                let mut less = printed("undo", &namespace);
                less.retain(|rule| rule != left_out);
                let few = rights::named(&namespace, "few", &json!(less));
                let ran = run_as(&namespace, few.path(), &undo);
                let what = format!("without {verb} {resource}: {ran:?}");
                let stopped = |code: i32, written: usize| {
                    assert_eq!(ran.code, code, "{what}");
                    says(&ran, &[&verb, &resource, &namespace.name]);
                    assert_eq!(ran.document()["written"].as_array().map(Vec::len), Some(written), "{what}");
                };
                match (verb.as_str(), resource.as_str()) {
                    ("patch", "deployments") | ("create", "configmaps" | "pods/eviction") => {
                        stopped(3, 0);
                        assert_eq!(writes(&namespace), [""; 0], "{what}");
                    }
                    // The new snapshot cannot be looked at once the Pods have started: done, and not verified.
                    ("get", "configmaps") => stopped(4, 2),
                    // Nothing that this undo needs: the snapshot is new, the trial only a trial, a watch only quicker.
                    _ => assert_eq!((ran.code, &ran.document()["outcome"]), (0, &json!("done")), "{what}"),
                }
            });
        }
    });
}

/// Without this the Roles of the other verbs would be guesses.
#[test]
fn the_other_verbs_work_with_their_roles_and_say_what_is_missing() {
    let namespace = ControlPlane::main().namespace("roles");
    let _player = incident_and_more(&namespace, std::time::Duration::ZERO);
    let verbs: [(&str, &[&[&str]]); 4] = [
        ("diff", &[&["diff", "deploy/web", "--from", "1"]]),
        ("history-configmap", &[&["history", "configmap/settings"]]),
        ("snapshot", &[&["snapshot", "create", "deploy/web"], &["snapshot", "list"], &["snapshot", "prune", "-y"]]),
        ("restore", &[&["restore", "configmap/settings", "-y", "--from", "FILE"]]),
    ];
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), incident::settings("v1", "true").to_string()).expect("written");
    let file = file.path().to_str().expect("a path");
    // Made before, so that the Role's right to touch is used, too.
    namespace.run(&["snapshot", "create", "deploy/web"]).expect(0);
    for (verb, commands) in verbs {
        let rules = printed(verb, &namespace);
        let run_all = |rules: &[Value], account: &str| -> Vec<Ran> {
            let few = rights::named(&namespace, account, &json!(rules));
            // So that there is something to put back.
            incident::edit(&namespace, &json!({"CONFIG_REVISION": account}));
            let run = |arguments: &&[&str]| {
                let arguments: Vec<&str> = arguments.iter().map(|a| if *a == "FILE" { file } else { a }).collect();
                run_as(&namespace, few.path(), &arguments)
            };
            commands.iter().map(run).collect()
        };
        for ran in run_all(&rules, &format!("{verb}-exact")) {
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(!said.contains("not allowed") && !said.contains("forbidden"), "{verb}: {ran:?}");
            assert!([0, 1].contains(&ran.code) && (ran.code == 0 || verb == "diff"), "{verb}: {ran:?}");
        }
        for left_out in 0..rules.len() {
            let mut less = rules.clone();
            let (right, resource) = spoken(&less.remove(left_out));
            // Only where an answer is lost, a name is taken, or something is old enough.
            if [("get", "configmaps"), ("patch", "configmaps"), ("delete", "configmaps")]
                .contains(&(right.as_str(), resource.as_str()))
                && (verb == "snapshot" || right == "get")
            {
                continue;
            }
            let ran = run_all(&less, &format!("{verb}-without-{left_out}"));
            let said: String = ran.iter().map(|r| format!("{}{}", r.stdout, r.stderr)).collect();
            for word in [&right, &resource, &namespace.name] {
                assert!(said.contains(word.as_str()), "{verb} without {right} {resource}: {ran:?}");
            }
        }
    }
}

/// Without this somebody who was given the Role for `status` would be told less than there is, or a missing right would end
/// the wait.
#[test]
fn a_status_works_with_its_role_and_polls_without_watches() {
    let namespace = ControlPlane::main().namespace("status-role");
    let _player = super::status::first(&namespace, 1);
    let rules = printed("status", &namespace);
    let watches = |rule: &&Value| rule["verbs"][0] == "watch";
    assert_eq!(rules.iter().filter(watches).count(), 4);
    let few: Vec<&Value> = rules.iter().filter(|rule| !watches(rule)).collect();
    for (name, rules, polls) in [("exact", json!(rules), false), ("polling", json!(few), true)] {
        let role = rights::named(&namespace, name, &rules);
        incident::release(&namespace, name);
        super::status::starting(&namespace, name);
        let child = {
            let mut command = namespace.product(&["status", "deploy/web", "--watch", "--timeout=60s", "-o", "json"]);
            command.env("KUBECONFIG", role.path()).stdout(std::process::Stdio::piped());
            command.stderr(std::process::Stdio::piped()).spawn().expect("the binary runs")
        };
        std::thread::sleep(std::time::Duration::from_secs(3));
        let pod = super::status::pod(&namespace, name);
        let kubelet = crate::support::kubelet::Kubelet { namespace: &namespace };
        kubelet.set_ready(pod["metadata"]["name"].as_str().expect("a name"), true).expect("a Pod");
        let ran: Ran = child.wait_with_output().expect("it ends").into();
        let ran = ran.expect(0);
        assert_eq!(ran.document()["phase"], "done", "{name}");
        assert!(!ran.stderr.contains("Note: "), "{name}: nothing is missing for the answer: {}", ran.stderr);
        let denied = namespace.audit().iter().any(|e| e.verb == "watch" && e.code == 403);
        assert_eq!(denied, polls, "{name}");
    }
}

/// Without this somebody who may roll back but not create ConfigMaps could not even do what needs none.
#[test]
fn without_create_an_undo_that_keeps_everything_works() {
    let namespace = ControlPlane::main().namespace("keeps");
    let _player = incident::start(&namespace, AGED);
    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");
    let mut rules = printed("undo", &namespace);
    let copies = |rule: &Value| rule["resources"][0] == "configmaps" && rule["verbs"][0] != "list";
    assert_eq!(rules.iter().filter(|rule| copies(rule)).count(), 3);
    rules.retain(|rule| !copies(rule));
    let few = rights::named(&namespace, "keeper", &json!(rules));
    let done =
        run_as(&namespace, few.path(), &["undo", "deploy/web", "--to-revision", "1", "-y", "-o", "json"]).expect(0);
    assert_eq!(
        (&done.document()["outcome"], &done.document()["actions"][0]["action"]),
        (&json!("done"), &json!("keep"))
    );
    assert_eq!(writes(&namespace), ["patch deployments"]);
}

/// Without this the Role on the screen could be another one than that in JSON, or none that a server takes.
#[test]
fn the_printed_role_is_taken_by_the_server() {
    let namespace = ControlPlane::main().namespace("yaml");
    for verb in Verb::ALL {
        let yaml = product::run(&["rbac", "--for", verb.word(), "-n", &namespace.name]).expect(0);
        let read: Value = serde_yaml::from_str(&yaml.stdout).expect("YAML");
        assert_eq!(read["rules"], json!(printed(verb.word(), &namespace)), "{}", yaml.stdout);
        for rule in of(verb) {
            assert!(yaml.stdout.contains(&format!("# Without it: {}", rule.without)), "{}", yaml.stdout);
            assert!(rule.without.ends_with('.') && !rule.verbs.is_empty());
        }
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), &yaml.stdout).expect("written");
        let applied = namespace.kubectl(&["apply", "--dry-run=server", "-f", file.path().to_str().expect("a path")]);
        assert!(applied.status.success(), "{applied:?}");
    }
    let anywhere = product::run(&["rbac", "--for", "undo"]).expect(0).stdout;
    assert!(!anywhere.contains("namespace:"), "{anywhere}");
    product::run(&["rbac"]).expect(2);
    product::run(&["rbac", "--for", "reboot"]).expect(2);
}

/// Without this somebody with the printed Role could not observe, or a missing right would look like a workload without
/// Services, or like Pods that do not answer.
#[test]
fn observing_works_with_its_role_and_says_what_is_missing() {
    let namespace = ControlPlane::main().namespace("observing");
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
    namespace.all(SERVICES).create(&json!({"metadata": {"name": "web"}, "spec": spec})).ok();
    let _player = incident::start(&namespace, std::time::Duration::ZERO);
    let observe = ["observe", "deploy/web", "--probe", "/", "-o", "json"];
    let rules = printed("observe", &namespace);
    let reading = printed("history", &namespace);
    let own: Vec<&Value> = rules.iter().filter(|rule| !reading.contains(rule)).collect();
    assert_eq!(own.len(), 4, "{own:#?}");
    let exact = rights::named(&namespace, "exact", &json!(rules));
    let whole = run_as(&namespace, exact.path(), &observe).expect(0);
    assert!(!whole.stderr.contains("not allowed"), "{whole:?}");
    assert_eq!(whole.document()["services"].as_array().map(Vec::len), Some(1));
    for (left_out, rule) in own.iter().enumerate() {
        let less: Vec<&Value> = rules.iter().filter(|r| r != rule).collect();
        let few = rights::named(&namespace, &format!("unable-{left_out}"), &json!(less));
        let ran = run_as(&namespace, few.path(), &observe).expect(0);
        let (verb, resource) = spoken(rule);
        says(&ran, &["not allowed", &verb, &resource, &namespace.name]);
        let document = ran.document();
        let known = !resource.ends_with("/proxy");
        assert_eq!(document["services"].is_null(), known, "{resource}: {document:#}");
        if known {
            let file = tempfile::tempdir().expect("a folder");
            let file = file.path().join("out.json");
            let out = ["observe", "deploy/web", "--out", file.to_str().expect("a path")];
            run_as(&namespace, few.path(), &out).expect(1);
            assert!(!file.exists(), "what was not all seen is not saved");
        }
    }
    assert_eq!(writes(&namespace), [""; 0]);
}

/// Without this what somebody may not read would look like something that is not there, and an optional ConfigMap behind a
/// missing right like none (C101).
#[test]
fn c101_what_may_not_be_read_is_never_absent() {
    let namespace = ControlPlane::main().namespace("forbidden");
    for name in ["cfg-a", "cfg-b"] {
        namespace.all(CONFIGMAPS).create(&json!({"metadata": {"name": name}, "data": {"a": "1"}})).ok();
    }
    namespace.all(SECRETS).create(&json!({"metadata": {"name": "s1"}, "stringData": {"P": "x"}})).ok();
    let mut web = incident::web(0);
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json!([
        {"configMapRef": {"name": "cfg-a"}}, {"configMapRef": {"name": "cfg-b", "optional": true}},
        {"secretRef": {"name": "s1"}}, {"configMapRef": {"name": "cfg-c"}},
    ]);
    namespace.all(DEPLOYMENTS).create(&web).ok();
    // Without Pods nothing is rolled out: two ReplicaSets are enough.
    let revisions = |count| wait("a ReplicaSet", || (namespace.items(REPLICASETS).len() == count).then_some(()));
    revisions(1);
    incident::release(&namespace, "two");
    revisions(2);
    let rules = json!([
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cfg-a", "cfg-c"], "verbs": ["get", "list"]},
    ]);
    let few = rights::named(&namespace, "few", &rules);
    let history = run_as(&namespace, few.path(), &["history", "deploy/web", "-o", "json"]).expect(0).document();
    let found = verdicts(&history);
    for (name, verdict) in [("cfg-b", Verdict::Unreadable), ("s1", Verdict::Unreadable), ("cfg-c", Verdict::Missing)] {
        let own: Vec<&Verdict> = found.iter().filter(|(n, _)| n.contains(name)).map(|(_, v)| v).collect();
        assert_eq!(own, [&verdict; 2], "{name}: {found:?}");
    }
    assert!(found.iter().any(|(n, v)| n.contains("cfg-a") && claim(*v) < 3), "{found:?}");
    // Contents are read by LIST of one name: with GET alone they stay unread, which is not the same as gone.
    let mut get = rules.clone();
    get[2]["verbs"] = json!(["get"]);
    let get = rights::named(&namespace, "get", &get);
    let history = run_as(&namespace, get.path(), &["history", "deploy/web", "-o", "json"]).expect(0).document();
    assert!(verdicts(&history).iter().all(|(_, verdict)| *verdict == Verdict::Unreadable), "{history:#}");
    run_as(&namespace, few.path(), &["check", "deploy/web", "--to-revision", "1"]).expect(3);
    let undo = run_as(&namespace, few.path(), &["undo", "deploy/web", "--to-revision", "1", "-y"]).expect(3);
    says(&undo, &["cfg-b", "cfg-c"]);
    assert_eq!(writes(&namespace), [""; 0]);
}
