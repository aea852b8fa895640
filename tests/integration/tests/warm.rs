//! The warm path of the host allocates nothing: not for convolutions, not for chains, not for what is declined; whether statistics are kept
//! or not. Counted by an allocator of this test's; the backends are libraries of their own, with allocators of their own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    ffi::c_void,
    ptr::null_mut,
};

use hipdnn_host::{
    data_type::DataType,
    forward::{Call, Host, Outcome},
    handle::HandleState,
    problem::{
        Activation, ActivationMode, ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode, ConvolutionProblem,
        FusedOperation, FusionProblem, Problem, Scaling, TensorDescriptor,
    },
};
use integration_tests::{host, host_with, reference};

thread_local! {
    static COUNTED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Counts what a thread allocates while it wants to know.
struct Counting;

// SAFETY: all of it is the system's; only a number is kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNTED.try_with(|counted| counted.set(counted.get().map(|count| count + 1)));
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    COUNTED.set(Some(0));
    work();
    COUNTED.take().unwrap()
}

fn float(dims: &[i64]) -> TensorDescriptor {
    let strides: Vec<i64> = (0..dims.len()).map(|i| dims[i + 1..].iter().product()).collect();
    TensorDescriptor::new(DataType::Float, None, dims, &strides, 1, None).unwrap()
}

/// Memory for the largest tensor, aligned as hipMalloc's.
fn buffer() -> *mut c_void {
    let blocks: &'static mut [[f32; 16]] = Box::leak(vec![[0.0; 16]; 64].into_boxed_slice());
    let start = blocks.as_mut_ptr().cast::<u8>();
    start.wrapping_add(start.align_offset(64)).cast()
}

fn call<'a>(problem: Problem<'a>, pointers: &'a [*mut c_void]) -> Call<'a> {
    Call { entry_point: "test", problem, pointers, workspace: null_mut(), workspace_bytes: 0 }
}

fn is_served(host: &Host, state: &HandleState, call: &Call<'_>) -> bool {
    matches!(host.call(state, call), Outcome::Served)
}

#[test]
fn warm_calls_allocate_nothing() {
    warm_rounds(&host("libhipdnn_backend.so"));
}

#[test]
fn warm_calls_that_are_counted_by_problem_allocate_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stats.json");
    let host = host_with("libhipdnn_backend.so", &[("MIOPEN_HIPDNN_STATS", file.as_os_str())]);
    warm_rounds(&host);
    let census = host.census();
    assert_eq!((census["test"].served, census.problems().count()), (204, 3));
    assert_eq!((census["test"].warm_calls.count, census["test"].cold), (303, 3));
}

/// A convolution, a chain, and what is declined: a cold round, one more, and a hundred that are counted.
fn warm_rounds(host: &Host) {
    let pointers = [0; 5].map(|_| buffer());
    let state = host.register(null_mut());
    let fields = ConvolutionFields::initial(ConvolutionMode::Convolution, vec![1, 1], vec![1, 1], vec![1, 1]);
    let convolution = ConvolutionDescriptor::new(fields.clone()).unwrap();
    let declined = ConvolutionDescriptor::new(ConvolutionFields { attributes: vec![(1, 1)], ..fields }).unwrap();
    let (x, w, bias) = (float(&[2, 4, 8, 8]), float(&[4, 4, 3, 3]), float(&[1, 4, 1, 1]));
    let direction = ConvolutionDirection::Forward;
    let problem = ConvolutionProblem { direction, convolution: &convolution, x: &x, w: &w, y: &x, alpha: 1.0, beta: 0.0, algorithm: None };
    let activation = Activation { mode: ActivationMode::Relu, alpha: 0.0, beta: 0.0, gamma: 0.0 };
    let scaling = Scaling::NONE;
    let operations = [
        FusedOperation::Convolution { convolution: &convolution, w: &w, algorithm: None, scaling },
        FusedOperation::Bias { tensor: &bias, scaling },
        FusedOperation::Activation { activation, scaling },
    ];
    let chain = FusionProblem { input: &x, operations: &operations, output: &x };
    let plain = call(Problem::Convolution(problem), &pointers[..3]);
    let fused = call(Problem::Fusion(chain), &pointers[..4]);
    let natives = call(Problem::Convolution(ConvolutionProblem { convolution: &declined, ..problem }), &pointers[..3]);
    let round = |what: &str| {
        assert!(is_served(host, &state, &plain), "{what}");
        assert!(is_served(host, &state, &fused), "{what}");
        assert!(!is_served(host, &state, &natives), "{what}");
    };
    assert!(allocations(|| round("cold")) > 0, "the counter does not count");
    round("the second time");
    let counted = allocations(|| (0..100).for_each(|_| round("warm")));
    assert_eq!(counted, 0);
    // SAFETY: HIP's function of this name takes nothing; queued work uses the buffers.
    unsafe {
        let hip = libloading::Library::new(reference("libamdhip64.so.7")).unwrap();
        hip.get::<unsafe extern "C" fn() -> i32>(b"hipDeviceSynchronize").unwrap()();
    }
    host.retire(&state);
}
