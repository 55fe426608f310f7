//! The schema bites, and its words are the program's.

use crate::support::product::root;
use crate::support::rust::{self, Kind, Token};
use crate::support::schema::{check, errors, schema};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

const DIGEST: &str = "sr1:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const NOW: &str = "2026-11-29T12:00:00Z";

fn reference() -> Value {
    json!({
        "kind": "ConfigMap", "name": "settings", "uid": "u-1", "immutable": false, "verdict": "changed",
        "injected": false, "written": {"at": NOW, "by": "kubectl-edit"},
        "uses": [{
            "pointer": "/spec/containers/0/envFrom/0", "container": "app", "read": "container-start", "keys": null,
            "optional": false,
        }],
        "digest": {"live": DIGEST, "read": DIGEST}, "differingKeys": ["a"], "keyCount": 2,
        "evidence": [{"source": "time-travel", "says": "changed", "proof": true, "detail": "it differs"}],
        "candidates": [
            {"digest": DIGEST, "source": "time-travel", "from": null, "to": NOW, "grade": "proof", "proof": true},
        ],
    })
}

fn history() -> Value {
    json!({
        "apiVersion": "saferollback.dev/v1alpha1", "kind": "History", "tool": {"version": "v0.1.0"},
        "cluster": {"server": "https://api.example", "context": "prod"}, "observedAt": "2026-11-29T12:00:00.123456Z",
        "workload": {
            "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "u-0", "generation": 3,
            "resourceVersion": "77",
        },
        "revisions": [{
            "number": 1, "formerNumbers": [], "current": false,
            "object": {"kind": "ReplicaSet", "name": "web-1", "uid": "u-2"}, "firstStarted": NOW, "retired": null,
            "activityKnown": true, "images": {"app": "web:1"}, "changeCause": null,
            "pods": {"ready": 2, "total": 2, "oldestStart": NOW, "restarts": 0}, "failing": false, "setAside": [], "damaged": null,
            "verdict": "changed", "references": [reference()],
        }],
        "unnumbered": [{"kind": "ReplicaSet", "name": "web-x", "reason": "no number"}],
        "notTraced": [{"revision": 1, "pointer": "/spec/containers/0/args/0", "what": "an argument"}],
        "warnings": ["Events could not be read"], "assumptions": ["A1: no node still caches a deleted namesake"],
        "digest": format!("sha256:{}", &DIGEST[4..]),
    })
}

fn with(mut document: Value, members: &Value) -> Value {
    let members = members.as_object().expect("members").clone();
    document.as_object_mut().expect("a document").extend(members);
    document
}

fn owner() -> Value {
    json!({
        "tool": "argo-cd", "object": {"kind": "Application", "namespace": "argocd", "name": "web"}, "healing": "yes",
        "known": "annotation; automated", "says": "it puts it back",
    })
}

fn checked() -> Value {
    with(
        history(),
        &json!({
            "kind": "Check", "target": 1, "safe": false, "grade": "none", "undo": "planned",
            "alsoReading": {"ConfigMap/settings": ["deployment/worker"]}, "owners": [owner()], "ownersUnread": [],
            "exitCode": 3,
        }),
    )
}

fn rolled_back() -> Value {
    with(
        history(),
        &json!({
            "kind": "Rollback", "from": 2, "target": 1, "newRevision": 3,
            "actions": [
                {"reference": "ConfigMap/settings", "verdict": "changed", "action": "pin",
                 "to": "settings-sr-0123456789abcdef", "grade": "proof", "source": "time-travel"},
                {"reference": "Secret/db", "verdict": "same", "action": "keep", "grade": "proof"},
            ],
            "podsPlanned": {"start": 2, "stay": 0, "go": 3}, "refusals": [], "waysOn": [], "lookedIn": [],
            "notLookedIn": [], "alsoReading": {}, "owners": [owner()], "ownersUnread": ["not allowed"],
            "patch": [{"op": "test", "path": "/metadata/uid", "value": "u-0"}],
            "written": [{"object": "Deployment/web", "uid": "u-0", "resourceVersion": "80"}],
            "timeline": [{"at": NOW, "what": "planned"}], "overwritten": null,
            "verification": {"mode": "replace", "evicted": {"name": "web-1", "uid": "u-8"},
                "substitute": {"name": "web-2", "uid": "u-9", "ready": true, "restarts": 0}, "outcome": "as-planned"},
            "reverted": null, "outcome": "done", "exitCode": 0,
        }),
    )
}

