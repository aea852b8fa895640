//! Section E of the case list, by number: how the library comes into a process, what it does there, and how both end. Whatever may depend on
//! it is tried in every way of coming (`integration_tests::ways`). The words of V51 are also a test of `environment.rs`, the traps of V54 one
//! of the host's `translation.rs`, the installations of V60 tests of `install.rs`.
//!
//! No limits on time; a client that hangs ends itself after minutes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use integration_tests::{
    Client, Finished, Run, banner,
    elf::Library,
    reference, shim,
    stock::{Another, Stock},
    succeed, text, trace_lines,
    ways::{Way, Ways},
};
use tempfile::TempDir;

static LOADING: LazyLock<Ways> = LazyLock::new(|| Ways::of("loading").unwrap());
static PROCESS: LazyLock<Ways> = LazyLock::new(|| Ways::of("process").unwrap());
static BARE: LazyLock<Ways> = LazyLock::new(|| Ways::of("bare").unwrap());
static BACKEND: LazyLock<Client> = LazyLock::new(|| Client::compile_library("backend").unwrap());

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

/// A folder for the files of a run, and its trace file.
fn traced(run: Run) -> (Run, TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl");
    (run.env("MIOPEN_HIPDNN_TRACE", &trace), folder, trace)
}

/// Runs what only root may: says so where that cannot be, past the harness, which would keep it to itself.
fn cannot_be_tried(what: &str, why: &str) {
    let _ = std::io::stderr().write_all(format!("{what} is not tried: {why}\n").as_bytes());
}

// ---- V50

/// A hipDNN that is not as it should be: what is said, and the run that meets it.
fn flawed_backends(way: &Way<'_>, folder: &Path) -> Vec<(&'static str, Run)> {
    let garbage = folder.join("garbage.so");
    fs::write(&garbage, "not a library").unwrap();
    let run = |library: &Path| way.run().forwarding().env("MIOPEN_HIPDNN_BACKEND_LIBRARY", library);
    let bad = |name: &str, value: &str| run(&BACKEND.file()).env("BACKEND_REAL", reference("libhipdnn_backend.so")).env(name, value);
    vec![
        ("hipDNN cannot be used", way.run().forwarding().without("MIOPEN_HIPDNN_BACKEND_LIBRARY")),
        ("hipDNN cannot be used", run(Path::new("/nonexistent/libhipdnn_backend.so"))),
        ("hipDNN cannot be used", run(&garbage)),
        ("lacks hipdnnCreate", run(Path::new("libc.so.6"))),
        ("another major", bad("BACKEND_VERSION", "1.2.3.4")),
        // What an empty folder of plugins comes to, and plugins that give hipDNN no handle, or one that is null.
        ("no plugin was loaded", bad("BACKEND_ENGINES", "0")),
        ("PLUGIN_ERROR", bad("REFERENCE_HIPDNN_FAULT", "hipdnnCreate=14")),
        ("success without a handle", bad("BACKEND_NULL", "1")),
    ]
}

#[test]
fn v50_whatever_is_wrong_with_hipdnn_is_one_line_and_native() {
    assert!(Library::read(&shim()).unwrap().needed.iter().all(|name| !name.contains("hipdnn")));
    for way in LOADING.all() {
        let folder = tempfile::tempdir().unwrap();
        for (says, run) in flawed_backends(&way, folder.path()) {
            let finished = way.output(run, &["inert"]).unwrap();
            computed(&finished, "forward");
            computed(&finished, "again");
            let messages = finished.messages();
            assert!(messages.len() == 1 && messages[0].contains(says), "{}: {says}: {messages:?}", way.name);
        }
        // The same library without a flaw is used.
        let (run, _folder, trace) = traced(way.run().forwarding().env("BACKEND_REAL", reference("libhipdnn_backend.so")));
        let finished = way.output(run.env("MIOPEN_HIPDNN_BACKEND_LIBRARY", BACKEND.file()), &["inert"]).unwrap();
        computed(&finished, "forward");
        assert_eq!((finished.messages().len(), routes(&trace)), (0, vec!["hipdnn".to_string(); 2]), "{}", way.name);
    }
}

// ---- V51

