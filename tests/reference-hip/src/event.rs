//! Events. One is recorded when the program says so, and happens when its stream gets there.

use core::ffi::c_void;
use std::time::Instant;

use crate::device;
use crate::error::{CAPTURED_EVENT, Code, INVALID_HANDLE, INVALID_VALUE, NOT_READY, guard, put};
use crate::runtime::capture::Member;
use crate::runtime::stream::Point;
use crate::runtime::worker::Work;
use crate::runtime::{self, Runtime};

/// `hipEventDisableTiming`.
const DISABLE_TIMING: u32 = 2;

/// An event.
pub struct Event {
    device: usize,
    timing: bool,
    pub last: Last,
}

/// What the last record of an event made of it.
#[derive(Clone)]
pub enum Last {
    Never,
    Recorded {
        point: Point,
        /// Which record this is: the stream must not stamp the event for an earlier one.
        record: u64,
        time: Option<Instant>,
    },
    /// Recorded in a capturing stream: it has no time, cannot be waited for, and makes streams take part in the capture.
    Captured(Member),
}

impl Runtime {
    fn event(&mut self, event: *mut c_void) -> Result<&mut Event, Code> {
        self.events.get_mut(&(event as usize)).ok_or(INVALID_VALUE)
    }

    /// A stream got to this record of the event.
    pub fn stamp(&mut self, event: usize, of: u64) {
        if let Some(Event { last: Last::Recorded { record, time, .. }, .. }) = self.events.get_mut(&event)
            && *record == of
        {
            *time = Some(Instant::now());
        }
    }

    fn record(&mut self, event: *mut c_void, stream: *mut c_void) -> Result<(), Code> {
        let id = self.resolve(stream as usize)?;
        let device = self.stream(id)?.device;
        if self.event(event)?.device != device {
            return Err(INVALID_HANDLE);
        }
        self.forbid_if_legacy(id)?;
        let last = match self.frontier(id)? {
            Some(member) => Last::Captured(member),
            None => {
                let record = self.new_number();
                let point = self.submit(id, Work::Stamp { event: event as usize, record }, Vec::new())?;
                Last::Recorded { point, record, time: None }
            }
        };
        self.event(event)?.last = last;
        Ok(())
    }

    fn wait_event(&mut self, stream: *mut c_void, event: *mut c_void) -> Result<(), Code> {
        let id = self.resolve(stream as usize)?;
        let last = self.event(event)?.last.clone();
        self.forbid_if_legacy(id)?;
        match last {
            Last::Never => Ok(()),
            Last::Captured(member) => self.join_capture(id, &member),
            Last::Recorded { point, .. } => {
                self.forbid_outside_work(id)?;
                self.submit(id, Work::Nothing, vec![point]).map(drop)
            }
        }
    }

    /// Where the event happens, if it was recorded; an error if that belongs to a capture.
    fn place(&mut self, event: *mut c_void) -> Result<Option<Point>, Code> {
        match self.event(event)?.last {
            Last::Never => Ok(None),
            Last::Recorded { point, .. } => Ok(Some(point)),
            Last::Captured(_) => Err(CAPTURED_EVENT),
        }
    }

    /// When the event happened, and on which device.
    fn time(&mut self, event: *mut c_void) -> Result<(Instant, usize), Code> {
        self.place(event)?;
        let event = self.event(event)?;
        match event.last {
            Last::Recorded { time, .. } if event.timing => Ok((time.ok_or(NOT_READY)?, event.device)),
            _ => Err(INVALID_HANDLE),
        }
    }
}

pub unsafe extern "C" fn hipEventCreateWithFlags(out: *mut *mut c_void, flags: u32) -> Code {
    guard(|| {
        if out.is_null() {
            return Err(INVALID_VALUE);
        }
        let event = Event { device: device::current(), timing: flags & DISABLE_TIMING == 0, last: Last::Never };
        let handle = runtime::with(|r| {
            let handle = r.new_handle();
            r.events.insert(handle, event);
            handle
        });
        // SAFETY: not null, so the caller's pointer is valid.
        unsafe { put(out, handle as *mut c_void) }
    })
}

pub unsafe extern "C" fn hipEventCreate(out: *mut *mut c_void) -> Code {
    // SAFETY: the caller's pointer, unchanged.
    unsafe { hipEventCreateWithFlags(out, 0) }
}

pub extern "C" fn hipEventDestroy(event: *mut c_void) -> Code {
    guard(|| runtime::attempt(|r| r.events.remove(&(event as usize)).map(drop).ok_or(INVALID_VALUE)))
}

pub extern "C" fn hipEventRecord(event: *mut c_void, stream: *mut c_void) -> Code {
    guard(|| runtime::attempt(|r| r.record(event, stream)))
}

pub extern "C" fn hipStreamWaitEvent(stream: *mut c_void, event: *mut c_void, _flags: u32) -> Code {
    guard(|| runtime::attempt(|r| r.wait_event(stream, event)))
}

pub extern "C" fn hipEventSynchronize(event: *mut c_void) -> Code {
    guard(|| {
        let point = runtime::attempt(|r| r.place(event))?;
        runtime::wait(point.as_slice())
    })
}

pub extern "C" fn hipEventQuery(event: *mut c_void) -> Code {
    guard(|| {
        runtime::attempt(|r| {
            let point = r.place(event)?;
            if r.unreached(point.as_slice()).is_some() { Err(NOT_READY) } else { Ok(()) }
        })
    })
}

pub unsafe extern "C" fn hipEventElapsedTime(out: *mut f32, start: *mut c_void, stop: *mut c_void) -> Code {
    guard(|| {
        let (from, to) = runtime::attempt(|r| {
            // An event that can never give a time is an error even while the other one is outstanding.
            let (from, to) = (r.time(start), r.time(stop));
            match (from, to) {
                (Err(error), _) | (_, Err(error)) if error != NOT_READY => Err(error),
                (from, to) => Ok((from?, to?)),
            }
        })?;
        if from.1 != to.1 {
            return Err(INVALID_HANDLE);
        }
        let (from, to) = (from.0, to.0);
        let after = to.saturating_duration_since(from).as_secs_f64() - from.saturating_duration_since(to).as_secs_f64();
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(out, (after * 1e3) as f32) }
    })
}