fn refused() -> Value {
    with(
        rolled_back(),
        &json!({
            "kind": "Plan", "newRevision": null, "written": [], "outcome": "refused", "exitCode": 3,
            "refusals": [{"code": "content-not-found", "reference": "ConfigMap/settings", "verdict": "changed",
                          "message": "it was not found"}],
            "waysOn": [{"id": "use-file", "why": "you have it", "argv": ["kubectl", "saferollback", "undo"]}],
        }),
    )
}

fn saved() -> Value {
    with(
        history(),
        &json!({
            "kind": "Saved", "outcome": "saved", "exitCode": 0,
            "snapshots": [{
                "revision": 1, "reference": "ConfigMap/settings", "snapshot": "settings-sr-0123456789abcdef",
                "digest": DIGEST, "source": "time-travel", "grade": "proof",
            }],
            "written": [{"object": "ConfigMap/settings-sr-0123456789abcdef", "uid": "u-9", "resourceVersion": "81"}],
        }),
    )
}

fn standing() -> Value {
    with(
        history(),
        &json!({
            "kind": "Status", "sentence": "deployment \"web\" exceeded its progress deadline", "phase": "failed",
            "wanted": 2,
            "reasons": [{
                "object": "pod/web-1-a", "pod": "web-1-a", "container": "app", "revision": 2, "blocks": true,
                "reason": "CreateContainerConfigError", "message": "configmap \"settings\" not found", "since": NOW,
            }],
            "pods": [{
                "name": "web-1-a", "uid": "u-5", "revision": 2, "ready": false, "terminating": false, "restarts": 0,
            }],
            "terminating": 1, "exitCode": 4,
        }),
    )
}

fn put_back() -> Value {
    let digest = format!("sha256:{}", &DIGEST[4..]);
    let by =
        json!({"by": ["argocd-controller"], "generation": 4, "planned": digest, "live": digest, "differs": ["/spec"]});
    with(rolled_back(), &json!({"overwritten": by, "outcome": "failed", "exitCode": 4}))
}

fn snapshot_list() -> Value {
    json!({
        "apiVersion": "saferollback.dev/v1alpha1", "kind": "SnapshotList", "tool": {"version": "v0.1.0"},
        "cluster": {"server": "https://api.example", "context": "prod"}, "observedAt": NOW, "warnings": [],
        "snapshots": [{
            "kind": "snapshot", "name": "settings-sr-0123456789abcdef", "source": "configmap/settings",
            "revisions": [1], "readers": ["deployment/web"], "created": NOW, "prune": false,
            "why": "named by deployment/web",
        }],
        "deleted": [], "outcome": "nothing-to-do", "exitCode": 0, "digest": format!("sha256:{}", &DIGEST[4..]),
    })
}

fn compared() -> Value {
    with(
        history(),
        &json!({
            "kind": "Diff", "from": 1, "to": null, "template": [{"pointer": "/spec/containers/0/image"}],
            "contents": [{
                "reference": "ConfigMap/settings", "answer": "different", "grade": "likely",
                "changes": [{"key": "a", "change": "changed"}], "because": "read and today",
            }],
            "exitCode": 1,
        }),
    )
}

/// A document that is not about one workload.
fn sheet(kind: &str, body: &Value) -> Value {
    let mut document = with(history(), body);
    for member in ["workload", "revisions", "unnumbered", "notTraced", "assumptions"] {
        document.as_object_mut().expect("a document").shift_remove(member);
    }
    document["kind"] = json!(kind);
    document
}

fn config_map() -> Value {
    json!({
        "namespace": "shop", "name": "settings", "exists": true, "uid": "u-1", "resourceVersion": "7",
        "immutable": false, "terminating": false,
    })
}

