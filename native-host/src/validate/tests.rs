//! Hand-made bad graphs of every kind. Each starts from a good one and breaks one thing.

use hipdnn_abi::{attribute as number, convolution_mode, descriptor_type, pointwise_mode};

use super::*;

const CONVOLUTION: i32 = descriptor_type::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
const POINTWISE: i32 = descriptor_type::BACKEND_OPERATION_POINTWISE_DESCRIPTOR;

fn arguments() -> [Argument; 3] {
    let argument = |name, extent, written: bool| Argument { name, data_type: DataType::Float, extent, read: !written, written };
    [argument("x", 2 * 4 * 8 * 8, false), argument("w", 4 * 4 * 3 * 3, false), argument("y", 2 * 4 * 8 * 8, true)]
}

fn tensor_of(uid: i64, dims: &[i64]) -> Tensor {
    let strides = (0..dims.len()).map(|i| dims[i + 1..].iter().product()).collect();
    Tensor { uid, data_type: DataType::Float, dims: dims.to_vec(), strides, is_virtual: false, value: None }
}

fn set(number: i32, value: Value) -> Attribute {
    Attribute { number, value }
}

fn convolution(x: i64, w: i64, y: i64) -> Node {
    Node {
        operation: CONVOLUTION,
        attributes: vec![
            set(number::OPERATION_CONVOLUTION_FORWARD_X, Value::Tensor(x)),
            set(number::OPERATION_CONVOLUTION_FORWARD_W, Value::Tensor(w)),
            set(number::OPERATION_CONVOLUTION_FORWARD_Y, Value::Tensor(y)),
            set(number::CONVOLUTION_COMP_TYPE, Value::DataType(DataType::Float)),
            set(number::CONVOLUTION_CONV_MODE, Value::Enumeration(convolution_mode::CROSS_CORRELATION)),
            set(number::CONVOLUTION_DILATIONS, Value::Integers(vec![1, 1])),
            set(number::CONVOLUTION_FILTER_STRIDES, Value::Integers(vec![1, 1])),
            set(number::CONVOLUTION_PRE_PADDINGS, Value::Integers(vec![1, 1])),
            set(number::CONVOLUTION_POST_PADDINGS, Value::Integers(vec![1, 1])),
        ],
    }
}

fn relu(input: i64, output: i64) -> Node {
    Node {
        operation: POINTWISE,
        attributes: vec![
            set(number::OPERATION_POINTWISE_IN_0_EXT, Value::Tensor(input)),
            set(number::OPERATION_POINTWISE_OUT_0_EXT, Value::Tensor(output)),
            set(number::POINTWISE_MODE, Value::Enumeration(pointwise_mode::RELU_FWD)),
            set(number::POINTWISE_MATH_PREC, Value::DataType(DataType::Float)),
        ],
    }
}

fn bind(uid: i64, argument: u32, access: Access) -> Binding {
    Binding { uid, argument, access }
}

fn good() -> ReceivedGraph {
    ReceivedGraph {
        tensors: vec![tensor_of(1, &[2, 4, 8, 8]), tensor_of(2, &[4, 4, 3, 3]), tensor_of(3, &[2, 4, 8, 8])],
        nodes: vec![convolution(1, 2, 3)],
        compute_type: Some(DataType::Float),
        intermediate_type: Some(DataType::Float),
        io_type: Some(DataType::Float),
        bindings: vec![bind(1, 0, Access::Read), bind(2, 1, Access::Read), bind(3, 2, Access::Write)],
        notes: vec![],
    }
}

/// convolution → virtual tensor → ReLU → y.
fn fused() -> ReceivedGraph {
    let mut graph = good();
    graph.tensors.push(Tensor { is_virtual: true, ..tensor_of(4, &[2, 4, 8, 8]) });
    graph.nodes = vec![convolution(1, 2, 4), relu(4, 3)];
    graph
}

#[track_caller]
fn refused(rule: HostRule, edit: impl Fn(&mut ReceivedGraph)) {
    refused_from(good(), rule, edit);
}

#[track_caller]
fn refused_from(mut graph: ReceivedGraph, rule: HostRule, edit: impl Fn(&mut ReceivedGraph)) {
    edit(&mut graph);
    let found = validate(graph, &arguments()).expect_err("the graph was accepted");
    assert_eq!(found.rule, rule, "{found}");
}

#[test]
fn good_graphs_pass() {
    validate(good(), &arguments()).unwrap();
    validate(fused(), &arguments()).unwrap();
}

