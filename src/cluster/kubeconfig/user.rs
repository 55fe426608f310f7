//! The user: what it signs in with, and whom it acts as.

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use kube::config::{AuthInfo, ExecConfig};
use serde_json::{Map, Value};

use super::{ConnectionFlags, Credential, Token, filled, from_base64};

/// A user entry, complete: files are read, empty fields are absent ones, flags are taken in.
pub(super) struct User {
    /// The client certificate, and whom to act as.
    pub auth: AuthInfo,
    pub credential: Credential,
    /// What is to be run for credentials.
    pub exec: Option<ExecConfig>,
    /// Are there credentials already? Then nothing is run.
    pub signed: bool,
    /// What a person should know about the choice.
    pub note: Option<String>,
}

/// # Errors
/// What is wrong with the entry, without a credential in it.
pub(super) fn user(auth: AuthInfo, flags: &ConnectionFlags) -> Result<User, String> {
    let exec = auth.exec.clone();
    // Through JSON, because the type hides its secrets.
    let mut fields = match serde_json::to_value(AuthInfo { exec: None, ..auth }) {
        Ok(Value::Object(fields)) => fields,
        _ => return Err("its entry cannot be read".to_string()),
    };
    fields.retain(|_, value| value.as_str() != Some(""));
    overridden(&mut fields, flags);
    certificate(&mut fields, flags)?;
    impersonation(&fields)?;

    let (mut credential, note) = credential(&mut fields, flags)?;
    let provider = fields.shift_remove("auth-provider");
    if provider.is_some() && exec.is_some() {
        return Err("has both an auth-provider and a credential plugin (exec)".to_string());
    }
    // As in client-go: what signs in without a program or a provider makes it unnecessary.
    let certified = fields.contains_key("client-certificate-data");
    if let (Some(provider), Credential::None, false) = (&provider, &credential, certified) {
        credential = Credential::Token(id_token(provider, Timestamp::now())?);
    }
    let signed = certified || credential != Credential::None;
    let auth = serde_json::from_value(Value::Object(fields)).map_err(|_| "its entry cannot be read".to_string())?;
    Ok(User { auth, credential, exec, signed, note })
}

/// The token that an `oidc` provider left in the file. kubectl alone renews it, and writes it back.
fn id_token(provider: &Value, now: Timestamp) -> Result<Token, String> {
    let name = provider.get("name").and_then(Value::as_str).unwrap_or("");
    if name != "oidc" {
        return Err(format!(
            "signs in through the auth-provider {name:?}, which kubectl has no longer: use a plugin (exec)"
        ));
    }
    let given = |key: &str| {
        let text = provider.pointer(&format!("/config/{key}")).and_then(Value::as_str).unwrap_or("");
        Some(text).filter(|text| !text.is_empty())
    };
    for key in ["idp-issuer-url", "client-id"] {
        given(key).ok_or_else(|| format!("has an auth-provider without {key}"))?;
    }
    let token = given("id-token").unwrap_or("");
    let claims = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims: Option<Value> = claims.and_then(|claims| serde_json::from_slice(&claims).ok());
    let ends = claims.and_then(|claims| claims.get("exp").and_then(Value::as_f64));
    // Ten seconds early, as client-go.
    match ends {
        Some(ends) if now.as_second() as f64 + 10.0 < ends => Ok(Token(token.to_string())),
        _ => Err("has an auth-provider whose id-token has expired: kubectl renews it, with any command".to_string()),
    }
}

fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

/// The flags' word over the file's, field by field, as client-go merges them.
fn overridden(fields: &mut Map<String, Value>, flags: &ConnectionFlags) {
    for (file, data, path) in [
        ("client-certificate", "client-certificate-data", &flags.client_certificate),
        ("client-key", "client-key-data", &flags.client_key),
    ] {
        if let Some(path) = path.as_ref().filter(|path| !path.as_os_str().is_empty()) {
            fields.shift_remove(data);
            fields.insert(file.to_string(), path.to_string_lossy().into());
        }
    }
    let given = [
        ("token", flags.token.as_ref().map(|token| token.0.clone())),
        ("as", flags.impersonate.clone()),
        ("as-uid", flags.impersonate_uid.clone()),
    ];
    for (field, value) in given {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            fields.insert(field.to_string(), value.into());
        }
    }
    if !flags.impersonate_groups.is_empty() {
        fields.insert("as-groups".to_string(), flags.impersonate_groups.clone().into());
    }
    // Keys of the flags take the place of the file's; the values of one key add up.
    let mut extra = Map::new();
    for (key, value) in &flags.impersonate_extra {
        if let Value::Array(values) = extra.entry(key).or_insert_with(|| Value::Array(Vec::new())) {
            values.push(value.as_str().into());
        }
    }
    if !extra.is_empty() {
        let known = fields.entry("as-user-extra").or_insert_with(|| Value::Object(Map::new()));
        match known {
            Value::Object(known) => known.extend(extra),
            other => *other = Value::Object(extra),
        }
    }
}

