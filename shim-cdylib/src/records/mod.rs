//! Recorded objects, by the address of the native one. Written after native's success, read without a lock.
//!
//! `finds`: what was searched for on a handle. `solutions`: problems and solutions of find-2.0. `fusion`: plans and their arguments.

mod finds;
mod fusion;
mod solutions;

use std::sync::Arc;

use hipdnn_host::{
    handle::HandleState,
    problem::{Activation, ConvolutionDescriptor, TensorDescriptor},
};
use papaya::HashMap;

pub use finds::{Finds, Listed, NativeSearch};
pub use fusion::{FusionPlan, OperatorArgument, OperatorArguments, PlannedOperation, PlannedStep};
pub use solutions::{PartialProblem, Solutions};

/// A handle.
pub struct HandleRecord {
    /// The host's half: hipDNN's handle, plans, counters.
    pub state: Arc<HandleState>,
    /// What Find listed on it.
    pub finds: Finds,
}

/// What the setters made, as long as native's objects live.
#[derive(Default)]
pub struct Records {
    /// Tensor descriptors.
    pub tensors: HashMap<usize, TensorDescriptor>,
    /// Convolution descriptors.
    pub convolutions: HashMap<usize, ConvolutionDescriptor>,
    /// Activation descriptors.
    pub activations: HashMap<usize, Activation>,
    /// Handles.
    pub handles: HashMap<usize, Arc<HandleRecord>>,
    /// Problems of find-2.0.
    pub problems: HashMap<usize, PartialProblem>,
    /// Limits on workspace in options of find-2.0, in bytes.
    pub workspace_limits: HashMap<usize, usize>,
    /// Solutions of find-2.0.
    pub solutions: Solutions,
    /// Fusion plans.
    pub plans: HashMap<usize, FusionPlan>,
    /// Operator arguments of fusion plans.
    pub arguments: HashMap<usize, OperatorArguments>,
}
