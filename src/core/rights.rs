//! What each verb asks of the API server's RBAC, and what is lost without it: least privilege, to be printed as a Role.

/// A verb of this program that talks to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    History,
    Check,
    Undo,
    Diff,
    Snapshot,
    Restore,
    /// `history configmap/NAME`
    Versions,
    Observe,
    Status,
}

impl Verb {
    pub const ALL: [Verb; 9] = [
        Verb::History,
        Verb::Check,
        Verb::Undo,
        Verb::Diff,
        Verb::Snapshot,
        Verb::Restore,
        Verb::Versions,
        Verb::Observe,
        Verb::Status,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Verb::History => "history",
            Verb::Check => "check",
            Verb::Undo => "undo",
            Verb::Diff => "diff",
            Verb::Snapshot => "snapshot",
            Verb::Restore => "restore",
            Verb::Versions => "history-configmap",
            Verb::Observe => "observe",
            Verb::Status => "status",
        }
    }
}

/// One right. Each stands alone, so that it can be left out alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub group: &'static str,
    pub resource: &'static str,
    pub verbs: &'static [&'static str],
    /// A sentence.
    pub without: &'static str,
}

const fn rule(
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
    without: &'static str,
) -> Rule {
    Rule { group, resource, verbs, without }
}

/// Reading a workload's revisions and judging what they name.
const JUDGING: [Rule; 6] = [
    rule("apps", "deployments", &["get"], "The workload cannot be read: there is no answer."),
    rule("apps", "replicasets", &["list"], "The revisions cannot be read: there is no answer."),
    rule(
        "",
        "pods",
        &["list"],
        "Which Pods a revision has, and when they read, is not known: most verdicts are Unknown.",
    ),
    rule("", "events", &["list"], "Proofs by number rest on the API's history alone, which ends after minutes."),
    rule("", "configmaps", &["list"], "ConfigMaps are Unknown: nothing that names one is safe, or can be rolled back."),
    rule(
        "",
        "secrets",
        &["list"],
        "Secrets are Unknown, and an undo to what names one is refused. Only metadata is asked for.",
    ),
];

/// Who else writes the workload. Objects of Argo CD and Flux are in namespaces of their own, so no rule here reaches them.
const OTHERS: [Rule; 2] = [
    rule(
        "autoscaling",
        "horizontalpodautoscalers",
        &["list"],
        "Whether an autoscaler changes the number of Pods is not said.",
    ),
    rule(
        "autoscaling.k8s.io",
        "verticalpodautoscalers",
        &["list"],
        "Whether an autoscaler changes what Pods ask for is not said.",
    ),
];

/// Copies of ConfigMaps, made and used again.
const COPYING: [Rule; 3] = [
    rule("", "configmaps", &["create"], "Nothing can be pinned: only where all is kept something can be done."),
    rule(
        "",
        "configmaps",
        &["get"],
        "A snapshot that is there already cannot be used, nor looked at after the rollout.",
    ),
    rule("", "configmaps", &["patch"], "A snapshot that is there already cannot be marked as used again."),
];

/// Waiting for a rollout.
const WATCHING: [Rule; 4] = [
    rule("apps", "deployments", &["watch"], "The rollout is asked for every two seconds instead of being watched."),
    rule("apps", "replicasets", &["watch"], "Its ReplicaSets are listed every two seconds instead of being watched."),
    rule("", "pods", &["watch"], "Its Pods are listed every two seconds instead of being watched."),
    rule(
        "",
        "events",
        &["watch"],
        "Where a Pod does not say why it does not start, Events are listed every two seconds.",
    ),
];

const ROLLING_BACK: [Rule; 4] = [
    rule(
        "apps",
        "deployments",
        &["patch"],
        "Nothing can be rolled back: the dry run is denied, and nothing is written.",
    ),
    rule("apps", "deployments", &["list"], "Workloads cannot be chosen by label (-l), nor picked from a list."),
    rule("", "pods", &["create"], "No Pod is tried in a dry run, so quota and Pod security are met in the rollout."),
    rule("", "pods/eviction", &["create"], "No Pod can be evicted: --verify=replace is refused, or ends unverified."),
];

/// Who may still need a snapshot; and the end of those that nobody does.
const PRUNING: [Rule; 9] = [
    rule("apps", "deployments", &["list"], "Deployments may need a snapshot: every one is kept."),
    rule("apps", "statefulsets", &["list"], "StatefulSets may need a snapshot: every one is kept."),
    rule("apps", "daemonsets", &["list"], "DaemonSets may need a snapshot: every one is kept."),
    rule("apps", "controllerrevisions", &["list"], "Their revisions may need a snapshot: every one is kept."),
    rule("batch", "jobs", &["list"], "Jobs may need a snapshot: every one is kept."),
    rule("batch", "cronjobs", &["list"], "CronJobs may need a snapshot: every one is kept."),
    rule("", "replicationcontrollers", &["list"], "ReplicationControllers may need a snapshot: every one is kept."),
    rule("", "podtemplates", &["list"], "PodTemplates may need a snapshot: every one is kept."),
    rule("", "configmaps", &["delete"], "Nothing is pruned."),
];

const RESTORING: [Rule; 2] = [
    rule("", "configmaps", &["get"], "Where the answer to the write is lost, what it did cannot be looked at."),
    rule("", "configmaps", &["patch"], "Nothing can be restored: the dry run is denied, and nothing is written."),
];

/// One ConfigMap, and who reads it.
const LISTING: [Rule; 7] = [
    rule("", "configmaps", &["list"], "What is there, and what could be put back, cannot be read: there is no answer."),
    rule("", "pods", &["list"], "Which running Pods read the ConfigMap is not known."),
    rule("apps", "deployments", &["list"], "Which Deployments read it is not known."),
    rule("apps", "statefulsets", &["list"], "Which StatefulSets read it is not known."),
    rule("apps", "daemonsets", &["list"], "Which DaemonSets read it is not known."),
    rule("batch", "cronjobs", &["list"], "Which CronJobs read it is not known."),
    rule("batch", "jobs", &["list"], "Which Jobs read it is not known."),
];

/// Which Pods answer, and what. A right on a `proxy` lets its holder send any GET to them.
const ASKING: [Rule; 4] = [
    rule("", "services", &["list"], "Which Services lead to the Pods is not known, and none is asked."),
    rule(
        "discovery.k8s.io",
        "endpointslices",
        &["list"],
        "Which Pods a Service leads to is not known, so its Services are not told at all.",
    ),
    rule("", "pods/proxy", &["get"], "No Pod can be asked by --probe; that is said of each."),
    rule("", "services/proxy", &["get"], "No Service can be asked by --probe; that is said of each."),
];

/// What a verb needs in the namespace that it works in.
pub fn of(verb: Verb) -> Vec<Rule> {
    match verb {
        Verb::History | Verb::Diff => JUDGING.to_vec(),
        Verb::Check => [&JUDGING[..], &OTHERS].concat(),
        Verb::Undo => [&JUDGING[..], &OTHERS, &ROLLING_BACK, &WATCHING, &COPYING].concat(),
        Verb::Snapshot => [&JUDGING[..], &COPYING, &PRUNING].concat(),
        Verb::Restore => [&LISTING[..], &RESTORING].concat(),
        Verb::Versions => LISTING.to_vec(),
        Verb::Observe => [&JUDGING[..], &ASKING].concat(),
        Verb::Status => [&JUDGING[..], &WATCHING].concat(),
    }
}
