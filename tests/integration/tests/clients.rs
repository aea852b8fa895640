//! C programs that know only MIOpen, linked with -lMIOpen, with the shim in front of the reference MIOpen.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use integration_tests::{Client, Finished, dist, reference, trace_lines};

static CONVOLUTION: LazyLock<Client> = LazyLock::new(|| Client::compile("convolution").unwrap());
static BARE: LazyLock<Client> = LazyLock::new(|| Client::compile("bare").unwrap());

fn file(name: &str) -> PathBuf {
    let path = CONVOLUTION.folder().join(name);
    let _ = fs::remove_file(&path);
    path
}

fn right(finished: &Finished) {
    assert_eq!(finished.line("right"), "right 1", "{finished:?}");
}

fn logged(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn off_every_call_reaches_native_and_nothing_else_is_touched() {
    let (native, backend) = (file("off.native"), file("off.backend"));
    let run = CONVOLUTION.run().env("REFERENCE_MIOPEN_LOG", &native).env("REFERENCE_HIPDNN_LOG", &backend);
    let finished = run.output(&["plain"]).unwrap();
    right(&finished);
    assert_eq!(finished.line("mapped"), "mapped hipdnn 0");
    assert_eq!(finished.messages(), Vec::<&str>::new());
    assert!(!backend.exists(), "hipDNN was entered");
    let calls = logged(&native);
    for call in ["miopenCreate ", "miopenSet4dTensorDescriptor ", "miopenInitConvolutionDescriptor ", "miopenConvolutionForward "] {
        assert!(calls.lines().any(|line| line.starts_with(call)), "{call} in {calls}");
    }
}

#[test]
fn on_the_convolution_is_hipdnns_and_right() {
    let (native, trace) = (file("on.native"), file("on.jsonl"));
    let run = CONVOLUTION.run().forwarding().env("REFERENCE_MIOPEN_LOG", &native).env("MIOPEN_HIPDNN_TRACE", &trace);
    let finished = run.output(&["plain"]).unwrap();
    right(&finished);
    assert_eq!(finished.line("mapped"), "mapped hipdnn 1");
    assert_eq!(finished.line("status"), "status 0 (miopenStatusSuccess), forwarded error 0");
    assert!(!logged(&native).contains("miopenConvolutionForward "), "native was called");
    let lines = trace_lines(&trace).unwrap();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[1]["route"], &lines[1]["cold"]), (&"hipdnn".into(), &false.into()));
    assert_eq!((&lines[0]["call"], &lines[0]["route"]), (&"miopenConvolutionForward".into(), &"hipdnn".into()));
    assert_eq!((&lines[0]["rule"], &lines[0]["cold"]), (&serde_json::Value::Null, &true.into()));
    assert_eq!(lines[0]["notes"], serde_json::json!(["conv.algorithm.ignored"]));
    for phase in ["translate", "validate", "lower", "heuristics", "plan", "first_execute"] {
        assert!(lines[0]["phases_us"][phase].as_f64().is_some_and(|us| us > 0.0), "{phase}: {}", lines[0]);
    }
}

#[test]
fn on_and_off_give_the_same_numbers() {
    for what in ["plain", "alpha", "beta"] {
        let trace = file(&format!("same.{what}.jsonl"));
        let off = CONVOLUTION.run().output(&[what]).unwrap();
        let on = CONVOLUTION.run().forwarding().env("MIOPEN_HIPDNN_TRACE", &trace).output(&[what]).unwrap();
        assert_eq!(off.line("y"), on.line("y"), "{what}");
        assert!(off.line("y").len() > 100);
        assert_eq!(trace_lines(&trace).unwrap()[0]["route"], "hipdnn", "{what}");
    }
}

