//! What a translator's reply is worth: a graph that validates, or a decline that the host can name. Faults of the translator are declines
//! of the host. Shared by the calls that are forwarded and by the offline tools.

use crate::{
    component::{ComponentError, Description},
    graph::{ReceivedDecline, ReceivedGraph},
    problem::{Operand, Problem},
    rules::HostRule,
    translations::Declined,
    validate::{Argument, ValidatedGraph, validate},
};

/// What a component answers, if it answers.
pub type Reply = Result<Result<ReceivedGraph, ReceivedDecline>, ComponentError>;

/// Judges a reply to a problem, of a translator that says this about itself.
pub fn judge(reply: Reply, translator: &Description, problem: &Problem<'_>) -> Result<ValidatedGraph, Declined> {
    let host = |rule: HostRule, message: String| Declined { rule: rule.id().to_string(), message };
    let known = |rule: &str| translator.rules.iter().any(|entry| entry.id == rule);
    match reply {
        Err(error @ ComponentError::Family(_)) => Err(host(HostRule::TranslatorFamily, error.to_string())),
        Err(error) => Err(host(HostRule::TranslatorTrap, error.to_string())),
        Ok(Err(decline)) if known(&decline.rule) => Err(Declined { rule: decline.rule, message: decline.message }),
        Ok(Err(decline)) => Err(host(HostRule::TranslatorReply, format!("rule {:?}", decline.rule))),
        Ok(Ok(_)) if problem.operands().is_none() => Err(host(HostRule::ProblemSize, "more tensors than a call may have".into())),
        Ok(Ok(graph)) => match arguments(problem) {
            None => Err(host(HostRule::ExtentUnknown, "an extent overflows".into())),
            Some(arguments) => validate(graph, &arguments).map_err(|fault| host(fault.rule, fault.detail)),
        },
    }
}

/// The buffer arguments of a call, in the contract's order, with what the call does to each.
pub fn arguments(problem: &Problem<'_>) -> Option<Vec<Argument>> {
    let argument = |operand: &Operand<'_>| {
        let extent = operand.tensor.extent()?;
        Some(Argument { name: operand.name, data_type: operand.tensor.data_type(), extent, read: operand.read, written: operand.written })
    };
    problem.operands()?.iter().map(argument).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        capabilities::Capabilities,
        component::Translator,
        data_type::DataType,
        problem::{FusedOperation, FusionProblem, NormalizationMode, Scaling, TensorDescriptor},
    };

    // Found by fuzzing the rules: they take chains of any length.
    #[test]
    fn a_chain_with_more_tensors_than_a_call_may_have_is_declined_for_that() {
        let tensor = |dims: &[i64], strides: &[i64]| TensorDescriptor::new(DataType::Float, None, dims, strides, 1, None).unwrap();
        let (input, parameters) = (tensor(&[1, 2, 3, 3], &[18, 9, 3, 1]), tensor(&[1, 2, 1, 1], &[2, 1, 1, 1]));
        let translator = Translator::embedded().unwrap();
        let rule = |operations: usize| {
            let (mode, scaling) = (NormalizationMode::Spatial, Scaling::NONE);
            let operations = vec![FusedOperation::Normalization { mode, parameters: &parameters, epsilon: 1e-5, scaling }; operations];
            let problem = Problem::Fusion(FusionProblem { input: &input, operations: &operations, output: &input });
            let reply = translator.translate(&problem, &Capabilities::whole_abi());
            judge(reply, translator.description(), &problem).err().map(|declined| declined.rule)
        };
        assert_eq!(rule(3), None);
        assert_eq!(rule(4).as_deref(), Some("host.problem.size"));
    }
}
