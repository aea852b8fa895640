//! Random problems in every style of calls, under both engine profiles of the reference hipDNN: routes are as `tests/cases` predicts them, what
//! is forwarded is what the definition says, and everything else is as without forwarding. A problem that fails can be asked for again:
//! `field-cases random --seed SEED --only NUMBER`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::{Command, Output};

use integration_tests::dist;
use serde_json::Value;

/// Of each seed.
const COUNT: usize = 300;
const SEEDS: [u64; 4] = [1, 2, 3, 20_261_129];

fn random(arguments: &[&str]) -> Output {
    let dist = dist();
    let mut command = Command::new(dist.join("bin/field-cases"));
    command.args(["random", "--dist", dist.to_str().unwrap()]).args(arguments);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What was printed of all problems of a profile; nothing may be wrong with any.
fn records(profile: &str) -> Vec<Value> {
    let (count, seeds) = (COUNT.to_string(), SEEDS.map(|seed| seed.to_string()));
    let mut arguments = vec!["--json", "--count", &count, "--profile", profile];
    seeds.iter().for_each(|seed| arguments.extend(["--seed", seed.as_str()]));
    let output = random(&arguments);
    let records: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let wrong: String = records.iter().filter(|record| !record["faults"].as_array().unwrap().is_empty()).map(shown).collect();
    assert!(wrong.is_empty(), "{profile}:\n{wrong}");
    assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
    assert_eq!(records.len(), COUNT * SEEDS.len());
    records
}

/// A problem for people: how to ask for it again, what it is, what is wrong.
fn shown(record: &Value) -> String {
    let problem = record["problem"].as_str().unwrap_or_default();
    format!("--seed {} --only {}\n{problem}  {}\n", record["seed"], record["number"], record["faults"])
}

fn count(records: &[Value], is: impl Fn(&Value) -> bool) -> usize {
    records.iter().filter(|record| is(record)).count()
}

/// A property of nothing would hold: enough was forwarded, enough was declined, by many rules, and what was forwarded was judged.
fn tells_something(records: &[Value], forwarded: usize, rules: usize) {
    let share = |percent: usize| records.len() * percent / 100;
    let served = count(records, |record| record["route"] == "hipdnn");
    assert!(served >= share(forwarded), "{served} of {} are forwarded", records.len());
    assert_eq!(count(records, |record| record["route"] == "hipdnn" && record["judged"] != true), 0);
    let declined = count(records, |record| record["route"] == "native");
    assert!(declined >= share(10), "{declined} of {} are declined", records.len());
    let mut named: Vec<&str> = records.iter().filter_map(|record| record["rule"].as_str()).collect();
    named.sort_unstable();
    named.dedup();
    assert!(named.len() >= rules, "{named:?}");
}

#[test]
fn all_that_the_abi_expresses_is_forwarded_and_nothing_else() {
    tells_something(&records("abi"), 50, 10);
}

#[test]
fn all_that_the_miopen_provider_takes_is_forwarded_and_nothing_else() {
    tells_something(&records("miopen-provider"), 15, 10);
}

#[test]
fn one_problem_can_be_asked_for_again() {
    let output = random(&["--seed", "5", "--only", "7", "--profile", "abi"]);
    let shown = text(&output.stdout);
    assert!(shown.starts_with("field-cases random --seed 5 --only 7 --profile abi\n"), "{shown}");
    assert!(shown.contains("abi: 1 problems"), "{shown}");
}

/// The same seed makes the same problems, and those go the same way.
#[test]
fn runs_repeat_themselves() {
    let arguments = ["--json", "--seed", "9", "--count", "50", "--profile", "abi"];
    assert_eq!(text(&random(&arguments).stdout), text(&random(&arguments).stdout));
}

#[test]
fn a_profile_that_is_not_there_is_an_error() {
    let output = random(&["--count", "1", "--profile", "other"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
}
