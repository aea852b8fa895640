//! What doctor finds out, as data: the JSON document is this, field by field, and the text is made from it. Nothing is found out here.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{file::Kind, findings::Finding};

/// Fields of the documents and what they hold, for `--help`. A test compares them with what is written.
pub const FIELDS: &[(&str, &str)] = &[
    ("version", "of this tool"),
    ("shim", "the shim that was examined, and under `front` the library that programs get by the name libMIOpen.so.1"),
    ("forwarding", "whether it is on, for which families and functions"),
    ("native", "`chosen`: path, the rule that led to it (`rule`, `because`), its version; `rejected`: what was passed over, and for what"),
    ("hip", "the same, and `devices`"),
    ("hipdnn", "the same, and `engines` and plugin folder"),
    ("translator", "name, version, sha256, families, contracts"),
    ("cache", "mode (off, ro, rw), folders and room of the disk cache, and why it is not used"),
    ("environment", "every variable of the shim that is set: name, value, meaning"),
    ("findings", "what is wrong: id, severity (error, warning, note), what, why, todo"),
];

/// The same for `--pid`.
pub const PROCESS_FIELDS: &[(&str, &str)] = &[
    ("version", "of this tool"),
    ("pid", "of the process"),
    ("program", "its program"),
    (
        "miopens",
        "every MIOpen that it has mapped: path, kind (shim, wrapper, private, native), version and build id if it is a shim, deleted",
    ),
    ("hipdnn", "the hipDNN libraries that it has mapped"),
    ("hip", "the HIP runtimes that it has mapped"),
    ("environment", "the variables of the shim that it was started with; null if they cannot be read"),
    ("findings", "as above"),
];

/// What the shim would use in a process that is started now.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Of this tool.
    pub version: &'static str,
    /// Which shim.
    pub shim: Shim,
    /// Whether anything is forwarded.
    pub forwarding: Forwarding,
    /// The native MIOpen.
    pub native: Library<Native>,
    /// The HIP runtime.
    pub hip: Library<Hip>,
    /// hipDNN.
    pub hipdnn: Library<Hipdnn>,
    /// Who translates.
    pub translator: Translator,
    /// The disk cache.
    pub cache: Cache,
    /// The environment.
    pub environment: Vec<Variable>,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// The shim that was examined.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Shim {
    /// Its file.
    pub path: Option<PathBuf>,
    /// Its version.
    pub version: Option<String>,
    /// Its build id.
    pub build_id: Option<String>,
    /// Why this one.
    pub because: &'static str,
    /// What a program without a search path of its own gets by the name libMIOpen.so.1.
    pub front: Option<Front>,
}

/// A library that programs get by name.
#[derive(Clone, Debug, Serialize)]
pub struct Front {
    /// Its file.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// Its version, if it is a shim.
    pub version: Option<String>,
    /// Its build id.
    pub build_id: Option<String>,
}

/// Whether anything is forwarded.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Forwarding {
    /// Whether anything is.
    pub on: bool,
    /// Families whose switches are on.
    pub families: Vec<&'static str>,
    /// Functions that may be forwarded.
    pub functions: Vec<&'static str>,
    /// How many there are in all.
    pub functions_known: usize,
}

/// A library that others bring: which one is used, and what was looked at.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Library<T> {
    /// The one that is used.
    pub chosen: Option<Chosen<T>>,
    /// Those that were looked at before it, in order.
    pub rejected: Vec<Rejected>,
    /// How the process ended that used it, if it did.
    pub crashed: Option<String>,
}

impl<T> Default for Library<T> {
    fn default() -> Self {
        Self { chosen: None, rejected: Vec::new(), crashed: None }
    }
}

impl<T> Library<T> {
    /// The file that is used.
    pub fn path(&self) -> Option<&Path> {
        self.chosen.as_ref().map(|chosen| chosen.path.as_path())
    }
}

