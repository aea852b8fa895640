//! Chains of operations that one MIOpen call computes: fusion plans, and the one call that fuses without a plan. No rule lives here.

use serde::{Deserialize, Serialize};

use super::{ConvolutionDescriptor, Operand, Operands, TensorDescriptor, mix, multiplications, owned};

/// The most operations of a chain that is recorded. MIOpen fuses at most four.
pub const MAX_OPERATIONS: usize = 6;

/// The scalars that MIOpen's calls carry for an operation: result = alpha · operation + beta · old result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are MIOpen's")]
pub struct Scaling {
    #[serde(with = "owned::exact")]
    pub alpha: f64,
    #[serde(with = "owned::exact")]
    pub beta: f64,
}

impl Scaling {
    /// What a call without scalars means.
    pub const NONE: Self = Self { alpha: 1.0, beta: 0.0 };
}

/// `miopenBatchNormMode_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are MIOpen's")]
pub enum NormalizationMode {
    PerActivation,
    Spatial,
    Unrecognized,
}

/// `miopenActivationMode_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are MIOpen's")]
pub enum ActivationMode {
    PassThrough,
    Logistic,
    Tanh,
    Relu,
    SoftRelu,
    Absolute,
    Power,
    ClippedRelu,
    LeakyRelu,
    Elu,
    Clamp,
    Unrecognized,
}

/// An activation and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "owned::ActivationFields", into = "owned::ActivationFields")]
#[allow(missing_docs, reason = "the names are MIOpen's")]
pub struct Activation {
    pub mode: ActivationMode,
    pub alpha: f64,
    pub beta: f64,
    pub gamma: f64,
}

/// One operation of a chain. Each takes what the one before it gives.
#[derive(Clone, Copy, Debug)]
pub enum FusedOperation<'a> {
    /// A convolution, forward. Operand: w.
    Convolution {
        /// The convolution descriptor.
        convolution: &'a ConvolutionDescriptor,
        /// The filter.
        w: &'a TensorDescriptor,
        /// The algorithm that the caller named, by MIOpen's number.
        algorithm: Option<u32>,
        /// The call's scalars.
        scaling: Scaling,
    },
    /// Adds `factor` times a tensor of the same lengths. Operand: that tensor.
    Addition {
        /// The tensor.
        tensor: &'a TensorDescriptor,
        /// What it is multiplied by.
        factor: f64,
    },
    /// Adds one number to each channel. Operand: these.
    Bias {
        /// The numbers.
        tensor: &'a TensorDescriptor,
        /// The call's scalars.
        scaling: Scaling,
    },
    /// Batch normalisation with given statistics. Operands: scale, shift, mean, variance.
    Normalization {
        /// Which elements share statistics.
        mode: NormalizationMode,
        /// What the four operands have in common.
        parameters: &'a TensorDescriptor,
        /// Added to the variance.
        epsilon: f64,
        /// The call's scalars.
        scaling: Scaling,
    },
    /// A function of each element. No operand.
    Activation {
        /// Which, and its parameters.
        activation: Activation,
        /// The call's scalars.
        scaling: Scaling,
    },
    /// Another one, by the MIOpen function that makes it. No operand.
    Other(&'a str),
}

/// A chain that somebody wants computed: everything the rules may look at, nothing else.
#[derive(Clone, Copy, Debug)]
pub struct FusionProblem<'a> {
    /// What the first operation takes.
    pub input: &'a TensorDescriptor,
    /// The operations, in order.
    pub operations: &'a [FusedOperation<'a>],
    /// What the last one gives.
    pub output: &'a TensorDescriptor,
}

/// A function of each element that somebody wants computed: everything the rules may look at, nothing else.
#[derive(Clone, Copy, Debug)]
pub struct ActivationProblem<'a> {
    /// The function, and its parameters.
    pub activation: Activation,
    /// The call's scalars.
    pub scaling: Scaling,
    /// What comes in.
    pub x: &'a TensorDescriptor,
    /// What comes out.
    pub y: &'a TensorDescriptor,
}

