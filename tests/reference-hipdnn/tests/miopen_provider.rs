//! The profile with the limits of AMD's MIOpen provider: what it takes, what it must not take, and what its engine says about itself.

mod common;

use std::{ffi::c_void, ptr::null_mut, sync::Once};

use common::{
    fused::{Fused, Operation, Pointwise, Role, Tensor},
    *,
};
use hipdnn_abi::{
    attribute as a, attribute_type as t, behavior_note, convolution_mode, data_type as d, descriptor_type as k, pointwise_mode as p,
};
use hipdnn_backend::abi::*;

fn handle() -> Handle {
    static PROFILE: Once = Once::new();
    // SAFETY: every test makes its handle here first, so that no other thread reads the environment before this is done.
    PROFILE.call_once(|| unsafe { std::env::set_var("REFERENCE_HIPDNN_PROFILE", "miopen-provider") });
    Handle::new()
}

fn channel_last(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut next = 1;
    for i in [1].into_iter().chain((2..dims.len()).rev()).chain([0]) {
        strides[i] = next;
        next *= dims[i];
    }
    strides
}

fn with_layout(layout: impl Fn(&[i64]) -> Vec<i64>) -> Convolution {
    let mut case = Convolution::small();
    for tensor in [&mut case.x, &mut case.w, &mut case.y] {
        tensor.2 = layout(&tensor.1);
    }
    case
}

fn with_type(data_type: i32, compute: i32) -> Convolution {
    let mut case = Convolution::small();
    (case.x.0, case.w.0, case.y.0, case.compute) = (data_type, data_type, data_type, compute);
    case
}

fn is_taken_in_all_directions(case: &Convolution) -> bool {
    let handle = handle();
    let taken = DIRECTIONS.map(|direction| case.clone().towards(direction).is_taken(&handle));
    assert!(taken.iter().all(|&other| other == taken[0]), "the limits are those of all directions: {taken:?}, {case:?}");
    taken[0]
}

#[test]
fn what_it_takes() {
    for data_type in [d::FLOAT, d::HALF, d::BFLOAT16] {
        assert!(is_taken_in_all_directions(&with_type(data_type, d::FLOAT)), "{data_type}");
    }
    assert!(is_taken_in_all_directions(&with_layout(channel_last)));
    assert!(is_taken_in_all_directions(&with_layout(|dims| packed(dims).into_iter().map(|stride| stride * 2).collect())), "strided");
    let line = Convolution::new(&[2, 3, 11], &[4, 3, 4], [&[2], &[2], &[2], &[2]]);
    let volume = Convolution::new(&[2, 2, 4, 5, 3], &[3, 2, 2, 3, 2], [&[1; 3], &[1; 3], &[1; 3], &[1; 3]]);
    assert!(is_taken_in_all_directions(&line) && is_taken_in_all_directions(&volume));
    let groups = Convolution::new(&[1, 6, 5, 5], &[4, 3, 3, 3], [&[1, 1], &[1, 1], &[2, 2], &[1, 1]]);
    assert!(is_taken_in_all_directions(&groups));
    let mut depthwise = Convolution::new(&[1, 6, 5, 5], &[6, 1, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]);
    depthwise.x.2 = channel_last(&depthwise.x.1);
    depthwise.y.2 = channel_last(&depthwise.y.1);
    assert!(is_taken_in_all_directions(&depthwise), "a filter of one channel has both layouts");
}

#[test]
fn what_it_does_not_take() {
    let handle = handle();
    let refuses = |case: &Convolution| !is_taken_in_all_directions(case);
    assert!(refuses(&with_type(d::DOUBLE, d::DOUBLE)));
    assert!(refuses(&with_type(d::DOUBLE, d::FLOAT)));
    assert!(refuses(&with_type(d::INT8, d::INT32)));
    assert!(refuses(&with_type(d::INT8, d::FLOAT)));
    assert!(refuses(&with_type(d::FLOAT, d::DOUBLE)), "compute type");
    for i in 0..3 {
        let mut case = with_type(d::HALF, d::FLOAT);
        [&mut case.x, &mut case.w, &mut case.y][i].0 = d::FLOAT;
        assert!(refuses(&case), "mixed types: {i}");
        let mut case = Convolution::small();
        let tensor = [&mut case.x, &mut case.w, &mut case.y].into_iter().nth(i).expect("one of three");
        tensor.2 = channel_last(&tensor.1);
        assert!(refuses(&case), "mixed layouts: {i}");
    }
    assert!(refuses(&Convolution { mode: convolution_mode::CONVOLUTION, ..Convolution::small() }), "true convolution");
    let uneven = Convolution::new(&[1, 2, 5, 5], &[2, 2, 3, 3], [&[2, 0], &[0, 2], &[1, 1], &[1, 1]]);
    assert!(refuses(&uneven), "paddings that differ");
    let swapped = |dims: &[i64]| {
        let mut strides = packed(&[dims[0], dims[1], dims[3], dims[2]]);
        strides.swap(2, 3);
        strides
    };
    assert!(refuses(&with_layout(swapped)), "neither channel first nor channel last");
    let four = Convolution::new(&[1, 2, 3, 2, 3, 2], &[2, 2, 1, 1, 1, 1], [&[0; 4], &[0; 4], &[1; 4], &[1; 4]]);
    assert!(refuses(&four), "rank 6");
    let case = Convolution::small();
    let tensors =
        [(1, &case.x), (2, &case.w), (3, &case.y)].map(|(uid, (data_type, dims, strides))| tensor(uid, *data_type, dims, strides));
    let operation = case.operation([&tensors[0], &tensors[1], &tensors[2]]);
    let two = graph(&handle, &[&operation, &operation]);
    assert_eq!(heuristic(&two).count(a::ENGINEHEUR_RESULTS, t::BACKEND_DESCRIPTOR), (OK, 0), "two operations");
}

