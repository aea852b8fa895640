//! Stream capture: which streams take part, what they record, and what a capture forbids to whom. Exported functions are in
//! `crate::capture`.
//!
//! A capture is a list of operations in the order of their submission, each with those it must follow. Every stream that takes
//! part knows its frontier: the operations that the next one must follow. An event carries a frontier to other streams, and so
//! makes them take part; at the end all operations must lie before the frontier of the stream in which the capture began.

use std::cell::Cell;

use crate::error::{
    CAPTURE_IMPLICIT, CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_MERGE, CAPTURE_UNJOINED, CAPTURE_UNMATCHED, CAPTURE_UNSUPPORTED,
    CAPTURE_WRONG_THREAD, CAPTURED_EVENT, Code, ILLEGAL_STATE,
};
use crate::runtime::Runtime;
use crate::runtime::operation::Operation;
use crate::runtime::stream::{Stream, StreamId, this_thread};

/// `hipStreamCaptureModeGlobal`.
pub const MODE_GLOBAL: i32 = 0;
/// `hipStreamCaptureModeThreadLocal`.
pub const MODE_THREAD_LOCAL: i32 = 1;
/// `hipStreamCaptureModeRelaxed`.
pub const MODE_RELAXED: i32 = 2;

/// Whether a number is one of the modes.
pub fn is_mode(mode: i32) -> bool {
    (MODE_GLOBAL..=MODE_RELAXED).contains(&mode)
}

/// A capture in progress.
pub struct Capture {
    mode: i32,
    thread: u64,
    /// Where it began and has to end.
    origin: StreamId,
    /// Something forbidden happened: the capture can only be ended, and gives no graph.
    invalid: bool,
    nodes: Vec<Node>,
}

struct Node {
    operation: Operation,
    after: Vec<usize>,
}

/// A stream's part in a capture.
#[derive(Clone)]
pub struct Member {
    pub capture: u64,
    frontier: Vec<usize>,
}

impl Member {
    fn follow(&mut self, other: &Member) {
        self.frontier.extend_from_slice(&other.frontier);
        self.frontier.sort_unstable();
        self.frontier.dedup();
    }
}

/// What a stream has to say about capture.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Status {
    None,
    Active(u64),
    Invalidated(u64),
}

thread_local! {
    /// How much the calling thread minds captures.
    static THREAD_MODE: Cell<i32> = const { Cell::new(MODE_GLOBAL) };
}

/// Sets the calling thread's mode and returns the one before.
pub fn exchange_thread_mode(mode: i32) -> i32 {
    THREAD_MODE.replace(mode)
}

impl Capture {
    /// Whether it forbids the calling thread what may synchronise the device.
    fn forbids_here(&self) -> bool {
        let mine = self.thread == this_thread() && self.mode != MODE_RELAXED;
        match THREAD_MODE.get() {
            MODE_RELAXED => false,
            MODE_THREAD_LOCAL => mine,
            _ => mine || self.mode == MODE_GLOBAL,
        }
    }

    /// Whether all operations lie before this frontier.
    fn is_joined_at(&self, frontier: &[usize]) -> bool {
        let mut reached = vec![false; self.nodes.len()];
        let mut open = frontier.to_vec();
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut reached[node], true) {
                open.extend_from_slice(&self.nodes[node].after);
            }
        }
        reached.iter().all(|r| *r)
    }
}

impl Runtime {
    /// Before a call that may synchronise the device implicitly (allocation, synchronous copy, …). The attempt spoils the captures
    /// that forbid it.
    pub fn forbid_under_capture(&mut self) -> Result<(), Code> {
        self.spoil(CAPTURE_UNSUPPORTED, |_, capture| capture.forbids_here())
    }

    /// Before work on a legacy stream: it would have to wait for every blocking stream, which a capturing one cannot allow.
    fn forbid_legacy_under_capture(&mut self, device: usize) -> Result<(), Code> {
        self.spoil(CAPTURE_IMPLICIT, |stream, _| stream.blocking && stream.device == device)
    }

    /// Before anything is done with a stream that may be a legacy one.
    pub fn forbid_if_legacy(&mut self, id: StreamId) -> Result<(), Code> {
        if let StreamId::Legacy(device) = id { self.forbid_legacy_under_capture(device) } else { Ok(()) }
    }

    /// Before waiting for one stream: never while it captures, in any mode.
    pub fn forbid_wait(&mut self, id: StreamId) -> Result<(), Code> {
        self.forbid_if_legacy(id)?;
        self.refuse_in_capture(id, CAPTURE_UNSUPPORTED)
    }

    /// Invalidates the captures that `hit` picks; an error if there was one.
    fn spoil(&mut self, error: Code, hit: impl Fn(&Stream, &Capture) -> bool) -> Result<(), Code> {
        let mut result = Ok(());
        for stream in self.streams.values() {
            let capture = stream.member.as_ref().and_then(|m| self.captures.get_mut(&m.capture));
            if let Some(capture) = capture.filter(|c| hit(stream, c)) {
                capture.invalid = true;
                result = Err(error);
            }
        }
        result
    }

    fn invalidate(&mut self, capture: u64) {
        if let Some(capture) = self.captures.get_mut(&capture) {
            capture.invalid = true;
        }
    }

