//! What came of a check: counts, and the first examples of everything that is wrong, for people and for programs.

use std::{collections::BTreeMap, process::ExitCode};

use hipdnn_host::{
    component::Translator,
    offline::examine::{Duty, Examined, Fault},
};
use serde_json::{Value, json};

use super::numbers::Outcome;
use crate::{
    questions::{Question, Questions, Source},
    report::shown::visible,
    rules,
};

/// Examples that are kept of each duty.
const EXAMPLES: usize = 5;

/// What came of a check.
#[derive(Default)]
pub struct Report {
    problems: usize,
    others: usize,
    refused: Vec<String>,
    graphs: usize,
    rules: BTreeMap<String, usize>,
    faults: BTreeMap<Duty, Vec<(Option<Example>, String)>>,
    counts: BTreeMap<Duty, usize>,
    right: usize,
    not_executed: BTreeMap<String, usize>,
}

/// A problem with which something is wrong.
struct Example {
    source: Source,
    problem: Value,
    text: String,
}

/// Prints that a translator cannot be used at all.
pub fn refused(error: &anyhow::Error, json: bool) -> ExitCode {
    let why = format!("{error:#}");
    if json {
        println!("{}", json!({ "ok": false, "refused": why }));
    } else {
        println!("refused: {}", visible(&why));
    }
    ExitCode::from(1)
}

/// A reason without the list that tells one problem from another.
fn without_lists(why: &str) -> String {
    match (why.split_once(" ["), why.split_once(']')) {
        (Some((before, _)), Some((_, after))) => format!("{before}{after}"),
        _ => why.to_string(),
    }
}

impl Report {
    /// Of nothing yet.
    pub fn of(questions: &Questions) -> Self {
        Self { problems: questions.all.len(), others: questions.others, refused: questions.refused.clone(), ..Self::default() }
    }

    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.counts.is_empty()
    }

    /// Faults of what the translator says about itself.
    pub fn manifest(&mut self, faults: Vec<Fault>) {
        for fault in faults {
            self.keep(None, fault);
        }
    }

    /// Counts a problem.
    pub fn count(&mut self, question: &Question, examined: &Examined) {
        match &examined.decision {
            Ok(_) => self.graphs += 1,
            Err(declined) => *self.rules.entry(declined.rule.clone()).or_default() += 1,
        }
        for fault in &examined.faults {
            self.fault(question, fault.clone());
        }
    }

    /// Counts a fault.
    pub fn fault(&mut self, question: &Question, fault: Fault) {
        self.keep(Some(question), fault);
    }

    fn keep(&mut self, question: Option<&Question>, fault: Fault) {
        *self.counts.entry(fault.duty).or_default() += 1;
        let kept = self.faults.entry(fault.duty).or_default();
        if kept.len() < EXAMPLES {
            let example = question.map(|question| Example {
                source: question.source.clone(),
                problem: json!(question.problem),
                text: question.problem.to_string(),
            });
            kept.push((example, fault.detail));
        }
    }

    /// Counts an execution.
    pub fn numbers(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Right => self.right += 1,
            Outcome::Wrong(_) => {}
            Outcome::Not(why) => *self.not_executed.entry(without_lists(&why)).or_default() += 1,
        }
    }

    /// Prints all of it.
    pub fn print(&self, json: bool, translator: &Translator) {
        if json {
            println!("{}", self.json(translator));
        } else {
            print!("{}", self.text(translator));
        }
    }

    fn text(&self, translator: &Translator) -> String {
        let description = translator.description();
        let mut lines = vec![
            format!("{} {}: contract spoken, no imports", visible(&description.name), visible(&description.version)),
            format!(
                "{} problems: {} become graphs, {} are declined by {} rules",
                self.problems,
                self.graphs,
                self.problems - self.graphs,
                self.rules.len()
            ),
        ];
        if self.others + self.refused.len() > 0 {
            lines.push(format!("not asked: {} lines of other operations, {} that describe no problem", self.others, self.refused.len()));
        }
        for duty in Duty::ALL {
            let count = self.counts.get(duty).copied().unwrap_or(0);
            lines.push(format!("{} {:<11} {}", if count == 0 { "ok    " } else { "FAILED" }, duty.id(), duty.sentence()));
            if *duty == Duty::Numbers {
                lines.push(format!("                   {} distinct graphs executed and right", self.right));
                let not = self.not_executed.iter().map(|(why, count)| format!("                   {count} not executed: {}", visible(why)));
                lines.extend(not);
            }
            if count > 0 {
                lines.push(format!("                   {count} times, for example"));
            }
            for (example, detail) in self.faults.get(duty).into_iter().flatten() {
                lines.push(format!("       {}", visible(detail)));
                if let Some(Example { source, text, .. }) = example {
                    lines.push(format!("         for {}", visible(text)));
                    lines.push(format!("         ({})", visible(&source.to_string())));
                }
            }
        }
        lines.join("\n") + "\n"
    }

    fn json(&self, translator: &Translator) -> Value {
        let example = |(example, detail): &(Option<Example>, String)| {
            let (source, problem) = (example.as_ref().map(|e| e.source.json()), example.as_ref().map(|e| &e.problem));
            json!({ "detail": detail, "source": source, "problem": problem })
        };
        let duty = |duty: &Duty| {
            json!({
                "id": duty.id(),
                "sentence": duty.sentence(),
                "faults": self.counts.get(duty).copied().unwrap_or(0),
                "examples": self.faults.get(duty).into_iter().flatten().map(example).collect::<Vec<_>>(),
            })
        };
        json!({
            "ok": self.is_good(),
            "translator": rules::identity(translator),
            "problems": self.problems,
            "graphs": self.graphs,
            "rules": self.rules,
            "not_asked": { "other_operations": self.others, "refused": self.refused },
            "numbers": { "right": self.right, "not_executed": self.not_executed },
            "duties": Duty::ALL.iter().map(duty).collect::<Vec<_>>(),
        })
    }
}
