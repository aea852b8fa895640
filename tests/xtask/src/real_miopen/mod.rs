//! `cargo xtask real-miopen`: Debian's unmodified MIOpen and MIOpenDriver with the shim installed between them, on stand-ins for the GPU.
//!
//! With forwarding off, every operation of the driver must print and return what it does without the shim. With forwarding on, convolution
//! lines of the corpus must end with the driver's own "Verifies OK", against its own reference: natively none of them can, since the HIP
//! stand-in launches no kernel, so whatever verifies was computed by hipDNN. What is compared is here, calls one by one in `calls`; what is
//! run with is in `machine`.

mod calls;
mod machine;

use std::{fs, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde::Deserialize;

use crate::{
    build,
    packages::Packages,
    programs::{TIMEOUT, in_parallel},
};
use machine::{Front, Machine, Ran};

/// MIOpen and its driver with what they depend on; its headers without that (a compiler for GPUs). Left out is what stand-ins replace
/// (gigabytes of kernels), and what only compilers and test scripts need.
const PACKAGES: Packages = Packages {
    what: "the real MIOpen",
    suites: &["sid", "experimental"],
    preferences: "Package: libmiopen* libamd* libhip* libhsa* libroc*\nPin: release a=experimental\nPin-Priority: 990\n",
    roots: &["libmiopen1", "libmiopen1-tests"],
    alone: &["libmiopen-dev"],
    without: &["librocblas", "librocrand", "libclang-common", "libmiopen-tests-data", "python3"],
    files: &["usr/lib/x86_64-linux-gnu/libMIOpen.so.1", "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", DRIVER],
};
/// The driver, in the unpacked tree.
const DRIVER: &str = "usr/libexec/rocm/libmiopen1-tests/MIOpenDriver";
/// Lines that must verify at least: fewer, and the check has lost its substance.
const AT_LEAST: usize = 100;
/// Multiply-adds of a line, at most, in billions.
const MAX_GMAC: f64 = 0.05;
/// Of these lines, every so many is also compared with forwarding off.
const OFF_STEP: usize = 10;
/// Of the operations, and of the lines, every so many is watched call by call.
const SEEN_STEP: usize = 8;
const LIMIT: Duration = Duration::from_secs(300);

/// Runs everything; fails if anything is wrong.
pub fn run() -> Result<()> {
    let folder = build::root().join("target/real-miopen");
    fs::create_dir_all(&folder)?;
    let root = PACKAGES.lay_out(&folder)?;
    let machine = Machine::build(&folder, root, build::dist()?)?;
    let lines = corpus()?;
    let compared = compare(&machine, &lines)?;
    let seen = see(&machine, &lines)?;
    let verified = verify_on(&machine, &lines)?;
    Packages::unpacked(&folder)?.iter().filter(|name| name.starts_with("libmiopen1")).for_each(|name| println!("{name}"));
    let groups: Vec<&Group> = compared.iter().chain(&seen).chain(&verified).collect();
    println!("{}", summary(&groups));
    let wrong: Vec<&String> = groups.iter().flat_map(|group| &group.wrong).collect();
    for text in &wrong {
        println!("{text}");
    }
    ensure!(wrong.is_empty(), "{} runs are wrong", wrong.len());
    let count: usize = verified.iter().map(|group| group.right).sum();
    ensure!(count >= AT_LEAST, "only {count} lines were verified, of at least {AT_LEAST}");
    Ok(())
}

/// Runs of one kind.
#[derive(Default)]
struct Group {
    name: String,
    right: usize,
    directions: usize,
    left_out: usize,
    wrong: Vec<String>,
}

fn summary(groups: &[&Group]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["MIOpenDriver through the shim", "runs", "right", "wrong", "directions verified", "not run"]);
    for group in groups {
        let directions = if group.directions > 0 { group.directions.to_string() } else { String::new() };
        let (right, wrong) = (group.right, group.wrong.len());
        table.add_row([
            &group.name,
            &(right + wrong).to_string(),
            &right.to_string(),
            &wrong.to_string(),
            &directions,
            &group.left_out.to_string(),
        ]);
    }
    table
}

