//! The shipped ONNX Runtime for ROCm, from its Python package, in a virtual environment. Nothing is installed on the system.
//!
//! The package moves, and is made for one version of Python: what is gone, or a network that is not there, is [`Unavailable`].

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};

use crate::programs::Unavailable;

/// The Python that the package is made for.
const PYTHON: &str = "python3.11";
/// The framework in the version whose libraries the stand-ins are made for, and what models are made with.
const PACKAGES: &[&str] = &["onnxruntime-rocm==1.22.2.post3", "onnx", "numpy"];

/// The interpreter of an environment that has the packages; one that is there already is taken as it is.
pub fn install(folder: &Path) -> Result<PathBuf> {
    let environment = folder.join("environment");
    let (python, complete) = (environment.join("bin/python"), environment.join("complete"));
    if fs::read_to_string(&complete).is_ok_and(|packages| packages == PACKAGES.join(" ")) {
        return Ok(python);
    }
    eprintln!("xtask: installing {}", PACKAGES.join(", "));
    asked_of(Command::new(PYTHON).args(["-m", "venv", "--clear"]).arg(&environment))?;
    let options = ["-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet", "--only-binary", ":all:"];
    asked_of(Command::new(&python).args(options).args(PACKAGES))?;
    fs::write(complete, PACKAGES.join(" "))?;
    Ok(python)
}

/// Runs a program that may lack what it takes.
fn asked_of(command: &mut Command) -> Result<()> {
    let unavailable = |why| Unavailable { what: "the shipped ONNX Runtime", why };
    let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| unavailable(format!("{name}: {error}")))?;
    let said = [output.stderr, output.stdout].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().rfind(|line| line.starts_with("ERROR:")).or(lines().next()).unwrap_or("no reason given");
    ensure!(output.status.success(), unavailable(format!("{name}: {error}")));
    Ok(())
}

/// What was installed, as pip lists it.
pub fn versions(python: &Path) -> Result<String> {
    let output = Command::new(python).args(["-m", "pip", "--disable-pip-version-check", "freeze"]).output()?;
    let named = |line: &&str| PACKAGES.iter().any(|package| package.split("==").next() == line.split("==").next());
    Ok(String::from_utf8(output.stdout)?.lines().filter(named).collect::<Vec<_>>().join(", "))
}
