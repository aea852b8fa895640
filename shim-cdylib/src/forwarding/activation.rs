//! Functions of each element: `miopenActivationForward`.

use hipdnn_host::{
    forward::Call,
    problem::{ActivationProblem, Problem, Scaling},
    rules::HostRule,
};

use super::{
    Given,
    by_native::{self, ByNative},
    conclude, scalar, unmade, unrecorded,
};
use crate::{
    frame::{Frame, Step},
    routing::Forwarding,
};

const NAME: &str = "miopenActivationForward";

/// `miopenActivationForward(handle, activDesc, alpha, xDesc, x, beta, yDesc, y)`.
pub fn forward(frame: &Frame, forwarding: &'static Forwarding) -> Step {
    let records = &forwarding.records;
    let (handles, tensors, activations) = (records.handles.pin(), records.tensors.pin(), records.activations.pin());
    let (Some(record), Some(&activation), Some(x), Some(y)) = (
        handles.get(&(frame.integer(0) as usize)),
        activations.get(&(frame.integer(1) as usize)),
        tensors.get(&(frame.integer(3) as usize)),
        tensors.get(&(frame.integer(6) as usize)),
    ) else {
        return unrecorded(frame, forwarding, NAME);
    };
    let (Some(alpha), Some(beta)) = (scalar(frame.pointer(2), y), scalar(frame.pointer(5), y)) else {
        return unmade(frame, forwarding, NAME, HostRule::ScalingNull, "alpha or beta");
    };
    let call = Call {
        entry_point: NAME,
        problem: Problem::Activation(ActivationProblem { activation, scaling: Scaling { alpha, beta }, x, y }),
        pointers: &[frame.pointer(4), frame.pointer(7)],
        workspace: std::ptr::null_mut(),
        workspace_bytes: 0,
    };
    let given = Given { name: NAME, written: by_native::argument(7, None), frame, state: &record.state };
    conclude(forwarding, &given, forwarding.host.call(&record.state, &call), ByNative::unchanged)
}