#[test]
fn a_decline_reaches_native_as_it_came_and_is_seen() {
    let (what, rule) = ("deterministic", "conv.attribute.deterministic");
    let (plain, shimmed) = (file("declined.off"), file("declined.on"));
    let (trace, stats) = (file("declined.jsonl"), file("declined.stats"));
    let off = CONVOLUTION.run().env("REFERENCE_MIOPEN_LOG", &plain).output(&[what]).unwrap();
    let run = CONVOLUTION.run().forwarding().env("REFERENCE_MIOPEN_LOG", &shimmed);
    let on = run.env("MIOPEN_HIPDNN_TRACE", &trace).env("MIOPEN_HIPDNN_STATS", &stats).output(&[what]).unwrap();
    assert_eq!(off.line("status"), on.line("status"));
    assert_eq!(off.line("y"), on.line("y"));
    assert_eq!(shape_of(&logged(&plain)), shape_of(&logged(&shimmed)));
    let lines = trace_lines(&trace).unwrap();
    assert_eq!((&lines[0]["route"], &lines[0]["rule"]), (&"native".into(), &rule.into()));
    let stats: serde_json::Value = serde_json::from_str(&logged(&stats)).unwrap();
    assert_eq!(stats["calls"]["miopenConvolutionForward"]["declined"][rule], 1, "{stats}");
}

#[test]
fn a_scaled_graph_that_no_engine_takes_is_declined_under_the_rule_of_scaling() {
    for what in ["alpha", "beta"] {
        let (off, trace) = (CONVOLUTION.run().output(&[what]).unwrap(), file(&format!("refused.{what}.jsonl")));
        let run = CONVOLUTION.run().forwarding().env("REFERENCE_HIPDNN_PROFILE", "miopen-provider");
        let on = run.env("MIOPEN_HIPDNN_TRACE", &trace).output(&[what]).unwrap();
        assert_eq!((off.line("status"), off.line("y")), (on.line("status"), on.line("y")));
        let lines = trace_lines(&trace).unwrap();
        assert_eq!((&lines[0]["route"], &lines[0]["rule"]), (&"native".into(), &format!("conv.scaling.{what}").into()));
    }
}

#[test]
fn miopens_own_variable_asks_for_determinism() {
    let trace = file("deterministic.jsonl");
    let run = CONVOLUTION.run().forwarding().env("MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC", "1").env("MIOPEN_HIPDNN_TRACE", &trace);
    right(&run.output(&["plain"]).unwrap());
    let lines = trace_lines(&trace).unwrap();
    assert!(!lines.is_empty() && lines.iter().all(|line| line["rule"] == "conv.attribute.deterministic"), "{lines:?}");
}

/// The calls with their arguments, addresses (which differ from process to process) reduced to whether they are null.
fn shape_of(log: &str) -> Vec<String> {
    let value = |word: &str| match word.split_once("=0x") {
        Some((name, digits)) if digits.len() > 8 => format!("{name}=address"),
        Some((name, digits)) => format!("{name}={digits}"),
        None => word.to_string(),
    };
    let lines: Vec<String> = log.lines().map(|line| line.split(' ').map(value).collect::<Vec<_>>().join(" ")).collect();
    assert!(lines.len() > 8, "{log}");
    lines
}

#[test]
fn strict_shows_declines_to_the_caller() {
    let finished = CONVOLUTION.run().forwarding().env("MIOPEN_HIPDNN_STRICT", "1").output(&["deterministic"]).unwrap();
    assert!(finished.line("status").starts_with("status 8 (miopenStatusUnsupportedOp)"), "{finished:?}");
}

#[test]
fn repeated_calls_are_warm_and_counted() {
    let (stats, backend) = (file("repeat.stats"), file("repeat.backend"));
    let run = CONVOLUTION.run().forwarding().env("MIOPEN_HIPDNN_STATS", &stats).env("REFERENCE_HIPDNN_LOG", &backend);
    right(&run.output(&["repeat"]).unwrap());
    let stats: serde_json::Value = serde_json::from_str(&logged(&stats)).unwrap();
    assert_eq!(stats["calls"]["miopenConvolutionForward"]["served"], 100);
    let calls = logged(&backend);
    let count = |name: &str| calls.lines().filter(|line| line.contains(name)).count();
    assert_eq!(count("hipdnnBackendExecute"), 100);
    assert_eq!(count("hipdnnCreate"), 1);
    assert_eq!(count("hipdnnSetStream"), 1);
    assert_eq!(count("hipdnnDestroy"), 1, "the handle goes with MIOpen's");
}

