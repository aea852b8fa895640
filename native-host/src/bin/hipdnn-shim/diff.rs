//! `diff`: what two translators decide differently, over a corpus and random problems.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Args, ValueEnum};
use hipdnn_host::{
    cache::record::to_bytes, capabilities::Capabilities, component::Translator, judge::judge, problem::OwnedProblem, translations::Declined,
};
use serde_json::{Value, json};

use crate::{
    asked, output,
    questions::{self, Question, Questions},
    report::shown::visible,
    rules,
};

/// The word for the translator that is built into this program.
const BUILT_IN: &str = "built-in";
/// Examples of each difference that are told.
const EXAMPLES: usize = 3;

/// Command line of `diff`.
#[derive(Args)]
pub struct Options {
    /// One JSON object for each problem that is decided differently, then one that sums up, instead of text
    #[arg(long)]
    json: bool,
    /// What the backend can express, as JSON (default: all that the ABI table has)
    #[arg(long, value_name = "FILE")]
    capabilities: Option<PathBuf>,
    #[command(flatten)]
    questions: questions::Options,
    /// Exit status 1 if there is any of these
    #[arg(long, value_enum, value_delimiter = ',', value_name = "DIFFERENCE,…")]
    fail_on: Vec<Difference>,
    /// The translator that is used now: a component, or "built-in"
    #[arg(value_name = "A")]
    before: PathBuf,
    /// The one that it is compared with
    #[arg(value_name = "B")]
    after: PathBuf,
}

/// How two decisions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Difference {
    /// A declines, B has a graph
    NewlyForwarded,
    /// A has a graph, B declines
    NewlyDeclined,
    /// Two graphs, or two sets of notes
    Changed,
    /// Both decline, by another rule
    OtherRule,
    /// The same graph, or declined by the same rule
    Same,
}

impl Difference {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    fn words(self) -> &'static str {
        match self {
            Self::NewlyForwarded => "newly forwarded",
            Self::NewlyDeclined => "newly declined",
            Self::Changed => "another graph",
            Self::OtherRule => "declined by another rule",
            Self::Same => "the same",
        }
    }
}

/// What a translator decides: its graph as bytes, or its decline.
type Decided = Result<Vec<u8>, Declined>;

/// Runs the verb.
pub fn run(options: &Options) -> Result<ExitCode> {
    let load = |file: &PathBuf| asked::translator((file.as_os_str() != BUILT_IN).then_some(file.as_path()));
    let (before, after) = (load(&options.before)?, load(&options.after)?);
    let capabilities = asked::capabilities(options.capabilities.as_deref())?;
    let questions = Questions::of(&options.questions)?;
    let bar = output::progress("problems", questions.all.len() as u64)?;
    let mut summary = Summary::default();
    for question in &questions.all {
        bar.inc(1);
        let (a, b) = (decide(&before, &capabilities, &question.problem), decide(&after, &capabilities, &question.problem));
        let difference = difference(&a, &b);
        summary.count(question, difference, (&a, &b));
        if options.json && difference != Difference::Same {
            println!(
                "{}",
                json!({
                    "difference": difference.name(), "source": question.source.json(), "problem": question.problem,
                    "before": decided_json(&a), "after": decided_json(&b),
                })
            );
        }
    }
    bar.finish_and_clear();
    if options.json {
        println!("{}", summary.json(&before, &after));
    } else {
        print!("{}", summary.text(&before, &after));
    }
    let fails = options.fail_on.iter().any(|difference| summary.counts.contains_key(difference));
    Ok(ExitCode::from(u8::from(fails)))
}

fn decide(translator: &Translator, capabilities: &Capabilities, problem: &OwnedProblem) -> Decided {
    problem.with(|problem| {
        let reply = translator.translate(problem, capabilities);
        let bytes = reply.as_ref().ok().map(to_bytes).unwrap_or_default();
        judge(reply, translator.description(), problem).map(|_| bytes)
    })
}

fn difference(before: &Decided, after: &Decided) -> Difference {
    match (before, after) {
        (Err(_), Ok(_)) => Difference::NewlyForwarded,
        (Ok(_), Err(_)) => Difference::NewlyDeclined,
        (Ok(a), Ok(b)) if a != b => Difference::Changed,
        (Err(a), Err(b)) if a.rule != b.rule => Difference::OtherRule,
        _ => Difference::Same,
    }
}

fn decided_json(decided: &Decided) -> Value {
    let declined = decided.as_ref().err();
    json!({ "rule": declined.map(|declined| &declined.rule), "message": declined.map(|declined| &declined.message) })
}

fn words(decided: &Decided) -> &str {
    decided.as_ref().err().map_or("a graph", |declined| &declined.rule)
}

/// Which rules, or graphs, became which.
type Kind = (Difference, String, String);

/// How often each difference occurs, and examples.
#[derive(Default)]
struct Summary {
    counts: BTreeMap<Difference, usize>,
    kinds: BTreeMap<Kind, (usize, Vec<String>)>,
}

impl Summary {
    fn count(&mut self, question: &Question, difference: Difference, (before, after): (&Decided, &Decided)) {
        *self.counts.entry(difference).or_default() += 1;
        if difference == Difference::Same {
            return;
        }
        let (count, examples) = self.kinds.entry((difference, words(before).into(), words(after).into())).or_default();
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(format!("{}\n      ({})", visible(&question.problem.to_string()), visible(&question.source.to_string())));
        }
    }

    fn text(&self, before: &Translator, after: &Translator) -> String {
        let name = |translator: &Translator| {
            let description = translator.description();
            let digest = hipdnn_host::identity::hexadecimal(translator.digest());
            format!("{} {} ({}...)", visible(&description.name), visible(&description.version), &digest[..16])
        };
        let mut text = format!("A: {}\nB: {}\n\n", name(before), name(after));
        for difference in Difference::value_variants() {
            let count = self.counts.get(difference).copied().unwrap_or(0);
            text += &format!("{count:>8} {}\n", difference.words());
        }
        for ((difference, from, to), (count, examples)) in &self.kinds {
            text += &format!("\n{count} {}: {} -> {}\n", difference.words(), visible(from), visible(to));
            examples.iter().for_each(|example| text += &format!("    {example}\n"));
        }
        text
    }

    fn json(&self, before: &Translator, after: &Translator) -> Value {
        let counts: BTreeMap<String, usize> =
            Difference::value_variants().iter().map(|d| (d.name(), self.counts.get(d).copied().unwrap_or(0))).collect();
        let kinds = self.kinds.iter().map(|((difference, from, to), (count, _))| {
            json!({ "difference": difference.name(), "before": from, "after": to, "problems": count })
        });
        json!({ "total": counts, "kinds": kinds.collect::<Vec<_>>(), "before": rules::identity(before), "after": rules::identity(after) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_differ_in_kinds() {
        let declined = |rule: &str, message: &str| Err(Declined { rule: rule.into(), message: message.into() });
        let graph = |bytes: &[u8]| Ok(bytes.to_vec());
        assert_eq!(difference(&declined("a", ""), &graph(b"1")), Difference::NewlyForwarded);
        assert_eq!(difference(&graph(b"1"), &declined("a", "")), Difference::NewlyDeclined);
        assert_eq!(difference(&graph(b"1"), &graph(b"2")), Difference::Changed);
        assert_eq!(difference(&declined("a", ""), &declined("b", "")), Difference::OtherRule);
        assert_eq!(difference(&declined("a", "x"), &declined("a", "y")), Difference::Same);
        assert_eq!(difference(&graph(b"1"), &graph(b"1")), Difference::Same);
    }
}
