//! Translators that misbehave, each through the whole shim: the program computes what it would without them, and what happened can be seen.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{collections::HashMap, fs, sync::LazyLock};

use integration_tests::{
    Client, Finished, Run,
    components::{Brought, behaviours, hostile},
    text, tool, trace_lines,
};
use serde_json::Value;

static FIND: LazyLock<Client> = LazyLock::new(|| Client::compile("find").unwrap());
static CONVOLUTION: LazyLock<Client> = LazyLock::new(|| Client::compile("convolution").unwrap());
static PROCESS: LazyLock<Client> = LazyLock::new(|| Client::compile("process").unwrap());

/// What each behaviour comes to: the beginning of the rule, or none where the host cannot know better and hipDNN executes; and the duty that
/// `hipdnn-shim check` finds neglected before anybody runs it.
const EXPECTED: &[(&str, Option<&str>, &str)] = &[
    ("infinite_loop", Some("host.translator.trap"), "totality"),
    ("deep_recursion", Some("host.translator.trap"), "totality"),
    ("memory_bomb", Some("host.translator.trap"), "totality"),
    ("huge_reply", Some("host.translator.trap"), "totality"),
    ("trap_on_every_third_call", None, "totality"),
    ("two_answers", None, "repeatable"),
    ("uid_not_bound", Some("host.graph.binding"), "graphs"),
    ("bound_twice", Some("host.graph.binding"), "graphs"),
    ("one_element_too_far", Some("host.graph.extent"), "graphs"),
    ("negative_length", Some("host.graph.tensor"), "graphs"),
    ("no_length", Some("host.graph.tensor"), "graphs"),
    ("immense_length", Some("host.graph.extent"), "graphs"),
    ("overlapping_output", Some("host.graph.overlap"), "graphs"),
    ("cycle", Some("host.graph.order"), "graphs"),
    ("input_is_output", Some("host.graph."), "graphs"),
    ("wrong_type", Some("host.graph.binding"), "graphs"),
    ("unknown_operation", Some("host.graph.operation"), "graphs"),
    ("wrong_attribute", Some("host.graph.attribute"), "graphs"),
    ("million_nodes", Some("host.translator.trap"), "totality"),
    ("no_text", Some("host.translator.trap"), "totality"),
    ("something_else", None, "numbers"),
    ("unlisted_rule", Some("host.translator.reply"), "rules"),
    ("writes_an_input", Some("host.graph."), "graphs"),
    ("argument_that_is_none", Some("host.graph.binding"), "graphs"),
];

fn with(client: &Client, translator: &Brought) -> Run {
    client.run().forwarding().env("MIOPEN_HIPDNN_TRANSLATOR", translator.path())
}

/// What a run with a translator printed, and the rules (or routes) of its calls.
fn traced(client: &Client, translator: &Brought, arguments: &[&str]) -> (Finished, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl");
    let finished = with(client, translator).env("MIOPEN_HIPDNN_TRACE", &trace).output(arguments).unwrap();
    let lines = trace_lines(&trace).unwrap();
    (finished, lines)
}

/// Lines of results, without what the executing library has of its own.
fn results(finished: &Finished) -> Vec<&str> {
    finished.stdout.lines().filter(|line| !["bytes", "perf"].iter().any(|own| line.starts_with(own))).collect()
}

#[test]
fn whatever_a_translator_does_the_program_computes_the_same() {
    let expected: HashMap<&str, Option<&str>> = EXPECTED.iter().map(|&(behaviour, rule, _)| (behaviour, rule)).collect();
    assert_eq!(expected.len(), behaviours().len());
    let off = FIND.run().output(&["nofind"]).unwrap();
    for behaviour in behaviours() {
        let translator = Brought::new(&hostile(&behaviour));
        let (finished, lines) = traced(&FIND, &translator, &["nofind"]);
        assert!(!lines.is_empty(), "{behaviour}");
        let Some(rule) = expected[behaviour.as_str()] else { continue };
        assert_eq!(results(&finished), results(&off), "{behaviour}");
        for line in &lines {
            let (seen, message) = (line["rule"].as_str().unwrap_or_default(), &line["message"]);
            let quarantined = seen == "host.translator.quarantined";
            assert!(seen.starts_with(rule) || quarantined, "{behaviour}: {line}");
            assert!(message.as_str().is_some_and(|message| !message.is_empty() && message.len() < 600), "{behaviour}: {line}");
        }
        assert!(lines.iter().any(|line| line["rule"].as_str().is_some_and(|seen| seen.starts_with(rule))), "{behaviour}");
        // Only that it is not asked any more is said, and once.
        assert!(finished.messages().len() <= 1, "{behaviour}: {}", finished.stderr);
        assert!(finished.stderr.is_empty() || finished.stderr.contains("it is not asked any more"), "{behaviour}: {}", finished.stderr);
    }
}

