//! What translation costs. Cold figures come from fresh processes (`cold`), which print what they saw of themselves. Warm ones compare the
//! embedded component with the same rules called natively (`warm`). Problems are in `problems`, what is read from the process in `process`.

mod cold;
mod problems;
mod process;
mod warm;

use anyhow::Result;

/// Measures and prints; or does what one of its own processes is asked.
pub fn run(what: Option<&str>) -> Result<()> {
    match what {
        Some(cold::EMBEDDED) => cold::embedded(),
        Some(cold::COMPILED) => cold::compiled(),
        // Alone, for a profiler.
        Some("warm") => warm::report(),
        _ => {
            cold::report()?;
            warm::report()
        }
    }
}
