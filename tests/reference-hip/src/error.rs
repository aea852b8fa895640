//! HIP's error codes, their names, and the frame every exported function runs in. Which situation gives which code is
//! decided where the function is.

use core::ffi::{CStr, c_char};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The error half of a call's result.
pub type Code = i32;

macro_rules! codes {
    ($($constant:ident = $value:literal, $name:literal, $text:literal;)*) => {
        $(pub const $constant: Code = $value;)*
        /// Every code known here with its C name and its description.
        const KNOWN: &[(Code, &CStr, &CStr)] = &[$(($value, $name, $text)),*];
    };
}

codes! {
    SUCCESS = 0, c"hipSuccess", c"no error";
    INVALID_VALUE = 1, c"hipErrorInvalidValue", c"invalid argument";
    OUT_OF_MEMORY = 2, c"hipErrorOutOfMemory", c"out of memory";
    INVALID_PITCH = 12, c"hipErrorInvalidPitchValue", c"invalid pitch argument";
    INVALID_MEMCPY_DIRECTION = 21, c"hipErrorInvalidMemcpyDirection", c"invalid copy direction for memcpy";
    INVALID_DEVICE = 101, c"hipErrorInvalidDevice", c"invalid device ordinal";
    INVALID_HANDLE = 400, c"hipErrorInvalidHandle", c"invalid resource handle";
    ILLEGAL_STATE = 401, c"hipErrorIllegalState", c"the operation cannot be performed in the present state";
    NOT_READY = 600, c"hipErrorNotReady", c"device not ready";
    NOT_SUPPORTED = 801, c"hipErrorNotSupported", c"operation not supported";
    CAPTURE_UNSUPPORTED = 900, c"hipErrorStreamCaptureUnsupported", c"operation not permitted when stream is capturing";
    CAPTURE_INVALIDATED = 901, c"hipErrorStreamCaptureInvalidated", c"operation failed due to a previous error during capture";
    CAPTURE_MERGE = 902, c"hipErrorStreamCaptureMerge", c"operation would result in a merge of separate capture sequences";
    CAPTURE_UNMATCHED = 903, c"hipErrorStreamCaptureUnmatched", c"capture was not initiated in this stream";
    CAPTURE_UNJOINED = 904, c"hipErrorStreamCaptureUnjoined", c"capturing stream has unjoined work";
    CAPTURE_ISOLATION = 905, c"hipErrorStreamCaptureIsolation", c"dependency created on uncaptured work in another stream";
    CAPTURE_IMPLICIT = 906, c"hipErrorStreamCaptureImplicit", c"operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT = 907, c"hipErrorCapturedEvent", c"operation not permitted on an event last recorded in a capturing stream";
    CAPTURE_WRONG_THREAD = 908, c"hipErrorStreamCaptureWrongThread", c"attempt to terminate a thread-local capture sequence from another thread";
    UNKNOWN = 999, c"hipErrorUnknown", c"unknown error";
}

thread_local! {
    /// The thread's last error that was not yet asked for.
    static LAST: Cell<Code> = const { Cell::new(SUCCESS) };
}

/// Runs the body of an exported function: no panic leaves it, and a failure becomes the thread's last error.
pub fn guard(body: impl FnOnce() -> Result<(), Code>) -> Code {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(UNKNOWN));
    match result {
        Ok(()) => SUCCESS,
        Err(code) => {
            LAST.set(code);
            code
        }
    }
}

/// Writes a result through a pointer from C; null is the caller's mistake.
///
/// # Safety
/// `out` is null or valid for a write of `T`.
pub unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Code> {
    if out.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, so valid by this function's contract.
    unsafe { out.write(value) };
    Ok(())
}

fn known(code: Code) -> Option<&'static (Code, &'static CStr, &'static CStr)> {
    KNOWN.iter().find(|(value, ..)| *value == code)
}

/// The C name of a code.
pub extern "C" fn hipGetErrorName(code: Code) -> *const c_char {
    known(code).map_or(c"hipErrorUnknown", |(_, name, _)| name).as_ptr()
}

/// The description of a code.
pub extern "C" fn hipGetErrorString(code: Code) -> *const c_char {
    known(code).map_or(c"unknown error", |(.., text)| text).as_ptr()
}

/// The thread's last error, which is then forgotten.
pub extern "C" fn hipGetLastError() -> Code {
    LAST.replace(SUCCESS)
}

/// As `hipGetLastError`: the difference between the two lies in successful calls, which leave both alone here.
pub extern "C" fn hipExtGetLastError() -> Code {
    LAST.replace(SUCCESS)
}

/// The thread's last error, which stays.
pub extern "C" fn hipPeekAtLastError() -> Code {
    LAST.get()
}
