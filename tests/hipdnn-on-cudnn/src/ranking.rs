//! Which of cuDNN's engines take a graph, best first: as its heuristics say, less those whose numbers are not those that hipDNN's clients
//! asked for.

use crate::{
    cudnn::{
        CudnnError, Descriptor,
        numbers::{attribute, behavior, behavior_of, heuristic, kind, numerical, wire},
    },
    lower::{Lowered, Operation},
    session::Device,
};

/// The most configurations of one heuristic that are read.
const MOST: usize = 128;
/// The most knobs of one configuration: there are as many types (`CUDNN_KNOB_TYPE_COUNTS`).
const KNOBS: usize = 44;
/// What cuDNN is asked, in order: what fits the problem best; what takes it at all.
const MODES: [i32; 2] = [heuristic::A, heuristic::FALLBACK];
/// `CUDNN_DATA_FLOAT` and `CUDNN_DATA_INT32`.
const FLOAT: i32 = 0;
const INT32: i32 = 4;

/// Engines for the gradients of filters whose sums are less exact than the compute type, and that do not say so (seen with 9.19 on an
/// H200): 17 transforms, so that the gradient of a 5x5 filter of floats was off by two thousand times what adding up costs; 61 adds up parts
/// of sums in half precision.
const INEXACT_FILTER_GRADIENTS: [i64; 2] = [17, 61];

/// A configuration that cuDNN proposes.
pub(crate) struct Ranked {
    /// Engine and knobs: `CUDNN_ENGINE_38_2=0_13=2`. The same in every process with the same cuDNN.
    pub(crate) name: String,
    /// `hipdnnBackendBehaviorNote_t` values, as far as cuDNN says them.
    pub(crate) notes: Vec<i32>,
    pub(crate) configuration: Descriptor,
}

/// Whether a graph sums products of floats. (Engines for pointwise operations say that they use tensor cores even where there is nothing to
/// multiply.)
fn sums_floats(lowered: &Lowered) -> bool {
    let convolves = lowered.operations.iter().any(|operation| matches!(operation, Operation::Convolution { .. }));
    convolves && lowered.tensors.iter().any(|tensor| tensor.data_type == FLOAT && !tensor.is_virtual && !tensor.by_value)
}

/// Asks cuDNN. None is no error.
pub(crate) fn rank(graph: &Descriptor, lowered: &Lowered, device: &Device) -> Result<Vec<Ranked>, CudnnError> {
    let mut ranking: Vec<Ranked> = Vec::new();
    let wanted = Wanted { exact: sums_floats(lowered), integers: gives_integers(lowered), filter_gradient: gives_filter_gradient(lowered) };
    for mode in MODES {
        for configuration in proposals(graph, mode, device)? {
            let engines = configuration.descriptors_unasked(attribute::ENGINECFG_ENGINE, kind::ENGINE, 1)?;
            let Some(engine) = engines.first() else { continue };
            let behavior = engine.enumerations(attribute::ENGINE_BEHAVIOR_NOTE, wire::BEHAVIOR_NOTE)?;
            let index = engine.int64(attribute::ENGINE_GLOBAL_INDEX)?;
            let numerical = engine.enumerations(attribute::ENGINE_NUMERICAL_NOTE, wire::NUMERICAL_NOTE)?;
            if !suits(index, &numerical, &behavior, wanted) {
                continue;
            }
            let name = name(index, &configuration)?;
            if ranking.iter().all(|ranked| ranked.name != name) {
                ranking.push(Ranked { name, notes: behavior.into_iter().filter_map(behavior_of).collect(), configuration });
            }
        }
    }
    Ok(ranking)
}

