//! What a convolution must give, computed independently: a direct sum in whole numbers over the logical definition, which is exact; and
//! how far a computed output may be from it.
//!
//! Inputs, poison, encoding of element types and the comparison are here. Nothing here calls a library or prints.
//!
//! **Tolerance.** Inputs are multiples of 1/8 in [-1, 1], so every product is a multiple of 1/64 and every partial sum of fewer than
//! 2^18 terms is exact in fp32, whatever the order: a direct algorithm makes no error before the output is rounded. What is allowed is
//! * for the output: half a unit in the last place, which is 2^-24 (fp32), 2^-11 (fp16) or 2^-8 (bf16) of the value. A MIOpen that
//!   is built to truncate bf16 instead of rounding it errs by up to twice that, and fails here;
//! * for algorithms that transform their input (Winograd, FFT) and sum in fp32: 8·√n·2^-24 of the sum of the absolute terms, n terms.
//!   Rounding errors of n additions behave like a random walk; the factor 8 is for the transforms. The worst case n·2^-24 would let a
//!   whole missing term of a long sum pass;
//! * for integers: nothing.

use half::{bf16, f16};
use hipdnn_host::{data_type::DataType, offline::choices::Choices, problem::Scaling};

use crate::{
    convolution::{Convolution, Tensor},
    flags::Direction,
};

/// Up to this many multiplications every element is checked.
const FULL_CHECK: u64 = 100_000_000;
/// Beyond that, as many elements as so many give, within these limits: sums over a whole batch are long.
const SAMPLES: std::ops::RangeInclusive<u64> = 256..=4096;
/// Elements behind an output that must not be touched.
pub const GUARD: usize = 64;
/// What algorithms that transform their input may lose, see the head of this file.
const TRANSFORMS: f64 = 8.0;
/// The seed of the inputs. Fixed, so that a failure can be repeated.
const SEED: u64 = 0x5eed;

/// Values of a tensor, for its whole extent (or none, of one that is computed): integers and what they are multiplied with. Sums of their products are exact.
#[derive(Default)]
pub struct Values {
    numerators: Vec<i16>,
    scale: f64,
}

impl Values {
    /// Input that is exact in every type: multiples of 1/8 in [-1, 1], for integer types whole numbers in [-8, 8].
    pub fn input(tensor: &Tensor, stream: u64) -> Self {
        let mut generator = Choices::seeded(SEED ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93));
        let scale = if tensor.data_type == DataType::Int8 { 1.0 } else { 0.125 };
        Self { numerators: (0..tensor.extent()).map(|_| generator.below(17) as i16 - 8).collect(), scale }
    }

    /// Positive input: multiples of 1/8 in (0, 1].
    pub fn positive(tensor: &Tensor, stream: u64) -> Self {
        let Self { mut numerators, scale } = Self::input(tensor, stream);
        numerators.iter_mut().for_each(|numerator| *numerator = numerator.rem_euclid(8) + 1);
        Self { numerators, scale }
    }

    /// The value at an offset.
    pub fn at(&self, offset: i64) -> f64 {
        f64::from(self.numerators[offset as usize]) * self.scale
    }

    /// The values as bytes of an element type.
    pub fn encode(&self, data_type: DataType) -> Vec<u8> {
        encode(data_type, self.numerators.iter().map(|numerator| f64::from(*numerator) * self.scale))
    }
}

/// Values as bytes of an element type.
fn encode(data_type: DataType, values: impl ExactSizeIterator<Item = f64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * width(data_type));
    for value in values {
        match data_type {
            DataType::Half => bytes.extend(f16::from_f64(value).to_le_bytes()),
            DataType::BFloat16 => bytes.extend(bf16::from_f64(value).to_le_bytes()),
            DataType::Int8 => bytes.extend((value as i8).to_le_bytes()),
            DataType::Int32 => bytes.extend((value as i32).to_le_bytes()),
            _ => bytes.extend((value as f32).to_le_bytes()),
        }
    }
    bytes
}

