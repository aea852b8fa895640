//! What came of a corpus: counts and tables, in Markdown, which reads well in a terminal and stands in the README as it is printed.

use std::{
    collections::BTreeMap,
    fmt::{Display, Formatter, Result},
};

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use hipdnn_host::rules::HostRule;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    corpus::{Entry, Selection},
    workers::Outcome,
};
use crate::flags::Direction;

/// How many refusals are told in words.
const REFUSALS_TOLD: usize = 5;
/// How many failures are told in words.
const FAILURES_TOLD: usize = 20;

/// Counts of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All.
    pub lines: usize,
    /// Served by hipDNN.
    pub forwarded: usize,
    /// Sent to native by a rule.
    pub declined: usize,
    /// Their output was looked at and is right.
    pub verified: usize,
    /// Everything that is not as it should be: a status, a wrong output, an output that nobody looked at, a process that ended.
    pub failed: usize,
}

/// The result of a corpus under one profile.
#[derive(Debug, Serialize)]
pub struct Summary {
    profile: String,
    #[serde(rename = "total")]
    all: Counts,
    types: BTreeMap<&'static str, Counts>,
    directions: BTreeMap<Direction, Counts>,
    /// Lines by the rule that declined them.
    rules: BTreeMap<String, usize>,
    failures: Vec<String>,
}

impl Summary {
    /// Counts outcomes; they belong to the entries one by one.
    pub fn of(profile: &str, entries: &[Entry], outcomes: &[Outcome]) -> Self {
        let (all, types, directions) = (Counts::default(), BTreeMap::new(), BTreeMap::new());
        let mut summary = Self { profile: profile.into(), all, types, directions, rules: BTreeMap::new(), failures: Vec::new() };
        for (entry, outcome) in entries.iter().zip(outcomes) {
            summary.count(entry, outcome);
        }
        summary
    }

    /// How many lines failed.
    pub fn failed(&self) -> usize {
        self.all.failed
    }

    fn count(&mut self, entry: &Entry, outcome: &Outcome) {
        let mut one = Counts { lines: 1, ..Counts::default() };
        let fault = match outcome.seen() {
            Err(failure) => Some(failure),
            Ok(seen) => {
                one.forwarded = usize::from(seen.route == "hipdnn");
                one.declined = usize::from(seen.rule.is_some());
                one.verified = usize::from(seen.verified == Some(true));
                if let Some(rule) = &seen.rule {
                    *self.rules.entry(rule.clone()).or_default() += 1;
                }
                let good = seen.status == 0 && seen.failure.is_none() && seen.verified == Some(true);
                // Right numbers of native's say nothing about a hipDNN that was not there.
                let absent = seen.rule.filter(|rule| rule == HostRule::BackendUnavailable.id()).map(|rule| {
                    let message = seen.message.unwrap_or_default();
                    format!("{rule}: {message}")
                });
                absent.or_else(|| {
                    (!good).then(|| seen.failure.unwrap_or_else(|| format!("status {}, verified {:?}", seen.status, seen.verified)))
                })
            }
        };
        one.failed = usize::from(fault.is_some());
        self.failures.extend(fault.map(|fault| format!("{} ({}): {fault}", entry.command, entry.direction.name())));
        self.all.add(one);
        self.types.entry(entry.dtype).or_default().add(one);
        self.directions.entry(entry.direction).or_default().add(one);
    }
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.forwarded += other.forwarded;
        self.declined += other.declined;
        self.verified += other.verified;
        self.failed += other.failed;
    }

    fn row(self, name: &str) -> Vec<String> {
        let counts = [self.lines, self.forwarded, self.declined, self.verified, self.failed];
        std::iter::once(name.to_string()).chain(counts.map(|count| count.to_string())).collect()
    }
}

