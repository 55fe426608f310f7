use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use saferollback::cluster::Notice;
use saferollback::cluster::kubeconfig::{Connection, ConnectionFlags, Credential, Environment, KubeconfigError, Token};
use tempfile::TempDir;

const TWO: &str = "
apiVersion: v1
kind: Config
current-context: a
contexts:
- {name: a, context: {cluster: one, user: alice, namespace: shop}}
- {name: b, context: {cluster: two, user: bob}}
- {name: nobody, context: {cluster: one, user: ghost}}
- {name: nowhere, context: {cluster: gone, user: alice}}
- {name: anonymous, context: {cluster: one, user: ''}}
clusters:
- {name: one, cluster: {server: 'https://one:6443/'}}
- {name: two, cluster: {server: 'https://two.example.com/k8s/clusters/x'}}
users:
- {name: alice, user: {token: secret-a}}
- {name: bob, user: {username: bob, password: secret-b}}
";

fn flags() -> ConnectionFlags {
    ConnectionFlags::default()
}

/// Writes files and loads through a KUBECONFIG that names them all.
fn load_list(files: &[(&str, &str)], names: &[&str], flags: &ConnectionFlags) -> Result<Connection, KubeconfigError> {
    let directory = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let paths = names.iter().map(|name| if name.is_empty() { PathBuf::new() } else { directory.path().join(name) });
    let environment = Environment { kubeconfig: Some(std::env::join_paths(paths).unwrap()), ..Environment::default() };
    Connection::load(flags, &environment)
}

fn load(text: &str, flags: &ConnectionFlags) -> Result<Connection, KubeconfigError> {
    load_list(&[("config", text)], &["config"], flags)
}

