//! In which places a CUDA runtime is looked for. Opens nothing.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Names a library; then no other is tried.
pub const VARIABLE: &str = "HIP_ON_CUDA_RUNTIME";
/// What the runtime is called, newest first. What is called is the same in all of them.
pub const NAMES: &[&str] = &["libcudart.so.13", "libcudart.so.12", "libcudart.so"];
/// The folders of Python's packages that bring the runtime along.
const PACKAGES: &[&str] = &["nvidia/cu13/lib", "nvidia/cuda_runtime/lib"];

/// The places, in order: the library that is named; what the loader finds; what comes with the packages of a Python in the path.
pub fn candidates() -> Vec<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        return vec![named.into()];
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let pythons = env::split_paths(&path).filter(|folder| folder.join("python3").exists());
    let packaged = pythons.flat_map(|folder| of_python(&folder.join("..")));
    NAMES.iter().map(PathBuf::from).chain(packaged).collect()
}

/// The runtimes among the packages of a Python with that prefix.
fn of_python(prefix: &Path) -> Vec<PathBuf> {
    let versions = fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
    let versions = versions.filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
    let mut found = Vec::new();
    for version in versions {
        for (packages, folder) in ["site-packages", "dist-packages"].iter().flat_map(|p| PACKAGES.iter().map(move |f| (p, f))) {
            let folder = version.path().join(packages).join(folder);
            found.extend(NAMES.iter().map(|name| folder.join(name)).filter(|file| file.exists()));
        }
    }
    found
}
