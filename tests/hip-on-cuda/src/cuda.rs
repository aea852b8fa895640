//! The edge to the CUDA runtime: the functions that are called, from a library that is loaded at the first call and stays.

use core::ffi::{c_char, c_int, c_uint, c_void};
use std::{error::Error, path::Path, sync::LazyLock};

use hip_abi::error::{Code, NO_DEVICE, guard};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::{numbers, search};

/// A stream, an event, a graph or memory.
pub type Address = *mut c_void;
/// What a stream calls.
pub type HostFunction = unsafe extern "C" fn(Address);

/// Declares a struct of functions, and how it is resolved.
macro_rules! functions {
    ($($field:ident $symbol:literal ($($parameter:ty),* $(,)?);)*) => {
        /// The functions. All return an error of CUDA's.
        pub struct Cuda {
            $(pub $field: unsafe extern "C" fn($($parameter),*) -> c_int,)*
        }

        impl Cuda {
            fn resolve(library: &Library) -> Result<Cuda, String> {
                Ok(Cuda {
                    $($field: {
                        // SAFETY: functions of these names have had these types since CUDA 12; where a release takes more or fewer
                        // arguments, that is said below.
                        *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }.map_err(|error| described(&error))?
                    },)*
                })
            }
        }
    };
}

functions! {
    device_count "cudaGetDeviceCount" (*mut c_int);
    set_device "cudaSetDevice" (c_int);
    get_device "cudaGetDevice" (*mut c_int);
    device_synchronize "cudaDeviceSynchronize" ();
    device_attribute "cudaDeviceGetAttribute" (*mut c_int, c_int, c_int);
    device_properties "cudaGetDeviceProperties" (*mut c_void, c_int);
    driver_version "cudaDriverGetVersion" (*mut c_int);
    runtime_version "cudaRuntimeGetVersion" (*mut c_int);
    last_error "cudaGetLastError" ();
    peek_error "cudaPeekAtLastError" ();
    malloc "cudaMalloc" (*mut Address, usize);
    free "cudaFree" (Address);
    host_malloc "cudaHostAlloc" (*mut Address, usize, c_uint);
    host_free "cudaFreeHost" (Address);
    memory_info "cudaMemGetInfo" (*mut usize, *mut usize);
    memcpy "cudaMemcpy" (Address, *const c_void, usize, c_int);
    memcpy_async "cudaMemcpyAsync" (Address, *const c_void, usize, c_int, Address);
    memcpy_2d_async "cudaMemcpy2DAsync" (Address, usize, *const c_void, usize, usize, usize, c_int, Address);
    memset "cudaMemset" (Address, c_int, usize);
    memset_async "cudaMemsetAsync" (Address, c_int, usize, Address);
    pointer_attributes "cudaPointerGetAttributes" (*mut c_void, *const c_void);
    stream_create "cudaStreamCreateWithFlags" (*mut Address, c_uint);
    stream_destroy "cudaStreamDestroy" (Address);
    stream_synchronize "cudaStreamSynchronize" (Address);
    stream_query "cudaStreamQuery" (Address);
    stream_flags "cudaStreamGetFlags" (Address, *mut c_uint);
    stream_device "cudaStreamGetDevice" (Address, *mut c_int);
    stream_wait_event "cudaStreamWaitEvent" (Address, Address, c_uint);
    launch_host_function "cudaLaunchHostFunc" (Address, HostFunction, Address);
    event_create "cudaEventCreateWithFlags" (*mut Address, c_uint);
    event_destroy "cudaEventDestroy" (Address);
    event_record "cudaEventRecord" (Address, Address);
    event_query "cudaEventQuery" (Address);
    event_synchronize "cudaEventSynchronize" (Address);
    event_elapsed "cudaEventElapsedTime" (*mut f32, Address, Address);
    begin_capture "cudaStreamBeginCapture" (Address, c_int);
    end_capture "cudaStreamEndCapture" (Address, *mut Address);
    is_capturing "cudaStreamIsCapturing" (Address, *mut c_int);
    // Before CUDA 13 the last four are not there, and not looked at.
    capture_info "cudaStreamGetCaptureInfo" (Address, *mut c_int, *mut u64, *mut Address, *mut *const Address, *mut *const c_void, *mut usize);
    exchange_capture_mode "cudaThreadExchangeStreamCaptureMode" (*mut c_int);
    graph_instantiate "cudaGraphInstantiate" (*mut Address, Address, u64);
    graph_launch "cudaGraphLaunch" (Address, Address);
    graph_destroy "cudaGraphDestroy" (Address);
    executable_destroy "cudaGraphExecDestroy" (Address);
}

static CUDA: LazyLock<Option<Cuda>> = LazyLock::new(|| {
    let complaint = match load() {
        Ok(cuda) => return Some(cuda),
        Err(complaint) => complaint,
    };
    eprintln!("HIP on CUDA: no CUDA runtime, so no device: {complaint}");
    None
});

/// The first of the places that can be used; else why the last that is there cannot.
fn load() -> Result<Cuda, String> {
    let mut complaint = format!("none of {} is found, and {} names none", search::NAMES.join(", "), search::VARIABLE);
    for file in search::candidates() {
        match open(&file) {
            Ok(cuda) => return Ok(cuda),
            // That the loader does not know a bare name is no news.
            Err(error) if file.is_absolute() => complaint = error,
            Err(_) => {}
        }
    }
    Err(complaint)
}

fn open(file: &Path) -> Result<Cuda, String> {
    // SAFETY: loading runs the library's initialisers, as in any program that uses CUDA.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| described(&error))?;
    let cuda = Cuda::resolve(&library)?;
    // Never unloaded: other libraries use it too.
    std::mem::forget(library);
    Ok(cuda)
}

/// What the loader says, which is behind what libloading says.
fn described(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// The runtime, if there is one.
pub fn cuda() -> Result<&'static Cuda, Code> {
    CUDA.as_ref().ok_or(NO_DEVICE)
}

/// What CUDA answered as HIP says it. CUDA's own memory of a failure is cleared: HIP's is kept by whoever frames the call.
pub fn checked(cuda: &Cuda, error: c_int) -> Result<(), Code> {
    if error == 0 {
        return Ok(());
    }
    // SAFETY: takes nothing.
    unsafe { (cuda.last_error)() };
    Err(numbers::error(error))
}

/// An exported function that is one call of CUDA's.
pub fn call(of: impl FnOnce(&Cuda) -> c_int) -> Code {
    guard(|| {
        let cuda = cuda()?;
        checked(cuda, of(cuda))
    })
}

/// Text up to its NUL.
pub fn text(bytes: &[c_char]) -> Vec<u8> {
    bytes.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect()
}
