//! The state behind one MIOpen handle: its hipDNN handle, its plans, its workspaces, its counters.
//!
//! hipDNN handles are not thread-safe, so all of it stands behind one lock per MIOpen handle; handles share nothing on the warm path.
//! Plans are found by a last-key memo, then by a table; both belong to the handle rather than to a thread, because frameworks use one
//! handle per thread, and no destructor has to run in the caller's threads.

use std::{
    ffi::c_void,
    ptr::null_mut,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering},
    },
    time::Instant,
};

use hashbrown::HashTable;

use crate::{
    backend::Handle,
    census::{Census, Counters, Ending, Place, Tally},
    forward::Surroundings,
    hip::{Hip, Timer},
    lock::{Mutex, MutexGuard},
    plan::Plan,
    problem::Problem,
    translations::Declined,
};

/// Plans (and declines) kept for one handle.
const CAPACITY: usize = 1024;
/// Streams that have a workspace of their own.
const MAX_WORKSPACES: usize = 16;
const UNKNOWN_DEVICE: i32 = -1;

/// What is known about a problem on this handle.
pub enum Known {
    /// A plan.
    Plan(Box<ReadyPlan>),
    /// It goes to native.
    Declined(Arc<Declined>),
}

/// A plan and whether it ever ran.
pub struct ReadyPlan {
    /// The plan.
    pub plan: Plan,
    /// It has been executed: what engines do once is done.
    pub executed: bool,
    /// Notes of the translator.
    pub notes: Arc<[String]>,
}

struct Entry {
    hash: u64,
    words: Box<[u64]>,
    alignment: usize,
    last_use: u64,
    known: Known,
    /// Where its calls are counted, of the entry point that came last.
    place: Option<(&'static str, Place)>,
}

/// The rule by which a call went to native. What the translator said is shared, not copied: the warm path allocates nothing.
#[derive(Clone)]
pub enum RuleName {
    /// One of the host's.
    Host(&'static str),
    /// The one that a decline names.
    Declined(Arc<Declined>),
}

impl RuleName {
    /// Its id.
    pub fn id(&self) -> &str {
        match self {
            Self::Host(id) => id,
            Self::Declined(declined) => &declined.rule,
        }
    }
}

/// A call that native executes now, and whose time is measured.
pub struct WithNative {
    /// Where it is counted.
    pub place: Place,
    /// The rule that sent it there.
    pub rule: RuleName,
    /// Whether the caller wanted that.
    pub by_policy: bool,
    /// Since when.
    pub since: Instant,
}

/// Device memory that one stream has for itself.
struct Workspace {
    stream: *mut c_void,
    address: *mut c_void,
    bytes: usize,
}

/// Everything behind the handle's lock.
#[derive(Default)]
pub struct Bound {
    entries: Vec<Entry>,
    table: HashTable<usize>,
    memo: usize,
    clock: u64,
    current_stream: Option<*mut c_void>,
    workspaces: Vec<Workspace>,
    timer: Option<Timer>,
    /// Whether the timer holds the handle's last call.
    timed: bool,
    tally: Tally,
    with_native: Option<WithNative>,
    // Last: plans refer to the handle, so they go first.
    hipdnn: Option<(Handle, Surroundings)>,
}

// SAFETY: streams and device memory are only compared and passed on; the rest is Send.
unsafe impl Send for Bound {}

/// One MIOpen handle, from its creation to its destruction.
pub struct HandleState {
    stream: AtomicPtr<c_void>,
    device: AtomicI32,
    profiling: AtomicBool,
    bound: Mutex<Bound>,
}

impl HandleState {
    /// A handle on a stream (null is the default stream) and, if known, a device. Its counters tell so many problems apart.
    pub fn new(stream: *mut c_void, device: Option<i32>, problems: usize) -> Self {
        let device = AtomicI32::new(device.unwrap_or(UNKNOWN_DEVICE));
        let bound = Mutex::new(Bound { tally: Tally::new(problems), ..Bound::default() });
        Self { stream: AtomicPtr::new(stream), device, profiling: AtomicBool::new(false), bound }
    }

    /// The caller moved the handle to another stream.
    pub fn set_stream(&self, stream: *mut c_void) {
        self.stream.store(stream, Ordering::Release);
    }

    /// The caller wants to know how long calls take on the device, or does not any more.
    pub fn set_profiling(&self, enabled: bool) {
        self.profiling.store(enabled, Ordering::Relaxed);
    }

    /// Whether calls are timed.
    pub fn profiling(&self) -> bool {
        self.profiling.load(Ordering::Relaxed)
    }

    /// Device time of the handle's last call in milliseconds, if hipDNN served it while profiling; waits for it. Else the time is native's.
    pub fn kernel_time(&self) -> Option<f32> {
        self.lock().timed_milliseconds()
    }

