//! Every activation mode: its graph computes what MIOpen says, in every type, or it is declined by name.

use super::*;

const NUMBERS: [f64; 11] = [-1e4, -3.0, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 2.75, 1e4];
/// Miri takes a thousand times as long: some are enough there.
const PARAMETERS: &[f64] = if cfg!(miri) { &[-0.5, 2.0] } else { &[-2.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 6.0] };
const TYPES: &[DataType] = if cfg!(miri) { &[DataType::Half] } else { &FLOATS };
const TRANSLATED: [ActivationMode; 10] = [
    ActivationMode::PassThrough,
    ActivationMode::Logistic,
    ActivationMode::Tanh,
    ActivationMode::Relu,
    ActivationMode::SoftRelu,
    ActivationMode::Absolute,
    ActivationMode::ClippedRelu,
    ActivationMode::LeakyRelu,
    ActivationMode::Elu,
    ActivationMode::Clamp,
];

/// What MIOpen computes.
fn defined(mode: ActivationMode, [alpha, beta]: [f64; 2], x: f64) -> f64 {
    let above = |least: f64, x: f64| if x < least { least } else { x };
    let below = |most: f64, x: f64| if x > most { most } else { x };
    match mode {
        ActivationMode::PassThrough => x,
        ActivationMode::Logistic => 1.0 / (1.0 + (-x).exp()),
        ActivationMode::Tanh => beta * (alpha * x).tanh(),
        ActivationMode::Relu => above(0.0, x),
        ActivationMode::SoftRelu => x.exp().ln_1p(),
        ActivationMode::Absolute => x.abs(),
        ActivationMode::ClippedRelu => below(alpha, above(0.0, x)),
        ActivationMode::LeakyRelu => x * if x > 0.0 { 1.0 } else { alpha },
        ActivationMode::Elu => {
            if x > 0.0 {
                x
            } else {
                alpha * x.exp_m1()
            }
        }
        ActivationMode::Clamp => above(alpha, below(beta, x)),
        ActivationMode::Power | ActivationMode::Unrecognized => panic!("{mode:?} is not translated"),
    }
}

#[test]
fn graphs_compute_the_definitions() {
    for mode in TRANSLATED {
        for &data_type in TYPES {
            for parameters in PARAMETERS.iter().flat_map(|&alpha| PARAMETERS.iter().map(move |&beta| [alpha, beta])) {
                let alone = translated(&chain(data_type, vec![activation(mode, parameters)]));
                let convolved = translated(&chain(data_type, vec![convolution(data_type), activation(mode, parameters)]));
                for x in NUMBERS {
                    let expected = defined(mode, parameters, x);
                    for graph in [&alone, &convolved] {
                        let got = evaluate(graph, x, &[]);
                        let close = (got - expected).abs() <= 1e-6 * expected.abs() || got == expected;
                        assert!(close, "{mode:?} {parameters:?} of {x} in {data_type:?} is {expected}, not {got}");
                    }
                }
                assert!(evaluate(&alone, f64::NAN, &[]).is_nan(), "{mode:?}");
            }
        }
    }
}

/// The pointwise modes of a chain of a convolution and an activation.
fn modes(activation_mode: ActivationMode, parameters: [f64; 2]) -> Vec<i32> {
    let graph = translated(&chain(DataType::Float, vec![convolution(DataType::Float), activation(activation_mode, parameters)]));
    graph.nodes.iter().filter(|node| node.operation == POINTWISE).map(mode).collect()
}

#[test]
fn nothing_is_there_that_is_not_needed() {
    use pointwise_mode::*;
    let plain = [1.0, 1.0];
    assert_eq!(modes(ActivationMode::PassThrough, plain), []);
    assert_eq!(modes(ActivationMode::Logistic, plain), [SIGMOID_FWD]);
    assert_eq!(modes(ActivationMode::Tanh, plain), [TANH_FWD]);
    assert_eq!(modes(ActivationMode::Tanh, [2.0, 1.0]), [MUL, TANH_FWD]);
    assert_eq!(modes(ActivationMode::Tanh, [1.0, 2.0]), [TANH_FWD, MUL]);
    assert_eq!(modes(ActivationMode::Tanh, [2.0, 2.0]), [MUL, TANH_FWD, MUL]);
    assert_eq!(modes(ActivationMode::Relu, plain), [RELU_FWD]);
    assert_eq!(modes(ActivationMode::SoftRelu, plain), [SOFTPLUS_FWD]);
    assert_eq!(modes(ActivationMode::Absolute, plain), [ABS]);
    assert_eq!(modes(ActivationMode::ClippedRelu, plain), [RELU_FWD]);
    assert_eq!(modes(ActivationMode::LeakyRelu, plain), [RELU_FWD]);
    assert_eq!(modes(ActivationMode::Elu, plain), [ELU_FWD]);
    assert_eq!(modes(ActivationMode::Clamp, plain), [RELU_FWD]);
}

