//! What can be typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cli::completion::Completion;
use crate::cli::options::Connection;
use crate::cli::output::Output;
use crate::core::observation::Probe;
use crate::core::rights;
use crate::core::until::Until;

/// Rollbacks whose configuration is known.
///
/// `kubectl rollout undo` restores a Pod template, not the ConfigMaps behind the names in it. This plugin says what a
/// replacement Pod of each revision would read, with evidence, and rolls back with the right content bound to the
/// template.
///
/// Start with: kubectl saferollback history TYPE/NAME
#[derive(Parser, Debug)]
#[command(
    name = "kubectl-saferollback",
    bin_name = "kubectl saferollback",
    version = concat!("v", env!("CARGO_PKG_VERSION")),
    disable_help_subcommand = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub printing: Printing,
    #[command(subcommand)]
    pub verb: Verb,
}

/// Accepted before and after the verb.
#[derive(Args, Debug, Clone)]
pub struct Printing {
    /// Colours in tables: where stdout is a terminal and NO_COLOR is not set (auto), always, or never
    #[arg(long = "color", global = true, hide = true, value_name = "auto|always|never", default_value = "auto")]
    pub colour: Colour,
    /// Print tables without their header
    #[arg(long, global = true, hide = true)]
    pub no_headers: bool,
    /// How much to tell of the work: 6 names each request, on stderr
    #[arg(short = 'v', long = "v", global = true, hide = true, value_name = "LEVEL", default_value = "0")]
    pub verbosity: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    Auto,
    Always,
    Never,
}

#[derive(Subcommand, Debug)]
pub enum Verb {
    /// List the revisions, and what a new Pod of each would read now
    ///
    /// Of a ConfigMap: its versions that are still known, with who wrote and who read them.
    #[command(
        after_help = "Examples:\n  kubectl saferollback history web\n  kubectl saferollback history web --revision 3 -o json\n  kubectl saferollback history configmap/settings"
    )]
    History(History),
    /// Tell whether plain `kubectl rollout undo` would be safe
    #[command(
        after_help = "Examples:\n  kubectl saferollback check web\n  kubectl saferollback check web --to-revision 3\n\nExit codes: 0 safe or likely safe, 3 not, 1 it could not be told, 2 usage."
    )]
    Check(Check),
    /// Show what differs between a revision and today, or another one
    #[command(
        after_help = "Without --to: against what a new Pod would read now. Without --from: from the current revision, as its\ncontainers read.\n\nExamples:\n  kubectl saferollback diff web\n  kubectl saferollback diff web --from 1\n  kubectl saferollback diff web --from 1 --to 3 --show-content\n\nExit codes: 0 no difference, 1 a difference, 2 usage or it could not be told,\n3 no known difference, but not all is known; also no such revision."
    )]
    Diff(Diff),
    /// Put one version of a ConfigMap back in place, for all who read it
    #[command(
        after_help = "Restarts nothing. history configmap/NAME lists the versions.\n\nExamples:\n  kubectl saferollback restore configmap/settings --dry-run=client\n  kubectl saferollback restore configmap/settings --from sr1:9f3c2a7be41d\n  kubectl saferollback restore configmap/settings --from settings.yaml\n\nExit codes: 0 done or nothing to do, 1 could not, 2 usage, 3 refused,\n5 the ConfigMap changed since the plan; it was not written."
    )]
    Restore(Restore),
    /// Roll back with known configuration
    #[command(
        after_help = "Examples:\n  kubectl saferollback undo web --to-revision 3 --dry-run=client\n  kubectl saferollback undo web --to-revision 3\n  kubectl saferollback undo web --to-revision 3 --use settings=old.yaml\n  kubectl saferollback undo web --to-revision 3 --verify=replace\n  kubectl saferollback undo web worker --to-time 10m\n\nExit codes: 0 done or nothing to do, 1 could not, 2 usage, 3 refused,\n4 the rollout or its verification failed or timed out, or was put back,\n5 the workload changed since the plan, 130/143 interrupted."
    )]
    Undo(Undo),
    /// Show the Pods, what they hold and answer, and wait for a condition
    ///
    /// Reads only. Each Pod's line says whether it holds today's content of what its template names, each Service's which
    /// Pods it leads to. --probe asks them, through the API server; an answer of 503 is an answer.
    #[command(after_help = OBSERVE_HELP)]
    Observe(Observe),
    /// Tell where a rollout stands and why, or wait for its end
    ///
    /// Without --watch one look, as kubectl rollout status --watch=false: a rollout that goes on is exit code 0. With
    /// --watch it ends early, with the reason, when Pods cannot start or are not created for 10 s, or when the progress
    /// deadline of this rollout has passed.
    #[command(
        after_help = "Examples:\n  kubectl saferollback status web\n  kubectl saferollback status web --watch --timeout 5m\n\nExit codes: 0 rolled out (without --watch also: it goes on), 1 could not, 2 usage,\n4 failed or timed out, 130/143 interrupted."
    )]
    Status(Status),
    /// Save configuration as immutable snapshots
    #[command(subcommand)]
    Snapshot(Snapshot),
    /// Print the Role that a verb needs, and what each rule is for
    #[command(after_help = "Examples:\n  kubectl saferollback rbac --for undo -n shop | kubectl apply -f -")]
    Rbac(Rbac),
    /// Complete by TAB: install that for kubectl, or print a script
    #[command(subcommand)]
    Completion(Completion),
    /// List the flags that every verb takes: which cluster, as whom
    #[command(after_help = "Examples:\n  kubectl saferollback options")]
    Options,
    /// Print the version
    #[command(after_help = "Examples:\n  kubectl saferollback version")]
    Version,
}

