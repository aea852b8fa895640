//! Stream capture: work on a capturing stream must be recorded, not done. On the CPU that takes a host function of the HIP library that
//! the process has; nothing is loaded for it, and without HIP there is no stream to capture.

use std::{
    ffi::{CStr, c_int, c_void},
    sync::LazyLock,
};

use hipdnn_abi::status;

use crate::error::{Error, Result};

/// The HIP runtimes that a process may have loaded, newest first.
const HIP_LIBRARIES: &[&CStr] = &[c"libamdhip64.so.7", c"libamdhip64.so.6", c"libamdhip64.so.5", c"libamdhip64.so"];
/// `hipStreamCaptureStatusActive`.
const CAPTURING: c_int = 1;

type HostFunction = unsafe extern "C" fn(*mut c_void);

struct Hip {
    is_capturing: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int,
    launch_host_function: unsafe extern "C" fn(*mut c_void, HostFunction, *mut c_void) -> c_int,
}

static HIP: LazyLock<Option<Hip>> = LazyLock::new(|| {
    let is_capturing = symbol(c"hipStreamIsCapturing")?;
    let launch_host_function = symbol(c"hipLaunchHostFunc")?;
    // SAFETY: HIP gives these functions these types.
    unsafe {
        Some(Hip {
            is_capturing: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int>(is_capturing),
            launch_host_function: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, HostFunction, *mut c_void) -> c_int>(
                launch_host_function,
            ),
        })
    }
});

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

/// Runs the work, or, if the stream is capturing, has it run whenever the captured graph is launched.
pub(crate) fn run_or_record(stream: usize, work: impl Fn() + Send + 'static) -> Result<()> {
    match HIP.as_ref().filter(|hip| stream != 0 && is_capturing(hip, stream)) {
        Some(hip) => record(hip, stream, Box::new(work)),
        None => {
            work();
            Ok(())
        }
    }
}

fn is_capturing(hip: &Hip, stream: usize) -> bool {
    let mut capturing = 0;
    // SAFETY: the stream is the caller's, which HIP checks itself; the status is writable.
    let code = unsafe { (hip.is_capturing)(std::ptr::with_exposed_provenance_mut(stream), &mut capturing) };
    code == 0 && capturing == CAPTURING
}

fn record(hip: &Hip, stream: usize, work: Box<dyn Fn() + Send>) -> Result<()> {
    // HIP does not say when a graph is destroyed, so what it may still launch is never freed.
    let data = Box::into_raw(Box::new(work));
    // SAFETY: `call` takes what is passed here, any number of times.
    let code = unsafe { (hip.launch_host_function)(std::ptr::with_exposed_provenance_mut(stream), call, data.cast()) };
    if code == 0 { Ok(()) } else { Err(Error::new(status::EXECUTION_FAILED, format!("hipLaunchHostFunc: error {code}"))) }
}

/// # Safety
/// `data` is a leaked `Box<dyn Fn() + Send>` of [`record`].
unsafe extern "C" fn call(data: *mut c_void) {
    // SAFETY: by the contract of this function; it is never freed, and only shared references are made.
    let work = unsafe { &*data.cast::<Box<dyn Fn() + Send>>() };
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
        eprintln!("reference hipDNN: panic in captured work");
    }
}
