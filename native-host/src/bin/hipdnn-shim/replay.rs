//! `replay`: a recorded corpus, run again: through libMIOpen, each problem verified as `drive` does it; or only translated, which takes every
//! problem, and no library.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead as _, BufReader, Write as _, stdout},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::Args;
use hipdnn_host::translations::Declined;
use serde_json::{Value, json};

use crate::{
    asked,
    drive::{self, CorpusOptions},
    problems,
    record::{Recorded, Routes},
    report::shown::visible,
    rules, translate,
};

/// Command line of `replay`.
#[derive(Args)]
pub struct Options {
    /// Say what the translator makes of each problem, and run nothing
    #[arg(long)]
    translate_only: bool,
    /// With --translate-only: a translator component instead of the built-in one
    #[arg(long, value_name = "FILE.wasm", requires = "translate_only")]
    translator: Option<PathBuf>,
    /// With --translate-only: what the backend can express, as JSON (default: all that the ABI table has)
    #[arg(long, value_name = "FILE", requires = "translate_only")]
    capabilities: Option<PathBuf>,
    /// JSON lines instead of text
    #[arg(long)]
    json: bool,
    /// Only problems of at most so many billions of multiplications
    #[arg(long, default_value_t = 2.0, value_name = "GMAC", conflicts_with = "translate_only")]
    max_gmac: f64,
    /// Only problems whose tensors take at most so many billions of bytes together
    #[arg(long, default_value_t = 1.0, value_name = "GB", conflicts_with = "translate_only")]
    max_gb: f64,
    /// Engine profiles of the reference backend, each a run of its own (default: both)
    #[arg(long = "profile", value_enum, value_name = "PROFILE", conflicts_with = "translate_only")]
    profile: Vec<drive::Profile>,
    /// How many processes run problems at the same time (default: one for each processor)
    #[arg(long, value_name = "N", conflicts_with = "translate_only")]
    jobs: Option<std::num::NonZeroUsize>,
    #[command(flatten)]
    settings: drive::Settings,
    /// What `record` wrote
    #[arg(value_name = "CORPUS")]
    corpus: PathBuf,
}

/// Runs the verb.
pub fn run(options: &Options) -> Result<ExitCode> {
    if options.translate_only {
        return translate(options);
    }
    let corpus = CorpusOptions {
        corpus: Some(options.corpus.clone()),
        op: "conv".into(),
        max_gmac: options.max_gmac,
        max_gb: options.max_gb,
        profile: options.profile.clone(),
        direction: Vec::new(),
        jobs: options.jobs,
    };
    drive::drive_corpus(&options.settings, &corpus, &options.corpus, options.json)
}

/// What the translator makes of each problem, beside what became of it when it was recorded.
fn translate(options: &Options) -> Result<ExitCode> {
    let translator = asked::translator(options.translator.as_deref())?;
    let capabilities = asked::capabilities(options.capabilities.as_deref())?;
    let name = options.corpus.display();
    let file = File::open(&options.corpus).with_context(|| format!("{name} cannot be read"))?;
    let (mut counts, mut out) = (Counts::default(), stdout());
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.with_context(|| name.to_string())?;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let recorded: Recorded = serde_json::from_str(&line).with_context(|| format!("{name}, line {}", number + 1))?;
        let decision = translate::decide(&translator, &capabilities, &recorded.problem);
        let decision = decision.map(|graph| graph.nodes().len());
        let news = news(&recorded, decision.as_ref().err());
        counts.count(&decision, news);
        if options.json {
            writeln!(out, "{}", as_json(&recorded, &decision, news))?;
        } else {
            writeln!(out, "{}\n    {}{}", visible(&recorded.problem.to_string()), words(&decision), news.map_or("", News::words))?;
        }
    }
    counts.print(options.json, &rules::identity(&translator))?;
    Ok(ExitCode::SUCCESS)
}

/// How a decision differs from what became of the calls when they were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// hipDNN served such calls; now they are declined.
    Lost,
    /// The translator declined such calls, by its rules; now there is a graph.
    Won,
}

