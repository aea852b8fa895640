//! Threads by number, so that each can have its own place in what all of them use.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering},
};

static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// This thread's number, from 1.
pub(crate) fn number() -> usize {
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(COUNT.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    })
}
