//! Which way a call went: the trace file that the shim writes for a driven line, and what is read out of it.
//! The format is the shim's; nothing is printed here.

use std::{
    env,
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use hipdnn_host::environment::with_pid;
use serde::Deserialize;

/// The variable that names the trace file.
pub const VARIABLE: &str = hipdnn_host::environment::TRACE;

/// The phases that are reported, in microseconds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Phases {
    /// In the translator.
    pub translate: Option<f64>,
    /// Building the plan.
    pub plan: Option<f64>,
}

/// One routed call.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Event {
    /// The MIOpen function.
    pub call: String,
    /// `hipdnn`, `native` or `failed`.
    pub route: String,
    /// Rule of a decline.
    #[serde(default)]
    pub rule: Option<String>,
    /// Offending values, or the error.
    #[serde(default)]
    pub message: Option<String>,
    /// The engine that served.
    #[serde(default)]
    pub engine: Option<String>,
    /// Notes of the translator.
    #[serde(default)]
    pub notes: Vec<String>,
    /// How long the phases took.
    #[serde(default)]
    pub phases_us: Phases,
}

/// The trace file of this process.
pub struct TraceFile {
    file: File,
    path: PathBuf,
    start: u64,
    /// It is to be removed: its name is, once the shim has opened it.
    temporary: bool,
}

impl TraceFile {
    /// A fresh file.
    pub fn temporary() -> Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let path = env::temp_dir().join(format!("hipdnn-shim-{}-{now}.jsonl", std::process::id()));
        // It must not exist: in a shared folder it could be somebody's link.
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.with_context(|| format!("the trace file {} cannot be created", path.display()))?;
        Ok(Self { file, path, start: 0, temporary: true })
    }

    /// The JSON file that the environment names, if it names one; only lines written from now on count.
    pub fn of_environment() -> Option<Self> {
        let path = with_pid(Path::new(&env::var_os(VARIABLE)?));
        let json = path.extension().is_some_and(|e| e == "json" || e == "jsonl");
        // The shim would make it with its first line.
        let file = File::options().read(true).append(true).create(json).open(&path).ok().filter(|_| json)?;
        let start = file.metadata().map_or(0, |m| m.len());
        Some(Self { file, path, start, temporary: false })
    }

    /// From now on only lines written later count.
    pub fn start_here(&mut self) {
        self.start = self.file.metadata().map_or(self.start, |m| m.len());
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The shim has opened it: its name can go, so that nothing stays behind however this process ends.
    pub fn opened(&mut self) {
        if std::mem::replace(&mut self.temporary, false) {
            // A file left behind is the worst that can come of it.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// What became of all routed calls, in order. Lines of other kinds are passed over.
    pub fn events(&self) -> Vec<Event> {
        let mut text = String::new();
        let mut file = &self.file;
        let read = file.seek(SeekFrom::Start(self.start)).and_then(|_| file.read_to_string(&mut text));
        if read.is_ok() { events(&text) } else { Vec::new() }
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        self.opened();
    }
}

fn events(text: &str) -> Vec<Event> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_calls_count() {
        let text = concat!(
            r#"{"call":"miopenFindConvolutionForwardAlgorithm","route":"hipdnn","rule":null,"message":null,"status":0,"cold":true}"#,
            "\nnot json\n",
            r#"{"call":"miopenConvolutionForward","route":"native","rule":"conv.scaling.beta","message":"beta is 1","status":0,"#,
            r#""cold":true,"engine":null,"notes":["n"],"phases_us":{"handle":1.0,"translate":2.5}}"#,
            "\n",
        );
        let events = events(text);
        assert_eq!((events.len(), events[0].call.as_str()), (2, "miopenFindConvolutionForwardAlgorithm"));
        assert_eq!((events[1].route.as_str(), events[1].rule.as_deref()), ("native", Some("conv.scaling.beta")));
        assert_eq!(events[1].phases_us, Phases { translate: Some(2.5), plan: None });
    }

    #[test]
    fn a_temporary_file_does_not_stay() {
        let file = TraceFile::temporary().unwrap();
        let path = file.path().to_path_buf();
        assert!(path.exists() && file.events().is_empty());
        drop(file);
        assert!(!path.exists());
    }
}
