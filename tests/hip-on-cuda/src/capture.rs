//! Stream capture.

use core::ffi::c_int;
use core::ptr::null_mut;

use crate::{
    cuda::{Address, call, checked, cuda},
    error::{Code, INVALID_VALUE, guard, put},
    numbers,
};

pub extern "C" fn hipStreamBeginCapture(stream: Address, mode: c_int) -> Code {
    guard(|| {
        let (cuda, mode) = (cuda()?, numbers::capture_mode(mode)?);
        // SAFETY: the caller's stream.
        checked(cuda, unsafe { (cuda.begin_capture)(stream, mode) })
    })
}

pub unsafe extern "C" fn hipStreamEndCapture(stream: Address, graph: *mut Address) -> Code {
    // SAFETY: the caller's stream and pointer.
    call(|cuda| unsafe { (cuda.end_capture)(stream, graph) })
}

pub unsafe extern "C" fn hipStreamIsCapturing(stream: Address, status: *mut c_int) -> Code {
    guard(|| {
        let (cuda, mut found) = (cuda()?, 0);
        // SAFETY: the caller's stream; the place is a local's.
        checked(cuda, unsafe { (cuda.is_capturing)(stream, &mut found) })?;
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(status, numbers::capture_state_back(found)?) }
    })
}

/// The id is written only while the stream captures, and may be left out.
pub unsafe extern "C" fn hipStreamGetCaptureInfo(stream: Address, status: *mut c_int, id: *mut u64) -> Code {
    guard(|| {
        let (cuda, mut found, mut number) = (cuda()?, 0, 0);
        let error =
            // SAFETY: the caller's stream; the places are locals', what is null is not asked for.
            unsafe { (cuda.capture_info)(stream, &mut found, &mut number, null_mut(), null_mut(), null_mut(), null_mut()) };
        checked(cuda, error)?;
        let found = numbers::capture_state_back(found)?;
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(status, found) }?;
        if found == 0 || id.is_null() {
            return Ok(());
        }
        // SAFETY: not null, so the caller's pointer is valid.
        unsafe { put(id, number) }
    })
}

/// Sets how the calling thread minds captures, and gives back how it did.
pub unsafe extern "C" fn hipThreadExchangeStreamCaptureMode(mode: *mut c_int) -> Code {
    guard(|| {
        if mode.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, so the caller's pointer is valid.
        let (cuda, mut exchanged) = (cuda()?, numbers::capture_mode(unsafe { *mode })?);
        // SAFETY: the place is a local's.
        checked(cuda, unsafe { (cuda.exchange_capture_mode)(&mut exchanged) })?;
        // SAFETY: as above.
        unsafe { put(mode, numbers::capture_mode_back(exchanged)?) }
    })
}
