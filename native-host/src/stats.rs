//! The statistics file: the counters of one process as JSON, what is around them, and how the file is written. The tools read it with the
//! same types.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use crate::{cache::disk::DiskCounts, census::Counters, files, problem::OwnedProblem};

/// What this file is, for those who find it.
pub const FORMAT: &str = "hipdnn-shim statistics";
/// The version of the form below. A reader refuses others, with both numbers.
pub const VERSION: u32 = 1;

/// The document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stats {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub format_version: u32,
    /// The shim's version.
    pub version: String,
    /// Which process.
    pub process: Process,
    /// The libraries, once they are loaded.
    pub backend: Option<BackendFacts>,
    /// The translator, once it is loaded.
    pub translator: Option<TranslatorFacts>,
    /// What the disk cache did, once it is open.
    #[serde(default)]
    pub cache: Option<DiskCounts>,
    /// What the rules mean that occur below, by id.
    pub rules: BTreeMap<String, String>,
    /// Counts by entry point.
    pub calls: BTreeMap<String, Counters>,
    /// Those of them that are told apart by their problem.
    pub problems: Vec<ProblemCounters>,
    /// Those of them that are not: without a problem, or beyond the number of problems that are remembered.
    pub others: BTreeMap<String, Counters>,
}

/// Which process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The machine.
    pub host: String,
    /// The program's name.
    pub program: String,
    /// Its rank in a job of several.
    pub rank: Option<u32>,
    /// When forwarding began, in milliseconds since 1970.
    pub began_ms: u64,
    /// When the file was written.
    pub written_ms: u64,
}

/// The loaded libraries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendFacts {
    /// Where hipDNN's backend was found.
    pub library: String,
    /// Its version.
    pub version: String,
    /// The HIP runtime.
    pub hip: String,
}

/// The loaded translator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranslatorFacts {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its digest.
    pub sha256: String,
    /// Its file; none for the built-in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// How often it trapped, or said what makes no sense.
    #[serde(default)]
    pub faults: u32,
}

/// The counts of one problem at one entry point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProblemCounters {
    /// The entry point.
    pub call: String,
    /// The problem.
    pub problem: OwnedProblem,
    /// Its counts.
    pub counters: Counters,
}

impl Process {
    /// This one.
    pub fn current(rank: Option<u32>, began_ms: u64) -> Self {
        let program = std::env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        Self { pid: std::process::id(), host: host_name(), program: program.unwrap_or_default(), rank, began_ms, written_ms: now_ms() }
    }
}

/// Milliseconds since 1970; 0 before.
pub fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn host_name() -> String {
    let mut name = [0u8; 256];
    // SAFETY: writes at most so many bytes.
    if unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) } != 0 {
        return String::new();
    }
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..length]).into_owned()
}

/// Writes the file, see [`files::replace`].
pub fn write(path: &Path, stats: &Stats) -> std::io::Result<()> {
    let mut document = serde_json::to_vec(stats)?;
    document.push(b'\n');
    files::replace(path, &document)
}
