//! The host alone, on the reference backend: numbers, the host's own declines, workspaces, capture, threads. No shim in between.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    ffi::{c_int, c_void},
    ptr::null_mut,
    sync::{Arc, Barrier, mpsc},
};

use hipdnn_host::{
    data_type::DataType,
    forward::{Call, Host, Outcome},
    handle::HandleState,
    problem::{
        ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode, ConvolutionProblem, Problem, TensorDescriptor,
    },
    rules::HostRule,
};
use integration_tests::reference;
use libloading::Library;

const CALL: &str = "miopenConvolutionForward";

fn host() -> Host {
    integration_tests::host("libhipdnn_backend.so")
}

/// Floats at an address with the alignment that a test wants.
struct Buffer {
    values: Vec<f32>,
    start: usize,
}

impl Buffer {
    fn new(length: usize, offset: usize, value: impl Fn(usize) -> f32) -> Self {
        let mut values = vec![f32::NAN; length + 64];
        let misaligned = values.as_ptr() as usize % 64 / 4;
        let start = (16 - misaligned) % 16 + offset;
        for i in 0..length {
            values[start + i] = value(i);
        }
        Self { values, start }
    }

    fn pointer(&mut self) -> *mut c_void {
        self.values[self.start..].as_mut_ptr().cast()
    }
}

/// x {n,4,8,8} * w {4,4,3,3}, pads 1, small integers: exact in every type and order of summation.
struct Setup {
    convolution: ConvolutionDescriptor,
    x: TensorDescriptor,
    w: TensorDescriptor,
    buffers: [Buffer; 3],
}

const IMAGE: usize = 4 * 8 * 8;
const FILTER: usize = 4 * 4 * 3 * 3;

impl Setup {
    fn new(n: i64, seed: usize, offset: usize) -> Self {
        let fields = ConvolutionFields::initial(ConvolutionMode::Convolution, vec![1, 1], vec![1, 1], vec![1, 1]);
        let tensor = |dims: &[i64], strides: &[i64]| TensorDescriptor::new(DataType::Float, None, dims, strides, 1, None).unwrap();
        let value = move |i: usize| ((i * 7 + seed) % 5) as f32 - 2.0;
        let length = n as usize * IMAGE;
        Self {
            convolution: ConvolutionDescriptor::new(fields).unwrap(),
            x: tensor(&[n, 4, 8, 8], &[256, 64, 8, 1]),
            w: tensor(&[4, 4, 3, 3], &[36, 9, 3, 1]),
            buffers: [
                Buffer::new(length, offset, value),
                Buffer::new(FILTER, offset, move |i| value(i + 3)),
                Buffer::new(length, offset, |_| f32::NAN),
            ],
        }
    }

    fn run(&mut self, host: &Host, state: &HandleState) -> Outcome {
        let pointers = self.buffers.each_mut().map(Buffer::pointer);
        self.run_on(host, state, pointers)
    }

    fn run_on(&self, host: &Host, state: &HandleState, pointers: [*mut c_void; 3]) -> Outcome {
        self.run_scaled(host, state, pointers, (1.0, 0.0))
    }

    fn run_scaled(&self, host: &Host, state: &HandleState, pointers: [*mut c_void; 3], (alpha, beta): (f64, f64)) -> Outcome {
        let problem = ConvolutionProblem {
            direction: ConvolutionDirection::Forward,
            convolution: &self.convolution,
            x: &self.x,
            w: &self.w,
            y: &self.x,
            alpha,
            beta,
            algorithm: None,
        };
        let problem = Problem::Convolution(problem);
        host.call(state, &Call { entry_point: CALL, problem, pointers: &pointers, workspace: null_mut(), workspace_bytes: 0 })
    }

    fn poison(&mut self) {
        wait_for_device();
        let y = &mut self.buffers[2];
        y.values.fill(f32::NAN);
    }

    /// The direct definition, once the device is done. Also that nothing around y was written.
    fn assert_right(&self) {
        wait_for_device();
        let at = |buffer: &Buffer, i: usize| buffer.values[buffer.start + i];
        let (x, w, y) = (&self.buffers[0], &self.buffers[1], &self.buffers[2]);
        let n = self.x.dims()[0] as usize;
        for i in 0..n * IMAGE {
            let (image, k, h, v) = (i / IMAGE, i / 64 % 4, i / 8 % 8, i % 8);
            let mut sum = 0.0f64;
            for (c, r, s) in (0..36).map(|j| (j / 9, j / 3 % 3, j % 3)) {
                let (row, column) = (h + r, v + s);
                if (1..=8).contains(&row) && (1..=8).contains(&column) {
                    let input = at(x, image * IMAGE + c * 64 + (row - 1) * 8 + column - 1);
                    sum += f64::from(input) * f64::from(at(w, k * 36 + c * 9 + r * 3 + s));
                }
            }
            assert_eq!(at(y, i), sum as f32, "element {i}");
        }
        assert!(y.values[..y.start].iter().chain(&y.values[y.start + n * IMAGE..]).all(|v| v.is_nan()), "written outside y");
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        // What is queued may still use the buffers.
        wait_for_device();
    }
}

