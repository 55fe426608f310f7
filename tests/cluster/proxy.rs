//! Which way a connection takes. Whether it is really taken: control_plane::connection.

use saferollback::cluster::kubeconfig::{Connection, ConnectionFlags, Environment};

fn load(server: &str, proxy_url: &str, environment: Environment) -> Result<Connection, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: k}}}}]\n\
         clusters: [{{name: k, cluster: {{server: '{server}', proxy-url: '{proxy_url}'}}}}]\n"
    );
    std::fs::write(file.path(), text).unwrap();
    let environment = Environment { kubeconfig: Some(file.path().into()), ..environment };
    Connection::load(&ConnectionFlags::default(), &environment).map_err(|error| error.to_string())
}

fn way(server: &str, proxy_url: &str, environment: Environment) -> String {
    let connection = load(server, proxy_url, environment).unwrap();
    connection.proxy.map_or("straight".to_string(), |proxy| proxy.to_string())
}

fn no_proxy(list: &str) -> Environment {
    Environment {
        https_proxy: Some("secure:1".into()),
        http_proxy: Some("plain:2".into()),
        no_proxy: Some(list.into()),
        ..Environment::default()
    }
}

/// Otherwise requests would go past a proxy that is the only way, or through one that must not see them.
#[test]
fn the_environment_is_read_as_go_reads_it() {
    for (server, list, expected) in [
        ("https://example.com", "", "http://secure:1"),
        ("http://example.com", "", "http://plain:2"),
        // Loopback never.
        ("https://localhost:6443", "", "straight"),
        ("https://127.0.0.1:6443", "", "straight"),
        ("https://127.9.9.9", "", "straight"),
        ("https://[::1]:6443", "", "straight"),
        ("https://localhost.localdomain", "", "http://secure:1"),
        // Go's own examples (httpproxy/proxy_test.go).
        ("https://foo.com", "*", "straight"),
        ("https://foo.com", "bar.com, *", "straight"),
        ("https://foo.com", "foo.com", "straight"),
        ("https://bar.foo.com", "foo.com", "straight"),
        ("https://xfoo.com", "foo.com", "http://secure:1"),
        ("https://foo.com", ".foo.com", "http://secure:1"),
        ("https://bar.foo.com", ".foo.com", "straight"),
        ("https://bar.foo.com", "*.foo.com", "straight"),
        ("https://foo.com", "*.foo.com", "http://secure:1"),
        ("https://FOO.com", " ,foo.COM ,", "straight"),
        ("https://foo.com:80", "foo.com:80", "straight"),
        ("https://foo.com:80", "foo.com:443", "http://secure:1"),
        ("https://foo.com", "foo.com:443", "straight"),
        ("http://foo.com", "foo.com:80", "straight"),
        ("https://bar.foo.com:443", ".foo.com:443", "straight"),
        ("https://1.2.3.4", "1.2.3.4", "straight"),
        ("https://1.2.3.4", "1.2.3.0/24", "straight"),
        ("https://1.2.4.4", "1.2.3.0/24", "http://secure:1"),
        ("https://1.2.4.4", "0.0.0.0/0", "straight"),
        ("https://1.2.3.4:6443", "1.2.3.4:6443", "straight"),
        ("https://1.2.3.4:6443", "1.2.3.4:443", "http://secure:1"),
        ("https://[2001:db8::1]:6443", "[2001:db8::1]:6443", "straight"),
        ("https://[2001:db8::1]", "2001:db8::1", "straight"),
        ("https://[2001:db8::1]", "2001:db8::/32", "straight"),
        ("https://[2001:db9::1]", "2001:db8::/32", "http://secure:1"),
        ("https://foo.com", "10.0.0.0/8, ., :80, [, /", "http://secure:1"),
    ] {
        assert_eq!(way(server, "", no_proxy(list)), expected, "{server} {list:?}");
    }
    let cgi = Environment { cgi: true, ..no_proxy("") };
    assert_eq!(way("http://foo.com", "", cgi.clone()), "straight");
    assert_eq!(way("https://foo.com", "", cgi), "http://secure:1");
}

/// Otherwise a cluster that is reached through a proxy of its own would be looked for on another way.
#[test]
fn a_proxy_url_holds_whatever_the_environment_says() {
    assert_eq!(way("https://127.0.0.1", "http://p:3128", no_proxy("*")), "http://p:3128");
    for (url, expected) in [
        ("http://p", "http://p:80"),
        ("https://p", "https://p:443"),
        ("SOCKS5://p", "socks5://p:1080"),
        ("socks5://u:s%40cret@p:1/path?x#y", "socks5://p:1"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
    ] {
        assert_eq!(way("https://x", url, Environment::default()), expected);
    }
}

/// Otherwise a password would be on the screen and in logs, or a wrong proxy be passed over in silence.
#[test]
fn a_wrong_proxy_is_an_error_without_its_password() {
    for url in
        ["p:3128", "ftp://u:hunter2@p", "socks5h://p", "http://u:hunter2@", "http://u:hunter2%zz@p", "http://a b"]
    {
        let text = load("https://x", url, Environment::default()).unwrap_err();
        assert!(text.starts_with("cluster \"k\": proxy-url ") && !text.contains("hunter2"), "{text}");
    }
    for (value, expected) in [("socks5h://p", "socks5://p:1080"), ("10.0.0.1:3128", "http://10.0.0.1:3128")] {
        let environment = Environment { https_proxy: Some(value.into()), ..Environment::default() };
        assert_eq!(way("https://x", "", environment), expected);
    }
    let environment = Environment { https_proxy: Some("ftp://u:hunter2@p".into()), ..Environment::default() };
    let text = load("https://x", "", environment).unwrap_err();
    assert!(text.contains("HTTPS_PROXY has the scheme") && !text.contains("hunter2"), "{text}");
    let connection = load("https://x", "http://u:hunter2@p", Environment::default()).unwrap();
    assert_eq!(format!("{:?}", connection.proxy), "Some(Proxy(http://p:80))");
}
