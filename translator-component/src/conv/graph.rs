//! The operation graph of a convolution that passed all rules.

use alloc::{string::ToString, vec, vec::Vec};

use hipdnn_abi::{attribute, convolution_mode, descriptor_type};

use super::NOTES;
use crate::contract::{
    conv::{Argument, Problem},
    graph::{Access, Attribute, Binding, DataType, Node, Tensor, TensorDescriptor, Translation, Value},
};

/// y = x ⋆ w as one node. Groups are not mentioned: hipDNN infers them from the ratio of x's to w's channels.
pub fn forward(problem: &Problem) -> Translation {
    let compute = compute_type(problem);
    let roles = [
        (Argument::X, &problem.x, Access::Read, attribute::OPERATION_CONVOLUTION_FORWARD_X),
        (Argument::W, &problem.w, Access::Read, attribute::OPERATION_CONVOLUTION_FORWARD_W),
        (Argument::Y, &problem.y, Access::Write, attribute::OPERATION_CONVOLUTION_FORWARD_Y),
    ];
    let mut attributes: Vec<Attribute> = roles.iter().map(|(argument, _, _, number)| set(*number, Value::Tensor(uid(*argument)))).collect();
    attributes.extend(parameters(problem, compute));
    Translation {
        tensors: roles.iter().map(|(argument, tensor, _, _)| external(*argument, tensor)).collect(),
        nodes: vec![Node { operation: descriptor_type::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, attributes }],
        compute_type: Some(compute),
        intermediate_type: Some(compute),
        io_type: Some(problem.x.data_type),
        bindings: roles.iter().map(|(argument, _, access, _)| bind(*argument, *access)).collect(),
        notes: NOTES.iter().filter(|note| (note.applies)(problem)).map(|note| note.id.to_string()).collect(),
    }
}

/// Attributes that all three directions have. MIOpen pads both sides alike, and what it calls "convolution" is cross-correlation.
fn parameters(problem: &Problem, compute: DataType) -> [Attribute; 6] {
    [
        set(attribute::CONVOLUTION_COMP_TYPE, Value::DataType(compute)),
        set(attribute::CONVOLUTION_CONV_MODE, Value::Enumeration(convolution_mode::CROSS_CORRELATION)),
        set(attribute::CONVOLUTION_DILATIONS, Value::Integers(problem.dilations.clone())),
        set(attribute::CONVOLUTION_FILTER_STRIDES, Value::Integers(problem.strides.clone())),
        set(attribute::CONVOLUTION_PRE_PADDINGS, Value::Integers(problem.pads.clone())),
        set(attribute::CONVOLUTION_POST_PADDINGS, Value::Integers(problem.pads.clone())),
    ]
}

/// The type sums are formed in: exact for integers, double if anything is double, else float, as MIOpen does.
fn compute_type(problem: &Problem) -> DataType {
    let inputs = [problem.x.data_type, problem.w.data_type];
    let any = |wanted: DataType| inputs.contains(&wanted) || problem.y.data_type == wanted;
    let integer = |t: &DataType| matches!(t, DataType::Int8 | DataType::Uint8 | DataType::Int32 | DataType::Int64 | DataType::Boolean);
    if any(DataType::Double) {
        DataType::Double
    } else if inputs.iter().all(integer) {
        if any(DataType::Int64) { DataType::Int64 } else { DataType::Int32 }
    } else {
        DataType::Float
    }
}

fn uid(argument: Argument) -> i64 {
    argument as i64 + 1
}

fn external(argument: Argument, descriptor: &TensorDescriptor) -> Tensor {
    Tensor {
        uid: uid(argument),
        data_type: descriptor.data_type,
        dims: descriptor.dims.clone(),
        strides: descriptor.strides.clone(),
        is_virtual: false,
        value: None,
    }
}

fn bind(argument: Argument, access: Access) -> Binding {
    Binding { uid: uid(argument), argument: argument as u32, access }
}

fn set(number: i32, value: Value) -> Attribute {
    Attribute { number, value }
}
