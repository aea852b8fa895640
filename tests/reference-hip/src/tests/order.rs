//! What is asynchronous, and what waits for what: streams, events, the null stream, waiting and freeing, host functions.

use core::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use super::c::*;

#[test]
fn the_caller_is_free_before_the_work_is_done() {
    let _one = alone();
    let (stream, cell) = (stream(), Cell::new(1));
    assert_eq!(hipStreamQuery(stream), 0);
    let gate = Gate::on(stream);
    cell.fill(5, stream);
    gate.reached();
    assert_eq!((cell.get(), hipStreamQuery(stream)), (1, NOT_READY));
    gate.open();
    assert_eq!((hipStreamSynchronize(stream), hipStreamQuery(stream)), (0, 0));
    assert_eq!(cell.get(), eight(5));
    assert_eq!(hipStreamDestroy(stream), 0);
}

#[test]
fn host_functions_run_elsewhere_one_after_the_other() {
    let _one = alone();
    let (stream, here) = (stream(), std::thread::current().id());
    let threads = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..3 {
        let threads = threads.clone();
        call(stream, move || threads.lock().unwrap().push(std::thread::current().id()));
    }
    assert_eq!(hipStreamSynchronize(stream), 0);
    let threads = threads.lock().unwrap();
    assert!(threads.len() == 3 && threads.iter().all(|t| *t == threads[0] && *t != here));
    assert_eq!(hipStreamDestroy(stream), 0);
}

#[test]
fn a_stream_keeps_its_order_under_load() {
    const STEPS: usize = 500;
    let _one = alone();
    let busy: Vec<_> = (0..4).map(|_| (stream(), Cell::new(0), device_buffer(8 * STEPS), Arc::new(Mutex::new(Vec::new())))).collect();
    for step in 0..STEPS {
        for (stream, cell, kept, log) in &busy {
            cell.fill(step as u8, *stream);
            // SAFETY: eight bytes of two allocations.
            assert_eq!(unsafe { hipMemcpyAsync(kept.byte_add(8 * step), cell.address(), 8, 3, *stream) }, 0);
            let log = log.clone();
            call(*stream, move || log.lock().unwrap().push(step));
        }
    }
    for (stream, _, kept, log) in &busy {
        let mut back = vec![0u8; 8 * STEPS];
        // SAFETY: the sizes are those of both.
        assert_eq!(unsafe { hipMemcpyWithStream(back.as_mut_ptr().cast(), *kept, 8 * STEPS, 2, *stream) }, 0);
        assert!(back.chunks(8).enumerate().all(|(step, eight)| eight == [step as u8; 8]));
        assert!(log.lock().unwrap().iter().copied().eq(0..STEPS));
        assert_eq!((hipStreamDestroy(*stream), hipFree(*kept)), (0, 0));
    }
}

#[test]
fn threads_with_streams_of_their_own_do_not_disturb_each_other() {
    let _one = alone();
    let sum = Arc::new(AtomicUsize::new(0));
    let work = |seed: u8| {
        let sum = sum.clone();
        move || {
            let (own, a, b) = (stream(), Cell::new(0), Cell::new(0));
            for round in 0..200u8 {
                let value = seed.wrapping_mul(31).wrapping_add(round);
                let sum = sum.clone();
                a.fill(value, own);
                b.copy(&a, own);
                call(own, move || _ = sum.fetch_add(1, Ordering::Relaxed));
                assert_eq!(hipStreamSynchronize(own), 0);
                assert_eq!(b.get(), eight(value));
            }
            assert_eq!(hipStreamDestroy(own), 0);
        }
    };
    let threads: Vec<_> = (0..12).map(|seed| std::thread::spawn(work(seed))).collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(sum.load(Ordering::Relaxed), 2400);
}

#[test]
fn a_stream_waits_for_what_the_event_meant_then() {
    let _one = alone();
    let (a, b, event) = (free_stream(), free_stream(), event());
    let (from, to) = (Cell::new(0), Cell::new(0));
    let first = Gate::on(b);
    from.fill(7, b);
    assert_eq!((hipEventRecord(event, b), hipStreamWaitEvent(a, event, 0)), (0, 0));
    to.copy(&from, a);
    // Recorded anew behind a second gate: who waits already does not wait for that.
    let second = Gate::on(b);
    assert_eq!(hipEventRecord(event, b), 0);
    settle();
    assert_eq!((hipStreamQuery(a), hipEventQuery(event)), (NOT_READY, NOT_READY));
    first.open();
    assert_eq!(hipStreamSynchronize(a), 0);
    assert_eq!((to.get(), hipEventQuery(event)), (eight(7), NOT_READY));
    // Nor has the event the time of its first record.
    // SAFETY: the pointer is a local's.
    assert_eq!(unsafe { hipEventElapsedTime(&mut 0.0, event, event) }, NOT_READY);
    second.open();
    assert_eq!((hipEventSynchronize(event), hipEventQuery(event)), (0, 0));
    assert_eq!((hipStreamDestroy(a), hipStreamDestroy(b), hipEventDestroy(event)), (0, 0, 0));
}

