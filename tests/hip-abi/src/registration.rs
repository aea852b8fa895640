//! What the compiler writes into every program with kernels: registration of code when the program is loaded, and the launch
//! configuration between `<<<` and `>>>`. Registration succeeds in silence, so that such programs load; launching what was
//! registered refuses (see `launch`). Nothing here is remembered but configurations.

use core::cell::RefCell;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;

use crate::error::{Code, INVALID_VALUE, UNKNOWN, guard, put};

/// `dim3`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: *mut c_void,
}

thread_local! {
    /// A stack, because an argument of a launch may itself launch.
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// What every registration gets as its handle: programs only check and return it.
static REGISTERED: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Accepts whatever code it is.
pub extern "C" fn __hipRegisterFatBinary(_data: *const c_void) -> *mut *mut c_void {
    REGISTERED.as_ptr()
}

/// Nothing was registered.
pub extern "C" fn __hipUnregisterFatBinary(_modules: *mut *mut c_void) {}

/// Ignores its arguments, which the C calling convention of the platform allows.
pub extern "C" fn __hipRegisterFunction() {}

/// As `__hipRegisterFunction`.
pub extern "C" fn __hipRegisterVar() {}

fn configurations<R>(f: impl FnOnce(&mut Vec<Configuration>) -> R) -> Result<R, Code> {
    CONFIGURATIONS.try_with(|c| f(&mut c.borrow_mut())).map_err(|_| UNKNOWN)
}

/// The configuration of the launch to come.
pub extern "C" fn __hipPushCallConfiguration(grid: Dim3, block: Dim3, shared: usize, stream: *mut c_void) -> Code {
    guard(|| configurations(|c| c.push(Configuration { grid, block, shared, stream })))
}

/// Takes it back.
///
/// # Safety
/// Each pointer is null or valid for a write.
pub unsafe extern "C" fn __hipPopCallConfiguration(
    grid: *mut Dim3,
    block: *mut Dim3,
    shared: *mut usize,
    stream: *mut *mut c_void,
) -> Code {
    guard(|| {
        let last = configurations(Vec::pop)?.ok_or(INVALID_VALUE)?;
        // SAFETY: `put` checks for null; otherwise the caller's pointers are valid.
        unsafe {
            put(grid, last.grid)?;
            put(block, last.block)?;
            put(shared, last.shared)?;
            put(stream, last.stream)
        }
    })
}
