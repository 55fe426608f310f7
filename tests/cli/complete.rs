//! The answer to TAB, as far as it needs no cluster: verbs, flags, values, and the objects of a dump.

use crate::support::product::{self, BINARY, Ran};
use crate::support::terminal::Terminal;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

fn silent(ran: Ran) -> String {
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    ran.stdout
}

/// The words behind the plugin's name, parted by blanks; the last one is the one to complete.
fn complete(line: &str) -> String {
    let mut command = product::command();
    command.current_dir(product::root()).arg("__complete").args(line.split(' '));
    silent(command.output().expect("it runs").into())
}

/// The same without the descriptions.
fn words(line: &str) -> String {
    let answer = complete(line);
    answer.lines().map(|line| line.split('\t').next().unwrap_or_default()).collect::<Vec<_>>().join(" ")
}

/// Otherwise TAB would offer what cannot stand there, or not offer what can.
#[test]
fn what_can_come_next() {
    let lines = [
        "",
        "u",
        "-",
        "--con",
        "undo --v",
        "undo --dry",
        "undo --dry-run=",
        "undo --wait=",
        "undo --config l",
        "undo -o ",
        "undo -o jsonpath",
        "undo -o jsonpath=",
        "--color=",
        "undo -y -",
        "undo -n shop --na",
        "undo -nshop --name",
        "undo web -- -",
        "undo -n",
        "history web -o=j",
        "history nothing/ ",
        "snapshot ",
        "snapshot create --re",
        "completion ",
        "rbac --for h",
        "undo --timeout ",
        "undo --use settings=",
        "undo --kubeconfig ",
        "undo --kubeconfig=",
        "observe --out ",
        "undo --from-file ",
        "restore cm/x --from ",
        "nothing ",
        "version ",
        "undo web --to-revision ",
    ];
    let answers: Vec<String> = lines.iter().map(|line| format!("{line:?}: {}", words(line))).collect();
    insta::assert_snapshot!("complete", answers.join("\n"));
}

/// Otherwise the words of a workload, of a ConfigMap and of a revision would have to be looked up and typed.
#[test]
fn objects_are_offered_in_the_spelling_that_was_begun() {
    let lines = [
        "",
        "w",
        "web ",
        "dep",
        "deployment/",
        "deploy/w",
        "deployment ",
        "deployments.apps w",
        "sts/",
        "sts ",
        "x/",
        "c",
        "cm",
        "cm/",
        "cm ",
        "configmap s",
    ];
    let mut answers = Vec::new();
    for verb in ["undo", "history", "check"] {
        let line = |end: &&str| format!("{verb} --from-file tests/incident {end}");
        answers.extend(lines.iter().map(|end| format!("{verb} {end:?}: {}", words(&line(end)))));
    }
    for line in [
        "restore --from-file tests/incident ",
        "restore --from-file tests/incident set",
        "restore cm --from-file tests/incident ",
        "undo web --from-file tests/incident --use ",
        "undo web --from-file tests/incident --use set",
        "undo web --from-file tests/incident --use settings=",
        "undo web --from-file tests/incident --use settings=sr1:c",
        "restore cm --from-file tests/incident settings --from=sr1:0",
        "undo --from-file tests/incident --to-revision ",
    ] {
        answers.push(format!("{line}: {}", words(line)));
    }
    for line in
        ["undo web --to-revision ", "check deploy/web --to-revision=", "history web --revision ", "diff web --to "]
    {
        answers.push(format!("{line}\n{}", complete(&line.replacen(' ', " --from-file tests/incident ", 1))));
    }
    let versions = "restore cm/settings --from-file tests/incident --from ";
    answers.push(format!("{versions}\n{}", complete(versions)));
    insta::assert_snapshot!("complete_objects", answers.join("\n"));
}

/// Otherwise every machine would need another file: a link or a copy under kubectl's name for it is enough.
#[test]
fn the_binary_completes_under_the_completers_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("kubectl_complete-saferollback");
    symlink(BINARY, &link).expect("a link");
    let ran = Command::new(&link).args(["snapshot", "cr"]).env_clear().output().expect("it runs");
    let answer = silent(ran.into());
    assert_eq!(answer, "create\tSave what the containers of a workload read, as far as it can be found\n:4\n");
    // All that it is given is words to complete, none of them a flag for itself.
    for word in ["--help", "version", "--version"] {
        let ran = Command::new(&link).args([word, ""]).env_clear().output().expect("it runs");
        assert!(silent(ran.into()).ends_with(":4\n"), "{word}");
    }
}

