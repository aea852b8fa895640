//! Every style of convolution calls, as frameworks make them, with forwarding off and on: C programs that know only MIOpen.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{fs, path::Path, sync::LazyLock};

use integration_tests::{
    Client,
    pair::{
        Pair, Ran,
        Route::{self, Hipdnn, Native},
        run, with_hip,
    },
};

static CLASSIC: LazyLock<Client> = LazyLock::new(|| Client::compile("find").unwrap());
static IMMEDIATE: LazyLock<Client> = LazyLock::new(|| Client::compile("immediate").unwrap());
static FIND2: LazyLock<Client> = LazyLock::new(|| Client::compile("find2").unwrap());
static FUSION: LazyLock<Client> = LazyLock::new(|| Client::compile("fusion").unwrap());

/// The functions of each style that native would be asked by, and those that execute.
const FIND: &[&str] = &[
    "miopenFindConvolutionForwardAlgorithm",
    "miopenFindConvolutionBackwardDataAlgorithm",
    "miopenFindConvolutionBackwardWeightsAlgorithm",
];
const STEP: &[&str] = &["miopenConvolutionForward", "miopenConvolutionBackwardData", "miopenConvolutionBackwardWeights"];
const SOLVE: &[&str] =
    &["miopenConvolutionForwardImmediate", "miopenConvolutionBackwardDataImmediate", "miopenConvolutionBackwardWeightsImmediate"];
const RUN: &[&str] = &["miopenRunSolution"];
const COMPILE: &[&str] = &["miopenCompileFusionPlan"];
const EXECUTE: &[&str] = &["miopenExecuteFusionPlan"];
const EXECUTE_V2: &[&str] = &["miopenExecuteFusionPlan_v2"];
const FUSED: &[&str] = &["miopenConvolutionBiasActivationForward"];

/// Three problems in three directions.
const CASES: usize = 9;
/// Problems of the fused styles, which have one direction.
const PROBLEMS: usize = 3;
/// `miopenConvolution…AlgoImplicitGEMM`, which stands for hipDNN, and `…Direct`, which is the reference native's.
const IMPLICIT_GEMM: u64 = 5;
const DIRECT: &str = "1";
/// Numbers of hipDNN's solutions.
const RESERVED: std::ops::RangeInclusive<u64> = 0x6869_7044_4E4E_0000..=0x6869_7044_4E4E_FFFF;

/// Native executes only what its own Find listed on the handle, like the real one. It cannot serve where a program does without Find.
const STRICT_FIND: (&str, &str) = ("REFERENCE_MIOPEN_STRICT_FIND", "1");

fn pair(client: &Client, arguments: &[&str]) -> Pair {
    Pair::run(client, arguments, &[]).unwrap()
}

/// The first result is hipDNN's in every case.
fn finds_hipdnn(ran: &Ran) {
    let found = ran.numbers("perf");
    assert!(found.len() == CASES && found.iter().all(|result| result[0] == IMPLICIT_GEMM), "{found:?}");
}

/// Native executes nothing of which it was not asked by Find before: the real one would not know an algorithm. Every case makes two steps.
fn native_finds_before_it_steps(ran: &Ran) {
    for (find, step) in FIND.iter().zip(STEP) {
        let (mut found, mut stepped) = (0, 0);
        for call in &ran.native {
            found += usize::from(call == find);
            stepped += usize::from(call == step);
            assert!(stepped <= 2 * found, "{step} without {find}");
        }
    }
}

// Classic, with Find.

#[test]
fn find_names_hipdnn_and_the_step_is_hipdnns() {
    for what in ["plain", "benchmark"] {
        let pair = pair(&CLASSIC, &[what]);
        pair.same(2 * CASES);
        pair.on.went(FIND, CASES, Hipdnn);
        pair.on.went(STEP, 2 * CASES, Hipdnn);
        finds_hipdnn(&pair.on);
        assert_eq!((pair.off.natives(FIND), pair.on.natives(FIND), pair.on.natives(STEP)), (CASES, 0, 0), "{what}");
    }
}

