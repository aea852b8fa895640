//! Every reason to decline a chain, each a small function with its id beside it. Those of its convolution are conv's, and are tried when
//! these have passed.
//!
//! Order matters twice: callers see the first rule that objects, so the coarse ones come first, and a check may rely on those
//! before it.

use alloc::{format, string::String};

use hipdnn_abi::descriptor_type;

use super::{
    activation::{self, Carrier},
    chain,
};
use crate::{
    contract::{
        fusion::{Activation, ActivationMode, NormalizationMode, Operation, Problem},
        graph::{Capabilities, DataType},
    },
    rule::Rule,
    tensor::{
        self, Named,
        rules::{self as shared, Tensors},
    },
};

/// The longest chain. MIOpen's own have four operations.
const MAX_OPERATIONS: usize = 16;

/// The most tensors of a graph that a host takes.
const MAX_TENSORS: usize = 64;

/// The rules, in the order they are tried.
pub static RULES: &[Rule<Problem>] = &[
    Rule {
        id: "fusion.operations.count",
        reason: "no operation, more than 16, or a graph of more than 64 tensors",
        check: operations_count,
    },
    Rule { id: "fusion.operations.unknown", reason: "an operation that has no place in a chain", check: operations_unknown },
    Rule { id: "fusion.operations.order", reason: "a convolution that is not the first operation", check: operations_order },
    Rule { id: "fusion.backend.pointwise", reason: "the loaded backend cannot create pointwise operations", check: backend_pointwise },
    Rule {
        id: "fusion.activation.unrecognized",
        reason: "an activation mode that the contract does not know",
        check: |problem, _| activation_mode(problem, ActivationMode::Unrecognized),
    },
    Rule {
        id: "fusion.activation.power",
        reason: "a power: MIOpen's is 0 where alpha + beta x is not positive, which no pointwise mode says",
        check: |problem, _| activation_mode(problem, ActivationMode::Power),
    },
    Rule { id: "fusion.normalization.mode", reason: "a normalization mode that the contract does not know", check: normalization_mode },
    Rule { id: "fusion.scaling.alpha", reason: "alpha of an operation is not 1", check: scaling_alpha },
    Rule { id: "fusion.scaling.beta", reason: "beta of an operation is not 0", check: scaling_beta },
    Rule { id: "fusion.addition.factor", reason: "a tensor that is added other than once", check: addition_factor },
    shared::vectorized(),
    shared::type_counterpart(),
    shared::type_cast(),
    shared::type_backend(),
    Rule { id: "fusion.type.pointwise", reason: "integers or 8-bit floats in a chain of more than a convolution", check: type_pointwise },
    Rule {
        id: "fusion.type.compute",
        reason: "the loaded backend does not have the type that the chain is computed in",
        check: type_compute,
    },
    Rule {
        id: "fusion.activation.parameters",
        reason: "a parameter of an activation that is no finite number of the type it is computed in",
        check: activation_parameters,
    },
    Rule {
        id: "fusion.normalization.epsilon",
        reason: "an epsilon that is negative, or no finite number of the type it is computed in",
        check: normalization_epsilon,
    },
    shared::dims_empty(),
    shared::strides_positive(),
    shared::strides_overlap(),
    shared::extent_range(),
    Rule { id: "fusion.output.shape", reason: "without a convolution: an output of other lengths than the input", check: output_shape },
    Rule { id: "fusion.addition.shape", reason: "an added tensor of other lengths than the output", check: addition_shape },
    Rule { id: "fusion.bias.shape", reason: "a bias without exactly one number for each channel of the output", check: bias_shape },
    Rule {
        id: "fusion.normalization.shape",
        reason: "parameters without exactly one number for each channel (spatial) or element of an image (per activation)",
        check: normalization_shape,
    },
];

impl Tensors for Problem {
    fn any_tensor(&self, check: &dyn Fn(Named<'_>) -> Option<String>) -> Option<String> {
        chain::tensors(self).find_map(check)
    }

    fn result(&self) -> Named<'_> {
        ("the output", &self.output)
    }
}

fn operations_count(problem: &Problem, _: &Capabilities) -> Option<String> {
    let count = problem.operations.len();
    if !(1..=MAX_OPERATIONS).contains(&count) {
        return Some(format!("{count} operations"));
    }
    let tensors = 2 + problem.operations.iter().map(most_tensors).sum::<usize>();
    (tensors > MAX_TENSORS).then(|| format!("{count} operations with {tensors} tensors"))
}

/// The most tensors that an operation brings into the graph: operands, numbers, and results.
fn most_tensors(operation: &Operation) -> usize {
    match operation {
        Operation::Normalization(_) => 11,
        Operation::Activation(activation) if activation.mode == ActivationMode::Tanh => 5,
        Operation::Convolution(_) | Operation::Addition(_) | Operation::Bias(_) => 2,
        Operation::Activation(_) | Operation::Other(_) => 1,
    }
}

fn operations_unknown(problem: &Problem, _: &Capabilities) -> Option<String> {
    problem.operations.iter().find_map(|operation| if let Operation::Other(name) = operation { Some(name.clone()) } else { None })
}

fn operations_order(problem: &Problem, _: &Capabilities) -> Option<String> {
    let place = problem.operations.iter().skip(1).position(|operation| matches!(operation, Operation::Convolution(_)))?;
    Some(format!("a convolution is operation {} of {}", place + 2, problem.operations.len()))
}

fn backend_pointwise(problem: &Problem, capabilities: &Capabilities) -> Option<String> {
    let needed = descriptor_type::BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
    let lacking = chain::has_pointwise(problem) && !capabilities.operations.contains(&needed);
    lacking.then(|| format!("backend {} lacks operation {needed}", tensor::version(capabilities)))
}

