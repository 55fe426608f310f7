//! Killed at any point, connection cut at any request: the workload is in its old state or its new one, and the same
//! command again finishes the job without a second copy of anything.

use crate::support::client::{CONFIGMAPS, DEPLOYMENTS, REPLICASETS};
use crate::support::control_plane::{ControlPlane, Namespace, wait};
use crate::support::incident;
use crate::support::kubelet::Play;
use crate::support::player::Player;
use crate::support::product::Ran;
use crate::support::proxy::{Act, Passing, Proxy};
use serde_json::{Value, json};
use std::process::Stdio;
use std::sync::mpsc;

/// A Deployment of its own with two revisions, both rolled out, on a ConfigMap that was edited; and a file with the
/// old content, so that the undo pins.
struct Case<'a> {
    namespace: &'a Namespace,
    name: String,
    file: tempfile::NamedTempFile,
    before: Value,
}

impl<'a> Case<'a> {
    fn new(namespace: &'a Namespace, name: String) -> Self {
        let settings = format!("{name}-settings");
        let mut content = incident::settings("v1", "true");
        content["metadata"]["name"] = json!(settings);
        namespace.all(CONFIGMAPS).create(&content).ok();
        let mut web = incident::web(1);
        web["metadata"] = json!({"name": name});
        web["spec"]["selector"]["matchLabels"]["app"] = json!(name);
        web["spec"]["template"]["metadata"]["labels"]["app"] = json!(name);
        web["spec"]["template"]["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"] = json!(settings);
        namespace.all(DEPLOYMENTS).create(&web).ok();
        incident::rolled_out(namespace, &name);
        let release = json!({"spec": {"template": {"metadata": {"annotations": {"release": "two"}}}}});
        namespace.at(DEPLOYMENTS, &name).merge_patch(&release).ok();
        incident::rolled_out(namespace, &name);
        namespace.at(CONFIGMAPS, &settings).merge_patch(&json!({"data": {"CONFIG_REVISION": "v2"}})).ok();
        let before = namespace.at(DEPLOYMENTS, &name).get().ok();
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), content.to_string()).expect("written");
        Self { namespace, name, file, before }
    }

    fn arguments(&self) -> Vec<String> {
        let given = format!("{}-settings={}", self.name, self.file.path().display());
        let fixed = ["undo", &self.name, "--to-revision", "1", "-y", "--use", &given];
        fixed.map(String::from).to_vec()
    }

    fn live(&self) -> Value {
        self.namespace.at(DEPLOYMENTS, &self.name).get().ok()
    }

    fn snapshots(&self) -> Vec<String> {
        let names = self.namespace.items(CONFIGMAPS);
        let names = names.iter().filter_map(|c| c["metadata"]["name"].as_str());
        names.filter(|n| n.starts_with(&format!("{}-settings-sr-", self.name))).map(String::from).collect()
    }

    fn is_old(&self) -> bool {
        self.live()["spec"]["template"] == self.before["spec"]["template"]
    }

    fn is_new(&self) -> bool {
        let live = self.live();
        let template = &live["spec"]["template"];
        let bound = &template["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"];
        template["metadata"]["annotations"]["release"] == "one"
            && self.snapshots().iter().any(|name| bound == &json!(name))
    }

    /// The same command again, straight to the server: done, with one copy and one new revision.
    #[track_caller]
    fn converges(&self, after: &str) {
        let arguments = self.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let again: Ran = self.namespace.run(&arguments);
        assert_eq!(again.code, 0, "after {after}: {again:?}");
        assert!(self.is_new(), "after {after}: {:#}", self.live());
        assert_eq!(self.snapshots().len(), 1, "after {after}");
        let owner = &self.before["metadata"]["uid"];
        let sets = self.namespace.items(REPLICASETS);
        let own = sets.iter().filter(|set| set["metadata"]["ownerReferences"][0]["uid"] == *owner);
        assert_eq!(own.count(), 3, "after {after}: two revisions and one new one");
    }
}

