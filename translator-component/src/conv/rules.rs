//! Every reason to decline a convolution, each a small function with its id beside it.
//!
//! Order matters twice: callers see the first rule that objects, so the coarse ones come first, and a check may rely on those
//! before it (ranks agree before lengths are compared).

use alloc::{format, string::String};

use hipdnn_abi::descriptor_type;

use super::{arithmetic, geometry, roles::Roles};
use crate::{
    contract::{
        conv::{Mode, Problem},
        graph::{Capabilities, DataType},
    },
    rule::{Note, Rule},
    tensor::{
        self, Named,
        rules::{self as shared, Tensors},
    },
};

/// hipDNN's backend sets no limit; five is where the vectors of MIOpen's own descriptors end in practice. Four and five are left to
/// the engine search.
const MAX_SPATIAL: usize = 5;

/// MIOpen's number, in all three directions, of the algorithm under which hipDNN's plans are listed in Find. A caller that names it has
/// what it asked for.
const IMPLICIT_GEMM: u32 = 5;

/// MIOpen's numbers of `miopenConvolutionAttrib_t`.
mod attribute_number {
    pub const FP16_ALTERNATIVE: u32 = 0;
    pub const DETERMINISTIC: u32 = 1;
    pub const FP8_ROUNDING: u32 = 2;
    pub const MATH_TYPE: u32 = 3;
}

/// The rules, in the order they are tried.
pub static RULES: &[Rule<Problem>] = &[
    Rule {
        id: "conv.backend.operation",
        reason: "the loaded backend cannot create the convolution operation that is needed",
        check: backend_operation,
    },
    Rule { id: "conv.mode.unrecognized", reason: "a convolution mode that the contract does not know", check: unrecognized_mode },
    Rule {
        id: "conv.scaling.alpha",
        reason: "alpha is not 1, and the tensors are not floating point or the loaded backend cannot scale them",
        check: alpha,
    },
    Rule {
        id: "conv.scaling.beta",
        reason: "beta is not 0, and the tensors are not floating point or the loaded backend cannot add to them",
        check: beta,
    },
    shared::vectorized(),
    shared::type_counterpart(),
    shared::type_cast(),
    shared::type_backend(),
    shared::dims_empty(),
    Rule { id: "conv.rank.mismatch", reason: "x, w, y and the convolution do not agree on the number of dimensions", check: rank_mismatch },
    Rule {
        id: "conv.rank.spatial",
        reason: "no spatial dimension, or more than 5 (4 and 5 are left to the engine search)",
        check: rank_spatial,
    },
    shared::strides_positive(),
    shared::strides_overlap(),
    shared::extent_range(),
    Rule { id: "conv.geometry.parameters", reason: "a negative pad, or a stride or dilation below 1", check: parameters },
    Rule { id: "conv.groups.count", reason: "a group count below 1", check: group_count },
    Rule {
        id: "conv.groups.channels",
        reason: "the channels of x (y if transposed) are not w's channels times the group count",
        check: group_channels,
    },
    Rule { id: "conv.groups.outputs", reason: "the filters cannot be divided among the groups", check: group_outputs },
    Rule { id: "conv.output.geometry", reason: "y is not the output that x, w, pads, strides and dilations give", check: output },
    Rule { id: "conv.attribute.deterministic", reason: "determinism was asked for, which a graph cannot express", check: deterministic },
    Rule { id: "conv.attribute.fp16-alternative", reason: "the alternative fp16 arithmetic was forced", check: fp16_alternative },
    Rule {
        id: "conv.attribute.fp8-rounding",
        reason: "fp8 tensors with stochastic rounding, which a graph cannot express",
        check: fp8_rounding,
    },
    Rule { id: "conv.attribute.unknown", reason: "a convolution attribute that these rules do not know", check: unknown_attribute },
];

/// What is mapped, but not to the letter. Those with the id of a rule name it for the host, should no engine take the graph.
pub static NOTES: &[Note<Problem>] = &[
    Note {
        id: "conv.algorithm.ignored",
        reason: "the caller named an algorithm; hipDNN's heuristics choose the engine",
        applies: |problem| problem.algorithm.is_some_and(|algorithm| algorithm != IMPLICIT_GEMM),
    },
    Note {
        id: "conv.scaling.alpha",
        reason: "alpha is not 1: an operation behind the convolution, which few engines take",
        applies: arithmetic::scales_sums,
    },
    Note {
        id: "conv.scaling.beta",
        reason: "beta is not 0: the old output is read by an operation behind the convolution, which few engines take",
        applies: arithmetic::accumulates,
    },
];

impl Tensors for Problem {
    fn any_tensor(&self, check: &dyn Fn(Named<'_>) -> Option<String>) -> Option<String> {
        [("x", &self.x), ("w", &self.w), ("y", &self.y)].into_iter().find_map(check)
    }

    fn result(&self) -> Named<'_> {
        let result = Roles::of(self).result();
        (result.name, result.tensor)
    }
}

fn backend_operation(problem: &Problem, capabilities: &Capabilities) -> Option<String> {
    let needed = Roles::of(problem).operation.descriptor_type();
    (!capabilities.operations.contains(&needed)).then(|| format!("backend {} lacks operation {needed}", tensor::version(capabilities)))
}

fn unrecognized_mode(problem: &Problem, _: &Capabilities) -> Option<String> {
    (problem.mode == Mode::Unrecognized).then(|| String::from("unrecognized mode"))
}

fn alpha(problem: &Problem, capabilities: &Capabilities) -> Option<String> {
    let obstacle = arithmetic::scales_sums(problem).then(|| no_scaling(problem, capabilities))??;
    Some(format!("alpha {}: {obstacle}", problem.alpha))
}

