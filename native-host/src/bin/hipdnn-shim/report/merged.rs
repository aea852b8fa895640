//! One job out of the statistics of its processes: everything that is shown, in the order in which it matters. Also the JSON form.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
};

use hipdnn_host::{
    cache::disk::DiskCounts,
    census::{Counters, Levels},
    component::Translator,
    phases::{Histogram, PhaseHistograms},
    problem::OwnedProblem,
    rules::HostRule,
    stats::{Process, Stats},
};
use serde::Serialize;

/// What is shown.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `hipdnn-shim report`.
    pub format: &'static str,
    /// Of the form below.
    pub format_version: u32,
    /// All calls.
    pub total: Counters,
    /// By entry point, those with most calls first.
    pub calls: Vec<(String, Counters)>,
    /// Rules by which calls were declined, what took most time first.
    pub fixes: Vec<Fix>,
    /// Problems of failed calls.
    pub failures: Vec<Problem>,
    /// Problems whose results native's differ from.
    pub mismatches: Vec<Problem>,
    /// What the disk caches of all processes did.
    pub disk: DiskCounts,
    /// Entry points with problems, what took most time first.
    pub problems: Vec<Problem>,
    /// Calls whose problem was not remembered.
    pub not_told_apart: u64,
    /// The processes.
    pub processes: Vec<Member>,
    /// What the processes ran on, each once.
    pub components: Vec<String>,
    /// Files that were not taken, and why.
    pub left_out: Vec<String>,
}

/// A rule that declined calls.
#[derive(Debug, Serialize)]
pub struct Fix {
    /// Its id.
    pub rule: String,
    /// What it means, as the component that declined says.
    pub reason: String,
    /// Declined calls.
    pub calls: u64,
    /// Host time until they were declined.
    pub shim_ns: u64,
    /// Host time of native after that.
    pub native_ns: u64,
    /// Multiplications that native did, of problems that are known.
    pub multiplications: u64,
    /// Entry points that were called.
    pub entry_points: Vec<String>,
    /// Positions in [`Report::problems`], most time first.
    pub problems: Vec<usize>,
}

impl Fix {
    /// What it is ranked by.
    pub fn time_ns(&self) -> u64 {
        self.shim_ns.saturating_add(self.native_ns)
    }
}

/// An entry point with a problem.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    /// The entry point.
    pub call: String,
    /// The problem.
    pub problem: OwnedProblem,
    /// For people.
    pub text: String,
    /// Multiplications of one call; none where lengths make no sense.
    pub multiplications: Option<u64>,
    /// Its counts.
    pub counters: Counters,
}

/// A process of the job.
#[derive(Debug, Serialize)]
pub struct Member {
    /// Its file.
    pub file: String,
    /// Which process.
    pub process: Process,
    /// All its calls.
    pub total: Counters,
}

/// Host time of a counter's calls, native's part of declined ones included.
pub fn time_ns(counters: &Counters) -> u64 {
    let times = &counters.time_ns;
    let rules = times.declined.values().chain(times.declined_native.values()).chain(times.native.values());
    rules.fold(times.served.saturating_add(times.failed), |all, time| all.saturating_add(*time))
}

/// Calls that a rule declined, all rules together.
pub fn declined(counters: &Counters) -> u64 {
    counters.declined.values().fold(0, |all, count| all.saturating_add(*count))
}

/// Calls that the caller gave to native.
pub fn by_policy(counters: &Counters) -> u64 {
    counters.native.values().fold(0, |all, count| all.saturating_add(*count))
}

/// What share of the calls hipDNN could have had it got; none without such calls. What the caller gave to native does not count.
pub fn coverage(counters: &Counters) -> Option<f64> {
    let asked = counters.served.saturating_add(counters.failed).saturating_add(declined(counters));
    (asked > 0).then(|| counters.served as f64 / asked as f64)
}

/// Whether calls of an entry point compute something. Queries and searches cost native no work that hipDNN could have saved.
fn computes(call: &str) -> bool {
    !["Get", "Find", "Compile", "Save"].iter().any(|word| call.contains(word))
}