#[derive(Args, Debug)]
pub struct Target {
    /// TYPE/NAME, TYPE NAME or NAME; without it the only workload of the namespace (undo asks which)
    #[arg(value_name = "TYPE/NAME", num_args = 0..=2)]
    pub workload: Vec<String>,
    /// Read objects from files instead of a cluster: a file, a directory, or - for stdin
    #[arg(long, value_name = "FILE|DIR|-")]
    pub from_file: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub struct History {
    #[command(flatten)]
    pub target: Target,
    /// Everything about one revision
    #[arg(long, value_name = "N")]
    pub revision: Option<u64>,
    /// The form of the result: a wider table, the report, TYPE/NAME alone, or values of the report
    #[arg(short, long, value_name = "wide|json|yaml|name|jsonpath=…")]
    pub output: Option<Output>,
}

#[derive(Args, Debug)]
pub struct Check {
    #[command(flatten)]
    pub target: Target,
    /// The revision to check; 0 or none is the previous one
    #[arg(long, value_name = "N")]
    pub to_revision: Option<u64>,
    /// The form of the result: a wider table, the report, TYPE/NAME alone, or values of the report
    #[arg(short, long, value_name = "wide|json|yaml|name|jsonpath=…")]
    pub output: Option<Output>,
}

#[derive(Args, Debug)]
pub struct Status {
    #[command(flatten)]
    pub target: Target,
    /// Wait for the end of the rollout
    #[arg(short, long)]
    pub watch: bool,
    /// How long to wait in all, as 90s or 5m, 0 for ever; default: the progress deadline, restarting with progress
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "watch")]
    pub timeout: Option<Duration>,
    /// The form of the result: the report, TYPE/NAME alone, or values of the report
    #[arg(short, long, value_name = "wide|json|yaml|name|jsonpath=…")]
    pub output: Option<Output>,
}

#[derive(Args, Debug)]
pub struct Diff {
    #[command(flatten)]
    pub target: Target,
    /// The revision to start from; none is the current one
    #[arg(long, value_name = "N")]
    pub from: Option<u64>,
    /// The revision to compare with; none is today
    #[arg(long, value_name = "N")]
    pub to: Option<u64>,
    /// Show values of ConfigMaps and environment variables too
    #[arg(long)]
    pub show_content: bool,
    /// The form of the result: the report, TYPE/NAME alone, or values of the report
    #[arg(short, long, value_name = "wide|json|yaml|name|jsonpath=…")]
    pub output: Option<Output>,
}

