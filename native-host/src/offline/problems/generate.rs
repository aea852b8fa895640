//! Random problems: mostly sound ones of every kind that MIOpen's API can describe, some bent, and some that make no sense at all.

use super::{mutate, slots::packed_in, window::Window};
use crate::{
    data_type::DataType,
    offline::choices::Choices,
    problem::{
        Activation, ActivationMode, ConvolutionDescriptor, ConvolutionDirection, ConvolutionFields, ConvolutionMode, DescriptorError,
        MAX_OPERATIONS, MAX_RANK, NormalizationMode, OwnedActivation, OwnedConvolution, OwnedFusion, OwnedOperation, OwnedProblem, Scaling,
        TensorDescriptor, TensorLayout,
    },
};

/// Every element type that a descriptor can have.
pub const TYPES: &[DataType] = &[
    DataType::Float,
    DataType::Half,
    DataType::BFloat16,
    DataType::Double,
    DataType::Int8,
    DataType::Uint8,
    DataType::Int32,
    DataType::Int64,
    DataType::Boolean,
    DataType::Float8E4M3Fnuz,
    DataType::Float8E5M2Fnuz,
    DataType::Float8E4M3,
    DataType::Float8E5M2,
    DataType::Int8x4,
    DataType::Unrecognized,
];

/// Element types of x, w and y that programs use.
const USUAL_TYPES: [[DataType; 3]; 5] = [
    [DataType::Float; 3],
    [DataType::Half; 3],
    [DataType::BFloat16; 3],
    [DataType::Int8, DataType::Int8, DataType::Int32],
    [DataType::Double; 3],
];

/// Every direction.
pub const DIRECTIONS: &[ConvolutionDirection] =
    &[ConvolutionDirection::Forward, ConvolutionDirection::BackwardData, ConvolutionDirection::BackwardWeights];

/// Every mode, ordinary ones first.
pub const MODES: &[ConvolutionMode] = &[
    ConvolutionMode::Convolution,
    ConvolutionMode::Transpose,
    ConvolutionMode::GroupConv,
    ConvolutionMode::Depthwise,
    ConvolutionMode::Unrecognized,
];

/// Every layout that a caller can name.
pub const LAYOUTS: &[TensorLayout] = &[
    TensorLayout::Nchw,
    TensorLayout::Nhwc,
    TensorLayout::Chwn,
    TensorLayout::Nchwc4,
    TensorLayout::Nchwc8,
    TensorLayout::Chwnc4,
    TensorLayout::Chwnc8,
    TensorLayout::Ncdhw,
    TensorLayout::Ndhwc,
    TensorLayout::Unrecognized,
];

/// Every activation.
pub const ACTIVATIONS: &[ActivationMode] = &[
    ActivationMode::Relu,
    ActivationMode::PassThrough,
    ActivationMode::Logistic,
    ActivationMode::Tanh,
    ActivationMode::SoftRelu,
    ActivationMode::Absolute,
    ActivationMode::Power,
    ActivationMode::ClippedRelu,
    ActivationMode::LeakyRelu,
    ActivationMode::Elu,
    ActivationMode::Clamp,
    ActivationMode::Unrecognized,
];

/// Every mode of batch normalisation.
pub const NORMALIZATIONS: &[NormalizationMode] =
    &[NormalizationMode::Spatial, NormalizationMode::PerActivation, NormalizationMode::Unrecognized];

/// The largest length of a spatial axis, by spatial rank: problems stay small enough to be computed.
const LONGEST: [i64; 6] = [0, 9, 6, 4, 3, 2];

/// A problem of a seed.
pub fn numbered(seed: u64, number: u64) -> OwnedProblem {
    any(&mut Choices::numbered(seed, number))
}

/// A problem: mostly sound, else bent in a few places, else anything.
pub fn any(choices: &mut Choices<'_>) -> OwnedProblem {
    match choices.below(10) {
        0..=5 => sound(choices),
        6..=8 => {
            let mut problem = sound(choices);
            for _ in 0..=choices.below(3) {
                mutate::mutate(&mut problem, choices);
            }
            problem
        }
        _ => wild(choices),
    }
}