#[test]
fn odd_arguments_get_natives_own_answers() {
    let off = CONVOLUTION.run().output(&["odd"]).unwrap();
    let on = CONVOLUTION.run().forwarding().output(&["odd"]).unwrap();
    let answers = |f: &Finished| f.stdout.lines().filter(|l| !l.starts_with("mapped")).map(String::from).collect::<Vec<_>>();
    assert_eq!(answers(&off), answers(&on));
    assert!(answers(&off).len() > 8);
}

#[test]
fn what_native_throws_passes_through() {
    for run in [CONVOLUTION.run(), CONVOLUTION.run().forwarding()] {
        let finished = run.env("REFERENCE_MIOPEN_THROW", "1").output(&["throw"]).unwrap();
        assert_eq!(finished.line("caught"), "caught", "{finished:?}");
    }
}

#[test]
fn without_hipdnn_there_is_one_line_and_native() {
    let garbage = file("garbage.so");
    fs::write(&garbage, "not a library").unwrap();
    let libc = PathBuf::from("libc.so.6");
    for backend in [PathBuf::from("/nonexistent/libhipdnn_backend.so"), garbage, libc] {
        let finished = CONVOLUTION.run().forwarding().env("MIOPEN_HIPDNN_BACKEND_LIBRARY", &backend).output(&["repeat"]).unwrap();
        right(&finished);
        let messages = finished.messages();
        assert!(messages.len() == 1 && messages[0].contains("hipDNN cannot be used"), "{messages:?}");
    }
}

#[test]
fn without_hip_there_is_one_line_and_native() {
    let finished =
        CONVOLUTION.run().forwarding().env("MIOPEN_HIPDNN_HIP_LIBRARY", "/nonexistent/libamdhip64.so").output(&["repeat"]).unwrap();
    right(&finished);
    let messages = finished.messages();
    assert!(messages.len() == 1 && messages[0].contains("HIP cannot be used"), "{messages:?}");
}

#[test]
fn a_refused_handle_is_one_line_and_native() {
    let finished = CONVOLUTION.run().forwarding().env("REFERENCE_HIPDNN_FAULT", "hipdnnCreate=9").output(&["repeat"]).unwrap();
    right(&finished);
    assert_eq!(finished.messages().len(), 1, "{:?}", finished.messages());
}

#[test]
fn without_native_there_is_one_line_and_a_status() {
    for forwarding in ["0", "1"] {
        let run = BARE.run().env("MIOPEN_HIPDNN_FORWARDING", forwarding);
        let finished = run.env("MIOPEN_HIPDNN_NATIVE_LIBRARY", "/nonexistent/libMIOpen.so.1").output(&[]).unwrap();
        assert_eq!(finished.messages().len(), 1, "{finished:?}");
        assert!(finished.messages()[0].contains("/nonexistent/libMIOpen.so.1"));
        assert_eq!((finished.line("create"), finished.line("text")), ("create 6", "text miopenStatusBadParm"));
    }
    let finished = BARE.run().without("MIOPEN_HIPDNN_NATIVE_LIBRARY").output(&[]).unwrap();
    assert_eq!(finished.messages().len(), 1, "{finished:?}");
}

