//! Recorded descriptors and handles, by the address of the native object. Written after native's success, read without a lock.

use std::sync::Arc;

use hipdnn_host::{
    handle::HandleState,
    problem::{ConvolutionDescriptor, TensorDescriptor},
};
use papaya::HashMap;

/// What the setters made, as long as native's objects live.
#[derive(Default)]
pub struct Records {
    /// Tensor descriptors.
    pub tensors: HashMap<usize, TensorDescriptor>,
    /// Convolution descriptors.
    pub convolutions: HashMap<usize, ConvolutionDescriptor>,
    /// Handles.
    pub handles: HashMap<usize, Arc<HandleState>>,
}