/// A problem whose parts fit together.
pub fn sound(choices: &mut Choices<'_>) -> OwnedProblem {
    let made =
        if choices.percent(30) { chain(choices) } else { convolution(choices).map(|made| OwnedProblem::Convolution(Box::new(made))) };
    // Nothing here has more dimensions than are recorded.
    made.unwrap_or_else(|_| wild(choices))
}

fn convolution(choices: &mut Choices<'_>) -> Result<OwnedConvolution, DescriptorError> {
    let fields = fields(choices, 25);
    let direction = choices.one(DIRECTIONS);
    let types = types(choices, 5);
    let [x, w, y] = tensors(choices, &fields, types)?;
    let scaled = choices.percent(20);
    let alpha = if scaled { choices.one(&[1.0, 0.5, 2.0, -1.0, 0.0]) } else { 1.0 };
    let beta = if scaled { choices.one(&[0.0, 0.0, 1.0, 0.5, -1.0]) } else { 0.0 };
    let algorithm = choices.one(&[None, None, Some(0), Some(1), Some(2), Some(3), Some(5)]);
    Ok(OwnedConvolution {
        direction,
        convolution: ConvolutionDescriptor::new(finished(choices, fields, &w))?,
        x,
        w,
        y,
        alpha,
        beta,
        algorithm,
    })
}

/// A convolution's geometry, groups not chosen yet.
fn fields(choices: &mut Choices<'_>, transposed: usize) -> ConvolutionFields {
    let rank = choices.one(&[2, 2, 2, 1, 2, 3, 3, 4, 5]);
    let mode = if choices.percent(transposed) { ConvolutionMode::Transpose } else { ConvolutionMode::Convolution };
    let mut list = |least: i64, values: &[i64]| (0..rank).map(|_| least + choices.one(values)).collect::<Vec<_>>();
    let (pads, strides, dilations) = (list(0, &[0, 0, 1, 1, 2, 3]), list(1, &[0, 0, 0, 1, 1, 2]), list(1, &[0, 0, 0, 1, 2]));
    let mut fields = ConvolutionFields::initial(mode, pads, strides, dilations);
    if mode == ConvolutionMode::Transpose {
        fields.output_pads = fields.strides.iter().map(|&stride| choices.between(0, stride - 1)).collect();
    }
    fields.group_count = choices.one(&[1, 1, 1, 2, 3, 4]);
    fields
}

/// With attributes, and other names for the same mode.
fn finished(choices: &mut Choices<'_>, mut fields: ConvolutionFields, w: &TensorDescriptor) -> ConvolutionFields {
    if fields.group_count > 1 && fields.mode == ConvolutionMode::Convolution && choices.percent(20) {
        fields.mode = if w.dims().get(1) == Some(&1) { ConvolutionMode::Depthwise } else { ConvolutionMode::GroupConv };
    }
    if choices.percent(15) {
        fields.attributes = vec![(choices.below(4) as u32, choices.between(-1, 2))];
    }
    fields
}

fn types(choices: &mut Choices<'_>, odd: usize) -> [DataType; 3] {
    if choices.percent(odd) { [0; 3].map(|_| choices.one(TYPES)) } else { choices.one(&USUAL_TYPES) }
}

/// x, w and y that fit the geometry.
fn tensors(choices: &mut Choices<'_>, fields: &ConvolutionFields, types: [DataType; 3]) -> Result<[TensorDescriptor; 3], DescriptorError> {
    let dims = dims(choices, fields);
    let common = Order::any(choices);
    let each = choices.percent(15);
    let mut tensor = |i: usize| {
        let order = if each { Order::any(choices) } else { common };
        order.tensor(choices, types[i], &dims[i])
    };
    Ok([tensor(0)?, tensor(1)?, tensor(2)?])
}

