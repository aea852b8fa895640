//! Whole chains: the operations and their order, what they compute together, shapes and types of what lies between.

use super::*;
use crate::{contract::conv::Argument, conv};

const CONVOLUTION: i32 = descriptor_type::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;

/// Pointwise modes, and 0 for other operations.
fn modes(graph: &Translation) -> Vec<i32> {
    graph.nodes.iter().map(|node| if node.operation == POINTWISE { mode(node) } else { 0 }).collect()
}

fn reads(node: &Node, number: i32) -> i64 {
    let Some(Value::Tensor(uid)) = value(node, number) else { panic!("{number} is no tensor") };
    *uid
}

#[test]
fn convolution_bias_relu_is_what_the_provider_documents() {
    for data_type in FLOATS {
        let graph = translated(&chain(data_type, vec![convolution(data_type), bias(data_type), relu()]));
        assert_eq!(modes(&graph), [0, pointwise_mode::ADD, pointwise_mode::RELU_FWD]);
        let compute = if data_type == DataType::Double { DataType::Double } else { DataType::Float };
        assert_eq!([graph.compute_type, graph.intermediate_type, graph.io_type], [Some(compute), Some(compute), Some(data_type)]);
        assert_eq!(graph.nodes[0].operation, CONVOLUTION);
        let sums = reads(&graph.nodes[0], attribute::OPERATION_CONVOLUTION_FORWARD_Y);
        assert!(tensor(&graph, sums).is_virtual);
        assert_eq!(reads(&graph.nodes[1], attribute::OPERATION_POINTWISE_IN_0_EXT), sums);
        assert_eq!(tensor(&graph, reads(&graph.nodes[1], attribute::OPERATION_POINTWISE_IN_1_EXT)).dims, [1, 4, 1, 1]);
        for node in &graph.nodes[1..] {
            assert_eq!(value(node, attribute::POINTWISE_MATH_PREC), Some(&Value::DataType(compute)));
        }
        assert_eq!(evaluate(&graph, 3.0, &[-1.0]), 2.0);
        assert_eq!(evaluate(&graph, 3.0, &[-4.0]), 0.0);
    }
}

#[test]
fn a_convolution_alone_writes_the_output() {
    let pass_through = || activation(ActivationMode::PassThrough, [f64::NAN; 2]);
    for operations in [vec![convolution(DataType::Half)], vec![convolution(DataType::Half), pass_through(), pass_through()]] {
        let problem = chain(DataType::Half, operations);
        let graph = translated(&problem);
        assert_eq!((modes(&graph), graph.tensors.len()), (vec![0], 3));
        // The same operation as conv's own.
        let alone = crate::fusion::chain::convolution(&problem).unwrap();
        let own = conv::translate(&alone, &capabilities()).unwrap();
        let place = |argument| [1, 3, 2][argument as usize];
        assert_eq!(graph.nodes, [conv::convolution(&alone, DataType::Float, place)]);
        assert_eq!(own.nodes, [conv::convolution(&alone, DataType::Float, |argument: Argument| argument as i64 + 1)]);
    }
    // In whatever conv computes it.
    let mut integers = chain(DataType::Int8, vec![convolution(DataType::Int8), pass_through()]);
    integers.output.data_type = DataType::Int32;
    assert_eq!(translated(&integers).compute_type, Some(DataType::Int32));
}

#[test]
fn a_chain_that_changes_nothing_is_an_identity() {
    let graph = translated(&chain(DataType::Float, vec![activation(ActivationMode::PassThrough, [0.0; 2])]));
    assert_eq!(modes(&graph), [pointwise_mode::IDENTITY]);
    assert_eq!(evaluate(&graph, 3.0, &[]), 3.0);
}

