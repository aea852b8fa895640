//! Many lines, each driven in a process that a crash may take away without harm to the others: the processes, what they are told and
//! answer, and the progress bar. Which lines, and what their results mean, is decided elsewhere in this folder.

use std::{
    env,
    io::{BufRead as _, BufReader, Lines, Write as _, stdin},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    corpus::{Entry, Profile, Request},
    session::{Forwarding, Session, Settings, drivable},
};
use crate::{
    convolution::Convolution,
    flags::{Direction, Line},
    output,
    problems::{self, Drivable},
};

/// The reference backend's variable for the profile.
const PROFILE_VARIABLE: &str = "REFERENCE_HIPDNN_PROFILE";

/// What came of a line: its record, or what became of the process that drove it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    command: String,
    direction: Direction,
    dtype: &'static str,
    record: Result<Value, String>,
}

/// What of a record counts.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Seen {
    /// `hipdnn`, `native`, …
    pub route: String,
    /// The rule that declined it.
    pub rule: Option<String>,
    /// Offending values, or the error.
    pub message: Option<String>,
    /// MIOpen's status.
    pub status: i32,
    /// Whether the output was looked at and is right.
    pub verified: Option<bool>,
    /// What is wrong.
    pub failure: Option<String>,
}

impl Outcome {
    /// What counts, or why there is no record.
    pub fn seen(&self) -> Result<Seen, String> {
        let record = self.record.clone()?;
        // A worker answers records and `failure`s, nothing else.
        serde_json::from_value(record).map_err(|error| error.to_string())
    }

    /// As one JSON line.
    pub fn json(&self, profile: &str) -> Value {
        let mut value = match &self.record {
            Ok(record) => record.clone(),
            Err(failure) => json!({
                "command": self.command, "op": "conv", "dtype": self.dtype, "direction": self.direction, "route": "none",
                "failure": failure, "verified": null,
            }),
        };
        value["profile"] = profile.into();
        value
    }

    #[cfg(test)]
    pub fn of(command: &str, record: Result<Value, String>) -> Self {
        Self { command: command.into(), direction: Direction::Forward, dtype: "fp32", record }
    }
}

