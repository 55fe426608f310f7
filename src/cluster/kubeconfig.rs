//! Where to go and as whom: kubeconfig files, the flags that override them, and the service account of a Pod.
//!
//! The rules are kubectl's (client-go's `clientcmd`). kube's own loader differs in ways that matter here: it fails on
//! a missing file of a `KUBECONFIG` list and on line breaks in base64 data, takes an unknown user for an anonymous
//! one, and panics later on a server without a scheme. Files are read once, here, so nothing that changes during a
//! run can lead it to another cluster.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use kube::Config;
use kube::config::{AuthInfo, Cluster as Endpoint, Context, Kubeconfig};
use serde_json::{Map, Value};

use crate::cluster::decode;

/// What kubectl's connection flags say; `None` where a flag was not given.
#[derive(Clone, Debug, Default)]
pub struct ConnectionFlags {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    pub cluster: Option<String>,
    pub user: Option<String>,
    pub namespace: Option<String>,
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
}

impl Environment {
    pub fn of_process() -> Environment {
        let text = |key: &str| std::env::var(key).ok().filter(|value| !value.is_empty());
        Environment {
            kubeconfig: std::env::var_os("KUBECONFIG"),
            home: std::env::home_dir().filter(|home| !home.as_os_str().is_empty()),
            service_host: text("KUBERNETES_SERVICE_HOST"),
            service_port: text("KUBERNETES_SERVICE_PORT"),
            service_account: None,
            unattended: false,
        }
    }
}

