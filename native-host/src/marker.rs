//! How a file is recognised as the shim, whatever it is called: a note in it, as the ELF format has them, of our name, with the version.
//! No symbol of ours is needed for it, and nothing of the file has to be run.

use crate::VERSION;

/// The name of the note.
pub const NAME: &str = "hipdnn-shim";
/// The only type of note that there is under this name: the version.
pub const VERSION_NOTE: u32 = 1;

const NAME_ROOM: usize = 12;
const VERSION_ROOM: usize = 32;

/// The note, as it lies in the file.
#[repr(C)]
pub struct Note {
    name_bytes: u32,
    version_bytes: u32,
    kind: u32,
    name: [u8; NAME_ROOM],
    version: [u8; VERSION_ROOM],
}

impl Note {
    /// That of this build.
    pub const fn new() -> Self {
        // The format wants both padded to four bytes; the name is counted with its NUL and without the padding.
        Self {
            name_bytes: NAME.len() as u32 + 1,
            version_bytes: VERSION_ROOM as u32,
            kind: VERSION_NOTE,
            name: padded(NAME.as_bytes()),
            version: padded(VERSION.as_bytes()),
        }
    }
}

impl Default for Note {
    fn default() -> Self {
        Self::new()
    }
}

/// The version in a note of our name and type.
pub fn version_in(content: &[u8]) -> String {
    let text = content.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

const fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    assert!(text.len() < N, "the room is too small");
    let mut room = [0; N];
    let mut index = 0;
    while index < text.len() {
        room[index] = text[index];
        index += 1;
    }
    room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_says_what_this_build_is() {
        let note = Note::new();
        assert_eq!((note.name_bytes, version_in(&note.name), version_in(&note.version)), (12, NAME.into(), VERSION.into()));
        assert_eq!(std::mem::size_of::<Note>(), 12 + NAME_ROOM + VERSION_ROOM);
        assert_eq!(version_in(b""), "");
    }
}
