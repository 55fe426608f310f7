//! The lab, played through its own scripts on the real node: each step shows what it must, and what is wrong is refused.

use crate::support::control_plane::ControlPlane;
use crate::support::node::Node;
use crate::support::product::{BINARY, root};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

struct Lab {
    node: ControlPlane,
    folder: tempfile::TempDir,
}

impl Lab {
    /// The lab's applications on the tests' node, as `tests/lab/up` installs them on one of its own.
    fn open(workloads: &[(&str, &str)]) -> Lab {
        let node = Node::open();
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["inputs", "observations"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let tools = fs::read_to_string(node.directory.join("tools")).expect("where kubectl is");
        let plugin = Path::new(BINARY).parent().expect("a folder");
        let environment = format!(
            "export KUBECONFIG='{}' PATH='{}:{}':$PATH NO_PROXY=127.0.0.1 KUBERC=off\n",
            node.kubeconfig.display(),
            tools.trim(),
            plugin.display()
        );
        fs::write(folder.path().join("environment"), environment).expect("written");
        for (_, name) in workloads {
            let manifest = root().join(format!("tests/lab/manifests/{name}.yaml"));
            let applied = node.kubectl(&["apply", "-f", manifest.to_str().expect("a path")]);
            assert!(applied.status.success(), "{applied:?}");
        }
        for (namespace, name) in workloads {
            let arguments = ["rollout", "status", "-n", namespace, &format!("deployment/{name}"), "--timeout=120s"];
            let done = node.kubectl(&arguments);
            assert!(done.status.success(), "{done:?}");
        }
        Lab { node, folder }
    }

    fn script(&self, name: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(root().join("tests/lab").join(name));
        command.args(arguments).env("LAB", self.folder.path()).output().expect("bash runs")
    }

    #[track_caller]
    fn well(&self, name: &str, arguments: &[&str]) -> String {
        let ran = self.script(name, arguments);
        let said = [ran.stdout, ran.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(ran.status.success(), "{name} {arguments:?}:\n{said}");
        said
    }

    /// A line of the page, as typed in the lab's shell: its exit code and what it printed.
    fn shell(&self, line: &str) -> (Option<i32>, String) {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!(". ./environment; {line}")]).current_dir(self.folder.path());
        let ran = shell.output().expect("bash runs");
        (ran.status.code(), String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
    }

    /// `grade` names the file first, and what is wrong in it.
    #[track_caller]
    fn refuses(&self, name: &str, words: &[&str]) {
        let refused = self.script("grade", &[]);
        let said = String::from_utf8_lossy(&refused.stdout).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{name}: {said}");
        let line = said.lines().find(|line| line.starts_with("WRONG")).unwrap_or_default();
        for word in [name].iter().chain(words) {
            assert!(line.contains(word), "{word:?} is not in {line:?}:\n{said}");
        }
    }

    fn input(&self, from: &str, name: &str) {
        let file = root().join(format!("tests/lab/{from}/{name}.json"));
        fs::copy(file, self.folder.path().join(format!("inputs/{name}.json"))).expect("copied");
    }
}

/// Without this the lab would teach something that does not happen, or pass a learner who did something else.
#[test]
fn the_steps_show_what_they_must_and_wrong_files_are_refused() {
    let lab = Lab::open(&[("cnpa-rollback", "checkout"), ("cnpa-rollback-other", "sentinel")]);
    lab.well("capture", &["1"]);
    let inputs: [(&str, &[&str]); 8] = [
        ("2", &["mutable-config"]),
        ("3", &["mutable-release"]),
        ("4", &[]),
        ("5", &[]),
        ("6", &["versioned-configs", "versioned-release"]),
        ("7", &["bad-release"]),
        ("8", &[]),
        ("9", &[]),
    ];
    for (step, files) in inputs {
        files.iter().for_each(|name| lab.input("inputs", name));
        let told = lab.well("act", &[step]);
        match step {
            "4" => assert!(told.contains("No Pod was started, so nothing is proven about the next one."), "{told}"),
            "9" => assert!(
                told.contains("took the place of") && told.contains("it started with the pinned content"),
                "{told}"
            ),
            _ => {}
        }
        lab.well("capture", &[step]);
        // A later state never takes an earlier one's place.
        let again = lab.script("capture", &[step]);
        assert_eq!(again.status.code(), Some(2), "{again:?}");
        lab.well("grade", &[step]);
    }
    lab.well("grade", &[]);
    for (name, field, seen, wanted) in [
        ("mutable-config", ".data.HEALTHY", "true", "false"),
        ("mutable-release", "labhub.io/release", "mutable-v1", "mutable-v2"),
        ("versioned-configs", "names and immutability", "settings-v2 false", "settings-v2 true"),
        ("versioned-release", "the ConfigMap of envFrom", "settings", "settings-v1"),
        ("bad-release", "the ConfigMap of envFrom", "settings-v1", "settings-v2"),
    ] {
        lab.input("wrong", name);
        lab.refuses(name, &[field, seen, wanted]);
        lab.input("inputs", name);
    }
    // Steps without a file of the learner's: what the tools saw, with one thing in it that must not be.
    for (name, field, seen, wanted) in [
        ("baseline", "a Pod of this Deployment", "is false", "is true"),
        ("apparent-rollback", "digest of settings, still the bad one", "is sr1:0000", "is sr1:"),
        ("replacement-failed", "what the substitute runs with", "is v1", "is v2"),
        ("replacement-ready", "uid of settings-v1", "is 0000", "wanted is "),
        ("replacement-pinned", "digest of what all of them hold", "is sr1:0000", "is sr1:"),
    ] {
        let file = lab.folder.path().join(format!("observations/{name}.json"));
        let right = fs::read(&file).expect("an observation");
        let filter = root().join(format!("tests/lab/wrong/{name}.jq"));
        let spoilt = Command::new("jq").arg("-f").arg(filter).arg(&file).output().expect("jq runs");
        assert!(spoilt.status.success() && spoilt.stdout != right, "{spoilt:?}");
        fs::write(&file, spoilt.stdout).expect("written");
        lab.refuses(name, &[field, seen, wanted]);
        // A lost observation is not made up, and not passed over.
        fs::remove_file(&file).expect("removed");
        if name != "replacement-pinned" {
            lab.refuses(name, &["absent", "wanted is the observation of step"]);
        }
        fs::write(&file, right).expect("written");
    }
    // An observation that is not the cluster's is noticed, by what kubectl reads.
    let file = lab.folder.path().join("observations/replacement-pinned.json");
    let text = fs::read_to_string(&file).expect("the last observation");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let uid = document["pods"][0]["uid"].as_str().expect("a uid");
    fs::write(&file, text.replace(uid, "00000000-0000-0000-0000-000000000000")).expect("written");
    lab.refuses("the cluster", &["uids of the live Pods", "00000000"]);
    fs::write(&file, text).expect("written");
    // So is a content that moved since, even one that differs in a line end alone.
    let spoilt = r#"{"data":{"CONFIG_REVISION":"v2\n"}}"#;
    let edit = ["patch", "configmap", "-n", "cnpa-rollback", "settings", "-p", spoilt];
    assert!(lab.node.kubectl(&edit).status.success());
    lab.refuses("the cluster", &["digest of the live configmap/settings"]);
}

/// The first lab is commands of its page: each does what the page says, or a learner is lost.
#[test]
fn the_first_lab_plays_as_its_page_says() {
    let lab = Lab::open(&[("kcna-delivery", "web")]);
    let page = fs::read_to_string(root().join("tests/lab/README.md")).expect("the page");
    let commands = page.split_once("# The first lab").expect("the chapter").1;
    let commands = commands.split_once("```console\n").expect("a block").1.split_once("```").expect("its end").0;
    let mut ran = Vec::new();
    let lines: Vec<&str> = commands.lines().collect();
    for command in lines.iter().filter_map(|line| line.strip_prefix("$ ")) {
        ran.push((command, lab.shell(command)));
    }
    let of = |word: &str| {
        let found: Vec<_> = ran.iter().filter(|(command, _)| command.contains(word)).collect();
        assert_eq!(found.len(), 1, "{word}: {found:#?}");
        (&found[0].1.0, found[0].1.1.as_str())
    };
    let (code, told) = of("status -n kcna-delivery");
    assert_eq!((code, told.contains("progress deadline")), (&Some(4), true), "{told}");
    let (_, undone) = of("saferollback undo");
    assert!(undone.contains("No Pod was started, so nothing is proven about the next one."), "{undone}");
    assert_eq!(of("get configmap").1.trim(), "purple", "no rollback brings green back");
    let (_, history) = of("saferollback history");
    // Which of both it is depends on how fast the lines were typed.
    assert!(history.contains("Changed:colours") || history.contains("Edited:colours"), "{history}");
    assert_eq!(of("saferollback restore").0, &Some(0));
    for (command, (code, told)) in &ran {
        assert!(command.contains("status -n") || *code == Some(0), "{command}: {code:?}: {told}");
    }
    let colour = ["get", "configmap", "-n", "kcna-delivery", "colours", "-o", "jsonpath={.data.COLOUR}"];
    assert_eq!(lab.node.kubectl(&colour).stdout, b"green");
    // What the learner saw stays what it was: the number moved on, the Pods did not.
    let read = |name: &str| -> serde_json::Value {
        let text = fs::read(lab.folder.path().join(name)).expect("an observation");
        serde_json::from_slice(&text).expect("JSON")
    };
    let (good, after) = (read("good.json"), read("after.json"));
    let current = |document: &serde_json::Value| {
        let revisions = document["revisions"].as_array().expect("revisions");
        let current = revisions.iter().find(|one| one["current"] == true).expect("a current one");
        (current["number"].as_u64(), current["object"]["uid"].clone())
    };
    assert!(
        current(&good).0 < current(&after).0 && current(&good).1 == current(&after).1,
        "reused, under a new number"
    );
    let uids = |document: &serde_json::Value| -> std::collections::BTreeSet<String> {
        document["pods"]
            .as_array()
            .expect("Pods")
            .iter()
            .filter(|pod| pod["terminating"] == false)
            .map(|pod| pod["uid"].to_string())
            .collect()
    };
    assert_eq!(uids(&good), uids(&after));
}
