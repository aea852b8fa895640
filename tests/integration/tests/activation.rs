//! Activations: every mode, off and on, and what is declined.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::LazyLock;

use integration_tests::{
    Client,
    components::{Brought, fixture},
    pair::{Pair, run},
};

static ACTIVATION: LazyLock<Client> = LazyLock::new(|| Client::compile("activation").unwrap());
const MODES: usize = 10;

/// The rules of a forwarded run, none for served calls, in the order of the modes.
fn rules(pair: &Pair) -> Vec<&str> {
    pair.on.routed(&["miopenActivationForward"]).into_iter().map(|line| line.rule.as_str()).collect()
}

fn all_right(pair: &Pair) {
    for ran in [&pair.off, &pair.on] {
        let right = ran.finished.stdout.lines().filter(|line| line.ends_with(" 0 right 1")).count();
        assert_eq!(right, MODES, "{}", ran.finished.stdout);
    }
}

#[test]
fn every_mode_that_hipdnn_has_is_served() {
    for arguments in [["plain"], ["strided"]] {
        let pair = Pair::run(&ACTIVATION, &arguments, &[]).unwrap();
        all_right(&pair);
        let declined: Vec<_> = rules(&pair).into_iter().filter(|rule| !rule.is_empty()).collect();
        assert_eq!((rules(&pair).len(), declined), (MODES, vec!["fusion.activation.power"]), "{arguments:?}");
    }
}

#[test]
fn what_a_graph_does_not_say_is_natives() {
    for (arguments, rule) in
        [(["scaled"], "fusion.scaling.alpha"), (["accumulated"], "fusion.scaling.beta"), (["inplace"], "host.aliasing")]
    {
        let pair = Pair::run(&ACTIVATION, &arguments, &[]).unwrap();
        all_right(&pair);
        let seen = rules(&pair);
        assert!(
            seen.len() == MODES && seen.iter().all(|seen| *seen == rule || *seen == "fusion.activation.power"),
            "{arguments:?}: {seen:?}"
        );
    }
}

#[test]
fn null_scalars_are_natives_to_judge() {
    let pair = Pair::run(&ACTIVATION, &["null"], &[]).unwrap();
    assert_eq!(pair.on.finished.stdout, pair.off.finished.stdout);
    assert_eq!(pair.off.finished.stdout.lines().filter(|line| line.ends_with(" 3 right 0")).count(), MODES, "{}", pair.off.finished.stdout);
    assert_eq!(rules(&pair), ["host.scaling.null"; MODES]);
}

#[test]
fn the_family_has_a_switch_of_its_own() {
    let variables = [("MIOPEN_HIPDNN_FORWARDING_ACTIVATION", "0")];
    let ran = run(&ACTIVATION, &["plain"], &variables, true).unwrap();
    assert!(ran.routed(&["miopenActivationForward"]).is_empty());
    assert_eq!(ran.native.iter().filter(|call| *call == "miopenActivationForward").count(), MODES);
}

// A translator of the first version of the contract serves all it ever did, and nobody asks it for what it does not know.
#[test]
fn a_translator_of_the_first_contract_declines_the_family() {
    let translator = Brought::new(&fixture("contract-1.0"));
    let path = translator.path();
    let pair = Pair::run(&ACTIVATION, &["plain"], &[("MIOPEN_HIPDNN_TRANSLATOR", path.to_str().unwrap())]).unwrap();
    all_right(&pair);
    assert_eq!(rules(&pair), ["host.translator.family"; MODES]);
    assert!(pair.on.finished.messages().is_empty(), "{}", pair.on.finished.stderr);
}
