//! `check`: whether a translator keeps the contract for every problem of a corpus and for random ones, and whether its graphs compute what
//! the problems define. What is owed is in the host's `offline::examine`; graphs are executed in [`numbers`]; [`report`] is what came of it.

mod chain;
mod numbers;
mod report;

use std::{collections::HashSet, process::ExitCode};

use anyhow::Result;
use clap::Args;
use hipdnn_host::{
    component::Translator,
    offline::examine::{Duty, Fault, examine, examine_manifest},
};

use self::{numbers::Executor, report::Report};
use crate::{
    asked::Asked,
    output,
    questions::{self, Questions},
};

/// Command line of `check`.
#[derive(Args)]
pub struct Options {
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    questions: questions::Options,
    #[command(flatten)]
    numbers: numbers::Options,
}

/// What is checked, for the help text.
pub fn help() -> String {
    let duties: String = Duty::ALL.iter().map(|duty| format!("  {:<11} {}\n", duty.id(), duty.sentence())).collect();
    format!("A translator…\n{duties}\nThat it imports nothing, and speaks a version of the contract, is found out before it is compiled.\n")
}

/// Runs the verb.
pub fn run(options: &Options) -> Result<ExitCode> {
    let translator = match options.asked.translator() {
        Ok(translator) => translator,
        Err(error) => return Ok(report::refused(&error, options.json)),
    };
    let report = check(&translator, options)?;
    report.print(options.json, &translator);
    Ok(ExitCode::from(u8::from(!report.is_good())))
}

fn check(translator: &Translator, options: &Options) -> Result<Report> {
    let capabilities = options.asked.capabilities()?;
    let questions = Questions::of(&options.questions)?;
    let executor = Executor::open(&options.numbers)?;
    let bar = output::progress("problems", questions.all.len() as u64)?;
    let mut report = Report::of(&questions);
    report.manifest(examine_manifest(translator.description()));
    let mut graphs = HashSet::new();
    for question in &questions.all {
        bar.inc(1);
        let examined = examine(translator, &capabilities, &question.problem);
        report.count(question, &examined);
        // Problems of one graph have one answer.
        if let (Ok(graph), Some(executor), Some(bytes)) = (&examined.decision, &executor, examined.bytes)
            && graphs.insert(bytes)
        {
            let outcome = executor.judge(graph, &question.problem);
            if let numbers::Outcome::Wrong(how) = &outcome {
                report.fault(question, Fault::new(Duty::Numbers, how.clone()));
            }
            report.numbers(outcome);
        }
    }
    bar.finish_and_clear();
    Ok(report)
}
