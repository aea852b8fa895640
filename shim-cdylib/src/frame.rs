//! A routed call as the machine sees it: its arguments and its return address, and the verdict on where it goes.
//!
//! No panic of ours leaves this module, and native is called outside any `catch_unwind`: its C++ exceptions pass through untouched.

use std::{
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
};

use hipdnn_host::{cancellation, stack};

use crate::{
    callers,
    ending::{self, Thread},
    errors, forwarding,
    routing::{Forwarding, Handler},
    stubs,
};

/// The most integers and pointers that a function of the API takes.
pub const MAX_INTEGERS: usize = 18;
const IN_REGISTERS: usize = 6;
/// Stack of a thread that records for one that ends.
const RECORDING_STACK: usize = 1 << 20;

/// The arguments of a call, as `miopen_shim_route_entry` lays them out on the stack. Those that the caller passed on the stack follow.
#[repr(C)]
pub struct Frame {
    integers: [u64; IN_REGISTERS],
    floats: [f64; 8],
    index: u64,
    padding: u64,
    saved_rbp: u64,
    return_address: usize,
}

impl Frame {
    /// The n-th of the function's integer and pointer arguments, as the caller passed it. Handlers ask for arguments that it has.
    pub fn integer(&self, n: usize) -> u64 {
        match n {
            0..IN_REGISTERS => self.integers[n],
            IN_REGISTERS..MAX_INTEGERS => self.stacked(n - IN_REGISTERS),
            _ => 0,
        }
    }

    fn stacked(&self, n: usize) -> u64 {
        let first = (&raw const *self).wrapping_add(1).expose_provenance();
        // SAFETY: the caller pushed the arguments that its function has right above the return address, which is this frame's last word.
        unsafe { std::ptr::with_exposed_provenance::<u64>(first + n * 8).read() }
    }

    /// The n-th as an address.
    pub fn pointer(&self, n: usize) -> *mut c_void {
        self.integer(n) as *mut c_void
    }

    /// The n-th as a C `int` (the upper half of the register is undefined).
    pub fn int(&self, n: usize) -> i32 {
        self.integer(n) as i32
    }

    /// The n-th of the function's floating-point arguments.
    pub fn double(&self, n: usize) -> f64 {
        self.floats[n]
    }

    /// All of them, to call native with.
    pub fn arguments(&self) -> Arguments {
        let count = stubs::integers(self.index as usize).min(MAX_INTEGERS);
        let integers = std::array::from_fn(|n| if n < count { self.integer(n) } else { 0 });
        Arguments { integers, floats: self.floats }
    }
}

/// Arguments that native is called with.
#[derive(Clone, Copy)]
pub struct Arguments {
    integers: [u64; MAX_INTEGERS],
    floats: [f64; 8],
}

impl Arguments {
    /// Integers and pointers.
    pub fn new(integers: &[u64]) -> Self {
        Self { integers: std::array::from_fn(|n| integers.get(n).copied().unwrap_or(0)), floats: [0.0; 8] }
    }

    /// The n-th integer or pointer.
    pub fn integer(&self, n: usize) -> u64 {
        self.integers[n]
    }

    /// The same but for one.
    pub fn with(mut self, n: usize, value: u64) -> Self {
        self.integers[n] = value;
        self
    }
}

/// Where a call goes: to `native` with everything as it was, or (if that is 0) back to the caller with `result`.
#[repr(C)]
pub struct Verdict {
    native: usize,
    result: u64,
}

impl Verdict {
    fn native(address: usize) -> Self {
        Self { native: address, result: 0 }
    }

    fn done(result: u64) -> Self {
        Self { native: 0, result }
    }
}

/// What a handler decides about a routed call.
pub enum Step {
    /// It is native's, bit for bit.
    Native,
    /// It is done; the caller gets this (a status, or an address).
    Done(u64),
    /// Native is called, and then it is decided again.
    Call(Box<NativeCall>),
}

/// A call of ours to native.
pub struct NativeCall {
    target: usize,
    arguments: Arguments,
    then: Then,
}