fn beta(problem: &Problem, capabilities: &Capabilities) -> Option<String> {
    let obstacle = arithmetic::accumulates(problem).then(|| no_scaling(problem, capabilities))??;
    Some(format!("beta {}: {obstacle}", problem.beta))
}

/// What keeps results from being scaled. Integers: MIOpen scales them in floats, which rounds and saturates in ways that no graph says.
fn no_scaling(problem: &Problem, capabilities: &Capabilities) -> Option<String> {
    let floating = |t: DataType| matches!(t, DataType::Float | DataType::Half | DataType::Bfloat16 | DataType::Double);
    let needed = descriptor_type::BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
    let compute = arithmetic::compute_type(problem);
    if let Some(message) = problem.any_tensor(&|(name, t)| (!floating(t.data_type)).then(|| format!("{name} is {:?}", t.data_type))) {
        return Some(message);
    }
    if !capabilities.operations.contains(&needed) {
        return Some(format!("backend {} lacks operation {needed}", tensor::version(capabilities)));
    }
    let lacking = !capabilities.data_types.contains(&compute);
    lacking.then(|| format!("backend {} does not offer {compute:?}, which is computed in", tensor::version(capabilities)))
}

fn rank_mismatch(problem: &Problem, _: &Capabilities) -> Option<String> {
    let rank = problem.x.dims.len();
    let same_tensors = problem.w.dims.len() == rank && problem.y.dims.len() == rank;
    let same_spatial = [&problem.pads, &problem.strides, &problem.dilations].iter().all(|list| list.len() + 2 == rank);
    (!same_tensors || !same_spatial).then(|| {
        format!("ranks x {rank}, w {}, y {}, convolution {} spatial", problem.w.dims.len(), problem.y.dims.len(), problem.pads.len())
    })
}

fn rank_spatial(problem: &Problem, _: &Capabilities) -> Option<String> {
    let spatial = problem.pads.len();
    (spatial == 0 || spatial > MAX_SPATIAL).then(|| format!("{spatial} spatial dimensions"))
}

fn parameters(problem: &Problem, _: &Capabilities) -> Option<String> {
    let wrong = problem.pads.iter().any(|&p| p < 0) || problem.strides.iter().chain(&problem.dilations).any(|&v| v < 1);
    wrong.then(|| format!("pads {:?} strides {:?} dilations {:?}", problem.pads, problem.strides, problem.dilations))
}

fn group_count(problem: &Problem, _: &Capabilities) -> Option<String> {
    (problem.group_count < 1).then(|| format!("group count {}", problem.group_count))
}

fn group_channels(problem: &Problem, _: &Capabilities) -> Option<String> {
    let (image, w_c, g) = (Roles::of(problem).image, problem.w.dims[1], problem.group_count);
    let c = image.tensor.dims[1];
    (w_c.checked_mul(g) != Some(c)).then(|| format!("{} has {c} channels, w {w_c} in each of {g} groups", image.name))
}

fn group_outputs(problem: &Problem, _: &Capabilities) -> Option<String> {
    let (k, g) = (problem.w.dims[0], problem.group_count);
    (k % g != 0).then(|| format!("w has {k} filters for {g} groups"))
}

fn output(problem: &Problem, _: &Capabilities) -> Option<String> {
    let features = Roles::of(problem).features.tensor;
    let batch_and_channels = problem.y.dims[0] == problem.x.dims[0] && features.dims[1] == problem.w.dims[0];
    let spatial = (0..problem.pads.len()).all(|axis| geometry::post_padding(problem, axis).is_some());
    (!batch_and_channels || !spatial).then(|| {
        format!(
            "x {:?} w {:?} pads {:?} strides {:?} dilations {:?} output pads {:?} do not give y {:?}",
            problem.x.dims, problem.w.dims, problem.pads, problem.strides, problem.dilations, problem.output_pads, problem.y.dims
        )
    })
}

fn deterministic(problem: &Problem, _: &Capabilities) -> Option<String> {
    attribute(problem, attribute_number::DETERMINISTIC).filter(|&v| v != 0).map(|v| format!("deterministic attribute {v}"))
}

// −1 (MIOpen's default) lets MIOpen choose, 0 forbids: both are what a graph computes. Other values force another arithmetic.
fn fp16_alternative(problem: &Problem, _: &Capabilities) -> Option<String> {
    let half = [&problem.x, &problem.w, &problem.y].iter().any(|t| t.data_type == DataType::Half);
    attribute(problem, attribute_number::FP16_ALTERNATIVE).filter(|&v| half && v > 0).map(|v| format!("fp16 alternative attribute {v}"))
}

// MIOpen's default is 1, stochastic.
fn fp8_rounding(problem: &Problem, _: &Capabilities) -> Option<String> {
    let fp8 = |t: DataType| matches!(t, DataType::Float8E4m3Fnuz | DataType::Float8E5m2Fnuz | DataType::Float8E4m3 | DataType::Float8E5m2);
    let mode = attribute(problem, attribute_number::FP8_ROUNDING).unwrap_or(1);
    (fp8(problem.y.data_type) && mode != 0).then(|| format!("fp8 output, rounding mode {mode}"))
}

fn unknown_attribute(problem: &Problem, _: &Capabilities) -> Option<String> {
    let unknown = problem.attributes.iter().find(|a| a.number > attribute_number::MATH_TYPE)?;
    Some(format!("attribute {} = {}", unknown.number, unknown.value))
}

fn attribute(problem: &Problem, number: u32) -> Option<i64> {
    problem.attributes.iter().rev().find(|a| a.number == number).map(|a| a.value)
}
