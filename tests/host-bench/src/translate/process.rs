//! What a process can see of itself: memory, threads, signals.

use std::fs;

use anyhow::{Context as _, Result};

/// A look at this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Resident, in KiB.
    pub resident: u64,
    /// Address space, in KiB.
    pub address_space: u64,
    /// Threads.
    pub threads: u64,
    /// How many signals have a handler, as a bit mask.
    pub caught: u64,
    /// Signals blocked in this thread, as a bit mask.
    pub blocked: u64,
    /// The alternate signal stack of this thread: address and size.
    pub alternate_stack: (usize, usize),
}

impl Look {
    /// Looks now.
    pub fn now() -> Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).context(format!("no {name}"));
        let number = |name: &str| -> Result<u64> { Ok(field(name)?.trim_end_matches(" kB").parse()?) };
        let mask = |name: &str| -> Result<u64> { Ok(u64::from_str_radix(field(name)?, 16)?) };
        Ok(Self {
            resident: number("VmRSS:")?,
            address_space: number("VmSize:")?,
            threads: number("Threads:")?,
            caught: mask("SigCgt:")?,
            blocked: mask("SigBlk:")?,
            alternate_stack: alternate_stack(),
        })
    }

    /// How many of the signal settings of this thread and process differ: handlers, mask, alternate stack.
    pub fn changed_signals(&self, before: &Self) -> u32 {
        (self.caught ^ before.caught).count_ones()
            + (self.blocked ^ before.blocked).count_ones()
            + u32::from(self.alternate_stack != before.alternate_stack)
    }
}

fn alternate_stack() -> (usize, usize) {
    // SAFETY: plain data, for which zero is a value.
    let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: only asks; `stack` is writable.
    unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) };
    (stack.ss_sp as usize, stack.ss_size)
}
