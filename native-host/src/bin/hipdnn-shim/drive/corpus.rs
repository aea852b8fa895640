//! Files of driver lines: reading them, and choosing what is driven. Nothing is run here.
//!
//! A file holds one entry a line: a JSON object with `command` (and `op`, which is `conv` if it is missing), or with a recorded `problem`,
//! or the command itself; empty lines and lines that begin with `#` are passed over.

use std::{collections::BTreeMap, fs, num::NonZeroUsize, path::Path, path::PathBuf, thread::available_parallelism};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use hipdnn_host::problem::OwnedProblem;
use serde::{Deserialize, Serialize};

use super::session::drivable;
use crate::{
    Usage,
    convolution::{Convolution, Tensor},
    flags::{Direction, Line},
    output,
    problems::Drivable,
    reference::width,
};

/// What the command line says about corpora.
#[derive(Args, Clone)]
pub struct Options {
    /// Drive every line of this file, verified, in the directions that it asks for, and print what came of them
    #[arg(long, value_name = "FILE")]
    pub corpus: Option<PathBuf>,
    /// With --corpus: only lines of this operation
    #[arg(long, default_value = "conv", value_name = "OP", requires = "corpus")]
    pub op: String,
    /// With --corpus: only lines of at most so many billions of multiplications
    #[arg(long, default_value_t = 2.0, value_name = "GMAC", requires = "corpus", value_parser = limit)]
    pub max_gmac: f64,
    /// With --corpus: only lines whose tensors take at most so many billions of bytes together
    #[arg(long, default_value_t = 1.0, value_name = "GB", requires = "corpus", value_parser = limit)]
    pub max_gb: f64,
    /// With --corpus: engine profiles of the reference backend, each a run of its own (default: both)
    #[arg(long = "profile", value_enum, value_name = "PROFILE", requires = "corpus")]
    pub profile: Vec<Profile>,
    /// With --corpus: only these directions (default: all)
    #[arg(long = "direction", value_enum, value_name = "DIRECTION", requires = "corpus")]
    pub direction: Vec<Direction>,
    /// With --corpus: how many processes drive lines at the same time (default: one for each processor)
    #[arg(long, value_name = "N", requires = "corpus")]
    pub jobs: Option<NonZeroUsize>,
}

impl Options {
    /// The profiles to run, in order.
    pub fn profiles(&self) -> Vec<Profile> {
        Profile::value_variants().iter().copied().filter(|profile| self.profile.is_empty() || self.profile.contains(profile)).collect()
    }

    /// How many processes.
    pub fn jobs(&self) -> usize {
        self.jobs.map_or_else(|| available_parallelism().map_or(1, usize::from), usize::from)
    }
}

/// A limit is a number that is not negative.
fn limit(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|limit: &f64| *limit >= 0.0).ok_or_else(|| "a number that is not negative".into())
}

/// What the engines of the reference backend take. Other backends do not know this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// All that the ABI expresses.
    Abi,
    /// What AMD's MIOpen provider documents.
    MiopenProvider,
}

impl Profile {
    /// The name that the backend knows it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Abi => "abi",
            Self::MiopenProvider => "miopen-provider",
        }
    }
}

/// A direction of a line to drive.
#[derive(Clone, Debug)]
pub struct Entry {
    /// As the file has it; a recorded problem for people.
    pub command: String,
    /// What a worker is told, see [`Request`].
    pub request: Request,
    /// The direction.
    pub direction: Direction,
    /// Billions of multiplications.
    pub gmac: f64,
    /// Type of x.
    pub dtype: &'static str,
}

/// What a worker is told to drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The words of a line with one direction only, one iteration unless it gives a number, and with verification.
    Words(Vec<String>),
    /// A recorded problem.
    Problem(OwnedProblem),
}

/// Why a line is not driven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Of another operation.
    Operation,
    /// It has none of the directions asked for.
    Direction,
    /// More multiplications than asked for.
    Multiplications,
    /// Larger tensors than asked for.
    Bytes,
    /// The driver would refuse it, or this tool cannot drive it, and why.
    Refused(String),
}

impl Skip {
    /// The words for people.
    pub fn text(&self) -> &'static str {
        match self {
            Self::Operation => "of other operations",
            Self::Direction => "without such a direction",
            Self::Multiplications => "with more multiplications",
            Self::Bytes => "with larger tensors",
            Self::Refused(_) => "refused",
        }
    }
}

/// What a file holds.
pub struct Selection {
    /// The file.
    pub file: PathBuf,
    /// How many lines it has.
    pub lines: usize,
    /// How many of them are driven.
    pub driven: usize,
    /// The directions that are driven, line by line.
    pub entries: Vec<Entry>,
    /// How many of the others, by the reason's words.
    pub skipped: BTreeMap<&'static str, usize>,
    /// What was refused: number of the line, and why.
    pub refusals: Vec<(usize, String)>,
    /// What was asked for, for the summary.
    pub limits: (f64, f64),
}

