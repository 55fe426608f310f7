//! What `observe` says of Pods and Services, and when its conditions hold: each once where it is true, and where it is not.

use saferollback::core::field;
use saferollback::core::history;
use saferollback::core::object::Object;
use saferollback::core::observation::{
    Endpoint, Probe, ProbeLine, ServiceLine, attribute, endpoints, owned, selecting,
};
use saferollback::core::until::{Look, Memory, Until, holds, in_document, look_at};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const TEMPLATES: [&str; 2] = ["one", "two"];

fn template(release: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"release": release}},
        "spec": {"containers": [{"name": "app", "image": "web:1"}]},
    })
}

/// The workload at revision 2, rolled out, with 2 Pods wanted.
fn web(change: impl FnOnce(&mut Value)) -> Object {
    let mut web = json!({
        "kind": "Deployment",
        "metadata": {
            "name": "web", "uid": "w", "generation": 7, "annotations": {"deployment.kubernetes.io/revision": "2"},
        },
        "spec": {"replicas": 2, "template": template("two")},
        "status": {
            "observedGeneration": 7, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2,
            "conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}],
        },
    });
    change(&mut web);
    Object(web)
}

fn set(number: usize, uid: &str, owner: &str) -> Object {
    Object(json!({
        "kind": "ReplicaSet",
        "metadata": {
            "name": format!("web-{number}"), "uid": uid, "creationTimestamp": "2026-11-29T12:00:00Z",
            "annotations": {"deployment.kubernetes.io/revision": number.to_string()},
            "ownerReferences": [{"kind": "Deployment", "name": "web", "uid": owner, "controller": true}],
        },
        "spec": {"template": template(TEMPLATES[number - 1])},
    }))
}

fn sets() -> Vec<Object> {
    vec![set(1, "s1", "w"), set(2, "s2", "w"), set(1, "s9", "another")]
}

