//! Fusion plans, their operations, and operator arguments. MIOpen copies descriptors when an operation is made; so do these records.

use hipdnn_host::problem::{Activation, ActivationMode, Scaling};

use super::made;
use crate::{
    convert,
    forwarding::fusion::scaling,
    frame::Frame,
    records::{FusionPlan, OperatorArgument, OperatorArguments, PlannedOperation, PlannedStep},
    routing::Forwarding,
};

/// `miopenCreateFusionPlan(plan*, direction, inputDesc)`.
pub fn create_plan(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let Some(plan) = made(frame, 0).filter(|_| success) else { return };
    let plans = forwarding.records.plans.pin();
    let input = forwarding.records.tensors.pin().get(&(frame.integer(2) as usize)).cloned();
    match input.filter(|_| frame.int(1) == miopen_api::fusion_direction::VERTICAL_FUSION) {
        Some(input) => drop(plans.insert(plan, FusionPlan { input, operations: Vec::new(), algorithm: None, compiled: false })),
        None => drop(plans.remove(&plan)),
    }
}

/// `miopenDestroyFusionPlan(plan)`.
pub fn forget_plan(frame: &Frame, forwarding: &Forwarding) {
    let plans = forwarding.records.plans.pin();
    let operations = forwarding.records.operations.pin();
    // Operations end with their plan.
    if let Some(plan) = plans.remove(&(frame.integer(0) as usize)) {
        for operation in &plan.operations {
            operations.remove(&operation.address);
        }
    }
}

/// Changes a plan, if it is recorded; a change that cannot be recorded takes the record away.
fn edit(forwarding: &Forwarding, address: u64, change: impl FnOnce(&mut FusionPlan) -> Option<()>) {
    let (plans, address) = (forwarding.records.plans.pin(), address as usize);
    let Some(mut plan) = plans.get(&address).cloned() else { return };
    match change(&mut plan) {
        Some(()) => drop(plans.insert(address, plan)),
        None => drop(plans.remove(&address)),
    }
}

/// `miopenCreateOp…(plan, operation*, …)`.
fn add(frame: &Frame, forwarding: &Forwarding, success: bool, step: Option<PlannedStep>) {
    // A failure leaves native's plan in a state that nothing says.
    edit(forwarding, frame.integer(0), |plan| {
        let operation = PlannedOperation::new(made(frame, 1).filter(|_| success)?, step?);
        forwarding.records.operations.pin().insert(operation.address, operation.serial);
        plan.operations.push(operation);
        plan.compiled = false;
        Some(())
    });
}

/// `miopenCreateOpConvForward(plan, operation*, convDesc, wDesc)`.
pub fn add_convolution(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let convolution = forwarding.records.convolutions.pin().get(&(frame.integer(2) as usize)).cloned();
    let w = forwarding.records.tensors.pin().get(&(frame.integer(3) as usize)).cloned();
    let step = convolution.zip(w).map(|(convolution, w)| PlannedStep::Convolution { convolution, w });
    add(frame, forwarding, success, step);
}

/// `miopenCreateOpBiasForward(plan, operation*, biasDesc)`.
pub fn add_bias(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let bias = forwarding.records.tensors.pin().get(&(frame.integer(2) as usize)).cloned();
    add(frame, forwarding, success, bias.map(PlannedStep::Bias));
}

/// `miopenCreateOpBatchNormInference(plan, operation*, mode, parametersDesc)`.
pub fn add_normalization(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let parameters = forwarding.records.tensors.pin().get(&(frame.integer(3) as usize)).cloned();
    let mode = convert::normalization_mode(frame.int(2));
    add(frame, forwarding, success, parameters.map(|parameters| PlannedStep::Normalization(mode, parameters)));
}

/// `miopenCreateOpActivationForward(plan, operation*, mode)`.
pub fn add_activation(frame: &Frame, forwarding: &Forwarding, success: bool) {
    add(frame, forwarding, success, Some(PlannedStep::Activation(convert::activation_mode(frame.int(2)))));
}

/// An operation that no chain of the contract has.
pub fn add_other(frame: &Frame, forwarding: &Forwarding, success: bool, name: &'static str) {
    add(frame, forwarding, success, Some(PlannedStep::Other(name)));
}

/// `miopenFusionPlanConvolutionSetAlgo(plan, algorithm)`.
pub fn set_algorithm(frame: &Frame, forwarding: &Forwarding, success: bool) {
    if success {
        edit(forwarding, frame.integer(0), |plan| {
            plan.algorithm = Some(frame.int(1).cast_unsigned());
            Some(())
        });
    }
}

/// `miopenCompileFusionPlan(handle, plan)`.
pub fn compile(frame: &Frame, forwarding: &Forwarding, success: bool) {
    edit(forwarding, frame.integer(1), |plan| {
        plan.compiled = success;
        Some(())
    });
}

/// `miopenCreateOperatorArgs(args*)`.
pub fn create_arguments(frame: &Frame, forwarding: &Forwarding, success: bool) {
    if let Some(arguments) = made(frame, 0).filter(|_| success) {
        forwarding.records.arguments.pin().insert(arguments, OperatorArguments::default());
    }
}

/// `miopenDestroyOperatorArgs(args)`.
pub fn forget_arguments(frame: &Frame, forwarding: &Forwarding) {
    forwarding.records.arguments.pin().remove(&(frame.integer(0) as usize));
}

/// `miopenSetOpArgs…(args, operation, alpha*, beta*, …)`.
fn set(frame: &Frame, forwarding: &Forwarding, success: bool, argument: OperatorArgument) {
    let (records, address) = (forwarding.records.arguments.pin(), frame.integer(0) as usize);
    let Some(mut arguments) = records.get(&address).filter(|_| success).cloned() else { return };
    let operation = frame.integer(1) as usize;
    let serial = forwarding.records.operations.pin().get(&operation).copied();
    if let Some(serial) = serial {
        arguments.set(operation, serial, argument);
        records.insert(address, arguments);
    }
}

fn scalars(frame: &Frame) -> Scaling {
    scaling(frame, [2, 3])
}

/// `miopenSetOpArgsConvForward(args, operation, alpha*, beta*, w)`.
pub fn set_convolution(frame: &Frame, forwarding: &Forwarding, success: bool) {
    set(frame, forwarding, success, OperatorArgument::Convolution { scaling: scalars(frame), w: frame.integer(4) as usize });
}

/// `miopenSetOpArgsBiasForward(args, operation, alpha*, beta*, bias)`.
pub fn set_bias(frame: &Frame, forwarding: &Forwarding, success: bool) {
    set(frame, forwarding, success, OperatorArgument::Bias { scaling: scalars(frame), bias: frame.integer(4) as usize });
}

/// `miopenSetOpArgsBatchNormInference(args, operation, alpha*, beta*, scale, shift, mean, variance, epsilon)`.
pub fn set_normalization(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let parameters = [4, 5, 6, 7].map(|n| frame.integer(n) as usize);
    let argument = OperatorArgument::Normalization { scaling: scalars(frame), parameters, epsilon: frame.double(0) };
    set(frame, forwarding, success, argument);
}

/// `miopenSetOpArgsActivForward(args, operation, alpha*, beta*, alpha, beta, gamma)`.
pub fn set_activation(frame: &Frame, forwarding: &Forwarding, success: bool) {
    let [alpha, beta, gamma] = [0, 1, 2].map(|n| frame.double(n));
    // The plan knows the mode.
    let parameters = Activation { mode: ActivationMode::Unrecognized, alpha, beta, gamma };
    set(frame, forwarding, success, OperatorArgument::Activation { scaling: scalars(frame), parameters });
}