#[test]
fn sizes_are_bounded() {
    refused(HostRule::GraphSize, |g| g.nodes.clear());
    refused(HostRule::GraphSize, |g| g.nodes = vec![convolution(1, 2, 3); 1_000_000]);
    refused(HostRule::GraphSize, |g| g.tensors = vec![tensor_of(1, &[1]); 65]);
    refused(HostRule::GraphSize, |g| g.bindings = vec![bind(1, 0, Access::Read); 65]);
    refused(HostRule::GraphSize, |g| g.notes = vec![String::new(); 65]);
    refused(HostRule::GraphSize, |g| g.notes = vec!["x".repeat(257)]);
    refused(HostRule::GraphSize, |g| g.tensors[0].dims = vec![1; 17]);
    refused(HostRule::GraphSize, |g| g.tensors[0].strides = vec![1; 17]);
    refused(HostRule::GraphSize, |g| g.tensors[0].value = Some(vec![0; 257]));
    refused(HostRule::GraphSize, |g| g.nodes[0].attributes = vec![set(0, Value::Flag(true)); 65]);
    refused(HostRule::GraphSize, |g| g.nodes[0].attributes[5].value = Value::Integers(vec![1; 65]));
}

#[test]
fn uids_are_unique_and_defined() {
    refused(HostRule::GraphUid, |g| g.tensors[1].uid = 1);
    refused(HostRule::GraphUid, |g| g.bindings.push(bind(9, 0, Access::Read)));
    refused(HostRule::GraphUid, |g| g.nodes[0].attributes[0].value = Value::Tensor(9));
}

#[test]
fn only_operations_of_the_abi() {
    refused(HostRule::GraphOperation, |g| g.nodes[0].operation = 9999);
    refused(HostRule::GraphOperation, |g| g.nodes[0].operation = -1);
    // A descriptor, but no operation: an engine, a plan.
    refused(HostRule::GraphOperation, |g| g.nodes[0].operation = descriptor_type::BACKEND_ENGINE_DESCRIPTOR);
    refused(HostRule::GraphOperation, |g| g.nodes[0].operation = descriptor_type::BACKEND_EXECUTION_PLAN_DESCRIPTOR);
}

#[test]
fn attributes_match_the_abi() {
    for missing in 0..9 {
        refused(HostRule::GraphAttribute, |g| drop(g.nodes[0].attributes.remove(missing)));
    }
    refused(HostRule::GraphAttribute, |g| g.nodes[0].attributes.push(set(number::POINTWISE_MODE, Value::Enumeration(1))));
    refused(HostRule::GraphAttribute, |g| g.nodes[0].attributes.push(set(123_456, Value::Flag(true))));
    refused(HostRule::GraphAttribute, |g| {
        let repeated = g.nodes[0].attributes[3].clone();
        g.nodes[0].attributes.push(repeated);
    });
    for wrong in [
        Value::Flag(true),
        Value::Text("1".into()),
        Value::Floats(vec![1.0]),
        Value::Doubles(vec![1.0]),
        Value::Tensor(1),
        Value::Enumeration(0),
        Value::DataType(DataType::Float),
        Value::Integers(vec![]),
    ] {
        refused(HostRule::GraphAttribute, |g| g.nodes[0].attributes[5].value = wrong.clone());
    }
    refused(HostRule::GraphAttribute, |g| g.nodes[0].attributes[0].value = Value::Integers(vec![1]));
    refused(HostRule::GraphAttribute, |g| g.nodes[0].attributes[0].value = Value::Tensors(vec![1, 1]));
    refused(HostRule::GraphAttribute, |g| g.nodes[0].attributes[4].value = Value::Enumeration(2));
    refused(HostRule::GraphAttribute, |g| g.nodes[0].attributes[3].value = Value::DataType(DataType::Unrecognized));
    refused(HostRule::GraphAttribute, |g| g.nodes[0].attributes[3].value = Value::Enumeration(0));
}

#[test]
fn tensors_make_sense() {
    for dim in [-1, 0] {
        refused(HostRule::GraphTensor, |g| g.tensors[0].dims[1] = dim);
        refused(HostRule::GraphTensor, |g| g.tensors[0].strides[1] = dim);
    }
    refused(HostRule::GraphExtent, |g| g.tensors[0].dims[0] = 1 << 62);
    refused(HostRule::GraphExtent, |g| g.tensors[0].strides[0] = i64::MAX);
    refused(HostRule::GraphTensor, |g| g.tensors[0].dims.truncate(3));
    refused(HostRule::GraphTensor, |g| {
        g.tensors[0].dims.clear();
        g.tensors[0].strides.clear();
    });
    refused(HostRule::GraphTensor, |g| g.tensors[0].data_type = DataType::Int8x4);
    refused(HostRule::GraphTensor, |g| g.io_type = Some(DataType::Unrecognized));
    // A constant of the wrong size, of several elements, or virtual at once.
    refused(HostRule::GraphTensor, |g| g.tensors[0].value = Some(vec![0; 4]));
    refused(HostRule::GraphTensor, |g| g.tensors.push(Tensor { value: Some(vec![0; 3]), ..tensor_of(7, &[1]) }));
    refused(HostRule::GraphTensor, |g| g.tensors.push(Tensor { value: Some(vec![0; 4]), is_virtual: true, ..tensor_of(7, &[1]) }));
}

