//! HIP's error codes, their names, and the frame every exported function runs in. Which situation gives which code is
//! decided where the function is.

use core::ffi::{CStr, c_char};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The error half of a call's result.
pub type Code = i32;

/// A text that ends with NUL, as C wants it.
const fn ended(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("no NUL, or one inside"),
    }
}

macro_rules! codes {
    ($($constant:ident = $value:literal, $name:literal, $text:literal;)*) => {
        $(#[doc = concat!("`", $name, "`: ", $text, ".")]
        pub const $constant: Code = $value;)*
        /// Every code known here with its C name and its description.
        const KNOWN: &[(Code, &CStr, &CStr)] = &[$(($value, ended(concat!($name, "\0")), ended(concat!($text, "\0")))),*];
    };
}

codes! {
    SUCCESS = 0, "hipSuccess", "no error";
    INVALID_VALUE = 1, "hipErrorInvalidValue", "invalid argument";
    OUT_OF_MEMORY = 2, "hipErrorOutOfMemory", "out of memory";
    NOT_INITIALIZED = 3, "hipErrorNotInitialized", "initialization error";
    DEINITIALIZED = 4, "hipErrorDeinitialized", "driver shutting down";
    INVALID_PITCH = 12, "hipErrorInvalidPitchValue", "invalid pitch argument";
    INVALID_MEMCPY_DIRECTION = 21, "hipErrorInvalidMemcpyDirection", "invalid copy direction for memcpy";
    INSUFFICIENT_DRIVER = 35, "hipErrorInsufficientDriver", "driver version is insufficient for runtime version";
    NO_DEVICE = 100, "hipErrorNoDevice", "no ROCm-capable device is detected";
    INVALID_DEVICE = 101, "hipErrorInvalidDevice", "invalid device ordinal";
    INVALID_CONTEXT = 201, "hipErrorInvalidContext", "invalid device context";
    INVALID_HANDLE = 400, "hipErrorInvalidHandle", "invalid resource handle";
    ILLEGAL_STATE = 401, "hipErrorIllegalState", "the operation cannot be performed in the present state";
    NOT_READY = 600, "hipErrorNotReady", "device not ready";
    ILLEGAL_ADDRESS = 700, "hipErrorIllegalAddress", "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "hipErrorLaunchOutOfResources", "out of resources";
    LAUNCH_FAILURE = 719, "hipErrorLaunchFailure", "unspecified launch failure";
    NOT_SUPPORTED = 801, "hipErrorNotSupported", "operation not supported";
    CAPTURE_UNSUPPORTED = 900, "hipErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing";
    CAPTURE_INVALIDATED = 901, "hipErrorStreamCaptureInvalidated", "operation failed due to a previous error during capture";
    CAPTURE_MERGE = 902, "hipErrorStreamCaptureMerge", "operation would result in a merge of separate capture sequences";
    CAPTURE_UNMATCHED = 903, "hipErrorStreamCaptureUnmatched", "capture was not initiated in this stream";
    CAPTURE_UNJOINED = 904, "hipErrorStreamCaptureUnjoined", "capturing stream has unjoined work";
    CAPTURE_ISOLATION = 905, "hipErrorStreamCaptureIsolation", "dependency created on uncaptured work in another stream";
    CAPTURE_IMPLICIT = 906, "hipErrorStreamCaptureImplicit", "operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT = 907, "hipErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream";
    CAPTURE_WRONG_THREAD = 908, "hipErrorStreamCaptureWrongThread", "attempt to terminate a thread-local capture sequence from another thread";
    UNKNOWN = 999, "hipErrorUnknown", "unknown error";
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

/// Whether a number is an error code of HIP's that is known here.
pub fn is_known(code: Code) -> bool {
    known(code).is_some()
}

/// The C name of a code.
pub extern "C" fn hipGetErrorName(code: Code) -> *const c_char {
    known(code).map_or(c"hipErrorUnknown", |(_, name, _)| *name).as_ptr()
}

/// The description of a code.
pub extern "C" fn hipGetErrorString(code: Code) -> *const c_char {
    known(code).map_or(c"unknown error", |(.., text)| *text).as_ptr()
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
