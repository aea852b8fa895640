//! What of a call arrives at CUDA, and what of CUDA's answers at the caller, with a CUDA runtime that only answers.
#![allow(clippy::unwrap_used)]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    path::{Path, PathBuf},
    process::Command,
    ptr::null_mut,
};

use hip_abi::{
    device::Properties,
    error,
    memory::{DEVICE, PointerAttributes},
};

/// The stand-in, built.
fn runtime() -> PathBuf {
    let (source, built) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cudart.c"), Path::new(env!("CARGO_TARGET_TMPDIR")).join("libcudart.so"));
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-Wall", "-Werror"]).arg(source).arg("-o").arg(&built).status().unwrap();
    assert!(compiled.success());
    built
}

fn open(path: &Path) -> *mut c_void {
    let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: neither library has initialisers of its own.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null(), "{}", path.display());
    library
}

fn symbol(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the library is never closed.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!symbol.is_null(), "{name:?}");
    symbol
}

/// A function of the library, by its name and the types of its parameters.
macro_rules! function {
    ($library:expr, $name:literal ($($parameter:ty),*)) => {
        // SAFETY: HIP gives the function this type.
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($parameter),*) -> c_int>(symbol($library, $name)) }
    };
}

type Address = *mut c_void;

#[test]
fn numbers_arrive_as_the_other_side_has_them() {
    let runtime = runtime();
    // SAFETY: the only test of this process, and nothing else reads the environment yet.
    unsafe { std::env::set_var("HIP_ON_CUDA_RUNTIME", &runtime) };
    let hip = open(&std::env::current_exe().unwrap().with_file_name("libhip_on_cuda.so"));
    let cuda = open(&runtime);
    // SAFETY: the stand-in's integers of these names.
    let seen = |name: &CStr| unsafe { *symbol(cuda, name).cast::<c_int>() };

    let (mut number, mut id, mut place) = (0, 0u64, null_mut());
    // SAFETY: all functions have the types that HIP gives them, and all places are locals.
    unsafe {
        assert_eq!(function!(hip, c"hipRuntimeGetVersion"(*mut c_int))(&mut number), 0);
        assert_eq!(number, 130_000_000);
        // hipDeviceAttributeMultiprocessorCount, and one that CUDA does not have.
        let attribute = function!(hip, c"hipDeviceGetAttribute"(*mut c_int, c_int, c_int));
        assert_eq!((attribute(&mut number, 63, 0), number), (0, 1016));
        assert_eq!(attribute(&mut number, 10_003, 0), error::INVALID_VALUE);

        let copy = function!(hip, c"hipMemcpyAsync"(Address, *const c_void, usize, c_int, Address));
        assert_eq!((copy(null_mut(), null_mut(), 0, 1024, null_mut()), seen(c"seen_kind")), (0, 3));
        assert_eq!(copy(null_mut(), null_mut(), 0, 9, null_mut()), error::INVALID_MEMCPY_DIRECTION);

        // hipEventReleaseToSystem says something about caches that CUDA has not.
        let event = function!(hip, c"hipEventCreateWithFlags"(*mut Address, u32));
        assert_eq!((event(&mut place, 0x8000_0002), seen(c"seen_flags")), (0, 2));

        let begin = function!(hip, c"hipStreamBeginCapture"(Address, c_int));
        assert_eq!((begin(null_mut(), 2), seen(c"seen_mode")), (0, 2));
        assert_eq!(begin(null_mut(), 3), error::INVALID_VALUE);
        assert_eq!((function!(hip, c"hipStreamIsCapturing"(Address, *mut c_int))(null_mut(), &mut number), number), (0, 2));
        let info = function!(hip, c"hipStreamGetCaptureInfo"(Address, *mut c_int, *mut u64));
        assert_eq!((info(null_mut(), &mut number, &mut id), number, id), (0, 1, 77));
        let mut mode = 2;
        assert_eq!((function!(hip, c"hipThreadExchangeStreamCaptureMode"(*mut c_int))(&mut mode), mode), (0, 1));
        assert_eq!(seen(c"seen_mode"), 2);

        let mut attributes = PointerAttributes::UNKNOWN;
        let address = 0x1000 as Address;
        assert_eq!(function!(hip, c"hipPointerGetAttributes"(*mut PointerAttributes, Address))(&mut attributes, address), 0);
        assert_eq!((attributes.kind, attributes.device, attributes.device_pointer), (DEVICE, 3, address));
        assert!(attributes.host_pointer.is_null());
    }
    errors(hip);
    description(hip);
}

/// HIP remembers what failed, CUDA no more; what HIP has no number for becomes what it would say.
fn errors(hip: *mut c_void) {
    let mut place = null_mut();
    let last = function!(hip, c"hipGetLastError"());
    // SAFETY: as above.
    unsafe {
        last();
        assert_eq!(function!(hip, c"hipMalloc"(*mut Address, usize))(&mut place, 8), error::ILLEGAL_ADDRESS);
        assert_eq!((function!(hip, c"hipPeekAtLastError"())(), last(), last()), (error::ILLEGAL_ADDRESS, error::ILLEGAL_ADDRESS, 0));
        assert_eq!(function!(hip, c"hipMalloc"(*mut Address, usize))(&mut place, 0), 0);
        assert_eq!(function!(hip, c"hipStreamQuery"(Address))(null_mut()), error::NOT_READY);
        assert_eq!(function!(hip, c"hipModuleLaunchKernel"())(), error::NOT_SUPPORTED);
    }
}

fn description(hip: *mut c_void) {
    let (mut name, mut properties) = ([1 as c_char; 16], Properties { bytes: [1; 1472] });
    // SAFETY: as above.
    unsafe {
        assert_eq!(function!(hip, c"hipDeviceGetName"(*mut c_char, c_int, c_int))(name.as_mut_ptr(), 9, 0), 0);
        assert_eq!(CStr::from_ptr(name.as_ptr()), c"a device");
        assert_eq!(function!(hip, c"hipGetDevicePropertiesR0600"(*mut Properties, c_int))(&mut properties, 0), 0);
    }
    let text = |offset: usize| CStr::from_bytes_until_nul(&properties.bytes[offset..]).unwrap();
    assert_eq!((text(0), text(1160)), (c"a device that is not there", c"sm_10751076"));
    assert_eq!(properties.bytes[256..272], [7; 16]);
    assert_eq!(properties.bytes[288..296], (5u64 << 20).to_ne_bytes());
    assert_eq!(properties.bytes[388..392], 1016i32.to_ne_bytes());
}
