//! `cargo xtask real-hip`: Debian's unmodified HIP runtime, on a machine that need not have a device. `hipdnn-shim doctor` must say so, and
//! nothing else; a program that forwards must compute by native, and be told in one line. On a machine with a device there is nothing to see.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::{
    build,
    packages::{LIBRARIES, Packages},
    programs::compile,
};

/// The runtime and what it loads, but for the C library: it works with the system's, as the shim does.
const PACKAGES: Packages = Packages {
    what: "the real HIP runtime",
    suites: &["bookworm"],
    preferences: "",
    roots: &["libamdhip64-5"],
    alone: &[],
    without: &["libc6"],
    files: &["usr/lib/x86_64-linux-gnu/libamdhip64.so.5"],
};
/// A device is reached through this.
const DRIVER: &str = "/dev/kfd";

/// Runs everything; fails if anything is not as it must be.
pub fn run() -> Result<()> {
    let folder = build::root().join("target/real-hip");
    fs::create_dir_all(&folder)?;
    let machine = Machine { root: PACKAGES.lay_out(&folder)?.canonicalize()?, dist: build::dist()?, folder };
    if Path::new(DRIVER).exists() {
        bail!("this machine has {DRIVER}: the runtime may find a device");
    }
    let packages = Packages::unpacked(&machine.folder)?;
    packages.iter().filter(|name| name.starts_with(PACKAGES.roots[0])).for_each(|name| println!("{name}"));
    print!("{}", String::from_utf8(machine.doctor(&[])?.stdout)?);
    machine.check_doctor()?;
    machine.check_client()
}

struct Machine {
    folder: PathBuf,
    root: PathBuf,
    dist: PathBuf,
}

impl Machine {
    fn hip(&self) -> PathBuf {
        self.root.join(LIBRARIES).join("libamdhip64.so.5")
    }

    /// A program that has the shim in front, the reference MIOpen and hipDNN, and the real HIP.
    fn command(&self, program: &Path) -> Result<Command> {
        let reference = self.dist.join("lib/reference");
        let path = std::env::join_paths([self.dist.join("lib"), self.root.join(LIBRARIES)])?;
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LD_LIBRARY_PATH", path);
        command.env("MIOPEN_HIPDNN_FORWARDING", "1").env("MIOPEN_HIPDNN_CACHE", "off");
        command.env("MIOPEN_HIPDNN_NATIVE_LIBRARY", reference.join("libMIOpen_private.so.1"));
        command.env("MIOPEN_HIPDNN_BACKEND_LIBRARY", reference.join("libhipdnn_backend.so"));
        command.env("MIOPEN_HIPDNN_HIP_LIBRARY", self.hip());
        Ok(command)
    }

    fn doctor(&self, arguments: &[&str]) -> Result<Output> {
        Ok(self.command(&self.dist.join("bin/hipdnn-shim"))?.arg("doctor").args(arguments).output()?)
    }

    /// That there is no device is the one thing that is wrong.
    fn check_doctor(&self) -> Result<()> {
        let output = self.doctor(&["--json"])?;
        let document: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
        let ids: Vec<&str> = document["findings"].as_array().context("findings")?.iter().filter_map(|f| f["id"].as_str()).collect();
        ensure!(ids == ["hip.no-device"] && output.status.code() == Some(1), "doctor finds {ids:?} and ends with {}", output.status);
        let chosen = &document["hip"]["chosen"];
        ensure!(chosen["path"] == self.hip().to_str().unwrap_or_default(), "doctor looked at {}", chosen["path"]);
        println!("\ndoctor: hip.no-device, and nothing else");
        Ok(())
    }

    /// With forwarding on, native computes, and one line says why.
    fn check_client(&self) -> Result<()> {
        let client = self.folder.join("convolution");
        let (include, lib) = (self.dist.join("include"), self.dist.join("lib"));
        let source = build::root().join("tests/clients/convolution.c");
        let flags = ["-std=gnu11", "-O1", "-fexceptions", "-rdynamic", "-include", "miopen/miopen_hipdnn.h", "-I"].map(OsStr::new);
        let files = [include.as_os_str(), source.as_os_str(), "-L".as_ref(), lib.as_os_str()];
        let libraries = ["-lMIOpen", "-ldl", "-lpthread", "-lm"].map(OsStr::new);
        compile(&[&flags[..], &files, &libraries].concat(), &client)?;
        for (forwarding, lines) in [("0", 0), ("1", 1)] {
            let output = self.command(&client)?.env("MIOPEN_HIPDNN_FORWARDING", forwarding).arg("repeat").output()?;
            let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            let said: Vec<&str> = err.lines().filter(|line| line.starts_with("[MIOpen->hipDNN]")).collect();
            let right = output.status.success() && out.lines().any(|line| line == "right 1");
            let told = said.iter().all(|line| line.contains("has no device"));
            ensure!(right && told && said.len() == lines, "forwarding {forwarding}: {}: {out}{err}", output.status);
            println!("client, forwarding {forwarding}: computed by native; {}", said.first().unwrap_or(&"nothing said"));
        }
        Ok(())
    }
}