const OBSERVE_HELP: &str = "Conditions for --until; of several all must hold:
  complete          kubectl rollout status would say that it is rolled out
  incomplete        the wanted revision has Pods of which one is not ready, while a Pod of another
                    revision is
  stable            complete, and no Pod changed for 5s, as seen by this run
  degraded          the last rollout came to its end, and fewer Pods are ready than wanted
  pod-replaced=UID  that Pod is gone, and one of the workload that was not beside it is there, ready
                    or not; one that went before this run is known by its Event, for about an hour
  FIELD=VALUE       the document of -o json has this text at FIELD, as in pods.0.probe.status=503;
                    a step is a member, a number, an item's name, or * for any of them

Examples:
  kubectl saferollback observe web
  kubectl saferollback observe web --probe /ready:8080 --probe-pod-field env.HOSTNAME
  kubectl saferollback observe web --until stable --timeout 2m --out web.json

Exit codes: 0 observed, and the condition held; 1 could not, 2 usage,
4 the condition did not hold in time: nothing is saved then.";

#[derive(Args, Debug)]
pub struct Observe {
    #[command(flatten)]
    pub target: Target,
    /// Ask each Pod, and each Service that selects them, for this path: /ready, or /ready:8080
    #[arg(long, value_name = "PATH[:PORT]", value_parser = Probe::parse)]
    pub probe: Option<Probe>,
    /// Where a Service's answer names its Pod by name or uid: a JSON pointer or a dotted name in its JSON
    #[arg(long, value_name = "FIELD", requires = "probe")]
    pub probe_pod_field: Option<String>,
    /// Put the answers themselves into the document, up to 64 KiB each; else their digests alone
    #[arg(long, requires = "probe")]
    pub show_content: bool,
    /// Wait until this holds: complete, incomplete, stable, degraded, pod-replaced=UID or FIELD=VALUE
    #[arg(long, value_name = "CONDITION", value_parser = Until::parse)]
    pub until: Vec<Until>,
    /// How long to wait, as 90s or 5m, 0 for ever
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "75s", requires = "until")]
    pub timeout: Duration,
    /// Save the document, as JSON, to a new file; only where the condition held
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Replace that file
    #[arg(long, requires = "out")]
    pub overwrite: bool,
    /// The form of the result: a wider table, the report, TYPE/NAME alone, or values of the report
    #[arg(short, long, value_name = "wide|json|yaml|name|jsonpath=…")]
    pub output: Option<Output>,
}

