//! Credentials over time: refused, expired, read again; and plugins that ask, hang or are not there.

use super::connection::{SERVER, World, one, with_plugin};
use super::workload;
use crate::support::client::DEPLOYMENTS;
use crate::support::control_plane::wait;
use crate::support::product::{Ran, command};
use crate::support::terminal::Terminal;
use saferollback::cluster::kubeconfig::{Connection, ConnectionFlags, Environment};
use saferollback::cluster::read::{Resource, Select};
use saferollback::cluster::{Cluster, Patience};
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const NEVER: &str = "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never";

/// A world with one rolled out Deployment.
fn world(prefix: &str) -> World {
    let world = World::new(prefix);
    world.namespace.all(DEPLOYMENTS).create(&workload("Deployment", 0)).ok();
    wait("the controller", || {
        let web = world.namespace.at(DEPLOYMENTS, "web").get().ok();
        (web["status"]["observedGeneration"] == web["metadata"]["generation"]).then_some(())
    });
    world
}

fn kubeconfig(world: &World, text: &str) -> PathBuf {
    let file = world.file("config");
    fs::write(&file, world.filled(text, 0)).expect("written");
    let _ = fs::remove_file(world.runs(0));
    file
}

fn runs(world: &World) -> usize {
    fs::read_to_string(world.runs(0)).map_or(0, |text| text.lines().count())
}

fn verb(world: &World, text: &str, arguments: &[&str]) -> Command {
    let mut verb = command();
    verb.env("KUBECONFIG", kubeconfig(world, text)).env("PATH", "/usr/bin:/bin");
    verb.args(arguments).args(["-n", &world.namespace.name]);
    verb
}

fn ran(world: &World, text: &str, arguments: &[&str]) -> Ran {
    verb(world, text, arguments).output().expect("the binary runs").into()
}

/// The tests' own client has a runtime of its own, which may not be used inside of this one.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

async fn cluster(world: &World, text: &str) -> Cluster {
    let flags = ConnectionFlags { kubeconfig: Some(kubeconfig(world, text)), ..ConnectionFlags::default() };
    let connection = Connection::load(&flags, &Environment::default()).expect("a connection");
    Cluster::connect(&connection).await.expect("a client")
}

/// Without this a session that was ended elsewhere would fail a run that a fresh token could have finished, or a plugin
/// would be run for every request of a user whom the server does not know.
#[test]
fn a_refused_credential_is_renewed_once() {
    let world = world("renewed");
    for (does, code, times) in [("late", 0, 2), ("late-certificate", 0, 2), ("never", 1, 2), ("expired", 0, 1)] {
        let history = ran(&world, &with_plugin(does, NEVER), &["history", "deploy/web"]);
        assert_eq!((history.code, runs(&world)), (code, times), "{does}: {history:?}");
        if code != 0 {
            assert!(history.stderr.contains("hint: the server does not take these credentials"), "{history:?}");
        }
    }
    let who: Vec<String> = world.namespace.audit().iter().map(|event| event.user["username"].to_string()).collect();
    assert!(who.iter().any(|name| name == "\"alice\"") && !who.iter().any(|name| name == "\"stranger\""), "{who:?}");
}

/// Without this a write that meets the end of a session would be lost, or be done twice.
#[test]
fn a_write_that_was_not_let_in_is_sent_again_and_done_once() {
    let world = world("let-in");
    // The plugin's second answer is an administrator.
    for (admin, alice) in [("admin.crt", "alice.crt"), ("admin.key", "alice.key")] {
        fs::copy(world.file(admin), world.file(alice)).expect("a copy");
    }
    block_on(async {
        let cluster = cluster(&world, &with_plugin("late-certificate", NEVER)).await;
        assert_eq!(runs(&world), 0, "nothing is run before the first request");
        let body = json!({"metadata": {"name": "made"}});
        cluster.create(Resource::ConfigMaps, &world.namespace.name, &body, false).await.expect("created");
    });
    assert_eq!(runs(&world), 2);
    let made = world.namespace.audit().iter().filter(|event| event.name == "made" && event.verb == "create").count();
    assert_eq!(made, 1);
}

/// Without this a long wait would end with the token it began with.
#[test]
fn an_expired_credential_is_renewed_before_it_is_used() {
    let world = world("expired");
    block_on(async {
        let cluster = cluster(&world, &with_plugin("brief", NEVER)).await;
        let list =
            async || cluster.list(Resource::Deployments, &world.namespace.name, Select::All).await.expect("a list");
        let (a, b) = tokio::join!(list(), list());
        assert_eq!((a.items.len(), b.items.len(), runs(&world)), (1, 1, 1), "parallel requests run it once");
        tokio::time::sleep(Duration::from_millis(2100)).await;
        list().await;
        list().await;
        assert_eq!(runs(&world), 2);
    });
}

