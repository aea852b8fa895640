//! Devices: how many, which is current, what they say about themselves. The figures are those of an MI300X where programs
//! look at them, else zero.

use core::ffi::{c_char, c_int};
use std::{cell::Cell, sync::LazyLock};

use hip_abi::device::{Description, Properties};

use crate::error::{Code, INVALID_DEVICE, INVALID_VALUE, guard, put};
use crate::runtime;

/// How many devices there are.
pub const COUNT: usize = 2;
/// Memory each device claims to have; allocation beyond it fails.
pub const MEMORY: usize = 16 << 30;

const NAME: &[u8] = b"Reference device on host memory";
const ARCHITECTURE: &str = "gfx942:sramecc+:xnack-";
const COMPUTE_UNITS: c_int = 304;
const VERSION: c_int = 70_200_000;

/// What a device says about itself can be another by environment, so that tests can move to another machine.
static IDENTITY: LazyLock<Identity> = LazyLock::new(|| {
    let number = |name: &str, usual| std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual);
    Identity {
        architecture: std::env::var("REFERENCE_HIP_ARCHITECTURE").unwrap_or_else(|_| ARCHITECTURE.into()),
        compute_units: number("REFERENCE_HIP_COMPUTE_UNITS", COMPUTE_UNITS),
        driver: number("REFERENCE_HIP_DRIVER_VERSION", VERSION),
    }
});

struct Identity {
    architecture: String,
    compute_units: c_int,
    driver: c_int,
}

/// Whether programs are told that the host finds the memory of devices where they do. With `REFERENCE_HIP_MEMORY=device` they are told what
/// a GPU tells them, so that tests see who minds it.
pub fn shares_memory() -> bool {
    static SHARES: LazyLock<bool> = LazyLock::new(|| std::env::var("REFERENCE_HIP_MEMORY").is_ok_and(|value| value == "device"));
    !*SHARES
}

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The calling thread's device.
pub fn current() -> usize {
    CURRENT.get()
}

fn checked(device: c_int) -> Result<usize, Code> {
    usize::try_from(device).ok().filter(|d| *d < COUNT).ok_or(INVALID_DEVICE)
}

pub extern "C" fn hipInit(flags: u32) -> Code {
    guard(|| if flags == 0 { Ok(()) } else { Err(INVALID_VALUE) })
}

pub unsafe extern "C" fn hipRuntimeGetVersion(version: *mut c_int) -> Code {
    // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
    guard(|| unsafe { put(version, VERSION) })
}

pub unsafe extern "C" fn hipDriverGetVersion(version: *mut c_int) -> Code {
    // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
    guard(|| unsafe { put(version, IDENTITY.driver) })
}

pub unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> Code {
    // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
    guard(|| unsafe { put(count, COUNT as c_int) })
}

pub extern "C" fn hipSetDevice(device: c_int) -> Code {
    guard(|| checked(device).map(|d| CURRENT.set(d)))
}

pub unsafe extern "C" fn hipGetDevice(device: *mut c_int) -> Code {
    // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
    guard(|| unsafe { put(device, current() as c_int) })
}

pub extern "C" fn hipDeviceSynchronize() -> Code {
    guard(|| {
        let outstanding = runtime::attempt(|r| {
            r.forbid_under_capture()?;
            let device = current();
            Ok(r.outstanding(|s| s.device == device))
        })?;
        runtime::wait(&outstanding)
    })
}

pub unsafe extern "C" fn hipDeviceTotalMem(bytes: *mut usize, device: c_int) -> Code {
    // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
    guard(|| checked(device).and_then(|_| unsafe { put(bytes, MEMORY) }))
}

pub unsafe extern "C" fn hipDeviceGetName(name: *mut c_char, length: c_int, device: c_int) -> Code {
    guard(|| {
        checked(device)?;
        let room = usize::try_from(length).ok().filter(|n| *n > 0 && !name.is_null()).ok_or(INVALID_VALUE)? - 1;
        let text = &NAME[..NAME.len().min(room)];
        // SAFETY: the caller's buffer holds `length` bytes; text and terminator are at most that.
        unsafe {
            name.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
            name.add(text.len()).write(0);
        }
        Ok(())
    })
}

pub unsafe extern "C" fn hipGetDevicePropertiesR0600(properties: *mut Properties, device: c_int) -> Code {
    // SAFETY: `put` checks for null; otherwise the caller's pointer is valid for the struct of that version.
    guard(|| checked(device).and_then(|d| unsafe { put(properties, properties_of(d)) }))
}

fn properties_of(device: usize) -> Properties {
    let mut uuid = [0; 16];
    uuid[0] = device as u8 + 1;
    let description = Description { name: NAME, architecture: IDENTITY.architecture.as_bytes(), uuid, memory: MEMORY as u64 };
    Properties::new(&description, |attribute| attribute_value(attribute, device))
}

/// Values of `hipDeviceAttribute_t`; those that are not named here are 0 where the enum has them.
fn attribute_value(attribute: c_int, device: usize) -> Option<c_int> {
    Some(match attribute {
        3 | 8 | 10 | 85 => 1, // can map host memory, concurrent kernels, cooperative launch, unified addressing
        5 => 2_100_000,       // clock rate
        19 => 4 << 20,        // L2
        23 => 9,              // major
        26..=28 | 56 => 1024, // block
        29 => i32::MAX,       // grid
        30 | 31 => 65536,     //
        57 => 2048,           // threads per multiprocessor
        58 => i32::MAX,       // pitch
        59 => 8192,           // memory bus
        60 => 1_300_000,      // memory clock
        61 => 4,              // minor
        63 | 10_015 => IDENTITY.compute_units, // multiprocessors, physical ones
        67 => device as c_int + 1, // PCI bus
        71 | 72 => 65536,     // registers
        74 | 76 | 10_002 => 64 << 10, // shared memory
        81 => 256,            // texture alignment
        83 => i32::MAX,       // constant memory
        87 => 64,             // wavefront
        0..=98 | 10_000..=10_022 => 0,
        _ => return None,
    })
}

pub unsafe extern "C" fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> Code {
    guard(|| {
        let device = checked(device)?;
        let found = attribute_value(attribute, device).ok_or(INVALID_VALUE)?;
        // SAFETY: `put` checks for null; otherwise the caller's pointer is valid.
        unsafe { put(value, found) }
    })
}
