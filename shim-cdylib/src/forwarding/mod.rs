//! Routed calls: arguments and records become problems for the host; its outcomes become statuses, or calls of native. One module for
//! each style in which programs execute: `classic` and `find`, `immediate`, `find2`, `fusion`, `activation`. What native executes, because hipDNN declined it
//! or to verify it, is in `by_native`. Graphs and rules are none of their business.
//!
//! hipDNN behaves as one more of MIOpen's solvers: it is listed where native lists, first, under [`IMPLICIT_GEMM`] or a solution id of its
//! own; what it declines later is executed by a solver of native's that is found then.

pub mod activation;
pub mod by_native;
pub mod classic;
pub mod directions;
pub mod find;
pub mod find2;
pub mod fusion;
pub mod immediate;

use std::ffi::c_void;

use hipdnn_host::{
    data_type::DataType,
    forward::Outcome,
    handle::HandleState,
    problem::{ConvolutionProblem, TensorDescriptor},
    rules::HostRule,
};
use miopen_api::{conv_algorithm, status};

use self::{
    by_native::{ByNative, Written},
    directions::{Direction, Positions},
};
use crate::{
    errors,
    frame::{Frame, Step},
    records::HandleRecord,
    routing::Forwarding,
    stubs,
};

/// The algorithm under which hipDNN's plans are listed. The number is the same in all directions.
pub const IMPLICIT_GEMM: i32 = conv_algorithm::IMPLICIT_GEMM;

/// Works on the problem of a call, if all its descriptors are recorded. Without scalars, and with the algorithm of hipDNN's own entries: what
/// calls mean that name neither.
fn with_problem<R>(
    direction: &Direction,
    positions: &Positions,
    frame: &Frame,
    forwarding: &Forwarding,
    work: impl FnOnce(&HandleRecord, ConvolutionProblem<'_>) -> R,
) -> Option<R> {
    let handles = forwarding.records.handles.pin();
    let tensors = forwarding.records.tensors.pin();
    let convolutions = forwarding.records.convolutions.pin();
    let [x, w, y] = positions.tensors.map(|n| tensors.get(&(frame.integer(n) as usize)));
    let convolution = convolutions.get(&(frame.integer(positions.convolution) as usize))?;
    let (direction, algorithm) = (direction.direction, Some(IMPLICIT_GEMM.cast_unsigned()));
    let problem = ConvolutionProblem { direction, convolution, x: x?, w: w?, y: y?, alpha: 1.0, beta: 0.0, algorithm };
    Some(work(handles.get(&(frame.integer(0) as usize))?, problem))
}

/// The addresses of x, w and y: each follows its descriptor.
fn pointers(positions: &Positions, frame: &Frame) -> [*mut c_void; 3] {
    positions.tensors.map(|n| frame.pointer(n + 1))
}

/// A call that was given to hipDNN.
struct Given<'a> {
    name: &'static str,
    written: Written,
    frame: &'a Frame,
    state: &'a HandleState,
}

/// The end of a call that was given to hipDNN. `natively` has native execute it: if hipDNN declined, unless the operator wants to see
/// declines; and once more if hipDNN served it and the operator wants it verified.
fn conclude(forwarding: &Forwarding, given: &Given<'_>, outcome: Outcome, natively: impl FnOnce(ByNative) -> Step) -> Step {
    let Given { name, written, frame, state } = *given;
    match outcome {
        Outcome::Served => served(),
        Outcome::Shadowed(shadow) => ByNative::again(name, written, frame, forwarding, state, shadow).map_or_else(|step| step, natively),
        Outcome::Failed(error) => failed(error.status),
        Outcome::Native => declined(forwarding, || natively(ByNative::as_it_came(name, frame))),
    }
}

/// The end of a call that hipDNN has no part in.
fn declined(forwarding: &Forwarding, otherwise: impl FnOnce() -> Step) -> Step {
    errors::unmark();
    if forwarding.host.settings().strict { Step::status(status::UNSUPPORTED_OP) } else { otherwise() }
}

fn served() -> Step {
    Step::status(errors::note(hipdnn_abi::status::SUCCESS))
}

fn failed(hipdnn_status: i32) -> Step {
    if let Some(bound) = stubs::bound() {
        bound.watch_everything();
    }
    Step::status(errors::note(hipdnn_status))
}

/// A call that executes, and cannot even become a problem.
fn unmade(frame: &Frame, forwarding: &Forwarding, call: &'static str, rule: HostRule, message: &str) -> Step {
    passed(frame, forwarding);
    forwarding.host.decline_unmade(call, rule, message);
    declined(forwarding, || Step::Native)
}

