//! The report as text for a terminal of 80 columns.

use std::fmt::Write as _;

use hipdnn_host::phases::Histogram;

use super::{
    merged::{Report, by_policy, coverage, declined, time_ns},
    shown,
};

/// Columns of the terminal.
const WIDTH: usize = 80;
/// Rules and problems that are listed.
const LISTED: usize = 10;
/// Problems under one rule.
const BEHIND_A_RULE: usize = 3;

/// The text.
pub fn text(report: &Report) -> String {
    let mut text = Lines::default();
    summary(&mut text, report);
    fixes(&mut text, report);
    entry_points(&mut text, report);
    phases(&mut text, report);
    caches(&mut text, report);
    processes(&mut text, report);
    text.0
}

/// Lines, none of which is too long.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn title(&mut self, title: &str) {
        // A string takes every write.
        let _ = writeln!(self.0, "\n{title}\n{}", "-".repeat(title.len()));
    }

    /// A line; what does not fit is cut, and that it was is seen.
    fn line(&mut self, line: &str) {
        let line = shown::visible(line);
        let kept: String = if line.chars().count() > WIDTH { line.chars().take(WIDTH - 1).chain(['…']).collect() } else { line };
        self.0.push_str(kept.trim_end());
        self.0.push('\n');
    }

    /// Text over as many lines as it takes, all of them indented.
    fn wrapped(&mut self, indent: usize, text: &str) {
        let (margin, text) = (" ".repeat(indent), shown::visible(text));
        let mut line = margin.clone();
        for word in text.split(' ') {
            if line.len() > indent && line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.line(&line);
                line = margin.clone();
            }
            if line.len() > indent {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(&line);
    }
}

fn summary(text: &mut Lines, report: &Report) {
    let total = &report.total;
    let covered = coverage(total).map_or_else(|| "none".to_string(), shown::share);
    text.line(&format!("{covered} of the calls hipDNN could have had were served by it"));
    text.line(&bar(&[(total.served, '#'), (declined(total), '-'), (total.failed, '!'), (by_policy(total), '.')]));
    for (mark, count, words) in [
        ('#', total.served, "served by hipDNN"),
        ('-', declined(total), "declined, native ran them"),
        ('!', total.failed, "failed in hipDNN"),
        ('.', by_policy(total), "native by the program's choice"),
    ] {
        text.line(&format!("  {mark} {count:>14}  {words}"));
    }
    report.components.iter().for_each(|component| text.line(component));
    if total.verified > 0 {
        text.line(&format!("{} results were compared with native's, {} of them differ too much", total.verified, total.mismatched));
    }
    for problem in report.mismatches.iter().take(LISTED) {
        text.wrapped(0, &format!("WRONG {} x {}: {}", problem.counters.mismatched, problem.call, problem.text));
    }
    for problem in report.failures.iter().take(LISTED) {
        text.wrapped(0, &format!("FAILED {} x {}: {}", problem.counters.failed, problem.call, problem.text));
    }
    report.left_out.iter().for_each(|why| text.wrapped(0, &format!("LEFT OUT {why}")));
}

/// Parts of a whole as a bar; every part that is not nothing is seen.
fn bar(parts: &[(u64, char)]) -> String {
    let all = parts.iter().map(|(count, _)| *count).fold(0, u64::saturating_add);
    let length = |count: u64| if count == 0 { 0 } else { ((shown::part(count, all) * (WIDTH - 8) as f64) as usize).max(1) };
    parts.iter().flat_map(|&(count, mark)| std::iter::repeat_n(mark, length(count))).collect()
}

fn fixes(text: &mut Lines, report: &Report) {
    text.title("What to fix first");
    if report.fixes.is_empty() {
        text.line("nothing was declined");
    }
    for fix in report.fixes.iter().take(LISTED) {
        text.line(&fix.rule);
        text.wrapped(4, &fix.reason);
        let times = format!("{} in the shim, {} in native", shown::time(fix.shim_ns), shown::time(fix.native_ns));
        text.line(&format!(
            "    {} calls, {} of host time ({times}), {}",
            fix.calls,
            shown::time(fix.time_ns()),
            shown::work(fix.multiplications)
        ));
        for problem in fix.problems.iter().take(BEHIND_A_RULE).map(|n| &report.problems[*n]) {
            text.wrapped(6, &problem.text);
        }
        if fix.problems.len() > BEHIND_A_RULE {
            text.line(&format!("      and {} more problems", fix.problems.len() - BEHIND_A_RULE));
        }
    }
    if report.fixes.len() > LISTED {
        text.line(&format!("and {} more rules", report.fixes.len() - LISTED));
    }
}

