//! The library through its own C functions. Captures are visible to the whole process, so tests run one at a time.
#![allow(clippy::unwrap_used)]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

unsafe extern "C" {
    safe fn hipSetDevice(device: c_int) -> c_int;
    safe fn hipFree(memory: *mut c_void) -> c_int;
    safe fn hipGetLastError() -> c_int;
    safe fn hipPeekAtLastError() -> c_int;
    safe fn hipGetErrorName(code: c_int) -> *const c_char;
    safe fn hipStreamDestroy(stream: *mut c_void) -> c_int;
    safe fn hipStreamSynchronize(stream: *mut c_void) -> c_int;
    safe fn hipStreamBeginCapture(stream: *mut c_void, mode: c_int) -> c_int;
    safe fn hipDeviceSynchronize() -> c_int;
    safe fn hipEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int;
    safe fn hipEventQuery(event: *mut c_void) -> c_int;
    safe fn hipGraphLaunch(executable: *mut c_void, stream: *mut c_void) -> c_int;
    safe fn hipModuleLaunchKernel() -> c_int;
    fn hipGetDevice(device: *mut c_int) -> c_int;
    fn hipMalloc(out: *mut *mut c_void, size: usize) -> c_int;
    fn hipMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int) -> c_int;
    fn hipMemcpyAsync(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int, stream: *mut c_void) -> c_int;
    fn hipMemset(to: *mut c_void, value: c_int, bytes: usize) -> c_int;
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> c_int;
    fn hipStreamCreate(out: *mut *mut c_void) -> c_int;
    fn hipStreamCreateWithFlags(out: *mut *mut c_void, flags: u32) -> c_int;
    fn hipStreamGetDevice(stream: *mut c_void, device: *mut c_int) -> c_int;
    fn hipStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) -> c_int;
    fn hipStreamIsCapturing(stream: *mut c_void, status: *mut c_int) -> c_int;
    fn hipEventCreate(out: *mut *mut c_void) -> c_int;
    fn hipEventElapsedTime(out: *mut f32, start: *mut c_void, stop: *mut c_void) -> c_int;
    fn hipGraphInstantiate(out: *mut *mut c_void, graph: *mut c_void, n: *mut *mut c_void, l: *mut u8, s: usize) -> c_int;
    fn hipGetDevicePropertiesR0600(properties: *mut crate::device::Properties, device: c_int) -> c_int;
}

fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle or buffer that a function creates.
fn made(create: impl FnOnce(*mut *mut c_void) -> c_int) -> *mut c_void {
    let mut out = null_mut();
    assert_eq!(create(&mut out), 0);
    out
}

fn device_buffer(size: usize) -> *mut c_void {
    // SAFETY: the pointer is a local's.
    made(|out| unsafe { hipMalloc(out, size) })
}

fn stream() -> *mut c_void {
    // SAFETY: the pointer is a local's.
    made(|out| unsafe { hipStreamCreate(out) })
}

fn status(stream: *mut c_void) -> c_int {
    let mut status = -1;
    // SAFETY: the pointer is a local's.
    assert_eq!(unsafe { hipStreamIsCapturing(stream, &mut status) }, 0);
    status
}

fn end(stream: *mut c_void) -> (c_int, *mut c_void) {
    let mut graph = null_mut();
    // SAFETY: the pointer is a local's.
    (unsafe { hipStreamEndCapture(stream, &mut graph) }, graph)
}

#[test]
fn memory_is_aligned_bounded_and_counted() {
    let _one = alone();
    let buffer = device_buffer(100);
    assert_eq!(buffer as usize % 256, 0);
    let host = [7u8; 100];
    let mut back = [0u8; 101];
    let (mut free, mut total) = (0, 0);
    // SAFETY: pointers are to locals of the sizes given, but for the calls that must fail before touching memory.
    unsafe {
        assert_eq!(hipMemcpy(buffer, host.as_ptr().cast(), 100, 1), 0);
        assert_eq!(hipMemcpy(back.as_mut_ptr().cast(), buffer, 100, 2), 0);
        assert_eq!(hipMemcpy(back.as_mut_ptr().cast(), buffer, 101, 2), 1);
        assert_eq!(hipMemcpy(back.as_mut_ptr().cast(), host.as_ptr().cast(), 100, 3), 1);
        assert_eq!(hipMemcpy(buffer, host.as_ptr().cast(), 100, 9), 21);
        assert_eq!(hipMemcpy(null_mut(), buffer, 100, 2), 1);
        assert_eq!(hipMemset(back.as_mut_ptr().cast(), 0, 5), 1);
        assert_eq!(hipMemGetInfo(&mut free, &mut total), 0);
        assert_eq!(hipMalloc(null_mut(), 4), 1);
        assert_eq!(hipMalloc(&mut null_mut(), 1 << 40), 2);
    }
    assert_eq!(&back[..100], host);
    assert!(free < total);
    assert_eq!(hipFree(back.as_mut_ptr().cast()), 1);
    assert_eq!((hipFree(buffer), hipFree(buffer), hipFree(null_mut())), (0, 1, 0));
}

#[test]
fn devices_are_per_thread_and_streams_stay_on_theirs() {
    let _one = alone();
    assert_eq!((hipSetDevice(1), hipSetDevice(2), hipSetDevice(-1)), (0, 101, 101));
    let other = std::thread::spawn(|| {
        let mut device = -1;
        // SAFETY: the pointer is a local's.
        unsafe { hipGetDevice(&mut device) };
        device
    });
    assert_eq!(other.join().unwrap(), 0);
    let stream = stream();
    assert_eq!(hipSetDevice(0), 0);
    let mut device = -1;
    // SAFETY: the pointer is a local's.
    assert_eq!(unsafe { hipStreamGetDevice(stream, &mut device) }, 0);
    assert_eq!(device, 1);
    assert_eq!((hipStreamDestroy(stream), hipStreamDestroy(stream), hipStreamSynchronize(stream)), (0, 1, 1));
    assert_eq!(hipStreamSynchronize(0x1234_5670 as *mut c_void), 1);
}