/// Which lines of a file are driven, and why the others are not.
pub fn selection(selection: &Selection) -> String {
    let (gmac, gb) = selection.limits;
    let skipped: Vec<String> = selection.skipped.iter().map(|(words, lines)| format!("{lines} {words}")).collect();
    let skipped = if skipped.is_empty() { String::new() } else { format!("; not driven: {}", skipped.join(", ")) };
    let name = selection.file.file_name().unwrap_or_default().to_string_lossy();
    let (directions, driven, lines) = (selection.entries.len(), selection.driven, selection.lines);
    let mut text = format!("{name}: {directions} directions of {driven} of {lines} lines (at most {gmac} GMAC and {gb} GB){skipped}");
    for (number, why) in selection.refusals.iter().take(REFUSALS_TOLD) {
        text += &format!("\nrefused line {number}: {why}");
    }
    text
}

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut rows: Vec<Vec<String>> = self.types.iter().map(|(name, counts)| counts.row(name)).collect();
        if self.directions.len() > 1 {
            rows.extend(self.directions.iter().map(|(direction, counts)| counts.row(direction.name())));
        }
        rows.push(self.all.row("all"));
        let header = format!("profile `{}`", self.profile);
        writeln!(f, "{}", table(&[&header, "driven", "forwarded", "declined", "verified", "failed"], rows))?;
        if !self.rules.is_empty() {
            let rows = self.rules.iter().map(|(rule, lines)| vec![format!("`{rule}`"), lines.to_string()]).collect();
            writeln!(f, "\n{}", table(&["declined by", "lines"], rows))?;
        }
        for failure in self.failures.iter().take(FAILURES_TOLD) {
            writeln!(f, "FAILED {failure}")?;
        }
        if self.failures.len() > FAILURES_TOLD {
            writeln!(f, "and {} more failures (--json tells all)", self.failures.len() - FAILURES_TOLD)?;
        }
        Ok(())
    }
}

/// The same as JSON.
pub fn selection_json(selection: &Selection) -> Value {
    let (gmac, gb) = selection.limits;
    let refusals: Vec<Value> = selection.refusals.iter().map(|(line, why)| json!({ "line": line, "why": why })).collect();
    json!({
        "selected": selection.entries.len(), "driven": selection.driven, "lines": selection.lines, "max_gmac": gmac, "max_gb": gb,
        "skipped": selection.skipped, "refused": refusals,
    })
}

fn table(header: &[&str], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(header);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{super::corpus::Request, *};

    fn entry(dtype: &'static str) -> Entry {
        Entry { command: format!("{dtype} line"), request: Request::Words(vec![]), direction: Direction::Forward, gmac: 0.0, dtype }
    }

    #[test]
    fn only_verified_lines_are_good() {
        let outcomes = [
            Ok(json!({"route": "hipdnn", "status": 0, "verified": true})),
            Ok(json!({"route": "native", "rule": "tensor.type.cast", "status": 0, "verified": true})),
            Ok(json!({"route": "hipdnn", "status": 0, "verified": false, "failure": "element [0]"})),
            Ok(json!({"route": "hipdnn", "status": 0, "verified": null})),
            Ok(json!({"route": "failed", "status": 7, "verified": null, "failure": "returned 7"})),
            Err("signal: 11".to_string()),
            Ok(json!({"route": "native", "rule": "host.backend.unavailable", "message": "no hipDNN", "status": 0, "verified": true})),
        ];
        let outcomes: Vec<Outcome> = outcomes.into_iter().map(|record| Outcome::of("line", record)).collect();
        let entries: Vec<Entry> = ["fp32", "fp16", "fp16", "fp16", "bf16", "bf16", "int8"].map(entry).to_vec();
        let summary = Summary::of("abi", &entries, &outcomes);
        assert_eq!(summary.all, Counts { lines: 7, forwarded: 3, declined: 2, verified: 3, failed: 5 });
        assert_eq!(summary.types["fp16"], Counts { lines: 3, forwarded: 2, declined: 1, verified: 1, failed: 2 });
        let text = summary.to_string();
        assert!(text.contains("| profile `abi` | driven |") && text.contains("| `tensor.type.cast` "), "{text}");
        assert!(
            text.contains("FAILED bf16 line (fwd): signal: 11") && text.contains("FAILED fp16 line (fwd): status 0, verified None"),
            "{text}"
        );
    }
}
