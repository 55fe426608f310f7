//! `completion`: the scripts and the file for kubectl, and where that is put.

use crate::support::control_plane::wait;
use crate::support::product::{self, BINARY, Ran, root};
use crate::support::terminal::Terminal;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const COMPLETER: &str = "kubectl_complete-saferollback";

/// Otherwise a package could ship scripts that are not this program's, or that the shells cannot read.
#[test]
fn the_files_are_what_the_program_prints_and_shells_can_read() {
    let files = [
        (COMPLETER, &["install", "--print"][..], "sh"),
        ("kubectl-saferollback.bash", &["bash"], "bash"),
        ("_kubectl-saferollback", &["zsh"], "zsh"),
        ("kubectl-saferollback.fish", &["fish"], "fish"),
        ("kubectl-saferollback.ps1", &["powershell"], ""),
    ];
    let folder = root().join("completions");
    for (file, arguments, shell) in files {
        let path = folder.join(file);
        let printed = product::run(&[&["completion"], arguments].concat()).expect(0);
        assert_eq!(
            (printed.stdout, printed.stderr.as_str()),
            (fs::read_to_string(&path).expect("a script"), ""),
            "{file}"
        );
        if !shell.is_empty() {
            let checked = Command::new(shell).arg("-n").arg(&path).output().expect("tests/run installs the shells");
            assert!(checked.status.success(), "{shell}: {checked:?}");
        }
    }
    let mode = fs::metadata(folder.join(COMPLETER)).expect("the file for kubectl").permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "it can be run as it is");
    let mut there: Vec<String> = fs::read_dir(&folder)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let mut named: Vec<&str> = files.iter().map(|(file, ..)| *file).collect();
    there.sort_unstable();
    named.sort_unstable();
    assert_eq!(there, named, "nothing is left there that is not printed");
}

/// A home directory with the plugin where krew puts it, and a directory of the PATH outside of it.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { folder: tempfile::tempdir().expect("a folder") };
        for directory in ["home/.krew/bin", "home/bin", "usr/bin"] {
            fs::create_dir_all(machine.at(directory)).expect("a folder");
        }
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn plugin_in(self, directory: &str) -> Machine {
        symlink(BINARY, self.at(directory).join("kubectl-saferollback")).expect("a link");
        self
    }

    fn command(&self, path: &[&str], arguments: &[&str]) -> Command {
        let path: Vec<PathBuf> = path.iter().map(|directory| self.at(directory)).collect();
        let mut command = product::command();
        command.env("HOME", self.at("home")).env("PATH", std::env::join_paths(path).expect("a PATH"));
        command.args(["completion", "install"]).args(arguments);
        command
    }

    fn install(&self, path: &[&str]) -> Ran {
        self.command(path, &["-y"]).output().expect("it runs").into()
    }

    /// All files, but the plugin's link.
    fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder").flatten() {
                match entry.file_type().expect("a type").is_dir() {
                    true => folders.push(entry.path()),
                    false if entry.file_name() == "kubectl-saferollback" => {}
                    false => found.push(self.below(&entry.path())),
                }
            }
        }
        found
    }

    fn below(&self, path: &Path) -> String {
        path.strip_prefix(self.folder.path()).expect("below").display().to_string()
    }
}

/// Otherwise TAB would do nothing after an install that said it was done.
#[test]
fn it_is_written_where_kubectl_finds_it_and_once() {
    let machine = Machine::new().plugin_in("home/.krew/bin");
    let path = ["usr/bin", "home/bin", "home/.krew/bin"];
    let file = machine.at("home/.krew/bin").join(COMPLETER);
    let first = machine.install(&path).expect(0);
    assert_eq!((first.stdout, first.stderr), (format!("{} created\n", file.display()), String::new()));
    assert_eq!(machine.files(), [format!("home/.krew/bin/{COMPLETER}")], "and nothing else");
    let shipped = root().join("completions").join(COMPLETER);
    assert_eq!(fs::read(&file).expect("the file"), fs::read(shipped).expect("the file"));
    assert_eq!(fs::metadata(&file).expect("the file").permissions().mode() & 0o777, 0o755);

    let again = machine.install(&path).expect(0);
    assert_eq!(again.stdout, format!("{} is there already: nothing to do\n", file.display()));

    // An older one of ours.
    fs::write(&file, "#!/bin/sh\n# Written by: kubectl saferollback completion install\nexit 1\n").expect("written");
    assert_eq!(machine.install(&path).expect(0).stdout, format!("{} replaced\n", file.display()));
    assert_eq!(machine.install(&path).expect(0).stdout, again.stdout);

    // A link to the plugin does the same work.
    fs::remove_file(&file).expect("removed");
    symlink(BINARY, &file).expect("a link");
    let link = machine.install(&path).expect(0);
    assert_eq!(link.stdout, format!("{} is a link to the plugin: nothing to do\n", file.display()));
    assert!(fs::symlink_metadata(&file).expect("the file").is_symlink());
}

