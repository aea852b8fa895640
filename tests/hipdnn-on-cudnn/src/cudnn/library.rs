//! The functions of `libcudnn.so.9`, resolved once.

use std::{
    ffi::{c_char, c_int, c_void},
    sync::LazyLock,
};

use super::CudnnError;
use crate::{
    libraries::{functions, load, open},
    search,
};

functions! {
    /// cuDNN's graph API.
    Functions {
        version "cudnnGetVersion" () -> usize;
        create "cudnnCreate" (*mut *mut c_void) -> c_int;
        destroy "cudnnDestroy" (*mut c_void) -> c_int;
        set_stream "cudnnSetStream" (*mut c_void, *mut c_void) -> c_int;
        create_descriptor "cudnnBackendCreateDescriptor" (c_int, *mut *mut c_void) -> c_int;
        destroy_descriptor "cudnnBackendDestroyDescriptor" (*mut c_void) -> c_int;
        finalize "cudnnBackendFinalize" (*mut c_void) -> c_int;
        set_attribute "cudnnBackendSetAttribute" (*mut c_void, c_int, c_int, i64, *const c_void) -> c_int;
        get_attribute "cudnnBackendGetAttribute" (*mut c_void, c_int, c_int, i64, *mut i64, *mut c_void) -> c_int;
        execute "cudnnBackendExecute" (*mut c_void, *mut c_void, *mut c_void) -> c_int;
        last_error "cudnnGetLastErrorString" (*mut c_char, usize) -> ();
    }
}

/// cuDNN.
pub struct Library {
    pub(super) functions: Functions,
}

impl Library {
    /// The library of this process, loaded at the first call; or why there is none.
    pub fn get() -> Result<&'static Self, String> {
        static LIBRARY: LazyLock<Result<Library, String>> = LazyLock::new(|| {
            load(&search::cudnn(), |loaded, path| {
                let functions = Functions::resolve(loaded)?;
                // cuDNN asks the loader for these by name when it needs them, and says so itself if it does not get them.
                search::companions(path).iter().filter_map(|file| open(file).ok()).for_each(std::mem::forget);
                Ok(Library { functions })
            })
        });
        LIBRARY.as_ref().map_err(Clone::clone)
    }

    /// `91901` is 9.19.1.
    pub fn version(&self) -> usize {
        // SAFETY: takes nothing.
        unsafe { (self.functions.version)() }
    }

    /// Turns a status into a result; on failure takes the thread's error text with it.
    pub(super) fn check(&self, status: c_int, function: impl FnOnce() -> String) -> Result<(), CudnnError> {
        if status == 0 {
            return Ok(());
        }
        let mut buffer = [0u8; 1024];
        // SAFETY: the buffer is writable for the size that is passed; the function NUL-terminates within it.
        unsafe { (self.functions.last_error)(buffer.as_mut_ptr().cast(), buffer.len()) };
        let text = buffer.split(|&b| b == 0).next().unwrap_or_default();
        Err(CudnnError { status, function: function(), message: String::from_utf8_lossy(text).trim().replace('\n', "; ") })
    }
}
