//! The CUDA runtime, resolved at run time: as far as this library, its tests and `tests/gpu-bench` use it. Never unloaded.

use std::{
    ffi::{c_int, c_void},
    ptr::null_mut,
    sync::{LazyLock, mpsc},
};

use crate::libraries::{functions, load};
use crate::search;

/// `cudaMemcpyDefault`: where memory is, its address says.
const COPY_DEFAULT: c_int = 4;
/// `cudaStreamNonBlocking`.
const NON_BLOCKING: u32 = 1;
/// `cudaStreamCaptureModeThreadLocal`.
const CAPTURE_THREAD: c_int = 1;
/// `cudaErrorNotReady`.
const NOT_READY: c_int = 600;

/// A failed call: its `cudaError_t`.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("CUDA error {0}")]
pub struct CudaError(pub i32);

/// What calls answer.
pub type Result<T> = std::result::Result<T, CudaError>;

functions! {
    /// The runtime's functions.
    Functions {
        device_count "cudaGetDeviceCount" (*mut c_int) -> c_int;
        device_synchronize "cudaDeviceSynchronize" () -> c_int;
        allocate "cudaMalloc" (*mut *mut c_void, usize) -> c_int;
        free "cudaFree" (*mut c_void) -> c_int;
        set "cudaMemset" (*mut c_void, c_int, usize) -> c_int;
        copy "cudaMemcpy" (*mut c_void, *const c_void, usize, c_int) -> c_int;
        copy_async "cudaMemcpyAsync" (*mut c_void, *const c_void, usize, c_int, *mut c_void) -> c_int;
        stream_create "cudaStreamCreateWithFlags" (*mut *mut c_void, u32) -> c_int;
        stream_destroy "cudaStreamDestroy" (*mut c_void) -> c_int;
        stream_synchronize "cudaStreamSynchronize" (*mut c_void) -> c_int;
        stream_query "cudaStreamQuery" (*mut c_void) -> c_int;
        launch_host "cudaLaunchHostFunc" (*mut c_void, unsafe extern "C" fn(*mut c_void), *mut c_void) -> c_int;
        event_create "cudaEventCreate" (*mut *mut c_void) -> c_int;
        event_destroy "cudaEventDestroy" (*mut c_void) -> c_int;
        event_record "cudaEventRecord" (*mut c_void, *mut c_void) -> c_int;
        event_synchronize "cudaEventSynchronize" (*mut c_void) -> c_int;
        event_elapsed "cudaEventElapsedTime" (*mut f32, *mut c_void, *mut c_void) -> c_int;
        capture_begin "cudaStreamBeginCapture" (*mut c_void, c_int) -> c_int;
        capture_end "cudaStreamEndCapture" (*mut c_void, *mut *mut c_void) -> c_int;
        graph_instantiate "cudaGraphInstantiate" (*mut *mut c_void, *mut c_void, u64) -> c_int;
        graph_launch "cudaGraphLaunch" (*mut c_void, *mut c_void) -> c_int;
        graph_exec_destroy "cudaGraphExecDestroy" (*mut c_void) -> c_int;
        graph_destroy "cudaGraphDestroy" (*mut c_void) -> c_int;
    }
}

/// The CUDA runtime.
pub struct Cuda {
    functions: Functions,
}

fn check(status: c_int) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(CudaError(status)) }
}

impl Cuda {
    /// The library of this process, loaded at the first call; or why there is none.
    pub fn get() -> std::result::Result<&'static Self, String> {
        static LIBRARY: LazyLock<std::result::Result<Cuda, String>> =
            LazyLock::new(|| load(&search::cudart(), |loaded, _| Ok(Cuda { functions: Functions::resolve(loaded)? })));
        LIBRARY.as_ref().map_err(Clone::clone)
    }

    /// The library, if there is a device that it can use.
    pub fn with_device() -> std::result::Result<&'static Self, String> {
        let cuda = Self::get()?;
        let mut count = 0;
        // SAFETY: `count` is writable.
        match unsafe { (cuda.functions.device_count)(&mut count) } {
            0 if count > 0 => Ok(cuda),
            error => Err(format!("{count} devices, CUDA error {error}")),
        }
    }

    /// Memory of the device.
    pub fn allocate(&'static self, bytes: usize) -> Result<Memory> {
        let mut address = null_mut();
        // SAFETY: `address` is writable.
        check(unsafe { (self.functions.allocate)(&mut address, bytes.max(1)) })?;
        Ok(Memory { cuda: self, address, bytes })
    }

    /// Queues a copy on a stream.
    ///
    /// # Safety
    /// Both ranges are live memory until the copy is done.
    pub unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize, stream: usize) -> Result<()> {
        let stream = std::ptr::with_exposed_provenance_mut(stream);
        // SAFETY: by the contract of this function; the stream is the caller's.
        check(unsafe { (self.functions.copy_async)(to.cast(), from.cast(), bytes, COPY_DEFAULT, stream) })
    }

    /// Has a `cudaStream_t` stand still until the gate is dropped.
    ///
    /// # Safety
    /// The stream is live.
    pub unsafe fn gate(&self, stream: *mut c_void) -> Result<Gate> {
        /// # Safety
        /// `data` is a leaked receiver that nobody else uses.
        unsafe extern "C" fn wait(data: *mut c_void) {
            // SAFETY: by the contract of this function.
            let gate = unsafe { Box::from_raw(data.cast::<mpsc::Receiver<()>>()) };
            // Nothing is ever sent: the error that the sender is gone opens the gate.
            let _ = gate.recv();
        }
        let (open, gate) = mpsc::channel();
        let data = Box::into_raw(Box::new(gate)).cast();
        // SAFETY: the stream is live by the contract of this function; `wait` is called once with what it takes.
        check(unsafe { (self.functions.launch_host)(stream, wait, data) })?;
        Ok(Gate { _open: open })
    }

    /// A stream that does not wait for the null stream.
    pub fn stream(&'static self) -> Result<Stream> {
        let mut raw = null_mut();
        // SAFETY: `raw` is writable.
        check(unsafe { (self.functions.stream_create)(&mut raw, NON_BLOCKING) })?;
        Ok(Stream { cuda: self, raw })
    }

    /// An event that tells times.
    pub fn event(&'static self) -> Result<Event> {
        let mut raw = null_mut();
        // SAFETY: `raw` is writable.
        check(unsafe { (self.functions.event_create)(&mut raw) })?;
        Ok(Event { cuda: self, raw })
    }

    /// Waits for all that was queued.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: takes nothing.
        check(unsafe { (self.functions.device_synchronize)() })
    }
}

