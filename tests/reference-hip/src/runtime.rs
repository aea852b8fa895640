//! The state of the whole library behind one lock, and the rules of stream capture that cut across all kinds of objects.
//! Exported functions are elsewhere.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

use crate::error::{CAPTURE_IMPLICIT, CAPTURE_UNSUPPORTED, Code, INVALID_VALUE};

/// `hipStreamNonBlocking`: the stream does not synchronise with the legacy stream.
pub const STREAM_NON_BLOCKING: u32 = 1;
/// `hipStreamCaptureModeGlobal`.
pub const MODE_GLOBAL: i32 = 0;
/// `hipStreamCaptureModeThreadLocal`.
pub const MODE_THREAD_LOCAL: i32 = 1;
/// `hipStreamCaptureModeRelaxed`.
pub const MODE_RELAXED: i32 = 2;

/// An allocation.
pub struct Block {
    pub size: usize,
    /// The device that owns it; none for pinned host memory.
    pub device: Option<usize>,
}

/// A stream made by the program. The default streams have no entry: they have no state.
pub struct Stream {
    pub device: usize,
    pub flags: u32,
    pub capture: Option<Capture>,
}

/// A capture in progress.
pub struct Capture {
    pub mode: i32,
    pub thread: ThreadId,
    /// Something forbidden happened: the capture can only be ended, and gives no graph.
    pub invalid: bool,
    pub operations: Vec<Operation>,
}

/// What a graph can hold.
#[derive(Clone, Copy)]
pub enum Operation {
    /// The flags say which side was the program's own host memory, not an allocation of ours, when this was recorded.
    Copy {
        to: usize,
        from: usize,
        bytes: usize,
        to_host: bool,
        from_host: bool,
    },
    Fill {
        to: usize,
        value: u8,
        bytes: usize,
    },
    Host {
        function: unsafe extern "C" fn(*mut core::ffi::c_void),
        data: usize,
    },
}

/// An event.
pub struct Event {
    pub timing: bool,
    pub recorded: Option<Instant>,
    /// Last recorded in a capturing stream: it has no time and cannot be waited for.
    pub captured: bool,
}

/// Everything alive.
pub struct Runtime {
    pub blocks: BTreeMap<usize, Block>,
    pub streams: HashMap<usize, Stream>,
    pub events: HashMap<usize, Event>,
    pub graphs: HashMap<usize, Vec<Operation>>,
    pub executables: HashMap<usize, Vec<Operation>>,
    next_handle: usize,
}

/// Which stream a handle from C means.
pub enum StreamId {
    /// The legacy default stream: null or `hipStreamLegacy`.
    Legacy,
    /// `hipStreamPerThread`.
    PerThread,
    /// A stream of the program, known to exist.
    Own(usize),
}

static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);

/// Runs `f` with the state. A panic under the lock leaves usable state behind, so poisoning is ignored.
pub fn with<R>(f: impl FnOnce(&mut Runtime) -> R) -> R {
    let mut guard: MutexGuard<Option<Runtime>> = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    f(guard.get_or_insert_with(Runtime::new))
}

/// As [`with`], for what can fail.
pub fn attempt<R>(f: impl FnOnce(&mut Runtime) -> Result<R, Code>) -> Result<R, Code> {
    with(f)
}

impl Runtime {
    fn new() -> Runtime {
        Runtime {
            blocks: BTreeMap::new(),
            streams: HashMap::new(),
            events: HashMap::new(),
            graphs: HashMap::new(),
            executables: HashMap::new(),
            next_handle: 0x51ed_0000_0010,
        }
    }

    /// A handle that was never given out before. It is outside every address a program could own.
    pub fn new_handle(&mut self) -> usize {
        self.next_handle += 16;
        self.next_handle | 0xffff << 48
    }

    /// What a stream handle means; foreign and destroyed handles are invalid.
    pub fn stream(&self, handle: usize) -> Result<StreamId, Code> {
        match handle {
            0 | 1 => Ok(StreamId::Legacy),
            2 => Ok(StreamId::PerThread),
            own if self.streams.contains_key(&own) => Ok(StreamId::Own(own)),
            _ => Err(INVALID_VALUE),
        }
    }

    /// Before a call that may synchronise the device implicitly (allocation, synchronous copy, …): forbidden while this
    /// thread captures, or any thread captures in global mode, unless the capture is relaxed. The attempt spoils the capture.
    pub fn forbid_under_capture(&mut self) -> Result<(), Code> {
        let me = std::thread::current().id();
        self.spoil(CAPTURE_UNSUPPORTED, |_, c| c.mode == MODE_GLOBAL || (c.mode == MODE_THREAD_LOCAL && c.thread == me))
    }

    /// Before work on the legacy stream: it would have to wait for every blocking stream, which a capturing one cannot allow.
    pub fn forbid_legacy_under_capture(&mut self) -> Result<(), Code> {
        self.spoil(CAPTURE_IMPLICIT, |s, _| s & STREAM_NON_BLOCKING == 0)
    }

    /// Invalidates the captures that `hit` picks by stream flags and capture; an error if there was one.
    fn spoil(&mut self, error: Code, hit: impl Fn(u32, &Capture) -> bool) -> Result<(), Code> {
        let mut result = Ok(());
        for stream in self.streams.values_mut() {
            let flags = stream.flags;
            if let Some(capture) = stream.capture.as_mut().filter(|c| hit(flags, c)) {
                capture.invalid = true;
                result = Err(error);
            }
        }
        result
    }

    /// Before waiting for one stream: never while it captures, in any mode.
    pub fn forbid_wait(&mut self, stream: &StreamId) -> Result<(), Code> {
        match stream {
            StreamId::Legacy => self.forbid_legacy_under_capture(),
            StreamId::PerThread => Ok(()),
            StreamId::Own(handle) => match self.streams.get_mut(handle).and_then(|s| s.capture.as_mut()) {
                Some(capture) => {
                    capture.invalid = true;
                    Err(CAPTURE_UNSUPPORTED)
                }
                None => Ok(()),
            },
        }
    }

    /// The capture of a stream, if it is capturing.
    pub fn capture(&mut self, stream: &StreamId) -> Option<&mut Capture> {
        match stream {
            StreamId::Own(handle) => self.streams.get_mut(handle)?.capture.as_mut(),
            _ => None,
        }
    }

    /// Puts work on a stream: a capturing one records it and true is returned, else the caller does it now.
    pub fn records(&mut self, stream: &StreamId, operation: Operation) -> Result<bool, Code> {
        if let StreamId::Legacy = stream {
            self.forbid_legacy_under_capture()?;
        }
        match self.capture(stream) {
            Some(capture) if capture.invalid => Err(crate::error::CAPTURE_INVALIDATED),
            Some(capture) => {
                capture.operations.push(operation);
                Ok(true)
            }
            None => Ok(false),
        }
    }
}
