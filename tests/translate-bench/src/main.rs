//! `cargo xtask bench translate`: what translation costs, one JSON object a line, medians, two things compared in each.
//!
//! Cold figures come from fresh processes (`cold`), which print what they saw of themselves. Warm ones compare the embedded component with
//! the same rules called natively (`warm`). Problems are in `problems`, what is read from the process in `process`.

mod cold;
mod problems;
mod process;
mod warm;

use anyhow::Result;
use serde_json::json;

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
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

/// Prints one figure beside what it is compared with.
fn print(bench: &str, (value, unit): (f64, &str), (baseline, is): (f64, &str)) {
    let ratio = (baseline != 0.0).then_some(value / baseline);
    println!("{}", json!({ "bench": bench, "value": value, "unit": unit, "baseline": baseline, "baseline_is": is, "ratio": ratio }));
}

/// The middle of some figures.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
