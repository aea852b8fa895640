//! `MIOPEN_HIPDNN_VERIFY`: native computes what hipDNN served once more, the operator hears of differences, and the program notices
//! nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{fs, sync::LazyLock};

use integration_tests::{
    Client, Finished,
    pair::{Pair, Ran, run, with_hip},
    reference, trace_lines,
};
use serde_json::Value;

static TYPED: LazyLock<Client> = LazyLock::new(|| Client::compile("verify").unwrap());
static CLASSIC: LazyLock<Client> = LazyLock::new(|| Client::compile("find").unwrap());
static IMMEDIATE: LazyLock<Client> = LazyLock::new(|| Client::compile("immediate").unwrap());
static FIND2: LazyLock<Client> = LazyLock::new(|| Client::compile("find2").unwrap());
static FUSION: LazyLock<Client> = LazyLock::new(|| Client::compile("fusion").unwrap());

const VERIFY: (&str, &str) = ("MIOPEN_HIPDNN_VERIFY", "1");
/// The first element that hipDNN writes is wrong.
const WRONG: (&str, &str) = ("REFERENCE_HIPDNN_WRONG", "1");
/// Native executes only what its own Find listed.
const STRICT_FIND: (&str, &str) = ("REFERENCE_MIOPEN_STRICT_FIND", "1");