fn unrecorded(frame: &Frame, forwarding: &Forwarding, call: &'static str) -> Step {
    unmade(frame, forwarding, call, HostRule::DescriptorUnrecorded, "a handle or descriptor of this call")
}

/// A query that is native's alone: nothing is known about what it asks.
fn query_unrecorded(forwarding: &Forwarding, call: &'static str, status: i32) -> Step {
    forwarding.host.decline_unmade(call, HostRule::DescriptorUnrecorded, "a handle or descriptor of this query");
    Step::status(status)
}

/// `miopenGetKernelTime(handle, float*)`: answered here if the handle's last call was served by hipDNN while profiling.
pub fn kernel_time(frame: &Frame, forwarding: &'static Forwarding) -> Step {
    let time = forwarding.records.handles.pin().get(&(frame.integer(0) as usize)).and_then(|record| record.state.kernel_time());
    let out = frame.pointer(1).cast::<f32>();
    errors::unmark();
    match time {
        Some(time) if !out.is_null() => {
            // SAFETY: not null, and MIOpen's contract makes it a place for a float.
            unsafe { out.write_unaligned(time) };
            forwarding.host.answered("miopenGetKernelTime");
            Step::status(status::SUCCESS)
        }
        _ => Step::Native,
    }
}

/// A call that executes something natively, on a handle: its time is native's. Calls that are not routed are seen only while profiling,
/// see [`stubs::Bound::watch_everything`].
pub fn passed(frame: &Frame, forwarding: &Forwarding) {
    if let Some(record) = forwarding.records.handles.pin().get(&(frame.integer(0) as usize)) {
        record.state.forget_time();
    }
}

/// Whether native is about to execute a call whose time is measured.
pub fn is_with_native(frame: &Frame, forwarding: &Forwarding) -> bool {
    let handles = forwarding.records.handles.pin();
    handles.get(&(frame.integer(0) as usize)).is_some_and(|record| record.state.lock().is_with_native())
}

/// Native has done its part of a call, if it had one.
pub fn native_is_done(frame: &Frame, forwarding: &Forwarding) {
    if let Some(record) = forwarding.records.handles.pin().get(&(frame.integer(0) as usize)) {
        record.state.lock().native_is_done();
    }
}

/// Reads alpha or beta: a double if the output is double, else a float. `None` if null.
fn scalar(pointer: *mut c_void, output: &TensorDescriptor) -> Option<f64> {
    if pointer.is_null() {
        return None;
    }
    Some(match output.data_type() {
        // SAFETY: not null, and MIOpen's contract makes it a double for double outputs.
        DataType::Double => unsafe { pointer.cast::<f64>().read_unaligned() },
        // SAFETY: not null, and MIOpen's contract makes it a float for all others.
        _ => f64::from(unsafe { pointer.cast::<f32>().read_unaligned() }),
    })
}

/// Workspace of the handle's own, for a solver of native's that needs more than the caller brought. `None` if there is none to be had.
fn own_workspace(frame: &Frame, forwarding: &Forwarding, bytes: usize) -> Option<*mut c_void> {
    let handles = forwarding.records.handles.pin();
    forwarding.host.own_workspace(&handles.get(&(frame.integer(0) as usize))?.state, bytes)
}

/// Memory that native writes an answer into while a call is under way. Outlives native's call wherever the call ends.
pub struct Place<T>(*mut T);

impl<T> Place<T> {
    fn new(value: T) -> Self {
        Self(Box::into_raw(Box::new(value)))
    }

    /// What native is told.
    fn argument(&self) -> u64 {
        self.0.expose_provenance() as u64
    }
}

impl<T: Clone> Place<T> {
    fn read(&self) -> T {
        // SAFETY: made from a box, and native, which wrote it, has returned.
        unsafe { (*self.0).clone() }
    }
}

/// A list that native is asked for: its length and up to `N` entries.
struct Listing<C, T, const N: usize>(Place<(C, [T; N])>);

impl<C: Copy + Default + TryInto<usize>, T: Copy + Default, const N: usize> Listing<C, T, N> {
    fn new() -> Self {
        Self(Place::new((C::default(), [T::default(); N])))
    }

    /// What native is told: where the length and where the entries go.
    fn arguments(&self) -> [u64; 2] {
        let list = self.0.0;
        // SAFETY: the fields of a live allocation; only their addresses are taken.
        unsafe { [(&raw mut (*list).0).expose_provenance() as u64, (&raw mut (*list).1).expose_provenance() as u64] }
    }

    /// What native, which succeeded, wrote.
    fn read(&self) -> Vec<T> {
        let (count, entries) = self.0.read();
        entries[..count.try_into().unwrap_or(0).min(N)].to_vec()
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        // SAFETY: made from a box, given back once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
