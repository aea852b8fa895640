//! Problems that outlive their call, and the JSON that they are written as: everything that a problem holds, so that what is read again is
//! the same problem, bit for bit. What was read is checked like what a caller sets.

use serde::{Deserialize, Serialize};

use super::{
    Activation, ActivationMode, ActivationProblem, ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionProblem,
    DescriptorError, FusedOperation, FusionProblem, NormalizationMode, Problem, Scaling, TensorDescriptor, TensorLayout,
};
use crate::data_type::DataType;

/// A [`Problem`] of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnedProblem {
    /// A convolution.
    Convolution(Box<OwnedConvolution>),
    /// A chain of operations.
    Fusion(OwnedFusion),
    /// A function of each element.
    Activation(OwnedActivation),
}

/// A [`ConvolutionProblem`] of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "as in the problem")]
pub struct OwnedConvolution {
    pub direction: ConvolutionDirection,
    pub convolution: ConvolutionDescriptor,
    pub x: TensorDescriptor,
    pub w: TensorDescriptor,
    pub y: TensorDescriptor,
    #[serde(with = "exact")]
    pub alpha: f64,
    #[serde(with = "exact")]
    pub beta: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<u32>,
}

/// A [`FusionProblem`] of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "as in the problem")]
pub struct OwnedFusion {
    pub input: TensorDescriptor,
    pub operations: Vec<OwnedOperation>,
    pub output: TensorDescriptor,
}

/// An [`ActivationProblem`] of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "as in the problem")]
pub struct OwnedActivation {
    pub activation: Activation,
    pub scaling: Scaling,
    pub x: TensorDescriptor,
    pub y: TensorDescriptor,
}

/// A [`FusedOperation`] of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs, reason = "as in the operation")]
pub enum OwnedOperation {
    Convolution {
        convolution: ConvolutionDescriptor,
        w: TensorDescriptor,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        algorithm: Option<u32>,
        scaling: Scaling,
    },
    Addition {
        tensor: TensorDescriptor,
        #[serde(with = "exact")]
        factor: f64,
    },
    Bias {
        tensor: TensorDescriptor,
        scaling: Scaling,
    },
    Normalization {
        mode: NormalizationMode,
        parameters: TensorDescriptor,
        #[serde(with = "exact")]
        epsilon: f64,
        scaling: Scaling,
    },
    Activation {
        activation: Activation,
        scaling: Scaling,
    },
    Other(String),
}

impl OwnedProblem {
    /// A copy of a problem.
    pub fn of(problem: &Problem<'_>) -> Self {
        match problem {
            Problem::Convolution(problem) => Self::Convolution(Box::new(OwnedConvolution {
                direction: problem.direction,
                convolution: problem.convolution.clone(),
                x: problem.x.clone(),
                w: problem.w.clone(),
                y: problem.y.clone(),
                alpha: problem.alpha,
                beta: problem.beta,
                algorithm: problem.algorithm,
            })),
            Problem::Fusion(problem) => Self::Fusion(OwnedFusion {
                input: problem.input.clone(),
                operations: problem.operations.iter().map(OwnedOperation::of).collect(),
                output: problem.output.clone(),
            }),
            Problem::Activation(ActivationProblem { activation, scaling, x, y }) => {
                Self::Activation(OwnedActivation { activation: *activation, scaling: *scaling, x: (*x).clone(), y: (*y).clone() })
            }
        }
    }

    /// Works on the problem.
    pub fn with<R>(&self, work: impl FnOnce(&Problem<'_>) -> R) -> R {
        match self {
            Self::Convolution(problem) => work(&Problem::Convolution(problem.borrow())),
            Self::Fusion(problem) => {
                let operations: Vec<FusedOperation<'_>> = problem.operations.iter().map(OwnedOperation::borrow).collect();
                work(&Problem::Fusion(FusionProblem { input: &problem.input, operations: &operations, output: &problem.output }))
            }
            Self::Activation(OwnedActivation { activation, scaling, x, y }) => {
                work(&Problem::Activation(ActivationProblem { activation: *activation, scaling: *scaling, x, y }))
            }
        }
    }
}

impl std::fmt::Display for OwnedProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.with(|problem| write!(f, "{problem}"))
    }
}

