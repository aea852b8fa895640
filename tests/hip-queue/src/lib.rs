//! Work of the CPU on HIP's streams, for libraries that stand for GPU libraries in tests: queued in the order of a stream, recorded
//! when the stream is capturing, waited for. What the work computes does not belong here.
//!
//! The HIP runtime is the one that the process has; nothing is loaded for it. Without one there is no stream, and work is done at once
//! in the calling thread.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

use std::{
    ffi::{CStr, c_int, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::LazyLock,
};

/// The HIP runtimes that a process may have loaded, newest first.
const HIP_LIBRARIES: &[&CStr] = &[c"libamdhip64.so.7", c"libamdhip64.so.6", c"libamdhip64.so.5", c"libamdhip64.so"];
/// `hipStreamCaptureStatusActive`.
const CAPTURING: c_int = 1;

/// A HIP call that failed: its error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HipError(pub i32);

impl std::fmt::Display for HipError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HIP error {}", self.0)
    }
}

impl std::error::Error for HipError {}

type HostFunction = unsafe extern "C" fn(*mut c_void);

struct Hip {
    is_capturing: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int,
    launch_host_function: unsafe extern "C" fn(*mut c_void, HostFunction, *mut c_void) -> c_int,
    synchronize: unsafe extern "C" fn(*mut c_void) -> c_int,
}

static HIP: LazyLock<Option<Hip>> = LazyLock::new(|| {
    if !has_device() {
        return None;
    }
    let (is_capturing, launch, synchronize) =
        (symbol(c"hipStreamIsCapturing")?, symbol(c"hipLaunchHostFunc")?, symbol(c"hipStreamSynchronize")?);
    // SAFETY: HIP gives these functions these types.
    unsafe {
        Some(Hip {
            is_capturing: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int>(is_capturing),
            launch_host_function: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, HostFunction, *mut c_void) -> c_int>(
                launch,
            ),
            synchronize: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(synchronize),
        })
    }
});

/// A runtime without a device has no streams either.
fn has_device() -> bool {
    let Some(function) = symbol(c"hipGetDeviceCount") else { return false };
    // SAFETY: HIP gives this function this type.
    let get_count = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(function) };
    let mut count = 0;
    // SAFETY: `count` is writable.
    unsafe { get_count(&mut count) == 0 && count > 0 }
}

/// A function of a HIP library that is loaded already, in whatever scope.
fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: looking a symbol up in the global scope has no preconditions.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    let local = || {
        HIP_LIBRARIES.iter().find_map(|library| {
            // SAFETY: with RTLD_NOLOAD nothing is loaded or run; the extra reference is kept, as the symbol is.
            let library = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
            // SAFETY: the library is a live handle if it is not null.
            (!library.is_null()).then(|| unsafe { libc::dlsym(library, name.as_ptr()) }).filter(|symbol| !symbol.is_null())
        })
    };
    if global.is_null() { local() } else { Some(global) }
}

/// A `hipStream_t` as C has it.
fn raw(stream: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(stream)
}

fn checked(code: c_int) -> Result<(), HipError> {
    if code == 0 { Ok(()) } else { Err(HipError(code)) }
}

/// Queues work on a stream (0 is the null stream): it runs on a thread of HIP's, after everything that the stream was given before. On a
/// capturing stream it is recorded instead, and runs whenever the graph is launched. Without HIP it runs now.
pub fn queue(stream: usize, work: impl Fn() + Send + Sync + 'static) -> Result<(), HipError> {
    let Some(hip) = HIP.as_ref() else {
        work();
        return Ok(());
    };
    let job = Job { once: !is_capturing(hip, stream), work: Box::new(work) };
    let data = Box::into_raw(Box::new(job));
    // SAFETY: `call` takes what is passed here, as often as the stream will call it.
    let queued = checked(unsafe { (hip.launch_host_function)(raw(stream), call, data.cast()) });
    if queued.is_err() {
        // SAFETY: what was not queued is never called, so this is the only owner.
        drop(unsafe { Box::from_raw(data) });
    }
    queued
}

/// Waits until everything that the stream was given is done.
pub fn synchronize(stream: usize) -> Result<(), HipError> {
    match HIP.as_ref() {
        // SAFETY: the stream is the caller's, which HIP checks itself.
        Some(hip) => checked(unsafe { (hip.synchronize)(raw(stream)) }),
        None => Ok(()),
    }
}

fn is_capturing(hip: &Hip, stream: usize) -> bool {
    let mut capturing = 0;
    // SAFETY: the stream is the caller's, which HIP checks itself; the status is writable.
    let code = unsafe { (hip.is_capturing)(raw(stream), &mut capturing) };
    code == 0 && capturing == CAPTURING
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
