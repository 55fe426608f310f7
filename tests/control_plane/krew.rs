//! Installed by the real krew: from an index and an archive of our own, run by the real kubectl, upgraded, removed.
//!
//! krew reads archives over HTTP only, so that a thread of the test serves them; nothing else of the network is used.

use crate::control_plane::{settings, two_revisions};
use crate::support::control_plane::{ControlPlane, Namespace};
use crate::support::product::{Ran, root};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// Of an upgrade: krew tells versions from each other by the manifest alone.
const NEXT: &str = "v9.0.0";
const PLATFORMS: [&str; 5] = ["linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64"];
const HERE: &str = if cfg!(target_arch = "aarch64") { "linux_arm64" } else { "linux_amd64" };

/// One person's krew, in a folder of its own.
struct Krew {
    folder: tempfile::TempDir,
    tools: PathBuf,
    kubeconfig: PathBuf,
}

impl Krew {
    fn new(plane: &ControlPlane) -> Krew {
        let folder = tempfile::tempdir().expect("a folder");
        let tools = fs::read_to_string(plane.directory.join("tools")).expect("where kubectl is");
        let krew = Krew { folder, tools: PathBuf::from(tools.trim()), kubeconfig: plane.kubeconfig.clone() };
        for name in ["home", "tmp", "index/plugins", "bin", "dist"] {
            fs::create_dir_all(krew.at(name)).expect("a folder");
        }
        // kubectl finds its plugins by their names.
        symlink(krew.tools.join("krew"), krew.at("bin/kubectl-krew")).expect("a link");
        krew
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &str) -> Command {
        let mut path = OsString::from(self.at("home/.krew/bin"));
        for folder in [&self.at("bin"), self.tools.as_path(), Path::new("/usr/bin"), Path::new("/bin")] {
            path.push(":");
            path.push(folder);
        }
        // By its path: a program is looked up on the PATH of this process.
        let there = self.tools.join(program);
        let mut command = Command::new(if there.exists() { there } else { PathBuf::from(program) });
        command.env_clear().env("PATH", path).env("HOME", self.at("home")).env("TMPDIR", self.at("tmp"));
        command.env("KREW_ROOT", self.at("home/.krew")).env("KREW_NO_UPGRADE_CHECK", "1").env("KUBERC", "off");
        command.env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::null()).current_dir(self.folder.path());
        command
    }

    #[track_caller]
    fn well(&self, program: &str, arguments: &[&str]) -> Ran {
        Ran::from(self.command(program).args(arguments).output().expect("it runs")).expect(0)
    }

    #[track_caller]
    fn kubectl(&self, arguments: &[&str]) -> Ran {
        self.well("kubectl", arguments)
    }

    /// Puts a version into the index, as a maintainer of krew-index merges it.
    fn publish(&self, manifest: &str) {
        fs::write(self.at("index/plugins/saferollback.yaml"), manifest).expect("written");
        let index = self.at("index");
        let index = index.to_str().expect("a path");
        self.well("git", &["-C", index, "add", "."]);
        let who = ["-c", "user.name=tests", "-c", "user.email=tests@saferollback.invalid"];
        self.well("git", &[&["-C", index][..], &who, &["commit", "-q", "-m", "saferollback"]].concat());
    }

    fn link(&self) -> PathBuf {
        self.at("home/.krew/bin/kubectl-saferollback")
    }
}

/// Serves the files of a folder by their names, whatever comes before these in the path.
fn serve(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = BufReader::new(stream);
            let mut head = String::new();
            // A line of two bytes is the empty one that ends the request.
            while stream.read_line(&mut head).is_ok_and(|length| length > 2) {}
            let name = head.split(' ').nth(1).and_then(|path| path.rsplit('/').next()).unwrap_or_default();
            let (status, body) = match fs::read(folder.join(name)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            // Whoever does not read on has its reasons.
            let _ = stream.get_mut().write_all(&[head.as_bytes(), &body].concat());
        }
    });
    address
}

