//! Streams: life, waiting, and the beginning and end of capture. What capture forbids is decided in `runtime`.

use core::ffi::{c_int, c_void};

use crate::device;
use crate::error::{
    CAPTURE_INVALIDATED, CAPTURE_UNMATCHED, CAPTURE_UNSUPPORTED, CAPTURE_WRONG_THREAD, Code, ILLEGAL_STATE, INVALID_VALUE, guard, put,
};
use crate::runtime::{self, Capture, MODE_GLOBAL, MODE_RELAXED, Operation, Runtime, STREAM_NON_BLOCKING, Stream, StreamId};

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamCreateWithFlags(out: *mut *mut c_void, flags: u32) -> Code {
    guard(|| {
        if out.is_null() || flags & !STREAM_NON_BLOCKING != 0 {
            return Err(INVALID_VALUE);
        }
        let handle = runtime::with(|r| {
            let handle = r.new_handle();
            r.streams.insert(handle, Stream { device: device::current(), flags, capture: None });
            handle
        });
        // SAFETY: not null, so the caller's pointer is valid.
        unsafe { put(out, handle as *mut c_void) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamCreate(out: *mut *mut c_void) -> Code {
    // SAFETY: the caller's pointer, unchanged.
    unsafe { hipStreamCreateWithFlags(out, 0) }
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamDestroy(stream: *mut c_void) -> Code {
    guard(|| runtime::attempt(|r| r.streams.remove(&(stream as usize)).map(|_| ()).ok_or(INVALID_VALUE)))
}

/// Waiting and asking whether there is something to wait for come to the same here: nothing is ever outstanding.
fn wait(stream: *mut c_void) -> Code {
    guard(|| {
        runtime::attempt(|r| {
            let id = r.stream(stream as usize)?;
            r.forbid_wait(&id)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamSynchronize(stream: *mut c_void) -> Code {
    wait(stream)
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamQuery(stream: *mut c_void) -> Code {
    wait(stream)
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamWaitEvent(stream: *mut c_void, event: *mut c_void, _flags: u32) -> Code {
    guard(|| {
        runtime::attempt(|r| {
            r.stream(stream as usize)?;
            r.events.get(&(event as usize)).map(|_| ()).ok_or(INVALID_VALUE)
        })
    })
}

fn device_of(r: &Runtime, stream: *mut c_void) -> Result<c_int, Code> {
    Ok(match r.stream(stream as usize)? {
        StreamId::Own(handle) => r.streams[&handle].device as c_int,
        _ => device::current() as c_int,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamGetDevice(stream: *mut c_void, out: *mut c_int) -> Code {
    guard(|| {
        let device = runtime::attempt(|r| device_of(r, stream))?;
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(out, device) }
    })
}

/// The device of a stream as the return value; -1 for a stream that is none.
#[unsafe(no_mangle)]
extern "C" fn hipGetStreamDeviceId(stream: *mut c_void) -> c_int {
    runtime::attempt(|r| device_of(r, stream)).unwrap_or(-1)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamGetFlags(stream: *mut c_void, out: *mut u32) -> Code {
    guard(|| {
        let flags = runtime::attempt(|r| match r.stream(stream as usize)? {
            StreamId::Own(handle) => Ok(r.streams[&handle].flags),
            _ => Ok(0),
        })?;
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(out, flags) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipLaunchHostFunc(
    stream: *mut c_void,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> Code {
    guard(|| {
        let operation = Operation::Host { function: function.ok_or(INVALID_VALUE)?, data: data as usize };
        let recorded = runtime::attempt(|r| {
            let id = r.stream(stream as usize)?;
            r.records(&id, operation)
        })?;
        if !recorded {
            // SAFETY: the program asks for this call; no lock is held.
            unsafe { crate::memory::perform(operation) };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipStreamBeginCapture(stream: *mut c_void, mode: c_int) -> Code {
    guard(|| {
        if !(MODE_GLOBAL..=MODE_RELAXED).contains(&mode) {
            return Err(INVALID_VALUE);
        }
        runtime::attempt(|r| {
            let StreamId::Own(handle) = r.stream(stream as usize)? else { return Err(CAPTURE_UNSUPPORTED) };
            let stream = r.streams.get_mut(&handle).ok_or(INVALID_VALUE)?;
            if stream.capture.is_some() {
                return Err(ILLEGAL_STATE);
            }
            let thread = std::thread::current().id();
            stream.capture = Some(Capture { mode, thread, invalid: false, operations: Vec::new() });
            Ok(())
        })
    })
}

/// Ends the capture of a stream; the operations, unless it was spoiled.
fn end_capture(r: &mut Runtime, stream: usize) -> Result<Vec<Operation>, Code> {
    let StreamId::Own(handle) = r.stream(stream)? else { return Err(CAPTURE_UNMATCHED) };
    let stream = r.streams.get_mut(&handle).ok_or(INVALID_VALUE)?;
    let capture = stream.capture.as_ref().ok_or(ILLEGAL_STATE)?;
    if capture.mode != MODE_RELAXED && capture.thread != std::thread::current().id() {
        return Err(CAPTURE_WRONG_THREAD);
    }
    let capture = stream.capture.take().ok_or(ILLEGAL_STATE)?;
    if capture.invalid { Err(CAPTURE_INVALIDATED) } else { Ok(capture.operations) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) -> Code {
    guard(|| {
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid. A failed capture leaves no graph.
        unsafe { put(graph, core::ptr::null_mut()) }?;
        let handle = runtime::attempt(|r| {
            let operations = end_capture(r, stream as usize)?;
            let handle = r.new_handle();
            r.graphs.insert(handle, operations);
            Ok(handle)
        })?;
        // SAFETY: as above.
        unsafe { put(graph, handle as *mut c_void) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipStreamIsCapturing(stream: *mut c_void, status: *mut c_int) -> Code {
    guard(|| {
        let now = runtime::attempt(|r| {
            let id = r.stream(stream as usize)?;
            if let StreamId::Legacy = id {
                r.forbid_legacy_under_capture()?;
            }
            Ok(capture_status(r.capture(&id)))
        })?;
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(status, now) }
    })
}

/// `hipStreamCaptureStatusNone`, `Active` or `Invalidated`.
fn capture_status(capture: Option<&mut Capture>) -> c_int {
    capture.map_or(0, |c| if c.invalid { 2 } else { 1 })
}
