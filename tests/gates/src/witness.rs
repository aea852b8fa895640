//! A library that a program loads before any MIOpen, and that writes down each of its calls: what the program itself says it did.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::compile;

/// How a line of the witness begins.
pub const MARK: &str = "witness ";
/// The variable that names the file of its lines; stderr without it.
pub const LOG: &str = "WITNESS_LOG";

/// Builds it in a folder.
pub fn build(folder: &Path) -> Result<PathBuf> {
    let (source, names, library) = (folder.join("witness.c"), folder.join("names.h"), folder.join("witness.so"));
    fs::write(&source, include_str!("witness.c"))?;
    let mut list = String::new();
    for (number, function) in miopen_api::table().exports().enumerate() {
        writeln!(list, "WITNESS({number}, {})", function.name)?;
    }
    fs::write(names, list)?;
    compile(
        &["-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
            .map(AsRef::as_ref)
            .into_iter()
            .chain([source.as_ref(), "-ldl".as_ref()])
            .collect::<Vec<_>>(),
        &library,
    )?;
    Ok(library)
}
