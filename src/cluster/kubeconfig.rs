//! Where to go and as whom: kubeconfig files, the flags that override them, and the service account of a Pod.
//!
//! The rules are kubectl's (client-go's `clientcmd`). kube's own loader differs in ways that matter here: it fails on
//! a missing file of a `KUBECONFIG` list and on line breaks in base64 data, takes an unknown user for an anonymous
//! one, and panics later on a server without a scheme. Files are read once, here, so nothing that changes during a
//! run can lead it to another cluster.

mod endpoint;
mod files;
mod names;
mod user;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Config;
use kube::config::{AuthInfo, Cluster as Endpoint, Context};
use serde_json::{Map, Value};

use self::files::Files;
pub use self::names::Names;
use self::user::User;
use crate::cluster::Notice;
use crate::cluster::plugin::Plugin;
use crate::cluster::proxy::Proxy;

/// A secret that one signs in with. Its debug output does not show it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl From<String> for Token {
    fn from(text: String) -> Token {
        Token(text)
    }
}

/// What kubectl's connection flags say; `None` where a flag was not given. An empty text is as good as none.
#[derive(Clone, Debug, Default)]
pub struct ConnectionFlags {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    pub cluster: Option<String>,
    pub user: Option<String>,
    pub namespace: Option<String>,
    pub server: Option<String>,
    pub token: Option<Token>,
    /// `--as` and what goes with it.
    pub impersonate: Option<String>,
    pub impersonate_uid: Option<String>,
    pub impersonate_groups: Vec<String>,
    pub impersonate_extra: Vec<(String, String)>,
    pub certificate_authority: Option<PathBuf>,
    pub client_certificate: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
    pub tls_server_name: Option<String>,
    pub insecure_skip_tls_verify: bool,
    /// Zero: wait for ever.
    pub request_timeout: Option<Duration>,
    pub disable_compression: bool,
}

/// The part of the environment that decides about a connection.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `KUBECONFIG`: a list of paths.
    pub kubeconfig: Option<OsString>,
    pub home: Option<PathBuf>,
    /// `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`, set inside a Pod.
    pub service_host: Option<String>,
    pub service_port: Option<String>,
    /// Where a Pod finds its service account; `None` is the usual place.
    pub service_account: Option<PathBuf>,
    /// Nobody is to be asked or told anything on the terminal, though there is one: as while a line is being typed.
    pub unattended: bool,
    /// `POD_NAMESPACE`, which some set inside a Pod.
    pub pod_namespace: Option<String>,
    /// `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, or their names in small letters.
    pub https_proxy: Option<String>,
    pub http_proxy: Option<String>,
    pub no_proxy: Option<String>,
    /// Is `REQUEST_METHOD` set, as for a CGI program?
    pub cgi: bool,
}

impl Environment {
    pub fn of_process() -> Environment {
        let text = |key: &str| std::env::var(key).ok().filter(|value| !value.is_empty());
        let either = |key: &str| text(key).or_else(|| text(&key.to_ascii_lowercase()));
        Environment {
            kubeconfig: std::env::var_os("KUBECONFIG"),
            home: std::env::home_dir().filter(|home| !home.as_os_str().is_empty()),
            service_host: text("KUBERNETES_SERVICE_HOST"),
            service_port: text("KUBERNETES_SERVICE_PORT"),
            service_account: None,
            unattended: false,
            pod_namespace: text("POD_NAMESPACE"),
            https_proxy: either("HTTPS_PROXY"),
            http_proxy: either("HTTP_PROXY"),
            no_proxy: either("NO_PROXY"),
            cgi: text("REQUEST_METHOD").is_some(),
        }
    }
}

/// What one signs in with, besides a client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    None,
    Token(Token),
    /// A file that somebody keeps current, and what it held.
    File {
        path: PathBuf,
        token: Token,
    },
    Password {
        username: String,
        password: Token,
    },
}

