//! The thread's last error text: kept over successes, cleared by being taken, kept by being peeked at.

use std::{cell::RefCell, ffi::c_char};

/// Bytes of the text with its NUL (`HIPDNN_ERROR_STRING_MAX_LENGTH`).
pub(crate) const CAPACITY: usize = 2048;

thread_local! {
    static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Replaces the text, cut to what the real buffer holds.
pub(crate) fn set(text: &str) {
    let end = text.floor_char_boundary(CAPACITY - 1);
    TEXT.with_borrow_mut(|stored| {
        stored.clear();
        stored.push_str(&text[..end]);
    });
}

/// Copies the text, cut and NUL-terminated, and clears it if asked to.
///
/// # Safety
/// `message` is null or writable for `size` bytes.
pub(crate) unsafe fn copy(message: *mut c_char, size: usize, clear: bool) {
    if message.is_null() || size == 0 {
        return;
    }
    TEXT.with_borrow_mut(|stored| {
        let length = stored.len().min(size - 1);
        // SAFETY: `length + 1 <= size` bytes are writable by the contract of this function.
        unsafe {
            std::ptr::copy_nonoverlapping(stored.as_ptr(), message.cast(), length);
            *message.add(length) = 0;
        }
        if clear {
            stored.clear();
        }
    });
}
