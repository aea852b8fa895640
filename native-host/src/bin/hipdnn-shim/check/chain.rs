//! What a fused chain must give: its convolution exactly, then one operation after the other in double precision, each with what single
//! precision may have lost. Inputs, and the definition; nothing is executed here.

use hipdnn_host::problem::{
    Activation, ActivationMode, NormalizationMode, OwnedConvolution, OwnedFusion, OwnedOperation, Scaling, TensorDescriptor,
};

use crate::{
    Usage,
    convolution::Tensor,
    flags::Direction,
    problems::{self, Drivable},
    reference::{Expected, Reference, Values, unravel},
};

/// Half a unit in the last place of single precision.
const HALF_ULP: f64 = 1.0 / (1 << 24) as f64;
/// Rounding errors of an operation between the convolution and the output: a few additions and multiplications.
const ROUNDINGS: f64 = 8.0;

/// A chain that can be executed: its tensors in the order of the contract's arguments, and what is in them.
pub struct Chain<'a> {
    problem: &'a OwnedFusion,
    convolution: Option<Drivable>,
    /// Input, output, then the operands.
    pub tensors: Vec<Tensor>,
    /// Of each; of the output none.
    pub values: Vec<Values>,
}

impl<'a> Chain<'a> {
    /// Of a problem; an error says why nobody defines here what it gives.
    pub fn of(problem: &'a OwnedFusion) -> Result<Self, Usage> {
        let convolution = convolution(problem)?;
        let mut tensors = vec![problems::tensor("input", &problem.input)?, problems::tensor("output", &problem.output)?];
        let mut values = vec![Values::input(&tensors[0], 0), Values::default()];
        let mut add = |descriptor: &TensorDescriptor, is_filter: bool, positive: bool| {
            let tensor = problems::tensor("an operand", descriptor)?;
            if !is_filter && !meets(&tensor, &problem.output) {
                return Err(Usage("an operand whose lengths are not the output's".into()));
            }
            let stream = values.len() as u64;
            values.push(if positive { Values::positive(&tensor, stream) } else { Values::input(&tensor, stream) });
            tensors.push(tensor);
            Ok(())
        };
        for operation in &problem.operations {
            match operation {
                OwnedOperation::Convolution { w, .. } => add(w, true, false)?,
                OwnedOperation::Addition { tensor, .. } | OwnedOperation::Bias { tensor, .. } => add(tensor, false, false)?,
                // Scale, shift, mean, and the variance, which is positive.
                OwnedOperation::Normalization { parameters, .. } => {
                    [false, false, false, true].into_iter().try_for_each(|positive| add(parameters, false, positive))?;
                }
                OwnedOperation::Activation { .. } => {}
                OwnedOperation::Other(name) => return Err(Usage(format!("an operation {name}"))),
            }
        }
        if !problem.operations.iter().all(is_plain) {
            return Err(Usage("chains with scalars are only translated".into()));
        }
        Ok(Self { problem, convolution, tensors, values })
    }

    /// The output's elements, with their indices.
    pub fn expected(&self) -> impl Iterator<Item = (Expected, Vec<i64>)> {
        let output = &self.tensors[1];
        (0..output.elements() as u64).map(|number| {
            let index = unravel(number, &output.dims);
            (self.element(&index), index)
        })
    }

    fn element(&self, index: &[i64]) -> Expected {
        let mut operand = 2;
        let mut next = |index: &[i64]| {
            let (tensor, values) = (&self.tensors[operand], &self.values[operand]);
            operand += 1;
            // Where an operand has one element, that is meant for all.
            let own: Vec<i64> = index.iter().zip(&tensor.dims).map(|(at, dim)| if *dim == 1 { 0 } else { *at }).collect();
            values.at(tensor.offset(&own))
        };
        let mut value = Rounded { value: self.values[0].at(self.tensors[0].offset(index).min(self.tensors[0].extent() - 1)), error: 0.0 };
        for operation in &self.problem.operations {
            value = match operation {
                OwnedOperation::Convolution { .. } => {
                    next(&vec![0; index.len()]);
                    self.convolved(index)
                }
                OwnedOperation::Addition { factor, .. } => value.map(|a| a, 1.0).plus(factor * next(index)),
                OwnedOperation::Bias { .. } => value.plus(next(index)),
                OwnedOperation::Normalization { epsilon, .. } => {
                    let [scale, shift, mean, variance] = [0; 4].map(|_| next(index));
                    let slope = scale / (variance + epsilon).sqrt();
                    value.map(|a| (a - mean) * slope + shift, (mean * slope).abs() + shift.abs())
                }
                OwnedOperation::Activation { activation, .. } => value.map(|a| activated(activation, a), 1.0),
                OwnedOperation::Other(_) => value,
            };
        }
        Expected::within(value.value, value.error)
    }

    fn convolved(&self, index: &[i64]) -> Rounded {
        let Some(Drivable { convolution, .. }) = &self.convolution else { return Rounded { value: f64::NAN, error: 0.0 } };
        let [x, w] = [&self.values[0], &self.values[2]];
        let sum = Reference::new(convolution, Direction::Forward, [x, w, x]).element(index);
        Rounded { value: sum.value, error: sum.error() }
    }
}

