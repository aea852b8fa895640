//! MIOpenDriver's command line for convolutions: the flags as one table, and the parser and the help text that follow from it.
//!
//! What the flags mean for shapes is not here (see `convolution`). The parser reads what MIOpenDriver reads, but where the driver
//! guesses or carries on (an unknown flag, a missing value, text where a number belongs), it stops with one line.

use std::fmt::Write as _;

use crate::Usage;

/// What the value of a flag may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A 32-bit integer.
    Integer,
    /// Text, as it is.
    Text,
    /// A layout; upper-cased in the long form only, as the driver does.
    Layout,
}

/// What a flag is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Part of the problem, and so of its identity.
    Problem,
    /// How it is run: directions, iterations, verification, output.
    Run,
    /// Accepted for the sake of existing lines, without effect here.
    Ignored,
    /// Changes what the driver would do; a value other than the default is pointed out.
    Missing,
}

/// One flag.
#[derive(Debug)]
pub struct Flag {
    /// The character after one dash.
    pub short: char,
    /// The name after two dashes.
    pub long: &'static str,
    /// The value when the line does not give one.
    pub default: &'static str,
    /// What the value may be.
    pub kind: Kind,
    /// What it is for.
    pub role: Role,
    /// One line for the help text.
    pub meaning: &'static str,
}

macro_rules! flags {
    ($($short:literal $long:literal $default:literal $kind:ident $role:ident $meaning:literal;)*) => {
        /// The flags of the `conv` bases, in the order of the driver; at the end those of newer drivers.
        pub const FLAGS: &[Flag] = &[$(Flag {
            short: $short, long: $long, default: $default, kind: Kind::$kind, role: Role::$role, meaning: $meaning,
        },)*];
    };
}

flags! {
    'I' "in_layout" "" Layout Problem "layout of x: NCHW NHWC CHWN, or NCDHW NDHWC";
    'O' "out_layout" "" Layout Problem "layout of y";
    'f' "fil_layout" "" Layout Problem "layout of w";
    '_' "spatial_dim" "2" Integer Problem "2 or 3";
    'F' "forw" "0" Integer Run "bit mask 1 fwd, 2 bwd-data, 4 bwd-weights; 0 = all";
    'n' "batchsize" "100" Integer Problem "N";
    'c' "in_channels" "3" Integer Problem "C";
    '!' "in_d" "32" Integer Problem "input depth";
    'H' "in_h" "32" Integer Problem "input height";
    'W' "in_w" "32" Integer Problem "input width";
    'k' "out_channels" "32" Integer Problem "K (output channels)";
    '@' "fil_d" "3" Integer Problem "filter depth";
    'y' "fil_h" "3" Integer Problem "filter height";
    'x' "fil_w" "3" Integer Problem "filter width";
    '#' "conv_stride_d" "1" Integer Problem "stride, depth";
    'u' "conv_stride_h" "1" Integer Problem "stride, height";
    'v' "conv_stride_w" "1" Integer Problem "stride, width";
    '$' "pad_d" "0" Integer Problem "zero pad, depth";
    'p' "pad_h" "0" Integer Problem "zero pad, height";
    'q' "pad_w" "0" Integer Problem "zero pad, width";
    'r' "pad_val" "0" Integer Ignored "no effect, in the driver neither";
    '%' "trans_output_pad_d" "0" Integer Problem "output pad of a transposed convolution, depth";
    'Y' "trans_output_pad_h" "0" Integer Problem "output pad of a transposed convolution, height";
    'X' "trans_output_pad_w" "0" Integer Problem "output pad of a transposed convolution, width";
    'C' "verification_cache" "" Text Ignored "folder for cached reference results: not used";
    'w' "wall" "0" Integer Ignored "wall-clock times are always shown";
    's' "search" "0" Integer Run "1 = exhaustive search in Find";
    'P' "printconv" "1" Integer Run "print the shape";
    'o' "dump_output" "0" Integer Missing "1 = write output buffers to files";
    'd' "in_data" "" Text Missing "file with input data";
    'e' "weights" "" Text Missing "file with weights";
    'b' "bias" "" Text Missing "non-zero adds a bias step";
    'm' "mode" "conv" Text Problem "conv or trans";
    'z' "pad_mode" "default" Text Problem "same / valid / default; rewrites the pads";
    'Z' "tensor_vect" "0" Integer Problem "0 = none, 1 = channel vector (NCHWc)";
    'L' "vector_length" "1" Integer Problem "4 or 8 with -Z 1";
    '^' "dilation_d" "1" Integer Problem "dilation, depth";
    'l' "dilation_h" "1" Integer Problem "dilation, height";
    'j' "dilation_w" "1" Integer Problem "dilation, width";
    'a' "in_bias" "" Text Missing "file with bias";
    'g' "group_count" "1" Integer Problem "groups; must divide C and K";
    'D' "dout_data" "" Text Missing "file with dy";
    'S' "solution" "-1" Text Missing "-1 = Find; others = immediate mode";
    'G' "gpualloc" "0" Integer Ignored "1 = fill buffers on the device";
    'U' "in_cast_type" "-1" Text Problem "cast of x: fp32 fp16 bf16 fp8 bf8";
    'T' "out_cast_type" "-1" Text Problem "cast of y";
    'R' "wei_cast_type" "-1" Text Problem "cast of w";
    'i' "iter" "10" Integer Run "iterations";
    'V' "verify" "1" Integer Run "1 = check against a reference";
    't' "time" "0" Integer Run "1 = device times, through miopenEnableProfiling";
    '~' "gpubuffer_check" "0" Integer Ignored "guards behind outputs are always checked";
    'N' "init_output_nan" "0" Integer Ignored "outputs are always filled with a pattern first";
    '&' "tuning_policy" "0" Integer Ignored "tuning policy";
    'M' "math_type" "1" Integer Ignored "math type of the compute";
    'J' "use_hip_graph" "0" Integer Missing "1 = replay as a HIP graph";
}