fn readers() -> Value {
    json!([{"reader": "deployment/web", "named": true, "pods": 2, "fixed": 2, "refreshed": 0}])
}

fn version() -> Value {
    json!({
        "resourceVersion": "5", "digest": DIGEST, "source": "time-travel", "object": "ConfigMap/settings", "uid": "u-1",
        "immutable": false, "from": NOW, "until": null, "held": false, "writer": "kubectl-edit", "grade": "proof",
        "keys": ["a"], "readers": readers(),
    })
}

fn contents() -> Value {
    let body = json!({
        "configMap": config_map(), "versions": [version()], "lookedIn": ["API history: expired"], "exitCode": 0,
    });
    sheet("ConfigMapHistory", &body)
}

fn restored() -> Value {
    let body = json!({
        "configMap": config_map(), "now": version(), "version": version(), "changes": [{"key": "a", "change": "moved"}],
        "readers": readers(), "stopped": [{"reader": "deployment/web", "keys": ["b"]}], "managed": ["kubectl apply"],
        "restarts": [["kubectl", "rollout", "restart", "deployment/web"]], "refusals": [], "waysOn": [],
        "written": [{"object": "ConfigMap/settings", "uid": "u-1", "resourceVersion": "8"}], "outcome": "done",
        "exitCode": 0,
    });
    sheet("Restore", &body)
}

fn barred() -> Value {
    with(
        restored(),
        &json!({
            "now": null, "written": [], "outcome": "refused", "exitCode": 3,
            "refusals": [{"code": "absent", "message": "it is gone"}],
            "waysOn": [{"id": "create", "why": "you have it", "argv": ["kubectl", "create", "-f", "FILE"]}],
        }),
    )
}

fn several() -> Value {
    sheet("RollbackList", &json!({"items": [rolled_back(), refused()], "exitCode": 3}))
}

fn observed() -> Value {
    let owner = |kind: &str| json!({"kind": kind, "name": "web", "uid": "u-2"});
    let body = json!({
        "kind": "Observation",
        "pods": [{
            "name": "web-1-x", "uid": "u-5", "ready": true, "terminating": false, "phase": "Running", "created": NOW,
            "revision": 1, "owners": [owner("ReplicaSet"), owner("Deployment")],
            "containers": [{
                "name": "app", "init": false, "ready": true, "startedAt": NOW, "restartCount": 0, "waiting": null,
            }],
            "references": [{
                "reference": "ConfigMap/settings", "today": "changed", "verdict": "changed", "read": DIGEST,
                "because": "it differs",
            }],
            "probe": {"status": 503, "digest": format!("sha256:{}", &DIGEST[4..]), "error": null},
        }],
        "services": [{
            "name": "web", "uid": "u-6", "endpoints": [{"pod": "web-1-x", "uid": "u-5"}], "probe": null,
            "answeredBy": {"pod": "web-1-x", "uid": "u-5", "ours": true}, "attribution": "attributed", "because": null,
        }],
        "configs": [{
            "kind": "ConfigMap", "name": "settings", "state": "found", "uid": "u-1", "resourceVersion": "7",
            "immutable": false, "digest": DIGEST,
        }],
        "condition": {
            "met": false, "parts": [{"until": "complete", "met": false, "because": "it waits"}],
            "lookAt": [{"pod": "web-1-x", "because": "not ready"}],
        },
        "exitCode": 4,
    });
    with(history(), &body)
}

fn documents() -> [Value; 14] {
    [
        history(),
        checked(),
        rolled_back(),
        refused(),
        put_back(),
        saved(),
        standing(),
        compared(),
        contents(),
        restored(),
        barred(),
        snapshot_list(),
        several(),
        observed(),
    ]
}

/// Otherwise the planted faults below could be refused for another reason than their own. The second round is through
/// text: numbers are kept as they are spelled, and must count as integers all the same.
#[test]
fn the_documents_that_faults_are_planted_in_are_fine() {
    for document in documents() {
        check(&document);
        check(&serde_json::from_str(&document.to_string()).expect("JSON"));
    }
}

