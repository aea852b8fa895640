//! The native MIOpen of this process. Where it is looked for, and what is ourselves, is `hipdnn_host::native`'s; what only the shim knows
//! is here: which file it is itself.

use std::path::PathBuf;

use hipdnn_host::{
    environment::Settings,
    hip, modules,
    native::{
        Library,
        search::{Surroundings, stock_folders},
    },
    release,
    search::Reason,
};
use miopen_api::{PRIVATE_SONAME, SONAME, SPLIT_SONAME};
use thiserror::Error;

/// Why no native library could be bound.
#[derive(Debug, Error)]
pub enum NativeError {
    /// The explicitly named one cannot be used.
    #[error("the native MIOpen {0} cannot be used: {1}")]
    Named(PathBuf, Reason),
    /// None was found.
    #[error("no native MIOpen: neither {PRIVATE_SONAME}, {SPLIT_SONAME} nor another {SONAME} in {0}; set MIOPEN_HIPDNN_NATIVE_LIBRARY")]
    NotFound(String),
}

/// Finds and loads the native library.
pub fn bind(settings: &Settings) -> Result<Library, NativeError> {
    let (own_file, hip_folder) = (own_file(), modules::folder_of(hip::search::STEM));
    let around = Surroundings { settings, own_file: own_file.as_deref(), hip_folder: hip_folder.as_deref() };
    let mut search = Library::find(&around);
    if let Some((_, library)) = search.found {
        return Ok(library);
    }
    Err(match (&settings.native_library, search.rejected.pop()) {
        (Some(path), Some((_, reason))) => NativeError::Named(path.clone(), reason),
        _ => NativeError::NotFound(stock_folders(&around).iter().map(|(_, f)| f.display().to_string()).collect::<Vec<_>>().join(":")),
    })
}

/// Whether the program's HIP runtime and a native that nobody named are of different releases, each by what its tree says: then they were
/// not made to work together, and least of all with hipDNN between them. Versions that libraries report are not looked at.
pub fn mixed(settings: &Settings, native: &Library) -> Option<String> {
    let hip = modules::folder_of(hip::search::STEM).filter(|_| settings.native_library.is_none())?;
    let native = native.file()?;
    let (of_native, of_hip) = (release::of(&native)?, release::of(&hip)?);
    (of_native != of_hip).then(|| {
        format!("the native MIOpen {} is of ROCm {of_native}, the HIP runtime in {} of ROCm {of_hip}", native.display(), hip.display())
    })
}

/// The file that this library was loaded from.
fn own_file() -> Option<PathBuf> {
    modules::module_of(own_file as *const () as usize).map(|module| module.file)
}
