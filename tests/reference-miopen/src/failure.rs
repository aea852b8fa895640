//! How an implementation says that a call fails. Which situation gives which status is decided where the call is.

use std::borrow::Cow;

use miopen_api::status;

/// A failed call.
#[derive(Debug)]
pub struct Failure {
    pub status: i32,
    pub message: Cow<'static, str>,
    /// Where the real library throws a C++ exception through its C interface instead of returning.
    pub throws: bool,
}

/// What an implementation returns.
pub type Outcome = Result<(), Failure>;

/// A failure with a status.
pub fn fail(status: i32, message: impl Into<Cow<'static, str>>) -> Failure {
    Failure { status, message: message.into(), throws: false }
}

/// The most common failure: `miopenStatusBadParm`.
pub fn bad(message: impl Into<Cow<'static, str>>) -> Failure {
    fail(status::BAD_PARM, message)
}
