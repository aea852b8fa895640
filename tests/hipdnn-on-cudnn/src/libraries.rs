//! Loading NVIDIA's libraries and resolving their functions. Which those are is said where they are used.

use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// A struct of function pointers, and how they are resolved.
macro_rules! functions {
    ($(#[$doc:meta])* $struct:ident { $($field:ident $name:literal ($($argument:ty),*) -> $result:ty;)* }) => {
        $(#[$doc])*
        pub(super) struct $struct {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl $struct {
            fn resolve(library: &libloading::os::unix::Library) -> std::result::Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the symbol, if it exists, has the type that NVIDIA's header gives.
                    $($field: unsafe { *library.get(concat!($name, "\0").as_bytes())? },)*
                })
            }
        }
    };
}
pub(crate) use functions;

/// The first of the files that can be used. It is never unloaded: these libraries keep threads and contexts.
pub(crate) fn load<T, P: AsRef<Path>>(files: &[P], resolve: impl Fn(&Library, &Path) -> Result<T, libloading::Error>) -> Result<T, String> {
    let mut reasons = Vec::new();
    for file in files.iter().map(AsRef::as_ref) {
        match open(file).and_then(|loaded| resolve(&loaded, file).map(|made| (loaded, made))) {
            Ok((loaded, made)) => {
                std::mem::forget(loaded);
                return Ok(made);
            }
            Err(error) => reasons.push(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)),
        }
    }
    Err(reasons.join("; "))
}

/// Loads a library, without giving its symbols to others.
pub(crate) fn open(file: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: loading runs the library's initialisers; these are NVIDIA's libraries, which the user put there.
    unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }
}
