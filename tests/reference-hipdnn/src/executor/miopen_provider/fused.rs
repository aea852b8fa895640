//! The fused graph that the provider takes: convolution forward → optional bias → ReLU family, joined by virtual floats. No other order,
//! and nothing scaled.

use hipdnn_abi::{attribute, data_type, descriptor_type, pointwise_mode};

use super::Checked;
use crate::graph::{Graph, Node, Tensor};

/// Beyond what [`super::check_node`] and [`super::check_tensor`] ask.
pub(super) fn check(graph: &Graph, convolution: &Node, others: &[Node]) -> Checked<()> {
    if convolution.kind != descriptor_type::BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR {
        return Err("a fused graph that does not start with a convolution forward".into());
    }
    let sums = between(graph, convolution.tensor(attribute::OPERATION_CONVOLUTION_FORWARD_Y))?;
    let (input, activation) = match others {
        [activation] => (sums, activation),
        [bias, activation] => (check_bias(graph, bias, sums)?, activation),
        _ => return Err(format!("{} operations behind a convolution", others.len())),
    };
    check_pointwise(activation, pointwise_mode::RELU_FWD)?;
    check_relu(activation)?;
    if activation.tensor(attribute::OPERATION_POINTWISE_IN_0_EXT) != Some(input.uid) {
        return Err("an activation of something else than the operation before it gives".into());
    }
    in_memory(graph, activation.tensor(attribute::OPERATION_POINTWISE_OUT_0_EXT)).map(|_| ())
}

/// Adds one number to each channel. Gives the sum.
fn check_bias<'a>(graph: &'a Graph, bias: &Node, sums: &Tensor) -> Checked<&'a Tensor> {
    check_pointwise(bias, pointwise_mode::ADD)?;
    let inputs = [attribute::OPERATION_POINTWISE_IN_0_EXT, attribute::OPERATION_POINTWISE_IN_1_EXT].map(|number| bias.tensor(number));
    let other = match inputs {
        [Some(first), other] if first == sums.uid => other,
        [other, Some(second)] if second == sums.uid => other,
        _ => return Err("a bias for something else than the convolution gives".into()),
    };
    let added = in_memory(graph, other)?;
    let channels =
        added.dims.len() == sums.dims.len() && (0..added.dims.len()).all(|i| added.dims[i] == if i == 1 { sums.dims[1] } else { 1 });
    if !channels {
        return Err(format!("a bias of {:?} for {:?}", added.dims, sums.dims));
    }
    between(graph, bias.tensor(attribute::OPERATION_POINTWISE_OUT_0_EXT))
}

fn check_pointwise(node: &Node, mode: i32) -> Checked<()> {
    let is_it =
        node.kind == descriptor_type::BACKEND_OPERATION_POINTWISE_DESCRIPTOR && node.enumeration(attribute::POINTWISE_MODE) == Some(mode);
    if !is_it {
        return Err(format!("an operation that is no {}", hipdnn_abi::name_in(pointwise_mode::ALL, mode).unwrap_or("pointwise operation")));
    }
    if node.enumeration(attribute::POINTWISE_MATH_PREC) != Some(data_type::FLOAT) {
        return Err("a pointwise operation that is not computed in FLOAT".into());
    }
    Ok(())
}

/// What MIOpen has an activation for: ReLU, clipped (above), clamped (both ways), or leaky.
fn check_relu(node: &Node) -> Checked<()> {
    let clip = |number| node.float(number);
    let (lower, upper) = (clip(attribute::POINTWISE_RELU_LOWER_CLIP), clip(attribute::POINTWISE_RELU_UPPER_CLIP));
    let slope = clip(attribute::POINTWISE_RELU_LOWER_CLIP_SLOPE).unwrap_or(0.0);
    match (lower.unwrap_or(0.0) != 0.0, upper.is_some(), slope != 0.0) {
        (_, true, true) => Err("a ReLU that leaks and is clipped".into()),
        (true, false, _) => Err("a ReLU with a lower clip only".into()),
        _ => Ok(()),
    }
}

/// A virtual tensor of floats.
fn between(graph: &Graph, uid: Option<i64>) -> Checked<&Tensor> {
    let tensor = uid.and_then(|uid| graph.tensor(uid)).ok_or("a tensor is missing")?;
    let fits = tensor.is_virtual && tensor.data_type == data_type::FLOAT;
    if fits { Ok(tensor) } else { Err(format!("tensor {} between operations is no virtual FLOAT", tensor.uid)) }
}

fn in_memory(graph: &Graph, uid: Option<i64>) -> Checked<&Tensor> {
    let tensor = uid.and_then(|uid| graph.tensor(uid)).ok_or("a tensor is missing")?;
    if tensor.needs_pointer() { Ok(tensor) } else { Err(format!("tensor {} is virtual or by value", tensor.uid)) }
}
