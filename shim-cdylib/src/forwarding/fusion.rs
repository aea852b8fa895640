//! Fused calls: plans as they were recorded, and the one call that fuses without a plan, become one chain of operations.

use std::ffi::c_void;

use arrayvec::ArrayVec;
use hipdnn_host::{
    forward::Call,
    problem::{
        Activation, ActivationMode, ConvolutionDescriptor, FusedOperation, FusionProblem, MAX_ARGUMENTS, MAX_OPERATIONS, Problem, Scaling,
        TensorDescriptor,
    },
    rules::HostRule,
};

use super::{
    Given,
    by_native::{self, ByNative, Written},
    conclude, scalar, unmade, unrecorded,
};
use crate::{
    frame::{Frame, Step},
    records::{FusionPlan, HandleRecord, OperatorArgument, OperatorArguments, PlannedOperation, PlannedStep},
    routing::Forwarding,
};

/// A chain under construction, and the addresses of its operands. On the stack: the warm path allocates nothing.
struct Chain<'a> {
    operations: ArrayVec<FusedOperation<'a>, MAX_OPERATIONS>,
    pointers: ArrayVec<*mut c_void, MAX_ARGUMENTS>,
}

impl<'a> Chain<'a> {
    /// Input and output come first.
    fn new(input: *mut c_void, output: *mut c_void) -> Self {
        Self { operations: ArrayVec::new(), pointers: ArrayVec::from_iter([input, output]) }
    }

    /// Adds an operation with its operands; `None` if there is no room.
    fn push(&mut self, operation: FusedOperation<'a>, operands: &[usize]) -> Option<()> {
        self.operations.try_push(operation).ok()?;
        operands.iter().try_for_each(|&operand| self.pointers.try_push(operand as *mut c_void).ok())
    }
}

/// The call around a chain.
struct Around<'a> {
    name: &'static str,
    written: Written,
    frame: &'a Frame,
    input: &'a TensorDescriptor,
    output: &'a TensorDescriptor,
    workspace: *mut c_void,
    workspace_bytes: usize,
}

fn execute(forwarding: &'static Forwarding, record: &HandleRecord, around: &Around<'_>, chain: &Chain<'_>) -> Step {
    let problem = FusionProblem { input: around.input, operations: &chain.operations, output: around.output };
    let call = Call {
        entry_point: around.name,
        problem: Problem::Fusion(problem),
        pointers: &chain.pointers,
        workspace: around.workspace,
        workspace_bytes: around.workspace_bytes,
    };
    let given = Given { name: around.name, written: around.written, frame: around.frame, state: &record.state };
    conclude(forwarding, &given, forwarding.host.call(&record.state, &call), ByNative::unchanged)
}

/// `miopenExecuteFusionPlan(handle, plan, inputDesc, input, outputDesc, output, args)`.
pub fn execute_plan(frame: &Frame, forwarding: &'static Forwarding) -> Step {
    planned("miopenExecuteFusionPlan", frame, forwarding, None)
}

/// The same with `(…, workspace, workspaceSize)`.
pub fn execute_plan_v2(frame: &Frame, forwarding: &'static Forwarding) -> Step {
    planned("miopenExecuteFusionPlan_v2", frame, forwarding, Some(7))
}

fn planned(name: &'static str, frame: &Frame, forwarding: &'static Forwarding, workspace: Option<usize>) -> Step {
    let records = &forwarding.records;
    let (handles, plans, tensors) = (records.handles.pin(), records.plans.pin(), records.tensors.pin());
    let arguments = records.arguments.pin();
    let (Some(record), Some(plan), Some(input), Some(output), Some(arguments)) = (
        handles.get(&(frame.integer(0) as usize)),
        plans.get(&(frame.integer(1) as usize)),
        tensors.get(&(frame.integer(2) as usize)),
        tensors.get(&(frame.integer(4) as usize)),
        arguments.get(&(frame.integer(6) as usize)),
    ) else {
        return unrecorded(frame, forwarding, name);
    };
    let mut chain = Chain::new(frame.pointer(3), frame.pointer(5));
    // Native refuses what was not planned like this; it shall say so itself.
    let planned = plan.compiled && *input == plan.input && output.data_type() == input.data_type();
    if !planned || add_planned(&mut chain, plan, arguments).is_none() {
        return unmade(
            frame,
            forwarding,
            name,
            HostRule::FusionIncomplete,
            "the plan, its arguments, the input, or the type of the output",
        );
    }
    let around = Around {
        name,
        written: by_native::argument(5, workspace),
        frame,
        input,
        output,
        workspace: workspace.map_or(std::ptr::null_mut(), |n| frame.pointer(n)),
        workspace_bytes: workspace.map_or(0, |n| frame.integer(n + 1) as usize),
    };
    execute(forwarding, record, &around, &chain)
}

/// The operations of a plan with their arguments; `None` if one lacks them, or has those of another kind.
fn add_planned<'a>(chain: &mut Chain<'a>, plan: &'a FusionPlan, arguments: &OperatorArguments) -> Option<()> {
    plan.operations.iter().try_for_each(|operation| add_operation(chain, plan, operation, arguments))
}

