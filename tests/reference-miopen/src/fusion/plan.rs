//! Plans: the list of operations on an input that was described once, and whether it can be computed.

use miopen_api::{data_type, fusion_direction, fwd_algorithm, status};

use super::operation::{Kind, Operation};
use crate::args::{New, Obj, Out, create, make, object};
use crate::failure::{Failure, Outcome, bad, fail};
use crate::handle::Handle;
use crate::problem::{Direction, Problem};
use crate::tensor::Tensor;

/// The algorithms that the real library lists for every plan.
const ALGORITHMS: [i32; 2] = [fwd_algorithm::DIRECT, fwd_algorithm::WINOGRAD];

/// A fusion plan.
pub struct Plan {
    direction: i32,
    pub input: Tensor,
    /// Type and dimensions of what comes out of the last operation.
    pub output: Tensor,
    pub operations: Vec<Obj<Operation>>,
    pub compiled: bool,
}
object!(Plan, 0x6d69_4675_7369_6f50, "fusion plan");

impl Plan {
    /// Adds an operation, and gives the pointer that callers know it by.
    pub fn add(&mut self, kind: Kind) -> Result<New<Operation>, Failure> {
        // The first one meets the caller's descriptor, vectors and all.
        let before = if self.operations.is_empty() { &self.input } else { &self.output };
        self.output = Tensor::packed(self.input.data_type, kind.output_dims(before)?);
        self.compiled = false;
        let operation = make(Operation::new(kind));
        let pointer = operation.handle();
        self.operations.push(operation);
        Ok(pointer)
    }

    fn can_be_computed(&self) -> Result<bool, Failure> {
        use Kind::{Activation, BatchNorm, Bias, Convolution};
        let operations: Vec<&Operation> = self.operations.iter().map(Obj::get).collect::<Result<_, _>>()?;
        let kinds: Vec<&Kind> = operations.iter().map(|operation| &operation.kind).collect();
        let order = matches!(
            kinds[..],
            [Convolution { .. }, Bias { .. }]
                | [Convolution { .. }, Activation { .. }]
                | [Convolution { .. }, Bias { .. }, Activation { .. }]
                | [Convolution { .. }, BatchNorm { .. }, Activation { .. }]
                | [Convolution { .. }, Bias { .. }, BatchNorm { .. }, Activation { .. }]
                | [BatchNorm { .. }, Activation { .. }]
        );
        let typed = matches!(self.input.data_type, data_type::FLOAT | data_type::HALF | data_type::BFLOAT16);
        let plain = self.input.vector_length == 1 && (3..=5).contains(&self.input.dims.len());
        let possible = order && typed && plain && self.direction == fusion_direction::VERTICAL_FUSION;
        // Only a convolution, which is first, changes dimensions: what comes out of the plan is what goes into everything behind it.
        Ok(possible && kinds.iter().all(|kind| kind.fits(&self.output)) && self.convolution_fits(kinds[0]))
    }

    fn convolution_fits(&self, first: &Kind) -> bool {
        let Kind::Convolution { conv, w } = first else { return true };
        let problem = Problem { direction: Direction::Forward, x: &self.input, w, y: &self.output, conv };
        !conv.transposed() && problem.check().is_ok()
    }
}

pub fn miopenCreateFusionPlan(plan: Out<New<Plan>>, direction: i32, input: Obj<Tensor>) -> Outcome {
    let (input, output) = (input.get()?.clone(), input.get()?.clone());
    create(&plan, Plan { direction, input, output, operations: vec![], compiled: false })
}

pub fn miopenDestroyFusionPlan(mut plan: Obj<Plan>) -> Outcome {
    if plan.is_null() {
        return Ok(());
    }
    let operations = core::mem::take(&mut plan.get_mut()?.operations);
    operations.into_iter().try_for_each(Obj::destroy)?;
    plan.destroy()
}

pub fn miopenFusionPlanGetOp(plan: Obj<Plan>, index: i32, operation: Out<New<Operation>>) -> Outcome {
    let operations = &plan.get()?.operations;
    let found = usize::try_from(index).ok().and_then(|index| operations.get(index));
    operation.put(found.ok_or_else(|| bad(format!("the plan has no operation {index}")))?.handle())
}

pub fn miopenFusionPlanGetWorkSpaceSize(handle: Obj<Handle>, plan: Obj<Plan>, size: Out<usize>, _algorithm: i32) -> Outcome {
    handle.get()?;
    plan.get()?;
    size.put(0)
}

pub fn miopenFusionPlanConvolutionGetAlgo(plan: Obj<Plan>, requested: i32, returned: Out<i32>, algorithms: Out<i32>) -> Outcome {
    plan.get()?;
    if requested < 1 || algorithms.is_null() {
        return Err(bad("no algorithms asked for, or no place for them"));
    }
    let listed = ALGORITHMS.into_iter().take(requested as usize);
    returned.put(listed.len() as i32)?;
    algorithms.put_all(listed);
    Ok(())
}

pub fn miopenFusionPlanConvolutionSetAlgo(plan: Obj<Plan>, algorithm: i32) -> Outcome {
    plan.get()?;
    if fwd_algorithm::ALL.iter().any(|(_, known)| *known == algorithm) { Ok(()) } else { Err(bad(format!("no algorithm {algorithm}"))) }
}

/// A NULL handle gives status 7, as it was seen to.
pub fn miopenCompileFusionPlan(handle: Obj<Handle>, mut plan: Obj<Plan>) -> Outcome {
    if handle.is_null() {
        return Err(fail(status::UNKNOWN_ERROR, "the handle is null"));
    }
    handle.get()?;
    let plan = plan.get_mut()?;
    plan.compiled = plan.can_be_computed()?;
    if plan.compiled { Ok(()) } else { Err(fail(status::UNSUPPORTED_OP, "the operations of the plan cannot be fused")) }
}
