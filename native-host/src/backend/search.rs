//! In which places hipDNN is looked for, and why. Opens nothing.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::search::{Candidate, Rule};

/// The operator names it.
pub const NAMED: Rule = Rule { id: "named", why: "MIOPEN_HIPDNN_BACKEND_LIBRARY names it" };
/// The loader's.
pub const LOADER: Rule = Rule { id: "loader", why: "the loader finds it by name" };

/// Without its link the loader does not find it.
pub const VERSIONED: Rule = Rule { id: "versioned", why: "a file with a version in its name, whose link is missing" };

/// The name under which it is shipped. It has no version in it.
pub const NAME: &str = "libhipdnn_backend.so";

/// The one that is named, else what the loader finds.
pub fn candidates(named: Option<&Path>) -> Vec<Candidate> {
    let (rule, file) = named.map_or((&LOADER, Path::new(NAME)), |file| (&NAMED, file));
    vec![Candidate { rule, file: file.into() }]
}

/// Files with versions in their names, in folders where ROCm's libraries may be: in the order of the folders, newest first.
pub fn versioned(folders: &[PathBuf]) -> Vec<Candidate> {
    let of = |folder: &PathBuf| {
        let mut files: Vec<(Vec<u64>, PathBuf)> = fs::read_dir(folder).into_iter().flatten().flatten().filter_map(version_of).collect();
        files.sort_by(|a, b| b.cmp(a));
        files.into_iter().map(|(_, file)| Candidate { rule: &VERSIONED, file })
    };
    folders.iter().flat_map(of).collect()
}

/// The numbers behind the name, if there are any.
fn version_of(entry: fs::DirEntry) -> Option<(Vec<u64>, PathBuf)> {
    let name = entry.file_name().into_string().ok()?;
    let numbers = name.strip_prefix(NAME)?.strip_prefix('.')?.split('.').map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
    Some((numbers, entry.path()))
}
