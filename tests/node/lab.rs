//! The lab, played through its own scripts on the real node: each step shows what it must, and what is wrong is refused.

use crate::support::node::Node;
use crate::support::product::{BINARY, root};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    /// The lab's applications on the tests' node, as `tests/lab/up` installs them on one of its own.
    fn open() -> Lab {
        let node = Node::open();
        let lab = Lab { folder: tempfile::tempdir().expect("a folder") };
        for folder in ["inputs", "observations"] {
            fs::create_dir(lab.folder.path().join(folder)).expect("a folder");
        }
        let tools = fs::read_to_string(node.directory.join("tools")).expect("where kubectl is");
        let plugin = Path::new(BINARY).parent().expect("a folder");
        let environment = format!(
            "export KUBECONFIG='{}' PATH='{}:{}':$PATH NO_PROXY=127.0.0.1 KUBERC=off\n",
            node.kubeconfig.display(),
            tools.trim(),
            plugin.display()
        );
        fs::write(lab.folder.path().join("environment"), environment).expect("written");
        for name in ["checkout", "sentinel"] {
            let manifest = root().join(format!("tests/lab/manifests/{name}.yaml"));
            let applied = node.kubectl(&["apply", "-f", manifest.to_str().expect("a path")]);
            assert!(applied.status.success(), "{applied:?}");
        }
        for (namespace, name) in [("cnpa-rollback", "checkout"), ("cnpa-rollback-other", "sentinel")] {
            let arguments = ["rollout", "status", "-n", namespace, &format!("deployment/{name}"), "--timeout=120s"];
            let done = node.kubectl(&arguments);
            assert!(done.status.success(), "{done:?}");
        }
        lab
    }

    fn script(&self, name: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(root().join("tests/lab").join(name));
        command.args(arguments).env("LAB", self.folder.path()).output().expect("bash runs")
    }

    #[track_caller]
    fn well(&self, name: &str, arguments: &[&str]) -> String {
        let ran = self.script(name, arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(ran.status.success(), "{name} {arguments:?}:\n{}\n{}", text(&ran.stdout), text(&ran.stderr));
        text(&ran.stdout)
    }

    fn input(&self, from: &str, name: &str) {
        let file = root().join(format!("tests/lab/{from}/{name}.json"));
        fs::copy(file, self.folder.path().join(format!("inputs/{name}.json"))).expect("copied");
    }
}

/// Without this the lab would teach something that does not happen, or pass a learner who did something else.
#[test]
fn the_steps_show_what_they_must_and_wrong_files_are_refused() {
    let lab = Lab::open();
    lab.well("capture", &["1"]);
    let inputs: [(&str, &[&str]); 7] = [
        ("2", &["mutable-config"]),
        ("3", &["mutable-release"]),
        ("4", &[]),
        ("5", &[]),
        ("6", &["versioned-configs", "versioned-release"]),
        ("7", &["bad-release"]),
        ("8", &[]),
    ];
    for (step, files) in inputs {
        files.iter().for_each(|name| lab.input("inputs", name));
        lab.well("act", &[step]);
        lab.well("capture", &[step]);
        // A later state never takes an earlier one's place.
        let again = lab.script("capture", &[step]);
        assert_eq!(again.status.code(), Some(2), "{again:?}");
        lab.well("grade", &[step]);
    }
    for (name, field, seen, wanted) in [
        ("mutable-config", ".data.HEALTHY", "true", "false"),
        ("mutable-release", "labhub.io/release", "mutable-v1", "mutable-v2"),
        ("versioned-configs", "names and immutability", "settings-v2 false", "settings-v2 true"),
        ("versioned-release", "the ConfigMap of envFrom", "settings", "settings-v1"),
        ("bad-release", "the ConfigMap of envFrom", "settings-v1", "settings-v2"),
    ] {
        lab.input("wrong", name);
        let refused = lab.script("grade", &[]);
        let said = String::from_utf8_lossy(&refused.stdout).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{name}: {said}");
        let line = said.lines().find(|line| line.starts_with("WRONG")).unwrap_or_default();
        for word in [name, field, seen, wanted] {
            assert!(line.contains(word), "{word:?} is not in {line:?}");
        }
        lab.input("inputs", name);
    }
    // An observation that is not the cluster's is noticed, by what kubectl reads.
    let file = lab.folder.path().join("observations/replacement-ready.json");
    let text = fs::read_to_string(&file).expect("the last observation");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let uid = document["pods"][0]["uid"].as_str().expect("a uid");
    fs::write(&file, text.replace(uid, "00000000-0000-0000-0000-000000000000")).expect("written");
    let refused = lab.script("grade", &[]);
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(!refused.status.success() && said.contains("WRONG    the cluster: uids of the live Pods"), "{said}");
}