/// A line of the corpus.
#[derive(Deserialize)]
struct Line {
    op: String,
    command: String,
    #[serde(default)]
    derived: Derived,
    params: Parameters,
}

#[derive(Default, Deserialize)]
struct Derived {
    gmac: Option<f64>,
}

#[derive(Deserialize)]
struct Parameters {
    #[serde(default)]
    dirs: Vec<String>,
    #[serde(default)]
    bias: i64,
}

impl Line {
    fn words(&self) -> Vec<String> {
        self.command.split_whitespace().skip(1).map(str::to_string).collect()
    }

    fn base(&self) -> String {
        self.words().first().cloned().unwrap_or_default()
    }

    /// One iteration, verified, without times and searches: the last value of a flag wins.
    fn arguments(&self) -> Vec<String> {
        let settings = ["-V", "1", "-i", "1", "-t", "0", "-s", "0"].map(str::to_string);
        self.words().into_iter().chain(settings).collect()
    }

    /// Why a line cannot be verified by forwarded calls alone.
    fn needs_native(&self) -> bool {
        // A bias is a kernel of its own; a line that names a native solver asks native for it.
        self.params.bias != 0 || self.words().iter().any(|word| word == "-S" || word == "--solution")
    }
}

/// The small convolutions of the corpus whose types the driver verifies.
fn corpus() -> Result<Vec<Line>> {
    let text = fs::read_to_string(build::root().join("tests/corpus/driver.jsonl"))?;
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| line.contains("\"op\":\"conv\"")) {
        let line: Line = serde_json::from_str(line).context("a line of the corpus")?;
        let small = line.derived.gmac.is_some_and(|gmac| gmac <= MAX_GMAC);
        if line.op == "conv" && small && ["conv", "convfp16", "convbfp16"].contains(&line.base().as_str()) {
            lines.push(line);
        }
    }
    Ok(lines)
}

/// What is seen of the driver's calls: of some operations without forwarding, of some lines of each type with it.
fn see(machine: &Machine, lines: &[Line]) -> Result<Vec<Group>> {
    let operations = driver_operations(machine)?;
    let operations: Vec<_> = operations.iter().step_by(SEEN_STEP).map(|base| operation(base)).collect();
    let lines: Vec<_> = lines.iter().filter(|line| !line.needs_native()).step_by(SEEN_STEP).map(Line::arguments).collect();
    Ok(vec![calls::names(machine)?, calls::off(machine, &operations)?, calls::on(machine, &lines)?])
}

/// Runs that must be the same with the shim as without it.
struct Comparison<'a> {
    name: &'static str,
    program: &'a Path,
    runs: Vec<Vec<String>>,
    front: Front,
    /// Numbers too: they are statuses.
    exact: bool,
}

/// What must not differ: everything with forwarding off, and with it on what no engine is asked for.
fn compare(machine: &Machine, lines: &[Line]) -> Result<Vec<Group>> {
    let driver = machine.driver();
    let operations = driver_operations(machine)?.iter().map(|base| operation(base)).collect();
    let lines = lines.iter().step_by(OFF_STEP).map(Line::arguments).collect();
    let (client, odd) = (machine.client("convolution")?, vec![vec!["odd".to_string()]]);
    let comparisons = [
        Comparison { name: "off, every operation", program: &driver, runs: operations, front: Front::Off, exact: false },
        Comparison { name: "off, corpus lines", program: &driver, runs: lines, front: Front::Off, exact: false },
        Comparison { name: "off, statuses of odd arguments", program: &client, runs: odd.clone(), front: Front::Off, exact: true },
        Comparison { name: "on, statuses of odd arguments", program: &client, runs: odd, front: Front::On, exact: true },
    ];
    comparisons.iter().map(|comparison| comparison.made_on(machine)).collect()
}

