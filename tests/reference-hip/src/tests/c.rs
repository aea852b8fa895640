//! The C functions, and what tests need around them: handles, pinned memory that the host can look at, and gates that hold a
//! stream up. No test belongs here.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A handle or an address.
pub type Address = *mut c_void;
/// What a stream can call.
pub type HostFunction = unsafe extern "C" fn(Address);

unsafe extern "C" {
    pub safe fn hipSetDevice(device: c_int) -> c_int;
    pub safe fn hipFree(memory: Address) -> c_int;
    pub safe fn hipHostFree(memory: Address) -> c_int;
    pub safe fn hipGetLastError() -> c_int;
    pub safe fn hipPeekAtLastError() -> c_int;
    pub safe fn hipGetErrorName(code: c_int) -> *const c_char;
    pub safe fn hipStreamDestroy(stream: Address) -> c_int;
    pub safe fn hipStreamSynchronize(stream: Address) -> c_int;
    pub safe fn hipStreamQuery(stream: Address) -> c_int;
    pub safe fn hipStreamWaitEvent(stream: Address, event: Address, flags: u32) -> c_int;
    pub safe fn hipStreamBeginCapture(stream: Address, mode: c_int) -> c_int;
    pub safe fn hipDeviceSynchronize() -> c_int;
    pub safe fn hipEventRecord(event: Address, stream: Address) -> c_int;
    pub safe fn hipEventQuery(event: Address) -> c_int;
    pub safe fn hipEventSynchronize(event: Address) -> c_int;
    pub safe fn hipEventDestroy(event: Address) -> c_int;
    pub safe fn hipGraphLaunch(executable: Address, stream: Address) -> c_int;
    pub safe fn hipGraphDestroy(graph: Address) -> c_int;
    pub safe fn hipModuleLaunchKernel() -> c_int;
    pub safe fn hipGetStreamDeviceId(stream: Address) -> c_int;
    pub fn hipGetDevice(device: *mut c_int) -> c_int;
    pub fn hipMalloc(out: *mut Address, size: usize) -> c_int;
    pub fn hipHostMalloc(out: *mut Address, size: usize, flags: u32) -> c_int;
    pub fn hipMemcpy(to: Address, from: *const c_void, bytes: usize, kind: c_int) -> c_int;
    pub fn hipMemcpyAsync(to: Address, from: *const c_void, bytes: usize, kind: c_int, stream: Address) -> c_int;
    pub fn hipMemcpyWithStream(to: Address, from: *const c_void, bytes: usize, kind: c_int, stream: Address) -> c_int;
    pub fn hipMemset(to: Address, value: c_int, bytes: usize) -> c_int;
    pub fn hipMemsetAsync(to: Address, value: c_int, bytes: usize, stream: Address) -> c_int;
    pub fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> c_int;
    pub fn hipLaunchHostFunc(stream: Address, function: HostFunction, data: Address) -> c_int;
    pub fn hipStreamCreateWithFlags(out: *mut Address, flags: u32) -> c_int;
    pub fn hipStreamGetDevice(stream: Address, device: *mut c_int) -> c_int;
    pub fn hipStreamEndCapture(stream: Address, graph: *mut Address) -> c_int;
    pub fn hipStreamIsCapturing(stream: Address, status: *mut c_int) -> c_int;
    pub fn hipStreamGetCaptureInfo(stream: Address, status: *mut c_int, id: *mut u64) -> c_int;
    pub fn hipThreadExchangeStreamCaptureMode(mode: *mut c_int) -> c_int;
    pub fn hipEventCreateWithFlags(out: *mut Address, flags: u32) -> c_int;
    pub fn hipEventElapsedTime(out: *mut f32, start: Address, stop: Address) -> c_int;
    pub fn hipGraphInstantiate(out: *mut Address, graph: Address, n: *mut Address, l: *mut u8, s: usize) -> c_int;
    pub fn hipGetDevicePropertiesR0600(properties: *mut hip_abi::device::Properties, device: c_int) -> c_int;
    #[allow(clippy::too_many_arguments)]
    pub fn hipMemcpy2DAsync(
        to: Address,
        to_pitch: usize,
        from: *const c_void,
        from_pitch: usize,
        width: usize,
        rows: usize,
        kind: c_int,
        stream: Address,
    ) -> c_int;
}

/// `hipErrorNotReady`.
pub const NOT_READY: c_int = 600;
/// The legacy null stream of the current device.
pub const NULL: Address = null_mut();
/// `hipStreamPerThread`.
pub const PER_THREAD: Address = 2 as Address;

/// Keeps other tests away, and starts on device 0.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(hipSetDevice(0), 0);
    one
}

/// A handle or buffer that a function creates.
pub fn made(create: impl FnOnce(*mut Address) -> c_int) -> Address {
    let mut out = null_mut();
    assert_eq!(create(&mut out), 0);
    out
}

pub fn device_buffer(size: usize) -> Address {
    // SAFETY: the pointer is a local's.
    made(|out| unsafe { hipMalloc(out, size) })
}