#[test]
fn find_may_ask_both() {
    let pair = Pair::run(&CLASSIC, &["plain"], &[("MIOPEN_HIPDNN_FIND", "both")]).unwrap();
    pair.same(2 * CASES);
    finds_hipdnn(&pair.on);
    pair.on.went(STEP, 2 * CASES, Hipdnn);
    assert_eq!((pair.on.natives(FIND), pair.on.natives(STEP)), (CASES, 0));
}

#[test]
fn a_longer_list_begins_with_hipdnn_and_is_no_longer_than_natives() {
    let pair = pair(&CLASSIC, &["request4"]);
    for (on, off) in pair.on.numbers("count").iter().zip(pair.off.numbers("count")) {
        assert!(on[0] <= off[0], "{on:?} {off:?}");
    }
    let listed: u64 = pair.on.numbers("count").iter().map(|count| count[0]).sum();
    pair.on.all_right(2 * listed as usize);
    let found = pair.on.numbers("perf");
    assert_eq!(found.iter().filter(|result| result[0] == IMPLICIT_GEMM).count(), CASES, "{found:?}");
    let (served, native): (Vec<_>, Vec<_>) = pair.on.routed(STEP).into_iter().partition(|line| line.route == "hipdnn");
    assert_eq!(served.len(), 2 * CASES);
    assert!(native.iter().all(|line| line.rule == "host.policy.native-algorithm"), "{native:?}");
}

#[test]
fn an_algorithm_that_native_listed_stays_natives() {
    let pair = Pair::run(&CLASSIC, &["algorithm", DIRECT], &[STRICT_FIND]).unwrap();
    pair.same(2 * CASES);
    pair.on.went(STEP, 2 * CASES, Native("host.policy.native-algorithm"));
    native_finds_before_it_steps(&pair.on);
}

#[test]
fn too_little_workspace_is_hipdnns_own_matter() {
    for what in ["noworkspace", "short", "misaligned,noworkspace"] {
        let pair = pair(&CLASSIC, &[what]);
        pair.same(2 * CASES);
        pair.on.went(STEP, 2 * CASES, Hipdnn);
    }
}

#[test]
fn a_step_without_find_is_hipdnns() {
    let pair = pair(&CLASSIC, &["nofind"]);
    pair.same(CASES);
    pair.on.went(STEP, CASES, Hipdnn);
    assert_eq!(pair.on.natives(STEP), 0);
}

#[test]
fn what_find_declines_is_natives_to_the_end() {
    let pair = Pair::run(&CLASSIC, &["deterministic"], &[STRICT_FIND]).unwrap();
    pair.same(2 * CASES);
    assert_eq!(pair.on.numbers("perf"), pair.off.numbers("perf"));
    pair.on.went(FIND, CASES, Native("conv.attribute.deterministic"));
    pair.on.went(STEP, 2 * CASES, Native(""));
    native_finds_before_it_steps(&pair.on);
}

#[test]
fn tensors_that_find_has_not_seen() {
    let moved = Pair::run(&CLASSIC, &["misaligned"], &[STRICT_FIND]).unwrap();
    moved.same(2 * CASES);
    moved.on.went(STEP, 2 * CASES, Hipdnn);
}

#[test]
fn a_step_declined_after_find_is_found_by_native_first() {
    let shared = Pair::run(&CLASSIC, &["shared"], &[STRICT_FIND]).unwrap();
    shared.same(2 * CASES);
    finds_hipdnn(&shared.on);
    shared.on.went(STEP, 2 * CASES, Native("host.aliasing"));
    native_finds_before_it_steps(&shared.on);
    // Put off, it is made up for once; what was found need not be found again.
    assert_eq!(shared.on.natives(FIND), CASES);
    for (what, both) in [("shared,request4", ""), ("shared", "both")] {
        let shared = Pair::run(&CLASSIC, &[what], &[("MIOPEN_HIPDNN_FIND", both), STRICT_FIND]).unwrap();
        shared.same(2 * CASES);
        assert_eq!(shared.on.natives(FIND), CASES, "{what} {both}");
        native_finds_before_it_steps(&shared.on);
    }
}

