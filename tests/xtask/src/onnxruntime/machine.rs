//! What stands around ONNX Runtime: stand-ins for what needs a GPU, the shim, the reference native and hipDNN; and models run with that.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::{
    build,
    programs::{compile, compile_stand_in, wait},
};

/// What computes a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// ONNX Runtime itself, on the CPU.
    Cpu,
    /// MIOpen without the shim.
    Native,
    /// MIOpen through the shim, not forwarding: an environment without a word about it.
    Off,
    /// MIOpen through the shim, forwarding, to this profile of the reference hipDNN.
    On(&'static str),
}

impl Front {
    /// For people, and for a folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Native => "native",
            Self::Off => "off",
            Self::On(profile) => profile,
        }
    }
}

/// The laid out machine.
pub struct Machine {
    folder: PathBuf,
    dist: PathBuf,
    python: PathBuf,
}

/// What `run.py` says about a run.
#[derive(Debug, Default, Deserialize)]
pub struct Report {
    /// Convolutions of the model.
    pub convolutions: usize,
    /// Threads that ran it.
    pub threads: usize,
    /// Every time a node was executed, by ONNX Runtime's own profile.
    pub executions: Vec<Execution>,
    /// Files that were mapped at the end.
    pub files: Vec<String>,
    /// Mappings of code that belong to no file.
    pub code_from_no_file: usize,
}

/// A node that was executed.
#[derive(Debug, Deserialize)]
pub struct Execution {
    /// Its name.
    pub node: String,
    /// Its operation, after ONNX Runtime fused what it could.
    pub operation: String,
    /// Where.
    pub provider: String,
}

/// The shim's counters of one entry point.
#[derive(Debug, Default, Deserialize)]
pub struct Counters {
    /// Calls that hipDNN served.
    pub served: usize,
    /// Calls that hipDNN failed.
    pub failed: usize,
    /// Calls that went to native, by rule.
    pub declined: BTreeMap<String, usize>,
    /// Calls that the caller gave to native, by rule.
    pub native: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
struct Statistics {
    calls: BTreeMap<String, Counters>,
}

/// A line of the shim's trace.
#[derive(Debug, Deserialize)]
pub struct Traced {
    /// The entry point.
    pub call: String,
    /// Where the call went.
    pub route: String,
}

/// All that can be seen of a run from outside, but for its outputs.
#[derive(Debug, Default)]
pub struct Seen {
    /// What ONNX Runtime did.
    pub report: Report,
    /// What the shim counted, by entry point; nothing if it wrote no statistics.
    pub census: Option<BTreeMap<String, Counters>>,
    /// What the shim traced.
    pub trace: Vec<Traced>,
    /// Names of the calls that reached native, in order.
    pub native: Vec<String>,
    /// How often the reference hipDNN executed a plan, by its own log.
    pub executed_plans: usize,
    /// What any library had to complain about.
    pub stderr: String,
}

/// What `comparison.py` says about outputs.
#[derive(Debug, Deserialize)]
pub struct Compared {
    /// Largest error, relative to the root mean square of its output.
    pub error: f64,
    /// Largest error that rounding explains.
    pub tolerance: f64,
    /// What is wrong with them.
    pub wrong: Vec<String>,
}

/// Libraries of `tests/stand-ins` under the names that ONNX Runtime needs, each with those that it needs itself.
const STAND_INS: &[(&str, &str, &[&str])] = &[
    ("rocblas", "librocblas.so.5", &[]),
    ("hipblas", "libhipblas.so.3", &["librocblas.so.5"]),
    ("hipfft", "libhipfft.so.0", &[]),
    ("rocm_smi", "librocm_smi64.so.1", &[]),
    ("roctracer", "libroctracer64.so.4", &[]),
];
/// A watchdog against hangs.
const LIMIT: Duration = Duration::from_secs(900);

impl Machine {
    /// Builds the stand-ins, and a native under its ordinary name; everything else is built.
    pub fn build(folder: &Path, dist: PathBuf, python: PathBuf) -> Result<Self> {
        let machine = Self { folder: folder.canonicalize()?, dist, python };
        let libraries = machine.stand_ins();
        fs::create_dir_all(&libraries)?;
        for (source, library, needed) in STAND_INS {
            let needed: Vec<PathBuf> = needed.iter().map(|library| libraries.join(library)).collect();
            compile_stand_in(source, &libraries.join(library), &needed.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
        }
        machine.build_native()?;
        Ok(machine)
    }

    /// The reference native as a program finds it where there is no shim: plain names, which jump to its own.
    fn build_native(&self) -> Result<()> {
        let folder = self.native();
        fs::create_dir_all(&folder)?;
        let (code, map, to) = (folder.join("jumps.S"), folder.join("exports.map"), folder.join(miopen_api::SONAME));
        let jump = |name: &str| format!(".globl {name}\n.type {name}, @function\n{name}: jmp {name}_impl@PLT\n");
        let jumps: String = miopen_api::table().exports().map(|function| jump(&function.name)).collect();
        fs::write(&code, format!("{jumps}.section .note.GNU-stack\n"))?;
        fs::write(&map, format!("{} {{ global: *; }};\n", miopen_api::VERSION_NODE))?;
        let (soname, script) = (format!("-Wl,-soname,{}", miopen_api::SONAME), format!("-Wl,--version-script={}", map.display()));
        let private = self.dist.join("lib/reference/libMIOpen_private.so.1");
        compile(
            &["-shared".as_ref(), "-nostartfiles".as_ref(), soname.as_ref(), script.as_ref(), code.as_os_str(), private.as_os_str()],
            &to,
        )
    }

    fn native(&self) -> PathBuf {
        self.folder.join("native")
    }

    fn stand_ins(&self) -> PathBuf {
        self.folder.join("stand-ins")
    }

    /// Where models may leave what they compute.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// One of the Python programs, in an environment with nothing else in it.
    fn program(&self, home: &Path, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(&self.python);
        // No compiled files beside the sources.
        command.arg("-B").args(arguments).current_dir(build::root().join("tests/onnxruntime").canonicalize()?);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home).stdin(Stdio::null());
        Ok(command)
    }