    /// Spoils the capture of a stream, if it is capturing, and fails then.
    fn refuse_in_capture(&mut self, id: StreamId, error: Code) -> Result<(), Code> {
        match self.member(id).map(|m| m.capture) {
            Some(capture) => {
                self.invalidate(capture);
                Err(error)
            }
            None => Ok(()),
        }
    }

    fn member(&self, id: StreamId) -> Option<&Member> {
        self.streams.get(&id)?.member.as_ref()
    }

    /// Whether a stream captures.
    pub fn capture_status(&self, id: StreamId) -> Status {
        let Some(id) = self.member(id).map(|m| m.capture) else { return Status::None };
        if self.captures.get(&id).is_none_or(|c| c.invalid) { Status::Invalidated(id) } else { Status::Active(id) }
    }

    /// The part of a stream in a capture, for an event to carry; none if it does not capture.
    pub fn frontier(&self, id: StreamId) -> Result<Option<Member>, Code> {
        match self.capture_status(id) {
            Status::Invalidated(_) => Err(CAPTURE_INVALIDATED),
            _ => Ok(self.member(id).cloned()),
        }
    }

    /// Records work, if the stream captures; false if it is to be done.
    pub fn records(&mut self, id: StreamId, operation: Operation) -> Result<bool, Code> {
        self.forbid_if_legacy(id)?;
        let Some(member) = self.streams.get_mut(&id).and_then(|s| s.member.as_mut()) else { return Ok(false) };
        let capture = self.captures.get_mut(&member.capture).filter(|c| !c.invalid).ok_or(CAPTURE_INVALIDATED)?;
        let after = std::mem::replace(&mut member.frontier, vec![capture.nodes.len()]);
        capture.nodes.push(Node { operation, after });
        Ok(true)
    }

    pub fn begin_capture(&mut self, id: StreamId, mode: i32) -> Result<(), Code> {
        if let StreamId::Legacy(_) = id {
            return Err(CAPTURE_UNSUPPORTED);
        }
        if self.member(id).is_some() {
            return Err(ILLEGAL_STATE);
        }
        let capture = self.new_number();
        self.stream(id)?.member = Some(Member { capture, frontier: Vec::new() });
        self.captures.insert(capture, Capture { mode, thread: this_thread(), origin: id, invalid: false, nodes: Vec::new() });
        Ok(())
    }

    /// The stream waits for an event that was recorded in a capture: it takes part from now on.
    pub fn join_capture(&mut self, id: StreamId, event: &Member) -> Result<(), Code> {
        match self.captures.get(&event.capture) {
            None => return Err(CAPTURED_EVENT),
            Some(capture) if capture.invalid => return Err(CAPTURE_INVALIDATED),
            Some(_) => {}
        }
        if let StreamId::Legacy(_) = id {
            self.invalidate(event.capture);
            return Err(CAPTURE_IMPLICIT);
        }
        match &mut self.stream(id)?.member {
            none @ None => *none = Some(event.clone()),
            Some(member) if member.capture == event.capture => member.follow(event),
            Some(other) => {
                let other = other.capture;
                self.invalidate(other);
                self.invalidate(event.capture);
                return Err(CAPTURE_MERGE);
            }
        }
        Ok(())
    }

    /// Before a stream waits for work outside every capture.
    pub fn forbid_outside_work(&mut self, id: StreamId) -> Result<(), Code> {
        self.refuse_in_capture(id, CAPTURE_ISOLATION)
    }

    /// Ends the capture that began in a stream; the operations, unless it was spoiled or left work unjoined.
    pub fn end_capture(&mut self, id: StreamId) -> Result<Vec<Operation>, Code> {
        if let StreamId::Legacy(_) = id {
            return Err(CAPTURE_UNMATCHED);
        }
        let member = self.member(id).ok_or(ILLEGAL_STATE)?.clone();
        let capture = self.captures.get(&member.capture).ok_or(ILLEGAL_STATE)?;
        if capture.origin != id {
            return Err(CAPTURE_UNMATCHED);
        }
        if capture.mode != MODE_RELAXED && capture.thread != this_thread() {
            return Err(CAPTURE_WRONG_THREAD);
        }
        let capture = self.drop_capture(member.capture).ok_or(ILLEGAL_STATE)?;
        if capture.invalid {
            return Err(CAPTURE_INVALIDATED);
        }
        if !capture.is_joined_at(&member.frontier) {
            return Err(CAPTURE_UNJOINED);
        }
        Ok(capture.nodes.into_iter().map(|n| n.operation).collect())
    }

    /// Ends a capture for all streams that take part.
    fn drop_capture(&mut self, capture: u64) -> Option<Capture> {
        for stream in self.streams.values_mut() {
            stream.member.take_if(|m| m.capture == capture);
        }
        self.captures.remove(&capture)
    }

    /// Ends the captures that began in streams of some kind, or by threads of some kind, without a graph.
    pub fn drop_captures_where(&mut self, chosen: impl Fn(&StreamId, u64) -> bool) {
        let ended: Vec<u64> = self.captures.iter().filter(|(_, c)| chosen(&c.origin, c.thread)).map(|(id, _)| *id).collect();
        ended.into_iter().for_each(|id| drop(self.drop_capture(id)));
    }
}
