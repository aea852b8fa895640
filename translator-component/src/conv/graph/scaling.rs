//! Alpha and beta: result = alpha · convolution + beta · old result, as pointwise operations behind the convolution.
//!
//! Everything between the operations is virtual and of the compute type, so the result is rounded once, as by a kernel that scales its
//! own sums. The old result is a tensor of its own, bound to the same argument. What changes nothing (alpha 1, beta 1) is left out, and
//! so is, with beta 0, the old result: it is not read.

use alloc::{vec, vec::Vec};

use hipdnn_abi::{attribute, descriptor_type, pointwise_mode};

use super::{set, uid};
use crate::{
    contract::{
        conv::Problem,
        graph::{Access, Binding, DataType, Node, Tensor, Translation, Value},
    },
    conv::{arithmetic, roles::Role},
};

/// What the convolution itself gives. Unique ids below are those of the call's arguments.
pub const CONVOLVED: i64 = 4;
const ALPHA: i64 = 5;
const SCALED: i64 = 6;
const OLD: i64 = 7;
const BETA: i64 = 8;
const SCALED_OLD: i64 = 9;

/// Appends what leads from [`CONVOLVED`] to the result.
pub fn append(problem: &Problem, result: &Role<'_>, graph: &mut Translation) {
    let mut scaling = Scaling { compute: arithmetic::compute_type(problem), result, graph };
    scaling.graph.tensors.push(scaling.between(CONVOLVED));
    let target = uid(result.argument);
    if !arithmetic::accumulates(problem) {
        scaling.scale(CONVOLVED, (ALPHA, problem.alpha), target);
        return;
    }
    let sums = if arithmetic::scales_sums(problem) { scaling.product(CONVOLVED, (ALPHA, problem.alpha), SCALED) } else { CONVOLVED };
    scaling.read_old();
    let old = if problem.beta != 1.0 { scaling.product(OLD, (BETA, problem.beta), SCALED_OLD) } else { OLD };
    scaling.pointwise(pointwise_mode::ADD, [sums, old], target);
}

/// A graph that grows operations on tensors of the result's shape.
struct Scaling<'a> {
    compute: DataType,
    result: &'a Role<'a>,
    graph: &'a mut Translation,
}

impl Scaling<'_> {
    /// The tensor that holds the result until the call replaces it.
    fn read_old(&mut self) {
        self.graph.tensors.push(Tensor { uid: OLD, ..super::external(self.result) });
        self.graph.bindings.push(Binding { uid: OLD, argument: self.result.argument as u32, access: Access::Read });
    }

    /// A tensor times a number, in a tensor between two operations.
    fn product(&mut self, tensor: i64, number: (i64, f64), product: i64) -> i64 {
        self.graph.tensors.push(self.between(product));
        self.scale(tensor, number, product);
        product
    }

    /// A tensor times a number, in a tensor that is there.
    fn scale(&mut self, tensor: i64, (number, value): (i64, f64), product: i64) {
        self.graph.tensors.push(self.constant(number, value));
        self.pointwise(pointwise_mode::MUL, [tensor, number], product);
    }

    fn pointwise(&mut self, mode: i32, [first, second]: [i64; 2], out: i64) {
        let attributes = vec![
            set(attribute::OPERATION_POINTWISE_IN_0_EXT, Value::Tensor(first)),
            set(attribute::OPERATION_POINTWISE_IN_1_EXT, Value::Tensor(second)),
            set(attribute::OPERATION_POINTWISE_OUT_0_EXT, Value::Tensor(out)),
            set(attribute::POINTWISE_MODE, Value::Enumeration(mode)),
            set(attribute::POINTWISE_MATH_PREC, Value::DataType(self.compute)),
        ];
        self.graph.nodes.push(Node { operation: descriptor_type::BACKEND_OPERATION_POINTWISE_DESCRIPTOR, attributes });
    }

    fn between(&self, uid: i64) -> Tensor {
        Tensor { uid, data_type: self.compute, is_virtual: true, ..super::external(self.result) }
    }

    /// One number that goes with every element.
    fn constant(&self, uid: i64, number: f64) -> Tensor {
        let ones = vec![1; self.result.tensor.dims.len()];
        let value = Some(self.bytes(number));
        Tensor { uid, data_type: self.compute, dims: ones.clone(), strides: ones, is_virtual: false, value }
    }

    /// The rules let float and double through, and MIOpen reads a float where sums are floats: nothing is lost.
    fn bytes(&self, number: f64) -> Vec<u8> {
        if self.compute == DataType::Double { number.to_le_bytes().to_vec() } else { (number as f32).to_le_bytes().to_vec() }
    }
}
