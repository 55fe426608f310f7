//! The versions of a ConfigMap, who reads it, and what a restore would do: decisions alone.

use saferollback::core::changes::{self, KeyChange};
use saferollback::core::contents::{self, Known, NoSuchVersion, Source, Wanted};
use saferollback::core::digest::Content;
use saferollback::core::object::Object;
use saferollback::core::observed::{Origin, Past, PastEnd, Version};
use saferollback::core::readers::{self, Reader};
use saferollback::core::recovery::Grade;
use saferollback::core::restore::{self, Bar};
use serde_json::{Value, json};

/// `settings` at a number: its content, and who was last seen to write, at which minute.
fn settings(number: u64, data: Value, writer: &str, minute: u8) -> Object {
    Object(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "settings", "namespace": "shop", "uid": "u-1", "resourceVersion": number.to_string(),
            "creationTimestamp": "2026-11-29T12:00:00Z",
            "managedFields": [{
                "manager": writer, "operation": "Update", "time": format!("2026-11-29T12:{minute:02}:00Z"),
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}},
            }],
        },
        "data": data,
    }))
}

fn before(object: Object, until: u64) -> Version {
    Version { object, until: Some(until), until_time: None, origin: Origin::TimeTravel }
}

/// Newest first, as a walk finds them.
fn past(versions: Vec<Version>) -> Past {
    Past { versions, end: PastEnd::Beginning }
}

fn versions(live: Option<&Object>, past: &Past) -> Vec<Known> {
    contents::versions("settings", live, &[], past)
}

fn content(data: Value) -> Content {
    Content::from_object(&Object(json!({"kind": "ConfigMap", "data": data}))).expect("content")
}

/// `FROM-UNTIL WRITER`, in minutes.
fn dates(known: &Known) -> String {
    let minute = |t: Option<jiff::Timestamp>| t.map_or("?".into(), |t| t.to_string()[14..16].to_string());
    format!("{}-{} {}", minute(known.from), minute(known.until), known.writer.as_deref().unwrap_or("?"))
}

/// Otherwise each label that somebody sets would look like another version of the content (carvel-dev/kapp#603).
#[test]
fn c58_a_write_of_metadata_alone_is_no_version() {
    let live = settings(30, json!({"a": "2"}), "kubectl-edit", 5);
    let history = past(vec![
        before(settings(20, json!({"a": "2"}), "kubectl-edit", 3), 30),
        before(settings(10, json!({"a": "1"}), "kubectl-create", 1), 20),
    ]);
    let all = versions(Some(&live), &history);
    assert_eq!(all.iter().map(dates).collect::<Vec<_>>(), ["01-03 kubectl-create", "03-? kubectl-edit"]);
    assert_eq!(all[1].numbers, Some((20, 31)));
    assert_eq!((all[1].source, all[1].held), (Source::Live, true));
    assert_eq!(contents::choose("settings", &all, &Wanted::Previous).expect("clear").digest, all[0].digest);
}

/// Otherwise a version would be dated by the write before it: a removed key leaves no trace in managedFields.
#[test]
fn a_write_that_left_no_sign_has_no_date() {
    let live = settings(40, json!({"a": "3"}), "kubectl-edit", 7);
    let history = past(vec![
        before(settings(30, json!({}), "kubectl-edit", 3), 40),
        before(settings(25, json!({"a": "1"}), "kubectl-edit", 3), 30),
        before(settings(20, json!({"a": "1", "b": "2"}), "kubectl-edit", 3), 25),
    ]);
    let all = versions(Some(&live), &history);
    assert_eq!(
        all.iter().map(dates).collect::<Vec<_>>(),
        ["03-? kubectl-edit", "?-? ?", "?-07 ?", "07-? kubectl-edit"]
    );
}