#[derive(Args, Debug)]
pub struct Restore {
    /// configmap/NAME or configmap NAME
    #[arg(value_name = "configmap/NAME", num_args = 1..=2, required = true)]
    pub config_map: Vec<String>,
    /// Read objects from files instead of a cluster: prints the plan
    #[arg(long, value_name = "FILE|DIR|-")]
    pub from_file: Vec<PathBuf>,
    /// Which version: a digest (sr1:…), a VERSION that history shows, or a manifest file; none is the one before the last write
    #[arg(long, value_name = "DIGEST|VERSION|FILE")]
    pub from: Option<String>,
    /// Write nothing: print the plan (client), or ask the server too (server)
    #[arg(long, value_enum, default_value = "none", default_missing_value = "client", num_args = 0..=1, require_equals = true)]
    pub dry_run: DryRun,
    /// Show values too
    #[arg(long)]
    pub show_content: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// The form of the result: the report, TYPE/NAME alone, or values of the report
    #[arg(short, long, value_name = "wide|json|yaml|name|jsonpath=…")]
    pub output: Option<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    None,
    Client,
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Config {
    /// Keep what is the same, pin what is recovered, refuse the rest
    Auto,
    /// Pin every ConfigMap reference that may be pinned
    Pin,
    /// New Pods read the live objects as they are, like kubectl rollout undo
    #[value(alias = "keep")]
    Live,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Require {
    Likely,
    Proof,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verify {
    Rollout,
    Replace,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnFailure {
    Report,
    Revert,
}

#[derive(Args, Debug)]
pub struct Rbac {
    /// The verb that somebody shall be able to use
    #[arg(long = "for", value_name = "VERB", value_enum)]
    pub verb: For,
    /// The format
    #[arg(short, long, value_enum, default_value = "yaml")]
    pub output: Manifest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum For {
    History,
    Check,
    Undo,
    Diff,
    Snapshot,
    Restore,
    HistoryConfigmap,
    Observe,
    Status,
}

impl For {
    pub fn verb(self) -> rights::Verb {
        match self {
            For::History => rights::Verb::History,
            For::Check => rights::Verb::Check,
            For::Undo => rights::Verb::Undo,
            For::Diff => rights::Verb::Diff,
            For::Snapshot => rights::Verb::Snapshot,
            For::Restore => rights::Verb::Restore,
            For::HistoryConfigmap => rights::Verb::Versions,
            For::Observe => rights::Verb::Observe,
            For::Status => rights::Verb::Status,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Manifest {
    Yaml,
    Json,
}

#[derive(Args, Debug, Clone)]
pub struct Undo {
    /// TYPE/NAME, TYPE NAME or NAME, or several of them; without it you are asked which
    #[arg(value_name = "TYPE/NAME")]
    pub workload: Vec<String>,
    /// Read objects from files instead of a cluster: a file, a directory, or - for stdin
    #[arg(long, value_name = "FILE|DIR|-")]
    pub from_file: Vec<PathBuf>,
    /// All Deployments with these labels, as -l app=web
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "workload")]
    pub selector: Option<String>,
    /// Of several workloads write those that are not refused
    #[arg(long)]
    pub partial: bool,
    /// The revision to go to; 0 or none is the previous one, if that is clear
    #[arg(long, value_name = "N")]
    pub to_revision: Option<u64>,
    /// Go to the revision that was current then: so long ago, as 10m, or at a time, as 2026-11-29T12:00:00Z
    #[arg(long, value_name = "10m|TIME", conflicts_with = "to_revision", value_parser = moment)]
    pub to_time: Option<Moment>,
    /// Write nothing: print the plan (client), or ask the server too (server)
    #[arg(long, value_enum, default_value = "none", default_missing_value = "client", num_args = 0..=1, require_equals = true)]
    pub dry_run: DryRun,
    /// What new Pods shall read
    #[arg(long, value_enum, default_value = "auto")]
    pub config: Config,
    /// How well the content must be known
    #[arg(long, value_enum, default_value = "likely")]
    pub require: Require,
    /// Pin this content for a ConfigMap: NAME=FILE, NAME=sr1:… (a digest that history shows), or NAME=SNAPSHOT
    #[arg(long = "use", value_name = "NAME=FILE|DIGEST|SNAPSHOT")]
    pub given: Vec<String>,
    /// Wait for the rollout
    #[arg(long, default_value = "true", default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    pub wait: bool,
    /// How long to wait in all, as 90s or 5m, 0 for ever, and so long again for a substitute; default: the progress
    /// deadline, restarting with progress
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// How long the new state must hold after the rollout, as 10s, 0 for not at all; default: 10s where somebody else
    /// may put the old one back, else 0; for a substitute always 10s
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub settle: Option<Duration>,
    /// What to prove after the rollout: what the new Pods name (rollout), that one Pod's substitute starts as planned, by
    /// evicting one (replace), or nothing about Pods (none)
    #[arg(long, value_enum, default_value = "rollout")]
    pub verify: Verify,
    /// Let --verify=replace evict the only Pod: nobody answers until its substitute is ready
    #[arg(long)]
    pub allow_downtime: bool,
    /// Where the rollout or its verification fails: say so, or put the revision back that was left, with its configuration
    #[arg(long, value_enum, default_value = "report")]
    pub on_failure: OnFailure,
    /// Roll back although a GitOps tool or an operator is known to put it back
    #[arg(long)]
    pub allow_managed: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// The form of the result: the report (json), the objects to apply (yaml), TYPE/NAME alone, or values of the report
    #[arg(short, long, value_name = "wide|json|yaml|name|jsonpath=…")]
    pub output: Option<Output>,
}

#[derive(Subcommand, Debug)]
pub enum Snapshot {
    /// Save what the containers of a workload read, as far as it can be found
    ///
    /// Creates immutable ConfigMaps named by their content, and a record of what is known to have been read. Patches
    /// nothing and restarts nothing.
    #[command(
        after_help = "Examples:\n  kubectl saferollback snapshot create web\n  kubectl saferollback snapshot create web --revision 3\n  kubectl saferollback snapshot create web --all-revisions --dry-run=client\n\nExit codes: 0 saved, or saved already, 1 could not, 2 usage,\n3 nothing found, or refused by the API server."
    )]
    Create(SnapshotCreate),
    /// List snapshots and records, and who reads them
    #[command(
        after_help = "Examples:\n  kubectl saferollback snapshot list\n  kubectl saferollback snapshot list -o json"
    )]
    List(SnapshotList),
    /// Delete snapshots and records that nothing needs
    ///
    /// Kept is what any revision of a workload, Pod, Job, CronJob or record in use names, what is younger than an hour or
    /// was used within it, and everything where users cannot be seen.
    #[command(
        after_help = "Examples:\n  kubectl saferollback snapshot prune --dry-run\n  kubectl saferollback snapshot prune\n\nExit codes: 0 done or nothing to do, 1 could not, 2 usage."
    )]
    Prune(SnapshotPrune),
}

