//! HIP: memory, streams, gates that hold a stream up, capture, devices.

use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    ptr::null_mut,
    sync::mpsc,
};

use anyhow::{Result, ensure};
use libloading::os::unix::Library;

use super::functions;

/// `hipMemcpyHostToDevice` and `hipMemcpyDeviceToHost`.
const TO_DEVICE: c_int = 1;
const TO_HOST: c_int = 2;
/// `hipStreamNonBlocking`: the stream does not wait for the null stream.
const NON_BLOCKING: c_uint = 1;

functions! {
    Functions {
        malloc "hipMalloc" (*mut *mut c_void, usize);
        free "hipFree" (*mut c_void);
        memcpy "hipMemcpy" (*mut c_void, *const c_void, usize, c_int);
        synchronize "hipDeviceSynchronize" ();
        stream_create "hipStreamCreateWithFlags" (*mut *mut c_void, c_uint);
        stream_destroy "hipStreamDestroy" (*mut c_void);
        stream_synchronize "hipStreamSynchronize" (*mut c_void);
        launch_host_function "hipLaunchHostFunc" (*mut c_void, unsafe extern "C" fn(*mut c_void), *mut c_void);
        begin_capture "hipStreamBeginCapture" (*mut c_void, c_int);
        end_capture "hipStreamEndCapture" (*mut c_void, *mut *mut c_void);
        graph_instantiate "hipGraphInstantiate" (*mut *mut c_void, *mut c_void, *mut *mut c_void, *mut c_char, usize);
        graph_launch "hipGraphLaunch" (*mut c_void, *mut c_void);
        graph_destroy "hipGraphDestroy" (*mut c_void);
        executable_destroy "hipGraphExecDestroy" (*mut c_void);
        device_count "hipGetDeviceCount" (*mut c_int);
        set_device "hipSetDevice" (c_int);
        device_name "hipDeviceGetName" (*mut c_char, c_int, c_int);
    }
}

/// The HIP runtime.
pub struct Hip(Functions);

fn check(call: &str, error: c_int) -> Result<()> {
    ensure!(error == 0, "{call} returned {error}");
    Ok(())
}

/// Which threads' forbidden calls end a capture.
#[derive(Clone, Copy, Debug)]
pub enum Capture {
    /// `hipStreamCaptureModeGlobal`
    Global = 0,
    /// `hipStreamCaptureModeThreadLocal`
    ThreadLocal = 1,
}

impl Hip {
    pub(super) fn resolve(library: &Library) -> Result<Self> {
        Functions::resolve(library).map(Self)
    }

    /// Waits for everything on the device.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: takes nothing.
        check("hipDeviceSynchronize", unsafe { (self.0.synchronize)() })
    }

    /// Device memory of at least one byte.
    pub fn allocate(&'static self, bytes: usize) -> Result<Memory> {
        let mut address = null_mut();
        // SAFETY: `address` is writable.
        check("hipMalloc", unsafe { (self.0.malloc)(&mut address, bytes.max(1)) })?;
        ensure!(!address.is_null(), "hipMalloc answered no memory");
        Ok(Memory { hip: self, address, bytes })
    }

    /// A stream that does not wait for the null stream.
    pub fn stream(&'static self) -> Result<Stream> {
        let mut stream = null_mut();
        // SAFETY: `stream` is writable.
        check("hipStreamCreateWithFlags", unsafe { (self.0.stream_create)(&mut stream, NON_BLOCKING) })?;
        Ok(Stream { hip: self, stream })
    }

    /// How many devices there are.
    pub fn devices(&self) -> Result<i32> {
        let mut count = 0;
        // SAFETY: `count` is writable.
        check("hipGetDeviceCount", unsafe { (self.0.device_count)(&mut count) })?;
        Ok(count)
    }

    /// Makes a device the calling thread's.
    pub fn set_device(&self, device: i32) -> Result<()> {
        // SAFETY: takes a number.
        check("hipSetDevice", unsafe { (self.0.set_device)(device) })
    }

    /// The name of the first device.
    pub fn device_name(&self) -> Result<String> {
        let mut name = [0 as c_char; 256];
        // SAFETY: as many bytes are writable as the call is told.
        check("hipDeviceGetName", unsafe { (self.0.device_name)(name.as_mut_ptr(), name.len() as c_int, 0) })?;
        let bytes: Vec<u8> = name.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Device memory, freed when dropped.
pub struct Memory {
    hip: &'static Hip,
    address: *mut c_void,
    bytes: usize,
}

// SAFETY: device memory belongs to the process; HIP's calls on it may come from any thread.
unsafe impl Send for Memory {}
// SAFETY: as above; what is in it is only touched through HIP.
unsafe impl Sync for Memory {}

impl Memory {
    /// Its address and an offset that is inside.
    pub fn at(&self, offset: usize) -> *mut c_void {
        self.address.cast::<u8>().wrapping_add(offset.min(self.bytes)).cast()
    }

    /// Overwrites it from an offset on.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        ensure!(offset + data.len() <= self.bytes, "{} bytes at {offset} do not fit into {}", data.len(), self.bytes);
        // SAFETY: source and destination hold as many bytes, checked above.
        check("hipMemcpy", unsafe { (self.hip.0.memcpy)(self.at(offset), data.as_ptr().cast(), data.len(), TO_DEVICE) })
    }

    /// Reads all of it.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut data = vec![0; self.bytes];
        // SAFETY: source and destination hold as many bytes.
        check("hipMemcpy", unsafe { (self.hip.0.memcpy)(data.as_mut_ptr().cast(), self.address, self.bytes, TO_HOST) })?;
        Ok(data)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated by the same runtime, freed once.
        unsafe { (self.hip.0.free)(self.address) };
    }
}

