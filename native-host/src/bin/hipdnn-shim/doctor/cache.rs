//! The disk cache: where it is by the settings, and whether that place can be used. Makes and writes nothing.

use std::{
    ffi::CString,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use hipdnn_host::{
    cache::disk::{
        Options,
        folder::{Folder, FolderError},
    },
    environment::Settings,
};

use super::{
    findings::{Finding, Kind},
    report::Cache,
};

/// Which one a process with these settings uses.
pub fn cache(settings: &Settings) -> Cache {
    match &settings.cache {
        None => Cache { mode: "off", ..Cache::default() },
        Some(Err(error)) => Cache { mode: "off", error: Some(error.clone()), ..Cache::default() },
        Some(Ok(options)) => Cache {
            mode: if options.writes { "rw" } else { "ro" },
            path: Some(options.path.clone()),
            below: options.below.clone(),
            max_bytes: Some(options.max_bytes),
            there: options.path.is_dir(),
            error: flaw(options),
        },
    }
}

/// What is wrong with it.
pub fn judge(cache: &Cache, forwarding: bool) -> Option<Finding> {
    let error = cache.error.as_ref()?;
    let what = cache.path.as_ref().map_or_else(|| error.clone(), |path| format!("the cache folder {}: {error}", path.display()));
    Some(Kind::CacheUnusable.found(forwarding, what))
}

/// Why its folder is not used, or not written.
fn flaw(options: &Options) -> Option<String> {
    match Folder::open_root(&options.path, false) {
        Ok(_) => (options.writes && !may_write(&options.path)).then(|| "it cannot be written".into()),
        Err(FolderError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            let above = options.path.ancestors().find(|folder| folder.exists()).map(PathBuf::from);
            let above = above.filter(|above| options.writes && !(above.is_dir() && may_write(above)))?;
            Some(format!("it is not there, and cannot be made in {}", above.display()))
        }
        Err(error) => Some(error.to_string()),
    }
}

fn may_write(folder: &Path) -> bool {
    let Ok(name) = CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: the name is NUL-terminated; the call only answers.
    unsafe { libc::access(name.as_ptr(), libc::W_OK | libc::X_OK) == 0 }
}