/// Lengths of x, w and y.
fn dims(choices: &mut Choices<'_>, fields: &ConvolutionFields) -> [Vec<i64>; 3] {
    let (rank, groups) = (fields.pads.len(), fields.group_count);
    let transposed = fields.mode == ConvolutionMode::Transpose;
    // Depthwise, with or without a multiplier.
    let inner = if groups > 1 && choices.percent(40) { 1 } else { choices.between(1, 3) };
    let (outer, batch) = (choices.between(1, 3), choices.between(1, 3));
    let (of_x, of_y) = if transposed { (outer * groups, inner * groups) } else { (inner * groups, outer * groups) };
    let (mut x, mut w, mut y) = (vec![batch, of_x], vec![outer * groups, inner], vec![batch, of_y]);
    let longest = LONGEST[rank];
    for axis in 0..rank {
        let window = choices.between(1, longest.min(3));
        let reach = 1 + (window - 1) * fields.dilations[axis];
        let least = if transposed { 1 } else { (reach - 2 * fields.pads[axis]).max(1) };
        x.push(choices.between(1, longest).max(least));
        w.push(window);
    }
    let window = Window {
        filter: &w[2..],
        strides: &fields.strides,
        dilations: &fields.dilations,
        pads: &fields.pads,
        output_pads: &fields.output_pads,
    };
    // Inputs were made as long as windows need.
    y.extend(window.output(&x[2..], transposed).unwrap_or_else(|_| vec![1; rank]));
    [x, w, y]
}

/// How elements lie.
#[derive(Clone, Copy)]
enum Order {
    Packed,
    ChannelLast,
    Shuffled,
    Gaps,
}

impl Order {
    fn any(choices: &mut Choices<'_>) -> Self {
        choices.one(&[Self::Packed, Self::Packed, Self::ChannelLast, Self::Shuffled, Self::Gaps])
    }

    fn tensor(self, choices: &mut Choices<'_>, data_type: DataType, dims: &[i64]) -> Result<TensorDescriptor, DescriptorError> {
        let plain: Vec<usize> = (0..dims.len()).collect();
        let strides = match self {
            Self::Packed => packed_in(dims, &plain),
            Self::ChannelLast => {
                let mut order = plain;
                if dims.len() > 2 {
                    order[1..].rotate_left(1);
                }
                packed_in(dims, &order)
            }
            Self::Shuffled => packed_in(dims, &choices.order(dims.len())),
            Self::Gaps => {
                let wider: Vec<i64> = dims.iter().map(|dim| dim + choices.between(0, 2)).collect();
                packed_in(&wider, &plain)
            }
        };
        TensorDescriptor::new(data_type, None, dims, &strides, 1, None)
    }
}

/// A chain as fusion plans have them.
fn chain(choices: &mut Choices<'_>) -> Result<OwnedProblem, DescriptorError> {
    let fields = fields(choices, 5);
    let types =
        if choices.percent(10) { types(choices, 30) } else { [choices.one(&[DataType::Float, DataType::Half, DataType::BFloat16]); 3] };
    let [x, w, y] = tensors(choices, &fields, types)?;
    let mut operations = Vec::new();
    let convolves = choices.below(10) < 8;
    let input = if convolves { x } else { y.clone() };
    if convolves {
        let convolution = ConvolutionDescriptor::new(finished(choices, fields, &w))?;
        operations.push(OwnedOperation::Convolution { convolution, w, algorithm: None, scaling: Scaling::NONE });
    }
    for _ in 0..=choices.below(3) {
        operations.push(step(choices, &y)?);
    }
    // What begins like a call of that family is one.
    if let (false, Some(&OwnedOperation::Activation { activation, scaling })) = (convolves, operations.first()) {
        return Ok(OwnedProblem::Activation(OwnedActivation { activation, scaling, x: input, y }));
    }
    operations.truncate(MAX_OPERATIONS);
    Ok(OwnedProblem::Fusion(OwnedFusion { input, operations, output: y }))
}

fn function(choices: &mut Choices<'_>) -> Activation {
    let [alpha, beta, gamma] = choices.one(&[[0.0; 3], [0.5, 0.0, 1.0], [-0.25, 1.0, 1.0], [2.0, 6.0, 0.5]]);
    Activation { mode: choices.one(ACTIVATIONS), alpha, beta, gamma }
}