/// A decided connection.
#[derive(Clone)]
pub struct Connection {
    /// The server, the client certificate, and whom to act as.
    pub config: Config,
    pub credential: Credential,
    /// What is to be run for credentials.
    pub plugin: Option<Plugin>,
    pub proxy: Option<Proxy>,
    /// `--request-timeout`; zero: wait for ever.
    pub request_timeout: Option<Duration>,
    /// The context's name; `in-cluster` for a Pod's service account.
    pub context: String,
    pub namespace: String,
    pub server: String,
    /// What a person should know about it.
    pub notices: Vec<Notice>,
}

impl fmt::Debug for Connection {
    /// Without the configuration: it holds credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("context", &self.context)
            .field("namespace", &self.namespace)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// Why there is no connection. No message repeats a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigError {
    #[error("cannot read kubeconfig {}: {cause}", .path.display())]
    Read { path: PathBuf, cause: String },
    #[error("cannot read kubeconfig {}{}: {cause}", .path.display(), line_suffix(*.line))]
    Parse { path: PathBuf, line: Option<u64>, cause: String },
    #[error("no cluster to talk to: no kubeconfig (looked for {looked}), and this is not a Pod with a service account")]
    None { looked: String },
    #[error("no context is chosen in {files}; name one with --context{}", available(.names))]
    NoContext { files: String, names: Vec<String> },
    /// `what` is context, cluster or user.
    #[error("{what} {name:?} does not exist in {files}{}", available(.names))]
    Unknown { what: &'static str, name: String, files: String, names: Vec<String> },
    /// `who`: `cluster "x"`, or where no name was given what the flags make of it.
    #[error("{who}: {cause}")]
    Cluster { who: String, cause: String },
    #[error("{who}: {cause}")]
    User { who: String, cause: String },
}

fn line_suffix(line: Option<u64>) -> String {
    line.map(|line| format!(" line {line}")).unwrap_or_default()
}

fn available(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!(" (available: {})", names.join(", ")),
    }
}

/// An empty text is as good as none.
pub(super) fn filled(text: &Option<String>) -> Option<String> {
    text.clone().filter(|text| !text.is_empty())
}

/// Decodes base64 with line breaks in it, as Go does: editors and tools make them. Any other white space is an error
/// there, too.
fn from_base64(data: &str) -> Result<Vec<u8>, String> {
    let data: String = data.split(['\r', '\n']).collect();
    STANDARD.decode(data).map_err(|_| "is not base64".to_string())
}

impl Connection {
    /// Decides where to go: `--kubeconfig`, else the `KUBECONFIG` list, else `~/.kube/config`, with the flags' word over
    /// them; inside a Pod the service account, but only if no kubeconfig and no flag names another cluster.
    ///
    /// Where kubectl would fall back to `localhost:8080`, where no API server has listened since 1.20, this is an error.
    ///
    /// # Errors
    /// See [`KubeconfigError`].
    pub fn load(flags: &ConnectionFlags, environment: &Environment) -> Result<Connection, KubeconfigError> {
        let files = Files::load(flags, environment)?;
        let pod = Pod::around(environment);
        let choice = Choice::of(&files, flags)?;
        match (choice, pod) {
            (Some(choice), pod) => choice.decide(flags, environment, pod.as_ref()),
            (None, Some(pod)) => pod.choice(flags).decide(flags, environment, Some(&pod)),
            (None, None) if files.read.is_empty() => Err(KubeconfigError::None { looked: files.looked() }),
            (None, None) => Err(KubeconfigError::NoContext {
                files: files.names(),
                names: files.merged.contexts.iter().map(|context| context.name.clone()).collect(),
            }),
        }
    }
}

/// The entries that were chosen, with their names.
struct Choice {
    context: String,
    namespace: Option<String>,
    cluster: String,
    endpoint: Endpoint,
    user: String,
    auth: AuthInfo,
    /// Of a Pod's service account: the file with its certificate authorities, which are changed now and then.
    authority: Option<PathBuf>,
}

