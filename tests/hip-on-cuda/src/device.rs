//! Devices: how many, which is current, what they say about themselves.

use core::ffi::{c_char, c_int, c_uint};

use hip_abi::device::{Description, Properties};

use crate::{
    cuda::{Cuda, call, checked, cuda, text},
    error::{Code, INVALID_VALUE, guard, put},
    numbers,
};

pub extern "C" fn hipInit(flags: c_uint) -> Code {
    guard(|| if flags == 0 { cuda().map(drop) } else { Err(INVALID_VALUE) })
}

fn version(out: *mut c_int, of: impl FnOnce(&Cuda, &mut c_int) -> c_int) -> Code {
    guard(|| {
        let (cuda, mut version) = (cuda()?, 0);
        checked(cuda, of(cuda, &mut version))?;
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(out, numbers::version(version)) }
    })
}

pub unsafe extern "C" fn hipRuntimeGetVersion(out: *mut c_int) -> Code {
    // SAFETY: the place is a local's.
    version(out, |cuda, version| unsafe { (cuda.runtime_version)(version) })
}

pub unsafe extern "C" fn hipDriverGetVersion(out: *mut c_int) -> Code {
    // SAFETY: the place is a local's.
    version(out, |cuda, version| unsafe { (cuda.driver_version)(version) })
}

pub unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> Code {
    // SAFETY: the caller's pointer, which CUDA checks for null.
    call(|cuda| unsafe { (cuda.device_count)(count) })
}

pub extern "C" fn hipSetDevice(device: c_int) -> Code {
    // SAFETY: takes a number.
    call(|cuda| unsafe { (cuda.set_device)(device) })
}

pub unsafe extern "C" fn hipGetDevice(device: *mut c_int) -> Code {
    // SAFETY: the caller's pointer, which CUDA checks for null.
    call(|cuda| unsafe { (cuda.get_device)(device) })
}

pub extern "C" fn hipDeviceSynchronize() -> Code {
    // SAFETY: takes nothing.
    call(|cuda| unsafe { (cuda.device_synchronize)() })
}

/// `cudaDeviceProp` with room to spare. HIP's structure begins like it.
#[repr(C, align(16))]
struct CudaProperties {
    name: [c_char; 256],
    uuid: [u8; 16],
    luid: [u8; 12],
    memory: usize,
    rest: [u8; 4096],
}

fn properties(device: c_int) -> Result<Box<CudaProperties>, Code> {
    let cuda = cuda()?;
    let mut properties = Box::new(CudaProperties { name: [0; 256], uuid: [0; 16], luid: [0; 12], memory: 0, rest: [0; 4096] });
    // SAFETY: the structure has more room than any release writes.
    checked(cuda, unsafe { (cuda.device_properties)((&raw mut *properties).cast(), device) })?;
    Ok(properties)
}

fn attribute(hip: c_int, device: c_int) -> Result<c_int, Code> {
    let (cuda, number, mut value) = (cuda()?, numbers::attribute(hip).ok_or(INVALID_VALUE)?, 0);
    // SAFETY: the place is a local's.
    checked(cuda, unsafe { (cuda.device_attribute)(&mut value, number, device) })?;
    Ok(value)
}

pub unsafe extern "C" fn hipDeviceGetAttribute(out: *mut c_int, hip: c_int, device: c_int) -> Code {
    // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
    guard(|| attribute(hip, device).and_then(|value| unsafe { put(out, value) }))
}

pub unsafe extern "C" fn hipDeviceTotalMem(bytes: *mut usize, device: c_int) -> Code {
    // SAFETY: as above.
    guard(|| properties(device).and_then(|properties| unsafe { put(bytes, properties.memory) }))
}

pub unsafe extern "C" fn hipDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> Code {
    guard(|| {
        let room = usize::try_from(length).ok().filter(|n| *n > 0 && !name.is_null()).ok_or(INVALID_VALUE)? - 1;
        let text = text(&properties(device)?.name);
        let text = &text[..text.len().min(room)];
        // SAFETY: the caller's buffer holds `length` bytes; text and terminator are at most that.
        unsafe {
            name.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
            name.add(text.len()).write(0);
        }
        Ok(())
    })
}

/// The architecture is CUDA's name of the compute capability, which no code object of ROCm's takes for its own.
pub unsafe extern "C" fn hipGetDevicePropertiesR0600(out: *mut Properties, device: c_int) -> Code {
    guard(|| {
        let own = properties(device)?;
        let attribute = |hip| attribute(hip, device).ok();
        let [major, minor] = [23, 61].map(|number| attribute(number).unwrap_or(0));
        let architecture = format!("sm_{major}{minor}");
        let name = text(&own.name);
        let description = Description { name: &name, architecture: architecture.as_bytes(), uuid: own.uuid, memory: own.memory as u64 };
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid for the structure of that version.
        unsafe { put(out, Properties::new(&description, attribute)) }
    })
}
