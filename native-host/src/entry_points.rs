//! The functions of MIOpen that may be forwarded, by family: what the operator's lists may name. How each is served is the shim's business.

use crate::environment::Family;

/// The functions that one direction of convolution has.
macro_rules! direction {
    ($name:literal) => {
        [
            concat!("miopenConvolution", $name),
            concat!("miopenConvolution", $name, "GetWorkSpaceSize"),
            concat!("miopenFindConvolution", $name, "Algorithm"),
            concat!("miopenConvolution", $name, "GetSolutionCount"),
            concat!("miopenConvolution", $name, "GetSolution"),
            concat!("miopenConvolution", $name, "GetSolutionWorkspaceSize"),
            concat!("miopenConvolution", $name, "CompileSolution"),
            concat!("miopenConvolution", $name, "Immediate"),
        ]
    };
}

/// Family and functions.
const ENTRY_POINTS: &[(Family, &[&str])] = &[
    (Family::Conv, &direction!("Forward")),
    (Family::Conv, &direction!("BackwardData")),
    (Family::Conv, &direction!("BackwardWeights")),
    (Family::Conv, &["miopenGetSolverIdConvAlgorithm", "miopenRunSolution", "miopenGetSolutionWorkspaceSize", "miopenSaveSolution"]),
    (Family::Fusion, &["miopenExecuteFusionPlan", "miopenExecuteFusionPlan_v2", "miopenConvolutionBiasActivationForward"]),
    (Family::Activation, &["miopenActivationForward"]),
];

/// All of them, each with the family whose switch it obeys.
pub fn all() -> impl Iterator<Item = (Family, &'static str)> {
    ENTRY_POINTS.iter().flat_map(|(family, names)| names.iter().map(|name| (*family, *name)))
}

/// Whether a word of an operator's list means anything: all, a family, or a function.
pub fn is_known(word: &str) -> bool {
    let family = Family::ALL.iter().any(|family| family.name().eq_ignore_ascii_case(word));
    word == "*" || family || all().any(|(_, name)| name.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_and_functions_are_known_in_any_case() {
        for word in ["*", "conv", "Fusion", "miopenConvolutionForward", "miopenconvolutionbackwardweightsimmediate"] {
            assert!(is_known(word), "{word}");
        }
        for word in ["", "bn", "convolution", "miopenSoftmaxForward", "miopenConvolution"] {
            assert!(!is_known(word), "{word}");
        }
    }
}
