//! `doctor`: which libraries the shim would use here, why these, and what is wrong; or what serves a running process.
//!
//! `probe` is a child process that loads what a program would load, with the shim's own code, and `child` hears it out; `front` looks at what
//! programs get by name, `environment`, `translator` and `cache` at what needs no loading, `process` (with `maps` and `file`) at another
//! process. `judge` finds what is wrong, of the kinds in `findings`. The data is in `report`, its form for people in `text`. Libraries of
//! others are never loaded into this process itself.

mod cache;
mod child;
mod environment;
mod file;
mod findings;
mod front;
mod judge;
mod maps;
mod probe;
mod process;
mod report;
mod text;
mod translator;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use environment::Environment;
use findings::{Finding, Kind, Weight};
use probe::Stage;
use report::Report;

/// Command line of `doctor`.
#[derive(Args)]
pub struct Options {
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Look at a running process instead: which shim serves it, and with which libraries
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// The shim, if it is neither the one that the loader finds nor the one beside this tool
    #[arg(long, value_name = "FILE")]
    shim: Option<PathBuf>,
    /// The child's part: stages, separated by commas
    #[arg(long, hide = true, value_delimiter = ',')]
    probe: Vec<Stage>,
}

/// Runs the verb.
pub fn run(options: &Options) -> Result<ExitCode> {
    if !options.probe.is_empty() {
        return probe::serve(&options.probe, options.shim.as_deref());
    }
    match options.pid {
        Some(pid) => {
            let process = process::examine(pid)?;
            print(options, &process, text::process, &process.findings)
        }
        None => {
            let report = examine(options.shim.as_deref())?;
            print(options, &report, text::report, &report.findings)
        }
    }
}

fn print<T: Serialize>(options: &Options, document: &T, text: impl Fn(&T) -> String, findings: &[Finding]) -> Result<ExitCode> {
    if options.json {
        println!("{}", serde_json::to_string_pretty(document)?);
    } else {
        print!("{}", text(document));
    }
    Ok(ExitCode::from(u8::from(findings::any_error(findings))))
}

/// Finds everything out.
fn examine(named: Option<&Path>) -> Result<Report> {
    let environment = Environment::own();
    let settings = environment.settings();
    let forwarding = environment::forwarding(&settings);
    let (shim, front_crash) = front::shim(named)?;
    let mut probed = child::probe(&Stage::OF_A_PROGRAM, shim.path.as_deref())?;
    probed.crashes.extend(front_crash.map(|how| (Stage::Front, how)));
    if let Some(chosen) = &mut probed.hip.chosen {
        chosen.facts.program = probed.program.clone();
    }
    let (translator, cache) = (translator::translator(&settings), cache::cache(&settings));

    let on = forwarding.on;
    let (native, hip, hipdnn) = (probed.native.path(), probed.hip.path(), probed.hipdnn.path());
    let libraries = [("native", native), ("HIP", hip), ("the program's HIP", probed.program.as_deref()), ("hipDNN", hipdnn)];
    let libraries: Vec<(&str, &Path)> = libraries.into_iter().filter_map(|(what, path)| Some((what, path?))).collect();

    let mut found = judge::crashes(&probed.crashes);
    found.extend(front::judge(&shim, &settings, named));
    found.extend(environment.judge(&settings));
    found.extend(judge::forwarding(&forwarding));
    found.extend(judge::native(&probed.native, &shim, &settings));
    found.extend(judge::hip(&probed.hip, on));
    found.extend(judge::hipdnn(&probed.hipdnn, &[native, hip], &settings, on));
    found.extend(judge::mixed(&libraries, &probed.mapped, on));
    found.extend(judge::native_of_another_release(&probed.native, probed.program.as_deref(), on));
    found.extend(cache::judge(&cache, on));
    found.extend(translator::judge(&translator, &settings, on));
    findings::sort(&mut found);
    Ok(Report {
        version: hipdnn_host::VERSION,
        shim,
        forwarding,
        native: probed.native,
        hip: probed.hip,
        hipdnn: probed.hipdnn,
        translator,
        cache,
        environment: environment.set(&settings),
        findings: found,
    })
}

/// What `--help` says about the documents and the findings.
pub fn help() -> String {
    let mut text = String::from("Exit status: 0, or 1 if there is a finding of severity error.\n\nFields of the JSON document:\n");
    let mut fields = |title: &str, fields: &[(&str, &str)]| {
        text.push_str(title);
        fields.iter().for_each(|(name, what)| _ = writeln!(text, "  {name:12}{what}"));
    };
    fields("", report::FIELDS);
    fields("\nand with --pid:\n", report::PROCESS_FIELDS);
    text.push_str("\nFindings (those without a severity are errors while forwarding is on, else warnings):\n");
    for kind in Kind::ALL {
        let severity = match kind.weight() {
            Weight::Always(severity) => severity.name(),
            Weight::WhenForwarding => "",
        };
        _ = writeln!(text, "  {:30}{severity}", kind.id());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_fields_are_those_that_are_written() {
        let names = |document: serde_json::Value| document.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>();
        let documented = |fields: &[(&str, &str)]| fields.iter().map(|(name, _)| name.to_string()).collect();
        let report = Report {
            version: "",
            shim: Default::default(),
            forwarding: Default::default(),
            native: Default::default(),
            hip: Default::default(),
            hipdnn: Default::default(),
            translator: Default::default(),
            cache: Default::default(),
            environment: vec![],
            findings: vec![],
        };
        assert_eq!(names(serde_json::to_value(&report).unwrap()), documented(report::FIELDS));
        let process = process::examine(std::process::id()).unwrap();
        assert_eq!(names(serde_json::to_value(&process).unwrap()), documented(report::PROCESS_FIELDS));
    }

    #[test]
    fn help_names_every_finding() {
        assert!(Kind::ALL.iter().all(|kind| help().contains(kind.id())));
    }
}
