//! Files that are written whole or not at all: under a name that nobody else has, then renamed. Whoever opens one sees all of the old or all of
//! the new.

use std::{
    fs::{self, File, Permissions},
    hash::{BuildHasher as _, Hasher as _},
    io::{self, Write as _},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

/// A name that no other writer has, and that nobody can have foreseen: folders are shared by users, and by machines that number their processes
/// alike.
pub fn temporary_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let random = std::hash::RandomState::new().build_hasher().finish();
    format!("{}-{}-{random:016x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Whether the process may write a file of so many bytes: beyond that the system does not answer, but ends it by a signal.
pub fn may_have(bytes: usize) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes the structure that it is given.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    if known && bytes as u64 > limit.rlim_cur { Err(io::Error::from(io::ErrorKind::FileTooLarge)) } else { Ok(()) }
}

/// Writes a file, in place of a regular one only: a rename would replace a device, a pipe or a link.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::other("it is there and not a regular file"));
    }
    publish(path, bytes, None)
}

/// Writes a file with these permissions, or the usual ones, in place of whatever has its name.
pub fn publish(path: &Path, bytes: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    may_have(bytes.len())?;
    let mut temporary = path.as_os_str().to_os_string();
    temporary.push(format!(".tmp{}", temporary_name()));
    let mut file = File::create_new(&temporary)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions)))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The failure that matters is the one that is answered.
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_takes_the_place_of_a_file_and_of_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link, other) = (folder.path().join("file"), folder.path().join("link"), folder.path().join("folder"));
        replace(&path, b"old").unwrap();
        replace(&path, b"new").unwrap();
        symlink(&path, &link).unwrap();
        fs::create_dir(&other).unwrap();
        assert!(replace(&link, b"x").is_err() && replace(&other, b"x").is_err() && publish(&other, b"x", None).is_err());
        publish(&link, b"own", Some(Permissions::from_mode(0o751))).unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read(&link).unwrap()), (b"new".to_vec(), b"own".to_vec()));
        assert_eq!(link.symlink_metadata().unwrap().permissions().mode() & 0o777, 0o751);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "a temporary file was left");
    }
}