/// Cuts the connection at each request in turn, until a run meets no cut any more.
fn sweep(namespace: &Namespace, cut: fn() -> Act, prefix: &str) -> usize {
    let _player = Player::run(namespace, |_| Some(Play::ready()));
    for at in 0..100 {
        let case = Case::new(namespace, format!("{prefix}{at}"));
        let proxy = Proxy::new(namespace, move |number, _| if number == at { cut() } else { Act::Pass });
        let arguments = case.arguments();
        let ran = proxy.run(namespace, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let log = proxy.log();
        let Some(hit) = log.get(at) else {
            assert_eq!(ran.code, 0, "{ran:?}");
            case.converges("an undisturbed run");
            return at;
        };
        let what = format!("a cut at request {at}, {}{}", hit.line(), if hit.dry_run() { " (dry run)" } else { "" });
        assert!([0, 1, 4, 5].contains(&ran.code), "{what}: {ran:?}");
        assert!(case.is_old() || case.is_new(), "{what}: {:#}", case.live());
        assert!(ran.code != 0 || case.is_new(), "{what} was called a success: {ran:?}");
        assert!(case.is_old() || log.iter().any(Passing::is_the_patch), "{what}");
        if ran.code != 0 {
            assert!(!ran.stderr.trim().is_empty(), "{what}: no word about it");
        }
        case.converges(&what);
    }
    panic!("an undo sends fewer than 100 requests");
}

/// Without this a connection that dies before a request could leave half an undo.
#[test]
fn a_cut_before_any_request_loses_nothing() {
    let namespace = ControlPlane::main().namespace("cut-before");
    let swept = sweep(&namespace, || Act::CutBefore, "b");
    assert!(swept > 10, "only {swept} requests were tried");
}

/// Without this an answer that is lost after the server did the work could make the work be done twice.
#[test]
fn a_cut_after_any_request_doubles_nothing() {
    let namespace = ControlPlane::main().namespace("cut-after");
    let swept = sweep(&namespace, || Act::CutAfter, "a");
    assert!(swept > 10, "only {swept} requests were tried");
}

fn interrupted(
    namespace: &Namespace,
    case: &Case<'_>,
    holds: fn(&Passing) -> bool,
    passes: bool,
    signal: i32,
) -> (i32, String) {
    let arguments = case.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    interrupt(namespace, &arguments, holds, passes, signal)
}

/// Interrupts the binary while `holds` holds a request, and lets that one go afterwards if `passes`.
pub fn interrupt(
    namespace: &Namespace,
    arguments: &[&str],
    holds: fn(&Passing) -> bool,
    passes: bool,
    signal: i32,
) -> (i32, String) {
    let (reached, there) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let proxy = Proxy::new(namespace, move |_, passing| {
        if holds(passing) {
            let _ = reached.send(());
            let _ = gone.recv();
            return if passes { Act::Pass } else { Act::CutBefore };
        }
        Act::Pass
    });
    let mut command = proxy.product(namespace, arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    there.recv_timeout(std::time::Duration::from_secs(30)).expect("the request comes");
    let pid = libc::pid_t::try_from(child.id()).expect("a process id");
    // SAFETY: a signal to a child that has not been waited for, so the id is still its own.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    let ran: Ran = child.wait_with_output().expect("it ends").into();
    drop(go);
    (ran.code, ran.stderr)
}

/// Without this a person who pressed Ctrl-C would not know whether anything was written.
#[test]
fn an_interruption_says_how_far_it_came() {
    let namespace = ControlPlane::main().namespace("signals");
    let _player = Player::run(&namespace, |_| Some(Play::ready()));

    let case = Case::new(&namespace, "reading".into());
    let (code, said) = interrupted(&namespace, &case, |p| p.target.contains("/replicasets"), false, libc::SIGINT);
    assert_eq!(code, 130, "{said}");
    assert!(said.contains("nothing was written"), "{said}");
    assert!(case.is_old() && case.snapshots().is_empty());

    let case = Case::new(&namespace, "ending".into());
    let (code, said) = interrupted(&namespace, &case, |p| p.target.contains("/replicasets"), false, libc::SIGTERM);
    assert_eq!(code, 143, "{said}");

    let case = Case::new(&namespace, "patching".into());
    let (code, said) = interrupted(&namespace, &case, Passing::is_the_patch, false, libc::SIGINT);
    assert_eq!(code, 130, "{said}");
    // It was sent and never arrived: neither "before" nor "after" would be true.
    assert!(said.contains("may or may not"), "{said}");
    assert!(case.is_old());
    case.converges("an interruption at the patch that never arrived");

    let case = Case::new(&namespace, "waiting".into());
    let (code, said) = interrupted(&namespace, &case, |p| p.target.contains("watch=true"), false, libc::SIGINT);
    assert_eq!(code, 130, "{said}");
    assert!(said.contains("after the workload was written"), "{said}");
    wait("the new template", || case.is_new().then_some(()));
    case.converges("an interruption while it waited");
}
