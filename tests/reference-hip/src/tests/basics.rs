//! Memory, handles, capture in one stream, errors, properties: what needs no second stream.

use core::ffi::{CStr, c_int};
use core::ptr::null_mut;

use super::c::*;

#[test]
fn memory_is_aligned_bounded_and_counted() {
    let _one = alone();
    let buffer = device_buffer(100);
    assert_eq!(buffer as usize % 256, 0);
    let host = [7u8; 100];
    let mut back = [0u8; 101];
    let (mut free, mut total) = (0, 0);
    // SAFETY: pointers are to locals of the sizes given, but for the calls that must fail before touching memory.
    unsafe {
        assert_eq!(hipMemcpy(buffer, host.as_ptr().cast(), 100, 1), 0);
        assert_eq!(hipMemcpy(back.as_mut_ptr().cast(), buffer, 100, 2), 0);
        assert_eq!(hipMemcpy(back.as_mut_ptr().cast(), buffer, 101, 2), 1);
        assert_eq!(hipMemcpy(back.as_mut_ptr().cast(), host.as_ptr().cast(), 100, 3), 1);
        assert_eq!(hipMemcpy(buffer, host.as_ptr().cast(), 100, 9), 21);
        assert_eq!(hipMemcpy(null_mut(), buffer, 100, 2), 1);
        assert_eq!(hipMemset(back.as_mut_ptr().cast(), 0, 5), 1);
        assert_eq!(hipMemGetInfo(&mut free, &mut total), 0);
        assert_eq!(hipMalloc(null_mut(), 4), 1);
        assert_eq!(hipMalloc(&mut null_mut(), 1 << 40), 2);
    }
    assert_eq!(&back[..100], host);
    assert!(free < total);
    assert_eq!(hipFree(back.as_mut_ptr().cast()), 1);
    assert_eq!((hipFree(buffer), hipFree(buffer), hipFree(null_mut())), (0, 1, 0));
}

#[test]
fn devices_are_per_thread_and_streams_stay_on_theirs() {
    let _one = alone();
    assert_eq!((hipSetDevice(1), hipSetDevice(2), hipSetDevice(-1)), (0, 101, 101));
    let other = std::thread::spawn(|| {
        let mut device = -1;
        // SAFETY: the pointer is a local's.
        unsafe { hipGetDevice(&mut device) };
        device
    });
    assert_eq!(other.join().unwrap(), 0);
    let stream = stream();
    assert_eq!(hipSetDevice(0), 0);
    let mut device = -1;
    // SAFETY: the pointer is a local's.
    assert_eq!(unsafe { hipStreamGetDevice(stream, &mut device) }, 0);
    assert_eq!(device, 1);
    assert_eq!((hipStreamDestroy(stream), hipStreamDestroy(stream), hipStreamSynchronize(stream)), (0, 1, 1));
    assert_eq!(hipStreamSynchronize(0x1234_5670 as Address), 1);
}

#[test]
fn a_capture_records_and_a_graph_replays() {
    let _one = alone();
    let (stream, buffer) = (stream(), device_buffer(4));
    let mut host = [1u8, 2, 3, 4];
    assert_eq!(status(stream), 0);
    assert_eq!(hipStreamBeginCapture(stream, 1), 0);
    assert_eq!(status(stream), 1);
    // SAFETY: pointers are to locals and an allocation of four bytes.
    assert_eq!(unsafe { hipMemcpyAsync(buffer, host.as_ptr().cast(), 4, 1, stream) }, 0);
    let (code, graph) = end(stream);
    assert_eq!((code, status(stream)), (0, 0));
    let executable = instantiate(graph);
    host = [5, 6, 7, 8];
    assert_eq!(hipGraphLaunch(executable, stream), 0);
    let mut back = [0u8; 4];
    // SAFETY: as above.
    assert_eq!(unsafe { hipMemcpy(back.as_mut_ptr().cast(), buffer, 4, 2) }, 0);
    assert_eq!(back, host);
    assert_eq!(hipFree(buffer), 0);
    assert_eq!(hipGraphLaunch(executable, stream), 1);
    assert_eq!(hipStreamDestroy(stream), 0);
}

#[test]
fn what_capture_forbids_spoils_it() {
    let _one = alone();
    let stream = free_stream();
    let forbidden: [&dyn Fn() -> c_int; 4] = [
        &|| hipStreamSynchronize(stream),
        &|| hipDeviceSynchronize(),
        // SAFETY: the pointer is a local's.
        &|| unsafe { hipMalloc(&mut null_mut(), 16) },
        // SAFETY: the call fails before it looks at the null pointer.
        &|| unsafe { hipMemset(null_mut(), 0, 4) },
    ];
    for call in forbidden {
        assert_eq!(hipStreamBeginCapture(stream, 0), 0);
        assert_eq!(call(), 900);
        assert_eq!(status(stream), 2);
        assert_eq!(end(stream), (901, null_mut()));
    }
    assert_eq!(end(stream).0, 401);
    assert_eq!(hipStreamBeginCapture(null_mut(), 0), 900);
    assert_eq!(hipStreamDestroy(stream), 0);
}

