//! Random problems: mostly sound convolutions of every kind that MIOpen's API can describe, some with one thing wrong or unusual on purpose.
//! What is sound, and what comes of it, is not known here.

mod flaw;
mod layout;

use miopen_api::{activation_mode, convolution_attribute};

use self::{flaw::Flaw, layout::strides};
use super::{
    asked::{Asked, Chain, Geometry, Style, scalar},
    source::Source,
};
use crate::{
    edge::Direction,
    problem::{Kind, Tensor},
};

/// The largest length of a spatial axis, by spatial rank: tensors stay small.
const LONGEST: [usize; 5] = [0, 9, 6, 4, 3];

/// Element types of x, w and y that MIOpen documents.
const KINDS: [[Kind; 3]; 6] = [
    [Kind::Float; 3],
    [Kind::Half; 3],
    [Kind::BFloat16; 3],
    [Kind::Double; 3],
    [Kind::Int8, Kind::Int8, Kind::Int32],
    [Kind::Int8, Kind::Int8, Kind::Float],
];

const ALL_KINDS: [Kind; 6] = [Kind::Float, Kind::Half, Kind::BFloat16, Kind::Double, Kind::Int8, Kind::Int32];

/// Activations with parameters that are exact in every type.
const ACTIVATIONS: [(i32, [f64; 3]); 14] = [
    (activation_mode::RELU, [0.0, 0.0, 0.0]),
    (activation_mode::RELU, [0.5, 0.0, 1.0]),
    (activation_mode::LEAKYRELU, [0.5, 0.0, 0.0]),
    (activation_mode::LEAKYRELU, [-0.25, 0.0, 0.0]),
    (activation_mode::CLIPPEDRELU, [2.0, 0.0, 0.0]),
    (activation_mode::CLIPPEDRELU, [-1.0, 0.0, 0.0]),
    (activation_mode::CLAMP, [-1.0, 3.0, 0.0]),
    (activation_mode::CLAMP, [0.0, 6.0, 0.0]),
    (activation_mode::PASTHRU, [0.0, 0.0, 0.0]),
    (activation_mode::LOGISTIC, [0.0, 0.0, 0.0]),
    (activation_mode::TANH, [0.5, 2.0, 0.0]),
    (activation_mode::SOFTRELU, [0.0, 0.0, 0.0]),
    (activation_mode::ABS, [0.0, 0.0, 0.0]),
    (activation_mode::ELU, [0.5, 0.0, 0.0]),
];

/// A problem of a seed.
pub fn generate(seed: u64, number: u64) -> Asked {
    let mut source = Source::of(seed, number);
    let mut asked = sound(&mut source);
    asked.values = seed.wrapping_mul(1_000_003).wrapping_add(number);
    if source.percent(35) {
        Flaw::any(&mut source).put(&mut source, &mut asked);
    }
    asked
}

fn style(source: &mut Source) -> Style {
    match source.between(0, 9) {
        0..=2 => Style::Unfound,
        3 | 4 => Style::Found { requested: source.between(1, 3) },
        5 | 6 => Style::Immediate,
        7 => Style::FindTwo { reloaded: source.percent(50) },
        _ => Style::Plan,
    }
}

/// A convolution whose parts fit.
fn sound(source: &mut Source) -> Asked {
    let style = style(source);
    let direction = if style == Style::Plan { Direction::Forward } else { source.one(&Direction::ALL) };
    let rank = source.one(&[1, 2, 2, 2, 2, 3, 3, 4]);
    let mut geometry = geometry(source, rank);
    // No plan is compiled for a transposed convolution; a few are asked for all the same.
    geometry.transposed &= style != Style::Plan || source.percent(10);
    let (groups, dims) = dims(source, &geometry);
    let kinds = kinds(source, style, direction);
    let tensors = layouts(source, kinds, &dims);
    let (alpha, beta) = scalars(source, style);
    let result = tensors[direction.result()].kind;
    Asked {
        style,
        direction,
        geometry,
        groups: groups as i32,
        attributes: Vec::new(),
        alpha: scalar(alpha, result),
        beta: scalar(beta, result),
        offsets: offsets(source, &tensors),
        alias: None,
        null: None,
        chain: if style == Style::Plan { chain(source) } else { Chain::default() },
        values: 0,
        tensors,
    }
}

fn geometry(source: &mut Source, rank: usize) -> Geometry {
    let transposed = source.percent(30);
    let mut list = |least: i64, values: &[i64]| (0..rank).map(|_| least + source.one(values)).collect::<Vec<_>>();
    let (pads, strides, dilations) = (list(0, &[0, 0, 1, 1, 2, 3]), list(1, &[0, 0, 0, 1, 1, 2]), list(1, &[0, 0, 0, 1, 2]));
    let output_pads = strides.iter().map(|&stride| source.between(0, stride as usize - 1) as i64).collect();
    Geometry { pads, strides, dilations, output_pads, transposed }
}

