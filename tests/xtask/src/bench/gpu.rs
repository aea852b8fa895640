//! On a GPU: calls, device times, plans and starts beside a program that calls cuDNN itself. What is run, here and on a machine without Rust,
//! is `tests/gpu-bench/run.sh`.

use std::{path::Path, process::Command};

use anyhow::{Result, ensure};

use crate::build::root;

/// Runs the script; the figures are printed, and kept in the build's folder.
pub fn run(dist: &Path) -> Result<()> {
    let figures = root().join("target/gpu-bench.jsonl");
    let status = Command::new(root().join("tests/gpu-bench/run.sh")).arg(dist).arg(&figures).status()?;
    ensure!(status.success(), "the benchmark failed");
    Ok(())
}
