use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use saferollback::cluster::offline::{Dump, DumpError};
use saferollback::cluster::read::{ReadError, Resource, Select};
use tempfile::TempDir;

const MAPS: Resource = Resource::ConfigMaps;

fn dump(text: &str) -> Dump {
    let mut dump = Dump::default();
    dump.add(Path::new("dump.yaml"), text.as_bytes()).unwrap();
    dump
}

fn names(dump: &Dump, select: Select<'_>) -> Vec<String> {
    dump.list(MAPS, "shop", select).unwrap().items.iter().map(|item| item.name().to_string()).collect()
}

fn error(name: &str, bytes: &[u8]) -> String {
    Dump::default().add(Path::new(name), bytes).unwrap_err().to_string()
}

#[test]
fn documents_and_lists_of_both_kinds_are_read() {
    let dump = dump(
        "# a comment first
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: shop, resourceVersion: '5'}
data:
  text: |
    --- not a marker, it is indented
    x
  flag: 'on'
--- # the next
# only a comment
---
apiVersion: v1
kind: List
metadata: {resourceVersion: ''}
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: shop}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}
...
---
apiVersion: v1
kind: ConfigMapList
metadata: {resourceVersion: '70'}
items:
- {metadata: {name: c, namespace: shop, resourceVersion: '6'}}
- {metadata: {name: d, namespace: bar, resourceVersion: '7'}}
---
{\"kind\": \"PodList\", \"apiVersion\": \"v1\", \"metadata\": {\"resourceVersion\": \"71\"}, \"items\": null}
",
    );
    assert_eq!(names(&dump, Select::All), ["a", "b", "c"]);
    let list = dump.list(MAPS, "", Select::All).unwrap();
    assert_eq!((list.items.len(), list.version), (4, Some(70)));
    assert_eq!(list.items[2].kind(), "ConfigMap");
    assert_eq!(list.items[0].str_at("/data/text"), "--- not a marker, it is indented\nx\n");
    assert_eq!(dump.lists(MAPS), [(2, 70)]);
    assert_eq!(dump.lists(Resource::Pods), [(3, 71)]);
    let kinds: Vec<(String, usize)> = dump.kinds().into_iter().collect();
    assert_eq!(kinds, [("ConfigMap".to_string(), 4), ("Deployment".to_string(), 1)]);
    assert_eq!(dump.workload_namespaces().into_iter().collect::<Vec<_>>(), ["shop"]);
}

#[test]
fn scalars_follow_yaml_1_2() {
    let dump = dump(
        "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a, creationTimestamp: 2026-01-02T03:04:05Z}\n\
         x: {on: on, yes: yes, t: true, n: null, i: 12, neg: -3, f: 1.5, s: '12', under: 1_000, big: 18446744073709551615, mode: 0644, v: 1.35.4}\n",
    );
    let item = &dump.list(MAPS, "shop", Select::All).unwrap().items[0];
    assert_eq!(
        item.0["x"].to_string(),
        r#"{"on":"on","yes":"yes","t":true,"n":null,"i":12,"neg":-3,"f":1.5,"s":"12","under":"1_000","big":18446744073709551615,"mode":420,"v":"1.35.4"}"#
    );
    assert_eq!(item.str_at("/metadata/creationTimestamp"), "2026-01-02T03:04:05Z");
}

#[test]
fn json_keeps_numbers_as_they_are_written() {
    let mut dump = Dump::default();
    let text = "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"},\"x\":1.50,\"y\":1e+3}\n\n\
                [{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"b\"}}]";
    dump.add(Path::new("x.json"), text.as_bytes()).unwrap();
    let items = dump.list(MAPS, "shop", Select::All).unwrap().items;
    assert_eq!((items[0].0["x"].to_string(), items[0].0["y"].to_string()), ("1.50".into(), "1e+3".into()));
    assert_eq!(items[1].name(), "b");
}

