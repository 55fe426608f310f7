//! `-o`: what scripts get.

use crate::support::product::{self, Ran};
use crate::support::terminal::Terminal;
use saferollback::cli::output::Template;
use serde_json::{Value, json};

const FILES: [&str; 2] = ["--from-file", "tests/incident"];

fn filled(template: &str, value: &Value) -> String {
    template.parse::<Template>().expect(template).fill(value).expect(template)
}

/// Without this a script that kubectl taught its user would print something else here.
#[test]
fn templates_are_kubectls() {
    let value = json!({
        "name": "web", "n": 3, "no": null, "map": {"a.b/c": "dotted", "x-y": 1},
        "list": [{"k": "a", "v": "same"}, {"k": "b", "v": "changed", "bad": "\u{1b}[31m"}],
    });
    for (template, wanted) in [
        ("{.name}", "web"),
        ("{ .name }{'\\n'}", "web\n"),
        ("{name}", "web"),
        ("{$.name} and {@.n}", "web and 3"),
        (".name", ".name"),
        ("{.absent}{.no}", ""),
        ("{.map.a\\.b/c}", "dotted"),
        ("{.map['a.b/c']}", "dotted"),
        ("{.map.x-y}", "1"),
        ("{.list[*].k}", "a b"),
        ("{.list[-1:].k}", "b"),
        ("{.list[0]}", "{\"k\":\"a\",\"v\":\"same\"}"),
        ("{.list[?(@.v==\"changed\")].k}", "b"),
        ("{..k}", "a b"),
        ("{range .list[*]}{.k}={.v}{\"\\n\"}{end}", "a=same\nb=changed\n"),
        ("{range .list[*]}{range .absent}x{end}{end}", ""),
        ("{\"}\"}{.n}", "}3"),
        ("{.list[1].bad}", "\\u{1b}[31m"),
    ] {
        assert_eq!(filled(template, &value), wanted, "{template}");
    }
    for wrong in ["{.a", "{range .a}", "{end}", "{.a[}", "{.a[?(]}", "{.a[x]}"] {
        assert!(wrong.parse::<Template>().is_err(), "{wrong}");
    }
}

fn printed(arguments: &[&str], output: &str) -> String {
    let ran = product::run(&[arguments, &["-o", output], &FILES].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.stdout
}

/// Otherwise `-o name | xargs` would get a table, or nothing.
#[test]
fn names_are_those_that_kubectl_takes() {
    assert_eq!(printed(&["history", "web"], "name"), "deployment.apps/web\n");
    assert_eq!(printed(&["history", "configmap/settings"], "name"), "configmap/settings\n");
    assert_eq!(printed(&["restore", "configmap/settings"], "name"), "configmap/settings\n");
    assert_eq!(printed(&["undo", "web", "--to-revision", "1"], "name"), "deployment.apps/web\n");
    assert_eq!(printed(&["observe", "web"], "name"), "deployment.apps/web\n");
    // kubectl names what it changed; of what was refused there is no name to go on with.
    let refused = product::run(&[
        "undo",
        "web",
        "--to-revision",
        "1",
        "--use",
        "settings=sr1:00000000",
        "-o",
        "name",
        FILES[0],
        FILES[1],
    ]);
    assert_eq!((refused.code, refused.stdout.as_str()), (3, ""), "{refused:?}");
}

/// Otherwise one value would need a JSON tool, and a verb could go without it.
#[test]
fn every_verb_fills_a_template() {
    let path = "jsonpath={.kind} {.configMap.name}{.workload.name}{\"\\n\"}";
    for (arguments, wanted) in [
        (&["history", "web"][..], "History web"),
        (&["diff", "web"], "Diff web"),
        (&["status", "web"], "Status web"),
        (&["observe", "web"], "Observation web"),
        (&["undo", "web", "--to-revision", "1"], "Plan web"),
        (&["history", "cm/settings"], "ConfigMapHistory settings"),
        (&["restore", "cm/settings"], "Restore settings"),
    ] {
        let ran = product::run(&[arguments, &["-o", path], &FILES].concat());
        assert_eq!(ran.stdout, format!("{wanted}\n"), "{arguments:?}: {}", ran.stderr);
    }
    let verdicts = "jsonpath={range .revisions[*]}{.number}:{range .references[*]}{.verdict}{end} {end}";
    assert_eq!(printed(&["history", "web"], verdicts), "1:changed 2:same ");
}

/// Otherwise a script would take a header for a revision.
#[test]
fn without_headers_there_are_rows_alone() {
    for (arguments, rows) in [(["history", "web"], 2), (["history", "cm/settings"], 2), (["observe", "web"], 3)] {
        let ran = product::run(&[&arguments[..], &["--no-headers"], &FILES].concat());
        let lines: Vec<&str> = ran.stdout.lines().take_while(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), rows, "{}", ran.stdout);
        let upper = |line: &&&str| line.split(' ').next().is_some_and(|word| word.chars().all(char::is_uppercase));
        assert!(!lines.iter().any(|line| upper(&line)), "{}", ran.stdout);
    }
}

/// Otherwise a file would hold escape sequences, or a person would read green as healthy.
#[test]
fn colours_are_for_terminals_and_there_is_no_green() {
    let coloured = |flags: &[&str]| product::run(&[&["history", "web"], flags, &FILES[..]].concat()).stdout;
    assert!(!coloured(&[]).contains('\u{1b}'), "stdout is no terminal");
    assert_eq!(coloured(&["--color=never"]), coloured(&[]));
    let always = coloured(&["--color=always"]);
    assert!(always.contains("\u{1b}[31mChanged:settings\u{1b}[0m   "), "{always}");
    assert!(!always.contains("\u{1b}[32m") && always.contains("   Same "), "{always}");
    assert_eq!(always.replace("\u{1b}[31m", "").replace("\u{1b}[0m", ""), coloured(&[]), "colours move no column");
}

/// Otherwise those who asked all programs for no colours would get them, and those who did not none.
#[test]
fn a_terminal_has_colours_unless_no_color_is_set() {
    let seen = |no: &[(&str, &str)]| {
        let mut command = product::command();
        command.args(["history", "web"]).args(FILES).env("TERM", "xterm").envs(no.iter().copied());
        Terminal::start(command, 40, 100).end().expect(0).stderr
    };
    assert!(seen(&[]).contains("\u{1b}[31mChanged:settings"));
    assert!(seen(&[("NO_COLOR", "")]).contains("\u{1b}[31m"), "empty is not set");
    assert!(!seen(&[("NO_COLOR", "1")]).contains("\u{1b}[31m"));
    assert!(!seen(&[("TERM", "dumb")]).contains("\u{1b}[31m"));
}

/// Otherwise `| head -1` would end in a panic's text, or a full disk in a report that nobody has (C102).
#[test]
fn a_closed_pipe_is_no_failure_and_a_full_disk_is_one() {
    for form in ["json", "wide"] {
        let history = || {
            let mut command = product::command();
            command.args(["history", "web", "-o", form]).args(FILES);
            command
        };
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let closed = Ran::from(history().stdout(writer).output().expect("it runs"));
        assert_eq!(closed.code, 0, "{closed:?}");
        assert!(!closed.stderr.contains("panicked") && !closed.stderr.contains("error"), "{}", closed.stderr);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full disk");
        let full = Ran::from(history().stdout(full).output().expect("it runs"));
        assert_eq!(full.code, 1, "{full:?}");
        assert!(
            full.stderr.contains("error: the result could not be written to stdout: No space left"),
            "{}",
            full.stderr
        );
    }
}
