//! Whether a success is right: every element is what the definition says. Sums of small integers are exact in every type, and so is what most
//! activations make of them; the result is then the exact value, rounded once. Where an activation is transcendental, an element may be
//! off by its last place and by 8 * 2^-24 of 1 + its size.

use anyhow::{Result, ensure};
use miopen_api::activation_mode;

use super::asked::{Activation, Asked, Style};
use crate::{definition, problem::Kind};

/// Looks at the result, given the values of x, w, y and the bias before, and of the result after.
pub fn judge(asked: &Asked, before: [&[f64]; 4], after: &[f64]) -> Result<()> {
    let Some(expected) = expected(asked, before) else { return Ok(()) };
    let (kind, exact) = (asked.result().kind, asked.style != Style::Plan || asked.chain.activation.is_none_or(is_exact));
    ensure!(expected.len() == after.len(), "{} elements for {}", after.len(), expected.len());
    for (i, (want, have)) in expected.iter().zip(after).enumerate() {
        // Integers are rounded to even, as floats are.
        let rounded = kind.round(if kind.is_integer() { want.round_ties_even() } else { *want });
        let equal = *have == rounded || (have.is_nan() && rounded.is_nan());
        ensure!(equal || (!exact && is_near(kind, *want, *have)), "element {i} is {have}, expected {want}, which is {rounded} in {kind:?}");
    }
    Ok(())
}

/// The exact results, if the definition has any.
fn expected(asked: &Asked, before: [&[f64]; 4]) -> Option<Vec<f64>> {
    let (problem, [x, w, y, bias]) = (asked.problem()?, before);
    let sums = definition::convolution(&problem, asked.direction, [x, w, y]);
    let (old, (alpha, beta)) = (before[asked.direction.result()], asked.scaling());
    // With a beta of 0 the old value is not read: it is poison.
    let scaled = |(i, sum): (usize, f64)| alpha * sum + if beta == 0.0 { 0.0 } else { beta * old[i] };
    let mut values: Vec<f64> = sums.iter().map(|sum| sum.value).enumerate().map(scaled).collect();
    if asked.style == Style::Plan {
        let (channels, inner) = (asked.tensors[2].dims[1], asked.tensors[2].dims[2..].iter().product::<usize>());
        for (i, value) in values.iter_mut().enumerate() {
            let sum = *value + if asked.chain.bias { bias[i / inner % channels] } else { 0.0 };
            *value = asked.chain.activation.map_or(sum, |activation| apply(activation, sum));
        }
    }
    Some(values)
}

/// MIOpen's activations, as its documentation has them.
fn apply((mode, [alpha, beta, gamma]): Activation, x: f64) -> f64 {
    match mode {
        activation_mode::LOGISTIC => 1.0 / (1.0 + (-x).exp()),
        activation_mode::TANH => beta * (alpha * x).tanh(),
        activation_mode::RELU => x.max(0.0),
        activation_mode::SOFTRELU => x.exp().ln_1p(),
        activation_mode::ABS => x.abs(),
        activation_mode::POWER => (alpha + beta * x).powf(gamma),
        activation_mode::CLIPPEDRELU => alpha.min(x.max(0.0)),
        activation_mode::LEAKYRELU if x <= 0.0 => alpha * x,
        activation_mode::ELU if x <= 0.0 => alpha * x.exp_m1(),
        activation_mode::CLAMP => alpha.max(beta.min(x)),
        // Pass-through, and what the last two are elsewhere.
        _ => x,
    }
}

fn is_exact((mode, _): Activation) -> bool {
    use activation_mode::{ELU, LOGISTIC, POWER, SOFTRELU, TANH};
    ![LOGISTIC, TANH, SOFTRELU, ELU, POWER].contains(&mode)
}

fn is_near(kind: Kind, want: f64, have: f64) -> bool {
    (want - have).abs() <= kind.epsilon() * want.abs() + 8.0 * 2f64.powi(-24) * (1.0 + want.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_of_numbers_that_are_known() {
        let of = |mode: i32, parameters: [f64; 3], x: f64| apply((mode, parameters), x);
        assert_eq!(of(activation_mode::LEAKYRELU, [0.5, 0.0, 0.0], -3.0), -1.5);
        assert_eq!(of(activation_mode::CLIPPEDRELU, [2.0, 0.0, 0.0], 5.0), 2.0);
        assert_eq!(of(activation_mode::CLIPPEDRELU, [-1.0, 0.0, 0.0], 5.0), -1.0);
        assert_eq!(of(activation_mode::CLAMP, [-1.0, 3.0, 0.0], -7.0), -1.0);
        assert_eq!(of(activation_mode::PASTHRU, [0.0; 3], -7.0), -7.0);
        assert_eq!(of(activation_mode::LOGISTIC, [0.0; 3], 0.0), 0.5);
    }

    #[test]
    fn near_is_not_everything() {
        assert!(is_near(Kind::Float, 1.0, 1.0 + 2f64.powi(-22)));
        assert!(!is_near(Kind::Float, 1.0, 1.0001));
        assert!(!is_near(Kind::Float, 1.0, f64::NAN));
    }
}
