//! API time travel: LIST with `resourceVersionMatch=Exact`, walking an object's versions back.
//!
//! Never a GET: it ignores the parameter and answers 200 with the live object. The server keeps five to ten minutes.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::cluster::read::{ReadError, Resource, Select};
use crate::core::evidence;
use crate::core::history::History;
use crate::core::object::Object;
use crate::core::observed::{Key, Lookup, Observed, Origin, Past, PastEnd, Version};
use crate::core::plan::{self, Judged};
use crate::core::references::Kind;
use crate::core::verdict::Verdict;

/// At most so many versions a walk, and so long for all walks of a run.
const STEPS: usize = 50;
const TIME: Duration = Duration::from_secs(2);

/// Looks back where a verdict depends on it: at ConfigMaps that were or may have been written since, and at Pods whose
/// start no Event anchors any more. Returns the verdicts, which are judged again only if there was something to see.
pub async fn look_back(cluster: &Cluster, namespace: &str, seen: &mut Observed, history: &History) -> Vec<Judged> {
    let judged = plan::judge(seen, history);
    let keys = wanted(&judged);
    let deadline = deadline();
    let births = births(cluster, namespace, seen, &judged, deadline);
    let seen_before = &*seen;
    let walks = join_all(keys.iter().map(|(key, floor)| {
        let live = match seen_before.objects.get(key) {
            Some(Lookup::Found(object)) => Some(object),
            _ => None,
        };
        walk(cluster, namespace, &key.1, live, seen_before.list_number, *floor, deadline)
    }));
    let (births, walks) = tokio::join!(births, walks);
    if births.is_empty() && walks.is_empty() {
        return judged;
    }
    for ((key, _), past) in keys.into_iter().zip(walks) {
        seen.past.insert(key, past);
    }
    seen.pod_births.extend(births);
    plan::judge(seen, history)
}

/// The ConfigMaps whose past matters, each with the number below which no read lies (`None`: as far as it goes).
fn wanted(judged: &[Judged]) -> Vec<(Key, Option<u64>)> {
    let mut keys: Vec<(Key, Option<u64>)> = Vec::new();
    for reference in judged.iter().flat_map(|j| &j.references) {
        let open = matches!(
            reference.verdict,
            Verdict::Missing
                | Verdict::KeyMissing
                | Verdict::Recreated
                | Verdict::WrittenAfter
                | Verdict::WrittenDuring
                | Verdict::Refreshed
        );
        if reference.reference.kind != Kind::ConfigMap || !open {
            continue;
        }
        let key = (Kind::ConfigMap, reference.reference.name.clone());
        match keys.iter_mut().find(|(k, _)| *k == key) {
            Some((_, floor)) => *floor = (*floor).min(reference.floor),
            None => keys.push((key, reference.floor)),
        }
    }
    keys
}

/// The end of all walks of a run that begin now.
pub fn deadline() -> Instant {
    Instant::now() + TIME
}

/// Walks a ConfigMap's versions back from today's object, or, where there is none, from the number of the list that it
/// was missing in. `floor`: not further than below this number.
pub async fn walk(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    live: Option<&Object>,
    list_number: Option<u64>,
    floor: Option<u64>,
    deadline: Instant,
) -> Past {
    let mut past = Past::default();
    let mut walker = Walker { cluster, namespace, name, steps: 0, deadline };
    // The number from which the known part of the past reaches up to today, and the sign of the write there.
    let (mut known_from, mut sign) = match live.and_then(|o| Some((o.version()?, evidence::write_sign(o)))) {
        Some((version, sign)) => (version, sign),
        None => match list_number {
            Some(number) => (number + 1, None),
            None => return past,
        },
    };
    past.end = loop {
        if floor.is_some_and(|floor| known_from < floor) {
            break PastEnd::Enough;
        }
        let (object, until) = match walker.at(known_from - 1).await {
            Ok(Some(object)) => (object, known_from),
            // Absent there: deleted before, or not yet created. An earlier one of this name may lie further back.
            Ok(None) => match walker.search_below(known_from - 1).await {
                Ok(Some((object, held))) => {
                    sign = None;
                    (object, held + 1)
                }
                Ok(None) => break PastEnd::Beginning,
                Err(end) => break end,
            },
            Err(end) => break end,
        };
        let Some(version) = object.version().filter(|v| *v > 0) else { break PastEnd::Beginning };
        let next = evidence::write_sign(&object);
        let until_time = sign.map(|(time, _)| time);
        past.versions.push(Version { object, until: Some(until), until_time, origin: Origin::TimeTravel });
        known_from = version;
        sign = next;
    };
    past
}

