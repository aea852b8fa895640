//! What `abidiff` says about two libraries: names and versions that are gone. Another opinion than that of our own ELF readers.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

/// The Debian package that has the program.
const PACKAGE: &str = "abigail-tools";
/// Bits of abidiff's exit status: an error, and misuse.
const FAILED: i32 = 1 | 2;
/// How a line begins that names something which is gone.
const REMOVED: &str = "[D] ";

/// Every symbol, as `name@@VERSION`, that the old library exports and the new one does not. It is an error, never an empty answer, if one of
/// them cannot be read or exports nothing.
pub fn removed(old: &Path, new: &Path) -> Result<Vec<String>> {
    let mut command = Command::new("abidiff");
    command.args(["--no-default-suppression", "--no-added-syms"]).args([old, new]);
    let output = command.output().with_context(|| format!("abidiff is missing: install Debian's package {PACKAGE}"))?;
    let report = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().context("abidiff was killed")?;
    ensure!(code & FAILED == 0, "abidiff cannot compare {} with {}: {}{}", old.display(), new.display(), report.trim(), said.trim());
    let symbols = report.lines().filter_map(|line| line.trim_start().strip_prefix(REMOVED)).map(symbol).collect::<Vec<_>>();
    let counted = counted(&report)?;
    ensure!(counted == symbols.len(), "abidiff counts {counted} removed symbols and names {}:\n{report}", symbols.len());
    Ok(symbols)
}

/// The symbol of a line: in braces behind a declaration where there is debug information, else all there is.
fn symbol(text: &str) -> String {
    text.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(text, |(symbol, _)| symbol).trim().into()
}

/// The removals that the report's summaries count. One that found no difference says nothing at all; one that says something else is not understood.
fn counted(report: &str) -> Result<usize> {
    let removed = |line: &str| -> Option<usize> { line.split_once("summary: ")?.1.split_once(" Removed")?.0.parse().ok() };
    let counts: Vec<usize> = report.lines().filter_map(removed).collect();
    ensure!(report.trim().is_empty() || !counts.is_empty(), "abidiff said what nobody understands:\n{report}");
    Ok(counts.iter().sum())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::{fs, path::PathBuf};

    const ALL: &str = "int miopenA(void) { return 1; }\nint miopenB(void) { return 2; }\n";

    /// A library of C source, with or without a version node.
    fn library(folder: &Path, name: &str, source: &str, node: &str) -> PathBuf {
        let (file, code, map) = (folder.join(name), folder.join(format!("{name}.c")), folder.join(format!("{name}.map")));
        fs::write(&code, source).unwrap();
        fs::write(&map, format!("{node} {{ global: *; }};\n")).unwrap();
        let script = format!("-Wl,--version-script={}", map.display());
        crate::compile(&["-shared".as_ref(), "-fPIC".as_ref(), "-nostdlib".as_ref(), script.as_ref(), code.as_ref()], &file).unwrap();
        file
    }

    #[test]
    fn what_is_gone_or_has_lost_its_version_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let library = |name: &str, source: &str, node: &str| library(folder.path(), name, source, node);
        let all = library("all.so", ALL, "M_1");
        assert_eq!(removed(&all, &all).unwrap(), Vec::<String>::new());
        let more = library("more.so", &format!("{ALL}int miopenC(void) {{ return 3; }}\n"), "M_1");
        assert_eq!(removed(&all, &more).unwrap(), Vec::<String>::new());
        assert_eq!(removed(&more, &all).unwrap(), ["miopenC@@M_1"]);
        let (unversioned, other) = (library("unversioned.so", ALL, ""), library("other.so", ALL, "M_2"));
        for changed in [unversioned, other] {
            assert_eq!(removed(&all, &changed).unwrap(), ["miopenA@@M_1", "miopenB@@M_1"], "{}", changed.display());
        }
    }

    #[test]
    fn nothing_is_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        let all = library(folder.path(), "all.so", ALL, "M_1");
        let empty = folder.path().join("empty");
        fs::write(&empty, "").unwrap();
        let bare = library(folder.path(), "bare.so", "static int nothing __attribute__((used));\n", "");
        for nothing in [empty, bare, folder.path().join("absent")] {
            assert!(removed(&nothing, &all).is_err(), "{}", nothing.display());
            assert!(removed(&all, &nothing).is_err(), "{}", nothing.display());
        }
        assert!(counted("something else").is_err());
    }
}