/// The plan of Find is built; that of other addresses, the second, is refused, and every one after it.
#[test]
fn an_engine_refused_after_find() {
    let fault = ("REFERENCE_HIPDNN_FAULT", "hipdnnBackendFinalize@EXECUTION_PLAN:2=8");
    let pair = Pair::run(&CLASSIC, &["misaligned"], &[fault, STRICT_FIND]).unwrap();
    pair.same(2 * CASES);
    assert_eq!(pair.on.routed(FIND)[0].route, "hipdnn");
    pair.on.went(STEP, 2 * CASES, Native("host."));
    assert_eq!(pair.on.routed(STEP)[0].rule, "host.backend.unsupported");
    native_finds_before_it_steps(&pair.on);
}

#[test]
fn the_first_step_after_find_may_be_captured() {
    let hip = with_hip();
    for what in ["captured", "captured,noworkspace"] {
        let pair = Pair::run(&CLASSIC, &[what], &[("LD_LIBRARY_PATH", &hip), STRICT_FIND]).unwrap();
        pair.on.all_right(2 * CASES);
        pair.on.went(STEP, CASES, Hipdnn);
    }
}

/// Native's search is put off, so what it says of a null pointer has to be asked for; and a search that such a call made fail is none.
#[test]
fn a_step_without_an_argument_is_refused_as_by_native_and_harms_no_later_one() {
    for lacking in ["noinput", "nooutput", "noalpha"] {
        let plain = Pair::run(&CLASSIC, &[lacking], &[STRICT_FIND]).unwrap();
        plain.same(2 * CASES);
        assert!(plain.on.lines("untouched").iter().all(|line| *line == "untouched 1"), "{lacking}");
        let statuses = plain.on.lines("status");
        assert_eq!(statuses.iter().filter(|line| **line == "status 3, forwarded error 0").count(), CASES, "{lacking}: {statuses:?}");
        let shared = Pair::run(&CLASSIC, &[&format!("{lacking},shared")], &[STRICT_FIND]).unwrap();
        shared.same(2 * CASES);
        let declined = shared.on.routed(STEP).iter().filter(|line| line.rule == "host.aliasing").count();
        assert_eq!(declined, 2 * CASES, "{lacking}");
    }
}

/// Where the plan cannot be built when the query comes, native's answer is enough, and the next call may build it.
#[test]
fn a_workspace_query_whose_plan_cannot_be_built_is_natives() {
    const QUERY: &str = "miopenConvolutionForwardGetWorkSpaceSize";
    let folder = tempfile::tempdir().unwrap();
    let stats = folder.path().join("stats");
    let fault = ("REFERENCE_HIPDNN_FAULT", "hipdnnBackendFinalize@ENGINEHEUR:1!=INTERNAL_ERROR");
    let pair = Pair::run(&CLASSIC, &["plain"], &[fault, ("MIOPEN_HIPDNN_STATS", stats.to_str().unwrap())]).unwrap();
    pair.same(2 * CASES);
    assert_eq!(pair.on.lines("bytes")[0], pair.off.lines("bytes")[0]);
    let queries = pair.on.routed(&[QUERY]);
    assert_eq!((queries[0].route.as_str(), queries[0].rule.as_str()), ("native", "host.backend.build-failed"));
    assert!(queries[1..].iter().all(|query| query.route == "hipdnn"), "{queries:?}");
    pair.on.went(STEP, 2 * CASES, Hipdnn);
    let stats: serde_json::Value = serde_json::from_str(&fs::read_to_string(stats).unwrap()).unwrap();
    let calls = stats["calls"].as_object().unwrap();
    assert_eq!(calls[QUERY]["declined"]["host.backend.build-failed"], 1, "{stats}");
    assert!(calls.values().all(|call| call["failed"] == 0), "{stats}");
}