/// What is decided after native was called, by native's status.
pub type Then = Box<dyn FnOnce(&Frame, &'static Forwarding, i32) -> Step>;

impl Step {
    /// A status for the caller.
    pub fn status(status: i32) -> Self {
        Self::Done(u64::from(status.cast_unsigned()))
    }

    /// Calls a function of native with arguments of ours.
    pub fn call(name: &str, arguments: Arguments, then: impl FnOnce(&Frame, &'static Forwarding, i32) -> Step + 'static) -> Self {
        Self::Call(Box::new(NativeCall { target: stubs::native_by_name(name), arguments, then: Box::new(then) }))
    }

    /// Calls native as the caller did, to look at what it answered.
    pub fn native_then(frame: &Frame, then: impl FnOnce(&Frame, &'static Forwarding, i32) -> Step + 'static) -> Self {
        let target = stubs::bound().map_or(0, |bound| bound.native(frame.index as usize));
        Self::Call(Box::new(NativeCall { target, arguments: frame.arguments(), then: Box::new(then) }))
    }
}

/// Decides about a routed call. Called by the assembly in `stubs` only.
pub unsafe extern "C-unwind" fn decide(frame: &Frame) -> Verdict {
    let index = frame.index as usize;
    let Some(bound) = stubs::bound() else { return Verdict::done(errors::INTERNAL) };
    let native = bound.native(index);
    let thread = ending::thread();
    // Before anything else: calls of native itself, of hipDNN and of its plugins are none of our business; nor is what comes at the end.
    if thread == Thread::Inside || callers::is_internal(frame.return_address) || ending::of_process() {
        return Verdict::native(native);
    }
    let Some(forwarding) = &bound.forwarding else {
        errors::unmark();
        return Verdict::native(native);
    };
    let handler = bound.handler(index);
    match thread {
        Thread::New => begin_thread(forwarding),
        Thread::Ending => return decide_late(frame, forwarding, native, handler),
        Thread::Inside | Thread::Outside => {}
    }
    if !matches!(handler, Some(Handler::Route(_) | Handler::Convolution(..))) {
        errors::unmark();
        if stubs::executes(index) {
            let _ = guarded(|| forwarding::passed(frame, forwarding));
        }
    }
    match handler {
        Some(Handler::Route(route)) => proceed(frame, forwarding, native, guarded(|| route(frame, forwarding))),
        Some(Handler::Convolution(direction, route)) => proceed(frame, forwarding, native, guarded(|| route(direction, frame, forwarding))),
        other => recorded(frame, forwarding, native, other, |work| {
            let _ = guarded(work);
        }),
    }
}

/// A call that is native's, and whose arguments may be recorded. `run` is who runs our part.
fn recorded(
    frame: &Frame,
    forwarding: &'static Forwarding,
    native: usize,
    handler: Option<Handler>,
    run: impl FnOnce(&(dyn Fn() + Sync)),
) -> Verdict {
    match handler {
        Some(Handler::Forget(forget)) => {
            run(&|| forget(frame, forwarding));
            Verdict::native(native)
        }
        Some(Handler::Record(record)) => {
            // SAFETY: the function of this export, with the caller's arguments.
            let status = unsafe { call_native(native, &frame.arguments()) };
            run(&|| record(frame, forwarding, status == miopen_api::status::SUCCESS));
            Verdict::done(u64::from(status.cast_unsigned()))
        }
        Some(Handler::Route(_) | Handler::Convolution(..)) | None => Verdict::native(native),
    }
}

/// The thread's first call. Only what it has used before its end is noted is still there when it is.
fn begin_thread(forwarding: &'static Forwarding) {
    let _ = guarded(|| drop(forwarding.records.handles.pin()));
    ending::watch_thread();
    ending::set_thread(Thread::Outside);
}

/// A call from a destructor of a thread: it is native's. What it makes or destroys is recorded all the same, on a thread that can.
fn decide_late(frame: &Frame, forwarding: &'static Forwarding, native: usize, handler: Option<Handler>) -> Verdict {
    errors::unmark();
    recorded(frame, forwarding, native, handler, |work| {
        // Without a thread the record stays as it was, as it would without the call.
        let _ = stack::on_another(RECORDING_STACK, || guarded(work));
    })
}

/// Follows the steps of a routed call. Native is called here, outside of everything that catches.
fn proceed(frame: &Frame, forwarding: &'static Forwarding, native: usize, mut step: Option<Step>) -> Verdict {
    loop {
        match step {
            // Native's part of the call is measured: so it is called here, and not jumped to.
            Some(Step::Native) if is_measured(frame, forwarding) => {
                // SAFETY: the function of this export, with the caller's arguments; every routed one returns a status.
                step = Some(Step::status(unsafe { call_native(native, &frame.arguments()) }));
            }
            Some(Step::Native) => return Verdict::native(native),
            Some(Step::Done(result)) => {
                if forwarding.host.measures_native() {
                    let _ = guarded(|| forwarding::native_is_done(frame, forwarding));
                }
                return Verdict::done(result);
            }
            Some(Step::Call(call)) => {
                let NativeCall { target, arguments, then } = *call;
                // SAFETY: a function of native, with the arguments that it takes.
                let status = unsafe { call_native(target, &arguments) };
                step = guarded(|| then(frame, forwarding, status));
            }
            // A panic: nobody knows how far the call got, so native must not see it.
            None => return Verdict::done(errors::INTERNAL),
        }
    }
}

/// Whether native's part of a call is measured.
fn is_measured(frame: &Frame, forwarding: &Forwarding) -> bool {
    forwarding.host.measures_native() && guarded(|| forwarding::is_with_native(frame, forwarding)).unwrap_or(false)
}

/// Runs our code for a call: panics end here (said once by the panic hook of the process), and calls that come back are recognised.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    let _until_done = cancellation::disabled();
    let before = ending::set_thread(Thread::Inside);
    let result = catch_unwind(AssertUnwindSafe(work));
    ending::set_thread(before);
    result.ok()
}

/// Calls native. Arguments beyond those that the function has are ignored by it.
///
/// # Safety
/// `native` is a function that returns an int, and takes at most these integers and doubles.
unsafe fn call_native(native: usize, arguments: &Arguments) -> i32 {
    // Integers and pointers go to six registers and the stack, doubles to registers of their own: the order among them is the ABI's, not
    // the signature's, so one signature serves all functions.
    type Any = unsafe extern "C-unwind" fn(
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        f64,
        f64,
        f64,
        f64,
        f64,
        f64,
        f64,
        f64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
        u64,
    ) -> i32;
    // SAFETY: by this function's contract; in the System V ABI surplus arguments are harmless.
    let function = unsafe { std::mem::transmute::<usize, Any>(native) };
    let Arguments { integers: a, floats: f } = arguments;
    // SAFETY: as above.
    unsafe {
        function(
            a[0], a[1], a[2], a[3], a[4], a[5], f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], a[6], a[7], a[8], a[9], a[10], a[11],
            a[12], a[13], a[14], a[15], a[16], a[17],
        )
    }
}

/// Type of a routing handler.
pub type Route = fn(&Frame, &'static Forwarding) -> Step;