/// Forward, then ReLU.
fn activated(case: &Convolution, parameters: &[(i32, f32)]) -> Fused {
    let mut fused = Fused::convolution(case, d::FLOAT);
    let relu = Pointwise { parameters: parameters.to_vec(), ..Pointwise::new(p::RELU_FWD, &[4], 3) };
    fused.operations.push(Operation::Pointwise(relu));
    fused
}

#[test]
fn the_fused_graphs_it_takes() {
    const LOWER: i32 = a::POINTWISE_RELU_LOWER_CLIP;
    const UPPER: i32 = a::POINTWISE_RELU_UPPER_CLIP;
    const SLOPE: i32 = a::POINTWISE_RELU_LOWER_CLIP_SLOPE;
    let handle = handle();
    let forms: [(&[(i32, f32)], bool); 8] = [
        (&[], true),
        (&[(LOWER, 0.0)], true),
        (&[(UPPER, 6.0)], true),
        (&[(LOWER, -1.0), (UPPER, 1.0)], true),
        (&[(SLOPE, 0.1)], true),
        (&[(LOWER, 0.5)], false),
        (&[(SLOPE, 0.1), (UPPER, 6.0)], false),
        (&[(SLOPE, 0.1), (LOWER, 0.5)], false),
    ];
    for data_type in [d::FLOAT, d::HALF, d::BFLOAT16] {
        let case = with_type(data_type, d::FLOAT);
        for (parameters, taken) in forms {
            assert_eq!(Fused::biased(&case, parameters).is_taken(&handle), taken, "{parameters:?}");
            assert_eq!(activated(&case, parameters).is_taken(&handle), taken, "{parameters:?} without bias");
        }
    }
    let mut swapped = Fused::biased(&Convolution::small(), &[]);
    swapped.pointwise_mut(1).inputs.reverse();
    assert!(swapped.is_taken(&handle), "the bias first");
    assert!(Fused::biased(&with_layout(channel_last), &[]).is_taken(&handle));
}

#[test]
fn the_fused_graphs_it_does_not_take() {
    type Change = fn(&mut Fused);
    let changes: [(&str, Change); 13] = [
        ("bias without activation", |f| {
            f.operations.pop();
            f.tensors.retain(|tensor| tensor.uid != 6);
            f.pointwise_mut(1).output = 3;
        }),
        ("another activation", |f| f.pointwise_mut(2).mode = p::SIGMOID_FWD),
        ("a product", |f| f.pointwise_mut(1).mode = p::MUL),
        ("a constant for a bias", |f| *f.tensor_mut(5) = Tensor::constant(5, d::FLOAT, 4, 1.0)),
        ("a bias for each element", |f| *f.tensor_mut(5) = Tensor { uid: 5, ..f.tensor(3).clone() }),
        ("one bias for all", |f| *f.tensor_mut(5) = Tensor::new(5, d::FLOAT, &[1; 4], Role::Memory)),
        ("a bias of another type", |f| f.tensor_mut(5).data_type = d::HALF),
        ("doubles between operations", |f| f.tensor_mut(4).data_type = d::DOUBLE),
        ("another precision", |f| f.pointwise_mut(2).precision = d::DOUBLE),
        ("another layout of the output", |f| f.tensor_mut(3).strides = channel_last(&Convolution::small().y.1)),
        ("something behind the activation", |f| {
            f.tensors.push(Tensor { uid: 10, ..f.tensor(6).clone() });
            f.pointwise_mut(2).output = 10;
            f.operations.push(Operation::Pointwise(Pointwise::new(p::RELU_FWD, &[10], 3)));
        }),
        ("no convolution", |f| {
            f.operations = vec![Operation::Pointwise(Pointwise::new(p::RELU_FWD, &[1], 10))];
            f.tensors.push(Tensor { uid: 10, ..f.tensor(1).clone() });
        }),
        ("the convolution's own sum added", |f| f.pointwise_mut(1).inputs = vec![4, 4]),
    ];
    let handle = handle();
    let fused = Fused::biased(&Convolution::small(), &[]);
    assert!(fused.is_taken(&handle));
    for (name, change) in changes {
        let mut fused = fused.clone();
        change(&mut fused);
        assert!(!fused.is_taken(&handle), "{name}");
    }
    for direction in DIRECTIONS {
        assert!(!Fused::scaled(&Convolution::small().towards(direction), d::FLOAT, 2.0, 1.0).is_taken(&handle), "alpha and beta");
    }
    let data = Convolution::small().towards(Direction::Data);
    let mut gradient = Fused::convolution(&data, d::FLOAT);
    gradient.operations.push(Operation::Pointwise(Pointwise::new(p::RELU_FWD, &[4], 1)));
    assert!(!gradient.is_taken(&handle), "an activation of a gradient");
}