#[test]
fn a_handle_that_has_found_nothing() {
    let pair = pair(&CLASSIC, &["other-handle"]);
    pair.same(4 * CASES);
    pair.on.went(STEP, 4 * CASES, Hipdnn);
}

/// Find must not name what the step may not run.
#[test]
fn a_step_that_is_switched_off_takes_its_find_along() {
    let pair = Pair::run(&CLASSIC, &["plain"], &[("MIOPEN_DISABLE_HIPDNN_FOR", STEP[0])]).unwrap();
    pair.same(2 * CASES);
    assert_eq!((pair.on.natives(&FIND[..1]), pair.on.natives(&STEP[..1])), (PROBLEMS, 2 * PROBLEMS));
    native_finds_before_it_steps(&pair.on);
    let other = |ran: &Ran| ran.numbers("perf").iter().filter(|result| result[0] == IMPLICIT_GEMM).count();
    assert_eq!(other(&pair.on), CASES - PROBLEMS);
}

// Immediate mode.

/// Numbers of the solutions that were listed.
fn listed(ran: &Ran) -> Vec<u64> {
    ran.numbers("solution").iter().map(|solution| solution[0]).collect()
}

/// A solution of hipDNN's and of native's.
fn ids() -> (String, String) {
    let pair = pair(&IMMEDIATE, &["all"]);
    (listed(&pair.on)[0].to_string(), listed(&pair.off)[0].to_string())
}

#[test]
fn the_first_solution_is_hipdnns() {
    for (what, runs) in [("all", 2), ("max1", 2), ("many", 2), ("uncompiled", 2), ("misaligned", 2), ("other-handle", 4)] {
        let pair = pair(&IMMEDIATE, &[what]);
        pair.same(runs * CASES);
        assert!(listed(&pair.on).iter().all(|id| RESERVED.contains(id)), "{what}: {:x?}", listed(&pair.on));
        pair.on.went(SOLVE, runs * CASES, Hipdnn);
        assert_eq!(pair.on.natives(SOLVE), 0, "{what}");
    }
}

#[test]
fn there_are_never_more_solutions_than_natives() {
    let pair = pair(&IMMEDIATE, &["all"]);
    for word in ["count", "listed"] {
        for (on, off) in pair.on.numbers(word).iter().zip(pair.off.numbers(word)) {
            assert!(on.first() <= off.first(), "{word}: {on:?} {off:?}");
        }
    }
}

/// XLA keeps numbers across processes.
#[test]
fn a_stored_number_leads_to_its_library() {
    let (hipdnn, native) = ids();
    let ran = run(&IMMEDIATE, &["stored", &hipdnn], &[], true).unwrap();
    ran.all_right(2 * CASES);
    ran.went(SOLVE, 2 * CASES, Hipdnn);
    let pair = pair(&IMMEDIATE, &["stored", &native]);
    pair.same(2 * CASES);
    pair.on.went(SOLVE, 2 * CASES, Native("host.policy.native-solution"));
}

#[test]
fn an_execution_that_hipdnn_declines_is_one_of_natives() {
    for (what, runs) in [("shared", 2), ("shared,max1", 2), ("shared,other-handle", 4)] {
        let pair = pair(&IMMEDIATE, &[what]);
        pair.same(runs * CASES);
        pair.on.went(SOLVE, runs * CASES, Native("host.aliasing"));
        assert_eq!(pair.on.natives(SOLVE), runs * CASES);
    }
}

#[test]
fn a_problem_that_is_declined_has_natives_solutions() {
    let pair = pair(&IMMEDIATE, &["deterministic"]);
    pair.same(2 * CASES);
    assert_eq!(listed(&pair.on), listed(&pair.off));
    pair.on.went(SOLVE, 2 * CASES, Native(""));
    // hipDNN's number, kept from when it was listed: native executes in its place.
    let ran = run(&IMMEDIATE, &["deterministic,stored", &ids().0], &[], true).unwrap();
    ran.all_right(2 * CASES);
    assert!(ran.lines("status").iter().all(|line| *line == "status 0, forwarded error 0"));
}

