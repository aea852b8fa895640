//! A routed call as the machine sees it: its arguments and its return address, and the verdict on where it goes.
//!
//! No panic of ours leaves this module, and native is called outside any `catch_unwind`: its C++ exceptions pass through untouched.

use std::{
    cell::Cell,
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::{
    callers, errors, forwarding,
    routing::{Forwarding, Handler},
    stubs,
};

/// The arguments of a call, as `miopen_shim_route_entry` lays them out on the stack.
#[repr(C)]
pub struct Frame {
    integers: [u64; 6],
    floats: [f64; 8],
    index: u64,
    padding: u64,
    saved_rbp: u64,
    return_address: usize,
    stacked: [u64; 8],
}

impl Frame {
    /// The n-th argument of a function whose arguments are all integers and pointers, as the caller passed it.
    pub fn integer(&self, n: usize) -> u64 {
        self.integers.get(n).or_else(|| self.stacked.get(n - self.integers.len())).copied().unwrap_or(0)
    }

    /// The n-th argument as an address.
    pub fn pointer(&self, n: usize) -> *mut c_void {
        self.integer(n) as *mut c_void
    }

    /// The n-th argument as a C `int` (the upper half of the register is undefined).
    pub fn int(&self, n: usize) -> i32 {
        self.integer(n) as i32
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
pub enum Decision {
    /// It is native's.
    Native,
    /// It is done; the caller gets this (a status, or an address).
    Done(u64),
}

thread_local! {
    /// Set while the host works for a call of this thread: whatever MIOpen call comes in then is not the program's.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Decides about a routed call. Called by the assembly in `stubs` only.
pub unsafe extern "C-unwind" fn decide(frame: &Frame) -> Verdict {
    let index = frame.index as usize;
    let Some(bound) = stubs::bound() else { return Verdict::done(errors::INTERNAL) };
    let native = bound.native(index);
    // Before anything else: calls of native itself, of hipDNN and of its plugins are none of our business.
    if INSIDE.get() || callers::is_internal(frame.return_address) {
        return Verdict::native(native);
    }
    let Some(forwarding) = &bound.forwarding else {
        errors::unmark();
        return Verdict::native(native);
    };
    let handler = bound.handler(index);
    if !matches!(handler, Some(Handler::Route(_))) {
        errors::unmark();
        if stubs::executes(index) {
            let _ = guarded(|| forwarding::passed(frame, forwarding));
        }
    }
    let Some(handler) = handler else { return Verdict::native(native) };
    match handler {
        Handler::Route(route) => match guarded(|| route(frame, forwarding)) {
            Some(Decision::Native) => Verdict::native(native),
            Some(Decision::Done(result)) => Verdict::done(result),
            // A panic: nobody knows how far the call got, so native must not see it.
            None => Verdict::done(errors::INTERNAL),
        },
        Handler::Forget(forget) => {
            let _ = guarded(|| forget(frame, forwarding));
            Verdict::native(native)
        }
        Handler::Record(record) => {
            // SAFETY: recorded functions take at most ten integers and pointers and return a status.
            let status = unsafe { call_native(native, frame) };
            let _ = guarded(|| record(frame, forwarding, status == miopen_api::status::SUCCESS));
            Verdict::done(status as u32 as u64)
        }
    }
}

/// Runs our code for a call: panics end here (said once by the panic hook of the process), and calls that come back are recognised.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    INSIDE.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    INSIDE.set(false);
    result.ok()
}

/// Calls native with the caller's arguments, bit for bit. Arguments beyond those that the function has are ignored by it.
///
/// # Safety
/// `native` is a function with at most ten arguments, all integers or pointers, that returns an int.
unsafe fn call_native(native: usize, frame: &Frame) -> i32 {
    type Ten = unsafe extern "C-unwind" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> i32;
    // SAFETY: by this function's contract; in the System V ABI surplus arguments are harmless.
    let function = unsafe { std::mem::transmute::<usize, Ten>(native) };
    let a: [u64; 10] = std::array::from_fn(|n| frame.integer(n));
    // SAFETY: as above.
    unsafe { function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9]) }
}

/// Type of a routing handler.
pub type Route = fn(&Frame, &Forwarding) -> Decision;
