//! Convolution: the rules, in the order they are tried, and the translation of what passes them.

mod arithmetic;
mod geometry;
mod graph;
mod roles;
mod rules;

// Chains contain convolutions, and reuse what is said about them here.
pub(crate) use arithmetic::compute_type;
pub(crate) use graph::convolution;
pub use rules::{NOTES, RULES};

use crate::{
    contract::{
        conv::Problem,
        graph::{Capabilities, Decline, Translation},
    },
    rule,
};

/// The operation graph that computes this problem, or the first rule that declines it.
///
/// Pure and total; the work is linear in the number of dimensions.
pub fn translate(problem: &Problem, capabilities: &Capabilities) -> Result<Translation, Decline> {
    match rule::first_objection(RULES, problem, capabilities) {
        Some(decline) => Err(decline),
        None => Ok(graph::build(problem)),
    }
}

#[cfg(test)]
mod tests;
