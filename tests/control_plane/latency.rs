//! How many requests have to wait for one another. On a slow line that number, not the machine, is the time.

use crate::support::client::{CONFIGMAPS, DEPLOYMENTS};
use crate::support::control_plane::{ControlPlane, Namespace};
use crate::support::incident::{self, AGED};
use crate::support::kubelet::Play;
use crate::support::player::Player;
use crate::support::proxy::{Act, Passing, Proxy, rounds};
use serde_json::json;
use std::thread;
use std::time::Duration;

/// Long enough that requests which are sent together overlap on any machine.
const SLOW: Duration = Duration::from_millis(250);

fn slowed(namespace: &Namespace, arguments: &[&str], code: i32) -> Vec<Passing> {
    let proxy = Proxy::new(namespace, |_, _| Act::After(SLOW));
    proxy.run(namespace, arguments).expect(code);
    proxy.log()
}

fn lines(log: &[Passing]) -> Vec<String> {
    log.iter().map(|p| format!("{}{}", p.line(), if p.dry_run() { " (dry run)" } else { "" })).collect()
}

/// Without this one request after the other would make `history` take seconds over a VPN.
#[test]
fn history_takes_three_rounds() {
    let namespace = ControlPlane::main().namespace("rounds");
    for number in 0..5 {
        let body = json!({"metadata": {"name": format!("settings-{number}")}, "data": {"a": "1"}});
        namespace.all(CONFIGMAPS).create(&body).ok();
    }
    thread::sleep(Duration::from_secs(3));
    let mut web = incident::web(1);
    let sources: Vec<_> = (0..5).map(|n| json!({"configMapRef": {"name": format!("settings-{n}")}})).collect();
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json!(sources);
    namespace.all(DEPLOYMENTS).create(&web).ok();
    let _player = Player::run(&namespace, |_| Some(Play::ready()));
    incident::rolled_out(&namespace, "web");
    for number in 2..=10 {
        incident::release(&namespace, &number.to_string());
        incident::rolled_out(&namespace, "web");
    }
    let log = slowed(&namespace, &["history", "web"], 0);
    assert!(rounds(&log) <= 3, "{} rounds of {} requests: {:#?}", rounds(&log), log.len(), lines(&log));
    let contents = log.iter().filter(|p| p.target.contains("fieldSelector=metadata.name%3Dsettings-")).count();
    assert_eq!(contents, 5, "each ConfigMap once, whatever the number of revisions: {:#?}", lines(&log));
    assert!(log.iter().all(|p| p.method == "GET"));
}

/// Without this an undo in an outage would be slower than the tool that it replaces.
#[test]
fn undo_takes_few_rounds() {
    let namespace = ControlPlane::main().namespace("undo-rounds");
    let _player = incident::start(&namespace, AGED);
    incident::release(&namespace, "two");
    incident::rolled_out(&namespace, "web");
    // Who owns it is asked beside the rest.
    let labels = json!({"argocd.argoproj.io/instance": "absent", "kustomize.toolkit.fluxcd.io/name": "absent",
        "kustomize.toolkit.fluxcd.io/namespace": namespace.name});
    namespace.at(DEPLOYMENTS, "web").merge_patch(&json!({"metadata": {"labels": labels}})).ok();
    let same = slowed(&namespace, &["undo", "web", "--to-revision", "1", "--wait=false", "-y"], 0);
    assert!(rounds(&same) <= 6, "{} rounds with all the same: {:#?}", rounds(&same), lines(&same));
    assert_eq!(same.iter().filter(|p| p.writes()).count(), 1);
    let asked = |what: &str| same.iter().any(|p| p.line().contains(what));
    assert!(asked("/applications") && asked("/kustomizations/absent") && asked("/horizontalpodautoscalers"));

    let namespace = ControlPlane::main().namespace("pin-rounds");
    let _other = incident::start(&namespace, AGED);
    incident::trap(&namespace);
    let pin = slowed(&namespace, &["undo", "web", "--to-revision", "1", "--wait=false", "-y"], 0);
    // One more than the seven of a pin whose content is at hand: this one is looked for in history.
    let back = pin.iter().filter(|p| p.target.contains("resourceVersionMatch=Exact")).count();
    assert!(back > 0, "{:#?}", lines(&pin));
    assert!(rounds(&pin) <= 8, "{} rounds with one pin: {:#?}", rounds(&pin), lines(&pin));
    assert_eq!(pin.iter().filter(|p| p.writes()).count(), 2);
}
