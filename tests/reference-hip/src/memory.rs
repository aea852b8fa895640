//! Memory: the exported functions for allocation, copies, fills. The bookkeeping of allocations is in `runtime::blocks`.
//! A pointer that lies in no allocation of ours is host memory of the program, and accepted only where HIP takes host memory.

use core::ffi::{c_int, c_void};

use hip_abi::memory::{DEVICE, HOST, PointerAttributes};

use crate::device;
use crate::error::{Code, INVALID_VALUE, NOT_SUPPORTED, guard, put};
use crate::runtime::blocks::Blocks;
use crate::runtime::operation::Operation;
use crate::runtime::{self, worker};

fn allocate(out: *mut *mut c_void, size: usize, device: Option<usize>) -> Result<(), Code> {
    if out.is_null() {
        return Err(INVALID_VALUE);
    }
    let made = || {
        runtime::attempt(|r| {
            r.forbid_under_capture()?;
            r.blocks.allocate(size, device)
        })
    };
    let address = if size == 0 { 0 } else { made()? };
    // SAFETY: not null, so the caller's pointer is valid.
    unsafe { put(out, address as *mut c_void) }
}

/// Waits for everything submitted to the device of the memory, or to all devices for pinned host memory, before it gives it back.
fn release(memory: *mut c_void, pinned: bool) -> Result<(), Code> {
    if memory.is_null() {
        return Ok(());
    }
    let outstanding = runtime::attempt(|r| {
        r.forbid_under_capture()?;
        let device = r.blocks.starting(memory as usize, pinned)?.device();
        Ok(r.outstanding(|s| device.is_none_or(|d| d == s.device)))
    })?;
    runtime::wait(&outstanding)?;
    runtime::attempt(|r| r.blocks.remove(memory as usize, pinned)).map(drop)
}

/// An operation on a stream that the host does not wait for.
fn submit(stream: *mut c_void, checked: impl FnOnce(&Blocks) -> Result<Operation, Code>) -> Result<(), Code> {
    runtime::attempt(|r| {
        let id = r.resolve(stream as usize)?;
        let operation = checked(&r.blocks)?;
        r.enqueue(id, operation).map(drop)
    })
}

/// An operation that the host waits for.
fn submit_and_wait(stream: *mut c_void, checked: impl FnOnce(&Blocks) -> Result<Operation, Code>) -> Result<(), Code> {
    if worker::is_current() {
        return Err(NOT_SUPPORTED);
    }
    let point = runtime::attempt(|r| {
        let id = r.resolve(stream as usize)?;
        r.forbid_wait(id)?;
        r.forbid_under_capture()?;
        let operation = checked(&r.blocks)?;
        r.enqueue(id, operation)
    })?;
    runtime::wait(point.as_slice())
}

/// What `hipMemcpy` and its relatives ask for.
fn line(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int) -> impl FnOnce(&Blocks) -> Result<Operation, Code> {
    move |blocks| blocks.copy((to as usize, bytes), (from as usize, bytes), bytes, 1, kind)
}

/// What `hipMemset` and its relatives ask for.
fn filling(to: *mut c_void, value: c_int, bytes: usize) -> impl FnOnce(&Blocks) -> Result<Operation, Code> {
    move |blocks| blocks.fill(to as usize, value as u8, bytes)
}

pub unsafe extern "C" fn hipMalloc(out: *mut *mut c_void, size: usize) -> Code {
    guard(|| allocate(out, size, Some(device::current())))
}

pub extern "C" fn hipFree(memory: *mut c_void) -> Code {
    guard(|| release(memory, false))
}

pub unsafe extern "C" fn hipHostMalloc(out: *mut *mut c_void, size: usize, _flags: u32) -> Code {
    guard(|| allocate(out, size, None))
}

pub extern "C" fn hipHostFree(memory: *mut c_void) -> Code {
    guard(|| release(memory, true))
}

pub unsafe extern "C" fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> Code {
    guard(|| {
        let left = runtime::with(|r| r.blocks.free(device::current()));
        // SAFETY: `put` checks for null; otherwise the caller's pointers are valid.
        unsafe {
            put(free, left)?;
            put(total, device::MEMORY)
        }
    })
}

pub unsafe extern "C" fn hipMemPtrGetInfo(memory: *mut c_void, size: *mut usize) -> Code {
    guard(|| {
        let found = runtime::with(|r| r.blocks.size(memory as usize)).ok_or(INVALID_VALUE)?;
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(size, found) }
    })
}

/// The host finds memory of the "device" where the device finds it, and is told so, unless that is hidden (`device::shares_memory`).
pub unsafe extern "C" fn hipPointerGetAttributes(attributes: *mut PointerAttributes, address: *mut c_void) -> Code {
    guard(|| {
        let known = runtime::with(|r| r.blocks.device_of(address as usize));
        let found = match known {
            None => PointerAttributes::UNKNOWN,
            Some(device) => PointerAttributes {
                kind: if device.is_some() { DEVICE } else { HOST },
                device: device.unwrap_or(0) as c_int,
                device_pointer: address,
                host_pointer: if device.is_none() || device::shares_memory() { address } else { core::ptr::null_mut() },
                ..PointerAttributes::UNKNOWN
            },
        };
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(attributes, found) }
    })
}

pub extern "C" fn hipMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int) -> Code {
    hipMemcpyWithStream(to, from, bytes, kind, core::ptr::null_mut())
}

pub extern "C" fn hipMemcpyWithStream(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int, stream: *mut c_void) -> Code {
    guard(|| if bytes == 0 { Ok(()) } else { submit_and_wait(stream, line(to, from, bytes, kind)) })
}

pub extern "C" fn hipMemcpyAsync(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int, stream: *mut c_void) -> Code {
    guard(|| if bytes == 0 { Ok(()) } else { submit(stream, line(to, from, bytes, kind)) })
}

pub extern "C" fn hipMemcpy2DAsync(
    to: *mut c_void,
    to_pitch: usize,
    from: *const c_void,
    from_pitch: usize,
    width: usize,
    rows: usize,
    kind: c_int,
    stream: *mut c_void,
) -> Code {
    guard(|| {
        if width == 0 || rows == 0 {
            return Ok(());
        }
        submit(stream, |blocks| blocks.copy((to as usize, to_pitch), (from as usize, from_pitch), width, rows, kind))
    })
}

pub extern "C" fn hipMemset(to: *mut c_void, value: c_int, bytes: usize) -> Code {
    guard(|| if bytes == 0 { Ok(()) } else { submit_and_wait(core::ptr::null_mut(), filling(to, value, bytes)) })
}

pub extern "C" fn hipMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: *mut c_void) -> Code {
    guard(|| if bytes == 0 { Ok(()) } else { submit(stream, filling(to, value, bytes)) })
}
