//! Find-2.0: solutions are native's objects, found and saved by native; when one runs, hipDNN is chosen again.

use std::ffi::c_void;

use hipdnn_host::{
    forward::Call,
    problem::{Problem, TensorDescriptor},
    rules::HostRule,
};
use miopen_api::{TensorArgument, status, tensor_argument_id};

use super::{
    Given, Place,
    by_native::{ByNative, Output, Written},
    conclude, unmade, unrecorded,
};
use crate::{
    errors,
    frame::{Frame, Step},
    routing::Forwarding,
};

const RUN: &str = "miopenRunSolution";
const WORKSPACE: &str = "miopenGetSolutionWorkspaceSize";
/// Where `miopenRunSolution` has its list of tensors.
pub const GIVEN: usize = 3;
const WRITTEN: Written = Written { output: Output::Tensors, workspace: Some(4) };
/// x, w and y.
pub const TENSORS: [i32; 3] =
    [tensor_argument_id::TENSOR_CONVOLUTION_X, tensor_argument_id::TENSOR_CONVOLUTION_W, tensor_argument_id::TENSOR_CONVOLUTION_Y];

/// `miopenRunSolution(handle, solution, nInputs, tensors, workspace, workspaceSize)`.
pub fn run(frame: &Frame, forwarding: &'static Forwarding) -> Step {
    let handles = forwarding.records.handles.pin();
    let record = handles.get(&(frame.integer(0) as usize));
    let (Some(record), Some(solved)) = (record, forwarding.records.solutions.get(frame.integer(1) as usize)) else {
        return unrecorded(frame, forwarding, RUN);
    };
    let Some(arguments) = arguments(frame) else {
        return unmade(frame, forwarding, RUN, HostRule::PointerNull, "not exactly x, w and y");
    };
    let tensors = forwarding.records.tensors.pin();
    let mut others: [Option<&TensorDescriptor>; 3] = [None; 3];
    for (other, argument) in others.iter_mut().zip(&arguments) {
        if argument.descriptor.is_null() {
            continue;
        }
        // SAFETY: not null, and MIOpen's contract makes it the place of a tensor descriptor.
        let descriptor = unsafe { argument.descriptor.read_unaligned() };
        *other = tensors.get(&(descriptor as usize));
        if other.is_none() {
            return unrecorded(frame, forwarding, RUN);
        }
    }
    let call = Call {
        entry_point: RUN,
        problem: Problem::Convolution(solved.problem(others)),
        pointers: &arguments.map(|argument| argument.buffer),
        workspace: frame.pointer(4),
        workspace_bytes: frame.integer(5) as usize,
    };
    let given = Given { name: RUN, written: WRITTEN, frame, state: &record.state };
    conclude(forwarding, &given, forwarding.host.call(&record.state, &call), ByNative::unchanged)
}

/// The tensors in the caller's order, if there are as many as x, w and y.
fn given(frame: &Frame) -> Option<[TensorArgument; 3]> {
    let given = frame.pointer(GIVEN).cast::<TensorArgument>();
    if frame.integer(2) != TENSORS.len() as u64 || given.is_null() {
        return None;
    }
    // SAFETY: not null, and MIOpen's contract makes it an array of that many.
    Some(std::array::from_fn(|n| unsafe { given.add(n).read_unaligned() }))
}

/// The arguments for x, w and y, if these are what the caller passes.
fn arguments(frame: &Frame) -> Option<[TensorArgument; 3]> {
    let given = given(frame)?;
    let of = |id: i32| given.iter().find(|argument| argument.id == id).copied();
    let [x, w, y] = TENSORS.map(of);
    Some([x?, w?, y?])
}

/// The caller's tensors, with other memory for x, w or y, by its place among these.
pub fn with_buffer(frame: &Frame, operand: usize, buffer: *mut c_void) -> Option<Place<[TensorArgument; 3]>> {
    let mut given = given(frame)?;
    let id = *TENSORS.get(operand)?;
    given.iter_mut().find(|argument| argument.id == id)?.buffer = buffer;
    Some(Place::new(given))
}

/// `miopenGetSolutionWorkspaceSize(solution, size*)`: enough for native's solution and for hipDNN's plan; but the plan's only as far as the
/// caller's limit, beyond which it takes the handle's own.
pub fn workspace_size(frame: &Frame, _: &'static Forwarding) -> Step {
    errors::unmark();
    let size = frame.pointer(1).cast::<usize>();
    if size.is_null() {
        return Step::Native;
    }
    Step::native_then(frame, move |frame, forwarding, status| {
        let solved = forwarding.records.solutions.get(frame.integer(0) as usize);
        let own = solved.filter(|_| status == status::SUCCESS).and_then(|solved| {
            let handles = forwarding.records.handles.pin();
            let state = &handles.get(&solved.handle)?.state;
            let bytes = forwarding.host.prepare(state, WORKSPACE, &Problem::Convolution(solved.problem([None; 3])))?;
            Some(solved.workspace_limit.map_or(bytes, |limit| if bytes <= limit { bytes } else { 0 }))
        });
        if let Some(own) = own {
            // SAFETY: not null, and native, which succeeded, wrote it.
            unsafe { size.write_unaligned(size.read_unaligned().max(own)) };
        }
        Step::status(status)
    })
}

/// `miopenSaveSolution(solution, data)`: native's bytes, which are remembered for a solution that is loaded from them.
pub fn save(frame: &Frame, _: &'static Forwarding) -> Step {
    errors::unmark();
    let data = frame.pointer(1);
    if data.is_null() {
        return Step::Native;
    }
    Step::native_then(frame, move |frame, _, status| {
        if status != status::SUCCESS {
            return Step::status(status);
        }
        let size = Place::new(0usize);
        let arguments = crate::frame::Arguments::new(&[frame.integer(0), size.argument()]);
        Step::call("miopenGetSolutionSize", arguments, move |frame, forwarding, asked| {
            if asked == status::SUCCESS {
                forwarding.records.solutions.saved(frame.integer(0) as usize, saved_bytes(frame.pointer(1), size.read()));
            }
            Step::status(status)
        })
    })
}

/// What native saved, or is about to load.
fn saved_bytes<'a>(data: *mut c_void, size: usize) -> &'a [u8] {
    // SAFETY: native wrote as many bytes there as it says a saved solution has; or read as many as the caller says are there. The caller
    // does not change them during its call, and the slice is used within it.
    unsafe { std::slice::from_raw_parts(data.cast(), size) }
}

/// `miopenLoadSolution(solution*, data, size)`, after native's success.
pub fn loaded(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let (place, data) = (frame.pointer(0).cast::<usize>(), frame.pointer(1));
    if !success || place.is_null() || data.is_null() {
        return;
    }
    // SAFETY: native succeeded, so it wrote the solution there.
    let solution = unsafe { place.read_unaligned() };
    forwarding.records.solutions.loaded(solution, saved_bytes(data, frame.integer(2) as usize));
}
