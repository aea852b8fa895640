//! How results look: the record of a driven direction as one JSON line, or as the lines that people know from MIOpenDriver.
//! Nothing is computed here.

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::{
    convolution::{Convolution, Tensor},
    flags::{Base, Direction, Line},
    problems,
};

/// What came of one direction of a line. The field names are the JSON's.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Record {
    /// The same for every spelling of the same problem and direction.
    pub id: String,
    /// The line as it was given.
    pub command: String,
    /// Operation family.
    pub op: &'static str,
    /// Type of x.
    pub dtype: &'static str,
    /// `fwd`, `bwd-data`, `bwd-weights`.
    pub direction: &'static str,
    /// `hipdnn`, `native`, `failed`, `off`, or `none` when the direction is not driven; `unknown` without a trace.
    pub route: String,
    /// The rule that sent the call to native.
    pub rule: Option<String>,
    /// Offending values, or the error.
    pub message: Option<String>,
    /// MIOpen's status.
    pub status: i32,
    /// Whether the output is right; null if nobody looked.
    pub verified: Option<bool>,
    /// See `reference`.
    pub error: Option<f64>,
    /// See `reference`.
    pub tolerance: Option<f64>,
    /// What is wrong with the output, or which call failed.
    pub failure: Option<String>,
    /// How many elements were compared, in each of two runs.
    pub compared: u64,
    /// Microseconds in the translator.
    pub translate_us: Option<f64>,
    /// Microseconds building the plan.
    pub plan_us: Option<f64>,
    /// Microseconds of the first call.
    pub cold_us: Option<f64>,
    /// Median microseconds of the following ones.
    pub warm_us: Option<f64>,
    /// Mean microseconds of the following ones on the device, as MIOpen tells; null without `-t 1`.
    pub kernel_us: Option<f64>,
    /// The engine that served.
    pub engine: Option<String>,
    /// Notes of the translator.
    pub notes: Vec<String>,
    #[serde(skip)]
    find: Option<String>,
    #[serde(skip)]
    title: &'static str,
}

impl Record {
    /// The record of a direction that has not been driven.
    pub fn new(line: &Line, direction: Direction) -> Self {
        Self {
            id: id(line, direction),
            command: line.command.clone(),
            op: "conv",
            dtype: dtype(line.base),
            direction: direction.name(),
            title: direction.title(),
            route: "none".into(),
            ..Self::default()
        }
    }

    /// What Find said, for people.
    pub fn found(&mut self, text: String) {
        self.find = Some(text);
    }

    /// Whether everything is as it should be.
    pub fn is_good(&self) -> bool {
        self.status == 0 && self.failure.is_none() && self.verified != Some(false)
    }

    /// Prints it as one JSON line.
    pub fn print_json(&self) -> anyhow::Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }

    /// Prints it for people.
    pub fn print(&self, line: &Line, convolution: &Convolution) {
        println!("{}", self.command);
        if line.integer("printconv") != 0 {
            print_shape(self.title, convolution);
        }
        if let Some(find) = &self.find {
            println!("{find}");
        }
        if let Some(kernel) = self.kernel_us {
            println!("GPU Kernel Time {} Elapsed: {:.6} ms (average of {})", self.title, kernel / 1000.0, line.integer("iter"));
        }
        if let (Some(warm), true) = (self.warm_us, line.integer("time") != 0) {
            println!("Wall-clock Time {} Elapsed: {:.6} ms (median of {})", self.title, warm / 1000.0, line.integer("iter"));
        }
        println!("Route: {}", self.route_text());
        self.print_times(line);
        println!("{}", self.verdict());
    }

    /// One line about the way the call took.
    fn route_text(&self) -> String {
        let message = self.message.as_deref().unwrap_or("no reason given");
        match self.route.as_str() {
            "hipdnn" => format!("hipdnn (engine {})", self.engine.as_deref().unwrap_or("unnamed")) + &self.notes_text(),
            "native" => format!("native: {}: {message}", self.rule.as_deref().unwrap_or("no rule")),
            "failed" => format!("failed: {message}"),
            other => other.to_string() + &self.message.as_ref().map(|m| format!(": {m}")).unwrap_or_default(),
        }
    }

    fn notes_text(&self) -> String {
        if self.notes.is_empty() { String::new() } else { format!("; notes: {}", self.notes.join(", ")) }
    }

    fn print_times(&self, line: &Line) {
        let Some(cold) = self.cold_us else { return };
        let phase = |name: &str, time: Option<f64>| time.map(|us| format!("; {name}: {us:.1} us")).unwrap_or_default();
        let warm = self.warm_us.map(|us| format!("; warm: {us:.1} us (median of {})", line.integer("iter"))).unwrap_or_default();
        println!("Cold: {cold:.1} us{warm}{}{}", phase("translate", self.translate_us), phase("plan", self.plan_us));
    }

    /// The line that people grep for.
    fn verdict(&self) -> String {
        let name = self.title;
        let figures = match (self.error, self.tolerance) {
            (Some(error), Some(tolerance)) => format!(" (error {error:.3e}, tolerance {tolerance:.3e}, {} elements)", self.compared),
            _ => String::new(),
        };
        match (&self.failure, self.verified) {
            (Some(failure), _) => format!("{name} FAILED{figures}: {failure}"),
            (None, Some(true)) => format!("{name} Verifies OK on CPU reference{figures}"),
            (None, Some(false)) => format!("{name} FAILED{figures}"),
            (None, None) => format!("{name}: not verified"),
        }
    }
}

