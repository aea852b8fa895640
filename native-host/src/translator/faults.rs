//! Faults of a translator: traps, replies that make no sense, graphs that do not validate. Each is a decline; after a few the translator is
//! not asked any more by this process.

use std::sync::atomic::{AtomicU32, Ordering};

/// So many faults end it. Each has cost the program up to a translation's fuel, and native serves those calls anyway.
const LIMIT: u32 = 8;

/// How many there were.
#[derive(Debug, Default)]
pub struct Faults(AtomicU32);

impl Faults {
    /// Counts one; whether it is the one that ends it.
    pub fn note(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) + 1 == LIMIT
    }

    /// Whether there were too many.
    pub fn too_many(&self) -> bool {
        self.count() >= LIMIT
    }

    /// How many there were.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_them_is_the_last() {
        let faults = Faults::default();
        let ends = (0..2 * LIMIT).filter(|_| faults.note()).count();
        assert_eq!((ends, faults.count(), faults.too_many()), (1, 2 * LIMIT, true));
    }
}
