//! The thread of a stream: made with the first work, ended when the stream is destroyed and its work done, never joined. It takes
//! one task after the other, waits for what the task has to wait for, and does it.

use std::cell::Cell;
use std::sync::Arc;

use crate::error::{Code, OUT_OF_MEMORY};
use crate::runtime::blocks::Memory;
use crate::runtime::operation::Operation;
use crate::runtime::stream::{Point, StreamId};
use crate::runtime::{self, Runtime, State};

/// Work, and what must be done before.
pub struct Task {
    pub after: Vec<Point>,
    pub work: Work,
}

/// What a stream's thread does.
pub enum Work {
    /// The operation, and the memory it touches.
    Operation(Operation, Vec<Arc<Memory>>),
    /// The event happens, unless it was recorded again since.
    Stamp { event: usize, record: u64 },
    /// Only the waiting matters.
    Nothing,
}

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is a stream's: then a host function is calling.
pub fn is_current() -> bool {
    IS_WORKER.get()
}

impl Runtime {
    /// Makes a stream's thread, if it has none.
    pub fn employ(&mut self, id: StreamId) -> Result<(), Code> {
        let generation = self.generation;
        let stream = self.stream(id)?;
        if !stream.served {
            let thread = std::thread::Builder::new().name("hip stream".to_string());
            thread.spawn(move || serve(id, generation)).map_err(|_| OUT_OF_MEMORY)?;
            stream.served = true;
        }
        Ok(())
    }
}

fn serve(id: StreamId, generation: u64) {
    IS_WORKER.set(true);
    let mut state = runtime::lock();
    while let Some((held, task)) = next(state, id) {
        state = perform(runtime::wait_holding(held, &task.after), task.work);
        if state.generation != generation {
            // A host function forked, and this is the child: the queue is not this thread's any more.
            return;
        }
        state.complete(id);
    }
}

/// The next task, once there is one; none when the stream ends.
fn next(mut state: State, id: StreamId) -> Option<(State, Task)> {
    loop {
        let stream = state.streams.get_mut(&id)?;
        if let Some(task) = stream.pending.pop_front() {
            return Some((state, task));
        }
        if stream.destroyed {
            state.streams.remove(&id);
            return None;
        }
        let bell = stream.bell.clone();
        state = runtime::sleep(&bell, state);
    }
}

fn perform(mut state: State, work: Work) -> State {
    match work {
        Work::Operation(operation, memory) => {
            if !memory.iter().all(|m| state.blocks.is_live(m)) {
                fault();
            }
            drop(state);
            // SAFETY: checked when it was submitted, and held since; what is host memory the program vouches for.
            unsafe { operation.perform() };
            drop(memory);
            runtime::lock()
        }
        Work::Stamp { event, record } => {
            state.stamp(event, record);
            state
        }
        Work::Nothing => state,
    }
}

/// ROCm ends a program whose device touches memory it does not have; so is it here, where the error would otherwise pass unseen.
fn fault() -> ! {
    eprintln!("reference HIP: memory access fault: work in a stream touches memory that was freed after it was submitted");
    std::process::abort()
}
