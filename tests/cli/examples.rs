//! The examples in the help texts. Those that change nothing are run by `control_plane::examples`.

use crate::support::verbs::{examples, verbs};

/// Otherwise a person would copy a line that is refused, or find none.
#[test]
fn every_verb_has_examples_and_each_can_be_parsed() {
    let verbs = verbs();
    assert!(verbs.len() >= 15, "{verbs:?}");
    for (words, mut verb) in verbs {
        let help = verb.render_long_help().to_string();
        assert!(help.contains("Examples:\n"), "{words} shows no examples");
        let examples = examples(&help);
        assert!(examples.iter().any(|e| e.join(" ").starts_with(&words)), "{words} has no example of its own");
        for example in examples {
            let line = std::iter::once("kubectl-saferollback".to_string()).chain(example.clone());
            let parsed = saferollback::cli::command().try_get_matches_from(line);
            assert!(parsed.is_ok(), "kubectl saferollback {}: {}", example.join(" "), parsed.unwrap_err());
        }
    }
}

/// Otherwise the test above could be blind.
#[test]
fn examples_are_found_and_cut_at_the_shell() {
    let found = examples(
        "Text\n\nExamples:\n  kubectl saferollback rbac --for undo | kubectl apply -f -\n  kubectl saferollback x >~/y\n",
    );
    assert_eq!(found, [vec!["rbac", "--for", "undo"], vec!["x"]]);
}
