//! What lasts from run to run: where the numbers stopped, the problems that showed new kinds of answers, what was found. In a folder, or
//! only in memory.
//!
//! `state.json` has the numbers, `pool.jsonl` the problems, `findings/` one file for each finding, which is a corpus of one problem.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use hipdnn_host::{
    component::Translator,
    identity::hexadecimal,
    offline::{
        choices::Choices,
        examine::{Duty, Examined, Fault},
    },
    problem::OwnedProblem,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{problems, report, rules};

/// The most problems that are kept to be bent.
const POOL: usize = 4096;

/// What is written of the numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Numbers {
    seed: u64,
    /// The next problem of the seed.
    next: u64,
    tried: u64,
    graphs: u64,
    /// How often each rule declined.
    declined: BTreeMap<String, u64>,
    /// SHA-256 of the translator that was tried.
    translator: String,
}

/// A problem of the pool, and what is new about it.
#[derive(Serialize, Deserialize)]
struct Pooled {
    kind: String,
    problem: OwnedProblem,
}

/// A problem for which a duty is not done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The duty's word.
    pub duty: String,
    /// What is wrong.
    pub detail: String,
    /// The simplest problem; none for faults of the manifest.
    pub problem: Option<OwnedProblem>,
    /// The one that was found first.
    pub first: Option<OwnedProblem>,
}

impl Finding {
    /// Of a problem, and the one that it was made from.
    pub fn new(duty: Duty, detail: String, problem: OwnedProblem, first: &OwnedProblem) -> Self {
        Self { duty: duty.id().into(), detail, problem: Some(problem), first: Some(first.clone()) }
    }

    /// Of what a translator says about itself.
    pub fn of_manifest(fault: &Fault) -> Self {
        Self { duty: fault.duty.id().into(), detail: fault.detail.clone(), problem: None, first: None }
    }
}

/// All that lasts.
pub struct State {
    folder: Option<PathBuf>,
    numbers: Numbers,
    pool: Vec<Pooled>,
    kinds: BTreeSet<String>,
    /// Faults that were seen, without their numbers.
    seen: BTreeSet<String>,
    findings: usize,
}

impl State {
    /// Goes on in a folder, or begins. Another translator begins again, with the problems that the last one was tried on.
    pub fn open(folder: Option<&Path>, seed: u64, translator: &Translator) -> Result<Self> {
        let digest = hexadecimal(translator.digest());
        let fresh = Numbers { seed, translator: digest.clone(), ..Numbers::default() };
        let mut state = Self {
            folder: folder.map(Path::to_path_buf),
            numbers: fresh,
            pool: Vec::new(),
            kinds: BTreeSet::new(),
            seen: BTreeSet::new(),
            findings: 0,
        };
        let Some(folder) = folder else { return Ok(state) };
        fs::create_dir_all(folder.join("findings")).with_context(|| folder.display().to_string())?;
        if let Some(text) = read(&folder.join("state.json"))? {
            let numbers: Numbers = serde_json::from_str(&text).with_context(|| format!("{}/state.json", folder.display()))?;
            if numbers.translator == digest && numbers.seed == seed {
                state.numbers = numbers;
                state.findings = fs::read_dir(folder.join("findings"))?.count();
            }
        }
        for line in read(&folder.join("pool.jsonl"))?.unwrap_or_default().lines() {
            let pooled: Pooled = serde_json::from_str(line).with_context(|| format!("{}/pool.jsonl", folder.display()))?;
            state.kinds.insert(pooled.kind.clone());
            state.pool.push(pooled);
        }
        Ok(state)
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.numbers.seed
    }

    /// The number of the next problem, which is then used up.
    pub fn next(&mut self) -> u64 {
        self.numbers.next += 1;
        self.numbers.next - 1
    }

    /// A problem to bend, or none: then a new one is wanted.
    pub fn pick(&self, choices: &mut Choices<'_>) -> Option<OwnedProblem> {
        let bends = choices.percent(60);
        (bends && !self.pool.is_empty()).then(|| self.pool[choices.below(self.pool.len())].problem.clone())
    }

    /// Counts a problem, and keeps it if its kind of answer is new.
    pub fn count(&mut self, problem: &OwnedProblem, kind: &str, examined: &Examined) {
        self.numbers.tried += 1;
        match &examined.decision {
            Ok(_) => self.numbers.graphs += 1,
            Err(declined) => *self.numbers.declined.entry(declined.rule.clone()).or_default() += 1,
        }
        if !self.kinds.contains(kind) && self.pool.len() < POOL {
            self.kinds.insert(kind.into());
            self.pool.push(Pooled { kind: kind.into(), problem: problem.clone() });
        }
    }