impl OwnedConvolution {
    /// The problem.
    pub fn borrow(&self) -> ConvolutionProblem<'_> {
        let Self { direction, ref convolution, ref x, ref w, ref y, alpha, beta, algorithm } = *self;
        ConvolutionProblem { direction, convolution, x, w, y, alpha, beta, algorithm }
    }
}

impl OwnedActivation {
    /// The chain that computes the same, with the same arguments.
    pub fn as_chain(&self) -> OwnedFusion {
        let operation = OwnedOperation::Activation { activation: self.activation, scaling: self.scaling };
        OwnedFusion { input: self.x.clone(), operations: vec![operation], output: self.y.clone() }
    }
}

impl OwnedOperation {
    fn of(operation: &FusedOperation<'_>) -> Self {
        match *operation {
            FusedOperation::Convolution { convolution, w, algorithm, scaling } => {
                Self::Convolution { convolution: convolution.clone(), w: w.clone(), algorithm, scaling }
            }
            FusedOperation::Addition { tensor, factor } => Self::Addition { tensor: tensor.clone(), factor },
            FusedOperation::Bias { tensor, scaling } => Self::Bias { tensor: tensor.clone(), scaling },
            FusedOperation::Normalization { mode, parameters, epsilon, scaling } => {
                Self::Normalization { mode, parameters: parameters.clone(), epsilon, scaling }
            }
            FusedOperation::Activation { activation, scaling } => Self::Activation { activation, scaling },
            FusedOperation::Other(name) => Self::Other(name.to_string()),
        }
    }

    fn borrow(&self) -> FusedOperation<'_> {
        match *self {
            Self::Convolution { ref convolution, ref w, algorithm, scaling } => {
                FusedOperation::Convolution { convolution, w, algorithm, scaling }
            }
            Self::Addition { ref tensor, factor } => FusedOperation::Addition { tensor, factor },
            Self::Bias { ref tensor, scaling } => FusedOperation::Bias { tensor, scaling },
            Self::Normalization { mode, ref parameters, epsilon, scaling } => {
                FusedOperation::Normalization { mode, parameters, epsilon, scaling }
            }
            Self::Activation { activation, scaling } => FusedOperation::Activation { activation, scaling },
            Self::Other(ref name) => FusedOperation::Other(name),
        }
    }
}

/// How a tensor descriptor is written. What most tensors do not have is left out.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TensorFields {
    #[serde(rename = "type")]
    data_type: DataType,
    dims: Vec<i64>,
    strides: Vec<i64>,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    vector_length: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    layout: Option<TensorLayout>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cast_type: Option<DataType>,
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

impl From<TensorDescriptor> for TensorFields {
    fn from(tensor: TensorDescriptor) -> Self {
        Self {
            data_type: tensor.data_type,
            dims: tensor.dims.into_vec(),
            strides: tensor.strides.into_vec(),
            vector_length: tensor.vector_length,
            layout: tensor.layout,
            cast_type: tensor.cast_type,
        }
    }
}

impl TryFrom<TensorFields> for TensorDescriptor {
    type Error = DescriptorError;

    fn try_from(fields: TensorFields) -> Result<Self, DescriptorError> {
        let TensorFields { data_type, dims, strides, vector_length, layout, cast_type } = fields;
        Self::new(data_type, cast_type, &dims, &strides, vector_length, layout)
    }
}

impl From<ConvolutionDescriptor> for ConvolutionFields {
    fn from(descriptor: ConvolutionDescriptor) -> Self {
        descriptor.fields
    }
}

impl TryFrom<ConvolutionFields> for ConvolutionDescriptor {
    type Error = DescriptorError;

    fn try_from(fields: ConvolutionFields) -> Result<Self, DescriptorError> {
        Self::new(fields)
    }
}

/// How an activation is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ActivationFields {
    mode: ActivationMode,
    #[serde(with = "exact")]
    alpha: f64,
    #[serde(with = "exact")]
    beta: f64,
    #[serde(with = "exact")]
    gamma: f64,
}