#[test]
fn v51_a_word_that_means_nothing_is_one_line_and_off() {
    for way in LOADING.all() {
        for (value, on, lines) in [("Enabled", true, 0), ("", false, 0), ("off", false, 0), ("enabled,", false, 1), ("2", false, 1)] {
            let finished = way.output(way.run().env("MIOPEN_HIPDNN_FORWARDING", value), &["plain"]).unwrap();
            computed(&finished, "plain");
            assert_eq!(finished.line("end").contains("libhipdnn"), on, "{}: {value:?}", way.name);
            let messages = finished.messages();
            assert!(messages.len() == lines && messages.iter().all(|line| line.contains("MIOPEN_HIPDNN_FORWARDING")), "{messages:?}");
        }
    }
}

// ---- V52

#[test]
fn v52_the_environment_counts_as_it_was_at_the_first_call() {
    for way in LOADING.all() {
        let off = way.output(way.run(), &["environment"]).unwrap();
        let (run, _folder, trace) = traced(way.run().forwarding().env("MIOPEN_HIPDNN_FORWARDING_FUSION", "off"));
        let on = way.output(run, &["environment"]).unwrap();
        for finished in [&off, &on] {
            computed(finished, "late");
            // Deep binding hides the client's functions from the library.
            if way.name != "deepbind" {
                assert_eq!(finished.line("read"), "read 1, later 0", "{}: {finished:?}", way.name);
            }
            assert!(finished.messages().is_empty());
        }
        assert!(!off.line("end").contains("libhipdnn") && on.line("end").contains("libhipdnn"), "{}", way.name);
        // The first line of a trace says what was read, by whichever version.
        let said = banner(&trace).unwrap();
        assert_eq!(
            (&said["forwarding"], &said["shim"]),
            (&serde_json::json!(["conv", "activation"]), &env!("CARGO_PKG_VERSION").into()),
            "{}",
            way.name
        );
    }
}

/// Who asks for a trace and has forwarding off learns why there is nothing in it.
#[test]
fn v52_a_trace_without_forwarding_says_so() {
    let way = LOADING.linked();
    let (run, _folder, trace) = traced(way.run());
    computed(&way.output(run, &["plain"]).unwrap(), "plain");
    assert_eq!((banner(&trace).unwrap()["forwarding"].clone(), routes(&trace).len()), (serde_json::json!([]), 0));
    let finished = way.output(way.run().env("MIOPEN_HIPDNN_TRACE", "text").env("MIOPEN_HIPDNN_STRICT", "1"), &["plain"]).unwrap();
    let messages = finished.messages();
    assert!(messages.len() == 1 && messages[0].contains("forwarding nothing; strict; native "), "{messages:?}");
    // And without being asked to, nobody is told anything.
    assert_eq!(way.output(way.run(), &["plain"]).unwrap().stderr, "");
}

/// Nothing happens before the call that needs it.
#[test]
fn v52_loading_it_does_nothing() {
    for forwarding in [false, true] {
        for way in LOADING.all() {
            let (name, run) = (way.name, if forwarding { way.run().forwarding() } else { way.run() });
            let finished = way.output(run, &["inert"]).unwrap();
            let stage = |name: &str| {
                let line = finished.line(name);
                assert!(!line.is_empty(), "{name}: {finished:?}");
                line
            };
            let counts = |name| ["environment", "files", "threads", "mappings"].map(|word| number(stage(name), word));
            assert_eq!(counts("loaded:"), [0; 4], "{name}");
            assert!(!stage("loaded:").contains("libMIOpen_private"), "{name}: native is loaded");
            // Deep binding hides the client's functions from the library.
            if name != "deepbind" {
                assert!(counts("first call:")[0] > 10, "{name}: nothing is counted: {finished:?}");
            }
            for before in ["first call:", "described:"] {
                let line = stage(before);
                assert!(!line.contains("libhipdnn") && !line.contains("libamdhip64"), "{name}: {line}");
                assert_eq!((number(line, "code"), number(line, "tasks")), (0, 0), "{name}: {line}");
            }
            let (first, last) = (counts("first call:"), counts("destroyed:"));
            assert_eq!((first[0], first[1], first[2]), (last[0], last[1], 0), "{name}: {finished:?}");
            assert_eq!(last[2], 0, "{name}: a thread");
            assert_eq!(number(stage("loaded:"), "descriptors"), number(stage("destroyed:"), "descriptors"), "{name}");
            assert_eq!(number(stage("forwarded:"), "code") > 0, forwarding, "{name}: the translator's code");
            assert_eq!(stage("forwarded:").contains("libhipdnn"), forwarding, "{name}");
            if !forwarding {
                assert_eq!((last[1], last[3]), (0, 0), "{name}: {finished:?}");
            }
            computed(&finished, "forward");
            assert!(finished.messages().is_empty(), "{finished:?}");
        }
    }
}

