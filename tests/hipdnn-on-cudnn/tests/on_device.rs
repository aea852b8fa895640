//! On a device: every engine that is proposed computes what the definition says, asynchronously, on the handle's stream, under capture, and
//! from a saved plan.
//!
//! Where there is no device, each test says so and ends.

#[path = "../../reference-hipdnn/tests/common/mod.rs"]
mod common;
mod engines;

use std::{collections::BTreeMap, ffi::c_void, sync::LazyLock};

use common::{
    fused::{Fused, Operation, Pointwise, Role, Tensor},
    numbers::{channel_last, decode, elements, encode, offsets, strides},
    *,
};
use engines::{Proposal, proposals};
use hipdnn_abi::{attribute as a, behavior_note, data_type, data_type_bytes, pointwise_mode as p};
use hipdnn_on_cudnn::cuda::{Cuda, Memory, Stream};

/// The device, or nothing.
fn cuda() -> Option<&'static Cuda> {
    static FOUND: LazyLock<Option<&'static Cuda>> = LazyLock::new(|| {
        hipdnn_on_cudnn::compute_with_cudnn();
        let found = Cuda::with_device().and_then(|cuda| hipdnn_on_cudnn::cudnn::Library::get().map(|_| cuda));
        found.inspect_err(|error| eprintln!("not tested: no device, or no cuDNN ({error})")).ok()
    });
    *FOUND
}

/// What one tensor's memory holds.
struct Operand {
    tensor: Tensor,
    memory: Memory,
    offsets: Vec<usize>,
}

impl Operand {
    fn new(cuda: &'static Cuda, tensor: &Tensor) -> Self {
        let bytes = elements(&tensor.dims, &tensor.strides) * data_type_bytes(tensor.data_type).expect("sized");
        Self { memory: cuda.allocate(bytes).expect("memory"), offsets: offsets(&tensor.dims, &tensor.strides), tensor: tensor.clone() }
    }

    /// Writes numbers, in the order of indices, and answers what they are in the tensor's type.
    fn fill(&self, numbers: impl Iterator<Item = f64>) -> Vec<f64> {
        let size = data_type_bytes(self.tensor.data_type).expect("sized");
        let mut bytes = self.memory.read().expect("read");
        let mut rounded = Vec::new();
        for (&offset, number) in self.offsets.iter().zip(numbers) {
            let encoded = encode(number, self.tensor.data_type);
            rounded.push(match self.tensor.data_type {
                data_type::INT8 => number.round_ties_even(),
                other => decode(&encoded, other),
            });
            bytes[offset * size..][..size].copy_from_slice(&encoded);
        }
        self.memory.write(&bytes).expect("write");
        rounded
    }

    fn read(&self) -> Vec<f64> {
        let size = data_type_bytes(self.tensor.data_type).expect("sized");
        let bytes = self.memory.read().expect("read");
        let number = |&offset: &usize| match self.tensor.data_type {
            data_type::INT8 => f64::from(bytes[offset] as i8),
            data_type::INT32 => f64::from(i32::from_ne_bytes(bytes[offset * size..][..size].try_into().expect("four"))),
            other => decode(&bytes[offset * size..][..size], other),
        };
        self.offsets.iter().map(number).collect()
    }
}

/// Numbers between −1 and 1 with all the bits of a float; whole numbers for integers.
fn numbers(seed: u64, data_type: i32) -> impl Iterator<Item = f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bits = (state >> 32) as u32;
        if data_type == data_type::INT8 { f64::from(bits % 9) - 4.0 } else { f64::from(bits) / f64::from(1u32 << 31) - 1.0 }
    })
}

/// A graph with its memory and what it must give.
struct Case {
    cuda: &'static Cuda,
    handle: Handle,
    graph: D,
    operands: BTreeMap<i64, Operand>,
    outputs: Vec<i64>,
    expected: BTreeMap<i64, Vec<f64>>,
}

impl Case {
    fn new(cuda: &'static Cuda, fused: &Fused) -> Self {
        let handle = Handle::new();
        let graph = fused.graph(&handle);
        let operands: BTreeMap<i64, Operand> = fused.in_memory().map(|tensor| (tensor.uid, Operand::new(cuda, tensor))).collect();
        let outputs = fused.outputs();
        let mut expected = BTreeMap::new();
        for (uid, operand) in operands.iter().filter(|(uid, _)| !outputs.contains(uid)) {
            expected.insert(*uid, operand.fill(numbers(*uid as u64, operand.tensor.data_type)));
        }
        fused.compute(&mut expected);
        Self { cuda, handle, graph, operands, outputs, expected }
    }

