//! Every call of a program is seen, once and in order: what the program calls, what native is entered by and what the shim traces, all written
//! into one list as it happens. With tracing off nothing is traced; with forwarding off everything is native's, one entry for each call.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{fs, path::PathBuf, sync::LazyLock};

use integration_tests::{Client, text};
use library_gates::{
    order::{self, Call, Line, Native},
    witness,
};
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
static WITNESS: LazyLock<PathBuf> = LazyLock::new(|| witness::build(FOLDER.path()).unwrap());

/// Programs, with what they shall do: every style of calls, forwarded, declined and refused ones.
const RUNS: &[(&str, &[&[&str]])] = &[
    ("convolution", &[&["plain"], &["deterministic"], &["odd"], &["time"]]),
    ("find", &[&["plain"], &["request4"], &["deterministic"], &["nofind"], &["misaligned"]]),
    ("immediate", &[&["all"], &["deterministic"], &["max1"]]),
    ("find2", &[&["plain"], &["many"], &["missing"]]),
    ("fusion", &[&["plan", "bias+relu"], &["plan", "bias+relu", "v2"]]),
];

/// What a run is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    Off,
    /// Forwarding, without a trace.
    Untraced,
    Traced,
}

/// Runs a program before the witness; answers its calls.
fn calls(client: &Client, arguments: &[&str], setting: Setting) -> Vec<Call> {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list.jsonl");
    let run = client.run().env("LD_PRELOAD", &*WITNESS).env(witness::LOG, &list).env("REFERENCE_MIOPEN_LOG", &list);
    let run = if setting == Setting::Traced { run.env("MIOPEN_HIPDNN_TRACE", &list) } else { run };
    if setting == Setting::Off { run } else { run.forwarding() }.output(arguments).unwrap();
    let first_word = |line: &str| line.split(' ').next().map(str::to_string);
    let lines = fs::read_to_string(&list).unwrap();
    let lines: Vec<Line> = lines.lines().filter_map(|line| order::read(line, &client.file(), first_word)).collect();
    order::calls(lines).unwrap()
}

/// The reference MIOpen says whatever it is called by, and calls none of its own functions.
const REFERENCE: Native<'static> = Native { tells: &|_| true, calls_itself: false };

fn names(calls: &[Call]) -> Vec<&str> {
    calls.iter().map(|call| call.name.as_str()).collect()
}

#[test]
fn every_call_of_a_program_is_seen_once_and_in_order() {
    for (name, runs) in RUNS {
        let client = Client::compile(name).unwrap();
        for arguments in *runs {
            let off = calls(&client, arguments, Setting::Off);
            let untraced = calls(&client, arguments, Setting::Untraced);
            let traced = calls(&client, arguments, Setting::Traced);
            assert!(off.len() > 8, "{name} {arguments:?}: {off:?}");
            for call in &off {
                assert_eq!((&call.native[..], &call.traced[..]), (&[call.name.clone()][..], &[][..]), "{name} {arguments:?}");
            }
            for call in &traced {
                call.seen(&REFERENCE).unwrap_or_else(|unseen| panic!("{name} {arguments:?}: {unseen}"));
            }
            assert!(traced.iter().any(|call| !call.traced.is_empty()), "{name} {arguments:?}: nothing was traced");
            // Tracing changes nothing but what is traced: the same calls, of the program and to native.
            assert_eq!(names(&untraced), names(&traced), "{name} {arguments:?}");
            for (untraced, traced) in untraced.iter().zip(&traced) {
                assert_eq!((&untraced.native, &untraced.traced[..]), (&traced.native, &[][..]), "{name} {arguments:?}: {}", traced.name);
            }
        }
    }
}

/// The witness sees what native sees where nothing is between them.
#[test]
fn the_witness_agrees_with_native_alone() {
    let client = Client::compile("find").unwrap();
    let stock = integration_tests::stock::Stock::build().unwrap();
    let list = FOLDER.path().join("alone");
    let run = client.run().env("LD_PRELOAD", &*WITNESS).env(witness::LOG, &list).env("REFERENCE_MIOPEN_LOG", &list);
    let library_path = text(&stock.lib()).to_string();
    run.env("LD_LIBRARY_PATH", library_path).finish(&["plain"]).unwrap();
    let lines = fs::read_to_string(&list).unwrap();
    let lines = lines.lines().filter_map(|line| order::read(line, &client.file(), |line| line.split(' ').next().map(str::to_string)));
    let calls = order::calls(lines.collect::<Vec<_>>()).unwrap();
    assert!(calls.len() > 12 && calls.iter().all(|call| call.native == [call.name.clone()]), "{calls:?}");
}
