//! What is remembered beyond one handle, so that it is found out once: translations, and which engine a graph's plan is made with.
//!
//! Three levels: [`memory`] (this process, one build per key, bounded), [`disk`] (all processes of a user, and a pack below it that an image
//! brings), and finding out. An answer is found by its [`EntryKey`], which holds everything that the answer depends on; if any of it is another, it
//! is another key. [`record`] is the form that answers take outside this process. Nothing here knows what an answer means, and nothing
//! that comes from a disk is believed: translations are validated like a translator's own reply, and code and plans, which cannot be, are
//! only read from folders that nobody else can write.

pub mod disk;
pub mod key;
pub mod memory;
pub mod record;

pub use disk::Disk;
pub use key::{EntryKey, Kind};
pub use memory::Memory;

/// Which level an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Another handle or call of this process had it.
    Memory,
    /// Another process had written it.
    Disk,
    /// It was found out.
    Built,
}

impl Level {
    /// All of them, nearest first.
    pub const ALL: &[Level] = &[Level::Memory, Level::Disk, Level::Built];

    /// The word for it in traces and statistics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Built => "built",
        }
    }
}
