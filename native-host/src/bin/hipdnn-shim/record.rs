//! `record`: the problems of a production run, from its statistics files or its JSON trace, as a corpus: one JSON object a line, with the
//! problem and what became of its calls, those with most calls first. Reads and writes files; drives and translates nothing.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use hipdnn_host::{census::Counters, problem::OwnedProblem};
use serde::{Deserialize, Serialize};

use crate::report::{self, Unreadable, read_stats};

/// Command line of `record`.
#[derive(Args)]
pub struct Options {
    /// Statistics files (MIOPEN_HIPDNN_STATS) or traces in JSON lines (MIOPEN_HIPDNN_TRACE)
    #[arg(required = true, value_name = "STATS|TRACE")]
    files: Vec<PathBuf>,
    /// Where the corpus goes (default: standard output)
    #[arg(short, long, value_name = "FILE.jsonl")]
    output: Option<PathBuf>,
}

/// A line of a recorded corpus.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// What was to be computed.
    pub problem: OwnedProblem,
    /// What became of its calls, by entry point.
    #[serde(default)]
    pub calls: BTreeMap<String, Routes>,
}

/// What became of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Routes {
    /// hipDNN served them.
    pub served: u64,
    /// hipDNN failed them.
    pub failed: u64,
    /// They went to native, by rule.
    pub declined: BTreeMap<String, u64>,
    /// The caller gave them to native, by rule.
    pub native: BTreeMap<String, u64>,
}

impl Routes {
    fn of(counters: &Counters) -> Self {
        let Counters { served, failed, declined, native, .. } = counters;
        Self { served: *served, failed: *failed, declined: declined.clone(), native: native.clone() }
    }

    fn add(&mut self, other: &Self) {
        self.served = self.served.saturating_add(other.served);
        self.failed = self.failed.saturating_add(other.failed);
        for (own, others) in [(&mut self.declined, &other.declined), (&mut self.native, &other.native)] {
            for (rule, count) in others {
                let own = own.entry(rule.clone()).or_default();
                *own = own.saturating_add(*count);
            }
        }
    }

    fn calls(&self) -> u64 {
        let rules = self.declined.values().chain(self.native.values());
        rules.fold(self.served.saturating_add(self.failed), |all, count| all.saturating_add(*count))
    }
}

/// A line of a trace, as far as it matters here.
#[derive(Deserialize)]
struct TraceLine {
    call: String,
    route: String,
    rule: Option<String>,
    problem: Option<OwnedProblem>,
}

/// The problems of all files, each once.
#[derive(Default)]
struct Corpus(HashMap<String, Recorded>);

/// Runs the verb.
pub fn run(options: &Options) -> Result<ExitCode> {
    let mut corpus = Corpus::default();
    for file in &options.files {
        corpus.add_file(file).with_context(|| file.display().to_string())?;
    }
    ensure!(!corpus.0.is_empty(), "the files hold no problem");
    let mut text = String::new();
    for line in corpus.sorted() {
        text += &serde_json::to_string(line)?;
        text.push('\n');
    }
    match &options.output {
        Some(output) => report::write(output, &text)?,
        None => print!("{text}"),
    }
    Ok(ExitCode::SUCCESS)
}

impl Corpus {
    fn add(&mut self, problem: &OwnedProblem, call: &str, routes: &Routes) -> Result<()> {
        let line = self.0.entry(serde_json::to_string(problem)?);
        let line = line.or_insert_with(|| Recorded { problem: problem.clone(), calls: BTreeMap::new() });
        line.calls.entry(call.to_string()).or_default().add(routes);
        Ok(())
    }

    fn add_file(&mut self, path: &Path) -> Result<()> {
        match read_stats(path) {
            Ok(stats) => stats.problems.iter().try_for_each(|p| self.add(&p.problem, &p.call, &Routes::of(&p.counters))),
            // A trace is longer than statistics may be, and no single document.
            Err(Unreadable::Foreign(_) | Unreadable::Huge(_)) => self.add_trace(path),
            Err(error) => Err(error.into()),
        }
    }

