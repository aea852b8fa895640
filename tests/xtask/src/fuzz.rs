//! `cargo xtask fuzz`: a target of `tests/fuzz`, built by a nightly toolchain with coverage and AddressSanitizer as cargo-fuzz does it, and
//! run for a while. What the fuzzer learned (its corpus) and found lies under `target/fuzz`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;
use thiserror::Error;

use crate::{
    build::{self, GUEST_TARGET},
    nightly,
};

/// The machine that is instrumented for: naming it keeps the flags from build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// What cargo-fuzz passes.
const FLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Zsanitizer=address",
];
/// The longest input, in bytes: a problem takes a few hundred.
const LONGEST: u32 = 2048;
/// How many inputs there are to begin with.
const SEEDS: u32 = 64;

/// This machine has no toolchain to fuzz with: nothing that is wrong here.
#[derive(Debug, Error)]
#[error("nothing is fuzzed: {0}")]
pub struct NoNightly(String);

/// What is fuzzed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fuzzed {
    /// A problem to the rules, natively
    Rules,
    /// A problem to the rules natively and through the component: the same bytes
    Component,
    /// A graph to the validator, and to a slow checker: the same answer
    Validator,
    /// A cache file to its reader
    Cache,
    /// C calls to the shim and to the reference native: the same statuses
    Calls,
}

impl Fuzzed {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }
}

/// Builds a target and runs it for so many seconds; fails if it finds anything.
pub fn run(target: Fuzzed, seconds: u64) -> Result<()> {
    nightly::require(&[], &[GUEST_TARGET]).map_err(|missing| NoNightly(missing.to_string()))?;
    let dist = if target == Fuzzed::Calls { Some(build::dist()?) } else { None };
    let (name, output) = (target.name(), build::root().join("target/fuzz"));
    let sources = build::root().join("tests/fuzz");
    let mut cargo = nightly::cargo(&["build", "--release", "--locked", "--target", TARGET, "--bin", &name]);
    cargo.current_dir(&sources).env("CARGO_TARGET_DIR", &output).env("RUSTFLAGS", FLAGS.join(" "));
    ensure!(cargo.status().context("starting cargo")?.success(), "building {name} failed");
    let program = output.join(TARGET).join("release").join(&name);
    let places = Places::new(&output, &name)?;
    let status = places.fuzzer(&program, dist.as_deref(), seconds).status()?;
    println!("{name}: {}", places.counted());
    if !status.success() {
        bail!("{name} found something: {status}; the input is in {}", places.findings.display());
    }
    Ok(())
}

/// Inputs to begin with: bytes that look random, so that every decision is taken at once instead of after a long time.
fn seed(corpus: &Path) -> Result<()> {
    let mut state = 0x5eed_u64;
    for number in 0..SEEDS {
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        let bytes: Vec<u8> = std::iter::repeat_with(next).take(LONGEST as usize / 4).collect();
        fs::write(corpus.join(format!("seed-{number}")), bytes)?;
    }
    Ok(())
}

/// Where a target keeps what it learned and found.
struct Places {
    corpus: PathBuf,
    findings: PathBuf,
    counters: PathBuf,
}

impl Places {
    fn new(output: &Path, name: &str) -> Result<Self> {
        let corpus = output.join("corpus").join(name);
        let findings = output.join("findings").join(name);
        fs::create_dir_all(&corpus)?;
        if fs::read_dir(&corpus)?.next().is_none() {
            seed(&corpus)?;
        }
        fs::create_dir_all(&findings)?;
        Ok(Self { corpus, findings, counters: output.join(format!("{name}-counters.json")) })
    }

    fn fuzzer(&self, program: &Path, dist: Option<&Path>, seconds: u64) -> Command {
        let mut command = Command::new(program);
        command.arg(&self.corpus).arg(format!("-artifact_prefix={}/", self.findings.display()));
        command.args([format!("-max_total_time={seconds}"), format!("-max_len={LONGEST}"), "-len_control=0".into()]);
        command.args(["-print_final_stats=1", "-detect_leaks=0"]).env("FUZZ_COUNTERS", &self.counters);
        if let Some(dist) = dist {
            let reference = dist.join("lib/reference");
            command.env("FUZZ_DIST", dist).env("LD_LIBRARY_PATH", &reference);
            command.env("MIOPEN_HIPDNN_FORWARDING", "1").env("MIOPEN_HIPDNN_CACHE", "off");
            command.env("MIOPEN_HIPDNN_NATIVE_LIBRARY", reference.join("libMIOpen_private.so.1"));
            command.env("MIOPEN_HIPDNN_BACKEND_LIBRARY", reference.join("libhipdnn_backend.so"));
            command.env("MIOPEN_HIPDNN_HIP_LIBRARY", reference.join("libamdhip64.so.7"));
        }
        command
    }

    /// What the target counted.
    fn counted(&self) -> String {
        fs::read_to_string(&self.counters).map_or_else(|_| "it counted nothing".into(), |text| text.trim().to_string())
    }
}
