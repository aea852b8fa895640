//! MIOpen's activations in pointwise modes: which parameters each has, and the operations that compute it. No rule lives here, no graph.
//!
//! Parameters are doubles in MIOpen, which rounds them to floats for everything that it fuses, and floats in hipDNN's attributes. A chain
//! that is computed in doubles has none that would be rounded (a rule).

use alloc::{vec, vec::Vec};

use hipdnn_abi::{attribute, pointwise_mode};

use super::step::{Operand, Step};
use crate::contract::fusion::{Activation, ActivationMode};

/// Where parameters go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Constants of the type that the chain is computed in.
    Constants,
    /// Attributes, which are floats.
    Attributes,
}

/// The parameters that the mode looks at, by name, and how they reach the graph.
pub fn parameters(activation: &Activation) -> (Carrier, Vec<(&'static str, f64)>) {
    let [alpha, beta] = [("alpha", activation.alpha), ("beta", activation.beta)];
    match activation.mode {
        ActivationMode::Tanh => (Carrier::Constants, vec![alpha, beta]),
        ActivationMode::Clamp => (Carrier::Attributes, vec![alpha, beta]),
        ActivationMode::ClippedRelu | ActivationMode::LeakyRelu | ActivationMode::Elu => (Carrier::Attributes, vec![alpha]),
        _ => (Carrier::Attributes, Vec::new()),
    }
}

/// The operations that compute an activation, or `None` if none do. Pass-through takes none.
pub fn steps(activation: &Activation) -> Option<Vec<Step<'static>>> {
    let [alpha, beta] = [activation.alpha as f32, activation.beta as f32];
    Some(match activation.mode {
        ActivationMode::PassThrough => Vec::new(),
        ActivationMode::Logistic => vec![Step::of_value(pointwise_mode::SIGMOID_FWD)],
        ActivationMode::Tanh => tanh(activation.alpha, activation.beta),
        ActivationMode::Relu => vec![Step::of_value(pointwise_mode::RELU_FWD)],
        // ln(1 + eˣ), whatever a backend takes for a steepness that is not given.
        ActivationMode::SoftRelu => vec![with(pointwise_mode::SOFTPLUS_FWD, vec![(attribute::POINTWISE_SOFTPLUS_BETA, 1.0)])],
        ActivationMode::Absolute => vec![Step::of_value(pointwise_mode::ABS)],
        // min(alpha, max(0, x)), which is alpha everywhere if that is negative.
        ActivationMode::ClippedRelu if alpha < 0.0 => vec![clips(alpha, alpha)],
        ActivationMode::ClippedRelu => vec![with(pointwise_mode::RELU_FWD, vec![(attribute::POINTWISE_RELU_UPPER_CLIP, alpha)])],
        // A slope of 0 may give 0 at −∞, where MIOpen's product gives NaN.
        ActivationMode::LeakyRelu => vec![with(pointwise_mode::RELU_FWD, vec![(attribute::POINTWISE_RELU_LOWER_CLIP_SLOPE, alpha)])],
        ActivationMode::Elu => vec![with(pointwise_mode::ELU_FWD, vec![(attribute::POINTWISE_ELU_ALPHA, alpha)])],
        // max(alpha, min(beta, x)) is min(max(alpha, beta), max(alpha, x)): clips that never cross, so that it does not matter which of
        // them a backend tries first.
        ActivationMode::Clamp => vec![clips(alpha, if beta < alpha { alpha } else { beta })],
        // MIOpen's power is 0 wherever alpha + beta·x is not above a tiny number, which no mode says.
        ActivationMode::Power | ActivationMode::Unrecognized => return None,
    })
}

/// beta · tanh(alpha · x), without the products that change nothing.
fn tanh(alpha: f64, beta: f64) -> Vec<Step<'static>> {
    let product = |number: f64| (number != 1.0).then(|| Step::with(pointwise_mode::MUL, Operand::Number(number)));
    [product(alpha), Some(Step::of_value(pointwise_mode::TANH_FWD)), product(beta)].into_iter().flatten().collect()
}

/// Numbers from `lower` to `upper`.
fn clips(lower: f32, upper: f32) -> Step<'static> {
    let parameters = vec![(attribute::POINTWISE_RELU_LOWER_CLIP, lower), (attribute::POINTWISE_RELU_UPPER_CLIP, upper)];
    with(pointwise_mode::RELU_FWD, parameters)
}

fn with(mode: i32, parameters: Vec<(i32, f32)>) -> Step<'static> {
    Step { parameters, ..Step::of_value(mode) }
}
