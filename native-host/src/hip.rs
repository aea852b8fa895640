//! The edge to the HIP runtime: the few functions that the host needs, from the HIP library that is already in the process.

use std::{
    ffi::{c_int, c_void},
    path::Path,
    ptr::null_mut,
};

use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};

/// Names under which ROCm's releases ship the runtime, newest first.
const NAMES: &[&str] = &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
/// glibc's flag "only if it is loaded already", which libloading does not name.
const RTLD_NOLOAD: c_int = libc::RTLD_NOLOAD;

/// The HIP functions. Addresses and streams are opaque here.
pub struct Hip {
    get_device: unsafe extern "C" fn(*mut c_int) -> c_int,
    set_device: unsafe extern "C" fn(c_int) -> c_int,
    malloc: unsafe extern "C" fn(*mut *mut c_void, usize) -> c_int,
    free: unsafe extern "C" fn(*mut c_void) -> c_int,
    stream_is_capturing: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int,
    name: String,
}

impl Hip {
    /// Uses the named library, else the one in the process, else the first of the usual names that loads.
    pub fn load(path: Option<&Path>) -> Result<Self, String> {
        let (library, name) = Self::open(path)?;
        let hip = Self::resolve(&library, name);
        // Never unloaded: the caller uses it too.
        std::mem::forget(library);
        hip
    }

    fn open(path: Option<&Path>) -> Result<(Loaded, String), String> {
        if let Some(path) = path {
            // SAFETY: loading runs the library's initialisers; the operator named it.
            let library = unsafe { Loaded::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
            return library.map(|l| (l, path.display().to_string())).map_err(crate::backend::loader_text);
        }
        for flags in [RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL] {
            for name in NAMES {
                // SAFETY: as above; native MIOpen needs the same library.
                if let Ok(library) = unsafe { Loaded::open(Some(*name), flags) } {
                    return Ok((library, (*name).to_string()));
                }
            }
        }
        Err(format!("no HIP runtime is loaded, and none of {} can be", NAMES.join(", ")))
    }

    fn resolve(library: &Loaded, name: String) -> Result<Self, String> {
        macro_rules! symbol {
            ($symbol:literal) => {
                // SAFETY: HIP's functions of these names have had these types in every release.
                *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }.map_err(|_| format!("{name} lacks {}", $symbol))?
            };
        }
        Ok(Self {
            get_device: symbol!("hipGetDevice"),
            set_device: symbol!("hipSetDevice"),
            malloc: symbol!("hipMalloc"),
            free: symbol!("hipFree"),
            stream_is_capturing: symbol!("hipStreamIsCapturing"),
            name,
        })
    }

    /// Which library serves.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The calling thread's current device.
    pub fn device(&self) -> Result<i32, i32> {
        let mut device = 0;
        // SAFETY: `device` is writable.
        match unsafe { (self.get_device)(&mut device) } {
            0 => Ok(device),
            error => Err(error),
        }
    }

    /// Makes a device current for the calling thread.
    pub fn set_device(&self, device: i32) -> Result<(), i32> {
        // SAFETY: takes a number only.
        match unsafe { (self.set_device)(device) } {
            0 => Ok(()),
            error => Err(error),
        }
    }

    /// Device memory on the current device.
    pub fn allocate(&self, bytes: usize) -> Result<*mut c_void, i32> {
        let mut address = null_mut();
        // SAFETY: `address` is writable.
        match unsafe { (self.malloc)(&mut address, bytes) } {
            0 if !address.is_null() => Ok(address),
            error => Err(error),
        }
    }

    /// Gives memory of [`Hip::allocate`] back. Waits for the device, as HIP does.
    pub(crate) fn free(&self, address: *mut c_void) {
        // SAFETY: the address came from `allocate` and is given back once (private callers only).
        unsafe { (self.free)(address) };
    }

    /// Whether the stream is being captured. A query that fails counts as captured: the careful answer.
    pub(crate) fn is_capturing(&self, stream: *mut c_void) -> bool {
        let mut status = 0;
        // SAFETY: `status` is writable; the stream is valid by the caller's contract with MIOpen.
        let result = unsafe { (self.stream_is_capturing)(stream, &mut status) };
        result != 0 || status != 0
    }
}
