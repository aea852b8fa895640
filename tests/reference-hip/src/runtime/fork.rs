//! What a fork does to the state: the child has a working lock, all blocks and handles, and no threads; what was queued is dropped,
//! and captures of threads that it lacks are over. Nothing is done about work that is half done at the moment of the fork.

use std::cell::UnsafeCell;
use std::sync::{Arc, Condvar};

use crate::event::Last;
use crate::runtime::stream::{StreamId, this_thread};
use crate::runtime::{Runtime, State, lock_bare};

/// The state, held from before the fork until after it, by the thread that forks.
struct Held(UnsafeCell<Option<State>>);

// SAFETY: it is touched only by the thread that holds the state, or is about to give it back; parent and child have one each.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// Has the state prepared for every fork to come.
pub fn register() {
    // SAFETY: the functions live as long as the process, as the library is never unloaded.
    let failed = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    if failed != 0 {
        eprintln!("reference HIP: fork is not prepared for (error {failed}); a child must not use HIP");
    }
}

unsafe extern "C" fn before() {
    let state = lock_bare();
    // SAFETY: the state is held, so no other thread is here.
    unsafe { *HELD.0.get() = Some(state) };
}

fn take() -> Option<State> {
    // SAFETY: `before` ran in this thread and nothing gave the state back since.
    unsafe { (*HELD.0.get()).take() }
}

unsafe extern "C" fn in_parent() {
    drop(take());
}

unsafe extern "C" fn in_child() {
    let mut state = take();
    if let Some(state) = &mut state {
        state.descend();
    }
}

impl Runtime {
    fn descend(&mut self) {
        let me = this_thread();
        self.generation += 1;
        self.drop_captures_where(|_, thread| thread != me);
        self.streams.retain(|id, s| !s.destroyed && !matches!(id, StreamId::PerThread { thread, .. } if *thread != me));
        for stream in self.streams.values_mut() {
            stream.abandon();
            // The old one may remember sleepers that the child does not have.
            stream.bell = Arc::new(Condvar::new());
        }
        for event in self.events.values_mut() {
            // Neither reached nor to be reached any more: as if it had never been recorded.
            if let Last::Recorded { time: None, .. } = event.last {
                event.last = Last::Never;
            }
        }
    }
}