#[test]
fn the_null_stream_waits_for_blocking_streams() {
    let _one = alone();
    let (blocking, event) = (stream(), event());
    let (from, to) = (Cell::new(0), Cell::new(0));
    let gate = Gate::on(blocking);
    from.fill(3, blocking);
    to.copy(&from, NULL);
    assert_eq!(hipEventRecord(event, NULL), 0);
    settle();
    assert_eq!((hipStreamQuery(NULL), hipEventQuery(event)), (NOT_READY, NOT_READY));
    gate.open();
    assert_eq!(hipStreamSynchronize(NULL), 0);
    assert_eq!((to.get(), hipEventQuery(event)), (eight(3), 0));
    assert_eq!((hipStreamDestroy(blocking), hipEventDestroy(event)), (0, 0));
}

#[test]
fn blocking_streams_wait_for_the_null_stream_and_others_do_not() {
    let _one = alone();
    let (blocking, free) = (stream(), free_stream());
    let (from, to, beside) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let gate = Gate::on(NULL);
    from.fill(4, NULL);
    to.copy(&from, blocking);
    beside.fill(9, free);
    assert_eq!(hipStreamSynchronize(free), 0);
    settle();
    assert_eq!((beside.get(), hipStreamQuery(blocking)), (eight(9), NOT_READY));
    gate.open();
    assert_eq!(hipStreamSynchronize(blocking), 0);
    assert_eq!(to.get(), eight(4));
    // And the null stream does not wait for a stream that does not wait for it.
    let gate = Gate::on(free);
    // SAFETY: eight bytes of an allocation.
    assert_eq!(unsafe { hipMemcpy(to.address(), beside.address(), 8, 4) }, 0);
    assert_eq!((to.get(), hipStreamSynchronize(NULL), hipStreamQuery(free)), (eight(9), 0, NOT_READY));
    gate.open();
    assert_eq!((hipStreamDestroy(blocking), hipStreamDestroy(free)), (0, 0));
}

#[test]
fn each_thread_has_its_own_stream_which_outlives_it_with_its_work() {
    let _one = alone();
    let cell = Arc::new(Cell::new(0));
    let theirs = cell.clone();
    let gate = std::thread::spawn(move || {
        let gate = Gate::on(PER_THREAD);
        theirs.fill(6, PER_THREAD);
        gate
    });
    let gate = gate.join().unwrap();
    assert_eq!((hipStreamQuery(PER_THREAD), hipStreamSynchronize(PER_THREAD)), (0, 0));
    gate.reached();
    gate.open();
    assert_eq!((hipDeviceSynchronize(), cell.get()), (0, eight(6)));
}

#[test]
fn events_have_the_times_of_their_stream() {
    let _one = alone();
    let (stream, events) = (stream(), [event(), event(), event()]);
    let mut time = -1.0;
    let elapsed = |time: &mut f32, from, to| {
        // SAFETY: the pointer is a local's.
        unsafe { hipEventElapsedTime(time, from, to) }
    };
    assert_eq!((elapsed(&mut time, events[0], events[1]), hipEventQuery(events[0]), hipEventSynchronize(events[0])), (400, 0, 0));
    assert_eq!(hipEventRecord(events[0], stream), 0);
    let gate = Gate::on(stream);
    assert_eq!(hipEventRecord(events[1], stream), 0);
    gate.reached();
    assert_eq!((hipEventSynchronize(events[0]), hipEventQuery(events[1])), (0, NOT_READY));
    assert_eq!((elapsed(&mut time, events[0], events[1]), elapsed(&mut time, events[1], events[2])), (NOT_READY, 400));
    gate.open();
    assert_eq!(hipEventSynchronize(events[1]), 0);
    assert_eq!(hipEventRecord(events[2], stream), 0);
    assert_eq!(hipStreamSynchronize(stream), 0);
    for (from, to, sign) in [(0, 1, 1.0), (1, 2, 1.0), (0, 2, 1.0), (2, 0, -1.0)] {
        assert_eq!(elapsed(&mut time, events[from], events[to]), 0);
        assert!(time * sign > 0.0, "{from} {to} {time}");
    }
    assert_eq!(hipEventQuery(NULL), 1);
    events.into_iter().for_each(|e| assert_eq!(hipEventDestroy(e), 0));
    assert_eq!(hipStreamDestroy(stream), 0);
}

