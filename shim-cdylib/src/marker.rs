//! The note in the file by which it is recognised as the shim: see `hipdnn_host::marker`.

use hipdnn_host::marker::Note;

/// The linker makes an ELF note of what is in a section whose name begins so.
#[used]
#[unsafe(link_section = ".note.hipdnn-shim")]
static NOTE: Note = Note::new();