/// What cuDNN proposes; nothing for a graph that it refuses.
fn proposals(graph: &Descriptor, mode: i32, device: &Device) -> Result<Vec<Descriptor>, CudnnError> {
    let heuristic = Descriptor::new(device.library(), kind::ENGINEHEUR)?;
    heuristic.set_descriptors(attribute::ENGINEHEUR_OPERATION_GRAPH, &[graph])?;
    heuristic.set_enumeration(attribute::ENGINEHEUR_MODE, wire::HEUR_MODE, mode)?;
    if let Device::Described(properties) = device {
        heuristic.set_descriptors(attribute::ENGINEHEUR_DEVICEPROP, &[&properties.descriptor])?;
    }
    match heuristic.finalize() {
        Ok(()) => heuristic.descriptors(attribute::ENGINEHEUR_RESULTS, kind::ENGINECFG, MOST),
        Err(error) if error.is_refusal() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Whether a convolution gives 32-bit integers. cuDNN's ready-made engines take that and write floats there (seen with 9.19, every one of
/// them); what it compiles for the graph does not.
fn gives_integers(lowered: &Lowered) -> bool {
    let convolves = lowered.operations.iter().any(|operation| matches!(operation, Operation::Convolution { .. }));
    convolves && lowered.tensors.iter().any(|tensor| tensor.data_type == INT32)
}

fn gives_filter_gradient(lowered: &Lowered) -> bool {
    let gradient = kind::OPERATION_CONVOLUTION_BACKWARD_FILTER;
    lowered.operations.iter().any(|operation| matches!(operation, Operation::Convolution { kind, .. } if *kind == gradient))
}

/// What a graph wants of an engine.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    exact: bool,
    integers: bool,
    filter_gradient: bool,
}

/// Whether an engine computes what was asked for: floats as floats (on tensor cores they would be TF32), no inputs converted down, no sums
/// in less than the compute type, integers where integers are wanted, and no tensors that somebody would have to reorder first.
fn suits(index: i64, numerical: &[i32], behavior: &[i32], wanted: Wanted) -> bool {
    let reduced = [numerical::DOWN_CONVERT_INPUTS, numerical::REDUCED_PRECISION_REDUCTION];
    let reordered = [behavior::REQUIRES_FILTER_INT8X32_REORDER, behavior::REQUIRES_BIAS_INT8X32_REORDER];
    let rounds = numerical.iter().any(|note| reduced.contains(note) || (wanted.exact && *note == numerical::TENSOR_CORE));
    let mistakes = wanted.integers && !behavior.contains(&behavior::RUNTIME_COMPILATION);
    let inexact = wanted.filter_gradient && INEXACT_FILTER_GRADIENTS.contains(&index);
    !(rounds || mistakes || inexact || behavior.iter().any(|note| reordered.contains(note)))
}

fn name(index: i64, configuration: &Descriptor) -> Result<String, CudnnError> {
    let mut name = format!("CUDNN_ENGINE_{index}");
    for choice in configuration.descriptors_unasked(attribute::ENGINECFG_KNOB_CHOICES, kind::KNOB_CHOICE, KNOBS)? {
        let knob = choice.enumeration(attribute::KNOB_CHOICE_KNOB_TYPE, wire::KNOB_TYPE)?;
        let value = choice.int64(attribute::KNOB_CHOICE_KNOB_VALUE)?;
        name.push_str(&format!("_{knob}={value}"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Wanted = Wanted { exact: false, integers: false, filter_gradient: false };
    const EXACT: Wanted = Wanted { exact: true, ..PLAIN };
    const INTEGERS: Wanted = Wanted { integers: true, ..PLAIN };

    #[test]
    fn engines_must_compute_what_was_asked_for() {
        for (numerical, behavior, wanted, expected) in [
            (&[][..], &[][..], EXACT, true),
            (&[numerical::TENSOR_CORE], &[], EXACT, false),
            (&[numerical::TENSOR_CORE], &[], PLAIN, true),
            (&[numerical::DOWN_CONVERT_INPUTS], &[], PLAIN, false),
            (&[numerical::TENSOR_CORE, numerical::REDUCED_PRECISION_REDUCTION], &[], PLAIN, false),
            (&[], &[behavior::REQUIRES_FILTER_INT8X32_REORDER], PLAIN, false),
            (&[], &[behavior::RUNTIME_COMPILATION, behavior::CUBLASLT_DEPENDENCY], EXACT, true),
            (&[], &[], INTEGERS, false),
            (&[numerical::TENSOR_CORE], &[behavior::RUNTIME_COMPILATION], INTEGERS, true),
        ] {
            assert_eq!(suits(17, numerical, behavior, wanted), expected, "{numerical:?} {behavior:?} {wanted:?}");
        }
        let gradient = Wanted { filter_gradient: true, ..PLAIN };
        assert_eq!([17, 18, 61].map(|index| suits(index, &[], &[], gradient)), [false, true, false]);
    }
}
