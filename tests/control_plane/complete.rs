//! TAB through the real kubectl and the real shells, against a real API server.

use super::two_revisions;
use crate::support::client::{CONFIGMAPS, DEPLOYMENTS};
use crate::support::control_plane::{ControlPlane, Namespace, wait};
use crate::support::incident;
use crate::support::product::{self, BINARY, Ran, root};
use crate::support::proxy::{Act, Passing, Proxy};
use crate::support::terminal::Terminal;
use serde_json::json;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// A directory with kubectl, the plugin and its completer, as an install leaves them, and shells beside it.
struct Installed {
    folder: tempfile::TempDir,
    namespace: Namespace,
}

impl Installed {
    fn new(namespace: &Namespace) -> Installed {
        let installed = Installed { folder: tempfile::tempdir().expect("a folder"), namespace: namespace.clone() };
        let bin = installed.folder.path().join("bin");
        fs::create_dir(&bin).expect("a folder");
        let tools = fs::read_to_string(namespace.plane.directory.join("tools")).expect("the tools' directory");
        symlink(PathBuf::from(tools.trim_end()).join("kubectl"), bin.join("kubectl")).expect("a link");
        symlink(BINARY, bin.join("kubectl-saferollback")).expect("a link");
        let mut install = Command::new(bin.join("kubectl-saferollback"));
        install
            .args(["completion", "install", "-y"])
            .env_clear()
            .env("HOME", installed.folder.path())
            .env("PATH", &bin);
        Ran::from(install.output().expect("it runs")).expect(0);
        assert!(bin.join("kubectl_complete-saferollback").is_file());
        // The namespace is the context's, as for a person: what is typed stays as short as theirs.
        installed.namespace.plane.kubectl_with(
            &installed.kubeconfig(),
            &["config", "set-context", "--current", "--namespace", &namespace.name],
        );
        installed
    }

    /// A copy of the control plane's, with the namespace.
    fn kubeconfig(&self) -> PathBuf {
        let file = self.folder.path().join("kubeconfig");
        if !file.exists() {
            fs::copy(&self.namespace.plane.kubeconfig, &file).expect("a copy");
        }
        file
    }

    fn command(&self, program: &str) -> Command {
        let mut path = OsString::from(self.folder.path().join("bin"));
        path.push(":/usr/bin:/bin");
        let mut command = Command::new(program);
        command.env_clear().env("PATH", &path).env("HOME", self.folder.path()).env("KUBECONFIG", self.kubeconfig());
        command.env("KUBERC", "off").env("NO_PROXY", "127.0.0.1").env("LC_ALL", "C.UTF-8");
        command
    }

    /// kubectl's answer for these words, the last one to be completed.
    fn kubectl(&self, words: &[&str]) -> String {
        let mut command = self.command(&self.folder.path().join("bin/kubectl").display().to_string());
        let ran = Ran::from(command.args(["__complete", "saferollback"]).args(words).output().expect("kubectl runs"));
        // Its own notes are there; ours would be, too.
        let ours =
            ran.stderr.lines().filter(|line| !line.starts_with("[Debug]") && !line.starts_with("Completion ended"));
        assert_eq!(ours.collect::<Vec<_>>(), [""; 0], "nothing of ours on stderr");
        assert_eq!(ran.code, 0);
        ran.stdout
    }
}

