//! Graphs as hipDNN's clients describe them, and what they are in cuDNN's words. No library is needed.

use std::sync::Arc;

use hipdnn_abi::{attribute as a, convolution_mode, data_type, descriptor_type as k, pointwise_mode as p};
use hipdnn_backend::graph::{DEFAULT_ALIGNMENT, Graph, Node, Setting, Tensor as GraphTensor};

use super::*;

fn tensor(uid: i64, data_type: i32, dims: &[i64]) -> GraphTensor {
    let strides = (0..dims.len()).map(|i| dims[i + 1..].iter().product()).collect();
    GraphTensor { uid, data_type, dims: dims.into(), strides, alignment: DEFAULT_ALIGNMENT, ragged_multiplier: 1, ..GraphTensor::default() }
}

fn between(tensor: GraphTensor) -> GraphTensor {
    GraphTensor { is_virtual: true, ..tensor }
}

fn constant(uid: i64, rank: usize, number: f32) -> GraphTensor {
    GraphTensor { value: Some(number.to_le_bytes().into()), ..tensor(uid, data_type::FLOAT, &vec![1; rank]) }
}

/// A forward convolution from 1 and 2 to `output`, with padding 1.
fn convolution(output: i64, spatial: usize) -> Node {
    let list = |number, value: i64| (number, Setting::Int64(vec![value; spatial]));
    let settings = [
        (a::CONVOLUTION_COMP_TYPE, Setting::Int32(vec![data_type::FLOAT])),
        (a::CONVOLUTION_CONV_MODE, Setting::Int32(vec![convolution_mode::CROSS_CORRELATION])),
        list(a::CONVOLUTION_PRE_PADDINGS, 1),
        list(a::CONVOLUTION_POST_PADDINGS, 1),
        list(a::CONVOLUTION_FILTER_STRIDES, 1),
        list(a::CONVOLUTION_DILATIONS, 1),
    ];
    let tensors = [
        (a::OPERATION_CONVOLUTION_FORWARD_X, vec![1]),
        (a::OPERATION_CONVOLUTION_FORWARD_W, vec![2]),
        (a::OPERATION_CONVOLUTION_FORWARD_Y, vec![output]),
    ];
    Node { kind: k::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, tensors: tensors.into(), settings: settings.into() }
}

fn pointwise(mode: i32, inputs: [i64; 2], output: i64) -> Node {
    let tensors = [
        (a::OPERATION_POINTWISE_IN_0_EXT, vec![inputs[0]]),
        (a::OPERATION_POINTWISE_IN_1_EXT, vec![inputs[1]]),
        (a::OPERATION_POINTWISE_OUT_0_EXT, vec![output]),
    ];
    let settings = [(a::POINTWISE_MODE, mode), (a::POINTWISE_MATH_PREC, data_type::FLOAT)];
    let settings = settings.map(|(number, value)| (number, Setting::Int32(vec![value])));
    Node { kind: k::BACKEND_OPERATION_POINTWISE_DESCRIPTOR, tensors: tensors.into(), settings: settings.into() }
}

fn graph(tensors: impl IntoIterator<Item = GraphTensor>, nodes: impl IntoIterator<Item = Node>) -> Graph {
    Graph {
        name: vec![],
        compute_type: None,
        intermediate_type: None,
        io_type: None,
        override_shapes: false,
        tensors: tensors.into_iter().map(Arc::new).collect(),
        nodes: nodes.into_iter().collect(),
    }
}

const X: [i64; 4] = [2, 3, 8, 8];
const W: [i64; 4] = [4, 3, 3, 3];
const Y: [i64; 4] = [2, 4, 8, 8];

/// result 3 = alpha · convolution + beta · 7, as the shim's translator says it.
fn scaled() -> Graph {
    let float = |uid, dims: &[i64]| tensor(uid, data_type::FLOAT, dims);
    let tensors = [float(1, &X), float(2, &W), float(3, &Y), between(float(4, &Y)), constant(5, 4, 0.5), between(float(6, &Y))];
    let old = [float(7, &Y), constant(8, 4, 0.25), between(float(9, &Y))];
    let nodes = [convolution(4, 2), pointwise(p::MUL, [4, 5], 6), pointwise(p::MUL, [7, 8], 9), pointwise(p::ADD, [6, 9], 3)];
    graph(tensors.into_iter().chain(old), nodes)
}

fn scaled_by(number: f32) -> Graph {
    let mut whole = scaled();
    Arc::make_mut(&mut whole.tensors[4]).value = Some(number.to_le_bytes().into());
    whole
}

