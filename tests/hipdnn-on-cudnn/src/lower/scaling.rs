//! result = alpha · convolution + beta · old result: found in pointwise operations behind a convolution, where hipDNN's clients have to put
//! it, because cuDNN's convolution says it itself, and all of its engines know it.

use hipdnn_abi::{Access, attribute, data_type, descriptor_type, pointwise_mode};
use hipdnn_backend::graph::{Graph, Node, Tensor};

use super::Copy;

/// What a graph asks of its convolution's result.
#[derive(Debug, PartialEq)]
pub(super) struct Scaling {
    /// What the convolution gives: virtual.
    pub(super) convolved: i64,
    /// Where the result goes.
    pub(super) result: i64,
    pub(super) alpha: f64,
    pub(super) beta: f64,
    /// cuDNN finds the old result where the new one goes.
    pub(super) copy: Option<Copy>,
}

impl Scaling {
    /// Only if that is all that the graph is: one convolution, and nothing behind it but this.
    pub(super) fn of(graph: &Graph) -> Option<Self> {
        let (convolution, steps) = graph.nodes.split_first().filter(|(first, steps)| !is_pointwise(first) && !steps.is_empty())?;
        let mut steps = Steps { graph, left: steps.iter().collect() };
        let convolved = convolution.accesses(Access::Write).next().filter(|uid| graph.tensor(*uid).is_some_and(|t| t.is_virtual))?;
        let (mut value, mut alpha) = (convolved, 1.0);
        if let Some((scaled, number)) = steps.product_of(value) {
            (value, alpha) = (scaled, number);
        }
        let mut scaling = Self { convolved, result: value, alpha, beta: 0.0, copy: None };
        if graph.tensor(value)?.is_virtual {
            let (other, sum) = steps.sum_with(value)?;
            let (old, beta) = if graph.tensor(other)?.is_virtual { steps.product_that_is(other)? } else { (other, 1.0) };
            (scaling.result, scaling.beta) = (sum, beta);
            scaling.copy = Some(in_place(graph.tensor(old)?, graph.tensor(sum)?)?);
        }
        let result = graph.tensor(scaling.result)?;
        let same_shape = graph.tensor(convolved)?.dims == result.dims;
        (steps.left.is_empty() && !result.is_virtual && same_shape).then_some(scaling)
    }
}

/// What is still to be understood.
struct Steps<'a> {
    graph: &'a Graph,
    left: Vec<&'a Node>,
}

impl Steps<'_> {
    /// Takes the operation of a mode that fits.
    fn take<T>(&mut self, mode: i32, fits: impl Fn([i64; 2], i64) -> Option<T>) -> Option<T> {
        let found = |node: &&Node| {
            let parts = operands(node).filter(|_| node.enumeration(attribute::POINTWISE_MODE) == Some(mode));
            parts.and_then(|(inputs, output)| fits(inputs, output))
        };
        let (place, made) = self.left.iter().enumerate().find_map(|(place, node)| Some((place, found(node)?)))?;
        self.left.remove(place);
        Some(made)
    }

    /// `value` times a number: the product and the number.
    fn product_of(&mut self, value: i64) -> Option<(i64, f64)> {
        let graph = self.graph;
        self.take(pointwise_mode::MUL, |inputs, output| Some((output, number(graph, other(inputs, value)?)?)))
    }

    /// What `product` is a product of: a tensor in memory and a number.
    fn product_that_is(&mut self, product: i64) -> Option<(i64, f64)> {
        let graph = self.graph;
        self.take(pointwise_mode::MUL, |[first, second], output| {
            let of = |tensor: i64, factor: i64| Some((tensor, number(graph, factor)?)).filter(|_| is_memory(graph, tensor));
            of(first, second).or_else(|| of(second, first)).filter(|_| output == product)
        })
    }

    /// `value` plus another: the other and the sum.
    fn sum_with(&mut self, value: i64) -> Option<(i64, i64)> {
        self.take(pointwise_mode::ADD, |inputs, output| Some((other(inputs, value)?, output)))
    }
}

fn is_pointwise(node: &Node) -> bool {
    node.kind == descriptor_type::BACKEND_OPERATION_POINTWISE_DESCRIPTOR
}

fn operands(node: &Node) -> Option<([i64; 2], i64)> {
    let tensor = |number| node.tensor(number).filter(|_| is_pointwise(node));
    let inputs = [tensor(attribute::OPERATION_POINTWISE_IN_0_EXT)?, tensor(attribute::OPERATION_POINTWISE_IN_1_EXT)?];
    Some((inputs, tensor(attribute::OPERATION_POINTWISE_OUT_0_EXT)?))
}

fn other([first, second]: [i64; 2], one: i64) -> Option<i64> {
    match (first == one, second == one) {
        (true, false) => Some(second),
        (false, true) => Some(first),
        _ => None,
    }
}

fn is_memory(graph: &Graph, uid: i64) -> bool {
    graph.tensor(uid).is_some_and(|tensor| tensor.needs_pointer() && !tensor.runtime_by_value)
}

/// The number that a constant of one element is.
fn number(graph: &Graph, uid: i64) -> Option<f64> {
    let tensor = graph.tensor(uid).filter(|tensor| tensor.dims.iter().all(|&dim| dim == 1))?;
    let value = tensor.value.as_deref()?;
    match tensor.data_type {
        data_type::FLOAT => value.try_into().ok().map(|bytes| f32::from_le_bytes(bytes).into()),
        data_type::DOUBLE => value.try_into().ok().map(f64::from_le_bytes),
        _ => None,
    }
}

/// How the old result gets where the new one goes: the two differ in nothing but their place, and what lies between their elements, if
/// anything does, would be moved too, so nothing may.
fn in_place(old: &Tensor, result: &Tensor) -> Option<Copy> {
    let alike = old.data_type == result.data_type && old.dims == result.dims && old.strides == result.strides;
    let elements = old.dims.iter().try_fold(1i64, |product, dim| product.checked_mul(*dim))?;
    let reach = old.dims.iter().zip(&old.strides).try_fold(1i64, |sum, (dim, stride)| sum.checked_add((dim - 1).checked_mul(*stride)?))?;
    let bytes = usize::try_from(elements).ok()?.checked_mul(hipdnn_abi::data_type_bytes(old.data_type)?)?;
    (alike && reach == elements).then_some(Copy { from: old.uid, to: result.uid, bytes })
}
