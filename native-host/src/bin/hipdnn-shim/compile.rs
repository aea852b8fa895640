//! `compile`: a translator's machine code, into the disk cache, where processes find it that cannot or should not compile. It is code that they
//! will run, so it lives in no file that could be passed on, but in the cache's folder, which nobody else can write.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use hipdnn_host::{
    component::{Code, code_key},
    identity::hexadecimal,
    translator::Source,
};

use crate::cache;

/// Command line of `compile`.
#[derive(Args)]
pub struct Options {
    /// The translator, a WebAssembly component
    file: PathBuf,
    /// The cache folder (default: the one that programs use under this environment)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(options: &Options) -> Result<ExitCode> {
    let refused = |reason: String| anyhow!("{} is refused: {reason}", options.file.display());
    let source = Source::of_file(&options.file).map_err(refused)?;
    // As a process would that is asked to use it.
    let translator = source.try_out().map_err(refused)?;
    let code = Code::compile(source.bytes())?;
    let place = cache::place(options.dir.clone())?;
    let key = code_key(source.digest());
    cache::open(&place, true)?.store(&key, &code.to_bytes()).context("keeping the code")?;
    let (name, version) = (&translator.description().name, &translator.description().version);
    println!("{name} {version}, {} bytes of code, for MIOPEN_HIPDNN_TRANSLATOR_SHA256={}", code.size(), hexadecimal(source.digest()));
    Ok(ExitCode::SUCCESS)
}