impl Comparison<'_> {
    fn made_on(&self, machine: &Machine) -> Result<Group> {
        let results = in_parallel(&self.runs, |arguments| {
            let native = machine.run(Front::Native, self.program, arguments, LIMIT)?;
            Ok((native, machine.run(self.front, self.program, arguments, LIMIT)?))
        })?;
        let mut group = Group { name: format!("{}: as without it", self.name), ..Group::default() };
        for (arguments, (native, shim)) in self.runs.iter().zip(results) {
            match difference(&native, &shim, self.exact) {
                None => group.right += 1,
                Some(text) => group.wrong.push(format!("{}: {}: {text}", self.name, arguments.join(" "))),
            }
        }
        Ok(group)
    }
}

/// The first words that this driver knows.
fn driver_operations(machine: &Machine) -> Result<Vec<String>> {
    let operations = operations(&machine.run(Front::Native, &machine.driver(), &["--help".into()], LIMIT)?);
    ensure!(operations.len() > 50, "the driver lists {} operations", operations.len());
    Ok(operations)
}

/// The first words that a driver knows, from what it says when it is given another one: `conv[fp16|int8], pool, …`.
fn operations(usage: &Ran) -> Vec<String> {
    let text = format!("{}\n{}", usage.stdout, usage.stderr);
    let list = text.lines().find_map(|line| line.strip_prefix("Supported Base Arguments: ")).unwrap_or_default();
    let word = |word: &str| -> Vec<String> {
        let (base, types) = word.trim().split_once('[').unwrap_or((word.trim(), ""));
        let types = types.trim_end_matches(']').split('|').filter(|kind| !kind.is_empty());
        [base.to_string()].into_iter().chain(types.map(|kind| format!("{base}{kind}"))).collect()
    };
    list.split(',').flat_map(word).collect()
}

/// One iteration of an operation with the driver's own defaults, verified but where that takes minutes.
fn operation(base: &str) -> Vec<String> {
    let verify = if base.starts_with("cat") { "0" } else { "1" };
    [base, "-V", verify, "-i", "1"].map(str::to_string).to_vec()
}

/// What differs between two runs, numbers aside unless it is to be exact.
fn difference(a: &Ran, b: &Ran, exact: bool) -> Option<String> {
    if a.end == TIMEOUT {
        return Some("out of time without the shim".into());
    }
    if a.end != b.end {
        return Some(format!("{} without the shim, {} with it", a.end, b.end));
    }
    let pairs = [(&a.stdout, &b.stdout), (&a.stderr, &b.stderr)]
        .map(|(a, b)| if exact { (a.clone(), b.clone()) } else { (without_numbers(a), without_numbers(b)) });
    let (a, b) = pairs.into_iter().find(|(a, b)| a != b)?;
    let first = a.lines().zip(b.lines()).find(|(a, b)| a != b);
    let (a, b) = first.unwrap_or_else(|| (a.lines().last().unwrap_or_default(), b.lines().last().unwrap_or_default()));
    Some(format!("without the shim: {a:.200}, with it: {b:.200}"))
}

/// Every number as `#`: results, times, addresses.
fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    let mut words = text.chars().peekable();
    while let Some(letter) = words.next() {
        if !letter.is_ascii_digit() {
            plain.push(letter);
            continue;
        }
        while words.next_if(|next| next.is_ascii_alphanumeric() || matches!(next, '.' | '+' | '-')).is_some() {}
        plain.push('#');
    }
    plain
}

