//! Events.

use core::ffi::c_uint;

use crate::{
    cuda::{Address, call},
    error::Code,
    numbers::flags,
};

pub unsafe extern "C" fn hipEventCreateWithFlags(out: *mut Address, given: c_uint) -> Code {
    // SAFETY: the caller's pointer, which CUDA checks for null.
    call(|cuda| unsafe { (cuda.event_create)(out, given & flags::EVENT) })
}

pub unsafe extern "C" fn hipEventCreate(out: *mut Address) -> Code {
    // SAFETY: the caller's pointer, unchanged.
    unsafe { hipEventCreateWithFlags(out, 0) }
}

pub extern "C" fn hipEventDestroy(event: Address) -> Code {
    // SAFETY: the caller's event, which it gives up.
    call(|cuda| unsafe { (cuda.event_destroy)(event) })
}

pub extern "C" fn hipEventRecord(event: Address, stream: Address) -> Code {
    // SAFETY: the caller's event and stream.
    call(|cuda| unsafe { (cuda.event_record)(event, stream) })
}

pub extern "C" fn hipStreamWaitEvent(stream: Address, event: Address, flags: c_uint) -> Code {
    // SAFETY: the caller's event and stream.
    call(|cuda| unsafe { (cuda.stream_wait_event)(stream, event, flags) })
}

pub extern "C" fn hipEventSynchronize(event: Address) -> Code {
    // SAFETY: the caller's event.
    call(|cuda| unsafe { (cuda.event_synchronize)(event) })
}

pub extern "C" fn hipEventQuery(event: Address) -> Code {
    // SAFETY: the caller's event.
    call(|cuda| unsafe { (cuda.event_query)(event) })
}

pub unsafe extern "C" fn hipEventElapsedTime(out: *mut f32, start: Address, stop: Address) -> Code {
    // SAFETY: the caller's events and pointer.
    call(|cuda| unsafe { (cuda.event_elapsed)(out, start, stop) })
}