/// A stream, destroyed when dropped.
pub struct Stream {
    hip: &'static Hip,
    stream: *mut c_void,
}

// SAFETY: HIP's streams may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// Opens a gate when dropped.
pub struct Gate {
    _open: mpsc::Sender<()>,
}

impl Stream {
    /// The `hipStream_t`.
    pub fn raw(&self) -> *mut c_void {
        self.stream
    }

    /// Whether this is the stream of an address that a MIOpen call answered.
    pub fn is(&self, address: usize) -> bool {
        self.stream.addr() == address
    }

    /// Waits for what is on it.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream lives.
        check("hipStreamSynchronize", unsafe { (self.hip.0.stream_synchronize)(self.stream) })
    }

    /// Has the stream stand still until the gate is dropped.
    pub fn gate(&self) -> Result<Gate> {
        /// # Safety
        /// `data` is a leaked receiver that nobody else uses.
        unsafe extern "C" fn wait(data: *mut c_void) {
            // SAFETY: by the contract of this function.
            let gate = unsafe { Box::from_raw(data.cast::<mpsc::Receiver<()>>()) };
            // Nothing is ever sent: the error that the sender is gone opens the gate.
            let _ = gate.recv();
        }
        let (open, gate) = mpsc::channel();
        let data = Box::into_raw(Box::new(gate));
        // SAFETY: the stream lives; `wait` is called once with what it takes.
        let error = unsafe { (self.hip.0.launch_host_function)(self.stream, wait, data.cast()) };
        check("hipLaunchHostFunc", error)?;
        Ok(Gate { _open: open })
    }

    /// Begins to record what is put on the stream instead of doing it.
    pub fn begin_capture(&self, mode: Capture) -> Result<()> {
        // SAFETY: the stream lives.
        check("hipStreamBeginCapture", unsafe { (self.hip.0.begin_capture)(self.stream, mode as c_int) })
    }

    /// Ends recording. An error if somebody did something that a capture does not allow.
    pub fn end_capture(&self) -> Result<Graph> {
        let (mut graph, mut executable) = (null_mut(), null_mut());
        // SAFETY: the stream lives, `graph` is writable.
        check("hipStreamEndCapture", unsafe { (self.hip.0.end_capture)(self.stream, &mut graph) })?;
        ensure!(!graph.is_null(), "the capture was invalidated");
        // SAFETY: the graph lives, `executable` is writable; no log is asked for.
        let error = unsafe { (self.hip.0.graph_instantiate)(&mut executable, graph, null_mut(), null_mut(), 0) };
        // SAFETY: made above, destroyed once; the executable is its own copy.
        unsafe { (self.hip.0.graph_destroy)(graph) };
        check("hipGraphInstantiate", error)?;
        Ok(Graph { hip: self.hip, executable })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made by the same runtime, destroyed once.
        unsafe { (self.hip.0.stream_destroy)(self.stream) };
    }
}

/// A recorded graph, destroyed when dropped.
pub struct Graph {
    hip: &'static Hip,
    executable: *mut c_void,
}

impl Graph {
    /// Puts what was recorded on a stream.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        // SAFETY: both live.
        check("hipGraphLaunch", unsafe { (self.hip.0.graph_launch)(self.executable, stream.stream) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by the same runtime, destroyed once.
        unsafe { (self.hip.0.executable_destroy)(self.executable) };
    }
}
