//! Gates that the tests ask about the reference MIOpen and `cargo xtask real-miopen` about the real one: whether a library has every name and
//! version of another (`abi`), and whether every call of a program is seen, once and in order (`witness`, `order`). Light: it knows libraries
//! and programs as files, and nothing of the host.

pub mod abi;
pub mod order;
pub mod witness;

use std::{ffi::OsStr, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

/// Runs the C compiler.
fn compile(arguments: &[&OsStr], to: &Path) -> Result<()> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler).args(arguments).arg("-o").arg(to).output().context("a C compiler is needed")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