fn step(choices: &mut Choices<'_>, y: &TensorDescriptor) -> Result<OwnedOperation, DescriptorError> {
    let per_channel = |data_type: DataType| {
        let dims: Vec<i64> = y.dims().iter().enumerate().map(|(axis, &dim)| if axis == 1 { dim } else { 1 }).collect();
        TensorDescriptor::new(data_type, None, &dims, &packed_in(&dims, &(0..dims.len()).collect::<Vec<_>>()), 1, None)
    };
    Ok(match choices.below(6) {
        0 | 1 => OwnedOperation::Bias { tensor: per_channel(y.data_type())?, scaling: Scaling::NONE },
        2 => {
            let data_type = if choices.percent(70) { DataType::Float } else { y.data_type() };
            let mode = choices.one(&[NormalizationMode::Spatial, NormalizationMode::Spatial, NormalizationMode::PerActivation]);
            let parameters = if mode == NormalizationMode::Spatial { per_channel(data_type)? } else { y.clone() };
            OwnedOperation::Normalization { mode, parameters, epsilon: choices.one(&[1e-5, 1e-3]), scaling: Scaling::NONE }
        }
        3 => OwnedOperation::Addition { tensor: y.clone(), factor: choices.one(&[1.0, 1.0, 0.5, 0.0]) },
        _ => OwnedOperation::Activation { activation: function(choices), scaling: Scaling::NONE },
    })
}

/// A problem of any parts at all, as far as they can be recorded.
pub fn wild(choices: &mut Choices<'_>) -> OwnedProblem {
    if choices.below(2) == 0 {
        return OwnedProblem::Convolution(Box::new(OwnedConvolution {
            direction: choices.one(DIRECTIONS),
            convolution: wild_convolution(choices),
            x: wild_tensor(choices),
            w: wild_tensor(choices),
            y: wild_tensor(choices),
            alpha: scalar(choices),
            beta: scalar(choices),
            algorithm: algorithm(choices),
        }));
    }
    if choices.percent(20) {
        let scaling = Scaling { alpha: scalar(choices), beta: scalar(choices) };
        let activation =
            Activation { mode: choices.one(ACTIVATIONS), alpha: scalar(choices), beta: scalar(choices), gamma: scalar(choices) };
        return OwnedProblem::Activation(OwnedActivation { activation, scaling, x: wild_tensor(choices), y: wild_tensor(choices) });
    }
    let operations = choices.below(MAX_OPERATIONS + 1);
    OwnedProblem::Fusion(OwnedFusion {
        input: wild_tensor(choices),
        operations: (0..operations).map(|_| wild_operation(choices)).collect(),
        output: wild_tensor(choices),
    })
}

/// Numbers at the edges of what callers can say: 32-bit integers mostly, 64-bit lengths in some calls.
pub const EXTREMES: &[i64] =
    &[0, -1, 1, i32::MAX as i64, i32::MIN as i64, 1 << 31, u32::MAX as i64, 1 << 32, (1 << 53) + 1, 1 << 58, 1 << 62, i64::MAX, i64::MIN];

fn integer(choices: &mut Choices<'_>) -> i64 {
    match choices.below(8) {
        7 => choices.word().cast_signed(),
        6 => choices.one(EXTREMES),
        _ => choices.between(1, 9),
    }
}

/// Any bits at all, and numbers as programs have them.
pub fn scalar(choices: &mut Choices<'_>) -> f64 {
    match choices.below(4) {
        0 => choices.one(&[1.0, 0.0, 0.1, 0.5, 1e-5, 1e300, 1.0 / 3.0]),
        1 => choices.one(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 5e-324, f64::MAX, f64::MIN_POSITIVE]),
        2 => f64::from(f32::from_bits(choices.word() as u32)),
        _ => f64::from_bits(choices.word()),
    }
}

fn list(choices: &mut Choices<'_>, length: usize) -> Vec<i64> {
    (0..length).map(|_| integer(choices)).collect()
}

fn wild_tensor(choices: &mut Choices<'_>) -> TensorDescriptor {
    let rank = choices.below(MAX_RANK + 1);
    let (dims, strides) = (list(choices, rank), list(choices, rank));
    let cast = choices.percent(25).then(|| choices.one(TYPES));
    let layout = choices.percent(30).then(|| choices.one(LAYOUTS));
    let vector = choices.one(&[1, 1, 4, 0, u32::MAX]);
    let made = TensorDescriptor::new(choices.one(TYPES), cast, &dims, &strides, vector, layout);
    // As many strides as lengths, and not too many: such a tensor can be recorded.
    made.unwrap_or_else(|error| unreachable!("{error}"))
}

