//! Measurements. Each compares two things in one run and prints medians, one JSON object for each figure.

mod cold;
mod gpu;
mod warm;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

/// The benchmarks.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Bench {
    /// What a call costs that is only passed through: the exported stub, a direct call, a plain C forwarding function.
    Hop,
    /// What translation costs: from nothing, warm, and beside the same rules natively; memory, threads, signals.
    Translate,
    /// What the first and the second process of a job cost, with forwarding off and on.
    Cold,
    /// What a warm call costs beside a program that calls hipDNN itself, on one thread and on two.
    Warm,
    /// What calls, plans and starts cost on a GPU, beside a program that calls cuDNN itself.
    Gpu,
}

/// Runs one.
pub fn run(which: Bench, dist: &Path) -> Result<()> {
    match which {
        Bench::Hop => hop(dist),
        Bench::Translate => translate(),
        Bench::Cold => cold::run(dist),
        Bench::Warm => warm::run(dist),
        Bench::Gpu => gpu::run(dist),
    }
}

/// Compiles the C benchmark against the headers and runs it with forwarding off.
fn hop(dist: &Path) -> Result<()> {
    let program = compile(dist, "hop")?;
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

/// Compiles a C program of `tests/clients` against the layout.
fn compile(dist: &Path, name: &str) -> Result<PathBuf> {
    let program = dist.join(format!("{name}-bench"));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(compiler)
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fexceptions", "-rdynamic", "-include", "miopen/miopen_hipdnn.h", "-I"])
        .arg(dist.join("include"))
        .arg(crate::build::root().join("tests/clients").join(name).with_extension("c"))
        .arg("-L")
        .arg(dist.join("lib"))
        .args(["-lMIOpen", "-ldl", "-lpthread", "-lm", "-o"])
        .arg(&program)
        .status()
        .context("a C compiler is needed")?;
    ensure!(status.success(), "compiling {name}.c failed");
    Ok(program)
}

/// The middle one.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The benchmark is a program of the workspace, which `dist` has built.
fn translate() -> Result<()> {
    let status = Command::new(crate::build::root().join("target/release/host-bench")).arg("translate").status()?;
    ensure!(status.success(), "the benchmark failed");
    Ok(())
}
