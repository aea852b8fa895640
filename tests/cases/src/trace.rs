//! What the shim says about its calls: the lines that `MIOPEN_HIPDNN_TRACE` got since a moment. Without such a file nothing is known.

use std::{
    env,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::PathBuf,
};

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// One routed call.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Event {
    /// Entry point.
    pub call: String,
    /// `hipdnn`, `native` or `failed`.
    pub route: String,
    /// Rule of a decline.
    #[serde(default)]
    pub rule: Option<String>,
    /// Whether the problem was new to its handle.
    #[serde(default)]
    pub cold: bool,
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.call, self.route)?;
        self.rule.iter().try_for_each(|rule| write!(f, " {rule}"))
    }
}

/// The trace file of this process, if the shim writes one.
#[derive(Clone)]
pub struct Trace(Option<PathBuf>);

/// A moment.
#[derive(Clone, Copy, Default)]
pub struct Mark(u64);

impl Trace {
    /// The file that the environment names. Standard error is not read.
    pub fn of_environment() -> Self {
        let value = env::var("MIOPEN_HIPDNN_TRACE").unwrap_or_default().replace("%p", &std::process::id().to_string());
        Self((value.ends_with(".json") || value.ends_with(".jsonl")).then(|| PathBuf::from(value)))
    }

    /// Whether there is one.
    pub fn exists(&self) -> bool {
        self.0.is_some()
    }

    /// Now.
    pub fn mark(&self) -> Mark {
        let length = self.0.as_ref().and_then(|path| path.metadata().ok()).map_or(0, |metadata| metadata.len());
        Mark(length)
    }

    /// The calls since then, as far as their lines are complete.
    pub fn since(&self, mark: Mark) -> Result<Vec<Event>> {
        let Some(mut file) = self.0.as_ref().and_then(|path| File::open(path).ok()) else { return Ok(Vec::new()) };
        let mut text = String::new();
        file.seek(SeekFrom::Start(mark.0))?;
        file.read_to_string(&mut text)?;
        // The first line of a process says who traces.
        let calls = text.lines().filter(|line| !line.starts_with("{\"shim\""));
        calls.map(|line| serde_json::from_str(line).with_context(|| format!("trace line {line}"))).collect()
    }
}
