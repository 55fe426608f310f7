//! What a refused undo can offer: only what can work here.

use crate::core::observed::Origin;
use crate::core::plan::{Plan, Refusal};
use crate::core::policy::{Code, Config};
use crate::core::report::WayOn;
use crate::run::undo::Request;

const ALLOW_MANAGED: &str = "--allow-managed";

/// Only what can work here.
pub fn ways_on(plan: &Plan, request: &Request) -> Vec<WayOn> {
    if !plan.refused() {
        return Vec::new();
    }
    let refused = |code: Code| plan.refusals.iter().filter(move |r| r.code == code);
    let managed = refused(Code::Managed).next().is_some();
    let command = |more: &[String]| {
        let mut argv: Vec<String> = ["kubectl", "saferollback", "undo"].map(String::from).to_vec();
        argv.extend(request.words.iter().cloned());
        argv.extend(["--to-revision".to_string(), plan.to.to_string()]);
        argv.extend(request.typed.iter().cloned());
        // What was given already stays given, unless this way gives another content of the same ConfigMap.
        let source = |given: &str| given.split_once('=').map(|(name, _)| name.to_string());
        let live = more.iter().any(|m| m == "--config=live");
        let kept = |given: &&String| !live && !more.iter().any(|m| source(m) == source(given));
        for given in request.uses.iter().filter(kept) {
            argv.extend(["--use".to_string(), given.clone()]);
        }
        argv.extend(more.iter().cloned());
        // Whatever else is chosen, what somebody would put back leads to objects for the repository.
        if managed && !more.iter().any(|m| m == ALLOW_MANAGED) {
            argv.extend(["--dry-run=client", "-o", "yaml"].map(String::from));
        }
        argv
    };
    let mut ways = Vec::new();
    let from_files = request.typed.iter().any(|word| word == "--from-file");
    if refused(Code::Paused).next().is_some()
        && !from_files
        && let Some(workload) = plan.target.revision.object.controller()
    {
        let mut argv = ["kubectl", "rollout", "resume"].map(String::from).to_vec();
        argv.push(format!("{}/{}", workload.kind.to_lowercase(), workload.name));
        argv.extend(request.typed.iter().cloned());
        ways.push(WayOn {
            id: "resume",
            why: "let its template as it stands roll out, and go on from there".into(),
            argv,
        });
    }
    if managed && plan.refusals.iter().all(|r| r.code == Code::Managed) {
        ways.push(WayOn {
            id: "commit",
            why: "print the pinned workload and its snapshots, to be committed where their owner reads them".into(),
            argv: command(&[]),
        });
        ways.push(WayOn {
            id: "allow-managed",
            why: "write all the same, for as long as it lasts; better with the owner suspended".into(),
            argv: command(&[ALLOW_MANAGED.into()]),
        });
        return ways;
    }
    let proof = [Code::Downtime, Code::EvictionDenied, Code::NoWayBack];
    if plan.refusals.iter().all(|r| proof.contains(&r.code)) {
        let mut kept: Vec<String> = match request.rules.config {
            Config::Auto => Vec::new(),
            Config::Pin => vec!["--config=pin".into()],
            Config::Live => vec!["--config=live".into()],
        };
        if refused(Code::NoWayBack).next().is_some() {
            kept.push("--on-failure=report".into());
        }
        if refused(Code::Downtime).next().is_some() {
            let more = ["--verify=replace", "--allow-downtime"].map(String::from);
            ways.push(WayOn {
                id: "allow-downtime",
                why: "evict the only Pod all the same".into(),
                argv: command(&[&kept[..], &more].concat()),
            });
        }
        let argv = command(&kept);
        ways.push(match refused(Code::NoWayBack).next() {
            Some(_) => WayOn { id: "report", why: "roll back, and report where it fails".into(), argv },
            None => WayOn { id: "verify-rollout", why: "roll back without a proof on a substitute".into(), argv },
        });
        return ways;
    }
    if refused(Code::ContentNotProven).next().is_some() {
        ways.push(WayOn {
            id: "require-likely",
            why: "likely is enough for you".into(),
            argv: command(&["--require=likely".into()]),
        });
    }
    let blocking = |r: &&Refusal| {
        matches!(
            r.code,
            Code::ContentNotFound | Code::ContentNotProven | Code::Missing | Code::KeyMissing | Code::GivenNotFound
        )
    };
    for refusal in plan.refusals.iter().filter(blocking) {
        let Some(name) = refusal.reference.as_deref().and_then(|r| r.strip_prefix("ConfigMap/")) else { continue };
        ways.push(WayOn {
            id: "use-file",
            why: "you have the old content in a file or in git".into(),
            argv: command(&["--use".into(), format!("{name}=FILE")]),
        });
        let judgement = plan.target.references.iter().find(|j| j.reference.name == name);
        let candidates = judgement.map_or(&[][..], |j| &j.candidates);
        for candidate in candidates.iter().filter(|c| c.origin != Origin::Live).take(3) {
            let whence = match candidate.origin {
                Origin::LastApplied => "it was last applied with kubectl, at an unknown time".to_string(),
                Origin::Snapshot => "a snapshot that was saved, not known to be the one".into(),
                Origin::TimeTravel => "a version from the API history, not known to be the one".into(),
                _ => "a version from the files, not known to be the one".into(),
            };
            let digest = candidate.digest.short();
            ways.push(WayOn {
                id: "use-digest",
                why: whence,
                argv: command(&["--use".into(), format!("{name}={}", digest.trim_end_matches("..."))]),
            });
        }
    }
    let exists = plan.target.references.iter().all(|j| j.live.is_some());
    let others =
        [Code::Paused, Code::Terminating, Code::DryRunDenied, Code::Downtime, Code::EvictionDenied, Code::NoWayBack];
    if exists
        && !plan.refusals.iter().any(|r| others.contains(&r.code))
        && !plan.refusals.iter().any(|r| r.code == Code::KeyMissing)
    {
        let stay = plan.target.pods.iter().filter(|p| !p.terminating).count();
        let why = match stay {
            0 => "let new Pods read the configuration as it is today".to_string(),
            1 => "only stop the failing rollout: the 1 Pod stays, the next one may fail".into(),
            n => format!("only stop the failing rollout: the {n} Pods stay, the next one may fail"),
        };
        ways.push(WayOn { id: "config-live", why, argv: command(&["--config=live".into()]) });
    }
    ways
}

/// Places with the old content that this version does not look into.
pub fn not_looked_in(plan: &Plan) -> Vec<String> {
    let pods = plan.target.pods.iter().any(|p| !p.terminating);
    let mut places = vec!["Helm releases".to_string()];
    if pods {
        places.insert(0, "the environment of running Pods".into());
    }
    places
}