#[track_caller]
fn script(name: &str, arguments: &[&str]) -> Ran {
    let ran = Command::new(root().join("krew").join(name)).args(arguments).stdin(Stdio::null()).output();
    Ran::from(ran.expect("bash runs")).expect(0)
}

/// The manifest as it stands in the repository.
fn unreleased() -> String {
    fs::read_to_string(root().join("krew/saferollback.yaml")).expect("the manifest")
}

/// Otherwise the manifest that people read would not be the one that is released.
#[test]
fn the_manifest_is_what_the_template_gives() {
    let nothing = tempfile::tempdir().expect("a folder");
    let nothing = nothing.path().to_str().expect("a path");
    let repository = "https://github.com/OWNER/kubectl-saferollback";
    assert_eq!(script("render", &["--unreleased", repository, nothing]).stdout, unreleased());
    // Nor is a release made with an archive missing.
    let refused = Command::new(root().join("krew/render")).args([repository, nothing]).output().expect("bash runs");
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
}

fn workload(plane: &ControlPlane) -> Namespace {
    let namespace = plane.namespace("krew");
    settings(&namespace);
    two_revisions(&namespace);
    namespace
}

/// Without this a stranger's first command could fail: a manifest that krew refuses, an archive without the program or
/// with one that needs this machine's libraries, an upgrade that leaves the old version behind.
#[test]
fn krew_installs_upgrades_and_removes_what_the_release_packs() {
    let plane = ControlPlane::main();
    let namespace = workload(&plane);
    let krew = Krew::new(&plane);
    let dist = krew.at("dist");
    let dist = dist.to_str().expect("a path");

    script("package", &[dist]);
    let packed = format!("kubectl-saferollback_{VERSION}_{HERE}.tar.gz");
    // The other platforms' binaries are built elsewhere. krew runs none of them: it looks for names, and for a licence.
    let unpacked = krew.at("unpacked");
    fs::create_dir(&unpacked).expect("a folder");
    krew.well("tar", &["-xzf", &format!("{dist}/{packed}"), "-C", unpacked.to_str().expect("a path")]);
    let binary = unpacked.join("kubectl-saferollback");
    for platform in PLATFORMS.into_iter().filter(|p| *p != HERE) {
        script("archive", &[platform, binary.to_str().expect("a path"), dist]);
    }
    let manifest = script("render", &[&serve(krew.at("dist")), dist]).stdout;
    assert!(!manifest.contains('@'), "{manifest}");

    let file = krew.at("saferollback.yaml");
    fs::write(&file, &manifest).expect("written");
    let valid = krew.well("validate-krew-manifest", &["-manifest", file.to_str().expect("a path")]);
    assert!(valid.stderr.contains("all 5 spec.platforms installed fine"), "{valid:?}");

    krew.well("git", &["init", "-q", "-b", "main", krew.at("index").to_str().expect("a path")]);
    krew.publish(&manifest);
    krew.kubectl(&["krew", "index", "add", "ours", krew.at("index").to_str().expect("a path")]);
    let installed = krew.kubectl(&["krew", "install", "ours/saferollback"]);
    for words in ["Installed plugin: saferollback", "kubectl saferollback completion install"] {
        assert!(installed.stderr.contains(words), "{installed:?}");
    }
    let store = |version: &str| krew.at("home/.krew/store/saferollback").join(version);
    assert_eq!(fs::read_link(krew.link()).expect("a link"), store(VERSION).join("kubectl-saferollback"));
    assert!(store(VERSION).join("LICENSE").is_file());
    let said = krew.kubectl(&["saferollback", "version"]).stdout;
    assert_eq!(said, format!("kubectl-saferollback {VERSION}\n"));
    let history = ["saferollback", "history", "deployment/web", "-n", &namespace.name];
    let table = krew.kubectl(&history).stdout;
    assert!(table.contains("CONFIG-NOW") && table.lines().count() >= 4, "{table}");
    // A static program has no help from the machine's libraries when it looks up a name.
    let named = fs::read_to_string(&plane.kubeconfig)
        .expect("a kubeconfig")
        .replace("https://127.0.0.1:", "https://localhost:");
    fs::write(krew.at("named"), named).expect("written");
    let mut by_name = krew.command("kubectl");
    let by_name = by_name.args(history).env("KUBECONFIG", krew.at("named")).output().expect("kubectl runs");
    assert_eq!(Ran::from(by_name).expect(0).stdout.lines().count(), table.lines().count());
    // As found in the archive, not as this test built it.
    assert_eq!(fs::read(krew.link()).expect("the program"), fs::read(&binary).expect("the program"));

    // TAB, set up and taken away as krew's caveats say.
    let set_up = krew.kubectl(&["saferollback", "completion", "install", "--yes"]);
    let completer = krew.at("home/.krew/bin/kubectl_complete-saferollback");
    assert!(completer.is_file() && set_up.stderr.contains("remove the file before you uninstall"), "{set_up:?}");
    let verbs = || krew.kubectl(&["__complete", "saferollback", "und"]).stdout;
    assert!(verbs().starts_with("undo\t"), "{}", verbs());

    krew.publish(&manifest.replace(&format!("version: {VERSION}"), &format!("version: {NEXT}")));
    let upgraded = krew.kubectl(&["krew", "upgrade", "saferollback"]);
    assert!(upgraded.stderr.contains(&format!("saferollback {VERSION} -> {NEXT}")), "{upgraded:?}");
    assert_eq!(fs::read_link(krew.link()).expect("a link"), store(NEXT).join("kubectl-saferollback"));
    assert!(!store(VERSION).exists(), "the old version is gone");
    assert_eq!(krew.kubectl(&history).stdout.lines().count(), table.lines().count());
    assert!(verbs().starts_with("undo\t"), "{}", verbs());

    assert!(installed.stderr.contains("kubectl_complete-saferollback, before you uninstall"), "{installed:?}");
    fs::remove_file(&completer).expect("removed");
    krew.kubectl(&["krew", "uninstall", "saferollback"]);
    assert!(!krew.link().exists() && !krew.at("home/.krew/store/saferollback").exists());
    assert!(!krew.kubectl(&["krew", "list"]).stdout.contains("saferollback"));

    // Without an index, as krew/README.md says, from the folder that krew/package wrote.
    let archive = format!("--archive={dist}/{packed}");
    krew.kubectl(&["krew", "install", &format!("--manifest={dist}/saferollback.yaml"), &archive]);
    assert_eq!(krew.kubectl(&["saferollback", "version"]).stdout, said);
}

/// Without this a corrupted download, or another file behind the same address, would be installed.
#[test]
fn krew_refuses_an_archive_that_is_not_the_manifests() {
    let plane = ControlPlane::main();
    let krew = Krew::new(&plane);
    let binary = krew.at("other");
    fs::write(&binary, "another program\n").expect("written");
    let archive = |platform: &str| {
        let (binary, dist) = (binary.to_str().expect("a path").to_string(), krew.at("dist"));
        script("archive", &[platform, &binary, dist.to_str().expect("a path")]);
        krew.at("dist").join(format!("kubectl-saferollback_{VERSION}_{platform}.tar.gz"))
    };
    let archive = archive("darwin_arm64");
    let manifest = root().join("krew/saferollback.yaml");
    let arguments = [format!("--manifest={}", manifest.display()), format!("--archive={}", archive.display())];
    let refused = krew.command("kubectl").args(["krew", "install"]).args(arguments).output().expect("kubectl runs");
    let refused = Ran::from(refused);
    assert!(refused.code != 0 && refused.stderr.contains("checksum does not match"), "{refused:?}");
    assert!(!krew.link().exists());
}
