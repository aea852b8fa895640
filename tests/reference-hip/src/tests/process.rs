//! What happens to the library when its process forks, ends, or does what a GPU would punish with the end.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::c::*;

/// Forks; in the child runs `body`, which must not use the test framework's own state, and ends with success if it returns true.
/// Returns how the child ended. A child that hangs is killed by its alarm, minutes later.
fn fork(body: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child calls HIP, allocates, and leaves without running destructors.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: both only concern the child.
        unsafe {
            libc::alarm(300);
            let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
            libc::_exit(i32::from(!good));
        }
    }
    end_of(child)
}

/// How a child ended.
fn end_of(child: libc::pid_t) -> i32 {
    let mut status = -1;
    // SAFETY: the child is ours and not waited for yet.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

#[test]
fn a_child_goes_on_without_the_queued_work() {
    let _one = alone();
    let (stream, cell, event) = (stream(), Cell::new(3), event());
    let gate = Gate::on(stream);
    cell.fill(1, stream);
    assert_eq!(hipEventRecord(event, stream), 0);
    gate.reached();
    let ended = fork(|| {
        // SAFETY: the pointer is a local's.
        let unrecorded = unsafe { hipEventElapsedTime(&mut 0.0, event, event) } == 400;
        let dropped = unrecorded && (hipStreamQuery(stream), hipEventQuery(event), cell.get()) == (0, 0, 3);
        let copy = Cell::new(0);
        cell.fill(2, stream);
        copy.copy(&cell, NULL);
        let recorded = (hipEventRecord(event, stream), hipEventSynchronize(event)) == (0, 0);
        let done = (hipStreamSynchronize(NULL), copy.get(), cell.get()) == (0, eight(2), eight(2));
        dropped && recorded && done && hipStreamDestroy(stream) == 0 && hipFree(device_buffer(8)) == 0 && hipDeviceSynchronize() == 0
    });
    assert_eq!(ended, 0);
    gate.open();
    assert_eq!((hipStreamSynchronize(stream), cell.get(), hipEventQuery(event)), (0, eight(1), 0));
    assert_eq!((hipStreamDestroy(stream), hipEventDestroy(event)), (0, 0));
}

#[test]
fn forks_amid_the_calls_of_other_threads() {
    let _one = alone();
    let stop = Arc::new(AtomicBool::new(false));
    let hammer = |stop: Arc<AtomicBool>| {
        move || {
            let (own, cell) = (stream(), Cell::new(0));
            while !stop.load(Ordering::Relaxed) {
                cell.fill(1, own);
                assert_eq!(hipStreamSynchronize(own), 0);
            }
            assert_eq!(hipStreamDestroy(own), 0);
        }
    };
    let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(hammer(stop.clone()))).collect();
    let own = stream();
    for _ in 0..30 {
        let ended = fork(|| {
            let cell = Cell::new(0);
            cell.fill(1, own);
            // The null stream waits for nothing of the threads that are gone.
            (hipStreamSynchronize(own), cell.get(), hipStreamSynchronize(NULL)) == (0, eight(1), 0)
        });
        assert_eq!(ended, 0);
    }
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(hipStreamDestroy(own), 0);
}

#[test]
fn a_child_is_not_bound_by_captures_of_threads_it_lacks() {
    let _one = alone();
    let (ours, theirs) = (free_stream(), Sent::new(free_stream()));
    std::thread::spawn(move || assert_eq!(hipStreamBeginCapture(theirs.get(), 0), 0)).join().unwrap();
    assert_eq!(fork(|| hipFree(device_buffer(8)) == 0 && status(theirs.get()) == 0), 0);
    assert_eq!((hipStreamDestroy(theirs.get()), hipStreamBeginCapture(ours, 1)), (0, 0));
    assert_eq!(fork(|| status(ours) == 1 && end(ours).0 == 0), 0);
    assert_eq!((end(ours).0, hipStreamDestroy(ours)), (0, 0));
}

#[test]
fn a_host_function_may_fork() {
    let _one = alone();
    let stream = stream();
    let (send, ended) = std::sync::mpsc::channel();
    let handle = Sent::new(stream);
    call(stream, move || send.send(fork(|| hipStreamQuery(handle.get()) == 0 && hipFree(device_buffer(8)) == 0)).unwrap());
    assert_eq!((ended.recv().unwrap(), hipStreamSynchronize(stream), hipStreamDestroy(stream)), (0, 0, 0));
}

#[test]
fn a_host_function_may_return_in_the_child_that_it_forked() {
    let _one = alone();
    let stream = stream();
    let (send, ended) = std::sync::mpsc::channel();
    call(stream, move || {
        // SAFETY: the child does nothing more than to return.
        match unsafe { libc::fork() } {
            // SAFETY: it only concerns the child, which has no thread left once this one has ended.
            0 => _ = unsafe { libc::alarm(300) },
            child => send.send(end_of(child)).unwrap(),
        }
    });
    assert_eq!((ended.recv().unwrap(), hipStreamSynchronize(stream), hipStreamDestroy(stream)), (0, 0, 0));
}

/// Runs one of the ignored tests below in a process of its own.
fn alone_in_a_process(test: &str) -> Output {
    let name = format!("tests::process::{test}");
    Command::new(std::env::current_exe().unwrap()).args(["--ignored", "--exact", &name, "--nocapture"]).output().unwrap()
}

#[test]
fn a_process_ends_beside_busy_and_idle_streams() {
    let ended = alone_in_a_process("child_that_leaves_work_behind");
    assert!(ended.status.success(), "{ended:?}");
    let ended = alone_in_a_process("child_that_exits_at_once");
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
}

fn leave_work_behind() {
    let (idle, busy, cell) = (stream(), free_stream(), Cell::new(0));
    call(idle, || ());
    call(PER_THREAD, || ());
    assert_eq!(hipDeviceSynchronize(), 0);
    let gate = Gate::on(busy);
    cell.fill(1, busy);
    gate.reached();
    std::mem::forget((gate, cell));
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_that_leaves_work_behind() {
    leave_work_behind();
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_that_exits_at_once() {
    leave_work_behind();
    std::process::exit(7);
}

#[test]
fn work_on_freed_memory_ends_the_process() {
    let ended = alone_in_a_process("child_that_frees_too_early");
    assert_eq!(ended.status.signal(), Some(libc::SIGABRT), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("memory access fault"), "{ended:?}");
}

#[test]
#[ignore = "run by another test, in a process of its own"]
fn child_that_frees_too_early() {
    let memory = device_buffer(64);
    assert_eq!(hipSetDevice(1), 0);
    let stream = stream();
    let gate = Gate::on(stream);
    // SAFETY: the size is the allocation's.
    assert_eq!(unsafe { hipMemsetAsync(memory, 0, 64, stream) }, 0);
    // Freeing waits for the memory's own device only, and this is another's stream.
    assert_eq!(hipFree(memory), 0);
    gate.open();
    hipStreamSynchronize(stream);
}
