//! The edge to the HIP runtime: the few functions that the host needs, from the HIP library that is already in the process. Where it is
//! looked for is in `search`, what it says about its devices in `devices`.

mod devices;
pub mod search;

use std::{
    ffi::{c_int, c_void},
    path::Path,
    ptr::null_mut,
};

use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};

pub use devices::Device;

use crate::{
    search::{Candidate, Reason, Search, first},
    trace::Memory,
};

/// glibc's flag "only if it is loaded already", which libloading does not name.
const RTLD_NOLOAD: c_int = libc::RTLD_NOLOAD;

/// The HIP functions. Addresses and streams are opaque here.
pub struct Hip {
    get_device: unsafe extern "C" fn(*mut c_int) -> c_int,
    set_device: unsafe extern "C" fn(c_int) -> c_int,
    malloc: unsafe extern "C" fn(*mut *mut c_void, usize) -> c_int,
    free: unsafe extern "C" fn(*mut c_void) -> c_int,
    stream_is_capturing: unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int,
    memory: Option<MemoryInfo>,
    copies: Option<CopyFunctions>,
    /// ROCm 5 and later.
    exchange_capture_mode: Option<ExchangeCaptureMode>,
    events: EventFunctions,
    devices: devices::DeviceFunctions,
    name: String,
}

/// What HIP offers for looking at results; needed only to verify them.
#[derive(Clone, Copy)]
struct CopyFunctions {
    copy: unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_int, *mut c_void) -> c_int,
    synchronize: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// `hipMemcpyDefault`: the runtime sees from the addresses where they are.
const COPY_DEFAULT: c_int = 4;
/// `hipErrorNotSupported`.
const NOT_SUPPORTED: i32 = 801;

type MemoryInfo = unsafe extern "C" fn(*mut usize, *mut usize) -> c_int;

type ExchangeCaptureMode = unsafe extern "C" fn(*mut c_int) -> c_int;

/// `hipStreamCaptureModeRelaxed`: this thread's calls have nothing to do with captures of others.
const RELAXED: c_int = 2;

/// As long as it lives, the thread's allocations disturb no other thread's capture. Gives the thread its own mode back when dropped.
pub(crate) struct RelaxedCapture {
    exchange: Option<ExchangeCaptureMode>,
    before: c_int,
}

impl Drop for RelaxedCapture {
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange {
            // SAFETY: the mode is writable, and is the one that the thread had.
            unsafe { exchange(&mut self.before) };
        }
    }
}

/// Device memory for a moment. Given back, which waits for the device, when dropped.
pub struct Scratch<'a> {
    hip: &'a Hip,
    address: *mut c_void,
}

impl Scratch<'_> {
    /// Where it is.
    pub fn address(&self) -> *mut c_void {
        self.address
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        self.hip.free(self.address);
    }
}

/// What HIP offers for timing.
#[derive(Clone, Copy)]
struct EventFunctions {
    create: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    record: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    synchronize: unsafe extern "C" fn(*mut c_void) -> c_int,
    elapsed: unsafe extern "C" fn(*mut f32, *mut c_void, *mut c_void) -> c_int,
    destroy: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// A pair of events around work on a stream. Destroyed when dropped.
pub(crate) struct Timer {
    functions: EventFunctions,
    start: *mut c_void,
    stop: *mut c_void,
}

// SAFETY: HIP's events may be used from any thread.
unsafe impl Send for Timer {}

impl Timer {
    /// The work to be timed is submitted to the stream next.
    pub(crate) fn start(&self, stream: *mut c_void) -> Result<(), i32> {
        // SAFETY: the event lives; the stream is valid by the caller's contract with MIOpen.
        checked(unsafe { (self.functions.record)(self.start, stream) })
    }

    /// The work to be timed has been submitted.
    pub(crate) fn stop(&self, stream: *mut c_void) -> Result<(), i32> {
        // SAFETY: as above.
        checked(unsafe { (self.functions.record)(self.stop, stream) })
    }