/// As any program must before it looks at memory that it gave to a stream.
fn wait_for_device() {
    let hip = Hip::load();
    // SAFETY: HIP's function of this name takes nothing.
    assert_eq!(unsafe { hip.0.get::<unsafe extern "C" fn() -> c_int>(b"hipDeviceSynchronize").unwrap()() }, 0);
}

#[track_caller]
fn declined(host: &Host, rule: HostRule) {
    let census = host.census();
    let rules = census.get(CALL).map(|c| c.declined.clone()).unwrap_or_default();
    assert!(rules.contains_key(rule.id()), "{} is not in {rules:?}", rule.id());
}

#[test]
fn the_first_number() {
    let (host, mut setup) = (host(), Setup::new(2, 0, 0));
    let state = host.register(null_mut());
    assert!(matches!(setup.run(&host, &state), Outcome::Served));
    setup.assert_right();
    for _ in 0..10 {
        setup.poison();
        assert!(matches!(setup.run(&host, &state), Outcome::Served));
        setup.assert_right();
    }
    assert_eq!(host.census()[CALL].served, 11);
    host.retire(&state);
    assert_eq!(host.census()[CALL].served, 11, "counts outlive the handle");
}

#[test]
fn every_alignment_is_declared_and_right() {
    let host = host();
    let state = host.register(null_mut());
    for offset in 0..4 {
        let mut setup = Setup::new(1, offset, offset);
        assert!(matches!(setup.run(&host, &state), Outcome::Served), "{offset}");
        setup.assert_right();
    }
}

#[test]
fn null_and_shared_pointers_are_natives() {
    let (host, mut setup) = (host(), Setup::new(1, 0, 0));
    let state = host.register(null_mut());
    let pointers = setup.buffers.each_mut().map(Buffer::pointer);
    for position in 0..3 {
        let mut with_null = pointers;
        with_null[position] = null_mut();
        assert!(matches!(setup.run_on(&host, &state, with_null), Outcome::Native));
    }
    declined(&host, HostRule::PointerNull);
    for shared in [[pointers[0]; 3], [pointers[2], pointers[1], pointers[2]], [pointers[0], pointers[2].wrapping_byte_add(4), pointers[2]]]
    {
        assert!(matches!(setup.run_on(&host, &state, shared), Outcome::Native));
    }
    declined(&host, HostRule::Aliasing);
}

#[test]
fn a_translators_decline_is_remembered() {
    let (host, mut setup) = (host(), Setup::new(1, 0, 0));
    let state = host.register(null_mut());
    let mut fields = setup.convolution.fields().clone();
    fields.attributes = vec![(1, 1)];
    setup.convolution = ConvolutionDescriptor::new(fields).unwrap();
    for _ in 0..100 {
        assert!(matches!(setup.run(&host, &state), Outcome::Native));
    }
    assert_eq!(host.census()[CALL].declined["conv.attribute.deterministic"], 100);
}

#[test]
fn the_time_of_an_earlier_call_is_not_the_last_ones() {
    let (host, mut setup) = (host(), Setup::new(2, 0, 0));
    let state = host.register(null_mut());
    assert!(matches!(setup.run(&host, &state), Outcome::Served));
    assert_eq!(state.kernel_time(), None, "nobody asked for times");
    state.set_profiling(true);
    let pointers = setup.buffers.each_mut().map(Buffer::pointer);
    for _ in 0..2 {
        assert!(matches!(setup.run(&host, &state), Outcome::Served));
        assert!(state.kernel_time().is_some_and(|milliseconds| milliseconds > 0.0));
        assert!(matches!(setup.run_on(&host, &state, [pointers[0]; 3]), Outcome::Native));
        assert_eq!(state.kernel_time(), None, "a declined call's time is native's");
    }
}

/// y = 2·conv + 3·y, twice: the old output is read where it is written, and only there.
#[test]
fn scaling_reads_the_old_output() {
    let (host, mut setup) = (host(), Setup::new(2, 0, 0));
    let state = host.register(null_mut());
    assert!(matches!(setup.run(&host, &state), Outcome::Served));
    setup.assert_right();
    let at = |setup: &Setup, i: usize| setup.buffers[2].values[setup.buffers[2].start + i];
    let plain: Vec<f32> = (0..2 * IMAGE).map(|i| at(&setup, i)).collect();
    let pointers = setup.buffers.each_mut().map(Buffer::pointer);
    for _ in 0..2 {
        assert!(matches!(setup.run_scaled(&host, &state, pointers, (2.0, 3.0)), Outcome::Served));
    }
    wait_for_device();
    // 2c + 3(2c + 3c) = 17c
    assert!((0..2 * IMAGE).all(|i| at(&setup, i) == 17.0 * plain[i]));
}