/// One element, from its bytes.
fn decode(data_type: DataType, bytes: &[u8]) -> f64 {
    match (data_type, bytes) {
        (DataType::Half, &[a, b, ..]) => f16::from_le_bytes([a, b]).to_f64(),
        (DataType::BFloat16, &[a, b, ..]) => bf16::from_le_bytes([a, b]).to_f64(),
        (DataType::Int8, &[a, ..]) => f64::from(a as i8),
        (DataType::Int32, &[a, b, c, d]) => f64::from(i32::from_le_bytes([a, b, c, d])),
        (_, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
        _ => f64::NAN,
    }
}

/// Bytes of one element.
pub fn width(data_type: DataType) -> usize {
    data_type.bytes().unwrap_or(4)
}

/// What outputs are filled with before a run: a NaN that nobody computes, and an integer that no sum of ours reaches.
fn poison_element(data_type: DataType) -> &'static [u8] {
    match data_type {
        DataType::Half => &[0x5a, 0x7e],
        DataType::BFloat16 => &[0xda, 0x7f],
        DataType::Int8 => &[0x5a],
        DataType::Int32 => &[0x5a; 4],
        _ => &[0x5a, 0x5a, 0xda, 0x7f],
    }
}

/// A poisoned output: its whole extent, and a guard behind it.
pub fn poison(tensor: &Tensor) -> Vec<u8> {
    poison_element(tensor.data_type).repeat(tensor.extent() as usize + GUARD)
}

/// An output that is added to: old values in its elements, poison everywhere else.
pub fn filled(tensor: &Tensor, old: &Values) -> Vec<u8> {
    let (mut bytes, values, width) = (poison(tensor), old.encode(tensor.data_type), width(tensor.data_type));
    for number in 0..tensor.elements() as u64 {
        let place = offset(tensor, &unravel(number, &tensor.dims)) * width;
        bytes[place..place + width].copy_from_slice(&values[place..place + width]);
    }
    bytes
}

/// The expected value of one element, and what its tolerance depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The exact sum.
    pub value: f64,
    /// The sum of the absolute terms.
    pub magnitude: f64,
    /// How many terms there are.
    pub terms: usize,
}

impl Expected {
    /// A value that may be so far off before it is rounded into the output.
    pub fn within(value: f64, error: f64) -> Self {
        Self { value, magnitude: error / (TRANSFORMS * 2f64.powi(-24)), terms: 1 }
    }

    /// How far it may be off before it is rounded into the output.
    pub fn error(&self) -> f64 {
        TRANSFORMS * (self.terms as f64).sqrt() * 2f64.powi(-24) * self.magnitude
    }

    /// How far an output may be from the value, see the head of this file.
    pub fn allowed(&self, data_type: DataType) -> f64 {
        let (output, smallest) = match data_type {
            DataType::Int8 | DataType::Int32 => return 0.0,
            DataType::Half => (2f64.powi(-11), 2f64.powi(-25)),
            DataType::BFloat16 => (2f64.powi(-8), 0.0),
            _ => (2f64.powi(-24), 0.0),
        };
        output * self.value.abs() + self.error() + smallest
    }
}

/// How an output compares with what was expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Distance of the element nearest to its limit (or furthest beyond it), relative to the sum of its absolute terms; infinite for
    /// a NaN, and for an infinity where there should be none.
    pub error: f64,
    /// What was allowed for that element, on the same scale.
    pub tolerance: f64,
    /// How many elements were compared.
    pub compared: u64,
    /// What is wrong, if anything.
    pub failure: Option<String>,
}

/// One direction of a convolution, element by element.
///
/// In both modes there is an image, over which windows slide, and features, one for each window: an ordinary convolution's x and y, a
/// transposed one's y and x. Every direction computes one of image, features and filter from the other two; with window place o and tap t,
/// image place o·stride - pad + t·dilation.
pub struct Reference<'a> {
    convolution: &'a Convolution,
    image: Operand<'a>,
    filter: Operand<'a>,
    features: Operand<'a>,
    result: Part,
    /// What the output holds before, if it is added to.
    old: Option<&'a Values>,
}

#[derive(Clone, Copy)]
struct Operand<'a> {
    tensor: &'a Tensor,
    values: &'a Values,
}

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Image,
    Filter,
    Features,
}

