use saferollback::cluster::read::{ReadError, Resource, Select};
use saferollback::cluster::watch::Event;
use serde_json::json;

use crate::cluster::fake::{Fake, Reply, status};

fn line(event: &str, name: &str, version: &str) -> String {
    let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "resourceVersion": version}});
    format!("{}\n", json!({"type": event, "object": object}))
}

#[tokio::test]
async fn changes_come_in_order_until_the_server_ends() {
    let text = line("ADDED", "a", "5")
        + "\n"
        + &line("MODIFIED", "a", "6")
        + &line("DELETED", "a", "7")
        + &line("BOOKMARK", "", "9")
        + "{\"type\":\"ADDED\",\"obj";
    let fake = Fake::new(vec![Reply::Raw(200, vec![], text)]);
    let mut watch = fake.cluster.watch(Resource::Pods, "shop", Select::Labels("app=web"), Some(4)).await.unwrap();
    let mut changes = Vec::new();
    while let Some(change) = watch.next().await.unwrap() {
        changes.push((change.event, change.object.version()));
    }
    assert_eq!(
        changes,
        [(Event::Added, Some(5)), (Event::Modified, Some(6)), (Event::Deleted, Some(7)), (Event::Bookmark, Some(9))]
    );
    let query = &fake.seen()[0].query;
    assert_eq!((query["watch"].as_str(), query["allowWatchBookmarks"].as_str()), ("true", "true"));
    assert_eq!((query["resourceVersion"].as_str(), query["labelSelector"].as_str()), ("4", "app=web"));
    assert!(query["timeoutSeconds"].parse::<u64>().unwrap() <= 200);
}

#[tokio::test]
async fn an_expired_watch_says_so_at_its_head_and_in_its_stream() {
    let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 4 (9)"}});
    let fake = Fake::new(vec![
        status(410, "Expired", "too old"),
        Reply::Raw(200, vec![], line("ADDED", "a", "5") + &format!("{gone}\n")),
    ]);
    let head = fake.cluster.watch(Resource::Pods, "shop", Select::All, Some(4)).await.err().unwrap();
    assert!(matches!(head, ReadError::Expired { .. }), "{head}");
    let mut watch = fake.cluster.watch(Resource::Pods, "shop", Select::All, Some(4)).await.unwrap();
    watch.next().await.unwrap().unwrap();
    let later = watch.next().await.unwrap_err();
    assert!(matches!(later, ReadError::Expired { .. }), "{later}");
}

#[tokio::test]
async fn nonsense_is_an_error() {
    for text in ["nonsense\n", "{\"type\":\"NEW\",\"object\":{}}\n", "{\"type\":\"ADDED\",\"object\":3}\n", "7\n"] {
        let fake = Fake::new(vec![Reply::Raw(200, vec![], text.to_string())]);
        let mut watch = fake.cluster.watch(Resource::Pods, "shop", Select::All, None).await.unwrap();
        assert!(matches!(watch.next().await, Err(ReadError::Malformed { .. })), "{text}");
    }
    let fake = Fake::new(vec![Reply::Silence]);
    let silent = fake.cluster.watch(Resource::Pods, "shop", Select::All, None).await.err().unwrap();
    assert!(matches!(silent, ReadError::Timeout { .. }), "{silent}");
}
