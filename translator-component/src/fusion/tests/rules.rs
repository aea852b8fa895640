//! Every rule of chains has a case that it declines, and conv's rules are those of the convolution in a chain.

use super::*;
use crate::{contract::graph::TensorLayout, conv, fusion::RULES};

/// A problem to bend, and how.
type Bend = fn(&mut Problem, &mut Capabilities);

/// Bends of convolution, bias, normalization, addition and clipped ReLU, in this order, on floats.
const DECLINES: &[(&str, Bend)] = &[
    ("fusion.operations.count", |p, _| p.operations.clear()),
    ("fusion.operations.count", |p, _| p.operations = vec![relu(); 17]),
    ("fusion.operations.count", |p, _| p.operations = vec![normalization(NormalizationMode::Spatial); 6]),
    ("fusion.operations.unknown", |p, _| p.operations.push(Operation::Other("miopenCreateOpBatchNormForward".into()))),
    ("fusion.operations.order", |p, _| p.operations.push(convolution(DataType::Float))),
    ("fusion.operations.order", |p, _| p.operations.swap(0, 1)),
    ("fusion.backend.pointwise", |_, c| c.operations.retain(|&operation| operation != POINTWISE)),
    ("fusion.activation.unrecognized", |p, _| activated(p, ActivationMode::Unrecognized, [1.0; 2])),
    ("fusion.activation.power", |p, _| activated(p, ActivationMode::Power, [1.0; 2])),
    ("fusion.normalization.mode", |p, _| normalized(p).mode = NormalizationMode::Unrecognized),
    ("fusion.scaling.alpha", |p, _| convolved(p).scaling.alpha = 2.0),
    ("fusion.scaling.alpha", |p, _| biased(p).scaling.alpha = 0.0),
    ("fusion.scaling.alpha", |p, _| normalized(p).scaling = Scaling { alpha: f64::NAN, beta: 1.0 }),
    ("fusion.scaling.beta", |p, _| convolved(p).scaling.beta = 1.0),
    ("fusion.scaling.beta", |p, _| biased(p).scaling.beta = f64::NAN),
    ("fusion.scaling.beta", |p, _| normalized(p).scaling.beta = -1.0),
    ("fusion.scaling.beta", |p, _| {
        let Some(Operation::Activation(activation)) = p.operations.last_mut() else { panic!() };
        (activation.mode, activation.scaling.beta) = (ActivationMode::PassThrough, 1.0);
    }),
    ("fusion.addition.factor", |p, _| added(p).factor = 0.0),
    ("fusion.addition.factor", |p, _| added(p).factor = 2.0),
    ("fusion.addition.factor", |p, _| added(p).factor = f64::NAN),
    ("tensor.layout.vectorized", |p, _| (p.input.vector_length, p.input.layout) = (4, Some(TensorLayout::Nchwc4))),
    ("tensor.layout.vectorized", |p, _| biased(p).tensor.vector_length = 8),
    ("tensor.type.counterpart", |p, _| p.output.data_type = DataType::Int8x4),
    ("tensor.type.counterpart", |p, _| normalized(p).parameters.data_type = DataType::Unrecognized),
    ("tensor.type.cast", |p, _| convolved(p).w.cast_type = Some(DataType::Float8E4m3Fnuz)),
    ("tensor.type.cast", |p, _| added(p).tensor.cast_type = Some(DataType::Half)),
    ("tensor.type.backend", |_, c| c.data_types.clear()),
    ("tensor.type.backend", |p, _| biased(p).tensor.data_type = DataType::Float8E4m3Fnuz),
    ("fusion.type.pointwise", |p, _| p.input.data_type = DataType::Int8),
    ("fusion.type.pointwise", |p, _| biased(p).tensor.data_type = DataType::Int32),
    ("fusion.type.pointwise", |p, c| {
        p.output.data_type = DataType::Float8E4m3Fnuz;
        c.data_types.push(DataType::Float8E4m3Fnuz);
    }),
    ("fusion.type.compute", |p, c| {
        *p = chain(DataType::Half, vec![convolution(DataType::Half), relu()]);
        c.data_types.retain(|&data_type| data_type != DataType::Float);
    }),
    ("fusion.activation.parameters", |p, _| activated(p, ActivationMode::ClippedRelu, [f64::NAN, 0.0])),
    ("fusion.activation.parameters", |p, _| activated(p, ActivationMode::LeakyRelu, [f64::INFINITY, 0.0])),
    ("fusion.activation.parameters", |p, _| activated(p, ActivationMode::Elu, [1e39, 0.0])),
    ("fusion.activation.parameters", |p, _| activated(p, ActivationMode::Clamp, [0.0, f64::NEG_INFINITY])),
    ("fusion.activation.parameters", |p, _| activated(p, ActivationMode::Tanh, [1.0, f64::NAN])),
    ("fusion.normalization.epsilon", |p, _| normalized(p).epsilon = -1e-5),
    ("fusion.normalization.epsilon", |p, _| normalized(p).epsilon = f64::NAN),
    ("fusion.normalization.epsilon", |p, _| normalized(p).epsilon = 1e300),
    ("tensor.dims.empty", |p, _| p.input.dims[0] = 0),
    ("tensor.dims.empty", |p, _| biased(p).tensor = packed(DataType::Float, &[])),
    ("tensor.dims.empty", |p, _| added(p).tensor.strides.truncate(3)),
    ("tensor.strides.positive", |p, _| p.output.strides[1] = 0),
    ("tensor.strides.positive", |p, _| normalized(p).parameters.strides[1] = -1),
    ("tensor.strides.overlap", |p, _| p.output.strides = vec![256, 63, 8, 1]),
    ("tensor.extent.range", |p, _| p.input.strides[0] = i64::MAX),
    ("tensor.extent.range", |p, _| added(p).tensor.strides[1] = i64::MAX / 2),
    ("fusion.output.shape", |p, _| {
        p.operations.remove(0);
        p.input = packed(DataType::Float, &[2, 4, 8, 9]);
    }),
    ("fusion.addition.shape", |p, _| added(p).tensor = packed(DataType::Float, &[1, 4, 8, 8])),
    ("fusion.bias.shape", |p, _| biased(p).tensor = packed(DataType::Float, &[1, 1, 1, 1])),
    ("fusion.bias.shape", |p, _| biased(p).tensor = packed(DataType::Float, &[4])),
    ("fusion.bias.shape", |p, _| biased(p).tensor = packed(DataType::Float, &[1, 4, 8, 8])),
    ("fusion.normalization.shape", |p, _| normalized(p).parameters = packed(DataType::Float, &[1, 4, 8, 8])),
    ("fusion.normalization.shape", |p, _| normalized(p).mode = NormalizationMode::PerActivation),
    ("fusion.normalization.shape", |p, _| normalized(p).parameters = packed(DataType::Float, &[1, 4])),
];

