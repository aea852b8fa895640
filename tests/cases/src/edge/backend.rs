//! The functions for tests of the reference hipDNN, if that is what the shim loaded: failures on demand, and how often it was called.

use std::{
    env,
    ffi::{CString, c_char, c_int},
    path::PathBuf,
};

use anyhow::{Result, ensure};
use libloading::os::unix::Library;

use super::symbol;

/// The reference hipDNN of this process.
pub struct ReferenceBackend {
    set_faults: unsafe extern "C" fn(*const c_char) -> c_int,
    calls: unsafe extern "C" fn(*const c_char) -> u64,
}

/// `RTLD_NOLOAD`.
const ONLY_IF_LOADED: c_int = 4;

impl ReferenceBackend {
    /// The backend that the shim was told to load, if it is loaded and is the reference one.
    pub fn loaded() -> Option<Self> {
        let path = PathBuf::from(env::var_os("MIOPEN_HIPDNN_BACKEND_LIBRARY")?);
        // SAFETY: nothing is loaded by this, so nothing runs.
        let library = unsafe { Library::open(Some(path), libloading::os::unix::RTLD_LAZY | ONLY_IF_LOADED) }.ok()?;
        let library: &'static Library = Box::leak(Box::new(library));
        let (set_faults, calls) = (symbol(library, "reference_hipdnn_set_faults").ok()?, symbol(library, "reference_hipdnn_calls").ok()?);
        Some(Self { set_faults, calls })
    }

    /// Arms failures in the syntax of the reference hipDNN; they end when the answer is dropped.
    pub fn faults(&self, text: &str) -> Result<Faults<'_>> {
        let text = CString::new(text)?;
        // SAFETY: NUL-terminated.
        ensure!(unsafe { (self.set_faults)(text.as_ptr()) } == 0, "the faults {text:?} are refused");
        Ok(Faults(self))
    }

    /// How often a function was called.
    pub fn calls(&self, function: &str) -> Result<u64> {
        let name = CString::new(function)?;
        // SAFETY: NUL-terminated.
        Ok(unsafe { (self.calls)(name.as_ptr()) })
    }
}

/// Armed failures.
pub struct Faults<'a>(&'a ReferenceBackend);

impl Drop for Faults<'_> {
    fn drop(&mut self) {
        // SAFETY: an empty text, NUL-terminated.
        unsafe { (self.0.set_faults)(c"".as_ptr()) };
    }
}
