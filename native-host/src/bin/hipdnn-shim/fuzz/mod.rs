//! `fuzz`: looks for problems for which a translator does not do its duties, by random and by bent problems, and makes what it finds as
//! simple as it can be. What is owed is in the host's `offline::examine`; what lasts from run to run is in [`state`].

mod state;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Args;
use hipdnn_host::{
    capabilities::Capabilities,
    component::Translator,
    offline::{
        choices::Choices,
        examine::{Examined, Fault, examine, examine_manifest},
        problems::{generate, mutate::mutate, shrink::shrink},
    },
    problem::OwnedProblem,
};
use indicatif::ProgressBar;
use serde_json::json;

use self::state::{Finding, State};
use crate::{asked::Asked, output, problems, questions::Questions, report::shown::visible};

/// How many problems are tried to make one that was found simpler.
const SHRINKING: usize = 5000;
/// How often the state is written.
const SAVING: Duration = Duration::from_secs(2);

/// Command line of `fuzz`.
#[derive(Args)]
pub struct Options {
    /// One JSON object for each finding, then one that sums up, instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    asked: Asked,
    /// So many problems in this run
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    runs: u64,
    /// And no longer than so many seconds
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A folder in which the state is kept: another run goes on where this one stopped
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// A file of driver lines or recorded problems to begin with; may be given several times
    #[arg(long, value_name = "FILE")]
    corpus: Vec<PathBuf>,
}

/// Runs the verb.
pub fn run(options: &Options) -> Result<ExitCode> {
    let translator = options.asked.translator()?;
    let capabilities = options.asked.capabilities()?;
    let mut state = State::open(options.state.as_deref(), options.seed, &translator)?;
    let mut questions = Questions::default();
    for file in &options.corpus {
        questions.read(file)?;
    }
    let bar = output::progress("problems", options.runs)?;
    let mut fuzzer = Fuzzer { translator: &translator, capabilities: &capabilities, state: &mut state, bar: &bar, json: options.json };
    for fault in examine_manifest(translator.description()) {
        let finding = Finding::of_manifest(&fault);
        fuzzer.state.keep(&finding, &fault)?;
        fuzzer.tell(&finding);
    }
    for question in &questions.all {
        fuzzer.try_problem(&question.problem)?;
    }
    let end = options.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut saved = Instant::now();
    for _ in 0..options.runs {
        fuzzer.step()?;
        if saved.elapsed() > SAVING {
            fuzzer.state.save()?;
            saved = Instant::now();
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
    }
    fuzzer.state.save()?;
    bar.finish_and_clear();
    if options.json {
        println!("{}", state.json(&translator))
    } else {
        print!("{}", state.text())
    }
    Ok(ExitCode::from(u8::from(state.found_anything())))
}

/// A run.
struct Fuzzer<'a> {
    translator: &'a Translator,
    capabilities: &'a Capabilities,
    state: &'a mut State,
    bar: &'a ProgressBar,
    json: bool,
}

impl Fuzzer<'_> {
    /// Makes the next problem, and tries it.
    fn step(&mut self) -> Result<()> {
        let mut choices = Choices::numbered(self.state.seed(), self.state.next());
        let mut problem = match self.state.pick(&mut choices) {
            Some(problem) => problem,
            None => generate::any(&mut choices),
        };
        for _ in 0..choices.below(4) {
            mutate(&mut problem, &mut choices);
        }
        self.try_problem(&problem)?;
        self.bar.inc(1);
        if self.state.tried().is_multiple_of(256) {
            self.bar.set_message(format!("({} kinds of answers, {} findings)", self.state.kinds(), self.state.findings()));
        }
        Ok(())
    }

    fn try_problem(&mut self, problem: &OwnedProblem) -> Result<()> {
        let examined = examine(self.translator, self.capabilities, problem);
        self.state.count(problem, &kind(&examined), &examined);
        for fault in &examined.faults {
            if self.state.is_new(fault) {
                let finding = self.simplified(problem, fault);
                self.state.keep(&finding, fault)?;
                self.tell(&finding);
            }
        }
        Ok(())
    }

    /// The simplest problem with which the translator fails in the same duty.
    fn simplified(&self, problem: &OwnedProblem, fault: &Fault) -> Finding {
        let again = |problem: &OwnedProblem| {
            examine(self.translator, self.capabilities, problem).faults.into_iter().find(|other| other.duty == fault.duty)
        };
        let shrunk = shrink(problem, SHRINKING, &mut |problem| again(problem).is_some());
        // One that fails only sometimes is told with what was seen first.
        let detail = again(&shrunk.problem).map_or_else(|| fault.detail.clone(), |again| again.detail);
        Finding::new(fault.duty, detail, shrunk.problem, problem)
    }

    fn tell(&self, finding: &Finding) {
        self.bar.suspend(|| if self.json { println!("{}", json!(finding)) } else { print!("{}", text(finding)) });
    }
}

/// What sort of answer it is: two problems of one sort take the same way through the rules, as far as that can be seen.
fn kind(examined: &Examined) -> String {
    match &examined.decision {
        Err(declined) => format!("declined {}", declined.rule),
        Ok(graph) => {
            let operations: Vec<String> =
                graph.nodes().iter().map(|node| format!("{}/{}", node.operation, node.attributes.len())).collect();
            let rank = graph.tensors().first().map_or(0, |tensor| tensor.dims.len());
            format!("graph {} rank {rank} {:?} {}", operations.join(" "), graph.types(), graph.notes().join(" "))
        }
    }
}

fn text(finding: &Finding) -> String {
    let mut text = format!("FOUND {}: {}\n", finding.duty, visible(&finding.detail));
    if let Some(problem) = &finding.problem {
        text += &format!("  {}\n  {}\n", visible(&problem.to_string()), json!({ "problem": problem }));
        if let Some(line) = problems::driver_line(problem) {
            text += &format!("  {line}\n");
        }
    }
    text
}
