//! A fault injected at each call that the host makes of hipDNN, with each kind of failure, under each policy, in a process that knows
//! nothing and in one whose disk cache knows all: what the caller gets, where the call went, what is counted. One table says what a call
//! is needed for; what follows from that is the failure policy, written down once in `expected`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use integration_tests::{Client, Finished, trace_lines};
use serde_json::Value;

static CONVOLUTION: LazyLock<Client> = LazyLock::new(|| Client::compile("convolution").unwrap());

const CALL: &str = "miopenConvolutionForward";
/// How often the client calls it.
const CALLS: u64 = 3;

/// What a call of hipDNN is needed for, where it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// For nothing, or there is another way.
    Nothing,
    /// To use hipDNN at all.
    Handle,
    /// To learn that hipDNN has the operation.
    Capability,
    /// To build a plan.
    Plan,
    /// To execute: once for each call.
    Execution,
}
use Need::{Capability, Execution, Handle, Nothing, Plan};

/// A call, and what it is needed for: without a cache; with one that has plans as bytes; with one that only has their engines.
struct Row {
    call: &'static str,
    cold: Need,
    bytes: Need,
    engine: Need,
}

const fn row(call: &'static str, cold: Need, bytes: Need, engine: Need) -> Row {
    Row { call, cold, bytes, engine }
}

const TABLE: &[Row] = &[
    row("hipdnnCreate", Handle, Handle, Handle),
    row("hipdnnDestroy", Nothing, Nothing, Nothing),
    row("hipdnnVersionString_ext", Nothing, Nothing, Nothing),
    row("hipdnnGetLastErrorString", Nothing, Nothing, Nothing),
    row("hipdnnBackendDestroyDescriptor", Nothing, Nothing, Nothing),
    // Who cannot say which engines it has shares no plans with other processes.
    row("hipdnnGetEngineCount_ext", Nothing, Nothing, Nothing),
    row("hipdnnGetEngineInfo_ext", Nothing, Nothing, Nothing),
    row("hipdnnGetLoadedEnginePluginPaths_ext", Nothing, Nothing, Nothing),
    row("hipdnnGetEngineNameById_ext", Nothing, Nothing, Nothing),
    row("hipdnnBackendGetSerializedExecutionPlan_ext", Nothing, Nothing, Nothing),
    row("hipdnnBackendCreateAndDeserializeExecutionPlan_ext", Nothing, Nothing, Nothing),
    row("hipdnnBackendCreateDescriptor@OPERATION_CONVOLUTION_FORWARD", Capability, Capability, Capability),
    // The first one is made to see whether it can be.
    row("hipdnnBackendCreateDescriptor@OPERATION_CONVOLUTION_FORWARD:2", Plan, Nothing, Plan),
    // What a tensor can be decides which types there are: the translator is asked anew, and comes to a graph whose plan is known.
    row("hipdnnBackendCreateDescriptor@TENSOR", Plan, Nothing, Plan),
    row("hipdnnBackendSetAttribute@TENSOR", Plan, Nothing, Plan),
    row("hipdnnBackendFinalize@TENSOR", Plan, Nothing, Plan),
    row("hipdnnBackendSetAttribute@OPERATION_CONVOLUTION_FORWARD", Plan, Nothing, Plan),
    row("hipdnnBackendFinalize@OPERATION_CONVOLUTION_FORWARD", Plan, Nothing, Plan),
    row("hipdnnBackendCreateDescriptor@OPERATIONGRAPH", Plan, Nothing, Plan),
    row("hipdnnBackendSetAttribute@OPERATIONGRAPH", Plan, Nothing, Plan),
    row("hipdnnBackendFinalize@OPERATIONGRAPH", Plan, Nothing, Plan),
    row("hipdnnBackendCreateDescriptor@ENGINEHEUR", Plan, Nothing, Nothing),
    row("hipdnnBackendSetAttribute@ENGINEHEUR", Plan, Nothing, Nothing),
    row("hipdnnBackendFinalize@ENGINEHEUR", Plan, Nothing, Nothing),
    row("hipdnnBackendGetAttribute@ENGINEHEUR", Plan, Nothing, Nothing),
    // An engine that cannot be named can still be asked for.
    row("hipdnnBackendCreateDescriptor@ENGINE", Nothing, Nothing, Nothing),
    row("hipdnnBackendSetAttribute@ENGINE", Nothing, Nothing, Nothing),
    row("hipdnnBackendFinalize@ENGINE", Nothing, Nothing, Nothing),
    row("hipdnnBackendGetAttribute@ENGINE", Plan, Nothing, Nothing),
    row("hipdnnBackendCreateDescriptor@ENGINECFG", Plan, Nothing, Plan),
    // The heuristic's come with all that they need.
    row("hipdnnBackendSetAttribute@ENGINECFG", Nothing, Nothing, Nothing),
    row("hipdnnBackendFinalize@ENGINECFG", Plan, Nothing, Plan),
    row("hipdnnBackendGetAttribute@ENGINECFG", Plan, Nothing, Nothing),
    row("hipdnnBackendCreateDescriptor@EXECUTION_PLAN", Plan, Nothing, Plan),
    row("hipdnnBackendSetAttribute@EXECUTION_PLAN", Plan, Nothing, Plan),
    row("hipdnnBackendFinalize@EXECUTION_PLAN", Plan, Nothing, Plan),
    row("hipdnnBackendGetAttribute@EXECUTION_PLAN", Plan, Plan, Plan),
    row("hipdnnBackendCreateDescriptor@VARIANT_PACK", Execution, Execution, Execution),
    row("hipdnnBackendSetAttribute@VARIANT_PACK", Execution, Execution, Execution),
    row("hipdnnBackendFinalize@VARIANT_PACK", Execution, Execution, Execution),
    row("hipdnnSetStream", Execution, Execution, Execution),
    row("hipdnnBackendExecute", Execution, Execution, Execution),
];

