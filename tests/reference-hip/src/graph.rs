//! Graphs: only those that capture makes; they hold what `runtime::Operation` can say.

use core::ffi::c_void;

use crate::error::{Code, INVALID_VALUE, guard, put};
use crate::memory;
use crate::runtime::{self, Operation, Runtime};

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGraphInstantiate(
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
            r.executables.insert(handle, operations);
            Ok(handle)
        })?;
        // SAFETY: not null, so the caller's pointer is valid.
        unsafe { put(out, handle as *mut c_void) }
    })
}

/// The operations to run, or none if the stream records them. All must still touch existing memory before any runs.
fn to_run(r: &mut Runtime, executable: usize, stream: usize) -> Result<Vec<Operation>, Code> {
    let id = r.stream(stream)?;
    let operations = r.executables.get(&executable).ok_or(INVALID_VALUE)?.clone();
    if !operations.iter().all(|o| r.still_valid(o)) {
        return Err(INVALID_VALUE);
    }
    let mut now = Vec::new();
    for operation in operations {
        if !r.records(&id, operation)? {
            now.push(operation);
        }
    }
    Ok(now)
}

#[unsafe(no_mangle)]
extern "C" fn hipGraphLaunch(executable: *mut c_void, stream: *mut c_void) -> Code {
    guard(|| {
        let operations = runtime::attempt(|r| to_run(r, executable as usize, stream as usize))?;
        for operation in operations {
            // SAFETY: just checked; host memory and functions are vouched for by who captured them.
            unsafe { memory::perform(operation) };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipGraphDestroy(graph: *mut c_void) -> Code {
    guard(|| runtime::attempt(|r| r.graphs.remove(&(graph as usize)).map(|_| ()).ok_or(INVALID_VALUE)))
}

#[unsafe(no_mangle)]
extern "C" fn hipGraphExecDestroy(executable: *mut c_void) -> Code {
    guard(|| runtime::attempt(|r| r.executables.remove(&(executable as usize)).map(|_| ()).ok_or(INVALID_VALUE)))
}
