//! Making calls visible while they happen: lines on stderr or in the trace file. Formats; decides and counts nothing.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    mem::ManuallyDrop,
    os::{
        fd::{AsRawFd as _, FromRawFd as _},
        unix::fs::OpenOptionsExt as _,
    },
    path::Path,
    time::Duration,
};

use serde::Serialize;

use crate::{
    environment::{Family, Settings, TraceTarget},
    lock::Mutex,
    phases::{Phases, microseconds},
    problem::OwnedProblem,
    verify::Verification,
};

/// Prefix of everything that the shim prints on stderr.
pub const PREFIX: &str = "[MIOpen->hipDNN]";

/// One line on stderr.
pub fn say(line: &str) {
    to_stderr(&format!("{PREFIX} {line}\n"));
}

/// One write, without the standard library's lock: a forked child would wait for ever if another thread had it.
fn to_stderr(line: &str) {
    // SAFETY: the file is only borrowed; whatever the program made of the descriptor is its own business.
    let stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(libc::STDERR_FILENO) });
    // Nobody can be told that stderr is gone.
    let _ = (&*stderr).write_all(line.as_bytes());
}

/// What became of a routed call.
#[derive(Debug, Serialize)]
pub struct Event<'a> {
    /// The MIOpen function.
    pub call: &'a str,
    /// `hipdnn`, `native` or `failed`.
    pub route: &'a str,
    /// Rule of a decline.
    pub rule: Option<&'a str>,
    /// Offending values, or the backend's error.
    pub message: Option<&'a str>,
    /// hipDNN status.
    pub status: i32,
    /// Whether the problem was new to this handle.
    pub cold: bool,
    /// Which level of the caches had the translation, if it was looked for: `memory`, `disk` or `built`.
    pub translation: Option<&'a str>,
    /// The same for how the plan is made.
    pub plan: Option<&'a str>,
    /// The engine that served.
    pub engine: Option<String>,
    /// Notes of the translator.
    pub notes: &'a [String],
    /// Microseconds by phase.
    pub phases_us: BTreeMap<&'static str, f64>,
    /// What was to be computed, if that is known.
    pub problem: Option<OwnedProblem>,
    /// How it compares with native's result, if that was wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verification>,
}

impl<'a> Event<'a> {
    /// An event with its phases.
    pub fn new(call: &'a str, route: &'a str, phases: &Phases) -> Self {
        let phases_us = phases.microseconds();
        Self {
            call,
            route,
            rule: None,
            message: None,
            status: 0,
            cold: false,
            translation: None,
            plan: None,
            engine: None,
            notes: &[],
            phases_us,
            problem: None,
            verified: None,
        }
    }

    fn text(&self) -> String {
        let mut line = format!("{} -> {}", self.call, self.route);
        let mut add = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                line.push_str(&format!(" {name}={value}"));
            }
        };
        add("rule", self.rule);
        add("engine", self.engine.as_deref());
        add("translation", self.translation);
        add("plan", self.plan);
        add("message", self.message.map(|m| format!("{m:?}")).as_deref());
        add("verified", self.verified.as_ref().map(|verified| format!("{:?}", verified.to_string())).as_deref());
        for (phase, time) in &self.phases_us {
            line.push_str(&format!(" {phase}={time:.1}us"));
        }
        line
    }
}

/// The first line of a trace: who writes it, and what it was told.
#[derive(Serialize)]
struct Banner<'a> {
    shim: &'a str,
    pid: u32,
    forwarding: Vec<&'a str>,
    options: Vec<&'a str>,
    native_library: Option<&'a Path>,
    backend_library: Option<&'a Path>,
    hip_library: Option<&'a Path>,
}

impl<'a> Banner<'a> {
    fn new(settings: &'a Settings) -> Self {
        Self {
            shim: crate::VERSION,
            pid: std::process::id(),
            forwarding: settings.families().into_iter().map(Family::name).collect(),
            options: settings.options(),
            native_library: settings.native_library.as_deref(),
            backend_library: settings.backend_library.as_deref(),
            hip_library: settings.hip_library.as_deref(),
        }
    }

    fn text(&self) -> String {
        let libraries = [("native", self.native_library), ("hipDNN", self.backend_library), ("HIP", self.hip_library)];
        let named = libraries.iter().filter_map(|(what, path)| Some(format!("; {what} {}", (*path)?.display())));
        let families = if self.forwarding.is_empty() { "nothing".into() } else { self.forwarding.join(", ") };
        let options = self.options.iter().map(|option| format!("; {option}"));
        let told = options.chain(named).collect::<String>();
        format!("hipdnn-shim {} in process {}: forwarding {families}{told}", self.shim, self.pid)
    }
}