/// The chain's convolution, which comes first, as a problem of its own.
fn convolution(problem: &OwnedFusion) -> Result<Option<Drivable>, Usage> {
    let is_convolution = |operation: &OwnedOperation| matches!(operation, OwnedOperation::Convolution { .. });
    if problem.operations.iter().skip(1).any(is_convolution) {
        return Err(Usage("a convolution that is not the first operation".into()));
    }
    let Some(OwnedOperation::Convolution { convolution, w, .. }) = problem.operations.first() else {
        let same = problem.input.dims() == problem.output.dims();
        return if same { Ok(None) } else { Err(Usage("an output of other lengths than the input".into())) };
    };
    let alone = OwnedConvolution {
        direction: hipdnn_host::problem::ConvolutionDirection::Forward,
        convolution: convolution.clone(),
        x: problem.input.clone(),
        w: w.clone(),
        y: problem.output.clone(),
        alpha: 1.0,
        beta: 0.0,
        algorithm: None,
    };
    Drivable::of(&problems::ordinary(&alone)).map(Some)
}

/// Whether each length of an operand is the output's, or one for all.
fn meets(operand: &Tensor, output: &TensorDescriptor) -> bool {
    let lengths = || operand.dims.iter().zip(output.dims());
    operand.dims.len() == output.dims().len() && lengths().all(|(own, of_output)| *own == 1 || own == of_output)
}

/// Whether an operation is scaled by nothing, and normalises in a way that is defined here.
fn is_plain(operation: &OwnedOperation) -> bool {
    match operation {
        OwnedOperation::Normalization { mode, scaling, .. } => *scaling == Scaling::NONE && *mode != NormalizationMode::Unrecognized,
        OwnedOperation::Convolution { scaling, .. } | OwnedOperation::Bias { scaling, .. } | OwnedOperation::Activation { scaling, .. } => {
            *scaling == Scaling::NONE
        }
        OwnedOperation::Addition { .. } | OwnedOperation::Other(_) => true,
    }
}

/// A number, and how far what was computed in single precision may be from it.
#[derive(Clone, Copy)]
struct Rounded {
    value: f64,
    error: f64,
}

impl Rounded {
    fn plus(self, other: f64) -> Self {
        self.map(|a| a + other, other.abs())
    }

    /// Through a function, on whose way numbers of this magnitude occur.
    fn map(self, function: impl Fn(f64) -> f64, magnitude: f64) -> Self {
        let value = function(self.value);
        let spread = [-self.error, self.error].map(|error| (function(self.value + error) - value).abs());
        // A function that is not monotonous between the two is steepest there, or flat.
        let carried = spread[0].max(spread[1]);
        Self { value, error: carried + ROUNDINGS * HALF_ULP * (value.abs() + self.value.abs() + magnitude) }
    }
}

/// MIOpen's definitions.
fn activated(activation: &Activation, x: f64) -> f64 {
    let Activation { mode, alpha, beta, gamma } = *activation;
    match mode {
        ActivationMode::PassThrough => x,
        ActivationMode::Logistic => 1.0 / (1.0 + (-x).exp()),
        ActivationMode::Tanh => beta * (alpha * x).tanh(),
        ActivationMode::Relu => x.max(0.0),
        ActivationMode::SoftRelu => x.exp().ln_1p(),
        ActivationMode::Absolute => x.abs(),
        ActivationMode::Power => (alpha + beta * x).powf(gamma),
        ActivationMode::ClippedRelu => x.max(0.0).min(alpha),
        ActivationMode::LeakyRelu => {
            if x > 0.0 {
                x
            } else {
                alpha * x
            }
        }
        ActivationMode::Elu => {
            if x > 0.0 {
                x
            } else {
                alpha * x.exp_m1()
            }
        }
        ActivationMode::Clamp => x.min(beta).max(alpha),
        ActivationMode::Unrecognized => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_by_hand() {
        let problem: OwnedFusion = serde_json::from_value(serde_json::json!({
            "input": { "type": "float", "dims": [1, 2, 1, 1], "strides": [2, 1, 1, 1] },
            "operations": [
                { "bias": { "tensor": { "type": "float", "dims": [1, 2, 1, 1], "strides": [2, 1, 1, 1] }, "scaling": { "alpha": 1.0, "beta": 0.0 } } },
                { "activation": { "activation": { "mode": "leaky_relu", "alpha": 0.5, "beta": 0.0, "gamma": 0.0 },
                    "scaling": { "alpha": 1.0, "beta": 0.0 } } },
            ],
            "output": { "type": "float", "dims": [1, 2, 1, 1], "strides": [2, 1, 1, 1] },
        }))
        .unwrap();
        let chain = Chain::of(&problem).unwrap();
        let expected: Vec<Expected> = chain.expected().map(|(expected, _)| expected).collect();
        for (channel, expected) in expected.iter().enumerate() {
            let sum = chain.values[0].at(channel as i64) + chain.values[2].at(channel as i64);
            assert_eq!(expected.value, if sum > 0.0 { sum } else { sum / 2.0 });
            assert!(expected.error() < 1e-5 && expected.error() > 0.0);
        }
        assert_eq!(expected.len(), 2);
    }

    #[test]
    fn what_nobody_defines_is_said() {
        let mut problem: OwnedFusion = serde_json::from_value(serde_json::json!({
            "input": { "type": "float", "dims": [1, 2, 1, 1], "strides": [2, 1, 1, 1] },
            "operations": [{ "other": "miopenCreateOpX" }],
            "output": { "type": "float", "dims": [1, 2, 1, 1], "strides": [2, 1, 1, 1] },
        }))
        .unwrap();
        assert!(Chain::of(&problem).err().unwrap().0.contains("miopenCreateOpX"));
        problem.operations.clear();
        problem.output =
            TensorDescriptor::new(hipdnn_host::data_type::DataType::Float, None, &[1, 2, 1, 2], &[4, 2, 2, 1], 1, None).unwrap();
        assert!(Chain::of(&problem).err().unwrap().0.contains("other lengths"));
    }
}
