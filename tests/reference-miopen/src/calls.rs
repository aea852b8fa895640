//! What tests can observe from outside: how often each function was called, and with which bits.
//!
//! `uint64_t reference_miopen_calls(const char *name)` gives the calls of a function (plain MIOpen name) since load; 0 for an
//! unknown name. If the environment variable `REFERENCE_MIOPEN_LOG` is set at the first call, the file it names gets one line
//! per call: the plain name, then `parameter=0x…` for every argument: its bits, zero-extended (pointers are addresses).

use core::ffi::{CStr, c_char};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::exports::{NAMES, PARAMETERS};

static COUNTS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];

/// Counts and, if asked for, logs one call.
pub fn enter(index: usize, arguments: &[u64]) {
    COUNTS[index].fetch_add(1, Ordering::Relaxed);
    if let Some(file) = log() {
        let line = line(index, arguments);
        // One write of a line to a file opened for appending: lines of several threads stay whole. A full disk is no
        // reason to disturb the program under test.
        let _ = (&*file).write_all(line.as_bytes());
    }
}

fn log() -> Option<&'static File> {
    static LOG: OnceLock<Option<File>> = OnceLock::new();
    LOG.get_or_init(|| {
        let path = std::env::var_os("REFERENCE_MIOPEN_LOG")?;
        let opened = File::options().append(true).create(true).open(&path);
        opened.inspect_err(|e| eprintln!("reference MIOpen: cannot log to {}: {e}", path.display())).ok()
    })
    .as_ref()
}

/// The log line of a call.
pub fn line(index: usize, arguments: &[u64]) -> String {
    let mut line = NAMES[index].to_owned();
    for (name, value) in PARAMETERS[index].iter().zip(arguments) {
        // Writing to a string cannot fail.
        let _ = write!(line, " {name}={value:#x}");
    }
    line + "\n"
}

/// How often a function was called.
#[unsafe(no_mangle)]
unsafe extern "C" fn reference_miopen_calls(name: *const c_char) -> u64 {
    if name.is_null() {
        return 0;
    }
    // SAFETY: not null, so by contract a C string.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    NAMES.iter().position(|n| n.as_bytes() == name).map_or(0, |i| COUNTS[i].load(Ordering::Relaxed))
}
