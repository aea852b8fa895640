//! `report`: statistics files of the processes of a job, as one page, as text, or as JSON.
//!
//! `read` takes files, which anybody may have written; `merged` makes one job of them and ranks; `page` and `text` show it, with `shown` for
//! what they share. Nothing is counted here: that happened in the shim.

mod merged;
mod page;
mod read;
pub mod shown;
mod text;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::Args;
use hipdnn_host::files;

use crate::Usage;
use merged::Report;

pub use read::{Unreadable, read as read_stats};

/// Command line of `report`.
#[derive(Args)]
pub struct Options {
    /// Statistics files, as MIOPEN_HIPDNN_STATS names them: one for each process of a job
    #[arg(required = true, value_name = "STATS")]
    files: Vec<PathBuf>,
    /// Write one page of HTML that needs nothing else
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Print text for a terminal of 80 columns (the default without -o)
    #[arg(long)]
    text: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "text")]
    json: bool,
    /// Leave out files that cannot be read, and say so; the exit status is 1 all the same
    #[arg(long)]
    keep_going: bool,
}

/// Runs the verb.
pub fn run(options: &Options) -> Result<ExitCode> {
    let output = options.output.as_deref();
    if let Some(output) = output.filter(|output| options.files.iter().any(|file| is_same(file, output))) {
        return Err(Usage(format!("{} is one of the statistics files", output.display())).into());
    }
    let (mut job, mut left_out) = (Vec::new(), Vec::new());
    for file in &options.files {
        match read::read(file) {
            Ok(stats) => job.push((file.clone(), stats)),
            Err(error) if options.keep_going => left_out.push(format!("{}: {error}", file.display())),
            Err(error) => anyhow::bail!("{}: {error}", file.display()),
        }
    }
    let (job, doubles) = read::one_of_each_process(job);
    if let (false, Some(double)) = (options.keep_going, doubles.first()) {
        anyhow::bail!("{double}");
    }
    left_out.extend(doubles);
    left_out.iter().for_each(|why| eprintln!("hipdnn-shim: left out: {}", shown::visible(why)));
    anyhow::ensure!(!job.is_empty(), "none of the files can be read");
    let report = Report::of(&job, &left_out);
    if let Some(output) = output {
        write(output, &page::page(&report))?;
    }
    match output {
        _ if options.json => println!("{}", serde_json::to_string(&report)?),
        Some(output) if !options.text => println!("{}", output.display()),
        _ => print!("{}", text::text(&report)),
    }
    Ok(ExitCode::from(u8::from(!left_out.is_empty())))
}

fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Writes a file that was asked for.
pub fn write(path: &Path, text: &str) -> Result<()> {
    files::replace(path, text.as_bytes()).with_context(|| format!("{} cannot be written", path.display()))
}
