//! How much stack the calling thread has left, and a larger one for a moment. Both on the cold path only.

use std::{io, mem::MaybeUninit, ops::Range, ptr::null_mut, thread};

/// Bytes between here and the end of the calling thread's stack; `usize::MAX` if the system does not say, 0 on a stack that is not the
/// thread's (of a coroutine, for signals), whose end nobody knows.
pub fn remaining() -> usize {
    let marker = 0u8;
    let here = std::ptr::from_ref(&marker) as usize;
    addresses().map_or(usize::MAX, |stack| if stack.contains(&here) { here - stack.start } else { 0 })
}

/// Whether this is the process's first thread, whose stack grows.
pub fn is_growing() -> bool {
    // SAFETY: both only ask.
    unsafe { libc::gettid() == libc::getpid() }
}

/// Runs something on a thread of its own, with a stack of so many bytes, and waits for it. No signal is handled on that thread.
pub fn on_another<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let blocked = BlockedSignals::all();
    thread::scope(|scope| {
        let worker = thread::Builder::new().stack_size(bytes).spawn_scoped(scope, work);
        // The worker has them blocked from its first instruction on; this thread only waits, and may handle them.
        drop(blocked);
        worker?.join().map_err(|_| io::Error::other("it panicked"))
    })
}

/// All signals are blocked in this thread until dropped.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn all() -> Self {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::<libc::sigset_t>::uninit());
        // SAFETY: both sets are written before they are read: the mask of the calling thread is valid with any set.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the mask that the thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, null_mut()) };
    }
}

fn addresses() -> Option<Range<usize>> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the thread is the calling one; the attributes are written on success.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    let (mut address, mut size) = (null_mut(), 0usize);
    // SAFETY: initialised by the call above; both results are writable; destroyed once.
    let result = unsafe {
        let result = libc::pthread_attr_getstack(attributes.as_ptr(), &mut address, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        result
    };
    (result == 0).then(|| address as usize..address as usize + size)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_small_thread_has_little_left() {
        let left = std::thread::Builder::new().stack_size(128 << 10).spawn(super::remaining).unwrap().join().unwrap();
        assert!((16 << 10..=160 << 10).contains(&left), "{left}");
    }

    #[test]
    fn another_thread_has_what_was_asked_for() {
        let left = super::on_another(3 << 20, super::remaining).unwrap();
        assert!((2 << 20..=3 << 20).contains(&left), "{left}");
        assert!(super::on_another(3 << 20, || panic!("as a test")).is_err());
    }
}
