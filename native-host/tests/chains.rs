//! Chains of operations through the embedded component: every rule for them is hit by a case, good chains become graphs that validate.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;

use hipdnn_abi::{attribute, descriptor_type, pointwise_mode};
use hipdnn_host::{
    capabilities::Capabilities,
    component::Translator,
    data_type::DataType,
    graph::{ReceivedDecline, ReceivedGraph, Value},
    judge::arguments,
    problem::{
        Activation, ActivationMode, ConvolutionDescriptor, ConvolutionFields, ConvolutionMode, FusedOperation, FusionProblem,
        NormalizationMode, Problem, Scaling, TensorDescriptor,
    },
    validate::validate,
};

fn packed(data_type: DataType, dims: &[i64]) -> TensorDescriptor {
    let strides: Vec<i64> = (0..dims.len()).map(|i| dims[i + 1..].iter().product()).collect();
    TensorDescriptor::new(data_type, None, dims, &strides, 1, None).unwrap()
}

fn float(dims: &[i64]) -> TensorDescriptor {
    packed(DataType::Float, dims)
}

/// A chain that a case may bend: convolution, z, bias, normalization, activation on x {2,4,8,8}, w {4,4,3,3}, pads 1.
struct Case {
    input: TensorDescriptor,
    output: TensorDescriptor,
    w: TensorDescriptor,
    z: TensorDescriptor,
    bias: TensorDescriptor,
    parameters: TensorDescriptor,
    normalization: NormalizationMode,
    epsilon: f64,
    activation: Activation,
    scaling: Scaling,
    factor: f64,
    algorithm: Option<u32>,
    /// Which of the operations, in which order.
    order: Vec<&'static str>,
    capabilities: Capabilities,
}

const ALL: [&str; 5] = ["convolution", "addition", "bias", "normalization", "activation"];

fn good() -> Case {
    Case {
        input: float(&[2, 4, 8, 8]),
        output: float(&[2, 4, 8, 8]),
        w: float(&[4, 4, 3, 3]),
        z: float(&[2, 4, 8, 8]),
        bias: float(&[1, 4, 1, 1]),
        parameters: float(&[1, 4, 1, 1]),
        normalization: NormalizationMode::Spatial,
        epsilon: 1e-5,
        activation: Activation { mode: ActivationMode::Relu, alpha: 0.0, beta: 0.0, gamma: 0.0 },
        scaling: Scaling::NONE,
        factor: 1.0,
        algorithm: None,
        order: ALL.to_vec(),
        capabilities: Capabilities::whole_abi(),
    }
}

impl Case {
    fn translate(&self, translator: &Translator) -> Result<ReceivedGraph, ReceivedDecline> {
        let fields = ConvolutionFields::initial(ConvolutionMode::Convolution, vec![1, 1], vec![1, 1], vec![1, 1]);
        let convolution = ConvolutionDescriptor::new(fields).unwrap();
        let scaling = self.scaling;
        let operation = |name: &&'static str| match *name {
            "convolution" => FusedOperation::Convolution { convolution: &convolution, w: &self.w, algorithm: self.algorithm, scaling },
            "addition" => FusedOperation::Addition { tensor: &self.z, factor: self.factor },
            "bias" => FusedOperation::Bias { tensor: &self.bias, scaling: Scaling::NONE },
            "normalization" => FusedOperation::Normalization {
                mode: self.normalization,
                parameters: &self.parameters,
                epsilon: self.epsilon,
                scaling: Scaling::NONE,
            },
            "activation" => FusedOperation::Activation { activation: self.activation, scaling: Scaling::NONE },
            other => FusedOperation::Other(other),
        };
        let operations: Vec<_> = self.order.iter().map(operation).collect();
        let problem = Problem::Fusion(FusionProblem { input: &self.input, operations: &operations, output: &self.output });
        let reply = translator.translate(&problem, &self.capabilities).unwrap();
        if let Ok(graph) = &reply {
            validate(graph.clone(), &arguments(&problem).unwrap()).unwrap();
        }
        reply
    }
}

type Bend = fn(&mut Case);