/// A first word of the driver that this tool speaks: operation and data type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the driver's")]
pub enum Base {
    Conv,
    ConvFp16,
    ConvBfp16,
    ConvInt8,
}

impl Base {
    /// Every word, with what it means.
    pub const ALL: &[(&str, Base)] =
        &[("conv", Base::Conv), ("convfp16", Base::ConvFp16), ("convbfp16", Base::ConvBfp16), ("convint8", Base::ConvInt8)];

    /// The driver's word.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, base)| *base == self).map_or("", |(name, _)| name)
    }
}

/// The value of a flag, of the flag's kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Integer(i64),
    Text(String),
}

/// A line, read.
#[derive(Clone, Debug)]
pub struct Line {
    /// Operation and type.
    pub base: Base,
    /// The line as it was given, behind the word MIOpenDriver.
    pub command: String,
    values: Vec<Value>,
    given: Vec<bool>,
}

impl Line {
    /// Reads the words of a command line.
    pub fn parse(words: &[String]) -> Result<Self, Usage> {
        let is_driver = |word: &String| word == "MIOpenDriver" || word.ends_with("/MIOpenDriver");
        let words = if words.first().is_some_and(is_driver) { &words[1..] } else { words };
        let (name, rest) = words.split_first().ok_or_else(|| Usage("no base name: conv, convfp16, convbfp16 or convint8".into()))?;
        if name.starts_with('-') {
            return Err(Usage(format!("unknown option {name}, or a flag of the line before its base name")));
        }
        let base = Base::ALL.iter().find(|(known, _)| known == name).map(|(_, base)| *base);
        let base = base.ok_or_else(|| Usage(format!("not driven yet: {name}")))?;
        let mut line =
            Self { base, command: format!("MIOpenDriver {}", words.join(" ")), values: defaults()?, given: vec![false; FLAGS.len()] };
        line.read_pairs(rest)?;
        Ok(line)
    }

    fn read_pairs(&mut self, mut rest: &[String]) -> Result<(), Usage> {
        while let Some((name, after)) = rest.split_first() {
            let (index, long) = find(name)?;
            let (value, after) = after.split_first().ok_or_else(|| Usage(format!("flag {name} has no value")))?;
            self.values[index] = read(&FLAGS[index], name, value, long)?;
            self.given[index] = true;
            rest = after;
        }
        Ok(())
    }

    /// The value of an integer flag, by its long name.
    pub fn integer(&self, long: &str) -> i64 {
        match self.value(long) {
            Some(Value::Integer(value)) => *value,
            _ => 0,
        }
    }

    /// The value of a text flag, by its long name.
    pub fn text(&self, long: &str) -> &str {
        match self.value(long) {
            Some(Value::Text(value)) => value,
            _ => "",
        }
    }

    /// Whether the line itself gives a flag, by its long name.
    pub fn gives(&self, long: &str) -> bool {
        FLAGS.iter().zip(&self.given).any(|(flag, given)| flag.long == long && *given)
    }

