//! Graphs: only those that capture makes. They hold what `runtime::operation` can say, and run in the order of the capture.

use core::ffi::c_void;

use crate::error::{Code, INVALID_VALUE, guard, put};
use crate::runtime::operation::Operation;
use crate::runtime::stream::Point;
use crate::runtime::worker::Work;
use crate::runtime::{self, Runtime};

/// A graph that can be launched.
pub struct Executable {
    operations: Vec<Operation>,
    /// Its last launch: it never runs beside itself.
    last: Option<Point>,
}

pub unsafe extern "C" fn hipGraphInstantiate(
    out: *mut *mut c_void,
    graph: *mut c_void,
    _error_node: *mut *mut c_void,
    _log: *mut u8,
    _log_size: usize,
) -> Code {
    guard(|| {
        if out.is_null() {
            return Err(INVALID_VALUE);
        }
        let handle = runtime::attempt(|r| {
            let operations = r.graphs.get(&(graph as usize)).ok_or(INVALID_VALUE)?.clone();
            let handle = r.new_handle();
            r.executables.insert(handle, Executable { operations, last: None });
            Ok(handle)
        })?;
        // SAFETY: not null, so the caller's pointer is valid.
        unsafe { put(out, handle as *mut c_void) }
    })
}

/// Queues the operations, or has the stream record them. All must still touch existing memory before any is.
fn launch(r: &mut Runtime, executable: usize, stream: usize) -> Result<(), Code> {
    let id = r.resolve(stream)?;
    let Executable { operations, last } = r.executables.get(&executable).ok_or(INVALID_VALUE)?;
    let (operations, last) = (operations.clone(), *last);
    if !operations.iter().all(|o| r.blocks.still_valid(o)) {
        return Err(INVALID_VALUE);
    }
    r.forbid_if_legacy(id)?;
    if let (Some(last), None) = (last, r.frontier(id)?) {
        r.submit(id, Work::Nothing, vec![last])?;
    }
    for operation in operations {
        if let Some(point) = r.enqueue(id, operation)? {
            r.executables.get_mut(&executable).ok_or(INVALID_VALUE)?.last = Some(point);
        }
    }
    Ok(())
}

pub extern "C" fn hipGraphLaunch(executable: *mut c_void, stream: *mut c_void) -> Code {
    guard(|| runtime::attempt(|r| launch(r, executable as usize, stream as usize)))
}

pub extern "C" fn hipGraphDestroy(graph: *mut c_void) -> Code {
    guard(|| runtime::attempt(|r| r.graphs.remove(&(graph as usize)).map(drop).ok_or(INVALID_VALUE)))
}

pub extern "C" fn hipGraphExecDestroy(executable: *mut c_void) -> Code {
    guard(|| runtime::attempt(|r| r.executables.remove(&(executable as usize)).map(drop).ok_or(INVALID_VALUE)))
}
