//! The library handle: stream, allocator, profiling, tuning policy; and how work gets onto the stream. Allocators are kept, not used:
//! nothing needs device memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use hip_queue::HipError;

use miopen_api::{status, tuning_policy};

use crate::args::{New, Obj, Out, Raw, create, object};
use crate::classic::finds::Finds;
use crate::failure::{Failure, Outcome, bad, fail};

/// A handle.
pub struct Handle {
    stream: Raw,
    profiling: bool,
    kernel_time: f32,
    tuning_policy: i32,
    allocator: [Raw; 3],
    /// What classic calls may execute.
    pub finds: Finds,
}
object!(Handle, 0x6d69_4861_6e64_6c65, "handle");

impl Handle {
    fn with_stream(stream: Raw) -> Handle {
        let none = Raw(core::ptr::null_mut());
        let finds = Finds::from_environment();
        Handle { stream, profiling: false, kernel_time: 0.0, tuning_policy: tuning_policy::NONE, allocator: [none; 3], finds }
    }

    /// Queues work on the stream. Under profiling, waits for it and remembers how long it computed.
    pub fn queue(&mut self, work: impl Fn() + Send + Sync + 'static) -> Outcome {
        if self.profiling {
            return self.measure(work).map(|_| ());
        }
        hip_queue::queue(self.stream.0.expose_provenance(), work).map_err(hip_failed)
    }

    /// Queues work, waits for everything that is on the stream, and says how many milliseconds the work computed.
    pub fn measure(&mut self, work: impl Fn() + Send + Sync + 'static) -> Result<f32, Failure> {
        let (stream, time) = (self.stream.0.expose_provenance(), Arc::new(AtomicU32::new(0)));
        let measured = time.clone();
        let timed = move || {
            let start = Instant::now();
            work();
            let milliseconds = (start.elapsed().as_secs_f64() * 1e3) as f32;
            measured.store(milliseconds.to_bits(), Ordering::Release);
        };
        hip_queue::queue(stream, timed).map_err(hip_failed)?;
        hip_queue::synchronize(stream).map_err(hip_failed)?;
        let time = f32::from_bits(time.load(Ordering::Acquire));
        if self.profiling {
            self.kernel_time = time;
        }
        Ok(time)
    }
}

/// What the real library says to any failure of HIP.
fn hip_failed(error: HipError) -> Failure {
    fail(status::UNKNOWN_ERROR, error.to_string())
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
