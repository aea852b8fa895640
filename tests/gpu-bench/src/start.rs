//! Processes from their start: until a whole model (ResNet-50 in floats) was computed once, in the first process, which has to make all plans,
//! and in the second, which finds them on disk. The program that calls cuDNN itself keeps its plans in a file of its own.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use field_cases::{
    edge::{Libraries, Memory},
    session::Session,
};
use hipdnn_on_cudnn::{
    cuda::Cuda,
    cudnn::{Handle, Library},
};
use serde::{Deserialize, Serialize};

use crate::{
    direct::Direct,
    memory::bytes,
    models::first,
    report::{Report, median},
    shim::Shim,
};

const BATCH: usize = 1;
/// Phases of the shim's that are about plans.
const PLAN_PHASES: [&str; 4] = ["cache_read", "lower", "heuristics", "plan"];
/// Where the program that calls cuDNN itself keeps its plans, and where the shim does.
const PLANS: &str = "plans.json";
const CACHE: &str = "cache";
const TRACE: &str = "trace.jsonl";

/// What one process does.
#[derive(Args)]
pub struct Job {
    /// Through what.
    #[arg(long)]
    by: By,
    /// Where plans are kept.
    #[arg(long)]
    folder: PathBuf,
}

/// The two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    Shim,
    Direct,
}

/// What a process says.
#[derive(Serialize, Deserialize)]
struct Told {
    /// Until the device had computed everything.
    milliseconds: f64,
    /// For each layer, where the process knows itself.
    plan_microseconds: Vec<f64>,
}

/// The process.
pub fn child(job: &Job, begin: Instant) -> Result<()> {
    let told = match job.by {
        By::Shim => shim(begin)?,
        By::Direct => direct(&job.folder.join(PLANS), begin)?,
    };
    println!("{}", serde_json::to_string(&told)?);
    Ok(())
}

fn shim(begin: Instant) -> Result<Told> {
    let model = first(BATCH)?;
    let libraries = Libraries::load()?;
    let stream = libraries.hip.stream()?;
    let session = Session::on(libraries, &stream)?;
    let mut kept: Vec<([Memory; 3], Shim)> = Vec::new();
    for problem in &model.layers {
        let [x, w, y] = problem.tensors().map(|tensor| libraries.hip.allocate(bytes(tensor)));
        let (memory, shim) = ([x?, w?, y?], Shim::new(&session, problem)?);
        shim.execute(&session, memory.each_ref())?;
        kept.push((memory, shim));
    }
    stream.synchronize()?;
    Ok(Told { milliseconds: milliseconds(begin.elapsed()), plan_microseconds: Vec::new() })
}

fn direct(file: &Path, begin: Instant) -> Result<Told> {
    let model = first(BATCH)?;
    let cuda = Cuda::get().map_err(anyhow::Error::msg)?;
    let handle = Handle::new(Library::get().map_err(anyhow::Error::msg)?)?;
    let stream = cuda.stream()?;
    handle.set_stream(stream.raw().expose_provenance())?;
    let saved: Option<Vec<String>> = fs::read(file).ok().map(|bytes| serde_json::from_slice(&bytes)).transpose()?;
    let mut kept = Vec::new();
    let mut plan_microseconds = Vec::new();
    // Layers that are alike share a plan, as they do in the shim.
    let mut plans: Vec<(usize, Direct)> = Vec::new();
    for (place, problem) in model.layers.iter().enumerate() {
        let memory = problem.tensors().map(|tensor| cuda.allocate(bytes(tensor)));
        let [x, w, y] = memory;
        let memory = [x?, w?, y?];
        let known = plans.iter().position(|(other, _)| model.layers[*other] == *problem);
        let index = match known {
            Some(index) => index,
            None => {
                let since = Instant::now();
                let plan = match saved.as_ref().and_then(|saved| saved.get(plans.len())) {
                    Some(text) => Direct::load(cuda, &handle, text)?,
                    None => Direct::build(cuda, &handle, problem)?,
                };
                plan_microseconds.push(since.elapsed().as_secs_f64() * 1e6);
                plans.push((place, plan));
                plans.len() - 1
            }
        };
        let addresses: [*mut c_void; 3] = memory.each_ref().map(hipdnn_on_cudnn::cuda::Memory::address);
        let plan = &plans[index].1;
        // SAFETY: the addresses are memory of the problem's tensors, which is kept.
        unsafe { plan.execute(&handle, &plan.pack(&handle, &addresses)?) }?;
        kept.push(memory);
    }
    stream.synchronize()?;
    let told = Told { milliseconds: milliseconds(begin.elapsed()), plan_microseconds };
    if saved.is_none() {
        let texts = plans.iter().map(|(_, plan)| plan.saved()).collect::<Result<Vec<_>>>()?;
        fs::write(file, serde_json::to_vec(&texts)?)?;
    }
    Ok(told)
}

