//! The README's tables are the code's. `UPDATE_README=1` rewrites them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{fmt::Write as _, fs, path::Path};

use hipdnn_host::environment::VARIABLES;

fn environment_table() -> String {
    let mut table = String::from("\n| variable | effect |\n| --- | --- |\n");
    for variable in VARIABLES {
        writeln!(table, "| `{}` | {} |", variable.name, variable.effect).unwrap();
    }
    table.push('\n');
    table
}

#[test]
fn the_environment_table_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once("checked by a test -->").unwrap();
    let (table, after) = rest.split_once("<!-- /environment -->").unwrap();
    if std::env::var_os("UPDATE_README").is_some() {
        fs::write(&path, format!("{before}checked by a test -->{}<!-- /environment -->{after}", environment_table())).unwrap();
        return;
    }
    assert_eq!(table, environment_table(), "run this test with UPDATE_README=1");
}
