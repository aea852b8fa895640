//! The edge to HIP: the functions that are used, from the runtime that the process has. Nothing is loaded for it.

use std::{
    ffi::{CStr, c_int, c_uint, c_void},
    sync::LazyLock,
};

use hip_abi::memory::{DEVICE, PointerAttributes};

use crate::HipError;

/// The HIP runtimes that a process may have loaded, newest first.
const HIP_LIBRARIES: &[&CStr] = &[c"libamdhip64.so.7", c"libamdhip64.so.6", c"libamdhip64.so.5", c"libamdhip64.so"];
/// `hipStreamCaptureStatusActive`.
const CAPTURING: c_int = 1;
/// `hipStreamCaptureModeRelaxed`: what the thread allocates has nothing to do with captures.
const RELAXED: c_int = 2;
/// `hipMemcpyDefault`: the runtime sees from the addresses where they are.
const COPY_DEFAULT: c_int = 4;
/// `hipHostMallocPortable`: pinned for all devices.
const PORTABLE: c_uint = 1;
/// `hipErrorOutOfMemory`.
const OUT_OF_MEMORY: i32 = 2;

/// What a stream calls.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

/// The functions of a runtime.
pub struct Hip {
    is_capturing: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int,
    launch_host_function: unsafe extern "C" fn(*mut c_void, HostFunction, *mut c_void) -> c_int,
    synchronize: unsafe extern "C" fn(*mut c_void) -> c_int,
    memory: Option<MemoryFunctions>,
}

/// What is needed for memory that the CPU cannot reach.
struct MemoryFunctions {
    attributes: unsafe extern "C" fn(*mut PointerAttributes, *const c_void) -> c_int,
    pinned: unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> c_int,
    copy: unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_int, *mut c_void) -> c_int,
    exchange_capture_mode: unsafe extern "C" fn(*mut c_int) -> c_int,
}

static HIP: LazyLock<Option<Hip>> = LazyLock::new(Hip::of_process);

/// The runtime of the process, if it has one, and that has a device.
pub fn hip() -> Option<&'static Hip> {
    HIP.as_ref()
}

/// A function of HIP's; its type is what it is assigned to.
macro_rules! function {
    ($name:literal) => {
        // SAFETY: HIP's functions of these names have had these types since ROCm 6, and those without memory in every release.
        symbol($name).map(|symbol| unsafe { std::mem::transmute::<*mut c_void, _>(symbol) })
    };
}

impl Hip {
    fn of_process() -> Option<Hip> {
        if !has_device() {
            return None;
        }
        Some(Hip {
            is_capturing: function!(c"hipStreamIsCapturing")?,
            launch_host_function: function!(c"hipLaunchHostFunc")?,
            synchronize: function!(c"hipStreamSynchronize")?,
            memory: MemoryFunctions::of_process(),
        })
    }

    /// Whether a stream records what it is given.
    pub fn is_capturing(&self, stream: usize) -> bool {
        let mut capturing = 0;
        // SAFETY: the stream is the caller's, which HIP checks itself; the status is writable.
        let code = unsafe { (self.is_capturing)(raw(stream), &mut capturing) };
        code == 0 && capturing == CAPTURING
    }

    /// Waits for a stream.
    pub fn synchronize(&self, stream: usize) -> Result<(), HipError> {
        // SAFETY: the stream is the caller's, which HIP checks itself.
        checked(unsafe { (self.synchronize)(raw(stream)) })
    }

    /// Has a stream call a function.
    ///
    /// # Safety
    /// The function takes what is passed here, as often as the stream will call it.
    pub unsafe fn launch(&self, stream: usize, function: HostFunction, data: *mut c_void) -> Result<(), HipError> {
        // SAFETY: by the contract of this function; the stream is the caller's, which HIP checks itself.
        checked(unsafe { (self.launch_host_function)(raw(stream), function, data) })
    }

    /// Whether an address is a device's, and the CPU cannot reach it. A runtime that does not say has none such.
    pub fn is_out_of_reach(&self, address: usize) -> bool {
        let (Some(memory), mut found) = (&self.memory, PointerAttributes::UNKNOWN) else { return false };
        // SAFETY: the structure is a local; the address is only looked up.
        let code = unsafe { (memory.attributes)(&mut found, raw(address)) };
        code == 0 && found.kind == DEVICE && found.host_pointer.is_null()
    }

    /// Memory of the CPU that devices copy to and from while the program goes on. It is never given back to HIP, which would wait for the
    /// device.
    pub fn pinned(&self, bytes: usize) -> Result<usize, HipError> {
        let memory = self.memory.as_ref().ok_or(HipError(OUT_OF_MEMORY))?;
        let (mut address, mut mode) = (std::ptr::null_mut(), RELAXED);
        // SAFETY: the mode is writable, and becomes the one that the thread had.
        let exchanged = unsafe { (memory.exchange_capture_mode)(&mut mode) } == 0;
        // SAFETY: `address` is writable.
        let code = unsafe { (memory.pinned)(&mut address, bytes, PORTABLE) };
        if exchanged {
            // SAFETY: as above.
            unsafe { (memory.exchange_capture_mode)(&mut mode) };
        }
        checked(code).map(|()| address.expose_provenance())
    }

    /// Has a stream copy.
    ///
    /// # Safety
    /// Both are memory of so many bytes whenever the stream comes to it.
    pub unsafe fn copy(&self, to: usize, from: usize, bytes: usize, stream: usize) -> Result<(), HipError> {
        let memory = self.memory.as_ref().ok_or(HipError(OUT_OF_MEMORY))?;
        // SAFETY: by the contract of this function; the stream is the caller's, which HIP checks itself.
        checked(unsafe { (memory.copy)(raw(to), raw(from), bytes, COPY_DEFAULT, raw(stream)) })
    }
}

impl MemoryFunctions {
    fn of_process() -> Option<MemoryFunctions> {
        Some(MemoryFunctions {
            attributes: function!(c"hipPointerGetAttributes")?,
            pinned: function!(c"hipHostMalloc")?,
            copy: function!(c"hipMemcpyAsync")?,
            exchange_capture_mode: function!(c"hipThreadExchangeStreamCaptureMode")?,
        })
    }
}

/// A runtime without a device has no streams either.
fn has_device() -> bool {
    let count: Option<unsafe extern "C" fn(*mut c_int) -> c_int> = function!(c"hipGetDeviceCount");
    let (Some(get_count), mut count) = (count, 0) else { return false };
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

/// A stream or an address as C has it.
fn raw(address: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address)
}

fn checked(code: c_int) -> Result<(), HipError> {
    if code == 0 { Ok(()) } else { Err(HipError(code)) }
}