// ---- V53

/// Of address space, and of memory that may be written to, which is what the kernel counts where it does not overcommit
/// (vm.overcommit_memory=2): that setting is the whole machine's, this limit one process's.
#[test]
fn v53_a_gigabyte_is_enough() {
    for way in PROCESS.all() {
        for (what, megabytes) in [("limited", "3072"), ("limited", "1024"), ("limited-data", "1024")] {
            // The C library reserves 64 MiB for each arena; how many there are is a matter of which threads meet in malloc.
            let (run, _folder, trace) = traced(way.run().forwarding().env("MALLOC_ARENA_MAX", "1"));
            let finished = way.output(run, &[what, megabytes]).unwrap();
            assert_eq!((finished.line("computes"), finished.line("handles")), ("computes 1", "handles 64"), "{}", way.name);
            let threads = finished.line("threads");
            // How many threads there can be is not up to the library; those that there are compute.
            assert!(number(threads, "threads") >= 100 && number(threads, "threads") == number(threads, "right"), "{}: {threads}", way.name);
            assert!(finished.messages().is_empty());
            let routes = routes(&trace);
            assert!(routes.len() > 160 && routes.iter().all(|route| route == "hipdnn"), "{routes:?}");
        }
    }
}

/// For one thread with 64 handles an eighth of that is. More threads may use up the heap then, which ends a process, with the shim and without
/// it (each has an arena of the C library's, and native's memory): nothing is said of how those fare.
#[test]
fn v53_an_eighth_of_it_is_enough_for_one_thread() {
    for way in PROCESS.all() {
        let finished = way.finish(way.run().forwarding(), &["limited", "128"]).unwrap();
        assert_eq!((finished.line("computes"), finished.line("handles")), ("computes 1", "handles 64"), "{}: {finished:?}", way.name);
        assert!(finished.messages().is_empty(), "{finished:?}");
    }
}

