//! Two devices: each with its own memory, streams, and null stream.

use super::c::*;

/// Makes a device current for the calling thread while something runs.
fn on<R>(device: i32, f: impl FnOnce() -> R) -> R {
    assert_eq!(hipSetDevice(device), 0);
    let result = f();
    assert_eq!(hipSetDevice(0), 0);
    result
}

fn free_memory() -> usize {
    let (mut free, mut total) = (0, 0);
    // SAFETY: the pointers are locals'.
    assert_eq!(unsafe { hipMemGetInfo(&mut free, &mut total) }, 0);
    free
}

#[test]
fn memory_is_counted_for_each() {
    let _one = alone();
    let before = (free_memory(), on(1, free_memory));
    let one = on(1, || device_buffer(4096));
    assert_eq!((free_memory(), on(1, free_memory)), (before.0, before.1 - 4096));
    let zero = device_buffer(1024);
    assert_eq!((free_memory(), on(1, free_memory)), (before.0 - 1024, before.1 - 4096));
    // From whichever device is current.
    assert_eq!((hipFree(one), on(1, || hipFree(zero))), (0, 0));
    assert_eq!((free_memory(), on(1, free_memory)), before);
}

#[test]
fn the_null_streams_are_independent() {
    let _one = alone();
    let cell = Cell::new(0);
    let theirs = on(1, stream);
    let gate = Gate::on(NULL);
    on(1, || {
        // SAFETY: eight bytes of an allocation.
        assert_eq!(unsafe { hipMemset(cell.address(), 3, 8) }, 0);
        assert_eq!((hipDeviceSynchronize(), hipStreamQuery(NULL)), (0, 0));
    });
    call(theirs, || ());
    assert_eq!((hipStreamSynchronize(theirs), hipStreamQuery(NULL), cell.get()), (0, NOT_READY, eight(3)));
    gate.open();
    assert_eq!((hipDeviceSynchronize(), hipStreamDestroy(theirs)), (0, 0));
}

#[test]
fn streams_and_events_stay_on_the_device_of_their_creation() {
    let _one = alone();
    let (stream, theirs) = on(1, || (stream(), event()));
    let (ours, cell) = (event(), Cell::new(0));
    assert_eq!((hipGetStreamDeviceId(stream), hipGetStreamDeviceId(NULL), on(1, || hipGetStreamDeviceId(NULL))), (1, 0, 1));
    // Work may be submitted from another device; it is that stream's all the same.
    let gate = Gate::on(stream);
    cell.fill(1, stream);
    assert_eq!((hipDeviceSynchronize(), hipStreamQuery(NULL), on(1, || hipStreamQuery(NULL))), (0, 0, NOT_READY));
    assert_eq!((hipEventRecord(ours, stream), hipEventRecord(theirs, NULL), hipEventRecord(theirs, stream)), (400, 400, 0));
    // Waiting for another device's event is allowed, measuring between devices is not.
    assert_eq!((hipStreamWaitEvent(NULL, theirs, 0), hipEventRecord(ours, NULL)), (0, 0));
    settle();
    assert_eq!(hipEventQuery(ours), NOT_READY);
    gate.open();
    assert_eq!((hipStreamSynchronize(NULL), cell.get()), (0, eight(1)));
    let mut time = 0.0;
    // SAFETY: the pointer is a local's.
    assert_eq!(unsafe { hipEventElapsedTime(&mut time, theirs, ours) }, 400);
    assert_eq!((hipStreamDestroy(stream), hipEventDestroy(ours), hipEventDestroy(theirs)), (0, 0, 0));
}

#[test]
fn a_copy_between_devices_on_the_null_stream_waits_for_both() {
    let _one = alone();
    let (from, to) = (on(1, || device_buffer(8)), device_buffer(8));
    let gate = on(1, || {
        let gate = Gate::on(NULL);
        // SAFETY: eight bytes of an allocation.
        assert_eq!(unsafe { hipMemsetAsync(from, 5, 8, NULL) }, 0);
        gate
    });
    // SAFETY: eight bytes of two allocations.
    assert_eq!(unsafe { hipMemcpyAsync(to, from, 8, 3, NULL) }, 0);
    settle();
    assert_eq!(hipStreamQuery(NULL), NOT_READY);
    gate.open();
    let mut back = [0u8; 8];
    // SAFETY: as above, and a local of that size.
    assert_eq!(unsafe { hipMemcpy(back.as_mut_ptr().cast(), to, 8, 2) }, 0);
    assert_eq!((back, hipFree(from), hipFree(to)), ([5; 8], 0, 0));
}
