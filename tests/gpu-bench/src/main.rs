//! What the shim costs on a GPU: the same convolutions through MIOpen's API and the shim, and by a program that calls cuDNN itself, in turns,
//! in one run. One JSON object a line, medians.
//!
//! Belongs here: measuring, and the program that is compared with (`direct`). The libraries are found as any program finds them, and the shim
//! is told by its own environment which they are; `gpu-bench all` says what it wants.
//!
//! | figure | what is measured |
//! | --- | --- |
//! | `gpu.call.*` | host time of a warm call, on 1, 2, 4 and 8 threads with handles and streams of their own |
//! | `gpu.device.*` | device time of a model's convolutions, all queued before the first begins |
//! | `gpu.model.*` | the same while they are being queued; `.noise` is the direct program beside itself |
//! | `gpu.plan.*` | what a plan costs, in the first process and in the second |
//! | `gpu.start.*` | from the start of a process to the first result of a whole model |

mod call;
mod device;
mod direct;
mod hipdnn;
mod memory;
mod models;
mod report;
mod shim;
mod start;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::report::Report;

/// Measures.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything. Wants the shim in FIELD_CASES_MIOPEN (or where the loader finds it), forwarding on, and what the shim itself wants.
    All {
        /// A file for the figures, which are printed too.
        #[arg(long)]
        out: Option<PathBuf>,
        /// Processes of each sort for `gpu.plan` and `gpu.start`.
        #[arg(long, default_value_t = 5)]
        processes: usize,
    },
    /// One process that computes a model once; for `all`.
    #[command(hide = true)]
    Start(start::Job),
}

fn main() -> Result<()> {
    let begin = std::time::Instant::now();
    match Arguments::parse().command {
        Command::Start(job) => start::child(&job, begin),
        Command::All { out, processes } => {
            if let Err(reason) = hipdnn_on_cudnn::cuda::Cuda::with_device() {
                eprintln!("nothing is measured: there is no device ({reason})");
                return Ok(());
            }
            let mut report = Report::new(out.as_deref())?;
            start::run(&mut report, processes)?;
            call::run(&mut report)?;
            device::run(&mut report)
        }
    }
}