/// Where the translator or hipDNN find no room, that is said once, and nothing ends.
#[test]
fn v53_too_little_of_it_is_at_most_one_line() {
    let (way, mut said) = (PROCESS.linked(), 0);
    for kilobytes in [1024, 1536, 2048, 2560, 3072, 4096, 8192, 65536] {
        let finished = way.finish(way.run().forwarding(), &["little-more", &kilobytes.to_string()]).unwrap();
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
    for way in PROCESS.all() {
        for run in [way.run(), way.run().forwarding()] {
            let finished = way.output(run, &["signals"]).unwrap();
            for label in ["described", "forwarded", "thread", "destroyed"] {
                assert_eq!(finished.line(label), format!("{label}: dispositions 1 mask 1 stack 1"), "{}", way.name);
            }
            let lines = |line: &str| finished.stdout.lines().filter(|l| *l == line).count();
            assert_eq!((lines("computes 1"), lines("faults 2")), (3, 1), "{}: {finished:?}", way.name);
        }
    }
}

// ---- V55

#[test]
fn v55_it_cannot_be_unloaded() {
    assert!(Library::read(&shim()).unwrap().nodelete);
    for way in LOADING.all() {
        let (run, _folder, trace) = traced(way.run().forwarding());
        let finished = way.output(run, &["unload"]).unwrap();
        computed(&finished, "before");
        assert_eq!(finished.line("rounds"), "rounds 100 same 1 signals 1", "{}", way.name);
        // The same state: one plan was built, by the first call.
        let cold = trace_lines(&trace).unwrap().iter().filter(|line| line["cold"] == true).count();
        assert_eq!((cold, routes(&trace)), (1, vec!["hipdnn".to_string(); 101]), "{}", way.name);
        let finished = way.output(way.run().forwarding(), &["unload-in-use"]).unwrap();
        assert_eq!(finished.line("failures"), "failures 0", "{}", way.name);
    }
}

// ---- V57

#[test]
fn v57_the_end_of_the_process_is_the_programs() {
    for way in LOADING.all() {
        for forwarding in [false, true] {
            for how in ["leak", "quick", "late-forward", "late-destroy", "thread", "main-thread", "sigterm"] {
                ends_as_it_should(&way, forwarding, how);
            }
        }
    }
}

fn ends_as_it_should(way: &Way<'_>, forwarding: bool, how: &str) {
    let name = format!("{}, forwarding {forwarding}, {how}", way.name);
    let folder = tempfile::tempdir().unwrap();
    let (stats, backend) = (folder.path().join("stats"), folder.path().join("backend"));
    let run = if forwarding { way.run().forwarding() } else { way.run() };
    let run = run.env("MIOPEN_HIPDNN_STATS", &stats).env("REFERENCE_HIPDNN_LOG", &backend);
    let finished = way.finish(run, &[&format!("exit:{how}")]).unwrap();
    let expected = if how == "sigterm" { (None, Some(15)) } else { (Some(7), None) };
    assert_eq!((finished.code, finished.signal), expected, "{name}: {finished:?}");
    computed(&finished, "before");
    match how {
        // Native's answer. Without forwarding it is native alone, which may have been used up by then.
        "late-forward" if forwarding => {
            assert_eq!((finished.line("late"), finished.stderr.as_str()), ("late: status 0 right 1", ""), "{name}");
        }
        "late-forward" => assert!(finished.line("late").starts_with("late: status "), "{name}: {finished:?}"),
        "late-destroy" => assert_eq!(finished.line("late"), "late: status 0", "{name}"),
        _ => assert_eq!(finished.stderr, "", "{name}"),
    }
    let destroyed = fs::read_to_string(&backend).is_ok_and(|calls| calls.contains("hipdnnDestroy"));
    assert!(!destroyed, "{name}: hipDNN was called at the end");
    let normal = !["quick", "sigterm"].contains(&how);
    assert_eq!(stats.exists(), forwarding && normal, "{name}");
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, usize::from(stats.exists()) + usize::from(backend.exists()), "{name}: other files");
}

