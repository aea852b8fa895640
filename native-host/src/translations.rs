//! Translated problems in memory: from key to validated graph or decline. Independent of handles, shared by all of them.
//!
//! Read in place, without a lock. Two threads that miss on one key both translate; that costs microseconds, waiting would cost more,
//! and the first answer stays. Bounded: the least recently used entries go.

use std::{
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use papaya::HashMap;

use crate::validate::ValidatedGraph;

/// Entries kept.
const CAPACITY: usize = 4096;

/// Why a problem goes to native: which rule, and what exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declined {
    /// Rule id.
    pub rule: String,
    /// The offending values.
    pub message: String,
}

/// What a problem was translated to.
#[derive(Clone, Debug)]
pub enum Translated {
    /// A graph that may be lowered.
    Graph(Arc<ValidatedGraph>),
    /// A decline.
    Declined(Arc<Declined>),
}

struct Entry {
    translated: Translated,
    last_use: AtomicU64,
}

/// The cache.
pub struct Translations {
    entries: HashMap<Box<[u64]>, Entry, KeyHash>,
    clock: AtomicU64,
}

impl Default for Translations {
    fn default() -> Self {
        Self { entries: HashMap::with_hasher(KeyHash), clock: AtomicU64::new(0) }
    }
}

impl Translations {
    /// The answer for a key, if it is known.
    pub fn get(&self, key: &[u64]) -> Option<Translated> {
        let entries = self.entries.pin();
        let entry = entries.get(key)?;
        entry.last_use.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(entry.translated.clone())
    }

    /// Remembers an answer, and answers the one to use: an earlier one wins.
    pub fn insert(&self, key: &[u64], translated: Translated) -> Translated {
        self.make_room();
        let entries = self.entries.pin();
        let last_use = AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed));
        entries.get_or_insert(key.into(), Entry { translated, last_use }).translated.clone()
    }

    /// Drops the older half once the cache is full.
    fn make_room(&self) {
        let entries = self.entries.pin();
        if entries.len() < CAPACITY {
            return;
        }
        let mut uses: Vec<u64> = entries.iter().map(|(_, e)| e.last_use.load(Ordering::Relaxed)).collect();
        uses.sort_unstable();
        let median = uses.get(uses.len() / 2).copied().unwrap_or(u64::MAX);
        entries.retain(|_, e| e.last_use.load(Ordering::Relaxed) >= median);
    }

    /// How many answers are held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Hashes keys with XXH3: an order of magnitude faster than the standard hasher on keys of this size. Keys come from the process itself,
/// so no attacker chooses them.
#[derive(Clone, Copy, Default)]
struct KeyHash;

impl BuildHasher for KeyHash {
    type Hasher = xxhash_rust::xxh3::Xxh3Default;

    fn build_hasher(&self) -> Self::Hasher {
        xxhash_rust::xxh3::Xxh3Default::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declined(rule: &str) -> Translated {
        Translated::Declined(Arc::new(Declined { rule: rule.into(), message: String::new() }))
    }

    #[test]
    fn the_first_answer_stays() {
        let cache = Translations::default();
        assert!(cache.get(&[1]).is_none());
        cache.insert(&[1], declined("a"));
        let Translated::Declined(kept) = cache.insert(&[1], declined("b")) else { panic!("a graph?") };
        assert_eq!(kept.rule, "a");
    }

    #[test]
    fn it_stays_bounded_and_keeps_what_is_used() {
        let cache = Translations::default();
        cache.insert(&[0], declined("used"));
        for key in 1..3 * CAPACITY as u64 {
            cache.insert(&[key], declined("x"));
            cache.get(&[0]);
        }
        assert!(cache.len() <= CAPACITY);
        assert!(cache.get(&[0]).is_some());
    }
}
