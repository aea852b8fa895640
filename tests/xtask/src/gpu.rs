//! The tests and benchmarks on a GPU: the folder that is copied to a machine with one, and the same run here. What is run there is `tests/gpu/run.sh`;
//! the machine needs no Rust.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::{build, programs::Unavailable};

/// The folders of the layout whose programs and libraries are needed there.
const FOLDERS: &[&str] = &["bin", "lib", "lib/reference", "lib/cuda"];
/// The least that must be among them.
const NEEDED: &[&str] = &["lib/cuda/libamdhip64.so.7", "lib/cuda/libhipdnn_backend.so"];
/// Files of the repository, and what they are called there.
const FILES: &[(&str, &str)] = &[
    ("tests/gpu/run.sh", "run.sh"),
    ("tests/gpu/lines.txt", "lines.txt"),
    ("tests/gpu-bench/run.sh", "bench.sh"),
    ("tests/corpus/driver.jsonl", "driver.jsonl"),
];
/// The most that is sent to such a machine at once.
const MOST_BYTES: u64 = 64 << 20;
/// Where a driver of NVIDIA's shows itself.
const DRIVER: &str = "/dev/nvidiactl";

/// Makes the folder, without debugging information; answers where it is.
pub fn pack(dist: &Path) -> Result<PathBuf> {
    let folder = build::root().join("target/gpu");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).context("target/gpu"),
        _ => {}
    }
    for relative in NEEDED {
        ensure!(dist.join(relative).is_file(), "the layout {} lacks {relative}", dist.display());
    }
    for relative in FOLDERS {
        strip(&dist.join(relative), &folder.join("dist").join(relative))?;
    }
    for (from, to) in FILES {
        fs::copy(build::root().join(from), folder.join(to)).with_context(|| from.to_string())?;
    }
    let bytes = size(&folder)?;
    ensure!(bytes <= MOST_BYTES, "{bytes} bytes are more than {MOST_BYTES}");
    folder.canonicalize().context("target/gpu")
}

/// Copies the programs and libraries of one folder, without debugging information. Links are other names, which nobody needs there.
fn strip(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            continue;
        }
        let stripped = Command::new("strip").arg("-o").arg(to.join(entry.file_name())).arg(entry.path()).status();
        ensure!(stripped.context("strip, of Debian's binutils")?.success(), "strip {}", entry.path().display());
    }
    Ok(())
}

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { size(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

/// Whether this machine may have a GPU. Looked at before anything is built: a build takes minutes.
pub fn require_device() -> Result<()> {
    if Path::new(DRIVER).exists() {
        return Ok(());
    }
    let why = format!("there is no {DRIVER} on this machine (`cargo xtask gpu-pack` makes a folder for one that has it)");
    Err(Unavailable { what: "a GPU to test on", why }.into())
}

/// Packs, and runs here.
pub fn test(dist: &Path) -> Result<()> {
    let folder = pack(dist)?;
    let status = Command::new(folder.join("run.sh")).status().context("run.sh")?;
    ensure!(status.success(), "{status}, see {}", folder.join("results").display());
    Ok(())
}
