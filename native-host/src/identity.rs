//! What an answer depends on besides the problem: which backend with which plugins, which device, which native MIOpen, which build of ours.
//!
//! Two processes whose identities are equal may share plans. Paths are not part of it, so that an image may lay things out as it likes;
//! contents are, by the build id that the linker gave each module.

use std::{os::unix::fs::MetadataExt as _, path::Path};

use crate::{
    backend::Handle,
    modules::{self, Loaded},
};

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
    contents_of(|module| module.segments().any(|segment| segment.contains(&address)))
}

/// The contents of the module that was loaded from a path, or of the file there.
fn module_named(path: &Path) -> Option<String> {
    contents_of(|module| module.file() == path).or_else(|| file_identity(path))
}

/// The build id of a module, or what its file looks like where the linker gave none.
fn contents_of(is_wanted: impl Fn(&Loaded<'_>) -> bool) -> Option<String> {
    let known = |module: &Loaded<'_>| (module.notes().find_map(find_build_id), module.file().to_path_buf());
    match modules::find_map(|module| is_wanted(module).then(|| known(module)))? {
        (Some(id), _) => Some(hexadecimal(&id)),
        (None, file) if file.as_os_str().is_empty() => file_identity(Path::new("/proc/self/exe")),
        (None, file) => file_identity(&file),
    }
}

fn file_identity(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(format!("{} bytes of {}.{:09}", metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
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