    /// What one of the Python programs prints.
    pub fn ask(&self, arguments: &[&str]) -> Result<String> {
        let output = self.program(&self.folder, arguments)?.output()?;
        ensure!(output.status.success(), "{}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs a model in a process of its own, which leaves its outputs in a folder of the front's name.
    pub fn run(&self, home: &Path, front: Front, model: &str) -> Result<Seen> {
        let place = home.join(front.name());
        fs::create_dir_all(&place)?;
        let provider = if front == Front::Cpu { "cpu" } else { "rocm" };
        let mut command = self.program(&place, &["run.py", model, provider, &place.to_string_lossy()])?;
        if front != Front::Cpu {
            let miopen = if front == Front::Native { self.native() } else { self.dist.join("lib") };
            let path = std::env::join_paths([self.stand_ins(), miopen, self.dist.join("lib/reference")])?;
            command.env("LD_LIBRARY_PATH", path);
            command.env("REFERENCE_MIOPEN_LOG", place.join("native.log"));
        }
        if let Front::On(profile) = front {
            command.env("MIOPEN_HIPDNN_FORWARDING", "1").env("REFERENCE_HIPDNN_PROFILE", profile);
            command.env("REFERENCE_HIPDNN_LOG", place.join("hipdnn.log"));
            command.env("MIOPEN_HIPDNN_STATS", place.join("census.json")).env("MIOPEN_HIPDNN_TRACE", place.join("trace.jsonl"));
        }
        let (out, err) = (place.join("stdout"), place.join("stderr"));
        command.stdout(fs::File::create(out)?).stderr(fs::File::create(&err)?);
        let end = wait(&mut command, LIMIT)?;
        let stderr = String::from_utf8_lossy(&fs::read(err)?).into_owned();
        ensure!(end == "exit status: 0", "{}: {end}: {stderr}", front.name());
        seen(&place, stderr).with_context(|| front.name())
    }

    /// Compares the outputs of two fronts.
    pub fn compare(&self, home: &Path, model: &str, expected: Front, actual: Front) -> Result<Compared> {
        let [expected, actual] = [expected, actual].map(|front| home.join(front.name()).join("outputs.npz").to_string_lossy().into_owned());
        Ok(serde_json::from_str(&self.ask(&["comparison.py", model, &expected, &actual])?)?)
    }
}

/// Reads what a run left.
fn seen(place: &Path, stderr: String) -> Result<Seen> {
    let text = |name: &str| fs::read_to_string(place.join(name));
    let report = serde_json::from_str(&text("report.json")?).context("report.json")?;
    let census = text("census.json").ok().map(|text| serde_json::from_str::<Statistics>(&text)).transpose().context("census.json")?;
    let trace = text("trace.jsonl").unwrap_or_default();
    // The first line is the banner: what the shim is, and what the environment comes to.
    let trace = trace.lines().skip(1).map(serde_json::from_str).collect::<Result<_, _>>().context("trace.jsonl")?;
    let native = text("native.log").unwrap_or_default();
    let native = native.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_string).collect();
    let hipdnn = text("hipdnn.log").unwrap_or_default();
    let executed_plans = hipdnn.lines().filter(|line| line.starts_with("hipdnnBackendExecute(") && line.contains(" = 0 ")).count();
    Ok(Seen { report, census: census.map(|statistics| statistics.calls), trace, native, executed_plans, stderr })
}
