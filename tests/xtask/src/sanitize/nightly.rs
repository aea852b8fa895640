//! What needs a nightly toolchain: the host's tests under ThreadSanitizer, with the standard library instrumented too, and the rules under
//! Miri. The reference libraries are the uninstrumented ones of `target/dist`.

use std::process::Command;

use anyhow::{Result, ensure};

use super::NoNightly;
use crate::{
    build::{self, GUEST_TARGET},
    nightly,
};

/// The machine that is instrumented for: naming it keeps the flags from build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// What the toolchain needs beside itself.
const COMPONENTS: &[&str] = &["rust-src", "miri"];

/// Runs both.
pub fn run() -> Result<()> {
    nightly::require(COMPONENTS, &[GUEST_TARGET]).map_err(|missing| NoNightly(missing.to_string()))?;
    threads()?;
    println!("ThreadSanitizer: the host's tests are clean");
    rules()?;
    println!("Miri: the rules' tests are clean");
    Ok(())
}

fn threads() -> Result<()> {
    let arguments = ["test", "--release", "--locked", "-Zbuild-std", "--target", TARGET, "-p", "integration-tests", "--test", "host"];
    let suppressions = build::root().join("tests/xtask/src/sanitize/threads.txt").canonicalize()?;
    let mut command = cargo(&arguments);
    command.env("RUSTFLAGS", "-Zsanitizer=thread").env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    succeed(&mut command, "ThreadSanitizer")
}

fn rules() -> Result<()> {
    succeed(&mut cargo(&["miri", "test", "--locked", "-p", "translator", "--lib"]), "Miri")
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = nightly::cargo(arguments);
    command.env("CARGO_TARGET_DIR", build::root().join("target/sanitize"));
    command
}

fn succeed(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{what} found something: {status}");
    Ok(())
}
