//! `explain`: in words, why a problem is declined and what would have to be otherwise, or how it is translated. Rules and reasons are the
//! manifest's and the host's; what would help is found by trying.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Args;
use hipdnn_host::{
    component::{Description, Translator},
    graph::{Attribute, Node, Value as AttributeValue},
    key::KeyBuffer,
    offline::repair::{Repair, repairs},
    problem::OwnedProblem,
    rules::HostRule,
    translations::Declined,
    validate::ValidatedGraph,
};
use serde_json::{Value, json};

use crate::{
    Usage,
    asked::Asked,
    questions::{self, Questions},
    report::shown::visible,
    rules,
    translate::{Decision, decide, operation_name, type_name, value_text},
};

/// How many ways out are told.
const REPAIRS_TOLD: usize = 6;

/// Command line of `explain`.
#[derive(Args)]
pub struct Options {
    /// One JSON object for each problem, instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    asked: Asked,
    /// The problems of a file instead: driver lines, what `record` wrote, or what `fuzz` found
    #[arg(long, value_name = "FILE", conflicts_with = "line")]
    corpus: Option<PathBuf>,
    /// The MIOpenDriver line: base name and flags
    #[arg(value_name = "BASE FLAGS", required_unless_present = "corpus", trailing_var_arg = true, allow_hyphen_values = true)]
    line: Vec<String>,
}