#[derive(Args, Debug)]
pub struct SnapshotList {
    /// The form of the result: a wider table, the report, TYPE/NAME alone, or values of the report
    #[arg(short, long, value_name = "wide|json|yaml|name|jsonpath=…")]
    pub output: Option<Output>,
}

#[derive(Args, Debug)]
pub struct SnapshotPrune {
    /// Delete nothing: print what would be deleted (client), or ask the server too (server)
    #[arg(long, value_enum, default_value = "none", default_missing_value = "client", num_args = 0..=1, require_equals = true)]
    pub dry_run: DryRun,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// The form of the result: the report, TYPE/NAME alone, or values of the report
    #[arg(short, long, value_name = "wide|json|yaml|name|jsonpath=…")]
    pub output: Option<Output>,
}

#[derive(Args, Debug)]
pub struct SnapshotCreate {
    /// TYPE/NAME, TYPE NAME or NAME; without it the only workload of the namespace
    #[arg(value_name = "TYPE/NAME", num_args = 0..=2)]
    pub workload: Vec<String>,
    /// The revision to save; default: the current one
    #[arg(long, value_name = "N", conflicts_with = "all_revisions")]
    pub revision: Option<u64>,
    /// Save every revision's
    #[arg(long)]
    pub all_revisions: bool,
    /// Name the record in an annotation of the workload, which Kubernetes copies to the revision's ReplicaSet
    #[arg(long, conflicts_with_all = ["revision", "all_revisions"])]
    pub annotate: bool,
    /// Write nothing: print what would be saved
    #[arg(long, value_enum, default_value = "none", default_missing_value = "client", num_args = 0..=1, require_equals = true)]
    pub dry_run: DryRun,
    /// The form of the result: a wider table, the report, TYPE/NAME alone, or values of the report
    #[arg(short, long, value_name = "wide|json|yaml|name|jsonpath=…")]
    pub output: Option<Output>,
}

/// A moment: before now, or by the clock.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    Ago(Duration),
    At(jiff::Timestamp),
}

fn moment(text: &str) -> Result<Moment, String> {
    match (text.parse(), duration(text)) {
        (Ok(at), _) => Ok(Moment::At(at)),
        (_, Ok(ago)) => Ok(Moment::Ago(ago)),
        _ => Err(format!("{text:?} is no time: write 10m, or 2026-11-29T12:00:00Z")),
    }
}

/// Go's spelling, as kubectl takes it: `90s`, `1m30s`, `1.5h`, `500ms`, or bare seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration: write 90s, 5m or 1h30m");
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Duration::from_secs(seconds.into()));
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|n| *n > 0).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(number);
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let nanoseconds: u64 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(wrong()),
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let one = Duration::from_nanos(nanoseconds);
        let whole: u32 = if whole.is_empty() && !part.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
        let part: f64 = if part.is_empty() { 0.0 } else { format!("0.{part}").parse().map_err(|_| wrong())? };
        let add = one.checked_mul(whole).and_then(|d| d.checked_add(one.mul_f64(part))).ok_or_else(wrong)?;
        total = total.checked_add(add).ok_or_else(wrong)?;
        rest = tail;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}
