use saferollback::cluster::Notice;
use saferollback::cluster::read::{ReadError, Resource, Select};
use serde_json::json;

use crate::cluster::fake::{Fake, Reply, config_map, list, status, status_with};

const MAPS: Resource = Resource::ConfigMaps;

fn names(list: &saferollback::cluster::read::List) -> Vec<&str> {
    list.items.iter().map(|item| item.name()).collect()
}

#[tokio::test]
async fn a_list_is_paged_consistent_and_its_items_say_what_they_are() {
    let fake = Fake::new(vec![
        list("90", Some("next+/="), vec![config_map("a", 10)]),
        list("90", None, vec![config_map("b", 20)]),
    ]);
    let found = fake.cluster.list(MAPS, "shop", Select::Labels("app in (web,api),!old")).await.unwrap();
    assert_eq!(names(&found), ["a", "b"]);
    assert_eq!(found.version, Some(90));
    assert_eq!(found.items[0].kind(), "ConfigMap");
    assert_eq!(found.items[0].str_at("/apiVersion"), "v1");
    let seen = fake.seen();
    assert_eq!(seen[0].path, "/api/v1/namespaces/shop/configmaps");
    assert_eq!(seen[0].query["limit"], "500");
    assert_eq!(seen[0].query["labelSelector"], "app in (web,api),!old");
    assert_eq!(seen[1].query["continue"], "next+/=");
    assert_eq!(seen[1].query["labelSelector"], "app in (web,api),!old");
    for request in &seen {
        assert!(!request.query.contains_key("resourceVersion"), "0 or a cache may be stale");
    }
    assert_eq!(fake.cluster.requests(), 2);
}

// micnncim/kubectl-reap#116
/// Without this half a list would be shown as a whole one (C103).
#[tokio::test]
async fn a_list_whose_token_expires_starts_again_without_duplicates() {
    let fake = Fake::new(vec![
        list("90", Some("t1"), vec![config_map("a", 10), config_map("gone", 11)]),
        status(410, "Expired", "The provided continue parameter is too old"),
        list("120", Some("t2"), vec![config_map("a", 10)]),
        list("120", None, vec![config_map("b", 100)]),
    ]);
    let found = fake.cluster.list(MAPS, "shop", Select::All).await.unwrap();
    assert_eq!(names(&found), ["a", "b"]);
    assert_eq!(found.version, Some(120));
    assert!(!fake.seen()[2].query.contains_key("continue"));
}

/// Without this a busy cluster would keep the program for ever (C103).
#[tokio::test]
async fn a_list_does_not_start_again_for_ever() {
    let mut replies = Vec::new();
    for _ in 0..4 {
        replies.push(list("90", Some("t"), vec![config_map("a", 10)]));
        replies.push(status(410, "Expired", "too old"));
    }
    let fake = Fake::new(replies);
    let error = fake.cluster.list(MAPS, "shop", Select::All).await.unwrap_err();
    assert!(matches!(error, ReadError::Expired { .. }), "{error}");
    assert_eq!(fake.cluster.requests(), 8);
}

#[tokio::test]
async fn time_travel_is_always_an_exact_list() {
    let fake = Fake::new(vec![list("70", Some("t"), vec![config_map("settings", 60)]), list("70", None, vec![])]);
    let found = fake.cluster.list_at(MAPS, "shop", Select::Name("settings"), 70).await.unwrap();
    assert_eq!(found.items[0].version(), Some(60));
    let seen = fake.seen();
    assert_eq!(seen[0].path, "/api/v1/namespaces/shop/configmaps", "a GET of one object answers with the live one");
    assert_eq!(seen[0].query["resourceVersion"], "70");
    assert_eq!(seen[0].query["resourceVersionMatch"], "Exact");
    assert_eq!(seen[0].query["fieldSelector"], "metadata.name=settings");
    assert!(!seen[1].query.contains_key("resourceVersion"), "the server refuses it beside a continue token");
}

#[tokio::test]
async fn a_server_that_ignores_the_version_is_not_believed() {
    for reply in [
        list("70", None, vec![config_map("settings", 71)]),
        list("99", None, vec![config_map("settings", 60)]),
        list("", None, vec![config_map("settings", 60)]),
        list("70", None, vec![json!({"metadata": {"name": "settings"}})]),
    ] {
        let fake = Fake::new(vec![reply]);
        let error = fake.cluster.list_at(MAPS, "shop", Select::Name("settings"), 70).await.unwrap_err();
        assert!(matches!(error, ReadError::Malformed { .. }), "{error}");
    }
}

