//! What can be seen of a run: statistics, timing and memory lines, the report of a job, and its problems recorded and replayed. Counters are
//! compared with what the program did, exactly.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use integration_tests::{Client, Finished, Run, dist};
use serde_json::{Value, json};

static CONVOLUTION: LazyLock<Client> = LazyLock::new(|| Client::compile("convolution").unwrap());
static FUSION: LazyLock<Client> = LazyLock::new(|| Client::compile("fusion").unwrap());
static FIND: LazyLock<Client> = LazyLock::new(|| Client::compile("find").unwrap());

const FORWARD: &str = "miopenConvolutionForward";
const TIMING: &str = "MIOPEN_HIPDNN_FORWARDING_TIMING";
const MEMINFO: &str = "MIOPEN_HIPDNN_FORWARDING_MEMINFO";
const STATS: &str = "MIOPEN_HIPDNN_STATS";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn json_of(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The statistics of a run of a client.
fn stats_of(run: Run, arguments: &[&str]) -> Value {
    let folder = folder();
    let path = folder.path().join("stats.json");
    run.forwarding().env(STATS, &path).output(arguments).unwrap();
    json_of(&path)
}

/// A run of the tool.
fn tool(arguments: &[&str], files: &[PathBuf]) -> Finished {
    let output = Command::new(dist().join("bin/hipdnn-shim")).args(arguments).args(files).env_remove(STATS).output().unwrap();
    Finished::from(output)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The number of an object's member, by a path of names; 0 where there is none.
fn number(value: &Value, path: &[&str]) -> u64 {
    path.iter().fold(value, |value, name| &value[*name]).as_u64().unwrap_or(0)
}

#[test]
fn every_call_is_counted_once_and_for_its_problem() {
    let stats = stats_of(CONVOLUTION.run().env("RANK", "3"), &["repeat"]);
    let calls = &stats["calls"];
    assert_eq!(calls.as_object().unwrap().keys().collect::<Vec<_>>(), [FORWARD]);
    let counters = &calls[FORWARD];
    assert_eq!((number(counters, &["served"]), number(counters, &["failed"]), number(counters, &["cold"])), (100, 0, 1));
    assert_eq!((&counters["declined"], &counters["native"]), (&json!({}), &json!({})));
    assert_eq!(counters["plans"], json!({ "memory": 99, "disk": 0, "built": 1 }));
    assert_eq!(counters["translations"], json!({ "memory": 0, "disk": 0, "built": 1 }));
    assert_eq!((number(counters, &["cold_calls", "count"]), number(counters, &["warm_calls", "count"])), (1, 99));
    let phases = counters["phases"].as_object().unwrap();
    let counts: Vec<(&str, u64)> = phases.iter().map(|(name, histogram)| (name.as_str(), number(histogram, &["count"]))).collect();
    let once = ["first_execute", "handle", "heuristics", "libraries", "lower", "plan", "translate", "translator", "validate"];
    let mut expected: Vec<(&str, u64)> = once.iter().map(|name| (*name, 1)).chain([("execute", 99)]).collect();
    expected.sort_unstable();
    assert_eq!(counts, expected);
    let problems = stats["problems"].as_array().unwrap();
    assert_eq!((problems.len(), &problems[0]["counters"], &stats["others"]), (1, counters, &json!({})));
    let problem = &problems[0]["problem"]["convolution"];
    assert_eq!(
        (&problem["direction"], &problem["x"]["dims"], &problem["w"]["dims"]),
        (&json!("forward"), &json!([2, 3, 5, 5]), &json!([4, 3, 3, 3]))
    );
    assert_eq!((number(&stats, &["process", "rank"]), stats["format"].as_str()), (3, Some("hipdnn-shim statistics")));
}

#[test]
fn declined_calls_are_timed_with_natives_part_and_explained() {
    let rule = "conv.attribute.deterministic";
    let stats = stats_of(CONVOLUTION.run(), &["deterministic"]);
    let counters = &stats["problems"][0]["counters"];
    assert_eq!((&counters["declined"], number(counters, &["served"])), (&json!({ rule: 1 }), 0));
    for times in ["declined", "declined_native"] {
        assert!(number(counters, &["time_ns", times, rule]) > 0, "{times}: {counters}");
    }
    assert!(stats["rules"][rule].as_str().is_some_and(|reason| reason.len() > 10), "{}", stats["rules"]);
}

#[test]
fn what_the_program_gives_to_native_is_no_decline() {
    // Nine problems in three directions, each found once, and executed twice with an algorithm (direct) that native listed.
    let stats = stats_of(FIND.run(), &["algorithm", "1"]);
    let rule = "host.policy.native-algorithm";
    let steps = ["miopenConvolutionForward", "miopenConvolutionBackwardData", "miopenConvolutionBackwardWeights"];
    let steps = steps.map(|step| &stats["calls"][step]);
    assert_eq!(steps.iter().map(|counters| number(counters, &["native", rule])).sum::<u64>(), 18);
    for counters in steps {
        assert_eq!((&counters["declined"], number(counters, &["served"])), (&json!({}), 0));
        assert!(number(counters, &["time_ns", "native", rule]) > 0, "{counters}");
    }
    let problems = stats["problems"].as_array().unwrap();
    assert_eq!(problems.iter().map(|problem| number(problem, &["counters", "native", rule])).sum::<u64>(), 18);
}

#[test]
fn without_statistics_native_is_jumped_to_and_nothing_is_said() {
    let run = CONVOLUTION.run().forwarding().env(TIMING, "0").env(MEMINFO, "off");
    assert_eq!(run.output(&["repeat"]).unwrap().messages(), Vec::<&str>::new());
}

/// `name=1.0us` of a line, in microseconds.
fn time(line: &str, name: &str) -> Option<f64> {
    let word = line.split([' ', ';']).find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
    word.strip_suffix("us")?.parse().ok()
}

#[test]
fn timing_attributes_all_of_a_calls_time() {
    let run = CONVOLUTION.run().forwarding().env(TIMING, "1").env("REFERENCE_HIPDNN_PLAN_MS", "150");
    let finished = run.output(&["repeat"]).unwrap();
    let messages = finished.messages();
    assert_eq!(messages.len(), 100);
    let (cold, warm): (Vec<&str>, Vec<&str>) = messages.iter().partition(|line| line.contains(" cold "));
    assert_eq!((cold.len(), warm.len()), (1, 99));
    // What was expensive is told apart from what was not.
    let plan = time(cold[0], "plan").unwrap();
    assert!(plan >= 150_000.0, "{}", cold[0]);
    for phase in ["libraries", "translator", "handle", "translate", "validate", "lower", "heuristics", "first_execute"] {
        assert!(time(cold[0], phase).is_some_and(|time| time < plan), "{phase}: {}", cold[0]);
    }
    for line in warm {
        assert!(line.contains("timing miopenConvolutionForward warm hipdnn") && line.contains("forward float x 2x3x5x5"), "{line}");
        assert!(time(line, "execute").is_some() && time(line, "other").is_some() && time(line, "plan").is_none(), "{line}");
    }
}

#[test]
fn memory_is_told_for_calls_that_build_or_execute() {
    let finished = CONVOLUTION.run().forwarding().env(MEMINFO, "1").output(&["repeat"]).unwrap();
    let messages = finished.messages();
    assert_eq!(messages.len(), 100, "{messages:?}");
    assert!(messages.iter().all(|line| line.contains("meminfo miopenConvolutionForward: ") && line.contains(" bytes free before, ")));
    let finished = CONVOLUTION.run().forwarding().env(MEMINFO, "1").output(&["deterministic"]).unwrap();
    assert_eq!(finished.messages().len(), 1, "a decline that was found out: {:?}", finished.messages());
}

/// Statistics of a job of three ranks: two that were served, one that was declined.
fn job(folder: &Path) -> Vec<PathBuf> {
    for (rank, what) in [("0", "repeat"), ("1", "repeat"), ("2", "deterministic")] {
        let run = CONVOLUTION.run().forwarding().env("OMPI_COMM_WORLD_RANK", rank).env(STATS, folder.join(format!("r{rank}.%p.json")));
        run.output(&[what]).unwrap();
    }
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 3, "{files:?}");
    files
}

#[test]
fn ranks_of_a_job_merge() {
    let folder = folder();
    let files = job(folder.path());
    let finished = tool(&["report", "--json"], &files);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!((number(&report["total"], &["served"]), &report["total"]["declined"]), (200, &json!({ "conv.attribute.deterministic": 1 })));
    let ranks: Vec<(u64, u64)> = report["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (number(p, &["process", "rank"]), number(p, &["total", "served"])))
        .collect();
    assert_eq!(ranks, [(0, 100), (1, 100), (2, 0)]);
    let problems: Vec<u64> =
        report["problems"].as_array().unwrap().iter().map(|problem| number(problem, &["counters", "served"])).collect();
    assert!(problems.len() == 2 && problems.contains(&200), "{problems:?}");
    assert_eq!(report["fixes"][0]["rule"], "conv.attribute.deterministic");
    let text = tool(&["report"], &files).stdout;
    assert!(text.contains("99.5 % of the calls") && text.contains("#            200  served by hipDNN"), "{text}");
    let page = folder.path().join("report.html");
    let finished = tool(&["report", "-o", page.to_str().unwrap()], &files);
    assert_eq!((finished.code, finished.stdout.trim()), (Some(0), page.to_str().unwrap()));
    assert!(fs::read_to_string(&page).unwrap().contains("data-served=\"200\" data-calls=\"201\""));
}

#[test]
fn a_file_that_is_wrong_is_named_and_the_others_merge_on_request() {
    let folder = folder();
    let mut files = job(folder.path());
    let good = fs::read_to_string(&files[0]).unwrap();
    fs::write(&files[0], &good[..good.len() / 2]).unwrap();
    fs::write(&files[1], "<html>").unwrap();
    let names: Vec<String> = files[..2].iter().map(|file| file.display().to_string()).collect();
    files.push(folder.path().join("missing.json"));
    let finished = tool(&["report"], &files);
    assert!(finished.code == Some(1) && finished.stderr.contains(&names[0]) && finished.stderr.contains("cut off"), "{finished:?}");
    assert_eq!(finished.stderr.lines().count(), 1);
    let finished = tool(&["report", "--json", "--keep-going"], &files);
    assert_eq!((finished.code, finished.stderr.lines().count()), (Some(1), 3), "{finished:?}");
    assert!(names.iter().all(|name| finished.stderr.contains(name)), "{finished:?}");
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!((number(&report["total"], &["cold"]), report["left_out"].as_array().unwrap().len()), (1, 3));
    // An output that is one of the inputs would be lost.
    let finished = tool(&["report", "-o", files[2].to_str().unwrap()], &files[2..3]);
    assert!(finished.code == Some(2) && json_of(&files[2])["format_version"] == 1, "{finished:?}");
}

/// Records files; answers the corpus.
fn record(folder: &Path, files: &[PathBuf]) -> (PathBuf, Vec<Value>) {
    let corpus = folder.join("corpus.jsonl");
    let finished = tool(&["record", "-o", corpus.to_str().unwrap()], files);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let recorded = lines(&fs::read_to_string(&corpus).unwrap());
    (corpus, recorded)
}

#[test]
fn a_run_is_recorded_and_replayed() {
    let folder = folder();
    let (stats, trace) = (folder.path().join("stats.json"), folder.path().join("trace.jsonl"));
    for what in ["repeat", "deterministic", "beta", "alpha"] {
        CONVOLUTION.run().forwarding().env("MIOPEN_HIPDNN_TRACE", &trace).output(&[what]).unwrap();
    }
    CONVOLUTION.run().forwarding().env(STATS, &stats).output(&["repeat"]).unwrap();
    let (_, of_stats) = record(folder.path(), std::slice::from_ref(&stats));
    let (corpus, of_trace) = record(folder.path(), std::slice::from_ref(&trace));
    // The same problem, and the same counts, by either way.
    assert_eq!((of_trace.len(), &of_trace[..1]), (4, &of_stats[..]));
    assert_eq!(number(&of_trace[0], &["calls", FORWARD, "served"]), 100);
    let translated = tool(&["replay", "--translate-only", "--json"], std::slice::from_ref(&corpus));
    assert_eq!(translated.code, Some(0), "{translated:?}");
    let translated = lines(&translated.stdout);
    assert_eq!(
        translated[4]["total"],
        json!({ "problems": 4, "graphs": 3, "rules": { "conv.attribute.deterministic": 1 }, "lost": 0, "won": 0 })
    );
    let replayed = tool(&["replay", "--json", "--profile", "abi"], std::slice::from_ref(&corpus));
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
    let records = lines(&replayed.stdout);
    assert_eq!((number(&records[0], &["selected"]), records[0]["refused"].as_array().unwrap().len()), (4, 0));
    let routes: Vec<(&str, &Value)> = records[1..5].iter().map(|r| (r["route"].as_str().unwrap(), &r["verified"])).collect();
    assert_eq!(routes.iter().filter(|(route, verified)| *route == "hipdnn" && **verified == true).count(), 3, "{routes:?}");
    assert_eq!(routes.iter().filter(|(route, verified)| *route == "native" && **verified == true).count(), 1, "{routes:?}");
}

#[test]
fn what_no_driver_line_says_is_replayed_too() {
    // One spatial dimension, gaps in memory, scalars.
    let tensor = |dims: [i64; 3], strides: [i64; 3]| json!({ "type": "float", "dims": dims, "strides": strides });
    let convolution = json!({
        "mode": "convolution", "pads": [1], "strides": [2], "dilations": [1], "output_pads": [0], "group_count": 1, "attributes": [],
    });
    let problem = |direction: &str, alpha: f64, beta: f64| {
        json!({ "problem": { "convolution": {
            "direction": direction, "convolution": convolution, "x": tensor([2, 4, 9], [50, 12, 1]), "w": tensor([6, 4, 3], [12, 3, 1]),
            "y": tensor([2, 6, 5], [60, 1, 8]), "alpha": alpha, "beta": beta,
        } } })
    };
    let folder = folder();
    let corpus = folder.path().join("corpus.jsonl");
    let problems = [problem("forward", 1.0, 0.0), problem("backward_data", 2.0, 0.5), problem("backward_weights", 1.0, 1.0)];
    fs::write(&corpus, problems.map(|problem| problem.to_string()).join("\n")).unwrap();
    let replayed = tool(&["replay", "--json", "--profile", "abi"], std::slice::from_ref(&corpus));
    let records = lines(&replayed.stdout);
    for record in &records[1..4] {
        assert_eq!((&record["route"], &record["verified"]), (&json!("hipdnn"), &json!(true)), "{record}");
    }
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
}

#[test]
fn chains_are_recorded_and_translated() {
    let folder = folder();
    let stats = folder.path().join("stats.json");
    FUSION.run().forwarding().env(STATS, &stats).output(&["plan", "bias+relu"]).unwrap();
    let (corpus, recorded) = record(folder.path(), std::slice::from_ref(&stats));
    // Two layouts, and groups.
    assert_eq!(recorded.len(), 3, "{recorded:?}");
    for line in &recorded {
        let operations = line["problem"]["fusion"]["operations"].as_array().unwrap();
        assert_eq!((operations.len(), number(line, &["calls", "miopenExecuteFusionPlan", "served"])), (3, 4), "{line}");
    }
    let translated = tool(&["replay", "--translate-only"], std::slice::from_ref(&corpus));
    assert!(translated.stdout.contains("3 of 3 problems are translated"), "{translated:?}");
    // Driving it is not possible, and said to be so.
    let replayed = tool(&["replay"], std::slice::from_ref(&corpus));
    assert!(replayed.code == Some(2) && replayed.stderr.contains("only translated"), "{replayed:?}");
}
