//! `cargo xtask onnxruntime`: the shipped ONNX Runtime for ROCm with the shim under it, on stand-ins for the GPU, running models made of
//! convolutions.
//!
//! Each model is computed five times, each time in a process of its own: by ONNX Runtime itself on the CPU, and by its ROCm provider
//! without the shim, and with it, forwarding off and on, to both profiles of the reference hipDNN. With forwarding off, outputs and native's
//! calls must be those without the shim; with it on, outputs must be equal within what rounding explains. Every convolution must have been
//! computed where the front says, or have been declined by a rule. What is compared is here and in `judge`; what is run with is in
//! `machine`; the models, and what is said about outputs, are in `tests/onnxruntime`.

mod judge;
mod machine;
mod packages;

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use serde_json::{Value, json};

use crate::{
    build,
    programs::{in_a_home, in_parallel},
};
use judge::{Routes, biases, judge};
use machine::{Compared, Front, Machine, Seen};

/// Models that must be right at least: fewer, and the check has lost its substance.
const AT_LEAST: usize = 8;
const PROFILES: [&str; 2] = ["abi", "miopen-provider"];

/// Runs everything; fails if anything is wrong.
pub fn run(json: bool) -> Result<()> {
    let folder = build::root().join("target/onnxruntime");
    fs::create_dir_all(&folder)?;
    let python = packages::install(&folder)?;
    let versions = packages::versions(&python)?;
    let dist = build::dist()?;
    let rules = rules(&dist)?;
    let machine = Machine::build(&folder, dist, python)?;
    machine.ask(&["-m", "unittest", "--quiet", "test_comparison"])?;
    let models: Vec<String> = machine.ask(&["models.py"])?.lines().map(str::to_string).collect();
    let trials = in_parallel(&models, |model| Ok(trial(&machine, model, &rules)))?;
    if json {
        trials.iter().flat_map(Trial::lines).for_each(|line| println!("{line}"));
    } else {
        println!("{versions}\n{}", table(&trials));
    }
    let wrong: Vec<String> = trials.iter().flat_map(Trial::wrong).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(trials.len() >= AT_LEAST, "only {} models, of at least {AT_LEAST}", trials.len());
    Ok(())
}

/// Ids of every rule that may decline a call.
fn rules(dist: &Path) -> Result<BTreeSet<String>> {
    let output = Command::new(dist.join("bin/hipdnn-shim")).args(["rules", "--json"]).output()?;
    let document: Value = serde_json::from_slice(&output.stdout).context("hipdnn-shim rules --json")?;
    let lists = ["host_rules", "rules"].map(|list| document[list].as_array().cloned().unwrap_or_default());
    ensure!(lists.iter().all(|list| !list.is_empty()), "hipdnn-shim rules lists none");
    Ok(lists.iter().flatten().filter_map(|rule| rule["id"].as_str()).map(str::to_string).collect())
}

/// A model's runs.
struct Trial {
    model: String,
    /// Or why there are none.
    runs: Result<Vec<Run>>,
}

/// A model on one front.
struct Run {
    front: Front,
    convolutions: usize,
    executed: usize,
    routes: Routes,
    biases: usize,
    /// With the CPU's outputs.
    compared: Compared,
    wrong: Vec<String>,
}

fn trial(machine: &Machine, model: &str, rules: &BTreeSet<String>) -> Trial {
    let runs = in_a_home(machine.folder(), |home| {
        machine.run(home, Front::Cpu, model)?;
        let native = machine.run(home, Front::Native, model)?;
        let fronts = [Front::Off].into_iter().chain(PROFILES.map(Front::On));
        fronts.map(|front| run_on(machine, home, model, front, &native, rules)).collect()
    });
    Trial { model: model.into(), runs }
}

fn run_on(machine: &Machine, home: &Path, model: &str, front: Front, native: &Seen, rules: &BTreeSet<String>) -> Result<Run> {
    let seen = machine.run(home, front, model)?;
    let (routes, mut wrong) = judge(front, &seen, rules);
    let compared = machine.compare(home, model, Front::Cpu, front)?;
    let beside = machine.compare(home, model, Front::Native, front)?;
    wrong.extend(compared.wrong.iter().map(|text| format!("beside the CPU: {text}")));
    wrong.extend(beside.wrong.iter().map(|text| format!("beside native: {text}")));
    if front == Front::Off {
        wrong.extend(judge::transparent(&seen, native, beside.error));
    }
    let (convolutions, executed) = (seen.report.convolutions, seen.report.executions.len());
    Ok(Run { front, convolutions, executed, routes, biases: biases(&seen), compared, wrong })
}

impl Trial {
    fn wrong(&self) -> Vec<String> {
        match &self.runs {
            Err(error) => vec![format!("{}: {error:#}", self.model)],
            Ok(runs) => {
                let texts =
                    runs.iter().flat_map(|run| run.wrong.iter().map(|text| format!("{}: {}: {text}", self.model, run.front.name())));
                texts.collect()
            }
        }
    }

    fn lines(&self) -> Vec<Value> {
        let line = |run: &Run| {
            json!({
                "model": self.model, "front": run.front.name(), "convolutions": run.convolutions, "executed": run.executed,
                "served": run.routes.served, "declined": run.routes.declined, "passed": run.routes.passed, "biases": run.biases,
                "error": run.compared.error, "tolerance": run.compared.tolerance, "wrong": run.wrong,
            })
        };
        match &self.runs {
            Err(error) => vec![json!({ "model": self.model, "wrong": [format!("{error:#}")] })],
            Ok(runs) => runs.iter().map(line).collect(),
        }
    }

    fn row(&self) -> Vec<String> {
        let runs = match &self.runs {
            Ok(runs) => runs.as_slice(),
            Err(_) => return vec![self.model.clone(), "failed".into()],
        };
        let (off, on): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(|run| run.front == Front::Off);
        let first = |number: fn(&Run) -> String| runs.first().map(number).unwrap_or_default();
        let error = |runs: &[&Run]| format!("{:.1e}", runs.iter().map(|run| run.compared.error).fold(0.0, f64::max));
        let mut row = vec![self.model.clone(), first(|run| run.convolutions.to_string()), first(|run| run.executed.to_string())];
        row.extend(on.iter().map(|run| run.routes.served.to_string()));
        row.push(on.iter().flat_map(|run| declined(&run.routes)).collect::<Vec<_>>().join("\n"));
        row.extend([error(&off), error(&on), first(|run| format!("{:.1e}", run.compared.tolerance))]);
        row
    }
}

fn declined(routes: &Routes) -> Vec<String> {
    routes.declined.iter().map(|(rule, times)| format!("{times} {rule}")).collect()
}

fn table(trials: &[Trial]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let served = PROFILES.map(|profile| format!("served: {profile}"));
    let (left, right) = (["model", "convs", "run"], ["declined", "error off", "error on", "tolerance"]);
    table.set_header(left.map(String::from).into_iter().chain(served).chain(right.map(String::from)));
    table.add_rows(trials.iter().map(Trial::row));
    table
}
