//! Memory: allocation, copies, fills. Everything happens at once; a capturing stream records asynchronous operations instead.
//! A pointer that lies in no allocation of ours is host memory of the program, and accepted only where HIP takes host memory.

use core::ffi::{c_int, c_void};
use std::alloc::Layout;

use crate::device;
use crate::error::{Code, INVALID_MEMCPY_DIRECTION, INVALID_VALUE, OUT_OF_MEMORY, guard, put};
use crate::runtime::{self, Block, Operation, Runtime};

const ALIGNMENT: usize = 256;
/// How much of fresh memory is filled with ones (NaN as floats), so that reading it before writing shows.
const PATTERN: usize = 16 << 20;

fn layout(size: usize) -> Result<Layout, Code> {
    Layout::from_size_align(size, ALIGNMENT).map_err(|_| OUT_OF_MEMORY)
}

impl Runtime {
    fn used(&self, device: usize) -> usize {
        self.blocks.values().filter(|b| b.device == Some(device)).map(|b| b.size).sum()
    }

    /// The allocation that holds `address`, and where in it.
    fn block_of(&self, address: usize) -> Option<(usize, &Block)> {
        let (start, block) = self.blocks.range(..=address).next_back()?;
        (address - start < block.size).then_some((*start, block))
    }

    /// Whether an operation may touch these bytes: inside one allocation, or host memory where that is allowed.
    fn check(&self, address: usize, bytes: usize, may_be_host: bool) -> Result<(), Code> {
        match self.block_of(address) {
            Some((start, block)) if bytes <= block.size - (address - start) => Ok(()),
            None if may_be_host && address != 0 => Ok(()),
            _ => Err(INVALID_VALUE),
        }
    }

    fn allocate(&mut self, size: usize, device: Option<usize>) -> Result<usize, Code> {
        self.forbid_under_capture()?;
        if let Some(d) = device
            && size > device::MEMORY.saturating_sub(self.used(d))
        {
            return Err(OUT_OF_MEMORY);
        }
        // SAFETY: the size is not zero (the callers see to that).
        let memory = unsafe { std::alloc::alloc(layout(size)?) };
        if memory.is_null() {
            return Err(OUT_OF_MEMORY);
        }
        // SAFETY: at most the size just allocated.
        unsafe { memory.write_bytes(0xff, size.min(PATTERN)) };
        self.blocks.insert(memory as usize, Block { size, device });
        Ok(memory as usize)
    }

    fn release(&mut self, address: usize, host: bool) -> Result<(), Code> {
        self.forbid_under_capture()?;
        if self.blocks.get(&address).is_none_or(|b| b.device.is_none() != host) {
            return Err(INVALID_VALUE);
        }
        let block = self.blocks.remove(&address).ok_or(INVALID_VALUE)?;
        // SAFETY: it was allocated with this layout, and its entry is gone, so it is freed once.
        unsafe { std::alloc::dealloc(address as *mut u8, layout(block.size)?) };
        Ok(())
    }

    fn copy_checked(&self, to: usize, from: usize, bytes: usize, kind: c_int) -> Result<Operation, Code> {
        // hipMemcpyHostToHost, HostToDevice, DeviceToHost, DeviceToDevice, Default, DeviceToDeviceNoCU
        let (to_host, from_host) = match kind {
            0 | 4 => (true, true),
            1 => (false, true),
            2 => (true, false),
            3 | 1024 => (false, false),
            _ => return Err(INVALID_MEMCPY_DIRECTION),
        };
        self.check(to, bytes, to_host)?;
        self.check(from, bytes, from_host)?;
        let foreign = |address| self.block_of(address).is_none();
        Ok(Operation::Copy { to, from, bytes, to_host: foreign(to), from_host: foreign(from) })
    }

    fn fill_checked(&self, to: usize, value: c_int, bytes: usize) -> Result<Operation, Code> {
        self.check(to, bytes, false)?;
        Ok(Operation::Fill { to, value: value as u8, bytes })
    }

    /// Whether a recorded operation still touches only memory that exists.
    pub fn still_valid(&self, operation: &Operation) -> bool {
        match *operation {
            Operation::Copy { to, from, bytes, to_host, from_host } => {
                self.check(to, bytes, to_host).is_ok() && self.check(from, bytes, from_host).is_ok()
            }
            Operation::Fill { to, bytes, .. } => self.check(to, bytes, false).is_ok(),
            Operation::Host { .. } => true,
        }
    }
}

