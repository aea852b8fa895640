//! A thread's last error: HIP's, which the frame of each call keeps, and what CUDA found out since.

use core::ffi::c_int;

pub use hip_abi::error::{Code, INVALID_VALUE, NOT_SUPPORTED, SUCCESS, guard, hipGetErrorName, hipGetErrorString, put};

use crate::{
    cuda::{Cuda, cuda},
    numbers,
};

/// What HIP remembers, or else CUDA.
fn last(own: Code, of: impl FnOnce(&Cuda) -> c_int) -> Code {
    let found = cuda().map_or(0, of);
    if own != SUCCESS || found == 0 { own } else { numbers::error(found) }
}

pub extern "C" fn hipGetLastError() -> Code {
    // SAFETY: takes nothing.
    last(hip_abi::error::hipGetLastError(), |cuda| unsafe { (cuda.last_error)() })
}

pub extern "C" fn hipExtGetLastError() -> Code {
    hipGetLastError()
}

pub extern "C" fn hipPeekAtLastError() -> Code {
    // SAFETY: takes nothing.
    last(hip_abi::error::hipPeekAtLastError(), |cuda| unsafe { (cuda.peek_error)() })
}
