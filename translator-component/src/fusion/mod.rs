//! Chains: a convolution or a tensor as it is, and what is done to each element behind it, in one graph. The rules, in the order they are
//! tried, and the translation of what passes them.
//!
//! The convolution of a chain is a problem of the family `conv`, whose rules and attributes it has; what belongs there is not repeated
//! here.

mod activation;
mod chain;
mod graph;
mod rules;
mod step;

pub use rules::RULES;

use crate::{
    contract::{
        fusion::Problem,
        graph::{Capabilities, Decline, Translation},
    },
    conv, rule,
};

/// The operation graph that computes this chain, or the first rule that declines it.
///
/// Pure and total; the work is linear in the number of operations that are let through, and of dimensions.
pub fn translate(problem: &Problem, capabilities: &Capabilities) -> Result<Translation, Decline> {
    if let Some(decline) = rule::first_objection(RULES, problem, capabilities) {
        return Err(decline);
    }
    let convolution = chain::convolution(problem);
    match convolution.as_ref().and_then(|convolution| rule::first_objection(conv::RULES, convolution, capabilities)) {
        Some(decline) => Err(decline),
        None => Ok(graph::build(problem, convolution.as_ref())),
    }
}

#[cfg(test)]
mod tests;
