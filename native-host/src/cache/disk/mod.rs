//! The cache of all processes: one file per entry, in folders that only this user (or root) writes.
//!
//! No lock is needed: an entry's name is the digest of its key, writers write a temporary file and rename it, and two writers of one name write
//! the same. Whatever cannot be read, is damaged, or belongs to another key is as good as absent, and is replaced by the next writer. Losing any
//! file loses time only, and so does failing to write one.

pub mod entry;
pub mod folder;
mod room;

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

pub use room::Usage;
use serde::{Deserialize, Serialize};

use self::folder::{Folder, FolderError};
use super::{EntryKey, Kind};
use crate::{
    environment::{CACHE_BELOW, CACHE_DIR},
    files,
    lock::Mutex,
};

/// The folder of temporary files, beside those of the entries.
const TEMPORARY: &str = "tmp";
/// A leftover that is older, or from the future, belongs to no living writer.
const LEFTOVER: Duration = Duration::from_secs(3600);
/// Entries are marked as used at most so often.
const TOUCH: Duration = Duration::from_secs(24 * 3600);
/// After so many written entries, room is looked after again.
const ROOM_EVERY: u64 = 256;
/// The same after this share of all room was written.
const ROOM_SHARE: u64 = 16;
/// After failures to write, at most so many writes are left out before the next attempt.
const MAX_SKIPPED: u64 = 1024;

macro_rules! counters {
    ($($name:ident $meaning:literal;)*) => {
        /// What the disk cache does in this process.
        #[derive(Debug, Default)]
        pub struct Counters {
            $(#[doc = $meaning] pub $name: AtomicU64,)*
        }

        /// What it did.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct DiskCounts {
            $(#[doc = $meaning] pub $name: u64,)*
        }

        impl Counters {
            /// As they are now.
            pub fn counts(&self) -> DiskCounts {
                DiskCounts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl DiskCounts {
            /// Every count: its name, what it counts, and how many.
            pub fn each(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), $meaning, self.$name),)*]
            }

            /// Adds those of another process.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    hits "entries that were found";
    misses "keys that had none";
    damaged "files that were there and no entry of their key";
    written "entries that were written";
    failed "attempts to write that failed";
    skipped "entries that were not written because earlier ones could not be";
}

/// A cache on disk: a folder that is written, unless it is only read, and perhaps one below it that is only read.
#[derive(Debug)]
pub struct Disk {
    layers: Vec<Layer>,
    writes: bool,
    max_bytes: u64,
    back_off: Mutex<BackOff>,
    /// Bytes written since room was looked after.
    unlooked: AtomicU64,
    /// What it did.
    pub counters: Counters,
}

#[derive(Debug, Default)]
struct BackOff {
    failures: u32,
    skip: u64,
}

/// The folders of one cache, as far as they are there.
#[derive(Debug)]
struct Layer {
    path: PathBuf,
    folders: Vec<(Kind, Folder)>,
    temporary: Option<Folder>,
}

impl Layer {
    fn open(path: &Path, create: bool) -> Result<Self, FolderError> {
        let root = Folder::open_root(path, create)?;
        let format = match root.open(&format!("v{}", entry::FORMAT), create) {
            // A folder that is only read may have nothing yet.
            Err(FolderError::Io(error)) if !create && error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { path: path.into(), folders: Vec::new(), temporary: None });
            }
            format => format?,
        };
        let mut folders = Vec::new();
        for kind in Kind::ALL {
            match format.open(kind.folder(), create) {
                Err(FolderError::Io(error)) if !create && error.kind() == io::ErrorKind::NotFound => {}
                folder => folders.push((*kind, folder?)),
            }
        }
        let temporary = if create { Some(format.open(TEMPORARY, true)?) } else { None };
        Ok(Self { path: path.into(), folders, temporary })
    }

    fn folder(&self, kind: Kind) -> Option<&Folder> {
        self.folders.iter().find(|(of, _)| *of == kind).map(|(_, folder)| folder)
    }
}

/// How a cache is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The folder that is written.
    pub path: PathBuf,
    /// Whether it is.
    pub writes: bool,
    /// A folder that is only read, when the first has nothing.
    pub below: Option<PathBuf>,
    /// What the entries may take on disk.
    pub max_bytes: u64,
}

