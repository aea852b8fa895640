//! Whether a component that loads is a translator: what it says about itself makes sense, and it answers a plain problem of each of its
//! families, twice alike. Not whether its answers are right: that is for the offline tools.

use super::manifest;
use crate::{
    capabilities::Capabilities,
    component::Translator,
    data_type::DataType,
    environment::Family,
    judge::judge,
    problem::{
        Activation, ActivationMode, ActivationProblem, ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode,
        ConvolutionProblem, DescriptorError, FusedOperation, FusionProblem, Problem, Scaling, TensorDescriptor,
    },
    rules::HostRule,
};

/// The reason to refuse a translator, if there is one.
pub fn self_check(translator: &Translator) -> Result<(), String> {
    let description = translator.description();
    if let Some(fault) = manifest::faults(description).into_iter().next() {
        return Err(fault);
    }
    for family in Family::ALL.iter().filter(|family| description.families.iter().any(|name| name == family.name())) {
        let answers = with_plain_problem(*family, |problem| answers_plainly(translator, problem));
        // What is plain here is no reason to refuse anybody.
        answers.unwrap_or(Ok(())).map_err(|reason| format!("a plain {} problem: {reason}", family.name()))?;
    }
    Ok(())
}

fn answers_plainly(translator: &Translator, problem: &Problem<'_>) -> Result<(), String> {
    let capabilities = Capabilities::whole_abi();
    let ask = || translator.translate(problem, &capabilities).map_err(|error| error.to_string());
    let (first, second) = (ask()?, ask()?);
    if first != second {
        return Err("two answers to one question".into());
    }
    match judge(Ok(first), translator.description(), problem) {
        Err(declined) if HostRule::of(&declined.rule).is_some() => Err(format!("{}: {}", declined.rule, declined.message)),
        _ => Ok(()),
    }
}

/// A problem that every translator of a family can be asked: whatever it thinks of it, it must not stumble.
fn with_plain_problem<R>(family: Family, ask: impl FnOnce(&Problem<'_>) -> R) -> Result<R, DescriptorError> {
    let image = TensorDescriptor::new(DataType::Float, None, &[1, 2, 4, 4], &[32, 16, 4, 1], 1, None)?;
    let scaling = Scaling::NONE;
    let activation = Activation { mode: ActivationMode::Relu, alpha: 0.0, beta: 0.0, gamma: 0.0 };
    Ok(match family {
        Family::Conv => {
            let w = TensorDescriptor::new(DataType::Float, None, &[2, 2, 3, 3], &[18, 9, 3, 1], 1, None)?;
            let fields = ConvolutionFields::initial(ConvolutionMode::Convolution, vec![1, 1], vec![1, 1], vec![1, 1]);
            let convolution = ConvolutionDescriptor::new(fields)?;
            ask(&Problem::Convolution(ConvolutionProblem {
                direction: ConvolutionDirection::Forward,
                convolution: &convolution,
                x: &image,
                w: &w,
                y: &image,
                alpha: scaling.alpha,
                beta: scaling.beta,
                algorithm: None,
            }))
        }
        Family::Fusion => {
            let operations = [FusedOperation::Activation { activation, scaling }];
            ask(&Problem::Fusion(FusionProblem { input: &image, operations: &operations, output: &image }))
        }
        Family::Activation => ask(&Problem::Activation(ActivationProblem { activation, scaling, x: &image, y: &image })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_one_passes() {
        self_check(&Translator::embedded().unwrap()).unwrap();
    }
}
