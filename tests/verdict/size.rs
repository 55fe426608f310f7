//! A namespace of hundreds of Pods is judged in a moment.

use std::time::{Duration, Instant};

use serde_json::json;

use super::scene::*;

#[test]
fn a_large_namespace_is_judged_in_a_moment() {
    let names: Vec<String> = (0..5).map(|i| format!("settings-{i}")).collect();
    let from: Vec<_> = names.iter().map(|n| json!({"configMapRef": {"name": n}})).collect();
    let template = |i: u64| template(&format!("web:{i}"), json!({"envFrom": from}));
    let mut scene = Scene::of(template(9));
    scene.objects = names.iter().map(|n| config_map(n, json!({"A": "1"}), 5, -5000)).collect();
    for number in 0..10 {
        scene.sets.push(replica_set(number, &template(number), 100_000, 0, 100));
        for i in 0..40 {
            let version = 1000 + 100 * (number * 100 + i);
            let pod = pod(&scene.sets[number as usize], &format!("p{i:04}"), version, 10);
            scene.events.extend(start_events(&pod, version, 10));
            scene.pods.push(pod);
        }
    }
    let (seen, history) = (scene.observed(), scene.history());
    let start = Instant::now();
    let judged = saferollback::core::plan::judge(&seen, &history);
    let took = start.elapsed();
    assert_eq!(judged.iter().map(|j| j.references.len()).sum::<usize>(), 45, "revision 0 is no revision");
    eprintln!("{took:?}");
    // Debug build on a busy machine; with a walk through all Pods for each reference the time grows with the square.
    assert!(took < Duration::from_secs(20), "{took:?}");
}
