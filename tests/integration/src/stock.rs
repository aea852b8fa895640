//! A native MIOpen as ROCm installs it, in a folder of its own: `libMIOpen.so.1` with plain names at MIOpen's version node, made of jumps
//! into the reference MIOpen. It also exports what no header declares, as the real one does with its C++ functions.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::{dist, reference};

/// The function that only the native exports; it answers [`ANSWER`].
pub const UNDECLARED: &str = "_ZN6miopen10undeclaredEv";
/// What it answers.
pub const ANSWER: i32 = 42;

/// An installation.
pub struct Stock {
    folder: tempfile::TempDir,
}

/// What is different in a native of another release.
#[derive(Default)]
pub struct Another<'a> {
    /// Functions that it lacks.
    pub without: &'a [&'a str],
    /// Functions that nobody else has. They answer [`ANSWER`].
    pub with: &'a [&'a str],
    /// The version that it reports.
    pub version: Option<[u32; 3]>,
}

impl Stock {
    /// Makes one.
    pub fn build() -> Result<Self> {
        Self::other(&Another::default())
    }

    /// Makes one of another release.
    pub fn other(another: &Another) -> Result<Self> {
        let stock = Self { folder: tempfile::tempdir()? };
        let (lib, sources) = (stock.lib(), stock.folder.path().join("sources"));
        [&lib, &sources].into_iter().try_for_each(fs::create_dir)?;
        // Beside it, as rocBLAS is beside the real one: found by its relative search path only.
        symlink(reference(""), stock.folder.path().join("reference"))?;
        fs::create_dir(stock.folder.path().join("include"))?;
        symlink(dist().join("include/miopen"), stock.folder.path().join("include/miopen"))?;
        fs::create_dir_all(stock.folder.path().join("share/miopen/db"))?;
        let (code, map) = (sources.join("jumps.S"), sources.join("exports.map"));
        fs::write(&code, jumps(another)?)?;
        fs::write(&map, format!("{} {{ global: *; }};\n", miopen_api::VERSION_NODE))?;
        let output = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
            .args(["-shared", "-nostartfiles", "-Wl,-soname,libMIOpen.so.1", "-Wl,-rpath,$ORIGIN/../reference", "-Wl,--enable-new-dtags"])
            .arg(format!("-Wl,--version-script={}", map.display()))
            .arg(&code)
            .arg(reference("libMIOpen_private.so.1"))
            .arg("-o")
            .arg(lib.join("libMIOpen.so.1.0"))
            .output()
            .context("a C compiler is needed")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        symlink("libMIOpen.so.1.0", lib.join("libMIOpen.so.1"))?;
        symlink("libMIOpen.so.1", lib.join("libMIOpen.so"))?;
        Ok(stock)
    }

    /// Its root: `lib`, `include`, `share`.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Where its library is.
    pub fn lib(&self) -> PathBuf {
        self.folder.path().join("lib")
    }

    /// Its library.
    pub fn library(&self) -> PathBuf {
        self.lib().join("libMIOpen.so.1")
    }
}

fn jumps(another: &Another) -> Result<String> {
    let mut text = String::from("    .text\n");
    let mut function = |name: &str, body: &str| writeln!(text, "    .globl {name}\n    .type {name}, @function\n{name}:\n    {body}");
    for export in miopen_api::table().exports().filter(|export| !another.without.contains(&export.name.as_str())) {
        match another.version.filter(|_| export.name == "miopenGetVersion") {
            Some([major, minor, patch]) => function(
                &export.name,
                &format!("movq ${major}, (%rdi)\n    movq ${minor}, (%rsi)\n    movq ${patch}, (%rdx)\n    xorl %eax, %eax\n    ret"),
            )?,
            None => function(&export.name, &format!("jmp {}_impl@PLT", export.name))?,
        }
    }
    for name in another.with.iter().chain(&[UNDECLARED]) {
        function(name, &format!("movl ${ANSWER}, %eax\n    ret"))?;
    }
    text.push_str("    .section .note.GNU-stack, \"\", @progbits\n");
    Ok(text)
}
