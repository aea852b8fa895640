//! Faults, call log, counters, plan cost. All of them are per process, so this is one test program with one test at a time.

mod common;

use std::{
    ffi::CString,
    process::Command,
    ptr::null_mut,
    time::{Duration, Instant},
};

use common::*;
use hipdnn_abi::{descriptor_type as k, status};
use hipdnn_backend::abi::*;

static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn faults(text: &str) -> i32 {
    let text = CString::new(text).expect("no NUL");
    // SAFETY: NUL-terminated.
    unsafe { reference_hipdnn_set_faults(text.as_ptr()) }
}

fn calls(name: &str) -> u64 {
    let name = CString::new(name).expect("no NUL");
    // SAFETY: NUL-terminated.
    unsafe { reference_hipdnn_calls(name.as_ptr()) }
}

fn create() -> i32 {
    let mut raw = null_mut();
    // SAFETY: a local; a handle that was made is destroyed at once.
    unsafe {
        let status = hipdnnCreate(&mut raw);
        if status == OK {
            hipdnnDestroy(raw);
        }
        status
    }
}

#[test]
fn calls_fail_when_and_as_they_are_told() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    assert_eq!(faults("hipdnnCreate=9"), 0);
    assert_eq!(create(), status::INTERNAL_ERROR);
    assert!(last_error().contains("fault on demand"));
    assert_eq!(faults("hipdnnCreate:3=ALLOC_FAILED"), 0);
    assert_eq!([(); 4].map(|()| create()), [OK, OK, status::ALLOC_FAILED, status::ALLOC_FAILED]);
    assert_eq!(faults("hipdnnCreate:2!=10"), 0);
    assert_eq!([(); 3].map(|()| create()), [OK, status::ALLOC_FAILED, OK]);

    assert_eq!(faults("hipdnnBackendFinalize@EXECUTION_PLAN=8,hipdnnBackendCreateDescriptor@VARIANT_PACK=10"), 0);
    let handle = Handle::new();
    let graph = Convolution::small().graph(&handle);
    assert_eq!(unfinalized_plan(&configuration(&graph)).finalize(), UNSUPPORTED);
    assert_eq!(D::try_new(k::BACKEND_VARIANT_PACK_DESCRIPTOR).err(), Some(status::ALLOC_FAILED));

    assert_eq!(faults("hipdnnBackendExecute=13"), 0);
    let plan = Convolution::small().plan(&handle);
    let mut memory = [(); 4].map(|()| Buffer::new(1 << 16, 0x55));
    let [x, w, y, workspace] = memory.each_mut().map(Buffer::pointer);
    let pack = pack(&[(1, x), (2, w), (3, y)], workspace);
    assert_eq!(execute(&handle, &plan, &pack), status::EXECUTION_FAILED);
    assert!(memory.iter().all(|buffer| buffer.bytes().iter().all(|&byte| byte == 0x55)), "a failed call does nothing");
    assert_eq!(faults(""), 0);
    assert_eq!(execute(&handle, &plan, &pack), OK);

    assert_eq!(faults("hipdnnVersionString_ext=1"), 0);
    assert!(hipdnnVersionString_ext().is_null());
    assert_eq!(faults("hipdnnCreat=9"), -1, "a wrong name is refused");
    assert_eq!(faults(""), 0);
}

#[test]
fn calls_are_counted() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let before = calls("hipdnnCreate");
    assert_eq!(create(), OK);
    assert_eq!(faults("hipdnnCreate=9"), 0);
    assert_eq!(create(), status::INTERNAL_ERROR);
    assert_eq!(faults(""), 0);
    assert_eq!(calls("hipdnnCreate"), before + 2, "failed calls count");
    assert_eq!(calls("hipdnnCreat"), u64::MAX, "a wrong name is not zero");
    assert_eq!(reference_hipdnn_races(), 0);
}

#[test]
fn plugins_can_be_chosen_only_before_the_first_handle() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let paths = [c"/somewhere".as_ptr(), std::ptr::null()];
    // SAFETY: the array holds as many pointers as said.
    let choose = |count, paths: *const *const std::ffi::c_char, mode| unsafe { hipdnnSetEnginePluginPaths_ext(count, paths, mode) };
    assert_eq!(choose(1, paths.as_ptr(), 1), OK);
    assert_eq!(choose(2, paths.as_ptr(), 1), NULL);
    assert_eq!(choose(1, std::ptr::null(), 1), NULL);
    assert_eq!(choose(1, paths.as_ptr(), 2), BAD);
    let _handle = Handle::new();
    assert_eq!(choose(1, paths.as_ptr(), 1), UNSUPPORTED);
}

/// Runs this program again, with one test and other environment.
fn again(test: &str, environment: &[(&str, &str)]) -> std::process::Output {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--nocapture", "--ignored"]).envs(environment.iter().copied());
    command.output().expect("runs")
}

#[test]
#[ignore = "run by other tests, with other environment"]
fn child_creates() {
    println!("statuses {:?}", [create(), create()]);
}

#[test]
#[ignore = "run by other tests, with other environment"]
fn child_plans() {
    let handle = Handle::new();
    let graph = Convolution::small().graph(&handle);
    let configuration = configuration(&graph);
    let start = Instant::now();
    let plan = unfinalized_plan(&configuration).finalized();
    let built = start.elapsed();
    assert!(built >= Duration::from_millis(300), "{built:?}");
    let bytes = save(&plan).expect("saved");
    let start = Instant::now();
    load(&handle, &bytes).expect("loaded");
    assert!(start.elapsed() < Duration::from_millis(200), "loading costs nothing");
}

#[test]
fn the_environment_is_read() {
    let output = again("child_creates", &[("REFERENCE_HIPDNN_FAULT", "hipdnnCreate:2=9")]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("statuses [0, 9]"), "{output:?}");
    let output = again("child_creates", &[("REFERENCE_HIPDNN_FAULT", "nonsense")]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("REFERENCE_HIPDNN_FAULT"), "{output:?}");
    let output = again("child_creates", &[("REFERENCE_HIPDNN_PROFILE", "nonsense")]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("statuses [2, 2]"), "{output:?}");
    let output = again("child_plans", &[("REFERENCE_HIPDNN_PLAN_MS", "300")]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_log_has_one_line_for_every_call() {
    let path = std::env::temp_dir().join(format!("reference-hipdnn-{}.log", std::process::id()));
    let path_text = path.to_str().expect("text");
    let output = again("child_plans", &[("REFERENCE_HIPDNN_LOG", path_text), ("REFERENCE_HIPDNN_PLAN_MS", "300")]);
    assert!(output.status.success(), "{output:?}");
    let log = std::fs::read_to_string(&path).expect("log");
    std::fs::remove_file(&path).expect("removed");
    for (line, times) in [
        ("hipdnnCreate() = 0 HIPDNN_STATUS_SUCCESS", 1),
        ("hipdnnBackendFinalize(TENSOR) = 0 HIPDNN_STATUS_SUCCESS", 3),
        ("hipdnnBackendFinalize(OPERATION_CONVOLUTION_FORWARD) = 0 HIPDNN_STATUS_SUCCESS", 1),
        ("hipdnnBackendFinalize(EXECUTION_PLAN) = 0 HIPDNN_STATUS_SUCCESS", 1),
        ("hipdnnBackendCreateAndDeserializeExecutionPlan_ext() = 0 HIPDNN_STATUS_SUCCESS", 1),
        ("hipdnnDestroy() = 0 HIPDNN_STATUS_SUCCESS", 1),
    ] {
        assert_eq!(log.lines().filter(|logged| *logged == line).count(), times, "{line} in\n{log}");
    }
}
