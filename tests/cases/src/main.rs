//! The command: lists cases, runs them one after the other in this process, compares runs.

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use field_cases::{
    case::{self, Case, Outcome},
    cases,
    edge::Libraries,
    parity,
    random::{self, Problems},
};

/// Cases from the field, run through MIOpen's public API.
#[derive(Parser)]
#[command(name = "field-cases", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the cases.
    List {
        /// One JSON object for each.
        #[arg(long)]
        json: bool,
    },
    /// Says which device HIP has; exit code 3, and one line, if it has none.
    Device,
    /// Runs cases and prints one JSON object for each; exit code 1 if one failed.
    Run {
        /// A number (V01) or a name. Can be repeated; without it all cases are run.
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// A device computes: operations that the reference MIOpen lacks must give numbers.
        #[arg(long)]
        gpu: bool,
    },
    /// Runs all cases with forwarding off, on, and strict, and compares; exit code 1 if runs differ where they should not.
    Parity {
        /// The layout with the libraries, as `cargo xtask dist` makes it.
        #[arg(long, value_name = "FOLDER")]
        dist: PathBuf,
        /// Where reports go; `parity` in the layout if not given.
        #[arg(long, value_name = "FOLDER")]
        reports: Option<PathBuf>,
        /// An engine profile of the reference hipDNN, or `cudnn`: on a GPU. Can be repeated; without it both of the reference hipDNN.
        #[arg(long, value_name = "PROFILE")]
        profile: Vec<String>,
        /// A number or a name. Can be repeated; without it all cases are compared.
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
    },
    /// Random problems with forwarding off and on, compared with each other, the definition, and what is predicted; exit code 1 if one is
    /// wrong.
    Random {
        /// Makes the problems. Can be repeated.
        #[arg(long, value_name = "NUMBER", default_value = "1")]
        seed: Vec<u64>,
        /// How many of each seed.
        #[arg(long, default_value_t = 300)]
        count: u64,
        /// Only this one of each seed, which is then shown.
        #[arg(long, value_name = "NUMBER")]
        only: Option<u64>,
        /// An engine profile of the reference hipDNN. Can be repeated; without it both.
        #[arg(long, value_name = "PROFILE")]
        profile: Vec<String>,
        /// The layout with the libraries; the one beside this program if not given.
        #[arg(long, value_name = "FOLDER")]
        dist: Option<PathBuf>,
        /// One JSON object for each problem and profile.
        #[arg(long)]
        json: bool,
        /// In this process, with the libraries of its environment, and without comparing.
        #[arg(long, hide = true)]
        alone: bool,
    },
}

/// The engine profiles of the reference hipDNN.
const PROFILES: [&str; 2] = ["abi", "miopen-provider"];

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("field-cases: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn device() -> ExitCode {
    match Libraries::hip().and_then(|hip| hip.device_name()) {
        Ok(name) => {
            println!("{name}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("no device: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    let good = match command {
        Command::Device => return Ok(device()),
        Command::List { json } => list(json),
        Command::Run { only, gpu } => run_cases(&only, gpu),
        Command::Parity { dist, reports, profile, only } => {
            let profiles = profiles(profile);
            let reports = reports.unwrap_or_else(|| parity::reports_beside(&dist));
            chosen(&only)?;
            parity::run(&parity::Settings { dist, reports, profiles, only })
        }
        Command::Random { seed, count, only, profile, dist, json, alone } => {
            let problems = Problems { seeds: seed, count, only };
            if alone {
                return random::alone(&problems).map(|()| ExitCode::SUCCESS);
            }
            let dist = dist.map_or_else(random::layout, Ok)?;
            random::run(&random::Settings { dist, profiles: profiles(profile), problems, json })
        }
    };
    good.map(|good| ExitCode::from(u8::from(!good)))
}

/// The profiles that were named, or both.
fn profiles(named: Vec<String>) -> Vec<String> {
    if named.is_empty() { PROFILES.map(String::from).to_vec() } else { named }
}

fn list(json: bool) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    for case in cases::all() {
        if json {
            let object = serde_json::json!({ "case": case.number, "name": case.name, "needs": case.needs });
            writeln!(out, "{object}")?;
        } else {
            writeln!(out, "{:<4} {}", case.number, case.name)?;
        }
    }
    Ok(true)
}

/// The cases of some numbers or names; each must be there.
fn chosen(only: &[String]) -> Result<Vec<Case>> {
    let all = cases::all();
    let is = |case: &Case, wanted: &String| case.number == wanted || case.name == wanted;
    for wanted in only {
        ensure!(all.iter().any(|case| is(case, wanted)), "there is no case {wanted}");
    }
    Ok(all.into_iter().filter(|case| only.is_empty() || only.iter().any(|wanted| is(case, wanted))).collect())
}

fn run_cases(only: &[String], gpu: bool) -> Result<bool> {
    let chosen = chosen(only)?;
    let libraries = Libraries::load()?;
    libraries.miopen.begin()?;
    let device = libraries.hip.device_name()?;
    let mut good = true;
    for case in chosen {
        let record = case::run(&case, libraries, gpu, &device);
        good &= record.outcome != Outcome::Failed;
        let mut line = serde_json::to_string(&record)?;
        line.push('\n');
        // Whole lines at once, and at once: a crash must not take the lines before it along.
        std::io::stdout().lock().write_all(line.as_bytes())?;
        std::io::stdout().flush()?;
    }
    Ok(good)
}
