//! Builds the translator component and embeds it twice: as WebAssembly, and precompiled for the baseline of the architecture.
//!
//! The guest is built by a nested cargo with a target folder of its own and a cleaned environment, so that flags meant for the host
//! (sanitizers, clippy, a wrapper) never reach it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use sha2::{Digest as _, Sha256};

#[path = "src/component/interface.rs"]
mod interface;
#[path = "src/component/settings.rs"]
mod settings;

const GUEST_TARGET: &str = "wasm32-unknown-unknown";

/// Bytes of linear memory for the guest's own stack. The linker's default is 1 MiB, all of which every new instance would have to clear;
/// the rules are shallow, and beyond it a guest traps.
const GUEST_STACK: u32 = 64 << 10;

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hipdnn-host: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<()> {
    for path in
        ["build.rs", "src/component/interface.rs", "src/component/settings.rs", "../wit", "../translator-component", "../Cargo.lock"]
    {
        println!("cargo:rerun-if-changed={path}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?);
    println!("cargo:rustc-env=WASMTIME_VERSION={}", locked_version("wasmtime")?);
    println!("cargo:rustc-env=COMPONENT_SETTINGS={}", settings_digest()?);
    require_guest_target()?;
    let module = fs::read(build_guest(&out)?).context("reading the guest module")?;
    let component = componentise(&module)?;
    let precompiled = precompile(&component)?;
    fs::write(out.join("translator.wasm"), &component)?;
    fs::write(out.join("translator.cwasm"), &precompiled)?;
    fs::write(out.join("translator.sha256"), Sha256::digest(&component))?;
    Ok(())
}

/// The version of a package that the lock file pins.
fn locked_version(package: &str) -> Result<String> {
    let lock = fs::read_to_string("../Cargo.lock")?;
    let entry = format!("name = \"{package}\"\nversion = \"");
    let version = lock.split_once(&entry).and_then(|(_, rest)| rest.split('"').next());
    version.map(String::from).with_context(|| format!("{package} is not in Cargo.lock"))
}

/// What stands for the engine's settings in the names of compiled components.
fn settings_digest() -> Result<String> {
    let digest = Sha256::digest(fs::read("src/component/settings.rs")?);
    Ok(digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

fn require_guest_target() -> Result<()> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "target-libdir", "--target", GUEST_TARGET]).output()?;
    let directory = String::from_utf8_lossy(&output.stdout);
    if !Path::new(directory.trim()).is_dir() {
        bail!("the translator needs the {GUEST_TARGET} target: run `cargo xtask` once, or `rustup target add {GUEST_TARGET}`");
    }
    Ok(())
}

/// Builds the translator for WebAssembly and answers the path of the core module.
fn build_guest(out: &Path) -> Result<PathBuf> {
    // OUT_DIR is <target>/<profile>/build/<package>/out: one guest folder for all profiles of the host.
    let target = out.ancestors().nth(4).context("OUT_DIR is too short")?.join("guest");
    let mut cargo = Command::new(env::var_os("CARGO").context("cargo sets CARGO")?);
    cargo
        .current_dir("../translator-component")
        .args(["build", "--release", "--locked", "--lib", "--target", GUEST_TARGET, "--target-dir"])
        .arg(&target)
        .args(["--config", "profile.release.debug=false", "--config", "profile.release.strip=true"])
        .args(["--config", "profile.release.panic=\"abort\"", "--config", "profile.release.codegen-units=1"])
        .args(["--config", "profile.release.lto=\"fat\""])
        .args(["--config", &format!("target.{GUEST_TARGET}.rustflags=[\"-Clink-arg=-zstack-size={GUEST_STACK}\"]")]);
    clean_environment(&mut cargo);
    let output = cargo.output().context("starting cargo for the guest")?;
    ensure!(output.status.success(), "building the translator component failed:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(target.join(GUEST_TARGET).join("release/translator.wasm"))
}

/// Removes what cargo and its wrappers set for the host's build.
fn clean_environment(cargo: &mut Command) {
    for (name, _) in env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let host_only = text.starts_with("RUSTC") || text.starts_with("CARGO_") || matches!(text, "RUSTFLAGS" | "CLIPPY_ARGS");
        if host_only && text != "CARGO_HOME" {
            cargo.env_remove(name);
        }
    }
}

fn componentise(module: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = wit_component::ComponentEncoder::default().validate(true).module(module).context("the guest module")?;
    let component = encoder.encode().context("making a component of the guest module")?;
    let imports = interface::interface_of(&component).map_err(|error| anyhow!("the component: {error}"))?.imports;
    ensure!(imports.is_empty(), "the translator imports {}; it must be pure", imports.join(", "));
    Ok(component)
}

fn precompile(component: &[u8]) -> Result<Vec<u8>> {
    let mut config = settings::config();
    let precompiled = config
        .target(settings::BASELINE_TARGET)
        .and_then(|config| wasmtime::Engine::new(config))
        .and_then(|engine| engine.precompile_component(component));
    precompiled.map_err(|error| anyhow!("precompiling the translator: {error:#}"))
}
