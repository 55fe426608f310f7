//! The README's commands are run, and what it says they print is what they print.
//!
//! In a fenced block marked `console` a line that starts with `$ ` is a command; a command that ends in `\` goes on in
//! the next line. The lines up to the next command are its output, stdout and stderr as a terminal shows them. A last
//! line `[exit N]` is the exit code; without it the code is 0. `$ echo $?` shows the code of the command before it.
//!
//! The built binary stands in for `cargo run -q --`. Commands that start a cluster or need one, install or run all tests
//! are only looked at: a program of the repository must exist and be executable, and no output may be shown.
//! tests/stranger runs those.
//!
//! With `SAFEROLLBACK_UPDATE_README=1` the outputs are written into the README instead.

use crate::support::product::{BINARY, command, root};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

#[derive(Debug, PartialEq, Eq)]
struct Example {
    command: String,
    /// The lines of the page that hold the output.
    lines: Range<usize>,
    output: String,
    code: i32,
}

/// The examples of a page; the message names the line that cannot be understood.
fn examples(page: &str) -> Result<Vec<Example>, String> {
    let lines: Vec<&str> = page.lines().collect();
    let mut found: Vec<Example> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let fence = lines[at].trim();
        if !fence.starts_with("```") {
            at += 1;
            continue;
        }
        let end = (at + 1..lines.len()).find(|i| lines[*i].trim() == "```");
        let end = end.ok_or_else(|| format!("line {}: the block has no end", at + 1))?;
        if fence == "```console" {
            block(&lines, at + 1..end, &mut found)?;
        }
        at = end + 1;
    }
    Ok(found)
}

fn block(lines: &[&str], inside: Range<usize>, found: &mut Vec<Example>) -> Result<(), String> {
    let (mut at, end) = (inside.start, inside.end);
    while at < end {
        let first = lines[at].strip_prefix("$ ");
        let mut command = first.ok_or_else(|| format!("line {}: a command begins with '$ '", at + 1))?.to_string();
        while command.ends_with('\\') {
            at += 1;
            let more =
                lines.get(at).filter(|_| at < end).ok_or_else(|| format!("line {at}: the command has no end"))?;
            command = format!("{} {}", command.trim_end_matches('\\').trim_end(), more.trim_start());
        }
        let start = at + 1;
        at = (start..end).find(|i| lines[*i].starts_with("$ ")).unwrap_or(end);
        let code = at.checked_sub(1).filter(|last| *last >= start).and_then(|last| exit_line(lines[last]));
        let shown = start..at - usize::from(code.is_some());
        let output: String = lines[shown].iter().map(|line| format!("{line}\n")).collect();
        match (command.as_str(), found.last_mut()) {
            ("echo $?", Some(before)) => {
                before.code = output.trim().parse().map_err(|_| format!("line {start}: an exit code is a number"))?;
            }
            _ => found.push(Example { command, lines: start..at, output, code: code.unwrap_or(0) }),
        }
    }
    Ok(())
}

fn exit_line(line: &str) -> Option<i32> {
    line.strip_prefix("[exit ")?.strip_suffix(']')?.parse().ok()
}

/// What is not run here: it starts a cluster, installs, or would run these tests within these tests.
fn only_looked_at(command: &str) -> bool {
    let own = ["tests/run", "tests/control_plane/", "tests/node/", "tests/lab/", "tests/incident/", "krew/"];
    let others = ["cargo install ", "cargo test", "apt-get ", "kubectl ", ". "];
    own.iter().chain(&others).any(|start| command.starts_with(start))
}

