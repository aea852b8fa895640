//! What stands around the real MIOpen: stand-ins for what needs a GPU, the shim installed before it, and programs started with all that.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use library_gates::witness;

use super::packages::{DRIVER, LIBRARIES};
use crate::build;

/// Which MIOpen a program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// The real one.
    Native,
    /// The shim, not forwarding.
    Off,
    /// The shim, forwarding.
    On,
}

/// Who writes down what happens in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// The shim, its calls, into a file of their own.
    Routes,
    /// The witness and native, all calls, on standard error.
    Calls,
    /// The shim too, there.
    CallsTraced,
}

/// The laid out machine.
pub struct Machine {
    folder: PathBuf,
    root: PathBuf,
    dist: PathBuf,
    witness: PathBuf,
}

/// What a program printed, and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    /// Exit code, or the signal or time that ended it.
    pub end: String,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Lines of the shim's trace, by route: hipDNN's, and native's.
    pub routes: [usize; 2],
}

impl Machine {
    /// Stand-ins built and the shim installed before what lies in the root.
    pub fn build(folder: &Path, root: PathBuf, dist: PathBuf) -> Result<Self> {
        let folder = folder.canonicalize()?;
        let stand_ins = folder.join("stand-ins");
        fs::create_dir_all(&stand_ins)?;
        let machine = Self { folder, root: root.canonicalize()?, dist, witness: witness::build(&stand_ins)? };
        for (name, library) in [("rocblas", "librocblas.so.5"), ("rocrand", "librocrand.so.1")] {
            let source = build::root().join("tests/stand-ins").join(name).with_extension("c");
            let soname = format!("-Wl,-soname,{library}");
            compile(&[OsStr::new("-shared"), "-fPIC".as_ref(), soname.as_ref(), source.as_ref()], &machine.stand_ins().join(library))?;
        }
        let hip = "libamdhip64.so.7";
        fs::copy(machine.dist.join("lib/reference").join(hip), machine.stand_ins().join(hip))?;
        machine.install()?;
        Ok(machine)
    }

    /// Takes an older installation back, and installs.
    fn install(&self) -> Result<()> {
        let (tool, prefix) = (self.dist.join("bin/hipdnn-shim"), self.prefix());
        if prefix.exists() {
            let status = Command::new(&tool).arg("uninstall").arg("--prefix").arg(&prefix).status()?;
            ensure!(status.success() && !prefix.exists(), "{} cannot be taken back", prefix.display());
        }
        for what in [vec![OsStr::new("--check")], vec![OsStr::new("--prefix"), prefix.as_os_str()]] {
            let status = Command::new(&tool).arg("install").arg("--native").arg(self.native()).args(what).status()?;
            ensure!(status.success(), "hipdnn-shim install failed");
        }
        Ok(())
    }

    fn prefix(&self) -> PathBuf {
        self.folder.join("prefix")
    }

    /// The real MIOpen.
    pub fn native(&self) -> PathBuf {
        self.libraries().join("libMIOpen.so.1")
    }

    /// The libraries that stand in its place: the shim, and it under its private name.
    pub fn installed(&self) -> [PathBuf; 2] {
        [miopen_api::SONAME, miopen_api::PRIVATE_SONAME].map(|name| self.prefix().join("lib").join(name))
    }

    fn libraries(&self) -> PathBuf {
        self.root.join(LIBRARIES)
    }

    fn stand_ins(&self) -> PathBuf {
        self.folder.join("stand-ins")
    }

    /// The driver.
    pub fn driver(&self) -> PathBuf {
        self.root.join(DRIVER)
    }