/// Otherwise a guess would be restored: what another object of this name held, or a version after which there may have
/// been others.
#[test]
fn the_version_before_the_last_write_is_no_guess() {
    let live = settings(40, json!({"a": "2"}), "kubectl-edit", 7);
    let unclear = |history: Past| {
        let all = versions(Some(&live), &history);
        let chosen = contents::choose("settings", &all, &Wanted::Previous);
        assert!(matches!(chosen, Err(NoSuchVersion::NoPrevious { .. })), "{chosen:?}");
    };
    unclear(past(vec![]));
    unclear(past(vec![before(settings(10, json!({"a": "1"}), "x", 1), 39)]));
    let mut dump = before(settings(10, json!({"a": "1"}), "x", 1), 40);
    dump.until = None;
    unclear(past(vec![dump]));
    let mut namesake = before(settings(10, json!({"a": "1"}), "x", 1), 40);
    namesake.object.0["metadata"]["uid"] = json!("u-0");
    unclear(past(vec![namesake]));
    let snapshot = snapshot("settings", json!({"a": "1"}));
    let all = contents::versions("settings", Some(&live), &[snapshot], &past(vec![]));
    assert!(contents::choose("settings", &all, &Wanted::Previous).is_err(), "a snapshot has no date as content");
}

fn snapshot(source: &str, data: Value) -> Object {
    let held = content(data.clone());
    Object(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": saferollback::core::snapshot::name(source, &held, 16), "namespace": "shop", "uid": "s-1",
            "creationTimestamp": "2026-11-29T12:02:00Z",
            "labels": {"app.kubernetes.io/managed-by": "kubectl-saferollback", "saferollback.dev/kind": "snapshot"},
            "annotations": {"saferollback.dev/source": source},
        },
        "immutable": true, "data": data,
    }))
}

/// Otherwise anybody's ConfigMap would pass as a proven version, or a snapshot of another one.
#[test]
fn snapshots_are_known_by_their_marks_and_proven_by_their_name() {
    let live = settings(40, json!({"a": "2"}), "kubectl-edit", 7);
    let of = |object: Object| contents::versions("settings", Some(&live), &[object], &past(vec![]));
    let good = snapshot("settings", json!({"a": "1"}));
    let all = of(good.clone());
    assert_eq!((all[0].source, all[0].grade, all[0].held), (Source::Snapshot, Grade::Proof, true));
    for (pointer, value) in [
        ("/metadata/labels/app.kubernetes.io~1managed-by", json!("Helm")),
        ("/metadata/labels/saferollback.dev~1kind", json!("record")),
        ("/metadata/annotations/saferollback.dev~1source", json!("other")),
        ("/metadata/name", json!("other-sr-0123456789abcdef")),
    ] {
        let mut other = good.clone();
        *other.0.pointer_mut(pointer).expect("a member") = value;
        assert_eq!(of(other).len(), 1, "{pointer}");
    }
    for (pointer, value) in [("/immutable", json!(false)), ("/data", json!({"a": "9"}))] {
        let mut edited = good.clone();
        *edited.0.pointer_mut(pointer).expect("a member") = value;
        assert_eq!(of(edited)[0].grade, Grade::None, "{pointer}");
    }
}

/// Otherwise a short digest or a number could stand for another version than the person saw.
#[test]
fn a_version_is_named_by_its_digest_or_number() {
    let live = settings(40, json!({"a": "2"}), "kubectl-edit", 7);
    let history = past(vec![before(settings(10, json!({"a": "1"}), "x", 1), 40)]);
    let all = versions(Some(&live), &history);
    let named = |wanted: Wanted| contents::choose("settings", &all, &wanted);
    let first = all[0].digest.to_string();
    assert_eq!(named(Wanted::Digest(first.clone())).expect("whole").digest, all[0].digest);
    assert_eq!(named(Wanted::Digest(first[..12].into())).expect("8 digits").digest, all[0].digest);
    assert_eq!(named(Wanted::Digest(all[0].digest.short())).expect("as shown").digest, all[0].digest);
    assert_eq!(named(Wanted::Digest(first[..11].into())).err(), Some(NoSuchVersion::TooShort));
    assert!(matches!(named(Wanted::Digest("sr1:00000000".into())), Err(NoSuchVersion::NoDigest { .. })));
    // What was there at that number, so that it never means another one later.
    for number in [10, 11, 39] {
        assert_eq!(named(Wanted::Number(number)).expect("known").digest, all[0].digest);
    }
    assert_eq!(named(Wanted::Number(40)).expect("today's").digest, all[1].digest);
    for number in [9, 41] {
        assert!(matches!(named(Wanted::Number(number)), Err(NoSuchVersion::NoNumber { .. })), "{number}");
    }
    let gone = versions(None, &history);
    assert_eq!(contents::choose("settings", &gone, &Wanted::Previous).expect("the last").digest, all[0].digest);
}

