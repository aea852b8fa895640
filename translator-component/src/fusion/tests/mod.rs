//! Chains as a whole, natively: what their tests share. One module per subject.

mod activations;
mod chains;
mod random;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use hipdnn_abi::{attribute, descriptor_type, pointwise_mode};

use super::translate;
use crate::contract::{
    conv::Mode,
    fusion::{Activation, ActivationMode, Addition, Bias, Convolution, Normalization, NormalizationMode, Operation, Problem, Scaling},
    graph::{Access, Attribute, Capabilities, DataType, Node, Tensor, TensorDescriptor, Translation, Value},
};

const POINTWISE: i32 = descriptor_type::BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
const FLOATS: [DataType; 4] = [DataType::Float, DataType::Half, DataType::Bfloat16, DataType::Double];
const PLAIN: Scaling = Scaling { alpha: 1.0, beta: 0.0 };

fn packed(data_type: DataType, dims: &[i64]) -> TensorDescriptor {
    let strides = (0..dims.len()).map(|i| dims[i + 1..].iter().product()).collect();
    TensorDescriptor { data_type, cast_type: None, dims: dims.to_vec(), strides, vector_length: 1, layout: None }
}

/// w {4,4,3,3}, pads 1.
fn convolution(data_type: DataType) -> Operation {
    Operation::Convolution(Convolution {
        mode: Mode::Convolution,
        w: packed(data_type, &[4, 4, 3, 3]),
        pads: vec![1, 1],
        strides: vec![1, 1],
        dilations: vec![1, 1],
        output_pads: vec![0, 0],
        group_count: 1,
        attributes: vec![],
        algorithm: None,
        scaling: PLAIN,
    })
}

fn bias(data_type: DataType) -> Operation {
    Operation::Bias(Bias { tensor: packed(data_type, &[1, 4, 1, 1]), scaling: PLAIN })
}

fn addition(data_type: DataType) -> Operation {
    Operation::Addition(Addition { tensor: packed(data_type, &[2, 4, 8, 8]), factor: 1.0 })
}

fn normalization(mode: NormalizationMode) -> Operation {
    let dims: &[i64] = if mode == NormalizationMode::Spatial { &[1, 4, 1, 1] } else { &[1, 4, 8, 8] };
    Operation::Normalization(Normalization { mode, parameters: packed(DataType::Float, dims), epsilon: 0.25, scaling: PLAIN })
}

fn activation(mode: ActivationMode, [alpha, beta]: [f64; 2]) -> Operation {
    Operation::Activation(Activation { mode, alpha, beta, gamma: 1.0, scaling: PLAIN })
}

fn relu() -> Operation {
    activation(ActivationMode::Relu, [0.0, 0.0])
}

/// Input and output {2,4,8,8}, which all operations above fit.
fn chain(data_type: DataType, operations: Vec<Operation>) -> Problem {
    Problem { input: packed(data_type, &[2, 4, 8, 8]), operations, output: packed(data_type, &[2, 4, 8, 8]) }
}

fn capabilities() -> Capabilities {
    Capabilities {
        backend_version: "0.4.0.test".into(),
        operations: (15..=19).collect(),
        data_types: vec![DataType::Half, DataType::Float, DataType::Double, DataType::Bfloat16, DataType::Int8, DataType::Int32],
        plan_serialization: true,
    }
}

/// The graph, which is whole.
fn translated(problem: &Problem) -> Translation {
    let graph = translate(problem, &capabilities()).unwrap();
    check(problem, &graph);
    graph
}

/// The rule that declines.
fn declined(problem: &Problem, capabilities: &Capabilities) -> Option<String> {
    translate(problem, capabilities).err().map(|decline| {
        assert!(!decline.message.is_empty(), "{}", decline.rule);
        decline.rule
    })
}

fn value(node: &Node, number: i32) -> Option<&Value> {
    node.attributes.iter().find(|attribute| attribute.number == number).map(|attribute| &attribute.value)
}

fn mode(node: &Node) -> i32 {
    let Some(Value::Enumeration(mode)) = value(node, attribute::POINTWISE_MODE) else { panic!("no mode") };
    *mode
}