#[tokio::test]
async fn versions_too_old_and_too_new_are_told_apart_and_not_asked_for_again() {
    let fake = Fake::new(vec![
        status(410, "Expired", "The resourceVersion for the provided list is too old."),
        status_with(
            504,
            "Timeout",
            "Too large resource version: 9000, current: 80",
            json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}),
        ),
    ]);
    let old = fake.cluster.list_at(MAPS, "shop", Select::All, 7).await.unwrap_err();
    assert!(matches!(old, ReadError::Expired { .. }), "{old}");
    let new = fake.cluster.list_at(MAPS, "shop", Select::All, 9000).await.unwrap_err();
    assert!(matches!(new, ReadError::TooNew { .. }), "{new}");
    assert_eq!(fake.cluster.requests(), 2);
}

#[tokio::test]
async fn the_domain_probe_fetches_a_number_and_no_content() {
    let fake = Fake::new(vec![list("88", Some("more"), vec![]), list("not-a-number", None, vec![])]);
    assert_eq!(fake.cluster.list_one(MAPS, "shop").await.unwrap(), Some(88));
    assert_eq!(fake.cluster.list_one(Resource::Pods, "shop").await.unwrap(), None);
    let seen = fake.seen();
    assert_eq!(seen[0].query.len(), 1);
    assert_eq!(seen[0].query["limit"], "1");
    assert!(seen[0].accept.contains("as=PartialObjectMetadataList"), "{}", seen[0].accept);
}

/// Without this what may not be read would be taken for gone (C101, alexellis/registry-creds#31).
#[tokio::test]
async fn absent_and_forbidden_are_different_answers() {
    let message = "configmaps \"b\" is forbidden: User \"eve\" cannot get resource \"configmaps\" in API group \"\"";
    let fake = Fake::new(vec![
        status(404, "NotFound", "configmaps \"a\" not found"),
        status(403, "Forbidden", message),
        // A proxy's 404 is nobody's word about an object.
        Reply::Raw(404, vec![], "<html>no such site</html>".to_string()),
        status(403, "Forbidden", message),
    ]);
    assert_eq!(fake.cluster.get(MAPS, "shop", "a").await.unwrap(), None);
    let forbidden = fake.cluster.get(MAPS, "shop", "b").await.unwrap_err();
    assert!(matches!(forbidden, ReadError::Forbidden { .. }));
    assert_eq!(forbidden.to_string(), format!("not allowed to get configmaps b in namespace shop: {message}"));
    assert!(matches!(fake.cluster.get(MAPS, "shop", "c").await.unwrap_err(), ReadError::NotFound { .. }));
    assert!(matches!(
        fake.cluster.list(MAPS, "shop", Select::Name("b")).await.unwrap_err(),
        ReadError::Forbidden { .. }
    ));
    assert_eq!(fake.cluster.requests(), 4);
}

#[tokio::test]
async fn reads_are_repeated_three_times_and_say_so() {
    for failure in [
        || status(503, "ServiceUnavailable", "etcd is busy"),
        || status(500, "InternalError", "leader changed"),
        || status(504, "Timeout", "request timed out"),
        || Reply::Raw(502, vec![], "<html>bad gateway</html>".to_string()),
        || Reply::Raw(429, vec![("retry-after", "0")], "slow down".to_string()),
        || Reply::Cut,
    ] {
        let fake = Fake::new(vec![failure(), failure(), failure(), list("5", None, vec![])]);
        assert_eq!(fake.cluster.list(MAPS, "shop", Select::All).await.unwrap().version, Some(5));
        assert_eq!(fake.notices().len(), 3);
        assert!(
            matches!(&fake.notices()[0], Notice::Retry { call, .. } if call == "list configmaps in namespace shop")
        );

        let fake = Fake::new(vec![failure(), failure(), failure(), failure()]);
        fake.cluster.get(MAPS, "shop", "a").await.unwrap_err();
        assert_eq!(fake.cluster.requests(), 4);
    }
}

#[tokio::test]
async fn a_wait_that_the_server_asks_for_may_be_too_long() {
    let fake = Fake::new(vec![Reply::Raw(429, vec![("retry-after", "60")], "slow down".to_string())]);
    let error = fake.cluster.get(MAPS, "shop", "a").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot get configmaps a in namespace shop: slow down (429 Too Many Requests)");
}

