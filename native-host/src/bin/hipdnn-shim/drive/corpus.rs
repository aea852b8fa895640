//! Files of driver lines: reading them, and choosing what is driven. Nothing is run here.
//!
//! A file holds one entry a line: a JSON object with `command` (and `op`, which is `conv` if it is missing), or the command itself;
//! empty lines and lines that begin with `#` are passed over.

use std::{collections::BTreeMap, fs, path::Path, path::PathBuf, thread::available_parallelism};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::session::drivable;
use crate::{
    Usage,
    convolution::{Convolution, Tensor},
    flags::{Direction, Line},
    output,
    reference::width,
};

/// What the command line says about corpora.
#[derive(Args, Clone)]
pub struct Options {
    /// Drive every line of this file, verified, in the directions that it asks for, and print what came of them
    #[arg(long, value_name = "FILE")]
    pub corpus: Option<PathBuf>,
    /// With --corpus: only lines of this operation
    #[arg(long, default_value = "conv", value_name = "OP")]
    pub op: String,
    /// With --corpus: only lines of at most so many billions of multiplications
    #[arg(long, default_value_t = 2.0, value_name = "GMAC")]
    pub max_gmac: f64,
    /// With --corpus: only lines whose tensors take at most so many billions of bytes together
    #[arg(long, default_value_t = 1.0, value_name = "GB")]
    pub max_gb: f64,
    /// With --corpus: engine profiles of the reference backend, each a run of its own (default: both)
    #[arg(long = "profile", value_enum, value_name = "PROFILE")]
    pub profile: Vec<Profile>,
    /// With --corpus: only these directions (default: all)
    #[arg(long = "direction", value_enum, value_name = "DIRECTION")]
    pub direction: Vec<Direction>,
    /// With --corpus: how many processes drive lines at the same time (default: one for each processor)
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
}

impl Options {
    /// The profiles to run, in order.
    pub fn profiles(&self) -> Vec<Profile> {
        if self.profile.is_empty() { Profile::value_variants().to_vec() } else { self.profile.clone() }
    }

    /// How many processes.
    pub fn jobs(&self) -> usize {
        self.jobs.unwrap_or_else(|| available_parallelism().map_or(1, usize::from)).max(1)
    }
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
    /// As the file has it.
    pub command: String,
    /// Its words, with this direction only, one iteration unless it gives a number, and with verification.
    pub words: Vec<String>,
    /// The direction.
    pub direction: Direction,
    /// Billions of multiplications.
    pub gmac: f64,
    /// Type of x.
    pub dtype: &'static str,
}

/// Why a line is not driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// Of another operation.
    Operation,
    /// It has none of the directions asked for.
    Direction,
    /// More multiplications than asked for.
    Multiplications,
    /// Larger tensors than asked for.
    Bytes,
    /// The driver would refuse it, or this tool cannot drive it.
    Refused,
}

impl Skip {
    /// The words for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Operation => "of other operations",
            Self::Direction => "without such a direction",
            Self::Multiplications => "with more multiplications",
            Self::Bytes => "with larger tensors",
            Self::Refused => "refused",
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
    /// The others.
    pub skipped: BTreeMap<Skip, usize>,
    /// What was asked for, for the summary.
    pub limits: (f64, f64),
}

/// An entry in the form of an object.
#[derive(Deserialize)]
struct Object {
    op: Option<String>,
    command: String,
}

/// Reads a file and chooses.
pub fn read(file: &Path, options: &Options) -> Result<Selection> {
    if options.op != "conv" {
        return Err(Usage(format!("operation {}: only conv is driven so far", options.op)).into());
    }
    let text = fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let limits = (options.max_gmac, options.max_gb);
    let mut selection = Selection { file: file.into(), lines: 0, driven: 0, entries: Vec::new(), skipped: BTreeMap::new(), limits };
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#')) {
        selection.lines += 1;
        match choose(line, options).with_context(|| format!("{}, line {}", file.display(), number + 1))? {
            Ok(entries) => {
                selection.driven += 1;
                selection.entries.extend(entries);
            }
            Err(skip) => *selection.skipped.entry(skip).or_default() += 1,
        }
    }
    Ok(selection)
}

