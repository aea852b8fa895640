//! `cargo xtask sanitize`: the C clients under AddressSanitizer, and, where a nightly toolchain has what they need, threads under
//! ThreadSanitizer and the rules under Miri. What is run under which is in the file of each.

mod address;
mod nightly;

use std::path::Path;

use anyhow::Result;
use thiserror::Error;

/// What this machine has no toolchain for: nothing that is wrong here.
#[derive(Debug, Error)]
#[error("ThreadSanitizer and Miri are not run: {0}")]
pub struct NoNightly(String);

/// Runs all that can be run; fails at the first that is wrong. What needs a nightly toolchain comes last.
pub fn run(dist: &Path) -> Result<()> {
    address::run(dist)?;
    nightly::run()
}