#[test]
fn it_never_takes_itself_for_native() {
    let copy = file("libcopy.so");
    fs::copy(dist().join("lib/libMIOpen.so.1"), &copy).unwrap();
    let link = file("liblink.so");
    std::os::unix::fs::symlink(dist().join("lib/libMIOpen.so.1"), &link).unwrap();
    for path in [dist().join("lib/libMIOpen.so.1"), copy, link] {
        let finished = BARE.run().env("MIOPEN_HIPDNN_NATIVE_LIBRARY", &path).output(&[]).unwrap();
        assert!(finished.messages().len() == 1 && finished.messages()[0].contains("this library"), "{finished:?}");
        assert_eq!(finished.line("create"), "create 6");
    }
}

#[test]
fn a_split_install_is_found_beside_the_shim() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(dist().join("lib/libMIOpen.so.1"), folder.path().join("libMIOpen.so.1")).unwrap();
    fs::copy(reference("libMIOpen_private.so.1"), folder.path().join("libMIOpen_private.so.1")).unwrap();
    let run = BARE.run().without("MIOPEN_HIPDNN_NATIVE_LIBRARY").env("LD_LIBRARY_PATH", folder.path());
    assert_eq!(run.output(&[]).unwrap().line("create"), "create 0");
}

#[test]
fn backend_failures_lead_where_the_policy_says() {
    struct Case {
        fault: &'static str,
        fallback: bool,
        status: i32,
        hipdnn: i32,
        native: bool,
    }
    let case = |fault, fallback, status, hipdnn, native| Case { fault, fallback, status, hipdnn, native };
    let cases = [
        // The backend says that it cannot: native.
        case("hipdnnBackendFinalize@ENGINEHEUR=8", false, 0, 0, true),
        case("hipdnnBackendFinalize@EXECUTION_PLAN=8", false, 0, 0, true),
        case("hipdnnBackendFinalize@OPERATIONGRAPH=8", false, 0, 0, true),
        // Building fails: the caller's error, or native if the operator says so.
        case("hipdnnBackendFinalize@EXECUTION_PLAN=9", false, 5, 9, false),
        case("hipdnnBackendFinalize@EXECUTION_PLAN=9", true, 0, 0, true),
        case("hipdnnBackendFinalize@ENGINEHEUR=14", false, 5, 14, false),
        case("hipdnnBackendFinalize@TENSOR=10", false, 4, 10, false),
        // Execution fails: always the caller's error.
        case("hipdnnBackendExecute=13", false, 5, 13, false),
        case("hipdnnBackendExecute=13", true, 5, 13, false),
        case("hipdnnBackendExecute=8", true, 8, 8, false),
        case("hipdnnBackendExecute=2", false, 3, 2, false),
    ];
    for Case { fault, fallback, status, hipdnn, native } in cases {
        let (log, trace) = (file("policy.native"), file("policy.jsonl"));
        let run = CONVOLUTION.run().forwarding().env("REFERENCE_HIPDNN_FAULT", fault).env("REFERENCE_MIOPEN_LOG", &log);
        let run = run.env("MIOPEN_HIPDNN_TRACE", &trace).env("MIOPEN_HIPDNN_ON_ERROR", if fallback { "fallback" } else { "" });
        let finished = run.output(&["plain"]).unwrap();
        let line = finished.line("status");
        assert!(line.starts_with(&format!("status {status} (")) && line.ends_with(&format!("forwarded error {hipdnn}")), "{fault}: {line}");
        assert_eq!(line.contains("[hipDNN-forwarded]"), status != 0, "{fault}: {line}");
        assert_eq!(logged(&log).contains("miopenConvolutionForward "), native, "{fault}");
        // Another call's error is not marked.
        assert_eq!(finished.line("another error"), "another error: 3 (miopenStatusBadParm)", "{fault}");
        assert_eq!(finished.line("passed error"), "passed error: 3 (miopenStatusBadParm)", "{fault}");
        let route = if native { "native" } else { "failed" };
        assert_eq!(trace_lines(&trace).unwrap()[0]["route"], route, "{fault}");
        if native {
            right(&finished);
        }
    }
}

