//! Alpha and beta: the graphs compute what they say, bind what they read, and are left alone where nothing is asked for.

use std::collections::BTreeMap;

use hipdnn_abi::{attribute, descriptor_type, pointwise_mode};

use super::{capabilities, packed, problem};
use crate::{
    contract::{
        conv::{Direction, Mode, Problem},
        graph::{Access, Attribute, Capabilities, DataType, Node, Translation, Value},
    },
    conv::translate,
};

const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::BackwardData, Direction::BackwardWeights];
const FLOATS: [DataType; 4] = [DataType::Float, DataType::Half, DataType::Bfloat16, DataType::Double];
const POINTWISE: i32 = descriptor_type::BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
const ALL_SCALARS: &[f64] = &[0.0, -0.0, 1.0, -1.0, 0.5, 2.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
/// Miri takes a thousand times as long: there, one of each kind.
const SCALARS: &[f64] = if cfg!(miri) { &[0.0, 1.0, 2.0] } else { ALL_SCALARS };

fn pairs() -> impl Iterator<Item = (f64, f64)> {
    SCALARS.iter().flat_map(|&alpha| SCALARS.iter().map(move |&beta| (alpha, beta)))
}

fn translated(problem: &Problem) -> Translation {
    translate(problem, &capabilities()).unwrap()
}

fn value(node: &Node, number: i32) -> &Value {
    &node.attributes.iter().find(|attribute| attribute.number == number).unwrap().value
}

fn tensor(node: &Node, number: i32) -> i64 {
    let Value::Tensor(uid) = value(node, number) else { panic!("{number} is no tensor") };
    *uid
}

/// The attribute of a convolution's result.
fn result_attribute(direction: Direction) -> i32 {
    match direction {
        Direction::Forward => attribute::OPERATION_CONVOLUTION_FORWARD_Y,
        Direction::BackwardData => attribute::OPERATION_CONVOLUTION_BWD_DATA_DX,
        Direction::BackwardWeights => attribute::OPERATION_CONVOLUTION_BWD_FILTER_DW,
    }
}

/// The result's argument, counted from 0.
fn result_argument(direction: Direction) -> u32 {
    match direction {
        Direction::Forward => 2,
        Direction::BackwardData => 0,
        Direction::BackwardWeights => 1,
    }
}

fn reads(graph: &Translation, argument: u32) -> Vec<i64> {
    graph.bindings.iter().filter(|b| b.argument == argument && b.access == Access::Read).map(|b| b.uid).collect()
}

/// One element of the result, if the convolution gives `sum` there and the result was `old` before.
fn evaluate(graph: &Translation, problem: &Problem, sum: f64, old: f64) -> f64 {
    let argument = result_argument(problem.direction);
    let double = graph.compute_type == Some(DataType::Double);
    let mut values: BTreeMap<i64, f64> = reads(graph, argument).into_iter().map(|uid| (uid, old)).collect();
    for constant in &graph.tensors {
        match constant.value.as_deref().unwrap_or_default() {
            [] => {}
            bytes if double => drop(values.insert(constant.uid, f64::from_le_bytes(bytes.try_into().unwrap()))),
            bytes => drop(values.insert(constant.uid, f32::from_le_bytes(bytes.try_into().unwrap()).into())),
        }
    }
    let (convolution, rest) = graph.nodes.split_first().unwrap();
    values.insert(tensor(convolution, result_attribute(problem.direction)), sum);
    for node in rest {
        assert_eq!(node.operation, POINTWISE);
        assert_eq!(*value(node, attribute::POINTWISE_MATH_PREC), Value::DataType(graph.compute_type.unwrap()));
        let [a, b] = [attribute::OPERATION_POINTWISE_IN_0_EXT, attribute::OPERATION_POINTWISE_IN_1_EXT].map(|n| values[&tensor(node, n)]);
        let Value::Enumeration(mode) = *value(node, attribute::POINTWISE_MODE) else { panic!("no mode") };
        let exact = if mode == pointwise_mode::ADD { a + b } else { a * b };
        let rounded = if double { exact } else { f64::from(exact as f32) };
        assert_eq!(values.insert(tensor(node, attribute::OPERATION_POINTWISE_OUT_0_EXT), rounded), None, "written once");
    }
    let written: Vec<_> = graph.bindings.iter().filter(|b| b.access == Access::Write).collect();
    assert_eq!((written.len(), written[0].argument), (1, argument));
    values[&written[0].uid]
}

#[test]
fn the_graph_computes_the_formula() {
    for direction in DIRECTIONS {
        for data_type in FLOATS {
            for (alpha, beta) in pairs() {
                let problem = problem(direction, data_type, [alpha, beta]);
                let graph = translated(&problem);
                for (sum, old) in [(3.0, 5.0), (0.0, f64::INFINITY), (f64::NAN, 1.0), (-2.5, f64::NAN)] {
                    let expected = if beta == 0.0 { alpha * sum } else { alpha * sum + beta * old };
                    let got = evaluate(&graph, &problem, sum, old);
                    let same = got == expected || (got.is_nan() && expected.is_nan());
                    assert!(same, "{data_type:?}: {alpha} * {sum} + {beta} * {old} is {expected}, not {got}");
                }
            }
        }
    }
}

#[test]
fn constants_have_the_compute_type() {
    let double = problem(Direction::Forward, DataType::Double, [1.0 + 1e-12, 0.0]);
    assert_eq!(evaluate(&translated(&double), &double, 1.0, 0.0), 1.0 + 1e-12);
    let half = translated(&problem(Direction::Forward, DataType::Half, [2.0, 3.0]));
    for tensor in half.tensors.iter().filter(|tensor| tensor.is_virtual || tensor.value.is_some()) {
        assert_eq!(tensor.data_type, DataType::Float, "tensor {}", tensor.uid);
    }
    // Sums of mixed types are formed, and scaled, in the widest one.
    let mut mixed = problem(Direction::Forward, DataType::Half, [2.0, 3.0]);
    mixed.w.data_type = DataType::Double;
    assert!(translated(&mixed).tensors.iter().filter(|tensor| tensor.is_virtual).all(|tensor| tensor.data_type == DataType::Double));
}

#[test]
fn nothing_is_there_that_is_not_needed() {
    let counts = |alpha, beta| {
        let graph = translated(&problem(Direction::Forward, DataType::Float, [alpha, beta]));
        (graph.nodes.len(), graph.tensors.len(), graph.bindings.len())
    };
    assert_eq!(counts(1.0, 0.0), (1, 3, 3), "the convolution alone");
    assert_eq!(counts(1.0, -0.0), (1, 3, 3));
    assert_eq!(counts(2.0, 0.0), (2, 5, 3), "a product, its number and its operand; the old result is not read");
    assert_eq!(counts(1.0, 1.0), (2, 5, 4), "a sum, the old result, and the convolution's");
    assert_eq!(counts(2.0, 1.0), (3, 7, 4));
    assert_eq!(counts(1.0, 2.0), (3, 7, 4));
    assert_eq!(counts(2.0, 2.0), (4, 9, 4));
}

#[test]
fn every_tensor_is_defined_once_and_used() {
    for direction in DIRECTIONS {
        for (alpha, beta) in pairs() {
            let graph = translated(&problem(direction, DataType::Float, [alpha, beta]));
            let mut uids: Vec<i64> = graph.tensors.iter().map(|tensor| tensor.uid).collect();
            let mut named: Vec<i64> = graph.nodes.iter().flat_map(|node| &node.attributes).filter_map(uid).collect();
            [&mut uids, &mut named].into_iter().for_each(|list| list.sort_unstable());
            named.dedup();
            assert_eq!(uids, named, "alpha {alpha} beta {beta}");
            let memory = graph.tensors.iter().filter(|tensor| !tensor.is_virtual && tensor.value.is_none());
            assert_eq!(memory.count(), graph.bindings.len());
        }
    }
}

fn uid(attribute: &Attribute) -> Option<i64> {
    if let Value::Tensor(uid) = attribute.value { Some(uid) } else { None }
}

#[test]
fn the_old_result_is_a_tensor_of_its_own() {
    for direction in DIRECTIONS {
        let mut problem = problem(direction, DataType::Half, [2.0, 0.5]);
        // With gaps, which both must have.
        for tensor in [&mut problem.x, &mut problem.w, &mut problem.y] {
            tensor.strides.iter_mut().for_each(|stride| *stride *= 2);
        }
        let (graph, argument) = (translated(&problem), result_argument(direction));
        let read = reads(&graph, argument);
        let [old] = read[..] else { panic!("{read:?}") };
        let result = graph.bindings.iter().find(|binding| binding.access == Access::Write).unwrap().uid;
        let [old, result] = [old, result].map(|uid| graph.tensors.iter().find(|tensor| tensor.uid == uid).unwrap());
        assert_ne!(old.uid, result.uid);
        assert_eq!((old.data_type, &old.dims, &old.strides), (result.data_type, &result.dims, &result.strides));
    }
}

#[test]
fn transposed_convolutions_are_scaled_too() {
    let transposed = Problem { mode: Mode::Transpose, ..problem(Direction::Forward, DataType::Float, [2.0, 3.0]) };
    let graph = translated(&transposed);
    assert_eq!(graph.nodes[0].operation, descriptor_type::BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
    assert_eq!(graph.nodes.len(), 4);
    assert_eq!(reads(&graph, 2).len(), 1);
}

#[test]
fn what_cannot_be_scaled_is_declined() {
    let rule = |problem: &Problem, capabilities: &Capabilities| translate(problem, capabilities).err().map(|decline| decline.rule);
    let [alpha, beta] = ["conv.scaling.alpha", "conv.scaling.beta"].map(|rule| Some(rule.into()));
    for direction in DIRECTIONS {
        let scaled = |data_type| [[2.0, 0.0], [1.0, 2.0], [f64::NAN, f64::NAN]].map(|scalars| problem(direction, data_type, scalars));
        let expected = [alpha.clone(), beta.clone(), alpha.clone()];
        for data_type in [DataType::Int8, DataType::Int32, DataType::Float8E4m3Fnuz] {
            assert_eq!(scaled(data_type).map(|problem| rule(&problem, &capabilities())), expected, "{data_type:?}");
        }
        let mut plain = capabilities();
        plain.operations.retain(|&operation| operation != POINTWISE);
        assert_eq!(scaled(DataType::Half).map(|problem| rule(&problem, &plain)), expected, "no pointwise operations");
        assert_eq!(rule(&problem(direction, DataType::Half, [1.0, 0.0]), &plain), None, "none are needed");
        let mut narrow = capabilities();
        narrow.data_types.retain(|&data_type| data_type != DataType::Float);
        assert_eq!(scaled(DataType::Half).map(|problem| rule(&problem, &narrow)), expected, "no floats between operations");
    }
    let mut integers = problem(Direction::Forward, DataType::Int8, [2.0, 0.0]);
    integers.y = packed(DataType::Float, &[2, 4, 8, 8]);
    assert_eq!(rule(&integers, &capabilities()), alpha, "integers to floats");
}