/// Otherwise krew, once it has no plugin left, would take its home for an outdated one and do nothing any more.
#[test]
fn krews_directory_is_the_last_choice() {
    let machine = Machine::new().plugin_in("home/.krew/bin");
    fs::create_dir_all(machine.at("home/.krew/receipts")).expect("a folder");
    fs::create_dir_all(machine.at("home/env/bin")).expect("a folder");
    let written = |path: &[&str], stderr: &str| {
        let ran = machine.install(path).expect(0);
        assert!(ran.stderr.contains(stderr) && (stderr.is_empty() == ran.stderr.is_empty()), "{ran:?}");
        let files = machine.files();
        files.iter().for_each(|file| fs::remove_file(machine.at(file)).expect("removed"));
        files
    };
    let path = ["home/.krew/bin", "home/env/bin", "usr/bin", "home/bin"];
    assert_eq!(written(&path, ""), [format!("home/bin/{COMPLETER}")], "the usual one");
    assert_eq!(written(&path[..3], ""), [format!("home/env/bin/{COMPLETER}")]);
    let warned = "krew's own, and no other directory of the PATH is yours: remove the file before you uninstall";
    assert_eq!(written(&["home/.krew/bin", "usr/bin"], warned), [format!("home/.krew/bin/{COMPLETER}")]);
}

/// Otherwise an install could write where other users' commands come from, or destroy somebody's file.
#[test]
fn nothing_is_written_outside_of_home_or_over_another_file() {
    // The plugin is the system's: another directory of the PATH that is the user's own.
    let machine = Machine::new().plugin_in("usr/bin");
    let ran = machine.install(&["usr/bin", "home/bin"]).expect(0);
    assert_eq!(ran.stdout, format!("{} created\n", machine.at("home/bin").join(COMPLETER).display()));
    assert_eq!(machine.files(), [format!("home/bin/{COMPLETER}")]);

    let machine = Machine::new().plugin_in("usr/bin");
    let ran = machine.install(&["usr/bin"]).expect(1);
    assert!(ran.stderr.starts_with("error: nothing was written: no directory of the PATH is below "), "{}", ran.stderr);
    // A directory that leads out of the home directory is not in it.
    symlink(machine.at("usr/bin"), machine.at("home/away")).expect("a link");
    machine.install(&["home/away", "home/missing"]).expect(1);
    assert_eq!(machine.files(), ["home/away"]);

    let machine = Machine::new().plugin_in("home/bin");
    let file = machine.at("home/bin").join(COMPLETER);
    let foreign = |machine: &Machine| {
        let ran = machine.install(&["home/bin"]).expect(3);
        let said = format!("error: refused, nothing was written: {} is there already, and not ours\n", file.display());
        assert_eq!((ran.stdout.as_str(), ran.stderr), ("", said));
    };
    fs::write(&file, "#!/bin/sh\necho mine\n").expect("written");
    foreign(&machine);
    assert_eq!(fs::read_to_string(&file).expect("the file"), "#!/bin/sh\necho mine\n");
    fs::remove_file(&file).expect("removed");
    symlink("/nonexistent", &file).expect("a link");
    foreign(&machine);
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("a folder");
    foreign(&machine);
}

/// Otherwise a file would be written that kubectl never looks at, without a word.
#[test]
fn a_directory_that_is_not_on_the_path_is_named() {
    let machine = Machine::new();
    let program = machine.at("home/bin/kubectl-saferollback");
    // A copy, so that this is where the program itself lies.
    fs::copy(BINARY, &program).expect("a copy");
    for said in ["created", "is there already: nothing to do"] {
        let mut command = Command::new(&program);
        command.env_clear().env("HOME", machine.at("home")).args(["completion", "install", "-y"]);
        // A test beside this one may just be starting a program, and hold the copy open for a moment.
        let ran = wait("the copy to be at rest", || command.output().ok());
        let ran = Ran::from(ran).expect(0);
        assert_eq!(ran.stdout, format!("{} {said}\n", machine.at("home/bin").join(COMPLETER).display()));
        let warning =
            format!("Warning: {} is not on the PATH, where kubectl looks for it\n", machine.at("home/bin").display());
        assert_eq!(ran.stderr, warning);
    }
}

/// Otherwise a program would be put on somebody's PATH without having been asked for.
#[test]
fn it_asks_first() {
    let machine = Machine::new().plugin_in("home/.krew/bin");
    let path = ["home/.krew/bin"];
    let ran = Ran::from(machine.command(&path, &[]).output().expect("it runs")).expect(2);
    assert!(ran.stderr.contains("needs --yes"), "{}", ran.stderr);

    let mut no = Terminal::start(machine.command(&path, &[]), 24, 200);
    no.until("(y/N): ");
    no.keys("n\r");
    let seen = no.end().expect(0).stderr;
    let file = machine.at("home/.krew/bin").join(COMPLETER);
    assert!(
        seen.contains(&format!("{}:", file.display())) && seen.contains("exec kubectl-saferollback __complete"),
        "{seen}"
    );
    assert!(seen.contains("nothing was written"), "{seen}");
    assert_eq!(machine.files(), [""; 0]);

    let mut yes = Terminal::start(machine.command(&path, &[]), 24, 200);
    yes.until("Write it? (y/N): ");
    yes.keys("y\r");
    yes.end().expect(0);
    assert_eq!(machine.files(), [format!("home/.krew/bin/{COMPLETER}")]);
}
