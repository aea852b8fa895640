//! What is queued: work on tensors that can be done where they are, or on copies of them elsewhere. How it gets onto a stream is not
//! decided here.

use super::tensor::Tensor;

/// What work does with a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Reads it.
    Input,
    /// Writes its elements, and may read them.
    Output,
}

/// Work on tensors.
pub trait Work: Clone + Send + Sync + 'static {
    /// Shows every tensor in memory, always in the same order: to look at it, or to change its address.
    fn each(&mut self, show: &mut dyn FnMut(&mut Tensor, Use));

    /// Does it.
    fn run(&self);
}
