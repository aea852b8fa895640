//! The version and the names of statuses.

use core::ffi::{CStr, c_char};

use miopen_api::status;

use crate::args::Out;
use crate::failure::Outcome;

/// Static strings, as the real library's.
const STATUS_NAMES: [&CStr; 11] = [
    c"miopenStatusSuccess",
    c"miopenStatusNotInitialized",
    c"miopenStatusInvalidValue",
    c"miopenStatusBadParm",
    c"miopenStatusAllocFailed",
    c"miopenStatusInternalError",
    c"miopenStatusNotImplemented",
    c"miopenStatusUnknownError",
    c"miopenStatusUnsupportedOp",
    c"miopenStatusGpuOperationsSkipped",
    c"miopenStatusVersionMismatch",
];
const _: () = assert!(STATUS_NAMES.len() == status::ALL.len());

pub fn miopenGetErrorString(error: i32) -> *const c_char {
    let known = usize::try_from(error).ok().and_then(|e| STATUS_NAMES.get(e).copied());
    known.unwrap_or(c"Unknown error status").as_ptr()
}

pub fn miopenGetVersion(major: Out<usize>, minor: Out<usize>, patch: Out<usize>) -> Outcome {
    major.put_if(3);
    minor.put_if(5);
    patch.put_if(1);
    Ok(())
}
