//! Keeps the calling thread's alternate signal stack as it is.
//!
//! wasmtime gives every thread that enters WebAssembly for the first time a large alternate stack of its own, for signal handlers that are
//! switched off here. It leaves threads alone that have a large one already, so the first time a thread comes here it is lent one.

use std::{cell::Cell, ptr::null_mut};

/// More than wasmtime asks for (64 pages).
const SIZE: usize = 512 << 10;

thread_local! {
    static ENTERED: Cell<bool> = const { Cell::new(false) };
}

/// Runs something that may enter WebAssembly. Answers nothing, and runs nothing, if the thread's signal stack cannot be kept as it is:
/// without memory, or inside a signal handler that runs on it.
pub fn preserved<T>(call: impl FnOnce() -> T) -> Option<T> {
    if ENTERED.get() {
        return Some(call());
    }
    let lent = Lent::install()?;
    let answer = call();
    drop(lent);
    ENTERED.set(true);
    Some(answer)
}

/// An alternate stack in place of the thread's own, until dropped.
struct Lent {
    memory: *mut libc::c_void,
    own: libc::stack_t,
}

impl Lent {
    fn install() -> Option<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: asks for new memory, at no particular place.
        let memory = unsafe { libc::mmap(null_mut(), SIZE, protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return None;
        }
        let lent = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: SIZE };
        let mut own = libc::stack_t { ss_sp: null_mut(), ss_flags: 0, ss_size: 0 };
        // SAFETY: the memory is valid until after the own stack is back in place; `own` is writable.
        if unsafe { libc::sigaltstack(&lent, &mut own) } != 0 {
            // SAFETY: mapped above, used by nobody.
            unsafe { libc::munmap(memory, SIZE) };
            return None;
        }
        Some(Self { memory, own })
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: what the thread had before, which is its own business to keep valid; only then is the lent memory given back. Should it
        // be refused (no known way), the memory stays, because it is still in use.
        unsafe {
            if libc::sigaltstack(&self.own, null_mut()) == 0 {
                libc::munmap(self.memory, SIZE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current() -> (usize, usize, i32) {
        let mut stack = libc::stack_t { ss_sp: null_mut(), ss_flags: 0, ss_size: 0 };
        // SAFETY: only asks; `stack` is writable.
        assert_eq!(unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) }, 0);
        (stack.ss_sp as usize, stack.ss_size, stack.ss_flags)
    }

    #[test]
    fn a_large_stack_is_there_once_and_then_the_old_one_again() {
        let before = current();
        assert!(preserved(|| current().1).unwrap() >= 64 * 4096);
        assert_eq!(current(), before);
        assert_eq!(preserved(current).unwrap(), before, "the second time nothing is lent");
    }
}
