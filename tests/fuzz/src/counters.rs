//! How many inputs there were, and how many got past the first check: a target whose inputs all end there tests nothing.
//!
//! For the rules that is: no rule objects; for the validator: past the sizes; for the cache: a record is read; for the calls: native
//! executes a convolution (an input may have several).
//!
//! Written to the file that `FUZZ_COUNTERS` names, now and then and whenever a power of two is reached.

use std::{
    env, fs,
    path::PathBuf,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

static FILE: LazyLock<Option<PathBuf>> = LazyLock::new(|| env::var_os("FUZZ_COUNTERS").map(PathBuf::from));

/// The counters of a target.
pub struct Counters {
    inputs: AtomicU64,
    past: AtomicU64,
}

impl Counters {
    /// None yet.
    pub const fn new() -> Self {
        Self { inputs: AtomicU64::new(0), past: AtomicU64::new(0) }
    }

    /// Counts an input.
    pub fn input(&self) {
        let inputs = self.inputs.fetch_add(1, Ordering::Relaxed) + 1;
        if inputs.is_power_of_two() || inputs.is_multiple_of(1 << 12) {
            self.write();
        }
    }

    /// The input got past the first check.
    pub fn past(&self) {
        self.past.fetch_add(1, Ordering::Relaxed);
    }

    fn write(&self) {
        let Some(file) = &*FILE else { return };
        let (inputs, past) = (self.inputs.load(Ordering::Relaxed), self.past.load(Ordering::Relaxed));
        // Only for people: whoever cannot write it fuzzes all the same.
        let _ = fs::write(file, format!("{{\"inputs\":{inputs},\"past_the_first_check\":{past}}}\n"));
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}
