//! At a terminal: what is drawn, what is asked, and how the terminal is left.

use super::status::{first, pod, starting};
use super::undo::writes;
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS};
use crate::support::control_plane::{ControlPlane, Namespace};
use crate::support::incident;
use crate::support::kubelet::{Kubelet, Play};
use crate::support::player::Player;
use crate::support::proxy::{Act, Proxy};
use crate::support::terminal::{Terminal, screen};
use serde_json::json;
use std::time::Duration;

const INTERRUPT: &str = "\u{3}";

fn stuck(namespace: &Namespace) -> Player {
    let player = first(namespace, 1);
    incident::release(namespace, "two");
    starting(namespace, "two");
    player
}

fn last_line(text: &str) -> &str {
    text.trim_end().lines().last().unwrap_or("").trim_end()
}

/// Without this a large rollout would scroll away, or leave the remains of its frames on the screen.
#[test]
fn a_tree_fits_the_screen_and_its_last_frame_stays() {
    let namespace = ControlPlane::main().namespace("tree");
    let _player = first(&namespace, 12);
    incident::release(&namespace, "two");
    starting(&namespace, "two");
    let mut terminal = Terminal::start_piped(namespace.product(&["status", "deploy/web", "--watch"]), 10, 60);
    terminal.until("└─ +8 ready");
    let shown = screen(&terminal.seen);
    assert!(shown.iter().any(|line| line.starts_with("├─ revision 2   0/12 ready")), "{shown:#?}");
    assert!(shown.iter().any(|line| line.contains("not ready")), "{shown:#?}");
    let namespace_ = namespace.clone();
    let _all = Player::run(&namespace_, |_| Some(Play::ready()));
    let ran = terminal.end().expect(0);
    let shown = screen(&ran.stderr);
    // The cursor stands in the line below.
    assert!(shown.len() <= 10 && shown.iter().all(|line| line.chars().count() < 60), "{shown:#?}");
    assert!(shown.iter().filter(|line| line.contains("revision 2")).count() == 1, "one frame: {shown:#?}");
    assert_eq!(shown[0], "deployment \"web\" successfully rolled out");
    assert!(shown.iter().any(|line| line.contains("revision 2   12/12 ready")), "{shown:#?}");
    assert!(ran.stdout.starts_with("deployment \"web\" successfully rolled out\n"), "{}", ran.stdout);
    assert!(!ran.stderr.contains("\x1b[3"), "no colour: {:?}", ran.stderr);
}

/// Without this a watch that is left, or that loses its server, would leave a broken terminal, or nobody would know how the
/// rollout stood and how to go on.
#[test]
fn a_watch_leaves_the_terminal_as_it_was() {
    let namespace = ControlPlane::main().namespace("left");
    let _player = stuck(&namespace);
    let proxy = Proxy::new(&namespace, |_, _| Act::Pass);
    let stood =
        "interrupted: Waiting for deployment \"web\" rollout to finish: 0 out of 1 new replicas have been updated";
    let stood = [stood, "1 old replicas are pending termination"];
    let says = |line: &str| {
        assert!(line.starts_with("interrupted: ") && stood.iter().any(|s| line.contains(s)), "{line}");
        assert!(
            line.contains(&format!("kubectl saferollback status deploy/web -n {} --watch", namespace.name)),
            "{line}"
        );
    };
    let watch = || {
        let mut terminal = Terminal::start(proxy.product(&namespace, &["status", "deploy/web", "--watch"]), 24, 80);
        terminal.until("revision 2   0/1 ready");
        terminal
    };
    let mut left = watch();
    left.keys(INTERRUPT);
    says(last_line(&left.end().expect(130).stderr));

    let ended = watch();
    ended.signal(libc::SIGTERM);
    says(last_line(&ended.end().expect(143).stderr));

    // A connection that is dropped is taken up again: what happens then is still seen.
    let mut dropped = watch();
    proxy.cut();
    std::thread::sleep(Duration::from_secs(1));
    let new = pod(&namespace, "two");
    Kubelet { namespace: &namespace }
        .set_ready(new["metadata"]["name"].as_str().expect("a name"), true)
        .expect("a Pod");
    dropped.until("successfully rolled out");
    dropped.end().expect(0);
}