impl Report {
    /// Of these processes.
    pub fn of(job: &[(PathBuf, Stats)], left_out: &[String]) -> Self {
        let mut calls: BTreeMap<&str, Counters> = BTreeMap::new();
        let mut disk = DiskCounts::default();
        job.iter().filter_map(|(_, stats)| stats.cache.as_ref()).for_each(|counts| disk.add(counts));
        let (mut members, mut components, mut reasons) = (Vec::new(), BTreeSet::new(), reasons_of_this_build());
        for (path, stats) in job {
            let mut total = Counters::default();
            for (call, counters) in &stats.calls {
                calls.entry(call).or_default().add(counters);
                total.add(counters);
            }
            members.push(Member { file: path.display().to_string(), process: stats.process.clone(), total });
            components.extend(components_of(stats));
            reasons.extend(stats.rules.iter().map(|(rule, reason)| (rule.clone(), reason.clone())));
        }
        let mut total = Counters::default();
        calls.values().for_each(|counters| total.add(counters));
        let mut calls: Vec<(String, Counters)> = calls.into_iter().map(|(call, counters)| (call.to_string(), counters)).collect();
        calls.sort_by_key(|(_, counters)| std::cmp::Reverse(counters.calls()));
        let problems = problems(job);
        let told_apart = problems.iter().fold(0u64, |all, problem| all.saturating_add(problem.counters.calls()));
        Self {
            format: "hipdnn-shim report",
            format_version: 1,
            fixes: fixes(&calls, &total, &problems, &reasons),
            failures: problems.iter().filter(|problem| problem.counters.failed > 0).cloned().collect(),
            mismatches: problems.iter().filter(|problem| problem.counters.mismatched > 0).cloned().collect(),
            disk,
            not_told_apart: total.calls().saturating_sub(told_apart),
            total,
            calls,
            problems,
            processes: members,
            components: components.into_iter().collect(),
            left_out: left_out.to_vec(),
        }
    }

    /// Phases of all calls.
    pub fn phases(&self) -> &PhaseHistograms {
        &self.total.phases
    }

    /// Cold and warm calls.
    pub fn temperatures(&self) -> [(&'static str, &'static str, &Histogram); 2] {
        [("cold", "the problem was new to its handle", &self.total.cold_calls), ("warm", "every later call", &self.total.warm_calls)]
    }

    /// Where plans and translations came from.
    pub fn caches(&self) -> [(&'static str, &'static str, Levels); 2] {
        [
            ("plans", "or that there is none", self.total.plans),
            ("translations", "asked for when no plan is in memory", self.total.translations),
        ]
    }
}

/// What rules mean, where a file does not say: as this build has them.
fn reasons_of_this_build() -> HashMap<String, String> {
    let mut reasons: HashMap<String, String> =
        HostRule::ALL.iter().map(|rule| (rule.id().to_string(), rule.reason().to_string())).collect();
    // Without a translator the others stay without a reason.
    if let Ok(translator) = Translator::embedded() {
        reasons.extend(translator.description().rules.iter().map(|rule| (rule.id.clone(), rule.reason.clone())));
    }
    reasons
}

fn components_of(stats: &Stats) -> Vec<String> {
    let translator = stats.translator.as_ref().map(|t| {
        let digest: String = t.sha256.chars().take(12).collect();
        let faults = if t.faults == 0 { String::new() } else { format!(", failed {} times", t.faults) };
        format!("translator {} {} ({digest}){faults}", t.name, t.version)
    });
    let backend = stats.backend.as_ref().map(|b| format!("hipDNN {} ({})", b.version, b.library));
    let hip = stats.backend.as_ref().map(|b| format!("HIP {}", b.hip));
    [Some(format!("hipdnn-shim {}", stats.version)), translator, backend, hip].into_iter().flatten().collect()
}