/// Otherwise all that is here would be for a program that kubectl never asks.
#[test]
fn kubectl_asks_it_for_everything_behind_the_plugins_name() {
    let namespace = ControlPlane::main().namespace("complete");
    namespace.all(CONFIGMAPS).create(&json!({"metadata": {"name": "settings"}, "data": {"a": "secret-value"}})).ok();
    two_revisions(&namespace);
    let installed = Installed::new(&namespace);
    assert!(installed.kubectl(&["u"]).starts_with("undo\tRoll back with known configuration\n:4\n"));

    let revisions = installed.kubectl(&["undo", "web", "--to-revision", ""]);
    let lines: Vec<&str> = revisions.lines().collect();
    assert!(lines.len() == 3 && lines[2] == ":36", "the newest first, in this order: {revisions}");
    assert!(lines[0].starts_with("2\tcurrent, ") && lines[0].ends_with("s old, web:1"), "{revisions}");
    assert!(lines[1].starts_with("1\t") && lines[1].ends_with("s old, web:1"), "{revisions}");

    assert_eq!(installed.kubectl(&["undo", ""]), "web\tDeployment, revision 2\n:4\n");
    assert_eq!(installed.kubectl(&["history", "cm/s"]), "cm/settings\tConfigMap\n:4\n");
    assert_eq!(installed.kubectl(&["restore", ""]).lines().next(), Some("configmap/kube-root-ca.crt\tConfigMap"));
    assert_eq!(installed.kubectl(&["undo", "web", "--use", ""]), "settings=\tConfigMap\n:6\n");
    // Two versions of the content, today's first.
    let edited = json!({"data": {"a": "another-value"}});
    namespace.at(CONFIGMAPS, "settings").merge_patch(&edited).ok();
    // What a busy machine does not find within the second is left out.
    let versions = wait("both versions", || {
        Some(installed.kubectl(&["restore", "cm/settings", "--from", ""])).filter(|v| v.lines().count() > 2)
    });
    let lines: Vec<&str> = versions.lines().collect();
    assert!(lines.len() == 3 && lines[2] == ":32", "the newest first, or a file: {versions}");
    assert!(lines[0].starts_with("sr1:") && lines[0].contains("\tnow, written "), "{versions}");
    assert!(lines[1].starts_with("sr1:") && lines[1].contains("\tAPI history"), "{versions}");
    assert!(!versions.contains("-value"));
    let namespaces = installed.kubectl(&["undo", "-n", &namespace.name[..9]]);
    assert!(namespaces.lines().any(|line| line == namespace.name), "{namespaces}");
    let context = installed.kubectl(&["undo", "--context", ""]);
    assert!(context.ends_with(":4\n") && context.lines().count() == 2, "{context}");

    // kubectl hands its own flags on to the plugin, wherever they stand behind the name.
    let empty = ControlPlane::main().namespace("empty");
    for words in [
        &["undo", "-n", &empty.name, "w"][..],
        &["-n", &empty.name, "undo", "w"],
        &["undo", &format!("--namespace={}", empty.name), "w"],
    ] {
        assert_eq!(installed.kubectl(words), ":4\n", "{words:?}");
    }
    // Whoever presses TAB reads, and nothing but names.
    let ours: Vec<_> =
        namespace.audit().into_iter().filter(|e| e.user_agent.contains("kubectl-saferollback")).collect();
    assert!(ours.len() >= 5 && ours.iter().all(|event| ["get", "list"].contains(&event.verb.as_str())), "{ours:?}");
}

/// Otherwise people would turn completion off.
#[test]
fn an_answer_takes_less_than_a_third_of_a_second() {
    let namespace = ControlPlane::main().namespace("soon");
    two_revisions(&namespace);
    for line in [&["undo", "web", "--to-revision", ""][..], &["undo", ""], &["undo", "-n", ""]] {
        // The best of some: what the machine does beside is not the program's.
        let took: Vec<Duration> = (0..9)
            .map(|_| {
                let mut command = product::command();
                command.env("KUBECONFIG", &namespace.plane.kubeconfig).args(["__complete", "-n", &namespace.name]);
                let began = Instant::now();
                let ran = Ran::from(command.args(line).output().expect("it runs")).expect(0);
                let took = began.elapsed();
                assert!(ran.stdout.lines().count() > 1, "{}", ran.stdout);
                took
            })
            .collect();
        assert!(took.iter().min() < Some(&Duration::from_millis(300)), "{line:?}: {took:?}");
    }
}

