//! Room: how much the entries take, which go when it is too much, and leftovers of writers that were killed.

use std::{
    cmp::Reverse,
    io,
    time::{Duration, SystemTime},
};

use super::{
    Disk, Folder, LEFTOVER, Layer, age,
    entry::{self, Damage},
};
use crate::cache::{EntryKey, Kind};

/// What entries of a kind take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Files.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// An entry's file.
struct File<'a> {
    folder: &'a Folder,
    name: String,
    bytes: u64,
    unused: Duration,
}

fn files(layer: &Layer) -> io::Result<Vec<File<'_>>> {
    let mut files = Vec::new();
    for (_, folder) in &layer.folders {
        for (name, metadata) in folder.list()? {
            let unused = metadata.modified().map_or(Duration::ZERO, |at| age(at.into_std()));
            files.push(File { folder, name, bytes: metadata.len(), unused });
        }
    }
    Ok(files)
}

impl Disk {
    /// What the entries of the first folder take, by kind.
    pub fn usage(&self) -> io::Result<Vec<(Kind, Usage)>> {
        let Some(layer) = self.layers.first() else { return Ok(Vec::new()) };
        let of = |(kind, folder): &(Kind, Folder)| {
            let files = folder.list()?;
            Ok((*kind, Usage { entries: files.len() as u64, bytes: files.iter().map(|(_, metadata)| metadata.len()).sum() }))
        };
        layer.folders.iter().map(of).collect()
    }

    /// Looks at every file of the first folder: its kind, its name, and its entry, or why it is none.
    pub fn each(&self, mut visit: impl FnMut(Kind, &str, io::Result<(EntryKey, Vec<u8>)>)) -> io::Result<()> {
        let Some(layer) = self.layers.first() else { return Ok(()) };
        for (kind, folder) in &layer.folders {
            for (name, _) in folder.list()? {
                visit(*kind, &name, whole(folder, *kind, &name));
            }
        }
        Ok(())
    }

    /// Removes every entry of the first folder, whatever it is, and leftovers of writers of any age. Answers what went.
    pub fn clear(&self) -> io::Result<Usage> {
        let Some(layer) = self.layers.first().filter(|_| self.writes) else { return Ok(Usage::default()) };
        if let Some(temporary) = &layer.temporary {
            remove_leftovers(temporary, Duration::ZERO)?;
        }
        prune_entries(layer, None)
    }

    /// Removes a file of the first folder.
    pub fn remove(&self, kind: Kind, name: &str) -> io::Result<()> {
        let folder = self.layers.first().filter(|_| self.writes).and_then(|layer| layer.folder(kind));
        folder.map_or(Ok(()), |folder| folder.remove(name))
    }

    /// Removes what was not used for longest until the rest takes at most so many bytes, and leftovers of writers. Answers what went.
    pub fn prune(&self, max_bytes: u64) -> io::Result<Usage> {
        match self.layers.first().filter(|_| self.writes) {
            Some(layer) => prune(layer, max_bytes),
            None => Ok(Usage::default()),
        }
    }

    /// Nobody waits for it to succeed: what it cannot do is left for the next process.
    pub(super) fn look_after_room(&self, layer: &Layer) {
        if let Err(error) = prune(layer, self.max_bytes) {
            tracing::debug!(path = %layer.path.display(), %error, "no room was made");
        }
    }
}

/// The entry of a file, if it is whole and has its own name.
fn whole(folder: &Folder, kind: Kind, name: &str) -> io::Result<(EntryKey, Vec<u8>)> {
    let file = folder.read(name, entry::max_file(kind))?;
    let (key, payload) = entry::decode(&file, kind).map_err(io::Error::other)?;
    if key.file_name() == name { Ok((key, payload.to_vec())) } else { Err(io::Error::other(Damage::Key)) }
}

fn prune(layer: &Layer, max_bytes: u64) -> io::Result<Usage> {
    if let Some(temporary) = &layer.temporary {
        remove_leftovers(temporary, LEFTOVER)?;
    }
    prune_entries(layer, Some(max_bytes))
}

/// Down to so many bytes, or to nothing. What cannot be removed keeps nothing else; the first error is answered.
fn prune_entries(layer: &Layer, max_bytes: Option<u64>) -> io::Result<Usage> {
    let (mut gone, mut failed) = (Usage::default(), None);
    let mut files = files(layer)?;
    let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
    files.sort_by_key(|file| Reverse(file.unused));
    for file in files {
        if max_bytes.is_some_and(|max_bytes| bytes <= max_bytes) {
            break;
        }
        bytes -= file.bytes;
        match file.folder.remove(&file.name) {
            Ok(()) => {
                gone.entries += 1;
                gone.bytes += file.bytes;
            }
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(gone), Err)
}

fn remove_leftovers(temporary: &Folder, older: Duration) -> io::Result<()> {
    for (name, metadata) in temporary.list()? {
        let at = metadata.modified().map_or(SystemTime::UNIX_EPOCH, cap_std::time::SystemTime::into_std);
        if age(at) >= older {
            let _ = temporary.remove(&name);
        }
    }
    Ok(())
}
