//! The native MIOpen: where it is looked for, and how its functions are found. Never ourselves.

use std::{
    env,
    ffi::{CStr, CString, OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use hipdnn_host::environment::Settings;
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use miopen_api::{PRIVATE_SONAME, SONAME};
use thiserror::Error;

use crate::callers;

/// The native library of a split install, which exports `<name>_impl`.
const SPLIT: &str = "libMIOpen_private.so.1";

/// How the file of the HIP runtime begins, whichever release it is of.
const HIP: &str = "libamdhip64.so";

/// Why no native library could be bound.
#[derive(Debug, Error)]
pub enum NativeError {
    /// The explicitly named one cannot be used.
    #[error("the native MIOpen {0} cannot be used: {1}")]
    Named(PathBuf, String),
    /// None was found.
    #[error("no native MIOpen: neither {PRIVATE_SONAME}, {SPLIT} nor another {SONAME} in {0}; set MIOPEN_HIPDNN_NATIVE_LIBRARY")]
    NotFound(String),
}

/// The bound native library. Never unloaded.
pub struct Native {
    library: &'static Library,
    split: bool,
}

impl Native {
    /// Finds and loads the native library: the one named in the environment; the one that this library was installed before, which the
    /// loader has brought already; that of a split install; a stock one, searched by hand and opened by its path only, since asking the
    /// loader for its SONAME would answer ourselves.
    pub fn bind(settings: &Settings) -> Result<Self, NativeError> {
        if let Some(path) = &settings.native_library {
            return Self::open(path).map_err(|error| NativeError::Named(path.clone(), error));
        }
        let own_folder = own_path().and_then(|p| p.parent().map(Path::to_path_buf));
        for name in [PRIVATE_SONAME, SPLIT] {
            let beside = own_folder.as_ref().map(|folder| folder.join(name));
            let found = beside.as_deref().into_iter().chain([Path::new(name)]).find_map(|path| Self::open(path).ok());
            if let Some(native) = found {
                // An installed native has plain names only, whatever its dependencies export.
                return Ok(Self { split: native.split && name == SPLIT, ..native });
            }
        }
        let folders = search_folders(settings);
        let stock = folders.iter().map(|folder| folder.join(SONAME)).filter(|path| path.exists());
        stock
            .filter_map(|path| Self::open(&path).ok())
            .next()
            .ok_or_else(|| NativeError::NotFound(folders.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(":")))
    }

    fn open(path: &Path) -> Result<Self, String> {
        if is_ourselves(path) {
            return Err("it is this library itself".into());
        }
        // Lazy, so that a native with an undefined dependency fails only where it is used, as it would without us.
        // SAFETY: loading runs the library's initialisers, which the program would have run without us.
        let library = unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_LOCAL) }.map_err(hipdnn_host::backend::loader_text)?;
        // Process-lifetime on purpose: slots point into it.
        let library: &'static Library = Box::leak(Box::new(library));
        let has = |name: &CStr| find(library, name).is_some();
        if CString::new(miopen_api::FORWARDED_ERROR_FUNCTION).is_ok_and(|name| has(&name)) {
            return Err("it is another build of this library".into());
        }
        let split = has(c"miopenCreate_impl");
        if split || has(c"miopenCreate") { Ok(Self { library, split }) } else { Err("it has no miopenCreate".into()) }
    }

    /// The address of a native function. In a split install the `_impl` name, or the plain one for the few that kept it.
    pub fn symbol(&self, name: &CStr) -> Option<usize> {
        if self.split {
            let implementation = CString::new([name.to_bytes(), b"_impl"].concat()).ok()?;
            return find(self.library, &implementation).or_else(|| find(self.library, name));
        }
        find(self.library, name)
    }
}

fn find(library: &Library, name: &CStr) -> Option<usize> {
    // SAFETY: only the address is taken; whoever calls it knows the function's type.
    unsafe { library.get::<*mut ()>(name.to_bytes_with_nul()) }.ok().map(|symbol| symbol.as_raw_ptr() as usize).filter(|a| *a != 0)
}

/// The file that this library was loaded from.
fn own_path() -> Option<PathBuf> {
    // SAFETY: plain data, written by dladdr.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is one of ours; `info` is writable.
    let found = unsafe { libc::dladdr(own_path as *const () as *const libc::c_void, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr answers a NUL-terminated name that lives as long as the module.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// The same file as this library: by path, link or hard link. (A copy is recognised by what it exports.)
fn is_ourselves(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    let own = own_path().and_then(|own| identity(&own));
    own.is_some() && identity(path) == own
}

/// Folders that may hold a stock MIOpen, in order.
fn search_folders(settings: &Settings) -> Vec<PathBuf> {
    // First where the HIP runtime of this process comes from: halves of two releases do not work together.
    let mut folders: Vec<PathBuf> = callers::folder_of(HIP).into_iter().collect();
    folders.extend(settings.library_path.iter().flat_map(split_paths));
    folders.extend(settings.rocm_path.iter().map(|rocm| rocm.join("lib")));
    folders.push("/opt/rocm/lib".into());
    folders.extend(["/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"].map(PathBuf::from));
    folders
}

fn split_paths(path: &OsString) -> Vec<PathBuf> {
    env::split_paths(path).filter(|folder| folder.is_absolute()).collect()
}