impl From<Activation> for ActivationFields {
    fn from(Activation { mode, alpha, beta, gamma }: Activation) -> Self {
        Self { mode, alpha, beta, gamma }
    }
}

impl From<ActivationFields> for Activation {
    fn from(ActivationFields { mode, alpha, beta, gamma }: ActivationFields) -> Self {
        Self { mode, alpha, beta, gamma }
    }
}

/// Numbers that come back bit for bit: as a JSON number where reading that gives the same again, else as their 64 bits in hexadecimal.
pub(super) mod exact {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Bits(String),
    }

    /// Whether a reader of JSON gives the number back as it was.
    fn survives(number: f64) -> bool {
        let read = serde_json::to_string(&number).ok().and_then(|text| serde_json::from_str::<f64>(&text).ok());
        read.is_some_and(|read| read.to_bits() == number.to_bits())
    }

    pub fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if survives(*number) {
            serializer.serialize_f64(*number)
        } else {
            serializer.serialize_str(&format!("0x{:016x}", number.to_bits()))
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(number),
            Written::Bits(text) => {
                let bits = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
                bits.map(f64::from_bits).ok_or_else(|| D::Error::custom(format!("{text:?} is no number")))
            }
        }
    }
}

// That every problem comes back as it was is tested where any problem can be made: in `offline::problems::generate`.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::{key::KeyBuffer, problem::ConvolutionMode};

    #[test]
    fn what_is_written_is_what_is_meant() {
        let tensor = |dims: &[i64], strides: &[i64]| TensorDescriptor::new(DataType::BFloat16, None, dims, strides, 1, None).unwrap();
        let fields = ConvolutionFields::initial(ConvolutionMode::Transpose, vec![1], vec![2], vec![1]);
        let problem = OwnedProblem::Convolution(Box::new(OwnedConvolution {
            direction: ConvolutionDirection::BackwardWeights,
            convolution: ConvolutionDescriptor::new(fields).unwrap(),
            x: tensor(&[2, 3, 4], &[12, 4, 1]),
            w: tensor(&[3, 5, 2], &[10, 2, 1]),
            y: tensor(&[2, 5, 7], &[35, 1, 5]),
            alpha: 1.0,
            beta: f64::INFINITY,
            algorithm: Some(5),
        }));
        // Written down, so that a change of the format is noticed: files of older versions are read.
        let text = concat!(
            r#"{"convolution":{"direction":"backward_weights","convolution":{"mode":"transpose","pads":[1],"strides":[2],"dilations":[1],"#,
            r#""output_pads":[0],"group_count":1,"attributes":[]},"x":{"type":"bfloat16","dims":[2,3,4],"strides":[12,4,1]},"#,
            r#""w":{"type":"bfloat16","dims":[3,5,2],"strides":[10,2,1]},"y":{"type":"bfloat16","dims":[2,5,7],"strides":[35,1,5]},"#,
            r#""alpha":1.0,"beta":"0x7ff0000000000000","algorithm":5}}"#
        );
        assert_eq!(serde_json::to_string(&problem).unwrap(), text);
        assert!(problem.with(|problem| KeyBuffer::default().fill(problem)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let tensor = |more: &str| format!(r#"{{"type":"float","dims":[1],"strides":[1]{more}}}"#);
        assert!(serde_json::from_str::<TensorDescriptor>(&tensor("")).is_ok());
        let ranks =
            |dims: usize, strides: usize| format!(r#"{{"type":"float","dims":{:?},"strides":{:?}}}"#, vec![1; dims], vec![1; strides]);
        for wrong in
            [tensor(r#","new":1"#), tensor(r#","layout":"other""#), ranks(17, 17), ranks(2, 3), ranks(0, 0).replace("float", "real")]
        {
            assert!(serde_json::from_str::<TensorDescriptor>(&wrong).is_err(), "{wrong}");
        }
        for wrong in ["\"0x\"", "\"1.0\"", "null", "\"0x10000000000000000\""] {
            let scaling = format!(r#"{{"alpha":{wrong},"beta":0}}"#);
            assert!(serde_json::from_str::<Scaling>(&scaling).is_err(), "{wrong}");
        }
    }
}
