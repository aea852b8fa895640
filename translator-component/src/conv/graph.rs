//! The operation graph of a convolution that passed all rules.

use alloc::{string::ToString, vec, vec::Vec};

use hipdnn_abi::{attribute, convolution_mode};

use super::{
    NOTES, geometry,
    roles::{Role, Roles},
};
use crate::contract::{
    conv::{Argument, Problem},
    graph::{Attribute, Binding, DataType, Node, Tensor, Translation, Value},
};

/// The problem as one node. Groups are not mentioned: hipDNN infers them from the ratio of the image's to the filter's channels.
pub fn build(problem: &Problem) -> Translation {
    let compute = compute_type(problem);
    let roles = Roles::of(problem);
    let mut attributes: Vec<Attribute> = roles.all().iter().map(|role| set(role.attribute, Value::Tensor(uid(role.argument)))).collect();
    attributes.extend(parameters(problem, compute));
    Translation {
        tensors: roles.all().iter().map(external).collect(),
        nodes: vec![Node { operation: roles.operation.descriptor_type(), attributes }],
        compute_type: Some(compute),
        intermediate_type: Some(compute),
        io_type: Some(problem.x.data_type),
        bindings: roles.all().iter().map(bind).collect(),
        notes: NOTES.iter().filter(|note| (note.applies)(problem)).map(|note| note.id.to_string()).collect(),
    }
}

/// Attributes that all three operations have. What MIOpen calls "convolution" is cross-correlation.
fn parameters(problem: &Problem, compute: DataType) -> [Attribute; 6] {
    // The rules passed, so every axis has one; the pad itself is what it is everywhere but in a corner of transposed convolution.
    let post = |(axis, pad): (usize, &i64)| geometry::post_padding(problem, axis).unwrap_or(*pad);
    [
        set(attribute::CONVOLUTION_COMP_TYPE, Value::DataType(compute)),
        set(attribute::CONVOLUTION_CONV_MODE, Value::Enumeration(convolution_mode::CROSS_CORRELATION)),
        set(attribute::CONVOLUTION_DILATIONS, Value::Integers(problem.dilations.clone())),
        set(attribute::CONVOLUTION_FILTER_STRIDES, Value::Integers(problem.strides.clone())),
        set(attribute::CONVOLUTION_PRE_PADDINGS, Value::Integers(problem.pads.clone())),
        set(attribute::CONVOLUTION_POST_PADDINGS, Value::Integers(problem.pads.iter().enumerate().map(post).collect())),
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

fn external(role: &Role<'_>) -> Tensor {
    Tensor {
        uid: uid(role.argument),
        data_type: role.tensor.data_type,
        dims: role.tensor.dims.clone(),
        strides: role.tensor.strides.clone(),
        is_virtual: false,
        value: None,
    }
}

fn bind(role: &Role<'_>) -> Binding {
    Binding { uid: uid(role.argument), argument: role.argument as u32, access: role.access }
}

fn set(number: i32, value: Value) -> Attribute {
    Attribute { number, value }
}
