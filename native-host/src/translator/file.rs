//! Reading a translator's file: once, whole, and never waiting for anybody.

use std::{
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use crate::component::MAX_BYTES;

/// The bytes of a file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe in its place must not make a program wait.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{ffi::CString, fs};

    use super::*;

    #[test]
    fn only_files_of_some_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("good"), b"x").unwrap();
        fs::write(path("large"), vec![0; MAX_BYTES + 1]).unwrap();
        let pipe = CString::new(path("pipe").to_str().unwrap()).unwrap();
        // SAFETY: a path that ends in a null byte.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        assert_eq!(read(&path("good")).unwrap(), b"x");
        for name in ["large", "pipe", "missing", "."] {
            assert!(read(&path(name)).is_err(), "{name}");
        }
    }
}