fn activation_mode(problem: &Problem, mode: ActivationMode) -> Option<String> {
    any_activation(problem, |activation| {
        let parameters = || format!("alpha {} beta {} gamma {}", activation.alpha, activation.beta, activation.gamma);
        (activation.mode == mode).then(|| format!("activation mode {mode:?}, {}", parameters()))
    })
}

fn normalization_mode(problem: &Problem, _: &Capabilities) -> Option<String> {
    any_operation(problem, |operation| match operation {
        Operation::Normalization(n) if n.mode == NormalizationMode::Unrecognized => Some(String::from("unrecognized mode")),
        _ => None,
    })
}

fn scaling_alpha(problem: &Problem, _: &Capabilities) -> Option<String> {
    any_operation(problem, |operation| {
        let alpha = chain::scaling(operation)?.alpha;
        (alpha != 1.0).then(|| format!("alpha of {} is {alpha}", chain::name(operation)))
    })
}

fn scaling_beta(problem: &Problem, _: &Capabilities) -> Option<String> {
    any_operation(problem, |operation| {
        let beta = chain::scaling(operation)?.beta;
        (beta != 0.0).then(|| format!("beta of {} is {beta}", chain::name(operation)))
    })
}

// A caller that adds nothing may give no tensor at all, and it must not be read: such an addition is left out before it comes here.
fn addition_factor(problem: &Problem, _: &Capabilities) -> Option<String> {
    any_operation(problem, |operation| match operation {
        Operation::Addition(addition) if addition.factor != 1.0 => Some(format!("added {} times", addition.factor)),
        _ => None,
    })
}

fn type_pointwise(problem: &Problem, _: &Capabilities) -> Option<String> {
    let floating = |t: DataType| matches!(t, DataType::Float | DataType::Half | DataType::Bfloat16 | DataType::Double);
    let wrong = |(name, t): Named<'_>| (!floating(t.data_type)).then(|| format!("{name} is {:?}", t.data_type));
    chain::has_pointwise(problem).then(|| problem.any_tensor(&wrong))?
}

fn type_compute(problem: &Problem, capabilities: &Capabilities) -> Option<String> {
    let compute = chain::compute_type(problem);
    let lacking = chain::has_pointwise(problem) && !capabilities.data_types.contains(&compute);
    lacking.then(|| format!("backend {} does not offer {compute:?}", tensor::version(capabilities)))
}

fn activation_parameters(problem: &Problem, _: &Capabilities) -> Option<String> {
    let compute = chain::compute_type(problem);
    any_activation(problem, |activation| {
        let (carrier, parameters) = activation::parameters(activation);
        let exact = compute == DataType::Double && carrier == Carrier::Attributes;
        let (name, value) = parameters.into_iter().find(|&(_, value)| !is_number(value, compute) || (exact && !is_float(value)))?;
        Some(format!("activation mode {:?}, {name} {value}, computed in {compute:?}", activation.mode))
    })
}

/// Whether a number stays finite in a type that something is computed in.
fn is_number(value: f64, compute: DataType) -> bool {
    if compute == DataType::Double { value.is_finite() } else { (value as f32).is_finite() }
}

/// Whether an attribute can hold a number.
fn is_float(value: f64) -> bool {
    f64::from(value as f32) == value
}

fn normalization_epsilon(problem: &Problem, _: &Capabilities) -> Option<String> {
    let compute = chain::compute_type(problem);
    any_operation(problem, |operation| match operation {
        Operation::Normalization(n) if n.epsilon < 0.0 || !is_number(n.epsilon, compute) => Some(format!("epsilon {}", n.epsilon)),
        _ => None,
    })
}

fn output_shape(problem: &Problem, _: &Capabilities) -> Option<String> {
    let (input, output) = (&problem.input.dims, &problem.output.dims);
    let convolved = matches!(problem.operations.first(), Some(Operation::Convolution(_)));
    (!convolved && input != output).then(|| format!("input {input:?}, output {output:?}"))
}

fn addition_shape(problem: &Problem, _: &Capabilities) -> Option<String> {
    any_operation(problem, |operation| match operation {
        Operation::Addition(addition) if addition.tensor.dims != problem.output.dims => {
            Some(format!("{:?} added to {:?}", addition.tensor.dims, problem.output.dims))
        }
        _ => None,
    })
}

fn bias_shape(problem: &Problem, _: &Capabilities) -> Option<String> {
    any_operation(problem, |operation| match operation {
        Operation::Bias(bias) if !chain::is_per_channel(&bias.tensor, &problem.output) => {
            Some(format!("a bias of {:?} for {:?}", bias.tensor.dims, problem.output.dims))
        }
        _ => None,
    })
}

fn normalization_shape(problem: &Problem, _: &Capabilities) -> Option<String> {
    any_operation(problem, |operation| {
        let Operation::Normalization(normalization) = operation else { return None };
        let fits = match normalization.mode {
            NormalizationMode::Spatial => chain::is_per_channel(&normalization.parameters, &problem.output),
            NormalizationMode::PerActivation => chain::is_per_element(&normalization.parameters, &problem.output),
            NormalizationMode::Unrecognized => false,
        };
        let shapes = || format!("{:?} parameters of {:?} for {:?}", normalization.mode, normalization.parameters.dims, problem.output.dims);
        (!fits).then(shapes)
    })
}

fn any_operation<'a>(problem: &'a Problem, check: impl Fn(&'a Operation) -> Option<String>) -> Option<String> {
    problem.operations.iter().find_map(check)
}

fn any_activation(problem: &Problem, check: impl Fn(&Activation) -> Option<String>) -> Option<String> {
    any_operation(problem, |operation| if let Operation::Activation(activation) = operation { check(activation) } else { None })
}