    /// A client of the tests, linked with the installed library.
    pub fn client(&self, name: &str) -> Result<PathBuf> {
        let (source, client) = (build::root().join("tests/clients").join(name).with_extension("c"), self.folder.join(name));
        let flags = ["-std=gnu11", "-O1", "-fexceptions", "-rdynamic", "-Wl,-z,lazy", "-include", "miopen/miopen_hipdnn.h", "-I"];
        let mut arguments: Vec<&OsStr> = flags.iter().map(OsStr::new).collect();
        // Our own headers: MIOpen's want HIP's.
        let (include, lib) = (self.dist.join("include"), self.prefix().join("lib"));
        arguments.extend([include.as_os_str(), source.as_os_str(), "-L".as_ref(), lib.as_os_str()]);
        arguments.extend(["-Wl,--unresolved-symbols=ignore-in-shared-libs", "-lMIOpen", "-ldl", "-lpthread", "-lm"].map(OsStr::new));
        compile(&arguments, &client)?;
        Ok(client)
    }

    /// Runs a program to its end, or to the end of its time, in a home folder of its own.
    pub fn run(&self, front: Front, program: &Path, arguments: &[String], limit: Duration) -> Result<Ran> {
        self.watched(Watch::Routes, front, program, arguments, limit)
    }

    /// The same, with whatever is to be written down.
    pub fn watched(&self, watch: Watch, front: Front, program: &Path, arguments: &[String], limit: Duration) -> Result<Ran> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let home = self.folder.join(format!("home-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir_all(&home)?;
        let ran = self.run_in(&home, watch, front, program, arguments, limit);
        fs::remove_dir_all(&home)?;
        ran
    }

    fn run_in(&self, home: &Path, watch: Watch, front: Front, program: &Path, arguments: &[String], limit: Duration) -> Result<Ran> {
        let (out, err, trace) = (home.join("stdout"), home.join("stderr"), home.join("trace.jsonl"));
        let mut command = Command::new(self.libraries().join("ld-linux-x86-64.so.2"));
        let (stand_ins, libraries) = (self.stand_ins(), self.libraries());
        let prefix = (front != Front::Native).then(|| self.prefix().join("lib"));
        let path = std::env::join_paths(prefix.into_iter().chain([stand_ins, libraries]))?;
        if watch != Watch::Routes {
            command.arg("--preload").arg(&self.witness);
        }
        command.arg("--library-path").arg(path).arg(program).args(arguments).current_dir(home);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home).env("MIOPEN_USER_DB_PATH", home.join("db"));
        // The reference on the GPU, which it prefers, cannot run here.
        command.env("MIOPEN_DRIVER_USE_GPU_REFERENCE", "0");
        if watch != Watch::Routes {
            // Native's own word for every call.
            command.env("MIOPEN_ENABLE_LOGGING", "1");
        }
        match watch {
            Watch::Routes => {
                command.env(TRACE, &trace);
            }
            Watch::CallsTraced => {
                command.env(TRACE, "json");
            }
            Watch::Calls => {}
        }
        if front == Front::On {
            command.env("MIOPEN_HIPDNN_FORWARDING", "1");
            command.env("MIOPEN_HIPDNN_BACKEND_LIBRARY", self.dist.join("lib/reference/libhipdnn_backend.so"));
        }
        command.stdin(Stdio::null()).stdout(fs::File::create(&out)?).stderr(fs::File::create(&err)?);
        let end = wait(&mut command, limit).with_context(|| program.display().to_string())?;
        let text = |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let trace = text(&trace).unwrap_or_default();
        let routes =
            ["\"route\":\"hipdnn\"", "\"route\":\"native\""].map(|route| trace.lines().filter(|line| line.contains(route)).count());
        Ok(Ran { end, stdout: text(&out)?, stderr: text(&err)?, routes })
    }
}

const TRACE: &str = "MIOPEN_HIPDNN_TRACE";

/// How it ended.
fn wait(command: &mut Command, limit: Duration) -> Result<String> {
    let (mut child, start) = (command.spawn()?, Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.to_string());
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(TIMEOUT.into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// End of a program that took too long.
pub const TIMEOUT: &str = "out of time";

fn compile(arguments: &[&OsStr], to: &Path) -> Result<()> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler).args(arguments).arg("-o").arg(to).output().context("a C compiler is needed")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
