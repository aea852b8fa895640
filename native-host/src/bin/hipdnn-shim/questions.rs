//! What translators are asked offline: the problems of files, and random ones. Where a problem came from, so that it can be found again.

use std::{fmt, fs, path::PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use hipdnn_host::{
    offline::{
        choices::Choices,
        problems::{generate, mutate::mutate},
    },
    problem::OwnedProblem,
};
use serde_json::{Value, json};

use crate::{
    Usage,
    convolution::Convolution,
    drive::corpus::{self, Said, Skip},
    flags::Line,
};

/// What the command line says about questions.
#[derive(Args, Clone)]
pub struct Options {
    /// A file of driver lines or of recorded problems; may be given several times
    #[arg(long, value_name = "FILE")]
    pub corpus: Vec<PathBuf>,
    /// So many random problems; with a corpus, every other one is a problem of it, bent
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub random: u64,
    /// The seed of the random problems
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// A problem, and where it comes from.
#[derive(Clone, Debug)]
pub struct Question {
    /// Where from.
    pub source: Source,
    /// The problem.
    pub problem: OwnedProblem,
}

/// Where a problem comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A line of a file.
    Line {
        /// The file.
        file: String,
        /// Its line, from 1.
        number: usize,
        /// As it stands there, if it is a command, and the direction.
        command: Option<String>,
    },
    /// Random.
    Random {
        /// The seed.
        seed: u64,
        /// Which one of the seed.
        number: u64,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, number, command: Some(command) } => write!(f, "{file}, line {number}: {command}"),
            Self::Line { file, number, command: None } => write!(f, "{file}, line {number}"),
            Self::Random { seed, number } => write!(f, "random problem {number} of seed {seed}"),
        }
    }
}

impl Source {
    /// As JSON.
    pub fn json(&self) -> Value {
        match self {
            Self::Line { file, number, command } => json!({ "file": file, "line": number, "command": command }),
            Self::Random { seed, number } => json!({ "seed": seed, "number": number }),
        }
    }
}

/// All that is asked, and what of the files is not.
#[derive(Default)]
pub struct Questions {
    /// In the order of the files, then the random ones.
    pub all: Vec<Question>,
    /// Lines of other operations.
    pub others: usize,
    /// Lines that describe no problem: file, line, and why.
    pub refused: Vec<String>,
}

impl Questions {
    /// Reads the files and makes the random ones.
    pub fn of(options: &Options) -> Result<Self> {
        let mut questions = Self::default();
        for file in &options.corpus {
            questions.read(file)?;
        }
        let given = questions.all.len();
        for number in 0..options.random {
            let source = Source::Random { seed: options.seed, number };
            let problem = random(options.seed, number, &questions.all[..given]);
            questions.all.push(Question { source, problem });
        }
        if questions.all.is_empty() {
            return Err(Usage("no problem: a corpus, or random ones".into()).into());
        }
        Ok(questions)
    }

    /// Adds the problems of a file.
    pub fn read(&mut self, file: &std::path::Path) -> Result<()> {
        let bytes = fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (number, line) in corpus::lines(&String::from_utf8_lossy(&bytes)) {
            match problems(line) {
                Ok(problems) => self.all.extend(problems.into_iter().map(|(command, problem)| {
                    let source = Source::Line { file: name.clone(), number, command };
                    Question { source, problem }
                })),
                Err(Skip::Refused(why)) => self.refused.push(format!("{name}, line {number}: {why}")),
                Err(_) => self.others += 1,
            }
        }
        Ok(())
    }
}

/// A random problem; where there is a corpus, every other one is a problem of it, bent.
fn random(seed: u64, number: u64, given: &[Question]) -> OwnedProblem {
    if given.is_empty() || number.is_multiple_of(2) {
        return generate::numbered(seed, number);
    }
    let choices = &mut Choices::numbered(seed, number);
    let mut problem = given[choices.below(given.len())].problem.clone();
    for _ in 0..=choices.below(3) {
        mutate(&mut problem, choices);
    }
    problem
}

/// The problems of a line: of a command, one for each direction.
fn problems(line: &str) -> Result<Vec<(Option<String>, OwnedProblem)>, Skip> {
    match corpus::said(line, "conv")? {
        Said::Problem(problem) => Ok(vec![(None, problem)]),
        Said::Command(_, words) => of_line(&words).map_err(|usage| Skip::Refused(usage.0)),
    }
}

/// The problems of a driver line, with the line and the direction.
pub fn of_line(words: &[String]) -> Result<Vec<(Option<String>, OwnedProblem)>, Usage> {
    let line = Line::parse(words)?;
    let convolution = Convolution::from_line(&line)?;
    let directions = line.directions()?.into_iter();
    let problem = |direction: crate::flags::Direction| {
        let problem = convolution.problem(direction).map_err(|error| Usage(error.to_string()))?;
        Ok((Some(format!("{} ({})", line.command, direction.name())), problem))
    };
    directions.map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_seeds_give_problems() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("corpus.txt");
        let recorded = serde_json::json!({ "problem": generate::numbered(1, 1) });
        let text = format!("# a comment\nconv -n 1 -F 3\n{{\"op\":\"bnorm\",\"command\":\"bnorm\"}}\nconv -n 0\n{recorded}\n");
        fs::write(&file, text).unwrap();
        let options = Options { corpus: vec![file], random: 2, seed: 7 };
        let questions = Questions::of(&options).unwrap();
        let sources: Vec<String> = questions.all.iter().map(|question| question.source.to_string()).collect();
        assert_eq!(sources[0], "corpus.txt, line 2: MIOpenDriver conv -n 1 -F 3 (fwd)");
        assert_eq!(
            sources[1..],
            [
                "corpus.txt, line 2: MIOpenDriver conv -n 1 -F 3 (bwd-data)",
                "corpus.txt, line 5",
                "random problem 0 of seed 7",
                "random problem 1 of seed 7"
            ]
        );
        assert_eq!((questions.others, questions.refused.len()), (1, 1));
        assert!(questions.refused[0].starts_with("corpus.txt, line 4: batchsize is 0"), "{:?}", questions.refused);
        assert!(Questions::of(&Options { corpus: vec![], random: 0, seed: 0 }).is_err());
    }
}
