//! Activation descriptors.

use hipdnn_host::problem::Activation;

use crate::{convert, frame::Frame, routing::Forwarding};

/// `miopenSetActivationDescriptor(desc, mode, alpha, beta, gamma)`.
pub fn set(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let activations = forwarding.records.activations.pin();
    let address = frame.integer(0) as usize;
    if success {
        let mode = convert::activation_mode(frame.int(1));
        activations.insert(address, Activation { mode, alpha: frame.double(0), beta: frame.double(1), gamma: frame.double(2) });
    } else {
        activations.remove(&address);
    }
}

/// `miopenDestroyActivationDescriptor(desc)`.
pub fn forget(frame: &Frame, forwarding: &Forwarding) {
    forwarding.records.activations.pin().remove(&(frame.integer(0) as usize));
}
