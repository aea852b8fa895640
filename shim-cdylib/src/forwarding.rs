//! Routed calls: arguments and records become a problem for the host; its outcome becomes a status or a jump to native.

use std::ffi::c_void;

use hipdnn_host::{
    data_type::DataType,
    forward::{ConvolutionCall, Outcome},
    problem::{ConvolutionDirection, ConvolutionProblem, TensorDescriptor},
    rules::HostRule,
};
use miopen_api::status;

use crate::{
    errors,
    frame::{Decision, Frame},
    routing::Forwarding,
    stubs,
};

/// A classic convolution call: `(handle, alpha, aDesc, a, bDesc, b, convDesc, algo, beta, cDesc, c, workSpace, workSpaceSize)`, where c is
/// what is computed and a and b are what it is computed from.
struct Classic {
    name: &'static str,
    direction: ConvolutionDirection,
    /// Positions of the descriptors of x, w and y (of their gradients, if these are meant); the memory is the next argument.
    tensors: [usize; 3],
}

const FORWARD: Classic = Classic { name: "miopenConvolutionForward", direction: ConvolutionDirection::Forward, tensors: [2, 4, 9] };
const BACKWARD_DATA: Classic =
    Classic { name: "miopenConvolutionBackwardData", direction: ConvolutionDirection::BackwardData, tensors: [9, 4, 2] };
const BACKWARD_WEIGHTS: Classic =
    Classic { name: "miopenConvolutionBackwardWeights", direction: ConvolutionDirection::BackwardWeights, tensors: [4, 9, 2] };
/// The position of the result's descriptor, in every direction.
const RESULT: usize = 9;

/// y from x and w.
pub fn convolution_forward(frame: &Frame, forwarding: &Forwarding) -> Decision {
    classic(&FORWARD, frame, forwarding)
}

/// dx from dy and w.
pub fn convolution_backward_data(frame: &Frame, forwarding: &Forwarding) -> Decision {
    classic(&BACKWARD_DATA, frame, forwarding)
}

/// dw from dy and x.
pub fn convolution_backward_weights(frame: &Frame, forwarding: &Forwarding) -> Decision {
    classic(&BACKWARD_WEIGHTS, frame, forwarding)
}

fn classic(entry: &Classic, frame: &Frame, forwarding: &Forwarding) -> Decision {
    let handles = forwarding.records.handles.pin();
    let tensors = forwarding.records.tensors.pin();
    let convolutions = forwarding.records.convolutions.pin();
    let tensor = |n: usize| tensors.get(&(frame.integer(n) as usize));
    let [x, w, y] = entry.tensors.map(tensor);
    let (Some(state), Some(x), Some(w), Some(convolution), Some(y), Some(result)) =
        (handles.get(&(frame.integer(0) as usize)), x, w, convolutions.get(&(frame.integer(6) as usize)), y, tensor(RESULT))
    else {
        return declined(frame, forwarding, entry.name, HostRule::DescriptorUnrecorded, "a handle or descriptor of this call");
    };
    let (Some(alpha), Some(beta)) = (scalar(frame.pointer(1), result), scalar(frame.pointer(8), result)) else {
        return declined(frame, forwarding, entry.name, HostRule::ScalingNull, "alpha or beta");
    };
    let algorithm = Some(frame.int(7).cast_unsigned());
    let call = ConvolutionCall {
        entry_point: entry.name,
        problem: ConvolutionProblem { direction: entry.direction, convolution, x, w, y, alpha, beta, algorithm },
        pointers: entry.tensors.map(|position| frame.pointer(position + 1)),
        workspace: frame.pointer(11),
        workspace_bytes: frame.integer(12) as usize,
    };
    match forwarding.host.convolution(state, &call) {
        Outcome::Served => Decision::Done(errors::note(hipdnn_abi::status::SUCCESS) as u64),
        Outcome::Failed(error) => {
            if let Some(bound) = stubs::bound() {
                bound.watch_everything();
            }
            Decision::Done(errors::note(error.status) as u64)
        }
        Outcome::Native => native(forwarding),
    }
}

/// `miopenGetKernelTime(handle, float*)`: answered here if the handle's last call was served by hipDNN while profiling.
pub fn kernel_time(frame: &Frame, forwarding: &Forwarding) -> Decision {
    let time = forwarding.records.handles.pin().get(&(frame.integer(0) as usize)).and_then(|state| state.kernel_time());
    let out = frame.pointer(1).cast::<f32>();
    match time {
        Some(time) if !out.is_null() => {
            // SAFETY: not null, and MIOpen's contract makes it a place for a float.
            unsafe { out.write_unaligned(time) };
            Decision::Done(errors::note(hipdnn_abi::status::SUCCESS) as u64)
        }
        _ => {
            errors::unmark();
            Decision::Native
        }
    }
}

/// A call that executes something natively, on a handle: its time is native's. Calls that are not routed are seen only while profiling,
/// see [`stubs::Bound::watch_everything`].
pub fn passed(frame: &Frame, forwarding: &Forwarding) {
    if let Some(state) = forwarding.records.handles.pin().get(&(frame.integer(0) as usize)) {
        state.forget_time();
    }
}

fn declined(frame: &Frame, forwarding: &Forwarding, call: &'static str, rule: HostRule, message: &str) -> Decision {
    passed(frame, forwarding);
    forwarding.host.decline_unmade(call, rule, message);
    native(forwarding)
}

/// A declined call is native's, unless the operator wants to see declines.
fn native(forwarding: &Forwarding) -> Decision {
    errors::note(hipdnn_abi::status::SUCCESS);
    if forwarding.host.settings().strict { Decision::Done(status::UNSUPPORTED_OP as u64) } else { Decision::Native }
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
