//! The operation graph of a convolution that passed all rules: the tensors of the MIOpen call, and the one convolution that computes its
//! result or, where alpha and beta ask for more (`scaling`), what the result is made of. No rule lives here.

mod scaling;

use alloc::{string::ToString, vec::Vec};

use hipdnn_abi::{attribute, convolution_mode};

use super::{
    NOTES, arithmetic, geometry,
    roles::{Role, Roles},
};
use crate::contract::{
    conv::{Argument, Problem},
    graph::{Attribute, Binding, DataType, Node, Tensor, Translation, Value},
};

/// The problem as a graph. Groups are not mentioned: hipDNN infers them from the ratio of the image's to the filter's channels.
pub fn build(problem: &Problem) -> Translation {
    let compute = arithmetic::compute_type(problem);
    let roles = Roles::of(problem);
    let mut graph = Translation {
        tensors: roles.all().iter().map(external).collect(),
        nodes: Vec::new(),
        compute_type: Some(compute),
        intermediate_type: Some(compute),
        io_type: Some(problem.x.data_type),
        bindings: roles.all().iter().map(bind).collect(),
        notes: NOTES.iter().filter(|note| (note.applies)(problem)).map(|note| note.id.to_string()).collect(),
    };
    let result = roles.result().argument;
    let scaled = arithmetic::is_scaled(problem);
    let place = |argument| if scaled && argument == result { scaling::CONVOLVED } else { uid(argument) };
    graph.nodes.push(convolution(problem, compute, place));
    if scaled {
        scaling::append(problem, &roles.result(), &mut graph);
    }
    graph
}

/// The convolution of a problem that passed all rules, on the tensors that `place` names for its arguments.
pub fn convolution(problem: &Problem, compute: DataType, place: impl Fn(Argument) -> i64) -> Node {
    let roles = Roles::of(problem);
    let tensor = |role: &Role<'_>| set(role.attribute, Value::Tensor(place(role.argument)));
    let mut attributes: Vec<Attribute> = roles.all().iter().map(tensor).collect();
    attributes.extend(parameters(problem, compute));
    Node { operation: roles.operation.descriptor_type(), attributes }
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