/// Otherwise a reader that goes by the schema could meet a word or a shape that it does not know.
#[test]
fn planted_faults_are_refused() {
    let wrong: &[(Value, &str, Value)] = &[
        (history(), "/apiVersion", json!("saferollback.dev/v2")),
        (history(), "/kind", json!("Histroy")),
        (history(), "/tool/version", json!("0.1.0")),
        (history(), "/observedAt", json!("2026-11-29 12:00:00")),
        (history(), "/observedAt", json!("2026-11-29T12:00:00+01:00")),
        (history(), "/observedAt", Value::Null),
        (history(), "/workload/generation", json!("3")),
        (history(), "/workload/generation", json!(3.5)),
        (history(), "/workload/kind", json!("Pod")),
        (history(), "/revisions/0/number", json!(0)),
        (history(), "/revisions/0/number", json!("1")),
        (history(), "/revisions/0/verdict", json!("safe")),
        (history(), "/revisions/0/pods/ready", json!(-1)),
        (history(), "/revisions/0/references/0/verdict", json!("Changed")),
        (history(), "/revisions/0/references/0/verdict", Value::Null),
        (history(), "/revisions/0/references/0/kind", json!("configmap")),
        (history(), "/revisions/0/references/0/action", json!("keep")),
        (history(), "/revisions/0/references/0/uses", json!([])),
        (history(), "/revisions/0/references/0/uses/0/read", json!("env")),
        (history(), "/revisions/0/references/0/uses/0/pointer", json!("spec/containers")),
        (history(), "/revisions/0/references/0/digest/live", json!(&DIGEST[4..])),
        (history(), "/revisions/0/references/0/digest/live", json!(DIGEST.to_uppercase())),
        (history(), "/revisions/0/references/0/digest/read", json!(format!("{DIGEST}0"))),
        (history(), "/revisions/0/references/0/evidence", json!([])),
        (history(), "/revisions/0/references/0/evidence/0/source", json!("guess")),
        (history(), "/revisions/0/references/0/evidence/0/says", json!("yes")),
        (history(), "/revisions/0/references/0/candidates/0/source", json!("memory")),
        (history(), "/revisions/0/references/0/candidates/0/grade", json!("likely")),
        (history(), "/revisions/0/references/0/candidates/0/proof", json!(false)),
        (history(), "/assumptions/0", json!("A3: all is well")),
        (history(), "/digest", Value::Null),
        (history(), "/digest", json!(DIGEST)),
        (checked(), "/grade", json!("proven")),
        (checked(), "/undo", json!("done")),
        (checked(), "/exitCode", json!(1)),
        (checked(), "/exitCode", json!(0)),
        (checked(), "/safe", json!(true)),
        (checked(), "/alsoReading", json!({"settings": []})),
        (rolled_back(), "/outcome", json!("ok")),
        (rolled_back(), "/outcome", json!("refused")),
        (rolled_back(), "/exitCode", json!(3)),
        (rolled_back(), "/kind", json!("Plan")),
        (rolled_back(), "/actions/0/action", json!("edit")),
        (rolled_back(), "/actions/0/action", json!("keep")),
        (rolled_back(), "/actions/1/action", json!("pin")),
        (rolled_back(), "/actions/0/to", json!("settings")),
        (rolled_back(), "/actions/0/reference", json!("settings")),
        (rolled_back(), "/patch/0/op", json!("remove")),
        (rolled_back(), "/patch/0/path", json!("/spec/replicas")),
        (rolled_back(), "/written/0/object", json!("Secret/db")),
        (rolled_back(), "/timeline", json!([])),
        (rolled_back(), "/verification/outcome", json!("proven")),
        (rolled_back(), "/verification/substitute/restarts", json!(-1)),
        (rolled_back(), "/reverted", json!({"target": 2, "newRevision": 4, "written": [], "outcome": "done"})),
        (put_back(), "/outcome", json!("timed-out")),
        (put_back(), "/overwritten/planned", json!(DIGEST)),
        (put_back(), "/overwritten/differs", json!([])),
        (put_back(), "/owners/0/tool", json!("kubectl")),
        (put_back(), "/owners/0/healing", json!("perhaps")),
        (standing(), "/phase", json!("done")),
        (standing(), "/phase", json!("stuck")),
        (standing(), "/exitCode", json!(0)),
        (standing(), "/reasons/0/object", json!("web-1-a")),
        (standing(), "/reasons/0/since", json!("now")),
        (standing(), "/pods/0/revision", json!(0)),
        (compared(), "/to", json!(0)),
        (compared(), "/contents/0/answer", json!("changed")),
        (compared(), "/contents/0/changes/0/change", json!("edited")),
        (compared(), "/exitCode", json!(2)),
        (contents(), "/kind", json!("History")),
        (contents(), "/versions/0/source", json!("memory")),
        (contents(), "/versions/0/digest", json!(&DIGEST[4..])),
        (contents(), "/versions/0/readers/0/reader", json!("web")),
        (contents(), "/exitCode", json!(1)),
        (restored(), "/outcome", json!("failed")),
        (restored(), "/written", json!([])),
        (restored(), "/exitCode", json!(5)),
        (restored(), "/written/0/object", json!("Deployment/web")),
        (barred(), "/refusals", json!([])),
        (barred(), "/refusals/0/code", json!("because")),
        (barred(), "/waysOn/0/id", json!("pray")),
        (barred(), "/outcome", json!("planned")),
        (observed(), "/exitCode", json!(0)),
        (observed(), "/condition/met", json!(true)),
        (observed(), "/condition/parts", json!([])),
        (observed(), "/condition", Value::Null),
        (observed(), "/pods/0/references/0/today", json!("safe")),
        (observed(), "/pods/0/owners", json!([])),
        (observed(), "/pods/0/probe/status", Value::Null),
        (observed(), "/pods/0/probe/body", json!("x")),
        (observed(), "/services/0/attribution", json!("unattributed")),
        (observed(), "/services/0/answeredBy", Value::Null),
        (observed(), "/configs/0/state", json!("absent")),
        (refused(), "/refusals", json!([])),
        (refused(), "/refusals/0/code", json!("because")),
        (refused(), "/waysOn/0/id", json!("pray")),
        (refused(), "/outcome", json!("planned")),
        (refused(), "/written", json!([{"object": "ConfigMap/x", "uid": "u", "resourceVersion": "1"}])),
    ];
    for (document, pointer, value) in wrong {
        let mut planted = document.clone();
        match planted.pointer_mut(pointer) {
            Some(place) => *place = value.clone(),
            None => {
                let (parent, member) = pointer.rsplit_once('/').expect("a pointer");
                planted.pointer_mut(parent).expect("a parent")[member] = value.clone();
            }
        }
        assert!(!errors(&planted).is_empty(), "{pointer} = {value} is let through");
    }
}