#[test]
fn v57_destructors_of_threads_may_call() {
    for way in PROCESS.all() {
        for run in [way.run(), way.run().forwarding()] {
            let folder = tempfile::tempdir().unwrap();
            let backend = folder.path().join("backend");
            let finished = way.output(run.env("REFERENCE_HIPDNN_LOG", &backend), &["late-thread"]).unwrap();
            assert_eq!(finished.line("late"), "late 0 0", "{}: {finished:?}", way.name);
            assert_eq!(finished.line("again"), "again 1", "{}: {finished:?}", way.name);
            assert_eq!(finished.stderr, "");
            let calls = fs::read_to_string(&backend).unwrap_or_default();
            let count = |name: &str| calls.lines().filter(|line| line.contains(name)).count();
            assert_eq!(count("hipdnnCreate"), count("hipdnnDestroy"), "the thread's handle is hipDNN's no more");
        }
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
    for way in LOADING.all() {
        let (run, _folder, trace) = traced(way.run().forwarding());
        let finished = way.output(run, &["plain"]).unwrap();
        computed(&finished, "plain");
        assert_eq!(finished.line("serves"), format!("serves {}", shim().display()), "{}", way.name);
        assert_eq!(routes(&trace), ["hipdnn"], "{}", way.name);
    }
}

#[test]
fn v59_two_consumers_share_one_state() {
    for scope in ["local", "deepbind"] {
        let way = LOADING.opened(scope);
        let (run, _folder, trace) = traced(way.run().forwarding());
        let finished = way.output(run, &["second"]).unwrap();
        computed(&finished, "first");
        computed(&finished, "second");
        assert_eq!(finished.line("same"), "same 1", "{scope}");
        let cold: Vec<bool> = trace_lines(&trace).unwrap().iter().map(|line| line["cold"] == true).collect();
        assert_eq!(cold, [true, false], "{scope}: the second one began anew");
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
        assert_eq!(finished.line("serves").contains(text(shims.path())), kind == "--disable-new-dtags", "{finished:?}");
    }
}

#[test]
fn v59_preloaded_before_a_stock_library_it_serves_and_that_is_native() {
    let (_, stock) = private_folders();
    let way = LOADING.linked();
    let run = way.run().forwarding().without("MIOPEN_HIPDNN_NATIVE_LIBRARY").env("LD_LIBRARY_PATH", stock.path());
    let finished = way.output(run.env("LD_PRELOAD", shim()), &["plain"]).unwrap();
    computed(&finished, "plain");
    assert_eq!(finished.line("serves"), format!("serves {}", shim().display()));
    assert!(finished.line("end").contains(text(stock.path())), "{finished:?}");
}

/// A set-uid program, run by somebody else: the loader drops search paths, the shim reads no path from the environment, and what else it is
/// told counts. It then uses what lies beside it.
#[test]
fn v59_a_set_uid_program_takes_no_paths_from_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    if fs::metadata(folder.path()).unwrap().uid() != 0 {
        return cannot_be_tried("V59, a set-uid program", "only root can give a program away");
    }
    let file = |name: &str| folder.path().join(name);
    let rights = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    rights(folder.path(), 0o755);
    fs::copy(shim(), file("libMIOpen.so.1")).unwrap();
    fs::copy(reference("libMIOpen_private.so.1"), file("libMIOpen_private.so.1")).unwrap();
    let client = Client::compile_with("loading", &[&format!("-Wl,-rpath,{}", folder.path().display())]).unwrap();
    fs::copy(client.file(), file("program")).unwrap();
    fs::create_dir(file("writable")).unwrap();
    rights(&file("writable"), 0o777);
    let (trace, stats) = (file("writable/trace.jsonl"), file("writable/stats"));
    let run = |mode: u32| {
        rights(&file("program"), mode);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(file("program")).args(["linked", "plain"]);
        command.env("MIOPEN_HIPDNN_FORWARDING", "1").env("MIOPEN_HIPDNN_TRACE", &trace).env("MIOPEN_HIPDNN_STATS", &stats);
        command.env("MIOPEN_HIPDNN_NATIVE_LIBRARY", file("libMIOpen_private.so.1"));
        command.env("MIOPEN_HIPDNN_BACKEND_LIBRARY", "/nonexistent/backend").env("MIOPEN_HIPDNN_HIP_LIBRARY", "/nonexistent/hip");
        Finished::from(command.output().unwrap())
    };
    // As any program, it goes by all of that.
    let plain = run(0o755);
    computed(&plain, "plain");
    assert_eq!((plain.line("secure"), trace.exists(), stats.exists()), ("secure 0", true, true), "{plain:?}");
    assert!(plain.messages()[0].contains("/nonexistent/hip"), "{plain:?}");
    [&trace, &stats].into_iter().for_each(|written| fs::remove_file(written).unwrap());
    let secure = run(0o4755);
    if secure.line("secure") == "secure 0" {
        return cannot_be_tried("V59, a set-uid program", "this system takes no notice of the bit");
    }
    computed(&secure, "plain");
    assert_eq!(secure.line("serves"), format!("serves {}", file("libMIOpen.so.1").display()));
    assert_eq!((trace.exists(), stats.exists()), (false, false), "{secure:?}");
    // Forwarding was asked for, and neither HIP nor hipDNN is where the system looks.
    let messages = secure.messages();
    assert!(messages.len() == 1 && !messages[0].contains("/nonexistent"), "{messages:?}");
}

// ---- V60