/// A worker: answers one record for each request on stdin.
pub fn serve(settings: &Settings) -> Result<ExitCode> {
    // Nobody would read the answers of a worker whose parent is gone.
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let mut session = Session::open(settings)?;
    for request in stdin().lock().lines() {
        let answer = answer(&mut session, &request?).unwrap_or_else(|error| json!({ "failure": format!("{error:#}") }));
        println!("{answer}");
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(session: &mut Session, request: &str) -> Result<Value> {
    let record = match serde_json::from_str(request)? {
        Request::Words(words) => {
            let line = Line::parse(&words)?;
            let convolution = Convolution::from_line(&line)?;
            drivable(&convolution, &line)?;
            let direction = *line.directions()?.first().context("no direction")?;
            session.drive(&line, &convolution, direction)?
        }
        Request::Problem(problem) => {
            let Drivable { line, convolution, direction } = Drivable::of(&problem)?;
            drivable(&convolution, &line)?;
            let mut record = session.drive(&line, &convolution, direction)?;
            record.id = problems::id(&problem);
            record
        }
    };
    Ok(serde_json::to_value(record)?)
}

/// Drives all lines, under a profile of the reference backend if one is named; answers the outcomes in the order of the lines.
pub fn drive(settings: &Settings, profile: Option<Profile>, entries: &[Entry], jobs: usize) -> Result<Vec<Outcome>> {
    let bar = output::progress(profile.map_or("lines", Profile::name), entries.len() as u64)?;
    // The largest first, so that no process is left alone with one of them at the end.
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by(|a, b| entries[*b].gmac.total_cmp(&entries[*a].gmac));
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(vec![None; entries.len()]);
    thread::scope(|scope| {
        for _ in 0..jobs.min(entries.len()) {
            scope.spawn(|| {
                survive_closed_pipes();
                let mut worker = None;
                while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = ask(&mut worker, settings, profile, &entries[index]);
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(outcome);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.into_iter().map(|outcome| outcome.context("a line was not driven")).collect()
}

/// Writing to a worker that ended is an error then, in this thread, and not the end of this program, as elsewhere. Workers do not inherit it.
fn survive_closed_pipes() {
    // SAFETY: plain data, for which zero is a value.
    let mut signals: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: changes this thread's mask only; `signals` is writable.
    unsafe {
        libc::sigaddset(&mut signals, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &signals, std::ptr::null_mut());
    }
}

/// Has a line driven, by the worker there is or a new one. A worker that ended after its last line is nobody's fault.
fn ask(worker: &mut Option<Worker>, settings: &Settings, profile: Option<Profile>, entry: &Entry) -> Outcome {
    let alive = worker.take().and_then(Worker::alive);
    let record = match alive.map_or_else(|| Worker::start(settings, profile), Ok) {
        Err(error) => Err(format!("{error:#}")),
        Ok(mut started) => match started.ask(&entry.request) {
            Ok(record) => {
                *worker = Some(started);
                Ok(record)
            }
            Err(error) => Err(format!("{error}; {}", started.end())),
        },
    };
    Outcome { command: entry.command.clone(), direction: entry.direction, dtype: entry.dtype, record }
}

/// A process that drives lines.
struct Worker {
    process: Child,
    requests: ChildStdin,
    records: Lines<BufReader<ChildStdout>>,
    /// Reads what it says on stderr, and keeps the last of it.
    complaints: JoinHandle<String>,
}

impl Worker {
    fn start(settings: &Settings, profile: Option<Profile>) -> Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["drive", "--worker"]).args(arguments(settings));
        if let Some(profile) = profile {
            command.env(PROFILE_VARIABLE, profile.name());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().context("starting a worker")?;
        let requests = process.stdin.take().context("no pipe to the worker")?;
        let records = BufReader::new(process.stdout.take().context("no pipe from the worker")?).lines();
        let stderr = BufReader::new(process.stderr.take().context("no pipe from the worker")?);
        let complaints = thread::spawn(move || stderr.lines().map_while(Result::ok).last().unwrap_or_default());
        Ok(Self { process, requests, records, complaints })
    }

    /// The worker, unless it has ended.
    fn alive(mut self) -> Option<Self> {
        matches!(self.process.try_wait(), Ok(None)).then_some(self)
    }

    fn ask(&mut self, request: &Request) -> Result<Value> {
        const GONE: &str = "the process that drove it ended";
        writeln!(self.requests, "{}", serde_json::to_string(request)?).context(GONE)?;
        let record = self.records.next().context(GONE)?.context(GONE)?;
        serde_json::from_str(&record).context("no record")
    }

    /// How the process ended, which is made sure of, and what it said last.
    fn end(mut self) -> String {
        // It ended by itself, or is of no use any more.
        let _ = self.process.kill();
        let status = self.process.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let last = self.complaints.join().unwrap_or_default();
        if last.is_empty() { status } else { format!("{status}; {last}") }
    }
}

/// The command line that gives a worker the same settings.
fn arguments(settings: &Settings) -> Vec<std::ffi::OsString> {
    let mut arguments = Vec::new();
    for (flag, value) in
        [("--shim", &settings.shim), ("--native", &settings.native), ("--backend", &settings.backend), ("--hip", &settings.hip)]
    {
        if let Some(path) = value {
            arguments.extend([flag.into(), path.clone().into_os_string()]);
        }
    }
    let forwarding = if settings.forwarding == Forwarding::On { "on" } else { "off" };
    arguments.extend(["--forwarding".into(), forwarding.into()]);
    for (flag, given) in [("--keep-environment", settings.keep_environment), ("--unverified", settings.unverified)] {
        if given {
            arguments.push(flag.into());
        }
    }
    arguments
}
