//! `cargo xtask components`: the translators of `tests/components`, built for WebAssembly and made components. Anybody's translator is built
//! like this: cargo for the code, wit-component for the rest.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::build::{self, GUEST_TARGET};

/// Builds all of them; answers the folder in which each is by its name.
pub fn build() -> Result<PathBuf> {
    build::require_guest_target()?;
    let (sources, built) = (build::root().join("tests/components"), build::root().join("target/components"));
    let mut cargo = Command::new("cargo");
    // Not locked: a folder that somebody adds is one more package, and nothing else changes for it.
    cargo.current_dir(&sources).args(["build", "--release", "--target", GUEST_TARGET, "--target-dir"]).arg(&built);
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
            fs::write(built.join(name), &component)?;
            if name == "hostile.wasm" {
                hostile(&component, &built.join("hostile"))?;
            }
        }
    }
    built.canonicalize().context("target/components")
}

/// One component for each thing that the hostile one can do: its bytes list them, and have a place for the number of one.
fn hostile(component: &[u8], folder: &Path) -> Result<()> {
    const LIST: &[u8] = b"hostile behaviours:\n";
    const NUMBER: &[u8] = b"hostile behaviour number: ";
    let behind = |mark: &[u8]| component.windows(mark.len()).position(|window| window == mark).map(|at| at + mark.len());
    let (list, number) = (behind(LIST).context("no list of behaviours")?, behind(NUMBER).context("no place for a number")?);
    // What an earlier build could do is nobody's expectation any more.
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder)?;
    for line in component[list..].split(|byte| *byte == b'\n').take_while(|line| *line != b"end of behaviours") {
        let line = std::str::from_utf8(line)?;
        let (digits, name) = line.split_once(' ').with_context(|| line.to_string())?;
        let mut wasm = component.to_vec();
        wasm[number..number + 6].copy_from_slice(format!("{:06}", digits.parse::<u32>()?).as_bytes());
        fs::write(folder.join(name).with_extension("wasm"), wasm)?;
    }
    Ok(())
}

fn component(module: &[u8]) -> Result<Vec<u8>> {
    wit_component::ComponentEncoder::default().validate(true).module(module)?.encode()
}