/// Bends of which conv's rules are the judges.
const CONVOLUTIONS: &[(&str, Bend)] = &[
    ("conv.backend.operation", |_, c| c.operations = vec![POINTWISE]),
    ("conv.mode.unrecognized", |p, _| convolved(p).mode = Mode::Unrecognized),
    ("conv.rank.mismatch", |p, _| convolved(p).w = packed(DataType::Float, &[4, 4, 3])),
    ("conv.rank.mismatch", |p, _| convolved(p).pads = vec![]),
    ("conv.geometry.parameters", |p, _| convolved(p).strides[0] = 0),
    ("conv.groups.count", |p, _| convolved(p).group_count = 0),
    ("conv.groups.channels", |p, _| convolved(p).group_count = 2),
    ("conv.output.geometry", |p, _| convolved(p).dilations[1] = 2),
    ("conv.output.geometry", |p, _| p.input = packed(DataType::Float, &[1, 4, 8, 8])),
    ("conv.attribute.deterministic", |p, _| convolved(p).attributes = vec![attribute(1, 1)]),
    ("conv.attribute.unknown", |p, _| convolved(p).attributes = vec![attribute(17, 0)]),
];

fn attribute(number: u32, value: i64) -> crate::contract::conv::ConvolutionAttribute {
    crate::contract::conv::ConvolutionAttribute { number, value }
}

