//! The library handle: stream, allocator, profiling, tuning policy. Streams and allocators are kept, not used: everything
//! runs at once in the calling thread and needs no device memory.

use miopen_api::tuning_policy;

use crate::args::{New, Obj, Out, Raw, create, object};
use crate::failure::{Outcome, bad};

/// A handle.
pub struct Handle {
    stream: Raw,
    profiling: bool,
    kernel_time: f32,
    tuning_policy: i32,
    allocator: [Raw; 3],
}
object!(Handle, 0x6d69_4861_6e64_6c65, "handle");

impl Handle {
    fn with_stream(stream: Raw) -> Handle {
        let none = Raw(core::ptr::null_mut());
        Handle { stream, profiling: false, kernel_time: 0.0, tuning_policy: tuning_policy::NONE, allocator: [none; 3] }
    }

    /// Remembers how long a call computed, for those who asked.
    pub fn computed_for(&mut self, milliseconds: f32) {
        if self.profiling {
            self.kernel_time = milliseconds;
        }
    }
}

pub fn miopenCreate(handle: Out<New<Handle>>) -> Outcome {
    create(&handle, Handle::with_stream(Raw(core::ptr::null_mut())))
}

pub fn miopenCreateWithStream(handle: Out<New<Handle>>, stream: Raw) -> Outcome {
    create(&handle, Handle::with_stream(stream))
}

pub fn miopenDestroy(handle: Obj<Handle>) -> Outcome {
    handle.destroy()
}

pub fn miopenSetStream(mut handle: Obj<Handle>, stream: Raw) -> Outcome {
    handle.get_mut()?.stream = stream;
    Ok(())
}

pub fn miopenGetStream(handle: Obj<Handle>, stream: Out<Raw>) -> Outcome {
    stream.put(handle.get()?.stream)
}

pub fn miopenSetAllocator(mut handle: Obj<Handle>, allocator: Raw, deallocator: Raw, context: Raw) -> Outcome {
    handle.get_mut()?.allocator = [allocator, deallocator, context];
    Ok(())
}

pub fn miopenEnableProfiling(mut handle: Obj<Handle>, enable: bool) -> Outcome {
    let handle = handle.get_mut()?;
    handle.profiling = enable;
    if !enable {
        handle.kernel_time = 0.0;
    }
    Ok(())
}

pub fn miopenGetKernelTime(handle: Obj<Handle>, time: Out<f32>) -> Outcome {
    time.put(handle.get()?.kernel_time)
}

pub fn miopenSetTuningPolicy(mut handle: Obj<Handle>, policy: i32) -> Outcome {
    let handle = handle.get_mut()?;
    if !tuning_policy::ALL.iter().any(|(_, value)| *value == policy) {
        return Err(bad(format!("{policy} is no tuning policy")));
    }
    handle.tuning_policy = policy;
    Ok(())
}

pub fn miopenGetTuningPolicy(handle: Obj<Handle>, policy: Out<i32>) -> Outcome {
    policy.put(handle.get()?.tuning_policy)
}
