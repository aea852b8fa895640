//! Streams: their life, waiting for them, host functions on them.

use core::ffi::{c_int, c_uint};

use crate::{
    cuda::{Address, HostFunction, call, checked, cuda},
    error::{Code, INVALID_VALUE, guard},
    numbers::flags,
};

pub unsafe extern "C" fn hipStreamCreateWithFlags(out: *mut Address, given: c_uint) -> Code {
    guard(|| {
        if given & !flags::STREAM != 0 {
            return Err(INVALID_VALUE);
        }
        let cuda = cuda()?;
        // SAFETY: the caller's pointer, which CUDA checks for null.
        checked(cuda, unsafe { (cuda.stream_create)(out, given) })
    })
}

pub unsafe extern "C" fn hipStreamCreate(out: *mut Address) -> Code {
    // SAFETY: the caller's pointer, unchanged.
    unsafe { hipStreamCreateWithFlags(out, 0) }
}

pub extern "C" fn hipStreamDestroy(stream: Address) -> Code {
    // SAFETY: the caller's stream, which it gives up.
    call(|cuda| unsafe { (cuda.stream_destroy)(stream) })
}

pub extern "C" fn hipStreamSynchronize(stream: Address) -> Code {
    // SAFETY: the caller's stream.
    call(|cuda| unsafe { (cuda.stream_synchronize)(stream) })
}

pub extern "C" fn hipStreamQuery(stream: Address) -> Code {
    // SAFETY: the caller's stream.
    call(|cuda| unsafe { (cuda.stream_query)(stream) })
}

pub unsafe extern "C" fn hipStreamGetDevice(stream: Address, out: *mut c_int) -> Code {
    // SAFETY: the caller's stream and pointer.
    call(|cuda| unsafe { (cuda.stream_device)(stream, out) })
}

/// The device of a stream as the return value; -1 for a stream that is none.
pub extern "C" fn hipGetStreamDeviceId(stream: Address) -> c_int {
    let mut device = -1;
    // SAFETY: the place is a local's.
    if unsafe { hipStreamGetDevice(stream, &mut device) } == 0 { device } else { -1 }
}

pub unsafe extern "C" fn hipStreamGetFlags(stream: Address, out: *mut c_uint) -> Code {
    // SAFETY: the caller's stream and pointer.
    call(|cuda| unsafe { (cuda.stream_flags)(stream, out) })
}

pub unsafe extern "C" fn hipLaunchHostFunc(stream: Address, function: Option<HostFunction>, data: Address) -> Code {
    guard(|| {
        let (cuda, function) = (cuda()?, function.ok_or(INVALID_VALUE)?);
        // SAFETY: the caller's stream; function and data are the caller's for this call.
        checked(cuda, unsafe { (cuda.launch_host_function)(stream, function, data) })
    })
}