fn good() -> Problem {
    let clipped = activation(ActivationMode::ClippedRelu, [6.0, 0.0]);
    let [convolution, bias, addition] = [convolution, bias, addition].map(|operation| operation(DataType::Float));
    chain(DataType::Float, vec![convolution, bias, normalization(NormalizationMode::Spatial), addition, clipped])
}

fn convolved(problem: &mut Problem) -> &mut Convolution {
    let Operation::Convolution(convolution) = &mut problem.operations[0] else { panic!() };
    convolution
}

fn biased(problem: &mut Problem) -> &mut Bias {
    let Operation::Bias(bias) = &mut problem.operations[1] else { panic!() };
    bias
}

fn normalized(problem: &mut Problem) -> &mut Normalization {
    let Operation::Normalization(normalization) = &mut problem.operations[2] else { panic!() };
    normalization
}

fn added(problem: &mut Problem) -> &mut Addition {
    let Operation::Addition(addition) = &mut problem.operations[3] else { panic!() };
    addition
}

fn activated(problem: &mut Problem, mode: ActivationMode, parameters: [f64; 2]) {
    problem.operations[4] = activation(mode, parameters);
}

fn judged(bend: Bend) -> Option<String> {
    let (mut problem, mut capabilities) = (good(), capabilities());
    bend(&mut problem, &mut capabilities);
    declined(&problem, &capabilities)
}

#[test]
fn every_rule_declines_what_it_says() {
    translated(&good());
    for (rule, bend) in DECLINES.iter().chain(CONVOLUTIONS) {
        assert_eq!(judged(*bend).as_deref(), Some(*rule));
    }
    let listed: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
    let tested: BTreeSet<&str> = DECLINES.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(listed, tested, "every rule has a case, every case a rule");
    assert!(CONVOLUTIONS.iter().all(|(id, _)| conv::RULES.iter().any(|rule| rule.id == *id)));
}

#[test]
fn what_is_declined_is_named() {
    let message = |bend: Bend| {
        let (mut problem, mut capabilities) = (good(), capabilities());
        bend(&mut problem, &mut capabilities);
        translate(&problem, &capabilities).unwrap_err().message
    };
    assert!(message(|p, _| activated(p, ActivationMode::Power, [1.0, 2.0])).contains("Power, alpha 1 beta 2 gamma 1"));
    assert_eq!(message(|p, _| p.operations.push(Operation::Other("miopenX".into()))), "miopenX");
    assert_eq!(message(|p, _| biased(p).scaling.alpha = 3.0), "alpha of the bias is 3");
}

#[test]
fn a_convolution_alone_needs_no_pointwise_operations() {
    let mut alone = capabilities();
    alone.operations.retain(|&operation| operation != POINTWISE);
    alone.data_types = vec![DataType::Half];
    let problem = chain(DataType::Half, vec![convolution(DataType::Half)]);
    assert_eq!(declined(&problem, &alone), None);
}

#[test]
fn minus_zero_is_zero_and_long_chains_fit() {
    let mut problem = good();
    (convolved(&mut problem).scaling.beta, biased(&mut problem).scaling.beta) = (-0.0, -0.0);
    translated(&problem);
    translated(&chain(DataType::Float, vec![relu(); 16]));
    translated(&chain(DataType::Float, vec![normalization(NormalizationMode::PerActivation); 5]));
    translated(&chain(DataType::Double, vec![activation(ActivationMode::Tanh, [2.0, 3.0]); 12]));
}