    /// A call of this handle went to native: its time is native's.
    pub fn forget_time(&self) {
        self.lock().timed = false;
    }

    /// The stream that calls go to. Read once per call, so that a call never sees two.
    pub fn stream(&self) -> *mut c_void {
        self.stream.load(Ordering::Acquire)
    }

    /// The device that the handle was created on.
    pub fn device(&self) -> Option<i32> {
        Some(self.device.load(Ordering::Relaxed)).filter(|&d| d != UNKNOWN_DEVICE)
    }

    /// The handle's lock.
    pub fn lock(&self) -> MutexGuard<'_, Bound> {
        self.bound.lock()
    }

    /// Adds the handle's counts to the census.
    pub fn count_into(&self, census: &mut Census) {
        self.lock().count_into(census);
    }

    /// The same, unless the handle is in use: for the end of the process, where nobody may be waited for.
    pub fn try_count_into(&self, census: &mut Census) {
        if let Some(bound) = self.bound.try_lock() {
            bound.count_into(census);
        }
    }
}

impl Bound {
    /// What is known about a key. Compares with the last key first.
    pub fn find(&mut self, words: &[u64], hash: impl FnOnce() -> u64, alignment: usize) -> Option<usize> {
        let same = |e: &Entry| e.alignment == alignment && *e.words == *words;
        if !self.entries.get(self.memo).is_some_and(same) {
            self.memo = *self.table.find(hash(), |&index| same(&self.entries[index]))?;
        }
        self.clock += 1;
        self.entries[self.memo].last_use = self.clock;
        Some(self.memo)
    }

    /// The entry at an index that [`Bound::find`] or [`Bound::insert`] answered.
    pub fn known(&mut self, index: usize) -> &mut Known {
        &mut self.entries[index].known
    }

    /// Remembers what a key is known for, in place of the least recently used entry once there are too many.
    pub fn insert(&mut self, words: &[u64], hash: u64, alignment: usize, known: Known) -> usize {
        self.clock += 1;
        let entry = Entry { hash, words: words.into(), alignment, last_use: self.clock, known, place: None };
        let index = if self.entries.len() < CAPACITY {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let oldest = self.oldest();
            if let Ok(found) = self.table.find_entry(self.entries[oldest].hash, |&i| i == oldest) {
                found.remove();
            }
            self.entries[oldest] = entry;
            oldest
        };
        let entries = &self.entries;
        self.table.insert_unique(hash, index, |&i| entries[i].hash);
        self.memo = index;
        index
    }

    fn oldest(&self) -> usize {
        self.entries.iter().enumerate().min_by_key(|(_, e)| e.last_use).map_or(0, |(index, _)| index)
    }

    /// The hipDNN handle, if it was made already, and what its plans depend on.
    pub fn hipdnn(&self) -> Option<(&Handle, &Surroundings)> {
        self.hipdnn.as_ref().map(|(handle, surroundings)| (handle, surroundings))
    }

    /// Keeps the hipDNN handle.
    pub fn set_hipdnn(&mut self, handle: Handle, surroundings: Surroundings) {
        self.hipdnn = Some((handle, surroundings));
        self.current_stream = None;
    }

    /// Handle and entry at once, for execution.
    pub fn parts(&mut self, index: usize) -> Option<(&Handle, &mut ReadyPlan, &mut Option<*mut c_void>)> {
        match (&self.hipdnn, self.entries.get_mut(index).map(|e| &mut e.known)) {
            (Some((handle, _)), Some(Known::Plan(plan))) => Some((handle, plan, &mut self.current_stream)),
            _ => None,
        }
    }

    /// The workspace that this stream already has, if it is large enough.
    pub fn workspace(&self, stream: *mut c_void, bytes: usize) -> Option<*mut c_void> {
        let own = self.workspaces.iter().find(|own| own.stream == stream)?;
        (own.bytes >= bytes).then_some(own.address)
    }

    /// A workspace for this stream of at least so many bytes: grow-only, one per stream, so that two streams never share scratch.
    pub fn grow_workspace(&mut self, hip: &Hip, stream: *mut c_void, bytes: usize) -> Result<*mut c_void, i32> {
        let known = self.workspaces.iter().position(|own| own.stream == stream);
        if known.is_none() && self.workspaces.len() >= MAX_WORKSPACES {
            self.free_workspaces(hip);
        }
        let address = hip.allocate(bytes)?;
        let grown = Workspace { stream, address, bytes };
        match known {
            // hipFree waits for the device, so nothing in flight still uses it.
            Some(index) => hip.free(std::mem::replace(&mut self.workspaces[index], grown).address),
            None => self.workspaces.push(grown),
        }
        Ok(address)
    }