#[test]
fn a_number_of_nobody_gets_natives_answer() {
    let pair = pair(&IMMEDIATE, &["unknown", "77"]);
    pair.same(0);
    assert!(pair.on.lines("status").iter().all(|line| *line == "status 3"));
    pair.on.went(SOLVE, CASES, Native("host.policy.native-solution"));
}

#[test]
fn an_execution_that_is_switched_off_takes_its_solution_along() {
    let pair = Pair::run(&IMMEDIATE, &["all"], &[("MIOPEN_DISABLE_HIPDNN_FOR", SOLVE[0])]).unwrap();
    pair.same(2 * CASES);
    assert_eq!(pair.on.natives(&SOLVE[..1]), 2 * PROBLEMS);
}

/// Whoever is told of hipDNN's solution may ask which algorithm it is.
#[test]
fn without_its_algorithm_no_solution_is_listed() {
    let pair = Pair::run(&IMMEDIATE, &["all"], &[("MIOPEN_DISABLE_HIPDNN_FOR", "miopenGetSolverIdConvAlgorithm")]).unwrap();
    pair.same(2 * CASES);
    assert_eq!(listed(&pair.on), listed(&pair.off));
    pair.on.went(SOLVE, 2 * CASES, Native("host.policy.native-solution"));
}

// Find 2.0.

#[test]
fn a_solution_is_hipdnns_in_the_process_that_found_it() {
    for what in ["plain", "many", "gone", "unprepared", "reordered", "described", "misaligned"] {
        let pair = pair(&FIND2, &[what]);
        pair.same(4 * CASES);
        // Twice as found, twice as loaded from its blob.
        pair.on.went(RUN, 4 * CASES, Hipdnn);
        assert_eq!(pair.on.natives(RUN), 0, "{what}");
    }
}

#[test]
fn a_run_that_hipdnn_declines_is_natives() {
    let pair = pair(&FIND2, &["shared"]);
    pair.same(4 * CASES);
    pair.on.went(RUN, 4 * CASES, Native("host.aliasing"));
}

#[test]
fn a_run_without_all_tensors_is_refused_everywhere() {
    let pair = pair(&FIND2, &["missing"]);
    assert_eq!(pair.on.lines("status"), pair.off.lines("status"));
    assert!(pair.on.lines("status").iter().all(|line| *line == "status 2, forwarded error 0"), "{:?}", pair.on.lines("status"));
}

#[test]
fn a_run_with_a_place_for_a_descriptor_and_none_in_it_is_refused_everywhere() {
    let pair = pair(&FIND2, &["undescribed"]);
    pair.same(0);
    assert_eq!(pair.on.lines("status"), ["status 3, forwarded error 0"; 4 * CASES]);
    assert_eq!(pair.on.lines("untouched"), ["untouched 1"; 4 * CASES]);
    pair.on.went(RUN, 4 * CASES, Native("host.descriptor.unrecorded"));
}

#[test]
fn another_process_loads_natives_solution() {
    let folder = tempfile::tempdir().unwrap();
    let [off, on] = ["off", "on"].map(|name| folder.path().join(name));
    for (path, forwarding) in [(&off, false), (&on, true)] {
        fs::create_dir(path).unwrap();
        run(&FIND2, &["plain", path.to_str().unwrap()], &[], forwarding).unwrap().all_right(4 * CASES);
    }
    assert_eq!(blobs(&off), blobs(&on));
    for path in [&off, &on] {
        let loaded = pair(&FIND2, &["load", path.to_str().unwrap()]);
        loaded.same(2 * CASES);
        loaded.on.went(RUN, 2 * CASES, Native(""));
        assert_eq!(loaded.on.natives(RUN), 2 * CASES);
    }
}

