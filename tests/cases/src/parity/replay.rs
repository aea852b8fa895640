//! Starting the runs: this program again, in an environment of exactly what the run is to have, against the libraries of a layout.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};

use super::Settings;

/// What forwarding is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every call is native's.
    Off,
    /// Forwarding.
    On,
    /// Forwarding, and declines are shown to the caller.
    Strict,
}

impl Mode {
    /// All three, in the order in which they are run.
    pub const ALL: [Self; 3] = [Self::Off, Self::On, Self::Strict];

    /// As it stands in the names of reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Strict => "strict",
        }
    }

    fn switches(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Off => &[("MIOPEN_HIPDNN_FORWARDING", "0")],
            Self::On => &[("MIOPEN_HIPDNN_FORWARDING", "1")],
            Self::Strict => &[("MIOPEN_HIPDNN_FORWARDING", "1"), ("MIOPEN_HIPDNN_STRICT", "1")],
        }
    }
}

/// The profile of runs on a GPU: hipDNN's ABI on cuDNN, HIP on CUDA, and the reference MIOpen on the GPU's memory.
pub const CUDNN: &str = "cudnn";

/// Where each library lies in a layout: on the CPU, and on a GPU.
const LIBRARIES: &[(&str, &str, &str)] = &[
    ("MIOPEN_HIPDNN_NATIVE_LIBRARY", "lib/reference/libMIOpen_private.so.1", "lib/reference/libMIOpen_private.so.1"),
    ("MIOPEN_HIPDNN_BACKEND_LIBRARY", "lib/reference/libhipdnn_backend.so", "lib/cuda/libhipdnn_backend.so"),
    ("MIOPEN_HIPDNN_HIP_LIBRARY", "lib/reference/libamdhip64.so.7", "lib/cuda/libamdhip64.so.7"),
    ("FIELD_CASES_MIOPEN", "lib/libMIOpen.so.1", "lib/libMIOpen.so.1"),
];

/// Removes a report of an earlier run, if there is one.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).with_context(|| path.display().to_string()),
        _ => Ok(()),
    }
}

/// The one file of a name in a layout: there, and a file, not a link to one of another build.
fn library(dist: &Path, relative: &str) -> Result<std::path::PathBuf> {
    let path = dist.join(relative);
    let metadata = fs::symlink_metadata(&path).with_context(|| format!("the library {} is missing", path.display()))?;
    ensure!(metadata.is_file(), "{} is no regular file", path.display());
    Ok(path.canonicalize()?)
}

/// Gives a process the libraries of a layout and what a run is to have, and nothing else that they would read.
pub fn surround(command: &mut Command, dist: &Path, profile: &str, mode: Mode) -> Result<()> {
    for (variable, _) in std::env::vars_os().filter(|(variable, _)| is_ours(&variable.to_string_lossy())) {
        command.env_remove(variable);
    }
    let on_gpu = profile == CUDNN;
    for (variable, on_cpu, on_a_gpu) in LIBRARIES {
        command.env(variable, library(dist, if on_gpu { on_a_gpu } else { on_cpu })?);
    }
    // The GPU's own libraries may lie where only the caller's loader looks.
    let callers = if on_gpu { std::env::var_os("LD_LIBRARY_PATH") } else { None }.unwrap_or_default();
    let callers = std::env::split_paths(&callers).filter(|folder| !folder.as_os_str().is_empty());
    let folders: Vec<_> = std::iter::once(dist.join("lib").canonicalize()?).chain(callers).collect();
    command.env("LD_LIBRARY_PATH", std::env::join_paths(folders)?);
    command.env("REFERENCE_HIPDNN_PROFILE", profile).envs(mode.switches().iter().copied());
    Ok(())
}

/// Runs the cases once, into a report. A run that does not end by itself is an error; failed cases are found in the report.
pub fn replay(binary: &Path, settings: &Settings, profile: &str, mode: Mode, report: &Path) -> Result<()> {
    let name = format!("{profile}.{}", mode.name());
    fs::create_dir_all(&settings.reports)?;
    let trace = settings.reports.join(format!("{name}.trace.jsonl"));
    remove(&trace)?;
    let mut command = Command::new(binary);
    command.arg("run");
    for only in &settings.only {
        command.args(["--only", only]);
    }
    surround(&mut command, &settings.dist, profile, mode)?;
    command.env("MIOPEN_HIPDNN_TRACE", &trace);
    let errors = settings.reports.join(format!("{name}.stderr.txt"));
    let status = command.stdout(File::create(report)?).stderr(Stdio::from(File::create(&errors)?)).status()?;
    match status.code() {
        Some(0 | 1) => Ok(()),
        _ => bail!("the run {name} ended with {status}, see {}", errors.display()),
    }
}

/// Whether a variable says anything to the libraries under test.
fn is_ours(variable: &str) -> bool {
    variable.contains("MIOPEN") || variable.starts_with("REFERENCE_")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    #[test]
    fn old_reports_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        assert!(remove(&path).is_ok());
        fs::write(&path, "old").unwrap();
        remove(&path).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn libraries_are_files_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        assert!(library(folder.path(), "lib.so").unwrap_err().to_string().contains("missing"));
        fs::write(folder.path().join("lib.so.1"), "").unwrap();
        std::os::unix::fs::symlink("lib.so.1", folder.path().join("lib.so")).unwrap();
        assert!(library(folder.path(), "lib.so").unwrap_err().to_string().contains("no regular file"));
        assert!(library(folder.path(), "lib.so.1").is_ok());
    }

    #[test]
    fn a_run_that_crashes_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let dist = folder.path().join("dist");
        for (_, relative, _) in LIBRARIES {
            let path = dist.join(relative);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let settings = Settings { dist, reports: folder.path().join("reports"), profiles: Vec::new(), only: Vec::new() };
        let run = |binary: &str| replay(Path::new(binary), &settings, "abi", Mode::On, &folder.path().join("reports/report"));
        // These ignore their arguments, and end with 1 and 0; a shell that is asked for a script that is not there ends with 127 or 2.
        assert!(run("true").is_ok());
        assert!(run("false").is_ok());
        assert!(run("sh").unwrap_err().to_string().contains("ended with"));
    }

    #[test]
    fn nothing_of_the_caller_is_left() {
        assert!(is_ours("MIOPEN_HIPDNN_FORWARDING") && is_ours("FIELD_CASES_MIOPEN") && is_ours("REFERENCE_HIPDNN_FAULT"));
        assert!(!is_ours("PATH"));
    }
}
