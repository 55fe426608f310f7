//! One target, named by SAFEROLLBACK_FUZZ, with bytes that libFuzzer chooses by what code they reach.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

#[path = "../targets.rs"]
mod targets;

fn target() -> fn(&[u8]) {
    static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = std::env::var("SAFEROLLBACK_FUZZ").unwrap_or_default();
        let found = targets::TARGETS.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("SAFEROLLBACK_FUZZ={name:?} is no target")).1
    })
}

fuzz_target!(|bytes: &[u8]| target()(bytes));
