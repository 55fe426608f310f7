//! One template that uses a ConfigMap in every way: what each of its containers read is told to the byte. Tests that
//! hold verdicts against the containers' word rest on this.

use super::app::told;
use crate::support::client::CONFIGMAPS;
use crate::support::control_plane::{Namespace, wait};
use crate::support::node::{self, Node, PORT, Said, Texts};
use serde_json::{Value, json};

const SIDE: u16 = 8081;

/// The ConfigMap's data, of one version: nothing in it can be mistaken for the other's.
fn data(version: &str) -> Texts {
    let page = format!("{version}: \"quoted\" \\ \u{1}é\r\nno line end");
    [("A", format!("a-{version}")), ("B", String::new()), ("page", page)].map(|(k, v)| (k.to_owned(), v)).into()
}

/// What no text holds; the same in all versions.
const LOGO: &[u8] = b"\0\xff\xfe\n";

/// Every way at once: keys and a prefix in the environment, the whole, chosen files, one file and a projection as
/// mounts; an init container and a second container that read for themselves.
fn every_use() -> Value {
    let mut web = node::web(1);
    let spec = &mut web["spec"]["template"]["spec"];
    let key = |name: &str, key: &str| json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": "settings", "key": key}}});
    spec["volumes"] = json!([
        {"name": "whole", "configMap": {"name": "settings"}},
        {"name": "items", "configMap": {"name": "settings", "items": [{"key": "page", "path": "deep/er/page"}]}},
        {"name": "projected", "projected": {"sources": [
            {"configMap": {"name": "settings", "items": [{"key": "A", "path": "A"}]}},
            {"configMap": {"name": "absent", "optional": true}},
        ]}},
        {"name": "shared", "emptyDir": {}},
    ]);
    let shared = json!({"name": "shared", "mountPath": "/shared"});

    let app = &mut spec["containers"][0];
    app["env"] = json!([{"name": "HEALTHY", "value": "true"}, key("ONE", "A")]);
    app["envFrom"] = json!([{"prefix": "P_", "configMapRef": {"name": "settings"}}]);
    app["volumeMounts"] = json!([
        {"name": "whole", "mountPath": "/config/v0"},
        {"name": "items", "mountPath": "/config/v1"},
        {"name": "whole", "mountPath": "/config/v2/page", "subPath": "page"},
        {"name": "projected", "mountPath": "/config/v3"},
        shared,
    ]);
    let mut side = node::container("side", &["serve", &SIDE.to_string()]);
    side["env"] = json!([key("SIDE", "page")]);
    spec["containers"].as_array_mut().expect("containers").push(side);
    let mut first = node::container("first", &["init", "first"]);
    first["env"] = json!([key("FIRST", "A")]);
    first["volumeMounts"] = json!([{"name": "whole", "mountPath": "/config"}, shared]);
    let mut second = node::container("second", &["init", "second"]);
    second["env"] = json!([key("SECOND", "B")]);
    second["volumeMounts"] = json!([shared]);
    spec["initContainers"] = json!([first, second]);
    web
}

/// The Pod's name, after it read the first version.
fn deployed(prefix: &str) -> (Namespace, String) {
    let namespace = Node::namespace(prefix);
    let settings = json!({
        "metadata": {"name": "settings"},
        "data": data("one"),
        "binaryData": {"logo": "AP/+Cg=="},
    });
    namespace.all(CONFIGMAPS).create(&settings).ok();
    node::deploy(&namespace, &every_use());
    let pod = node::name(&node::pods(&namespace, "web")[0]).to_owned();
    (namespace, pod)
}

fn named(pairs: &[(&str, &str)]) -> Texts {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// Those variables that come from the template: the runtime and the API server's Service add others.
fn own(env: &Texts) -> Texts {
    let ours = |name: &str| name.starts_with("P_") || matches!(name, "ONE" | "SIDE" | "FIRST" | "SECOND");
    env.iter().filter(|(name, _)| ours(name)).map(|(name, text)| (name.clone(), text.clone())).collect()
}

fn app_env(version: &str) -> Texts {
    let data = data(version);
    named(&[("ONE", &data["A"]), ("P_A", &data["A"]), ("P_B", ""), ("P_page", &data["page"])])
}

fn whole(version: &str, below: &str) -> Texts {
    let files = data(version).into_iter().chain([("logo".to_owned(), told(LOGO))]);
    files.map(|(key, text)| (format!("{below}{key}"), text)).collect()
}

/// The app's files: those behind the subPath are of a version of their own.
fn app_files(version: &str, page: &str) -> Texts {
    let mut files = whole(version, "v0/");
    let data = data(version);
    files.extend(named(&[("v1/deep/er/page", &data["page"]), ("v3/A", &data["A"])]));
    files.extend(named(&[("v2/page", &self::data(page)["page"])]));
    files
}

#[track_caller]
fn init_read(said: &Said, version: &str) {
    assert_eq!(said.init.keys().collect::<Vec<_>>(), ["first", "second"]);
    let (first, second) = (&said.init["first"], &said.init["second"]);
    assert_eq!(own(&first.env), named(&[("FIRST", &data(version)["A"])]));
    assert_eq!(first.files_at_start, whole(version, ""));
    assert_eq!((own(&second.env), &second.files_at_start), (named(&[("SECOND", "")]), &Texts::new()));
}

/// A use whose bytes the program tells wrongly, or not at all, could refute no verdict on it.
#[test]
fn every_container_tells_the_bytes_of_every_use() {
    let (namespace, pod) = deployed("uses");
    let app = node::said(&namespace, &pod);
    assert_eq!(own(&app.env), app_env("one"));
    assert_eq!(app.files, app_files("one", "one"));
    assert_eq!(app.files_at_start, app.files);
    init_read(&app, "one");
    let side = node::said_at(&namespace, &pod, SIDE);
    assert_eq!(own(&side.env), named(&[("SIDE", &data("one")["page"])]));
    assert!(side.files.is_empty() && side.files_at_start.is_empty() && side.init.is_empty(), "{side:?}");
    assert!(node::ready(&namespace, &pod));
}

/// After an edit one Pod holds both versions, each where Kubernetes leaves or renews it. Told of one of them alone, a
/// verdict on the other would pass for right (C48).
#[test]
fn an_edit_is_told_where_it_was_read_and_nowhere_else() {
    let (namespace, pod) = deployed("uses-edited");
    namespace.at(CONFIGMAPS, "settings").merge_patch(&json!({"data": data("two")})).ok();
    let side = node::crash_at(&namespace, &pod, "side", SIDE);
    assert_eq!(own(&side.env), named(&[("SIDE", &data("two")["page"])]), "a restarted container reads anew");
    wait("the volumes' refresh", || {
        (node::pod_answer(&namespace, &pod, PORT, "/")?.files == app_files("two", "one")).then_some(())
    });
    let app = node::said(&namespace, &pod);
    assert_eq!(own(&app.env), app_env("one"), "the container beside it did not restart");
    assert_eq!(app.files_at_start, app_files("one", "one"));
    init_read(&app, "one");
    let app = node::crash(&namespace, &pod);
    assert_eq!(own(&app.env), app_env("two"));
    assert_eq!(app.files_at_start, app_files("two", "two"), "the file behind the subPath is bound anew");
    init_read(&app, "one");
}
