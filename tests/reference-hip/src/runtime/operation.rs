//! What a stream can do and a graph can hold, and the doing. Whether it may be done is decided elsewhere.

use core::ffi::c_void;

/// One side of a copy.
#[derive(Clone, Copy)]
pub struct Side {
    pub address: usize,
    /// From row to row.
    pub pitch: usize,
    /// Whether this was the program's own host memory, not an allocation of ours, when the copy was submitted.
    pub host: bool,
}

/// The work.
#[derive(Clone, Copy)]
pub enum Operation {
    Copy { to: Side, from: Side, width: usize, rows: usize },
    Fill { to: usize, value: u8, bytes: usize },
    Host { function: unsafe extern "C" fn(*mut c_void), data: usize },
}

impl Operation {
    /// Does it now.
    ///
    /// # Safety
    /// Its memory is valid: in live allocations, or host memory the program vouches for.
    pub unsafe fn perform(self) {
        match self {
            Operation::Copy { to, from, width, rows } => {
                for row in 0..rows {
                    let (to, from) = (to.address + row * to.pitch, from.address + row * from.pitch);
                    // SAFETY: by contract; source and destination may overlap, as they may be one buffer.
                    unsafe { core::ptr::copy(from as *const u8, to as *mut u8, width) }
                }
            }
            // SAFETY: by contract.
            Operation::Fill { to, value, bytes } => unsafe { core::ptr::write_bytes(to as *mut u8, value, bytes) },
            // SAFETY: the program gave function and data for this call.
            Operation::Host { function, data } => unsafe { function(data as *mut c_void) },
        }
    }
}