impl Choice {
    /// `None`: neither files nor flags name a cluster.
    fn of(files: &Files, flags: &ConnectionFlags) -> Result<Option<Choice>, KubeconfigError> {
        let merged = &files.merged;
        let unknown = |what, name: &str, names: Vec<&String>| {
            let names: BTreeSet<String> = names.into_iter().cloned().collect();
            let files = match files.read.is_empty() {
                true => format!("any kubeconfig (looked for {})", files.looked()),
                false => files.names(),
            };
            KubeconfigError::Unknown { what, name: name.to_string(), files, names: names.into_iter().collect() }
        };
        let context_name = filled(&flags.context).or_else(|| filled(&merged.current_context));
        let context = match &context_name {
            None => Context::default(),
            Some(name) => match merged.contexts.iter().find(|named| &named.name == name) {
                Some(named) => named.context.clone().unwrap_or_default(),
                None => return Err(unknown("context", name, merged.contexts.iter().map(|c| &c.name).collect())),
            },
        };

        let namespace = filled(&context.namespace);
        let cluster = filled(&flags.cluster).unwrap_or(context.cluster);
        let server = filled(&flags.server).is_some();
        let endpoint = match merged.clusters.iter().find(|named| named.name == cluster) {
            Some(named) => named.cluster.clone().unwrap_or_default(),
            // --server says enough, unless --cluster names what is not there.
            None if server && filled(&flags.cluster).is_none() => Endpoint::default(),
            None if cluster.is_empty() && context_name.is_none() && filled(&flags.user).is_none() => return Ok(None),
            None => return Err(unknown("cluster", &cluster, merged.clusters.iter().map(|c| &c.name).collect())),
        };
        let user = filled(&flags.user).or(filled(&context.user)).unwrap_or_default();
        let signed = flags.client_certificate.is_some() || flags.token.as_ref().is_some_and(|t| !t.0.is_empty());
        let auth = match merged.auth_infos.iter().find(|named| named.name == user) {
            Some(named) => named.auth_info.clone().unwrap_or_default(),
            // Nothing of the entry is needed, unless --user names what is not there.
            None if user.is_empty() || signed && filled(&flags.user).is_none() => AuthInfo::default(),
            None => return Err(unknown("user", &user, merged.auth_infos.iter().map(|u| &u.name).collect())),
        };
        let context = context_name.unwrap_or_default();
        Ok(Some(Choice { context, namespace, cluster, endpoint, user, auth, authority: None }))
    }

    fn decide(
        mut self,
        flags: &ConnectionFlags,
        environment: &Environment,
        pod: Option<&Pod>,
    ) -> Result<Connection, KubeconfigError> {
        let who = |what: &str, name: &str| match name {
            "" => format!("the {what} of the flags"),
            name => format!("{what} {name:?}"),
        };
        let of_user = |cause: String| KubeconfigError::User { who: who("user", &self.user), cause };
        let of_cluster = |cause: String| KubeconfigError::Cluster { who: who("cluster", &self.cluster), cause };
        let User { auth, mut credential, exec, signed, note } = user::user(self.auth, flags).map_err(of_user)?;

        endpoint::overridden(&mut self.endpoint, flags);
        let mut config = endpoint::config(&self.endpoint).map_err(of_cluster)?;
        if self.endpoint.certificate_authority.is_some() {
            config.root_cert_file =
                self.authority.filter(|own| self.endpoint.certificate_authority.as_deref() == own.to_str());
        }
        let server = endpoint::shown(&config.cluster_url);
        let mut plugin = match exec {
            Some(exec) => Some(
                Plugin::new(&exec, told(&server, &config, &self.endpoint), environment.unattended).map_err(of_user)?,
            ),
            None => None,
        }
        .filter(|_| !signed);
        let proxy_url = filled(&self.endpoint.proxy_url);
        let proxy = Proxy::for_server(&config.cluster_url, proxy_url.as_deref(), environment).map_err(of_cluster)?;

        let mut notices: Vec<Notice> = note.map(Notice::Note).into_iter().collect();
        if config.accept_invalid_certs {
            notices.push(Notice::Warning(format!("the certificate of {server} is not checked")));
        }
        config.auth_info = auth;
        // client-go does the same: whoever listens on the way must not learn them.
        if config.cluster_url.scheme_str() == Some("http") {
            let certificate = config.auth_info.client_certificate_data.is_some();
            if plugin.is_some() || certificate || credential != Credential::None {
                notices.push(Notice::Note(format!("no credentials are sent over {server}: it is not encrypted")));
            }
            (plugin, credential) = (None, Credential::None);
        }
        // A Pod's own namespace stands in where neither flag nor context names one, whatever the cluster: as in kubectl.
        let namespace = filled(&flags.namespace)
            .or(self.namespace)
            .or_else(|| pod.and_then(|pod| pod.namespace.clone()))
            .unwrap_or_else(|| "default".to_string());
        config.default_namespace = namespace.clone();
        Ok(Connection {
            config,
            credential,
            plugin,
            proxy,
            request_timeout: flags.request_timeout,
            context: self.context,
            namespace,
            server,
            notices,
        })
    }
}

