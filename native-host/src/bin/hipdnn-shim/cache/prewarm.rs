//! `cache prewarm`: lines, or what `record` made of a job, run once for what the shim remembers of them.

use std::{env, num::NonZeroUsize, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Args;
use hipdnn_host::{cache::disk::Options as Place, environment};

use crate::drive;

/// Command line of `cache prewarm`.
#[derive(Args)]
pub struct Options {
    /// How many processes run lines at the same time (default: one for each processor)
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    settings: drive::Settings,
    /// MIOpenDriver lines, or what `record` wrote
    #[arg(value_name = "CORPUS")]
    corpus: PathBuf,
}

/// Runs the verb.
pub fn run(options: &Options, place: &Place) -> Result<ExitCode> {
    // SAFETY: this program has one thread so far, and no library has been loaded yet.
    unsafe {
        env::set_var(environment::CACHE, "rw");
        env::set_var(environment::CACHE_DIR, &place.path);
        env::set_var(environment::CACHE_MAX_BYTES, place.max_bytes.to_string());
    }
    drive::prewarm(&options.settings, &options.corpus, options.jobs)
}
