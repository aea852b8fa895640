//! A chain behind its convolution, as pointwise operations: each takes the value that is there, perhaps a second operand, and gives the
//! next value. No rule lives here, and no tensor of the graph.

use alloc::vec::Vec;

use hipdnn_abi::pointwise_mode;

use super::{activation, chain};
use crate::contract::{
    fusion::{Normalization, Operation, Problem},
    graph::TensorDescriptor,
};

/// The unique id of the first operation's first operand. Ids of memory are positions of the call's arguments, counted from 1.
const FIRST_OPERAND: i64 = 3;

/// A pointwise operation on the chain's value.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// The backend's mode.
    pub mode: i32,
    /// What the value meets.
    pub operand: Option<Operand<'a>>,
    /// Attributes that belong to the mode.
    pub parameters: Vec<(i32, f32)>,
}

/// A second operand.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// One number for all elements.
    Number(f64),
    /// A tensor in memory, by its unique id.
    Tensor(i64),
    /// 1 / √(variance + epsilon), from the tensor of variances.
    InverseDeviation {
        /// The variances, by unique id.
        variance: i64,
        /// Their shape.
        shape: &'a TensorDescriptor,
        /// What keeps the root from 0.
        epsilon: f64,
    },
}

impl<'a> Step<'a> {
    /// A function of the value alone.
    pub fn of_value(mode: i32) -> Self {
        Self { mode, operand: None, parameters: Vec::new() }
    }

    /// A function of the value and something else.
    pub fn with(mode: i32, operand: Operand<'a>) -> Self {
        Self { operand: Some(operand), ..Self::of_value(mode) }
    }
}

/// All steps of a chain that passed the rules.
pub fn steps(problem: &Problem) -> Vec<Step<'_>> {
    let (mut steps, mut operand) = (Vec::new(), FIRST_OPERAND);
    for operation in &problem.operations {
        match operation {
            Operation::Addition(_) | Operation::Bias(_) => steps.push(Step::with(pointwise_mode::ADD, Operand::Tensor(operand))),
            Operation::Normalization(normalization) => steps.extend(normalized(normalization, operand)),
            Operation::Activation(activation) => steps.extend(activation::steps(activation).unwrap_or_default()),
            Operation::Convolution(_) | Operation::Other(_) => {}
        }
        operand += chain::operands(operation).map_or(0, |(_, count)| count as i64);
    }
    steps
}

/// (value − mean) / √(variance + epsilon) · scale + shift. `scale` is the first of the four operands.
fn normalized(normalization: &Normalization, scale: i64) -> [Step<'_>; 4] {
    let [shift, mean, variance] = [scale + 1, scale + 2, scale + 3];
    let (shape, epsilon) = (&normalization.parameters, normalization.epsilon);
    [
        Step::with(pointwise_mode::SUB, Operand::Tensor(mean)),
        Step::with(pointwise_mode::MUL, Operand::InverseDeviation { variance, shape, epsilon }),
        Step::with(pointwise_mode::MUL, Operand::Tensor(scale)),
        Step::with(pointwise_mode::ADD, Operand::Tensor(shift)),
    ]
}