#[test]
fn a_capture_records_and_a_graph_replays() {
    let _one = alone();
    let (stream, buffer) = (stream(), device_buffer(4));
    let mut host = [1u8, 2, 3, 4];
    assert_eq!(status(stream), 0);
    assert_eq!(hipStreamBeginCapture(stream, 1), 0);
    assert_eq!(status(stream), 1);
    // SAFETY: pointers are to locals and an allocation of four bytes.
    assert_eq!(unsafe { hipMemcpyAsync(buffer, host.as_ptr().cast(), 4, 1, stream) }, 0);
    let (code, graph) = end(stream);
    assert_eq!((code, status(stream)), (0, 0));
    // SAFETY: the pointer is a local's.
    let executable = made(|out| unsafe { hipGraphInstantiate(out, graph, null_mut(), null_mut(), 0) });
    host = [5, 6, 7, 8];
    assert_eq!(hipGraphLaunch(executable, stream), 0);
    let mut back = [0u8; 4];
    // SAFETY: as above.
    assert_eq!(unsafe { hipMemcpy(back.as_mut_ptr().cast(), buffer, 4, 2) }, 0);
    assert_eq!(back, host);
    assert_eq!(hipFree(buffer), 0);
    assert_eq!(hipGraphLaunch(executable, stream), 1);
    assert_eq!(hipStreamDestroy(stream), 0);
}

#[test]
fn what_capture_forbids_spoils_it() {
    let _one = alone();
    // SAFETY: the pointer is a local's.
    let stream = made(|out| unsafe { hipStreamCreateWithFlags(out, 1) });
    let forbidden: [&dyn Fn() -> c_int; 4] = [
        &|| hipStreamSynchronize(stream),
        &|| hipDeviceSynchronize(),
        // SAFETY: the pointer is a local's.
        &|| unsafe { hipMalloc(&mut null_mut(), 16) },
        // SAFETY: the call fails before it looks at the null pointer.
        &|| unsafe { hipMemset(null_mut(), 0, 4) },
    ];
    for call in forbidden {
        assert_eq!(hipStreamBeginCapture(stream, 0), 0);
        assert_eq!(call(), 900);
        assert_eq!(status(stream), 2);
        assert_eq!(end(stream), (901, null_mut()));
    }
    assert_eq!(end(stream).0, 401);
    assert_eq!(hipStreamBeginCapture(null_mut(), 0), 900);
    assert_eq!(hipStreamDestroy(stream), 0);
}

#[test]
fn capture_modes_and_threads() {
    let _one = alone();
    let stream = stream();
    assert_eq!(hipStreamBeginCapture(stream, 2), 0);
    hipFree(device_buffer(8));
    assert_eq!(status(stream), 1);
    assert_eq!(end(stream).0, 0);
    assert_eq!(hipStreamBeginCapture(stream, 1), 0);
    std::thread::spawn(|| hipFree(device_buffer(8))).join().unwrap();
    let address = stream as usize;
    assert_eq!(std::thread::spawn(move || end(address as *mut c_void).0).join().unwrap(), 908);
    assert_eq!(status(stream), 1);
    // The legacy stream would have to wait for this blocking one.
    assert_eq!(hipStreamSynchronize(null_mut()), 906);
    assert_eq!(end(stream).0, 901);
    assert_eq!(hipStreamDestroy(stream), 0);
}

#[test]
fn events_measure() {
    let _one = alone();
    // SAFETY: the pointers are locals'.
    let (a, b) = unsafe { (made(|out| hipEventCreate(out)), made(|out| hipEventCreate(out))) };
    let mut time = -1.0;
    // SAFETY: the pointer is a local's.
    assert_eq!(unsafe { hipEventElapsedTime(&mut time, a, b) }, 400);
    assert_eq!(hipEventRecord(a, null_mut()), 0);
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_eq!((hipEventRecord(b, null_mut()), hipEventQuery(b)), (0, 0));
    // SAFETY: the pointer is a local's.
    assert_eq!(unsafe { hipEventElapsedTime(&mut time, a, b) }, 0);
    assert!(time >= 2.0);
    assert_eq!(hipEventQuery(null_mut()), 1);
}

#[test]
fn launches_refuse_and_errors_stick() {
    let _one = alone();
    hipGetLastError();
    assert_eq!(hipModuleLaunchKernel(), 801);
    assert_eq!((hipPeekAtLastError(), hipGetLastError(), hipGetLastError()), (801, 801, 0));
    // SAFETY: the function returns a static string.
    assert_eq!(unsafe { CStr::from_ptr(hipGetErrorName(900)) }, c"hipErrorStreamCaptureUnsupported");
}

#[test]
fn properties_name_the_architecture() {
    let mut properties = crate::device::Properties { bytes: [1; 1472] };
    // SAFETY: the pointer is a local's of the right size.
    assert_eq!(unsafe { hipGetDevicePropertiesR0600(&mut properties, 0) }, 0);
    let text = |offset: usize| CStr::from_bytes_until_nul(&properties.bytes[offset..]).unwrap().to_str().unwrap();
    assert_eq!((text(0), text(1160)), ("Reference device on host memory", "gfx942:sramecc+:xnack-"));
    assert_eq!(properties.bytes[388..392], 304i32.to_ne_bytes());
}
