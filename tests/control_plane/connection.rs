//! Flags and kubeconfigs, held against the real kubectl on the real API server: both get there as the same user and by
//! the same way, or neither does.

use crate::support::client::{DEPLOYMENTS, Resource, SERVICE_ACCOUNTS};
use crate::support::control_plane::{ControlPlane, Namespace, wait};
use crate::support::hop::{self, Hop, Kind};
use crate::support::product::{BINARY, Ran};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const BINDINGS: Resource = Resource::new("/apis/rbac.authorization.k8s.io/v1", "rolebindings");

/// Who is who: the certificates and tokens of a test, in one directory.
pub(super) struct World {
    pub namespace: Namespace,
    directory: tempfile::TempDir,
    port: u16,
    tools: PathBuf,
}

/// A name that is in the server's certificate, and that nobody resolves.
const NAME: &str = "kubernetes.default.svc";

const PLUGIN: &str = r#"#!/bin/sh
# A credential plugin: what it does is its first word.
echo run >>"$RUNS"
printf '%s' "$KUBERNETES_EXEC_INFO" >"$RUNS.info"
pem() { awk '{ printf "%s\\n", $0 }' "$1"; }
dir=$(dirname "$0")
version=${VERSION:-client.authentication.k8s.io/v1}
case $1 in
token) status='"token":"'$(cat "$dir/token")'"' ;;
# The first time one that nobody knows.
late) if [ "$(wc -l <"$RUNS")" = 1 ]; then status='"token":"stale"'; else status='"token":"'$(cat "$dir/token")'"'; fi ;;
never) status='"token":"stale"' ;;
brief) status='"token":"'$(cat "$dir/token")'","expirationTimestamp":"'$(date -u -d '+2 seconds' +%Y-%m-%dT%H:%M:%SZ)'"' ;;
expired) status='"token":"'$(cat "$dir/token")'","expirationTimestamp":"2020-01-01T00:00:00Z"' ;;
certificate) status='"clientCertificateData":"'$(pem "$dir/alice.crt")'","clientKeyData":"'$(pem "$dir/alice.key")'"' ;;
late-certificate)
    pair=alice
    [ "$(wc -l <"$RUNS")" != 1 ] || pair=stranger
    status='"clientCertificateData":"'$(pem "$dir/$pair.crt")'","clientKeyData":"'$(pem "$dir/$pair.key")'"'
    ;;
hang) echo $$ >"$RUNS.pid"; exec sleep 600 ;;
ask) printf 'Password: ' >&2; read -r word; [ "$word" = open ] && status='"token":"'$(cat "$dir/token")'"' ;;
half) status='"clientCertificateData":"'$(pem "$dir/alice.crt")'"' ;;
nothing) status='' ;;
junk) echo hello; exit 0 ;;
yaml) printf 'apiVersion: %s\nkind: ExecCredential\nstatus:\n  token: %s\n' "$version" "$(cat "$dir/token")"; exit 0 ;;
fail) echo "plugin: no session" >&2; exit 3 ;;
other) version=client.authentication.k8s.io/v1beta1; status='"token":"'$(cat "$dir/token")'"' ;;
esac
printf '{"apiVersion":"%s","kind":"ExecCredential","status":{%s}}\n' "$version" "$status"
"#;

impl World {
    pub fn new(prefix: &str) -> World {
        let plane = ControlPlane::main();
        let namespace = plane.namespace(prefix);
        let directory = tempfile::tempdir().expect("a directory");
        let here = |name: &str| directory.path().join(name);
        let note = |name: &str| fs::read_to_string(plane.directory.join(name)).expect("a note").trim().to_string();
        let pki = PathBuf::from(note("pki-directory"));
        for name in ["ca.crt", "admin.crt", "admin.key"] {
            fs::copy(pki.join(name), here(name)).expect("a copy");
        }
        certificate(&pki.join("ca.crt"), &pki.join("ca.key"), &here("alice"), "/O=team/CN=alice");
        authority(&here("other-ca"));
        certificate(&here("other-ca.crt"), &here("other-ca.key"), &here("stranger"), "/O=team/CN=stranger");
        for account in ["token", "other"] {
            namespace.all(SERVICE_ACCOUNTS).create(&json!({"metadata": {"name": account}})).ok();
            let token = namespace.at(SERVICE_ACCOUNTS, account).sub("token").create(&json!({"spec": {}})).ok();
            fs::write(here(account), token["status"]["token"].as_str().expect("a token")).expect("written");
        }
        let readers = json!({
            "metadata": {"name": "everybody-reads"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}],
        });
        namespace.all(BINDINGS).create(&readers).ok();
        fs::write(here("plugin.sh"), PLUGIN).expect("written");
        fs::set_permissions(here("plugin.sh"), fs::Permissions::from_mode(0o755)).expect("a program");
        let port = note("server").rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        World { tools: PathBuf::from(note("tools")), namespace, directory, port }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The text with `{server}` and the like filled in.
    pub fn filled(&self, text: &str, row: usize) -> String {
        let read = |name: &str| fs::read(self.file(name)).expect("a file");
        let base64 = |name: &str| STANDARD.encode(read(name));
        let mut out = text.to_string();
        for (key, value) in [
            ("{dir}", self.directory.path().display().to_string()),
            ("{port}", self.port.to_string()),
            ("{server}", format!("https://127.0.0.1:{}", self.port)),
            ("{name}", format!("https://{NAME}:{}", self.port)),
            ("{ns}", self.namespace.name.clone()),
            ("{ca64}", base64("ca.crt")),
            ("{cert64}", base64("admin.crt")),
            ("{key64}", base64("admin.key")),
            ("{token}", String::from_utf8(read("token")).expect("text")),
            ("{other}", String::from_utf8(read("other")).expect("text")),
            ("{runs}", self.runs(row).display().to_string()),
        ] {
            out = out.replace(key, &value);
        }
        out
    }