impl News {
    fn words(self) -> &'static str {
        match self {
            Self::Lost => " (it was served when it was recorded)",
            Self::Won => " (it was declined when it was recorded)",
        }
    }
}

/// Declines of the host say nothing about the translator: those are no news.
fn news(recorded: &Recorded, declined: Option<&Declined>) -> Option<News> {
    let routes = || recorded.calls.values();
    let declined_by_translator = |routes: &Routes| routes.declined.keys().any(|rule| !rule.starts_with("host."));
    match declined {
        Some(_) if routes().any(|routes| routes.served > 0) => Some(News::Lost),
        None if routes().any(declined_by_translator) && !routes().any(|routes| routes.served > 0) => Some(News::Won),
        _ => None,
    }
}

fn words(decision: &Result<usize, Declined>) -> String {
    match decision {
        Ok(1) => "a graph of 1 operation".into(),
        Ok(nodes) => format!("a graph of {nodes} operations"),
        Err(Declined { rule, message }) => format!("declined by {}: {}", visible(rule), visible(message)),
    }
}

fn as_json(recorded: &Recorded, decision: &Result<usize, Declined>, news: Option<News>) -> Value {
    let declined = decision.as_ref().err();
    json!({
        "id": problems::id(&recorded.problem),
        "problem": recorded.problem,
        "operations": decision.as_ref().ok(),
        "rule": declined.map(|declined| &declined.rule),
        "message": declined.map(|declined| &declined.message),
        "recorded": recorded.calls,
        "lost": news == Some(News::Lost),
        "won": news == Some(News::Won),
    })
}

/// What came of all problems.
#[derive(Default)]
struct Counts {
    problems: usize,
    graphs: usize,
    rules: BTreeMap<String, usize>,
    lost: usize,
    won: usize,
}

impl Counts {
    fn count(&mut self, decision: &Result<usize, Declined>, news: Option<News>) {
        self.problems += 1;
        self.graphs += usize::from(decision.is_ok());
        if let Err(Declined { rule, .. }) = decision {
            *self.rules.entry(rule.clone()).or_default() += 1;
        }
        self.lost += usize::from(news == Some(News::Lost));
        self.won += usize::from(news == Some(News::Won));
    }

    fn print(&self, json: bool, translator: &Value) -> Result<()> {
        let Self { problems, graphs, rules, lost, won } = self;
        if json {
            let total = json!({ "problems": problems, "graphs": graphs, "rules": rules, "lost": lost, "won": won });
            writeln!(stdout(), "{}", json!({ "translator": translator, "total": total }))?;
            return Ok(());
        }
        writeln!(stdout(), "\n{graphs} of {problems} problems are translated; against the record {won} more, {lost} fewer")?;
        for (rule, count) in rules {
            writeln!(stdout(), "{count:>6} declined by {}", visible(rule))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::tests::odd;

    #[test]
    fn news_are_what_the_translator_changed() {
        let recorded = |served: u64, rule: Option<&str>| {
            let declined = rule.into_iter().map(|rule| (rule.to_string(), 1)).collect();
            let routes = Routes { served, declined, ..Routes::default() };
            let problem = hipdnn_host::problem::OwnedProblem::Convolution(Box::new(odd()));
            Recorded { problem, calls: BTreeMap::from([("c".to_string(), routes)]) }
        };
        let declined = Declined { rule: "r".into(), message: String::new() };
        assert_eq!(news(&recorded(1, None), Some(&declined)), Some(News::Lost));
        assert_eq!(news(&recorded(0, Some("conv.rule")), None), Some(News::Won));
        for (served, rule, now) in [
            (1, Some("host.capture.cold"), None),
            (0, Some("host.backend.unsupported"), None),
            (0, Some("r"), Some(&declined)),
            (1, None, None),
        ] {
            assert_eq!(news(&recorded(served, rule), now), None);
        }
    }
}
