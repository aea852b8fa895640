//! In which places a native MIOpen is looked for, and why. Opens nothing.

use std::{
    env, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use miopen_api::{PRIVATE_SONAME, SONAME, SPLIT_SONAME};

use crate::{
    environment::Settings,
    hip, modules,
    search::{Candidate, Rule},
};

/// The operator names it.
pub const NAMED: Rule = Rule { id: "named", why: "MIOPEN_HIPDNN_NATIVE_LIBRARY names it" };
/// `hipdnn-shim install` put it there.
pub const INSTALLED_BESIDE: Rule = Rule { id: "installed.beside", why: "installed beside the shim" };
/// The same, elsewhere.
pub const INSTALLED_LOADER: Rule = Rule { id: "installed.loader", why: "installed, where the loader finds it" };
/// A split install.
pub const SPLIT_BESIDE: Rule = Rule { id: "split.beside", why: "the private library of a split install, beside the shim" };
/// The same, elsewhere.
pub const SPLIT_LOADER: Rule = Rule { id: "split.loader", why: "the private library of a split install, where the loader finds it" };
/// Halves of two releases do not work together.
pub const BESIDE_HIP: Rule = Rule { id: "stock.beside-hip", why: "beside the HIP runtime that is loaded already" };
/// A folder of the loader's.
pub const LIBRARY_PATH: Rule = Rule { id: "stock.library-path", why: "in a folder of LD_LIBRARY_PATH" };
/// A folder of ROCm's.
pub const ROCM_PATH: Rule = Rule { id: "stock.rocm-path", why: "in $ROCM_PATH/lib" };
/// ROCm's usual place.
pub const OPT_ROCM: Rule = Rule { id: "stock.opt-rocm", why: "in /opt/rocm/lib" };
/// The system's folders.
pub const SYSTEM: Rule = Rule { id: "stock.system", why: "in a folder of the system" };

/// Where libraries are without being asked for by name.
const SYSTEM_FOLDERS: [&str; 4] = ["/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];

/// Who asks, and what is around it.
pub struct Surroundings<'a> {
    /// What the operator asked for.
    pub settings: &'a Settings,
    /// The file of the shim.
    pub own_file: Option<&'a Path>,
    /// The folder of the HIP runtime that is in the process already.
    pub hip_folder: Option<&'a Path>,
}

/// The places, in order: the one that the operator names, and then no other; the one that the shim was installed before; that of a split
/// install; a stock one, searched by hand, since asking the loader for its SONAME would answer ourselves.
pub fn candidates(around: &Surroundings<'_>) -> Vec<Candidate> {
    if let Some(file) = &around.settings.native_library {
        return vec![Candidate { rule: &NAMED, file: file.clone() }];
    }
    let own_folder = around.own_file.and_then(Path::parent);
    let mut candidates = Vec::new();
    for (beside, loader, name) in [(&INSTALLED_BESIDE, &INSTALLED_LOADER, PRIVATE_SONAME), (&SPLIT_BESIDE, &SPLIT_LOADER, SPLIT_SONAME)] {
        candidates.extend(own_folder.map(|folder| Candidate { rule: beside, file: folder.join(name) }));
        candidates.push(Candidate { rule: loader, file: name.into() });
    }
    candidates.extend(stock_folders(around).into_iter().map(|(rule, folder)| Candidate { rule, file: folder.join(SONAME) }));
    candidates
}

/// Folders that may hold ROCm's libraries, a stock MIOpen among them, in order.
pub fn stock_folders(around: &Surroundings<'_>) -> Vec<(&'static Rule, PathBuf)> {
    let settings = around.settings;
    let mut folders: Vec<(&'static Rule, PathBuf)> = around.hip_folder.iter().map(|folder| (&BESIDE_HIP, folder.to_path_buf())).collect();
    let listed = settings.library_path.iter().flat_map(env::split_paths);
    folders.extend(listed.filter(|folder| folder.is_absolute()).map(|folder| (&LIBRARY_PATH, folder)));
    folders.extend(settings.rocm_path.iter().map(|rocm| (&ROCM_PATH, rocm.join("lib"))));
    folders.push((&OPT_ROCM, "/opt/rocm/lib".into()));
    folders.extend(SYSTEM_FOLDERS.map(|folder| (&SYSTEM, folder.into())));
    folders
}

/// The same for a library that the loader did not find by name, in a process as it is now.
pub fn library_folders(settings: &Settings) -> Vec<PathBuf> {
    let hip_folder = modules::folder_of(hip::search::STEM);
    let around = Surroundings { settings, own_file: None, hip_folder: hip_folder.as_deref() };
    stock_folders(&around).into_iter().map(|(_, folder)| folder).collect()
}

/// Whether two paths lead to one file: by path, link or hard link. (A copy is recognised by what it exports.)
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    identity(a).is_some_and(|a| identity(b) == Some(a))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn rules(variables: &[(&str, &str)], own: Option<&str>, hip: Option<&str>) -> Vec<(&'static str, String)> {
        let lookup = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value));
        let settings = Settings::read(lookup, false);
        let around = Surroundings { settings: &settings, own_file: own.map(Path::new), hip_folder: hip.map(Path::new) };
        candidates(&around).into_iter().map(|c| (c.rule.id, c.file.display().to_string())).collect()
    }

    #[test]
    fn one_that_is_named_is_the_only_one() {
        let found = rules(&[("MIOPEN_HIPDNN_NATIVE_LIBRARY", "/n"), ("LD_LIBRARY_PATH", "/a")], Some("/s/lib.so"), Some("/h"));
        assert_eq!(found, [("named", "/n".to_string())]);
    }

    #[test]
    fn the_order_is_installed_split_hip_path_rocm_system() {
        let found = rules(&[("LD_LIBRARY_PATH", "/a:rel:/b"), ("ROCM_PATH", "/r")], Some("/s/libMIOpen.so.1"), Some("/h"));
        let expected = [
            ("installed.beside", "/s/libMIOpen_native.so.1"),
            ("installed.loader", "libMIOpen_native.so.1"),
            ("split.beside", "/s/libMIOpen_private.so.1"),
            ("split.loader", "libMIOpen_private.so.1"),
            ("stock.beside-hip", "/h/libMIOpen.so.1"),
            ("stock.library-path", "/a/libMIOpen.so.1"),
            ("stock.library-path", "/b/libMIOpen.so.1"),
            ("stock.rocm-path", "/r/lib/libMIOpen.so.1"),
            ("stock.opt-rocm", "/opt/rocm/lib/libMIOpen.so.1"),
            ("stock.system", "/usr/local/lib/libMIOpen.so.1"),
        ];
        assert_eq!(found[..expected.len()], expected.map(|(rule, file)| (rule, file.to_string())));
        assert_eq!(found.len(), expected.len() + 3);
    }
}