#[test]
fn attributes_are_those_of_the_mode() {
    let of = |mode, parameters| {
        let graph = translated(&chain(DataType::Float, vec![activation(mode, parameters)]));
        let numbers = 2301..=2306;
        let attributes = graph.nodes[0].attributes.iter().filter(|attribute| numbers.contains(&attribute.number));
        attributes.map(|attribute| (attribute.number, float(&graph.nodes[0], attribute.number).unwrap())).collect::<Vec<_>>()
    };
    let (lower, upper) = (attribute::POINTWISE_RELU_LOWER_CLIP, attribute::POINTWISE_RELU_UPPER_CLIP);
    assert_eq!(of(ActivationMode::Relu, [3.0, 4.0]), []);
    assert_eq!(of(ActivationMode::ClippedRelu, [6.0, 9.0]), [(upper, 6.0)]);
    assert_eq!(of(ActivationMode::ClippedRelu, [-6.0, 9.0]), [(lower, -6.0), (upper, -6.0)]);
    assert_eq!(of(ActivationMode::LeakyRelu, [0.5, 9.0]), [(attribute::POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.5)]);
    assert_eq!(of(ActivationMode::Elu, [0.5, 9.0]), [(attribute::POINTWISE_ELU_ALPHA, 0.5)]);
    assert_eq!(of(ActivationMode::SoftRelu, [0.5, 9.0]), [(attribute::POINTWISE_SOFTPLUS_BETA, 1.0)]);
    assert_eq!(of(ActivationMode::Clamp, [0.0, 6.0]), [(lower, 0.0), (upper, 6.0)]);
    assert_eq!(of(ActivationMode::Clamp, [6.0, 0.0]), [(lower, 6.0), (upper, 6.0)], "alpha everywhere");
}

#[test]
fn parameters_are_rounded_as_miopen_rounds_them_or_not_at_all() {
    let tenth = |data_type, mode| chain(data_type, vec![activation(mode, [0.1, 0.1])]);
    let leaky = translated(&tenth(DataType::Half, ActivationMode::LeakyRelu));
    assert_eq!(float(&leaky.nodes[0], attribute::POINTWISE_RELU_LOWER_CLIP_SLOPE), Some(f64::from(0.1f32)));
    // How exact the library's own function is, nobody promises (Miri sees to that); a rounded tenth would be off by far more.
    let difference = evaluate(&translated(&tenth(DataType::Double, ActivationMode::Tanh)), 1.0, &[]) - 0.1 * 0.1f64.tanh();
    assert!(difference.abs() < 1e-15, "{difference}");
    for mode in [ActivationMode::LeakyRelu, ActivationMode::ClippedRelu, ActivationMode::Elu, ActivationMode::Clamp] {
        let rule = declined(&tenth(DataType::Double, mode), &capabilities());
        assert_eq!(rule.as_deref(), Some("fusion.activation.parameters"), "{mode:?}");
    }
}

#[test]
fn parameters_that_a_mode_does_not_have_are_not_looked_at() {
    let nan = [f64::NAN, f64::INFINITY];
    let unused =
        [ActivationMode::PassThrough, ActivationMode::Logistic, ActivationMode::Relu, ActivationMode::SoftRelu, ActivationMode::Absolute];
    for mode in unused {
        translated(&chain(DataType::Float, vec![activation(mode, nan)]));
    }
    for mode in [ActivationMode::ClippedRelu, ActivationMode::LeakyRelu, ActivationMode::Elu] {
        translated(&chain(DataType::Float, vec![activation(mode, [1.0, f64::NAN])]));
    }
}
