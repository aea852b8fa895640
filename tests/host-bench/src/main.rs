//! Benchmarks of the host, one JSON object a line, medians, two things compared in each: `translate` for `cargo xtask bench translate`,
//! `calls` for `cargo xtask bench warm`.

mod calls;
mod translate;

use anyhow::{Result, bail};
use serde_json::json;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("translate") => translate::run(arguments.get(1).map(String::as_str)),
        Some("calls") => calls::run(),
        _ => bail!("translate or calls"),
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