/// Writes who would trace, where nothing is forwarded and therefore nothing traced: whoever asked for a trace then knows why it is empty.
pub fn say_who_traces(settings: &Settings) {
    drop(Trace::open(&settings.clone().resolved()));
}

/// Where trace lines go. One write for each line, so that lines of threads do not mix.
pub struct Trace {
    json: bool,
    file: Option<Mutex<File>>,
}

/// Opens the file without waiting for the reader of a pipe; lines are then written like to any file.
fn open_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    // SAFETY: the descriptor is the file's; the flags are those it was opened with, but for the one.
    let cleared = unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK)
    };
    if cleared == 0 { Ok(file) } else { Err(io::Error::last_os_error()) }
}

impl Trace {
    /// Opens what the settings name, or nothing, and writes who traces. A file that cannot be opened is said once.
    pub fn open(settings: &Settings) -> Option<Self> {
        let trace = Self::open_target(settings)?;
        let banner = Banner::new(settings);
        trace.put(|| serde_json::to_string(&banner).unwrap_or_default(), || banner.text());
        Some(trace)
    }

    fn open_target(settings: &Settings) -> Option<Self> {
        match settings.trace.as_ref()? {
            TraceTarget::Text => Some(Self { json: false, file: None }),
            TraceTarget::Json => Some(Self { json: true, file: None }),
            TraceTarget::File(path) => match open_file(path) {
                Ok(file) => Some(Self { json: is_json(path), file: Some(Mutex::new(file)) }),
                Err(error) => {
                    say(&format!("the trace file {} cannot be opened: {error}", path.display()));
                    None
                }
            },
        }
    }

    /// Writes one line.
    pub fn write(&self, event: &Event<'_>) {
        self.put(|| serde_json::to_string(event).unwrap_or_default(), || event.text());
    }

    fn put(&self, json: impl FnOnce() -> String, text: impl FnOnce() -> String) {
        let mut line = if self.json { json() } else { format!("{PREFIX} {}", text()) };
        line.push('\n');
        // A trace that cannot be written must not disturb the call.
        match &self.file {
            Some(file) => drop(file.lock().write_all(line.as_bytes())),
            None => to_stderr(&line),
        }
    }
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "json" || e == "jsonl")
}

/// The line of `MIOPEN_HIPDNN_FORWARDING_TIMING`: where the host time of a call went. What no phase took is `other`, so that all of it is there.
pub fn timing_line(call: &str, cold: bool, ending: &str, time: Duration, phases: &Phases, what: &str) -> String {
    let temperature = if cold { "cold" } else { "warm" };
    let mut line = format!("timing {call} {temperature} {ending} {:.1}us:", microseconds(time));
    for (phase, time) in phases.iter() {
        line.push_str(&format!(" {}={:.1}us", phase.name(), microseconds(time)));
    }
    let attributed: Duration = phases.iter().map(|(_, time)| time).sum();
    line.push_str(&format!(" other={:.1}us; {what}", microseconds(time.saturating_sub(attributed))));
    line
}

/// Device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that are free.
    pub free: usize,
    /// All of it.
    pub total: usize,
}

/// The line of `MIOPEN_HIPDNN_FORWARDING_MEMINFO`: device memory before and after a call.
pub fn memory_line(call: &str, before: Memory, after: Memory, what: &str) -> String {
    let taken = before.free as i128 - after.free as i128;
    format!("meminfo {call}: {} bytes free before, {} after ({taken:+} used), {} in all; {what}", before.free, after.free, after.total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::Phase;

    #[test]
    fn all_of_the_time_is_attributed() {
        let mut phases = Phases::default();
        phases.set(Phase::Translate, Duration::from_micros(20));
        phases.set(Phase::Plan, Duration::from_millis(3900));
        let line = timing_line("miopenX", true, "hipdnn", Duration::from_micros(3_900_050), &phases, "a problem");
        assert_eq!(line, "timing miopenX cold hipdnn 3900050.0us: translate=20.0us plan=3900000.0us other=30.0us; a problem");
    }

    #[test]
    fn memory_is_compared() {
        let (before, after) = (Memory { free: 100, total: 200 }, Memory { free: 60, total: 200 });
        assert_eq!(memory_line("c", before, after, "p"), "meminfo c: 100 bytes free before, 60 after (+40 used), 200 in all; p");
        assert!(memory_line("c", after, before, "p").contains("(-40 used)"));
    }
}