/// Every way of executing a convolution: the client, what it is asked, whether native needs a Find first, and how many results it shows.
fn styles() -> [(&'static Client, &'static [&'static str], bool, usize); 7] {
    [
        (&CLASSIC, &["nofind"], false, 9),
        (&CLASSIC, &["plain"], true, 18),
        (&CLASSIC, &["noworkspace,request4"], true, 18),
        (&IMMEDIATE, &["all"], false, 18),
        (&FIND2, &["plain"], false, 36),
        (&FUSION, &["plan", "bias+relu", "v2"], false, 12),
        (&FUSION, &["call"], false, 39),
    ]
}

/// The functions that execute: neither queries nor Find.
const EXECUTING: &[&str] = &[
    "miopenConvolutionForward",
    "miopenConvolutionBackwardData",
    "miopenConvolutionBackwardWeights",
    "miopenConvolutionForwardImmediate",
    "miopenConvolutionBackwardDataImmediate",
    "miopenConvolutionBackwardWeightsImmediate",
    "miopenRunSolution",
    "miopenExecuteFusionPlan",
    "miopenExecuteFusionPlan_v2",
    "miopenConvolutionBiasActivationForward",
];

/// What the trace says of executing calls that hipDNN served.
fn executed(ran: &Ran) -> Vec<&Value> {
    ran.routed(EXECUTING).into_iter().filter(|line| line.route == "hipdnn").map(|line| &line.verified).collect()
}

/// The counters of all entry points together.
fn counted(stats: &str) -> (u64, u64) {
    let stats: Value = serde_json::from_str(&fs::read_to_string(stats).unwrap()).unwrap();
    let sum = |name: &str| stats["calls"].as_object().unwrap().values().map(|counters| counters[name].as_u64().unwrap()).sum();
    (sum("verified"), sum("mismatched"))
}

#[test]
fn right_results_are_verified_in_every_style_and_nothing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let stats = folder.path().join("stats").to_str().unwrap().to_string();
    for (client, arguments, strict, least) in styles() {
        let mut variables = vec![VERIFY, ("MIOPEN_HIPDNN_STATS", stats.as_str())];
        variables.extend(strict.then_some(STRICT_FIND));
        let pair = Pair::run(client, arguments, &variables).unwrap();
        pair.same(pair.off.lines("right").len());
        let verified = executed(&pair.on);
        assert!(verified.len() * 2 >= least, "{arguments:?}: {} executions", verified.len());
        for verdict in &verified {
            assert!(verdict["ok"] == true && verdict["error"].as_f64() <= verdict["tolerance"].as_f64(), "{arguments:?}: {verdict}");
        }
        assert_eq!(counted(&stats), (verified.len() as u64, 0), "{arguments:?}");
        assert_eq!(pair.on.finished.messages(), Vec::<&str>::new(), "{arguments:?}");
    }
}

#[test]
fn wrong_results_are_said_and_counted_in_every_style_and_stay_hipdnns() {
    let folder = tempfile::tempdir().unwrap();
    let stats = folder.path().join("stats").to_str().unwrap().to_string();
    for (client, arguments, strict, _) in styles() {
        let mut variables = vec![WRONG];
        variables.extend(strict.then_some(STRICT_FIND));
        let unverified = run(client, arguments, &variables, true).unwrap();
        variables.extend([VERIFY, ("MIOPEN_HIPDNN_STATS", stats.as_str())]);
        let ran = run(client, arguments, &variables, true).unwrap();
        let verified = executed(&ran);
        assert!(!verified.is_empty() && verified.iter().all(|verdict| verdict["ok"] == false), "{arguments:?}: {verified:?}");
        assert_eq!(counted(&stats), (verified.len() as u64, verified.len() as u64), "{arguments:?}");
        let messages = ran.finished.messages();
        assert_eq!(messages.len(), verified.len(), "{arguments:?}: {messages:?}");
        assert!(messages.iter().all(|line| line.contains(" verify miopen") && line.contains("element [0, 0, 0, 0]")), "{messages:?}");
        for word in ["status", "y", "right"] {
            assert_eq!(ran.lines(word), unverified.lines(word), "{arguments:?}");
        }
    }
}

/// A run of the typed client: what it printed, and what the trace says of its two calls.
fn typed(what: &str, variables: &[(&str, &str)]) -> (Finished, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl");
    let run = TYPED.run().forwarding().env(VERIFY.0, VERIFY.1).env("MIOPEN_HIPDNN_TRACE", &trace);
    let finished = variables.iter().fold(run, |run, (name, value)| run.env(name, value)).output(&[what]).unwrap();
    let lines = trace_lines(&trace).unwrap();
    assert!(lines.len() == 2 && lines.iter().all(|line| line["route"] == "hipdnn"), "{what}: {lines:?}");
    (finished, lines.into_iter().map(|line| line["verified"].clone()).collect())
}

const TYPES: [&str; 4] = ["float", "half", "bfloat16", "int8"];
const SUCCESS: &str = "status 0 (miopenStatusSuccess), forwarded error 0";

#[test]
fn every_type_with_gaps_and_old_contents_is_compared() {
    for type_name in TYPES {
        for with in ["", ",gaps", ",beta", ",gaps,beta"] {
            let what = format!("{type_name}{with}");
            if what.starts_with("int8") && what.contains("beta") {
                // Declined: integers are not scaled.
                continue;
            }
            let (finished, verdicts) = typed(&what, &[]);
            for (name, verdict) in ["first", "second"].iter().zip(&verdicts) {
                assert_eq!(finished.line(name), format!("{name} {SUCCESS}, wrong 0, touched 0"), "{what}");
                assert!(verdict["ok"] == true && verdict["error"] == 0.0, "{what}: {verdict}");
            }
            assert_eq!(verdicts[0]["tolerance"] == 0.0, type_name == "int8", "{what}");
            assert_eq!(finished.messages(), Vec::<&str>::new(), "{what}");
            let (finished, verdicts) = typed(&what, &[WRONG]);
            assert!(verdicts.iter().all(|verdict| verdict["ok"] == false), "{what}: {verdicts:?}");
            assert_eq!(finished.messages().len(), 2, "{what}: {:?}", finished.messages());
            assert_eq!(finished.line("second"), format!("second {SUCCESS}, wrong 1, touched 0"), "{what}");
        }
    }
}

#[test]
fn a_captured_call_is_not_verified_and_its_capture_goes_on() {
    let (finished, verdicts) = typed("float,captured", &[("LD_LIBRARY_PATH", &with_hip())]);
    assert!(verdicts[0]["ok"] == true, "{verdicts:?}");
    assert!(verdicts[1]["skipped"].as_str().is_some_and(|why| why.contains("captured")), "{verdicts:?}");
    assert_eq!(finished.line("nothing"), "nothing ran yet 1");
    assert_eq!(finished.line("second"), format!("second {SUCCESS}, wrong 0, touched 0"));
}

/// Without a Find the strict native refuses: there is nothing to compare, and the program does not learn of it.
#[test]
fn what_native_refuses_is_not_verified() {
    let (finished, verdicts) = typed("float", &[STRICT_FIND]);
    for (name, verdict) in ["first", "second"].iter().zip(&verdicts) {
        assert!(verdict["skipped"].as_str().is_some_and(|why| why.contains("native answered status")), "{verdict}");
        assert_eq!(finished.line(name), format!("{name} {SUCCESS}, wrong 0, touched 0"));
    }
    assert_eq!(finished.messages(), Vec::<&str>::new());
}

#[test]
fn what_hipdnn_does_not_serve_is_not_verified() {
    let declined = Pair::run(&CLASSIC, &["shared"], &[VERIFY, STRICT_FIND]).unwrap();
    declined.same(18);
    assert!(declined.on.routed(&["miopenConvolutionForward"]).iter().all(|line| line.verified.is_null()));
    let failed = run(&CLASSIC, &["nofind"], &[VERIFY, ("REFERENCE_HIPDNN_FAULT", "hipdnnBackendExecute=13")], true).unwrap();
    assert!(failed.lines("status").iter().all(|line| *line == "status 5, forwarded error 13"));
    assert_eq!(failed.natives(&["miopenConvolutionForward"]), 0);
}

/// What is the program's, native only reads.
#[test]
fn native_is_given_other_memory_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("native");
    let (finished, _) = typed("float", &[("REFERENCE_MIOPEN_LOG", log.to_str().unwrap())]);
    let log = fs::read_to_string(log).unwrap();
    let calls: Vec<&str> = log.lines().filter(|line| line.starts_with("miopenConvolutionForward ")).collect();
    assert_eq!(calls.len(), 2);
    let address = |line: &str, name: &str| {
        line.split(' ').find_map(|word| word.strip_prefix(&format!("{name}=0x"))).map(|digits| u64::from_str_radix(digits, 16).unwrap())
    };
    for call in calls {
        for (name, is_the_programs) in [("x", true), ("w", true), ("y", false), ("workSpace", false)] {
            let (programs, given) = (address(finished.line("memory"), name), address(call, name));
            assert!(programs.is_some() && given.is_some_and(|given| given != 0), "{name}: {call}");
            assert_eq!(programs == given, is_the_programs, "{name}: {call}");
        }
    }
}

#[test]
fn without_memory_for_another_result_there_is_no_verifying() {
    let stingy = Client::compile_library("stingy").unwrap();
    let (file, hip) = (stingy.file(), reference("libamdhip64.so.7"));
    let variables = [("MIOPEN_HIPDNN_HIP_LIBRARY", file.to_str().unwrap()), ("STINGY_HIP", hip.to_str().unwrap())];
    let (finished, verdicts) = typed("float", &variables);
    for (name, verdict) in ["first", "second"].iter().zip(&verdicts) {
        assert!(verdict["skipped"].as_str().is_some_and(|why| why.contains("native's result: HIP error 2")), "{verdict}");
        assert_eq!(finished.line(name), format!("{name} {SUCCESS}, wrong 0, touched 0"));
    }
}

#[test]
fn unless_it_is_asked_for_native_is_not_called() {
    for variables in [&[][..], &[("MIOPEN_HIPDNN_VERIFY", "off")]] {
        let ran = run(&CLASSIC, &["nofind"], variables, true).unwrap();
        assert_eq!(ran.natives(&["miopenConvolutionForward"]), 0);
        assert!(executed(&ran).iter().all(|verdict| verdict.is_null()));
    }
}
