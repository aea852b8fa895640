//! Section E of the case list, by number: how the library comes into a process, what it does there, and how both end. V51 is a test of
//! `environment.rs`; the traps of V54 are one of the host's `translation.rs`.
//!
//! No limits on time; a client that hangs ends itself after minutes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use integration_tests::{Client, Finished, Run, elf::Library, reference, shim, trace_lines};
use tempfile::TempDir;

static LINKED: LazyLock<Client> = LazyLock::new(|| Client::compile_with("loading", &[]).unwrap());
static DYNAMIC: LazyLock<Client> = LazyLock::new(|| Client::compile_dynamic("loading").unwrap());
static PROCESS: LazyLock<Client> = LazyLock::new(|| Client::compile_with("process", &[]).unwrap());
static BARE: LazyLock<Client> = LazyLock::new(|| Client::compile("bare").unwrap());

/// The value behind a word of a line.
fn number(line: &str, word: &str) -> usize {
    let mut words = line.split([' ', ',']).skip_while(|w| *w != word);
    words.nth(1).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {word} in {line:?}"))
}

fn computed(finished: &Finished, label: &str) {
    assert_eq!(finished.line(label), format!("{label}: status 0 right 1"), "{finished:?}");
}

/// The routes of the lines of a trace.
fn routes(path: &Path) -> Vec<String> {
    trace_lines(path).unwrap().iter().map(|line| line["rule"].as_str().or(line["route"].as_str()).unwrap().to_string()).collect()
}

/// Every way in which the library comes into a process: a label, the run, its first argument.
fn ways() -> Vec<(&'static str, Run, String)> {
    let of = |scope: &str| format!("{scope}:{}", shim().display());
    vec![
        ("linked", LINKED.run(), "linked".into()),
        ("dlopen, local", DYNAMIC.run(), of("local")),
        ("dlopen, global", DYNAMIC.run(), of("global")),
        ("dlopen, deep binding", DYNAMIC.run(), of("deepbind")),
        ("dlopen, local, without a search path", DYNAMIC.run().without("LD_LIBRARY_PATH"), of("local")),
        ("preloaded", DYNAMIC.run().env("LD_PRELOAD", shim()), "linked".into()),
        ("preloaded and linked", LINKED.run().env("LD_PRELOAD", shim()), "linked".into()),
    ]
}

// ---- V50

#[test]
fn v50_whatever_is_wrong_with_hipdnn_is_one_line_and_native() {
    assert!(Library::read(&shim()).unwrap().needed.iter().all(|name| !name.contains("hipdnn")));
    let backend = Client::compile_library("backend").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage.so");
    fs::write(&garbage, "not a library").unwrap();
    let run = |library: &Path| LINKED.run().forwarding().env("MIOPEN_HIPDNN_BACKEND_LIBRARY", library);
    let bad = |name: &str, value: &str| run(&backend.file()).env("BACKEND_REAL", reference("libhipdnn_backend.so")).env(name, value);
    let cases = [
        (LINKED.run().forwarding().without("MIOPEN_HIPDNN_BACKEND_LIBRARY"), "hipDNN cannot be used"),
        (run(Path::new("/nonexistent/libhipdnn_backend.so")), "hipDNN cannot be used"),
        (run(&garbage), "hipDNN cannot be used"),
        (run(Path::new("libc.so.6")), "lacks hipdnnCreate"),
        (bad("BACKEND_VERSION", "1.2.3.4"), "another major"),
        (bad("BACKEND_NULL", "1"), "success without a handle"),
    ];
    for (run, says) in cases {
        let finished = run.output(&["linked", "inert"]).unwrap();
        computed(&finished, "forward");
        computed(&finished, "again");
        let messages = finished.messages();
        assert!(messages.len() == 1 && messages[0].contains(says), "{says}: {messages:?}");
    }
    // The same library without a flaw is used.
    let trace = folder.path().join("trace.jsonl");
    let finished = bad("MIOPEN_HIPDNN_TRACE", trace.to_str().unwrap()).output(&["linked", "inert"]).unwrap();
    computed(&finished, "forward");
    assert_eq!((finished.messages().len(), routes(&trace)), (0, vec!["hipdnn".to_string(); 2]));
}

// ---- V52

#[test]
fn v52_the_environment_counts_as_it_was_at_the_first_call() {
    let off = LINKED.run().output(&["linked", "environment"]).unwrap();
    let on = LINKED.run().forwarding().output(&["linked", "environment"]).unwrap();
    for finished in [&off, &on] {
        computed(finished, "late");
        assert_eq!(finished.line("read"), "read 1, later 0", "{finished:?}");
        assert!(finished.messages().is_empty());
    }
    assert!(!off.line("end").contains("libhipdnn") && on.line("end").contains("libhipdnn"));
}