/// The blobs in a folder, by name: all but the time that was measured (the third word) and the checksum (the last).
fn blobs(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let blob = |entry: std::io::Result<fs::DirEntry>| {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name().into_string().unwrap())).unwrap();
        let bytes = fs::read(path).unwrap();
        (name, [&bytes[..16], &bytes[24..bytes.len() - 8]].concat())
    };
    let mut blobs: Vec<_> = fs::read_dir(folder).unwrap().map(blob).collect();
    blobs.sort();
    assert_eq!(blobs.len(), CASES);
    blobs
}

// Fusion.

/// A plan, executed four times with different numbers for each problem.
fn planned(arguments: &[&str], execute: &[&str], route: Route<'_>) {
    let pair = pair(&FUSION, &[&["plan"], arguments].concat());
    pair.same(4 * PROBLEMS);
    assert_eq!((pair.off.natives(COMPILE), pair.on.natives(COMPILE)), (PROBLEMS, PROBLEMS));
    pair.on.went(execute, 4 * PROBLEMS, route);
    let natives = if matches!(route, Hipdnn) { 0 } else { 4 * PROBLEMS };
    assert_eq!(pair.on.natives(execute), natives, "{arguments:?}");
}

#[test]
fn plans_that_a_graph_expresses_are_hipdnns() {
    for chain in ["bias+relu", "bias", "relu", "bias+leaky", "bias+clipped", "bias+elu", "bias+tanh", "norm+relu", "bias+norm+relu"] {
        planned(&[chain], EXECUTE, Hipdnn);
    }
}

#[test]
fn what_a_plan_was_made_of_may_be_gone() {
    planned(&["bias+relu", "gone"], EXECUTE, Hipdnn);
}

#[test]
fn a_plan_may_be_asked_for_its_operations() {
    planned(&["bias+relu", "indexed"], EXECUTE, Hipdnn);
}

#[test]
fn plans_with_a_workspace() {
    planned(&["bias+relu", "v2"], EXECUTE_V2, Hipdnn);
    planned(&["bias+power", "v2"], EXECUTE_V2, Native("fusion.activation"));
}

#[test]
fn a_power_is_natives() {
    planned(&["bias+power"], EXECUTE, Native("fusion.activation"));
}

/// Whoever computes them.
#[test]
fn other_activations_are_right() {
    for chain in ["bias+tanh2", "bias+logistic", "bias+abs", "bias+softrelu", "bias+passthru"] {
        let pair = pair(&FUSION, &["plan", chain]);
        pair.same(4 * PROBLEMS);
        let lines = pair.on.routed(EXECUTE);
        assert!(lines.iter().all(|line| line.route == "hipdnn" || line.rule.starts_with("fusion.")), "{lines:?}");
    }
}

/// Both give native's answers, and no result.
fn refused(arguments: &[&str], compile: &str) {
    let pair = pair(&FUSION, &[&["plan"], arguments].concat());
    let lines = |ran: &Ran| [ran.lines("compile").join("\n"), ran.lines("status").join("\n")];
    assert_eq!(lines(&pair.off), lines(&pair.on));
    assert!(pair.on.lines("compile").iter().all(|line| *line == compile), "{arguments:?}");
    assert!(pair.on.lines("status").iter().all(|line| line.starts_with("status 3,")), "{arguments:?}");
    let routed = pair.on.routed(EXECUTE);
    assert!(routed.iter().all(|line| line.route == "native"), "{routed:?}");
}

#[test]
fn a_plan_that_native_does_not_compile_is_refused_everywhere() {
    refused(&["relu+bias"], "compile 8");
}

#[test]
fn an_operation_without_arguments_is_refused_everywhere() {
    refused(&["bias+relu", "incomplete"], "compile 0");
    refused(&["bias", "incomplete"], "compile 0");
}

