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
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

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

    fn records(&self) -> usize {
        let records = self.namespace.items(CONFIGMAPS);
        let records = records.iter().filter(|c| c["metadata"]["labels"]["saferollback.dev/kind"] == "record");
        records
            .filter(|c| c["metadata"]["name"].as_str().is_some_and(|n| n.starts_with(&format!("{}-sr-", self.name))))
            .count()
    }

    /// Is it just as it was made? Then the next fault can be planted in it.
    fn is_untouched(&self) -> bool {
        let live = self.live();
        let same = |pointer: &str| live.pointer(pointer) == self.before.pointer(pointer);
        same("/spec") && same("/metadata/annotations") && self.snapshots().is_empty() && self.records() == 0
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
        assert_eq!((self.snapshots().len(), self.records()), (1, 1), "after {after}");
        let owner = &self.before["metadata"]["uid"];
        let sets = self.namespace.items(REPLICASETS);
        let own = sets.iter().filter(|set| set["metadata"]["ownerReferences"][0]["uid"] == *owner);
        assert_eq!(own.count(), 3, "after {after}: two revisions and one new one");
    }
}

/// What happens to one request.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The connection ends before the server hears of it.
    CutBefore,
    /// The server did it, and its answer is lost.
    CutAfter,
    Conflict,
    /// With a Retry-After.
    TooMany,
    ServerError,
    /// The program is killed before the request arrives.
    KillBefore,
    /// And after it did.
    KillAfter,
}

impl Fault {
    fn kills(self) -> bool {
        matches!(self, Fault::KillBefore | Fault::KillAfter)
    }

    fn act(self) -> Act {
        let status = |code: u16, reason: &str| {
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
                "message": "planted", "details": {"retryAfterSeconds": 1}})
        };
        match self {
            Fault::CutBefore | Fault::KillBefore => Act::CutBefore,
            Fault::CutAfter | Fault::KillAfter => Act::CutAfter,
            Fault::Conflict => Act::Answer(409, status(409, "Conflict")),
            Fault::TooMany => Act::Answer(429, status(429, "TooManyRequests")),
            Fault::ServerError => Act::Answer(500, status(500, "InternalError")),
        }
    }
}

/// A verb on a case, and what it must have made in the end.
trait Job: Sync {
    fn arguments(&self, case: &Case<'_>) -> Vec<String>;
    /// After a fault: nothing is half done, and success was not claimed for nothing.
    fn check(&self, case: &Case<'_>, ran: &Ran, what: &str);
    /// After the same command again, undisturbed.
    fn converges(&self, case: &Case<'_>, what: &str);
    /// The first request at which a fault is planted.
    fn first(&self, _: &Namespace) -> usize {
        0
    }
}

struct Undo;

impl Job for Undo {
    fn arguments(&self, case: &Case<'_>) -> Vec<String> {
        case.arguments()
    }

    fn check(&self, case: &Case<'_>, ran: &Ran, what: &str) {
        assert!([-1, 0, 1, 3, 4, 5].contains(&ran.code), "{what}: {ran:?}");
        assert!(case.is_old() || case.is_new(), "{what}: {:#}", case.live());
        assert!(ran.code != 0 || case.is_new(), "{what} was called a success: {ran:?}");
        assert!(![3, 5].contains(&ran.code) || case.is_old(), "{what}: {ran:?}");
    }

    fn converges(&self, case: &Case<'_>, what: &str) {
        case.converges(what);
    }
}

/// `snapshot create`, which must not even touch the workload.
struct Save;

impl Job for Save {
    fn arguments(&self, case: &Case<'_>) -> Vec<String> {
        ["snapshot", "create", &case.name].map(String::from).to_vec()
    }

    fn check(&self, case: &Case<'_>, ran: &Ran, what: &str) {
        assert!([-1, 0, 1, 3].contains(&ran.code), "{what}: {ran:?}");
        assert!(ran.code != 0 || case.snapshots().len() == 1, "{what} was called a success: {ran:?}");
    }

    fn converges(&self, case: &Case<'_>, what: &str) {
        let again: Ran = case.namespace.run(&["snapshot", "create", &case.name]);
        assert_eq!(again.code, 0, "after {what}: {again:?}");
        assert!(case.is_old(), "after {what}: {:#}", case.live());
        assert_eq!((case.snapshots().len(), case.records()), (1, 1), "after {what}");
    }
}

/// `undo --verify=replace`: for all runs of a case together one Pod is evicted.
struct Replace;

impl Replace {
    fn evictions(case: &Case<'_>) -> usize {
        let own = format!("{}-", case.name);
        let all = case.namespace.audit().into_iter().filter(|e| e.subresource == "eviction" && !e.dry_run);
        all.filter(|e| e.code == 201 && e.name.starts_with(&own)).count()
    }
}

impl Job for Replace {
    fn arguments(&self, case: &Case<'_>) -> Vec<String> {
        let more = ["--verify=replace", "--allow-downtime", "--settle=100ms", "--timeout=60s"];
        case.arguments().into_iter().chain(more.map(String::from)).collect()
    }

    fn check(&self, case: &Case<'_>, ran: &Ran, what: &str) {
        Undo.check(case, ran, what);
        let evictions = Self::evictions(case);
        assert!(evictions <= 1, "{what}: {evictions} Pods were evicted: {ran:?}");
        assert!(ran.code != 0 || evictions == 1, "{what} was called a success: {ran:?}");
    }

    fn converges(&self, case: &Case<'_>, what: &str) {
        let arguments = self.arguments(case);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let again = case.namespace.run(&arguments);
        assert_eq!(again.code, 0, "after {what}: {again:?}");
        assert!(again.stdout.contains(" took the place of "), "after {what}: {again:?}");
        assert_eq!(Self::evictions(case), 1, "after {what}");
        assert!(case.is_new() && case.snapshots().len() == 1, "after {what}: {:#}", case.live());
    }

    /// What comes before the patch is no other than without a proof.
    fn first(&self, namespace: &Namespace) -> usize {
        let case = Case::new(namespace, "undisturbed".into());
        let proxy = Proxy::new(namespace, |_, _| Act::Pass);
        let arguments = self.arguments(&case);
        let ran = proxy.run(namespace, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let log = proxy.log();
        log.iter().position(Passing::is_the_patch).unwrap_or_else(|| panic!("no patch: {ran:?}"))
    }
}

/// Plants the fault at each request in turn, several cases at once, until a run meets none any more. Returns how many
/// requests there were.
fn sweep(namespace: &Namespace, job: &dyn Job, fault: Fault) -> usize {
    let _player = Player::run(namespace, |_| Some(Play::ready()));
    let (next, end) = (AtomicUsize::new(job.first(namespace)), AtomicUsize::new(usize::MAX));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut case = None;
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= end.load(Ordering::Relaxed) {
                        break;
                    }
                    assert!(at < 100, "a run sends fewer than 100 requests");
                    let of_this = case.take().unwrap_or_else(|| Case::new(namespace, format!("c{at}")));
                    let met = planted(&of_this, job, fault, at);
                    if !met {
                        end.fetch_min(at, Ordering::Relaxed);
                    }
                    case = Some(of_this).filter(Case::is_untouched);
                }
            });
        }
    });
    end.into_inner()
}