/// Nothing happens before the call that needs it.
#[test]
fn v52_loading_it_does_nothing() {
    for forwarding in [false, true] {
        for (way, run, argument) in ways() {
            let run = if forwarding { run.forwarding() } else { run };
            let finished = run.output(&[&argument, "inert"]).unwrap();
            let stage = |name: &str| {
                let line = finished.line(name);
                assert!(!line.is_empty(), "{name}: {finished:?}");
                line
            };
            let counts = |name| ["environment", "files", "threads", "mappings"].map(|word| number(stage(name), word));
            assert_eq!(counts("loaded:"), [0; 4], "{way}");
            assert!(!stage("loaded:").contains("libMIOpen_private"), "{way}: native is loaded");
            // Deep binding hides the client's functions from the library.
            if !way.contains("deep") {
                assert!(counts("first call:")[0] > 10, "{way}: nothing is counted: {finished:?}");
            }
            for before in ["first call:", "described:"] {
                let line = stage(before);
                assert!(!line.contains("libhipdnn") && !line.contains("libamdhip64"), "{way}: {line}");
                assert_eq!((number(line, "code"), number(line, "tasks")), (0, 0), "{way}: {line}");
            }
            let (first, last) = (counts("first call:"), counts("destroyed:"));
            assert_eq!((first[0], first[1], first[2]), (last[0], last[1], 0), "{way}: {finished:?}");
            assert_eq!(last[2], 0, "{way}: a thread");
            assert_eq!(number(stage("loaded:"), "descriptors"), number(stage("destroyed:"), "descriptors"), "{way}");
            assert_eq!(number(stage("forwarded:"), "code") > 0, forwarding, "{way}: the translator's code");
            assert_eq!(stage("forwarded:").contains("libhipdnn"), forwarding, "{way}");
            if !forwarding {
                assert_eq!((last[1], last[3]), (0, 0), "{way}: {finished:?}");
            }
            computed(&finished, "forward");
            assert!(finished.messages().is_empty(), "{finished:?}");
        }
    }
}

// ---- V53

#[test]
fn v53_a_gigabyte_of_address_space_is_enough() {
    for megabytes in ["3072", "1024"] {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace.jsonl");
        let finished = PROCESS.run().forwarding().env("MIOPEN_HIPDNN_TRACE", &trace).output(&["limited", megabytes]).unwrap();
        assert_eq!((finished.line("computes"), finished.line("handles")), ("computes 1", "handles 64"));
        let threads = finished.line("threads");
        // How many threads there can be is not up to the library; those that there are compute.
        assert!(number(threads, "threads") >= 100 && number(threads, "threads") == number(threads, "right"), "{threads}");
        assert!(finished.messages().is_empty());
        let routes = routes(&trace);
        assert!(routes.len() > 160 && routes.iter().all(|route| route == "hipdnn"), "{routes:?}");
    }
}

/// Where the translator or hipDNN find no room, that is said once, and nothing ends.
#[test]
fn v53_too_little_of_it_is_at_most_one_line() {
    let mut said = 0;
    for kilobytes in [1024, 1536, 2048, 2560, 3072, 4096, 8192, 65536] {
        let finished = PROCESS.run().forwarding().finish(&["little-more", &kilobytes.to_string()]).unwrap();
        assert_eq!(finished.code, Some(0), "{kilobytes}: {finished:?}");
        assert!(!finished.stderr.contains("panicked"), "{kilobytes}: {finished:?}");
        assert!(finished.messages().len() <= 1, "{kilobytes}: {finished:?}");
        said += finished.messages().len();
        if kilobytes == 65536 {
            assert_eq!((finished.line("computes"), finished.messages().len()), ("computes 1", 0));
        }
    }
    assert!(said > 0, "it never was too little");
}

// ---- V54

#[test]
fn v54_signals_are_the_programs() {
    for run in [PROCESS.run(), PROCESS.run().forwarding()] {
        let finished = run.output(&["signals"]).unwrap();
        for label in ["described", "forwarded", "thread", "destroyed"] {
            assert_eq!(finished.line(label), format!("{label}: dispositions 1 mask 1 stack 1"));
        }
        let lines = |line: &str| finished.stdout.lines().filter(|l| *l == line).count();
        assert_eq!((lines("computes 1"), lines("faults 2")), (3, 1), "{finished:?}");
    }
}

