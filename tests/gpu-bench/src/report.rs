//! Figures: one JSON object a line, printed and kept in a file.

use std::{fs::File, io::Write as _, path::Path};

use anyhow::{Context as _, Result};
use serde_json::json;

/// Where figures go.
pub struct Report {
    file: Option<File>,
}

impl Report {
    /// To standard output, and to a file if there is one.
    pub fn new(file: Option<&Path>) -> Result<Self> {
        let create = |path: &Path| File::create(path).with_context(|| path.display().to_string());
        Ok(Self { file: file.map(create).transpose()? })
    }

    /// Writes one figure beside what it is compared with.
    pub fn figure(&mut self, bench: &str, value: f64, unit: &str, (baseline, baseline_is): (f64, &str)) -> Result<()> {
        let ratio = (baseline != 0.0).then_some(value / baseline);
        let figure =
            json!({ "bench": bench, "value": value, "unit": unit, "baseline": baseline, "baseline_is": baseline_is, "ratio": ratio });
        println!("{figure}");
        if let Some(file) = &mut self.file {
            writeln!(file, "{figure}")?;
        }
        Ok(())
    }
}

/// The middle one.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