fn change(key: &str, change: &'static str) -> KeyChange {
    KeyChange { key: key.into(), change, before: None, after: None }
}

/// Otherwise values would be printed unasked, or a key that moved to the other field would pass as unchanged: a variable
/// is lost by that.
#[test]
fn c55_changes_name_keys_and_show_values_only_when_asked() {
    let of = |value: Value| Content::from_object(&Object(value)).expect("content");
    let a = of(json!({"data": {"gone": "1", "kept": "k", "moved": "abc", "other": "x"}}));
    let b = of(json!({"data": {"kept": "k", "new": "2", "other": "y"}, "binaryData": {"moved": "YWJj"}}));
    let expected =
        [change("gone", "removed"), change("moved", "moved"), change("new", "added"), change("other", "changed")];
    assert_eq!(changes::between(&a, &b, false), expected);
    let shown = changes::between(&a, &b, true);
    assert_eq!((shown[3].before.as_deref(), shown[3].after.as_deref()), (Some("x"), Some("y")));
    assert_eq!((shown[0].before.as_deref(), shown[0].after.as_deref()), (Some("1"), None));
    assert_eq!(shown[1].after.as_deref(), Some("<3 bytes>"));
    assert_eq!(changes::between(&a, &a, true), []);
}

fn object(kind: &str, name: &str, spec: Value) -> Object {
    Object(json!({"kind": kind, "metadata": {"name": name}, "spec": spec}))
}

fn template(uses: Value) -> Value {
    json!({"spec": uses})
}

fn env() -> Value {
    json!({"containers": [{"name": "app", "envFrom": [{"configMapRef": {"name": "settings"}}]}]})
}

fn file(sub_path: bool) -> Value {
    let mut mount = json!({"name": "v", "mountPath": "/etc/app"});
    if sub_path {
        mount["subPath"] = json!("a");
    }
    json!({
        "containers": [{"name": "app", "volumeMounts": [mount]}],
        "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
    })
}

fn pod(name: &str, owner: Option<(&str, &str)>, spec: Value) -> Object {
    let mut pod = object("Pod", name, spec);
    if let Some((kind, owner)) = owner {
        pod.0["metadata"]["ownerReferences"] = json!([{"kind": kind, "name": owner, "uid": "x", "controller": true}]);
    }
    if owner.is_some_and(|(kind, name)| kind == "ReplicaSet" && name.ends_with("-5b8")) {
        pod.0["metadata"]["labels"] = json!({"pod-template-hash": "5b8"});
    }
    pod.0["status"] = json!({"phase": "Running"});
    pod
}

fn reader(word: &str, named: bool, pods: usize, fixed: usize, refreshed: usize) -> Reader {
    Reader { reader: word.into(), named, pods, fixed, refreshed }
}