    /// Waits for the work and answers how many milliseconds it took on the device.
    pub(crate) fn milliseconds(&self) -> Result<f32, i32> {
        let mut elapsed = 0.0;
        // SAFETY: the events live; `elapsed` is writable.
        unsafe {
            checked((self.functions.synchronize)(self.stop))?;
            checked((self.functions.elapsed)(&mut elapsed, self.start, self.stop))?;
        }
        Ok(elapsed)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        for event in [self.start, self.stop] {
            // SAFETY: made by `Hip::timer`, destroyed once.
            unsafe { (self.functions.destroy)(event) };
        }
    }
}

fn checked(error: c_int) -> Result<(), i32> {
    if error == 0 { Ok(()) } else { Err(error) }
}

impl Hip {
    /// Uses the named library, else the one in the process, else the first of the usual names that loads. The error says why not.
    pub fn load(path: Option<&Path>) -> Result<Self, String> {
        let Search { found, rejected } = Self::find(path);
        found.map(|(_, hip)| hip).ok_or_else(|| match rejected.iter().find(|(_, reason)| *reason != Reason::Missing || path.is_some()) {
            Some((_, Reason::NotLoadable(text))) => text.clone(),
            Some((candidate, reason)) => format!("{}: {reason}", candidate.file.display()),
            None => format!("no HIP runtime is loaded, and none of {} can be", search::NAMES.join(", ")),
        })
    }

    /// The first of the places that can be used.
    pub fn find(path: Option<&Path>) -> Search<Self> {
        first(search::candidates(path), Self::open)
    }

    fn open(candidate: &Candidate) -> Result<Self, Reason> {
        let flags = if *candidate.rule == search::LOADED { RTLD_NOLOAD } else { 0 };
        let file = candidate.file.as_path();
        Reason::of_place(file)?;
        // SAFETY: loading runs the library's initialisers; the operator named it, or native MIOpen needs the same library.
        let library = unsafe { Loaded::open(Some(file), RTLD_NOW | RTLD_LOCAL | flags) };
        let library = match library {
            Ok(library) => library,
            Err(_) if flags == RTLD_NOLOAD => return Err(Reason::Missing),
            Err(error) => return Err(Reason::of_loader(file, error)),
        };
        let hip = Self::resolve(&library, file.display().to_string());
        // Never unloaded: the caller uses it too.
        std::mem::forget(library);
        hip
    }

    fn resolve(library: &Loaded, name: String) -> Result<Self, Reason> {
        macro_rules! symbol {
            ($symbol:literal) => {
                // SAFETY: HIP's functions of these names have had these types in every release.
                *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }.map_err(|_| Reason::Lacks($symbol))?
            };
        }
        macro_rules! optional {
            ($symbol:literal) => {
                // SAFETY: as above.
                unsafe { library.get(concat!($symbol, "\0").as_bytes()) }.ok().map(|symbol| *symbol)
            };
        }
        Ok(Self {
            get_device: symbol!("hipGetDevice"),
            set_device: symbol!("hipSetDevice"),
            malloc: symbol!("hipMalloc"),
            free: symbol!("hipFree"),
            stream_is_capturing: symbol!("hipStreamIsCapturing"),
            memory: optional!("hipMemGetInfo"),
            copies: match (optional!("hipMemcpyAsync"), optional!("hipStreamSynchronize")) {
                (Some(copy), Some(synchronize)) => Some(CopyFunctions { copy, synchronize }),
                _ => None,
            },
            exchange_capture_mode: optional!("hipThreadExchangeStreamCaptureMode"),
            events: EventFunctions {
                create: symbol!("hipEventCreate"),
                record: symbol!("hipEventRecord"),
                synchronize: symbol!("hipEventSynchronize"),
                elapsed: symbol!("hipEventElapsedTime"),
                destroy: symbol!("hipEventDestroy"),
            },
            devices: devices::DeviceFunctions::resolve(library),
            name,
        })
    }