/// A decided connection.
#[derive(Clone)]
pub struct Connection {
    pub config: Config,
    /// The context's name; `in-cluster` for a Pod's service account.
    pub context: String,
    pub namespace: String,
    pub server: String,
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
    #[error("cluster {cluster:?} names no server")]
    NoServer { cluster: String },
    #[error("cluster {cluster:?}: {cause}")]
    Cluster { cluster: String, cause: String },
    #[error("user {user:?}: {cause}")]
    User { user: String, cause: String },
    #[error("user {user:?} signs in through {what}, which is not supported yet")]
    UserUnsupported { user: String, what: &'static str },
    #[error("user {user:?} reaches cluster {cluster:?} through a proxy-url, which is not supported yet")]
    ProxyUnsupported { user: String, cluster: String },
    #[error("cannot use the Pod's service account: {cause}")]
    ServiceAccount { cause: String },
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

impl Connection {
    /// Decides where to go: `--kubeconfig`, else the `KUBECONFIG` list, else `~/.kube/config`; inside a Pod the
    /// service account, but only if no kubeconfig exists and no flag asked for anything else.
    ///
    /// # Errors
    /// See [`KubeconfigError`].
    pub fn load(flags: &ConnectionFlags, environment: &Environment) -> Result<Connection, KubeconfigError> {
        let files = Files::load(flags, environment)?;
        if files.read.is_empty() {
            let customised = flags.context.is_some() || flags.cluster.is_some() || flags.user.is_some();
            if !customised && let Some(connection) = in_cluster(flags, environment)? {
                return Ok(connection);
            }
            return Err(KubeconfigError::None { looked: files.looked() });
        }
        files.connection(flags)
    }
}

/// What can be named on a command line, as far as kubeconfig files tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Each with the cluster it leads to.
    pub contexts: Vec<(String, String)>,
    pub clusters: Vec<String>,
    pub users: Vec<String>,
    /// Of the contexts that lead to the same cluster as the chosen one.
    pub namespaces: BTreeSet<String>,
}

impl Names {
    /// # Errors
    /// A file cannot be read.
    pub fn load(flags: &ConnectionFlags, environment: &Environment) -> Result<Names, KubeconfigError> {
        let merged = Files::load(flags, environment)?.merged;
        let chosen = flags.context.as_ref().or(merged.current_context.as_ref());
        let contexts: Vec<(String, Context)> =
            merged.contexts.into_iter().map(|named| (named.name, named.context.unwrap_or_default())).collect();
        let cluster = contexts.iter().find(|(name, _)| Some(name) == chosen).map(|(_, context)| &context.cluster);
        let beside = contexts.iter().filter(|(_, context)| Some(&context.cluster) == cluster);
        Ok(Names {
            namespaces: beside.filter_map(|(_, context)| context.namespace.clone()).collect(),
            clusters: merged.clusters.into_iter().map(|named| named.name).collect(),
            users: merged.auth_infos.into_iter().map(|named| named.name).collect(),
            contexts: contexts.into_iter().map(|(name, context)| (name, context.cluster)).collect(),
        })
    }
}

/// The merged kubeconfig files.
struct Files {
    merged: Kubeconfig,
    read: Vec<PathBuf>,
    missing: Vec<PathBuf>,
}

impl Files {
    fn load(flags: &ConnectionFlags, environment: &Environment) -> Result<Files, KubeconfigError> {
        let mut paths = Vec::new();
        if let Some(path) = &flags.kubeconfig {
            paths.push(path.clone());
        } else {
            if let Some(list) = &environment.kubeconfig {
                paths.extend(std::env::split_paths(list).filter(|path| !path.as_os_str().is_empty()));
            }
            if paths.is_empty() {
                paths.extend(environment.home.iter().map(|home| home.join(".kube").join("config")));
            }
        }
        let mut files = Files { merged: Kubeconfig::default(), read: Vec::new(), missing: Vec::new() };
        for path in paths {
            match fs::read(&path) {
                Ok(bytes) => {
                    for config in parse(&path, &bytes)? {
                        merge(&mut files.merged, config);
                    }
                    files.read.push(path);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && flags.kubeconfig.is_none() => {
                    files.missing.push(path);
                }
                Err(error) => return Err(KubeconfigError::Read { path, cause: error.to_string() }),
            }
        }
        Ok(files)
    }

    fn looked(&self) -> String {
        match join(&self.missing) {
            list if list.is_empty() => "nothing: no home directory".to_string(),
            list => list,
        }
    }

    fn connection(self, flags: &ConnectionFlags) -> Result<Connection, KubeconfigError> {
        let given = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        let unknown = |what, name: &str, names: Vec<&String>| {
            let names: BTreeSet<String> = names.into_iter().cloned().collect();
            let names = names.into_iter().collect();
            KubeconfigError::Unknown { what, name: name.to_string(), files: join(&self.read), names }
        };

        let context_name = given(&flags.context).or_else(|| given(&self.merged.current_context));
        let context = match &context_name {
            Some(name) => match self.merged.contexts.iter().find(|named| &named.name == name) {
                Some(named) => named.context.clone().unwrap_or_default(),
                None => {
                    return Err(unknown("context", name, self.merged.contexts.iter().map(|c| &c.name).collect()));
                }
            },
            // --cluster alone says enough.
            None if given(&flags.cluster).is_some() => Context::default(),
            None => {
                return Err(KubeconfigError::NoContext {
                    files: join(&self.read),
                    names: self.merged.contexts.iter().map(|context| context.name.clone()).collect(),
                });
            }
        };

        let cluster_name = given(&flags.cluster).unwrap_or(context.cluster);
        let endpoint = match self.merged.clusters.iter().find(|named| named.name == cluster_name) {
            Some(named) => named.cluster.clone().unwrap_or_default(),
            None => {
                let names = self.merged.clusters.iter().map(|cluster| &cluster.name).collect();
                return Err(unknown("cluster", &cluster_name, names));
            }
        };
        let user_name = given(&flags.user).or(given(&context.user));
        let user = match &user_name {
            None => AuthInfo::default(),
            Some(name) => match self.merged.auth_infos.iter().find(|named| &named.name == name) {
                Some(named) => named.auth_info.clone().unwrap_or_default(),
                None => return Err(unknown("user", name, self.merged.auth_infos.iter().map(|u| &u.name).collect())),
            },
        };

        let user_name = user_name.unwrap_or_default();
        let namespace = given(&flags.namespace).or(given(&context.namespace)).unwrap_or_else(|| "default".to_string());
        let mut config = endpoint_config(&cluster_name, &user_name, &endpoint, &user)?;
        config.auth_info = credentials(&user_name, user)?;
        config.default_namespace = namespace.clone();
        Ok(Connection {
            server: shown(&config.cluster_url),
            config,
            context: context_name.unwrap_or_default(),
            namespace,
        })
    }
}

fn join(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The documents of one file, its relative paths resolved against its directory.
fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Kubeconfig>, KubeconfigError> {
    let fail = |line: Option<u64>, cause: String| KubeconfigError::Parse { path: path.to_path_buf(), line, cause };
    let text = decode(bytes).map_err(|cause| fail(None, cause.to_string()))?;
    let mut configs: Vec<Kubeconfig> = serde_yaml::from_multiple(&text).map_err(|error| {
        // The snippet that the message would carry may show a credential, and so may its text.
        fail(error.location().map(|at| at.line()), "not a kubeconfig".to_string())
    })?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let resolve = |file: &mut Option<String>| {
        if let Some(file) = file.as_mut().filter(|file| !file.is_empty()) {
            // Joining keeps an absolute path as it is.
            *file = directory.join(&*file).to_string_lossy().into_owned();
        }
    };
    for config in &mut configs {
        let lists: [(&str, Vec<&String>); 3] = [
            ("cluster", config.clusters.iter().map(|named| &named.name).collect()),
            ("context", config.contexts.iter().map(|named| &named.name).collect()),
            ("user", config.auth_infos.iter().map(|named| &named.name).collect()),
        ];
        for (what, names) in lists {
            let mut seen = BTreeSet::new();
            if let Some(twice) = names.into_iter().find(|name| !seen.insert(*name)) {
                return Err(fail(None, format!("{what} {twice:?} is there twice")));
            }
        }
        for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            resolve(&mut cluster.certificate_authority);
        }
        for user in config.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
            resolve(&mut user.client_certificate);
            resolve(&mut user.client_key);
            resolve(&mut user.token_file);
            // A command without a separator is looked up on the PATH.
            if let Some(exec) = user.exec.as_mut()
                && exec.command.as_ref().is_some_and(|command| command.contains(['/', std::path::MAIN_SEPARATOR]))
            {
                resolve(&mut exec.command);
            }
        }
    }
    Ok(configs)
}

/// The first file to set a name or value wins; entries of one name are never mixed
/// (<https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#merging-kubeconfig-files>).
fn merge(into: &mut Kubeconfig, from: Kubeconfig) {
    fn add<T>(into: &mut Vec<T>, from: Vec<T>, name: impl Fn(&T) -> &str) {
        for entry in from {
            if !into.iter().any(|known| name(known) == name(&entry)) {
                into.push(entry);
            }
        }
    }
    add(&mut into.clusters, from.clusters, |named| &named.name);
    add(&mut into.contexts, from.contexts, |named| &named.name);
    add(&mut into.auth_infos, from.auth_infos, |named| &named.name);
    if into.current_context.as_ref().is_none_or(String::is_empty) {
        into.current_context = from.current_context;
    }
}

fn endpoint_config(
    name: &str,
    user_name: &str,
    endpoint: &Endpoint,
    user: &AuthInfo,
) -> Result<Config, KubeconfigError> {
    let fail = |cause: String| KubeconfigError::Cluster { cluster: name.to_string(), cause };
    let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());