/// A failure: hipDNN's status, and what MIOpen calls it.
struct Failure {
    hipdnn: i32,
    miopen: i32,
    name: &'static str,
}

const NOT_SUPPORTED: i32 = 8;
const UNSUPPORTED_OP: (i32, &str) = (8, "miopenStatusUnsupportedOp");
const FAILURES: [Failure; 3] = [
    Failure { hipdnn: NOT_SUPPORTED, miopen: UNSUPPORTED_OP.0, name: UNSUPPORTED_OP.1 },
    Failure { hipdnn: 2, miopen: 3, name: "miopenStatusBadParm" },
    Failure { hipdnn: 9, miopen: 5, name: "miopenStatusInternalError" },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Default,
    Fallback,
    Strict,
    Verify,
}

const POLICIES: [(Policy, Option<(&str, &str)>); 4] = [
    (Policy::Default, None),
    (Policy::Fallback, Some(("MIOPEN_HIPDNN_ON_ERROR", "fallback"))),
    (Policy::Strict, Some(("MIOPEN_HIPDNN_STRICT", "1"))),
    (Policy::Verify, Some(("MIOPEN_HIPDNN_VERIFY", "1"))),
];

/// What becomes of every call.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Status with its text, and hipDNN's own.
    status: String,
    route: String,
    /// Rule of a decline.
    rule: String,
    /// Whether native executed.
    native: bool,
    /// Whether the numbers are right.
    right: bool,
    served: u64,
    declined: u64,
    failed: u64,
    verified: u64,
    mismatched: u64,
    /// Lines on stderr.
    lines: usize,
}

fn ending(status: i32, text: &str, hipdnn: i32) -> String {
    format!("status {status} ({text}), forwarded error {hipdnn}")
}

/// The failure policy.
fn expected(need: Need, failure: &Failure, policy: Policy) -> Outcome {
    let success = || ending(0, "miopenStatusSuccess", 0);
    let none = || Outcome {
        status: success(),
        route: "hipdnn".into(),
        rule: String::new(),
        native: false,
        right: true,
        served: 0,
        declined: 0,
        failed: 0,
        verified: 0,
        mismatched: 0,
        lines: 0,
    };
    let declined = |rule: &str, lines: usize| {
        let declined = Outcome { route: "native".into(), rule: rule.into(), declined: CALLS, lines, native: true, ..none() };
        if policy != Policy::Strict {
            return declined;
        }
        Outcome { status: ending(UNSUPPORTED_OP.0, UNSUPPORTED_OP.1, 0), native: false, right: false, ..declined }
    };
    let failed = || {
        let status = ending(failure.miopen, &format!("[hipDNN-forwarded] {}", failure.name), failure.hipdnn);
        Outcome { status, route: "failed".into(), right: false, failed: CALLS, ..none() }
    };
    match need {
        Nothing if policy == Policy::Verify => Outcome { served: CALLS, verified: CALLS, native: true, ..none() },
        Nothing => Outcome { served: CALLS, ..none() },
        Handle => declined("host.backend.unavailable", 1),
        Capability => declined("conv.backend.operation", 0),
        Plan if failure.hipdnn == NOT_SUPPORTED => declined("host.backend.unsupported", 0),
        Plan if policy == Policy::Fallback => declined("host.backend.build-failed", 0),
        Plan | Execution => failed(),
    }
}

