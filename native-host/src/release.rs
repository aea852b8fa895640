//! Which release of ROCm a library belongs to: what the tree says that it lies in. Version numbers of libraries do not tell, since a tree
//! mixes them; and trees that say nothing (a distribution's, a wheel's) are of no release.

use std::{fs, path::Path};

/// Where a tree of ROCm's says it.
const VERSION_FILE: &str = ".info/version";

/// The release of the ROCm installation that a file or folder lies in.
pub fn of(path: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let version = real.ancestors().find_map(|folder| fs::read_to_string(folder.join(VERSION_FILE)).ok())?;
    Some(version.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_what_the_installation_says() {
        assert_eq!(of(Path::new("/proc/version")), None);
        assert_eq!(of(Path::new("/nonexistent/lib/libMIOpen.so.1")), None);
    }
}
