//! `cargo xtask components`: the translators of `tests/components`, built for WebAssembly and made components. Anybody's translator is built
//! like this: cargo for the code, wit-component for the rest.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::build::{self, GUEST_TARGET};

/// Builds all of them; answers the folder in which each is by its name.
pub fn build() -> Result<PathBuf> {
    build::require_guest_target()?;
    let (sources, built) = (build::root().join("tests/components"), build::root().join("target/components"));
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&sources).args(["build", "--release", "--locked", "--target", GUEST_TARGET, "--target-dir"]).arg(&built);
    // What is set for the host's build is not meant for these.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_TARGET_DIR"] {
        cargo.env_remove(name);
    }
    ensure!(cargo.status().context("starting cargo")?.success(), "building tests/components failed");
    let modules = built.join(GUEST_TARGET).join("release");
    for entry in fs::read_dir(&modules).with_context(|| modules.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            let component = component(&fs::read(&path)?).with_context(|| path.display().to_string())?;
            let name = path.file_name().context("a file has a name")?;
            fs::write(built.join(name), component)?;
        }
    }
    built.canonicalize().context("target/components")
}

fn component(module: &[u8]) -> Result<Vec<u8>> {
    wit_component::ComponentEncoder::default().validate(true).module(module)?.encode()
}
