//! In which places NVIDIA's libraries are looked for. Opens nothing.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// The variable that names cuDNN's file.
const VARIABLE: &str = "HIPDNN_ON_CUDNN_LIBRARY";
/// cuDNN's name for the loader.
pub(crate) const CUDNN: &str = "libcudnn.so.9";
/// The CUDA runtime's, newest first.
const CUDART: &[&str] = &["libcudart.so.13", "libcudart.so.12"];
/// What cuDNN asks the loader for by name, and Python's packages keep in other folders than cuDNN's.
const COMPANIONS: &[&str] =
    &["libnvrtc.so.13", "libcublasLt.so.13", "libcublas.so.13", "libnvrtc.so.12", "libcublasLt.so.12", "libcublas.so.12"];

/// Files that may be cuDNN, in order: the one that is named, and then no other; what the loader finds; what Python's packages have.
pub(crate) fn cudnn() -> Vec<PathBuf> {
    match env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
        Some(named) => vec![named.into()],
        None => [CUDNN.into()].into_iter().chain(in_packages(&[CUDNN])).collect(),
    }
}

/// Files that may be the CUDA runtime.
pub(crate) fn cudart() -> Vec<PathBuf> {
    CUDART.iter().map(PathBuf::from).chain(in_packages(CUDART)).collect()
}

/// Files that cuDNN needs to find loaded already.
pub(crate) fn companions(cudnn: &Path) -> Vec<PathBuf> {
    // …/nvidia/cudnn/lib/libcudnn.so.9 has …/nvidia/*/lib beside it.
    let beside = cudnn.ancestors().nth(3).map(|nvidia| files(nvidia, COMPANIONS)).unwrap_or_default();
    COMPANIONS.iter().map(PathBuf::from).chain(beside).collect()
}

/// Files of these names in the packages of the Pythons that `PATH` finds.
fn in_packages(names: &[&str]) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let pythons = env::split_paths(&path).filter(|folder| folder.join("python3").exists());
    let libraries = pythons.filter_map(|folder| Some(folder.parent()?.join("lib")));
    let versions = libraries.flat_map(|library| children(&library));
    let packages = versions.flat_map(|version| ["site-packages", "dist-packages"].map(|name| version.join(name).join("nvidia")));
    packages.flat_map(|nvidia| files(&nvidia, names)).collect()
}

/// Files of these names in `<nvidia>/*/lib`.
fn files(nvidia: &Path, names: &[&str]) -> Vec<PathBuf> {
    let all = children(nvidia).into_iter().flat_map(|package| names.iter().map(move |name| package.join("lib").join(name)));
    all.filter(|file| file.exists()).collect()
}

/// What is in a folder, in the order of names.
fn children(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}
