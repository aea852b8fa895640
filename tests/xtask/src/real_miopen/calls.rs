//! Every call that the driver makes is seen, once and in order, by native or in the shim's trace (see `library_gates::order`). Native's word is
//! the unmodified library's own log.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context as _, Result};
use library_gates::order::{self, Call, Line, Native};

use super::{
    Group, LIMIT,
    machine::{Front, Machine, Watch},
};
use crate::programs::{TIMEOUT, in_parallel};

/// Fewer calls than any operation of the driver makes.
const FEWEST: usize = 6;

/// The calls of a run, from what it printed on standard error.
fn calls(machine: &Machine, watch: Watch, front: Front, arguments: &[String]) -> Result<Vec<Call>> {
    let driver = machine.driver();
    let ran = machine.watched(watch, front, &driver, arguments, LIMIT)?;
    anyhow::ensure!(ran.end != TIMEOUT, "out of time");
    let lines: Vec<Line> = ran.stderr.lines().filter_map(|line| order::read(line, &driver, logged)).collect();
    let calls = order::calls(lines)?;
    anyhow::ensure!(calls.len() >= FEWEST, "only {} calls", calls.len());
    Ok(calls)
}

/// The function in a line of MIOpen's log: `MIOpen(HIP): miopenStatus_t miopenCreate(miopenHandle_t *){`.
fn logged(line: &str) -> Option<String> {
    let (_, text) = line.strip_prefix("MIOpen")?.split_once("): ")?;
    let name = text.split_once('(')?.0.rsplit(' ').next()?;
    miopen_api::table().function(name).map(|function| function.name.clone())
}

/// Forwarding off: native is entered by the same calls as without the shim, in the same order, and nothing is traced.
pub fn off(machine: &Machine, runs: &[Vec<String>]) -> Result<Group> {
    group("off, every call seen by native", runs, |arguments| {
        let alone = calls(machine, Watch::CallsTraced, Front::Native, arguments)?;
        let off = calls(machine, Watch::CallsTraced, Front::Off, arguments)?;
        let first = alone.iter().zip(&off).find(|(alone, off)| alone != off);
        anyhow::ensure!(first.is_none(), "without the shim and with it: {first:?}");
        anyhow::ensure!(alone.len() == off.len(), "{} calls without the shim, {} with it", alone.len(), off.len());
        Ok(())
    })
}

/// Forwarding on: each call is native's or traced; without a trace there are the same calls, and none is.
pub fn on(machine: &Machine, runs: &[Vec<String>]) -> Result<Group> {
    group("on, every call seen, by native or in the trace", runs, |arguments| {
        let alone = calls(machine, Watch::Calls, Front::Native, arguments)?;
        let silent: BTreeSet<&str> = alone.iter().filter(|call| !call.native.contains(&call.name)).map(|call| call.name.as_str()).collect();
        let native = Native { tells: &|name| !silent.contains(name), calls_itself: true };
        let traced = calls(machine, Watch::CallsTraced, Front::On, arguments)?;
        for call in &traced {
            call.seen(&native).map_err(|unseen| anyhow::anyhow!("{unseen}"))?;
            let convolution = ["miopenConvolution", "miopenFindConvolution"].iter().any(|start| call.name.starts_with(start));
            anyhow::ensure!(convolution != call.traced.is_empty(), "{}: traced {:?}", call.name, call.traced);
        }
        let untraced = calls(machine, Watch::Calls, Front::On, arguments)?;
        let names = |calls: &[Call]| calls.iter().map(|call| call.name.clone()).collect::<Vec<_>>();
        anyhow::ensure!(names(&untraced) == names(&traced), "other calls without a trace");
        anyhow::ensure!(untraced.iter().all(|call| call.traced.is_empty()), "traced without being asked to");
        Ok(())
    })
}

fn group(name: &str, runs: &[Vec<String>], check: impl Fn(&Vec<String>) -> Result<()> + Sync) -> Result<Group> {
    let results = in_parallel(runs, |arguments| Ok(check(arguments).with_context(|| format!("{name}: {}", arguments.join(" ")))))?;
    let mut group = Group { name: name.into(), ..Group::default() };
    for result in results {
        match result {
            Ok(()) => group.right += 1,
            Err(error) => group.wrong.push(format!("{error:#}")),
        }
    }
    Ok(group)
}

/// Every name and version of the real library is in the shim or in the native installed behind it, by abidiff's judgement.
pub fn names(machine: &Machine) -> Result<Group> {
    let [shim, private] = machine.installed();
    let removed = |front: &Path| library_gates::abi::removed(&machine.native(), front);
    let in_neither: Vec<String> = {
        let behind: BTreeSet<String> = removed(&private)?.into_iter().collect();
        removed(&shim)?.into_iter().filter(|symbol| is_c_api(symbol) || behind.contains(symbol)).collect()
    };
    let mut group = Group { name: "abidiff: names and versions as without it".into(), ..Group::default() };
    if in_neither.is_empty() {
        group.right = 1
    } else {
        group.wrong.push(format!("abidiff misses {}", in_neither.join(", ")))
    }
    Ok(group)
}

/// Whether a symbol is of the C API, all of which is the shim's own: the loader must not go past it.
fn is_c_api(symbol: &str) -> bool {
    symbol.strip_prefix("miopen").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_miopen_names_functions() {
        let line = |text: &str| logged(text);
        assert_eq!(line("MIOpen(HIP): miopenStatus_t miopenCreate(miopenHandle_t *){").as_deref(), Some("miopenCreate"));
        assert_eq!(line("MIOpen(HIP): const char *miopenGetErrorString(miopenStatus_t){").as_deref(), None);
        assert_eq!(line("MIOpen(HIP): \ttensorDesc = 0"), None);
        assert_eq!(line("MIOpen(HIP): Info [get_device_name] Raw device name: gfx942"), None);
        assert!(is_c_api("miopenCreate@@MIOPEN_HIP_1") && !is_c_api("miopen_sqlite3_memvfs_init") && !is_c_api("_ZN6miopen1xE"));
    }
}
