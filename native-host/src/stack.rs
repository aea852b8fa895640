//! How much stack the calling thread has left. Asked on the cold path only.

use std::{mem::MaybeUninit, ptr::null_mut};

/// Bytes between here and the end of the calling thread's stack; `usize::MAX` if the system does not say.
pub fn remaining() -> usize {
    let marker = 0u8;
    let here = std::ptr::from_ref(&marker) as usize;
    lowest_address().map_or(usize::MAX, |lowest| here.saturating_sub(lowest))
}

fn lowest_address() -> Option<usize> {
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
    (result == 0).then_some(address as usize)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_small_thread_has_little_left() {
        let left = std::thread::Builder::new().stack_size(128 << 10).spawn(super::remaining).unwrap().join().unwrap();
        assert!((16 << 10..=160 << 10).contains(&left), "{left}");
    }
}