#[test]
fn a_short_stack_declines_instead_of_overflowing() {
    let host = Arc::new(host());
    let state = host.register(null_mut());
    let (on_thread, handle) = (host.clone(), state.clone());
    let run = move || matches!(Setup::new(1, 0, 0).run(&on_thread, &handle), Outcome::Native);
    let thread = std::thread::Builder::new().stack_size(120 << 10).spawn(run).unwrap();
    assert!(thread.join().unwrap());
    declined(&host, HostRule::StackShort);
    // A thread with room then translates, and the small one is served from what it learnt.
    assert!(matches!(Setup::new(1, 0, 0).run(&host, &state), Outcome::Served));
    let run = move || matches!(Setup::new(1, 0, 0).run(&host, &state), Outcome::Served);
    assert!(std::thread::Builder::new().stack_size(120 << 10).spawn(run).unwrap().join().unwrap());
}

/// Building a plan needs stack too: what another handle has translated does not help.
#[test]
fn a_short_stack_declines_what_is_translated_already() {
    let host = Arc::new(host());
    let (first, second) = (host.register(null_mut()), host.register(null_mut()));
    assert!(matches!(Setup::new(1, 0, 0).run(&host, &first), Outcome::Served));
    let on_small_stack = || {
        let (host, state) = (host.clone(), second.clone());
        let run = move || Setup::new(1, 0, 0).run(&host, &state);
        std::thread::Builder::new().stack_size(120 << 10).spawn(run).unwrap().join().unwrap()
    };
    assert!(matches!(on_small_stack(), Outcome::Native));
    declined(&host, HostRule::StackShort);
    assert!(matches!(Setup::new(1, 0, 0).run(&host, &second), Outcome::Served));
    assert!(matches!(on_small_stack(), Outcome::Served));
}

#[test]
fn missing_libraries_are_declines() {
    let host = integration_tests::host("libno_such_backend.so");
    let state = host.register(null_mut());
    assert!(matches!(Setup::new(1, 0, 0).run(&host, &state), Outcome::Native));
    declined(&host, HostRule::BackendUnavailable);
}

/// HIP as a program would use it.
struct Hip(Library);

impl Hip {
    fn load() -> Self {
        // SAFETY: the stand-in's initialisers do nothing.
        Self(unsafe { Library::new(reference("libamdhip64.so.7")) }.unwrap())
    }

    /// A stream that does not synchronise with the null stream, which other tests of this process use: a capture forbids that.
    fn stream(&self) -> *mut c_void {
        const NON_BLOCKING: u32 = 1;
        let mut stream = null_mut();
        type Create = unsafe extern "C" fn(*mut *mut c_void, u32) -> c_int;
        // SAFETY: HIP's function of this name has this type; the stream is written.
        let code = unsafe { self.0.get::<Create>(b"hipStreamCreateWithFlags").unwrap()(&mut stream, NON_BLOCKING) };
        assert_eq!(code, 0);
        stream
    }

    /// Has the stream stand still until the answer is dropped or sent to.
    fn gate(&self, stream: *mut c_void) -> mpsc::Sender<()> {
        /// # Safety
        /// `data` is a leaked receiver that nobody else uses.
        unsafe extern "C" fn wait(data: *mut c_void) {
            // SAFETY: by the contract of this function.
            let gate = unsafe { Box::from_raw(data.cast::<mpsc::Receiver<()>>()) };
            // An error means that the other side is gone, which opens the gate too.
            let _ = gate.recv();
        }
        type Launch = unsafe extern "C" fn(*mut c_void, unsafe extern "C" fn(*mut c_void), *mut c_void) -> c_int;
        let (open, gate) = mpsc::channel();
        // SAFETY: HIP's function of this name has this type; `wait` is called once with what it takes.
        let code = unsafe { self.0.get::<Launch>(b"hipLaunchHostFunc").unwrap()(stream, wait, Box::into_raw(Box::new(gate)).cast()) };
        assert_eq!(code, 0);
        open
    }

    fn begin_capture(&self, stream: *mut c_void) {
        // Of this thread only: a global capture would forbid the other tests' allocations, as HIP does.
        // SAFETY: as above; 1 is the thread-local mode.
        let status =
            unsafe { self.0.get::<unsafe extern "C" fn(*mut c_void, c_int) -> c_int>(b"hipStreamBeginCapture").unwrap()(stream, 1) };
        assert_eq!(status, 0);
    }