#[test]
fn a_sum_of_everything() {
    let operations = vec![convolution(DataType::Float), addition(DataType::Float), bias(DataType::Float), relu()];
    let graph = translated(&chain(DataType::Float, operations));
    assert_eq!(modes(&graph), [0, pointwise_mode::ADD, pointwise_mode::ADD, pointwise_mode::RELU_FWD]);
    assert_eq!(graph.bindings.iter().map(|b| b.argument).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(evaluate(&graph, 1.0, &[2.0, 4.0]), 7.0);
    assert_eq!(evaluate(&graph, 1.0, &[2.0, -4.0]), 0.0);
}

#[test]
fn normalizations_compute_the_formula() {
    use pointwise_mode::*;
    for mode in [NormalizationMode::Spatial, NormalizationMode::PerActivation] {
        for data_type in FLOATS {
            let alone = translated(&chain(data_type, vec![normalization(mode)]));
            assert_eq!(modes(&alone), [SUB, ADD, RSQRT, MUL, MUL, ADD]);
            let whole = translated(&chain(data_type, vec![convolution(data_type), bias(data_type), normalization(mode), relu()]));
            assert_eq!(modes(&whole), [0, ADD, SUB, ADD, RSQRT, MUL, MUL, ADD, RELU_FWD]);
            let small = &alone.nodes[1];
            let [inverse] = uids(small, hipdnn_abi::Access::Write)[..] else { panic!("one result") };
            let Operation::Normalization(Normalization { parameters, .. }) = normalization(mode) else { panic!() };
            assert_eq!((&tensor(&alone, inverse).dims, tensor(&alone, inverse).is_virtual), (&parameters.dims, true));
            // scale 3, shift −2, mean 1, variance 2; epsilon is 1/4: (7 − 1) / 1.5 · 3 − 2.
            assert!((evaluate(&alone, 7.0, &[3.0, -2.0, 1.0, 2.0]) - 10.0).abs() < 1e-5);
            assert!((evaluate(&whole, 5.0, &[2.0, 3.0, -2.0, 1.0, 2.0]) - 10.0).abs() < 1e-5);
            assert_eq!(evaluate(&whole, 5.0, &[2.0, 3.0, -20.0, 1.0, 2.0]), 0.0);
        }
    }
}

#[test]
fn anything_double_makes_all_double() {
    let graph = translated(&chain(DataType::Half, vec![convolution(DataType::Half), bias(DataType::Double), relu()]));
    assert_eq!(graph.compute_type, Some(DataType::Double));
    assert_eq!(value(&graph.nodes[0], attribute::CONVOLUTION_COMP_TYPE), Some(&Value::DataType(DataType::Double)));
}

#[test]
fn what_lies_between_is_packed_in_the_outputs_order() {
    let mut problem = chain(DataType::Float, vec![convolution(DataType::Float), bias(DataType::Float), relu()]);
    let between = |problem: &Problem| {
        let graph = translated(problem);
        let strides: BTreeSet<Vec<i64>> = graph.tensors.iter().filter(|t| t.is_virtual).map(|t| t.strides.clone()).collect();
        strides.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(between(&problem), [[256, 64, 8, 1]]);
    problem.output.strides = vec![1024, 128, 16, 2];
    assert_eq!(between(&problem), [[256, 64, 8, 1]], "with gaps");
    problem.output.strides = vec![256, 1, 32, 4];
    assert_eq!(between(&problem), [[256, 1, 32, 4]], "channel last");
}

#[test]
fn transposed_convolutions_are_data_gradients() {
    let mut problem = chain(DataType::Float, vec![convolution(DataType::Float), bias(DataType::Float)]);
    let Operation::Convolution(convolution) = &mut problem.operations[0] else { panic!() };
    (convolution.mode, convolution.strides, convolution.output_pads) = (Mode::Transpose, vec![2, 2], vec![1, 1]);
    problem.output = packed(DataType::Float, &[2, 4, 16, 16]);
    let graph = translated(&problem);
    assert_eq!(graph.nodes[0].operation, descriptor_type::BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
    let operands = [attribute::OPERATION_CONVOLUTION_BWD_DATA_DY, attribute::OPERATION_CONVOLUTION_BWD_DATA_W];
    assert_eq!(operands.map(|number| reads(&graph.nodes[0], number)), [1, 3]);
    assert!(tensor(&graph, reads(&graph.nodes[0], attribute::OPERATION_CONVOLUTION_BWD_DATA_DX)).is_virtual);
}

#[test]
fn other_ranks() {
    // One axis: a tensor has no channels, but every other operation has its place.
    let flat = |operations| Problem { input: packed(DataType::Float, &[7]), operations, output: packed(DataType::Float, &[7]) };
    translated(&flat(vec![relu()]));
    let added = Operation::Addition(Addition { tensor: packed(DataType::Float, &[7]), factor: 1.0 });
    translated(&flat(vec![added]));
    let biased = Operation::Bias(Bias { tensor: packed(DataType::Float, &[1]), scaling: PLAIN });
    assert_eq!(declined(&flat(vec![biased]), &capabilities()).as_deref(), Some("fusion.bias.shape"));
}

#[test]
fn notes_are_convs() {
    let noted = |algorithm, operations: usize| {
        let mut problem = chain(DataType::Float, vec![convolution(DataType::Float), bias(DataType::Float), relu()]);
        problem.operations.truncate(operations);
        let Operation::Convolution(convolution) = &mut problem.operations[0] else { panic!() };
        convolution.algorithm = algorithm;
        translated(&problem).notes
    };
    for operations in 1..=3 {
        assert_eq!(noted(Some(1), operations), ["conv.algorithm.ignored"]);
        assert!(noted(Some(5), operations).is_empty() && noted(None, operations).is_empty());
    }
}
