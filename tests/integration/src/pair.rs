//! One client run with forwarding off and on: that both print the same, where the calls of the forwarded run went, and which calls native
//! saw. Knows the lines of `tests/clients/problem.h`, and no style of calls.

use std::fs;

use anyhow::{Context as _, Result};

use crate::{Client, Finished, Run, reference, trace_lines};

/// Lines that say what the executing library has of its own, by their first word.
const OWN: &[&str] = &["bytes", "perf", "solution", "solver"];

/// A line of the trace.
#[derive(Debug)]
pub struct Traced {
    /// The MIOpen function.
    pub call: String,
    /// `hipdnn`, `native` or `failed`.
    pub route: String,
    /// Rule of a decline, else empty.
    pub rule: String,
    /// How it compares with native's result, or null.
    pub verified: serde_json::Value,
}

/// What a run printed and did.
#[derive(Debug)]
pub struct Ran {
    /// Output.
    pub finished: Finished,
    /// The functions that native was called by, in order.
    pub native: Vec<String>,
    /// The routed calls, in order.
    pub trace: Vec<Traced>,
}

/// The same program with forwarding off and on.
#[derive(Debug)]
pub struct Pair {
    /// Off: all is native's.
    pub off: Ran,
    /// On.
    pub on: Ran,
}

/// Whether a route is taken.
#[derive(Clone, Copy, Debug)]
pub enum Route<'a> {
    /// hipDNN executes.
    Hipdnn,
    /// Native does, because of a rule whose id begins so.
    Native(&'a str),
}

impl Route<'_> {
    fn is_of(self, line: &Traced) -> bool {
        match self {
            Self::Hipdnn => line.route == "hipdnn" && line.rule.is_empty(),
            Self::Native(rule) => line.route == "native" && line.rule.starts_with(rule),
        }
    }
}

/// Runs a client, with variables of the test's own.
pub fn run(client: &Client, arguments: &[&str], variables: &[(&str, &str)], forwarding: bool) -> Result<Ran> {
    let folder = tempfile::tempdir()?;
    let (log, trace) = (folder.path().join("native"), folder.path().join("trace.jsonl"));
    let run = client.run().env("REFERENCE_MIOPEN_LOG", &log).env("MIOPEN_HIPDNN_TRACE", &trace);
    let run = variables.iter().fold(run, |run: Run, (name, value)| run.env(name, value));
    let finished = if forwarding { run.forwarding() } else { run }.output(arguments)?;
    let native = fs::read_to_string(&log).context("native was never called")?;
    let native = native.lines().filter_map(|line| Some(line.split(' ').next()?.to_string())).collect();
    Ok(Ran { finished, native, trace: if trace.exists() { traced(&trace_lines(&trace)?) } else { Vec::new() } })
}

fn traced(lines: &[serde_json::Value]) -> Vec<Traced> {
    let text = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap_or_default().to_string();
    let traced = |line: &serde_json::Value| Traced {
        call: text(line, "call"),
        route: text(line, "route"),
        rule: text(line, "rule"),
        verified: line["verified"].clone(),
    };
    lines.iter().map(traced).collect()
}

/// Folders in which clients that capture their stream find HIP.
pub fn with_hip() -> String {
    format!("{}:{}", crate::dist().join("lib").display(), reference("").display())
}

impl Ran {
    /// Lines whose text after problem and direction begins with a word: that text.
    pub fn lines<'a>(&'a self, word: &str) -> Vec<&'a str> {
        let own = self.finished.stdout.lines().map(about);
        own.filter(|text| text.split([' ', ',']).next() == Some(word)).collect()
    }

    /// The numbers behind a word, one list for each of its lines.
    pub fn numbers(&self, word: &str) -> Vec<Vec<u64>> {
        let number = |text: &&str| text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        self.lines(word).iter().map(number).collect()
    }

    /// Trace lines of some functions.
    pub fn routed(&self, calls: &[&str]) -> Vec<&Traced> {
        self.trace.iter().filter(|line| calls.contains(&line.call.as_str())).collect()
    }

    /// All calls of some functions went one way, and there were so many.
    pub fn went(&self, calls: &[&str], count: usize, route: Route<'_>) {
        let lines = self.routed(calls);
        let other = lines.iter().find(|line| !route.is_of(line));
        assert!(other.is_none(), "not {route:?}: {other:?}");
        assert_eq!(lines.len(), count, "{calls:?}");
    }

    /// How often native was called by any of these names.
    pub fn natives(&self, calls: &[&str]) -> usize {
        self.native.iter().filter(|call| calls.contains(&call.as_str())).count()
    }

    /// Everything was computed, and is what the definition says.
    pub fn all_right(&self, count: usize) {
        let lines = self.lines("right");
        assert!(lines.len() == count && lines.iter().all(|line| *line == "right 1"), "{lines:?}\n{}", self.finished.stderr);
    }
}

impl Pair {
    /// Runs both.
    pub fn run(client: &Client, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Self> {
        let off = run(client, arguments, variables, false)?;
        assert!(off.trace.is_empty() && off.finished.messages().is_empty(), "{off:?}");
        Ok(Self { off, on: run(client, arguments, variables, true)? })
    }

    /// Both printed the same, but for what is the executing library's own, and for the last digits of numbers; all is right, and there are
    /// so many results.
    pub fn same(&self, results: usize) {
        let lines = |ran: &Ran| -> Vec<String> {
            let lines = ran.finished.stdout.lines().filter(|line| !is_own(about(line)));
            lines.map(String::from).collect()
        };
        let (off, on) = (lines(&self.off), lines(&self.on));
        for (off, on) in off.iter().zip(&on) {
            assert!(off == on || nearly(off, on), "off: {off:.200}\non:  {on:.200}");
        }
        assert_eq!(off.len(), on.len());
        self.off.all_right(results);
        self.on.all_right(results);
    }
}

/// A line without its first two words, problem and direction.
fn about(line: &str) -> &str {
    line.splitn(3, ' ').nth(2).unwrap_or_default()
}

fn is_own(text: &str) -> bool {
    text.split(' ').next().is_some_and(|word| OWN.contains(&word))
}

/// Lines of the same words and nearly the same numbers. What was poison in one must be so in the other.
fn nearly(a: &str, b: &str) -> bool {
    let close = |(a, b): (&str, &str)| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(x), Ok(y)) if about(a).is_empty() => (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-5 * (1.0 + x.abs()),
        _ => a == b,
    };
    about(a).starts_with("y ") && a.split(' ').count() == b.split(' ').count() && a.split(' ').zip(b.split(' ')).all(close)
}