/// Runs a call in another thread and asserts that it returns only after the gate was opened.
fn returns_after(gate: Gate, function: impl FnOnce() -> c_int + Send + 'static) {
    static RETURNED: AtomicBool = AtomicBool::new(false);
    RETURNED.store(false, Ordering::SeqCst);
    let (started, start) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        started.send(()).unwrap();
        let code = function();
        RETURNED.store(true, Ordering::SeqCst);
        code
    });
    start.recv().unwrap();
    settle();
    assert!(!RETURNED.load(Ordering::SeqCst));
    gate.open();
    assert_eq!(thread.join().unwrap(), 0);
}

#[test]
fn freeing_and_synchronising_wait_for_the_work() {
    let _one = alone();
    for stream in [stream(), free_stream(), PER_THREAD] {
        let (memory, pinned) = (Sent::new(device_buffer(64)), Cell::new(0));
        let gate = Gate::on(stream);
        // SAFETY: the size is the allocation's.
        assert_eq!(unsafe { hipMemsetAsync(memory.get(), 1, 64, stream) }, 0);
        returns_after(gate, move || hipFree(memory.get()));
        assert_eq!(hipFree(memory.get()), 1);
        let gate = Gate::on(stream);
        pinned.fill(1, stream);
        let address = Sent::new(pinned.address());
        std::mem::forget(pinned);
        returns_after(gate, move || hipHostFree(address.get()));
        returns_after(Gate::on(stream), || hipDeviceSynchronize());
    }
}

#[test]
fn a_destroyed_stream_finishes_its_work() {
    let _one = alone();
    let (blocking, cell, copy) = (stream(), Cell::new(0), Cell::new(0));
    let gate = Gate::on(blocking);
    cell.fill(8, blocking);
    assert_eq!((hipStreamDestroy(blocking), hipStreamDestroy(blocking), hipStreamQuery(blocking)), (0, 1, 1));
    copy.copy(&cell, NULL);
    settle();
    assert_eq!(hipStreamQuery(NULL), NOT_READY);
    gate.open();
    assert_eq!((hipStreamSynchronize(NULL), copy.get()), (0, eight(8)));
    assert_eq!((hipStreamDestroy(NULL), hipStreamDestroy(PER_THREAD)), (400, 400));
}

#[test]
fn a_streams_thread_begins_with_its_work_and_ends_with_it() {
    let _one = alone();
    let serving = || {
        let names = std::fs::read_dir("/proc/self/task").unwrap().map(|t| std::fs::read_to_string(t.unwrap().path().join("comm")));
        // A thread may end while its name is read.
        names.filter(|name| name.as_deref().is_ok_and(|n| n.starts_with("hip stream"))).count()
    };
    let before = serving();
    let streams: Vec<_> = (0..50).map(|_| free_stream()).collect();
    assert!(serving() <= before);
    for stream in &streams {
        call(*stream, || ());
    }
    streams.iter().for_each(|s| assert_eq!(hipStreamSynchronize(*s), 0));
    assert!(serving() >= 50);
    streams.into_iter().for_each(|s| assert_eq!(hipStreamDestroy(s), 0));
    std::thread::spawn(|| call(PER_THREAD, || ())).join().unwrap();
    // The threads end soon after they are told to; if they do not, this does not either.
    while serving() > before {
        std::thread::yield_now();
    }
}

#[test]
fn a_host_function_that_calls_hip_does_not_hang() {
    let _one = alone();
    let (own, other, cell) = (stream(), free_stream(), Arc::new(Cell::new(0)));
    let (sent, handles, theirs) = (Arc::new(Mutex::new(Vec::new())), (Sent::new(own), Sent::new(other)), cell.clone());
    let codes = sent.clone();
    call(own, move || {
        let (own, other) = (handles.0.get(), handles.1.get());
        theirs.fill(2, other);
        let waits = [hipStreamSynchronize(own), hipDeviceSynchronize(), hipStreamQuery(own), hipFree(device_buffer(8))];
        // SAFETY: eight bytes of an allocation.
        let copy = unsafe { hipMemset(theirs.address(), 1, 8) };
        codes.lock().unwrap().extend(waits.into_iter().chain([copy]));
    });
    assert_eq!((hipStreamSynchronize(own), hipStreamSynchronize(other)), (0, 0));
    assert_eq!((&sent.lock().unwrap()[..], cell.get()), (&[801, 801, NOT_READY, 801, 801][..], eight(2)));
    assert_eq!((hipStreamDestroy(own), hipStreamDestroy(other)), (0, 0));
}

#[test]
fn other_threads_call_while_a_host_function_blocks() {
    let _one = alone();
    let (blocked, other) = (free_stream(), free_stream());
    let gate = Gate::on(blocked);
    gate.reached();
    let cell = Cell::new(0);
    cell.fill(1, other);
    assert_eq!((hipStreamSynchronize(other), cell.get()), (0, eight(1)));
    assert_eq!((hipEventDestroy(event()), hipStreamDestroy(other)), (0, 0));
    gate.open();
    assert_eq!((hipStreamDestroy(blocked), hipDeviceSynchronize()), (0, 0));
}