fn add_operation<'a>(
    chain: &mut Chain<'a>,
    plan: &'a FusionPlan,
    operation: &'a PlannedOperation,
    arguments: &OperatorArguments,
) -> Option<()> {
    if let PlannedStep::Other(name) = &operation.step {
        return chain.push(FusedOperation::Other(name), &[]);
    }
    match (&operation.step, arguments.of(operation)?) {
        (PlannedStep::Convolution { convolution, w: descriptor }, OperatorArgument::Convolution { scaling, w }) => {
            let operation = FusedOperation::Convolution { convolution, w: descriptor, algorithm: plan.algorithm, scaling };
            chain.push(operation, &[w])
        }
        (PlannedStep::Bias(tensor), OperatorArgument::Bias { scaling, bias }) => {
            chain.push(FusedOperation::Bias { tensor, scaling }, &[bias])
        }
        (PlannedStep::Normalization(mode, descriptor), OperatorArgument::Normalization { scaling, parameters, epsilon }) => {
            let operation = FusedOperation::Normalization { mode: *mode, parameters: descriptor, epsilon, scaling };
            chain.push(operation, &parameters)
        }
        (PlannedStep::Activation(mode), OperatorArgument::Activation { scaling, parameters }) => {
            let activation = Activation { mode: *mode, ..parameters };
            chain.push(FusedOperation::Activation { activation, scaling }, &[])
        }
        _ => None,
    }
}

const ONE_CALL: &str = "miopenConvolutionBiasActivationForward";

/// `miopenConvolutionBiasActivationForward(handle, alpha1, xDesc, x, wDesc, w, convDesc, algo, workspace, workspaceSize, alpha2, zDesc, z,
/// biasDesc, bias, activationDesc, yDesc, y)`: y = activation(alpha1 · conv(x, w) + alpha2 · z + bias). Null scalars are 1; with alpha2 = 0
/// z is not looked at, and may be anything.
pub fn convolution_bias_activation(frame: &Frame, forwarding: &'static Forwarding) -> Step {
    let records = &forwarding.records;
    let (handles, tensors) = (records.handles.pin(), records.tensors.pin());
    let (convolutions, activations) = (records.convolutions.pin(), records.activations.pin());
    let tensor = |n: usize| tensors.get(&(frame.integer(n) as usize));
    let (Some(record), Some(x), Some(w), Some(bias), Some(y), Some(convolution), Some(&activation)) = (
        handles.get(&(frame.integer(0) as usize)),
        tensor(2),
        tensor(4),
        tensor(13),
        tensor(16),
        convolutions.get(&(frame.integer(6) as usize)),
        activations.get(&(frame.integer(15) as usize)),
    ) else {
        return unrecorded(frame, forwarding, ONE_CALL);
    };
    // MIOpen fuses nothing else without a plan, and programs rely on its refusal.
    if activation.mode != ActivationMode::Relu {
        return unmade(frame, forwarding, ONE_CALL, HostRule::FusionActivation, "an activation that is no ReLU");
    }
    let factor = |n: usize| scalar(frame.pointer(n), y).unwrap_or(1.0);
    let (alpha1, alpha2) = (factor(1), factor(10));
    let mut chain = Chain::new(frame.pointer(3), frame.pointer(17));
    let parts = Parts { convolution, w, algorithm: frame.int(7).cast_unsigned(), alpha: alpha1, bias, activation };
    let z = match tensor(11) {
        _ if alpha2 == 0.0 => None,
        Some(z) => Some((FusedOperation::Addition { tensor: z, factor: alpha2 }, frame.integer(12) as usize)),
        None => return unrecorded(frame, forwarding, ONE_CALL),
    };
    if parts.add(&mut chain, z, [5, 14].map(|n| frame.integer(n) as usize)).is_none() {
        return unmade(frame, forwarding, ONE_CALL, HostRule::ProblemSize, "the operations of this call");
    }
    let around = Around {
        name: ONE_CALL,
        written: by_native::argument(17, Some(8)),
        frame,
        input: x,
        output: y,
        workspace: frame.pointer(8),
        workspace_bytes: frame.integer(9) as usize,
    };
    execute(forwarding, record, &around, &chain)
}

/// What the one call is made of.
struct Parts<'a> {
    convolution: &'a ConvolutionDescriptor,
    w: &'a TensorDescriptor,
    algorithm: u32,
    alpha: f64,
    bias: &'a TensorDescriptor,
    activation: Activation,
}

impl<'a> Parts<'a> {
    fn add(&self, chain: &mut Chain<'a>, z: Option<(FusedOperation<'a>, usize)>, [w, bias]: [usize; 2]) -> Option<()> {
        let Self { convolution, w: filter, algorithm, alpha, bias: tensor, activation } = *self;
        let scaling = Scaling { alpha, beta: 0.0 };
        chain.push(FusedOperation::Convolution { convolution, w: filter, algorithm: Some(algorithm), scaling }, &[w])?;
        if let Some((addition, z)) = z {
            chain.push(addition, &[z])?;
        }
        chain.push(FusedOperation::Bias { tensor, scaling: Scaling::NONE }, &[bias])?;
        chain.push(FusedOperation::Activation { activation, scaling: Scaling::NONE }, &[])
    }
}

/// The scalars of an operation of a plan: floats, whatever the tensors are. Null is what does nothing.
pub fn scaling(frame: &Frame, [alpha, beta]: [usize; 2]) -> Scaling {
    let read = |n: usize, default: f64| {
        let pointer = frame.pointer(n).cast::<f32>();
        // SAFETY: not null, and MIOpen's contract makes it a float.
        if pointer.is_null() { default } else { f64::from(unsafe { pointer.read_unaligned() }) }
    };
    Scaling { alpha: read(alpha, 1.0), beta: read(beta, 0.0) }
}