/// The problems of all processes, each once for an entry point.
fn problems(job: &[(PathBuf, Stats)]) -> Vec<Problem> {
    // The JSON form holds every field bit for bit.
    let mut merged: HashMap<(&str, String), Problem> = HashMap::new();
    for problem in job.iter().flat_map(|(_, stats)| &stats.problems) {
        let key = (problem.call.as_str(), serde_json::to_string(&problem.problem).unwrap_or_default());
        let entry = merged.entry(key).or_insert_with(|| Problem {
            call: problem.call.clone(),
            text: problem.problem.to_string(),
            multiplications: problem.problem.with(|p| p.multiplications()),
            problem: problem.problem.clone(),
            counters: Counters::default(),
        });
        entry.counters.add(&problem.counters);
    }
    let mut problems: Vec<Problem> = merged.into_values().collect();
    // The text last, so that the order is the same each time.
    problems.sort_by(|a, b| {
        let rank = |p: &Problem| std::cmp::Reverse((time_ns(&p.counters), p.counters.calls()));
        (rank(a), &a.call, &a.text).cmp(&(rank(b), &b.call, &b.text))
    });
    problems
}

fn fixes(calls: &[(String, Counters)], total: &Counters, problems: &[Problem], reasons: &HashMap<String, String>) -> Vec<Fix> {
    let of_rule = |rule: &String| {
        let time = |times: &BTreeMap<String, u64>| times.get(rule).copied().unwrap_or(0);
        let declined_here = |counters: &Counters| counters.declined.get(rule).copied().unwrap_or(0);
        let mut behind: Vec<usize> = (0..problems.len()).filter(|&n| declined_here(&problems[n].counters) > 0).collect();
        behind.sort_by_key(|&n| {
            let times = &problems[n].counters.time_ns;
            std::cmp::Reverse(time(&times.declined).saturating_add(time(&times.declined_native)))
        });
        let work = |n: &usize| {
            let problem = &problems[*n];
            let computed = if computes(&problem.call) { declined_here(&problem.counters) } else { 0 };
            problem.multiplications.unwrap_or(0).saturating_mul(computed)
        };
        Fix {
            rule: rule.clone(),
            reason: reasons.get(rule).cloned().unwrap_or_else(|| "not a rule of this build".into()),
            calls: declined_here(total),
            shim_ns: time(&total.time_ns.declined),
            native_ns: time(&total.time_ns.declined_native),
            multiplications: behind.iter().map(work).fold(0, u64::saturating_add),
            entry_points: calls.iter().filter(|(_, counters)| declined_here(counters) > 0).map(|(call, _)| call.clone()).collect(),
            problems: behind,
        }
    };
    let mut fixes: Vec<Fix> = total.declined.keys().map(of_rule).collect();
    fixes.sort_by(|a, b| {
        let rank = |fix: &Fix| std::cmp::Reverse((fix.time_ns(), fix.calls));
        (rank(a), &a.rule).cmp(&(rank(b), &b.rule))
    });
    fixes
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use hipdnn_host::{
        cache::Level,
        census::{Ending, Needed, Seen, Sources},
        data_type::DataType,
        phases::{Phase, Phases},
        problem::{OwnedFusion, OwnedOperation, TensorDescriptor},
        stats::ProblemCounters,
    };

    use super::{super::read::tests::empty, *};

    /// Characters that break what is careless about them.
    pub const HOSTILE: &str =
        "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&amp;\u{0}\u{1b}[2J\u{202e}\r\n\u{ffff}{{7*7}}";

    /// A problem with a name of the caller's in it.
    pub fn problem(length: i64, name: &str) -> OwnedProblem {
        let tensor = TensorDescriptor::new(DataType::Float, None, &[length, 4], &[4, 1], 1, None).unwrap();
        let operations = vec![OwnedOperation::Other(name.into())];
        OwnedProblem::Fusion(OwnedFusion { input: tensor.clone(), operations, output: tensor })
    }

    fn counted(endings: &[(Ending<'_>, u64)]) -> Counters {
        let mut counters = Counters::default();
        let mut phases = Phases::default();
        for (n, (ending, us)) in endings.iter().enumerate() {
            let mut sources = Sources::default();
            sources.note(Needed::Plan, if n == 0 { Level::Built } else { Level::Memory });
            phases.set(if n == 0 { Phase::Plan } else { Phase::Execute }, Duration::from_micros(*us));
            counters.count(&Seen { ending: *ending, cold: n == 0, sources, phases: &phases, time: Some(Duration::from_micros(*us)) });
        }
        counters
    }

    /// Statistics of a process with a served, a declined and a failed problem, and strings of the caller's.
    pub fn sample(pid: u32, name: &str) -> Stats {
        let mut stats = empty();
        stats.cache = Some(DiskCounts { hits: 4, damaged: 1, ..DiskCounts::default() });
        stats.process = Process { pid, host: name.into(), program: name.into(), rank: Some(pid), began_ms: 1, written_ms: 2 };
        let mut declined = counted(&[(Ending::Declined("rule.small"), 3), (Ending::Declined(name), 50)]);
        declined.native_took(Ending::Declined(name), Duration::from_millis(2));
        let served = counted(&[(Ending::Served, 4000), (Ending::Served, 20), (Ending::Served, 21)]);
        let mut failed = counted(&[(Ending::Failed, 9)]);
        failed.count_verified(true);
        failed.count_verified(false);
        let parts = [("miopenA", 1, served), ("miopenA", 2, declined), (name, 3, failed)];
        for (call, length, counters) in parts {
            stats.calls.entry(call.into()).or_default().add(&counters);
            stats.problems.push(ProblemCounters { call: call.into(), problem: problem(length, name), counters });
        }
        let lost = counted(&[(Ending::Native("host.policy.native-solution"), 1)]);
        stats.calls.entry("miopenA".into()).or_default().add(&lost);
        stats.others.insert("miopenA".into(), lost);
        stats.rules.insert(name.into(), format!("reason {name}"));
        stats
    }

    #[test]
    fn ranks_merge() {
        let job = [("a".into(), sample(1, "x")), ("b".into(), sample(2, "x"))];
        let report = Report::of(&job, &[]);
        assert_eq!((report.total.served, report.total.failed, declined(&report.total), by_policy(&report.total)), (6, 2, 4, 2));
        assert_eq!((report.processes.len(), report.problems.len(), report.not_told_apart), (2, 3, 2));
        assert_eq!(coverage(&report.total), Some(0.5));
        assert_eq!(report.calls[0].0, "miopenA");
        assert_eq!(report.components, ["hipdnn-shim 0"]);
        assert_eq!((report.failures.len(), report.mismatches.len()), (1, 1));
        assert_eq!((report.disk.hits, report.disk.damaged), (8, 2));
        let alone = Report::of(&job[..1], &[]);
        assert_eq!(alone.total.served * 2, report.total.served);
    }

    #[test]
    fn what_takes_most_time_comes_first() {
        let report = Report::of(&[("a".into(), sample(1, "x"))], &[]);
        let fixes: Vec<_> = report.fixes.iter().map(|fix| (fix.rule.as_str(), fix.calls, fix.shim_ns, fix.native_ns)).collect();
        assert_eq!(fixes, [("x", 1, 50_000, 2_000_000), ("rule.small", 1, 3000, 0)]);
        assert_eq!((report.fixes[0].reason.as_str(), report.fixes[1].reason.as_str()), ("reason x", "not a rule of this build"));
        assert_eq!(report.fixes[0].problems, report.fixes[1].problems);
        assert_eq!(report.fixes[0].entry_points, ["miopenA"]);
        assert!(time_ns(&report.problems[0].counters) >= time_ns(&report.problems[1].counters));
    }

    #[test]
    fn only_what_computes_is_work() {
        assert!(computes("miopenConvolutionForward") && computes("miopenExecuteFusionPlan") && computes("miopenRunSolution"));
        for query in
            ["miopenFindConvolutionForwardAlgorithm", "miopenConvolutionForwardGetSolution", "miopenConvolutionForwardCompileSolution"]
        {
            assert!(!computes(query), "{query}");
        }
    }
}
