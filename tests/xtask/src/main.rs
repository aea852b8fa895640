//! The front door: `cargo xtask <task>`; `--help` lists the tasks. Runs cargo and the built programs; knows no rule, graph or API.

mod bench;
mod build;
mod cases;
mod chromium;
mod components;
mod corpus;
mod demo;
mod fuzz;
mod gpu;
mod licenses;
mod nightly;
mod onnxruntime;
mod packages;
mod programs;
mod real_hip;
mod real_miopen;
mod report_page;
mod resnet;
mod sanitize;
mod swap;

use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};

/// The project's tasks.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Demonstration {
    /// Runs ResNet-50's convolutions with several translators, one after the other, on one cache.
    Swap,
}

#[derive(Subcommand)]
enum Task {
    /// Builds everything and runs real driver lines through the shim, verified; fails if anything is wrong.
    Demo {
        /// One JSON object for each line instead of the table.
        #[arg(long)]
        json: bool,
        /// Another demonstration.
        #[command(subcommand)]
        of: Option<Demonstration>,
    },
    /// Builds everything and runs all tests.
    Test {
        /// Instead, run the cases from the field, driver lines and the corpus on this machine's GPU, with HIP on CUDA, hipDNN's ABI on cuDNN and
        /// the reference MIOpen; exit status 3 without one. If MIOPEN_HIPDNN_NATIVE_LIBRARY, MIOPEN_HIPDNN_BACKEND_LIBRARY and
        /// MIOPEN_HIPDNN_HIP_LIBRARY name libraries, the cases, with those.
        #[arg(long)]
        gpu: bool,
    },
    /// Makes target/gpu: what `test --gpu` runs, for a machine without Rust, where `run.sh` in it does the same.
    GpuPack,
    /// Runs the cases from the field with forwarding off, on, and strict, and fails if they differ where they should not.
    Parity,
    /// Drives the committed corpus, in the directions that its lines ask for, under both engine profiles, and compares what came of it with
    /// the README's tables.
    Corpus {
        /// Write the tables into the README instead.
        #[arg(long)]
        write: bool,
    },
    /// Runs Debian's unmodified MIOpen and MIOpenDriver with the shim between them; exit status 3 if the packages cannot be had.
    RealMiopen,
    /// Runs doctor and a forwarding program on Debian's unmodified HIP runtime without a device; exit status 3 if it cannot be had.
    RealHip,
    /// Runs models in the shipped ONNX Runtime for ROCm with the shim under it; exit status 3 if its packages cannot be had.
    Onnxruntime {
        /// One JSON object for each run instead of the table.
        #[arg(long)]
        json: bool,
    },
    /// Runs the C clients under AddressSanitizer, the host's threads under ThreadSanitizer and the rules under Miri; exit status 3 if there
    /// is no nightly toolchain for the latter two.
    Sanitize,
    /// Makes the page of `hipdnn-shim report` from a real job and looks at it in a headless Chromium: numbers, colours, widths, keyboard;
    /// pictures go to target/report-page. Exit status 3 without Debian's package chromium.
    ReportPage,
    /// Measures; prints one JSON object for each figure.
    Bench {
        /// Which benchmark.
        #[arg(value_enum)]
        which: bench::Bench,
    },
    /// Fuzzes a target of tests/fuzz, guided by coverage (needs a nightly toolchain; exit status 3 without one).
    Fuzz {
        /// Which.
        #[arg(value_enum)]
        target: fuzz::Fuzzed,
        /// How long.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Builds the translators of tests/components into target/components.
    Components,
    /// Lays the libraries, programs and headers out under target/dist.
    Dist,
    /// Loads the embedded precompiled translator on the most basic x86-64 processor (needs Debian's qemu-user).
    Qemu,
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            let missing = error.is::<programs::Unavailable>()
                || error.is::<sanitize::NoNightly>()
                || error.is::<fuzz::NoNightly>()
                || error.is::<chromium::Missing>();
            ExitCode::from(if missing { 3 } else { 1 })
        }
    }
}

fn run(task: Task) -> Result<()> {
    build::require_guest_target()?;
    match task {
        Task::Demo { json, of: None } => demo::run(&build::dist()?, json),
        Task::Demo { of: Some(Demonstration::Swap), .. } => swap::run(&build::dist()?, &components::build()?),
        Task::Test { gpu: false } => test(),
        Task::Test { gpu: true } => test_on_a_gpu(),
        Task::GpuPack => gpu::pack(&build::dist()?).map(|folder| println!("{}", folder.display())),
        Task::Parity => cases::parity(&build::dist()?),
        Task::Corpus { write } => corpus::run(&build::dist()?, write),
        Task::RealMiopen => real_miopen::run(),
        Task::RealHip => real_hip::run(),
        Task::Onnxruntime { json } => onnxruntime::run(json),
        Task::Sanitize => sanitize::run(&build::dist()?),
        Task::ReportPage => report_page::run(),
        Task::Bench { which } => bench::run(which, &build::dist()?),
        Task::Fuzz { target, seconds } => fuzz::run(target, seconds),
        Task::Components => components::build().map(|folder| println!("{}", folder.display())),
        Task::Dist => build::dist().map(|dist| println!("{}", dist.display())),
        Task::Qemu => qemu(),
    }
}

fn test() -> Result<()> {
    build::dist()?;
    components::build()?;
    build::cargo(&["test", "--release", "--workspace", "--locked"])
}

/// What is missing is said before anything is built: a build takes minutes.
fn test_on_a_gpu() -> Result<()> {
    if cases::names_a_device()? {
        return cases::on_a_device(&build::dist()?);
    }
    gpu::require_device()?;
    gpu::test(&build::dist()?)
}

/// The same translation natively and under an emulated baseline processor, printed alike.
fn qemu() -> Result<()> {
    const LINE: &[&str] = &["translate", "--json", "conv", "-n", "1", "-c", "3", "-H", "32", "-W", "32", "-k", "16", "-y", "3", "-x", "3"];
    let tool = build::dist()?.join("bin/hipdnn-shim");
    let native = Command::new(&tool).args(LINE).output()?;
    ensure!(native.status.success(), "translate failed: {}", String::from_utf8_lossy(&native.stderr));
    let emulated = Command::new("qemu-x86_64")
        .args(["-cpu", "qemu64"])
        .arg(&tool)
        .args(LINE)
        .output()
        .context("qemu-x86_64 is missing: install Debian's package qemu-user")?;
    ensure!(emulated.status.success(), "under qemu64: {}", String::from_utf8_lossy(&emulated.stderr));
    // One document for each direction, compared but for the times in them.
    let graphs = |output: &[u8]| -> Result<Vec<serde_json::Value>> {
        let documents = serde_json::Deserializer::from_slice(output).into_iter::<serde_json::Value>();
        let mut documents = documents.collect::<Result<Vec<_>, _>>().context("translate --json")?;
        documents.iter_mut().filter_map(|d| d.as_object_mut()).for_each(|object| object.retain(|name, _| !name.ends_with("_us")));
        ensure!(documents.len() == 3, "{} documents for three directions", documents.len());
        Ok(documents)
    };
    ensure!(graphs(&native.stdout)? == graphs(&emulated.stdout)?, "the answers differ");
    println!("the embedded translator loads and answers the same under qemu64");
    Ok(())
}