/// One run with the fault at one request. Was there such a request?
fn planted(case: &Case<'_>, job: &dyn Job, fault: Fault, at: usize) -> bool {
    let namespace = case.namespace;
    let child = Arc::new(AtomicI32::new(0));
    let victim = Arc::clone(&child);
    let proxy = Proxy::new(namespace, move |number, _| {
        if number != at {
            return Act::Pass;
        }
        if fault.kills() {
            let id = loop {
                match victim.load(Ordering::Acquire) {
                    0 => thread::yield_now(),
                    id => break id,
                }
            };
            // SAFETY: a signal to a child that waits for the answer to this request; nobody has waited for it yet.
            unsafe { libc::kill(id, libc::SIGKILL) };
        }
        fault.act()
    });
    let arguments = job.arguments(case);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = proxy.product(namespace, &arguments);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    child.store(libc::pid_t::try_from(running.id()).expect("a process id"), Ordering::Release);
    let ran: Ran = running.wait_with_output().expect("it ends").into();
    let log = proxy.log();
    let Some(hit) = log.get(at) else {
        assert_eq!(ran.code, 0, "{ran:?}");
        job.converges(case, "an undisturbed run");
        return false;
    };
    let what = format!("{fault:?} at request {at}, {}{}", hit.line(), if hit.dry_run() { " (dry run)" } else { "" });
    if fault.kills() {
        // What was sent may still be carried out.
        thread::sleep(Duration::from_millis(200));
    } else {
        assert!(ran.code == 0 || !ran.stderr.trim().is_empty(), "{what}: no word about it");
    }
    job.check(case, &ran, &what);
    // From where it began the same command converges as an undisturbed run does, which is the last one of a sweep.
    if !case.is_untouched() {
        job.converges(case, &what);
    }
    true
}

/// Every way to fail, at every request.
fn all(job: &dyn Job, name: &str, least: usize, faults: &[Fault]) {
    for (i, fault) in faults.iter().enumerate() {
        let namespace = ControlPlane::main().namespace(&format!("{name}-{i}"));
        let swept = sweep(&namespace, job, *fault);
        assert!(swept > least, "{fault:?}: only {swept} requests were tried");
    }
}

/// Without this a connection that dies before a request could leave half an undo, and an answer that is lost after the
/// server did the work could make the work be done twice (C35).
#[test]
fn a_cut_at_any_request_loses_and_doubles_nothing() {
    all(&Undo, "cut", 10, &[Fault::CutBefore, Fault::CutAfter]);
}

/// Without this an answer that says no in the middle could leave half an undo, or be repeated blindly.
#[test]
fn a_refusal_at_any_request_loses_nothing() {
    all(&Undo, "refuse", 10, &[Fault::Conflict, Fault::TooMany, Fault::ServerError]);
}

/// Without this a program that is killed could leave what the same command cannot finish (C35).
#[test]
fn c35_killed_at_any_request_the_same_command_finishes() {
    all(&Undo, "kill", 10, &[Fault::KillBefore, Fault::KillAfter]);
}

/// Without this a proof that was cut off would cost a second Pod, or be claimed for one that never went.
#[test]
fn killed_at_any_request_of_the_proof_no_second_pod_is_evicted() {
    all(&Replace, "proof", 15, &[Fault::CutAfter, Fault::KillBefore, Fault::KillAfter]);
}

/// Without this a snapshot could be promised and not be there, or be there twice.
#[test]
fn snapshot_create_survives_a_fault_at_any_request() {
    let faults = [
        Fault::CutBefore,
        Fault::CutAfter,
        Fault::Conflict,
        Fault::TooMany,
        Fault::ServerError,
        Fault::KillBefore,
        Fault::KillAfter,
    ];
    all(&Save, "save", 8, &faults);
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

/// Without this a person who pressed Ctrl-C would not know whether anything was written (C35).
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