    /// Whether nothing like this was found yet in this run.
    pub fn is_new(&mut self, fault: &Fault) -> bool {
        self.seen.insert(without_numbers(fault))
    }

    /// Keeps a finding. What is the same as one of an earlier run has its file already.
    pub fn keep(&mut self, finding: &Finding, fault: &Fault) -> Result<()> {
        let id = finding.problem.as_ref().map_or_else(|| problems::hash(&without_numbers(fault)), problems::id);
        let Some(folder) = &self.folder else {
            self.findings += 1;
            return Ok(());
        };
        let file = folder.join("findings").join(format!("{}-{id}.json", finding.duty));
        self.findings += usize::from(!file.exists());
        report::write(&file, &(serde_json::to_string(finding)? + "\n"))
    }

    /// How many were tried, in all runs.
    pub fn tried(&self) -> u64 {
        self.numbers.tried
    }

    /// How many kinds of answers there were.
    pub fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// How many findings there are.
    pub fn findings(&self) -> usize {
        self.findings
    }

    /// Whether there is any.
    pub fn found_anything(&self) -> bool {
        self.findings > 0
    }

    /// Writes everything but findings, which are written when they are made.
    pub fn save(&self) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let lines = self.pool.iter().map(|pooled| Ok(serde_json::to_string(pooled)? + "\n")).collect::<Result<String>>()?;
        report::write(&folder.join("pool.jsonl"), &lines)?;
        report::write(&folder.join("state.json"), &(serde_json::to_string_pretty(&self.numbers)? + "\n"))
    }

    /// For people.
    pub fn text(&self) -> String {
        let Numbers { tried, graphs, declined, .. } = &self.numbers;
        let mut text = format!(
            "{tried} problems tried: {graphs} become graphs, {} are declined by {} rules; {} kinds of answers\n",
            tried - graphs,
            declined.len(),
            self.kinds.len()
        );
        text += &match (&self.folder, self.findings) {
            (_, 0) => "nothing found\n".to_string(),
            (None, count) => format!("{count} findings\n"),
            (Some(folder), count) => format!("{count} findings in {}\n", folder.join("findings").display()),
        };
        text
    }

    /// For programs.
    pub fn json(&self, translator: &Translator) -> Value {
        let Numbers { seed, next, tried, graphs, declined, .. } = &self.numbers;
        json!({ "total": {
            "translator": rules::identity(translator), "seed": seed, "next": next, "tried": tried, "graphs": graphs, "declined": declined,
            "kinds": self.kinds.len(), "findings": self.findings,
        }})
    }
}

/// What tells faults apart that are worth a finding each.
fn without_numbers(fault: &Fault) -> String {
    let detail: String = fault.detail.chars().filter(|c| !c.is_ascii_digit() && *c != '-').take(120).collect();
    format!("{} {detail}", fault.duty.id())
}

fn read(file: &Path) -> Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| file.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use hipdnn_host::{
        capabilities::Capabilities,
        offline::{examine::examine, problems::generate},
    };

    use super::*;

    #[test]
    fn a_state_is_what_it_was_when_it_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let translator = crate::asked::translator(None).unwrap();
        let open = |seed| State::open(Some(folder.path()), seed, &translator).unwrap();
        let mut state = open(5);
        for number in 0..50 {
            let problem = generate::numbered(1, number);
            let examined = examine(&translator, &Capabilities::whole_abi(), &problem);
            assert_eq!(state.next(), number);
            state.count(&problem, &format!("kind {}", number % 7), &examined);
        }
        let fault = Fault::new(Duty::Totality, "it trapped at 17");
        assert!(state.is_new(&fault) && !state.is_new(&Fault::new(Duty::Totality, "it trapped at 18")));
        let problem = generate::numbered(1, 1);
        state.keep(&Finding::new(fault.duty, fault.detail.clone(), problem.clone(), &problem), &fault).unwrap();
        state.save().unwrap();
        let mut again = open(5);
        assert_eq!((again.numbers.clone(), again.kinds(), again.findings()), (state.numbers.clone(), 7, 1));
        assert_eq!((again.next(), again.found_anything()), (50, true));
        // A finding is a corpus.
        let file = fs::read_dir(folder.path().join("findings")).unwrap().next().unwrap().unwrap().path();
        let mut questions = crate::questions::Questions::default();
        questions.read(&file).unwrap();
        assert_eq!(questions.all[0].problem, problem);
        // Of another seed the numbers begin again; the problems are still of use.
        assert_eq!((open(6).next(), open(6).kinds()), (0, 7));
    }
}
