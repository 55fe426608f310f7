//! kubectl's connection flags: accepted by every verb, before and after it, and listed by `options`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction, Args, Command, CommandFactory, FromArgMatches};

use crate::cli::args::{Cli, Printing, duration};
use crate::cli::help;
use crate::cluster::kubeconfig::{ConnectionFlags, Token};

/// Accepted before and after the verb; kept out of each verb's help, as kubectl does.
#[derive(Args, Debug, Clone, Default)]
pub struct Connection {
    /// The user to act as: a person or a service account
    #[arg(long = "as", global = true, hide = true, value_name = "USER")]
    pub impersonate: Option<String>,
    /// A group to act with; may be repeated
    #[arg(long, global = true, hide = true, value_name = "GROUP")]
    pub as_group: Vec<String>,
    /// The uid to act with
    #[arg(long, global = true, hide = true, value_name = "UID")]
    pub as_uid: Option<String>,
    /// Something more to act with, as key=value; may be repeated, also for one key
    #[arg(long, global = true, hide = true, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub as_user_extra: Vec<(String, String)>,
    /// A file with the certificate authorities that the server's certificate may come from
    #[arg(long, global = true, hide = true, value_name = "FILE")]
    pub certificate_authority: Option<PathBuf>,
    /// A file with a client certificate
    #[arg(long, global = true, hide = true, value_name = "FILE")]
    pub client_certificate: Option<PathBuf>,
    /// A file with the client certificate's key
    #[arg(long, global = true, hide = true, value_name = "FILE")]
    pub client_key: Option<PathBuf>,
    /// The kubeconfig cluster to use
    #[arg(long, global = true, hide = true, value_name = "NAME")]
    pub cluster: Option<String>,
    /// The kubeconfig context to use
    #[arg(long, global = true, hide = true, value_name = "NAME")]
    pub context: Option<String>,
    /// Do not ask the server to compress its answers
    #[arg(long, global = true, hide = true, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub disable_compression: Option<bool>,
    /// Do not check the server's certificate: whoever is on the way can read and change everything
    #[arg(long, global = true, hide = true, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = BoolishValueParser::new())]
    pub insecure_skip_tls_verify: Option<bool>,
    /// The kubeconfig file to use
    #[arg(long, global = true, hide = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace
    #[arg(short, long, global = true, hide = true, value_name = "NAME")]
    pub namespace: Option<String>,
    /// How long to wait for one answer of the server, as 30, 30s or 5m, 0 for ever; default: 30s
    #[arg(long, global = true, hide = true, value_name = "DURATION", value_parser = duration)]
    pub request_timeout: Option<Duration>,
    /// The address and port of the API server
    #[arg(short, long, global = true, hide = true, value_name = "URL")]
    pub server: Option<String>,
    /// The name to look for in the server's certificate; default: the one that it is reached by
    #[arg(long, global = true, hide = true, value_name = "NAME")]
    pub tls_server_name: Option<String>,
    /// The bearer token to sign in with
    #[arg(long, global = true, hide = true, value_name = "TOKEN")]
    pub token: Option<Token>,
    /// The kubeconfig user to use
    #[arg(long, global = true, hide = true, value_name = "NAME")]
    pub user: Option<String>,
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_string(), value.to_string())),
        _ => Err("write KEY=VALUE".to_string()),
    }
}

impl Connection {
    pub fn flags(&self) -> ConnectionFlags {
        ConnectionFlags {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
            namespace: self.namespace.clone(),
            server: self.server.clone(),
            token: self.token.clone(),
            impersonate: self.impersonate.clone(),
            impersonate_uid: self.as_uid.clone(),
            impersonate_groups: self.as_group.clone(),
            impersonate_extra: self.as_user_extra.clone(),
            certificate_authority: self.certificate_authority.clone(),
            client_certificate: self.client_certificate.clone(),
            client_key: self.client_key.clone(),
            tls_server_name: self.tls_server_name.clone(),
            insecure_skip_tls_verify: self.insecure_skip_tls_verify.unwrap_or(false),
            request_timeout: self.request_timeout,
            disable_compression: self.disable_compression.unwrap_or(false),
        }
    }