#[test]
fn the_newest_version_is_todays_and_lists_say_how_long_older_ones_held() {
    let at = |version: u64, uid: &str| {
        format!("- {{metadata: {{name: s, namespace: shop, uid: {uid}, resourceVersion: '{version}'}}}}\n")
    };
    let list = |number: u64, item: String| {
        format!("---\nkind: ConfigMapList\napiVersion: v1\nmetadata: {{resourceVersion: '{number}'}}\nitems:\n{item}")
    };
    let dump = dump(
        &[
            list(60, at(20, "u")),
            list(40, at(20, "u")),
            list(90, at(80, "w")),
            list(30, at(9, "u")),
            list(55, at(20, "u")),
        ]
        .concat(),
    );
    let items = dump.list(MAPS, "shop", Select::Name("s")).unwrap().items;
    assert_eq!((items.len(), items[0].version()), (1, Some(80)));
    let older: Vec<_> = dump
        .older(MAPS, "shop", "s")
        .iter()
        .map(|older| (older.object.version(), older.object.uid().to_string(), older.held_until))
        .collect();
    assert_eq!(older, [(Some(20), "u".into(), Some(60)), (Some(9), "u".into(), Some(30))]);
    assert!(dump.older(MAPS, "shop", "other").is_empty());
    assert_eq!(dump.kinds()["ConfigMap"], 1);
}

#[test]
fn without_numbers_the_later_document_is_the_newer() {
    let map =
        |value: &str| format!("---\nkind: ConfigMap\napiVersion: v1\nmetadata: {{name: s}}\ndata: {{k: {value}}}\n");
    let dump = dump(&(map("a") + &map("b") + &map("b")));
    let items = dump.list(MAPS, "any", Select::All).unwrap().items;
    assert_eq!((items.len(), items[0].str_at("/data/k")), (1, "b"));
    let older = dump.older(MAPS, "any", "s");
    assert_eq!((older.len(), older[0].object.str_at("/data/k"), older[0].held_until), (1, "a", None));
}

#[test]
fn selectors_choose_as_a_server_would() {
    let map = |name: &str, labels: &str| {
        format!(
            "---\nkind: ConfigMap\napiVersion: v1\nmetadata: {{name: {name}, namespace: shop, labels: {{{labels}}}}}\n"
        )
    };
    let dump = dump(&(map("a", "app: web, tier: front") + &map("b", "app: api") + &map("c", "")));
    for (selector, expected) in [
        ("app=web", "a"),
        ("app==web,tier=front", "a"),
        ("app!=web", "bc"),
        ("app in (web, api)", "ab"),
        ("app notin (web)", "bc"),
        ("app,!tier", "b"),
        ("!app", "c"),
        ("app in (api),tier notin (x,y)", "b"),
        ("", "abc"),
    ] {
        assert_eq!(names(&dump, Select::Labels(selector)).concat(), expected, "{selector}");
    }
    assert_eq!(names(&dump, Select::Fields("metadata.name=b,metadata.namespace=shop")), ["b"]);
    assert_eq!(names(&dump, Select::Fields("metadata.name!=b")), ["a", "c"]);
    for selector in ["a b", "app in web", "app in (x", "=x", "!"] {
        let error = dump.list(MAPS, "shop", Select::Labels(selector)).unwrap_err();
        assert!(matches!(error, ReadError::Malformed { .. }), "{selector}");
    }
    assert!(dump.list(MAPS, "shop", Select::Fields("x")).is_err());
}

#[test]
fn secrets_are_cut_down_while_they_are_read() {
    let dump = dump(
        "kind: SecretList\napiVersion: v1\nitems:\n- metadata: {name: s, namespace: shop, annotations: {x: hunter2}}\n  data: {pin: hunter2}\n\
         ---\nkind: Secret\napiVersion: v1\nmetadata: {name: t, namespace: shop}\nstringData: {pin: hunter2}\n",
    );
    assert_eq!(dump.list(Resource::Secrets, "shop", Select::All).unwrap().items.len(), 2);
    assert!(!format!("{dump:?}").contains("hunter2"));
}

#[test]
fn a_file_that_cannot_be_read_is_one_error_with_its_line() {
    assert!(error("x.yaml", b"kind: A\n---\na: 1\nb: [1,\nc: {\n---\nd: 1\n").starts_with("x.yaml:"));
    let text = error("x.yaml", b"kind: A\n---\nkind: B\n---\n\nkind: C\nkind: D\n");
    assert!(text.starts_with("x.yaml:7: not YAML: "), "{text}");
    let text = error("x.json", b"{\"a\": 1}\n{\n\"b\": hunter2}\n");
    assert!(text.starts_with("x.json:3: not JSON: ") && !text.contains("hunter2"), "{text}");
    assert!(error("x.yaml", b"\xFF\xFE\x00").starts_with("x.yaml:1: not valid UTF-16"));
    let text = error("x.yaml", b"kind: Secret\ndata:\n  pin: hunter2\n pin: hunter2\n");
    assert!(!text.contains("hunter2"), "{text}");
    // Depth and aliases are bounded.
    error("x.yaml", "[".repeat(100_000).as_bytes());
    error("x.json", "[".repeat(100_000).as_bytes());
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_string();
    for (next, last) in "bcdefghij".chars().zip("abcdefghi".chars()) {
        bomb += &format!("{next}: &{next} [{}]\n", format!("*{last},").repeat(9));
    }
    error("x.yaml", bomb.as_bytes());
}

