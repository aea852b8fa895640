//! `hipdnn-shim`: the installer and the offline tools. Only the command line and the dispatch are here; each verb has a module of its own.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that fails says so by panicking"))]

mod asked;
mod cache;
mod check;
#[cfg(feature = "cranelift")]
mod compile;
mod convolution;
mod diff;
mod doctor;
mod drive;
mod explain;
mod flags;
mod fuzz;
mod install;
mod libraries;
mod output;
mod problems;
mod questions;
mod record;
mod reference;
mod replay;
mod report;
mod rules;
mod trace;
mod translate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A request that makes no sense: one line on stderr, exit status 2.
#[derive(Debug, PartialEq, Eq)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Offline tools of the MIOpen to hipDNN shim.
#[derive(Parser)]
#[command(name = "hipdnn-shim", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a MIOpenDriver line through libMIOpen, verify the result, and say which route it took.
    #[command(after_help = flags::help())]
    Drive(drive::Options),
    /// Show the hipDNN graph that a MIOpenDriver line becomes, or the rule that declines it. Needs neither GPU nor MIOpen.
    #[command(after_help = flags::help())]
    Translate(translate::Options),
    /// Say in words why a problem is declined, and what would have to be otherwise; or how it is translated. Needs neither GPU nor MIOpen.
    #[command(after_help = flags::help())]
    Explain(explain::Options),
    /// Check a translator: that it keeps the contract for every problem of a corpus and random ones, and that its graphs compute what they
    /// should. Exit status 1 if anything is wrong.
    #[command(after_help = check::help())]
    Check(check::Options),
    /// Compare what two translators decide: newly forwarded, newly declined, another graph, another rule.
    Diff(diff::Options),
    /// Look for problems for which a translator breaks the contract, by random and bent problems; what is found is made as simple as it can be.
    /// Exit status 1 if anything is found.
    Fuzz(fuzz::Options),
    /// Put the shim before a native MIOpen, so that programs find both where they found the one.
    Install(install::Options),
    /// Take an installation back: exactly the files that it put there.
    Uninstall(install::Removal),
    /// Say which native MIOpen, HIP, hipDNN and translator the shim uses here and why, and what is wrong; or what serves a running process.
    #[command(after_help = doctor::help())]
    Doctor(doctor::Options),
    /// Look after the disk cache: count, check, prune, ship.
    Cache(cache::Options),
    /// Compile a translator into the disk cache, for processes that cannot, or should not at their first call.
    #[cfg(feature = "cranelift")]
    Compile(compile::Options),
    /// Show what became of a job's calls, from the statistics files of its processes.
    Report(report::Options),
    /// Make a corpus of what a program asked for, from its statistics files or JSON traces.
    Record(record::Options),
    /// Run the problems of a corpus through libMIOpen as `drive` does, or only translate them, which needs no library.
    Replay(replay::Options),
    /// Print the reasons for which calls are left to native MIOpen.
    Rules(rules::Options),
}

fn main() -> ExitCode {
    // Rust ignores SIGPIPE, and then printing into a closed pipe (`… | head`) panics; end quietly instead, as other tools do.
    // SAFETY: sets a disposition that the system provides; there is one thread.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    end_quietly_when_output_fails();
    let result = match Arguments::parse().verb {
        Verb::Drive(options) => drive::run(&options),
        Verb::Translate(options) => translate::run(&options),
        Verb::Explain(options) => explain::run(&options),
        Verb::Check(options) => check::run(&options),
        Verb::Diff(options) => diff::run(&options),
        Verb::Fuzz(options) => fuzz::run(&options),
        Verb::Install(options) => install::run(&options),
        Verb::Uninstall(options) => install::remove(&options),
        Verb::Doctor(options) => doctor::run(&options),
        Verb::Cache(options) => cache::run(&options),
        #[cfg(feature = "cranelift")]
        Verb::Compile(options) => compile::run(&options),
        Verb::Report(options) => report::run(&options),
        Verb::Record(options) => record::run(&options),
        Verb::Replay(options) => replay::run(&options),
        Verb::Rules(options) => rules::run(&options),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("hipdnn-shim: {error:#}");
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}

/// What is printed may find no room (`… > /dev/full`): that ends the tool with one line, like any other error, and is no panic of ours.
fn end_quietly_when_output_fails() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        match panic.payload_as_str().and_then(|text| text.strip_prefix("failed printing to stdout: ")) {
            Some(why) => {
                eprintln!("hipdnn-shim: standard output: {why}");
                std::process::exit(1);
            }
            None => usual(panic),
        }
    }));
}
