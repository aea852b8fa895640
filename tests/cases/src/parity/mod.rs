//! The comparison of runs with forwarding off, on, and strict: the same cases, in processes of their own, against the libraries of one
//! layout. A comparison that had nothing to compare, or something old, or half of it, is an error and not agreement.
//!
//! `compare` finds differences and has the guards, `known` the list of differences that are known, `replay` starts the processes.

mod compare;
mod known;
mod replay;

use std::path::{Path, PathBuf};

use anyhow::Result;

pub use compare::{Difference, differences, executed, forwarded, one_device, report, strict_differences, without_failures};
pub use known::{Known, Verdict, judge, parse};
pub use replay::{CUDNN, Mode, replay, surround};

/// The committed list.
const KNOWN: &str = include_str!("../../known-differences.txt");

/// What is to be compared.
pub struct Settings {
    /// The layout with the libraries.
    pub dist: PathBuf,
    /// Where reports go; old ones there are removed.
    pub reports: PathBuf,
    /// Engine profiles of the reference hipDNN, or [`CUDNN`], each compared by itself.
    pub profiles: Vec<String>,
    /// Only these cases.
    pub only: Vec<String>,
}

/// Runs and compares; prints what was found. True if runs agree but for what is known.
pub fn run(settings: &Settings) -> Result<bool> {
    let known = parse(KNOWN)?;
    let mut good = true;
    for profile in &settings.profiles {
        let verdict = profile_verdict(settings, profile, &known)?;
        good &= verdict.errors.is_empty();
        print(profile, &verdict);
    }
    Ok(good)
}

fn profile_verdict(settings: &Settings, profile: &str, known: &[Known]) -> Result<Verdict> {
    let binary = std::env::current_exe()?;
    let path = |mode: Mode| settings.reports.join(format!("{profile}.{}.jsonl", mode.name()));
    // All old reports go before the first new one comes: a run that does not happen cannot leave an old one behind.
    Mode::ALL.iter().try_for_each(|mode| replay::remove(&path(*mode)))?;
    let read = |mode: Mode| -> Result<_> {
        replay(&binary, settings, profile, mode, &path(mode))?;
        let records = report(&path(mode), &binary)?;
        // What was right nowhere needs no comparison.
        without_failures(&records, mode.name())?;
        Ok(records)
    };
    let (off, on, strict) = (read(Mode::Off)?, read(Mode::On)?, read(Mode::Strict)?);
    executed(&off, "off")?;
    executed(&on, "on")?;
    executed(&strict, "strict")?;
    // A case that is run alone may have nothing to forward.
    if settings.only.is_empty() {
        forwarded(&off, &on)?;
    }
    one_device(&[&off, &on, &strict])?;
    let present: Vec<String> = off.iter().chain(&on).map(compare::key).collect();
    let mut verdict = judge(&differences(&off, &on), known, profile, &present);
    verdict.cases = off.len();
    verdict.errors.extend(strict_differences(&on, &strict));
    Ok(verdict)
}

fn print(profile: &str, verdict: &Verdict) {
    let word = if verdict.known.is_empty() {
        "off and on are identical".to_string()
    } else {
        format!("{} known differences", verdict.known.len())
    };
    println!("{profile}: {} cases, {word}, {} errors", verdict.cases, verdict.errors.len());
    verdict.known.iter().for_each(|line| println!("  known: {line}"));
    verdict.errors.iter().for_each(|line| println!("  ERROR: {line}"));
}

/// Where reports go if nobody says.
pub fn reports_beside(dist: &Path) -> PathBuf {
    dist.join("parity")
}
