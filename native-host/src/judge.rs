//! What a translator's reply is worth: a graph that validates, or a decline that the host can name. Faults of the translator are declines
//! of the host. Shared by the calls that are forwarded and by the offline tools.

use crate::{
    component::{ComponentError, Translator},
    graph::{ReceivedDecline, ReceivedGraph},
    problem::{ConvolutionDirection, ConvolutionProblem, TensorDescriptor},
    rules::HostRule,
    translations::Declined,
    validate::{Argument, ValidatedGraph, validate},
};

/// What a component answers, if it answers.
pub type Reply = Result<Result<ReceivedGraph, ReceivedDecline>, ComponentError>;

/// Judges a reply to a convolution problem.
pub fn judge(reply: Reply, translator: &Translator, problem: &ConvolutionProblem<'_>) -> Result<ValidatedGraph, Declined> {
    let host = |rule: HostRule, message: String| Declined { rule: rule.id().to_string(), message };
    let known = |rule: &str| translator.description().rules.iter().any(|entry| entry.id == rule);
    match reply {
        Err(error) => Err(host(HostRule::TranslatorTrap, error.to_string())),
        Ok(Err(decline)) if known(&decline.rule) => Err(Declined { rule: decline.rule, message: decline.message }),
        Ok(Err(decline)) => Err(host(HostRule::TranslatorReply, format!("rule {:?}", decline.rule))),
        Ok(Ok(graph)) => match arguments(problem) {
            None => Err(host(HostRule::ExtentUnknown, "an extent overflows".into())),
            Some(arguments) => validate(graph, &arguments).map_err(|fault| host(fault.rule, fault.detail)),
        },
    }
}

/// The buffer arguments of a convolution, in the contract's order, with what the call does to each.
pub fn arguments(problem: &ConvolutionProblem<'_>) -> Option<[Argument; 3]> {
    let result = match problem.direction {
        ConvolutionDirection::BackwardData => 0,
        ConvolutionDirection::BackwardWeights => 1,
        ConvolutionDirection::Forward => 2,
    };
    let argument = |position: usize, name: &'static str, tensor: &TensorDescriptor| {
        let written = position == result;
        // The call itself reads its output exactly when it accumulates into it.
        let read = !written || problem.beta != 0.0;
        Some(Argument { name, data_type: tensor.data_type(), extent: tensor.extent()?, read, written })
    };
    Some([argument(0, "x", problem.x)?, argument(1, "w", problem.w)?, argument(2, "y", problem.y)?])
}