    fn value(&self, long: &str) -> Option<&Value> {
        FLAGS.iter().position(|flag| flag.long == long).and_then(|index| self.values.get(index))
    }

    /// The flags of a role whose values are not the defaults, with those values.
    pub fn changed(&self, role: Role) -> impl Iterator<Item = (&'static Flag, String)> {
        FLAGS.iter().zip(&self.values).filter(move |(flag, _)| flag.role == role).filter_map(|(flag, value)| {
            let text = match value {
                Value::Integer(value) => value.to_string(),
                Value::Text(value) => value.clone(),
            };
            (text != flag.default).then_some((flag, text))
        })
    }

    /// The problem as a line in one spelling: base, then every flag of the problem that is not the default, in the table's order.
    pub fn normalised(&self) -> String {
        let mut line = self.base.name().to_string();
        for (flag, value) in self.changed(Role::Problem) {
            // A string takes every write.
            let _ = write!(line, " --{} {value}", flag.long);
        }
        line
    }

    /// The directions that the line asks for; without naming any, all that its type has.
    pub fn directions(&self) -> Result<Vec<Direction>, Usage> {
        let bits = self.integer("forw");
        if !(0..8).contains(&bits) {
            return Err(Usage(format!("-F {bits}: the bits are 1 fwd, 2 bwd-data, 4 bwd-weights")));
        }
        let all = if self.base == Base::ConvInt8 { Direction::Forward.bit() } else { 7 };
        let bits = if bits == 0 { all } else { bits };
        Ok(Direction::ALL.iter().filter(|d| bits & d.bit() != 0).copied().collect())
    }
}

/// What a convolution computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, serde::Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Direction {
    #[serde(rename = "fwd")]
    #[value(name = "fwd")]
    Forward,
    #[serde(rename = "bwd-data")]
    #[value(name = "bwd-data")]
    BackwardData,
    #[serde(rename = "bwd-weights")]
    #[value(name = "bwd-weights")]
    BackwardWeights,
}

impl Direction {
    const ALL: &[Direction] = &[Self::Forward, Self::BackwardData, Self::BackwardWeights];

    /// Its bit in `-F`.
    pub fn bit(self) -> i64 {
        1 << self as i64
    }

    /// What MIOpenDriver calls it in the lines that people look for.
    pub fn title(self) -> &'static str {
        match self {
            Self::Forward => "Forward Convolution",
            Self::BackwardData => "Backward Convolution Data",
            Self::BackwardWeights => "Backward Convolution Weights",
        }
    }

    /// The word that records use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "fwd",
            Self::BackwardData => "bwd-data",
            Self::BackwardWeights => "bwd-weights",
        }
    }
}

fn defaults() -> Result<Vec<Value>, Usage> {
    FLAGS.iter().map(|flag| read(flag, flag.long, flag.default, true)).collect()
}

/// Which flag a word names, and whether by its long name. Of a short form only the character after the dash counts.
fn find(word: &str) -> Result<(usize, bool), Usage> {
    if let Some(long) = word.strip_prefix("--") {
        let hint = if long.contains('=') { "; write the value as the next word" } else { "" };
        let index = FLAGS.iter().position(|flag| flag.long == long);
        return index.map(|i| (i, true)).ok_or_else(|| Usage(format!("unknown flag {word}{hint}")));
    }
    let Some(short) = word.strip_prefix('-') else { return Err(Usage(format!("{word} stands where a flag belongs"))) };
    let short = short.chars().next();
    let index = FLAGS.iter().position(|flag| Some(flag.short) == short);
    index.map(|i| (i, false)).ok_or_else(|| Usage(format!("unknown flag {word}")))
}

fn read(flag: &Flag, name: &str, value: &str, long: bool) -> Result<Value, Usage> {
    match flag.kind {
        Kind::Text => Ok(Value::Text(value.into())),
        Kind::Layout => Ok(Value::Text(if long { value.to_uppercase() } else { value.into() })),
        Kind::Integer => {
            let number = value.parse::<i32>().map_err(|_| {
                let long = flag.long;
                Usage(format!("flag {name} (--{long}) takes a number, not {value}"))
            })?;
            Ok(Value::Integer(number.into()))
        }
    }
}

