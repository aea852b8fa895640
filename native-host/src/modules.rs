//! Which files this process has loaded as modules, as the loader tells it.

use std::{
    ffi::{CStr, OsStr, c_void},
    ops::Range,
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
    let named = |file: &Path| file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(begin.as_bytes()));
    let file = find_map(|module| Some(module.file()).filter(|file| named(file)).map(Path::to_path_buf))?;
    file.parent().map(Path::to_path_buf)
}

/// A module as the loader describes it, while it stays loaded.
pub struct Loaded<'a>(&'a libc::dl_phdr_info);

impl<'a> Loaded<'a> {
    /// The name under which it was loaded; empty for the program itself.
    pub fn file(&self) -> &'a Path {
        if self.0.dlpi_name.is_null() {
            return Path::new("");
        }
        // SAFETY: the loader's name, NUL-terminated.
        Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(self.0.dlpi_name) }.to_bytes()))
    }

    fn headers(&self, kind: u32) -> impl Iterator<Item = Range<usize>> + use<'a> {
        // SAFETY: the loader's program headers are as many as it says.
        let headers = unsafe { std::slice::from_raw_parts(self.0.dlpi_phdr, usize::from(self.0.dlpi_phnum)) };
        let base = self.0.dlpi_addr as usize;
        headers.iter().filter(move |header| header.p_type == kind).map(move |header| {
            let start = base.wrapping_add(header.p_vaddr as usize);
            start..start.saturating_add(header.p_memsz as usize)
        })
    }

    /// Where its segments lie in memory.
    pub fn segments(&self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        self.headers(libc::PT_LOAD)
    }

    /// From the first of its segments to the last; `None` if it has none.
    pub fn span(&self) -> Option<Range<usize>> {
        self.segments().reduce(|all, segment| all.start.min(segment.start)..all.end.max(segment.end)).filter(|span| !span.is_empty())
    }

    /// Its notes, in memory.
    pub fn notes(&self) -> impl Iterator<Item = &'a [u8]> {
        let is_loaded = |note: &Range<usize>| self.segments().any(|segment| segment.start <= note.start && note.end <= segment.end);
        self.headers(libc::PT_NOTE).filter(is_loaded).map(|note| {
            // SAFETY: lies within a loaded segment, as was just checked.
            unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(note.start), note.len()) }
        })
    }
}

/// The first answer that looking at one module after the other gives. The loader holds its lock meanwhile.
pub fn find_map<T>(mut look: impl FnMut(&Loaded<'_>) -> Option<T>) -> Option<T> {
    let mut found = None;
    let mut visit = |module: &Loaded<'_>| {
        found = look(module);
        found.is_some()
    };
    let mut visit: &mut dyn FnMut(&Loaded<'_>) -> bool = &mut visit;
    // SAFETY: the callback matches the declared type and gets our own closure back, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit_one), (&raw mut visit).cast()) };
    found
}

unsafe extern "C" fn visit_one(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> libc::c_int {
    // SAFETY: the loader passes a valid description, and `data` is the closure of `find_map`.
    let (info, visit) = unsafe { (&*info, &mut *data.cast::<&mut dyn FnMut(&Loaded<'_>) -> bool>()) };
    libc::c_int::from(visit(&Loaded(info)))
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