    /// Which library serves.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An address inside the library, to tell which module it is.
    pub fn address(&self) -> usize {
        self.get_device as usize
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

    /// How much memory the current device has, and how much of it is free; `None` if HIP does not say.
    pub(crate) fn memory(&self) -> Option<Memory> {
        let (mut free, mut total) = (0, 0);
        let _relaxed = self.relax_capture();
        // SAFETY: both are writable.
        let result = self.memory.map(|ask| unsafe { ask(&mut free, &mut total) });
        (result == Some(0)).then_some(Memory { free, total })
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
        let _relaxed = self.relax_capture();
        // SAFETY: `address` is writable.
        match unsafe { (self.malloc)(&mut address, bytes) } {
            0 if !address.is_null() => Ok(address),
            error => Err(error),
        }
    }

    /// Gives memory of [`Hip::allocate`] back. Waits for the device, as HIP does.
    pub(crate) fn free(&self, address: *mut c_void) {
        let _relaxed = self.relax_capture();
        // SAFETY: the address came from `allocate` and is given back once (private callers only).
        unsafe { (self.free)(address) };
    }

    /// Device memory that is given back when it goes out of scope.
    pub(crate) fn scratch(&self, bytes: usize) -> Result<Scratch<'_>, i32> {
        self.allocate(bytes).map(|address| Scratch { hip: self, address })
    }

    /// Queues a copy on a stream.
    ///
    /// # Safety
    /// Both are memory of so many bytes until the stream has come to it.
    pub(crate) unsafe fn copy(&self, to: *mut c_void, from: *const c_void, bytes: usize, stream: *mut c_void) -> Result<(), i32> {
        let functions = self.copies.ok_or(NOT_SUPPORTED)?;
        // SAFETY: by the contract of this function; the stream is valid by the caller's contract with MIOpen.
        checked(unsafe { (functions.copy)(to, from, bytes, COPY_DEFAULT, stream) })
    }

    /// What is in device memory once the stream has done all that it was given. Waits for it.
    ///
    /// # Safety
    /// There is memory of so many bytes.
    pub(crate) unsafe fn read(&self, from: *const c_void, bytes: usize, stream: *mut c_void) -> Result<Vec<u8>, i32> {
        let functions = self.copies.ok_or(NOT_SUPPORTED)?;
        let mut read = vec![0u8; bytes];
        // SAFETY: by the contract of this function; what is read into stays until the copy is done, see below.
        let done = unsafe { self.copy(read.as_mut_ptr().cast(), from, bytes, stream) }.and_then(|()| {
            // SAFETY: the stream is valid by the caller's contract with MIOpen.
            checked(unsafe { (functions.synchronize)(stream) })
        });
        if let Err(error) = done {
            // Nobody knows whether the copy still happens: the memory stays.
            std::mem::forget(read);
            return Err(error);
        }
        Ok(read)
    }

    /// Keeps what this thread does from now on out of other threads' captures.
    pub(crate) fn relax_capture(&self) -> RelaxedCapture {
        let mut mode = RELAXED;
        // SAFETY: the mode is writable; it becomes the one that the thread had.
        let exchange = self.exchange_capture_mode.filter(|exchange| unsafe { exchange(&mut mode) } == 0);
        RelaxedCapture { exchange, before: mode }
    }

    /// Events on the current device.
    pub(crate) fn timer(&self) -> Result<Timer, i32> {
        let event = || {
            let mut event = null_mut();
            // SAFETY: `event` is writable.
            checked(unsafe { (self.events.create)(&mut event) }).map(|()| event)
        };
        let start = event()?;
        match event() {
            Ok(stop) => Ok(Timer { functions: self.events, start, stop }),
            Err(error) => {
                // SAFETY: made above, used by nobody.
                unsafe { (self.events.destroy)(start) };
                Err(error)
            }
        }
    }

    /// Whether the stream is being captured. A query that fails counts as captured: the careful answer.
    pub(crate) fn is_capturing(&self, stream: *mut c_void) -> bool {
        let mut status = 0;
        // SAFETY: `status` is writable; the stream is valid by the caller's contract with MIOpen.
        let result = unsafe { (self.stream_is_capturing)(stream, &mut status) };
        result != 0 || status != 0
    }
}