/// The table as help text.
pub fn help() -> String {
    let mut text = String::from(
        "Base names: conv, convfp16, convbfp16, convint8. Every flag takes a value; the last one wins; of a short form only the \
         character after the dash counts.\n\nMIOpenDriver flags:\n",
    );
    for flag in FLAGS {
        let default = if flag.default.is_empty() { String::new() } else { format!(" [{}]", flag.default) };
        let ignored = match flag.role {
            Role::Missing => " (not driven yet)",
            Role::Ignored => " (ignored)",
            Role::Problem | Role::Run => "",
        };
        // A string takes every write.
        let _ = writeln!(text, "  -{}, --{:<20} {}{default}{ignored}", flag.short, flag.long, flag.meaning);
    }
    text
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Reads a line given as one string.
    pub fn parse(line: &str) -> Result<Line, Usage> {
        Line::parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    fn error(line: &str) -> String {
        parse(line).unwrap_err().0
    }

    #[test]
    fn names_are_unique() {
        for (i, flag) in FLAGS.iter().enumerate() {
            assert!(FLAGS[..i].iter().all(|other| other.short != flag.short && other.long != flag.long), "{}", flag.long);
        }
    }

    #[test]
    fn defaults_are_the_drivers() {
        let line = parse("conv").unwrap();
        assert_eq!((line.integer("batchsize"), line.integer("out_channels"), line.integer("iter")), (100, 32, 10));
        assert_eq!((line.text("mode"), line.text("in_layout"), line.text("solution")), ("conv", "", "-1"));
        assert_eq!(line.directions().unwrap(), Direction::ALL);
        assert_eq!(line.normalised(), "conv");
    }

    #[test]
    fn the_last_value_wins_and_the_driver_word_is_skipped() {
        for driver in ["", "MIOpenDriver ", "./bin/MIOpenDriver "] {
            let line = parse(&format!("{driver}convfp16 -n 1 --batchsize 2 -n 3")).unwrap();
            assert_eq!((line.base, line.integer("batchsize")), (Base::ConvFp16, 3));
            assert_eq!(line.command, "MIOpenDriver convfp16 -n 1 --batchsize 2 -n 3");
        }
    }

    #[test]
    fn only_the_character_after_the_dash_counts() {
        assert_eq!(parse("conv -batch 7 -! 5 -_ 3").map(|l| (l.text("bias").to_string(), l.integer("in_d"))).unwrap(), ("7".into(), 5));
        assert!(error("conv -in_layout NHWC").contains("takes a number, not NHWC"));
    }

    #[test]
    fn layouts_are_upper_cased_in_the_long_form_only() {
        assert_eq!(parse("conv --in_layout nhwc").unwrap().text("in_layout"), "NHWC");
        assert_eq!(parse("conv -I nhwc").unwrap().text("in_layout"), "nhwc");
    }

    #[test]
    fn what_the_driver_would_swallow_is_an_error() {
        assert_eq!(error("pool -n 1"), "not driven yet: pool");
        assert!(error("").contains("no base name"));
        assert!(error("conv --batch 1").contains("unknown flag --batch"));
        assert!(error("conv --batchsize=1").contains("next word"));
        assert!(error("conv -? 1").contains("unknown flag"));
        assert!(error("conv - 1").contains("unknown flag"));
        assert!(error("conv -n").contains("no value"));
        assert!(error("conv n 1").contains("where a flag belongs"));
        assert!(error("conv -n 1.5").contains("takes a number"));
        assert!(error("conv -n 99999999999").contains("takes a number"));
        assert!(error("--json conv").contains("unknown option"));
        assert!(parse("conv -F 9").unwrap().directions().is_err());
    }

    #[test]
    fn one_problem_has_one_spelling() {
        let a = parse("conv -k 8 -n 4 -i 3 -V 0 -F 1").unwrap().normalised();
        assert_eq!(a, parse("conv --batchsize 4 -k 9 -k 8 -H 32").unwrap().normalised());
        assert_eq!(a, "conv --batchsize 4 --out_channels 8");
    }

    #[test]
    fn directions_are_bits() {
        use Direction::{BackwardData, BackwardWeights, Forward};
        let directions = |line: &str| parse(line).unwrap().directions().unwrap();
        assert_eq!(directions("conv -F 7"), [Forward, BackwardData, BackwardWeights]);
        assert_eq!(directions("conv -F 4"), [BackwardWeights]);
    }

    #[test]
    fn the_help_lists_every_flag() {
        let help = help();
        assert!(FLAGS.iter().all(|flag| help.contains(&format!("--{} ", flag.long))));
    }
}