impl Operand<'_> {
    /// The element at an offset, as its numerator.
    fn at(&self, offset: i64) -> i64 {
        self.values.numerators[offset as usize].into()
    }
}

/// Sums of products, in numerators.
#[derive(Default)]
struct Sum {
    value: i64,
    magnitude: i64,
    terms: usize,
}

impl Sum {
    /// Products are below 2^30: no sum that fits into memory overflows.
    fn add(&mut self, a: i64, b: i64) {
        let term = a * b;
        self.value += term;
        self.magnitude += term.abs();
        self.terms += 1;
    }
}

impl<'a> Reference<'a> {
    /// `values` holds those of the whole extents of x, w and y; the result's are looked at only if they are added to.
    pub fn new(convolution: &'a Convolution, direction: Direction, values: [&'a Values; 3]) -> Self {
        let [x, w, y] = values;
        let (x, filter, y) = (
            Operand { tensor: &convolution.x, values: x },
            Operand { tensor: &convolution.w, values: w },
            Operand { tensor: &convolution.y, values: y },
        );
        let (image, features) = if convolution.transposed { (y, x) } else { (x, y) };
        let result = match (direction, convolution.transposed) {
            (Direction::Forward, false) | (Direction::BackwardData, true) => Part::Features,
            (Direction::Forward, true) | (Direction::BackwardData, false) => Part::Image,
            (Direction::BackwardWeights, _) => Part::Filter,
        };
        let old = match result {
            Part::Image => image,
            Part::Filter => filter,
            Part::Features => features,
        };
        let old = (convolution.scaling.beta != 0.0).then_some(old.values);
        Self { convolution, image, filter, features, result, old }
    }

    fn output(&self) -> &'a Tensor {
        match self.result {
            Part::Image => self.image.tensor,
            Part::Filter => self.filter.tensor,
            Part::Features => self.features.tensor,
        }
    }

    /// Channels of one group: of the image, of the features.
    fn channels(&self) -> (i64, i64) {
        let groups = self.convolution.groups;
        (self.image.tensor.dims[1] / groups, self.features.tensor.dims[1] / groups)
    }

    /// The result's element at an index in logical order.
    pub fn element(&self, index: &[i64]) -> Expected {
        let sum = match self.result {
            Part::Features => self.feature(index),
            Part::Image => self.pixel(index),
            Part::Filter => self.weight(index),
        };
        let scale = match self.result {
            Part::Image => self.features.values.scale * self.filter.values.scale,
            Part::Filter => self.features.values.scale * self.image.values.scale,
            Part::Features => self.image.values.scale * self.filter.values.scale,
        };
        let Scaling { alpha, beta } = self.convolution.scaling;
        let mut expected =
            Expected { value: sum.value as f64 * scale * alpha, magnitude: sum.magnitude as f64 * scale * alpha.abs(), terms: sum.terms };
        if let Some(old) = self.old {
            let old = f64::from(old.numerators[offset(self.output(), index)]) * old.scale * beta;
            expected = Expected { value: expected.value + old, magnitude: expected.magnitude + old.abs(), terms: expected.terms + 1 };
        }
        expected
    }

    /// The place of the image under a tap of a window, unless it is padding.
    fn under(&self, axis: usize, window: i64, tap: i64) -> Option<i64> {
        let c = self.convolution;
        let place = window * c.strides[axis] - c.pads[axis] + tap * c.dilations[axis];
        (0..self.image.tensor.dims[axis + 2]).contains(&place).then_some(place)
    }

    /// The window that has a place of the image under a tap, if there is one.
    fn over(&self, axis: usize, place: i64, tap: i64) -> Option<i64> {
        let c = self.convolution;
        let distance = place + c.pads[axis] - tap * c.dilations[axis];
        let window = distance.div_euclid(c.strides[axis]);
        (distance % c.strides[axis] == 0 && (0..self.features.tensor.dims[axis + 2]).contains(&window)).then_some(window)
    }

    /// All combinations over the spatial axes of pairs of offsets, `each` of which gives those of one axis.
    fn pairs(&self, each: impl Fn(usize) -> Vec<(i64, i64)>) -> Vec<(i64, i64)> {
        (0..self.convolution.pads.len()).fold(vec![(0, 0)], |pairs, axis| {
            let along = each(axis);
            pairs.iter().flat_map(|(a, b)| along.iter().map(move |(da, db)| (a + da, b + db))).collect()
        })
    }

    /// Over the channels of the element's group and all taps.
    fn feature(&self, index: &[i64]) -> Sum {
        let (image, filter) = (self.image.tensor, self.filter.tensor);
        let taps = self.pairs(|axis| {
            let pair = |tap| Some((self.under(axis, index[axis + 2], tap)? * image.strides[axis + 2], tap * filter.strides[axis + 2]));
            (0..filter.dims[axis + 2]).filter_map(pair).collect()
        });
        let (channels, features) = self.channels();
        let mut sum = Sum::default();
        for channel in 0..channels {
            let from = image.offset(&[index[0], index[1] / features * channels + channel]);
            let with = filter.offset(&[index[1], channel]);
            taps.iter().for_each(|(i, w)| sum.add(self.image.at(from + i), self.filter.at(with + w)));
        }
        sum
    }

    /// Over the features of the element's group and all taps that reach it.
    fn pixel(&self, index: &[i64]) -> Sum {
        let (features, filter) = (self.features.tensor, self.filter.tensor);
        let taps = self.pairs(|axis| {
            let pair = |tap| Some((self.over(axis, index[axis + 2], tap)? * features.strides[axis + 2], tap * filter.strides[axis + 2]));
            (0..filter.dims[axis + 2]).filter_map(pair).collect()
        });
        let (channels, per_group) = self.channels();
        let mut sum = Sum::default();
        for feature in 0..per_group {
            let absolute = index[1] / channels * per_group + feature;
            let from = features.offset(&[index[0], absolute]);
            let with = filter.offset(&[absolute, index[1] % channels]);
            taps.iter().for_each(|(f, w)| sum.add(self.features.at(from + f), self.filter.at(with + w)));
        }
        sum
    }

    /// Over the batch and all windows.
    fn weight(&self, index: &[i64]) -> Sum {
        let (image, features) = (self.image.tensor, self.features.tensor);
        let windows = self.pairs(|axis| {
            let pair = |o| Some((self.under(axis, o, index[axis + 2])? * image.strides[axis + 2], o * features.strides[axis + 2]));
            (0..features.dims[axis + 2]).filter_map(pair).collect()
        });
        let (channels, per_group) = self.channels();
        let mut sum = Sum::default();
        for n in 0..image.dims[0] {
            let from = image.offset(&[n, index[0] / per_group * channels + index[1]]);
            let with = features.offset(&[n, index[0]]);
            windows.iter().for_each(|(i, f)| sum.add(self.image.at(from + i), self.features.at(with + f)));
        }
        sum
    }

    /// Compares outputs of several runs, each with its guard, with what is expected: every element of a small problem, else samples;
    /// that every element was written and nothing else, always.
    pub fn check(&self, outputs: &[Vec<u8>]) -> Verdict {
        let expected = self.indices().map(|index| (self.element(&index), index));
        check(self.output(), outputs, expected, self.old.is_some())
    }

    /// The elements to compare.
    fn indices(&self) -> Box<dyn Iterator<Item = Vec<i64>> + '_> {
        let dims = &self.output().dims;
        let total = self.output().elements() as u64;
        let multiplications = self.convolution.multiplications();
        let affordable = (FULL_CHECK / (multiplications / total).max(1)).clamp(*SAMPLES.start(), *SAMPLES.end());
        if multiplications <= FULL_CHECK || total <= affordable {
            return Box::new((0..total).map(|number| unravel(number, dims)));
        }
        let mut generator = Choices::seeded(SEED);
        let corners = [0, total - 1];
        Box::new(
            (0..affordable)
                .map(move |i| unravel(corners.get(i as usize).copied().unwrap_or_else(|| generator.below(total as usize) as u64), dims)),
        )
    }
}