/// Otherwise somebody who reads the ConfigMap would not be told of before it changes under them, or would be told to
/// restart what refreshes on its own (kubernetes/kubernetes#50345).
#[test]
fn c48_all_readers_are_named_with_how_they_read() {
    let mut owned = object("Job", "report-1", json!({"template": template(env())}));
    owned.0["metadata"]["ownerReferences"] = json!([{"kind": "CronJob", "name": "report", "controller": true}]);
    let mut ended = object("Job", "ended", json!({"template": template(env())}));
    ended.0["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let workloads = [
        object("Deployment", "web", json!({"template": template(env())})),
        object("Deployment", "pinned", json!({"template": template(json!({"containers": []}))})),
        object("StatefulSet", "db", json!({"template": template(file(true))})),
        object("DaemonSet", "agent", json!({"template": template(file(false))})),
        object("CronJob", "report", json!({"jobTemplate": {"spec": {"template": template(env())}}})),
        owned,
        ended,
    ];
    let mut done = pod("done", Some(("Job", "report-1")), env());
    done.0["status"]["phase"] = json!("Succeeded");
    let mut going = pod("going", Some(("ReplicaSet", "web-5b8")), env());
    going.0["metadata"]["deletionTimestamp"] = json!("2026-11-29T12:00:00Z");
    let pods = [
        pod("web-1", Some(("ReplicaSet", "web-5b8")), env()),
        pod("web-2", Some(("ReplicaSet", "web-5b8")), env()),
        pod("pinned-1", Some(("ReplicaSet", "pinned-5b8")), env()),
        pod("lone-1", Some(("ReplicaSet", "lone")), env()),
        pod("db-0", Some(("StatefulSet", "db")), file(true)),
        pod("agent-x", Some(("DaemonSet", "agent")), file(false)),
        pod("report-1-x", Some(("Job", "report-1")), env()),
        pod("bare", None, file(false)),
        pod("other", None, json!({"containers": [{"name": "app"}]})),
        done,
        going,
    ];
    let expected = [
        reader("cronjob/report", true, 1, 1, 0),
        reader("daemonset/agent", true, 1, 0, 1),
        reader("deployment/pinned", false, 1, 1, 0),
        reader("deployment/web", true, 2, 2, 0),
        reader("pod/bare", false, 1, 0, 1),
        reader("replicaset/lone", false, 1, 1, 0),
        reader("statefulset/db", true, 1, 1, 0),
    ];
    assert_eq!(readers::readers("settings", &workloads, &pods), expected);
    assert_eq!(readers::readers("other", &workloads, &pods), []);
}

/// Otherwise a restore would take a key away from a reader that cannot start without it, and nobody would be told.
#[test]
fn c38_readers_that_need_a_key_are_found() {
    let needs = |optional: bool| {
        let from = json!({"configMapKeyRef": {"name": "settings", "key": "b", "optional": optional}});
        json!({"containers": [{"name": "app", "env": [{"name": "B", "valueFrom": from}]}]})
    };
    let workloads = [
        object("Deployment", "web", json!({"template": template(needs(false))})),
        object("Deployment", "soft", json!({"template": template(needs(true))})),
        object("Deployment", "all", json!({"template": template(env())})),
    ];
    let stopped = |data: Value| readers::stopped("settings", &content(data), &workloads, &[]);
    assert_eq!(stopped(json!({"a": "1"})), [("deployment/web".to_string(), vec!["b".to_string()])]);
    assert_eq!(stopped(json!({"b": "1"})), []);
}

fn plan(live: Option<&Object>, data: Value) -> restore::Plan {
    let chosen = contents::given("settings", content(data), Source::File);
    restore::plan("settings", live, chosen, Vec::new(), Vec::new(), false).expect("a plan")
}

/// Otherwise an edit that a tool will bring back would look like a lasting restore.
#[test]
fn tools_that_may_write_it_again_are_named() {
    let managed = |metadata: Value| {
        let mut live = settings(40, json!({"a": "2"}), "kubectl-edit", 7);
        for (member, value) in metadata.as_object().expect("metadata") {
            live.0["metadata"][member] = value.clone();
        }
        plan(Some(&live), json!({"a": "1"})).managed
    };
    let annotations = |key: &str, value: &str| json!({"annotations": {key: value}});
    assert_eq!(managed(json!({})), [""; 0]);
    assert_eq!(managed(annotations("kubectl.kubernetes.io/last-applied-configuration", "{}")), ["kubectl apply"]);
    let id = "argocd.argoproj.io/tracking-id";
    assert_eq!(managed(annotations(id, "web:/ConfigMap:shop/settings")), ["Argo CD Application web"]);
    assert_eq!(managed(annotations(id, "web:/ConfigMap:shop/other")), [""; 0], "copied from another object");
    let flux =
        json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "f"}});
    assert_eq!(managed(flux), ["Flux Kustomization apps"]);
    let owner = json!({"ownerReferences": [{"kind": "Foo", "name": "bar", "uid": "x", "controller": true}]});
    assert_eq!(managed(owner), ["foo/bar"]);
}

