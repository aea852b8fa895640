//! What programs are told about an address.

use core::ffi::{c_int, c_void};

/// `hipMemoryTypeUnregistered`: not the runtime's, so memory of the host.
pub const UNREGISTERED: c_int = 0;
/// `hipMemoryTypeHost`: pinned.
pub const HOST: c_int = 1;
/// `hipMemoryTypeDevice`.
pub const DEVICE: c_int = 2;
/// `hipMemoryTypeManaged`.
pub const MANAGED: c_int = 3;

/// `hipPointerAttribute_t`, as of ROCm 6.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PointerAttributes {
    /// One of the kinds above.
    pub kind: c_int,
    /// On which device.
    pub device: c_int,
    /// Where a device finds it; null if it cannot.
    pub device_pointer: *mut c_void,
    /// Where the host finds it; null if it cannot.
    pub host_pointer: *mut c_void,
    /// Whether it is managed.
    pub managed: c_int,
    /// How it was allocated.
    pub flags: u32,
}

impl PointerAttributes {
    /// Of an address that no runtime knows.
    pub const UNKNOWN: Self = Self {
        kind: UNREGISTERED,
        device: 0,
        device_pointer: core::ptr::null_mut(),
        host_pointer: core::ptr::null_mut(),
        managed: 0,
        flags: 0,
    };
}