#[test]
fn the_environment_is_heard() {
    for (name, value) in [("MIOPEN_DISABLE_HIPDNN_FOR", "conv"), ("MIOPEN_HIPDNN_FORWARDING_CONV", "off"), ("MIOPEN_USE_HIPDNN_FOR", "bn")]
    {
        let finished = CONVOLUTION.run().forwarding().env(name, value).output(&["plain"]).unwrap();
        right(&finished);
        assert_eq!(finished.line("mapped"), "mapped hipdnn 0", "{name}");
    }
    let finished = CONVOLUTION.run().env("MIOPEN_HIPDNN_FORWARDING", "maybe").output(&["plain"]).unwrap();
    assert_eq!(finished.messages().len(), 1);
    assert_eq!(finished.line("mapped"), "mapped hipdnn 0");
}

#[test]
fn device_times_are_those_of_whoever_computed() {
    for (forwarding, natives) in [(true, 1), (false, 3)] {
        let log = file(&format!("time{natives}.native"));
        let run = CONVOLUTION.run().env("REFERENCE_MIOPEN_LOG", &log);
        let finished = if forwarding { run.forwarding() } else { run }.output(&["time"]).unwrap();
        for line in ["convolution 1", "bias 1", "again 1"] {
            assert_eq!(finished.line(line.split(' ').next().unwrap()), line, "{finished:?}");
        }
        // Forwarded: only the bias was native's.
        assert_eq!(logged(&log).lines().filter(|line| line.starts_with("miopenGetKernelTime ")).count(), natives, "{forwarding}");
    }
}

#[test]
fn calls_of_a_provider_are_natives_and_never_come_back() {
    let provider = Client::compile_library("provider").unwrap();
    let (native, trace) = (file("provider.native"), file("provider.jsonl"));
    let run = CONVOLUTION.run().forwarding().env("PROVIDER_BACKEND", reference("libhipdnn_backend.so"));
    let run = run.env("MIOPEN_HIPDNN_BACKEND_LIBRARY", provider.folder().join("client"));
    let finished = run.env("REFERENCE_MIOPEN_LOG", &native).env("MIOPEN_HIPDNN_TRACE", &trace).output(&["repeat"]).unwrap();
    right(&finished);
    // A hundred calls of the program, each executed by hipDNN; two of the provider for each, on both its threads, all native's.
    let lines = trace_lines(&trace).unwrap();
    assert_eq!(lines.len(), 100);
    assert!(lines.iter().all(|line| line["route"] == "hipdnn"), "{:?}", lines[0]);
    let calls = logged(&native);
    assert_eq!(calls.lines().filter(|line| line.starts_with("miopenConvolutionForward ")).count(), 200);
}

