//! What an answer depends on besides the problem: which backend with which plugins, which device, which native MIOpen, which build of ours.
//!
//! Two processes whose identities are equal may share plans. Paths are not part of it, so that an image may lay things out as it likes;
//! contents are, by the build id that the linker gave each module.

use std::{
    ffi::{CStr, OsStr, c_void},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use crate::backend::Handle;

/// A build id's length in bytes is at most this.
const MAX_BUILD_ID: usize = 64;
/// The note type of build ids.
const NT_GNU_BUILD_ID: u32 = 3;

/// The backend that a handle is of: its version and contents, its plugins and engines in their order. `None` if it cannot tell which
/// engines it has: then nothing can be said about another process.
pub fn backend(handle: &Handle) -> Option<String> {
    let library = handle.library();
    let mut lines = vec![format!("hipdnn {} {}", library.version(), module_at(library.address())?)];
    for plugin in handle.plugins()? {
        let name = plugin.file_name().unwrap_or_default().to_string_lossy().into_owned();
        lines.push(format!("plugin {name} {}", module_named(&plugin)?));
    }
    lines.extend(handle.engines()?.iter().map(|e| format!("engine {} {} {} {}", e.id, e.name, e.plugin, e.version)));
    Some(lines.join("\n"))
}

/// This build of the host.
pub fn own_build() -> Option<String> {
    Some(format!("{} {}", crate::VERSION, module_at(own_build as *const () as usize)?))
}

/// Bytes as text: digests and build ids.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The contents of the module that an address lies in.
pub fn module_at(address: usize) -> Option<String> {
    find(&|module| module.contains(address)).and_then(Module::identity)
}

/// The contents of the module that was loaded from a path, or of the file there.
fn module_named(path: &Path) -> Option<String> {
    find(&|module| module.path == path).and_then(Module::identity).or_else(|| file_identity(path))
}

/// A loaded module.
struct Module {
    path: PathBuf,
    ranges: Vec<(usize, usize)>,
    build_id: Option<Vec<u8>>,
}

impl Module {
    fn contains(&self, address: usize) -> bool {
        self.ranges.iter().any(|&(start, end)| (start..end).contains(&address))
    }

    /// Its build id, or what its file looks like where the linker gave none.
    fn identity(self) -> Option<String> {
        match self.build_id {
            Some(id) => Some(hexadecimal(&id)),
            None if self.path.as_os_str().is_empty() => file_identity(Path::new("/proc/self/exe")),
            None => file_identity(&self.path),
        }
    }
}

fn file_identity(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(format!("{} bytes of {}.{:09}", metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

struct Search<'a> {
    wanted: &'a dyn Fn(&Module) -> bool,
    found: Option<Module>,
}

fn find(wanted: &dyn Fn(&Module) -> bool) -> Option<Module> {
    let mut search = Search { wanted, found: None };
    // SAFETY: the callback matches the declared type and gets our own search back; the call returns before it is used.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> libc::c_int {
    // SAFETY: the loader passes a valid description, and `data` is the search of `find`.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Search<'_>>()) };
    // SAFETY: as above.
    let module = unsafe { describe(info) };
    if !(search.wanted)(&module) {
        return 0;
    }
    search.found = Some(module);
    1
}

/// # Safety
/// `info` describes a module that stays loaded meanwhile, as the loader's lock makes sure.
unsafe fn describe(info: &libc::dl_phdr_info) -> Module {
    let name = if info.dlpi_name.is_null() {
        &[][..]
    } else {
        // SAFETY: the loader's name, NUL-terminated.
        unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes()
    };
    // SAFETY: the loader's program headers are as many as it says.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let at = |header: &libc::Elf64_Phdr| (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
    let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let ranges: Vec<_> = loaded.map(|header| (at(header), at(header).saturating_add(header.p_memsz as usize))).collect();
    let is_loaded = |note: &&libc::Elf64_Phdr| {
        let end = at(note).saturating_add(note.p_memsz as usize);
        ranges.iter().any(|range| range.0 <= at(note) && end <= range.1)
    };
    let bytes = |note: &libc::Elf64_Phdr| {
        let start = std::ptr::with_exposed_provenance::<u8>(at(note));
        // SAFETY: lies within a loaded segment, as is checked before.
        unsafe { std::slice::from_raw_parts(start, note.p_memsz as usize) }
    };
    let notes = headers.iter().filter(|header| header.p_type == libc::PT_NOTE).filter(is_loaded);
    let build_id = notes.map(bytes).filter_map(find_build_id).next();
    Module { path: OsStr::from_bytes(name).into(), ranges, build_id }
}

/// The build id among notes: each is two lengths and a type (u32), a name and a description, both padded to four bytes.
fn find_build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    let word = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    loop {
        let (name, description, kind) = (word(notes, 0)? as usize, word(notes, 4)? as usize, word(notes, 8)?);
        let start = 12 + name.next_multiple_of(4);
        let body = notes.get(start..start.checked_add(description)?)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..12 + name) == Some(b"GNU\0") && description <= MAX_BUILD_ID {
            return Some(body.to_vec());
        }
        notes = notes.get(start + description.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_told_by_their_contents() {
        let libc = module_at(libc::getpid as *const () as usize).unwrap();
        let own = own_build().unwrap();
        assert!(!libc.is_empty() && own != libc);
        assert_eq!(module_at(libc::getppid as *const () as usize), Some(libc));
        assert_eq!(module_at(1), None);
        assert!(module_named(Path::new("/nonexistent")).is_none());
    }

    #[test]
    fn a_build_id_is_found_among_notes_and_bad_notes_end_the_search() {
        let note = |name: &[u8], kind: u32, body: &[u8]| {
            let mut bytes = [(name.len() as u32).to_ne_bytes(), (body.len() as u32).to_ne_bytes(), kind.to_ne_bytes()].concat();
            for part in [name, body] {
                bytes.extend(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        };
        let notes = [note(b"XYZ\0", 3, b"no"), note(b"GNU\0", 5, b"12345"), note(b"GNU\0", 3, b"abc")].concat();
        assert_eq!(find_build_id(&notes).as_deref(), Some(&b"abc"[..]));
        for length in 0..notes.len() - 4 {
            assert_eq!(find_build_id(&notes[..length]), None, "{length}");
        }
        assert_eq!(find_build_id(&[0xff; 40]), None);
    }
}