#[test]
fn what_is_no_object_is_passed_over_by_name() {
    let dump = dump(
        "replicas: 3\n---\nkind: ConfigMap\nmetadata: {}\n---\nkind: Status\nstatus: Failure\n---\n7\n---\n\nkind: A\nmetadata: {name: a}\n",
    );
    assert_eq!(dump.skipped(), ["dump.yaml:1", "dump.yaml:3", "dump.yaml:6", "dump.yaml:9"]);
    assert_eq!(dump.kinds().len(), 1);
}

#[test]
fn directories_are_read_in_the_order_of_names() {
    let directory = TempDir::new().unwrap();
    let map = |value: &str| format!("kind: ConfigMap\napiVersion: v1\nmetadata: {{name: s}}\ndata: {{k: {value}}}\n");
    let load = |sources: &[PathBuf]| Dump::load(sources, &mut std::io::empty());
    let path = directory.path().to_path_buf();
    assert!(matches!(load(std::slice::from_ref(&path)), Err(DumpError::Empty { .. })));
    for (name, text) in [("b.yml", map("b")), ("a.yaml", map("a")), ("c.txt", "a: [".to_string())] {
        fs::write(path.join(name), text).unwrap();
    }
    fs::create_dir(path.join("deeper.yaml")).unwrap();
    let found = load(std::slice::from_ref(&path)).unwrap().list(MAPS, "x", Select::All).unwrap();
    assert_eq!(found.items[0].str_at("/data/k"), "b");
    let single = load(&[path.join("a.yaml")]).unwrap();
    assert_eq!(single.list(MAPS, "x", Select::All).unwrap().items[0].str_at("/data/k"), "a");
    assert!(matches!(load(&[path.join("nope")]), Err(DumpError::Read { .. })));
    let mut stdin = std::io::Cursor::new(map("stdin"));
    let piped = Dump::load(&[path.join("a.yaml"), "-".into()], &mut stdin).unwrap();
    assert_eq!(piped.list(MAPS, "x", Select::All).unwrap().items[0].str_at("/data/k"), "stdin");
    let text = Dump::load(&["-".into()], &mut std::io::Cursor::new("a: [")).unwrap_err().to_string();
    assert!(text.starts_with("stdin:1: "), "{text}");
}

#[test]
fn now_is_the_newest_time_that_the_cluster_wrote() {
    let dump = dump(
        "kind: Pod
apiVersion: v1
metadata:
  name: a
  creationTimestamp: '2026-01-01T00:00:00Z'
  deletionTimestamp: '2030-01-01T00:00:00Z'
  annotations: {restartedAt: '2031-01-01T00:00:00Z'}
  managedFields: [{manager: m, time: '2026-01-01T00:00:05Z'}]
spec: {someTime: '2032-01-01T00:00:00Z'}
status:
  message: '2033-01-01T00:00:00Z'
  containerStatuses: [{state: {running: {startedAt: '2026-01-01T00:00:07Z'}}}]
---
kind: Event
apiVersion: v1
metadata: {name: e, creationTimestamp: null}
lastTimestamp: '2026-01-01T00:00:06Z'
",
    );
    assert_eq!(dump.newest_time().unwrap().to_string(), "2026-01-01T00:00:07Z");
    assert_eq!(Dump::default().newest_time(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), json in any::<bool>()) {
        let _ = Dump::default().add(Path::new(if json { "x.json" } else { "x.yaml" }), &bytes);
    }

    #[test]
    fn no_yaml_like_text_makes_it_panic(text in "(---|\\.\\.\\.|kind: List|items:|- |\\{|\\}|\\[|\\]|&a|\\*a|metadata: |name: x|[ \n:#'\"|>%é]|1e9|0x1|\u{feff}){0,40}") {
        let mut dump = Dump::default();
        if dump.add(Path::new("x.yaml"), text.as_bytes()).is_ok() {
            let _ = dump.list(MAPS, "shop", Select::Labels(&text));
            let _ = dump.list(MAPS, "shop", Select::Fields(&text));
        }
    }
}
