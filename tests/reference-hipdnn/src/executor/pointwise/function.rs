//! What pointwise modes do to numbers: the modes with plain definitions, their operands and parameters. Everything is computed in double
//! precision and rounded into the type of the computation, which for sums, products and quotients of floats is what floats would give.

use hipdnn_abi::{attribute, pointwise_mode};

use super::super::{element::Number, layout::Checked};
use crate::graph::Node;

/// Attributes that belong to some modes only.
const PARAMETERS: &[i32] = &[
    attribute::POINTWISE_RELU_LOWER_CLIP,
    attribute::POINTWISE_RELU_UPPER_CLIP,
    attribute::POINTWISE_RELU_LOWER_CLIP_SLOPE,
    attribute::POINTWISE_SWISH_BETA,
    attribute::POINTWISE_ELU_ALPHA,
    attribute::POINTWISE_SOFTPLUS_BETA,
    attribute::POINTWISE_AXIS,
];

/// A mode with its parameters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    Abs,
    Add,
    /// a + b².
    AddSquare,
    Ceil,
    Div,
    Elu(f64),
    Exp,
    Floor,
    Identity,
    Log,
    /// A NaN wins, as in [`Function::Min`].
    Max,
    Min,
    Mul,
    Neg,
    Reciprocal,
    Relu(Relu),
    Rsqrt,
    Sigmoid,
    Sin,
    /// Steepness.
    Softplus(f64),
    Sqrt,
    Sub,
    /// a · sigmoid(beta · a).
    Swish(f64),
    Tan,
    Tanh,
}

/// The ReLU family: up to `lower` a line of slope `slope` that ends in (`lower`, `lower`), from `upper` on constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relu {
    lower: f64,
    upper: f64,
    slope: f64,
}

impl Relu {
    fn of(node: &Node) -> Self {
        let parameter = |number, default| node.float(number).map_or(default, f64::from);
        Self {
            lower: parameter(attribute::POINTWISE_RELU_LOWER_CLIP, 0.0),
            upper: parameter(attribute::POINTWISE_RELU_UPPER_CLIP, f64::INFINITY),
            slope: parameter(attribute::POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.0),
        }
    }

    fn at(self, a: f64) -> f64 {
        if a <= self.lower {
            // A slope of 0 gives the clip even at −∞.
            if self.slope == 0.0 { self.lower } else { self.slope * (a - self.lower) + self.lower }
        } else if a >= self.upper {
            self.upper
        } else {
            a
        }
    }
}

impl Function {
    /// The function of a node, whose parameters must be those of its mode.
    pub(super) fn of(node: &Node) -> Checked<Self> {
        let parameter = |number| node.float(number).map_or(1.0, f64::from);
        let mode = node.enumeration(attribute::POINTWISE_MODE).unwrap_or(-1);
        let function = match mode {
            pointwise_mode::ABS => Self::Abs,
            pointwise_mode::ADD => Self::Add,
            pointwise_mode::ADD_SQUARE => Self::AddSquare,
            pointwise_mode::CEIL => Self::Ceil,
            pointwise_mode::DIV => Self::Div,
            pointwise_mode::ELU_FWD => Self::Elu(parameter(attribute::POINTWISE_ELU_ALPHA)),
            pointwise_mode::EXP => Self::Exp,
            pointwise_mode::FLOOR => Self::Floor,
            pointwise_mode::IDENTITY => Self::Identity,
            pointwise_mode::LOG => Self::Log,
            pointwise_mode::MAX => Self::Max,
            pointwise_mode::MIN => Self::Min,
            pointwise_mode::MUL => Self::Mul,
            pointwise_mode::NEG => Self::Neg,
            pointwise_mode::RECIPROCAL => Self::Reciprocal,
            pointwise_mode::RELU_FWD => Self::Relu(Relu::of(node)),
            pointwise_mode::RSQRT => Self::Rsqrt,
            pointwise_mode::SIGMOID_FWD => Self::Sigmoid,
            pointwise_mode::SIN => Self::Sin,
            pointwise_mode::SOFTPLUS_FWD => Self::Softplus(parameter(attribute::POINTWISE_SOFTPLUS_BETA)),
            pointwise_mode::SQRT => Self::Sqrt,
            pointwise_mode::SUB => Self::Sub,
            pointwise_mode::SWISH_FWD => Self::Swish(parameter(attribute::POINTWISE_SWISH_BETA)),
            pointwise_mode::TAN => Self::Tan,
            pointwise_mode::TANH_FWD => Self::Tanh,
            other => return Err(format!("pointwise mode {}", hipdnn_abi::name_in(pointwise_mode::ALL, other).unwrap_or("unknown"))),
        };
        match PARAMETERS.iter().find(|number| node.settings.contains_key(number) && !function.parameters().contains(number)) {
            Some(&number) => Err(format!("pointwise mode {mode} with {}", hipdnn_abi::name_in(attribute::ALL, number).unwrap_or("?"))),
            None => Ok(function),
        }
    }