/// The group count, and dimensions of x, w and y. Where pads take away more than a transposed convolution has, MIOpen says 1; ordinary
/// windows are made to fit.
fn dims(source: &mut Source, geometry: &Geometry) -> (usize, [Vec<usize>; 3]) {
    let rank = geometry.pads.len();
    let (groups, inner, outer) = channels(source);
    let batch = source.between(1, 3);
    let (mut x, mut w, mut y) = (vec![batch, inner * groups], vec![outer * groups, inner], vec![batch, outer * groups]);
    if geometry.transposed {
        (w[0], w[1], x[1], y[1]) = (outer * groups, inner, outer * groups, inner * groups);
    }
    for axis in 0..rank {
        let (window, input, output) = lengths(source, geometry, axis);
        x.push(input);
        w.push(window);
        y.push(output);
    }
    (groups, [x, w, y])
}

/// Groups, and how many of the filter's inner and outer channels each has.
fn channels(source: &mut Source) -> (usize, usize, usize) {
    let groups = source.one(&[1, 1, 1, 2, 3, 4]);
    // Depthwise, with or without a multiplier.
    let inner = if groups > 1 && source.percent(40) { 1 } else { source.between(1, 3) };
    (groups, inner, source.between(1, 3))
}

/// Lengths of window, input and output along an axis.
fn lengths(source: &mut Source, geometry: &Geometry, axis: usize) -> (usize, usize, usize) {
    let longest = LONGEST[geometry.pads.len()];
    let (pad, stride, dilation) = (geometry.pads[axis], geometry.strides[axis], geometry.dilations[axis]);
    let (window, input) = (source.between(1, 3.min(longest)), source.between(1, longest));
    let reach = 1 + (window as i64 - 1) * dilation;
    if geometry.transposed {
        let spread = stride * (input as i64 - 1) + reach - 2 * pad + geometry.output_pads[axis];
        return (window, input, spread.max(1) as usize);
    }
    let input = (input as i64).max(reach - 2 * pad);
    (window, input as usize, ((input + 2 * pad - reach) / stride + 1) as usize)
}

/// Types of x, w and y.
fn kinds(source: &mut Source, style: Style, direction: Direction) -> [Kind; 3] {
    if source.percent(8) {
        return [0; 3].map(|_| source.one(&ALL_KINDS));
    }
    if source.percent(4) {
        // int8 has no gradients in MIOpen; a graph has them.
        let mut kinds = [Kind::Int8; 3];
        kinds[direction.result()] = source.one(&[Kind::Int8, Kind::Int32, Kind::Float]);
        return kinds;
    }
    let usual = match (style, direction) {
        (Style::Plan, _) if source.percent(90) => 3,
        (_, Direction::Forward) => KINDS.len(),
        // int8 has no gradients.
        _ => 4,
    };
    source.one(&KINDS[..usual])
}

/// Tensors with one layout for all of them, mostly.
fn layouts(source: &mut Source, kinds: [Kind; 3], dims: &[Vec<usize>; 3]) -> [Tensor; 3] {
    let common = layout::any(source);
    let each = source.percent(15);
    [0, 1, 2].map(|i| {
        let layout = if each { layout::any(source) } else { common };
        Tensor::strided(kinds[i], &dims[i], &strides(source, layout, &dims[i]))
    })
}

fn scalars(source: &mut Source, style: Style) -> (f64, f64) {
    let classic = matches!(style, Style::Unfound | Style::Found { .. });
    if !classic || source.percent(75) {
        return (1.0, 0.0);
    }
    (source.one(&[1.0, 0.5, 2.0, -1.0, 0.0]), source.one(&[0.0, 0.0, 1.0, 0.5, -1.0]))
}

/// Most addresses are as an allocator gives them; some are multiples of an element; a few of nothing.
fn offsets(source: &mut Source, tensors: &[Tensor; 3]) -> [usize; 3] {
    [0, 1, 2].map(|i| match source.between(0, 9) {
        0 => source.between(0, 63),
        1 | 2 => tensors[i].kind.width() * source.between(0, 63 / tensors[i].kind.width()),
        _ => 0,
    })
}

fn chain(source: &mut Source) -> Chain {
    let bias = source.percent(70);
    // Without either there is nothing to fuse: a few such plans are asked for, too.
    let activation = source.percent(if bias { 75 } else { 95 }).then(|| source.one(&ACTIVATIONS));
    Chain { bias, activation }
}

/// Attributes that change nothing.
fn harmless(source: &mut Source) -> Vec<(i32, i32)> {
    let all = [
        (convolution_attribute::FP16_ALT_IMPL, 0),
        (convolution_attribute::FP16_ALT_IMPL, -1),
        (convolution_attribute::DETERMINISTIC, 0),
        (convolution_attribute::FP8_ROUNDING_MODE, 0),
    ];
    vec![source.one(&all)]
}