#[test]
fn the_statistics_file_replaces_regular_files_only() {
    use std::os::unix::fs::FileTypeExt as _;
    let fifo = file("stats.fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let finished = CONVOLUTION.run().forwarding().env("MIOPEN_HIPDNN_STATS", &fifo).output(&["plain"]).unwrap();
    right(&finished);
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    assert_eq!(finished.messages().len(), 1, "{:?}", finished.messages());
}

// V62 of the case list: each of a thousand calls of one problem.
#[test]
fn what_the_backend_does_not_take_is_found_out_once_and_what_it_fails_is_not() {
    let counted = |fault: &str| {
        let (stats, log) = (file("v62.stats"), file("v62.backend"));
        let run = CONVOLUTION.run().forwarding().env("REFERENCE_HIPDNN_FAULT", fault).env("REFERENCE_HIPDNN_LOG", &log);
        let run = run.env("MIOPEN_HIPDNN_MAX_FAILURES", "0");
        let finished = run.env("MIOPEN_HIPDNN_STATS", &stats).output(&["many"]).unwrap();
        let stats: serde_json::Value = serde_json::from_str(&logged(&stats)).unwrap();
        (stats["calls"]["miopenConvolutionForward"].clone(), logged(&log), finished)
    };
    for kind in ["OPERATIONGRAPH", "ENGINEHEUR", "EXECUTION_PLAN"] {
        let (counts, log, finished) = counted(&format!("hipdnnBackendFinalize@{kind}=NOT_SUPPORTED"));
        right(&finished);
        assert_eq!(counts["declined"]["host.backend.unsupported"], 1000, "{kind}: {counts}");
        assert_eq!((&counts["served"], &counts["failed"]), (&0.into(), &0.into()), "{kind}: {counts}");
        assert_eq!(log.lines().filter(|line| line.starts_with(&format!("hipdnnBackendFinalize({kind})"))).count(), 1, "{kind}");
    }
    let (counts, log, finished) = counted("hipdnnBackendExecute=EXECUTION_FAILED");
    assert!(finished.line("status").starts_with("status 5 ([hipDNN-forwarded]"), "{finished:?}");
    assert_eq!((&counts["failed"], &counts["served"]), (&1000.into(), &0.into()), "{counts}");
    assert_eq!(log.lines().filter(|line| line.starts_with("hipdnnBackendExecute")).count(), 1000);
}

/// A warm call enters the system for nothing of ours.
#[test]
fn warm_calls_enter_no_system_call() {
    let log = file("quiet.strace");
    let mut command = std::process::Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(&log).arg(CONVOLUTION.file()).arg("quiet");
    // What is queued would wake the stream's thread, which is HIP's business.
    command.env("REFERENCE_HIPDNN_DISCARD", "1").env("MIOPEN_HIPDNN_FORWARDING", "1").env("MIOPEN_HIPDNN_CACHE", "off");
    command.env("LD_LIBRARY_PATH", dist().join("lib"));
    for (name, library) in [("NATIVE", "libMIOpen_private.so.1"), ("BACKEND", "libhipdnn_backend.so"), ("HIP", "libamdhip64.so.7")] {
        command.env(format!("MIOPEN_HIPDNN_{name}_LIBRARY"), reference(library));
    }
    let finished = Finished::from(command.output().expect("strace is needed"));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let log = logged(&log);
    let lines: Vec<&str> = log.lines().collect();
    let marks: Vec<usize> = (0..lines.len()).filter(|n| lines[*n].contains("getppid(")).collect();
    let [first, last] = marks[..] else { panic!("{} marks", marks.len()) };
    let process = lines[first].split(' ').next().unwrap();
    let own: Vec<&&str> = lines[first + 1..last].iter().filter(|line| line.split(' ').next() == Some(process)).collect();
    assert_eq!(own, Vec::<&&str>::new());
    // The list is one of system calls.
    assert!(lines[..first].iter().any(|line| line.contains("openat(") && line.contains("libhipdnn_backend.so")));
}

#[test]
fn what_fails_a_hundred_times_in_a_row_is_not_tried_again() {
    let (stats, native) = (file("breaker.stats"), file("breaker.native"));
    let run = CONVOLUTION.run().forwarding().env("REFERENCE_HIPDNN_FAULT", "hipdnnBackendExecute:3=EXECUTION_FAILED");
    let run = run.env("REFERENCE_MIOPEN_LOG", &native).env("MIOPEN_HIPDNN_STATS", &stats);
    let finished = run.output(&["many"]).unwrap();
    right(&finished);
    assert_eq!(finished.line("status"), "status 0 (miopenStatusSuccess), forwarded error 0");
    let messages = finished.messages();
    assert!(messages.len() == 1 && messages[0].contains("100 calls of miopenConvolutionForward in a row"), "{messages:?}");
    let stats: serde_json::Value = serde_json::from_str(&logged(&stats)).unwrap();
    let counts = &stats["calls"]["miopenConvolutionForward"];
    assert_eq!((&counts["served"], &counts["failed"]), (&2.into(), &100.into()), "{counts}");
    assert_eq!(counts["declined"]["host.circuit.open"], 898, "{counts}");
    assert_eq!(logged(&native).lines().filter(|line| line.starts_with("miopenConvolutionForward ")).count(), 898);
}