/// Otherwise a member could be forgotten, or slip in, without anybody deciding it.
#[test]
fn missing_and_extra_members_are_refused() {
    for document in documents() {
        let mut objects = Vec::new();
        collect(&document, "", &mut objects);
        for at in objects {
            let object = document.pointer(&at).and_then(Value::as_object).expect("an object");
            // Maps with names as keys, and the patch's values, are open.
            let open = at.ends_with("/images") || at.ends_with("/alsoReading");
            for member in object.keys().filter(|_| !open) {
                let mut planted = document.clone();
                let place = planted.pointer_mut(&at).and_then(Value::as_object_mut).expect("an object");
                place.remove(member);
                assert!(!errors(&planted).is_empty(), "{at} of {} without {member} is let through", document["kind"]);
            }
            let mut planted = document.clone();
            planted.pointer_mut(&at).expect("an object")["extra"] = json!(1);
            assert!(!errors(&planted).is_empty(), "{at} of {} with an extra member is let through", document["kind"]);
        }
    }
    let mut foreign = history();
    foreign["target"] = json!(1);
    assert!(!errors(&foreign).is_empty(), "a History has no target");
    let mut foreign = checked();
    foreign["outcome"] = json!("done");
    assert!(!errors(&foreign).is_empty(), "a Check has no outcome");
}