#[test]
fn v60_what_native_lacks_fails_alone() {
    let native = Client::compile_library("partial").unwrap();
    for way in BARE.all() {
        let run = || way.run().env("MIOPEN_HIPDNN_NATIVE_LIBRARY", native.file());
        for forwarding in ["0", "1"] {
            let finished = way.output(run().env("MIOPEN_HIPDNN_FORWARDING", forwarding), &[]).unwrap();
            assert!(finished.line("version").starts_with("version 0:"), "{}", way.name);
            assert_eq!((finished.line("create"), finished.line("text")), ("create 0", "text miopenStatusBadParm"), "{}", way.name);
            assert!(finished.messages().is_empty());
        }
        // Bound at once it cannot be loaded, as it could not be without us; then that is said, with the name of what is missing.
        let finished = way.output(run().env("LD_BIND_NOW", "1"), &[]).unwrap();
        assert_eq!(finished.line("create"), "create 6", "{}", way.name);
        let messages = finished.messages();
        assert!(messages.len() == 1 && messages[0].contains("nobody_has_this"), "{}: {messages:?}", way.name);
    }
}

/// A native under the name that installing gives it, alone in a folder: then its own functions are called, whatever its dependencies have.
fn installed(stock: &Stock) -> TempDir {
    let (native, prefix, folder) = (stock.library(), stock.root().join("prefix"), tempfile::tempdir().unwrap());
    succeed(&["install", "--native", text(&native), "--prefix", text(&prefix)]);
    fs::copy(prefix.join("lib/libMIOpen_native.so.1"), folder.path().join("libMIOpen_native.so.1")).unwrap();
    folder
}

/// A native of another release than the list was made from: with a function fewer, which then fails alone, and with one more, which the shim
/// need not know to leave alone.
#[test]
fn v60_a_native_may_have_a_function_fewer_or_more() {
    let fewer = Stock::other(&Another { without: &["miopenConvolutionForward"], ..Another::default() }).unwrap();
    let more = Stock::other(&Another { with: &["miopenBrandNew"], ..Another::default() }).unwrap();
    let [of_fewer, of_more] = [&fewer, &more].map(installed);
    for way in LOADING.all() {
        let run = |native: &TempDir| way.run_with(native.path()).without("MIOPEN_HIPDNN_NATIVE_LIBRARY");
        let finished = way.output(run(&of_fewer), &["plain"]).unwrap();
        assert_eq!(finished.line("plain"), "plain: status 6 right 0", "{}", way.name);
        // What hipDNN computes needs no native.
        computed(&way.output(run(&of_fewer).forwarding(), &["plain"]).unwrap(), "plain");
        computed(&way.output(run(&of_more), &["plain"]).unwrap(), "plain");
    }
    // Installed, the new function reaches native: the shim was not built for it, and does not stand in its way.
    let source = more.root().join("new.c");
    let body = "int miopenBrandNew(void);\nint main(void) { return miopenCreate(0) && miopenBrandNew() == 42 ? 0 : 1; }\n";
    fs::write(&source, format!("#include <miopen/miopen.h>\n{body}")).unwrap();
    let client = Client::compile_source(&source, more.root(), &[]).unwrap();
    let run = client.run().without("MIOPEN_HIPDNN_NATIVE_LIBRARY").env("LD_LIBRARY_PATH", more.root().join("prefix/lib"));
    run.output(&[]).unwrap();
    // Before the one that lacks a function, programs would miss nothing: whoever calls it gets a status, as from the shim alone.
    succeed(&["install", "--check", "--native", text(&fewer.library())]);
}

// ---- V61

/// Two releases of ROCm: native and HIP in each, and what a tree says of itself.
fn releases() -> [TempDir; 2] {
    [("7.0.2", ""), ("7.1.0", "")].map(|(release, _)| {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("lib")).unwrap();
        fs::create_dir_all(folder.path().join(".info")).unwrap();
        fs::write(folder.path().join(".info/version"), format!("{release}\n")).unwrap();
        fs::copy(reference("libMIOpen_private.so.1"), folder.path().join("lib/libMIOpen.so.1")).unwrap();
        fs::copy(reference("libamdhip64.so.7"), folder.path().join("lib/libamdhip64.so.7")).unwrap();
        folder
    })
}

/// A run with the HIP runtime of one release loaded, and the other release where ROCm is.
fn between(way: &Way<'_>, hips: &TempDir, other: &TempDir) -> Run {
    let hip = hips.path().join("lib/libamdhip64.so.7");
    let preloaded = if way.preloads() { format!("{}:{}", shim().display(), hip.display()) } else { text(&hip).to_string() };
    way.run().without("MIOPEN_HIPDNN_NATIVE_LIBRARY").env("ROCM_PATH", other.path()).env("LD_PRELOAD", preloaded)
}