    fn of(cuda: &'static Cuda, case: &Convolution) -> Self {
        let tensors = [(1, &case.x), (2, &case.w), (3, &case.y)].map(|(uid, tensor)| Tensor::memory(uid, tensor));
        Self::new(cuda, &Fused { tensors: tensors.into(), operations: vec![Operation::Convolution(case.clone().into(), [1, 2, 3])] })
    }

    fn pack(&self, workspace: &Memory) -> D {
        let pointers: Vec<(i64, *mut c_void)> = self.operands.iter().map(|(uid, o)| (*uid, o.memory.address())).collect();
        pack(&pointers, workspace.address())
    }

    fn workspace(&self, plan: &D) -> Memory {
        self.cuda.allocate(plan.get_int64(a::EXECUTION_PLAN_WORKSPACE_SIZE) as usize).expect("workspace")
    }

    fn poison(&self) {
        self.outputs.iter().for_each(|uid| self.operands[uid].memory.fill(0x7b).expect("filled"));
    }

    /// Runs a plan on poisoned outputs: the worst error of an output, in shares of its size.
    fn error_of(&self, plan: &D) -> f64 {
        self.poison();
        let workspace = self.workspace(plan);
        assert_eq!(execute(&self.handle, plan, &self.pack(&workspace)), OK, "{}", last_error());
        self.cuda.synchronize().expect("done");
        self.error()
    }

    fn error(&self) -> f64 {
        let of = |uid: &i64| {
            let (got, expected) = (self.operands[uid].read(), &self.expected[uid]);
            let square = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|number| number * number).sum::<f64>().sqrt();
            square(&mut got.iter().zip(expected).map(|(g, e)| g - e)) / square(&mut expected.iter().copied())
        };
        // Something that is no number is the worst.
        self.outputs.iter().map(of).fold(0.0, |worst, error| if error >= worst || error.is_nan() { error } else { worst })
    }

    /// Every engine whose plan cuDNN can make, against the definition; at least one.
    fn check_all_engines(&self, name: &str, most: f64) {
        let mut made = 0;
        let mut worst = (0.0f64, String::new());
        let mut wrong = Vec::new();
        for Proposal { engine, configuration, .. } in proposals(&self.graph) {
            let plan = unfinalized_plan(&configuration);
            if plan.finalize() != OK {
                continue;
            }
            made += 1;
            let error = self.error_of(&plan);
            // Something that is no number is wrong too.
            if error > most || error.is_nan() {
                wrong.push(format!("{engine}: error {error:e}"));
            }
            worst = if error >= worst.0 { (error, engine) } else { worst };
        }
        assert!(wrong.is_empty(), "{name}: {} of {made} engines are wrong by more than {most:e}: {wrong:?}", wrong.len());
        assert!(made > 0, "{name}: no plan");
        println!("{name}: {made} engines, worst error {:.1e} ({})", worst.0, worst.1);
    }

    fn best(&self) -> D {
        let configurations = proposals(&self.graph).into_iter().map(|proposal| unfinalized_plan(&proposal.configuration));
        configurations.into_iter().find(|plan| plan.finalize() == OK).expect("a plan")
    }
}

/// What rounding allows: TF32 would be an error of 3e-4.
fn bound(data_type: i32) -> f64 {
    match data_type {
        data_type::DOUBLE => 1e-13,
        data_type::FLOAT => 5e-6,
        data_type::HALF => 1e-3,
        data_type::BFLOAT16 => 8e-3,
        _ => 0.0,
    }
}

/// 4 × 16 × 14 × 14, 32 filters of 3 × 3.
fn convolution() -> Convolution {
    Convolution::new(&[4, 16, 14, 14], &[32, 16, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]])
}

fn typed(mut case: Convolution, data_type: i32, channels_last: bool) -> Convolution {
    for tensor in [&mut case.x, &mut case.w, &mut case.y] {
        tensor.0 = data_type;
        if channels_last {
            tensor.2 = strides(&tensor.1, &channel_last(tensor.1.len()), 1, 0);
        }
    }
    if data_type == data_type::DOUBLE {
        case.compute = data_type;
    }
    case
}

#[test]
fn convolutions_of_every_type_layout_and_direction() {
    let Some(cuda) = cuda() else { return };
    for data_type in [data_type::FLOAT, data_type::HALF, data_type::BFLOAT16, data_type::DOUBLE] {
        for channels_last in [false, true].into_iter().filter(|last| !last || data_type != data_type::DOUBLE) {
            for direction in DIRECTIONS {
                let case = typed(convolution(), data_type, channels_last).towards(direction);
                let name = format!("type {data_type}, channels last {channels_last}, {direction:?}");
                Case::of(cuda, &case).check_all_engines(&name, bound(data_type));
            }
        }
    }
}