/// Compares outputs of several runs, each with its guard, with what is expected of some elements; and that every element was written (if it
/// had no value before) and nothing else.
pub fn check(output: &Tensor, runs: &[Vec<u8>], expected: impl Iterator<Item = (Expected, Vec<i64>)>, had_values: bool) -> Verdict {
    let mut worst = Worst { error: 0.0, tolerance: 0.0, ratio: -1.0, failure: None };
    let mut compared = 0;
    for (expected, index) in expected {
        compared += 1;
        runs.iter().for_each(|run| worst.consider(output, &index, &expected, run));
    }
    let written = runs.iter().find_map(|run| check_writes(output, run, had_values));
    Verdict { error: worst.error, tolerance: worst.tolerance, compared, failure: written.or(worst.failure) }
}

/// The index of the n-th element in logical order.
pub fn unravel(number: u64, dims: &[i64]) -> Vec<i64> {
    let mut rest = number as i64;
    let mut index = vec![0; dims.len()];
    for axis in (0..dims.len()).rev() {
        index[axis] = rest % dims[axis];
        rest /= dims[axis];
    }
    index
}

fn offset(tensor: &Tensor, index: &[i64]) -> usize {
    tensor.offset(index) as usize
}

/// The element that is worst so far.
struct Worst {
    error: f64,
    tolerance: f64,
    ratio: f64,
    failure: Option<String>,
}