#[test]
fn v61_native_comes_from_where_hip_comes_from() {
    let [release_a, release_b] = releases();
    for way in LOADING.all() {
        for (hips, other) in [(&release_a, &release_b), (&release_b, &release_a)] {
            let finished = way.output(between(&way, hips, other).forwarding(), &["plain"]).unwrap();
            computed(&finished, "plain");
            let mapped = finished.line("end");
            assert!(mapped.contains(&format!("{}/lib/libMIOpen.so.1", hips.path().display())), "{}: {mapped}", way.name);
            assert!(!mapped.contains(text(other.path())) && mapped.contains("libhipdnn"), "{}: {mapped}", way.name);
            assert!(finished.messages().is_empty(), "{finished:?}");
        }
        // Without HIP it is ROCm's.
        let run = way.run().without("MIOPEN_HIPDNN_NATIVE_LIBRARY").env("ROCM_PATH", release_a.path());
        let finished = way.output(run, &["plain"]).unwrap();
        assert!(finished.line("end").contains(text(release_a.path())), "{finished:?}");
    }
}

/// Where native can only be had from another release than HIP's, that is one line with both paths, and nothing is forwarded; unless somebody
/// says that it is meant.
#[test]
fn v61_halves_of_two_releases_are_told_and_not_forwarded() {
    let [release_a, release_b] = releases();
    fs::remove_file(release_a.path().join("lib/libMIOpen.so.1")).unwrap();
    let native = release_b.path().join("lib/libMIOpen.so.1");
    for way in LOADING.all() {
        let finished = way.output(between(&way, &release_a, &release_b).forwarding(), &["plain"]).unwrap();
        computed(&finished, "plain");
        let messages = finished.messages();
        let both = |line: &str| line.contains(text(&native)) && line.contains(text(release_a.path())) && line.contains("7.0.2");
        assert!(messages.len() == 1 && both(messages[0]), "{}: {messages:?}", way.name);
        assert!(!finished.line("end").contains("libhipdnn"), "{}", way.name);
        let meant = between(&way, &release_a, &release_b).forwarding().env("MIOPEN_HIPDNN_NATIVE_LIBRARY", &native);
        let finished = way.output(meant, &["plain"]).unwrap();
        assert!(finished.messages().is_empty() && finished.line("end").contains("libhipdnn"), "{}: {finished:?}", way.name);
        // Without forwarding it is none of the shim's business.
        assert_eq!(way.output(between(&way, &release_a, &release_b), &["plain"]).unwrap().stderr, "", "{}", way.name);
    }
}

/// What a native says about its version decides nothing: functions are found by name, and releases by trees.
#[test]
fn v61_the_version_that_native_reports_is_not_looked_at() {
    for version in [[3, 9, 0], [4, 0, 0], [2, 20, 0]] {
        let native = Stock::other(&Another { version: Some(version), ..Another::default() }).unwrap();
        let native = installed(&native);
        for way in LOADING.all() {
            let run = way.run_with(native.path()).forwarding().without("MIOPEN_HIPDNN_NATIVE_LIBRARY");
            let finished = way.output(run, &["inert"]).unwrap();
            computed(&finished, "forward");
            assert_eq!(
                finished.line("version"),
                format!("version: status 0, {}.{}.{}", version[0], version[1], version[2]),
                "{}",
                way.name
            );
            assert!(finished.messages().is_empty() && finished.line("destroyed").contains("libhipdnn"), "{}: {finished:?}", way.name);
        }
    }
}