#[test]
fn an_output_of_a_type_that_was_not_planned_is_refused_everywhere() {
    for (what, execute) in [("mistyped", EXECUTE), ("mistyped,v2", EXECUTE_V2)] {
        let pair = pair(&FUSION, &["plan", "bias+relu", what]);
        pair.same(4 * PROBLEMS);
        assert_eq!(pair.on.lines("untouched"), ["untouched 1"; PROBLEMS]);
        let (declined, served): (Vec<_>, Vec<_>) = pair.on.routed(execute).into_iter().partition(|line| line.route == "native");
        assert_eq!((declined.len(), served.len()), (PROBLEMS, 4 * PROBLEMS), "{declined:?}");
        assert!(declined.iter().all(|line| line.rule == "host.fusion.incomplete"), "{declined:?}");
    }
}

#[test]
fn arguments_may_have_served_many_plans() {
    planned(&["bias+relu", "replanned"], EXECUTE, Hipdnn);
}

/// The client's calls come in one order for each problem: first those whose scalars are 1 or 0, then the others.
#[test]
fn the_fused_call_is_hipdnns_for_plain_scalars() {
    const PLAIN: usize = 8;
    const ALL: usize = 13;
    for arguments in [&["call"][..], &["call", "half"]] {
        let pair = pair(&FUSION, arguments);
        pair.same(ALL * PROBLEMS);
        let routed = pair.on.routed(FUSED);
        assert_eq!(routed.len(), ALL * PROBLEMS);
        for (i, line) in routed.iter().enumerate() {
            let expected = if i % ALL < PLAIN { "hipdnn" } else { "native" };
            assert_eq!(line.route, expected, "call {}: {line:?}", i % ALL);
        }
    }
}

// All styles.