    if filled(&endpoint.proxy_url).is_some() {
        return Err(KubeconfigError::ProxyUnsupported { user: user_name.to_string(), cluster: name.to_string() });
    }
    let authority = match (filled(&endpoint.certificate_authority_data), filled(&endpoint.certificate_authority)) {
        (Some(data), _) => {
            Some(from_base64(&data).map_err(|cause| fail(format!("certificate-authority-data {cause}")))?)
        }
        (None, Some(path)) => {
            Some(fs::read(&path).map_err(|error| fail(format!("cannot read certificate-authority {path}: {error}")))?)
        }
        (None, None) => None,
    };
    let insecure = endpoint.insecure_skip_tls_verify.unwrap_or(false);
    if insecure && authority.is_some() {
        // client-go refuses the pair as well: one of the two is not meant.
        return Err(fail("has both a certificate-authority and insecure-skip-tls-verify".to_string()));
    }
    let certificates = match authority {
        Some(bytes) => Some(certificates(&bytes).map_err(|cause| fail(format!("certificate-authority {cause}")))?),
        None => None,
    };
    let server = filled(&endpoint.server).ok_or_else(|| KubeconfigError::NoServer { cluster: name.to_string() })?;
    let has_certificate = filled(&user.client_certificate).or(filled(&user.client_certificate_data)).is_some();
    let tls = certificates.is_some() || insecure || has_certificate;