// ---- V55

#[test]
fn v55_it_cannot_be_unloaded() {
    assert!(Library::read(&shim()).unwrap().nodelete);
    for scope in ["local", "global", "deepbind"] {
        let way = format!("{scope}:{}", shim().display());
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace.jsonl");
        let finished = DYNAMIC.run().forwarding().env("MIOPEN_HIPDNN_TRACE", &trace).output(&[&way, "unload"]).unwrap();
        computed(&finished, "before");
        assert_eq!(finished.line("rounds"), "rounds 100 same 1 signals 1");
        // The same state: one plan was built, by the first call.
        let cold = trace_lines(&trace).unwrap().iter().filter(|line| line["cold"] == true).count();
        assert_eq!((cold, routes(&trace)), (1, vec!["hipdnn".to_string(); 101]), "{scope}");
        let finished = DYNAMIC.run().forwarding().output(&[&way, "unload-in-use"]).unwrap();
        assert_eq!(finished.line("failures"), "failures 0", "{scope}");
    }
}

// ---- V57

#[test]
fn v57_the_end_of_the_process_is_the_programs() {
    for forwarding in [false, true] {
        for how in ["leak", "quick", "late-forward", "late-destroy", "thread", "main-thread", "sigterm"] {
            let folder = tempfile::tempdir().unwrap();
            let (stats, backend) = (folder.path().join("stats"), folder.path().join("backend"));
            let run = if forwarding { LINKED.run().forwarding() } else { LINKED.run() };
            let run = run.env("MIOPEN_HIPDNN_STATS", &stats).env("REFERENCE_HIPDNN_LOG", &backend);
            let finished = run.finish(&["linked", &format!("exit:{how}")]).unwrap();
            let expected = if how == "sigterm" { (None, Some(15)) } else { (Some(7), None) };
            assert_eq!((finished.code, finished.signal), expected, "{how}: {finished:?}");
            computed(&finished, "before");
            match how {
                // Native's answer. Without forwarding it is native alone, which may have been used up by then.
                "late-forward" if forwarding => {
                    assert_eq!((finished.line("late"), finished.stderr.as_str()), ("late: status 0 right 1", ""));
                }
                "late-forward" => assert!(finished.line("late").starts_with("late: status "), "{finished:?}"),
                "late-destroy" => assert_eq!(finished.line("late"), "late: status 0"),
                _ => assert_eq!(finished.stderr, "", "{how}"),
            }
            let destroyed = fs::read_to_string(&backend).is_ok_and(|calls| calls.contains("hipdnnDestroy"));
            assert!(!destroyed, "{how}: hipDNN was called at the end");
            let normal = !["quick", "sigterm"].contains(&how);
            assert_eq!(stats.exists(), forwarding && normal, "{how}");
            let left = fs::read_dir(folder.path()).unwrap().count();
            assert_eq!(left, usize::from(stats.exists()) + usize::from(backend.exists()), "{how}: other files");
        }
    }
}

#[test]
fn v57_destructors_of_threads_may_call() {
    for run in [PROCESS.run(), PROCESS.run().forwarding()] {
        let folder = tempfile::tempdir().unwrap();
        let backend = folder.path().join("backend");
        let finished = run.env("REFERENCE_HIPDNN_LOG", &backend).output(&["late-thread"]).unwrap();
        assert_eq!(finished.line("late"), "late 0 0", "{finished:?}");
        assert_eq!(finished.line("again"), "again 1", "{finished:?}");
        assert_eq!(finished.stderr, "");
        let calls = fs::read_to_string(&backend).unwrap_or_default();
        let count = |name: &str| calls.lines().filter(|line| line.contains(name)).count();
        assert_eq!(count("hipdnnCreate"), count("hipdnnDestroy"), "the thread's handle is hipDNN's no more");
    }
}

// ---- V59

/// A folder with the shim, and one with a stock MIOpen.
fn private_folders() -> (TempDir, TempDir) {
    let (shims, stock) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::copy(shim(), shims.path().join("libMIOpen.so.1")).unwrap();
    fs::copy(reference("libMIOpen_private.so.1"), stock.path().join("libMIOpen.so.1")).unwrap();
    (shims, stock)
}

#[test]
fn v59_one_library_serves_however_it_is_found() {
    for (way, run, argument) in ways() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace.jsonl");
        let finished = run.forwarding().env("MIOPEN_HIPDNN_TRACE", &trace).output(&[&argument, "plain"]).unwrap();
        computed(&finished, "plain");
        assert_eq!(finished.line("serves"), format!("serves {}", shim().display()), "{way}");
        assert_eq!(routes(&trace), ["hipdnn"], "{way}");
    }
}

