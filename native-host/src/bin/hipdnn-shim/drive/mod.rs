//! `drive`: MIOpenDriver lines through libMIOpen, as the driver would call it, with the result verified and the route reported.
//!
//! The command line is here. One process that drives lines is a `session`; a file of lines is a `corpus`, which `workers` drive in
//! processes of their own, and a `summary` counts what came of them.

pub mod corpus;
mod session;
mod summary;
mod workers;

use std::{
    io::{Write as _, stdout},
    num::NonZeroUsize,
    path::Path,
    process::ExitCode,
};

use anyhow::Result;
use clap::Args;

use crate::{
    Usage,
    convolution::Convolution,
    flags::{Line, Role},
};
use session::Session;

pub use corpus::{Options as CorpusOptions, Profile};
pub use session::{BACKEND_BESIDE, Settings, drivable};

/// Command line of `drive`.
#[derive(Args)]
pub struct Options {
    /// One JSON object for each direction, instead of text. With a corpus, first one that says what is driven (`selected`), and after the
    /// records of each profile one that sums them up (`total`)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    corpus: CorpusOptions,
    /// Drive what stdin asks for, one JSON request a line, and answer each with one JSON record
    #[arg(long, hide = true)]
    worker: bool,
    /// The MIOpenDriver line: base name and flags
    #[arg(value_name = "BASE FLAGS", required_unless_present_any = ["corpus", "worker"], trailing_var_arg = true, allow_hyphen_values = true)]
    line: Vec<String>,
}

/// Runs the verb.
pub fn run(options: &Options) -> Result<ExitCode> {
    match &options.corpus.corpus {
        _ if options.worker => workers::serve(&options.settings),
        Some(_) if !options.line.is_empty() => Err(Usage("a corpus or a line, not both".into()).into()),
        Some(file) => drive_corpus(&options.settings, &options.corpus, file, options.json),
        None => drive_line(options),
    }
}

fn drive_line(options: &Options) -> Result<ExitCode> {
    let line = Line::parse(&options.line)?;
    let directions = line.directions()?;
    let convolution = Convolution::from_line(&line)?;
    drivable(&convolution, &line)?;
    for (flag, value) in line.changed(Role::Missing) {
        remark(options, &format!("--{} {value} is not driven yet: {}", flag.long, flag.meaning));
    }
    let mut session = Session::open(&options.settings)?;
    let mut good = true;
    for direction in directions {
        let record = session.drive(&line, &convolution, direction)?;
        if options.json {
            record.print_json()?
        } else {
            record.print(&line, &convolution)
        }
        good &= record.is_good();
    }
    Ok(ExitCode::from(u8::from(!good)))
}

/// Text for people: beside the records when those are read by programs.
fn remark(options: &Options, text: &str) {
    if options.json { eprintln!("{text}") } else { println!("{text}") }
}

/// Drives a file of lines once for each engine profile; fails if any line failed under any.
pub fn drive_corpus(settings: &Settings, options: &CorpusOptions, file: &Path, json: bool) -> Result<ExitCode> {
    let selection = corpus::read(file, options)?;
    let mut failed = 0;
    let mut out = stdout();
    if json {
        writeln!(out, "{}", summary::selection_json(&selection))?;
    } else {
        writeln!(out, "{}\n", summary::selection(&selection))?;
    }
    for profile in options.profiles() {
        let outcomes = workers::drive(settings, Some(profile), &selection.entries, options.jobs())?;
        let summary = summary::Summary::of(profile.name(), &selection.entries, &outcomes);
        failed += summary.failed();
        if json {
            for outcome in &outcomes {
                writeln!(out, "{}", outcome.json(profile.name()))?;
            }
            writeln!(out, "{}", serde_json::to_string(&summary)?)?;
        } else {
            writeln!(out, "{summary}")?;
        }
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// Runs each line of a file once, unverified, for what the shim remembers of it; fails if a call failed.
pub fn prewarm(settings: &Settings, file: &Path, jobs: Option<NonZeroUsize>) -> Result<ExitCode> {
    let corpus = CorpusOptions {
        corpus: Some(file.into()),
        op: "conv".into(),
        max_gmac: f64::INFINITY,
        max_gb: f64::INFINITY,
        profile: Vec::new(),
        direction: Vec::new(),
        jobs,
    };
    let selection = corpus::read(file, &corpus)?;
    println!("{}\n", summary::selection(&selection));
    let settings = Settings { unverified: true, ..settings.clone() };
    let outcomes = workers::drive(&settings, None, &selection.entries, corpus.jobs())?;
    let seen: Vec<_> = outcomes.iter().map(workers::Outcome::seen).collect();
    let on = |route: &str| seen.iter().filter(|seen| seen.as_ref().is_ok_and(|seen| seen.route == route && seen.failure.is_none())).count();
    let (served, declined) = (on("hipdnn"), on("native"));
    let failed = seen.len() - served - declined;
    println!("{served} plans and {declined} declines are remembered; {failed} failed");
    for (entry, seen) in selection.entries.iter().zip(&seen) {
        match seen {
            Ok(seen) if ["hipdnn", "native"].contains(&seen.route.as_str()) && seen.failure.is_none() => {}
            Ok(seen) => println!("{}: {}", entry.command, seen.failure.as_deref().unwrap_or(&seen.route)),
            Err(error) => println!("{}: {error}", entry.command),
        }
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}