/// An entry in the form of an object.
#[derive(Deserialize)]
struct Object {
    op: Option<String>,
    command: Option<String>,
    problem: Option<OwnedProblem>,
}

/// Reads a file and chooses.
pub fn read(file: &Path, options: &Options) -> Result<Selection> {
    if options.op != "conv" {
        return Err(Usage(format!("operation {}: only conv is driven so far", options.op)).into());
    }
    let bytes = fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let limits = (options.max_gmac, options.max_gb);
    let (skipped, refusals) = (BTreeMap::new(), Vec::new());
    let mut selection = Selection { file: file.into(), lines: 0, driven: 0, entries: Vec::new(), skipped, refusals, limits };
    for (number, line) in lines(&text) {
        selection.lines += 1;
        match choose(line, options) {
            Ok(entries) => {
                selection.driven += 1;
                selection.entries.extend(entries);
            }
            Err(skip) => {
                *selection.skipped.entry(skip.text()).or_default() += 1;
                if let Skip::Refused(why) = skip {
                    selection.refusals.push((number, why));
                }
            }
        }
    }
    if selection.entries.is_empty() {
        return Err(Usage(super::summary::selection(&selection) + "\nno line is driven").into());
    }
    Ok(selection)
}

/// What a line says.
pub enum Said {
    /// A recorded problem.
    Problem(OwnedProblem),
    /// A command, and its words.
    Command(String, Vec<String>),
}

/// The lines of a file that say something, with their numbers.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // A byte order mark is no part of the first line.
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).zip(1..);
    lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')).map(|(line, number)| (number, line))
}

/// Reads a line that may be of an operation.
pub fn said(text: &str, op: &str) -> Result<Said, Skip> {
    let object = if text.starts_with('{') {
        serde_json::from_str(text).map_err(|error| Skip::Refused(error.to_string()))?
    } else {
        Object { op: None, command: Some(text.into()), problem: None }
    };
    if object.op.is_some_and(|given| given != op) {
        return Err(Skip::Operation);
    }
    if let Some(problem) = object.problem {
        return Ok(Said::Problem(problem));
    }
    let command = object.command.ok_or_else(|| Skip::Refused("no command".into()))?;
    let words = shlex::split(&command).ok_or_else(|| Skip::Refused("quotes that do not end".into()))?;
    Ok(Said::Command(command, words))
}

/// The directions of a line, or why it is not driven.
fn choose(text: &str, options: &Options) -> Result<Vec<Entry>, Skip> {
    match said(text, &options.op)? {
        Said::Problem(problem) => of_problem(problem, options).map(|entry| vec![entry]),
        Said::Command(command, words) => entries(&command, &words, options),
    }
}

fn entries(command: &str, words: &[String], options: &Options) -> Result<Vec<Entry>, Skip> {
    let refused = |usage: Usage| Skip::Refused(usage.0);
    let line = Line::parse(words).map_err(refused)?;
    let mut directions = line.directions().map_err(refused)?;
    directions.retain(|direction| options.direction.is_empty() || options.direction.contains(direction));
    if directions.is_empty() {
        return Err(Skip::Direction);
    }
    let convolution = Convolution::from_line(&line).map_err(refused)?;
    let gmac = within_limits(&convolution, options)?;
    drivable(&convolution, &line).map_err(refused)?;
    let entry = |direction| Entry {
        command: command.to_string(),
        request: Request::Words(completed(words, &line, direction)),
        direction,
        gmac,
        dtype: output::dtype(line.base),
    };
    Ok(directions.into_iter().map(entry).collect())
}

/// The entry of a recorded problem.
fn of_problem(problem: OwnedProblem, options: &Options) -> Result<Entry, Skip> {
    let refused = |usage: Usage| Skip::Refused(usage.0);
    let Drivable { line, convolution, direction } = Drivable::of(&problem).map_err(refused)?;
    if !options.direction.is_empty() && !options.direction.contains(&direction) {
        return Err(Skip::Direction);
    }
    let gmac = within_limits(&convolution, options)?;
    drivable(&convolution, &line).map_err(refused)?;
    Ok(Entry { command: line.command.clone(), request: Request::Problem(problem), direction, gmac, dtype: output::dtype(line.base) })
}

/// Billions of multiplications, if there are not too many, nor too many bytes.
fn within_limits(convolution: &Convolution, options: &Options) -> Result<f64, Skip> {
    let gmac = convolution.multiplications() as f64 / 1e9;
    let bytes: f64 = [&convolution.x, &convolution.w, &convolution.y].map(bytes).iter().sum();
    if gmac > options.max_gmac {
        return Err(Skip::Multiplications);
    }
    if bytes / 1e9 > options.max_gb {
        return Err(Skip::Bytes);
    }
    Ok(gmac)
}

