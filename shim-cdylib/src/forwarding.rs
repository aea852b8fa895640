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

/// `miopenConvolutionForward(handle, alpha, xDesc, x, wDesc, w, convDesc, algo, beta, yDesc, y, workSpace, workSpaceSize)`.
pub fn convolution_forward(frame: &Frame, forwarding: &Forwarding) -> Decision {
    const CALL: &str = "miopenConvolutionForward";
    let handles = forwarding.records.handles.pin();
    let tensors = forwarding.records.tensors.pin();
    let convolutions = forwarding.records.convolutions.pin();
    let tensor = |n: usize| tensors.get(&(frame.integer(n) as usize));
    let (Some(state), Some(x), Some(w), Some(convolution), Some(y)) =
        (handles.get(&(frame.integer(0) as usize)), tensor(2), tensor(4), convolutions.get(&(frame.integer(6) as usize)), tensor(9))
    else {
        return declined(forwarding, CALL, HostRule::DescriptorUnrecorded, "a handle or descriptor of this call");
    };
    let (Some(alpha), Some(beta)) = (scalar(frame.pointer(1), y), scalar(frame.pointer(8), y)) else {
        return declined(forwarding, CALL, HostRule::ScalingNull, "alpha or beta");
    };
    let call = ConvolutionCall {
        entry_point: CALL,
        problem: ConvolutionProblem {
            direction: ConvolutionDirection::Forward,
            convolution,
            x,
            w,
            y,
            alpha,
            beta,
            algorithm: Some(frame.int(7).cast_unsigned()),
        },
        pointers: [frame.pointer(3), frame.pointer(5), frame.pointer(10)],
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

fn declined(forwarding: &Forwarding, call: &'static str, rule: HostRule, message: &str) -> Decision {
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
