//! From nothing to the first translation, in fresh processes: with the embedded precompiled component, and beside it by compiling the same
//! component in the process.

use std::{process::Command, time::Instant};

use anyhow::{Context as _, Result, ensure};
use hipdnn_host::{
    capabilities::Capabilities,
    component::{EMBEDDED as WASM, Translator},
    problem::Problem,
};
use serde::{Deserialize, Serialize};

use super::{problems, process::Look};
use crate::{median, print};

/// Argument for a process that loads the embedded component.
pub const EMBEDDED: &str = "cold-embedded";
/// Argument for a process that compiles the component.
pub const COMPILED: &str = "cold-compiled";
/// How many processes of each kind.
const PROCESSES: usize = 21;

/// What a process saw of itself.
#[derive(Serialize, Deserialize)]
struct Seen {
    /// Microseconds from the start until each stage was done: engine, load, instantiate, first translation.
    done: Vec<f64>,
    /// KiB more than before.
    resident: f64,
    address_space: f64,
    threads: f64,
    signals: u32,
}

fn observe(load: impl FnOnce(&mut dyn FnMut()) -> Result<Translator>) -> Result<()> {
    let (problems, capabilities) = (problems::all()?, Capabilities::whole_abi());
    let (_, recorded, _) = problems.first().context("no problem")?;
    let before = Look::now()?;
    let (start, mut done) = (Instant::now(), Vec::with_capacity(4));
    let translator = load(&mut || done.push(start.elapsed().as_secs_f64() * 1e6))?;
    ensure!(translator.translate(&Problem::Convolution(recorded.problem()), &capabilities)?.is_ok(), "declined");
    done.push(start.elapsed().as_secs_f64() * 1e6);
    let after = Look::now()?;
    let seen = Seen {
        done,
        resident: after.resident as f64 - before.resident as f64,
        address_space: after.address_space as f64 - before.address_space as f64,
        threads: after.threads as f64 - before.threads as f64,
        signals: after.changed_signals(&before),
    };
    println!("{}", serde_json::to_string(&seen)?);
    Ok(())
}

/// What a process does that loads the embedded component.
pub fn embedded() -> Result<()> {
    observe(|done| Ok(Translator::embedded_observed(|_| done())?))
}

/// What a process does that compiles it.
pub fn compiled() -> Result<()> {
    observe(|_| Ok(Translator::compile(WASM)?))
}

fn processes(argument: &str) -> Result<Vec<Seen>> {
    let one = |_| -> Result<Seen> {
        let output = Command::new(std::env::current_exe()?).args(["translate", argument]).output()?;
        ensure!(output.status.success(), "{argument}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    (0..PROCESSES).map(one).collect()
}

/// Runs the processes and prints the medians.
pub fn report() -> Result<()> {
    const BESIDE: &str = "compiling the component in the process";
    let (embedded, compiled) = (processes(EMBEDDED)?, processes(COMPILED)?);
    let of = |seen: &[Seen], figure: fn(&Seen) -> f64| median(seen.iter().map(figure).collect());
    let total = |seen: &Seen| seen.done.last().copied().unwrap_or(f64::NAN);
    let whole = of(&embedded, total);
    for (stage, name) in ["engine", "load", "instantiate", "first-call"].into_iter().enumerate() {
        let took = |seen: &Seen| seen.done.get(stage).copied().unwrap_or(f64::NAN) - if stage == 0 { 0.0 } else { seen.done[stage - 1] };
        print(&format!("translate.cold.{name}"), (median(embedded.iter().map(took).collect()), "us"), (whole, "all stages"));
    }
    print("translate.cold", (whole, "us"), (of(&compiled, total), BESIDE));
    let mib = |kib: f64| kib / 1024.0;
    let resident = |seen: &Seen| seen.resident;
    print("translate.cold.resident", (mib(of(&embedded, resident)), "MiB"), (mib(of(&compiled, resident)), BESIDE));
    let space = |seen: &Seen| seen.address_space;
    print("translate.cold.address-space", (mib(of(&embedded, space)), "MiB"), (mib(of(&compiled, space)), BESIDE));
    let threads = |seen: &Seen| seen.threads;
    print("translate.cold.threads", (of(&embedded, threads), "threads"), (of(&compiled, threads), BESIDE));
    let signals = |seen: &Seen| f64::from(seen.signals);
    print("translate.cold.signal-settings-changed", (of(&embedded, signals), "settings"), (of(&compiled, signals), BESIDE));
    Ok(())
}
