//! The edge to `libhipdnn_backend.so`: where it is looked for in `search`, raw functions in `library`, safe descriptors in
//! `descriptor`. Raw pointers and C numbers of the backend do not leave this module, except inside those types.

mod descriptor;
mod library;
pub mod search;

pub use descriptor::{Descriptor, EngineInfo, Handle, PointerSlots};
pub use library::Library;

use hipdnn_abi::status;
use thiserror::Error;

/// A call into the backend that did not succeed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{function}{subject}: {} ({status}){}", status_name(*status), suffix(.message))]
pub struct BackendError {
    /// `hipdnnStatus_t`.
    pub status: i32,
    /// The C function.
    pub function: &'static str,
    /// What it was called on, like `(EXECUTION_PLAN)`, or empty.
    pub subject: String,
    /// The backend's last error text of this thread, on one line.
    pub message: String,
}

impl BackendError {
    /// The backend says that it cannot, rather than that something went wrong.
    pub fn is_unsupported(&self) -> bool {
        self.status == status::NOT_SUPPORTED
    }
}

/// The C name of a status, or "unknown status".
pub fn status_name(status: i32) -> &'static str {
    hipdnn_abi::name_in(status::ALL, status).unwrap_or("unknown status")
}

fn suffix(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

/// What the loader itself said, which libloading keeps as the source of its error.
pub fn loader_text(error: libloading::Error) -> String {
    std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
}
