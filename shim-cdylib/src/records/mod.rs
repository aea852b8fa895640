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

pub use finds::{Finds, Listed, NativeSearch};
pub use fusion::{FusionPlan, OperatorArgument, OperatorArguments, PlannedOperation, PlannedStep};
pub use solutions::{PartialProblem, Solutions};

/// Something about each of native's objects, by its address. Nobody chooses addresses to collide, and every call looks some of them up, so
/// they are spread quickly.
pub type ByAddress<T> = papaya::HashMap<usize, T, foldhash::fast::RandomState>;

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
    pub tensors: ByAddress<TensorDescriptor>,
    /// Convolution descriptors.
    pub convolutions: ByAddress<ConvolutionDescriptor>,
    /// Activation descriptors.
    pub activations: ByAddress<Activation>,
    /// Handles.
    pub handles: ByAddress<Arc<HandleRecord>>,
    /// Problems of find-2.0.
    pub problems: ByAddress<PartialProblem>,
    /// Limits on workspace in options of find-2.0, in bytes.
    pub workspace_limits: ByAddress<usize>,
    /// Solutions of find-2.0.
    pub solutions: Solutions,
    /// Fusion plans.
    pub plans: ByAddress<FusionPlan>,
    /// Serial numbers of the operations of fusion plans.
    pub operations: ByAddress<u64>,
    /// Operator arguments of fusion plans.
    pub arguments: ByAddress<OperatorArguments>,
}