#[test]
fn v59_paths_in_the_program_find_it() {
    let (shims, stock) = private_folders();
    let copy = shims.path().join("libMIOpen.so.1");
    for kind in ["--disable-new-dtags", "--enable-new-dtags"] {
        let client = Client::compile_with("loading", &[&format!("-Wl,-rpath,{},{kind}", shims.path().display())]).unwrap();
        let finished = client.run().without("LD_LIBRARY_PATH").forwarding().output(&["linked", "plain"]).unwrap();
        computed(&finished, "plain");
        assert_eq!(finished.line("serves"), format!("serves {}", copy.display()), "{kind}");
        assert!(finished.line("end").contains("libhipdnn"), "{finished:?}");
        // A search path comes after DT_RPATH and before DT_RUNPATH: with the latter, a stock library in it serves, and the shim is not there.
        let finished = client.run().env("LD_LIBRARY_PATH", stock.path()).finish(&["linked", "plain"]).unwrap();
        assert_eq!(finished.line("serves").contains(shims.path().to_str().unwrap()), kind == "--disable-new-dtags", "{finished:?}");
    }
}

#[test]
fn v59_preloaded_before_a_stock_library_it_serves_and_that_is_native() {
    let (_, stock) = private_folders();
    let run = LINKED.run().forwarding().without("MIOPEN_HIPDNN_NATIVE_LIBRARY").env("LD_LIBRARY_PATH", stock.path());
    let finished = run.env("LD_PRELOAD", shim()).output(&["linked", "plain"]).unwrap();
    computed(&finished, "plain");
    assert_eq!(finished.line("serves"), format!("serves {}", shim().display()));
    assert!(finished.line("end").contains(stock.path().to_str().unwrap()), "{finished:?}");
}

// ---- V60

#[test]
fn v60_what_native_lacks_fails_alone() {
    let native = Client::compile_library("partial").unwrap();
    let run = || BARE.run().env("MIOPEN_HIPDNN_NATIVE_LIBRARY", native.file());
    for forwarding in ["0", "1"] {
        let finished = run().env("MIOPEN_HIPDNN_FORWARDING", forwarding).output(&[]).unwrap();
        assert!(finished.line("version").starts_with("version 0:"));
        assert_eq!((finished.line("create"), finished.line("text")), ("create 0", "text miopenStatusBadParm"));
        assert!(finished.messages().is_empty());
    }
    // Bound at once it cannot be loaded, as it could not be without us; then that is said, with the name of what is missing.
    let finished = run().env("LD_BIND_NOW", "1").output(&[]).unwrap();
    assert_eq!(finished.line("create"), "create 6");
    assert!(finished.messages().len() == 1 && finished.messages()[0].contains("nobody_has_this"), "{:?}", finished.messages());
}

// ---- V61

#[test]
fn v61_native_comes_from_where_hip_comes_from() {
    let (release_a, release_b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&release_a, &release_b] {
        fs::create_dir(folder.path().join("lib")).unwrap();
        fs::copy(reference("libMIOpen_private.so.1"), folder.path().join("lib/libMIOpen.so.1")).unwrap();
        fs::copy(reference("libamdhip64.so.7"), folder.path().join("lib/libamdhip64.so.7")).unwrap();
    }
    for (hips, other) in [(&release_a, &release_b), (&release_b, &release_a)] {
        let run = LINKED.run().without("MIOPEN_HIPDNN_NATIVE_LIBRARY").env("ROCM_PATH", other.path());
        let finished = run.env("LD_PRELOAD", hips.path().join("lib/libamdhip64.so.7")).output(&["linked", "plain"]).unwrap();
        computed(&finished, "plain");
        let mapped = finished.line("end");
        assert!(mapped.contains(&format!("{}/lib/libMIOpen.so.1", hips.path().display())), "{mapped}");
        assert!(!mapped.contains(other.path().to_str().unwrap()), "{mapped}");
    }
    // Without HIP it is ROCm's.
    let run = LINKED.run().without("MIOPEN_HIPDNN_NATIVE_LIBRARY").env("ROCM_PATH", release_a.path());
    let finished = run.output(&["linked", "plain"]).unwrap();
    assert!(finished.line("end").contains(release_a.path().to_str().unwrap()), "{finished:?}");
}

// ---- forks

/// Trace files of a run, one for each process.
fn traces(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "jsonl"));
    files
}

