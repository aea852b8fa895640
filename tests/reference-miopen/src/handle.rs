//! The library handle: stream, allocator, profiling, tuning policy; and how work gets onto the stream. Allocators are kept, not used:
//! nothing needs device memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use hip_queue::{HipError, Region};

use miopen_api::{status, tuning_policy};

use crate::args::{New, Obj, Out, Raw, create, object};
use crate::classic::finds::Finds;
use crate::failure::{Failure, Outcome, bad, fail};
use crate::numeric::{Use, Work};

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
    pub fn queue(&mut self, work: impl Work) -> Outcome {
        if self.profiling {
            return self.measure(work).map(|_| ());
        }
        self.put(work, |work| work.run())
    }

    /// Puts work on the stream, done by a function. What it touches may be memory of a device, which the CPU does not reach: then it is done
    /// on copies.
    fn put<W: Work>(&self, mut work: W, run: impl Fn(&W) + Send + Sync + 'static) -> Outcome {
        let mut regions = Vec::new();
        work.each(&mut |tensor, usage| {
            regions.push(Region { address: tensor.address, bytes: tensor.bytes(), written: usage == Use::Output });
        });
        let moved = move |addresses: &[usize]| {
            let (mut work, mut addresses) = (work.clone(), addresses.iter());
            work.each(&mut |tensor, _| tensor.address = addresses.next().copied().unwrap_or(tensor.address));
            run(&work);
        };
        hip_queue::queue_on(self.stream.0.expose_provenance(), regions, moved).map_err(hip_failed)
    }

    /// Queues work, waits for everything that is on the stream, and says how many milliseconds the work computed.
    pub fn measure<W: Work>(&mut self, work: W) -> Result<f32, Failure> {
        let time = Arc::new(AtomicU32::new(0));
        let measured = time.clone();
        self.put(work, move |work| {
            let start = Instant::now();
            work.run();
            let milliseconds = (start.elapsed().as_secs_f64() * 1e3) as f32;
            measured.store(milliseconds.to_bits(), Ordering::Release);
        })?;
        hip_queue::synchronize(self.stream.0.expose_provenance()).map_err(hip_failed)?;
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
