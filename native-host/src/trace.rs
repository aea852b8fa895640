//! Making decisions visible: trace lines, and the counters behind the statistics file. Formats; decides nothing.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::Write as _,
    mem::ManuallyDrop,
    os::fd::FromRawFd as _,
    path::Path,
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{
    environment::{Family, Settings, TraceTarget},
    lock::Mutex,
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

/// The phases of a call that took time, in the order they happen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Phases([Option<Duration>; Phase::COUNT]);

/// One phase. The first three happen once: loading HIP and hipDNN, loading the translator, making a hipDNN handle.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Phase {
    Libraries,
    Translator,
    Handle,
    Translate,
    Validate,
    Lower,
    Heuristics,
    Plan,
    FirstExecute,
    Execute,
}

impl Phase {
    const COUNT: usize = 10;
    const NAMES: [&'static str; Self::COUNT] =
        ["libraries", "translator", "handle", "translate", "validate", "lower", "heuristics", "plan", "first_execute", "execute"];
}

impl Phases {
    /// Notes how long a phase took.
    pub fn set(&mut self, phase: Phase, time: Duration) {
        self.0[phase as usize] = Some(time);
    }

    /// Runs a phase and notes how long it took.
    pub fn time<T>(&mut self, phase: Phase, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.set(phase, start.elapsed());
        result
    }

    fn microseconds(&self) -> BTreeMap<&'static str, f64> {
        let timed = Phase::NAMES.iter().zip(self.0);
        timed.filter_map(|(name, time)| Some((*name, time?.as_nanos() as f64 / 1000.0))).collect()
    }
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
    /// The engine that served.
    pub engine: Option<String>,
    /// Notes of the translator.
    pub notes: &'a [String],
    /// Microseconds by phase.
    pub phases_us: BTreeMap<&'static str, f64>,
}

impl<'a> Event<'a> {
    /// An event with its phases.
    pub fn new(call: &'a str, route: &'a str, phases: &Phases) -> Self {
        let phases_us = phases.microseconds();
        Self { call, route, rule: None, message: None, status: 0, cold: false, engine: None, notes: &[], phases_us }
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
        add("message", self.message.map(|m| format!("{m:?}")).as_deref());
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
            TraceTarget::File(path) => match OpenOptions::new().create(true).append(true).open(path) {
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

/// Counts of one entry point.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counters {
    /// Calls that hipDNN served; queries that were answered with its plan.
    pub served: u64,
    /// Calls that hipDNN failed.
    pub failed: u64,
    /// Calls that went to native, by rule.
    pub declined: BTreeMap<String, u64>,
    /// Calls that are native's because the caller chose what native offers, by rule.
    pub native: BTreeMap<String, u64>,
}

/// Counts one. Allocates only the first time a rule is seen.
fn count(counts: &mut BTreeMap<String, u64>, rule: &str) {
    match counts.get_mut(rule) {
        Some(count) => *count += 1,
        None => drop(counts.insert(rule.to_string(), 1)),
    }
}

impl Counters {
    /// Counts a decline.
    pub fn decline(&mut self, rule: &str) {
        count(&mut self.declined, rule);
    }

    /// Counts a call that the caller gave to native.
    pub fn native_by_policy(&mut self, rule: &str) {
        count(&mut self.native, rule);
    }

    /// Adds other counts to these.
    pub fn add(&mut self, other: &Self) {
        self.served += other.served;
        self.failed += other.failed;
        for (own, others) in [(&mut self.declined, &other.declined), (&mut self.native, &other.native)] {
            for (rule, count) in others {
                *own.entry(rule.clone()).or_default() += count;
            }
        }
    }
}

/// The counters of the process, by entry point.
pub type Census = BTreeMap<&'static str, Counters>;

/// Writes the statistics file: a temporary one, renamed, so that a reader never sees half of it. Only ever in place of a regular file:
/// a rename would replace a device or a pipe. Callers take turns; the temporary name is the process's.
pub fn write_stats(path: &Path, census: &Census) -> std::io::Result<()> {
    if std::fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(std::io::Error::other("it is there and not a regular file"));
    }
    let document = serde_json::json!({ "pid": std::process::id(), "version": crate::VERSION, "calls": census });
    let temporary = path.with_extension(format!("tmp{}", std::process::id()));
    let written = std::fs::write(&temporary, format!("{document}\n")).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}