fn wild_convolution(choices: &mut Choices<'_>) -> ConvolutionDescriptor {
    let mut some = || {
        let length = choices.below(MAX_RANK + 1);
        list(choices, length)
    };
    let (pads, strides, dilations, output_pads) = (some(), some(), some(), some());
    let fields = ConvolutionFields {
        mode: choices.one(MODES),
        pads,
        strides,
        dilations,
        output_pads,
        group_count: integer(choices),
        attributes: (0..choices.below(4)).map(|_| (choices.word() as u32, integer(choices))).collect(),
    };
    // None of the lists is too long.
    ConvolutionDescriptor::new(fields).unwrap_or_else(|error| unreachable!("{error}"))
}

fn algorithm(choices: &mut Choices<'_>) -> Option<u32> {
    let number = choices.word() as u32;
    choices.one(&[None, Some(0), Some(5), Some(number)])
}

fn wild_scaling(choices: &mut Choices<'_>) -> Scaling {
    Scaling { alpha: scalar(choices), beta: scalar(choices) }
}

fn wild_operation(choices: &mut Choices<'_>) -> OwnedOperation {
    match choices.below(6) {
        0 => OwnedOperation::Convolution {
            convolution: wild_convolution(choices),
            w: wild_tensor(choices),
            algorithm: algorithm(choices),
            scaling: wild_scaling(choices),
        },
        1 => OwnedOperation::Addition { tensor: wild_tensor(choices), factor: scalar(choices) },
        2 => OwnedOperation::Bias { tensor: wild_tensor(choices), scaling: wild_scaling(choices) },
        3 => OwnedOperation::Normalization {
            mode: choices.one(NORMALIZATIONS),
            parameters: wild_tensor(choices),
            epsilon: scalar(choices),
            scaling: wild_scaling(choices),
        },
        4 => {
            let (alpha, beta, gamma) = (scalar(choices), scalar(choices), scalar(choices));
            let activation = Activation { mode: choices.one(ACTIVATIONS), alpha, beta, gamma };
            OwnedOperation::Activation { activation, scaling: wild_scaling(choices) }
        }
        _ => OwnedOperation::Other(choices.one(&["miopenCreateOpX", "", "\"\\\u{1f600}</script>"]).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{capabilities::Capabilities, component::Translator, judge::judge};

    /// The words of a problem hold every field bit for bit (NaNs too, which are not equal to themselves). Keys may be too short for them.
    fn words(problem: &OwnedProblem) -> Vec<u64> {
        let mut words = Vec::new();
        problem.with(|problem| problem.words(&mut |more| words.extend_from_slice(more)));
        words
    }

    #[test]
    fn every_problem_comes_back_from_json_as_it_was() {
        for number in 0..20_000 {
            let choices = &mut Choices::numbered(0x5eed, number);
            let problem = if number % 2 == 0 { wild(choices) } else { any(choices) };
            let text = serde_json::to_string(&problem).unwrap();
            let read: OwnedProblem = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{number}: {error}: {text}"));
            assert_eq!(words(&read), words(&problem), "{number}: {text}");
            assert_eq!(serde_json::to_string(&read).unwrap(), text, "{number}");
            let copied = problem.with(OwnedProblem::of);
            assert_eq!(words(&copied), words(&problem), "{number}: {text}");
            assert!(!problem.to_string().is_empty(), "{number}");
        }
    }

    #[test]
    fn what_is_sound_is_mostly_translated_and_the_rest_is_of_all_kinds() {
        let translator = Translator::embedded().unwrap();
        let capabilities = Capabilities::whole_abi();
        let translated = |problem: &OwnedProblem| {
            problem.with(|problem| judge(translator.translate(problem, &capabilities), translator.description(), problem))
        };
        let sound = (0..1000).filter(|&number| translated(&sound(&mut Choices::numbered(1, number))).is_ok()).count();
        assert!((600..950).contains(&sound), "{sound} of 1000");
        let declined = (0..3000).filter_map(|number| translated(&numbered(2, number)).err());
        let rules: std::collections::BTreeSet<String> = declined.map(|declined| declined.rule).collect();
        assert!(rules.len() > 25, "only {rules:?}");
    }

    #[test]
    fn any_bytes_make_a_problem() {
        assert_eq!(any(&mut Choices::of_bytes(&[])).to_string(), any(&mut Choices::of_bytes(&[0; 64])).to_string());
        for length in 0..200u32 {
            let bytes: Vec<u8> = (0..length).map(|i| (i.wrapping_mul(length).wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
            assert!(!any(&mut Choices::of_bytes(&bytes)).to_string().is_empty());
        }
    }
}