/// Pointers of all objects in a document.
fn collect(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.push(at.to_string());
            members.iter().for_each(|(key, value)| {
                let key = key.replace('~', "~0").replace('/', "~1");
                collect(value, &format!("{at}/{key}"), found);
            });
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(i, v)| collect(v, &format!("{at}/{i}"), found)),
        _ => {}
    }
}

fn source(file: &str) -> Vec<Token> {
    rust::tokens(&fs::read_to_string(root().join("src").join(file)).expect("a source file"))
}

fn texts(tokens: &[Token]) -> BTreeSet<String> {
    tokens.iter().filter_map(Token::text).map(str::to_string).collect()
}

/// The words that `impl TYPE { fn word }` of a file returns.
fn words(file: &str, of: &str) -> BTreeSet<String> {
    let tokens = source(file);
    let found = texts(rust::body(rust::body(&tokens, &["impl", of]), &["fn", "word"]));
    assert!(!found.is_empty(), "no words of {of} in {file}");
    found
}

fn enumerated(pointer: &str) -> BTreeSet<String> {
    let words = schema().pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("no enum at {pointer}"));
    words.iter().filter_map(Value::as_str).map(str::to_string).collect()
}

/// Otherwise a new word of the program would be unknown to other tools, or a word of the schema never said.
#[test]
fn the_schemas_words_are_the_programs() {
    let pairs = [
        ("core/verdict.rs", "Verdict", "/$defs/verdict/enum"),
        ("core/policy.rs", "Code", "/$defs/refusal/properties/code/enum"),
        ("core/policy.rs", "Action", "/$defs/action/enum"),
        ("core/recovery.rs", "Grade", "/$defs/grade/enum"),
        ("core/owners.rs", "Tool", "/$defs/owners/items/properties/tool/enum"),
        ("core/owners.rs", "Healing", "/$defs/owners/items/properties/healing/enum"),
        ("core/observed.rs", "Origin", "/$defs/origin/enum"),
        ("core/references.rs", "Read", "/$defs/use/properties/read/enum"),
        ("core/contents.rs", "Source", "/$defs/version/properties/source/enum"),
        ("core/changes.rs", "Change", "/$defs/keyChange/properties/change/enum"),
        ("core/diff.rs", "Answer", "/$defs/diff/properties/contents/items/properties/answer/enum"),
        ("core/observation.rs", "Holds", "/$defs/pod/properties/references/items/properties/today/enum"),
        ("core/observation.rs", "Attribution", "/$defs/service/properties/attribution/enum"),
        ("core/restore.rs", "Bar", "/$defs/restore/properties/refusals/items/properties/code/enum"),
        ("core/pods.rs", "Ending", "/$defs/status/properties/phase/enum"),
        ("core/restore.rs", "Ending", "/$defs/restore/properties/outcome/enum"),
        ("core/substitute.rs", "Verify", "/$defs/undo/properties/verification/anyOf/0/properties/mode/enum"),
        ("core/substitute.rs", "Finding", "/$defs/undo/properties/verification/anyOf/0/properties/outcome/enum"),
    ];
    for (file, of, pointer) in pairs {
        assert_eq!(words(file, of), enumerated(pointer), "{of} of {file} against {pointer}");
    }
    let tokens = source("core/report.rs");
    let kinds = rust::body(&tokens, &["enum", "DocumentKind"]).iter().filter_map(Token::word).map(str::to_string);
    let sheets = ["run/contents.rs", "run/restore.rs", "run/prune.rs", "run/several.rs"].into_iter().flat_map(|file| {
        let tokens = source(file);
        let made = tokens.windows(3).filter(|w| w[0].word() == Some("new") && w[1].is('('));
        made.filter_map(|w| w[2].text()).map(str::to_string).collect::<Vec<_>>()
    });
    assert_eq!(kinds.chain(sheets).collect::<BTreeSet<_>>(), enumerated("/properties/kind/enum"));
    let ids: BTreeSet<String> = after(&source("run/ways.rs"), "id");
    assert_eq!(ids, enumerated("/$defs/wayOn/properties/id/enum"));
    let ids: BTreeSet<String> = after(&source("core/restore.rs"), "id");
    assert_eq!(ids, enumerated("/$defs/restore/properties/waysOn/items/properties/id/enum"));
}