/// Measures.
pub fn run(report: &mut Report, rounds: usize) -> Result<()> {
    // By program and by whether it is the second process.
    let mut times: BTreeMap<(bool, bool), Vec<f64>> = BTreeMap::new();
    let mut plans: BTreeMap<(bool, bool), Vec<f64>> = BTreeMap::new();
    let mut firsts: BTreeMap<(bool, bool), Vec<f64>> = BTreeMap::new();
    // The round before the first has the libraries read from disk.
    for round in 0..=rounds {
        for by in [By::Shim, By::Direct] {
            let place = tempfile::tempdir()?;
            for second in [false, true] {
                let told = process(by, place.path(), None)?;
                if round > 0 {
                    times.entry((by == By::Shim, second)).or_default().push(told.milliseconds);
                    note(&mut plans, &mut firsts, (by == By::Shim, second), &told.plan_microseconds);
                }
            }
        }
        let place = tempfile::tempdir()?;
        for second in [false, true] {
            let trace = place.path().join(format!("{second}-{TRACE}"));
            process(By::Shim, place.path(), Some(&trace))?;
            if round > 0 {
                note(&mut plans, &mut firsts, (true, second), &traced(&trace)?);
            }
        }
    }
    for (second, name) in [(false, "first"), (true, "second")] {
        let of = |all: &BTreeMap<(bool, bool), Vec<f64>>, shim| median(all.get(&(shim, second)).map_or(&[], Vec::as_slice));
        let is = if second { "cuDNN itself, with plans that it saved" } else { "cuDNN itself" };
        report.figure(&format!("gpu.plan.{name}_process.first"), of(&firsts, true), "us", (of(&firsts, false), is))?;
        report.figure(&format!("gpu.plan.{name}_process.others"), of(&plans, true), "us", (of(&plans, false), is))?;
        report.figure(&format!("gpu.start.{name}_process"), of(&times, true), "ms", (of(&times, false), is))?;
    }
    Ok(())
}

/// The process' first plan, which loads what all need, and the others.
fn note(
    plans: &mut BTreeMap<(bool, bool), Vec<f64>>,
    firsts: &mut BTreeMap<(bool, bool), Vec<f64>>,
    sort: (bool, bool),
    microseconds: &[f64],
) {
    if let Some((first, others)) = microseconds.split_first() {
        firsts.entry(sort).or_default().push(*first);
        plans.entry(sort).or_default().extend(others);
    }
}

fn process(by: By, folder: &Path, trace: Option<&Path>) -> Result<Told> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("start").arg("--by").arg(format!("{by:?}").to_lowercase()).arg("--folder").arg(folder);
    command.env("MIOPEN_HIPDNN_CACHE_DIR", folder.join(CACHE)).env_remove("MIOPEN_HIPDNN_TRACE");
    if let Some(trace) = trace {
        command.env("MIOPEN_HIPDNN_TRACE", trace);
    }
    let output = command.output()?;
    ensure!(output.status.success(), "{by:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let line = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&line).with_context(|| format!("{by:?} said {line}"))
}

/// What plans cost, by the shim's own trace. Every call must have gone to hipDNN.
fn traced(trace: &Path) -> Result<Vec<f64>> {
    #[derive(Deserialize)]
    struct Event {
        call: String,
        route: String,
        cold: bool,
        phases_us: BTreeMap<String, f64>,
        message: Option<String>,
    }
    let text = fs::read_to_string(trace)?;
    let mut microseconds = Vec::new();
    // The first line says who traces.
    for line in text.lines().skip(1) {
        let event: Event = serde_json::from_str(line)?;
        ensure!(event.route == "hipdnn", "{} went to {}: {:?}", event.call, event.route, event.message);
        if event.cold {
            microseconds.push(PLAN_PHASES.iter().filter_map(|phase| event.phases_us.get(*phase)).sum());
        }
    }
    ensure!(!microseconds.is_empty(), "an empty trace");
    Ok(microseconds)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