#[test]
fn convolutions_of_every_form() {
    let Some(cuda) = cuda() else { return };
    let form = |x: &[i64], w: &[i64], parameters: [&[i64]; 4]| Convolution::new(x, w, parameters);
    for (name, case) in [
        ("one dimension", form(&[4, 16, 40], &[8, 16, 3], [&[1], &[1], &[2], &[1]])),
        ("three dimensions", form(&[2, 8, 9, 10, 11], &[4, 8, 3, 3, 3], [&[1; 3], &[1; 3], &[1; 3], &[1; 3]])),
        ("groups", form(&[2, 16, 12, 12], &[16, 4, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]])),
        ("depthwise", form(&[2, 16, 12, 12], &[16, 1, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]])),
        ("dilation", form(&[2, 16, 12, 12], &[8, 16, 3, 3], [&[2, 2], &[2, 2], &[1, 1], &[2, 2]])),
        ("stride", form(&[1, 3, 56, 56], &[16, 3, 7, 7], [&[3, 3], &[3, 3], &[2, 2], &[1, 1]])),
        ("one by one", form(&[2, 32, 14, 14], &[64, 32, 1, 1], [&[0, 0], &[0, 0], &[1, 1], &[1, 1]])),
    ] {
        for direction in DIRECTIONS {
            Case::of(cuda, &case.clone().towards(direction)).check_all_engines(&format!("{name}, {direction:?}"), bound(data_type::FLOAT));
        }
    }
}

#[test]
fn bytes_are_summed_in_integers() {
    let Some(cuda) = cuda() else { return };
    for output in [data_type::INT32, data_type::FLOAT] {
        let mut case = typed(convolution(), data_type::INT8, true);
        (case.y.0, case.compute) = (output, data_type::INT32);
        Case::of(cuda, &case).check_all_engines(&format!("bytes, result of type {output}"), 0.0);
    }
}

#[test]
fn scaled_results_of_every_direction() {
    let Some(cuda) = cuda() else { return };
    for data_type in [data_type::FLOAT, data_type::HALF] {
        for direction in DIRECTIONS {
            let fused = Fused::scaled(&typed(convolution(), data_type, false).towards(direction), data_type::FLOAT, 0.5, 0.25);
            Case::new(cuda, &fused).check_all_engines(&format!("scaled, type {data_type}, {direction:?}"), bound(data_type));
        }
    }
}

/// The old result where the new one goes, as MIOpen's clients have it.
#[test]
fn a_scaled_result_in_place() {
    let Some(cuda) = cuda() else { return };
    let case = Case::new(cuda, &Fused::scaled(&convolution(), data_type::FLOAT, 1.0, 1.0));
    let plan = case.best();
    let workspace = case.workspace(&plan);
    let result = &case.operands[&3];
    result.fill(numbers(9, data_type::FLOAT));
    let pointers: Vec<_> =
        case.operands.iter().map(|(uid, o)| (*uid, if *uid == 9 { result.memory.address() } else { o.memory.address() })).collect();
    assert_eq!(execute(&case.handle, &plan, &pack(&pointers, workspace.address())), OK, "{}", last_error());
    cuda.synchronize().expect("done");
    let error = case.error();
    assert!(error <= bound(data_type::FLOAT), "{error:e}");
}

#[test]
fn a_bias_and_an_activation_behind_a_convolution() {
    let Some(cuda) = cuda() else { return };
    for data_type in [data_type::FLOAT, data_type::HALF, data_type::BFLOAT16] {
        let fused = Fused::biased(&typed(convolution(), data_type, data_type != data_type::FLOAT), &[]);
        Case::new(cuda, &fused).check_all_engines(&format!("bias and ReLU, type {data_type}"), bound(data_type));
    }
    // What no engine has ready, cuDNN compiles.
    let leaky = Fused::biased(&typed(convolution(), data_type::HALF, true), &[(a::POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.125)]);
    Case::new(cuda, &leaky).check_all_engines("bias and leaky ReLU", bound(data_type::HALF));
}

#[test]
fn pointwise_operations_alone() {
    let Some(cuda) = cuda() else { return };
    let dims = [4, 32, 14, 14];
    let order = strides(&dims, &channel_last(4), 1, 0);
    for data_type in [data_type::FLOAT, data_type::HALF] {
        let tensor = |uid| Tensor { uid, data_type, dims: dims.into(), strides: order.clone(), role: Role::Memory };
        for (mode, inputs) in [(p::TANH_FWD, &[1][..]), (p::RELU_FWD, &[1]), (p::ADD, &[1, 2]), (p::MUL, &[1, 2])] {
            let tensors = inputs.iter().chain(&[3]).map(|&uid| tensor(uid)).collect();
            let fused = Fused { tensors, operations: vec![Operation::Pointwise(Pointwise::new(mode, inputs, 3))] };
            // Fast hyperbolic functions are good for single precision's last digits, not for its last bit.
            Case::new(cuda, &fused).check_all_engines(&format!("mode {mode}, type {data_type}"), bound(data_type).max(1e-4));
        }
    }
}

