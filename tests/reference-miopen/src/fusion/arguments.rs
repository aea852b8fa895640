//! Arguments of operations: kept by operation until a plan is executed. Their alpha and beta are not looked at.

use std::collections::HashMap;

use super::operation::{Kind, Operation};
use crate::args::{New, Obj, Out, Raw, create, object};
use crate::failure::{Failure, Outcome, bad};

/// What one operation is executed with.
#[derive(Clone, Copy)]
pub enum Argument {
    Convolution { w: Raw },
    Bias { bias: Raw },
    BatchNorm { scale: Raw, shift: Raw, mean: Raw, variance: Raw, epsilon: f64 },
    Activation { parameters: [f64; 3] },
}

/// Operator arguments.
pub struct Arguments(HashMap<u64, Argument>);
object!(Arguments, 0x6d69_4f70_4172_6773, "operator arguments");

impl Arguments {
    /// Those of an operation.
    pub fn of(&self, operation: &Operation) -> Result<Argument, Failure> {
        self.0.get(&operation.number).copied().ok_or_else(|| bad("an operation has no arguments"))
    }
}

fn set(mut arguments: Obj<Arguments>, operation: &Obj<Operation>, argument: Argument) -> Outcome {
    let (arguments, operation) = (arguments.get_mut()?, operation.get()?);
    let fits = matches!(
        (&operation.kind, argument),
        (Kind::Convolution { .. }, Argument::Convolution { .. })
            | (Kind::Bias { .. }, Argument::Bias { .. })
            | (Kind::BatchNorm { .. }, Argument::BatchNorm { .. })
            | (Kind::Activation { .. }, Argument::Activation { .. })
    );
    if !fits {
        return Err(bad("the operation is of another kind"));
    }
    arguments.0.insert(operation.number, argument);
    Ok(())
}

pub fn miopenCreateOperatorArgs(arguments: Out<New<Arguments>>) -> Outcome {
    create(&arguments, Arguments(HashMap::new()))
}

pub fn miopenDestroyOperatorArgs(arguments: Obj<Arguments>) -> Outcome {
    arguments.destroy()
}

pub fn miopenSetOpArgsConvForward(arguments: Obj<Arguments>, operation: Obj<Operation>, _alpha: Raw, _beta: Raw, w: Raw) -> Outcome {
    set(arguments, &operation, Argument::Convolution { w })
}

pub fn miopenSetOpArgsBiasForward(arguments: Obj<Arguments>, operation: Obj<Operation>, _alpha: Raw, _beta: Raw, bias: Raw) -> Outcome {
    set(arguments, &operation, Argument::Bias { bias })
}

pub fn miopenSetOpArgsActivForward(
    arguments: Obj<Arguments>,
    operation: Obj<Operation>,
    _alpha: Raw,
    _beta: Raw,
    alpha: f64,
    beta: f64,
    gamma: f64,
) -> Outcome {
    set(arguments, &operation, Argument::Activation { parameters: [alpha, beta, gamma] })
}

#[allow(clippy::too_many_arguments)]
pub fn miopenSetOpArgsBatchNormInference(
    arguments: Obj<Arguments>,
    operation: Obj<Operation>,
    _alpha: Raw,
    _beta: Raw,
    scale: Raw,
    shift: Raw,
    mean: Raw,
    variance: Raw,
    epsilon: f64,
) -> Outcome {
    set(arguments, &operation, Argument::BatchNorm { scale, shift, mean, variance, epsilon })
}