fn print_shape(title: &str, c: &Convolution) {
    let tensor = |name: &str, t: &Tensor| format!("{name} {:?} {}", t.dims, t.layout);
    println!(
        "{title} {}{} {} {}, pads {:?}, strides {:?}, dilations {:?}, groups {}",
        if c.transposed { "(transposed) " } else { "" },
        tensor("x", &c.x),
        tensor("w", &c.w),
        tensor("y", &c.y),
        c.pads,
        c.strides,
        c.dilations,
        c.groups
    );
}

/// How far something is. On stderr, and only if that is a terminal.
pub fn progress(what: &'static str, length: u64) -> anyhow::Result<ProgressBar> {
    let style = ProgressStyle::with_template("{prefix} [{wide_bar}] {pos}/{len}, {eta} left {msg}")?.progress_chars("=> ");
    Ok(ProgressBar::new(length).with_style(style).with_prefix(what))
}

/// The name of a base's type.
pub fn dtype(base: Base) -> &'static str {
    match base {
        Base::Conv => "fp32",
        Base::ConvFp16 => "fp16",
        Base::ConvBfp16 => "bf16",
        Base::ConvInt8 => "int8",
    }
}

/// A hash of the normalised line and the direction.
pub fn id(line: &Line, direction: Direction) -> String {
    let text = format!("{} {}", line.normalised(), direction.name());
    problems::hash(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::tests::parse;

    #[test]
    fn ids_are_stable_and_tell_problems_apart() {
        let id = |line: &str, direction| super::id(&parse(line).unwrap(), direction);
        let plain = id("conv -n 4 -V 0", Direction::Forward);
        assert_eq!(plain, id("MIOpenDriver conv --batchsize 4 -F 1 -i 3", Direction::Forward));
        assert_ne!(plain, id("conv -n 4", Direction::BackwardData));
        assert_ne!(plain, id("convfp16 -n 4", Direction::Forward));
        // Written down, so that a change of the hash is noticed: ids are compared between versions.
        assert_eq!(plain, "59f0bc0fe0c0ec81");
    }

    #[test]
    fn the_record_says_what_happened() {
        let line = parse("convfp16").unwrap();
        let mut record = Record::new(&line, Direction::Forward);
        assert_eq!((record.dtype, record.direction, record.is_good()), ("fp16", "fwd", true));
        (record.route, record.rule, record.message) = ("native".into(), Some("conv.scaling.beta".into()), Some("beta is 1".into()));
        assert_eq!(record.route_text(), "native: conv.scaling.beta: beta is 1");
        record.verified = Some(false);
        record.error = Some(f64::INFINITY);
        assert!(!record.is_good() && record.verdict().contains("FAILED"));
        assert!(serde_json::to_string(&record).unwrap().contains(r#""verified":false,"error":null"#));
    }
}