#[tokio::test]
async fn a_silent_server_ends_at_the_deadline_and_is_not_asked_again() {
    let fake = Fake::new(vec![Reply::Silence]);
    let error = fake.cluster.list(MAPS, "shop", Select::All).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot list configmaps in namespace shop: no complete answer within 200ms");
}

#[tokio::test]
async fn an_answer_of_another_shape_is_an_error_and_not_an_empty_list() {
    for text in [
        "",
        "{",
        "[]",
        "{}",
        "<html>login</html>",
        r#"{"kind":"ConfigMapList","items":7}"#,
        r#"{"kind":"ConfigMapList","items":[1]}"#,
    ] {
        let fake = Fake::new(vec![Reply::Raw(200, vec![], text.to_string())]);
        let error = fake.cluster.list(MAPS, "shop", Select::All).await.unwrap_err();
        assert!(matches!(error, ReadError::Malformed { .. }), "{text}: {error}");
    }
    let fake = Fake::new(vec![Reply::Raw(302, vec![("location", "https://login")], String::new())]);
    assert!(matches!(fake.cluster.list(MAPS, "shop", Select::All).await, Err(ReadError::Api { code: 302, .. })));
}

#[tokio::test]
async fn a_secret_is_metadata_whatever_the_server_sends() {
    let secret = json!({"kind": "Secret", "apiVersion": "v1", "data": {"pin": "MTIzNA=="}, "stringData": {"x": "1234"},
        "metadata": {"name": "s", "namespace": "shop", "resourceVersion": "4",
                     "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"pin\":\"MTIzNA==\"}}"}}});
    let fake = Fake::new(vec![
        Reply::Json(200, secret.clone()),
        Reply::Json(200, json!({"kind": "SecretList", "metadata": {"resourceVersion": "9"}, "items": [secret]})),
    ]);
    let one = fake.cluster.get(Resource::Secrets, "shop", "s").await.unwrap().unwrap();
    let many = fake.cluster.list(Resource::Secrets, "shop", Select::All).await.unwrap();
    for object in [&one, &many.items[0]] {
        assert!(!object.0.to_string().contains("1234") && !object.0.to_string().contains("MTIz"), "{:?}", object.0);
        assert_eq!((object.kind(), object.version()), ("Secret", Some(4)));
    }
    assert!(fake.seen().iter().all(|request| request.accept.contains("as=PartialObjectMetadata")));
}

#[tokio::test]
async fn names_never_lead_to_another_path() {
    let fake = Fake::new(vec![]);
    for name in ["", ".", "..", "a/b", "a%2fb", "../secrets/s"] {
        let error = fake.cluster.get(MAPS, "shop", name).await.unwrap_err();
        assert!(matches!(error, ReadError::BadName { .. }), "{error}");
    }
    assert!(matches!(fake.cluster.get(MAPS, "", "a").await.unwrap_err(), ReadError::BadName { .. }));
    assert!(matches!(fake.cluster.list(MAPS, "..", Select::All).await.unwrap_err(), ReadError::BadName { .. }));
    assert_eq!(fake.cluster.requests(), 0);
}

#[tokio::test]
async fn warnings_of_the_server_are_heard_once() {
    let warned = |text: &'static str| {
        Reply::Raw(200, vec![("warning", text)], r#"{"kind":"ConfigMapList","metadata":{}}"#.to_string())
    };
    let fake = Fake::new(vec![
        warned(r#"299 - "a \"quoted\" word", 299 - "second""#),
        warned(r#"299 - "second""#),
        warned(r#"110 - "not ours" "Wed, 21 Oct 2015 07:28:00 GMT""#),
        warned(r#"299 - "never ends"#),
    ]);
    for _ in 0..4 {
        fake.cluster.list(MAPS, "shop", Select::All).await.unwrap();
    }
    let texts: Vec<String> = fake.notices().iter().map(Notice::to_string).collect();
    assert_eq!(texts, [r#"a "quoted" word"#, "second"]);
}

#[tokio::test]
async fn the_server_says_its_version() {
    let fake = Fake::new(vec![Reply::Json(200, json!({"major": "1", "minor": "35+", "gitVersion": "v1.35.4-gke.1"}))]);
    let version = fake.cluster.server_version().await.unwrap();
    assert_eq!((version.git.as_str(), version.major, version.minor), ("v1.35.4-gke.1", Some(1), Some(35)));
}