    /// As typed, to be repeated in the commands that we print. A token is not: whoever copies the command fills it in.
    pub fn typed(&self) -> Vec<String> {
        let path = |file: &Option<PathBuf>| file.as_ref().map(|file| file.display().to_string());
        let flag = |given: Option<bool>| given.filter(|given| *given);
        let mut typed = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                typed.extend([name.to_string(), value]);
            }
        };
        add("-n", self.namespace.clone());
        add("--context", self.context.clone());
        add("--kubeconfig", path(&self.kubeconfig));
        add("--cluster", self.cluster.clone());
        add("--user", self.user.clone());
        add("--server", self.server.clone());
        add("--token", self.token.as_ref().map(|_| "TOKEN".to_string()));
        add("--as", self.impersonate.clone());
        add("--as-uid", self.as_uid.clone());
        for group in &self.as_group {
            add("--as-group", Some(group.clone()));
        }
        for (key, value) in &self.as_user_extra {
            add("--as-user-extra", Some(format!("{key}={value}")));
        }
        add("--certificate-authority", path(&self.certificate_authority));
        add("--client-certificate", path(&self.client_certificate));
        add("--client-key", path(&self.client_key));
        add("--tls-server-name", self.tls_server_name.clone());
        let limit = self.request_timeout.map(|limit| match limit.subsec_nanos() {
            0 => format!("{}s", limit.as_secs()),
            _ => format!("{}ms", limit.as_millis()),
        });
        add("--request-timeout", limit);
        typed.extend(flag(self.insecure_skip_tls_verify).map(|_| "--insecure-skip-tls-verify".to_string()));
        typed.extend(flag(self.disable_compression).map(|_| "--disable-compression".to_string()));
        typed
    }
}

/// The command line, each verb's help with a line about what it does not list.
pub fn command() -> Command {
    fn about(command: Command) -> Command {
        let line = "Use \"kubectl saferollback options\" for the flags that say which cluster, and as whom.";
        let help = match command.get_after_help() {
            Some(help) => format!("{help}\n\n{line}"),
            None => line.to_string(),
        };
        command.after_help(help).mut_subcommands(about)
    }
    // Of one flag given twice the last counts, as in kubectl: wrappers put theirs before a person's.
    let last = |arg: Arg| match arg.is_global_set() && matches!(arg.get_action(), ArgAction::Set) {
        true => {
            let id = arg.get_id().clone();
            arg.overrides_with(id)
        }
        false => arg,
    };
    help::on_one_screen(about(Cli::command().mut_args(last)))
}

/// # Errors
/// What is wrong with the command line, or the help that was asked for.
pub fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(words)?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    // Of a flag before and after the verb clap keeps the latter alone: one group less is another person.
    let wrong = |_| clap::Error::new(clap::error::ErrorKind::InvalidValue).with_cmd(&command);
    cli.connection.as_group = repeated(words, "--as-group");
    let extra = repeated(words, "--as-user-extra");
    cli.connection.as_user_extra =
        extra.iter().map(|pair| key_and_value(pair)).collect::<Result<_, _>>().map_err(wrong)?;
    Ok(cli)
}

/// The values of a flag in a command line that was understood, wherever they stand.
fn repeated(words: &[OsString], flag: &str) -> Vec<String> {
    let mut words = words.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--");
    let mut values = Vec::new();
    while let Some(word) = words.next() {
        match word.strip_prefix(flag) {
            Some("") => values.extend(words.next().map(|value| value.into_owned())),
            Some(rest) => values.extend(rest.strip_prefix('=').map(str::to_string)),
            None => {}
        }
    }
    values
}

/// What `options` prints, in the manner of `kubectl options`.
pub fn list() -> String {
    let mut text = "The following options can be passed to any command:\n".to_string();
    for flag in Printing::augment_args(Connection::augment_args(Command::new(""))).get_arguments() {
        let Some(long) = flag.get_long() else { continue };
        let short = flag.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
        let value = match flag.get_value_names() {
            // A switch may be given alone.
            Some([name]) if flag.is_require_equals_set() => format!("[={name}]"),
            Some([name]) if flag.get_action().takes_values() => format!("={name}"),
            _ => String::new(),
        };
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        text += &format!("\n    {short}--{long}{value}:\n        {help}\n");
    }
    text
}