/// The library that is used.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chosen<T> {
    /// Its file, as it was loaded.
    pub path: PathBuf,
    /// The file that links lead to, if it is another one.
    pub real_path: Option<PathBuf>,
    /// The rule that led to it.
    pub rule: String,
    /// The same in words.
    pub because: String,
    /// What it says about itself.
    #[serde(flatten)]
    pub facts: T,
}

/// One that was passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Path, or the name that the loader was asked for.
    pub file: PathBuf,
    /// The rule that led to it.
    pub rule: String,
    /// The same in words.
    pub because: String,
    /// Why it was passed over: an id.
    pub reason: String,
    /// The same in words.
    pub text: String,
}

/// What a native MIOpen is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Native {
    /// Its version.
    pub version: Option<String>,
    /// Whether its functions are called `<name>_impl`.
    pub split: bool,
    /// Upstream's forwarding wrapper, if that is what was found and passed by.
    pub wrapper: Option<PathBuf>,
}

/// What a HIP runtime is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Hip {
    /// As it counts: 70200000 is 7.2.
    pub runtime_version: Option<i32>,
    /// Its devices.
    pub devices: Vec<hipdnn_host::hip::Device>,
    /// HIP's error when it was asked for them.
    pub device_error: Option<i32>,
    /// The runtime that a program has which is linked with HIP.
    pub program: Option<PathBuf>,
}

/// What a hipDNN is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Hipdnn {
    /// `MAJOR.MINOR.PATCH.TWEAK`.
    pub version: String,
    /// Why it gave no handle.
    pub handle_error: Option<String>,
    /// Its engines; null if it cannot tell.
    pub engines: Option<Vec<Engine>>,
    /// Where it looks for engine plugins.
    pub plugin_folder: Option<PathBuf>,
    /// Libraries in there; null if there is no such folder.
    pub plugin_files: Option<Vec<PathBuf>>,
    /// Those that it loaded; null if it cannot tell.
    pub plugins: Option<Vec<PathBuf>>,
}

/// An engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// The plugin that brings it.
    pub plugin: String,
    /// That one's version.
    pub version: String,
}

/// Who translates.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Translator {
    /// Its name.
    pub name: Option<String>,
    /// The version of its rules.
    pub version: Option<String>,
    /// The digest of its component.
    pub sha256: Option<String>,
    /// What it translates.
    pub families: Vec<String>,
    /// The versions of the contract's interfaces that it has.
    pub contracts: Vec<String>,
    /// Where it is from.
    pub source: String,
    /// Why the one that was asked for is not used.
    pub refused: Option<String>,
    /// Why it cannot be used.
    pub error: Option<String>,
}

/// The disk cache.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cache {
    /// `off`, `ro` or `rw`.
    pub mode: &'static str,
    /// Its folder.
    pub path: Option<PathBuf>,
    /// A second one, only read.
    pub below: Option<PathBuf>,
    /// Room for its entries.
    pub max_bytes: Option<u64>,
    /// Whether the folder is there already.
    pub there: bool,
    /// Why it is not used, or not written.
    pub error: Option<String>,
}

/// A variable that is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What it comes to.
    pub meaning: String,
}

/// What serves a running process.
#[derive(Debug, Serialize)]
pub struct Process {
    /// Of this tool.
    pub version: &'static str,
    /// Of the process.
    pub pid: u32,
    /// Its program.
    pub program: Option<PathBuf>,
    /// Every MIOpen in it.
    pub miopens: Vec<MappedMiopen>,
    /// Every hipDNN.
    pub hipdnn: Vec<PathBuf>,
    /// Every HIP runtime.
    pub hip: Vec<PathBuf>,
    /// What it was started with.
    pub environment: Option<Vec<Variable>>,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// A MIOpen in a process.
#[derive(Clone, Debug, Serialize)]
pub struct MappedMiopen {
    /// Its file.
    pub path: PathBuf,
    /// What it is; null if its file cannot be read.
    pub kind: Option<Kind>,
    /// Its version, if it is a shim.
    pub version: Option<String>,
    /// Its build id.
    pub build_id: Option<String>,
    /// Whether the file is gone, or was replaced.
    pub deleted: bool,
}