/// Does an operation now.
///
/// # Safety
/// Its memory is valid: checked against the allocations, or host memory the caller vouches for.
pub unsafe fn perform(operation: Operation) {
    match operation {
        // SAFETY: by contract; source and destination may overlap, as they may be one buffer.
        Operation::Copy { to, from, bytes, .. } => unsafe { core::ptr::copy(from as *const u8, to as *mut u8, bytes) },
        // SAFETY: by contract.
        Operation::Fill { to, value, bytes } => unsafe { core::ptr::write_bytes(to as *mut u8, value, bytes) },
        // SAFETY: the program gave function and data for this call.
        Operation::Host { function, data } => unsafe { function(data as *mut c_void) },
    }
}

/// An operation on a stream that the host does not wait for.
fn submit(stream: usize, checked: impl FnOnce(&Runtime) -> Result<Operation, Code>) -> Result<(), Code> {
    runtime::attempt(|r| {
        let id = r.stream(stream)?;
        let operation = checked(r)?;
        if !r.records(&id, operation)? {
            // SAFETY: checked against the allocations; what is host memory the caller vouches for.
            unsafe { perform(operation) };
        }
        Ok(())
    })
}

/// An operation that the host waits for.
fn submit_and_wait(stream: usize, checked: impl FnOnce(&Runtime) -> Result<Operation, Code>) -> Result<(), Code> {
    runtime::attempt(|r| {
        let id = r.stream(stream)?;
        r.forbid_wait(&id)?;
        r.forbid_under_capture()
    })?;
    submit(stream, checked)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMalloc(out: *mut *mut c_void, size: usize) -> Code {
    guard(|| {
        if out.is_null() {
            return Err(INVALID_VALUE);
        }
        let address = if size == 0 { 0 } else { runtime::attempt(|r| r.allocate(size, Some(device::current())))? };
        // SAFETY: not null, so the caller's pointer is valid.
        unsafe { put(out, address as *mut c_void) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipFree(memory: *mut c_void) -> Code {
    guard(|| if memory.is_null() { Ok(()) } else { runtime::attempt(|r| r.release(memory as usize, false)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipHostMalloc(out: *mut *mut c_void, size: usize, _flags: u32) -> Code {
    guard(|| {
        if out.is_null() {
            return Err(INVALID_VALUE);
        }
        let address = if size == 0 { 0 } else { runtime::attempt(|r| r.allocate(size, None))? };
        // SAFETY: not null, so the caller's pointer is valid.
        unsafe { put(out, address as *mut c_void) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipHostFree(memory: *mut c_void) -> Code {
    guard(|| if memory.is_null() { Ok(()) } else { runtime::attempt(|r| r.release(memory as usize, true)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> Code {
    guard(|| {
        let used = runtime::with(|r| r.used(device::current()));
        // SAFETY: `put` checks for null; otherwise the caller's pointers are valid.
        unsafe {
            put(free, device::MEMORY.saturating_sub(used))?;
            put(total, device::MEMORY)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemPtrGetInfo(memory: *mut c_void, size: *mut usize) -> Code {
    guard(|| {
        let found = runtime::with(|r| r.blocks.get(&(memory as usize)).map(|b| b.size)).ok_or(INVALID_VALUE)?;
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(size, found) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn hipMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int) -> Code {
    hipMemcpyWithStream(to, from, bytes, kind, core::ptr::null_mut())
}

#[unsafe(no_mangle)]
extern "C" fn hipMemcpyWithStream(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int, stream: *mut c_void) -> Code {
    guard(
        || if bytes == 0 { Ok(()) } else { submit_and_wait(stream as usize, |r| r.copy_checked(to as usize, from as usize, bytes, kind)) },
    )
}

#[unsafe(no_mangle)]
extern "C" fn hipMemcpyAsync(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int, stream: *mut c_void) -> Code {
    guard(|| if bytes == 0 { Ok(()) } else { submit(stream as usize, |r| r.copy_checked(to as usize, from as usize, bytes, kind)) })
}

#[unsafe(no_mangle)]
extern "C" fn hipMemset(to: *mut c_void, value: c_int, bytes: usize) -> Code {
    guard(|| if bytes == 0 { Ok(()) } else { submit_and_wait(0, |r| r.fill_checked(to as usize, value, bytes)) })
}

#[unsafe(no_mangle)]
extern "C" fn hipMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: *mut c_void) -> Code {
    guard(|| if bytes == 0 { Ok(()) } else { submit(stream as usize, |r| r.fill_checked(to as usize, value, bytes)) })
}