fn exists(command: &str) -> Result<(), String> {
    let program = command.split_whitespace().next().unwrap_or_default();
    if ["cargo", "apt-get", "kubectl", "."].contains(&program) {
        return Ok(());
    }
    let file = root().join(program);
    let executable = fs::metadata(&file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    if executable { Ok(()) } else { Err(format!("{program} is no executable file")) }
}

/// Output and exit code, both streams together as a terminal shows them.
fn run(example: &str) -> (String, i32) {
    let quoted = format!("'{BINARY}'");
    let script = example.replace("cargo run -q --", &quoted);
    // A group, so that the streams of every command in it go together.
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{{ {script}\n}} 2>&1")]).current_dir(root()).stdin(Stdio::null()).env_clear();
    shell.envs(command().get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("PATH", "/usr/bin:/bin");
    let ran = shell.output().expect("a shell");
    (String::from_utf8(ran.stdout).expect("UTF-8"), ran.status.code().unwrap_or(-1))
}

/// The page with other outputs.
fn rewritten(page: &str, outputs: &[(Range<usize>, String, i32)]) -> String {
    let lines: Vec<&str> = page.lines().collect();
    let mut text = String::new();
    let mut at = 0;
    for (range, output, code) in outputs {
        lines[at..range.start].iter().for_each(|line| text.extend([line, "\n"]));
        text.push_str(output);
        // A code that `echo $?` shows stays with it.
        let said = lines.get(range.end).is_some_and(|next| next.trim() == "$ echo $?");
        if *code != 0 && !said {
            text.push_str(&format!("[exit {code}]\n"));
        }
        at = range.end;
    }
    lines[at..].iter().for_each(|line| text.extend([line, "\n"]));
    text
}

/// Otherwise the first thing a person tries could be the first thing that is wrong.
#[test]
fn the_readmes_commands_print_what_it_says() {
    let file = root().join("README.md");
    let page = fs::read_to_string(&file).expect("README.md");
    let examples = examples(&page).expect("README.md");
    assert!(examples.iter().any(|e| !only_looked_at(&e.command)), "the README shows the program at work");
    let update = std::env::var_os("SAFEROLLBACK_UPDATE_README").is_some_and(|value| value == "1");
    let mut wrong = Vec::new();
    let mut outputs = Vec::new();
    for example in &examples {
        if only_looked_at(&example.command) {
            exists(&example.command).unwrap_or_else(|why| wrong.push(why));
            if !example.output.is_empty() {
                wrong.push(format!("$ {}\nis not run here, so no output may be shown", example.command));
            }
            continue;
        }
        let (output, code) = run(&example.command);
        if output.lines().any(|line| line.starts_with("```") || line.starts_with("$ ")) {
            wrong.push(format!("$ {}\nprints what would end its block", example.command));
        }
        if (&output, code) != (&example.output, example.code) {
            wrong.push(format!(
                "$ {}\n--- README (exit {})\n{}--- now (exit {code})\n{output}",
                example.command, example.code, example.output
            ));
        }
        outputs.push((example.lines.clone(), output, code));
    }
    if update {
        fs::write(&file, rewritten(&page, &outputs)).expect("README.md");
        return;
    }
    assert!(wrong.is_empty(), "{}\nSAFEROLLBACK_UPDATE_README=1 writes the outputs", wrong.join("\n"));
}

const PAGE: &str = "\
# Title

$ not in a block

```console
$ printf 'a\\nb\\n'
a
b
$ echo one; echo two >&2; exit 3
one
two
[exit 3]
```

```sh
$ not a console
```

```console
$ echo x \\
    y
x y
$ false
$ echo $?
1
$ tests/run
```
";

fn example(command: &str, lines: Range<usize>, output: &str, code: i32) -> Example {
    Example { command: command.into(), lines, output: output.into(), code }
}

/// Otherwise a block could be passed over without a word.
#[test]
fn examples_are_found() {
    let found = examples(PAGE).expect("a page");
    let wanted = [
        example("printf 'a\\nb\\n'", 6..8, "a\nb\n", 0),
        example("echo one; echo two >&2; exit 3", 9..12, "one\ntwo\n", 3),
        example("echo x y", 21..22, "x y\n", 0),
        example("false", 23..23, "", 1),
        example("tests/run", 26..26, "", 0),
    ];
    assert_eq!(found, wanted);
    for example in found.iter().filter(|e| !only_looked_at(&e.command)) {
        assert_eq!(run(&example.command), (example.output.clone(), example.code), "{}", example.command);
    }
}

/// Otherwise a page that is written wrongly would be a page without examples.
#[test]
fn pages_that_cannot_be_understood_are_refused() {
    for page in ["```console\n$ true\n", "```console\noutput first\n```\n", "```console\n$ true \\\n```\n"] {
        assert!(examples(page).is_err(), "{page:?}");
    }
    let odd = examples("```console\n$ false\n$ echo $?\none\n```\n");
    assert!(odd.is_err(), "{odd:?}");
}

/// Otherwise an update could eat a neighbour's lines.
#[test]
fn an_update_writes_outputs_and_nothing_else() {
    let run_again = |page: &str| {
        let found = examples(page).expect("a page");
        let ran = found.iter().filter(|e| !only_looked_at(&e.command));
        ran.map(|e| (e.lines.clone(), e.output.clone(), e.code)).collect::<Vec<_>>()
    };
    assert_eq!(rewritten(PAGE, &run_again(PAGE)), PAGE);
    let mut outputs = run_again(PAGE);
    outputs[0].1 = "c\n".into();
    outputs[1].2 = 0;
    outputs[2].2 = 4;
    let changed = rewritten(PAGE, &outputs);
    let expected =
        PAGE.replace("a\nb\n$", "c\n$").replace("two\n[exit 3]\n", "two\n").replace("x y\n$", "x y\n[exit 4]\n$");
    assert_eq!(changed, expected);
}

/// Otherwise a command that does not exist would be shown for ever.
#[test]
fn commands_that_are_not_run_must_exist() {
    assert!(exists("tests/run -- laws").is_ok());
    assert!(exists("tests/nothing").is_err());
    assert!(exists("tests/main.rs").is_err(), "not executable");
}

/// Otherwise tests/stranger, which nothing runs by itself, could run other commands than the README's, or none.
#[test]
fn the_stranger_runs_the_readmes_commands() {
    let listed = Command::new(root().join("tests/stranger")).arg("--list").output().expect("bash runs");
    let listed = String::from_utf8(listed.stdout).expect("UTF-8");
    let page = fs::read_to_string(root().join("README.md")).expect("README.md");
    let start = page.find("## Install\n").expect("the section");
    let end = page.find("## The verbs\n").expect("the section after");
    let wanted = examples(&page[start..end]).expect("README.md");
    let wanted: String = wanted.iter().map(|e| format!("{}\t{}\n", e.code, e.command)).collect();
    assert_eq!(listed, wanted);
    assert!(listed.contains("krew install") && listed.contains("--verify=replace"), "{listed}");
}
