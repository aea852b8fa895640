//! Execution of compiled plans.

use super::arguments::{Argument, Arguments};
use super::operation::{Kind, Operation};
use super::plan::Plan;
use crate::activation::curve;
use crate::args::{Obj, Raw};
use crate::failure::{Failure, Outcome, bad};
use crate::handle::Handle;
use crate::numeric::chain::{Chain, Source, Stage};
use crate::numeric::{self, Scale};
use crate::problem::{Direction, Problem, in_memory};
use crate::tensor::Tensor;

/// What a plan is executed with.
struct Execution<'a> {
    plan: &'a Plan,
    x: (&'a Tensor, Raw),
    y: (&'a Tensor, Raw),
    arguments: &'a Arguments,
}

impl Execution<'_> {
    fn check(&self) -> Outcome {
        if !self.plan.compiled {
            return Err(bad("the plan is not compiled"));
        }
        if self.x.0 != &self.plan.input {
            return Err(bad("this is not the input that was planned"));
        }
        let (y, planned) = (self.y.0, &self.plan.output);
        if (y.data_type, &y.dims, y.vector_length) != (planned.data_type, &planned.dims, 1) {
            return Err(bad("this is not the output that was planned"));
        }
        Ok(())
    }

    fn chain(&self) -> Result<Chain, Failure> {
        let mut source = Source::Tensor(memory(self.x.0, self.x.1)?);
        let mut stages = Vec::new();
        for operation in &self.plan.operations {
            let operation = operation.get()?;
            match (&operation.kind, self.arguments.of(operation)?) {
                (Kind::Convolution { conv, w: filter }, Argument::Convolution { w }) => {
                    let problem = Problem { direction: Direction::Forward, x: self.x.0, w: filter, y: self.y.0, conv };
                    problem.check()?;
                    source = Source::Convolution(problem.work([self.x.1, w, self.y.1], Scale::PLAIN)?);
                }
                (_, argument) => stages.push(stage(operation, argument)?),
            }
        }
        Ok(Chain { source, stages, output: memory(self.y.0, self.y.1)?, scale: Scale::PLAIN })
    }
}

fn memory(tensor: &Tensor, memory: Raw) -> Result<numeric::Tensor, Failure> {
    if memory.0.is_null() {
        return Err(bad("a tensor's memory is null"));
    }
    in_memory(tensor, memory)
}

/// What follows the convolution.
fn stage(operation: &Operation, argument: Argument) -> Result<Stage, Failure> {
    Ok(match (&operation.kind, argument) {
        (Kind::Bias { bias }, Argument::Bias { bias: values }) => Stage::Add { tensor: memory(bias, values)?, factor: 1.0 },
        (Kind::Activation { mode }, Argument::Activation { parameters }) => Stage::Apply(curve(*mode, parameters)?),
        (Kind::BatchNorm { parameters, .. }, Argument::BatchNorm { scale, shift, mean, variance, epsilon }) => Stage::Normalise {
            scale: memory(parameters, scale)?,
            shift: memory(parameters, shift)?,
            mean: memory(parameters, mean)?,
            variance: memory(parameters, variance)?,
            epsilon,
        },
        _ => return Err(bad("the operation is of another kind than its arguments")),
    })
}

pub fn miopenExecuteFusionPlan(
    mut handle: Obj<Handle>,
    plan: Obj<Plan>,
    x_desc: Obj<Tensor>,
    x: Raw,
    y_desc: Obj<Tensor>,
    y: Raw,
    arguments: Obj<Arguments>,
) -> Outcome {
    let handle = handle.get_mut()?;
    let execution = Execution { plan: plan.get()?, x: (x_desc.get()?, x), y: (y_desc.get()?, y), arguments: arguments.get()? };
    execution.check()?;
    let chain = execution.chain()?;
    handle.queue(chain)
}

/// With a workspace, which nothing needs.
#[allow(clippy::too_many_arguments)]
pub fn miopenExecuteFusionPlan_v2(
    handle: Obj<Handle>,
    plan: Obj<Plan>,
    x_desc: Obj<Tensor>,
    x: Raw,
    y_desc: Obj<Tensor>,
    y: Raw,
    arguments: Obj<Arguments>,
    _workspace: Raw,
    _workspace_size: u64,
) -> Outcome {
    miopenExecuteFusionPlan(handle, plan, x_desc, x, y_desc, y, arguments)
}