/// Without this a Pod's token, which is changed every hour, would end what runs longer.
#[test]
fn a_token_file_is_read_again_when_its_token_is_refused() {
    let world = world("file");
    block_on(async {
        fs::write(world.file("kept"), "stale\n").expect("written");
        let cluster = cluster(&world, &one(SERVER, "tokenFile: kept")).await;
        let list = async || cluster.list(Resource::Deployments, &world.namespace.name, Select::All).await;
        let refused = list().await.unwrap_err().to_string();
        assert!(refused.contains("401") && cluster.requests() == 1, "the same token is not sent again: {refused}");
        fs::copy(world.file("token"), world.file("kept")).expect("a copy");
        list().await.expect("a list");
        assert_eq!(cluster.requests(), 3);
    });
}

/// Without this a plugin that waits for a browser that nobody has would hold a script for ever, and stay behind.
#[test]
fn a_plugin_that_hangs_is_ended() {
    let world = world("hang");
    block_on(async {
        let patience = Patience { sign_in: Some(Duration::from_millis(500)), ..Patience::default() };
        let cluster = cluster(&world, &with_plugin("hang", NEVER)).await.with_patience(patience);
        let began = Instant::now();
        let list = || cluster.list(Resource::Deployments, &world.namespace.name, Select::All);
        let (one, other) = tokio::join!(list(), list());
        let text = one.unwrap_err().to_string();
        assert!(text.ends_with("/plugin.sh\" did not end within 500ms"), "{text}");
        assert_eq!(other.unwrap_err().to_string(), text);
        assert!(began.elapsed() < Duration::from_secs(5));
        assert_eq!((runs(&world), cluster.requests()), (1, 0));
    });
    let pid = fs::read_to_string(world.runs(0).with_extension("pid")).expect("it began");
    let process = PathBuf::from(format!("/proc/{}", pid.trim()));
    let stat = || fs::read_to_string(process.join("stat")).unwrap_or_default();
    // Gone, or dead and not yet collected.
    wait("its end", || (stat().is_empty() || stat().contains(") Z ")).then_some(()));
}

/// Without this nobody could type a password, or a script without a terminal would wait for one (C98).
#[test]
fn a_plugin_asks_at_a_terminal_and_nowhere_else() {
    let world = world("asks");
    for mode in ["IfAvailable", "Always"] {
        let text = with_plugin("ask", &format!("apiVersion: client.authentication.k8s.io/v1, interactiveMode: {mode}"));
        let mut terminal = Terminal::start(verb(&world, &text, &["status", "deploy/web"]), 24, 80);
        terminal.until("Password: ");
        terminal.keys("open\n");
        let shown = terminal.end().expect(0);
        assert!(shown.stderr.contains("successfully rolled out"), "{shown:?}");
        let info = fs::read_to_string(world.runs(0).with_extension("info")).expect("told");
        assert!(info.contains("\"interactive\":true"), "{info}");
    }
    // stdin is not a terminal here, and what is piped into us is not the plugin's.
    let alone =
        ran(&world, &with_plugin("ask", &NEVER.replace("Never", "IfAvailable")), &["status", "deploy/web"]).expect(1);
    assert!(alone.stderr.contains("gave neither a token nor a certificate"), "{alone:?}");
    let always =
        ran(&world, &with_plugin("ask", &NEVER.replace("Never", "Always")), &["status", "deploy/web"]).expect(1);
    assert!(always.stderr.contains("needs a terminal") && runs(&world) == 0, "{always:?}");
}

/// Without this nobody would know what to install, though the kubeconfig says it.
#[test]
fn the_hint_of_a_missing_plugin_is_shown() {
    let world = world("hint");
    let hint = "installHint: \"Install it:\\n\\n  brew install x\\e[31m\"";
    let text = one(SERVER, &format!("exec: {{command: no-such-plugin, {NEVER}, {hint}}}"));
    let missing = ran(&world, &text, &["status", "deploy/web"]).expect(1);
    assert!(
        missing.stderr.ends_with(
            "the credential plugin \"no-such-plugin\" is not installed\nhint: Install it:\n\n  brew install x\\u{1b}[31m\n"
        ),
        "{missing:?}"
    );
}