/// Two releases, both rolled out, with what is needed to go back.
fn two(namespace: &Namespace, play: fn(&serde_json::Value) -> Option<Play>) -> Player {
    namespace.all(CONFIGMAPS).create(&incident::settings("v1", "true")).ok();
    namespace.all(DEPLOYMENTS).create(&incident::web(1)).ok();
    let player = Player::run(namespace, |_| Some(Play::ready()));
    incident::rolled_out(namespace, "web");
    incident::release(namespace, "two");
    incident::rolled_out(namespace, "web");
    drop(player);
    Player::run(namespace, play)
}

/// Without this a question could be answered by accident, or leave a terminal without a cursor.
#[test]
fn the_question_is_answered_by_keys_and_leaves_the_terminal_as_it_was() {
    let namespace = ControlPlane::main().namespace("asked");
    let _player = two(&namespace, |_| Some(Play::ready()));
    let undo = |more: &[&str]| {
        let arguments = [&["undo", "deploy/web", "--to-revision", "1", "--config=live"], more].concat();
        let mut terminal = Terminal::start(namespace.product(&arguments), 40, 100);
        terminal.until("Roll back? (y/N): ");
        terminal.until_it_reads();
        terminal
    };
    let mut no = undo(&[]);
    no.keys("\r");
    let no = no.end().expect(0);
    assert!(no.stderr.contains("Nothing was written"), "{}", no.stderr);
    let mut left = undo(&[]);
    left.keys(INTERRUPT);
    let left = left.end().expect(130);
    assert!(left.stderr.contains("interrupted: nothing was written"), "{}", left.stderr);
    assert_eq!(writes(&namespace), [""; 0]);
    let mut yes = undo(&[]);
    yes.keys("y\r");
    let yes = yes.end().expect(0);
    assert!(yes.stderr.contains("deployment \"web\" successfully rolled out"), "{}", yes.stderr);
    assert_eq!(writes(&namespace), ["patch deployments"]);

    // Now "previous" would be a choice: it is offered.
    let pick = || {
        let mut terminal = Terminal::start(namespace.product(&["undo", "deploy/web", "--config=live"]), 40, 100);
        terminal.until("Roll back to which revision?");
        terminal.until_it_reads();
        terminal
    };
    let mut left = pick();
    left.keys(INTERRUPT);
    left.end().expect(130);
    let mut none = pick();
    none.keys("\u{1b}");
    none.end().expect(2);
    let mut picked = pick();
    picked.keys("\r");
    picked.until("Roll back? (y/N): ");
    picked.until_it_reads();
    picked.keys("\r");
    let picked = picked.end().expect(0);
    assert!(picked.stderr.contains("Nothing was written"), "{}", picked.stderr);
    assert_eq!(writes(&namespace), ["patch deployments"]);
}

/// Without this a person who leaves an undo's wait would not know that the rollout goes on, nor where it stood.
#[test]
fn an_undos_wait_leaves_the_terminal_as_it_was() {
    let namespace = ControlPlane::main().namespace("undo-left");
    let _player = two(&namespace, |_| None);
    let proxy = Proxy::new(&namespace, |_, _| Act::Pass);
    let undo = || {
        let arguments = ["undo", "deploy/web", "--to-revision", "1", "--config=live", "-y"];
        let mut terminal = Terminal::start(proxy.product(&namespace, &arguments), 40, 100);
        terminal.until("Waiting for deployment \"web\" rollout to finish: ");
        terminal
    };
    let says = |text: &str, when: &str| {
        let line = last_line(text);
        for words in [when, "the rollout goes on (Waiting for deployment \"web\"", "the same command waits for it"] {
            assert!(line.contains(words), "{words}: {line}");
        }
    };
    let mut left = undo();
    left.keys(INTERRUPT);
    says(&left.end().expect(130).stderr, "interrupted after the workload was written: ");
    // The same command waits, and is ended the other way.
    let ended = undo();
    ended.signal(libc::SIGTERM);
    says(&ended.end().expect(143).stderr, "interrupted: nothing was written by this run; ");
    // A connection that is dropped is taken up again.
    let dropped = undo();
    proxy.cut();
    let _all = Player::run(&namespace, |_| Some(Play::ready()));
    let done = dropped.end().expect(0);
    assert!(done.stderr.contains("deployment \"web\" successfully rolled out"), "{}", done.stderr);
    assert_eq!(writes(&namespace), ["patch deployments"]);
    assert_eq!(
        json!(namespace.at(DEPLOYMENTS, "web").get().ok()["spec"]["template"]["metadata"]["annotations"]["release"]),
        "one"
    );
}