fn entry_points(text: &mut Lines, report: &Report) {
    text.title("Entry points");
    text.line(&format!("{:<46}{:>9}{:>9}{:>8}{:>8}", "", "calls", "served", "decl.", "failed"));
    for (call, counters) in &report.calls {
        // Names are long; what they have in common is not told.
        let name = shown::visible(call.strip_prefix("miopen").unwrap_or(call));
        let name: String = name.chars().take(45).collect();
        text.line(&format!("{name:<46}{:>9}{:>9}{:>8}{:>8}", counters.calls(), counters.served, declined(counters), counters.failed));
    }
}

fn phases(text: &mut Lines, report: &Report) {
    text.title("Where the host time goes");
    let row = |name: &str, histogram: &Histogram| {
        let mean = histogram.total_ns.checked_div(histogram.count).unwrap_or(0);
        let [total, mean, most] = [histogram.total_ns, mean, histogram.max_ns].map(shown::time);
        format!("{name:<16}{:>10}{total:>12}{mean:>12}{most:>12}", histogram.count)
    };
    text.line(&format!("{:<16}{:>10}{:>12}{:>12}{:>12}", "", "times", "total", "mean", "longest"));
    for (name, _, histogram) in report.temperatures() {
        text.line(&row(&format!("{name} calls"), histogram));
    }
    for (phase, histogram) in report.phases().iter() {
        text.line(&row(&format!("  {}", phase.name()), histogram));
    }
}

fn caches(text: &mut Lines, report: &Report) {
    text.title("Caches");
    text.line(&format!("{:<16}{:>12}{:>12}{:>12}", "", "in memory", "on disk", "built"));
    for (name, _, levels) in report.caches() {
        text.line(&format!("{name:<16}{:>12}{:>12}{:>12}", levels.memory, levels.disk, levels.built));
    }
    for (_, meaning, count) in report.disk.each().into_iter().filter(|(.., count)| *count > 0) {
        text.line(&format!("{count:>16} {meaning}"));
    }
}

fn processes(text: &mut Lines, report: &Report) {
    text.title("Processes");
    text.line(&format!("{:>5}{:>9}  {:<26}{:>9}{:>9}{:>10}{:>10}", "rank", "pid", "host", "calls", "served", "coverage", "time"));
    for member in &report.processes {
        let rank = member.process.rank.map_or_else(|| "-".to_string(), |rank| rank.to_string());
        let host: String = shown::visible(&member.process.host).chars().take(25).collect();
        let covered = coverage(&member.total).map_or_else(|| "-".to_string(), shown::share);
        let (pid, calls, served, time) =
            (member.process.pid, member.total.calls(), member.total.served, shown::time(time_ns(&member.total)));
        text.line(&format!("{rank:>5}{pid:>9}  {host:<26}{calls:>9}{served:>9}{covered:>10}{time:>10}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::merged::tests::{HOSTILE, sample};

    #[test]
    fn it_fits_a_terminal_and_controls_nothing() {
        for name in [HOSTILE, &"long".repeat(100), "tame"] {
            let text = text(&Report::of(&[("a".into(), sample(1, name))], &[name.to_string()]));
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
        }
    }

    #[test]
    fn it_says_what_the_statistics_say() {
        let text = text(&Report::of(&[("a".into(), sample(1, "tame"))], &[]));
        for line in [
            "50.0 % of the calls",
            "#              3  served",
            "FAILED 1 x tame",
            "2 results were compared with native's, 1 of them differ too much",
            "WRONG 1 x tame",
            "               1 files that were there and no entry of their key",
            "    1 calls, 2.05 ms of host time (50.0 µs in the shim, 2.00 ms in native)",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn every_part_is_seen() {
        assert_eq!(bar(&[(1_000_000, '#'), (1, '!')]).matches('!').count(), 1);
        assert_eq!(bar(&[(0, '#')]), "");
    }
}
