//! A capture in global mode while another thread is cold: alone in its process, since such a capture forbids every other thread's
//! allocations. V33 (c) of the case list.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    ffi::{c_int, c_void},
    ptr::null_mut,
};

use hipdnn_host::{
    data_type::DataType,
    forward::{Call, Host, Outcome},
    problem::{
        ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode, ConvolutionProblem, Problem, TensorDescriptor,
    },
};
use integration_tests::reference;
use libloading::Library;

const NON_BLOCKING: u32 = 1;
const GLOBAL: c_int = 0;

/// A float problem that needs a workspace: y = 2 · conv(x, w), x {2,4,8,8} of ones, w {4,4,1,1} of ones.
fn cold_call(host: &Host, stream: *mut c_void) -> Vec<f32> {
    let tensor = |dims: &[i64], strides: &[i64]| TensorDescriptor::new(DataType::Float, None, dims, strides, 1, None).unwrap();
    let (x, w) = (tensor(&[2, 4, 8, 8], &[256, 64, 8, 1]), tensor(&[4, 4, 1, 1], &[4, 1, 1, 1]));
    let fields = ConvolutionFields::initial(ConvolutionMode::Convolution, vec![0, 0], vec![1, 1], vec![1, 1]);
    let convolution = ConvolutionDescriptor::new(fields).unwrap();
    let direction = ConvolutionDirection::Forward;
    let problem = ConvolutionProblem { direction, convolution: &convolution, x: &x, w: &w, y: &x, alpha: 2.0, beta: 0.0, algorithm: None };
    let (mut input, mut filter, mut output) = (vec![1.0f32; 512], vec![1.0f32; 16], vec![f32::NAN; 512]);
    let pointers = [input.as_mut_ptr().cast(), filter.as_mut_ptr().cast(), output.as_mut_ptr().cast()];
    let state = host.register(stream);
    let call = Call {
        entry_point: "miopenConvolutionForward",
        problem: Problem::Convolution(problem),
        pointers: &pointers,
        workspace: null_mut(),
        workspace_bytes: 0,
    };
    let outcome = host.call(&state, &call);
    assert!(matches!(outcome, Outcome::Served), "{outcome:?}, {:?}", host.census());
    // SAFETY: HIP's function of this name has this type; the buffers are used until the stream is done.
    unsafe {
        let hip = Library::new(reference("libamdhip64.so.7")).unwrap();
        assert_eq!(hip.get::<unsafe extern "C" fn(*mut c_void) -> c_int>(b"hipStreamSynchronize").unwrap()(stream), 0);
    }
    output
}

#[test]
fn a_plan_built_beside_a_global_capture_does_not_disturb_it() {
    let host = integration_tests::host("libhipdnn_backend.so");
    // SAFETY: the stand-in's initialisers do nothing, and HIP's functions of these names have these types.
    unsafe {
        let hip = Library::new(reference("libamdhip64.so.7")).unwrap();
        let create = hip.get::<unsafe extern "C" fn(*mut *mut c_void, u32) -> c_int>(b"hipStreamCreateWithFlags").unwrap();
        let begin = hip.get::<unsafe extern "C" fn(*mut c_void, c_int) -> c_int>(b"hipStreamBeginCapture").unwrap();
        let end = hip.get::<unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int>(b"hipStreamEndCapture").unwrap();
        let allocate = hip.get::<unsafe extern "C" fn(*mut *mut c_void, usize) -> c_int>(b"hipMalloc").unwrap();
        let (mut captured, mut other, mut graph, mut memory) = (null_mut(), null_mut(), null_mut(), null_mut());
        assert_eq!((create(&mut captured, NON_BLOCKING), create(&mut other, NON_BLOCKING)), (0, 0));
        assert_eq!(begin(captured, GLOBAL), 0);
        let stream = other as usize;
        let output = std::thread::scope(|scope| scope.spawn(|| cold_call(&host, stream as *mut c_void)).join().unwrap());
        assert!(output.iter().all(|&y| y == 8.0));
        assert_eq!(end(captured, &mut graph), 0, "the capture was disturbed");
        // The thread got its own mode back, and such a capture forbids what it says.
        assert_eq!(begin(captured, GLOBAL), 0);
        let address = &mut memory as *mut *mut c_void as usize;
        let refused = std::thread::scope(|scope| scope.spawn(|| allocate(address as *mut *mut c_void, 64)).join().unwrap());
        assert_ne!(refused, 0, "the stand-in does not forbid what HIP forbids, so this test shows nothing");
        end(captured, &mut graph);
    }
}