    let mut config = Config::new(server_uri(&server, tls).map_err(fail)?);
    config.root_cert = certificates;
    config.accept_invalid_certs = insecure;
    config.tls_server_name = filled(&endpoint.tls_server_name);
    config.disable_compression = endpoint.disable_compression.unwrap_or(false);
    config.connect_timeout = Some(Duration::from_secs(10));
    config.default_retry = false;
    Ok(config)
}

/// A server as kubectl reads it (client-go's `DefaultServerURL`): without a scheme it is https if anything about
/// TLS is configured, http otherwise.
fn server_uri(server: &str, tls: bool) -> Result<Uri, String> {
    let server = server.trim();
    let text = match server.split_once("://") {
        Some(("http" | "https" | "HTTP" | "HTTPS", _)) => server.to_string(),
        Some((scheme, _)) => {
            return Err(format!("its server has the scheme {scheme:?}; only http and https are known"));
        }
        None => {
            if server.trim_end_matches('/').contains('/') {
                return Err("its server must be a URL or host:port".to_string());
            }
            format!("{}://{server}", if tls { "https" } else { "http" })
        }
    };
    // Query and fragment mean nothing here; client-go drops them too.
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let uri: Uri = text.parse().map_err(|error| format!("its server is no URL: {error}"))?;
    match uri.authority() {
        None => Err("its server is no URL: no host".to_string()),
        Some(authority) if authority.host().is_empty() => Err("its server is no URL: no host".to_string()),
        Some(authority) if authority.as_str().contains('@') => {
            Err("its server carries credentials; put them into the user entry".to_string())
        }
        Some(_) => Ok(uri),
    }
}

/// The address without the slash that parsing adds.
fn shown(uri: &Uri) -> String {
    uri.to_string().trim_end_matches('/').to_string()
}

/// The user's credentials, complete: files are read, empty fields are absent ones.
fn credentials(name: &str, user: AuthInfo) -> Result<AuthInfo, KubeconfigError> {
    let fail = |cause: String| KubeconfigError::User { user: name.to_string(), cause };
    let unsupported = |what| KubeconfigError::UserUnsupported { user: name.to_string(), what };
    // These run a program or speak to an identity provider. This is the place for it: they end in a token or a
    // certificate, to be put into the fields below.
    if user.exec.is_some() {
        return Err(unsupported("a credential plugin (exec)"));
    }
    if user.auth_provider.is_some() {
        return Err(unsupported("an auth-provider"));
    }

    // Through JSON, because the type hides its secrets.
    let mut fields = match serde_json::to_value(&user) {
        Ok(Value::Object(fields)) => fields,
        _ => return Err(fail("its entry cannot be read".to_string())),
    };
    fields.retain(|_, value| value.as_str() != Some(""));
    for (data, file) in [("client-certificate-data", "client-certificate"), ("client-key-data", "client-key")] {
        let path = text(&fields, file).map(str::to_string);
        fields.shift_remove(file);
        let bytes = match (text(&fields, data), path) {
            (Some(data_text), _) => from_base64(data_text).map_err(|cause| fail(format!("{data} {cause}")))?,
            (None, Some(path)) => {
                fs::read(&path).map_err(|error| fail(format!("cannot read {file} {path}: {error}")))?
            }
            (None, None) => continue,
        };
        // The parts are joined to one PEM text later, where a missing line break at the end would spoil it.
        let mut pem = bytes;
        pem.push(b'\n');
        fields.insert(data.to_string(), STANDARD.encode(pem).into());
    }
    match (text(&fields, "client-certificate-data"), text(&fields, "client-key-data")) {
        (Some(_), None) => return Err(fail("has a client certificate but no client-key".to_string())),
        (None, Some(_)) => return Err(fail("has a client-key but no client certificate".to_string())),
        _ => {}
    }
    // The file wins over a token beside it, as in client-go, if it can be read.
    if let Some(path) = text(&fields, "tokenFile").map(str::to_string) {
        match fs::read_to_string(&path) {
            Ok(token) if token.trim().is_empty() => return Err(fail(format!("its tokenFile {path} is empty"))),
            // Kept as a file, so that it is read again when it expires; but that reader takes the file as it is,
            // line break and all.
            Ok(token) if token.trim() == token => {
                fields.shift_remove("token");
            }
            Ok(token) => {
                fields.shift_remove("tokenFile");
                fields.insert("token".to_string(), token.trim().into());
            }
            Err(_) if text(&fields, "token").is_some() => {
                fields.shift_remove("tokenFile");
            }
            Err(error) => return Err(fail(format!("cannot read tokenFile {path}: {error}"))),
        }
    }
    let token = text(&fields, "token").is_some() || text(&fields, "tokenFile").is_some();
    let basic = text(&fields, "username").is_some() || text(&fields, "password").is_some();
    if token && basic {
        return Err(fail("has both a token and a password; only one is allowed".to_string()));
    }
    if basic {
        for field in ["username", "password"] {
            fields.entry(field).or_insert_with(|| "".into());
        }
    }
    serde_json::from_value(Value::Object(fields)).map_err(|_| fail("its entry cannot be read".to_string()))
}

fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

/// Decodes base64 with any white space in it: kubectl accepts line breaks, and editors make them.
fn from_base64(data: &str) -> Result<Vec<u8>, String> {
    let data: String = data.split_ascii_whitespace().collect();
    STANDARD.decode(data).map_err(|_| "is not base64".to_string())
}

/// The certificates of a PEM text, decoded.
fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let text = String::from_utf8_lossy(pem);
    let mut found = Vec::new();
    let mut rest = &*text;
    while let Some((_, after)) = rest.split_once(BEGIN) {
        let (body, after) = after.split_once(END).ok_or("holds a certificate that does not end")?;
        found.push(from_base64(body).map_err(|_| "holds a certificate that is not PEM")?);
        rest = after;
    }
    match found.is_empty() {
        true => Err("holds no PEM certificate".to_string()),
        false => Ok(found),
    }
}

/// The service account of the Pod that we run in; `None` outside of one. All of host, port and token must be there,
/// as in client-go.
fn in_cluster(flags: &ConnectionFlags, environment: &Environment) -> Result<Option<Connection>, KubeconfigError> {
    let (Some(host), Some(port)) = (&environment.service_host, &environment.service_port) else { return Ok(None) };
    let directory = match &environment.service_account {
        Some(directory) => directory.clone(),
        None => PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount"),
    };
    let token = directory.join("token");
    if !token.is_file() {
        return Ok(None);
    }
    let fail = |cause: String| KubeconfigError::ServiceAccount { cause };
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let mut config = Config::new(server_uri(&format!("https://{host}:{port}"), true).map_err(fail)?);
    let authority = directory.join("ca.crt");
    let pem = fs::read(&authority).map_err(|error| fail(format!("{}: {error}", authority.display())))?;
    config.root_cert = Some(certificates(&pem).map_err(|cause| fail(format!("{} {cause}", authority.display())))?);
    config.root_cert_file = Some(authority);
    config.connect_timeout = Some(Duration::from_secs(10));
    config.default_retry = false;
    let user = AuthInfo { token_file: Some(token.to_string_lossy().into_owned()), ..AuthInfo::default() };
    config.auth_info = credentials("service account", user)?;
    let own = fs::read_to_string(directory.join("namespace")).ok().map(|text| text.trim().to_string());
    let namespace = flags
        .namespace
        .clone()
        .or(own)
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or_else(|| "default".to_string());
    config.default_namespace = namespace.clone();
    Ok(Some(Connection { server: shown(&config.cluster_url), config, context: "in-cluster".to_string(), namespace }))
}