/// Otherwise a server at the other end of a VPN would hold the shell for as long as it likes.
#[test]
fn a_slow_server_yields_what_is_known_after_a_second() {
    let namespace = ControlPlane::main().namespace("late");
    let mut cart = incident::web(1);
    cart["metadata"]["name"] = json!("cart");
    namespace.all(DEPLOYMENTS).create(&cart).ok();
    namespace.all(CONFIGMAPS).create(&json!({"metadata": {"name": "settings"}})).ok();
    let slow = Duration::from_secs(2);
    let all = Proxy::new(&namespace, move |_, _| Act::After(slow));
    let some = Proxy::new(&namespace, move |_, passing| match passing.target.contains("/configmaps") {
        true => Act::After(slow),
        false => Act::Pass,
    });
    let asked = |proxy: &Proxy, words: &[&str]| {
        let began = Instant::now();
        let ran = product::command()
            .env("KUBECONFIG", &proxy.kubeconfig)
            .args(["__complete", "-n", &namespace.name])
            .args(words)
            .output();
        let (ran, took) = (Ran::from(ran.expect("it runs")), began.elapsed());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{words:?}");
        assert!(took < Duration::from_millis(1900), "before the first answer: {words:?}: {took:?}");
        ran.stdout
    };
    assert_eq!(asked(&all, &["undo", "cart", "--to-revision", ""]), ":4\n");
    assert!(asked(&all, &["undo", ""]).contains("--to-revision\t"), "the flags need no server");
    assert!(asked(&all, &["und"]).starts_with("undo\t"));
    assert_eq!(asked(&some, &["history", "c"]), "cart\tDeployment, revision 1\n:4\n", "the names so far");
    let names_only = |passing: &Passing| passing.accept.contains("PartialObjectMetadataList");
    let config_maps: Vec<Passing> = some.log().into_iter().filter(|p| p.target.contains("/configmaps")).collect();
    assert!(
        !config_maps.is_empty() && config_maps.iter().all(names_only),
        "no content travels for a name: {config_maps:?}"
    );
    assert!(all.log().iter().chain(&some.log()).all(|passing| passing.method == "GET"));
}

/// What a shell needs to be started, and how it is told of both commands.
struct Shell {
    name: &'static str,
    arguments: &'static [&'static str],
    /// The file that it reads at its start, below the home directory.
    file: &'static str,
    start: &'static str,
}

const BASH: Shell = Shell {
    name: "bash",
    arguments: &["--noprofile", "--rcfile", "rc", "-i"],
    file: "rc",
    start: "source /usr/share/bash-completion/bash_completion\nsource <(kubectl completion bash)\nsource COMPLETIONS/kubectl-saferollback.bash\nbind 'set enable-bracketed-paste off'\nbind 'set bell-style none'\nbind 'set show-all-if-ambiguous on'\nPS1='ready> '\n",
};

const ZSH: Shell = Shell {
    name: "zsh",
    arguments: &["-d", "-i"],
    file: ".zshrc",
    start: "fpath=(COMPLETIONS $fpath)\nautoload -Uz compinit\ncompinit -u -D\nsource <(kubectl completion zsh)\nbindkey -e\nunsetopt prompt_sp\nPS1='ready> '\n",
};

const FISH: Shell = Shell {
    name: "fish",
    arguments: &["-i"],
    file: ".config/fish/config.fish",
    start: "kubectl completion fish | source\nsource COMPLETIONS/kubectl-saferollback.fish\nfunction fish_prompt; echo 'ready> '; end\nset -U fish_greeting\n",
};

/// Starts it on a terminal, ready for keys.
fn shell(installed: &Installed, shell: &Shell) -> Terminal {
    let file = installed.folder.path().join(shell.file);
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    let completions = root().join("completions").display().to_string();
    fs::write(&file, shell.start.replace("COMPLETIONS", &completions)).expect("a file");
    fs::write(installed.folder.path().join("file.yaml"), "").expect("a file");
    let mut command = installed.command(shell.name);
    command.args(shell.arguments).current_dir(installed.folder.path());
    let mut terminal = Terminal::start(command, 40, 120);
    terminal.until("ready> ");
    terminal
}

