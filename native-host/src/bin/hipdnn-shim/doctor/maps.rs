//! Which files a process has mapped, from `/proc/PID/maps`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A mapped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Its name, as the process sees it.
    pub path: PathBuf,
    /// Whether it is gone, or something else has its name now.
    pub deleted: bool,
    /// Addresses of one of its mappings, as the kernel writes them.
    pub range: String,
}

/// The files that a process has mapped, each once, in the order of their addresses.
pub fn of(process: &Path) -> io::Result<Vec<Mapped>> {
    Ok(parse(&String::from_utf8_lossy(&fs::read(process.join("maps"))?)))
}

fn parse(text: &str) -> Vec<Mapped> {
    let mut files: Vec<Mapped> = Vec::new();
    for line in text.lines() {
        // Address range, permissions, offset, device, inode; then spaces and the name, which may have spaces in it.
        let mut rest = line;
        let mut word = || {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = after;
            word
        };
        let (range, _, _, _, _) = (word(), word(), word(), word(), word());
        let name = rest.trim_start();
        let (name, deleted) = name.strip_suffix(" (deleted)").map_or((name, false), |name| (name, true));
        if name.starts_with('/') && !files.iter().any(|file| file.path == Path::new(name) && file.deleted == deleted) {
            files.push(Mapped { path: name.into(), deleted, range: range.into() });
        }
    }
    files
}

impl Mapped {
    /// Where its contents can be read: through the process's own root, since it may be in a container; if the name leads to another file
    /// by now, through the mapping itself, which only a privileged user may do.
    pub fn readable(&self, process: &Path) -> PathBuf {
        if self.deleted {
            return process.join("map_files").join(&self.range);
        }
        let relative = self.path.strip_prefix("/").unwrap_or(&self.path);
        let inside = process.join("root").join(relative);
        if inside.exists() { inside } else { self.path.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_there_once() {
        let text = "\
7f0000000000-7f0000001000 r--p 00000000 08:01 42                         /opt/a b/libx.so
7f0000001000-7f0000002000 r-xp 00001000 08:01 42                         /opt/a b/libx.so
7f0000003000-7f0000004000 rw-p 00000000 00:00 0
7f0000004000-7f0000005000 r--p 00000000 08:01 43                         /opt/liby.so (deleted)
7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0                          [stack]
";
        let files = parse(text);
        let told: Vec<_> = files.iter().map(|file| (file.path.to_str().unwrap(), file.deleted, file.range.as_str())).collect();
        assert_eq!(told, [("/opt/a b/libx.so", false, "7f0000000000-7f0000001000"), ("/opt/liby.so", true, "7f0000004000-7f0000005000")]);
        assert!(files[1].readable(Path::new("/proc/1")).ends_with("map_files/7f0000004000-7f0000005000"));
    }

    #[test]
    fn this_process_has_its_own_program_mapped() {
        let own = std::env::current_exe().unwrap();
        assert!(of(Path::new("/proc/self")).unwrap().iter().any(|file| file.path == own));
        assert!(of(Path::new("/proc/nobody")).is_err());
    }
}