fn completed(words: &[String], line: &Line, direction: Direction) -> Vec<String> {
    let mut words = words.to_vec();
    let mut append = |flag: &str, value: i64| words.extend([flag.to_string(), value.to_string()]);
    append("--forw", direction.bit());
    append("--verify", 1);
    if !line.gives("iter") {
        append("--iter", 1);
    }
    words
}

fn bytes(tensor: &Tensor) -> f64 {
    tensor.extent() as f64 * width(tensor.data_type) as f64
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn options(arguments: &[&str]) -> Options {
        Command::parse_from(["drive"].iter().chain(arguments)).options
    }

    fn skip(line: &str) -> Option<Skip> {
        choose(line, &options(&[])).err()
    }

    #[test]
    fn lines_are_chosen() {
        assert_eq!(skip("conv -n 1 -F 1"), None);
        assert_eq!(skip("MIOpenDriver conv -n 1"), None);
        assert_eq!(skip(r#"{"op":"conv","command":"MIOpenDriver convfp16 -n 1 -F 3 '-_' 2"}"#), None);
        assert_eq!(skip(r#"{"op":"bnorm","command":"MIOpenDriver bnorm -n 1"}"#), Some(Skip::Operation));
        let forward = options(&["--corpus", "f", "--direction", "fwd"]);
        assert_eq!(choose("conv -n 1 -F 2", &forward).err(), Some(Skip::Direction));
        assert_eq!(choose("conv -n 1 -F 3", &forward).unwrap().len(), 1);
        assert_eq!(choose("conv -n 1", &options(&[])).unwrap().len(), 3);
        assert_eq!(choose("convint8 -n 1 -c 4", &options(&[])).unwrap().len(), 1);
        assert!(matches!(skip("convint8 -n 1 -c 4 -F 2"), Some(Skip::Refused(_))));
        assert_eq!(skip("conv -n 128 -c 512 -k 512"), Some(Skip::Multiplications));
        assert_eq!(skip("conv -n 60000 -c 1 -k 4 -y 1 -x 1"), Some(Skip::Bytes));
        assert!(matches!(skip("conv -n 1 -m both"), Some(Skip::Refused(why)) if why.contains("mode both")));
        assert_eq!(skip(r#"{"op":"bnorm"}"#), Some(Skip::Operation));
        for line in ["conv -n '1", r#"{"op":"conv"}"#, "[]", "bogus -n 1", "{"] {
            assert!(matches!(skip(line), Some(Skip::Refused(_))), "{line}");
        }
    }

    #[test]
    fn one_iteration_unless_the_line_says_more() {
        let words = |line: &str| match &choose(line, &options(&[])).unwrap()[0].request {
            Request::Words(words) => words.join(" "),
            Request::Problem(problem) => panic!("{problem}"),
        };
        assert_eq!(words("conv -n 1 -V 0"), "conv -n 1 -V 0 --forw 1 --verify 1 --iter 1");
        assert_eq!(words("conv -n 1 -i 30 -F 4"), "conv -n 1 -i 30 -F 4 --forw 4 --verify 1");
    }

    #[test]
    fn recorded_problems_are_entries() {
        let problem = OwnedProblem::Convolution(Box::new(crate::problems::tests::odd()));
        let line = serde_json::json!({ "problem": problem, "calls": {} }).to_string();
        let entries = choose(&line, &options(&[])).unwrap();
        assert_eq!((entries.len(), &entries[0].request), (1, &Request::Problem(problem.clone())));
        assert_eq!(entries[0].command, problem.to_string());
        let none = options(&["--corpus", "f", "--direction", "bwd-data"]);
        assert_eq!(choose(&line, &none).err(), Some(Skip::Direction));
        let small = options(&["--corpus", "f", "--max-gmac", "0"]);
        assert_eq!(choose(&line, &small).err(), Some(Skip::Multiplications));
        assert!(matches!(skip(&line.replace("float", "double")), Some(Skip::Refused(why)) if why.contains("only translated")));
        assert!(matches!(skip(&line.replace("\"beta\"", "\"other\"")), Some(Skip::Refused(why)) if why.contains("unknown field")));
    }

    #[test]
    fn limits_are_numbers_that_are_not_negative() {
        for wrong in ["nan", "-1", "much"] {
            assert!(Command::try_parse_from(["drive", "--corpus", "f", "--max-gmac", wrong]).is_err(), "{wrong}");
        }
        assert!(Command::try_parse_from(["drive", "--corpus", "f", "--jobs", "0"]).is_err());
        assert!(Command::try_parse_from(["drive", "--profile", "abi"]).is_err(), "only with a corpus");
    }

    #[test]
    fn both_profiles_are_the_default() {
        assert_eq!(options(&[]).profiles(), [Profile::Abi, Profile::MiopenProvider]);
        assert_eq!(
            options(&["--corpus", "f", "--profile", "miopen-provider", "--profile", "miopen-provider"]).profiles(),
            [Profile::MiopenProvider]
        );
    }
}