/// The directions of a line, or why it is not driven. A line that cannot be read at all is an error.
fn choose(text: &str, options: &Options) -> Result<Result<Vec<Entry>, Skip>> {
    let object =
        if text.trim_start().starts_with('{') { serde_json::from_str(text)? } else { Object { op: None, command: text.trim().into() } };
    if object.op.is_some_and(|op| op != options.op) {
        return Ok(Err(Skip::Operation));
    }
    let words = shlex::split(&object.command).context("quotes that do not end")?;
    Ok(entries(&object.command, &words, options))
}

fn entries(command: &str, words: &[String], options: &Options) -> Result<Vec<Entry>, Skip> {
    let refused = |_| Skip::Refused;
    let line = Line::parse(words).map_err(refused)?;
    let mut directions = line.directions().map_err(refused)?;
    directions.retain(|direction| options.direction.is_empty() || options.direction.contains(direction));
    if directions.is_empty() {
        return Err(Skip::Direction);
    }
    let convolution = Convolution::from_line(&line).map_err(refused)?;
    let gmac = convolution.multiplications() as f64 / 1e9;
    let bytes: f64 = [&convolution.x, &convolution.w, &convolution.y].map(bytes).iter().sum();
    if gmac > options.max_gmac {
        return Err(Skip::Multiplications);
    }
    if bytes / 1e9 > options.max_gb {
        return Err(Skip::Bytes);
    }
    drivable(&convolution, &line).map_err(refused)?;
    let entry = |direction| Entry {
        command: command.to_string(),
        words: completed(words, &line, direction),
        direction,
        gmac,
        dtype: output::dtype(line.base),
    };
    Ok(directions.into_iter().map(entry).collect())
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
        choose(line, &options(&[])).unwrap().err()
    }

    #[test]
    fn lines_are_chosen() {
        assert_eq!(skip("conv -n 1 -F 1"), None);
        assert_eq!(skip("MIOpenDriver conv -n 1"), None);
        assert_eq!(skip(r#"{"op":"conv","command":"MIOpenDriver convfp16 -n 1 -F 3 '-_' 2"}"#), None);
        assert_eq!(skip(r#"{"op":"bnorm","command":"MIOpenDriver bnorm -n 1"}"#), Some(Skip::Operation));
        let forward = options(&["--direction", "forward"]);
        assert_eq!(choose("conv -n 1 -F 2", &forward).unwrap().err(), Some(Skip::Direction));
        assert_eq!(choose("conv -n 1 -F 3", &forward).unwrap().unwrap().len(), 1);
        assert_eq!(choose("conv -n 1", &options(&[])).unwrap().unwrap().len(), 3);
        assert_eq!(choose("convint8 -n 1 -c 4", &options(&[])).unwrap().unwrap().len(), 1);
        assert_eq!(skip("convint8 -n 1 -c 4 -F 2"), Some(Skip::Refused));
        assert_eq!(skip("conv -n 128 -c 512 -k 512"), Some(Skip::Multiplications));
        assert_eq!(skip("conv -n 60000 -c 1 -k 4 -y 1 -x 1"), Some(Skip::Bytes));
        assert_eq!(skip("conv -n 1 -m both"), Some(Skip::Refused));
        assert!(choose("conv -n '1", &options(&[])).is_err());
        assert!(choose("{\"op\":\"conv\"}", &options(&[])).is_err());
    }

    #[test]
    fn one_iteration_unless_the_line_says_more() {
        let words = |line: &str| choose(line, &options(&[])).unwrap().unwrap()[0].words.join(" ");
        assert_eq!(words("conv -n 1 -V 0"), "conv -n 1 -V 0 --forw 1 --verify 1 --iter 1");
        assert_eq!(words("conv -n 1 -i 30 -F 4"), "conv -n 1 -i 30 -F 4 --forw 4 --verify 1");
    }

    #[test]
    fn both_profiles_are_the_default() {
        assert_eq!(options(&[]).profiles(), [Profile::Abi, Profile::MiopenProvider]);
        assert_eq!(options(&["--profile", "miopen-provider"]).profiles(), [Profile::MiopenProvider]);
    }
}
