//! The Pods that testify what a revision's containers read, and what admission put into them.

use crate::core::history::Revision;
use crate::core::object::Object;
use crate::core::references::{self, Read, Reference, References, Use};

/// A Pod that shows what the revision's containers read.
pub struct Witness<'a> {
    pub pod: &'a Object,
    pub references: References,
}

/// The surviving Pods of a revision, sorted by what they may testify.
pub struct Witnesses<'a> {
    pub witnesses: Vec<Witness<'a>>,
    /// Owned by the ReplicaSet, but no witness: name and reason.
    pub set_aside: Vec<(String, String)>,
    /// A Pod that descends from the ReplicaSet names other objects than the template: something rewrites Pods at
    /// admission, so the template does not say what a replacement Pod reads.
    pub rewritten: Option<String>,
}

/// Pods owned by the revision's object, whether witnesses or not.
pub fn owned_pods<'a>(revision: &Revision, pods: &'a [Object]) -> Vec<&'a Object> {
    pods.iter().filter(|pod| pod.controller().is_some_and(|o| o.uid == revision.object.uid())).collect()
}

/// ARCHITECTURE.md, rule 11: a Pod is a witness only if it descends from the revision's object (a bare Pod that was
/// relabelled and adopted does not) and its references, per container, are the template's.
pub fn witnesses<'a>(revision: &Revision, pods: &'a [Object]) -> Witnesses<'a> {
    let template = references::extract(&revision.template);
    let prefix = format!("{}-", revision.object.name());
    let mut found = Witnesses { witnesses: Vec::new(), set_aside: Vec::new(), rewritten: None };
    for pod in owned_pods(revision, pods) {
        if pod.str_at("/metadata/generateName") != prefix {
            let reason = format!("it was not created by replicaset/{}", revision.object.name());
            found.set_aside.push((pod.name().to_string(), reason));
            continue;
        }
        let references = references::extract(&pod.0);
        match template.references.iter().find(|r| !names_equally(r, &references)) {
            None => found.witnesses.push(Witness { pod, references }),
            Some(differing) => {
                let reason =
                    format!("it does not use {}/{} as the template does", differing.kind.word(), differing.name);
                found.rewritten.get_or_insert_with(|| pod.name().to_string());
                found.set_aside.push((pod.name().to_string(), reason));
            }
        }
    }
    found
}

/// Does the Pod use `wanted` in each container just as the template does?
fn names_equally(wanted: &Reference, pod: &References) -> bool {
    let Some(has) = pod.get(wanted.kind, &wanted.name) else { return false };
    wanted.uses.iter().all(|w| has.uses.iter().any(|h| alike(w, h)))
}

/// Positions may shift, since admission inserts containers and volumes; containers, keys and kind of read may not.
fn alike(a: &Use, b: &Use) -> bool {
    (&a.container, a.init, a.read, &a.keys, a.optional) == (&b.container, b.init, b.read, &b.keys, b.optional)
}

/// What surviving Pods use and the template does not: put in at admission, be it another object or another use of one
/// that the template names too.
pub fn injected(template: &References, witnesses: &Witnesses<'_>) -> Vec<Reference> {
    let mut injected: Vec<Reference> = Vec::new();
    for reference in witnesses.witnesses.iter().flat_map(|w| &w.references.references) {
        if references::trust_bundle(&reference.name) {
            continue;
        }
        let named = template.get(reference.kind, &reference.name);
        for used in reference.uses.iter().filter(|u| u.read != Read::ImagePull) {
            if named.is_some_and(|r| r.uses.iter().any(|u| alike(u, used))) {
                continue;
            }
            match injected.iter_mut().find(|r| r.kind == reference.kind && r.name == reference.name) {
                Some(known) if known.uses.iter().any(|u| alike(u, used)) => {}
                Some(known) => known.uses.push(used.clone()),
                None => injected.push(Reference { uses: vec![used.clone()], ..reference.clone() }),
            }
        }
    }
    injected
}
