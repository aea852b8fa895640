//! The cases from the field: how their program is started. What they are is in `tests/cases`.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

/// What names the libraries of a device.
const LIBRARIES: [&str; 3] = ["MIOPEN_HIPDNN_NATIVE_LIBRARY", "MIOPEN_HIPDNN_BACKEND_LIBRARY", "MIOPEN_HIPDNN_HIP_LIBRARY"];

fn program(dist: &Path) -> Command {
    Command::new(dist.join("bin/field-cases"))
}

/// Runs with forwarding off, on, and strict, compared, on the reference libraries.
pub fn parity(dist: &Path) -> Result<()> {
    let status = program(dist).args(["parity", "--dist"]).arg(dist).status().context("starting field-cases")?;
    ensure!(status.success(), "the runs differ");
    Ok(())
}

/// Whether the caller names the libraries of a device. Some of them are a mistake.
pub fn names_a_device() -> Result<bool> {
    let missing: Vec<_> = LIBRARIES.into_iter().filter(|name| env::var_os(name).is_none_or(|value| value.is_empty())).collect();
    ensure!(
        missing.is_empty() || missing.len() == LIBRARIES.len(),
        "to test on a device, name all its libraries: {} not set",
        missing.join(" and ")
    );
    Ok(missing.is_empty())
}

/// All cases, with numbers, on the caller's libraries.
pub fn on_a_device(dist: &Path) -> Result<()> {
    let mut command = program(dist);
    command.args(["run", "--gpu"]).env("LD_LIBRARY_PATH", library_path(dist)?);
    if env::var_os("MIOPEN_HIPDNN_FORWARDING").is_none() {
        command.env("MIOPEN_HIPDNN_FORWARDING", "1");
    }
    let status = command.status().context("starting field-cases")?;
    ensure!(status.success(), "cases failed");
    Ok(())
}

/// The layout's libraries before those that the caller finds.
fn library_path(dist: &Path) -> Result<OsString> {
    let callers = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = env::split_paths(&callers).filter(|folder| !folder.as_os_str().is_empty());
    let all: Vec<PathBuf> = std::iter::once(dist.join("lib")).chain(folders).collect();
    env::join_paths(all).context("LD_LIBRARY_PATH")
}
