//! In which places a HIP runtime is looked for, and why. Opens nothing.

use std::path::Path;

use crate::search::{Candidate, Rule};

/// The operator names it.
pub const NAMED: Rule = Rule { id: "named", why: "MIOPEN_HIPDNN_HIP_LIBRARY names it" };
/// The program's, or native's.
pub const LOADED: Rule = Rule { id: "loaded", why: "the process has it already: the program's or native's" };
/// The loader's.
pub const LOADER: Rule = Rule { id: "loader", why: "the loader finds it by name" };

/// Names under which ROCm's releases ship the runtime, newest first.
pub const NAMES: &[&str] = &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
/// How the runtime's file name begins, whichever release it is of.
pub const STEM: &str = "libamdhip64.so";

/// The places, in order: the one that is named, and then no other; the one in the process; the first of the usual names that loads.
pub fn candidates(named: Option<&Path>) -> Vec<Candidate> {
    if let Some(file) = named {
        return vec![Candidate { rule: &NAMED, file: file.into() }];
    }
    let by_name = |rule| NAMES.iter().map(move |name| Candidate { rule, file: name.into() });
    by_name(&LOADED).chain(by_name(&LOADER)).collect()
}