    /// Device time of the last call, if the timer holds it; waits for it.
    pub fn timed_milliseconds(&self) -> Option<f32> {
        self.timer.as_ref().filter(|_| self.timed).and_then(|timer| timer.milliseconds().ok())
    }

    /// Says whether the timer holds the last call.
    pub fn set_timed(&mut self, timed: bool) {
        self.timed = timed;
    }

    /// The handle's events, made when they are first needed. None if HIP has none to give: then the call is not timed.
    pub(crate) fn timer(&mut self, hip: &Hip) -> Option<&Timer> {
        if self.timer.is_none() {
            self.timer = hip.timer().ok();
        }
        self.timer.as_ref()
    }

    /// Gives all workspaces back.
    pub fn free_workspaces(&mut self, hip: &Hip) {
        self.workspaces.drain(..).for_each(|own| hip.free(own.address));
    }

    /// Drops plans, workspaces and the hipDNN handle, in the order in which they depend on each other.
    pub fn release(&mut self, hip: Option<&Hip>) {
        self.entries.clear();
        self.table.clear();
        if let Some(hip) = hip {
            self.free_workspaces(hip);
        }
        self.current_stream = None;
        (self.timer, self.timed) = (None, false);
        self.hipdnn = None;
    }

    fn count_into(&self, census: &mut Census) {
        census.add(&self.tally);
    }

    /// Forgets the counters; they were added to the census.
    pub fn clear_counters(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.place = None);
        self.with_native = None;
        self.tally.clear();
    }

    /// Where calls of an entry point with the problem of an entry are counted. Looked up only if the entry's last call was of another.
    pub fn place(&mut self, index: usize, call: &'static str, problem: &Problem<'_>) -> Place {
        match self.entries[index].place {
            Some((known, place)) if std::ptr::eq(known, call) => place,
            _ => {
                let place = self.tally.place(call, problem);
                self.entries[index].place = Some((call, place));
                place
            }
        }
    }

    /// Where calls of an entry point with a problem are counted.
    pub fn place_of(&mut self, call: &'static str, problem: &Problem<'_>) -> Place {
        self.tally.place(call, problem)
    }

    /// The counters at a place.
    pub fn counters(&mut self, place: Place) -> &mut Counters {
        self.tally.at(place)
    }

    /// Native executes a call from now on; or none that is measured.
    pub fn set_with_native(&mut self, call: Option<WithNative>) {
        self.with_native = call;
    }

    /// Whether native executes a call that is measured.
    pub fn is_with_native(&self) -> bool {
        self.with_native.is_some()
    }

    /// Native is done with the call that is measured, if there is one.
    pub fn native_is_done(&mut self) {
        if let Some(WithNative { place, rule, by_policy, since }) = self.with_native.take() {
            let ending = if by_policy { Ending::Native(rule.id()) } else { Ending::Declined(rule.id()) };
            self.tally.at(place).native_took(ending, since.elapsed());
        }
    }
}

/// No memory at all; what a call without workspace passes.
pub const NO_WORKSPACE: *mut c_void = null_mut();

#[cfg(test)]
mod tests {
    use super::*;

    fn declined(rule: &str) -> Known {
        Known::Declined(Arc::new(Declined { rule: rule.into(), message: String::new() }))
    }

    fn rule(bound: &mut Bound, words: &[u64]) -> Option<String> {
        let index = bound.find(words, || crate::key::hash(words), 16)?;
        match bound.known(index) {
            Known::Declined(d) => Some(d.rule.clone()),
            Known::Plan(_) => None,
        }
    }

    #[test]
    fn keys_and_alignments_are_told_apart() {
        let mut bound = Bound::default();
        bound.insert(&[1, 2], crate::key::hash(&[1, 2]), 16, declined("a"));
        bound.insert(&[1, 3], crate::key::hash(&[1, 3]), 16, declined("b"));
        assert_eq!(rule(&mut bound, &[1, 2]).as_deref(), Some("a"));
        assert_eq!(rule(&mut bound, &[1, 3]).as_deref(), Some("b"));
        assert_eq!(rule(&mut bound, &[1]), None);
        assert!(bound.find(&[1, 2], || crate::key::hash(&[1, 2]), 8).is_none());
    }

    #[test]
    fn it_stays_bounded_and_keeps_what_is_used() {
        let mut bound = Bound::default();
        bound.insert(&[0], crate::key::hash(&[0]), 16, declined("used"));
        for key in 1..3 * CAPACITY as u64 {
            bound.insert(&[key], crate::key::hash(&[key]), 16, declined("x"));
            assert!(rule(&mut bound, &[0]).is_some(), "{key}");
        }
        assert_eq!(bound.entries.len(), CAPACITY);
        assert_eq!(bound.table.len(), CAPACITY);
    }
}
