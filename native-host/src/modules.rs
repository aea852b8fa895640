//! Which files this process has loaded as modules, as the loader tells it.

use std::{
    ffi::{CStr, OsStr, c_void},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// A loaded module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Where it begins in memory.
    pub base: usize,
    /// The file, by the name under which it was loaded.
    pub file: PathBuf,
}

/// The module that an address lies in.
pub fn module_of(address: usize) -> Option<Module> {
    // SAFETY: plain data, written by dladdr.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about; `info` is writable.
    let found = unsafe { libc::dladdr(address as *const c_void, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr answers a NUL-terminated name that lives as long as the module.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(Module { base: info.dli_fbase as usize, file: PathBuf::from(OsStr::from_bytes(name.to_bytes())) })
}

/// The folder of the first module whose file name begins so.
pub fn folder_of(begin: &str) -> Option<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    // SAFETY: the callback matches the declared type and gets our own vector back; the call returns before `paths` is used.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut paths).cast()) };
    let named = |path: &&PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(begin.as_bytes()));
    paths.iter().find(named)?.parent().map(Path::to_path_buf)
}

unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> libc::c_int {
    // SAFETY: the loader passes a valid description, and `data` is the vector of `folder_of`.
    let (info, paths) = unsafe { (&*info, &mut *data.cast::<Vec<PathBuf>>()) };
    if !info.dlpi_name.is_null() {
        // SAFETY: the loader's name, NUL-terminated.
        paths.push(OsStr::from_bytes(unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes()).into());
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_known_by_address_and_by_name() {
        let here = module_of(modules_are_known_by_address_and_by_name as *const () as usize).expect("this program");
        let libc = module_of(libc::getpid as *const () as usize).expect("the C library");
        assert!(here.base != libc.base && libc.file.ends_with("libc.so.6"), "{here:?} {libc:?}");
        assert!(folder_of("libc.so").is_some_and(|folder| folder.join("libc.so.6").exists()));
        assert_eq!((folder_of("libamdhip64.so"), module_of(1)), (None, None));
    }
}
