//! Streams: the exported functions for their life, for waiting, and for host functions. How work waits for work is decided in
//! `runtime::stream`; capture has a module of its own.

use core::ffi::{c_int, c_void};

use crate::device;
use crate::error::{Code, INVALID_HANDLE, INVALID_VALUE, NOT_READY, guard, put};
use crate::runtime::operation::Operation;
use crate::runtime::stream::{Point, Stream, StreamId};
use crate::runtime::{self, Runtime};

/// `hipStreamNonBlocking`: the stream does not synchronise with the legacy stream.
const NON_BLOCKING: u32 = 1;

pub unsafe extern "C" fn hipStreamCreateWithFlags(out: *mut *mut c_void, flags: u32) -> Code {
    guard(|| {
        if out.is_null() || flags & !NON_BLOCKING != 0 {
            return Err(INVALID_VALUE);
        }
        let handle = runtime::with(|r| {
            let handle = r.new_handle();
            r.streams.insert(StreamId::Own(handle), Stream::new(device::current(), flags & NON_BLOCKING == 0));
            handle
        });
        // SAFETY: not null, so the caller's pointer is valid.
        unsafe { put(out, handle as *mut c_void) }
    })
}

pub unsafe extern "C" fn hipStreamCreate(out: *mut *mut c_void) -> Code {
    // SAFETY: the caller's pointer, unchanged.
    unsafe { hipStreamCreateWithFlags(out, 0) }
}

/// The stream's work goes on; only the handle is gone at once.
pub extern "C" fn hipStreamDestroy(stream: *mut c_void) -> Code {
    guard(|| {
        runtime::attempt(|r| match r.resolve(stream as usize)? {
            id @ StreamId::Own(_) => {
                r.destroy_where(|other| *other == id);
                Ok(())
            }
            _ => Err(INVALID_HANDLE),
        })
    })
}

/// What waiting for a stream waits for, if it may be waited for.
fn awaited(r: &mut Runtime, stream: *mut c_void) -> Result<Vec<Point>, Code> {
    let id = r.resolve(stream as usize)?;
    r.forbid_wait(id)?;
    Ok(r.awaited(id))
}

pub extern "C" fn hipStreamSynchronize(stream: *mut c_void) -> Code {
    guard(|| {
        let points = runtime::attempt(|r| awaited(r, stream))?;
        runtime::wait(&points)
    })
}

pub extern "C" fn hipStreamQuery(stream: *mut c_void) -> Code {
    guard(|| runtime::attempt(|r| if awaited(r, stream)?.is_empty() { Ok(()) } else { Err(NOT_READY) }))
}

fn device_of(r: &mut Runtime, stream: *mut c_void) -> Result<c_int, Code> {
    let id = r.resolve(stream as usize)?;
    Ok(r.stream(id)?.device as c_int)
}

pub unsafe extern "C" fn hipStreamGetDevice(stream: *mut c_void, out: *mut c_int) -> Code {
    guard(|| {
        let device = runtime::attempt(|r| device_of(r, stream))?;
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(out, device) }
    })
}

/// The device of a stream as the return value; -1 for a stream that is none.
pub extern "C" fn hipGetStreamDeviceId(stream: *mut c_void) -> c_int {
    runtime::attempt(|r| device_of(r, stream)).unwrap_or(-1)
}

pub unsafe extern "C" fn hipStreamGetFlags(stream: *mut c_void, out: *mut u32) -> Code {
    guard(|| {
        let blocking = runtime::attempt(|r| {
            let id = r.resolve(stream as usize)?;
            Ok(r.stream(id)?.blocking)
        })?;
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(out, if blocking { 0 } else { NON_BLOCKING }) }
    })
}

pub unsafe extern "C" fn hipLaunchHostFunc(
    stream: *mut c_void,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> Code {
    guard(|| {
        let operation = Operation::Host { function: function.ok_or(INVALID_VALUE)?, data: data as usize };
        runtime::attempt(|r| {
            let id = r.resolve(stream as usize)?;
            r.enqueue(id, operation).map(drop)
        })
    })
}
