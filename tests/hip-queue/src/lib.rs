//! Work of the CPU on HIP's streams, for libraries that stand for GPU libraries in tests: queued in the order of a stream, recorded
//! when the stream is capturing, waited for; and the copies of memory that the CPU cannot reach (`staging`). What the work computes does not
//! belong here.
//!
//! The HIP runtime is the one that the process has; nothing is loaded for it. Without one there is no stream, and work is done at once
//! in the calling thread.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

use std::{
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
};

mod hip;
mod staging;

use hip::{Hip, hip};
use staging::Staging;

/// A HIP call that failed: its error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HipError(pub i32);

impl std::fmt::Display for HipError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HIP error {}", self.0)
    }
}

impl std::error::Error for HipError {}

/// Memory that work touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where it begins, for the device.
    pub address: usize,
    /// How long it is.
    pub bytes: usize,
    /// Whether the work writes it.
    pub written: bool,
}

/// Queues work on a stream (0 is the null stream): it runs on a thread of HIP's, after everything that the stream was given before. On a
/// capturing stream it is recorded instead, and runs whenever the graph is launched. Without HIP it runs now.
pub fn queue(stream: usize, work: impl Fn() + Send + Sync + 'static) -> Result<(), HipError> {
    match hip() {
        Some(hip) => launch(hip, stream, work),
        None => {
            work();
            Ok(())
        }
    }
}

/// As [`queue`], for work on memory that may be a device's. The work is told where the CPU finds each region. What the CPU reaches, as all
/// memory of the reference HIP and pinned memory, is where it is. What it cannot reach is copied to pinned memory before the work, and what
/// was written is copied back, as further work of the stream: nobody waits, and the work itself calls no HIP, which CUDA forbids it.
pub fn queue_on(stream: usize, regions: Vec<Region>, work: impl Fn(&[usize]) + Send + Sync + 'static) -> Result<(), HipError> {
    let staging = match hip() {
        Some(hip) => Staging::new(hip, &regions)?.map(|staging| (hip, staging)),
        None => None,
    };
    let Some((hip, staging)) = staging else {
        let addresses: Vec<usize> = regions.iter().map(|region| region.address).collect();
        return queue(stream, move || work(&addresses));
    };
    let (recorded, addresses) = (hip.is_capturing(stream), staging.addresses(&regions));
    staging.load(hip, stream)?;
    launch(hip, stream, move || work(&addresses))?;
    staging.store(hip, stream)?;
    if recorded {
        // It stays the graph's: HIP does not say when that is destroyed.
        return Ok(());
    }
    launch(hip, stream, move || staging.give_back())
}

/// Waits until everything that the stream was given is done.
pub fn synchronize(stream: usize) -> Result<(), HipError> {
    hip().map_or(Ok(()), |hip| hip.synchronize(stream))
}

fn launch(hip: &Hip, stream: usize, work: impl Fn() + Send + Sync + 'static) -> Result<(), HipError> {
    let job = Job { once: !hip.is_capturing(stream), work: Box::new(work) };
    let data = Box::into_raw(Box::new(job));
    // SAFETY: `call` takes what is passed here, as often as the stream will call it.
    let queued = unsafe { hip.launch(stream, call, data.cast()) };
    if queued.is_err() {
        // SAFETY: what was not queued is never called, so this is the only owner.
        drop(unsafe { Box::from_raw(data) });
    }
    queued
}

struct Job {
    /// Called once, then freed. What is recorded is never freed: HIP does not say when a graph is destroyed.
    once: bool,
    work: Box<dyn Fn() + Send + Sync>,
}

/// # Safety
/// `data` is a leaked `Job` of [`queue`]; one to be called once is not used again.
unsafe extern "C" fn call(data: *mut c_void) {
    let job = data.cast::<Job>();
    // SAFETY: by the contract of this function it is alive, and only shared references are made.
    let work = unsafe { &*job };
    if catch_unwind(AssertUnwindSafe(|| (work.work)())).is_err() {
        eprintln!("a reference backend panicked in queued work");
    }
    if work.once {
        // SAFETY: by the contract of this function nothing else uses it, nor will.
        drop(unsafe { Box::from_raw(job) });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };

    #[test]
    fn without_hip_work_is_done_at_once() {
        let done = Arc::new(AtomicU32::new(0));
        let counter = done.clone();
        super::queue(0, move || {
            counter.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 1);
        super::synchronize(0).unwrap();
    }
}