const DECLINES: &[(&str, Bend)] = &[
    ("fusion.operations.count", |c| c.order.clear()),
    ("fusion.operations.unknown", |c| c.order.push("miopenCreateOpBatchNormForward")),
    ("fusion.operations.order", |c| c.order.swap(0, 2)),
    ("fusion.backend.pointwise", |c| {
        c.capabilities.operations.retain(|kind| *kind != descriptor_type::BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    }),
    ("fusion.activation.unrecognized", |c| c.activation.mode = ActivationMode::Unrecognized),
    ("fusion.activation.power", |c| c.activation.mode = ActivationMode::Power),
    ("fusion.activation.parameters", |c| (c.activation.mode, c.activation.alpha) = (ActivationMode::Elu, f64::NAN)),
    ("fusion.normalization.mode", |c| c.normalization = NormalizationMode::Unrecognized),
    ("fusion.normalization.epsilon", |c| c.epsilon = -1.0),
    ("fusion.normalization.shape", |c| c.normalization = NormalizationMode::PerActivation),
    ("fusion.scaling.alpha", |c| c.scaling.alpha = 2.0),
    ("fusion.scaling.beta", |c| c.scaling.beta = 1.0),
    ("fusion.addition.factor", |c| c.factor = 2.0),
    ("fusion.addition.shape", |c| c.z = float(&[2, 4, 8, 1])),
    ("fusion.type.pointwise", |c| c.bias = packed(DataType::Int32, &[1, 4, 1, 1])),
    ("fusion.type.compute", |c| {
        (c.input, c.output, c.w) =
            (packed(DataType::Half, &[2, 4, 8, 8]), packed(DataType::Half, &[2, 4, 8, 8]), packed(DataType::Half, &[4, 4, 3, 3]));
        c.order = vec!["convolution", "activation"];
        c.capabilities.data_types.retain(|offered| *offered != DataType::Float);
    }),
    ("fusion.output.shape", |c| {
        c.order = vec!["bias"];
        c.input = float(&[2, 4, 8, 9]);
    }),
    ("fusion.bias.shape", |c| c.bias = float(&[1, 3, 1, 1])),
];

#[test]
fn every_rule_declines_what_it_says() {
    let translator = Translator::embedded().unwrap();
    for (rule, bend) in DECLINES {
        let mut case = good();
        bend(&mut case);
        let decline = case.translate(&translator).expect_err(rule);
        assert_eq!(decline.rule, *rule, "{}", decline.message);
        assert!(!decline.message.is_empty());
    }
    let rules = translator.description().rules.iter().map(|rule| rule.id.as_str());
    let listed: BTreeSet<&str> = rules.filter(|id| id.starts_with("fusion.")).collect();
    let tested: BTreeSet<&str> = DECLINES.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(listed, tested, "every rule has a case, every case a rule");
}

#[test]
fn the_rules_of_convolutions_hold_in_chains() {
    let mut case = good();
    case.output = float(&[2, 4, 8, 9]);
    case.z = case.output.clone();
    assert_eq!(case.translate(&Translator::embedded().unwrap()).expect_err("accepted").rule, "conv.output.geometry");
}

fn modes(graph: &ReceivedGraph) -> Vec<i32> {
    let mode = |value: &Value| if let Value::Enumeration(mode) = value { *mode } else { -1 };
    let found = graph.nodes.iter().filter_map(|node| node.attributes.iter().find(|a| a.number == attribute::POINTWISE_MODE));
    found.map(|attribute| mode(&attribute.value)).collect()
}

#[test]
fn frameworks_chains_are_translated() {
    use pointwise_mode::{ADD, RELU_FWD};
    let translator = Translator::embedded().unwrap();
    let chains: &[(&[&'static str], &[i32])] = &[
        (&["convolution"], &[]),
        (&["convolution", "bias"], &[ADD]),
        (&["convolution", "activation"], &[RELU_FWD]),
        (&["convolution", "bias", "activation"], &[ADD, RELU_FWD]),
        (&["convolution", "addition", "bias", "activation"], &[ADD, ADD, RELU_FWD]),
    ];
    for (order, expected) in chains {
        let case = Case { order: order.to_vec(), ..good() };
        assert_eq!(modes(&case.translate(&translator).unwrap()), *expected, "{order:?}");
    }
    for order in [&ALL[..], &["convolution", "normalization", "activation"], &["normalization", "activation"]] {
        Case { order: order.to_vec(), ..good() }.translate(&translator).unwrap();
    }
}

#[test]
fn an_ignored_algorithm_is_noted() {
    let graph = Case { algorithm: Some(1), ..good() }.translate(&Translator::embedded().unwrap()).unwrap();
    assert_eq!(graph.notes, ["conv.algorithm.ignored"]);
}
