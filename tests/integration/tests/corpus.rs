//! A corpus through the tool: what the summary counts, and that anything wrong makes it fail. The whole corpus is `cargo xtask corpus`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    path::Path,
    process::{Command, Output},
};

use integration_tests::{dist, reference};
use serde_json::Value;

/// Lines of few multiplications: seconds, not minutes.
const SMALL: &str = "0.003";

fn drive(arguments: &[&str], fault: &str) -> Output {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/driver.jsonl");
    Command::new(dist().join("bin/hipdnn-shim"))
        .args(["drive", "--json", "--max-gmac", SMALL, "--corpus"])
        .arg(corpus)
        .args(arguments)
        .env("REFERENCE_HIPDNN_FAULT", fault)
        .output()
        .unwrap()
}

/// The summaries, and how many records there were.
fn read(output: &Output) -> (Vec<Value>, usize) {
    let lines: Vec<Value> = String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summaries, records): (Vec<Value>, Vec<Value>) = lines.into_iter().partition(|line| !line["total"].is_null());
    assert!(records[0]["selected"].as_u64().unwrap() > 0, "{}", records[0]);
    (summaries, records.len() - 1)
}

#[test]
fn every_small_line_is_right_under_both_profiles() {
    let output = drive(&[], "");
    let (summaries, records) = read(&output);
    assert!(output.status.success(), "{:?}", summaries.iter().map(|s| &s["failures"]).collect::<Vec<_>>());
    assert_eq!(summaries.iter().map(|s| s["profile"].as_str().unwrap()).collect::<Vec<_>>(), ["abi", "miopen-provider"]);
    for summary in &summaries {
        let count = |name: &str| summary["total"][name].as_u64().unwrap();
        assert!(count("lines") >= 30, "{summary}");
        assert_eq!((count("verified"), count("failed")), (count("lines"), 0), "{summary}");
        assert_eq!(count("forwarded") + count("declined"), count("lines"), "{summary}");
        assert_eq!(records, 2 * count("lines") as usize);
    }
    // The ABI has no vectors of channels (no line this small has them); all else it can express.
    assert!(summaries[0]["rules"].as_object().unwrap().keys().all(|rule| rule == "tensor.layout.vectorized"), "{}", summaries[0]);
}

#[test]
fn a_backend_that_fails_makes_the_corpus_fail() {
    let output = drive(&["--profile", "abi"], "hipdnnBackendExecute=13");
    let (summaries, _) = read(&output);
    assert_eq!(output.status.code(), Some(1));
    let count = |name: &str| summaries[0]["total"][name].as_u64().unwrap();
    assert_eq!(count("failed"), count("lines") - count("declined"), "{}", summaries[0]);
}

#[test]
fn a_process_that_ends_costs_its_lines_only() {
    // No MIOpen at all: no worker can start.
    let backend = reference("libamdhip64.so.7");
    let output = drive(&["--profile", "abi", "--shim", backend.to_str().unwrap()], "");
    let (summaries, records) = read(&output);
    assert_eq!(output.status.code(), Some(1));
    let count = |name: &str| summaries[0]["total"][name].as_u64().unwrap();
    assert_eq!((count("failed"), records as u64), (count("lines"), count("lines")));
    let failure = summaries[0]["failures"][0].as_str().unwrap();
    assert!(failure.contains("the process that drove it ended") && failure.contains("no miopen"), "{failure}");
}

#[test]
fn a_hipdnn_that_is_not_there_is_a_failure() {
    let output = drive(&["--profile", "abi", "--backend", "/nonexistent/libhipdnn_backend.so"], "");
    let (summaries, _) = read(&output);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(summaries[0]["total"]["failed"], summaries[0]["total"]["lines"]);
    assert!(summaries[0]["failures"][0].as_str().unwrap().contains("host.backend.unavailable"), "{}", summaries[0]);
}
