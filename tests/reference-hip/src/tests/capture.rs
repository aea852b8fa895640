//! Capture over several streams, whom it forbids what, and the place of a graph launch in its stream.

use core::ffi::c_int;

use super::c::*;

fn begin(stream: Address, mode: c_int) {
    assert_eq!(hipStreamBeginCapture(stream, mode), 0);
}

/// Status and id of a stream's capture.
fn info(stream: Address) -> (c_int, u64) {
    let (mut status, mut id) = (-1, 0);
    // SAFETY: the pointers are locals'.
    assert_eq!(unsafe { hipStreamGetCaptureInfo(stream, &mut status, &mut id) }, 0);
    (status, id)
}

/// Makes another stream go on from where this one is.
fn follow(ahead: Address, behind: Address) {
    let event = event();
    assert_eq!((hipEventRecord(event, ahead), hipStreamWaitEvent(behind, event, 0), hipEventDestroy(event)), (0, 0, 0));
}

#[test]
fn capture_spreads_through_events_and_comes_back() {
    let _one = alone();
    let (a, b, c) = (stream(), stream(), stream());
    let cells: Vec<_> = (0..4).map(|_| Cell::new(0)).collect();
    begin(a, 1);
    cells[0].fill(1, a);
    follow(a, b);
    follow(b, c);
    assert_eq!((info(b), info(c), status(PER_THREAD)), (info(a), info(a), 0));
    cells[1].copy(&cells[0], b);
    cells[2].copy(&cells[0], c);
    follow(b, c);
    cells[3].copy(&cells[1], c);
    follow(c, a);
    assert_eq!(end(b), (903, NULL));
    let (code, graph) = end(a);
    assert_eq!((code, status(a), status(b), status(c)), (0, 0, 0, 0));
    assert_eq!(hipDeviceSynchronize(), 0);
    assert!(cells.iter().all(|c| c.get() == 0), "captured work was done");
    let executable = instantiate(graph);
    assert_eq!((hipGraphDestroy(graph), hipGraphLaunch(executable, b), hipStreamSynchronize(b)), (0, 0, 0));
    assert!(cells.iter().all(|c| c.get() == eight(1)));
    [a, b, c].into_iter().for_each(|s| assert_eq!(hipStreamDestroy(s), 0));
}

#[test]
fn work_that_does_not_come_back_is_an_error() {
    let _one = alone();
    let (a, b, cell) = (stream(), stream(), Cell::new(0));
    begin(a, 1);
    follow(a, b);
    cell.fill(1, b);
    assert_eq!(end(a), (904, NULL));
    assert_eq!((status(a), status(b)), (0, 0));
    // A branch without work leaves nothing to join; one that is joined by the way of a third stream is joined.
    begin(a, 1);
    follow(a, b);
    assert_eq!(end(a).0, 0);
    begin(a, 1);
    follow(a, b);
    cell.fill(1, b);
    follow(b, a);
    cell.fill(2, b);
    assert_eq!(end(a), (904, NULL));
    assert_eq!((hipStreamDestroy(a), hipStreamDestroy(b)), (0, 0));
}

#[test]
fn captures_do_not_mix_with_each_other_nor_with_other_work() {
    let _one = alone();
    let (a, b, outside, event) = (free_stream(), free_stream(), free_stream(), event());
    begin(a, 1);
    begin(b, 1);
    assert_ne!(info(a).1, info(b).1);
    assert_eq!((hipEventRecord(event, a), hipStreamWaitEvent(b, event, 0)), (0, 902));
    assert_eq!((info(a).0, info(b).0, hipEventQuery(event), hipEventSynchronize(event)), (2, 2, 907, 907));
    assert_eq!((end(a).0, end(b).0), (901, 901));
    // The capture that the event belonged to is over.
    assert_eq!(hipStreamWaitEvent(outside, event, 0), 907);
    begin(a, 1);
    assert_eq!((hipEventRecord(event, outside), hipStreamWaitEvent(a, event, 0), end(a).0), (0, 905, 901));
    begin(a, 1);
    assert_eq!((hipEventRecord(event, a), hipStreamWaitEvent(NULL, event, 0), end(a).0), (0, 906, 901));
    // With the stream in which it began, a capture is over for all.
    begin(a, 0);
    follow(a, b);
    assert_eq!((status(b), hipStreamDestroy(a), status(b), hipFree(device_buffer(8))), (1, 0, 0, 0));
    assert_eq!((hipStreamDestroy(b), hipStreamDestroy(outside), hipEventDestroy(event)), (0, 0, 0));
}

