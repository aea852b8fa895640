//! Statuses: from hipDNN's to MIOpen's, the thread's last forwarded failure, and the texts of `miopenGetErrorString`.

use std::{cell::Cell, ffi::CStr};

use hipdnn_abi::status as hipdnn;
use miopen_api::status;

use crate::{
    frame::{Frame, Step},
    routing::Forwarding,
};

/// What a call of ours that went wrong returns.
pub const INTERNAL: u64 = status::INTERNAL_ERROR as u64;

thread_local! {
    /// hipDNN status of the thread's last forwarded call, and the MIOpen status it became.
    static LAST: Cell<(i32, i32)> = const { Cell::new((hipdnn::SUCCESS, status::SUCCESS)) };
}

/// The MIOpen status for a hipDNN status.
pub fn miopen_status(hipdnn_status: i32) -> i32 {
    match hipdnn_status {
        hipdnn::SUCCESS => status::SUCCESS,
        hipdnn::NOT_INITIALIZED => status::NOT_INITIALIZED,
        hipdnn::BAD_PARAM..=hipdnn::BAD_PARAM_STREAM_MISMATCH => status::BAD_PARM,
        hipdnn::NOT_SUPPORTED => status::UNSUPPORTED_OP,
        hipdnn::ALLOC_FAILED..=hipdnn::INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED => status::ALLOC_FAILED,
        hipdnn::VERSION_MISMATCH => status::VERSION_MISMATCH,
        _ => status::INTERNAL_ERROR,
    }
}

/// Notes how the thread's routed call ended: a failure of hipDNN, or anything else, which takes the mark away.
pub fn note(hipdnn_status: i32) -> i32 {
    let status = miopen_status(hipdnn_status);
    LAST.set((hipdnn_status, status));
    status
}

/// The thread made another call, so its last one is no forwarded failure any more.
pub fn unmark() {
    LAST.set((hipdnn::SUCCESS, status::SUCCESS));
}

/// `miopenGetLastForwardedError`: the hipDNN status of the thread's last routed call if hipDNN failed it, else 0.
pub unsafe extern "C" fn last_forwarded_error() -> i32 {
    LAST.get().0
}

/// Stands in for a function that the native library lacks.
pub unsafe extern "C" fn not_implemented() -> i32 {
    status::NOT_IMPLEMENTED
}

/// Stands in for native's `miopenGetErrorString`.
pub unsafe extern "C" fn error_string(status: i32) -> *const libc::c_char {
    text(status, |(plain, _)| plain).as_ptr()
}

/// `miopenGetErrorString` while forwarding: marks the status of a failed forwarded call, leaves all others to native.
pub fn marked_error_string(frame: &Frame, forwarding: &'static Forwarding) -> Step {
    let status = frame.int(0);
    let (hipdnn_status, forwarded) = LAST.get();
    if hipdnn_status == hipdnn::SUCCESS || forwarded != status {
        return Step::Native;
    }
    forwarding.host.answered("miopenGetErrorString");
    Step::Done(text(status, |(_, marked)| marked).as_ptr() as u64)
}

/// Both texts of every status, for the life of the process.
macro_rules! texts {
    ($($constant:ident $name:literal;)*) => {
        fn text(status: i32, choose: impl Fn((&'static CStr, &'static CStr)) -> &'static CStr) -> &'static CStr {
            // Concatenation of two literals and a NUL: always valid.
            const fn c(bytes: &'static str) -> &'static CStr {
                match CStr::from_bytes_with_nul(bytes.as_bytes()) {
                    Ok(text) => text,
                    Err(_) => c"",
                }
            }
            choose(match status {
                $(status::$constant => (c(concat!($name, "\0")), c(concat!("[hipDNN-forwarded] ", $name, "\0"))),)*
                _ => (c"Unknown error status", c"[hipDNN-forwarded] Unknown error status"),
            })
        }

        #[cfg(test)]
        const NAMED: &[(i32, &str)] = &[$((status::$constant, $name),)*];
    };
}

texts! {
    SUCCESS "miopenStatusSuccess";
    NOT_INITIALIZED "miopenStatusNotInitialized";
    INVALID_VALUE "miopenStatusInvalidValue";
    BAD_PARM "miopenStatusBadParm";
    ALLOC_FAILED "miopenStatusAllocFailed";
    INTERNAL_ERROR "miopenStatusInternalError";
    NOT_IMPLEMENTED "miopenStatusNotImplemented";
    UNKNOWN_ERROR "miopenStatusUnknownError";
    UNSUPPORTED_OP "miopenStatusUnsupportedOp";
    GPU_OPERATIONS_SKIPPED "miopenStatusGpuOperationsSkipped";
    VERSION_MISMATCH "miopenStatusVersionMismatch";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_of_the_api_has_a_text() {
        for (name, number) in status::ALL {
            assert!(NAMED.contains(&(*number, name)), "{name}");
            assert_eq!(text(*number, |(plain, _)| plain).to_str().unwrap(), *name);
            assert_eq!(text(*number, |(_, marked)| marked).to_str().unwrap(), format!("[hipDNN-forwarded] {name}"));
        }
    }

    #[test]
    fn every_hipdnn_failure_becomes_a_failure() {
        for number in 1..=20 {
            assert_ne!(miopen_status(number), status::SUCCESS);
        }
        assert_eq!(miopen_status(hipdnn::BAD_PARAM_NULL_POINTER), status::BAD_PARM);
        assert_eq!(miopen_status(hipdnn::EXECUTION_FAILED), status::INTERNAL_ERROR);
    }
}
