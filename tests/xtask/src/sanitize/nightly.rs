//! What needs a nightly toolchain: the host's tests under ThreadSanitizer, with the standard library instrumented too, and the rules under
//! Miri. The reference libraries are the uninstrumented ones of `target/dist`.

use std::process::Command;

use anyhow::{Result, bail, ensure};

use super::NoNightly;
use crate::build;

/// The machine that is instrumented for: naming it keeps the flags from build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// What the toolchain needs beside itself.
const COMPONENTS: &[&str] = &["rust-src", "miri"];
const GUEST_TARGET: &str = "wasm32-unknown-unknown";

/// Runs both.
pub fn run() -> Result<()> {
    require_toolchain()?;
    threads()?;
    println!("ThreadSanitizer: the host's tests are clean");
    rules()?;
    println!("Miri: the rules' tests are clean");
    Ok(())
}

fn require_toolchain() -> Result<()> {
    let asked = |arguments: &[&str]| {
        let output = Command::new("rustup").args(arguments).output().ok().filter(|output| output.status.success());
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(installed) = asked(&["component", "list", "--toolchain", "nightly", "--installed"]) else {
        bail!(NoNightly("there is no nightly toolchain (rustup toolchain install nightly)".into()));
    };
    for component in COMPONENTS {
        let there = installed.lines().any(|line| line.starts_with(component));
        ensure!(
            there,
            NoNightly(format!("the nightly toolchain lacks {component} (rustup component add {component} --toolchain nightly)"))
        );
    }
    let targets = asked(&["target", "list", "--toolchain", "nightly", "--installed"]).unwrap_or_default();
    let there = targets.lines().any(|line| line == GUEST_TARGET);
    ensure!(there, NoNightly(format!("the nightly toolchain lacks {GUEST_TARGET} (rustup target add {GUEST_TARGET} --toolchain nightly)")));
    Ok(())
}

fn threads() -> Result<()> {
    let arguments =
        ["test", "--release", "--locked", "-Zbuild-std", "--target", TARGET, "-p", "integration-tests", "--test", "host", "--", "thread"];
    let suppressions = build::root().join("tests/xtask/src/sanitize/threads.txt").canonicalize()?;
    let mut command = cargo(&arguments);
    command.env("RUSTFLAGS", "-Zsanitizer=thread").env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    succeed(&mut command, "ThreadSanitizer")
}

fn rules() -> Result<()> {
    succeed(&mut cargo(&["miri", "test", "--locked", "-p", "translator", "--lib"]), "Miri")
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    // Whatever cargo set for this program is of the pinned toolchain.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().into_owned();
        if text.starts_with("CARGO") && text != "CARGO_HOME" || text.starts_with("RUST") && text != "RUSTUP_HOME" {
            command.env_remove(name);
        }
    }
    command.arg("+nightly").args(arguments).current_dir(build::root()).env("CARGO_TARGET_DIR", build::root().join("target/sanitize"));
    command
}

fn succeed(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{what} found something: {status}");
    Ok(())
}