/// Sets the calling thread's mode; the mode before.
fn exchange(mode: c_int) -> (c_int, c_int) {
    let mut mode = mode;
    // SAFETY: the pointer is a local's.
    let code = unsafe { hipThreadExchangeStreamCaptureMode(&mut mode) };
    (code, mode)
}

#[test]
fn a_thread_may_stop_minding_captures() {
    let _one = alone();
    let stream = free_stream();
    let allocate = || {
        let mut out = NULL;
        // SAFETY: the pointer is a local's.
        unsafe { hipMalloc(&mut out, 8) }
    };
    assert_eq!((exchange(3).0, exchange(2), exchange(0)), (1, (0, 0), (0, 2)));
    begin(stream, 0);
    let other = |mode| std::thread::spawn(move || (exchange(mode), allocate())).join().unwrap();
    assert_eq!((other(1), other(2), status(stream)), (((0, 0), 0), ((0, 0), 0), 1));
    assert_eq!((exchange(2), allocate(), status(stream)), ((0, 0), 0, 1));
    // The capturing thread itself still minds in thread-local mode.
    assert_eq!((exchange(1), allocate(), status(stream)), ((0, 2), 900, 2));
    assert_eq!((end(stream).0, exchange(0)), (901, (0, 1)));
    begin(stream, 0);
    assert_eq!((other(0), end(stream).0), (((0, 0), 900), 901));
    assert_eq!(hipStreamDestroy(stream), 0);
}

#[test]
fn a_graph_has_its_turn_in_the_stream_and_never_runs_beside_itself() {
    let _one = alone();
    let (a, b) = (free_stream(), free_stream());
    let (from, to, after) = (Cell::new(0), Cell::new(0), Cell::new(0));
    begin(a, 1);
    to.copy(&from, a);
    let executable = instantiate(end(a).1);
    let gate = Gate::on(a);
    from.fill(1, a);
    assert_eq!(hipGraphLaunch(executable, a), 0);
    after.copy(&to, a);
    assert_eq!(hipGraphLaunch(executable, b), 0);
    settle();
    assert_eq!((hipStreamQuery(a), hipStreamQuery(b), to.get()), (NOT_READY, NOT_READY, 0));
    gate.open();
    assert_eq!((hipStreamSynchronize(a), hipStreamSynchronize(b)), (0, 0));
    assert_eq!((to.get(), after.get()), (eight(1), eight(1)));
    assert_eq!((hipStreamDestroy(a), hipStreamDestroy(b)), (0, 0));
}

#[test]
fn a_graph_launched_in_a_capture_becomes_part_of_it() {
    let _one = alone();
    let (stream, cell) = (stream(), Cell::new(0));
    begin(stream, 1);
    cell.fill(1, stream);
    let inner = instantiate(end(stream).1);
    begin(stream, 1);
    assert_eq!(hipGraphLaunch(inner, stream), 0);
    let outer = instantiate(end(stream).1);
    assert_eq!((hipDeviceSynchronize(), cell.get()), (0, 0));
    assert_eq!((hipGraphLaunch(outer, NULL), hipStreamSynchronize(NULL), cell.get()), (0, 0, eight(1)));
    assert_eq!(hipStreamDestroy(stream), 0);
}