    fn end_capture(&self, stream: *mut c_void) -> c_int {
        let mut graph: *mut c_void = null_mut();
        // SAFETY: as above; the graph is written.
        unsafe {
            self.0.get::<unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int>(b"hipStreamEndCapture").unwrap()(stream, &mut graph)
        }
    }
}

#[test]
fn under_capture_nothing_cold_runs_and_the_capture_survives() {
    let (hip, host) = (Hip::load(), host());
    let stream = hip.stream();
    let state = host.register(stream);
    let mut setup = Setup::new(2, 1, 0);
    hip.begin_capture(stream);
    assert!(matches!(setup.run(&host, &state), Outcome::Native));
    assert_eq!(hip.end_capture(stream), 0, "the capture was disturbed");
    declined(&host, HostRule::CaptureCold);
    assert!(matches!(setup.run(&host, &state), Outcome::Served));
    setup.assert_right();
    hip.begin_capture(stream);
    assert!(matches!(setup.run(&host, &state), Outcome::Served), "a warm plan of an engine that can be captured");
    assert_eq!(hip.end_capture(stream), 0, "the capture was disturbed");
}

#[test]
fn a_call_is_done_in_the_order_of_its_stream_not_at_once() {
    let (hip, host) = (Hip::load(), host());
    let stream = hip.stream();
    let state = host.register(stream);
    let mut setup = Setup::new(2, 3, 0);
    let gate = hip.gate(stream);
    // Cold and warm, while the stream stands still.
    for _ in 0..2 {
        assert!(matches!(setup.run(&host, &state), Outcome::Served));
    }
    let y = setup.buffers[2].pointer().cast::<f32>();
    // SAFETY: inside the buffer, which nobody writes while the stream stands still.
    assert!(unsafe { y.read_volatile() }.is_nan(), "it did not wait for its stream");
    drop(gate);
    setup.assert_right();
}

#[test]
fn streams_have_workspaces_of_their_own() {
    let (hip, host) = (Hip::load(), host());
    let streams = [hip.stream(), hip.stream(), null_mut()];
    let state = host.register(streams[0]);
    for round in 0..6 {
        state.set_stream(streams[round % 3]);
        let mut setup = Setup::new(2, round, 0);
        assert!(matches!(setup.run(&host, &state), Outcome::Served));
        setup.assert_right();
    }
}

#[test]
fn threads_with_handles_of_their_own_are_right() {
    let host = Arc::new(host());
    let threads: Vec<_> = (0..8)
        .map(|seed| {
            let host = host.clone();
            std::thread::spawn(move || {
                let state = host.register(null_mut());
                let mut setup = Setup::new(2, seed, 0);
                for _ in 0..50 {
                    setup.poison();
                    assert!(matches!(setup.run(&host, &state), Outcome::Served));
                    setup.assert_right();
                }
                host.retire(&state);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(host.census()[CALL].served, 400);
}

// V35 of the case list, with the host around it: what one handle finds out, the others know.
#[test]
fn handles_that_meet_a_problem_together_find_out_once() {
    let (host, start) = (Arc::new(host()), Arc::new(Barrier::new(16)));
    let threads: Vec<_> = (0..16)
        .map(|seed| {
            let (host, start) = (host.clone(), start.clone());
            std::thread::spawn(move || {
                let state = host.register(null_mut());
                let mut setup = Setup::new(2, seed, 0);
                start.wait();
                assert!(matches!(setup.run(&host, &state), Outcome::Served));
                setup.assert_right();
                host.retire(&state);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let census = host.census();
    let counted = &census[CALL];
    assert_eq!((counted.translations.built, counted.translations.memory), (1, 15));
    assert_eq!((counted.plans.built, counted.plans.memory), (1, 15));
}

#[test]
fn threads_on_one_handle_are_right_and_never_meet_in_the_backend() {
    let host = Arc::new(host());
    let state = host.register(null_mut());
    let threads: Vec<_> = (0..8)
        .map(|seed| {
            let (host, state) = (host.clone(), state.clone());
            std::thread::spawn(move || {
                let mut setup = Setup::new(1 + seed as i64 % 3, seed, 0);
                for _ in 0..50 {
                    setup.poison();
                    assert!(matches!(setup.run(&host, &state), Outcome::Served));
                    setup.assert_right();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // SAFETY: the library is loaded already; its test function takes nothing.
    let races = unsafe {
        let library = Library::new(reference("libhipdnn_backend.so")).unwrap();
        library.get::<unsafe extern "C" fn() -> u64>(b"reference_hipdnn_races").unwrap()()
    };
    assert_eq!(races, 0);
}

#[test]
fn more_problems_than_the_cache_holds_stay_right() {
    let host = host();
    let state = host.register(null_mut());
    for n in (1..=40).chain(1..=3) {
        let mut setup = Setup::new(n, n as usize, 0);
        assert!(matches!(setup.run(&host, &state), Outcome::Served));
        setup.assert_right();
    }
}
