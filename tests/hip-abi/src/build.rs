//! For build scripts: writes the exported stubs and the version script from `exports.txt`, and names the library as programs built for
//! ROCm 7 ask for it.
//!
//! Rust's own exports cannot carry a version; a jump in assembly can. The version script stands beside rustc's own, which takes
//! rust-lld (the default linker on this target): GNU ld refuses a second one.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fmt::{self, Write as _},
    fs,
    path::PathBuf,
};

/// The table.
const EXPORTS: &str = include_str!("../exports.txt");
/// The version of a function behind whose name none stands.
const DEFAULT_VERSION: &str = "hip_4.2";

/// A line of the table.
struct Export<'t> {
    module: &'t str,
    name: &'t str,
    version: &'t str,
}

/// Writes `stubs.rs` and `exports.rs` for the library to include, and tells cargo how to link it.
pub fn library() -> Result<(), Box<dyn Error>> {
    let exports = parse(EXPORTS)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(out.join("stubs.rs"), stubs(&exports)?)?;
    fs::write(out.join("exports.rs"), listed(&exports)?)?;
    let script = out.join("exports.map");
    fs::write(&script, version_script(&exports)?)?;
    for argument in [
        format!("-Wl,--version-script={}", script.display()),
        "-Wl,-soname,libamdhip64.so.7".to_string(),
        // Threads sleep in the library's code until the process ends, and others call it while they end: it must stay.
        "-Wl,-z,nodelete".to_string(),
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    Ok(())
}

fn parse(table: &str) -> Result<Vec<Export<'_>>, Box<dyn Error>> {
    let (mut module, mut exports) = (None, Vec::new());
    for line in table.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        if let Some(section) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            module = Some(section);
            continue;
        }
        let mut words = line.split_whitespace();
        let name = words.next().ok_or("a line without a name")?;
        let version = words.next().unwrap_or(DEFAULT_VERSION);
        exports.push(Export { module: module.ok_or("a name before the first module")?, name, version });
    }
    Ok(exports)
}

/// One tail jump for each function: arguments, stack and result are the program's and the function's own.
fn stubs(exports: &[Export]) -> Result<String, fmt::Error> {
    let mut text = String::new();
    for Export { module, name, .. } in exports {
        let stub = format!(
            ".text\\n.globl {name}\\n.type {name}, @function\\n.p2align 4\\n{name}:\\n    jmp {{function}}\\n.size {name}, . - {name}"
        );
        writeln!(text, "core::arch::global_asm!(\"{stub}\", function = sym crate::{module}::{name}, options(att_syntax));")?;
    }
    Ok(text)
}

/// The table for the test that reads it back from the library.
fn listed(exports: &[Export]) -> Result<String, fmt::Error> {
    let mut text = String::from("/// Name and version of every export.\npub const EXPORTS: &[(&str, &str)] = &[\n");
    for Export { name, version, .. } in exports {
        writeln!(text, "    ({name:?}, {version:?}),")?;
    }
    text.push_str("];\n");
    Ok(text)
}

/// Every version inherits from the one before it, as in the real library. Versions sort as text.
fn version_script(exports: &[Export]) -> Result<String, fmt::Error> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Export { name, version, .. } in exports {
        versions.entry(version).or_default().push(name);
    }
    let (mut text, mut before) = (String::new(), "");
    for (version, names) in versions {
        let local = if before.is_empty() { "  local:\n    *;\n" } else { "" };
        writeln!(text, "{version} {{\n  global:\n    {};\n{local}}} {before};", names.join(";\n    "))?;
        before = version;
    }
    Ok(text)
}