#[test]
fn a_plan_from_bytes_computes_the_same() {
    let Some(cuda) = cuda() else { return };
    for (data_type, channels_last) in [(data_type::FLOAT, false), (data_type::HALF, true)] {
        for direction in DIRECTIONS {
            let case = Case::of(cuda, &typed(convolution(), data_type, channels_last).towards(direction));
            let plan = case.best();
            assert!(case.error_of(&plan) <= bound(data_type));
            let output = &case.operands[&case.outputs[0]];
            let first = output.memory.read().expect("read");
            let loaded = load(&case.handle, &save(&plan).expect("saved")).unwrap_or_else(|status| panic!("{status}: {}", last_error()));
            assert!(case.error_of(&loaded) <= bound(data_type));
            // Some engines for gradients sum in an order of their own every time.
            let same = direction != Direction::Forward || output.memory.read().expect("read") == first;
            assert!(same, "type {data_type}, {direction:?}: other bits");
        }
    }
}

/// Every engine that says so (all do) can be recorded, and replaying it runs it on what the memory then holds.
#[test]
fn every_engine_runs_while_its_stream_is_captured() {
    let Some(cuda) = cuda() else { return };
    for (data_type, channels_last) in [(data_type::FLOAT, false), (data_type::HALF, true)] {
        for direction in DIRECTIONS {
            let case = Case::of(cuda, &typed(convolution(), data_type, channels_last).towards(direction));
            let stream = cuda.stream().expect("stream");
            set_stream(&case.handle, &stream);
            for Proposal { engine, notes, configuration, .. } in proposals(&case.graph) {
                let plan = unfinalized_plan(&configuration);
                if plan.finalize() != OK || !notes.contains(&behavior_note::SUPPORTS_GRAPH_CAPTURE) {
                    continue;
                }
                // What an engine loads, it loads in its first execution.
                assert!(case.error_of(&plan) <= bound(data_type), "{engine}");
                let workspace = case.workspace(&plan);
                let pack = case.pack(&workspace);
                case.poison();
                let work = || if execute(&case.handle, &plan, &pack) == OK { Ok(()) } else { Err(last_error()) };
                let recorded = stream.capture(work).unwrap_or_else(|error| panic!("{engine}: {error}"));
                let recorded = recorded.unwrap_or_else(|error| panic!("{engine}: {error}"));
                cuda.synchronize().expect("done");
                let untouched = case.operands[&case.outputs[0]].memory.read().expect("read").iter().all(|&byte| byte == 0x7b);
                assert!(untouched, "{engine}: recording executes nothing");
                for _ in 0..2 {
                    case.poison();
                    recorded.launch(&stream).expect("launched");
                    stream.synchronize().expect("done");
                    assert!(case.error() <= bound(data_type), "{engine}: error {:e}", case.error());
                }
            }
        }
    }
}

fn set_stream(handle: &Handle, stream: &Stream) {
    // SAFETY: both are live.
    assert_eq!(unsafe { hipdnn_backend::abi::hipdnnSetStream(handle.0, stream.raw()) }, OK, "{}", last_error());
}

#[test]
fn execution_is_queued_on_the_stream_that_the_handle_has() {
    let Some(cuda) = cuda() else { return };
    let case = Case::of(cuda, &convolution());
    let plan = case.best();
    assert!(case.error_of(&plan) <= bound(data_type::FLOAT), "warm");
    let workspace = case.workspace(&plan);
    let pack = case.pack(&workspace);
    let (gated, free) = (cuda.stream().expect("stream"), cuda.stream().expect("stream"));
    case.poison();
    // SAFETY: the stream is live.
    let gate = unsafe { cuda.gate(gated.raw()) }.expect("gate");
    set_stream(&case.handle, &gated);
    assert_eq!(execute(&case.handle, &plan, &pack), OK, "{}", last_error());
    assert_eq!(gated.is_idle(), Ok(false), "queued behind the gate");
    // The next call, on another stream, does not wait for the first.
    set_stream(&case.handle, &free);
    assert_eq!(execute(&case.handle, &plan, &pack), OK, "{}", last_error());
    free.synchronize().expect("done");
    assert_eq!(gated.is_idle(), Ok(false));
    drop(gate);
    gated.synchronize().expect("done");
    assert!(case.error() <= bound(data_type::FLOAT));
}