/// A kubeconfig with one context, whose cluster and user have these fields.
fn one(cluster: &str, user: &str) -> String {
    format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
         clusters: [{{name: k, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
    )
}

fn message(result: Result<Connection, KubeconfigError>) -> String {
    result.expect_err("should fail").to_string()
}

#[test]
fn the_current_context_decides_and_flags_override_it() {
    let connection = load(TWO, &flags()).unwrap();
    assert_eq!((connection.context.as_str(), connection.namespace.as_str()), ("a", "shop"));
    assert_eq!(connection.server, "https://one:6443");
    assert!(!connection.config.default_retry, "kube would repeat writes");

    let other = ConnectionFlags { context: Some("b".into()), ..flags() };
    let connection = load(TWO, &other).unwrap();
    assert_eq!((connection.context.as_str(), connection.namespace.as_str()), ("b", "default"));
    assert_eq!(connection.server, "https://two.example.com/k8s/clusters/x");

    let mixed = ConnectionFlags {
        cluster: Some("two".into()),
        user: Some("bob".into()),
        namespace: Some("bar".into()),
        ..flags()
    };
    let connection = load(TWO, &mixed).unwrap();
    assert_eq!(
        (connection.server.as_str(), connection.namespace.as_str()),
        ("https://two.example.com/k8s/clusters/x", "bar")
    );
    let password = Credential::Password { username: "bob".into(), password: Token("secret-b".into()) };
    assert_eq!(connection.credential, password);
    assert!(load(TWO, &ConnectionFlags { context: Some("anonymous".into()), ..flags() }).is_ok());
}

#[test]
fn what_does_not_exist_is_named_with_what_does() {
    for (flags, what) in [
        (ConnectionFlags { context: Some("x".into()), ..flags() }, "context \"x\" does not exist in "),
        (ConnectionFlags { cluster: Some("x".into()), ..flags() }, "cluster \"x\" does not exist in "),
        (ConnectionFlags { user: Some("x".into()), ..flags() }, "user \"x\" does not exist in "),
        // kube takes this one for an anonymous user.
        (ConnectionFlags { context: Some("nobody".into()), ..flags() }, "user \"ghost\" does not exist in "),
        (ConnectionFlags { context: Some("nowhere".into()), ..flags() }, "cluster \"gone\" does not exist in "),
    ] {
        let text = message(load(TWO, &flags));
        assert!(text.starts_with(what), "{text}");
    }
    let text = message(load(TWO, &ConnectionFlags { user: Some("x".into()), ..flags() }));
    assert!(text.ends_with("(available: alice, bob)"), "{text}");
    let text = message(load(&TWO.replace("current-context: a", "current-context: ''"), &flags()));
    assert!(text.contains("--context (available: a, b, nobody, nowhere, anonymous)"), "{text}");
}

#[test]
fn the_first_file_wins_and_missing_ones_are_passed_over() {
    let second = TWO.replace("current-context: a", "current-context: b").replace("https://one:6443/", "https://wrong");
    let extra = "contexts: [{name: c, context: {cluster: two, user: alice}}]";
    let files = [("1", TWO), ("2", second.as_str()), ("3", extra), ("empty", "")];
    let connection = load_list(&files, &["", "missing", "empty", "1", "2", "3"], &flags()).unwrap();
    assert_eq!((connection.context.as_str(), connection.server.as_str()), ("a", "https://one:6443"));
    let third = ConnectionFlags { context: Some("c".into()), ..flags() };
    assert_eq!(load_list(&files, &["3", "2", "1"], &third).unwrap().context, "c");
    let broken = load_list(&[("1", TWO), ("2", "a: [")], &["1", "2"], &flags());
    assert!(matches!(broken, Err(KubeconfigError::Parse { .. })));
}

#[test]
fn files_come_from_the_flag_then_the_variable_then_home() {
    let directory = TempDir::new().unwrap();
    let home = directory.path().to_path_buf();
    fs::create_dir(home.join(".kube")).unwrap();
    fs::write(home.join(".kube/config"), TWO).unwrap();
    fs::write(home.join("other"), TWO.replace("current-context: a", "current-context: b")).unwrap();
    let at_home = Environment { home: Some(home.clone()), ..Environment::default() };
    assert_eq!(Connection::load(&flags(), &at_home).unwrap().context, "a");
    let variable = Environment { kubeconfig: Some(home.join("other").into()), ..at_home.clone() };
    assert_eq!(Connection::load(&flags(), &variable).unwrap().context, "b");
    // A list of nothing but empty names is no list.
    let empty = Environment { kubeconfig: Some(OsString::new()), ..at_home.clone() };
    assert_eq!(Connection::load(&flags(), &empty).unwrap().context, "a");
    let explicit = ConnectionFlags { kubeconfig: Some(home.join("other")), ..flags() };
    assert_eq!(Connection::load(&explicit, &at_home).unwrap().context, "b");
    let missing = ConnectionFlags { kubeconfig: Some(home.join("nope")), ..flags() };
    assert!(matches!(Connection::load(&missing, &at_home), Err(KubeconfigError::Read { .. })));
    let gone = Environment { kubeconfig: Some(home.join("nope").into()), ..at_home };
    let text = message(Connection::load(&flags(), &gone));
    assert!(text.starts_with("no cluster to talk to: no kubeconfig (looked for ") && text.contains("nope"), "{text}");
    message(Connection::load(&flags(), &Environment::default()));
}

#[test]
fn a_server_is_read_as_kubectl_reads_it() {
    for (cluster, server) in [
        ("server: 'localhost:8080'", "http://localhost:8080"),
        ("server: 'example.com/'", "http://example.com"),
        ("server: 'localhost:6443', insecure-skip-tls-verify: true", "http://localhost:6443"),
        ("server: '[::1]:6443', insecure-skip-tls-verify: true", "http://[::1]:6443"),
        ("server: 'HTTPS://example.com:443'", "https://example.com:443"),
        ("server: 'https://[::1]:6443'", "https://[::1]:6443"),
        ("server: 'https://example.com/a/b/?x=1#y'", "https://example.com/a/b"),
        ("server: ' https://example.com '", "https://example.com"),
    ] {
        assert_eq!(load(&one(cluster, ""), &flags()).unwrap().server, server);
    }
    for cluster in [
        "server: 'ftp://example.com'",
        "server: 'example.com/path'",
        "server: 'https://'",
        "server: 'http://a b'",
        "server: 'https://user:hunter2@example.com'",
        "server: ''",
        "",
    ] {
        let text = message(load(&one(cluster, ""), &flags()));
        assert!(text.starts_with("cluster \"k\"") && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn base64_may_contain_line_breaks() {
    let certificate = "-----BEGIN CERTIFICATE-----\nAQIDBA==\n-----END CERTIFICATE-----";
    let mut data = STANDARD.encode(certificate);
    data.insert_str(10, "\r\n");
    data.push('\n');
    let cluster = format!(
        "server: 'https://x', certificate-authority-data: \"{}\"",
        data.replace('\r', "\\r").replace('\n', "\\n")
    );
    let connection = load(&one(&cluster, ""), &flags()).unwrap();
    assert_eq!(connection.config.root_cert, Some(vec![vec![1, 2, 3, 4]]));

    let key = STANDARD.encode("key").replace('a', "a\\n");
    let user = format!("client-certificate-data: \"{key}\", client-key-data: \"\\n{key}\"");
    let connection = load(&one("server: 'https://x'", &user), &flags()).unwrap();
    let data = connection.config.auth_info.client_certificate_data.unwrap();
    assert_eq!(STANDARD.decode(data).unwrap(), b"key\n");
    for (cluster, user) in [
        ("server: 'https://x', certificate-authority-data: '%%%'", ""),
        ("server: 'https://x', certificate-authority-data: 'AAAA'", ""),
        ("server: 'https://x', certificate-authority-data: 'AA AA'", ""),
        ("server: 'https://x'", "client-certificate-data: 'AAAA'"),
        ("server: 'https://x'", "client-certificate-data: '%%', client-key-data: 'AAAA'"),
        ("server: 'https://x', certificate-authority: /does/not/exist", ""),
        ("server: 'https://x'", "tokenFile: /does/not/exist"),
    ] {
        let text = message(load(&one(cluster, user), &flags()));
        assert!(text.starts_with("cluster \"k\": ") || text.starts_with("user \"u\": "), "{text}");
    }
}

#[test]
fn paths_are_relative_to_the_file_that_names_them() {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("pki")).unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join("pki").join(name), text).unwrap();
    write("ca.pem", "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n");
    write("cert.pem", "c");
    write("key.pem", "k");
    write("token", "t0ken\n");
    let text = one(
        "server: 'https://x', certificate-authority: pki/ca.pem",
        "client-certificate: pki/cert.pem, client-key: pki/key.pem, tokenFile: pki/token, token: ''",
    );
    let file = directory.path().join("config");
    fs::write(&file, text).unwrap();
    let explicit = ConnectionFlags { kubeconfig: Some(file), ..flags() };
    let connection = Connection::load(&explicit, &Environment::default()).unwrap();
    assert_eq!(connection.config.root_cert, Some(vec![vec![1, 2, 3]]));
    let user = connection.config.auth_info;
    assert!(user.client_certificate.is_none() && user.client_key_data.is_some());
    let token = Token("t0ken".into());
    let kept = Credential::File { path: directory.path().join("pki/token"), token };
    assert_eq!(connection.credential, kept, "a line break at the end of a token file is not part of the token");
}

/// Otherwise who signs in through an old `oidc` entry could not use what kubectl has just renewed; or nobody would know how
/// to go on when it has expired.
#[test]
fn an_id_token_is_used_until_it_expires() {
    let token = |ends: u64| format!("e30.{}.x", URL_SAFE_NO_PAD.encode(format!("{{\"exp\": {ends}}}")));
    let provider =
        |name: &str, more: &str| format!("auth-provider: {{name: {name}, config: {{client-id: c, {more}}}}}");
    let oidc = |token: &str| provider("oidc", &format!("idp-issuer-url: 'https://x', id-token: '{token}'"));
    let good = token(9_999_999_999);
    let connection = load(&one("server: 'https://x'", &oidc(&good)), &flags()).unwrap();
    assert_eq!(connection.credential, Credential::Token(Token(good.clone())));
    for (user, words) in [
        (oidc(&token(1)), "kubectl renews it"),
        (oidc(""), "kubectl renews it"),
        (oidc("hunter2"), "kubectl renews it"),
        (provider("oidc", &format!("id-token: '{good}'")), "without idp-issuer-url"),
        (provider("gcp", ""), "auth-provider \"gcp\""),
    ] {
        let text = message(load(&one("server: 'https://x'", &user), &flags()));
        assert!(text.starts_with("user \"u\": ") && text.contains(words) && !text.contains("hunter2"), "{text}");
        // Nothing of it is needed beside a token.
        assert!(load(&one("server: 'https://x'", &format!("{user}, token: t")), &flags()).is_ok());
    }
}

#[test]
fn contradictions_are_refused_and_secrets_never_shown() {
    for (cluster, user) in [
        ("server: 'https://x'", "token: hunter2, username: bob, password: hunter2"),
        ("server: 'https://x', insecure-skip-tls-verify: true, certificate-authority-data: 'LS0t'", "token: hunter2"),
    ] {
        let text = message(load(&one(cluster, user), &flags()));
        assert!(!text.contains("hunter2"), "{text}");
    }
    for broken in ["users: [{name: u, user: {token: hunter2", "users: [{name: u, user: {token: [hunter2]}}]"] {
        let text = message(load(broken, &flags()));
        assert!(!text.contains("hunter2") && text.contains("not a kubeconfig"), "{text}");
    }
    let twice = format!("{TWO}- {{name: alice, user: {{token: hunter2}}}}\n");
    let text = message(load(&twice, &flags()));
    assert!(text.contains("user \"alice\" is there twice") && !text.contains("hunter2"), "{text}");
    let connection = load(&one("server: 'https://x'", "token: hunter2"), &flags()).unwrap();
    assert!(!format!("{connection:?}").contains("hunter2"));
}

#[test]
fn files_from_windows_are_read() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("config");
    let mut utf16 = vec![0xFF, 0xFE];
    utf16.extend(TWO.replace('\n', "\r\n").encode_utf16().flat_map(u16::to_le_bytes));
    let explicit = ConnectionFlags { kubeconfig: Some(file.clone()), ..flags() };
    for bytes in [utf16.clone(), [b"\xEF\xBB\xBF", TWO.as_bytes()].concat()] {
        fs::write(&file, bytes).unwrap();
        assert_eq!(Connection::load(&explicit, &Environment::default()).unwrap().context, "a");
    }
    utf16.pop();
    fs::write(&file, utf16).unwrap();
    assert!(Connection::load(&explicit, &Environment::default()).is_err());
}

fn pod(directory: &Path) -> Environment {
    fs::write(directory.join("token"), "t").unwrap();
    fs::write(directory.join("ca.crt"), "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n").unwrap();
    fs::write(directory.join("namespace"), "shop\n").unwrap();
    Environment {
        service_host: Some("fd00::1".into()),
        service_port: Some("443".into()),
        service_account: Some(directory.to_path_buf()),
        ..Environment::default()
    }
}

#[test]
fn a_pod_uses_its_service_account_only_if_nothing_else_was_asked_for() {
    let directory = TempDir::new().unwrap();
    let inside = pod(directory.path());
    let connection = Connection::load(&flags(), &inside).unwrap();
    assert_eq!((connection.server.as_str(), connection.namespace.as_str()), ("https://[fd00::1]:443", "shop"));
    assert_eq!(connection.context, "in-cluster");
    let named = ConnectionFlags { namespace: Some("bar".into()), ..flags() };
    assert_eq!(Connection::load(&named, &inside).unwrap().namespace, "bar");
    let asked = ConnectionFlags { context: Some("prod".into()), ..flags() };
    let text = message(Connection::load(&asked, &inside));
    assert!(text.starts_with("context \"prod\" does not exist in any kubeconfig"), "{text}");
    // Of the account nothing is left where the flags name another server, or another token.
    let elsewhere = ConnectionFlags { server: Some("https://other".into()), ..flags() };
    let other = Connection::load(&elsewhere, &inside).unwrap();
    assert_eq!((other.server.as_str(), other.credential), ("https://other", Credential::None));
    let token = ConnectionFlags { token: Some(Token("mine".into())), ..flags() };
    assert_eq!(Connection::load(&token, &inside).unwrap().credential, Credential::Token(Token("mine".into())));
    // kubectl names the account's namespace even for another cluster, unless the context names one.
    assert_eq!(other.namespace, "shop");
    let named = Environment { pod_namespace: Some("mine".into()), ..inside.clone() };
    assert_eq!(Connection::load(&flags(), &named).unwrap().namespace, "mine");
    let empty = directory.path().join("empty");
    fs::write(&empty, "apiVersion: v1\nkind: Config\n").unwrap();
    let empty = Environment { kubeconfig: Some(empty.into()), ..inside.clone() };
    assert_eq!(Connection::load(&flags(), &empty).unwrap().context, "in-cluster", "a file that names no cluster");
    let missing = ConnectionFlags { kubeconfig: Some("/does/not/exist".into()), ..flags() };
    assert!(matches!(Connection::load(&missing, &inside), Err(KubeconfigError::Read { .. })));
    let file = directory.path().join("config");
    fs::write(&file, TWO).unwrap();
    let both = Environment { kubeconfig: Some(file.into()), ..inside.clone() };
    assert_eq!(Connection::load(&flags(), &both).unwrap().context, "a");
    fs::remove_file(directory.path().join("token")).unwrap();
    assert!(matches!(Connection::load(&flags(), &inside), Err(KubeconfigError::None { .. })));
}

/// Otherwise a flag would be taken in and mean nothing, or what belongs to one server would be held against another.
#[test]
fn flags_take_the_place_of_what_the_file_says() {
    let directory = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let authority = write("ca", "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n");
    let certificate = write("certificate", "c");
    let key = write("key", "k");
    let text = one(
        "server: 'https://x', tls-server-name: inner, certificate-authority-data: 'LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFRSURCQT09Ci0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K'",
        "token: file, as: alice, as-groups: [a], as-user-extra: {team: [x], site: [z]}",
    );
    let config = |flags: &ConnectionFlags| load(&text, flags).unwrap().config;
    let plain = config(&flags());
    assert_eq!((plain.tls_server_name.as_deref(), plain.root_cert), (Some("inner"), Some(vec![vec![1, 2, 3, 4]])));

    let moved = config(&ConnectionFlags { server: Some("https://y".into()), ..flags() });
    assert_eq!((moved.cluster_url.host(), moved.tls_server_name), (Some("y"), None));
    let named = config(&ConnectionFlags { tls_server_name: Some("other".into()), ..flags() });
    assert_eq!(named.tls_server_name.as_deref(), Some("other"));
    let other = config(&ConnectionFlags { certificate_authority: Some(authority.clone()), ..flags() });
    assert_eq!(other.root_cert, Some(vec![vec![1, 2, 3]]));
    let blind = load(&text, &ConnectionFlags { insecure_skip_tls_verify: true, ..flags() }).unwrap();
    assert_eq!((blind.config.root_cert, blind.config.accept_invalid_certs), (None, true));
    assert_eq!(blind.notices, [Notice::Warning("the certificate of https://x is not checked".into())]);
    assert!(config(&ConnectionFlags { disable_compression: true, ..flags() }).disable_compression);

    let given = Some(Token("flag".into()));
    let token = load(&text, &ConnectionFlags { token: given.clone(), ..flags() }).unwrap();
    assert_eq!(token.credential, Credential::Token(Token("flag".into())));
    assert!(!format!("{:?}", ConnectionFlags { token: given, ..flags() }).contains("flag"), "not in any debug output");
    let signed = ConnectionFlags { client_certificate: Some(certificate), client_key: Some(key.clone()), ..flags() };
    let data = config(&signed).auth_info.client_certificate_data.unwrap();
    assert_eq!(STANDARD.decode(data).unwrap(), b"c\n");

    let acting = config(&ConnectionFlags {
        impersonate: Some("bob".into()),
        impersonate_uid: Some("7".into()),
        impersonate_groups: vec!["b".into(), "c".into()],
        impersonate_extra: vec![("team".into(), "1".into()), ("team".into(), "2=3".into())],
        ..flags()
    });
    let user = acting.auth_info;
    assert_eq!((user.impersonate.as_deref(), user.impersonate_uid.as_deref()), (Some("bob"), Some("7")));
    assert_eq!(user.impersonate_groups, Some(vec!["b".to_string(), "c".to_string()]));
    let extra = user.impersonate_user_extra.unwrap();
    assert_eq!((&extra["team"], &extra["site"]), (&vec!["1".to_string(), "2=3".to_string()], &vec!["z".to_string()]));

    let nobody = one("server: 'https://x'", "");
    for (flags, words) in [
        (ConnectionFlags { impersonate_groups: vec!["a".into()], ..flags() }, "as nobody"),
        (ConnectionFlags { impersonate_uid: Some("1".into()), ..flags() }, "as nobody"),
        (ConnectionFlags { impersonate_extra: vec![("a".into(), "b".into())], ..flags() }, "as nobody"),
        (ConnectionFlags { client_key: Some(key), ..flags() }, "--client-key needs --client-certificate"),
        (
            ConnectionFlags { certificate_authority: Some(authority), insecure_skip_tls_verify: true, ..flags() },
            "has both a certificate-authority and insecure-skip-tls-verify",
        ),
    ] {
        let text = message(load(&nobody, &flags));
        assert!(text.contains(words), "{text}");
    }
    let password = one("server: 'https://x'", "username: u, password: p");
    let both = ConnectionFlags { token: Some(Token("t".into())), ..self::flags() };
    assert!(message(load(&password, &both)).contains("both a token and a password"));
}

/// Otherwise `--server` alone would ask for a kubeconfig that nobody needs.
#[test]
fn a_server_is_enough() {
    let flags = ConnectionFlags {
        server: Some("https://x".into()),
        token: Some(Token("t".into())),
        namespace: Some("shop".into()),
        ..flags()
    };
    let nowhere = Environment::default();
    let connection = Connection::load(&flags, &nowhere).unwrap();
    assert_eq!((connection.server.as_str(), connection.namespace.as_str()), ("https://x", "shop"));
    assert_eq!(connection.credential, Credential::Token(Token("t".into())));
    // Also where the context's cluster is gone, but not where the flag's is.
    let gone = ConnectionFlags { context: Some("nowhere".into()), token: None, ..flags.clone() };
    assert_eq!(load(TWO, &gone).unwrap().credential, Credential::Token(Token("secret-a".into())));
    let text = message(load(TWO, &ConnectionFlags { cluster: Some("gone".into()), ..flags.clone() }));
    assert!(text.starts_with("cluster \"gone\" does not exist in "), "{text}");
    let text = message(Connection::load(&ConnectionFlags { user: Some("x".into()), ..flags }, &nowhere));
    assert!(text.starts_with("user \"x\" does not exist in any kubeconfig"), "{text}");
}

/// Otherwise a token would be readable for whoever listens on the way: kubectl sends none there either.
#[test]
fn nothing_secret_goes_to_a_server_without_tls() {
    for user in
        ["token: t", "username: u, password: p", "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: x}"]
    {
        let connection = load(&one("server: 'http://x'", user), &flags()).unwrap();
        assert_eq!((connection.credential, connection.plugin), (Credential::None, None));
        let said = "no credentials are sent over http://x: it is not encrypted";
        assert_eq!(connection.notices, [Notice::Note(said.into())]);
    }
    assert_eq!(load(&one("server: 'http://x'", ""), &flags()).unwrap().notices, []);
}

/// Otherwise what kubectl refuses would be run here, or the other way round.
#[test]
fn a_plugin_is_checked_as_kubectl_does() {
    let v1 = "apiVersion: client.authentication.k8s.io/v1, command: aws";
    for (exec, words) in [
        (v1.to_string(), "without an interactiveMode"),
        ("command: aws, interactiveMode: Never".to_string(), "without an apiVersion"),
        (format!("{}, interactiveMode: Never", v1.replace("command: aws", "command: ''")), "without a command"),
        (format!("{}, interactiveMode: Never", v1.replace("/v1", "/v1alpha1")), "v1alpha1"),
        (format!("{v1}, interactiveMode: Never, env: [{{value: x}}]"), "without a name"),
    ] {
        let text = message(load(&one("server: 'https://x'", &format!("exec: {{{exec}}}")), &flags()));
        assert!(text.starts_with("user \"u\": has a credential plugin (exec)") && text.contains(words), "{text}");
    }
    let exec = format!("exec: {{{v1}, interactiveMode: Never, args: null, env: null}}");
    assert!(load(&one("server: 'https://x'", &exec), &flags()).unwrap().plugin.is_some());
    // Whoever has a token needs no plugin.
    assert_eq!(load(&one("server: 'https://x'", &format!("{exec}, token: t")), &flags()).unwrap().plugin, None);
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws}";
    assert!(load(&one("server: 'https://x'", exec), &flags()).unwrap().plugin.is_some());
}
