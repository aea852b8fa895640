//! The state of the whole library behind one lock: how it is reached, and how a thread waits for work.
//!
//! The rules that cut across all kinds of objects are in the modules below; exported functions are elsewhere. The lock is held
//! for bookkeeping only: work is done, and host functions run, without it.

pub mod blocks;
pub mod capture;
mod fork;
pub mod operation;
pub mod stream;
pub mod worker;

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Code, NOT_SUPPORTED};
use crate::event::Event;
use crate::graph::Executable;
use blocks::Blocks;
use capture::Capture;
use operation::Operation;
use stream::{Point, Stream, StreamId};

/// Everything alive. Ordered maps, because they can be made empty without allocating.
pub struct Runtime {
    pub blocks: Blocks,
    pub streams: BTreeMap<StreamId, Stream>,
    pub events: BTreeMap<usize, Event>,
    pub captures: BTreeMap<u64, Capture>,
    pub graphs: BTreeMap<usize, Vec<Operation>>,
    pub executables: BTreeMap<usize, Executable>,
    /// How many forks this process descends from; a worker of another generation has no business here.
    generation: u64,
    survives_fork: bool,
    last_number: u64,
}

/// The state, held.
pub type State = MutexGuard<'static, Runtime>;

static RUNTIME: Mutex<Runtime> = Mutex::new(Runtime::new());

/// Takes the state as it is. A panic under the lock leaves usable state behind, so poisoning is ignored.
fn lock_bare() -> State {
    RUNTIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the state; the first time sees to it that it survives a fork.
pub fn lock() -> State {
    let mut state = lock_bare();
    if !state.survives_fork {
        state.survives_fork = true;
        fork::register();
    }
    state
}

/// Runs `f` with the state.
pub fn with<R>(f: impl FnOnce(&mut Runtime) -> R) -> R {
    f(&mut lock())
}

/// As [`with`], for what can fail.
pub fn attempt<R>(f: impl FnOnce(&mut Runtime) -> Result<R, Code>) -> Result<R, Code> {
    with(f)
}

fn sleep(bell: &Condvar, state: State) -> State {
    bell.wait(state).unwrap_or_else(PoisonError::into_inner)
}

/// Gives the state away until all these points are reached.
fn wait_holding(mut state: State, points: &[Point]) -> State {
    while let Some(bell) = state.unreached(points) {
        state = sleep(&bell, state);
    }
    state
}

/// Waits until all these points are reached. In a host function that is refused: it could be waiting for its own end.
pub fn wait(points: &[Point]) -> Result<(), Code> {
    let state = lock();
    if state.unreached(points).is_some() && worker::is_current() {
        return Err(NOT_SUPPORTED);
    }
    drop(wait_holding(state, points));
    Ok(())
}

impl Runtime {
    const fn new() -> Runtime {
        Runtime {
            blocks: Blocks::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            captures: BTreeMap::new(),
            graphs: BTreeMap::new(),
            executables: BTreeMap::new(),
            generation: 0,
            survives_fork: false,
            last_number: 0,
        }
    }

    /// A number that was never given out before.
    pub fn new_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// A handle that was never given out before. It is outside every address a program could own.
    pub fn new_handle(&mut self) -> usize {
        0xffff_51ed_0000_0000 + self.new_number() as usize * 16
    }
}