fn float(node: &Node, number: i32) -> Option<f64> {
    let Value::Floats(list) = value(node, number)? else { panic!("{number} is no float") };
    let [value] = list[..] else { panic!("{number} has {} values", list.len()) };
    Some(value.into())
}

fn tensor(graph: &Translation, uid: i64) -> &Tensor {
    graph.tensors.iter().find(|tensor| tensor.uid == uid).unwrap()
}

/// The tensors that a node reads or writes, by what the ABI says of its attributes.
fn uids(node: &Node, access: hipdnn_abi::Access) -> Vec<i64> {
    let spec = hipdnn_abi::descriptor(node.operation).filter(|spec| spec.is_operation).unwrap();
    let uid = |attribute: &Attribute| match (spec.attribute(attribute.number).unwrap().access, &attribute.value) {
        (Some(found), Value::Tensor(uid)) => (found == access).then_some(*uid),
        (None, Value::Tensor(_)) => panic!("attribute {} takes no tensor", attribute.number),
        _ => None,
    };
    node.attributes.iter().filter_map(uid).collect()
}

/// Tensors are defined once and used, virtual ones written before they are read; memory is bound, each argument once, with the type and
/// the shape of its descriptor; attributes are those of their operations.
fn check(problem: &Problem, graph: &Translation) {
    let ids: BTreeSet<i64> = graph.tensors.iter().map(|tensor| tensor.uid).collect();
    assert_eq!(ids.len(), graph.tensors.len(), "uids are unique");
    assert!(graph.tensors.len() <= 64 && graph.nodes.len() <= 64 && !graph.nodes.is_empty());
    let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
    for node in &graph.nodes {
        for uid in uids(node, hipdnn_abi::Access::Read) {
            assert!(!tensor(graph, uid).is_virtual || written.contains(&uid), "{uid} is read before it is written");
            read.insert(uid);
        }
        for uid in uids(node, hipdnn_abi::Access::Write) {
            assert!(tensor(graph, uid).value.is_none() && written.insert(uid), "{uid} is written twice, or a constant");
        }
        let numbers: BTreeSet<i32> = node.attributes.iter().map(|attribute| attribute.number).collect();
        assert_eq!(numbers.len(), node.attributes.len(), "attributes are set once");
    }
    let bound: BTreeMap<i64, (u32, Access)> = graph.bindings.iter().map(|b| (b.uid, (b.argument, b.access))).collect();
    let arguments = arguments(problem);
    assert_eq!(graph.bindings.len(), arguments.len(), "every argument is bound once");
    for tensor in &graph.tensors {
        let compute = graph.compute_type.unwrap();
        match bound.get(&tensor.uid) {
            Some(&(argument, access)) => {
                let descriptor = arguments[argument as usize];
                assert!(!tensor.is_virtual && tensor.value.is_none());
                assert_eq!(
                    (tensor.data_type, &tensor.dims, &tensor.strides),
                    (descriptor.data_type, &descriptor.dims, &descriptor.strides)
                );
                assert_eq!(access == Access::Write, argument == 1, "only the output is written");
                let (written, read) = (written.contains(&tensor.uid), read.contains(&tensor.uid));
                assert_eq!((written, read), (argument == 1, argument != 1), "argument {argument}");
            }
            None if tensor.is_virtual => {
                assert!(written.contains(&tensor.uid) && read.contains(&tensor.uid) && tensor.data_type == compute);
            }
            None => {
                let size = if compute == DataType::Double { 8 } else { 4 };
                assert_eq!(tensor.value.as_ref().map(Vec::len), Some(size), "a constant of the compute type");
                assert!(tensor.dims.iter().all(|&dim| dim == 1) && read.contains(&tensor.uid) && tensor.data_type == compute);
            }
        }
    }
}

