//! Streams as queues, and what makes work wait: the order within a stream, events, and the null stream's rule. Exported functions
//! are in `crate::stream`, the threads that work the queues off in `worker`.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar};

use crate::device;
use crate::error::{Code, INVALID_VALUE};
use crate::runtime::Runtime;
use crate::runtime::capture::Member;
use crate::runtime::operation::Operation;
use crate::runtime::worker::{Task, Work};

/// Which stream is meant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StreamId {
    /// A device's legacy default stream: null or `hipStreamLegacy`.
    Legacy(usize),
    /// `hipStreamPerThread`: one for each thread and device.
    PerThread { thread: u64, device: usize },
    /// A stream of the program, by its handle.
    Own(usize),
}

/// A place in a stream's sequence of work: reached when that much of it is done, or when the stream is gone.
#[derive(Clone, Copy)]
pub struct Point {
    pub stream: StreamId,
    ticket: u64,
}

/// A stream.
pub struct Stream {
    pub device: usize,
    /// Whether it synchronises with the legacy stream of its device.
    pub blocking: bool,
    /// Set while it captures.
    pub member: Option<Member>,
    /// The program gave it up; it lives on until its work is done.
    pub destroyed: bool,
    /// Whether it has its thread.
    pub served: bool,
    pub pending: VecDeque<Task>,
    /// Rung when work comes and when work is done.
    pub bell: Arc<Condvar>,
    submitted: u64,
    completed: u64,
}

/// The calling thread's number. Not the standard library's, which cannot be asked in a thread that is ending.
pub fn this_thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static MINE: Cell<u64> = const { Cell::new(0) };
    }
    if MINE.get() == 0 {
        MINE.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    MINE.get()
}

/// Gives a thread's own streams up when the thread ends.
struct Retirement;

impl Drop for Retirement {
    fn drop(&mut self) {
        let me = this_thread();
        crate::runtime::with(|r| r.destroy_where(|id| matches!(id, StreamId::PerThread { thread, .. } if *thread == me)));
    }
}

thread_local! {
    static RETIREMENT: Retirement = const { Retirement };
}

impl Stream {
    pub fn new(device: usize, blocking: bool) -> Stream {
        Stream {
            device,
            blocking,
            member: None,
            destroyed: false,
            served: false,
            pending: VecDeque::new(),
            bell: Arc::new(Condvar::new()),
            submitted: 0,
            completed: 0,
        }
    }

    /// Forgets what was queued, as if it were done.
    pub fn abandon(&mut self) {
        self.pending.clear();
        self.completed = self.submitted;
        self.served = false;
    }
}

impl Runtime {
    /// What a stream handle from C means; foreign and destroyed handles are invalid. Default streams come to be here.
    pub fn resolve(&mut self, handle: usize) -> Result<StreamId, Code> {
        let device = device::current();
        let id = match handle {
            0 | 1 => StreamId::Legacy(device),
            2 => {
                RETIREMENT.try_with(|_| ()).map_err(|_| INVALID_VALUE)?;
                StreamId::PerThread { thread: this_thread(), device }
            }
            own if self.streams.get(&StreamId::Own(own)).is_some_and(|s| !s.destroyed) => return Ok(StreamId::Own(own)),
            _ => return Err(INVALID_VALUE),
        };
        self.streams.entry(id).or_insert_with(|| Stream::new(device, true));
        Ok(id)
    }

    /// A stream that was resolved before.
    pub fn stream(&mut self, id: StreamId) -> Result<&mut Stream, Code> {
        self.streams.get_mut(&id).ok_or(INVALID_VALUE)
    }

    /// Gives streams up: at once those without a thread, which have nothing outstanding. Captures that began there are over.
    pub fn destroy_where(&mut self, chosen: impl Fn(&StreamId) -> bool) {
        self.drop_captures_where(|origin, _| chosen(origin));
        for (id, stream) in &mut self.streams {
            if chosen(id) {
                stream.destroyed = true;
                stream.bell.notify_all();
            }
        }
        self.streams.retain(|_, s| s.served || !s.destroyed);
    }

    /// The last work of a stream, if it is not done.
    pub fn last(&self, id: StreamId) -> Option<Point> {
        let stream = self.streams.get(&id)?;
        (stream.completed < stream.submitted).then_some(Point { stream: id, ticket: stream.submitted })
    }

    /// The last work of all streams of some kind, as far as it is not done.
    pub fn outstanding(&self, which: impl Fn(&Stream) -> bool) -> Vec<Point> {
        self.streams.iter().filter(|(_, s)| which(s)).filter_map(|(id, _)| self.last(*id)).collect()
    }

    /// What waiting for a stream waits for. A null stream's next work waits for every blocking stream, hence so does who waits for it.
    pub fn awaited(&self, id: StreamId) -> Vec<Point> {
        match id {
            StreamId::Legacy(device) => self.outstanding(|s| s.device == device && s.blocking),
            _ => self.last(id).into_iter().collect(),
        }
    }

    /// What work submitted now would wait for, beyond its own stream.
    fn implied(&self, id: StreamId) -> Vec<Point> {
        match (id, self.streams.get(&id)) {
            (StreamId::Legacy(_), _) => self.awaited(id),
            (_, Some(stream)) if stream.blocking => self.last(StreamId::Legacy(stream.device)).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The bell of a stream that has not reached one of these points.
    pub fn unreached(&self, points: &[Point]) -> Option<Arc<Condvar>> {
        let open = |p: &Point| self.streams.get(&p.stream).filter(|s| s.completed < p.ticket).map(|s| s.bell.clone());
        points.iter().find_map(open)
    }

    /// Queues work behind all that it has to wait for.
    pub fn submit(&mut self, id: StreamId, work: Work, mut after: Vec<Point>) -> Result<Point, Code> {
        after.extend(self.implied(id));
        self.employ(id)?;
        let stream = self.stream(id)?;
        stream.submitted += 1;
        stream.pending.push_back(Task { after, work });
        stream.bell.notify_all();
        Ok(Point { stream: id, ticket: stream.submitted })
    }

    /// Puts an operation on a stream: recorded if it captures, else queued; then there is a point to wait for.
    pub fn enqueue(&mut self, id: StreamId, operation: Operation) -> Result<Option<Point>, Code> {
        if self.records(id, operation)? {
            return Ok(None);
        }
        let memory = self.blocks.touched(&operation);
        let mut after = Vec::new();
        if let StreamId::Legacy(own) = id {
            // A copy between devices on the null stream waits for both.
            let others = memory.iter().filter_map(|m| m.device()).filter(|d| *d != own);
            others.for_each(|d| after.extend(self.awaited(StreamId::Legacy(d))));
        }
        self.submit(id, Work::Operation(operation, memory), after).map(Some)
    }

    /// The work that a stream's thread took last is done.
    pub fn complete(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.completed += 1;
            stream.bell.notify_all();
        }
    }
}