/// What a plugin is told about the cluster, if it wants to know.
fn told(server: &str, config: &Config, endpoint: &Endpoint) -> Value {
    let mut told = Map::new();
    told.insert("server".to_string(), server.into());
    let mut add = |name: &str, value: Value| {
        if !matches!(value, Value::Null | Value::Bool(false)) {
            told.insert(name.to_string(), value);
        }
    };
    add("tls-server-name", config.tls_server_name.clone().into());
    add("insecure-skip-tls-verify", config.accept_invalid_certs.into());
    let authority = match (&endpoint.certificate_authority_data, filled(&endpoint.certificate_authority)) {
        (Some(data), _) if !data.is_empty() => from_base64(data).ok(),
        (_, Some(path)) => fs::read(path).ok(),
        _ => None,
    };
    add("certificate-authority-data", authority.map(|pem| STANDARD.encode(pem)).into());
    add("proxy-url", filled(&endpoint.proxy_url).into());
    add("disable-compression", config.disable_compression.into());
    let mut extensions = endpoint.extensions.iter().flatten();
    let own = extensions.find(|named| named.name == "client.authentication.k8s.io/exec");
    told.insert("config".to_string(), own.map_or(Value::Null, |named| named.extension.clone()));
    Value::Object(told)
}

/// The Pod that we run in.
struct Pod {
    host: String,
    port: String,
    directory: PathBuf,
    namespace: Option<String>,
}

impl Pod {
    /// All of host, port and token must be there, as in client-go.
    fn around(environment: &Environment) -> Option<Pod> {
        let (Some(host), Some(port)) = (&environment.service_host, &environment.service_port) else { return None };
        let directory = match &environment.service_account {
            Some(directory) => directory.clone(),
            None => PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount"),
        };
        if !directory.join("token").is_file() {
            return None;
        }
        let own = || fs::read_to_string(directory.join("namespace")).ok().map(|text| text.trim().to_string());
        let namespace = environment.pod_namespace.clone().or_else(own).filter(|namespace| !namespace.is_empty());
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        Some(Pod { host, port: port.clone(), namespace, directory })
    }

    /// Its service account; a token of the flags takes the place of the account's.
    fn choice(&self, flags: &ConnectionFlags) -> Choice {
        let own = flags.token.as_ref().is_none_or(|token| token.0.is_empty());
        let file = |name: &str| self.directory.join(name).to_string_lossy().into_owned();
        Choice {
            context: "in-cluster".to_string(),
            namespace: None,
            cluster: "in-cluster".to_string(),
            endpoint: Endpoint {
                server: Some(format!("https://{}:{}", self.host, self.port)),
                certificate_authority: Some(file("ca.crt")),
                ..Endpoint::default()
            },
            user: "service account".to_string(),
            auth: AuthInfo { token_file: own.then(|| file("token")), ..AuthInfo::default() },
            authority: Some(self.directory.join("ca.crt")),
        }
    }
}
