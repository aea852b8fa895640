//! Measurements. Each compares two things in one run and prints medians, one JSON object for each figure.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

/// The benchmarks.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Bench {
    /// What a call costs that is only passed through: the exported stub, a direct call, a plain C forwarding function.
    Hop,
    /// What translation costs: from nothing, warm, and beside the same rules natively; memory, threads, signals.
    Translate,
}

/// Runs one.
pub fn run(which: Bench, dist: &Path) -> Result<()> {
    match which {
        Bench::Hop => hop(dist),
        Bench::Translate => translate(),
    }
}

/// Compiles the C benchmark against the headers and runs it with forwarding off.
fn hop(dist: &Path) -> Result<()> {
    let program = dist.join("hop-bench");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(compiler)
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(dist.join("include"))
        .arg(crate::build::root().join("tests/clients/hop.c"))
        .arg("-L")
        .arg(dist.join("lib"))
        .args(["-lMIOpen", "-ldl", "-o"])
        .arg(&program)
        .status()
        .context("a C compiler is needed")?;
    ensure!(status.success(), "compiling hop.c failed");
    let native = dist.join("lib/reference/libMIOpen_private.so.1");
    let status = Command::new(&program)
        .arg(&native)
        .env("LD_LIBRARY_PATH", dist.join("lib"))
        .env("MIOPEN_HIPDNN_NATIVE_LIBRARY", &native)
        .env_remove("MIOPEN_HIPDNN_FORWARDING")
        .status()?;
    ensure!(status.success(), "the benchmark failed");
    Ok(())
}

/// The benchmark is a program of the workspace, which `dist` has built.
fn translate() -> Result<()> {
    let status = Command::new(crate::build::root().join("target/release/translate-bench")).status()?;
    ensure!(status.success(), "the benchmark failed");
    Ok(())
}