/// A usual run of each client, with how many results it shows.
fn usual() -> [(&'static Client, &'static [&'static str], usize); 6] {
    [
        (&CLASSIC, &["plain"], 2 * CASES),
        (&CLASSIC, &["request4"], 2 * CASES),
        (&IMMEDIATE, &["all"], 2 * CASES),
        (&FIND2, &["plain"], 4 * CASES),
        (&FUSION, &["plan", "bias+relu"], 4 * PROBLEMS),
        (&FUSION, &["call"], 13 * PROBLEMS),
    ]
}

#[test]
fn engines_with_limits_change_no_result() {
    for (client, arguments, results) in usual() {
        let pair = Pair::run(client, arguments, &[("REFERENCE_HIPDNN_PROFILE", "miopen-provider")]).unwrap();
        pair.same(results);
    }
}

#[test]
fn without_hipdnn_there_is_one_line_and_native_in_every_style() {
    for (client, arguments, results) in usual() {
        let missing = ("MIOPEN_HIPDNN_BACKEND_LIBRARY", "/nonexistent/libhipdnn_backend.so");
        let pair = Pair::run(client, arguments, &[missing]).unwrap();
        pair.same(results);
        for word in ["bytes", "perf", "solution", "solver"] {
            assert_eq!(pair.on.numbers(word), pair.off.numbers(word), "{arguments:?}");
        }
        assert_eq!(pair.on.finished.messages().len(), 1, "{arguments:?}: {:?}", pair.on.finished.messages());
        assert!(pair.on.trace.iter().all(|line| line.route == "native"), "{:?}", pair.on.trace);
    }
}

#[test]
fn with_the_family_off_every_style_is_natives() {
    for (client, arguments, results) in usual() {
        let pair = Pair::run(client, arguments, &[("MIOPEN_DISABLE_HIPDNN_FOR", "conv,fusion")]).unwrap();
        pair.same(results);
        assert_eq!(pair.on.native, pair.off.native, "{arguments:?}");
    }
}

/// Whichever entry point is left to native alone, or to the shim alone: programs see one library.
#[test]
fn any_entry_point_may_be_switched_off_or_be_the_only_one() {
    let cases: [(&Client, &[&str], usize, &[&str]); 4] = [
        (&CLASSIC, &["plain"], 2 * CASES, &["miopenConvolutionForwardGetWorkSpaceSize", FIND[0], STEP[0]]),
        (
            &IMMEDIATE,
            &["all"],
            2 * CASES,
            &[
                "miopenConvolutionForwardGetSolutionCount",
                "miopenConvolutionForwardGetSolution",
                "miopenConvolutionForwardGetSolutionWorkspaceSize",
                "miopenConvolutionForwardCompileSolution",
                SOLVE[0],
            ],
        ),
        (
            &FIND2,
            &["plain"],
            4 * CASES,
            &["miopenFindSolutions", "miopenGetSolutionWorkspaceSize", "miopenSaveSolution", "miopenLoadSolution", RUN[0]],
        ),
        (&FUSION, &["plan", "bias+relu", "v2"], 4 * PROBLEMS, &["miopenFusionPlanGetWorkSpaceSize", COMPILE[0], EXECUTE_V2[0]]),
    ];
    for (client, arguments, results, entry_points) in cases {
        for entry_point in entry_points {
            for variable in ["MIOPEN_DISABLE_HIPDNN_FOR", "MIOPEN_USE_HIPDNN_FOR"] {
                eprintln!("{variable}={entry_point}");
                Pair::run(client, arguments, &[(variable, entry_point)]).unwrap().same(results);
            }
        }
    }
}

#[test]
fn strict_shows_declines_in_every_style_and_leaves_natives_choices() {
    let strict = [("MIOPEN_HIPDNN_STRICT", "1")];
    for (client, arguments) in
        [(&*CLASSIC, &["shared"][..]), (&IMMEDIATE, &["shared"]), (&FIND2, &["shared"]), (&FUSION, &["plan", "bias+power"])]
    {
        let ran = run(client, arguments, &strict, true).unwrap();
        let statuses = ran.lines("status");
        assert!(!statuses.is_empty() && statuses.iter().all(|line| line.starts_with("status 8,")), "{arguments:?}: {statuses:?}");
    }
    let found = run(&CLASSIC, &["deterministic"], &strict, true).unwrap();
    assert!(found.lines("find").iter().all(|line| line.starts_with("find 8,")), "{:?}", found.lines("find"));
    let native = ids().1;
    for (client, arguments) in [(&*CLASSIC, &["algorithm", DIRECT]), (&IMMEDIATE, &["stored", native.as_str()])] {
        Pair::run(client, arguments, &strict).unwrap().same(2 * CASES);
    }
}

#[test]
fn device_times_are_hipdnns_in_every_style() {
    for (client, arguments) in [
        (&*CLASSIC, &["timed"][..]),
        (&IMMEDIATE, &["timed"]),
        (&FIND2, &["timed"]),
        (&FUSION, &["plan", "bias+relu", "timed"]),
        (&FUSION, &["plan", "bias+relu", "timed,v2"]),
    ] {
        let pair = Pair::run(client, arguments, &[]).unwrap();
        pair.same(pair.off.lines("right").len());
        // Of Find too, where there is one.
        assert!(pair.on.lines("device").iter().all(|line| *line == "device time 1"), "{arguments:?}");
        assert_eq!(pair.on.natives(&["miopenGetKernelTime"]), 0, "{arguments:?}");
    }
    // Where native executes, its time is told.
    let declined = pair(&FUSION, &["plan", "bias+power", "timed"]);
    declined.same(4 * PROBLEMS);
    assert_eq!(declined.on.natives(&["miopenGetKernelTime"]), 4 * PROBLEMS);
}

/// Once hipDNN was asked to execute, native never sees the call.
#[test]
fn a_failed_execution_is_the_callers_in_every_style() {
    for (client, arguments, calls) in [
        (&*CLASSIC, &["nofind"][..], STEP),
        (&IMMEDIATE, &["all"], SOLVE),
        (&FIND2, &["plain"], RUN),
        (&FUSION, &["plan", "bias"], EXECUTE),
    ] {
        let ran = run(client, arguments, &[("REFERENCE_HIPDNN_FAULT", "hipdnnBackendExecute=13")], true).unwrap();
        let statuses = ran.lines("status");
        assert!(!statuses.is_empty() && statuses.iter().all(|line| *line == "status 5, forwarded error 13"), "{arguments:?} {statuses:?}");
        assert_eq!(ran.natives(calls), 0, "{arguments:?}");
    }
}
