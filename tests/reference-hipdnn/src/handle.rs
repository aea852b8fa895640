//! hipDNN handles: what they stand for, what was read from the environment, and whether two threads use one handle at the same time.
//!
//! The real library's per-handle plugin manager is not thread-safe. This one survives such use, but counts it, so that a test of the
//! client can tell.

use std::{
    ffi::c_void,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    engine::{self, Session},
    error::{Error, Result},
    registry::HANDLES,
    thread,
};

/// The variable for the simulated cost of a plan.
const PLAN_COST: &str = "REFERENCE_HIPDNN_PLAN_MS";

static RACES: AtomicU64 = AtomicU64::new(0);

/// How often a handle was entered while another thread was inside it.
pub(crate) fn races() -> u64 {
    RACES.load(Ordering::Relaxed)
}

/// One `hipdnnHandle_t`.
pub(crate) struct Handle {
    pub(crate) session: Box<dyn Session>,
    pub(crate) plan_cost: Duration,
    user: AtomicUsize,
}

impl Handle {
    /// Reads the environment.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { session: engine::provider().open()?, plan_cost: plan_cost()?, user: AtomicUsize::new(0) })
    }
}

fn plan_cost() -> Result<Duration> {
    let Some(text) = std::env::var(PLAN_COST).ok().filter(|text| !text.is_empty()) else { return Ok(Duration::ZERO) };
    text.parse().map(Duration::from_millis).map_err(|error| Error::bad(format!("{PLAN_COST}={text}: {error}")))
}

/// A handle while a call uses it.
pub(crate) struct InUse {
    handle: Arc<Handle>,
    owner: bool,
}

impl InUse {
    /// Looks a handle up and marks it as used by this thread, until dropped.
    pub(crate) fn enter(raw: *const c_void) -> Result<Self> {
        let handle = HANDLES.get(raw)?;
        let me = thread::number();
        let entered = handle.user.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed);
        if entered.is_err_and(|user| user != me) {
            RACES.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Self { handle, owner: entered.is_ok() })
    }
}

impl std::ops::Deref for InUse {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if self.owner {
            self.handle.user.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::spawn;

    use super::*;

    #[test]
    fn only_use_by_two_threads_at_once_counts() {
        let raw = HANDLES.insert(Arc::new(Handle::new().expect("handle")));
        let first = InUse::enter(raw).expect("live");
        drop(InUse::enter(raw).expect("live"));
        assert_eq!(races(), 0, "nested use in one thread is none");
        let address = raw.addr();
        spawn(move || drop(InUse::enter(std::ptr::without_provenance(address)))).join().expect("thread");
        assert_eq!(races(), 1);
        drop(first);
        spawn(move || drop(InUse::enter(std::ptr::without_provenance(address)))).join().expect("thread");
        assert_eq!(races(), 1, "one after the other is none");
        HANDLES.remove(raw).expect("live");
    }
}