#[test]
fn every_memory_tensor_is_bound_once_to_what_the_call_allows() {
    refused(HostRule::GraphBinding, |g| g.bindings.truncate(2));
    refused(HostRule::GraphBinding, |g| g.bindings.push(bind(1, 0, Access::Read)));
    refused(HostRule::GraphBinding, |g| g.bindings[0].argument = 3);
    refused(HostRule::GraphBinding, |g| g.bindings[0].argument = u32::MAX);
    refused(HostRule::GraphBinding, |g| g.tensors[0].data_type = DataType::Half);
    refused(HostRule::GraphBinding, |g| g.tensors[0].data_type = DataType::Int32);
    // Writing an input, reading an output.
    refused(HostRule::GraphBinding, |g| g.bindings[0].access = Access::Write);
    refused(HostRule::GraphBinding, |g| g.bindings[2].access = Access::Read);
    refused(HostRule::GraphBinding, |g| g.nodes[0] = convolution(3, 2, 1));
    refused_from(fused(), HostRule::GraphBinding, |g| g.bindings.push(bind(4, 0, Access::Read)));
    refused(HostRule::GraphBinding, |g| {
        g.tensors.push(Tensor { value: Some(vec![0; 4]), ..tensor_of(7, &[1]) });
        g.bindings.push(bind(7, 0, Access::Read));
    });
}

#[test]
fn extents_end_where_the_argument_does() {
    refused(HostRule::GraphExtent, |g| g.tensors[0].dims[0] = 3);
    // One element too far.
    refused(HostRule::GraphExtent, |g| g.tensors[0].strides[0] += 1);
    refused(HostRule::GraphExtent, |g| g.tensors[2].strides[0] += 1);
    refused(HostRule::GraphExtent, |g| g.bindings[0].argument = 1);
}

#[test]
fn outputs_do_not_overlap() {
    refused(HostRule::GraphOverlap, |g| g.tensors[2].strides = vec![256, 64, 1, 1]);
    refused(HostRule::GraphOverlap, |g| g.tensors[2].strides = vec![256, 63, 8, 1]);
}

#[test]
fn arguments_are_not_shared_between_readers_and_writers() {
    let mut arguments = arguments();
    arguments[0].written = true;
    let mut graph = good();
    graph.tensors.push(tensor_of(5, &[2, 4, 8, 8]));
    graph.bindings.push(bind(5, 0, Access::Write));
    // x is now an argument that the call reads and writes: one reader and one writer are the call's own.
    graph.nodes.push(relu(1, 5));
    validate(graph.clone(), &arguments).unwrap();
    graph.tensors.push(tensor_of(6, &[2, 4, 8, 8]));
    graph.bindings.push(bind(6, 0, Access::Write));
    graph.nodes.push(relu(1, 6));
    assert_eq!(validate(graph, &arguments).unwrap_err().rule, HostRule::GraphAliasing);
}

#[test]
fn values_flow_forward() {
    refused_from(fused(), HostRule::GraphOrder, |g| g.nodes.reverse());
    // A cycle of one.
    refused_from(fused(), HostRule::GraphOrder, |g| g.nodes[1] = relu(4, 4));
    refused_from(fused(), HostRule::GraphOrder, |g| g.nodes.push(relu(4, 3)));
    refused_from(fused(), HostRule::GraphOrder, |g| drop(g.nodes.pop()));
    refused_from(fused(), HostRule::GraphOrder, |g| g.nodes = vec![convolution(1, 2, 3)]);
    refused(HostRule::GraphOrder, |g| g.tensors.push(Tensor { value: Some(vec![0; 4]), ..tensor_of(7, &[1]) }));
}

#[test]
fn constants_are_not_written() {
    refused_from(fused(), HostRule::GraphBinding, |g| {
        g.tensors.push(Tensor { value: Some(vec![0; 4]), ..tensor_of(7, &[1]) });
        g.nodes.push(relu(4, 7));
    });
}