    pub fn runs(&self, row: usize) -> PathBuf {
        self.file(&format!("runs-{row}"))
    }
}

fn openssl(arguments: &[&str]) {
    let ran = Command::new("openssl").args(arguments).output().expect("openssl runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// `to.crt` and `to.key`: a client's.
fn certificate(ca: &Path, ca_key: &Path, to: &Path, subject: &str) {
    let of = |path: &Path| path.display().to_string();
    let (key, request, out) = (format!("{}.key", of(to)), format!("{}.csr", of(to)), format!("{}.crt", of(to)));
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    openssl(&[&["req"], &curve[..], &["-keyout", &key, "-out", &request, "-subj", subject]].concat());
    let usage = format!("{}.ext", of(to));
    fs::write(&usage, "basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth\n").expect("written");
    let signer = ["-CA", &of(ca), "-CAkey", &of(ca_key), "-set_serial", "77", "-days", "7", "-extfile", &usage];
    openssl(&[&["x509", "-req", "-in", &request, "-out", &out], &signer[..]].concat());
}

/// `to.crt`: an authority that nobody here was signed by.
fn authority(to: &Path) {
    let (key, out) = (format!("{}.key", to.display()), format!("{}.crt", to.display()));
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    openssl(
        &[&["req", "-x509"], &curve[..], &["-keyout", &key, "-out", &out, "-days", "7", "-subj", "/CN=other"]].concat(),
    );
}

/// One way to say where to go and as whom.
struct Row {
    about: &'static str,
    /// The whole file; empty: none.
    kubeconfig: String,
    flags: Vec<&'static str>,
    /// With `-n`, or is the namespace to be found elsewhere?
    named: bool,
    environment: Vec<(&'static str, String)>,
    proxy: Option<Hop>,
    /// In a Pod's file system.
    pod: bool,
    /// Other lines for /etc/hosts.
    hosts: &'static str,
    /// Whom the server must take it for; `None`: it must not succeed.
    user: Option<&'static str>,
    /// How often a plugin is to be run for it.
    runs: usize,
}

const ADMIN: &str = "client-certificate: admin.crt, client-key: admin.key";
pub(super) const SERVER: &str = "server: '{server}', certificate-authority: ca.crt";

/// A kubeconfig with one context, whose cluster and user have these fields.
pub(super) fn one(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- {{name: c, context: {{cluster: k, user: u}}}}\n\
         clusters:\n- {{name: k, cluster: {{{cluster}}}}}\nusers:\n- {{name: u, user: {{{user}}}}}\n"
    )
}

/// The same whose user signs in through the plugin that does this, with these fields beside it.
pub(super) fn with_plugin(does: &str, more: &str) -> String {
    let env = "env: [{name: RUNS, value: '{runs}'}]";
    one(SERVER, &format!("exec: {{command: ./plugin.sh, args: [{does}], {env}, {more}}}"))
}

impl Row {
    fn new(about: &'static str, cluster: &str, user: &str) -> Row {
        Row::file(about, &one(cluster, user))
    }

    fn file(about: &'static str, kubeconfig: &str) -> Row {
        Row {
            about,
            kubeconfig: kubeconfig.to_string(),
            flags: Vec::new(),
            named: true,
            environment: Vec::new(),
            proxy: None,
            pod: false,
            hosts: "",
            user: None,
            runs: 0,
        }
    }

    /// The usual kubeconfig, with these flags.
    fn flags(about: &'static str, flags: &[&'static str]) -> Row {
        Row { flags: flags.to_vec(), ..Row::new(about, SERVER, ADMIN) }
    }

    fn plugin(about: &'static str, does: &str, more: &str) -> Row {
        Row { runs: 1, ..Row::file(about, &with_plugin(does, more)) }
    }

    /// In a Pod, with the account `token`.
    fn pod(about: &'static str, kubeconfig: &str, flags: &[&'static str]) -> Row {
        Row { flags: flags.to_vec(), pod: true, ..Row::file(about, kubeconfig) }
    }

    fn and(mut self, flags: &[&'static str]) -> Row {
        self.flags.extend(flags);
        self
    }

    fn with(mut self, name: &'static str, value: &str) -> Row {
        self.environment.push((name, value.to_string()));
        self
    }

    fn through(mut self, proxy: Hop) -> Row {
        self.proxy = Some(proxy);
        self
    }

    fn succeeds_as(mut self, user: &'static str) -> Row {
        self.user = Some(user);
        self
    }
}

/// Runs a program as this row says. `before`: its flags come before the verb.
fn run(world: &World, at: usize, row: &Row, program: &Path, verb: &[&str], before: bool) -> Ran {
    let kubeconfig = world.file(&format!("config-{at}"));
    let proxy = row.proxy.as_ref().map(|proxy| proxy.address.to_string()).unwrap_or_default();
    let fill = |text: &str| world.filled(text, at).replace("{proxy}", &proxy);
    if !row.kubeconfig.is_empty() {
        fs::write(&kubeconfig, fill(&row.kubeconfig)).expect("written");
    }
    let mut flags: Vec<String> = row.flags.iter().map(|flag| fill(flag)).collect();
    if row.named {
        flags.extend(["-n".to_string(), world.namespace.name.clone()]);
    }
    let mut words = vec![program.display().to_string()];
    let verb = verb.iter().map(ToString::to_string);
    match before {
        true => words.extend(flags.into_iter().chain(verb)),
        false => words.extend(verb.chain(flags)),
    }
    let mut command = match row.pod || !row.hosts.is_empty() {
        true => elsewhere(world, row),
        false => Command::new(&words[0]),
    };
    let rest = if row.pod || !row.hosts.is_empty() { &words[..] } else { &words[1..] };
    command.args(rest).env_clear().stdin(Stdio::null());
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", world.file("home"));
    // No preferences of anybody.
    command.env("KUBERC", "off").env("KUBECONFIG", &kubeconfig);
    for (name, value) in &row.environment {
        command.env(name, fill(value));
    }
    if row.pod {
        command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", world.port.to_string());
    }
    command.output().expect("it runs").into()
}

/// A mount namespace of its own, with a Pod's account or other hosts: nobody else sees it.
fn elsewhere(world: &World, row: &Row) -> Command {
    let mut script = "set -e\n".to_string();
    if row.pod {
        let account = "/var/run/secrets/kubernetes.io/serviceaccount";
        let here = world.directory.path().display();
        script +=
            &format!("mount -t tmpfs tmpfs /var/run/\nmkdir -p {account}\ncp {here}/token {here}/ca.crt {account}/\n");
        script += &format!("printf '%s\\n' {} >{account}/namespace\n", world.namespace.name);
    }
    if !row.hosts.is_empty() {
        fs::write(world.file("hosts"), row.hosts).expect("written");
        script += &format!("mount --bind {}/hosts /etc/hosts\n", world.directory.path().display());
    }
    script += "exec \"$@\"\n";
    let mut command = Command::new("/usr/bin/unshare");
    // SAFETY: asks for a number, and nothing else.
    if unsafe { libc::geteuid() } != 0 {
        command.arg("--map-root-user");
    }
    command.args(["--mount", "--", "/bin/sh", "-c", &script, "sh"]);
    command
}

/// Plays each row with kubectl, and with the binary, the flags before and after the verb.
fn play(world: &World, rows: &[Row]) {
    let name = |at: usize| format!("row-{at}");
    for at in 0..rows.len() {
        let body = json!({
            "metadata": {"name": name(at)},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "registry.invalid/web:1"}]},
            }},
        });
        world.namespace.all(DEPLOYMENTS).create(&body).ok();
    }
    for at in 0..rows.len() {
        wait("the controller", || {
            let web = world.namespace.at(DEPLOYMENTS, &name(at)).get().ok();
            (web["status"]["observedGeneration"] == web["metadata"]["generation"]).then_some(())
        });
    }
    let kubectl = world.tools.join("kubectl");
    let mut wrong = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let (web, full) = (name(at), format!("deployment/row-{at}"));
        let look = |program: &Path, verb: &[&str], before: bool| {
            let _ = fs::remove_file(world.runs(at));
            let ran = run(world, at, row, program, verb, before);
            let runs = fs::read_to_string(world.runs(at)).map_or(0, |text| text.lines().count());
            let info = fs::read_to_string(world.runs(at).with_extension("info")).unwrap_or_default().trim().to_string();
            // One connection or several: only the way counts.
            let way: BTreeSet<String> = row.proxy.iter().flat_map(Hop::taken).collect();
            (ran, way, runs, info)
        };
        let theirs = look(&kubectl, &["get", "deployments.v1.apps", &web, "-o", "name"], true);
        // What fails takes seconds, since reads are tried again.
        let places: &[bool] = if row.user.is_some() { &[true, false] } else { &[at % 2 == 0] };
        for before in places.iter().copied() {
            let ours = look(Path::new(BINARY), &["status", &full], before);
            let fine = |ran: &Ran| ran.code == 0;
            let expected = row.user.is_some();
            let runs = if expected { ours.2 == row.runs } else { ours.2 <= theirs.2.max(1) };
            if fine(&theirs.0) != expected
                || fine(&ours.0) != expected
                || theirs.1 != ours.1
                || !runs
                || theirs.3 != ours.3
            {
                wrong.push(format!("{}\nkubectl {theirs:?}\nours {ours:?}", row.about));
            }
            // Nothing secret is ever shown.
            for secret in ["{token}", "{other}", "{key64}", "hunter2"] {
                let secret = world.filled(secret, at);
                assert!(!ours.0.stderr.contains(&secret) && !ours.0.stdout.contains(&secret), "{}", row.about);
            }
        }
    }
    let events = world.namespace.audit();
    for (at, row) in rows.iter().enumerate() {
        let seen = |agent: &str| -> BTreeSet<String> {
            let own = events.iter().filter(|event| event.name == name(at) && event.resource == "deployments");
            let own =
                own.filter(|event| event.verb == "get" && event.user_agent.starts_with(agent) && event.code == 200);
            own.map(|event| event.user.to_string()).collect()
        };
        let (theirs, ours) = (seen("kubectl/"), seen("kubectl-saferollback/"));
        let as_whom = ours.iter().next().and_then(|user| serde_json::from_str::<Value>(user).ok());
        let as_whom = as_whom.and_then(|user| user["username"].as_str().map(String::from));
        let expected = row.user.map(|user| world.filled(user, at));
        if theirs != ours || ours.len() > 1 || as_whom != expected {
            wrong.push(format!("{}: kubectl was {theirs:?}, we were {ours:?}, expected {expected:?}", row.about));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(rows.iter().any(|row| row.user.is_some()) && rows.iter().any(|row| row.user.is_none()));
}

const CERTIFICATE: &str = "saferollback-tests";
const ACCOUNT: &str = "system:serviceaccount:{ns}:token";
const OTHER: &str = "system:serviceaccount:{ns}:other";

/// Without this a kubeconfig that kubectl takes could lead us elsewhere, or as somebody else, or nowhere
/// (C100).
#[test]
fn kubeconfigs_lead_where_kubectl_goes() {
    let world = World::new("kubeconfigs");
    let forward = Hop::start(Kind::Forward(world.port), "[::1]:0", None);
    let v6 =
        format!("server: 'https://{}', certificate-authority: ca.crt, tls-server-name: localhost", forward.address);
    let tls = "tls-server-name: localhost";
    let folded = |name: &str| {
        let text = STANDARD.encode(fs::read(world.file(name)).expect("a file"));
        let lines: Vec<&str> =
            text.as_bytes().chunks(60).map(|line| std::str::from_utf8(line).expect("ASCII")).collect();
        format!("\"{}\\n\"", lines.join("\\n"))
    };
    let folded_cluster = format!("server: '{{server}}', certificate-authority-data: {}", folded("ca.crt"));
    let folded_user =
        format!("client-certificate-data: {}, client-key-data: {}", folded("admin.crt"), folded("admin.key"));
    let oidc = "auth-provider: {name: oidc, config: {idp-issuer-url: 'https://127.0.0.1:1', client-id: c, id-token: '{token}'}}";
    let acting = "as: bob, as-uid: '7', as-groups: [a, 'system:authenticated'], as-user-extra: {team: [x, z]}";
    let two = "apiVersion: v1\nkind: Config\ncontexts:\n- {name: c, context: {cluster: k, user: u}}\n\
         - {name: gone, context: {cluster: nothing, user: u}}\n- {name: nobody, context: {cluster: k, user: nobody}}\n\
         - {name: here, context: {cluster: k, user: t, namespace: '{ns}'}}\n\
         clusters:\n- {name: k, cluster: {server: '{server}', certificate-authority: ca.crt}}\n\
         users:\n- {name: u, user: {client-certificate: admin.crt, client-key: admin.key}}\n- {name: t, user: {token: '{token}'}}\n";
    let current = |name: &str| format!("{two}current-context: {name}\n");
    fs::write(
        world.file("first"),
        world.filled("current-context: here\nusers:\n- {name: t, user: {token: '{other}'}}\n", 0),
    )
    .expect("written");
    let data = "client-certificate-data: '{cert64}', client-key-data: '{key64}'";
    let rows = [
        Row::new("files beside the kubeconfig", SERVER, ADMIN).succeeds_as(CERTIFICATE),
        Row::new("data", "server: '{server}', certificate-authority-data: '{ca64}'", data).succeeds_as(CERTIFICATE),
        Row::new("white space in base64", &folded_cluster, &folded_user).succeeds_as(CERTIFICATE),
        Row::new("a token", SERVER, "token: '{token}'").succeeds_as(ACCOUNT),
        Row::new("a token file", SERVER, "tokenFile: token").succeeds_as(ACCOUNT),
        Row::new("a token file beside a token", SERVER, "tokenFile: other, token: '{token}'").succeeds_as(OTHER),
        Row::new("a token and a lost file", SERVER, "tokenFile: gone, token: '{token}'").succeeds_as(ACCOUNT),
        Row::new("a lost token file", SERVER, "tokenFile: gone"),
        Row::new("a wrong token", SERVER, "token: hunter2"),
        Row::new("a password", SERVER, "username: u, password: hunter2"),
        Row::new("a token and a password", SERVER, "token: '{token}', username: u, password: hunter2"),
        Row::new("a token and a certificate", SERVER, &format!("{ADMIN}, token: '{{token}}'")).succeeds_as(CERTIFICATE),
        Row::new("a certificate twice", SERVER, &format!("{ADMIN}, {data}")),
        Row::new("a certificate without a key", SERVER, "client-certificate: admin.crt"),
        Row::new("a key without a certificate", SERVER, "client-key: admin.key, token: '{token}'").succeeds_as(ACCOUNT),
        Row::new("a key of somebody else", SERVER, "client-certificate: admin.crt, client-key: alice.key"),
        Row::new("an authority twice", &format!("{SERVER}, certificate-authority-data: '{{ca64}}'"), ADMIN),
        Row::new("a wrong authority", "server: '{server}', certificate-authority: other-ca.crt", ADMIN),
        Row::new("a lost authority", "server: '{server}', certificate-authority: gone", ADMIN),
        Row::new("no authority", "server: '{server}'", ADMIN),
        Row::new("unchecked", "server: '{server}', insecure-skip-tls-verify: true", ADMIN).succeeds_as(CERTIFICATE),
        Row::new("unchecked, with an authority", &format!("{SERVER}, insecure-skip-tls-verify: true"), ADMIN),
        Row::new("a name for the certificate", &format!("{SERVER}, {tls}"), ADMIN).succeeds_as(CERTIFICATE),
        Row::new("a wrong name", &format!("{SERVER}, tls-server-name: wrong"), ADMIN),
        Row::new("by name", "server: 'https://localhost:{port}', certificate-authority: ca.crt", ADMIN)
            .succeeds_as(CERTIFICATE),
        Row::new("an IPv6 address", &v6, ADMIN).succeeds_as(CERTIFICATE),
        Row::new("a slash at the end", "server: '{server}/', certificate-authority: ca.crt", ADMIN)
            .succeeds_as(CERTIFICATE),
        Row::new("no scheme", "server: '127.0.0.1:{port}', certificate-authority: ca.crt", ADMIN),
        Row::new("no scheme, unchecked", "server: '127.0.0.1:{port}', insecure-skip-tls-verify: true", ADMIN),
        Row::new("another scheme", "server: 'ftp://127.0.0.1:{port}'", ADMIN),
        Row::new("no TLS", "server: 'http://127.0.0.1:{port}'", ADMIN),
        Row::new("no server", "certificate-authority: ca.crt", ADMIN),
        Row::new("as somebody", SERVER, &format!("{ADMIN}, {acting}")).succeeds_as("bob"),
        Row::new("groups of nobody", SERVER, &format!("{ADMIN}, as-groups: [a]")),
        Row::new("as somebody, without the right", SERVER, "token: '{token}', as: bob"),
        Row::new("an auth-provider of old", SERVER, "auth-provider: {name: gcp}"),
        Row::new("an auth-provider's token", SERVER, oidc).succeeds_as(ACCOUNT),
        Row::new("an auth-provider without its issuer", SERVER, &oidc.replace("idp-issuer-url", "other")),
        Row::new("an auth-provider's token that is none", SERVER, &oidc.replace("{token}", "x.y.z")),
        Row::file("no current context", two),
        Row::file("a current context that is gone", &current("other")),
        Row::file("a context whose cluster is gone", &current("gone")),
        Row::file("a context whose user is gone", &current("nobody")),
        Row { named: false, ..Row::file("the context's namespace", &current("here")) }.succeeds_as(ACCOUNT),
        Row::file("an entry twice", &format!("{}- {{name: u, user: {{token: x}}}}\n", current("here"))),
        Row::file("a list of files, some of them missing", two)
            .with("KUBECONFIG", "{dir}/missing:{dir}/first::{dir}/config-45")
            .succeeds_as(OTHER),
        Row::file("not YAML", "a: ["),
        Row::file("a key twice", &format!("current-context: gone\n{}", current("here"))).succeeds_as(ACCOUNT),
        Row::file("two documents", &format!("{}---\ncurrent-context: gone\n", current("here"))).succeeds_as(ACCOUNT),
        Row::file("two documents, the first without a context", &format!("{two}---\n{}", current("here"))),
        Row::file("another kind", &current("here").replace("kind: Config", "kind: Pod")),
        Row::file("another version", &current("here").replace("apiVersion: v1", "apiVersion: v2")),
        Row::file("no kind", &current("here").replace("apiVersion: v1\nkind: Config\n", "")).succeeds_as(ACCOUNT),
        Row::file(
            "a number for a name",
            &current("here").replace("name: k", "name: 7").replace("cluster: k", "cluster: 7"),
        ),
        Row::file("lines from Windows", &current("here").replace('\n', "\r\n")).succeeds_as(ACCOUNT),
        Row::file("a mark at the beginning", &format!("\u{feff}{}", current("here"))).succeeds_as(ACCOUNT),
        Row::file("a folder", two).with("KUBECONFIG", "{dir}"),
        Row::file("no kubeconfig", ""),
        Row::file("an empty kubeconfig", "apiVersion: v1\nkind: Config\n"),
    ];
    assert_eq!(rows.iter().position(|row| row.about.starts_with("a list of files")), Some(45), "it names its file");
    play(&world, &rows);
}

/// Without this a flag could be taken in and mean something else than kubectl's, such as another user (C95).
#[test]
fn flags_lead_where_kubectl_goes() {
    let world = World::new("flags");
    let wrong = "server: '{server}', certificate-authority: other-ca.crt";
    let alice = ["--client-certificate={dir}/alice.crt", "--client-key={dir}/alice.key"];
    let bare = ["--server={server}", "--certificate-authority={dir}/ca.crt"];
    let two = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- {name: c, context: {cluster: lost, user: u}}\n\
         - {name: d, context: {cluster: k, user: t}}\n- {name: e, context: {cluster: k, user: nobody}}\n\
         clusters:\n- {name: k, cluster: {server: '{server}', certificate-authority: ca.crt}}\n\
         - {name: lost, cluster: {server: 'https://127.0.0.1:1', certificate-authority: ca.crt}}\n\
         users:\n- {name: u, user: {client-certificate: admin.crt, client-key: admin.key}}\n- {name: t, user: {token: '{token}'}}\n";
    let named = |about, flags: &[&'static str]| Row::file(about, two).and(flags);
    fs::write(world.file("config-file"), world.filled(two, 0)).expect("written");
    let extra = ["--as=bob", "--as-user-extra=team=x", "--as-user-extra", "team=y=z", "--as-user-extra=a.b/C d%é=1"];
    let rows = [
        named("--context", &["--context", "d"]).succeeds_as(ACCOUNT),
        named("--context that is gone", &["--context=x"]),
        named("--cluster", &["--cluster=k"]).succeeds_as(CERTIFICATE),
        named("--cluster that is gone", &["--cluster=x"]),
        named("--cluster and --user", &["--cluster=k", "--user", "t"]).succeeds_as(ACCOUNT),
        named("--user that is gone", &["--cluster=k", "--user=x"]),
        named("--kubeconfig", &["--kubeconfig={dir}/config-file", "--context=d"])
            .with("KUBECONFIG", "/gone")
            .succeeds_as(ACCOUNT),
        named("--kubeconfig that is gone", &["--kubeconfig", "{dir}/gone"]),
        named("the last of two", &["--context=c", "--context=d"]).succeeds_as(ACCOUNT),
        named("flags without a word", &["--context=d", "--cluster=", "--user=", "--server=", "--token=", "--as="])
            .succeeds_as(ACCOUNT),
        Row { named: false, ..Row::flags("-n in one word", &["-n{ns}"]) }.succeeds_as(CERTIFICATE),
        Row { named: false, ..Row::flags("--namespace", &["--namespace={ns}"]) }.succeeds_as(CERTIFICATE),
        Row::new("--token", SERVER, "").and(&["--token={other}"]).succeeds_as(OTHER),
        Row::new("--token over a token", SERVER, "token: '{token}'").and(&["--token={other}"]).succeeds_as(OTHER),
        Row::flags("--token beside a certificate", &["--token={other}"]).succeeds_as(CERTIFICATE),
        Row::new("--token beside a token file", SERVER, "tokenFile: token")
            .and(&["--token={other}"])
            .succeeds_as(ACCOUNT),
        Row::new("--token over a password", SERVER, "username: u, password: p").and(&["--token={other}"]),
        Row {
            runs: 0,
            ..Row::plugin("--token over a plugin", "token", "apiVersion: client.authentication.k8s.io/v1beta1")
        }
        .and(&["--token={other}"])
        .succeeds_as(OTHER),
        named("--token where the user is gone", &["--context=e", "--token={other}"]).succeeds_as(OTHER),
        Row::file("--server alone", "").and(&bare),
        Row::file("--server and --token", "").and(&bare).and(&["--token={other}"]).succeeds_as(OTHER),
        Row::file("-s and a certificate", "")
            .and(&["-s", "{server}", "--insecure-skip-tls-verify"])
            .and(&alice)
            .succeeds_as("alice"),
        Row::file("--server that is down", "").and(&["--server=https://127.0.0.1:1", "--token=hunter2"]),
        Row::flags("--server with the cluster's authority", &["--server=https://localhost:{port}"])
            .succeeds_as(CERTIFICATE),
        Row::new("--server clears the name", &format!("{SERVER}, tls-server-name: wrong"), ADMIN)
            .and(&["--server={server}"])
            .succeeds_as(CERTIFICATE),
        Row::new("--tls-server-name", &format!("{SERVER}, tls-server-name: wrong"), ADMIN)
            .and(&["--tls-server-name=localhost"])
            .succeeds_as(CERTIFICATE),
        Row::flags("a wrong --tls-server-name", &["--tls-server-name", "wrong"]),
        Row::new("--certificate-authority", wrong, ADMIN)
            .and(&["--certificate-authority={dir}/ca.crt"])
            .succeeds_as(CERTIFICATE),
        Row::flags("a wrong --certificate-authority", &["--certificate-authority={dir}/other-ca.crt"]),
        Row::flags("a lost --certificate-authority", &["--certificate-authority=gone"]),
        Row::new("unchecked over an authority", wrong, ADMIN)
            .and(&["--insecure-skip-tls-verify"])
            .succeeds_as(CERTIFICATE),
        Row::new("unchecked, said as in Go", wrong, ADMIN)
            .and(&["--insecure-skip-tls-verify=T"])
            .succeeds_as(CERTIFICATE),
        Row::new("unchecked, said as true", wrong, ADMIN)
            .and(&["--insecure-skip-tls-verify=true"])
            .succeeds_as(CERTIFICATE),
        Row::new("checked, said as false", wrong, ADMIN).and(&["--insecure-skip-tls-verify=false"]),
        Row::flags(
            "unchecked with an authority",
            &["--insecure-skip-tls-verify", "--certificate-authority={dir}/ca.crt"],
        ),
        Row::new("an authority over unchecked", "server: '{server}', insecure-skip-tls-verify: true", ADMIN)
            .and(&["--certificate-authority={dir}/other-ca.crt"]),
        Row::flags("--client-certificate", &alice).succeeds_as("alice"),
        Row::flags("--client-certificate with a key of somebody else", &alice[..1]),
        Row::flags("--as", &["--as=bob"]).succeeds_as("bob"),
        Row::flags("--as somebody beyond ASCII", &["--as=Jürgen", "--as-group=system:authenticated", "--as-group=ü"])
            .succeeds_as("Jürgen"),
        Row::flags("--as a service account", &["--as", "system:serviceaccount:{ns}:other"]).succeeds_as(OTHER),
        Row::flags("--as-group", &["--as=bob", "--as-group=system:authenticated", "--as-group", "team"])
            .succeeds_as("bob"),
        Row::flags("--as-uid", &["--as=bob", "--as-uid=7"]).succeeds_as("bob"),
        Row::flags("--as-user-extra", &extra).succeeds_as("bob"),
        Row::flags("--as-group of nobody", &["--as-group=team"]),
        Row::flags("--as-uid of nobody", &["--as-uid=7"]),
        Row::flags("--as-user-extra of nobody", &["--as-user-extra=a=b"]),
        Row::new("--as without the right", SERVER, "token: '{token}'").and(&["--as=bob"]),
        Row::new(
            "--as over as",
            SERVER,
            &format!("{ADMIN}, as: eve, as-groups: [x], as-user-extra: {{team: [a], site: [b]}}"),
        )
        .and(&["--as=bob", "--as-group=system:authenticated", "--as-user-extra=team=c"])
        .succeeds_as("bob"),
        Row::flags("--request-timeout", &["--request-timeout=30s"]).succeeds_as(CERTIFICATE),
        Row::flags("--request-timeout in seconds", &["--request-timeout", "30"]).succeeds_as(CERTIFICATE),
        Row::flags("--request-timeout in Go's words", &["--request-timeout=1m1.5s"]).succeeds_as(CERTIFICATE),
        Row::flags("--request-timeout of none", &["--request-timeout=0"]).succeeds_as(CERTIFICATE),
        Row::flags("--request-timeout that is none", &["--request-timeout=soon"]),
        Row::flags("--disable-compression", &["--disable-compression"]).succeeds_as(CERTIFICATE),
    ];
    play(&world, &rows);
}

/// Without this a plugin could be run by other rules than kubectl's, more than once, or be told something else
/// (C98).
#[test]
fn plugins_are_run_as_kubectl_runs_them() {
    let world = World::new("plugins");
    let v1 = "apiVersion: client.authentication.k8s.io/v1, interactiveMode: IfAvailable";
    let never = "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never";
    let told = "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, provideClusterInfo: true";
    let beta = "apiVersion: client.authentication.k8s.io/v1beta1";
    let command = |about, command: &str| {
        Row::new(about, SERVER, &format!("exec: {{command: {command}, args: null, env: null, {never}}}"))
    };
    let mut more = Row::plugin("told about the cluster", "token", told);
    more.kubeconfig = more.kubeconfig.replace(
        SERVER,
        &format!(
            "{SERVER}, tls-server-name: localhost, disable-compression: true, \
             extensions: [{{name: client.authentication.k8s.io/exec, extension: {{audience: x, more: [1]}}}}]"
        ),
    );
    let mut through = Row::plugin("told about the proxy", "token", told);
    through.kubeconfig = through.kubeconfig.replace(SERVER, &format!("{SERVER}, proxy-url: 'http://{{proxy}}'"));
    let hop = || Hop::start(Kind::Connect, "127.0.0.1:0", None);
    let rows = [
        Row::plugin("a token", "token", v1).succeeds_as(ACCOUNT),
        Row::plugin("never at a terminal", "token", never).succeeds_as(ACCOUNT),
        Row::plugin("always at a terminal", "token", &never.replace("Never", "Always")),
        Row::plugin("an unknown mode", "token", &never.replace("Never", "Sometimes")),
        Row::plugin("without a mode", "token", "apiVersion: client.authentication.k8s.io/v1"),
        Row::plugin("v1beta1", "other", beta).succeeds_as(ACCOUNT),
        Row::plugin("v1alpha1", "token", "apiVersion: client.authentication.k8s.io/v1alpha1, interactiveMode: Never"),
        Row::plugin("without a version", "token", "interactiveMode: Never"),
        Row::plugin("a certificate", "certificate", never).succeeds_as("alice"),
        Row::plugin("half a certificate", "half", never),
        Row::plugin("nothing", "nothing", never),
        Row::plugin("YAML", "yaml", never).succeeds_as(ACCOUNT),
        Row::plugin("neither JSON nor YAML", "junk", never),
        Row::plugin("a failure", "fail", never),
        Row::plugin("another version", "other", never),
        command("not installed", "no-such-plugin"),
        command("not there", "./no-such-plugin"),
        command("without a command", "''"),
        more.succeeds_as(ACCOUNT),
        through.through(hop()).succeeds_as(ACCOUNT),
    ];
    play(&world, &rows);
}

/// The API server as `kubectl proxy` shows it.
struct WithoutTls {
    kubectl: Child,
    port: u16,
}

impl WithoutTls {
    fn start(world: &World) -> WithoutTls {
        let mut command = Command::new(world.tools.join("kubectl"));
        command.env_clear().env("KUBECONFIG", &world.namespace.plane.kubeconfig).env("KUBERC", "off");
        command.args(["proxy", "--port=0", "--accept-hosts=."]).stdout(Stdio::piped());
        let mut kubectl = command.spawn().expect("kubectl runs");
        let mut said = String::new();
        BufReader::new(kubectl.stdout.take().expect("a pipe")).read_line(&mut said).expect("a line");
        let port = said.trim().rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("where it serves");
        WithoutTls { kubectl, port }
    }
}

impl Drop for WithoutTls {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}

/// Without this a cluster that is reached through a proxy alone could not be reached, or requests would go by a way that
/// they must not take (C100).
#[test]
fn proxies_are_taken_as_kubectl_takes_them() {
    let world = World::new("proxies");
    let cluster = |proxy: &str| format!("server: '{{name}}', certificate-authority: ca.crt, proxy-url: '{proxy}'");
    let url = |about, proxy: &str| Row::new(about, &cluster(proxy), ADMIN);
    let name = |about| Row::new(about, "server: '{name}', certificate-authority: ca.crt", ADMIN);
    let start = |kind: Kind| Hop::start(kind, "127.0.0.1:0", None);
    let asking = |kind: Kind| Hop::start(kind, "127.0.0.1:0", Some("u:hunter2@"));
    let pki = PathBuf::from(
        fs::read_to_string(world.namespace.plane.directory.join("pki-directory")).expect("a note").trim(),
    );
    let tls = || hop::tls(&pki.join("server.crt"), &pki.join("server.key"));
    let connect = || start(Kind::Connect);
    let hosts = "127.0.0.1 localhost kubernetes.default.svc\n";
    // A server without TLS, which takes everybody for its own user.
    let server = WithoutTls::start(&world);
    let plain = format!("server: 'http://{NAME}:{}', certificate-authority: ca.crt", server.port);
    let open = |about, proxy: &str| Row::new(about, &format!("{plain}, proxy-url: '{proxy}'"), "");
    let rows = [
        open("http, without TLS", "http://{proxy}").through(connect()).succeeds_as(CERTIFICATE),
        open("http with a password, without TLS", "http://u:hunter2%40@{proxy}")
            .through(asking(Kind::Connect))
            .succeeds_as(CERTIFICATE),
        open("http with a wrong password, without TLS", "http://u:hunter2@{proxy}").through(asking(Kind::Connect)),
        open("http that says no, without TLS", "http://{proxy}").through(start(Kind::Closed)),
        open("http that is down, without TLS", "http://127.0.0.1:1"),
        open("https of the cluster's authority, without TLS", "https://{proxy}").through(start(tls())),
        open("socks5, without TLS", "socks5://{proxy}").through(start(Kind::Socks)).succeeds_as(CERTIFICATE),
        Row::new("HTTP_PROXY, without TLS", &plain, "")
            .with("HTTP_PROXY", "http://u:hunter2%40@{proxy}")
            .with("HTTPS_PROXY", "http://127.0.0.1:1")
            .through(asking(Kind::Connect))
            .succeeds_as(CERTIFICATE),
        url("http", "http://{proxy}").through(connect()).succeeds_as(CERTIFICATE),
        url("http, loopback", "http://{proxy}")
            .and(&["--server={server}"])
            .with("NO_PROXY", "*")
            .through(connect())
            .succeeds_as(CERTIFICATE),
        url("http with a password", "http://u:hunter2%40@{proxy}")
            .through(asking(Kind::Connect))
            .succeeds_as(CERTIFICATE),
        url("http with a wrong password", "http://u:hunter2@{proxy}").through(asking(Kind::Connect)),
        url("http without its password", "http://{proxy}").through(asking(Kind::Connect)),
        url("http that says no", "http://{proxy}").through(start(Kind::Closed)),
        url("http that is down", "http://127.0.0.1:1"),
        url("https", "https://{proxy}").through(start(tls())).succeeds_as(CERTIFICATE),
        url("socks5", "socks5://{proxy}").through(start(Kind::Socks)).succeeds_as(CERTIFICATE),
        url("socks5 to an address", "socks5://{proxy}")
            .and(&["--server={server}"])
            .through(start(Kind::Socks))
            .succeeds_as(CERTIFICATE),
        url("socks5 with a password", "socks5://u:hunter2%40@{proxy}")
            .through(asking(Kind::Socks))
            .succeeds_as(CERTIFICATE),
        url("socks5 with a wrong password", "socks5://u:hunter2@{proxy}").through(asking(Kind::Socks)),
        url("an unknown scheme", "ftp://{proxy}").through(connect()),
        url("socks5h", "socks5h://{proxy}").through(start(Kind::Socks)),
        url("no scheme", "{proxy}").through(connect()),
        name("HTTPS_PROXY").with("HTTPS_PROXY", "http://{proxy}").through(connect()).succeeds_as(CERTIFICATE),
        name("HTTPS_PROXY without a scheme").with("HTTPS_PROXY", "{proxy}").through(connect()).succeeds_as(CERTIFICATE),
        name("https_proxy").with("https_proxy", "http://{proxy}").through(connect()).succeeds_as(CERTIFICATE),
        name("HTTPS_PROXY before https_proxy")
            .with("HTTPS_PROXY", "http://{proxy}")
            .with("https_proxy", "http://127.0.0.1:1")
            .through(connect())
            .succeeds_as(CERTIFICATE),
        name("HTTPS_PROXY with SOCKS")
            .with("HTTPS_PROXY", "socks5://{proxy}")
            .through(start(Kind::Socks))
            .succeeds_as(CERTIFICATE),
        name("HTTPS_PROXY with SOCKS and its names")
            .with("HTTPS_PROXY", "socks5h://{proxy}")
            .through(start(Kind::Socks))
            .succeeds_as(CERTIFICATE),
        url("proxy-url before HTTPS_PROXY", "http://{proxy}")
            .with("HTTPS_PROXY", "http://127.0.0.1:1")
            .through(connect())
            .succeeds_as(CERTIFICATE),
        Row { hosts, ..name("HTTP_PROXY is not for https") }
            .with("HTTP_PROXY", "http://{proxy}")
            .with("ALL_PROXY", "http://{proxy}")
            .through(connect())
            .succeeds_as(CERTIFICATE),
        Row { hosts, ..name("NO_PROXY") }
            .with("HTTPS_PROXY", "http://{proxy}")
            .with("NO_PROXY", "example.com, .default.svc ,")
            .through(connect())
            .succeeds_as(CERTIFICATE),
        Row { hosts, ..name("no_proxy with a port") }
            .with("https_proxy", "http://{proxy}")
            .with("no_proxy", "svc:{port}")
            .through(connect())
            .succeeds_as(CERTIFICATE),
        name("NO_PROXY with another port")
            .with("HTTPS_PROXY", "http://{proxy}")
            .with("NO_PROXY", "svc:1,127.0.0.0/8")
            .through(connect())
            .succeeds_as(CERTIFICATE),
        name("NO_PROXY where the name leads nowhere")
            .with("HTTPS_PROXY", "http://{proxy}")
            .with("NO_PROXY", "svc")
            .through(connect()),
        Row::flags("loopback is never proxied", &[])
            .with("HTTPS_PROXY", "http://127.0.0.1:1")
            .through(connect())
            .succeeds_as(CERTIFICATE),
        name("a proxy of the environment that is down").with("HTTPS_PROXY", "http://127.0.0.1:1"),
    ];
    play(&world, &rows);
}

/// Without this the plugin could not be run in a Pod, or would act there on another cluster than kubectl.
#[test]
fn a_pod_is_its_service_account() {
    let world = World::new("pods");
    let named = |row: Row| Row { named: false, ..row };
    let file = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- {name: c, context: {cluster: k, user: u}}\n\
         clusters:\n- {name: k, cluster: {server: '{server}', certificate-authority: ca.crt}}\n\
         users:\n- {name: u, user: {token: '{other}'}}\n";
    let empty = "apiVersion: v1\nkind: Config\n";
    let rows = [
        Row::pod("no kubeconfig", "", &[]).succeeds_as(ACCOUNT),
        named(Row::pod("the account's namespace", "", &[])).succeeds_as(ACCOUNT),
        named(Row::pod("POD_NAMESPACE", "", &[]).with("POD_NAMESPACE", "{ns}")).succeeds_as(ACCOUNT),
        Row::pod("a kubeconfig that says nothing", empty, &[]).succeeds_as(ACCOUNT),
        Row::pod("--token", "", &["--token={other}"]).succeeds_as(OTHER),
        Row::pod("a wrong --certificate-authority", "", &["--certificate-authority={dir}/other-ca.crt"]),
        Row::pod("--server", "", &["--server={server}", "--certificate-authority={dir}/ca.crt"]),
        Row::pod("a kubeconfig", file, &[]).succeeds_as(OTHER),
        named(Row::pod("a kubeconfig, and the account's namespace", file, &[])).succeeds_as(OTHER),
        Row::pod("--context that is gone", "", &["--context=x"]),
    ];
    play(&world, &rows);
}

/// Without this `--request-timeout` in a Pod would lead to `localhost:8080`, as in kubectl, which takes any such flag for a
/// kubeconfig; should kubectl be mended, the rows belong into the table.
#[test]
fn in_a_pod_flags_work_that_kubectl_trips_over() {
    let world = World::new("tripping");
    let kubectl = world.tools.join("kubectl");
    for (at, flag) in ["--request-timeout=30s", "--as=system:serviceaccount:{ns}:token"].into_iter().enumerate() {
        let row = Row::pod(flag, "", &[flag]);
        let theirs = run(&world, at, &row, &kubectl, &["get", "deployments.v1.apps", "-o", "name"], true);
        assert!(theirs.code == 1 && theirs.stderr.contains("localhost:8080"), "{theirs:?}");
        let ours = run(&world, at, &row, Path::new(BINARY), &["history"], true);
        // It has got there: there is nothing to see, or a right is missing.
        assert!(
            ours.stderr.contains("no workload in namespace") || ours.stderr.contains("cannot impersonate"),
            "{ours:?}"
        );
    }
}