/// The texts behind `member:`.
fn after(tokens: &[Token], member: &str) -> BTreeSet<String> {
    let found = tokens.windows(3).filter(|w| w[0].word() == Some(member) && w[1].is(':'));
    found.filter_map(|w| w[2].text()).map(str::to_string).collect()
}

/// Otherwise an outcome could be said that the schema lacks, or with an exit code that means another one.
#[test]
fn outcomes_and_exit_codes_are_the_programs() {
    let files = ["run/undo.rs", "run/undo/rehearse.rs", "run/undo/write.rs", "run/undo/after.rs"];
    let tokens: Vec<Token> = files.into_iter().flat_map(source).collect();
    let mut said = BTreeSet::new();
    for window in tokens.windows(3) {
        let (Some(outcome), true, Kind::Number(code)) = (window[0].text(), window[1].is(','), &window[2].kind) else {
            continue;
        };
        let mut document = if outcome == "refused" { refused() } else { rolled_back() };
        document["outcome"] = json!(outcome);
        document["exitCode"] = json!(code.parse::<u8>().expect("an exit code"));
        if ["conflict", "planned"].contains(&outcome) {
            document["newRevision"] = Value::Null;
        }
        check(&document);
        said.insert(outcome.to_string());
    }
    assert_eq!(said, enumerated("/$defs/undo/properties/outcome/enum"));
}

/// The texts that make a fact, wherever in `core` that is; `dump` and `time-travel` come from the version's origin.
#[test]
fn evidence_sources_are_the_programs() {
    let tokens = [source("core/verdict.rs"), source("core/ladder.rs")].concat();
    let mut said: BTreeSet<String> = ["dump", "time-travel"].map(str::to_string).into();
    for (i, token) in tokens.iter().enumerate() {
        let makes = token.word().is_some_and(|w| ["note", "same", "found", "unreadable"].contains(&w));
        let names = token.word() == Some("source") && tokens.get(i + 1).is_some_and(|t| t.is(':'));
        said.extend(tokens.get(i + 2).filter(|_| names).and_then(Token::text).map(str::to_string));
        if makes && tokens.get(i + 1).is_some_and(|t| t.is('(')) {
            let arguments = tokens[i + 2..].iter().take_while(|t| !t.is(')') && !t.is('{') && !t.is(';'));
            said.extend(arguments.filter_map(Token::text).find(|t| !t.contains(' ')).map(str::to_string));
        }
    }
    assert_eq!(said, enumerated("/$defs/evidence/properties/source/enum"));
}

/// Otherwise a reader of the schema would have to read the source.
#[test]
fn every_member_is_described() {
    fn walk(schema: &Value, whole: &Value, at: &str, missing: &mut Vec<String>) {
        let Value::Object(map) = schema else {
            if let Value::Array(items) = schema {
                items.iter().for_each(|item| walk(item, whole, at, missing));
            }
            return;
        };
        for (name, member) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let target = member["$ref"].as_str().and_then(|r| whole.pointer(r.trim_start_matches('#')));
            if member["description"].is_null() && target.is_none_or(|t| t["description"].is_null()) {
                missing.push(format!("{at}/{name}"));
            }
        }
        // Conditions repeat members that are described elsewhere.
        for (key, value) in map.iter().filter(|(key, _)| !["if", "then", "else"].contains(&key.as_str())) {
            walk(value, whole, &format!("{at}/{key}"), missing);
        }
    }
    let mut missing = Vec::new();
    walk(schema(), schema(), "", &mut missing);
    assert!(missing.is_empty(), "{missing:#?}");
}
