//! The gate around cold work: whatever may hold a lock that is not ours to reset (wasmtime's, the loader's, hipDNN's) happens inside it.
//!
//! A fork waits until nobody is inside, so that the child finds none of these locks held by a thread that it does not have. The warm path
//! never comes here. Nobody waits for ever: work that takes long, or that waits for the thread that forks in a way we cannot know, must not
//! hang the program; the child of a fork that gave up leaves hipDNN alone. A thread that forks while it is inside waits for the others only.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use crate::cancellation;

/// How long a fork waits for cold work of other threads, and these for a fork.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long somebody who waits sleeps before looking again. Only ever at a fork.
const PAUSE: Duration = Duration::from_micros(100);

/// Threads inside, and, in units of [`FORK`], forks under way. One number, so that nobody is ever counted inside while a fork that waited for
/// them goes on.
static STATE: AtomicUsize = AtomicUsize::new(0);
/// A fork under way; nobody enters meanwhile.
const FORK: usize = 1 << 32;
/// In a child: other threads were inside when it was made.
static DISTURBED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// How often this thread is inside.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// This thread is forking, and has waited. (It may be asked to several times: whoever loads libraries prepares for forks again.)
    static HAS_WAITED: Cell<bool> = const { Cell::new(false) };
}

/// A thread inside the gate, until dropped.
pub struct Inside(());

/// Enters; waits for a fork that is under way.
pub fn enter() -> Inside {
    let depth = DEPTH.get();
    // Before anything is counted: a signal handler that forks in between must not wait for its own thread.
    DEPTH.set(depth + 1);
    if depth == 0 && !enter_unless_forking() {
        wait_while(is_forking);
        STATE.fetch_add(1, Ordering::SeqCst);
    }
    Inside(())
}

fn enter_unless_forking() -> bool {
    STATE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |state| (state < FORK).then_some(state + 1)).is_ok()
}

fn is_forking() -> bool {
    STATE.load(Ordering::SeqCst) >= FORK
}

fn wait_while(condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while condition() && begin.elapsed() < PATIENCE {
        std::thread::sleep(PAUSE);
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        if depth == 0 {
            STATE.fetch_sub(1, Ordering::SeqCst);
            // What comes next is the first use of what was made here: not in the middle of the fork that waited for it.
            wait_while(is_forking);
        }
        DEPTH.set(depth);
    }
}

/// Before a fork: waits until no other thread is inside, as long as that is reasonable.
pub fn before_fork() {
    // Sleeping is where a thread that is to be cancelled would end, and `fork` is not.
    let _until_the_end = cancellation::disabled();
    STATE.fetch_add(FORK, Ordering::SeqCst);
    if !HAS_WAITED.replace(true) {
        wait_while(|| others() != 0);
    }
}

/// After a fork, in the parent.
pub fn after_fork_in_parent() {
    HAS_WAITED.set(false);
    STATE.fetch_sub(FORK, Ordering::SeqCst);
}

/// After a fork, in the child, whose only thread is this one.
pub fn after_fork_in_child() {
    HAS_WAITED.set(false);
    if others() != 0 {
        DISTURBED.store(true, Ordering::SeqCst);
    }
    STATE.store(own(), Ordering::SeqCst);
}

/// Whether this process was forked in the middle of another thread's cold work: then nobody knows which locks are held for ever.
pub fn is_disturbed() -> bool {
    DISTURBED.load(Ordering::Relaxed)
}

fn own() -> usize {
    usize::from(DEPTH.get() != 0)
}

fn others() -> usize {
    (STATE.load(Ordering::SeqCst) % FORK).saturating_sub(own())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    // One test, because the gate is the process's.
    #[test]
    fn a_fork_waits_for_others_and_not_for_itself() {
        let own = enter();
        before_fork();
        after_fork_in_parent();
        drop(own);
        let (entered, wait) = mpsc::channel();
        let (leave, told) = mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            let (outer, inner) = (enter(), enter());
            drop(inner);
            entered.send(()).unwrap();
            told.recv().unwrap();
            drop(outer);
        });
        wait.recv().unwrap();
        assert_eq!(others(), 1);
        leave.send(()).unwrap();
        before_fork();
        assert_eq!(others(), 0);
        let late = std::thread::spawn(|| drop(enter()));
        // Whoever comes now never counts as inside: a child would be taken for disturbed.
        for _ in 0..1000 {
            assert_eq!(others(), 0);
            std::thread::yield_now();
        }
        after_fork_in_parent();
        late.join().unwrap();
        other.join().unwrap();
        assert_eq!(STATE.load(Ordering::SeqCst), 0);
    }
}
