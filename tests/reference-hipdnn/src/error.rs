//! A failed call: the status that the ABI answers and the text for the thread's last error. Only the type; every rule words its own.

use std::fmt;

use hipdnn_abi::status;

/// Why a call fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// `hipdnnStatus_t`.
    pub status: i32,
    /// One line for the thread's last error text.
    pub message: String,
}

/// What everything behind the ABI edge answers.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Any status.
    pub fn new(status: i32, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// A wrong argument.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(status::BAD_PARAM, message)
    }

    /// A pointer that must not be null.
    pub fn null(what: impl fmt::Display) -> Self {
        Self::new(status::BAD_PARAM_NULL_POINTER, format!("{what} is null"))
    }

    /// Something that this backend does not do.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(status::NOT_SUPPORTED, message)
    }

    /// A child that must be finalized first.
    pub fn not_finalized(what: impl fmt::Display) -> Self {
        Self::new(status::BAD_PARAM_NOT_FINALIZED, format!("{what} is not finalized"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = hipdnn_abi::name_in(status::ALL, self.status).unwrap_or("unknown status");
        write!(f, "{name}: {}", self.message)
    }
}

impl std::error::Error for Error {}