    fn add_trace(&mut self, path: &Path) -> Result<()> {
        let (mut good, mut bad) = (0u64, 0u64);
        for line in BufReader::new(File::open(path)?).split(b'\n') {
            let line = line?;
            if line.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice::<TraceLine>(&line) {
                Ok(event) => {
                    good += 1;
                    self.add_event(&event)?;
                }
                Err(_) => bad += 1,
            }
        }
        if good == 0 {
            bail!("it holds neither statistics nor a trace in JSON lines of hipdnn-shim");
        }
        if bad > 0 {
            // What else a program prints on stderr, and the last line of one that was killed.
            eprintln!("hipdnn-shim: {}: passed over {bad} of {} lines, which are no trace lines", path.display(), good + bad);
        }
        Ok(())
    }

    fn add_event(&mut self, event: &TraceLine) -> Result<()> {
        let Some(problem) = &event.problem else { return Ok(()) };
        let mut routes = Routes::default();
        match (event.route.as_str(), &event.rule) {
            ("hipdnn", _) => routes.served = 1,
            // The caller's choice, not a decline.
            ("native", Some(rule)) if rule.starts_with("host.policy.") => drop(routes.native.insert(rule.clone(), 1)),
            ("native", Some(rule)) => drop(routes.declined.insert(rule.clone(), 1)),
            _ => routes.failed = 1,
        }
        self.add(problem, &event.call, &routes)
    }

    /// Those with most calls first.
    fn sorted(&self) -> Vec<&Recorded> {
        let mut lines: Vec<(&String, &Recorded)> = self.0.iter().collect();
        let calls = |line: &Recorded| line.calls.values().map(Routes::calls).fold(0, u64::saturating_add);
        lines.sort_by_key(|(text, line)| (std::cmp::Reverse(calls(line)), *text));
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::tests::odd;

    #[test]
    fn a_trace_becomes_a_corpus() {
        let (one, other) = (odd(), hipdnn_host::problem::OwnedConvolution { beta: 0.0, ..odd() });
        let [one, other] = [one, other].map(|p| OwnedProblem::Convolution(Box::new(p)));
        let line = |problem: &OwnedProblem, route: &str, rule: Option<&str>| {
            serde_json::json!({ "call": "c", "route": route, "rule": rule, "problem": problem, "cold": true }).to_string()
        };
        let lines = [
            line(&other, "native", Some("host.policy.native-solution")),
            line(&one, "hipdnn", None),
            "[MIOpen->hipDNN] something else".into(),
            line(&one, "native", Some("some.rule")),
            line(&one, "failed", None),
            serde_json::json!({ "call": "c", "route": "native", "rule": "host.descriptor.unrecorded" }).to_string(),
            line(&one, "hipdnn", None)[..40].to_string(),
        ];
        let path = std::env::temp_dir().join(format!("hipdnn-shim-record-{}.jsonl", std::process::id()));
        std::fs::write(&path, lines.join("\n")).unwrap();
        let mut corpus = Corpus::default();
        let result = corpus.add_file(&path);
        std::fs::write(&path, "no trace\n").unwrap();
        let foreign = Corpus::default().add_file(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        result.unwrap();
        assert!(foreign.contains("neither statistics nor a trace"), "{foreign}");
        let sorted = corpus.sorted();
        assert_eq!(sorted.iter().map(|line| &line.problem).collect::<Vec<_>>(), [&one, &other]);
        let declined = BTreeMap::from([("some.rule".to_string(), 1)]);
        assert_eq!(sorted[0].calls["c"], Routes { served: 1, failed: 1, declined, native: BTreeMap::new() });
        assert_eq!((sorted[1].calls["c"].native.len(), sorted[1].calls["c"].calls()), (1, 1));
    }
}