fn pod(uid: &str, set: &str, ready: bool) -> Object {
    let ready = if ready { "True" } else { "False" };
    Object(json!({
        "kind": "Pod",
        "metadata": {
            "name": format!("web-{uid}"), "uid": uid, "resourceVersion": "1",
            "creationTimestamp": "2026-11-29T12:00:00Z", "labels": {"app": "web"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "x", "uid": set, "controller": true}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    }))
}

fn with(mut object: Object, change: impl FnOnce(&mut Value)) -> Object {
    change(&mut object.0);
    object
}

fn going(object: Object) -> Object {
    with(object, |pod| {
        pod["metadata"]["deletionTimestamp"] = json!("2026-11-29T12:10:30Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    })
}

fn asked(until: &str, workload: &Object, pods: &[Object], steady: u64, memory: &Memory) -> (bool, String) {
    let (sets, until) = (sets(), Until::parse(until).expect("a condition"));
    let history = history::read(workload, &sets);
    let steady = Duration::from_secs(steady);
    holds(&until, &Look { workload, sets: &sets, history: &history, pods, steady, memory }).expect("a look tells it")
}

#[track_caller]
fn says(until: &str, workload: &Object, pods: &[Object], met: bool, words: &str) {
    let (holds, because) = asked(until, workload, pods, 60, &Memory::default());
    assert!(holds == met && because.contains(words), "{until}: {holds}, {because}");
}

fn both_ready() -> [Object; 2] {
    [pod("a", "s2", true), pod("b", "s2", true)]
}

/// Otherwise a capture would be saved of a rollout that goes on.
#[test]
fn complete_is_kubectls() {
    says("complete", &web(|_| {}), &both_ready(), true, "successfully rolled out");
    says("complete", &web(|w| w["status"]["updatedReplicas"] = json!(1)), &both_ready(), false, "1 out of 2");
    says("complete", &web(|w| w["status"]["observedGeneration"] = json!(6)), &both_ready(), false, "observed");
    let over = web(|w| w["status"]["conditions"][0]["reason"] = json!("ProgressDeadlineExceeded"));
    says("complete", &over, &both_ready(), false, "progress deadline");
}

/// Otherwise a first rollout, or one whose old Pods are gone, would pass for one that the old Pods still carry.
#[test]
fn incomplete_needs_a_new_pod_that_is_not_ready_and_an_old_one_that_is() {
    let (old, new) = (pod("a", "s1", true), pod("b", "s2", false));
    says("incomplete", &web(|_| {}), &[old.clone(), new.clone()], true, "0 of 1 Pods");
    says("incomplete", &web(|_| {}), std::slice::from_ref(&new), false, "0 of others");
    says("incomplete", &web(|_| {}), &[going(old.clone()), new.clone()], false, "0 of others");
    says("incomplete", &web(|_| {}), &[pod("a", "s1", false), new.clone()], false, "0 of others");
    says("incomplete", &web(|_| {}), std::slice::from_ref(&old), false, "0 of 0 Pods");
    says("incomplete", &web(|_| {}), &[old.clone(), pod("b", "s2", true)], false, "1 of 1 Pods");
    // An old Pod of another workload's ReplicaSet serves nobody here.
    says("incomplete", &web(|_| {}), &[pod("a", "s9", true), new.clone()], false, "0 of others");
    says(
        "incomplete",
        &web(|w| w["metadata"]["generation"] = json!(8)),
        &[old.clone(), new.clone()],
        false,
        "observed",
    );
    let pending = web(|w| w["spec"]["template"]["metadata"]["annotations"]["release"] = json!("three"));
    says("incomplete", &pending, &[old, new], false, "no revision yet");
}

/// Otherwise "stable" would be said of a moment.
#[test]
fn stable_is_complete_for_five_seconds() {
    let pods = both_ready();
    let at = |steady, workload: &Object| asked("stable", workload, &pods, steady, &Memory::default());
    let (met, because) = at(5, &web(|_| {}));
    assert!(met && because.ends_with("; no Pod changed for 5s"), "{because}");
    assert!(!at(4, &web(|_| {})).0);
    assert!(!at(60, &web(|w| w["status"]["availableReplicas"] = json!(1))).0);
}

/// Otherwise a Pod that came, went or changed would go unnoticed within those seconds.
#[test]
fn any_change_of_a_pod_is_noticed() {
    let (workload, mut memory) = (web(|_| {}), Memory::default());
    let mut look = |pods: &[Object]| memory.look(&workload, &sets(), pods);
    assert!(look(&both_ready()));
    assert!(!look(&both_ready()));
    let [a, b] = both_ready();
    assert!(!look(&[b.clone(), a.clone()]), "the order tells nothing");
    assert!(look(&[with(a.clone(), |pod| pod["metadata"]["resourceVersion"] = json!("2")), b.clone()]));
    assert!(look(std::slice::from_ref(&a)));
    assert!(look(&[a.clone(), pod("c", "s2", true)]));
    assert!(!look(&[a, pod("c", "s2", true), pod("x", "s9", true)]), "another workload's does not count");
}

/// Otherwise a rollout under way would pass for a loss, or a loss for a rollout.
#[test]
fn degraded_is_a_loss_after_the_rollout() {
    let [a, b] = both_ready();
    let lost = [a.clone(), pod("c", "s2", false)];
    says("degraded", &web(|_| {}), &lost, true, "1 of 2 Pods are ready");
    says("degraded", &web(|_| {}), std::slice::from_ref(&a), true, "1 of 2");
    says("degraded", &web(|_| {}), &[a.clone(), going(b.clone())], true, "1 of 2");
    says("degraded", &web(|w| w["status"]["conditions"] = json!([])), &lost, true, "1 of 2");
    says("degraded", &web(|_| {}), &[a.clone(), b], false, "2 of 2");
    says("degraded", &web(|_| {}), &[pod("o", "s1", true), a.clone()], false, "not come to its end");
    let first = web(|w| w["status"]["conditions"][0]["reason"] = json!("ReplicaSetUpdated"));
    says("degraded", &first, &lost, false, "not come to its end");
    // What was evicted stays in the list, and is no Pod of a rollout.
    let evicted = with(pod("e", "s1", false), |pod| pod["status"]["phase"] = json!("Failed"));
    says("degraded", &web(|_| {}), &[a, evicted], true, "1 of 2");
    says("degraded", &web(|w| w["metadata"]["generation"] = json!(8)), &lost, false, "observed");
}

/// Otherwise a sibling that was there all the time would pass for the substitute.
#[test]
fn a_pod_is_replaced_by_one_that_was_not_beside_it() {
    let (workload, mut memory) = (web(|_| {}), Memory::default());
    let [a, b] = both_ready();
    let (new, until) = (pod("c", "s2", false), "pod-replaced=b");
    let mut at = |pods: &[Object]| {
        memory.look(&workload, &sets(), pods);
        asked(until, &workload, pods, 0, &memory)
    };
    assert_eq!(at(&[a.clone(), b.clone()]), (false, "pod/web-b is still there".into()));
    // Its substitute is there before it is gone, and is none of its siblings.
    let (met, because) = at(&[a.clone(), going(b), new.clone()]);
    assert!(!met && because.contains("on its way out"), "{because}");
    assert_eq!(at(std::slice::from_ref(&a)), (false, "it is gone, and no substitute is there yet".into()));
    assert!(!at(&[a.clone(), going(new.clone())]).0);
    assert_eq!(at(&[a.clone(), new]), (true, "it is gone, and pod/web-c is there".into()));
    assert!(!at(&[a, pod("x", "s9", true)]).0, "another workload's is no substitute");
}

/// Otherwise a typo in the uid would be a Pod that was replaced; or a run that begins too late could never see it.
#[test]
fn a_pod_that_went_before_is_known_by_its_event_alone() {
    let (workload, mut memory) = (web(|_| {}), Memory::default());
    let a = pod("a", "s2", true);
    let new = with(pod("c", "s2", false), |pod| pod["metadata"]["creationTimestamp"] = json!("2026-11-29T12:10:00Z"));
    let pods = [a.clone(), new];
    memory.look(&workload, &sets(), &pods);
    let (met, because) = asked("pod-replaced=b", &workload, &pods, 0, &memory);
    assert!(!met && because.contains("no Event tells of its end"), "{because}");
    let event = |reason: &str, message: &str, name: &str| {
        Object(json!({
            "reason": reason, "message": message, "firstTimestamp": "2026-11-29T12:10:01Z",
            "involvedObject": {"kind": "Pod", "name": name, "uid": "b"},
        }))
    };
    let stop = "Stopping container app";
    memory.events(&[
        event("Started", "Started container app", "web-2-abcde"),
        event("Killing", "Container app failed liveness probe, will be restarted", "web-2-abcde"),
        event("Killing", stop, "other-2-abcde"),
    ]);
    assert!(!asked("pod-replaced=b", &workload, &pods, 0, &memory).0, "not its end, or another workload's");
    let mut memory = Memory::default();
    memory.events(&[event("Killing", stop, "web-2-abcde")]);
    assert!(asked("pod-replaced=b", &workload, &pods, 0, &memory).0);
    assert!(!asked("pod-replaced=b", &workload, &[a], 0, &memory).0, "older than its end");
}

/// Otherwise a run that begins while it is on its way out would take the substitute for a sibling.
#[test]
fn a_pod_on_its_way_out_dates_its_substitute() {
    let (workload, mut memory) = (web(|_| {}), Memory::default());
    let a = pod("a", "s2", true);
    // Asked to go at 12:10:00, with 30 s of grace.
    let new = with(pod("c", "s2", false), |pod| pod["metadata"]["creationTimestamp"] = json!("2026-11-29T12:10:00Z"));
    memory.look(&workload, &sets(), &[a.clone(), going(pod("b", "s2", true)), new.clone()]);
    assert!(asked("pod-replaced=b", &workload, &[a.clone(), new], 0, &memory).0);
    assert!(!asked("pod-replaced=b", &workload, &[a], 0, &memory).0);
}

/// Otherwise a condition on the document would be true of another place, or of none.
#[test]
fn a_field_is_found_and_compared_as_text() {
    let document = json!({
        "pods": [{"name": "a.b", "ready": true, "probe": null}, {"name": "c", "ready": false, "probe": {"status": 503}}],
        "exitCode": 0, "a/b": {"~": "x"},
    });
    let is = |field: &str, value: &str| in_document(field, value, &document);
    assert!(is("pods.1.probe.status", "503").0 && is("/pods/1/probe/status", "503").0);
    assert!(is("pods.c.ready", "false").0 && is("/pods/a.b/ready", "true").0 && is("pods.*.ready", "true").0);
    assert!(is("pods.0.probe", "null").0 && is("/a~1b/~0", "x").0 && is("a/b.~", "x").0);
    assert_eq!(is("pods.1.probe.status", "200"), (false, "pods.1.probe.status is 503".into()));
    assert_eq!(is("pods.*.ready", "yes"), (false, "pods.*.ready is false, true".into()));
    for absent in ["pods.2.ready", "pods.0.probe.status", "pods.ready", "exitCode.x", ""] {
        assert_eq!(is(absent, "503"), (false, format!("the document has no {absent}")));
    }
    assert_eq!(field::at(&document, "pods.*.probe.status"), [&json!(503)]);
}

/// Otherwise a typo would wait for its timeout.
#[test]
fn conditions_are_read_as_they_are_printed() {
    for text in ["complete", "incomplete", "stable", "degraded", "pod-replaced=u-1", "pods.0.ready=true", "a=b=c", "a="]
    {
        assert_eq!(Until::parse(text).expect(text).to_string(), text);
    }
    for wrong in ["", "Complete", "done", "pod-replaced", "pod-replaced=", "=x"] {
        assert!(Until::parse(wrong).is_err(), "{wrong}");
    }
}

/// Otherwise nobody would know where to look after a timeout.
#[test]
fn pods_to_look_at_come_with_their_reasons() {
    let (workload, memory, sets) = (web(|_| {}), Memory::default(), sets());
    let history = history::read(&workload, &sets);
    let status = |status: Value| {
        with(pod("a", "s2", false), |pod| {
            pod["spec"]["nodeName"] = json!("n");
            pod["status"]["containerStatuses"] = json!([status]);
        })
    };
    let look = |pod: Object| {
        let pods = [pod];
        let steady = Duration::ZERO;
        let look = Look { workload: &workload, sets: &sets, history: &history, pods: &pods, steady, memory: &memory };
        look_at(&look).into_iter().map(|l| l.because).collect::<Vec<_>>()
    };
    let waiting = json!({"name": "app", "ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    assert_eq!(look(status(waiting)), ["container app: CrashLoopBackOff"]);
    let running = json!({"name": "app", "ready": false, "state": {"running": {}}});
    assert_eq!(look(status(running)), ["container app: running, not ready"]);
    assert_eq!(look(pod("a", "s2", false)), ["not scheduled"]);
    assert_eq!(look(pod("a", "s2", true)), [""; 0]);
    assert_eq!(look(going(pod("a", "s2", false))), [""; 0]);
    assert_eq!(look(pod("a", "s9", false)), [""; 0]);
}

fn end(uid: &str) -> Endpoint {
    Endpoint { pod: format!("web-{uid}"), uid: uid.into() }
}

/// Otherwise an answer would be tied to a Pod that cannot have given it.
#[test]
fn an_answer_belongs_to_a_pod_that_was_an_endpoint_all_the_time() {
    let body = |pod: Value| json!({"env": {"HOSTNAME": pod}}).to_string();
    let (a, b) = (end("a"), end("b"));
    let ask =
        |body: &str, before: &[Endpoint], after: &[Endpoint]| attribute(body.as_bytes(), "env.HOSTNAME", before, after);
    let both = [a.clone(), b.clone()];
    assert_eq!(ask(&body(json!("web-a")), &both, &both), Ok(a.clone()));
    assert_eq!(ask(&body(json!("b")), &both, &both), Ok(b.clone()), "by uid");
    let not = |answer: Result<Endpoint, String>, words: &str| {
        let why = answer.expect_err("no Pod");
        assert!(why.contains(words), "{why}");
    };
    not(ask(&body(json!("web-a")), std::slice::from_ref(&b), &both), "was no ready endpoint");
    not(ask(&body(json!("web-a")), &both, &[b]), "ceased to be");
    // One of the same name, made again meanwhile.
    not(ask(&body(json!("web-a")), &both, &[Endpoint { uid: "z".into(), ..a }]), "ceased to be");
    not(ask(&body(json!("web-z")), &both, &both), "was no ready endpoint");
    not(ask(&body(json!("")), &[Endpoint { pod: String::new(), uid: String::new() }], &[]), "was no ready endpoint");
    not(ask(&body(json!(7)), &both, &both), "no text at env.HOSTNAME");
    not(ask("{\"other\": 1}", &both, &both), "no text at env.HOSTNAME");
    not(ask("<html>", &both, &both), "no JSON");
    let secret = ask(&body(json!("s3cret")), &both, &both).expect_err("no Pod");
    assert!(!secret.contains("s3cret"), "nothing of an answer is quoted: {secret}");
}

/// Otherwise a Service's answer from another workload's Pod would pass for ours.
#[test]
fn whose_pod_answered_is_said() {
    let service = Object(json!({"metadata": {"name": "web", "uid": "svc"}}));
    let slice = Object(json!({
        "metadata": {"labels": {"kubernetes.io/service-name": "web"}},
        "endpoints": [{"conditions": {"ready": true}, "targetRef": {"kind": "Pod", "name": "web-a", "uid": "a"}}],
    }));
    for (ours, known) in [(true, "a"), (false, "b")] {
        let mut line = ServiceLine::of(&service, std::slice::from_ref(&slice));
        line.attribute(b"{\"pod\": \"a\"}", "pod", &[end("a")], &BTreeSet::from([known.to_string()]));
        assert_eq!(line.answered_by.map(|by| (by.uid, by.ours)), Some(("a".into(), ours)));
        assert_eq!(line.attribution, "attributed");
    }
}

/// Otherwise a Pod that is not ready, or another Service's, would be an endpoint.
#[test]
fn endpoints_are_the_ready_pods_of_the_service() {
    let slice = |service: &str, endpoints: Value| {
        Object(json!({"metadata": {"labels": {"kubernetes.io/service-name": service}}, "endpoints": endpoints}))
    };
    let target = |uid: &str| json!({"kind": "Pod", "name": format!("web-{uid}"), "uid": uid});
    let slices = [
        slice(
            "web",
            json!([
                {"conditions": {"ready": true}, "targetRef": target("b")},
                {"conditions": {"ready": false, "serving": true}, "targetRef": target("c")},
                // "A nil value should be interpreted as true."
                {"conditions": {}, "targetRef": target("a")},
                {"conditions": {"ready": true}, "addresses": ["10.0.0.1"]},
            ]),
        ),
        // Dual stack: the same Pod by another address.
        slice("web", json!([{"conditions": {"ready": true}, "targetRef": target("b")}])),
        slice("other", json!([{"conditions": {"ready": true}, "targetRef": target("d")}])),
        slice("web", Value::Null),
    ];
    assert_eq!(endpoints("web", &slices), [end("a"), end("b")]);
}

/// Otherwise a Service without a selector would be asked for any workload, or one of a workload at zero be forgotten.
#[test]
fn services_are_those_that_select_its_pods() {
    let service =
        |name: &str, selector: Value| Object(json!({"metadata": {"name": name}, "spec": {"selector": selector}}));
    let services = [
        service("web", json!({"app": "web"})),
        service("also", json!({"app": "web", "tier": "blue"})),
        service("other", json!({"app": "other"})),
        service("all", json!({})),
        service("none", Value::Null),
    ];
    let names = |pods: &[&Object]| -> Vec<String> {
        let workload = web(|_| {});
        selecting(&workload, pods, &services).iter().map(|s| s.name().to_string()).collect()
    };
    assert_eq!(names(&[]), ["web"]);
    let labelled = with(pod("a", "s1", true), |pod| pod["metadata"]["labels"]["tier"] = json!("blue"));
    assert_eq!(names(&[&labelled]), ["also", "web"]);
}

/// Otherwise a question would go to another port than the one that was named, or lead out of the Pod.
#[test]
fn a_probe_is_a_path_and_a_port() {
    let probe = |text: &str| Probe::parse(text).map(|p| (p.path, p.port));
    let path = |path: &str, port| Ok((path.to_string(), port));
    assert_eq!(probe("/ready:8080"), path("/ready", Some(8080)));
    assert_eq!(probe("ready"), path("/ready", None));
    assert_eq!(probe("/a:b?x=1:2:90"), path("/a:b?x=1:2", Some(90)));
    assert_eq!(probe("/"), path("/", None));
    for wrong in ["/ready:0", "/ready:70000", "/../../secrets", "/a/./b", "/a b", "/a#b", "/é", "/a\\b"] {
        assert!(probe(wrong).is_err(), "{wrong}");
    }
}

/// Otherwise a Service would be asked at a port that leads elsewhere.
#[test]
fn ports_lead_from_the_service_to_the_pods() {
    let workload = web(|w| {
        w["spec"]["template"]["spec"]["containers"][0]["ports"] =
            json!([{"name": "http", "containerPort": 8080}, {"containerPort": 9090}]);
    });
    let bare = web(|_| {});
    let service = |ports: Value| Object(json!({"metadata": {"name": "web"}, "spec": {"ports": ports}}));
    let several = service(json!([
        {"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 9090}, {"port": 8080, "targetPort": 1},
    ]));
    let (given, none) = (|port| Probe { path: "/".into(), port: Some(port) }, Probe { path: "/".into(), port: None });
    assert_eq!(given(8080).service_port(&workload, &several), Ok(80), "what it leads to, not what it is called");
    assert_eq!(given(9090).service_port(&workload, &several), Ok(81));
    assert_eq!(given(8080).service_port(&bare, &several), Ok(8080));
    assert!(given(7).service_port(&workload, &several).is_err());
    assert!(none.service_port(&workload, &several).is_err(), "several, and none named");
    assert_eq!(none.service_port(&workload, &service(json!([{"port": 80}]))), Ok(80));
    assert_eq!(given(80).service_port(&workload, &service(json!([{"port": 80}]))), Ok(80));
    assert!(none.service_port(&workload, &service(json!([]))).is_err());
    assert_eq!(given(7).pod_port(&workload, &[]), Some(7));
    assert_eq!(none.pod_port(&workload, &[]), Some(8080));
    assert_eq!(none.pod_port(&bare, &[&service(json!([{"port": 80, "targetPort": 8081}]))]), Some(8081));
    assert_eq!(none.pod_port(&bare, &[]), None);
}

/// Otherwise a document could grow without bound, or half an answer have the digest of a whole one.
#[test]
fn a_long_answer_is_cut_and_says_so() {
    let mut line = ProbeLine::of(200, b"hello", true);
    assert_eq!(line.digest.as_deref().map(|d| &d[..15]), Some("sha256:2cf24dba"));
    assert_eq!(line.body, None, "digests, never content, unless asked for");
    line.show(b"hello");
    assert_eq!((line.body.as_deref(), line.body_cut), (Some("hello"), Some(false)));
    let long = vec![b'x'; 64 * 1024 + 1];
    let mut line = ProbeLine::of(200, &long, true);
    line.show(&long);
    assert_eq!((line.body.map(|b| b.len()), line.body_cut), (Some(64 * 1024), Some(true)));
    assert!(line.digest.is_some());
    let mut line = ProbeLine::of(200, b"beginning", false);
    line.show(b"beginning");
    assert_eq!((line.digest, line.body_cut), (None, Some(true)));
    assert!(line.error.is_some());
}

/// Otherwise Pods of a deleted namesake's ReplicaSet would be counted as the workload's.
#[test]
fn pods_belong_by_uid() {
    let pods = [
        pod("a", "s1", true),
        pod("b", "s9", true),
        with(pod("c", "s1", true), |p| p["metadata"]["ownerReferences"] = json!([])),
    ];
    let sets = sets();
    let found: Vec<&str> = owned(&web(|_| {}), &sets, &pods).iter().map(|(pod, _)| pod.uid()).collect();
    assert_eq!(found, ["a"]);
}