fn only_convolution(lowered: &Lowered) -> (i64, f64, f64) {
    match lowered.operations.as_slice() {
        [Operation::Convolution { y, alpha, beta, .. }] => (*y, *alpha, *beta),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_spatial_dimension_gets_another_before_it() {
    let tensors =
        [tensor(1, data_type::FLOAT, &[2, 3, 8]), tensor(2, data_type::FLOAT, &[4, 3, 3]), tensor(3, data_type::FLOAT, &[2, 4, 8])];
    let lowered = lower(&graph(tensors, [convolution(3, 1)])).unwrap();
    let x = &lowered.tensors[0];
    assert_eq!((x.dims.as_slice(), x.strides.as_slice()), ([2, 3, 1, 8].as_slice(), [24, 8, 8, 1].as_slice()));
    let Operation::Convolution { pre_paddings, strides, dilations, .. } = &lowered.operations[0] else { panic!("{lowered:?}") };
    assert_eq!(
        (pre_paddings.as_slice(), strides.as_slice(), dilations.as_slice()),
        ([0, 1].as_slice(), [1, 1].as_slice(), [1, 1].as_slice())
    );
}

#[test]
fn alpha_and_beta_are_the_convolutions() {
    let lowered = lower(&scaled()).unwrap();
    assert_eq!(only_convolution(&lowered), (3, 0.5, 0.25));
    assert_eq!(lowered.arguments, [1, 2, 3], "the old result is where the new one goes");
    assert_eq!(lowered.copies, [Copy { from: 7, to: 3, bytes: 2 * 4 * 64 * 4 }]);
    assert!(lowered.constants.is_empty());
}

#[test]
fn alpha_alone_reads_nothing_old() {
    let whole = scaled();
    let tensors = whole.tensors.iter().filter(|t| t.uid <= 5).map(|t| (**t).clone());
    let lowered = lower(&graph(tensors, [convolution(4, 2), pointwise(p::MUL, [5, 4], 3)])).unwrap();
    assert_eq!(only_convolution(&lowered), (3, 0.5, 0.0));
    assert!(lowered.copies.is_empty());
}

#[test]
fn what_is_more_than_a_scale_stays_a_graph() {
    // The old result in another type, or somewhere else; a step more; a product of two tensors.
    let changed = |change: fn(&mut GraphTensor)| {
        let mut whole = scaled();
        change(Arc::make_mut(&mut whole.tensors[6]));
        whole
    };
    // A copy would move what lies between the elements, which is not the graph's.
    let mut gaps = scaled();
    for place in [2, 6] {
        Arc::make_mut(&mut gaps.tensors[place]).strides = vec![512, 128, 16, 2];
    }
    let mut longer = scaled();
    longer.nodes.push(pointwise(p::ADD, [3, 3], 10));
    longer.tensors.push(Arc::new(tensor(10, data_type::FLOAT, &Y)));
    let mut product = scaled();
    product.nodes[2] = pointwise(p::MUL, [7, 7], 9);
    for whole in [changed(|old| old.data_type = data_type::HALF), changed(|old| old.strides = vec![512, 128, 16, 2]), gaps, longer, product]
    {
        let lowered = lower(&whole).unwrap();
        assert_eq!(lowered.operations.len(), whole.nodes.len(), "{lowered:?}");
    }
}

#[test]
fn constants_are_values_and_go_with_every_rank() {
    let mut whole = scaled();
    // Without the convolution's scale to hide it: a bias that is one number.
    whole.nodes = vec![convolution(4, 2), pointwise(p::ADD, [4, 5], 3)];
    let small = Arc::make_mut(&mut whole.tensors[4]);
    (small.dims, small.strides) = (vec![1], vec![1]);
    let lowered = lower(&whole).unwrap();
    let number = lowered.tensors.iter().find(|tensor| tensor.uid == 5).unwrap();
    assert_eq!((number.dims.as_slice(), number.by_value), ([1; 4].as_slice(), true));
    let [constant] = lowered.constants[..] else { panic!("{lowered:?}") };
    assert_eq!((constant.uid, &constant.bytes[..4]), (5, 0.5f32.to_le_bytes().as_slice()));
    assert!(std::ptr::from_ref(&lowered.constants[0].bytes).addr().is_multiple_of(16));
    assert!(!lowered.arguments.contains(&5));
}

#[test]
fn what_cudnn_has_no_words_for_is_refused() {
    let float = |uid, dims: &[i64]| tensor(uid, data_type::FLOAT, dims);
    let plain = || graph([float(1, &X), float(2, &W), float(3, &Y)], [convolution(3, 2)]);
    assert!(lower(&plain()).is_ok());
    let with = |change: &dyn Fn(&mut Graph)| {
        let mut whole = plain();
        change(&mut whole);
        lower(&whole).unwrap_err()
    };
    let first = |whole: &mut Graph, change: fn(&mut GraphTensor)| change(Arc::make_mut(&mut whole.tensors[0]));
    for (refusal, part) in [
        (with(&|g| g.override_shapes = true), "overridden"),
        (with(&|g| first(g, |x| x.data_type = data_type::FP8_E4M3_FNUZ)), "data type"),
        (with(&|g| first(g, |x| x.data_type = data_type::INT8)), "planes"),
        (with(&|g| first(g, |x| x.dims[0] = 0)), "dimensions"),
        (with(&|g| first(g, |x| x.ragged_offsets = Some(9))), "ragged"),
        (with(&|g| first(g, |x| (x.dims, x.strides) = (vec![1; 6], vec![1; 6]))), "6 dimensions"),
        (with(&|g| g.nodes[0].settings.extend([(a::CONVOLUTION_POST_PADDINGS, Setting::Int64(vec![1, 2]))])), "before and behind"),
        (with(&|g| *g = scaled_by(f32::NAN)), "scaled by NaN"),
        (with(&|g| g.nodes[0].kind = k::BACKEND_OPERATION_MATMUL_DESCRIPTOR), "kind"),
        (with(&|g| g.nodes[0] = pointwise(p::RELU_BWD, [1, 2], 3)), "mode"),
    ] {
        assert!(refusal.contains(part), "{refusal}");
    }
}