impl Worst {
    fn consider(&mut self, tensor: &Tensor, index: &[i64], expected: &Expected, output: &[u8]) {
        let width = width(tensor.data_type);
        let got = decode(tensor.data_type, &output[offset(tensor, index) * width..][..width]);
        let allowed = expected.allowed(tensor.data_type);
        // The value may be too large for the type: then only the same infinity is right.
        let representable = decode(tensor.data_type, &encode(tensor.data_type, [expected.value].into_iter()));
        let distance = if got == representable {
            (got - expected.value).abs().min(allowed)
        } else if got.is_finite() && representable.is_finite() {
            (got - expected.value).abs()
        } else {
            f64::INFINITY
        };
        let ratio = if distance == 0.0 { 0.0 } else { distance / allowed };
        if ratio <= self.ratio {
            return;
        }
        let scale = if expected.magnitude > 0.0 { expected.magnitude } else { 1.0 };
        (self.error, self.tolerance, self.ratio) = (distance / scale, allowed / scale, ratio);
        if ratio > 1.0 {
            self.failure = Some(format!("element {index:?} is {got}, expected {}", expected.value));
        }
    }
}

/// Whether every element was overwritten, and nothing between or behind them. Answers what is wrong. Elements that had old values were not
/// poisoned, so nobody can say whether they were written.
fn check_writes(tensor: &Tensor, output: &[u8], had_values: bool) -> Option<String> {
    match poison_element(tensor.data_type) {
        &[a] => check_places(tensor, output, [a], had_values),
        &[a, b] => check_places(tensor, output, [a, b], had_values),
        &[a, b, c, d] => check_places(tensor, output, [a, b, c, d], had_values),
        other => Some(format!("no poison of {} bytes", other.len())),
    }
}