fn forked(arguments: &[&str]) -> (Finished, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let run = PROCESS.run().forwarding().env("MIOPEN_HIPDNN_TRACE", folder.path().join("%p.jsonl"));
    let finished = run.env("MIOPEN_HIPDNN_STATS", folder.path().join("stats")).output(arguments).unwrap();
    (finished, folder)
}

#[test]
fn a_child_can_be_the_first_to_use_it() {
    let (finished, folder) = forked(&["fork-first"]);
    assert_eq!((finished.line("child"), finished.line("parent")), ("child 0", "parent 1"));
    let traces = traces(folder.path());
    assert_eq!(traces.len(), 2);
    traces.iter().for_each(|trace| assert_eq!(routes(trace), ["hipdnn"]));
}

#[test]
fn a_child_starts_empty_and_forwards() {
    let (finished, folder) = forked(&["fork-after"]);
    assert_eq!((finished.line("inherited"), finished.line("child")), ("inherited 0", "child 0"));
    assert_eq!(finished.stdout.lines().filter(|line| *line == "parent 1").count(), 2);
    let mut all: Vec<Vec<String>> = traces(folder.path()).iter().map(|trace| routes(trace)).collect();
    all.sort();
    let one = |route: &str| vec![route.to_string()];
    // Parent; child with the parent's handle, whose descriptors it has not recorded; child; its child.
    assert_eq!(all, [one("hipdnn"), one("hipdnn"), [one("hipdnn"), one("hipdnn")].concat(), one("host.descriptor.unrecorded")]);
    let stats: serde_json::Value = serde_json::from_str(&fs::read_to_string(folder.path().join("stats")).unwrap()).unwrap();
    assert_eq!(stats["calls"]["miopenConvolutionForward"]["served"], 2, "a child wrote its parent's counters: {stats}");
}

#[test]
fn children_of_a_process_that_translates_and_builds_never_hang() {
    let (finished, folder) = forked(&["fork-busy", "150"]);
    assert_eq!(finished.line("good"), "good 150 of 150, built more 1", "{}", finished.stdout);
    let traces = traces(folder.path());
    assert_eq!(traces.len(), 151);
    // Unless the machine was so busy that a fork gave up waiting, which is said, all of them forward.
    let gave_up = finished.messages().len();
    let forwarded = traces.iter().filter(|trace| routes(trace).contains(&"hipdnn".to_string())).count();
    assert_eq!(forwarded + gave_up, 151);
}

#[test]
fn a_fork_may_come_while_a_thread_loads_everything() {
    for delay in (0..40).map(|step: u32| (step * step * 8).to_string()) {
        let finished = PROCESS.run().forwarding().output(&["fork-during-first", &delay]).unwrap();
        assert_eq!((finished.line("child"), finished.line("parent")), ("child 0", "parent 1"), "{delay}: {finished:?}");
    }
}

// ---- threads

#[test]
fn small_stacks_decline_and_never_overflow() {
    for kilobytes in [16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 1024] {
        let size = kilobytes.to_string();
        let off = PROCESS.run().output(&["stack", &size]).unwrap();
        assert_eq!(off.line("thread"), "thread 1", "{size}: {off:?}");
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace.jsonl");
        let on = PROCESS.run().forwarding().env("MIOPEN_HIPDNN_TRACE", &trace).output(&["stack", &size]).unwrap();
        assert_eq!(on.line("thread"), "thread 1", "{size}: {on:?}");
        assert!(number(on.line("stack"), "stack") < kilobytes << 10, "{on:?}");
        assert_eq!(routes(&trace), [if kilobytes < 160 { "host.stack" } else { "hipdnn" }], "{size}");
        // A plan that is there already needs little.
        let warm = PROCESS.run().forwarding().output(&["stack-warm", &size]).unwrap();
        assert_eq!(warm.line("thread"), "thread 1", "{size}: {warm:?}");
    }
}

#[test]
fn a_cancelled_thread_ends_outside_of_the_library() {
    // Native's own code has to be ready for cancellation itself, which is why only forwarded calls are cancelled here.
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let run = PROCESS.run().forwarding();
        let run = run.env("MIOPEN_HIPDNN_TRACE", folder.path().join("trace.jsonl")).env("MIOPEN_HIPDNN_STATS", folder.path().join("stats"));
        let finished = run.output(&["cancel"]).unwrap();
        assert_eq!(finished.line("reached"), "reached 4 cancelled 1", "{finished:?}");
        assert_eq!((finished.line("ended"), finished.line("computes")), ("ended 50", "computes 1"), "{finished:?}");
    }
}
