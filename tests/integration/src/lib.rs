//! What the tests over built libraries share: where the libraries are, compiling and running C clients, reading ELF files.
//!
//! The libraries are those of `target/dist`, which `cargo xtask test` (or `cargo xtask dist`) lays out.

pub mod components;
pub mod elf;
pub mod pair;
pub mod stock;
pub mod ways;

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, Result, ensure};
use hipdnn_host::{environment::Settings, forward::Host};

/// The layout that `cargo xtask dist` makes.
pub fn dist() -> PathBuf {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/dist");
    assert!(dist.join("lib/libMIOpen.so.1").exists(), "target/dist is missing: run these tests with `cargo xtask test`");
    dist
}

/// The shim.
pub fn shim() -> PathBuf {
    dist().join("lib/libMIOpen.so.1")
}

/// A library of the reference set.
pub fn reference(name: &str) -> PathBuf {
    dist().join("lib/reference").join(name)
}

/// A path of a test as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}

/// Runs the tool.
pub fn tool(arguments: &[&str]) -> Output {
    Command::new(dist().join("bin/hipdnn-shim")).args(arguments).output().expect("target/dist has the tool")
}

/// Runs the tool, which must succeed; answers what it prints.
pub fn succeed(arguments: &[&str]) -> String {
    let output = tool(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A host that forwards, on a backend of the reference set, with no shim in between.
pub fn host(backend: &str) -> Host {
    host_with(backend, &[])
}

/// The same, with other variables set.
pub fn host_with(backend: &str, variables: &[(&str, &OsStr)]) -> Host {
    let lookup = |name: &str| -> Option<OsString> {
        if let Some((_, value)) = variables.iter().find(|(variable, _)| *variable == name) {
            return Some((*value).into());
        }
        match name {
            "MIOPEN_HIPDNN_FORWARDING" => Some("1".into()),
            "MIOPEN_HIPDNN_CACHE" => Some("off".into()),
            "MIOPEN_HIPDNN_BACKEND_LIBRARY" => Some(reference(backend).into()),
            "MIOPEN_HIPDNN_HIP_LIBRARY" => Some(reference("libamdhip64.so.7").into()),
            _ => None,
        }
    };
    Host::new(Settings::read(lookup, false), Box::new(|load| load()), Box::new(|| None))
}

/// A compiled C client in a folder of its own.
pub struct Client {
    folder: tempfile::TempDir,
}

impl Client {
    /// Compiles `tests/clients/<name>.c` against the generated headers and links it with `-lMIOpen`.
    pub fn compile(name: &str) -> Result<Self> {
        Self::compile_as(name, &["-rdynamic"])
    }

    /// The same as a shared library.
    pub fn compile_library(name: &str) -> Result<Self> {
        Self::compile_as(name, &["-shared", "-fPIC"])
    }

    /// Compiles it with flags of the test's own.
    pub fn compile_with(name: &str, flags: &[&str]) -> Result<Self> {
        Self::compile_as(name, &[&["-rdynamic", "-D_GNU_SOURCE"], flags].concat())
    }

    /// Compiles it so that nothing links it with MIOpen: it opens the library itself.
    pub fn compile_dynamic(name: &str) -> Result<Self> {
        Self::compile_with(name, &["-DDYNAMIC", "-Wl,--as-needed"])
    }

    fn compile_as(name: &str, flags: &[&str]) -> Result<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients").join(name).with_extension("c");
        Self::compile_source(&source, &dist(), flags)
    }

    /// Compiles a source against a prefix: its headers, and its library.
    pub fn compile_source(source: &Path, prefix: &Path, flags: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let output = Command::new(compiler)
            .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fexceptions", "-include", "miopen/miopen_hipdnn.h"])
            .args(flags)
            .arg("-I")
            .arg(prefix.join("include"))
            .arg(source)
            .arg("-L")
            .arg(prefix.join("lib"))
            .args(["-lMIOpen", "-ldl", "-lpthread", "-lm", "-o"])
            .arg(folder.path().join("client"))
            .output()
            .context("a C compiler is needed")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(Self { folder })
    }

    /// The compiled file.
    pub fn file(&self) -> PathBuf {
        self.folder().join("client")
    }

    /// The folder of the client, for files of a test.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A run with the shim in front of the reference MIOpen, and nothing else set.
    pub fn run(&self) -> Run {
        let mut command = Command::new(self.folder().join("client"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().contains("MIOPEN")) {
            command.env_remove(name);
        }
        command.env("LD_LIBRARY_PATH", dist().join("lib"));
        Run { command }
            .env("MIOPEN_HIPDNN_NATIVE_LIBRARY", reference("libMIOpen_private.so.1"))
            .env("MIOPEN_HIPDNN_BACKEND_LIBRARY", reference("libhipdnn_backend.so"))
            .env("MIOPEN_HIPDNN_HIP_LIBRARY", reference("libamdhip64.so.7"))
            // A test that is about it names a folder of its own.
            .env("MIOPEN_HIPDNN_CACHE", "off")
    }
}

/// A run of a client under construction.
pub struct Run {
    command: Command,
}

impl Run {
    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes one.
    pub fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Turns forwarding on.
    pub fn forwarding(self) -> Self {
        self.env("MIOPEN_HIPDNN_FORWARDING", "1")
    }

    /// Runs it to whatever end.
    pub fn finish(mut self, arguments: &[&str]) -> Result<Finished> {
        let output = self.command.args(arguments).output()?;
        Ok(Finished::from(output))
    }

    /// Runs it to a normal end.
    pub fn output(self, arguments: &[&str]) -> Result<Finished> {
        let finished = self.finish(arguments)?;
        ensure!(finished.code == Some(0), "the client ended with {:?}\n{}\n{}", finished.code, finished.stdout, finished.stderr);
        Ok(finished)
    }
}

/// What a run printed.
#[derive(Debug)]
pub struct Finished {
    /// Exit code, none for a signal.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), signal: output.status.signal(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

impl Finished {
    /// The line that starts with a word.
    pub fn line(&self, start: &str) -> &str {
        self.stdout.lines().find(|line| line.starts_with(start)).unwrap_or_default()
    }

    /// Lines of the shim on standard error.
    pub fn messages(&self) -> Vec<&str> {
        self.stderr.lines().filter(|line| line.starts_with("[MIOpen->hipDNN]")).collect()
    }
}

/// The first line of a JSON trace file, which says who traces.
pub fn banner(path: &Path) -> Result<serde_json::Value> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(text.lines().next().context("an empty trace")?).context("the first line of a trace")
}

/// The lines of the calls in a JSON trace file: those after the first, which says who traces.
pub fn trace_lines(path: &Path) -> Result<Vec<serde_json::Value>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let lines = text.lines().map(|line| serde_json::from_str(line).context("a trace line"));
    let mut lines = lines.collect::<Result<Vec<serde_json::Value>>>()?;
    ensure!(lines.first().is_some_and(|line| line["shim"].is_string()), "the trace does not begin with its writer: {text}");
    lines.retain(|line| line["shim"].is_null());
    Ok(lines)
}