/// hipDNN as a file with a version in its name, without the link that the loader looks for.
#[test]
fn v61_a_versioned_file_without_its_link_is_found() {
    let rocm = tempfile::tempdir().unwrap();
    let lib = rocm.path().join("lib");
    fs::create_dir(&lib).unwrap();
    let newest = lib.join("libhipdnn_backend.so.0.12.1");
    fs::copy(reference("libhipdnn_backend.so"), &newest).unwrap();
    // Not text comparison, and nothing but versions.
    for other in ["libhipdnn_backend.so.0.9", "libhipdnn_backend.so.0.12.1.debug"] {
        fs::write(lib.join(other), "not a library").unwrap();
    }
    for way in LOADING.all() {
        let run = || way.run().forwarding().without("MIOPEN_HIPDNN_BACKEND_LIBRARY").env("ROCM_PATH", rocm.path());
        let finished = way.output(run(), &["plain"]).unwrap();
        computed(&finished, "plain");
        assert!(finished.messages().is_empty() && finished.line("end").contains(text(&newest)), "{}: {finished:?}", way.name);
    }
    // A link is the loader's, and wins.
    let linked = tempfile::tempdir().unwrap();
    symlink(reference("libhipdnn_backend.so"), linked.path().join("libhipdnn_backend.so")).unwrap();
    let way = LOADING.linked();
    let path = format!("{}:{}", shim().parent().unwrap().display(), linked.path().display());
    let run = way.run().forwarding().without("MIOPEN_HIPDNN_BACKEND_LIBRARY").env("ROCM_PATH", rocm.path()).env("LD_LIBRARY_PATH", path);
    let finished = way.output(run, &["plain"]).unwrap();
    assert!(!finished.line("end").contains(text(&newest)) && finished.line("end").contains("libhipdnn"), "{finished:?}");
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
    let way = PROCESS.linked();
    let run = way.run().forwarding().env("MIOPEN_HIPDNN_TRACE", folder.path().join("%p.jsonl"));
    let finished = way.output(run.env("MIOPEN_HIPDNN_STATS", folder.path().join("stats")), arguments).unwrap();
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
    // Unless the machine was so busy that a fork gave up waiting, which is said, and whose child traces nothing, all of them forward.
    let gave_up = finished.messages().len();
    assert!(gave_up < 15, "{}", finished.stderr);
    assert_eq!(traces.len() + gave_up, 151);
    assert!(traces.iter().all(|trace| routes(trace).contains(&"hipdnn".to_string())));
}

#[test]
fn a_fork_may_come_while_a_thread_loads_everything() {
    for delay in (0..40).map(|step: u32| (step * step * 8).to_string()) {
        let way = PROCESS.linked();
        let finished = way.output(way.run().forwarding(), &["fork-during-first", &delay]).unwrap();
        assert_eq!((finished.line("child"), finished.line("parent")), ("child 0", "parent 1"), "{delay}: {finished:?}");
    }
}

// ---- threads

#[test]
fn small_stacks_decline_and_never_overflow() {
    let way = PROCESS.linked();
    for kilobytes in [16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 1024] {
        let size = kilobytes.to_string();
        let off = way.output(way.run(), &["stack", &size]).unwrap();
        assert_eq!(off.line("thread"), "thread 1", "{size}: {off:?}");
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace.jsonl");
        let run = way.run().forwarding().env("MIOPEN_HIPDNN_TRACE", &trace).env("MIOPEN_HIPDNN_STATS", folder.path().join("stats"));
        let on = way.output(run, &["stack", &size]).unwrap();
        assert_eq!(on.line("thread"), "thread 1", "{size}: {on:?}");
        assert!(number(on.line("stack"), "stack") < kilobytes << 10, "{on:?}");
        assert_eq!(routes(&trace), [if kilobytes < 160 { "host.stack" } else { "hipdnn" }], "{size}");
        // A plan that is there already needs little.
        let warm = way.output(way.run().forwarding(), &["stack-warm", &size]).unwrap();
        assert_eq!(warm.line("thread"), "thread 1", "{size}: {warm:?}");
    }
}

#[test]
fn a_cancelled_thread_ends_outside_of_the_library() {
    // Native's own code has to be ready for cancellation itself, which is why only forwarded calls are cancelled here.
    let way = PROCESS.linked();
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let run = way.run().forwarding();
        let run = run.env("MIOPEN_HIPDNN_TRACE", folder.path().join("trace.jsonl")).env("MIOPEN_HIPDNN_STATS", folder.path().join("stats"));
        let finished = way.output(run, &["cancel"]).unwrap();
        assert_eq!(finished.line("reached"), "reached 4 cancelled 1", "{finished:?}");
        assert_eq!((finished.line("ended"), finished.line("computes")), ("ended 50", "computes 1"), "{finished:?}");
    }
}