/// A folder for one process's files.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Runs the client, with a disk cache if there is one.
    fn run(&self, cache: Option<&Path>, profile: &str, variables: &[(&str, &str)]) -> Finished {
        let run = CONVOLUTION.run().forwarding().env("REFERENCE_HIPDNN_PROFILE", profile);
        let run = run.env("REFERENCE_MIOPEN_LOG", self.file("native")).env("MIOPEN_HIPDNN_TRACE", self.file("trace.jsonl"));
        let run = run.env("MIOPEN_HIPDNN_STATS", self.file("stats"));
        let run = match cache {
            Some(folder) => run.env("MIOPEN_HIPDNN_CACHE", "rw").env("MIOPEN_HIPDNN_CACHE_DIR", folder),
            None => run,
        };
        variables.iter().fold(run, |run, (name, value)| run.env(name, value)).output(&["plain"]).unwrap()
    }

    /// What became of the calls of a run here. All went one way.
    fn outcome(&self, finished: &Finished) -> Outcome {
        let lines = trace_lines(&self.file("trace.jsonl")).unwrap();
        let of = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_string();
        // A failed call's error is asked for, which is a line of its own.
        let ways: Vec<_> = lines.iter().filter(|line| line["call"] == CALL).map(|line| (of(line, "route"), of(line, "rule"))).collect();
        assert!(ways.len() as u64 == CALLS && ways.iter().all(|way| *way == ways[0]), "{ways:?}");
        let stats: Value = serde_json::from_str(&self.text("stats")).unwrap();
        let counters = &stats["calls"][CALL];
        let count = |name: &str| counters[name].as_u64().unwrap();
        let (route, rule) = ways[0].clone();
        Outcome {
            status: finished.line("status").to_string(),
            declined: counters["declined"][&rule].as_u64().unwrap_or(0),
            route,
            rule,
            native: self.text("native").lines().any(|line| line.starts_with(&format!("{CALL} "))),
            right: finished.line("right") == "right 1",
            served: count("served"),
            failed: count("failed"),
            verified: count("verified"),
            mismatched: count("mismatched"),
            lines: finished.messages().len(),
        }
    }
}

/// Tries the whole table, in processes as `prepare` makes them: with a cache or without one.
fn try_all(profile: &str, need: impl Fn(&Row) -> Need, cache: impl Fn(&Place) -> Option<PathBuf>) {
    let mut wrong = Vec::new();
    for row in TABLE {
        for failure in &FAILURES {
            for (policy, variable) in POLICIES {
                let place = Place::new();
                let fault = format!("{}={}", row.call, failure.hipdnn);
                let variables: Vec<_> = [("REFERENCE_HIPDNN_FAULT", fault.as_str())].into_iter().chain(variable).collect();
                let finished = place.run(cache(&place).as_deref(), profile, &variables);
                let (expected, got) = (expected(need(row), failure, policy), place.outcome(&finished));
                if got != expected {
                    wrong.push(format!("{fault}, {policy:?}: {got:?}\n  expected {expected:?}"));
                }
                // Whatever happened, it is over with the next call of another function.
                assert_eq!(finished.line("another error"), "another error: 3 (miopenStatusBadParm)", "{fault}");
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), TABLE.len() * FAILURES.len() * POLICIES.len(), wrong.join("\n"));
}

#[test]
fn every_fault_in_a_process_that_knows_nothing() {
    try_all("abi", |row| row.cold, |_| None);
}

/// Copies what another process has learnt, so that each begins with the same.
fn warm(profile: &str) -> impl Fn(&Place) -> Option<PathBuf> + use<> {
    let learnt = Place::new();
    let finished = learnt.run(Some(&learnt.file("cache")), profile, &[]);
    assert_eq!(finished.line("right"), "right 1");
    move |place| {
        let cache = place.file("cache");
        let copied = std::process::Command::new("cp").arg("-a").arg(learnt.file("cache")).arg(&cache).status().unwrap();
        assert!(copied.success());
        Some(cache)
    }
}

#[test]
fn every_fault_in_a_process_with_plans_on_disk() {
    try_all("abi", |row| row.bytes, warm("abi"));
}

#[test]
fn every_fault_in_a_process_with_engines_on_disk() {
    try_all("miopen-provider", |row| row.engine, warm("miopen-provider"));
}

/// A row that names no call would test nothing: without faults every one of them is made.
#[test]
fn every_call_of_the_table_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = String::new();
    for profile in ["abi", "miopen-provider"] {
        for process in 0..2 {
            let (place, log) = (Place::new(), folder.path().join(format!("{profile}{process}")));
            place.run(Some(&folder.path().join(profile)), profile, &[("REFERENCE_HIPDNN_LOG", log.to_str().unwrap())]);
            made.push_str(&fs::read_to_string(log).unwrap());
        }
    }
    // A failure, for its text.
    let (place, log) = (Place::new(), folder.path().join("failure"));
    place.run(None, "abi", &[("REFERENCE_HIPDNN_LOG", log.to_str().unwrap()), ("REFERENCE_HIPDNN_FAULT", "hipdnnBackendExecute=9")]);
    made.push_str(&fs::read_to_string(log).unwrap());
    for row in TABLE {
        let call = row.call.split(':').next().unwrap();
        let logged = call.split_once('@').map_or_else(|| call.to_string(), |(function, kind)| format!("{function}({kind})"));
        assert!(
            made.lines().any(|line| line.starts_with(&format!("{logged}(")) || line.starts_with(&format!("{logged} "))),
            "{call}: {made}"
        );
    }
    // And no other is: what the host calls is in the table.
    for line in made.lines() {
        let call = line.split([' ', '=']).next().unwrap();
        let known = TABLE.iter().any(|row| {
            let row = row.call.split(':').next().unwrap();
            let (function, kind) = row.split_once('@').map_or((row, None), |(function, kind)| (function, Some(kind)));
            kind.map_or_else(|| call.split('(').next() == Some(function), |kind| call == format!("{function}({kind})"))
        });
        let is_probe = call.starts_with("hipdnnBackendCreateDescriptor(OPERATION");
        assert!(known || is_probe, "{line}");
    }
}