/// The client certificate and its key as data.
fn certificate(fields: &mut Map<String, Value>, flags: &ConnectionFlags) -> Result<(), String> {
    let given = |field| text(fields, field).is_some();
    if !given("client-certificate") && !given("client-certificate-data") {
        if flags.client_key.is_some() {
            return Err("--client-key needs --client-certificate".to_string());
        }
        // kubectl passes over a key without a certificate.
        fields.shift_remove("client-key");
        fields.shift_remove("client-key-data");
        return Ok(());
    }
    if !given("client-key") && !given("client-key-data") {
        return Err("has a client certificate but no client-key".to_string());
    }
    for (data, file) in [("client-certificate-data", "client-certificate"), ("client-key-data", "client-key")] {
        let bytes = match (text(fields, data), text(fields, file)) {
            // client-go says that the data would win, and refuses.
            (Some(_), Some(_)) => return Err(format!("has both a {file} and {data}")),
            (Some(text), None) => from_base64(text).map_err(|cause| format!("{data} {cause}"))?,
            (None, Some(path)) => fs::read(path).map_err(|error| format!("cannot read {file} {path}: {error}"))?,
            (None, None) => continue,
        };
        // The parts are joined to one PEM text later, where a missing line break at the end would spoil it.
        let mut pem = bytes;
        pem.push(b'\n');
        fields.shift_remove(file);
        fields.insert(data.to_string(), STANDARD.encode(pem).into());
    }
    Ok(())
}

/// More about somebody needs somebody to act as.
fn impersonation(fields: &Map<String, Value>) -> Result<(), String> {
    let some = |field: &str| match fields.get(field) {
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        Some(Value::String(_)) => true,
        _ => false,
    };
    match !some("as") && ["as-uid", "as-groups", "as-user-extra"].into_iter().any(some) {
        true => {
            Err("acts with a uid, groups or extras (as-uid, as-group, as-user-extra) but as nobody (as)".to_string())
        }
        false => Ok(()),
    }
}

/// Token, token file or password: taken out of the fields. With what a person should know.
fn credential(
    fields: &mut Map<String, Value>,
    flags: &ConnectionFlags,
) -> Result<(Credential, Option<String>), String> {
    let mut take = |field: &str| match fields.shift_remove(field) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let (token, file) = (take("token"), take("tokenFile"));
    let (username, password) = (take("username"), take("password"));
    let basic = username.is_some() || password.is_some();
    if basic && (token.is_some() || file.is_some()) {
        return Err("has both a token and a password; only one is allowed".to_string());
    }
    // The file wins over a token beside it, as in client-go, if it can be read.
    if let Some(path) = file {
        match fs::read_to_string(&path) {
            Ok(text) if !text.trim().is_empty() => {
                let token = Token(text.trim().to_string());
                let note = filled(&flags.token.as_ref().map(|token| token.0.clone()))
                    .map(|_| format!("the token of {path} is used, not that of --token: so does kubectl"));
                return Ok((Credential::File { path: PathBuf::from(path), token }, note));
            }
            Ok(_) if token.is_none() => return Err(format!("its tokenFile {path} is empty")),
            Err(error) if token.is_none() => return Err(format!("cannot read tokenFile {path}: {error}")),
            _ => {}
        }
    }
    Ok(match (token, username) {
        (Some(token), _) => (Credential::Token(Token(token)), None),
        (None, Some(username)) => {
            (Credential::Password { username, password: Token(password.unwrap_or_default()) }, None)
        }
        (None, None) => (Credential::None, None),
    })
}
