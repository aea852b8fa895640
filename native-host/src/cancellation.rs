//! Keeps `pthread_cancel` out of our code. A thread that is cancelled is unwound from wherever it waits or writes; Rust's frames cannot be
//! unwound so, and a lock that is held there would be held for ever. The cancellation happens after our work, in the program's own code.

use std::{ffi::c_int, ptr::null_mut};

/// `PTHREAD_CANCEL_DISABLE` of glibc and musl.
const DISABLE: c_int = 1;

unsafe extern "C-unwind" {
    /// A store into the thread's own block, no system call.
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// Cancellation is off in this thread until this is dropped; then it is as it was.
pub struct Disabled {
    before: c_int,
}

/// Turns cancellation off.
pub fn disabled() -> Disabled {
    let mut before = 0;
    // SAFETY: the state is a valid one, `before` is writable.
    unsafe { pthread_setcancelstate(DISABLE, &mut before) };
    Disabled { before }
}

impl Drop for Disabled {
    fn drop(&mut self) {
        // SAFETY: the state that was there before; glibc takes null for a result that nobody wants.
        unsafe { pthread_setcancelstate(self.before, null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> c_int {
        disabled().before
    }

    #[test]
    fn it_is_off_until_dropped_and_nests() {
        let before = state();
        assert_ne!(before, DISABLE);
        let outer = disabled();
        drop(disabled());
        assert_eq!(state(), DISABLE);
        drop(outer);
        assert_eq!(state(), before);
    }
}