#[test]
fn the_check_finds_every_one_of_them() {
    let faults = |behaviour: &str| {
        let translator = Brought::new(&hostile(behaviour));
        let output = tool(&["check", "--json", "--random", "60", "--max-mmac", "1", "--translator", text(&translator.path())]);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let report: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
        let duties = report["duties"].as_array().unwrap_or_else(|| panic!("{behaviour}: {report}"));
        let neglected = duties.iter().filter(|duty| duty["faults"] != 0).map(|duty| duty["id"].as_str().unwrap().to_string());
        (output.status.code(), neglected.collect::<Vec<_>>())
    };
    assert_eq!(faults("honest"), (Some(0), vec![]));
    for &(behaviour, _, duty) in EXPECTED {
        let (code, neglected) = faults(behaviour);
        assert!(code == Some(1) && neglected.iter().any(|id| id == duty), "{behaviour}: {code:?}, {neglected:?}");
    }
}

#[test]
fn a_translator_that_keeps_failing_is_not_asked_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let stats = folder.path().join("stats");
    let translator = Brought::new(&hostile("infinite_loop"));
    let run = with(&CONVOLUTION, &translator).env("MIOPEN_HIPDNN_STATS", &stats);
    let finished = run.output(&["different"]).unwrap();
    assert_eq!(finished.messages().len(), 1, "{}", finished.stderr);
    let stats: Value = serde_json::from_str(&fs::read_to_string(&stats).unwrap()).unwrap();
    assert_eq!(stats["translator"]["faults"], 8);
    assert_eq!(stats["translator"]["name"], "hostile");
    let declined = &stats["calls"]["miopenConvolutionForward"]["declined"];
    assert_eq!(declined["host.translator.trap"], 8, "{declined}");
    assert!(declined["host.translator.quarantined"].as_u64().unwrap() > 0, "{declined}");
}

#[test]
fn after_a_trap_there_is_a_fresh_instance() {
    let translator = Brought::new(&hostile("trap_on_every_third_call"));
    let (_, lines) = traced(&CONVOLUTION, &translator, &["different"]);
    let trapped = lines.iter().filter(|line| line["rule"] == "host.translator.trap").count();
    let served = lines.iter().filter(|line| line["route"] == "hipdnn").count();
    // A fresh instance counts its calls anew: two are answered, one traps.
    assert!(trapped >= 2 && served >= 2 * trapped && lines.len() <= served + trapped + 8 * 3, "{trapped} {served} {}", lines.len());
}

#[test]
fn deep_recursion_does_no_harm_on_small_stacks() {
    let translator = Brought::new(&hostile("deep_recursion"));
    for kilobytes in [128, 160, 192, 256, 1024] {
        let finished = with(&PROCESS, &translator).output(&["plain", "stack", &kilobytes.to_string()]).unwrap();
        assert_eq!(finished.line("thread"), "thread 1", "{kilobytes}: {finished:?}");
    }
}

#[test]
fn a_graph_that_computes_something_else_is_seen_by_verification_only() {
    let translator = Brought::new(&hostile("something_else"));
    let off = FIND.run().output(&["nofind"]).unwrap();
    let (finished, lines) = traced(&FIND, &translator, &["nofind"]);
    assert!(lines.iter().all(|line| line["route"] == "hipdnn"), "{lines:?}");
    assert_ne!(results(&finished), results(&off), "the graph computes the same");
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl");
    let run = with(&FIND, &translator).env("MIOPEN_HIPDNN_TRACE", &trace).env("MIOPEN_HIPDNN_VERIFY", "1");
    run.output(&["nofind"]).unwrap();
    let lines = trace_lines(&trace).unwrap();
    assert!(lines.iter().any(|line| line["verified"]["ok"] == false), "{lines:?}");
}

#[test]
fn manifests_that_make_no_sense_are_refused_at_the_start() {
    for (behaviour, says) in [("spinning_manifest", "fuel"), ("endless_manifest", ""), ("unlikely_manifest", "semantic version")] {
        let translator = Brought::new(&hostile(behaviour));
        let (finished, lines) = traced(&CONVOLUTION, &translator, &["plain"]);
        let messages = finished.messages();
        assert_eq!(messages.len(), 1, "{behaviour}: {}", finished.stderr);
        assert!(messages[0].contains("is refused") && messages[0].contains(says), "{messages:?}");
        assert!(messages[0].ends_with("the built-in translator serves"), "{messages:?}");
        assert!(lines.iter().all(|line| line["route"] == "hipdnn"), "{lines:?}");
    }
}
