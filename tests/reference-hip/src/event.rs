//! Events. Work is done when it is submitted, so a recorded event has already happened.

use core::ffi::c_void;
use std::time::Instant;

use crate::error::{CAPTURED_EVENT, Code, INVALID_HANDLE, INVALID_VALUE, guard, put};
use crate::runtime::{self, Event, Runtime};

/// `hipEventDisableTiming`.
const DISABLE_TIMING: u32 = 2;

#[unsafe(no_mangle)]
unsafe extern "C" fn hipEventCreateWithFlags(out: *mut *mut c_void, flags: u32) -> Code {
    guard(|| {
        if out.is_null() {
            return Err(INVALID_VALUE);
        }
        let handle = runtime::with(|r| {
            let handle = r.new_handle();
            r.events.insert(handle, Event { timing: flags & DISABLE_TIMING == 0, recorded: None, captured: false });
            handle
        });
        // SAFETY: not null, so the caller's pointer is valid.
        unsafe { put(out, handle as *mut c_void) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipEventCreate(out: *mut *mut c_void) -> Code {
    // SAFETY: the caller's pointer, unchanged.
    unsafe { hipEventCreateWithFlags(out, 0) }
}

#[unsafe(no_mangle)]
extern "C" fn hipEventDestroy(event: *mut c_void) -> Code {
    guard(|| runtime::attempt(|r| r.events.remove(&(event as usize)).map(|_| ()).ok_or(INVALID_VALUE)))
}

#[unsafe(no_mangle)]
extern "C" fn hipEventRecord(event: *mut c_void, stream: *mut c_void) -> Code {
    guard(|| {
        runtime::attempt(|r| {
            let id = r.stream(stream as usize)?;
            let capturing = r.capture(&id).is_some();
            let event = r.events.get_mut(&(event as usize)).ok_or(INVALID_VALUE)?;
            event.recorded = (!capturing).then(Instant::now);
            event.captured = capturing;
            Ok(())
        })
    })
}

/// The event, unless it belongs to a capture.
fn usable(r: &Runtime, event: *mut c_void) -> Result<&Event, Code> {
    let event = r.events.get(&(event as usize)).ok_or(INVALID_VALUE)?;
    if event.captured { Err(CAPTURED_EVENT) } else { Ok(event) }
}

#[unsafe(no_mangle)]
extern "C" fn hipEventSynchronize(event: *mut c_void) -> Code {
    guard(|| runtime::attempt(|r| usable(r, event).map(|_| ())))
}

#[unsafe(no_mangle)]
extern "C" fn hipEventQuery(event: *mut c_void) -> Code {
    guard(|| runtime::attempt(|r| usable(r, event).map(|_| ())))
}

fn time_of(r: &Runtime, event: *mut c_void) -> Result<Instant, Code> {
    let event = usable(r, event)?;
    event.recorded.filter(|_| event.timing).ok_or(INVALID_HANDLE)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipEventElapsedTime(out: *mut f32, start: *mut c_void, stop: *mut c_void) -> Code {
    guard(|| {
        let (from, to) = runtime::attempt(|r| Ok((time_of(r, start)?, time_of(r, stop)?)))?;
        let after = to.saturating_duration_since(from).as_secs_f64() - from.saturating_duration_since(to).as_secs_f64();
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(out, (after * 1e3) as f32) }
    })
}
