//! kubectl's connection flags: where they are listed, and how they come back in the commands that we print.

use crate::support::product::{command, root, run};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

const FLAGS: [&str; 21] = [
    "--as=",
    "--as-group=",
    "--as-uid=",
    "--as-user-extra=",
    "--certificate-authority=",
    "--client-certificate=",
    "--client-key=",
    "--cluster=",
    "--context=",
    "--disable-compression[=",
    "--insecure-skip-tls-verify[=",
    "--kubeconfig=",
    "-n, --namespace=",
    "--request-timeout=",
    "-s, --server=",
    "--tls-server-name=",
    "--token=",
    "--user=",
    "--color=",
    "--no-headers:",
    "-v, --v=",
];

/// Otherwise nobody would find the flags, or each verb's help would be full of them.
#[test]
fn options_lists_them_and_each_help_points_there() {
    let listed = run(&["options"]).expect(0).stdout;
    assert!(listed.starts_with("The following options can be passed to any command:\n\n"), "{listed}");
    for flag in FLAGS {
        assert!(listed.contains(&format!("\n    {flag}")), "{flag} in {listed}");
    }
    assert_eq!(listed.matches("\n\n    ").count(), FLAGS.len(), "{listed}");
    for verb in ["history", "check", "diff", "undo", "restore", "status", "observe", "rbac", "version"] {
        let help = run(&[verb, "--help"]).expect(0).stdout;
        assert!(help.contains("Use \"kubectl saferollback options\""), "{help}");
        assert!(!help.contains("--kubeconfig") && !help.contains("--token"), "{help}");
    }
    assert!(run(&["snapshot", "create", "--help"]).expect(0).stdout.contains("saferollback options"));
}

/// Otherwise a copied command would go to another cluster, or as another user; or a token would be on the screen and in the
/// history of a shell.
#[test]
fn printed_commands_say_the_same_but_the_token() {
    let typed = [
        "-n",
        "shop",
        "--context=c",
        "--cluster=k",
        "--user",
        "u",
        "-s",
        "https://x",
        "--token",
        "hunter2",
        "--as=bob",
        "--as-uid=7",
        "--as-group=a",
        "--as-group=b",
        "--as-user-extra",
        "team=x y",
        "--certificate-authority=ca.crt",
        "--client-certificate=c.crt",
        "--client-key=c.key",
        "--tls-server-name=n",
        "--insecure-skip-tls-verify",
        "--request-timeout=5",
        "--disable-compression",
        "--kubeconfig=f",
    ];
    let words = "-n shop --context c --kubeconfig f --cluster k --user u --server https://x --token TOKEN --as bob \
                 --as-uid 7 --as-group a --as-group b --as-user-extra 'team=x y' --certificate-authority ca.crt \
                 --client-certificate c.crt --client-key c.key --tls-server-name n --request-timeout 5s \
                 --insecure-skip-tls-verify --disable-compression";
    for (before, after) in [(&typed[..], &[][..]), (&[], &typed), (&typed[..13], &typed[13..])] {
        let verb = ["history", "web", "--from-file", "tests/incident"];
        let ran = command().current_dir(root()).args(before).args(verb).args(after).output().expect("the binary runs");
        let text = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        assert!(text.contains(words), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

/// Otherwise a typo would act as somebody else.
#[test]
fn what_kubectl_passes_over_is_an_error() {
    for (flag, word) in
        [("--as-user-extra=team", "KEY=VALUE"), ("--request-timeout=soon", "duration"), ("--as-groups=a", "--as-group")]
    {
        let ran = run(&["status", "web", flag]).expect(2);
        assert!(ran.stderr.contains(word), "{ran:?}");
    }
}

/// Otherwise a server that accepts and never answers would hold a script for half a minute, whatever it asked for.
#[test]
fn a_request_timeout_is_kept() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            held.push(stream);
        }
    });
    let began = Instant::now();
    let ran = run(&["status", "deploy/web", "--server", &server, "--request-timeout=700ms"]).expect(1);
    assert!(ran.stderr.contains("no complete answer within 700ms"), "{ran:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "and it is not asked again");
}

/// Otherwise what the server warns of would be lost, or drown the rest.
#[test]
fn warnings_of_the_server_are_said_once_each() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let body = r#"{"kind":"Status","status":"Failure","reason":"NotFound","code":404,"message":"not found"}"#;
            let head = "HTTP/1.1 404 Not Found\r\nconnection: close\r\nwarning: 299 - \"old \u{202e}ü\"";
            let _ = write!(stream, "{head}, 299 - \"new\"\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    let ran = run(&["status", "web", "--server", &server]).expect(1);
    let warnings: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("Warning: ")).collect();
    assert_eq!(warnings, ["Warning: old \\u{202e}ü", "Warning: new"], "{ran:?}");
}
