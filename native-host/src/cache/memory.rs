//! Answers in memory: bounded by number and by size, one build per key, different keys in parallel.
//!
//! Whoever asks for a key that another thread is finding out waits for that thread's answer, be it a failure. A build that panics leaves nothing
//! behind; those who waited find out themselves. An answer in use outlives its entry: entries hold it together with their users.

use std::{
    collections::HashMap,
    hash::BuildHasherDefault,
    sync::{Condvar, PoisonError},
};

use super::Level;
use crate::lock::{Mutex, MutexGuard};

/// The digest of a key.
pub type Digest = [u8; 32];

/// What a build came to: the answer, and how many bytes it takes to keep it; `None` if it is not worth keeping.
pub struct Built<V> {
    /// The answer.
    pub value: V,
    /// Its size in memory, about.
    pub keep: Option<usize>,
    /// Where it came from.
    pub level: Level,
}

/// The answers of one kind.
pub struct Memory<V> {
    state: Mutex<State<V>>,
    /// Somebody's build ended.
    ended: Condvar,
    max_entries: usize,
    max_bytes: usize,
}

struct State<V> {
    entries: HashMap<Digest, Entry<V>, BuildHasherDefault<FirstWord>>,
    builds: HashMap<Digest, Build<V>, BuildHasherDefault<FirstWord>>,
    bytes: usize,
    clock: u64,
}

struct Entry<V> {
    value: V,
    bytes: usize,
    last_use: u64,
}

/// A build under way, or one that ended and whose answer some still have to fetch.
struct Build<V> {
    outcome: Outcome<V>,
    waiting: usize,
}

enum Outcome<V> {
    Pending,
    Answer(V),
    Abandoned,
}

impl<V: Clone> Memory<V> {
    /// With room for so many entries, and so many bytes.
    pub fn new(max_entries: usize, max_bytes: usize) -> Self {
        let state = State { entries: HashMap::default(), builds: HashMap::default(), bytes: 0, clock: 0 };
        Self { state: Mutex::new(state), ended: Condvar::new(), max_entries, max_bytes }
    }

    /// The answer of a key: remembered, of the thread that is finding it out, or built here.
    pub fn get_or_build(&self, key: &Digest, build: impl FnOnce() -> Built<V>) -> (V, Level) {
        let mut state = self.state.lock();
        loop {
            if let Some(value) = state.touch(key) {
                return (value, Level::Memory);
            }
            if !state.builds.contains_key(key) {
                break;
            }
            match self.wait(state, key) {
                (_, Some(value)) => return (value, Level::Memory),
                (again, None) => state = again,
            }
        }
        state.builds.insert(*key, Build { outcome: Outcome::Pending, waiting: 0 });
        drop(state);
        let mut ending = Ending { memory: self, key, outcome: Some(Outcome::Abandoned), keep: None };
        let built = build();
        (ending.outcome, ending.keep) = (Some(Outcome::Answer(built.value.clone())), built.keep);
        drop(ending);
        (built.value, built.level)
    }

    /// Waits for another thread's build; its answer, if it had one.
    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State<V>>, key: &Digest) -> (MutexGuard<'a, State<V>>, Option<V>) {
        if let Some(build) = state.builds.get_mut(key) {
            build.waiting += 1;
        }
        while state.builds.get(key).is_some_and(|build| matches!(build.outcome, Outcome::Pending)) {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let Some(build) = state.builds.get_mut(key) else { return (state, None) };
        let value = if let Outcome::Answer(value) = &build.outcome { Some(value.clone()) } else { None };
        build.waiting -= 1;
        if build.waiting == 0 {
            state.builds.remove(key);
        }
        (state, value)
    }

    /// How many answers are held, and about how many bytes they take.
    pub fn size(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.entries.len(), state.bytes)
    }
}

impl<V: Clone> State<V> {
    fn touch(&mut self, key: &Digest) -> Option<V> {
        self.clock += 1;
        let entry = self.entries.get_mut(key)?;
        entry.last_use = self.clock;
        Some(entry.value.clone())
    }

    fn insert(&mut self, key: Digest, value: V, bytes: usize) {
        self.clock += 1;
        self.bytes += bytes;
        if let Some(old) = self.entries.insert(key, Entry { value, bytes, last_use: self.clock }) {
            self.bytes -= old.bytes;
        }
    }

    /// Drops the least recently used entries until what is left fits; a quarter of the room is freed at once, so that this is rare.
    fn make_room(&mut self, max_entries: usize, max_bytes: usize) {
        if self.entries.len() <= max_entries && self.bytes <= max_bytes {
            return;
        }
        let mut by_age: Vec<(u64, Digest)> = self.entries.iter().map(|(key, entry)| (entry.last_use, *key)).collect();
        by_age.sort_unstable();
        for (_, key) in by_age {
            if self.entries.len() <= max_entries - max_entries / 4 && self.bytes <= max_bytes - max_bytes / 4 {
                break;
            }
            self.bytes -= self.entries.remove(&key).map_or(0, |entry| entry.bytes);
        }
    }
}

/// The end of a build, however it comes: its answer is kept, and those who wait are told.
struct Ending<'a, V: Clone> {
    memory: &'a Memory<V>,
    key: &'a Digest,
    outcome: Option<Outcome<V>>,
    keep: Option<usize>,
}

