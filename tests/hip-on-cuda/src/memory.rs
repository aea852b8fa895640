//! Memory: allocations, copies, fills, and what an address is.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::null_mut;

use hip_abi::memory::PointerAttributes;

use crate::{
    cuda::{Address, Cuda, call, checked, cuda},
    error::{Code, INVALID_VALUE, NOT_SUPPORTED, guard, put},
    numbers::{self, flags},
};

/// No memory is no failure: its address is null.
fn allocate(out: *mut Address, size: usize, of: impl FnOnce(&Cuda, *mut Address) -> c_int) -> Code {
    guard(|| {
        let cuda = cuda()?;
        if size > 0 && !out.is_null() {
            return checked(cuda, of(cuda, out));
        }
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(out, null_mut()) }
    })
}

pub unsafe extern "C" fn hipMalloc(out: *mut Address, size: usize) -> Code {
    // SAFETY: not null, so the caller's pointer is valid.
    allocate(out, size, |cuda, out| unsafe { (cuda.malloc)(out, size) })
}

pub extern "C" fn hipFree(memory: Address) -> Code {
    // SAFETY: CUDA knows its own allocations, and refuses others.
    call(|cuda| unsafe { (cuda.free)(memory) })
}

pub unsafe extern "C" fn hipHostMalloc(out: *mut Address, size: usize, given: c_uint) -> Code {
    // SAFETY: not null, so the caller's pointer is valid.
    allocate(out, size, |cuda, out| unsafe { (cuda.host_malloc)(out, size, given & flags::HOST_MEMORY) })
}

pub extern "C" fn hipHostFree(memory: Address) -> Code {
    // SAFETY: as for `hipFree`.
    call(|cuda| unsafe { (cuda.host_free)(memory) })
}

pub unsafe extern "C" fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> Code {
    // SAFETY: the caller's pointers, which CUDA checks for null.
    call(|cuda| unsafe { (cuda.memory_info)(free, total) })
}

/// CUDA's runtime does not tell how large an allocation is.
pub extern "C" fn hipMemPtrGetInfo(_memory: Address, _size: *mut usize) -> Code {
    guard(|| {
        eprintln!("hipMemPtrGetInfo refused: CUDA's runtime does not tell the size of an allocation");
        Err(NOT_SUPPORTED)
    })
}

/// `cudaPointerAttributes`, with room for what later releases add.
#[repr(C)]
struct CudaAttributes {
    kind: c_int,
    device: c_int,
    device_pointer: Address,
    host_pointer: Address,
    reserved: [u64; 32],
}

pub unsafe extern "C" fn hipPointerGetAttributes(out: *mut PointerAttributes, address: *const c_void) -> Code {
    guard(|| {
        let cuda = cuda()?;
        let mut own = CudaAttributes { kind: 0, device: 0, device_pointer: null_mut(), host_pointer: null_mut(), reserved: [0; 32] };
        // SAFETY: the structure is a local with more room than any release writes; the address is only looked up.
        checked(cuda, unsafe { (cuda.pointer_attributes)((&raw mut own).cast(), address) })?;
        let kind = numbers::memory_back(own.kind);
        let managed = c_int::from(kind == hip_abi::memory::MANAGED);
        let CudaAttributes { device, device_pointer, host_pointer, .. } = own;
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(out, PointerAttributes { kind, device, device_pointer, host_pointer, managed, flags: 0 }) }
    })
}

fn copy(kind: c_int, of: impl FnOnce(&Cuda, c_int) -> c_int) -> Code {
    guard(|| {
        let (kind, cuda) = (numbers::copy(kind)?, cuda()?);
        checked(cuda, of(cuda, kind))
    })
}

/// HIP's is done when it returns; CUDA's may still be on its way from a buffer of its own to the device.
pub extern "C" fn hipMemcpy(to: Address, from: *const c_void, bytes: usize, kind: c_int) -> Code {
    copy(kind, |cuda, kind| {
        // SAFETY: the caller vouches for both sides.
        match unsafe { (cuda.memcpy)(to, from, bytes, kind) } {
            // SAFETY: the null stream is always there.
            0 => unsafe { (cuda.stream_synchronize)(null_mut()) },
            error => error,
        }
    })
}

pub extern "C" fn hipMemcpyAsync(to: Address, from: *const c_void, bytes: usize, kind: c_int, stream: Address) -> Code {
    // SAFETY: as above.
    copy(kind, |cuda, kind| unsafe { (cuda.memcpy_async)(to, from, bytes, kind, stream) })
}

pub extern "C" fn hipMemcpyWithStream(to: Address, from: *const c_void, bytes: usize, kind: c_int, stream: Address) -> Code {
    copy(kind, |cuda, kind| {
        // SAFETY: the caller vouches for both sides.
        match unsafe { (cuda.memcpy_async)(to, from, bytes, kind, stream) } {
            // SAFETY: the stream is the caller's.
            0 => unsafe { (cuda.stream_synchronize)(stream) },
            error => error,
        }
    })
}

pub extern "C" fn hipMemcpy2DAsync(
    to: Address,
    to_pitch: usize,
    from: *const c_void,
    from_pitch: usize,
    width: usize,
    rows: usize,
    kind: c_int,
    stream: Address,
) -> Code {
    // SAFETY: as above.
    copy(kind, |cuda, kind| unsafe { (cuda.memcpy_2d_async)(to, to_pitch, from, from_pitch, width, rows, kind, stream) })
}

/// The host waits, as with HIP.
pub extern "C" fn hipMemset(to: Address, value: c_int, bytes: usize) -> Code {
    guard(|| {
        let cuda = cuda()?;
        if to.is_null() && bytes > 0 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller vouches for the memory.
        checked(cuda, unsafe { (cuda.memset)(to, value, bytes) })?;
        // SAFETY: the null stream is always there.
        checked(cuda, unsafe { (cuda.stream_synchronize)(null_mut()) })
    })
}

pub extern "C" fn hipMemsetAsync(to: Address, value: c_int, bytes: usize, stream: Address) -> Code {
    // SAFETY: the caller vouches for the memory.
    call(|cuda| unsafe { (cuda.memset_async)(to, value, bytes, stream) })
}