/// As [`check_writes`], for elements of a width: outputs are large, and comparing arrays is much faster than comparing slices.
fn check_places<const WIDTH: usize>(tensor: &Tensor, output: &[u8], poison: [u8; WIDTH], had_values: bool) -> Option<String> {
    let (places, _) = output.as_chunks::<WIDTH>();
    let extent = tensor.extent() as usize;
    let (inside, behind) = places.split_at(extent);
    if let Some(place) = behind.iter().position(|place| *place != poison) {
        return Some(format!("{} elements behind the end of the output were overwritten", place + 1));
    }
    if tensor.elements() as usize == extent {
        if had_values {
            return None;
        }
        let unwritten = inside.iter().position(|place| *place == poison);
        return unwritten.map(|place| format!("element at offset {place} of the output was not written"));
    }
    let mut belongs = vec![false; extent];
    for number in 0..tensor.elements() as u64 {
        belongs[offset(tensor, &unravel(number, &tensor.dims))] = true;
    }
    let wrong = |&place: &usize| (inside[place] == poison) == belongs[place] && !(had_values && belongs[place]);
    (0..extent).find(wrong).map(|place| {
        let what = if belongs[place] { "was not written" } else { "lies in a gap and was overwritten" };
        format!("element at offset {place} of the output {what}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::tests::parse;

    fn convolution(line: &str) -> Convolution {
        Convolution::from_line(&parse(line).unwrap()).unwrap()
    }

    fn whole(numerators: &[i16]) -> Values {
        Values { numerators: numerators.to_vec(), scale: 1.0 }
    }

    /// The forward direction; y is not looked at.
    fn forward<'a>(c: &'a Convolution, x: &'a Values, w: &'a Values) -> Reference<'a> {
        Reference::new(c, Direction::Forward, [x, w, x])
    }

    fn inputs(c: &Convolution) -> (Values, Values) {
        (Values::input(&c.x, 0), Values::input(&c.w, 1))
    }

    fn all(line: &str, x: &[i16], w: &[i16]) -> Vec<f64> {
        let c = convolution(line);
        let (x, w) = (whole(x), whole(w));
        let reference = forward(&c, &x, &w);
        (0..c.y.elements() as u64).map(|n| reference.element(&unravel(n, &c.y.dims)).value).collect()
    }

    #[test]
    fn a_hand_computed_convolution() {
        let x = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        let w = [1, 10, 100, 1000];
        let line = "conv -n 1 -c 1 -k 1 -H 3 -W 3 -y 2 -x 2";
        assert_eq!(all(line, &x, &w), [5421.0, 6532.0, 8754.0, 9865.0]);
        // One pad, stride 2: windows at (-1, -1), (-1, 1), (1, -1), (1, 1).
        let padded = format!("{line} -p 1 -q 1 -u 2 -v 2");
        assert_eq!(all(&padded, &x, &w), [1000.0, 3200.0, 7040.0, 9865.0]);
        // Dilation 2: the corners.
        assert_eq!(all(&format!("{line} -l 2 -j 2"), &x, &w), [9731.0]);
    }

    #[test]
    fn a_hand_computed_transposed_convolution() {
        let line = "conv -m trans -n 1 -c 1 -k 1 -H 1 -W 2 -y 1 -x 2 -v 2 -X 1";
        assert_eq!(all(line, &[3, 5], &[1, 10]), [3.0, 30.0, 5.0, 50.0, 0.0]);
        let overlapping = "conv -m trans -n 1 -c 1 -k 1 -H 1 -W 2 -y 1 -x 2";
        assert_eq!(all(overlapping, &[3, 5], &[1, 10]), [3.0, 35.0, 50.0]);
    }

    #[test]
    fn old_values_are_added() {
        let mut c = convolution("conv -n 1 -c 1 -k 1 -H 1 -W 3 -y 1 -x 1");
        c.scaling = Scaling { alpha: 2.0, beta: -1.0 };
        // A gap behind every element.
        c.y.strides = vec![6, 6, 6, 2];
        let (x, w, old) = (whole(&[1, 2, 3]), whole(&[10]), whole(&[5, 0, 6, 0, 7]));
        let reference = Reference::new(&c, Direction::Forward, [&x, &w, &old]);
        let expected: Vec<Expected> = (0..3).map(|n| reference.element(&[0, 0, 0, n])).collect();
        assert_eq!(expected.iter().map(|e| e.value).collect::<Vec<_>>(), [15.0, 34.0, 53.0]);
        assert_eq!((expected[0].magnitude, expected[0].terms), (25.0, 2));
        let mut output = filled(&c.y, &old);
        assert!(reference.check(std::slice::from_ref(&output)).failure.unwrap().contains(", expected "));
        for (n, expected) in expected.iter().enumerate() {
            output[n * 8..n * 8 + 4].copy_from_slice(&(expected.value as f32).to_le_bytes());
        }
        assert_eq!(reference.check(std::slice::from_ref(&output)).failure, None);
        output[4] ^= 1;
        assert!(reference.check(&[output]).failure.unwrap().contains("gap"));
    }

    #[test]
    fn groups_read_their_own_channels() {
        let line = "conv -n 1 -c 2 -k 4 -g 2 -H 1 -W 1 -y 1 -x 1";
        assert_eq!(all(line, &[1, 10], &[1, 2, 3, 4]), [1.0, 2.0, 30.0, 40.0]);
        let transposed = "conv -m trans -n 1 -c 4 -k 2 -g 2 -H 1 -W 1 -y 1 -x 1";
        assert_eq!(all(transposed, &[1, 10, 100, 1000], &[1, 2, 3, 4]), [21.0, 4300.0]);
    }

    #[test]
    fn layouts_change_where_not_what() {
        let moved = |from: &Tensor, to: &Tensor, values: &Values| {
            let mut numerators = vec![0; to.extent() as usize];
            for n in 0..from.elements() as u64 {
                let index = unravel(n, &from.dims);
                numerators[offset(to, &index)] = values.numerators[offset(from, &index)];
            }
            Values { numerators, scale: values.scale }
        };
        let c = convolution("conv -n 2 -c 8 -k 4 -H 5 -W 6 -p 1");
        let (x, w) = inputs(&c);
        for layouts in ["-I NHWC -f CHWN -O NHWC", "-Z 1 -L 4", "-Z 1 -L 4 -f CHWN"] {
            let other = convolution(&format!("conv -n 2 -c 8 -k 4 -H 5 -W 6 -p 1 {layouts}"));
            let (x_moved, w_moved) = (moved(&c.x, &other.x, &x), moved(&c.w, &other.w, &w));
            let (a, b) = (forward(&c, &x, &w), forward(&other, &x_moved, &w_moved));
            for n in 0..c.y.elements() as u64 {
                let index = unravel(n, &c.y.dims);
                assert_eq!(a.element(&index), b.element(&index), "{layouts}");
            }
        }
    }

    fn exact_output(c: &Convolution, x: &Values, w: &Values) -> Vec<u8> {
        let reference = forward(c, x, w);
        let mut bytes = poison(&c.y);
        let width = width(c.y.data_type);
        for n in 0..c.y.elements() as u64 {
            let index = unravel(n, &c.y.dims);
            let value = encode(c.y.data_type, [reference.element(&index).value].into_iter());
            bytes[offset(&c.y, &index) * width..][..width].copy_from_slice(&value);
        }
        bytes
    }

    #[test]
    fn a_correct_output_passes_in_every_type() {
        for base in ["conv", "convfp16", "convbfp16", "convint8"] {
            let c = convolution(&format!("{base} -n 2 -c 8 -k 4 -H 6 -W 6"));
            let (x, w) = inputs(&c);
            let verdict = forward(&c, &x, &w).check(&[exact_output(&c, &x, &w)]);
            assert_eq!(verdict.failure, None, "{base}");
            assert!(verdict.error <= verdict.tolerance && verdict.compared == 128, "{base}: {verdict:?}");
        }
    }

    #[test]
    fn wrong_outputs_fail() {
        let c = convolution("conv -n 1 -c 4 -k 2 -H 4 -W 4");
        let (x, w) = inputs(&c);
        let good = exact_output(&c, &x, &w);
        let failure = |place: usize, element: [u8; 4]| {
            let mut bytes = good.clone();
            bytes[place * 4..][..4].copy_from_slice(&element);
            let verdict = forward(&c, &x, &w).check(&[good.clone(), bytes]);
            (verdict.failure.unwrap_or_default(), verdict.error)
        };
        let value = f32::from_le_bytes(good[8..12].try_into().unwrap());
        assert!(failure(2, (value + 0.015625).to_le_bytes()).0.contains("element [0, 0, 1, 0] is"));
        assert!(failure(2, f32::NAN.to_le_bytes()).1.is_infinite());
        assert!(failure(2, f32::INFINITY.to_le_bytes()).1.is_infinite());
        assert!(failure(3, [0x5a, 0x5a, 0xda, 0x7f]).0.contains("offset 3 of the output was not written"));
        assert!(failure(8, [0; 4]).0.contains("behind the end"));
    }

    /// Gradients by their definition: what a single one of the inputs does to the sum of products with dy.
    #[test]
    fn gradients_are_the_adjoints_of_the_forward_direction() {
        for line in [
            "conv -n 2 -c 4 -k 6 -g 2 -H 5 -W 7 -y 3 -x 2 -p 1 -q 2 -u 2 -v 1 -l 1 -j 2",
            "conv -m trans -n 2 -c 4 -k 6 -g 2 -H 3 -W 4 -y 3 -x 2 -p 1 -q 0 -u 2 -v 3 -Y 1 -X 2",
        ] {
            let c = convolution(line);
            let (x, w, dy) = (Values::input(&c.x, 0), Values::input(&c.w, 1), Values::input(&c.y, 2));
            let all = |direction, tensor: &Tensor| -> Vec<f64> {
                let reference = Reference::new(&c, direction, [&x, &w, &dy]);
                (0..tensor.elements() as u64).map(|n| reference.element(&unravel(n, &tensor.dims)).value).collect()
            };
            let product = |computed: &[f64], tensor: &Tensor, values: &Values| -> f64 {
                let place = |n: usize| offset(tensor, &unravel(n as u64, &tensor.dims));
                computed.iter().enumerate().map(|(n, value)| value * f64::from(values.numerators[place(n)]) * values.scale).sum()
            };
            // <conv(x, w), dy> = <x, dx> = <w, dw>, exactly: all are sums of multiples of 1/512.
            let expected = product(&all(Direction::Forward, &c.y), &c.y, &dy);
            assert!(expected != 0.0);
            assert_eq!(product(&all(Direction::BackwardData, &c.x), &c.x, &x), expected, "{line}");
            assert_eq!(product(&all(Direction::BackwardWeights, &c.w), &c.w, &w), expected, "{line}");
        }
    }

    #[test]
    fn gaps_must_stay_as_they_were() {
        let tensor = Tensor { data_type: DataType::Half, cast_type: None, dims: vec![2, 2], strides: vec![3, 1], vector: 1, layout: "" };
        let mut output = poison(&tensor);
        for place in [0, 1, 3, 4] {
            output[2 * place..][..2].copy_from_slice(&[0, 0]);
        }
        assert_eq!(check_writes(&tensor, &output, false), None);
        output[4] = 1;
        assert!(check_writes(&tensor, &output, false).unwrap().contains("offset 2 of the output lies in a gap"));
    }

    #[test]
    fn tolerances() {
        let expected = Expected { value: 2.0, magnitude: 16.0, terms: 64 };
        let sum = 8.0 * 8.0 * 2f64.powi(-24) * 16.0;
        assert_eq!(expected.allowed(DataType::Float), 2f64.powi(-23) + sum);
        assert_eq!(expected.allowed(DataType::BFloat16), 2f64.powi(-7) + sum);
        assert_eq!(expected.allowed(DataType::Int32), 0.0);
        // A missing term of a long sum is larger than what is allowed.
        let long = Expected { value: 0.0, magnitude: 1400.0, terms: 4608 };
        assert!(long.allowed(DataType::Float) < 0.125);
    }

    #[test]
    fn half_overflows_to_infinity() {
        let c = convolution("convfp16 -n 1 -c 1 -k 1 -H 1 -W 1 -y 1 -x 1");
        let mut output = poison(&c.y);
        output[..2].copy_from_slice(&f16::INFINITY.to_le_bytes());
        assert_eq!(forward(&c, &whole(&[10_000]), &whole(&[10_000])).check(&[output.clone()]).failure, None);
        assert!(forward(&c, &whole(&[1]), &whole(&[1])).check(&[output]).failure.is_some());
    }

    #[test]
    fn large_problems_are_sampled() {
        let c = convolution("conv -n 64 -c 64 -k 64 -H 56 -W 56");
        let (x, w) = inputs(&c);
        assert_eq!(forward(&c, &x, &w).indices().count(), *SAMPLES.end() as usize);
        // A sum over 64 images of 54 x 54 windows.
        let y = Values::input(&c.y, 3);
        let weights = Reference::new(&c, Direction::BackwardWeights, [&x, &w, &y]);
        assert_eq!(weights.indices().count(), 535);
    }
}