    fn parameters(self) -> &'static [i32] {
        match self {
            Self::Relu(_) => &PARAMETERS[..3],
            Self::Swish(_) => &[attribute::POINTWISE_SWISH_BETA],
            Self::Elu(_) => &[attribute::POINTWISE_ELU_ALPHA],
            Self::Softplus(_) => &[attribute::POINTWISE_SOFTPLUS_BETA],
            _ => &[],
        }
    }

    /// How many operands there are.
    pub(super) fn arity(self) -> usize {
        match self {
            Self::Add | Self::AddSquare | Self::Div | Self::Max | Self::Min | Self::Mul | Self::Sub => 2,
            _ => 1,
        }
    }

    /// One result for each element of `a`. `b` is as long as `a` if there are two operands.
    pub(super) fn apply<T: Number>(self, a: &[T], b: &[T], out: &mut [T]) {
        match self {
            Self::Abs => one(a, out, f64::abs),
            Self::Add => two(a, b, out, |a, b| a + b),
            Self::AddSquare => two(a, b, out, |a, b| a + b * b),
            Self::Ceil => one(a, out, f64::ceil),
            Self::Div => two(a, b, out, |a, b| a / b),
            Self::Elu(alpha) => one(a, out, |a| if a <= 0.0 { alpha * a.exp_m1() } else { a }),
            Self::Exp => one(a, out, f64::exp),
            Self::Floor => one(a, out, f64::floor),
            Self::Identity => out.copy_from_slice(a),
            Self::Log => one(a, out, f64::ln),
            Self::Max => two(a, b, out, |a, b| if a > b || a.is_nan() { a } else { b }),
            Self::Min => two(a, b, out, |a, b| if a < b || a.is_nan() { a } else { b }),
            Self::Mul => two(a, b, out, |a, b| a * b),
            Self::Neg => one(a, out, |a| -a),
            Self::Reciprocal => one(a, out, f64::recip),
            Self::Relu(relu) => one(a, out, |a| relu.at(a)),
            Self::Rsqrt => one(a, out, |a| a.sqrt().recip()),
            Self::Sigmoid => one(a, out, sigmoid),
            Self::Sin => one(a, out, f64::sin),
            Self::Softplus(beta) => one(a, out, |a| softplus(a * beta) / beta),
            Self::Sqrt => one(a, out, f64::sqrt),
            Self::Sub => two(a, b, out, |a, b| a - b),
            Self::Swish(beta) => one(a, out, |a| a * sigmoid(beta * a)),
            Self::Tan => one(a, out, f64::tan),
            Self::Tanh => one(a, out, f64::tanh),
        }
    }
}

fn one<T: Number>(a: &[T], out: &mut [T], function: impl Fn(f64) -> f64) {
    for (out, &a) in out.iter_mut().zip(a) {
        *out = T::round(function(a.into()));
    }
}

fn two<T: Number>(a: &[T], b: &[T], out: &mut [T], function: impl Fn(f64, f64) -> f64) {
    for (out, (&a, &b)) in out.iter_mut().zip(a.iter().zip(b)) {
        *out = T::round(function(a.into(), b.into()));
    }
}

fn sigmoid(a: f64) -> f64 {
    1.0 / (1.0 + (-a).exp())
}

/// ln(1 + eᵃ), which is a for large a: the exponential must not overflow. NaN stays NaN.
fn softplus(a: f64) -> f64 {
    if a > 0.0 { a + (-a).exp().ln_1p() } else { a.exp().ln_1p() }
}
