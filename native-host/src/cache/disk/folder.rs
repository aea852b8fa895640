//! Folders of the cache, and what may be believed of them: owned by us or by root, writable by nobody else, and really folders.
//!
//! What is below an open folder is only reached through it (cap-std), so that no name in it leads anywhere else.

use std::{
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, DirBuilder, DirBuilderExt as _, File, Metadata, MetadataExt as _, OpenOptions, OpenOptionsExt as _},
};
use thiserror::Error;

use crate::files;

/// Only the owner may enter.
const PRIVATE_FOLDER: u32 = 0o700;
/// Only the owner may read.
const PRIVATE_FILE: u32 = 0o600;
/// Bits with which others than the owner write.
const OTHERS_WRITE: u32 = 0o022;

/// Why a folder is not used.
#[derive(Debug, Error)]
pub enum FolderError {
    /// The system said so.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A link, where somebody else may decide where it leads.
    #[error("it is a symbolic link; name the folder itself")]
    Link,
    /// Of another user.
    #[error("it belongs to user {0}, and neither to this user nor to root")]
    Owner(u32),
    /// Others may write.
    #[error("others may write to it (mode {0:o}); chmod go-w it")]
    Mode(u32),
}

/// A folder that may be believed.
#[derive(Debug)]
pub struct Folder {
    directory: Dir,
}

impl Folder {
    /// Opens the folder at a path of the file system, after making it if `create`.
    pub fn open_root(path: &Path, create: bool) -> Result<Self, FolderError> {
        if create && !path.exists() {
            std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), PRIVATE_FOLDER).create(path)?;
        }
        // Without a slash at the end, behind which the system would look at where a link leads.
        let path = &path.components().collect::<PathBuf>();
        if std::fs::symlink_metadata(path)?.is_symlink() {
            return Err(FolderError::Link);
        }
        Self::believed(Dir::open_ambient_dir(path, ambient_authority())?)
    }

    /// Opens a folder in this one, after making it if `create`.
    pub fn open(&self, name: &str, create: bool) -> Result<Self, FolderError> {
        if create {
            let mut builder = DirBuilder::new();
            builder.mode(PRIVATE_FOLDER);
            match self.directory.create_dir_with(name, &builder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
                _ => {}
            }
        }
        if self.directory.symlink_metadata(name)?.is_symlink() {
            return Err(FolderError::Link);
        }
        Self::believed(self.directory.open_dir(name)?)
    }

    fn believed(directory: Dir) -> Result<Self, FolderError> {
        let metadata = directory.dir_metadata()?;
        let mode = metadata.mode() & 0o7777;
        if !is_trusted(metadata.uid()) {
            return Err(FolderError::Owner(metadata.uid()));
        }
        if mode & OTHERS_WRITE != 0 {
            return Err(FolderError::Mode(mode));
        }
        Ok(Self { directory })
    }

    /// Reads a whole file of at most so many bytes into memory of our own. Never waits (for the other end of a pipe), follows no link,
    /// and takes only regular files that nobody else can write.
    pub fn read(&self, name: &str, at_most: usize) -> io::Result<Vec<u8>> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = self.directory.open_with(name, &options)?;
        let metadata = file.metadata()?;
        let believed = metadata.is_file() && is_trusted(metadata.uid()) && metadata.mode() & OTHERS_WRITE == 0;
        if !believed || metadata.len() > at_most as u64 {
            return Err(io::Error::other("no file that can be an entry"));
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        // One more than it may have: a file that grows meanwhile is not read for ever.
        file.take(at_most as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes a new file, which nobody sees half of, and moves it to its place in another folder, over whatever is there.
    pub fn publish(&self, temporary: &str, bytes: &[u8], target: &Self, name: &str) -> io::Result<()> {
        files::may_have(bytes.len())?;
        let written = self.create(temporary).and_then(|mut file| file.write_all(bytes));
        let moved = written.and_then(|()| self.put(temporary, target, name));
        if moved.is_err() {
            let _ = self.directory.remove_file(temporary);
        }
        moved
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(PRIVATE_FILE);
        self.directory.open_with(name, &options)
    }

    fn put(&self, temporary: &str, target: &Self, name: &str) -> io::Result<()> {
        let Err(error) = self.directory.rename(temporary, &target.directory, name) else { return Ok(()) };
        // A folder in the place of an entry cannot be replaced, but moved aside, where it is cleaned away like any leftover.
        if !target.directory.symlink_metadata(name).is_ok_and(|there| there.is_dir()) {
            return Err(error);
        }
        target.directory.rename(name, &self.directory, format!("{temporary}.aside"))?;
        self.directory.rename(temporary, &target.directory, name)
    }

    /// Removes whatever has this name.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        if self.directory.symlink_metadata(name)?.is_dir() { self.directory.remove_dir_all(name) } else { self.directory.remove_file(name) }
    }

    /// Properties of a file.
    pub fn metadata(&self, name: &str) -> io::Result<Metadata> {
        self.directory.symlink_metadata(name)
    }

    /// Marks a file as just used.
    pub fn touch(&self, name: &str) {
        let Ok(file) = self.directory.open(name) else { return };
        // Nothing depends on it.
        let _ = file.into_std().set_modified(std::time::SystemTime::now());
    }

    /// Names and properties of what is in here, without the names that are no text.
    pub fn list(&self) -> io::Result<Vec<(String, Metadata)>> {
        let mut found = Vec::new();
        for entry in self.directory.entries()? {
            let entry = entry?;
            // Gone in between, or no name of ours.
            if let (Ok(metadata), Ok(name)) = (entry.metadata(), entry.file_name().into_string()) {
                found.push((name, metadata));
            }
        }
        Ok(found)
    }
}

fn is_trusted(user: u32) -> bool {
    // SAFETY: cannot fail, only asks.
    user == 0 || user == unsafe { libc::geteuid() }
}

/// Where the cache is when nobody says: `None` if the system says no folder for it.
pub fn default_path(cache_home: Option<&Path>, home: Option<&Path>) -> Option<PathBuf> {
    // The specification of these folders says that relative ones are to be ignored.
    let absolute = |path: Option<&Path>| path.filter(|path| path.is_absolute()).map(Path::to_path_buf);
    absolute(cache_home).or_else(|| absolute(home).map(|home| home.join(".cache"))).map(|folder| folder.join("hipdnn-shim"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_folders_that_nobody_else_writes_are_believed() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("a/b");
        assert!(matches!(Folder::open_root(&path, false), Err(FolderError::Io(_))));
        Folder::open_root(&path, true).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, PRIVATE_FOLDER);
        let link = temporary.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let with_slash = PathBuf::from(format!("{}/", link.display()));
        for link in [&link, &with_slash] {
            assert!(matches!(Folder::open_root(link, true), Err(FolderError::Link)), "{}", link.display());
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Folder::open_root(&path, true), Err(FolderError::Mode(0o777))));
        std::fs::write(temporary.path().join("file"), "").unwrap();
        assert!(matches!(Folder::open_root(&temporary.path().join("file"), true), Err(FolderError::Io(_))));
    }

    #[test]
    fn the_default_is_a_folder_of_the_users() {
        let path = |text: &'static str| Some(Path::new(text));
        assert_eq!(default_path(path("/x"), path("/home/u")), Some("/x/hipdnn-shim".into()));
        assert_eq!(default_path(path("relative"), path("/home/u")), Some("/home/u/.cache/hipdnn-shim".into()));
        assert_eq!(default_path(None, path("")), None);
    }
}
