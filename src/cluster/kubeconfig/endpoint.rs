//! The cluster: its address, and how its certificate is checked.

use std::fs;
use std::time::Duration;

use http::Uri;
use kube::Config;
use kube::config::Cluster as Endpoint;

use super::{ConnectionFlags, filled, from_base64};

/// The flags' word over the file's, by client-go's rules (`DirectClientConfig.getCluster`).
pub(super) fn overridden(endpoint: &mut Endpoint, flags: &ConnectionFlags) {
    let authority = flags.certificate_authority.as_ref().filter(|path| !path.as_os_str().is_empty());
    if flags.insecure_skip_tls_verify || authority.is_some() {
        endpoint.insecure_skip_tls_verify = Some(flags.insecure_skip_tls_verify);
        endpoint.certificate_authority = authority.map(|path| path.to_string_lossy().into_owned());
        endpoint.certificate_authority_data = None;
    }
    let (server, name) = (filled(&flags.server), filled(&flags.tls_server_name));
    // The name in the file belongs to the server in the file.
    if server.is_some() || name.is_some() {
        endpoint.tls_server_name = name;
    }
    if server.is_some() {
        endpoint.server = server;
    }
    if flags.disable_compression {
        endpoint.disable_compression = Some(true);
    }
}

/// # Errors
/// What is wrong with the entry.
pub(super) fn config(endpoint: &Endpoint) -> Result<Config, String> {
    let (data, file) = (filled(&endpoint.certificate_authority_data), filled(&endpoint.certificate_authority));
    let authority = match (data, file) {
        // client-go says that the data would win, and refuses.
        (Some(_), Some(_)) => {
            return Err("has both a certificate-authority and certificate-authority-data".to_string());
        }
        (Some(data), None) => Some(from_base64(&data).map_err(|cause| format!("certificate-authority-data {cause}"))?),
        (None, Some(path)) => {
            Some(fs::read(&path).map_err(|error| format!("cannot read certificate-authority {path}: {error}"))?)
        }
        (None, None) => None,
    };
    let insecure = endpoint.insecure_skip_tls_verify.unwrap_or(false);
    if insecure && authority.is_some() {
        // client-go refuses the pair as well: one of the two is not meant.
        return Err("has both a certificate-authority and insecure-skip-tls-verify".to_string());
    }
    let roots = match authority {
        Some(bytes) => Some(certificates(&bytes).map_err(|cause| format!("certificate-authority {cause}"))?),
        None => None,
    };
    let server = filled(&endpoint.server).ok_or("names no server")?;
    let mut config = Config::new(server_uri(&server)?);
    // For a server without TLS none of it counts in client-go, not even for an https proxy on the way there.
    if config.cluster_url.scheme_str() == Some("https") {
        config.root_cert = roots;
        config.accept_invalid_certs = insecure;
        config.tls_server_name = filled(&endpoint.tls_server_name);
    }
    config.disable_compression = endpoint.disable_compression.unwrap_or(false);
    config.connect_timeout = Some(Duration::from_secs(10));
    config.default_retry = false;
    Ok(config)
}

/// A server as kubectl reads it: without a scheme it is http, and gets no credentials, even where certificate
/// authorities are named (client-go asks for the scheme before it looks at them).
fn server_uri(server: &str) -> Result<Uri, String> {
    let server = server.trim();
    let text = match server.split_once("://") {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") => {
            server.to_string()
        }
        Some((scheme, _)) => {
            return Err(format!("its server has the scheme {scheme:?}; only http and https are known"));
        }
        None => {
            if server.trim_end_matches('/').contains('/') {
                return Err("its server must be a URL or host:port".to_string());
            }
            format!("http://{server}")
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
pub(super) fn shown(uri: &Uri) -> String {
    uri.to_string().trim_end_matches('/').to_string()
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
        let body: String = body.split_ascii_whitespace().collect();
        found.push(from_base64(&body).map_err(|_| "holds a certificate that is not PEM")?);
        rest = after;
    }
    match found.is_empty() {
        true => Err("holds no PEM certificate".to_string()),
        false => Ok(found),
    }
}
