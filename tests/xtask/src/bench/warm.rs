//! Warm calls through the shim beside a program that calls hipDNN itself. The reference backend is told not to compute: what is measured is what it
//! costs to get there.

use std::{path::Path, process::Command};

use anyhow::{Result, ensure};

/// Runs the program of the workspace, which `dist` has built.
pub fn run(dist: &Path) -> Result<()> {
    let reference = dist.join("lib/reference");
    let status = Command::new(crate::build::root().join("target/release/host-bench"))
        .arg("calls")
        .env("FIELD_CASES_MIOPEN", dist.join("lib/libMIOpen.so.1"))
        .env("MIOPEN_HIPDNN_NATIVE_LIBRARY", reference.join("libMIOpen_private.so.1"))
        .env("MIOPEN_HIPDNN_BACKEND_LIBRARY", reference.join("libhipdnn_backend.so"))
        .env("MIOPEN_HIPDNN_HIP_LIBRARY", reference.join("libamdhip64.so.7"))
        .env("MIOPEN_HIPDNN_FORWARDING", "1")
        .env("MIOPEN_HIPDNN_CACHE", "off")
        .env("REFERENCE_HIPDNN_DISCARD", "1")
        .status()?;
    ensure!(status.success(), "the benchmark failed");
    Ok(())
}