/// Runs the verb.
pub fn run(options: &Options) -> Result<ExitCode> {
    let translator = options.asked.translator()?;
    let capabilities = options.asked.capabilities()?;
    for (name, problem) in problems(options)? {
        let mut ask = |problem: &OwnedProblem| decide(&translator, &capabilities, problem);
        let explanation = Explanation::of(translator.description(), &problem, &mut ask);
        if options.json {
            println!("{}", explanation.json(&translator, &name, &problem));
        } else {
            println!("{}\n  {}\n{}", visible(&name), visible(&problem.to_string()), explanation.text());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn problems(options: &Options) -> Result<Vec<(String, OwnedProblem)>> {
    let Some(file) = &options.corpus else {
        let named = questions::of_line(&options.line)?;
        return Ok(named.into_iter().map(|(name, problem)| (name.unwrap_or_default(), problem)).collect());
    };
    let mut questions = Questions::default();
    questions.read(file)?;
    if let Some(refused) = questions.refused.first() {
        return Err(Usage(refused.clone()).into());
    }
    Ok(questions.all.into_iter().map(|question| (question.source.to_string(), question.problem)).collect())
}

/// Everything there is to say about a problem.
struct Explanation {
    decision: Decision,
    /// Why the rule is there, and whose it is.
    reason: Option<(String, &'static str)>,
    repairs: Vec<Repair>,
    /// Notes of the graph with their reasons, and whether a note is the name of a decline.
    notes: Vec<(String, String, bool)>,
    /// What the call's arguments are called.
    operands: Vec<&'static str>,
    /// What of the host's checks can be told here.
    host: Vec<(HostRule, &'static str)>,
}

impl Explanation {
    fn of(manifest: &Description, problem: &OwnedProblem, ask: &mut dyn FnMut(&OwnedProblem) -> Decision) -> Self {
        let decision = ask(problem);
        let reason = decision.as_ref().err().map(|declined| reason(manifest, &declined.rule));
        let repairs = if decision.is_err() { repairs(problem, &mut |changed| ask(changed).is_ok()) } else { Vec::new() };
        let note = |id: &String| {
            let told = manifest.notes.iter().find(|note| note.id == *id).map_or_else(String::new, |note| note.reason.clone());
            (id.clone(), told, manifest.rules.iter().any(|rule| rule.id == *id))
        };
        let notes = decision.iter().flat_map(ValidatedGraph::notes).map(note).collect();
        let operands = problem.with(|problem| problem.operands().map(|all| all.iter().map(|operand| operand.name).collect()));
        Self { decision, reason, repairs, notes, operands: operands.unwrap_or_default(), host: host_checks(problem) }
    }

    fn text(&self) -> String {
        let mut lines = Vec::new();
        match &self.decision {
            Err(declined) => self.tell_decline(declined, &mut lines),
            Ok(graph) => self.tell_graph(graph, &mut lines),
        }
        lines.extend(self.host.iter().map(|(rule, why)| format!("the host declines it before: {}: {why}", rule.id())));
        lines.push(String::new());
        lines.join("\n")
    }

    fn tell_decline(&self, declined: &Declined, lines: &mut Vec<String>) {
        lines.push(format!("declined by {}: native MIOpen computes it", visible(&declined.rule)));
        if let Some((reason, whose)) = &self.reason {
            lines.push(format!("  the rule ({whose}): {}", visible(reason)));
        }
        lines.push(format!("  here: {}", visible(&declined.message)));
        if self.repairs.is_empty() {
            lines.push("  nothing that is usual, alone or two at a time, would change that".into());
        }
        for Repair { changes, lengths_follow } in self.repairs.iter().take(REPAIRS_TOLD) {
            let changes = changes.iter().map(|c| format!("{} {} instead of {}", c.part, c.to, c.from)).collect::<Vec<_>>().join(" and ");
            let follow = if *lengths_follow { ", and the lengths that follow" } else { "" };
            lines.push(format!("  it would be translated with {}{follow}", visible(&changes)));
        }
        if self.repairs.len() > REPAIRS_TOLD {
            lines.push(format!("  (and {} other ways)", self.repairs.len() - REPAIRS_TOLD));
        }
    }

    fn tell_graph(&self, graph: &ValidatedGraph, lines: &mut Vec<String>) {
        let count = graph.nodes().len();
        lines.push(format!("translated to a graph of {count} operation{}, which the host passes", if count == 1 { "" } else { "s" }));
        lines.extend(graph.nodes().iter().map(|node| format!("  {}", in_words(node, graph, &self.operands))));
        if let Some(compute) = graph.types()[0] {
            lines.push(format!("  computed in {}", type_name(compute)));
        }
        for (id, told, _) in &self.notes {
            lines.push(format!("  note {}: {}", visible(id), visible(told)));
        }
        let rule = self.notes.iter().find(|(.., is_rule)| *is_rule).map_or(HostRule::BackendUnsupported.id(), |(id, ..)| id);
        lines.push(format!("  if no engine of the backend takes it, it is declined by {}; that cannot be known here", visible(rule)));
    }

    fn json(&self, translator: &Translator, name: &str, problem: &OwnedProblem) -> Value {
        let declined = self.decision.as_ref().err();
        let set = |repair: &Repair| {
            let changes = repair.changes.iter().map(|c| json!({ "part": c.part, "from": c.from, "to": c.to })).collect::<Vec<_>>();
            json!({ "changes": changes, "lengths_follow": repair.lengths_follow })
        };
        let operations =
            |graph: &ValidatedGraph| graph.nodes().iter().map(|node| in_words(node, graph, &self.operands)).collect::<Vec<_>>();
        json!({
            "command": name,
            "problem": problem,
            "translator": rules::identity(translator),
            "rule": declined.map(|declined| &declined.rule),
            "reason": self.reason.as_ref().map(|(reason, _)| reason),
            "whose": self.reason.as_ref().map(|(_, whose)| whose),
            "message": declined.map(|declined| &declined.message),
            "would_be_translated_with": self.repairs.iter().map(set).collect::<Vec<_>>(),
            "operations": self.decision.as_ref().ok().map(operations),
            "notes": self.notes.iter().map(|(id, reason, _)| json!({ "id": id, "reason": reason })).collect::<Vec<_>>(),
            "host": self.host.iter().map(|(rule, why)| json!({ "rule": rule.id(), "message": why })).collect::<Vec<_>>(),
        })
    }
}

/// The reason of a rule, and whose rule it is.
fn reason(manifest: &Description, rule: &str) -> (String, &'static str) {
    match HostRule::of(rule) {
        Some(host) if rule.starts_with("host.translator.") || rule.starts_with("host.graph.") => {
            (host.reason().into(), "the host's; the translator is at fault")
        }
        Some(host) => (host.reason().into(), "the host's"),
        None => {
            let entry = manifest.rules.iter().find(|entry| entry.id == rule);
            (entry.map_or_else(String::new, |entry| entry.reason.clone()), "the translator's")
        }
    }
}

/// The host's checks that need nothing but the problem.
fn host_checks(problem: &OwnedProblem) -> Vec<(HostRule, &'static str)> {
    problem.with(|problem| {
        let mut checks = Vec::new();
        if !KeyBuffer::default().fill(problem) {
            checks.push((HostRule::ProblemSize, "it has more parts than the key of a problem holds"));
        }
        match problem.operands() {
            None => checks.push((HostRule::ProblemSize, "it has more tensors than a call may have")),
            Some(operands) if operands.iter().any(|operand| operand.tensor.extent().is_none()) => {
                checks.push((HostRule::ExtentUnknown, "the extent of a tensor cannot be computed"));
            }
            Some(_) => {}
        }
        checks
    })
}

/// An operation without the prefixes of C, and with the names of the call's arguments: `convolution forward: x is x, w is w, y is y, …`.
fn in_words(node: &Node, graph: &ValidatedGraph, operands: &[&str]) -> String {
    let plain = |name: &str| name.to_lowercase().replace('_', " ");
    let name = operation_name(node);
    let short = name.trim_start_matches("HIPDNN_BACKEND_OPERATION_").trim_end_matches("_EXT").trim_end_matches("_DESCRIPTOR");
    let spec = hipdnn_abi::descriptor(node.operation);
    let begin = spec.map_or_else(String::new, |spec| shared_begin(spec.attributes));
    let of_attribute = |attribute: &Attribute| {
        let long = spec.and_then(|spec| spec.attribute(attribute.number)).map_or("", |attribute| attribute.name);
        let label = plain(long.strip_prefix(&begin).unwrap_or(long).trim_start_matches("HIPDNN_ATTR_"));
        match &attribute.value {
            AttributeValue::Tensor(uid) => format!("{label} is {}", place(*uid, graph, operands)),
            _ => format!("{label} {}", value_text(node, attribute)),
        }
    };
    format!("{}: {}", plain(short), node.attributes.iter().map(of_attribute).collect::<Vec<_>>().join(", "))
}

/// What the names of an operation's tensors begin with, in whole words.
fn shared_begin(attributes: &[hipdnn_abi::AttributeSpec]) -> String {
    let mut names = attributes.iter().filter(|attribute| attribute.access.is_some()).map(|attribute| attribute.name);
    let first = names.next().unwrap_or_default();
    let shared = names.fold(first, |shared, name| {
        let same = shared.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        &shared[..same]
    });
    shared.rfind('_').map_or_else(String::new, |end| shared[..=end].to_string())
}

/// Where a tensor is: an argument of the call, or nowhere.
fn place(uid: i64, graph: &ValidatedGraph, operands: &[&str]) -> String {
    let argument = graph.bindings().iter().find(|binding| binding.uid == uid).map(|binding| binding.argument as usize);
    let constant = graph.tensors().iter().any(|tensor| tensor.uid == uid && tensor.value.is_some());
    match argument.and_then(|argument| operands.get(argument)) {
        Some(name) => name.to_string(),
        None if constant => format!("constant {uid}"),
        None => format!("virtual {uid}"),
    }
}

#[cfg(test)]
mod tests {
    use hipdnn_host::capabilities::Capabilities;

    use super::*;

    fn explained(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        let (_, problem) = questions::of_line(&words).unwrap().remove(0);
        let translator = crate::asked::translator(None).unwrap();
        let mut ask = |problem: &OwnedProblem| decide(&translator, &Capabilities::whole_abi(), problem);
        Explanation::of(translator.description(), &problem, &mut ask).text()
    }

    #[test]
    fn declines_are_explained_and_a_way_out_is_shown() {
        let text = explained("conv -U fp8");
        assert!(text.starts_with("declined by tensor.type.cast: native MIOpen computes it\n  the rule (the translator's): "), "{text}");
        assert!(text.contains("  here: x is DataType::Float, cast to DataType::Float8"), "{text}");
        assert!(text.contains("  it would be translated with x.cast_type none instead of Float8E4M3Fnuz"), "{text}");
        let text = explained("conv -c 4 -k 4 -Z 1 -L 4");
        assert!(text.contains("y.vector_length 1 instead of 4, and the lengths that follow"), "{text}");
    }

    #[test]
    fn graphs_are_told_in_words() {
        let text = explained("conv -n 1 -F 1");
        assert!(
            text.starts_with(
                "translated to a graph of 1 operation, which the host passes\n  convolution forward: x is x, w is w, y is y, "
            ),
            "{text}"
        );
        assert!(text.contains("declined by host.backend.unsupported"), "{text}");
    }
}