#[test]
fn its_engine() {
    let handle = handle();
    let plan = Convolution::small().plan(&handle);
    assert_eq!(plan.get_int64(a::EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT), 1_563_989_756_945_604_898);
    assert_eq!(save(&plan).err(), Some(UNSUPPORTED), "no serialization");
    let mut id = 0;
    // SAFETY: locals and static text.
    assert_eq!(unsafe { hipdnnGetEngineIdByName_ext(handle.0, c"REFERENCE_ENGINE".as_ptr(), &mut id) }, BAD);
    let configuration = configuration(&Convolution::small().graph(&handle));
    let engine = D(configuration.get::<usize>(a::ENGINECFG_ENGINE, t::BACKEND_DESCRIPTOR, 1).2[0] as *mut c_void);
    let (_, count, notes) = engine.get::<i32>(a::ENGINE_BEHAVIOR_NOTE, t::BEHAVIOR_NOTE, 8);
    for absent in [behavior_note::SUPPORTS_GRAPH_CAPTURE, behavior_note::SUPPORTS_EXECUTION_PLAN_SERIALIZATION] {
        assert!(!notes[..count as usize].contains(&absent), "note {absent}");
    }
}

#[test]
fn its_knob() {
    let handle = handle();
    let graph = Convolution::small().graph(&handle);
    let engine = || D(configuration(&graph).get::<usize>(a::ENGINECFG_ENGINE, t::BACKEND_DESCRIPTOR, 1).2[0] as *mut c_void);
    let knob = D(engine().get::<usize>(a::ENGINE_KNOB_INFO, t::BACKEND_DESCRIPTOR, 1).2[0] as *mut c_void);
    assert_eq!(knob.get::<u8>(a::KNOB_INFO_TYPE, t::CHAR, 20), (OK, 20, b"global.benchmarking\0".to_vec()));
    for (value, expected) in [(0, OK), (1, OK), (2, BAD)] {
        let choice = D::new(k::BACKEND_KNOB_CHOICE_DESCRIPTOR);
        assert_eq!(choice.text(a::KNOB_CHOICE_KNOB_TYPE, "global.benchmarking"), OK);
        assert_eq!(choice.int64s(a::KNOB_CHOICE_KNOB_VALUE, &[value]), OK);
        let configuration = D::new(k::BACKEND_ENGINECFG_DESCRIPTOR);
        assert_eq!(configuration.child(a::ENGINECFG_ENGINE, &engine()), OK);
        assert_eq!(configuration.child(a::ENGINECFG_KNOB_CHOICES, &choice.finalized()), OK);
        assert_eq!(unfinalized_plan(&configuration.finalized()).finalize(), expected, "{value}");
    }
}

#[test]
fn it_computes() {
    let handle = handle();
    let plan = Convolution::new(&[1, 1, 2, 2], &[1, 1, 1, 1], [&[0, 0], &[0, 0], &[1, 1], &[1, 1]]).plan(&handle);
    let mut memory = [(); 4].map(|()| Buffer::new(256, 0));
    let put = |buffer: &mut Buffer, values: &[f32]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        buffer.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
    };
    put(&mut memory[0], &[1.0, 2.0, 3.0, 4.0]);
    put(&mut memory[1], &[2.5]);
    let [x, w, y, workspace] = memory.each_mut().map(Buffer::pointer);
    assert_eq!(execute(&handle, &plan, &pack(&[(1, x), (2, w), (3, y)], workspace)), OK, "{}", last_error());
    let expected: Vec<u8> = [2.5f32, 5.0, 7.5, 10.0].iter().flat_map(|value| value.to_ne_bytes()).collect();
    assert_eq!(&memory[2].bytes()[..16], expected);
    assert_eq!(execute(&handle, &plan, &pack(&[(1, x), (2, w), (3, y)], null_mut())), BAD, "it has a workspace as well");
}
