//! What a program would miss that was linked with the native and gets the shim before it: the loader's rules, applied to two files.

use std::{collections::BTreeSet, path::Path, process::ExitCode};

use super::elf::{Export, Face};

/// What programs must set where native would look for its databases in vain: beside the library that has `miopenCreate`.
const DATABASES: &str = "MIOPEN_SYSTEM_DB_PATH";

/// An export of the native that would not be found, and why.
#[derive(Debug, PartialEq, Eq)]
pub enum Missing {
    /// Neither library has it under this version.
    Symbol(Export),
    /// Programs that ask the name `libMIOpen.so.1` for this version do not start: the loader wants the node in that very library.
    Version(Export),
}

/// What programs ask for that does not resolve through the shim and the native under its private name.
pub fn missing(asked: &BTreeSet<Export>, shim: &Face, private: &Face) -> Vec<Missing> {
    let nodes: BTreeSet<&str> = shim.exports.iter().filter_map(|(_, version)| version.as_deref()).collect();
    let names: BTreeSet<&str> = shim.exports.iter().map(|(name, _)| name.as_str()).collect();
    let why = |export: &Export| match &export.1 {
        Some(version) if !nodes.contains(version.as_str()) => Some(Missing::Version(export.clone())),
        // Who asks for no version takes any.
        None if names.contains(export.0.as_str()) => None,
        _ => (!shim.exports.contains(export) && !private.exports.contains(export)).then(|| Missing::Symbol(export.clone())),
    };
    asked.iter().filter_map(why).collect()
}

/// Says what is missing of so many, and what the shim cannot give native: a place from where it finds its databases.
pub fn print(missing: &[Missing], exports: usize, databases: &Path) -> ExitCode {
    for entry in missing {
        let (text, (name, version)) = match entry {
            Missing::Symbol(export) => ("in neither library", export),
            Missing::Version(export) => ("the shim lacks this version", export),
        };
        let version = version.as_ref().map(|version| format!("@{version}")).unwrap_or_default();
        println!("{name}{version}: {text}");
    }
    println!("{} of {exports} exports resolve through the shim and the native behind it", exports - missing.len());
    let place = databases.display();
    if databases.join("db").is_dir() {
        println!("databases: {place}/db; --prefix links to them; a shim that is only put in front wants {DATABASES}={place}/db/");
    } else {
        println!("databases: none in {place}/db; if native has any, set {DATABASES} to where they are");
    }
    if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn face(exports: &[(&str, Option<&str>)]) -> Face {
        let exports = exports.iter().map(|(name, version)| (name.to_string(), version.map(str::to_string)));
        Face { exports: exports.collect(), ..Face::default() }
    }

    #[test]
    fn what_either_library_has_is_found() {
        let shim = face(&[("miopenCreate", Some("M"))]);
        let native = face(&[("miopenCreate", Some("M")), ("_ZN6miopen3foo", Some("M"))]);
        assert_eq!(missing(&native.exports, &shim, &native), []);
        let unversioned = face(&[("miopenCreate", None), ("_ZN6miopen3foo", None)]);
        assert_eq!(missing(&unversioned.exports, &shim, &unversioned), []);
    }

    #[test]
    fn what_neither_has_is_told() {
        let shim = face(&[("miopenCreate", Some("M"))]);
        let native = face(&[("gone", Some("M")), ("other", Some("N"))]);
        let found = missing(&native.exports, &shim, &face(&[("other", Some("N"))]));
        assert_eq!(found, [Missing::Symbol(("gone".into(), Some("M".into()))), Missing::Version(("other".into(), Some("N".into())))]);
    }
}
