//! The nightly toolchain, for what the pinned one cannot: whether it is there with what is needed, and running its cargo.

use std::process::Command;

use thiserror::Error;

use crate::build;

/// What this machine lacks.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Missing(String);

/// Finds a nightly toolchain with components and targets.
pub fn require(components: &[&str], targets: &[&str]) -> Result<(), Missing> {
    let asked = |arguments: &[&str]| {
        let output = Command::new("rustup").args(arguments).output().ok().filter(|output| output.status.success());
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(installed) = asked(&["component", "list", "--toolchain", "nightly", "--installed"]) else {
        return Err(Missing("there is no nightly toolchain (rustup toolchain install nightly)".into()));
    };
    for component in components {
        if !installed.lines().any(|line| line.starts_with(component)) {
            return Err(Missing(format!("the nightly toolchain lacks {component} (rustup component add {component} --toolchain nightly)")));
        }
    }
    let installed = asked(&["target", "list", "--toolchain", "nightly", "--installed"]).unwrap_or_default();
    for target in targets {
        if !installed.lines().any(|line| line == *target) {
            return Err(Missing(format!("the nightly toolchain lacks {target} (rustup target add {target} --toolchain nightly)")));
        }
    }
    Ok(())
}

/// Its cargo, in the repository.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    // Whatever cargo set for this program is of the pinned toolchain.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().into_owned();
        if text.starts_with("CARGO") && text != "CARGO_HOME" || text.starts_with("RUST") && text != "RUSTUP_HOME" {
            command.env_remove(name);
        }
    }
    command.arg("+nightly").args(arguments).current_dir(build::root());
    command
}