impl<V: Clone> Drop for Ending<'_, V> {
    fn drop(&mut self) {
        let mut state = self.memory.state.lock();
        if let (Some(bytes), Some(Outcome::Answer(value))) = (self.keep, &self.outcome) {
            state.insert(*self.key, value.clone(), bytes);
            state.make_room(self.memory.max_entries, self.memory.max_bytes);
        }
        let nobody_waits = state.builds.get(self.key).is_none_or(|build| build.waiting == 0);
        if nobody_waits {
            state.builds.remove(self.key);
        } else if let (Some(build), Some(outcome)) = (state.builds.get_mut(self.key), self.outcome.take()) {
            build.outcome = outcome;
        }
        drop(state);
        self.memory.ended.notify_all();
    }
}

/// Digests are random already: their first word is a hash.
#[derive(Clone, Copy, Default)]
struct FirstWord(u64);

impl std::hash::Hasher for FirstWord {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(word) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*word);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc, Barrier,
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        thread,
    };

    use super::*;

    fn digest(n: u64) -> Digest {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&n.to_le_bytes());
        digest
    }

    fn kept<V>(value: V, bytes: usize) -> Built<V> {
        Built { value, keep: Some(bytes), level: Level::Built }
    }

    #[test]
    fn the_first_answer_stays() {
        let memory = Memory::new(8, 1000);
        assert_eq!(memory.get_or_build(&digest(1), || kept("a", 1)), ("a", Level::Built));
        assert_eq!(memory.get_or_build(&digest(1), || kept("b", 1)), ("a", Level::Memory));
        assert_eq!(memory.get_or_build(&digest(2), || Built { value: "c", keep: None, level: Level::Disk }), ("c", Level::Disk));
        assert_eq!(memory.get_or_build(&digest(2), || kept("d", 1)), ("d", Level::Built));
    }

    #[test]
    fn it_stays_bounded_and_keeps_what_is_used() {
        let memory = Memory::new(100, 10_000);
        memory.get_or_build(&digest(0), || kept(0, 10));
        for n in 1..1000 {
            memory.get_or_build(&digest(n), || kept(n, 10));
            assert_eq!(memory.get_or_build(&digest(0), || kept(0, 10)).1, Level::Memory, "{n}");
            assert!(memory.size().0 <= 100);
        }
        memory.get_or_build(&digest(5000), || kept(0, 9_990));
        assert!(memory.size().1 <= 10_000, "{:?}", memory.size());
        // Something that alone is too large is not kept, and breaks nothing.
        memory.get_or_build(&digest(5001), || kept(0, 20_000));
        assert_eq!(memory.size(), (0, 0));
    }

    #[test]
    fn an_answer_in_use_survives_its_entry() {
        let memory = Memory::new(1, 1000);
        let (held, _) = memory.get_or_build(&digest(1), || kept(Arc::new(7), 1));
        memory.get_or_build(&digest(2), || kept(Arc::new(8), 1));
        assert_eq!((*held, Arc::strong_count(&held)), (7, 1));
    }

    // V35 of the case list: one key.
    #[test]
    fn many_threads_and_one_key_are_one_build() {
        let (memory, builds, start) = (Memory::new(8, 1000), AtomicUsize::new(0), Barrier::new(16));
        let ask = || {
            start.wait();
            let build = || {
                builds.fetch_add(1, Ordering::SeqCst);
                // The others are at the barrier's other side by now, or come later and find the answer.
                thread::yield_now();
                kept(42, 1)
            };
            memory.get_or_build(&digest(1), build).0
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 42));
        });
        assert_eq!(builds.into_inner(), 1);
    }

    // V35: keys that are built at the same time. Each build waits for all the others, so they can only end if they run together.
    #[test]
    fn different_keys_are_built_in_parallel() {
        let (memory, all) = (Memory::new(100, 1000), Barrier::new(16));
        thread::scope(|scope| {
            for n in 0..16 {
                let (memory, all) = (&memory, &all);
                scope.spawn(move || memory.get_or_build(&digest(n), || (all.wait(), kept(n, 1)).1));
            }
        });
        assert_eq!(memory.size().0, 16);
    }

    // V35: the waiters of a build that is not worth keeping get its answer; those of one that panics find out themselves.
    #[test]
    fn waiters_share_a_failure_and_outlive_a_panic() {
        let memory = Arc::new(Memory::new(8, 1000));
        for panics in [false, true] {
            let (started, is_building) = mpsc::channel();
            let (finish, may_finish) = mpsc::channel::<()>();
            let own = memory.clone();
            let builder = thread::spawn(move || {
                let build = || {
                    started.send(()).unwrap();
                    may_finish.recv().unwrap();
                    assert!(!panics, "as a test");
                    Built { value: Err::<i32, _>("failed"), keep: None, level: Level::Built }
                };
                own.get_or_build(&digest(9), build).0
            });
            is_building.recv().unwrap();
            let own = memory.clone();
            let waiter = thread::spawn(move || own.get_or_build(&digest(9), || Built { value: Ok(1), keep: None, level: Level::Built }));
            while memory.state.lock().builds.get(&digest(9)).is_none_or(|build| build.waiting == 0) {
                thread::yield_now();
            }
            finish.send(()).unwrap();
            assert_eq!(builder.join().is_err(), panics);
            assert_eq!(waiter.join().unwrap(), if panics { (Ok(1), Level::Built) } else { (Err("failed"), Level::Memory) });
            assert!(memory.state.lock().builds.is_empty());
        }
    }
}