/// The descriptors of all arguments, in order.
fn arguments(problem: &Problem) -> Vec<&TensorDescriptor> {
    let mut arguments = vec![&problem.input, &problem.output];
    for operation in &problem.operations {
        match operation {
            Operation::Convolution(convolution) => arguments.push(&convolution.w),
            Operation::Addition(addition) => arguments.push(&addition.tensor),
            Operation::Bias(bias) => arguments.push(&bias.tensor),
            Operation::Normalization(normalization) => arguments.extend([&normalization.parameters; 4]),
            Operation::Activation(_) | Operation::Other(_) => {}
        }
    }
    arguments
}

/// One element of the output, where the input, or the convolution of it, is `x` and the operands are `operands`, w left out.
fn evaluate(graph: &Translation, x: f64, operands: &[f64]) -> f64 {
    let double = graph.compute_type == Some(DataType::Double);
    let round = |value: f64| if double { value } else { f64::from(value as f32) };
    let convolved = graph.nodes[0].operation != POINTWISE;
    let mut values: BTreeMap<i64, f64> = BTreeMap::new();
    for binding in graph.bindings.iter().filter(|binding| binding.access == Access::Read) {
        let operand = (binding.argument as usize).checked_sub(2 + usize::from(convolved));
        values.insert(binding.uid, operand.map_or(x, |operand| operands[operand]));
    }
    for constant in &graph.tensors {
        match constant.value.as_deref().unwrap_or_default() {
            [] => {}
            bytes if double => drop(values.insert(constant.uid, f64::from_le_bytes(bytes.try_into().unwrap()))),
            bytes => drop(values.insert(constant.uid, f32::from_le_bytes(bytes.try_into().unwrap()).into())),
        }
    }
    for node in &graph.nodes {
        let out = uids(node, hipdnn_abi::Access::Write)[0];
        let result = if node.operation == POINTWISE { apply(node, &values) } else { x };
        values.insert(out, round(result));
    }
    let written = graph.bindings.iter().find(|binding| binding.access == Access::Write).unwrap();
    values[&written.uid]
}

/// The modes as the ABI's reference has them.
fn apply(node: &Node, values: &BTreeMap<i64, f64>) -> f64 {
    let operand = |number| match value(node, number) {
        Some(Value::Tensor(uid)) => Some(values[uid]),
        _ => None,
    };
    let a = operand(attribute::OPERATION_POINTWISE_IN_0_EXT).unwrap();
    let b = operand(attribute::OPERATION_POINTWISE_IN_1_EXT);
    match mode(node) {
        pointwise_mode::ADD => a + b.unwrap(),
        pointwise_mode::SUB => a - b.unwrap(),
        pointwise_mode::MUL => a * b.unwrap(),
        unary => {
            assert_eq!(b, None, "mode {unary} has one operand");
            match unary {
                pointwise_mode::IDENTITY => a,
                pointwise_mode::ABS => a.abs(),
                pointwise_mode::RSQRT => a.sqrt().recip(),
                pointwise_mode::TANH_FWD => a.tanh(),
                pointwise_mode::SIGMOID_FWD => 1.0 / (1.0 + (-a).exp()),
                pointwise_mode::SOFTPLUS_FWD => {
                    let beta = float(node, attribute::POINTWISE_SOFTPLUS_BETA).unwrap();
                    (a * beta).exp().ln_1p() / beta
                }
                pointwise_mode::ELU_FWD if a > 0.0 => a,
                pointwise_mode::ELU_FWD => float(node, attribute::POINTWISE_ELU_ALPHA).unwrap() * a.exp_m1(),
                pointwise_mode::RELU_FWD => relu_of(node, a),
                other => panic!("mode {other}"),
            }
        }
    }
}

fn relu_of(node: &Node, a: f64) -> f64 {
    let lower = float(node, attribute::POINTWISE_RELU_LOWER_CLIP).unwrap_or(0.0);
    let upper = float(node, attribute::POINTWISE_RELU_UPPER_CLIP).unwrap_or(f64::INFINITY);
    let slope = float(node, attribute::POINTWISE_RELU_LOWER_CLIP_SLOPE).unwrap_or(0.0);
    assert!(lower <= upper, "clips that cross mean different things to different engines");
    if a <= lower {
        if slope == 0.0 { lower } else { slope * (a - lower) + lower }
    } else if a >= upper {
        upper
    } else {
        a
    }
}
