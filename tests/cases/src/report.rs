//! Reports on disk: one JSON object for each line, and nothing else.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};

use crate::case::Record;

/// Reads a report. Anything that is no record, and an end without a line break, is an error.
pub fn read(path: &Path) -> Result<Vec<Record>> {
    let text = fs::read_to_string(path).with_context(|| format!("the report {} is missing", path.display()))?;
    ensure!(text.is_empty() || text.ends_with('\n'), "the report {} ends within a line", path.display());
    let record = |(i, line): (usize, &str)| serde_json::from_str(line).with_context(|| format!("{} line {}", path.display(), i + 1));
    text.lines().enumerate().map(record).collect()
}
