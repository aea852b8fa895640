//! Activations: a function of each element of a tensor. A chain of one operation, whose rules and graph it has.

use alloc::vec;

use crate::{
    contract::{
        activation::Problem,
        fusion::{self as chain, Operation},
        graph::{Capabilities, Decline, Translation},
    },
    fusion,
};

/// The operation graph that computes this activation, or the first rule that declines it. Pure and total, like that of chains.
///
/// The arguments of both are alike: what comes in is 0, what comes out 1.
pub fn translate(problem: Problem, capabilities: &Capabilities) -> Result<Translation, Decline> {
    let Problem { x, y, mode, alpha, beta, gamma, scaling } = problem;
    let operation = Operation::Activation(chain::Activation { mode, alpha, beta, gamma, scaling });
    fusion::translate(&chain::Problem { input: x, operations: vec![operation], output: y }, capabilities)
}