struct Walker<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    name: &'a str,
    steps: usize,
    deadline: Instant,
}

impl Walker<'_> {
    /// The object as it was at `number`.
    async fn at(&mut self, number: u64) -> Result<Option<Object>, PastEnd> {
        if self.steps >= STEPS || Instant::now() >= self.deadline {
            return Err(PastEnd::Limit);
        }
        self.steps += 1;
        at(self.cluster, Resource::ConfigMaps, self.namespace, self.name, number, self.deadline).await
    }

    /// A doubling search below `absent`, then the highest number at which the found version was still there.
    async fn search_below(&mut self, absent: u64) -> Result<Option<(Object, u64)>, PastEnd> {
        let mut step = 1;
        let mut high = absent;
        let (mut object, mut low) = loop {
            let Some(number) = absent.checked_sub(step).filter(|n| *n > 0) else { return Ok(None) };
            match self.at(number).await? {
                Some(object) => break (object, number),
                None => high = number,
            }
            step *= 2;
        };
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.at(middle).await? {
                Some(found) => (object, low) = (found, middle),
                None => high = middle,
            }
        }
        Ok(Some((object, low)))
    }
}

async fn at(
    cluster: &Cluster,
    resource: Resource,
    namespace: &str,
    name: &str,
    number: u64,
    deadline: Instant,
) -> Result<Option<Object>, PastEnd> {
    let list = cluster.list_at(resource, namespace, Select::Name(name), number);
    match tokio::time::timeout_at(deadline, list).await {
        Ok(Ok(list)) => Ok(list.items.into_iter().next()),
        Ok(Err(ReadError::Expired { .. })) => Err(PastEnd::Expired),
        Ok(Err(error)) => Err(PastEnd::Failed(error.to_string())),
        Err(_) => Err(PastEnd::Limit),
    }
}

/// Pod time travel: the number of the version in which a Pod was created is below everything its containers read. All
/// reading Pods must have one, so the oldest is asked first, and nothing more when its birth is out of reach.
async fn births(
    cluster: &Cluster,
    namespace: &str,
    seen: &Observed,
    judged: &[Judged],
    deadline: Instant,
) -> Vec<(String, u64)> {
    if !seen.config_maps.pods {
        return Vec::new();
    }
    let mut births = Vec::new();
    for revision in judged.iter().filter(|j| j.references.iter().any(|r| r.unanchored)) {
        let mut pods = evidence::owned_pods(&revision.revision, seen.all_pods());
        pods.sort_by_key(|p| p.created());
        for pod in pods {
            match birth(cluster, namespace, pod, deadline).await {
                Some(number) => births.push((pod.uid().to_string(), number)),
                None => break,
            }
        }
    }
    births
}

/// The number of the first version of a Pod that is still in the API's history, if that is the created one.
async fn birth(cluster: &Cluster, namespace: &str, pod: &Object, deadline: Instant) -> Option<u64> {
    let mut known = pod.version()?;
    let mut first = pod.clone();
    for _ in 0..STEPS {
        // An unbound version is before anything a kubelet did.
        if first.str_at("/spec/nodeName").is_empty() {
            return Some(known);
        }
        match at(cluster, Resource::Pods, namespace, pod.name(), known - 1, deadline).await {
            Ok(Some(before)) if before.uid() == pod.uid() => {
                known = before.version()?;
                first = before;
            }
            Ok(_) => return Some(known),
            Err(_) => return None,
        }
    }
    None
}
