//! The edge to cuDNN: raw functions in `library`, safe descriptors in `descriptor`, numbers in [`numbers`]. Raw pointers of cuDNN do not leave this module, except inside those types.

mod descriptor;
mod library;
pub mod numbers;

pub use descriptor::{Descriptor, Handle};
pub use library::Library;
use thiserror::Error;

/// A call into cuDNN that did not succeed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{function}: cuDNN status {status}{}{}", if .message.is_empty() { "" } else { ": " }, .message)]
pub struct CudnnError {
    /// `cudnnStatus_t`.
    pub status: i32,
    /// The C function, and what it was called for.
    pub function: String,
    /// cuDNN's last error text of this thread, on one line.
    pub message: String,
}

impl CudnnError {
    /// cuDNN says that it cannot (3xxx), or that what it was given is nothing that it knows (2xxx), rather than that something went wrong.
    pub fn is_refusal(&self) -> bool {
        matches!(self.status / 1000, 2 | 3)
    }
}

impl From<CudnnError> for hipdnn_backend::Error {
    fn from(error: CudnnError) -> Self {
        use hipdnn_abi::status;
        let status = match error.status {
            _ if error.is_refusal() => status::NOT_SUPPORTED,
            4003 => status::INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
            4004 => status::INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
            5000..6000 => status::EXECUTION_FAILED,
            _ => status::INTERNAL_ERROR,
        };
        Self::new(status, error.to_string())
    }
}