impl<'a> ActivationProblem<'a> {
    /// x and y: the contract's numbering.
    pub(super) fn operands(&self) -> Operands<'a> {
        // The call itself reads its output exactly when it accumulates into it.
        let y = Operand { name: "y", tensor: self.y, read: self.scaling.beta != 0.0, written: true };
        [Operand { name: "x", tensor: self.x, read: true, written: false }, y].into_iter().collect()
    }

    pub(super) fn words(&self, append: &mut impl FnMut(&[u64])) {
        FusedOperation::Activation { activation: self.activation, scaling: self.scaling }.words(append);
        append(self.x.words());
        append(self.y.words());
    }
}

impl<'a> FusedOperation<'a> {
    fn operands(&self) -> (&'static [&'static str], Option<&'a TensorDescriptor>) {
        match *self {
            Self::Convolution { w, .. } => (&["w"], Some(w)),
            Self::Addition { tensor, .. } => (&["z"], Some(tensor)),
            Self::Bias { tensor, .. } => (&["bias"], Some(tensor)),
            Self::Normalization { parameters, .. } => (&["scale", "shift", "mean", "variance"], Some(parameters)),
            Self::Activation { .. } | Self::Other(_) => (&[], None),
        }
    }

    /// The words that tell this operation from others.
    fn words(&self, append: &mut impl FnMut(&[u64])) {
        match *self {
            Self::Convolution { convolution, w, algorithm, scaling } => {
                append(&[1, algorithm.map_or(0, |a| 1 + u64::from(a)), scaling.alpha.to_bits(), scaling.beta.to_bits()]);
                append(convolution.words());
                append(w.words());
            }
            Self::Addition { tensor, factor } => {
                append(&[2, factor.to_bits()]);
                append(tensor.words());
            }
            Self::Bias { tensor, scaling } => {
                append(&[3, scaling.alpha.to_bits(), scaling.beta.to_bits()]);
                append(tensor.words());
            }
            Self::Normalization { mode, parameters, epsilon, scaling } => {
                append(&[4, mode as u64, epsilon.to_bits(), scaling.alpha.to_bits(), scaling.beta.to_bits()]);
                append(parameters.words());
            }
            Self::Activation { activation: Activation { mode, alpha, beta, gamma }, scaling } => {
                append(&[5, mode as u64, alpha.to_bits(), beta.to_bits(), gamma.to_bits()]);
                append(&[scaling.alpha.to_bits(), scaling.beta.to_bits()]);
            }
            // Their text is what tells them apart.
            Self::Other(name) => append(&[6, mix(name)]),
        }
    }
}

impl<'a> FusionProblem<'a> {
    /// Input, output, then the operands of the operations in their order: the contract's numbering. `None` if there are too many.
    pub(super) fn operands(&self) -> Option<Operands<'a>> {
        let mut all = Operands::new();
        all.try_push(Operand { name: "input", tensor: self.input, read: true, written: false }).ok()?;
        all.try_push(Operand { name: "output", tensor: self.output, read: false, written: true }).ok()?;
        for operation in self.operations {
            let (names, tensor) = operation.operands();
            for (name, tensor) in names.iter().zip(std::iter::repeat(tensor)) {
                all.try_push(Operand { name, tensor: tensor?, read: true, written: false }).ok()?;
            }
        }
        Some(all)
    }

    /// See [`super::Problem::multiplications`].
    pub(super) fn multiplications(&self) -> Option<u64> {
        let mut convolutions = self.operations.iter().filter_map(|operation| match operation {
            FusedOperation::Convolution { convolution, w, .. } => Some(multiplications(convolution, self.input, w, self.output)),
            _ => None,
        });
        convolutions.try_fold(0u64, |all, one| all.checked_add(one?))
    }

    pub(super) fn words(&self, append: &mut impl FnMut(&[u64])) {
        append(&[self.operations.len() as u64]);
        append(self.input.words());
        append(self.output.words());
        self.operations.iter().for_each(|operation| operation.words(append));
    }
}
