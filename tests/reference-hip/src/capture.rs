//! Stream capture: the exported functions. What capture records and forbids is decided in `runtime::capture`.

use core::ffi::{c_int, c_void};

use crate::error::{Code, INVALID_VALUE, guard, put};
use crate::runtime::capture::{Status, exchange_thread_mode, is_mode};
use crate::runtime::{self, Runtime};

pub extern "C" fn hipStreamBeginCapture(stream: *mut c_void, mode: c_int) -> Code {
    guard(|| {
        if !is_mode(mode) {
            return Err(INVALID_VALUE);
        }
        runtime::attempt(|r| {
            let id = r.resolve(stream as usize)?;
            r.begin_capture(id, mode)
        })
    })
}

pub unsafe extern "C" fn hipStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) -> Code {
    guard(|| {
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid. A failed capture leaves no graph.
        unsafe { put(graph, core::ptr::null_mut()) }?;
        let handle = runtime::attempt(|r| {
            let id = r.resolve(stream as usize)?;
            let operations = r.end_capture(id)?;
            let handle = r.new_handle();
            r.graphs.insert(handle, operations);
            Ok(handle)
        })?;
        // SAFETY: as above.
        unsafe { put(graph, handle as *mut c_void) }
    })
}

fn status_of(r: &mut Runtime, stream: *mut c_void) -> Result<Status, Code> {
    let id = r.resolve(stream as usize)?;
    r.forbid_if_legacy(id)?;
    Ok(r.capture_status(id))
}

/// `hipStreamCaptureStatusNone`, `Active` or `Invalidated`.
fn number(status: Status) -> c_int {
    match status {
        Status::None => 0,
        Status::Active(_) => 1,
        Status::Invalidated(_) => 2,
    }
}

pub unsafe extern "C" fn hipStreamIsCapturing(stream: *mut c_void, status: *mut c_int) -> Code {
    guard(|| {
        let now = runtime::attempt(|r| status_of(r, stream))?;
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(status, number(now)) }
    })
}

/// The id is written only while the stream captures, and may be left out.
pub unsafe extern "C" fn hipStreamGetCaptureInfo(stream: *mut c_void, status: *mut c_int, id: *mut u64) -> Code {
    guard(|| {
        let now = runtime::attempt(|r| status_of(r, stream))?;
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(status, number(now)) }?;
        match now {
            Status::Active(capture) | Status::Invalidated(capture) if !id.is_null() => {
                // SAFETY: not null, so the caller's pointer is valid.
                unsafe { put(id, capture) }
            }
            _ => Ok(()),
        }
    })
}

/// Sets how the calling thread minds captures, and gives back how it did.
pub unsafe extern "C" fn hipThreadExchangeStreamCaptureMode(mode: *mut c_int) -> Code {
    guard(|| {
        if mode.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, so the caller's pointer is valid.
        let new = unsafe { *mode };
        if !is_mode(new) {
            return Err(INVALID_VALUE);
        }
        // SAFETY: as above.
        unsafe { put(mode, exchange_thread_mode(new)) }
    })
}