/// Types a line, a TAB and an x; the line that stands there then.
fn completed(terminal: &mut Terminal, typed: &str, waits: &str) -> String {
    terminal.seen.clear();
    // A busy machine's shell may be silent and still be on its way to its next line.
    terminal.until_it_reads();
    terminal.keys(typed);
    terminal.until_silent();
    terminal.keys("\t");
    terminal.until(waits);
    terminal.until_silent();
    // To the begin of the line, where a printf makes it a harmless command: its words, in braces.
    terminal.seen.clear();
    terminal.keys("x\u{1}printf '{%s}' \r");
    terminal.until_then("{kubectl", "ready> ");
    let end = terminal.seen.rfind('}').expect("a brace");
    let begin = terminal.seen[..=end].rfind("{kubectl").expect("the words");
    terminal.seen[begin..=end].to_string()
}

/// Both commands: kubectl asks for the first one, the shell's own script for the second.
fn tab_works_in(one: &Shell) {
    let namespace = ControlPlane::main().namespace(one.name);
    namespace.all(CONFIGMAPS).create(&json!({"metadata": {"name": "settings"}, "data": {"a": "b"}})).ok();
    let digest = ["history", "configmap/settings", "-o", "jsonpath={.versions[0].digest}"];
    let digest = &namespace.run(&digest).expect(0).stdout[..16];
    two_revisions(&namespace);
    let installed = Installed::new(&namespace);
    let mut terminal = shell(&installed, one);
    for command in ["kubectl saferollback", "kubectl-saferollback"] {
        let words = format!("{{{}}}", command.replace(' ', "}{"));
        let mut line = |typed: &str, waits: &str, then: &str| {
            let stands = completed(&mut terminal, &format!("{command} {typed}"), waits);
            assert_eq!(stands, format!("{words}{then}"), "{} {command} {typed}", one.name);
        };
        line("und", "undo", "{undo}{x}");
        line("undo w", "web", "{undo}{web}{x}");
        line("undo deploy/w", "deploy/web", "{undo}{deploy/web}{x}");
        line("undo web --dry-run=cl", "client", "{undo}{web}{--dry-run=client}{x}");
        // No blank here: a file or a digest follows.
        line("undo web --use se", "settings=", "{undo}{web}{--use}{settings=x}");
        // A colon parts words for bash, and descriptions for zsh.
        line(
            "restore cm/settings --from sr1:",
            digest,
            &format!("{{restore}}{{cm/settings}}{{--from}}{{{digest}}}{{x}}"),
        );
        line("undo web --use settings=sr1:", digest, &format!("{{undo}}{{web}}{{--use}}{{settings={digest}}}{{x}}"));
        line("undo --from-file fi", "file.yaml", "{undo}{--from-file}{file.yaml}{x}");
        // Several: they are listed, with what tells them apart.
        terminal.seen.clear();
        terminal.until_it_reads();
        terminal.keys(&format!("{command} undo web --to-revision "));
        terminal.until_silent();
        terminal.keys("\t");
        terminal.until("current, ");
        terminal.until_silent();
        let (newest, any) = (terminal.seen.find("current, "), terminal.seen.find(" old, web:1"));
        assert!(newest < any, "the newest first: {} {command}: {}", one.name, terminal.seen);
        // Ctrl-C leaves the line.
        terminal.seen.clear();
        terminal.keys("\u{3}");
        terminal.until("ready> ");
    }
}

/// Otherwise it would work by the letter of kubectl's protocol, and not under anybody's fingers.
#[test]
fn tab_works_in_bash() {
    tab_works_in(&BASH);
}

/// The same.
#[test]
fn tab_works_in_zsh() {
    tab_works_in(&ZSH);
}

/// The same.
#[test]
fn tab_works_in_fish() {
    tab_works_in(&FISH);
}
