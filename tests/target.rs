//! The words for a workload.

use proptest::prelude::*;
use saferollback::core::workload::{self, Kind, Target, TargetError};

fn parse(words: &[&str]) -> Result<Option<Target>, TargetError> {
    Target::parse(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// Otherwise a word that kubectl takes would be refused here.
#[test]
fn kubectls_words_are_understood() {
    let web = |kind| Ok(Some(Target { kind, name: "web".into() }));
    assert_eq!(parse(&[]), Ok(None));
    assert_eq!(parse(&["web"]), web(None));
    for word in [
        "deployment",
        "deployments",
        "deploy",
        "Deployment",
        "deployments.apps",
        "deployment.apps",
        "deployments.v1.apps",
    ] {
        assert_eq!(parse(&[&format!("{word}/web")]), web(Some(Kind::Deployment)));
        assert_eq!(parse(&[word, "web"]), web(Some(Kind::Deployment)));
    }
    for word in ["sts", "statefulset", "statefulsets.apps"] {
        assert_eq!(parse(&[word, "web"]), web(Some(Kind::StatefulSet)));
    }
    for word in ["ds", "daemonset", "daemonsets"] {
        assert_eq!(parse(&[&format!("{word}/web")]), web(Some(Kind::DaemonSet)));
    }
}

/// Otherwise a ConfigMap could not be asked for, or a workload with such a name no more.
#[test]
fn words_for_a_config_map_are_told_from_those_of_a_workload() {
    let config_map = |words: &[&str]| workload::config_map(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
    for word in ["configmap", "cm", "configmaps", "ConfigMap"] {
        assert_eq!(config_map(&[&format!("{word}/settings")]), Ok(Some("settings".into())));
        assert_eq!(config_map(&[word, "settings"]), Ok(Some("settings".into())));
        assert!(matches!(config_map(&[&format!("{word}/")]), Err(TargetError::NoConfigMap(_))));
        assert!(matches!(config_map(&[&format!("{word}/a/b")]), Err(TargetError::NoConfigMap(_))));
        assert_eq!(config_map(&[word]), Ok(None), "a Deployment may have this name");
        assert!(Target::parse(&[word.to_string()]).is_ok());
    }
    for words in [&[][..], &["web"], &["deploy/web"], &["deploy", "cm"], &["secret/x"]] {
        assert_eq!(config_map(words), Ok(None));
    }
}

/// Otherwise a wrong word would be looked up as a name, or half of it ignored.
#[test]
fn other_words_are_refused() {
    assert!(matches!(parse(&["pod/web"]), Err(TargetError::UnknownKind(_))));
    assert!(matches!(parse(&["deployments.extensions/web"]), Err(TargetError::UnknownKind(_))));
    assert!(matches!(parse(&["deploy/"]), Err(TargetError::NoName(_))));
    assert!(matches!(parse(&["deploy"]), Err(TargetError::NoName(_))));
    assert!(matches!(parse(&["deploy/web/x"]), Err(TargetError::NoName(_))));
    assert!(matches!(parse(&["deploy/web", "deploy/api"]), Err(TargetError::TooMany(_))));
    assert!(matches!(parse(&["deploy", "web", "api"]), Err(TargetError::TooMany(_))));
}

proptest! {
    /// Otherwise some word on the command line could end the process.
    #[test]
    fn no_words_panic(words in proptest::collection::vec(".*", 0..4)) {
        let _ = Target::parse(&words);
    }
}
