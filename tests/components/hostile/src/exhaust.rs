//! Using up what an instance has: time, stack, memory, patience.

use std::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::Answer;

/// Never comes back.
pub fn time() -> Answer {
    static TURNS: AtomicU64 = AtomicU64::new(0);
    loop {
        TURNS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Calls itself until there is no stack.
pub fn stack() -> Answer {
    fn deeper(depth: u64) -> u64 {
        let frame = [depth; 4];
        if black_box(false) {
            return 0;
        }
        1 + deeper(black_box(frame)[3] + 1) + black_box(frame)[0]
    }
    black_box(deeper(0));
    trap()
}

/// Takes memory until there is none.
pub fn memory() -> Answer {
    let mut taken = Vec::new();
    loop {
        taken.push(black_box(vec![1u8; 1 << 20]));
    }
}

/// Traps.
pub fn trap() -> ! {
    core::arch::wasm32::unreachable()
}
