//! The committed corpus, in the directions that its lines ask for, through the tool, and its coverage tables in the README: printed by the tool, compared here.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::build::root;

/// What stands around the tables in the README.
const BEGIN: &str = "<!-- corpus: printed by cargo xtask corpus -->\n";
const END: &str = "<!-- /corpus -->";

/// Drives the corpus; then the README holds what the tool prints, or is made to.
pub fn run(dist: &Path, write: bool) -> Result<()> {
    let corpus = root().join("tests/corpus/driver.jsonl");
    let output = Command::new(dist.join("bin/hipdnn-shim"))
        .args(["drive", "--corpus"])
        .arg(&corpus)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("the tool")?;
    let tables = String::from_utf8(output.stdout)?;
    print!("{tables}");
    ensure!(output.status.success(), "the corpus has failures");
    let path = root().join("README.md");
    let readme = fs::read_to_string(&path)?;
    let updated = replaced(&readme, &tables)?;
    if write {
        fs::write(&path, updated)?;
    } else {
        ensure!(updated == readme, "the README's tables differ: run cargo xtask corpus --write and look at the change");
    }
    Ok(())
}

/// The README with these tables.
fn replaced(readme: &str, tables: &str) -> Result<String> {
    let (before, rest) = readme.split_once(BEGIN).context("the README has no corpus section")?;
    let (_, after) = rest.split_once(END).context("the README's corpus section does not end")?;
    Ok(format!("{before}{BEGIN}{}\n\n{END}{after}", tables.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_is_replaced_and_nothing_else() {
        let readme = format!("a\n{BEGIN}old\n{END}\nb\n");
        let updated = replaced(&readme, "| new |\n").unwrap();
        assert_eq!(updated, format!("a\n{BEGIN}| new |\n\n{END}\nb\n"));
        assert_eq!(replaced(&updated, "| new |\n").unwrap(), updated);
        assert!(replaced("nothing", "x").is_err());
    }
}
