//! The call log: one line for every call that reached this library, so that tests can prove that it was entered, or was not.

use std::{fs::File, io::Write as _, sync::LazyLock};

use hipdnn_abi::status;

/// The variable that names the file.
const VARIABLE: &str = "REFERENCE_HIPDNN_LOG";

static FILE: LazyLock<Option<File>> = LazyLock::new(|| {
    let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty())?;
    let opened = File::options().create(true).append(true).open(&path);
    opened.inspect_err(|error| eprintln!("reference hipDNN: {VARIABLE}: {}: {error}", path.display())).ok()
});

/// Whether calls are logged.
pub(crate) fn is_on() -> bool {
    FILE.is_some()
}

/// Appends `function(KIND) = status NAME`; one write, so that lines of several threads and processes stay whole.
pub(crate) fn write(function: &str, kind: Option<&str>, code: i32) {
    let Some(mut file) = FILE.as_ref() else { return };
    let name = hipdnn_abi::name_in(status::ALL, code).unwrap_or("unknown status");
    let line = format!("{function}({}) = {code} {name}\n", kind.unwrap_or_default());
    if let Err(error) = file.write_all(line.as_bytes()) {
        eprintln!("reference hipDNN: {VARIABLE}: {error}");
    }
}