impl Disk {
    /// Opens a cache. A folder that cannot be written is only read; one that cannot be used is left out; for each, one line that says why.
    pub fn open(options: &Options, mut say: impl FnMut(String)) -> Option<Self> {
        let mut writes = options.writes;
        let mut opened = Layer::open(&options.path, writes);
        if let (true, Err(FolderError::Io(error))) = (writes, &opened) {
            say(format!("the cache folder {} cannot be written: {error}; see {CACHE_DIR}", options.path.display()));
            writes = false;
            opened = Layer::open(&options.path, false);
        }
        let mut usable = |opened: Result<Layer, FolderError>, path: &Path, variable: &str| {
            let not_used = |error| say(format!("the cache folder {} is not used: {error}; see {variable}", path.display()));
            opened.map_err(not_used).ok()
        };
        let first = match opened {
            // Nobody has filled it yet, or why it is of no use was said.
            Err(FolderError::Io(_)) => None,
            opened => usable(opened, &options.path, CACHE_DIR),
        };
        writes &= first.is_some();
        let below = options.below.as_deref().and_then(|path| usable(Layer::open(path, false), path, CACHE_BELOW));
        let layers: Vec<Layer> = first.into_iter().chain(below).collect();
        let disk = Self {
            layers,
            writes,
            max_bytes: options.max_bytes,
            back_off: Mutex::default(),
            unlooked: AtomicU64::new(0),
            counters: Counters::default(),
        };
        (!disk.layers.is_empty()).then_some(disk)
    }

    /// The payload of a key, if an entry is there and whole.
    pub fn load(&self, key: &EntryKey) -> Option<Vec<u8>> {
        let name = key.file_name();
        for (position, layer) in self.layers.iter().enumerate() {
            let Some(folder) = layer.folder(key.kind()) else { continue };
            match read(folder, &name, key) {
                Ok(payload) => {
                    count(&self.counters.hits);
                    if self.writes && position == 0 {
                        self.mark_used(folder, &name);
                    }
                    return Some(payload);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    count(&self.counters.damaged);
                    tracing::debug!(path = %layer.path.display(), kind = key.kind().folder(), name, %error, "not an entry");
                }
            }
        }
        count(&self.counters.misses);
        None
    }

    fn mark_used(&self, folder: &Folder, name: &str) {
        let old = |metadata: cap_std::fs::Metadata| metadata.modified().is_ok_and(|at| age(at.into_std()) > TOUCH);
        if folder.metadata(name).is_ok_and(old) {
            folder.touch(name);
        }
    }

    /// Writes an entry. A failure is said by the caller if it is the first of the process; the next writes are then left out for a while.
    pub fn store(&self, key: &EntryKey, payload: &[u8]) -> Result<(), StoreError> {
        let Some((layer, temporary, folder)) = self.target(key.kind()) else { return Ok(()) };
        let Some(file) = entry::encode(key, payload) else { return Ok(()) };
        if !self.may_try() {
            count(&self.counters.skipped);
            return Ok(());
        }
        let written = temporary.publish(&files::temporary_name(), &file, folder, &key.file_name());
        self.note(written.is_ok());
        match written {
            Ok(()) => {
                let entries = self.counters.written.fetch_add(1, Ordering::Relaxed);
                let bytes = self.unlooked.fetch_add(file.len() as u64, Ordering::Relaxed) + file.len() as u64;
                if entries.is_multiple_of(ROOM_EVERY) || bytes > self.max_bytes / ROOM_SHARE {
                    self.unlooked.store(0, Ordering::Relaxed);
                    self.look_after_room(layer);
                }
                Ok(())
            }
            Err(error) => {
                count(&self.counters.failed);
                Err(StoreError { path: layer.path.clone(), error })
            }
        }
    }

    fn target(&self, kind: Kind) -> Option<(&Layer, &Folder, &Folder)> {
        let layer = self.layers.first().filter(|_| self.writes)?;
        Some((layer, layer.temporary.as_ref()?, layer.folder(kind)?))
    }

    fn may_try(&self) -> bool {
        let mut back_off = self.back_off.lock();
        let may = back_off.skip == 0;
        back_off.skip = back_off.skip.saturating_sub(1);
        may
    }

    fn note(&self, success: bool) {
        let mut back_off = self.back_off.lock();
        if success {
            *back_off = BackOff::default();
        } else {
            back_off.failures = (back_off.failures + 1).min(10);
            back_off.skip = (1 << back_off.failures).min(MAX_SKIPPED);
        }
    }

    /// The folders that are used, the written one first.
    pub fn paths(&self) -> Vec<&Path> {
        self.layers.iter().map(|layer| layer.path.as_path()).collect()
    }

    /// Whether anything is written.
    pub fn writes(&self) -> bool {
        self.writes
    }
}

/// An entry that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("the cache folder {} cannot be written: {error}", path.display())]
pub struct StoreError {
    path: PathBuf,
    error: io::Error,
}

fn read(folder: &Folder, name: &str, key: &EntryKey) -> io::Result<Vec<u8>> {
    let mut file = folder.read(name, entry::max_file(key.kind()))?;
    let length = entry::payload(&file, key).map_err(io::Error::other)?.len();
    file.drain(..file.len() - length);
    Ok(file)
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// How far a time is from now, in either direction: clocks go backwards, and files come from other machines.
fn age(time: SystemTime) -> Duration {
    let now = SystemTime::now();
    now.duration_since(time).or_else(|_| time.duration_since(now)).unwrap_or_default()
}