/// A stream that synchronises with the null stream.
pub fn stream() -> Address {
    // SAFETY: the pointer is a local's.
    made(|out| unsafe { hipStreamCreateWithFlags(out, 0) })
}

/// A stream that does not.
pub fn free_stream() -> Address {
    // SAFETY: the pointer is a local's.
    made(|out| unsafe { hipStreamCreateWithFlags(out, 1) })
}

pub fn event() -> Address {
    // SAFETY: the pointer is a local's.
    made(|out| unsafe { hipEventCreateWithFlags(out, 0) })
}

/// Handles are numbers: they may go to other threads.
#[derive(Clone, Copy)]
pub struct Sent(usize);

impl Sent {
    pub fn new(handle: Address) -> Sent {
        Sent(handle as usize)
    }

    pub fn get(self) -> Address {
        self.0 as Address
    }
}

/// Pinned memory of one 64-bit number, which the host can look at without asking HIP.
pub struct Cell(Sent);

impl Cell {
    pub fn new(value: u64) -> Cell {
        // SAFETY: the pointer is a local's.
        let cell = Cell(Sent::new(made(|out| unsafe { hipHostMalloc(out, 8, 0) })));
        // SAFETY: eight bytes, aligned, that nobody else knows yet.
        unsafe { cell.address().cast::<u64>().write_volatile(value) };
        cell
    }

    pub fn address(&self) -> Address {
        self.0.get()
    }

    pub fn get(&self) -> u64 {
        // SAFETY: the allocation lives as long as this; tests look only while no stream writes.
        unsafe { self.address().cast::<u64>().read_volatile() }
    }

    /// Has a stream fill every byte.
    pub fn fill(&self, byte: u8, stream: Address) {
        // SAFETY: eight bytes of an allocation.
        assert_eq!(unsafe { hipMemsetAsync(self.address(), byte.into(), 8, stream) }, 0);
    }

    /// Has a stream copy another cell here.
    pub fn copy(&self, from: &Cell, stream: Address) {
        // SAFETY: eight bytes of two allocations.
        assert_eq!(unsafe { hipMemcpyAsync(self.address(), from.address(), 8, 4, stream) }, 0);
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        hipHostFree(self.address());
    }
}

/// What eight bytes of this value are.
pub fn eight(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Puts a function on a stream. It is called once, and its captures must live until then.
pub fn call(stream: Address, function: impl FnOnce() + Send + 'static) {
    unsafe extern "C" fn run(data: Address) {
        // SAFETY: the box was leaked below for this one call.
        let function = unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) };
        function();
    }
    let boxed: Box<Box<dyn FnOnce() + Send>> = Box::new(Box::new(function));
    // SAFETY: `run` takes what it is given here.
    assert_eq!(unsafe { hipLaunchHostFunc(stream, run, Box::into_raw(boxed).cast()) }, 0);
}

#[derive(Default)]
struct Door {
    /// Whether a stream arrived, and whether it may go on.
    state: Mutex<(bool, bool)>,
    bell: Condvar,
}

/// A host function that holds a stream up until it is opened, at the latest when it is dropped: a failing test blocks no other.
pub struct Gate(&'static Door);

impl Gate {
    /// Puts a closed gate on a stream.
    pub fn on(stream: Address) -> Gate {
        let door: &'static Door = Box::leak(Box::default());
        call(stream, || {
            let mut state = door.state.lock().unwrap();
            state.0 = true;
            door.bell.notify_all();
            drop(door.bell.wait_while(state, |s| !s.1).unwrap());
        });
        Gate(door)
    }

    /// Waits until the stream stands before the gate.
    pub fn reached(&self) {
        let state = self.0.state.lock().unwrap();
        drop(self.0.bell.wait_while(state, |s| !s.0).unwrap());
    }

    pub fn open(self) {}
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.0.bell.notify_all();
    }
}

/// Gives every thread ample opportunity to do what it should not do: many round trips through a stream that waits for nobody.
pub fn settle() {
    let stream = free_stream();
    for _ in 0..200 {
        call(stream, std::thread::yield_now);
        assert_eq!(hipStreamSynchronize(stream), 0);
    }
    assert_eq!(hipStreamDestroy(stream), 0);
}

/// The capture status of a stream.
pub fn status(stream: Address) -> c_int {
    let mut status = -1;
    // SAFETY: the pointer is a local's.
    assert_eq!(unsafe { hipStreamIsCapturing(stream, &mut status) }, 0);
    status
}

/// Ends a capture.
pub fn end(stream: Address) -> (c_int, Address) {
    let mut graph = null_mut();
    // SAFETY: the pointer is a local's.
    (unsafe { hipStreamEndCapture(stream, &mut graph) }, graph)
}

/// A graph, ready to launch.
pub fn instantiate(graph: Address) -> Address {
    // SAFETY: the pointer is a local's.
    made(|out| unsafe { hipGraphInstantiate(out, graph, null_mut(), null_mut(), 0) })
}
