//! The cases from the field, in a process of their own, with the shim in front of the reference MIOpen: all there, all passed, with
//! forwarding off and on, under both engine profiles of the reference hipDNN; and runs agree.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    collections::BTreeSet,
    path::PathBuf,
    process::{Command, Output},
};

use integration_tests::{dist, reference, trace_lines};
use serde_json::Value;

/// The cases of layouts (V01 to V18), numerics (V19 to V29) and streams (V30 to V39) that must be there.
const NUMBERS: [&str; 31] = [
    "V01", "V02", "V03", "V04", "V06", "V07", "V08", "V09", "V10", "V11", "V14", "V15", "V17", "V18", "V19", "V20", "V22", "V23", "V24",
    "V26", "V27", "V28", "V29", "V30", "V32", "V33", "V34", "V35", "V36", "V37", "V39",
];

/// The ways of asking, kinds of tensors, gaps and reasons that the parity surface has.
const SURFACE: [&str; 32] = [
    "P01", "P02", "P03", "P04", "P05", "P06", "P07", "P08", "P10", "P11", "P12", "P13", "P14", "P15", "P16", "P17", "P18", "P19", "P20",
    "P21", "P22", "P23", "P30", "P31", "P32", "P33", "P34", "P35", "P36", "P37", "P38", "P39",
];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(dist().join("bin/field-cases"));
    let ours = |name: &str| name.contains("MIOPEN") || name.starts_with("REFERENCE_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| ours(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command.args(arguments).env("LD_LIBRARY_PATH", dist().join("lib"));
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The records that a program printed, one for each line.
fn records(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn numbers(records: &[Value]) -> BTreeSet<String> {
    records.iter().map(|record| record["case"].as_str().unwrap().to_string()).collect()
}

#[test]
fn every_case_is_listed() {
    let output = command(&["list", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = numbers(&records(&output));
    let missing: Vec<_> = NUMBERS.iter().chain(&SURFACE).filter(|number| !found.contains(**number)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Runs all cases; every one must have passed.
fn all_pass(forwarding: bool, profile: &str) -> Vec<Value> {
    all_pass_with(forwarding, profile, &[])
}

/// The same with more variables.
fn all_pass_with(forwarding: bool, profile: &str, variables: &[(&str, &str)]) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl");
    let mut command = command(&["run"]);
    command
        .env("MIOPEN_HIPDNN_NATIVE_LIBRARY", reference("libMIOpen_private.so.1"))
        .env("MIOPEN_HIPDNN_BACKEND_LIBRARY", reference("libhipdnn_backend.so"))
        .env("MIOPEN_HIPDNN_HIP_LIBRARY", reference("libamdhip64.so.7"))
        .env("MIOPEN_HIPDNN_FORWARDING", if forwarding { "1" } else { "0" })
        .env("MIOPEN_HIPDNN_TRACE", &trace)
        .env("REFERENCE_HIPDNN_PROFILE", profile)
        .envs(variables.iter().copied());
    let output = command.output().unwrap();
    let records = records(&output);
    let failed: Vec<_> = records.iter().filter(|record| record["outcome"] != "passed").collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
    let found = numbers(&records);
    let missing: Vec<_> = NUMBERS.iter().chain(&SURFACE).filter(|number| !found.contains(**number)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let routed = trace.exists() && !trace_lines(&trace).unwrap().is_empty();
    assert_eq!(routed, forwarding, "what the trace has is not what forwarding is set to");
    records
}

/// How many cases had a call that hipDNN served.
fn served(records: &[Value]) -> usize {
    let hipdnn = |record: &&Value| record["routes"].as_object().unwrap().keys().any(|route| route.ends_with(" hipdnn"));
    records.iter().filter(hipdnn).count()
}

#[test]
fn off_all_cases_pass() {
    for profile in ["abi", "miopen-provider"] {
        assert_eq!(served(&all_pass(false, profile)), 0);
    }
}

/// As on a GPU: the reference MIOpen is told that the CPU does not reach the tensors, and computes on copies.
#[test]
fn off_all_cases_pass_with_tensors_out_of_reach() {
    assert_eq!(served(&all_pass_with(false, "abi", &[("REFERENCE_HIP_MEMORY", "device")])), 0);
}

#[test]
fn a_device_is_named_or_missed_in_one_line() {
    let device =
        |hip: PathBuf| command(&["device"]).env("MIOPEN_HIPDNN_HIP_LIBRARY", hip).env("HIP_ON_CUDA_RUNTIME", "/no/such").output().unwrap();
    let there = device(reference("libamdhip64.so.7"));
    assert!(there.status.success() && text(&there.stdout).contains("Reference device"), "{there:?}");
    let missing = device(dist().join("lib/cuda/libamdhip64.so.7"));
    assert_eq!(missing.status.code(), Some(3), "{missing:?}");
    assert!(text(&missing.stderr).contains("/no/such"), "{missing:?}");
}

#[test]
fn on_all_cases_pass_with_everything_that_the_abi_expresses() {
    assert!(served(&all_pass(true, "abi")) > 30);
}

#[test]
fn on_all_cases_pass_with_the_limits_of_the_miopen_provider() {
    assert!(served(&all_pass(true, "miopen-provider")) > 20);
}

#[test]
fn runs_off_on_and_strict_agree_but_for_what_is_known() {
    let reports = tempfile::tempdir().unwrap();
    let (dist, reports) = (dist(), reports.path());
    let arguments = ["parity", "--dist", dist.to_str().unwrap(), "--reports", reports.to_str().unwrap()];
    let output = command(&arguments).output().unwrap();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn a_layout_without_its_libraries_is_an_error() {
    let empty = tempfile::tempdir().unwrap();
    let output = command(&["parity", "--dist", empty.path().to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("is missing"), "{}", text(&output.stderr));
}