/// Opens a gate when dropped.
pub struct Gate {
    _open: mpsc::Sender<()>,
}

/// Memory of the device.
pub struct Memory {
    cuda: &'static Cuda,
    address: *mut c_void,
    bytes: usize,
}

// SAFETY: only an address; what is done with it is ordered by streams.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Its first byte.
    pub fn address(&self) -> *mut c_void {
        self.address
    }

    /// Fills it; waits.
    pub fn fill(&self, byte: u8) -> Result<()> {
        // SAFETY: live memory of that many bytes.
        check(unsafe { (self.cuda.functions.set)(self.address, byte.into(), self.bytes) })?;
        self.cuda.synchronize()
    }

    /// Copies bytes in, at most as many as there are; waits.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        // SAFETY: both ranges are live for the bytes that are copied.
        check(unsafe { (self.cuda.functions.copy)(self.address, bytes.as_ptr().cast(), bytes.len().min(self.bytes), COPY_DEFAULT) })
    }

    /// All of its bytes; waits.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.bytes];
        // SAFETY: both ranges are live for the bytes that are copied.
        check(unsafe { (self.cuda.functions.copy)(bytes.as_mut_ptr().cast(), self.address, self.bytes, COPY_DEFAULT) })?;
        Ok(bytes)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once; freeing waits for what uses it.
        unsafe { (self.cuda.functions.free)(self.address) };
    }
}

/// A stream.
pub struct Stream {
    cuda: &'static Cuda,
    raw: *mut c_void,
}

// SAFETY: streams may be used by any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// The `cudaStream_t`.
    pub fn raw(&self) -> *mut c_void {
        self.raw
    }

    /// Waits for all that was queued on it.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: a live stream.
        check(unsafe { (self.cuda.functions.stream_synchronize)(self.raw) })
    }

    /// Whether all that was queued on it is done.
    pub fn is_idle(&self) -> Result<bool> {
        // SAFETY: a live stream.
        match unsafe { (self.cuda.functions.stream_query)(self.raw) } {
            NOT_READY => Ok(false),
            status => check(status).map(|()| true),
        }
    }

    /// Records what `work` queues on the stream, instead of running it.
    pub fn capture<E>(&self, work: impl FnOnce() -> std::result::Result<(), E>) -> Result<std::result::Result<Graph, E>> {
        // SAFETY: a live stream.
        check(unsafe { (self.cuda.functions.capture_begin)(self.raw, CAPTURE_THREAD) })?;
        let worked = work();
        let mut graph = null_mut();
        // SAFETY: as above; `graph` is writable.
        let ended = check(unsafe { (self.cuda.functions.capture_end)(self.raw, &mut graph) });
        if let Err(error) = worked {
            return Ok(Err(error));
        }
        ended?;
        let mut executable = null_mut();
        // SAFETY: `executable` is writable, the graph is live.
        let made = check(unsafe { (self.cuda.functions.graph_instantiate)(&mut executable, graph, 0) });
        // SAFETY: made above; the executable one keeps nothing of it.
        unsafe { (self.cuda.functions.graph_destroy)(graph) };
        made?;
        Ok(Ok(Graph { cuda: self.cuda, raw: executable }))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once; what is queued still runs.
        unsafe { (self.cuda.functions.stream_destroy)(self.raw) };
    }
}

/// What a capture recorded.
pub struct Graph {
    cuda: &'static Cuda,
    raw: *mut c_void,
}

impl Graph {
    /// Queues it on a stream.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both are live; the memory that was recorded is the caller's, as it was when it was recorded.
        check(unsafe { (self.cuda.functions.graph_launch)(self.raw, stream.raw) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once.
        unsafe { (self.cuda.functions.graph_exec_destroy)(self.raw) };
    }
}

/// An event.
pub struct Event {
    cuda: &'static Cuda,
    raw: *mut c_void,
}

impl Event {
    /// Queues it on a `cudaStream_t`, which may be of another owner than [`Stream`].
    ///
    /// # Safety
    /// The stream is live.
    pub unsafe fn record(&self, stream: *mut c_void) -> Result<()> {
        // SAFETY: by the contract of this function; the event is live.
        check(unsafe { (self.cuda.functions.event_record)(self.raw, stream) })
    }

    /// Milliseconds of the device since another event; waits for this one.
    pub fn milliseconds_since(&self, earlier: &Event) -> Result<f32> {
        let mut milliseconds = 0.0;
        // SAFETY: all are live, the number is writable.
        unsafe {
            check((self.cuda.functions.event_synchronize)(self.raw))?;
            check((self.cuda.functions.event_elapsed)(&mut milliseconds, earlier.raw, self.raw))?;
        }
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once.
        unsafe { (self.cuda.functions.event_destroy)(self.raw) };
    }
}