#[test]
fn capture_modes_and_threads() {
    let _one = alone();
    let stream = stream();
    assert_eq!(hipStreamBeginCapture(stream, 2), 0);
    hipFree(device_buffer(8));
    assert_eq!(status(stream), 1);
    assert_eq!(end(stream).0, 0);
    assert_eq!(hipStreamBeginCapture(stream, 1), 0);
    std::thread::spawn(|| hipFree(device_buffer(8))).join().unwrap();
    let address = stream as usize;
    assert_eq!(std::thread::spawn(move || end(address as Address).0).join().unwrap(), 908);
    assert_eq!(status(stream), 1);
    // The legacy stream would have to wait for this blocking one.
    assert_eq!(hipStreamSynchronize(null_mut()), 906);
    assert_eq!(end(stream).0, 901);
    assert_eq!(hipStreamDestroy(stream), 0);
}

#[test]
fn launches_refuse_and_errors_stick() {
    let _one = alone();
    hipGetLastError();
    assert_eq!(hipModuleLaunchKernel(), 801);
    assert_eq!((hipPeekAtLastError(), hipGetLastError(), hipGetLastError()), (801, 801, 0));
    // SAFETY: the function returns a static string.
    assert_eq!(unsafe { CStr::from_ptr(hipGetErrorName(900)) }, c"hipErrorStreamCaptureUnsupported");
}

#[test]
fn properties_name_the_architecture() {
    let mut properties = hip_abi::device::Properties { bytes: [1; 1472] };
    // SAFETY: the pointer is a local's of the right size.
    assert_eq!(unsafe { hipGetDevicePropertiesR0600(&mut properties, 0) }, 0);
    let text = |offset: usize| CStr::from_bytes_until_nul(&properties.bytes[offset..]).unwrap().to_str().unwrap();
    assert_eq!((text(0), text(1160)), ("Reference device on host memory", "gfx942:sramecc+:xnack-"));
    assert_eq!(properties.bytes[388..392], 304i32.to_ne_bytes());
}

#[test]
fn rows_are_copied_by_their_pitches() {
    let _one = alone();
    let (buffer, from) = (device_buffer(64), [1u8, 2, 3, 4, 5, 6, 7, 8]);
    let mut back = [0u8; 40];
    // SAFETY: pointers are to locals and an allocation of 64 bytes, which the rows stay within unless the call must fail.
    unsafe {
        assert_eq!(hipMemset(buffer, 0, 64), 0);
        assert_eq!(hipMemcpy2DAsync(buffer, 16, from.as_ptr().cast(), 4, 3, 2, 1, NULL), 0);
        assert_eq!(hipMemcpy2DAsync(buffer, 2, from.as_ptr().cast(), 4, 3, 2, 1, NULL), 12);
        assert_eq!(hipMemcpy2DAsync(buffer, 16, from.as_ptr().cast(), 4, 4, 5, 1, NULL), 1);
        assert_eq!(hipMemcpy2DAsync(buffer, usize::MAX, from.as_ptr().cast(), 4, 4, 5, 1, NULL), 1);
        assert_eq!(hipMemcpy(back.as_mut_ptr().cast(), buffer, 40, 2), 0);
    }
    assert_eq!((&back[..4], &back[16..20], &back[32..]), (&[1, 2, 3, 0][..], &[5, 6, 7, 0][..], &[0; 8][..]));
    assert_eq!(hipFree(buffer), 0);
}

#[test]
fn launch_configurations_nest() {
    #[repr(C)]
    #[derive(Clone, Copy, Default, PartialEq, Debug)]
    struct Dim3(u32, u32, u32);
    unsafe extern "C" {
        safe fn __hipPushCallConfiguration(grid: Dim3, block: Dim3, shared: usize, stream: Address) -> c_int;
        fn __hipPopCallConfiguration(grid: *mut Dim3, block: *mut Dim3, shared: *mut usize, stream: *mut Address) -> c_int;
    }
    let pop = || {
        let (mut grid, mut block, mut shared, mut stream) = (Dim3::default(), Dim3::default(), 0, NULL);
        // SAFETY: the pointers are locals'.
        let code = unsafe { __hipPopCallConfiguration(&mut grid, &mut block, &mut shared, &mut stream) };
        (code, grid, block, shared, stream)
    };
    let (a, b) = (Dim3(1, 2, 3), Dim3(4, 5, 6));
    assert_eq!((__hipPushCallConfiguration(a, b, 7, PER_THREAD), __hipPushCallConfiguration(b, a, 8, NULL)), (0, 0));
    assert_eq!(pop(), (0, b, a, 8, NULL));
    assert_eq!(pop(), (0, a, b, 7, PER_THREAD));
    assert_eq!(pop().0, 1);
}