/// Forwarding on: the driver itself says that hipDNN's results are right.
fn verify_on(machine: &Machine, lines: &[Line]) -> Result<Vec<Group>> {
    let driver = machine.driver();
    let (left_out, lines): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| line.needs_native());
    let results = in_parallel(&lines, |line| machine.run(Front::On, &driver, &line.arguments(), LIMIT))?;
    let mut groups: Vec<Group> = Vec::new();
    for base in ["conv", "convfp16", "convbfp16"] {
        let mut group = Group { name: format!("on, {base}: the driver's \"Verifies OK\""), ..Group::default() };
        group.left_out = left_out.iter().filter(|line| line.base() == base).count();
        for (line, ran) in lines.iter().zip(&results).filter(|(line, _)| line.base() == base) {
            match verdict(line, ran) {
                Ok(directions) => (group.right, group.directions) = (group.right + 1, group.directions + directions),
                Err(text) => group.wrong.push(format!("on: {}: {text}", line.command)),
            }
        }
        groups.push(group);
    }
    Ok(groups)
}

/// How many directions were verified, or what is wrong.
fn verdict(line: &Line, ran: &Ran) -> Result<usize, String> {
    let verified = ran.stdout.lines().filter(|text| text.contains("Verifies OK")).count();
    if let Some(failed) = ran.stdout.lines().find(|text| text.contains("FAILED")) {
        return Err(failed.into());
    }
    if ran.end != "exit status: 0" || verified != line.params.dirs.len() {
        return Err(format!("{}, {verified} of {} directions verified", ran.end, line.params.dirs.len()));
    }
    // Three calls a direction at the least: workspace, Find, execution.
    let [hipdnn, native] = ran.routes;
    if native > 0 || hipdnn < 3 * verified { Err(format!("{hipdnn} calls went to hipDNN, {native} to native")) } else { Ok(verified) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(end: &str, stdout: &str) -> Ran {
        Ran { end: end.into(), stdout: stdout.into(), stderr: String::new(), routes: [3, 0] }
    }

    #[test]
    fn numbers_are_not_compared_but_words_are() {
        assert_eq!(without_numbers("took 1.5e-05 ms at 0x7ffe, rc = -3"), "took # ms at #, rc = -#");
        assert_eq!(difference(&ran("exit status: 0", "a 1"), &ran("exit status: 0", "a 2"), false), None);
        assert!(difference(&ran("exit status: 0", "a 1"), &ran("exit status: 0", "a 2"), true).is_some());
        assert!(difference(&ran("exit status: 0", "a"), &ran("exit status: 1", "a"), false).is_some());
        assert!(difference(&ran("exit status: 0", "a\nb"), &ran("exit status: 0", "a\nc"), false).unwrap().contains("with it: c"));
        assert!(difference(&ran("exit status: 0", "a\nb"), &ran("exit status: 0", "a"), false).is_some());
        assert!(difference(&ran(TIMEOUT, ""), &ran(TIMEOUT, ""), false).is_some(), "nothing was compared");
    }

    #[test]
    fn operations_are_what_the_driver_lists() {
        let usage = ran("exit status: 1", "x\nSupported Base Arguments: conv[fp16|int8], pool[fp16], ctc\n");
        assert_eq!(operations(&usage), ["conv", "convfp16", "convint8", "pool", "poolfp16", "ctc"]);
    }

    #[test]
    fn a_line_is_right_only_if_all_its_directions_are() {
        let line: Line = serde_json::from_str(r#"{"op":"conv","command":"MIOpenDriver conv -F 1","params":{"dirs":["fwd"]}}"#).unwrap();
        assert_eq!(verdict(&line, &ran("exit status: 0", "Forward Convolution Verifies OK on CPU")), Ok(1));
        assert!(verdict(&line, &ran("exit status: 0", "")).is_err());
        assert!(verdict(&line, &ran("exit status: 0", "Forward Convolution FAILED: 1")).is_err());
        assert!(verdict(&line, &ran("exit status: 7", "Verifies OK")).is_err());
        assert!(verdict(&line, &Ran { routes: [2, 1], ..ran("exit status: 0", "Verifies OK") }).is_err());
        assert!(!line.needs_native());
    }
}
