//! Building and laying out. Everything is built with one cargo call over the whole workspace, so that features are the same each time
//! and wasmtime is built once.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::licenses;

/// What translators are built for.
pub const GUEST_TARGET: &str = "wasm32-unknown-unknown";

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Adds the WebAssembly target when it is missing.
pub fn require_guest_target() -> Result<()> {
    let output = Command::new("rustc").args(["--print", "target-libdir", "--target", GUEST_TARGET]).current_dir(root()).output()?;
    if Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir() {
        return Ok(());
    }
    let status = Command::new("rustup").args(["target", "add", GUEST_TARGET]).current_dir(root()).status();
    ensure!(status.is_ok_and(|s| s.success()), "the target {GUEST_TARGET} is missing and rustup could not add it");
    Ok(())
}

/// Runs cargo in the repository.
pub fn cargo(arguments: &[&str]) -> Result<()> {
    let status = Command::new("cargo").args(arguments).current_dir(root()).status().context("starting cargo")?;
    ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    Ok(())
}

/// File of the build, place in the layout.
const FILES: &[(&str, &str)] = &[
    ("libMIOpen.so", "lib/libMIOpen.so.1"),
    ("hipdnn-shim", "bin/hipdnn-shim"),
    ("field-cases", "bin/field-cases"),
    ("libMIOpen_private.so", "lib/reference/libMIOpen_private.so.1"),
    ("libhipdnn_backend.so", "lib/reference/libhipdnn_backend.so"),
    ("libamdhip64.so", "lib/reference/libamdhip64.so.7"),
];

/// Builds the workspace and lays it out; answers where.
pub fn dist() -> Result<PathBuf> {
    cargo(&["build", "--release", "--workspace", "--locked"])?;
    let (built, dist) = (root().join("target/release"), root().join("target/dist"));
    for (from, to) in FILES {
        install(&built.join(from), &dist.join(to))?;
    }
    link(Path::new("libMIOpen.so.1"), &dist.join("lib/libMIOpen.so"))?;
    let api = miopen_api::table();
    write(&dist.join("include/miopen/miopen.h"), &miopen_api::c_header(api))?;
    write(&dist.join("include/miopen/miopen_hipdnn.h"), &miopen_api::shim_header())?;
    private_package(&dist)?;
    install(&translator(&built)?, &dist.join("share/hipdnn-shim/translator.wasm"))?;
    let terms = dist.join("share/licenses/hipdnn-shim");
    write(&terms.join("LICENSE"), &fs::read_to_string(root().join("LICENSE"))?)?;
    write(&terms.join("THIRD-PARTY.txt"), &licenses::document()?)?;
    dist.canonicalize().context("target/dist")
}

/// What makes a build call the private library, which is here the reference one.
fn private_package(dist: &Path) -> Result<()> {
    let (folder, name) = ("lib/reference", miopen_api::PRIVATE_PACKAGE);
    link(Path::new(miopen_api::SPLIT_SONAME), &dist.join(folder).join("libMIOpen_private.so"))?;
    let header = dist.join("include").join(name).join(miopen_api::RENAME_HEADER);
    write(&header, &miopen_api::rename_header(miopen_api::table()))?;
    let package = dist.join("lib/pkgconfig").join(name).with_extension("pc");
    write(&package, &miopen_api::private_pkg_config(miopen_api::API_VERSION, folder))?;
    let package = dist.join("lib/cmake").join(name).join(format!("{name}-config.cmake"));
    write(&package, &miopen_api::private_cmake(folder))
}

/// The component that the host's build script made last.
fn translator(built: &Path) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(built.join("build"))? {
        let path = entry?.path().join("out/translator.wasm");
        if let Ok(modified) = fs::metadata(&path).and_then(|m| m.modified()) {
            found.push((modified, path));
        }
    }
    match found.into_iter().max() {
        Some((_, path)) => Ok(path),
        None => bail!("the build made no translator component"),
    }
}

/// Copies under another name and renames, so that a running process keeps its old file.
fn install(from: &Path, to: &Path) -> Result<()> {
    let temporary = beside(to)?;
    fs::copy(from, &temporary).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    fs::rename(&temporary, to)?;
    Ok(())
}

fn write(to: &Path, text: &str) -> Result<()> {
    let temporary = beside(to)?;
    fs::write(&temporary, text)?;
    fs::rename(&temporary, to)?;
    Ok(())
}

fn link(target: &Path, to: &Path) -> Result<()> {
    let temporary = beside(to)?;
    std::os::unix::fs::symlink(target, &temporary)?;
    fs::rename(&temporary, to)?;
    Ok(())
}

fn beside(path: &Path) -> Result<PathBuf> {
    fs::create_dir_all(path.parent().context("a file in a folder")?)?;
    let temporary = path.with_extension(format!("tmp{}", std::process::id()));
    let _ = fs::remove_file(&temporary);
    Ok(temporary)
}