/// Otherwise something would be written that cannot be, that kubelets would serve in place of something else
/// (kubernetes/kubernetes#119733), or that is there already.
#[test]
fn what_is_not_to_be_written_is_refused() {
    let mut live = settings(40, json!({"a": "2"}), "kubectl-edit", 7);
    let bars = |plan: &restore::Plan| plan.refusals.iter().map(|(bar, _)| *bar).collect::<Vec<_>>();
    assert_eq!(bars(&plan(Some(&live), json!({"a": "1"}))), []);
    assert_eq!(bars(&plan(None, json!({"a": "1"}))), [Bar::Absent]);
    let equal = plan(Some(&live), json!({"a": "2"}));
    assert!(equal.nothing_to_do && !equal.refused());
    live.0["immutable"] = json!(true);
    assert_eq!(bars(&plan(Some(&live), json!({"a": "1"}))), [Bar::Immutable]);
    assert!(plan(Some(&live), json!({"a": "2"})).nothing_to_do, "equal is equal");
    live.0["metadata"]["deletionTimestamp"] = json!("2026-11-29T12:00:00Z");
    assert_eq!(bars(&plan(Some(&live), json!({"a": "2"}))), [Bar::Terminating]);
    assert!(!plan(Some(&live), json!({"a": "2"})).nothing_to_do);
}

/// Otherwise a refusal would send a person into the next one, or a result would name what does not restart anything.
#[test]
fn only_commands_that_can_work_are_named() {
    let (gone, mut live) = (plan(None, json!({"a": "1"})), settings(40, json!({"a": "2"}), "kubectl-edit", 7));
    let with = |mut plan: restore::Plan| {
        plan.readers = vec![
            reader("cronjob/report", true, 1, 1, 0),
            reader("daemonset/agent", true, 1, 0, 1),
            reader("deployment/old", false, 1, 1, 0),
            reader("deployment/web", true, 2, 2, 0),
        ];
        plan
    };
    let ids = |plan: &restore::Plan| plan.ways_on(&[]).iter().map(|way| way.argv.join(" ")).collect::<Vec<_>>();
    let undo = "kubectl saferollback undo deployment/web --to-revision N --use settings=FILE";
    assert_eq!(ids(&with(gone.clone())), [undo, "kubectl create -f FILE"]);
    let mut frozen = gone;
    frozen.chosen.immutable = Some(true);
    assert_eq!(ids(&with(frozen)), [undo], "kubelets may still serve the former one");
    let fine = with(plan(Some(&live), json!({"a": "1"})));
    assert_eq!(ids(&fine), [""; 0]);
    let restarts: Vec<String> =
        fine.restarts(&["-n".into(), "shop".into()]).iter().map(|argv| argv.join(" ")).collect();
    let expected = ["deployment/old", "deployment/web"].map(|r| format!("kubectl rollout restart {r} -n shop"));
    assert_eq!(restarts, expected);
    live.0["immutable"] = json!(true);
    assert_eq!(ids(&with(plan(Some(&live), json!({"a": "1"})))), [undo]);
}

/// Otherwise a write of somebody else would be lost, or labels and annotations would go with the content.
#[test]
fn the_patch_tests_what_was_read_and_replaces_the_content_alone() {
    let mut live = settings(40, json!({"a": "2"}), "kubectl-edit", 7);
    live.0["binaryData"] = json!({"b": "AA=="});
    assert_eq!(
        plan(Some(&live), json!({"a": "1"})).patch(),
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "u-1"},
            {"op": "test", "path": "/metadata/resourceVersion", "value": "40"},
            {"op": "test", "path": "/data", "value": {"a": "2"}},
            {"op": "test", "path": "/binaryData", "value": {"b": "AA=="}},
            {"op": "add", "path": "/data", "value": {"a": "1"}},
            {"op": "remove", "path": "/binaryData"},
        ])
    );
    let empty = settings(40, Value::Null, "kubectl-edit", 7);
    let ops = plan(Some(&empty), json!({"a": "1"})).patch();
    assert_eq!(ops[3], json!({"op": "test", "path": "/binaryData", "value": null}));
    assert_eq!(ops.as_array().map(Vec::len), Some(5), "nothing that is not there is removed: {ops}");
}
