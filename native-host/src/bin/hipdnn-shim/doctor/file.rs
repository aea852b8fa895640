//! What a library file is, read from its headers and notes: no more of it than that is read, and nothing of it is run.

use std::{fs::File, path::Path};

use hipdnn_host::{identity, marker};
use object::{
    LittleEndian as LE, elf,
    elf::FileHeader64,
    read::{
        ReadCache,
        elf::{FileHeader as _, ProgramHeader as _},
    },
};
use serde::Serialize;

use crate::install::elf::Face;

/// What the notes of a file say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Notes {
    /// The version, if it is a hipdnn-shim: whatever the file is called.
    pub shim: Option<String>,
    /// The build id that its linker gave it.
    pub build_id: Option<String>,
}

impl Notes {
    /// Those of a file; `None` if it cannot be read, or is no ELF file of this machine's kind.
    pub fn read(path: &Path) -> Option<Self> {
        // Others (devices, pipes) may never end.
        let data = ReadCache::new(path.is_file().then(|| File::open(path).ok()).flatten()?);
        let header = FileHeader64::<LE>::parse(&data).ok()?;
        let mut notes = Self::default();
        for segment in header.program_headers(LE, &data).ok()? {
            let Ok(Some(mut found)) = segment.notes(LE, &data) else { continue };
            while let Ok(Some(note)) = found.next() {
                match (note.name(), note.n_type(LE)) {
                    (elf::ELF_NOTE_GNU, elf::NT_GNU_BUILD_ID) => notes.build_id = Some(identity::hexadecimal(note.desc())),
                    (name, marker::VERSION_NOTE) if name == marker::NAME.as_bytes() => {
                        notes.shim = Some(marker::version_in(note.desc()));
                    }
                    _ => {}
                }
            }
        }
        Some(notes)
    }
}

/// What a file is to those who look for a MIOpen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A hipdnn-shim.
    Shim,
    /// Upstream's own forwarding wrapper: plain names, before a private library.
    Wrapper,
    /// The private library of a split install.
    Private,
    /// A MIOpen with plain names.
    Native,
    /// None of these.
    Other,
}

impl Kind {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shim => "hipdnn-shim",
            Self::Wrapper => "upstream's forwarding wrapper",
            Self::Private => "the private MIOpen of a split install",
            Self::Native => "a native MIOpen",
            Self::Other => "no MIOpen",
        }
    }

    /// By notes and exports. Reads the whole file unless the notes say it.
    pub fn of(path: &Path) -> Self {
        if Notes::read(path).is_some_and(|notes| notes.shim.is_some()) {
            return Self::Shim;
        }
        let data = path.is_file().then(|| std::fs::read(path).ok()).flatten();
        data.and_then(|data| Face::of(&data).ok()).map_or(Self::Other, |face| Self::by_face(&face))
    }

    fn by_face(face: &Face) -> Self {
        let has = |name: &str| face.exports.iter().any(|(export, _)| export == name);
        match (has("miopenCreate"), has("miopenCreate_impl")) {
            // A shim from before there was the note.
            _ if has(miopen_api::FORWARDED_ERROR_FUNCTION) => Self::Shim,
            (_, true) => Self::Private,
            (true, false) if face.needed.iter().any(|needed| needed == miopen_api::SPLIT_SONAME) => Self::Wrapper,
            (true, false) => Self::Native,
            (false, false) => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn face(exports: &[&str], needed: &[&str]) -> Face {
        let exports = exports.iter().map(|name| (name.to_string(), None)).collect();
        Face { exports, needed: needed.iter().map(|name| name.to_string()).collect(), ..Face::default() }
    }

    #[test]
    fn libraries_are_told_apart_by_what_they_export() {
        assert_eq!(Kind::by_face(&face(&["miopenCreate"], &["libamdhip64.so.7"])), Kind::Native);
        assert_eq!(Kind::by_face(&face(&["miopenCreate"], &["libMIOpen_private.so.1"])), Kind::Wrapper);
        assert_eq!(Kind::by_face(&face(&["miopenCreate_impl"], &[])), Kind::Private);
        assert_eq!(Kind::by_face(&face(&["miopenCreate", "miopenGetLastForwardedError"], &[])), Kind::Shim);
        assert_eq!(Kind::by_face(&face(&["other"], &[])), Kind::Other);
    }

    #[test]
    fn what_is_no_library_has_no_notes() {
        assert_eq!(Notes::read(Path::new("/nonexistent")), None);
        assert_eq!(Notes::read(Path::new("/proc/version")), None);
        let own = Notes::read(&std::env::current_exe().unwrap()).unwrap();
        assert_eq!(own.shim, None, "the tool is not the shim");
    }
}
