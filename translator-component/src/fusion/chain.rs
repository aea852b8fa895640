//! What a chain consists of: its convolution, the tensors that its operations bring, and what it is computed in. Facts that the rules and
//! the graph must agree on; neither lives here.

use crate::{
    contract::{
        conv::{self, Direction},
        fusion::{ActivationMode, Operation, Problem, Scaling},
        graph::{DataType, TensorDescriptor},
    },
    conv::compute_type as convolution_type,
    tensor::Named,
};

/// The convolution that the chain starts with, as a problem of its own: it makes the output's shape, and is not scaled.
pub fn convolution(problem: &Problem) -> Option<conv::Problem> {
    let Some(Operation::Convolution(convolution)) = problem.operations.first() else { return None };
    Some(conv::Problem {
        direction: Direction::Forward,
        mode: convolution.mode,
        x: problem.input.clone(),
        w: convolution.w.clone(),
        y: problem.output.clone(),
        pads: convolution.pads.clone(),
        strides: convolution.strides.clone(),
        dilations: convolution.dilations.clone(),
        output_pads: convolution.output_pads.clone(),
        group_count: convolution.group_count,
        alpha: 1.0,
        beta: 0.0,
        algorithm: convolution.algorithm,
        attributes: convolution.attributes.clone(),
    })
}

/// What messages call an operation.
pub fn name(operation: &Operation) -> &'static str {
    match operation {
        Operation::Convolution(_) => "the convolution",
        Operation::Addition(_) => "the addition",
        Operation::Bias(_) => "the bias",
        Operation::Normalization(_) => "the normalization",
        Operation::Activation(_) => "the activation",
        Operation::Other(_) => "another operation",
    }
}

/// The scalars of an operation, if it has any.
pub fn scaling(operation: &Operation) -> Option<Scaling> {
    match operation {
        Operation::Convolution(convolution) => Some(convolution.scaling),
        Operation::Bias(bias) => Some(bias.scaling),
        Operation::Normalization(normalization) => Some(normalization.scaling),
        Operation::Activation(activation) => Some(activation.scaling),
        Operation::Addition(_) | Operation::Other(_) => None,
    }
}

/// The descriptor of an operation's operands, and how many operands have it.
pub fn operands(operation: &Operation) -> Option<(Named<'_>, usize)> {
    match operation {
        Operation::Convolution(convolution) => Some((("w", &convolution.w), 1)),
        Operation::Addition(addition) => Some((("the added tensor", &addition.tensor), 1)),
        Operation::Bias(bias) => Some((("the bias", &bias.tensor), 1)),
        Operation::Normalization(normalization) => Some((("the normalization's parameter", &normalization.parameters), 4)),
        Operation::Activation(_) | Operation::Other(_) => None,
    }
}

/// Every descriptor of the chain, under the name that messages call it by.
pub fn tensors(problem: &Problem) -> impl Iterator<Item = Named<'_>> {
    let ends = [("the input", &problem.input), ("the output", &problem.output)];
    ends.into_iter().chain(problem.operations.iter().filter_map(operands).map(|(named, _)| named))
}

/// Whether the graph has pointwise operations: all but a convolution alone.
pub fn has_pointwise(problem: &Problem) -> bool {
    let (mut convolved, mut pointwise) = (false, false);
    for operation in &problem.operations {
        match operation {
            Operation::Convolution(_) => convolved = true,
            Operation::Activation(activation) if activation.mode == ActivationMode::PassThrough => {}
            _ => pointwise = true,
        }
    }
    pointwise || !convolved
}

/// The type that the whole chain is computed in: double if anything is double, else float; a convolution alone has its own.
pub fn compute_type(problem: &Problem) -> DataType {
    match convolution(problem) {
        Some(alone) if !has_pointwise(problem) => convolution_type(&alone),
        _ if tensors(problem).any(|(_, tensor)| tensor.data_type == DataType::Double) => DataType::Double,
        _ => DataType::Float,
    }
}

/// Lengths of a tensor with one number for each channel of another, if that has channels.
pub fn is_per_channel(tensor: &TensorDescriptor, of: &TensorDescriptor) -> bool {
    let wanted = |(axis, &length): (usize, &i64)| if axis == 1 { length } else { 1 };
    of.dims.len() >= 2 && tensor.dims.iter().copied().eq(of.dims.iter().enumerate().map(wanted))
}

/// Lengths of a tensor with one number for each element of another's images, which all images share.
pub fn is_per_element(tensor: &TensorDescriptor, of: &TensorDescriptor) -> bool {
    let wanted = |(axis, &length): (usize, &i64)| if axis == 0 { 1 } else { length };
    of.dims.len() >= 2 && tensor.dims.iter().copied().eq(of.dims.iter().enumerate().map(wanted))
}