fn kubeconfig(folder: &tempfile::TempDir, server: &str, user: &str) -> String {
    let file = folder.path().join("config");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: one\nclusters:\n- {{name: c1, cluster: {{server: '{server}'}}}}\n- {{name: c2, cluster: {{server: '{server}'}}}}\ncontexts:\n- {{name: one, context: {{cluster: c1, user: u}}}}\n- {{name: one-shop, context: {{cluster: c1, user: u, namespace: shop}}}}\n- {{name: 'two words', context: {{cluster: c2, user: u, namespace: elsewhere}}}}\n- {{name: \"odd\\e[31m\", context: {{cluster: c2, user: u}}}}\nusers:\n- {{name: u, user: {user}}}\n"
    );
    fs::write(&file, text).expect("a file");
    file.display().to_string()
}

/// Otherwise the most dangerous flag of all, the one that chooses the cluster, would have to be typed by heart.
#[test]
fn contexts_and_their_namespaces_come_from_the_kubeconfig() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = kubeconfig(&folder, "http://127.0.0.1:1", "{}");
    let contexts = complete(&format!("--kubeconfig {file} undo web --context "));
    assert_eq!(contexts, "one\tc1\none-shop\tc1\ntwo words\tc2\n:4\n", "control characters are left out");
    assert_eq!(complete(&format!("undo --context=one- --kubeconfig={file} --context=tw")), "two words\tc2\n:4\n");
    // Wrappers put a flag before a person's: of two the last counts.
    assert_eq!(
        complete(&format!("-n x --kubeconfig /none undo -n y --kubeconfig {file} --context=o")),
        contexts.replace("two words\tc2\n", "")
    );
    // The server does not answer, but what the file tells is known; of another cluster it would be wrong.
    assert_eq!(complete(&format!("undo --kubeconfig {file} -n ")), "shop\n:4\n");
    let mut other = product::command();
    other.args(["__complete", "undo", "--kubeconfig", &file, "--context", "two words", "--namespace="]);
    assert_eq!(silent(other.output().expect("it runs").into()), "elsewhere\n:4\n");
}

/// Otherwise a TAB would freeze the shell where the cluster is far away or gone, or print an error into the line.
#[test]
fn a_server_that_never_answers_is_left_after_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let hole = TcpListener::bind("127.0.0.1:0").expect("a port");
    let file = kubeconfig(&folder, &format!("http://{}", hole.local_addr().expect("an address")), "{}");
    for (line, known) in [("web --to-revision ", ":4"), ("-n ", "shop\n:4"), ("--use ", ":4")] {
        let began = Instant::now();
        assert_eq!(complete(&format!("undo --kubeconfig {file} {line}")), format!("{known}\n"));
        let took = began.elapsed();
        assert!(took > Duration::from_millis(900) && took < Duration::from_secs(3), "{line}: {took:?}");
    }
    let flags = words(&format!("undo --kubeconfig {file} "));
    assert!(flags.contains("--to-revision") && flags.ends_with(" :4"), "no name is known, but the flags are: {flags}");
}

/// On a terminal, as kubectl hands it on: all that is printed there.
fn on_a_terminal(file: &str) -> String {
    let mut command = product::command();
    command.env("PATH", "/usr/bin:/bin").args(["__complete", "undo", "--kubeconfig", file, "web", "--to-revision", ""]);
    let began = Instant::now();
    let shown = Terminal::start(command, 24, 80).end().expect(0).stderr;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    shown
}

/// Otherwise a TAB could open a browser, or ask for a password in the middle of a line.
#[test]
fn a_credential_plugin_that_asks_is_not_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("ran");
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always, command: touch, args: ['MARK']}}";
    let file = kubeconfig(&folder, "https://127.0.0.1:1", &exec.replace("MARK", &mark.display().to_string()));
    assert_eq!(on_a_terminal(&file), ":4\r\n");
    assert!(!mark.exists());
}

/// Otherwise a plugin that can ask, and often need not, would do so; or a slow one would hold the shell up, talk into the
/// line, and go on when nobody waits any more.
#[test]
fn a_credential_plugin_may_neither_ask_nor_talk_nor_take_longer() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: IfAvailable, command: sh, args: [-c, 'echo $KUBERNETES_EXEC_INFO >INFO; echo $$ >PID; echo hear me >&2; exec sleep 60']}}";
    let exec = exec.replace("INFO;", &format!("{};", at("info"))).replace("PID", &at("pid"));
    let file = kubeconfig(&folder, "https://127.0.0.1:1", &exec);
    assert_eq!(on_a_terminal(&file), ":4\r\n");
    let info = fs::read_to_string(at("info")).expect("it was run");
    assert!(info.contains("\"interactive\":false"), "{info}");
    let pid = fs::read_to_string(at("pid")).expect("its number");
    let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "it was ended: {state}");
}

/// Otherwise what is piped in for the command would be eaten before the command runs, or a broken file would be reported
/// into the line.
#[test]
fn stdin_and_broken_files_are_left_alone() {
    assert_eq!(words("undo --from-file - web --to-revision "), ":4");
    assert_eq!(words("undo --from-file /nonexistent web --to-revision "), ":4");
    assert_eq!(words("undo --from-file Cargo.toml web --to-revision "), ":4");
    assert_eq!(words("undo --kubeconfig /nonexistent web --to-revision "), ":4");
}
