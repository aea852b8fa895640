//! Numbers: every convolution is compared, element by element and exactly, with a naive sum in f64. Values are small multiples of a
//! quarter, so that sums are exact in every accumulator and only the final rounding is left.

mod common;

use common::*;
use half::{bf16, f16};
use hipdnn_abi::{convolution_mode, data_type as d, data_type_bytes};

/// What must survive in the gaps of an output: as a float it is a NaN, so that a gap that is read shows as well.
const POISON: u8 = 0xff;

/// Strides for dimensions in memory order `order` (outermost first), with `gap` elements after each and a step of `step` inside.
fn strides(dims: &[i64], order: &[usize], step: i64, gap: i64) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut next = step;
    for &i in order.iter().rev() {
        strides[i] = next;
        next = next * dims[i] + gap;
    }
    strides
}

fn channel_last(rank: usize) -> Vec<usize> {
    [0].into_iter().chain(2..rank).chain([1]).collect()
}

fn elements(dims: &[i64], strides: &[i64]) -> usize {
    dims.iter().zip(strides).map(|(dim, stride)| (dim - 1) * stride).sum::<i64>() as usize + 1
}

/// Every index of a tensor, first dimension slowest.
fn indices(dims: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for &dim in dims {
        all = all.into_iter().flat_map(|head| (0..dim).map(move |i| [head.clone(), vec![i]].concat())).collect();
    }
    all
}

fn offset(index: &[i64], strides: &[i64]) -> usize {
    index.iter().zip(strides).map(|(i, stride)| i * stride).sum::<i64>() as usize
}

fn encode(value: f64, data_type: i32) -> Vec<u8> {
    match data_type {
        d::FLOAT => (value as f32).to_ne_bytes().into(),
        d::DOUBLE => value.to_ne_bytes().into(),
        d::HALF => f16::from_f64(value).to_ne_bytes().into(),
        d::BFLOAT16 => bf16::from_f64(value).to_ne_bytes().into(),
        d::INT8 => (value.round_ties_even().clamp(-128.0, 127.0) as i8).to_ne_bytes().into(),
        d::INT32 => (value as i32).to_ne_bytes().into(),
        other => panic!("data type {other}"),
    }
}

/// A tensor in poisoned memory, with the f64 values that its elements stand for.
struct Operand {
    buffer: Buffer,
    dims: Vec<i64>,
    strides: Vec<i64>,
    data_type: i32,
    values: std::collections::HashMap<usize, f64>,
}

impl Operand {
    fn empty((data_type, dims, strides): &(i32, Vec<i64>, Vec<i64>)) -> Self {
        let bytes = elements(dims, strides) * data_type_bytes(*data_type).expect("sized");
        let (dims, strides) = (dims.clone(), strides.clone());
        Self { buffer: Buffer::new(bytes, POISON), dims, strides, data_type: *data_type, values: Default::default() }
    }

    fn filled(tensor: &(i32, Vec<i64>, Vec<i64>), seed: u64, scale: f64) -> Self {
        let mut operand = Self::empty(tensor);
        let mut state = seed;
        for index in indices(&operand.dims) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let quarters = ((state >> 33) % 17) as f64 - 8.0;
            let value = if operand.data_type == d::INT8 { quarters } else { quarters / 4.0 } * scale;
            operand.put(&index, value);
        }
        operand
    }

    fn put(&mut self, index: &[i64], value: f64) {
        let (at, bytes) = (offset(index, &self.strides), encode(value, self.data_type));
        self.buffer.bytes_mut()[at * bytes.len()..][..bytes.len()].copy_from_slice(&bytes);
        self.values.insert(at, value);
    }

    fn at(&self, index: &[i64]) -> f64 {
        self.values[&offset(index, &self.strides)]
    }
}

/// The sum for one output element, straight from the definition.
fn expected(case: &Convolution, x: &Operand, w: &Operand, index: &[i64]) -> f64 {
    let (channels, filters) = (w.dims[1], w.dims[0]);
    let group = index[1] / (filters / (x.dims[1] / channels));
    let mut sum = 0.0;
    for tap in indices(&w.dims[1..]) {
        let at = |i: usize| index[i + 2] * case.stride[i] + tap[i + 1] * case.dilation[i] - case.pre[i];
        let position: Vec<i64> = (0..case.pre.len()).map(at).collect();
        if position.iter().zip(&x.dims[2..]).any(|(&p, &dim)| p < 0 || p >= dim) {
            continue;
        }
        let turned = |i: usize| if case.mode == convolution_mode::CONVOLUTION { w.dims[i + 2] - 1 - tap[i + 1] } else { tap[i + 1] };
        let weight: Vec<i64> = [index[1], tap[0]].into_iter().chain((0..case.pre.len()).map(turned)).collect();
        let input: Vec<i64> = [index[0], group * channels + tap[0]].into_iter().chain(position).collect();
        sum += x.at(&input) * w.at(&weight);
    }
    sum
}

fn check(name: &str, case: &Convolution) {
    check_scaled(name, case, 1.0);
}

fn check_scaled(name: &str, case: &Convolution, scale: f64) {
    let handle = Handle::new();
    let (mut x, mut w) = (Operand::filled(&case.x, 1, scale), Operand::filled(&case.w, 2, 1.0));
    let mut y = Operand::empty(&case.y);
    let plan = case.plan(&handle);
    let size = plan.get_int64(hipdnn_abi::attribute::EXECUTION_PLAN_WORKSPACE_SIZE);
    let mut workspace = Buffer::new(size as usize, POISON);
    let pointers = [(1, x.buffer.pointer()), (2, w.buffer.pointer()), (3, y.buffer.pointer())];
    assert_eq!(execute(&handle, &plan, &pack(&pointers, workspace.pointer())), OK, "{name}: {}", last_error());

    let mut written = vec![false; y.buffer.bytes().len()];
    for index in indices(&y.dims) {
        let bytes = encode(expected(case, &x, &w, &index), y.data_type);
        let start = offset(&index, &y.strides) * bytes.len();
        assert_eq!(&y.buffer.bytes()[start..][..bytes.len()], bytes, "{name}: y{index:?} of {case:?}");
        written[start..][..bytes.len()].fill(true);
    }
    let untouched = y.buffer.bytes().iter().zip(&written).all(|(&byte, &written)| written || byte == POISON);
    assert!(untouched, "{name}: gaps of the output were written");
    for (buffer, what) in [(&x.buffer, "x"), (&w.buffer, "w"), (&y.buffer, "y"), (&workspace, "workspace")] {
        buffer.assert_margins(&format!("{name}: {what}"));
    }
}

fn with_types(mut case: Convolution, input: i32, output: i32, compute: i32) -> Convolution {
    (case.x.0, case.w.0, case.y.0, case.compute) = (input, input, output, compute);
    case
}

fn with_layout(mut case: Convolution, layout: impl Fn(&[i64]) -> Vec<i64>) -> Convolution {
    for tensor in [&mut case.x, &mut case.w, &mut case.y] {
        tensor.2 = layout(&tensor.1);
    }
    case
}

/// Name, dimensions of x and w, and pre paddings, post paddings, strides, dilations.
type Geometry = (&'static str, &'static [i64], &'static [i64], [&'static [i64]; 4]);

#[test]
fn geometries() {
    let cases: [Geometry; 14] = [
        ("2-D", &[2, 3, 5, 6], &[4, 3, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]),
        ("1 x 1", &[1, 4, 3, 3], &[2, 4, 1, 1], [&[0, 0], &[0, 0], &[1, 1], &[1, 1]]),
        ("strides", &[2, 2, 9, 8], &[3, 2, 3, 2], [&[1, 0], &[1, 0], &[2, 3], &[1, 1]]),
        ("dilations", &[1, 2, 9, 10], &[2, 2, 3, 3], [&[2, 1], &[2, 1], &[1, 2], &[2, 3]]),
        ("asymmetric paddings", &[1, 2, 5, 5], &[2, 2, 3, 3], [&[2, 0], &[0, 3], &[1, 2], &[1, 1]]),
        ("padding beyond the filter", &[1, 1, 2, 2], &[1, 1, 2, 2], [&[5, 4], &[3, 6], &[1, 2], &[1, 1]]),
        ("groups", &[2, 6, 4, 4], &[9, 2, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]),
        ("depthwise", &[1, 5, 6, 6], &[10, 1, 3, 3], [&[1, 1], &[1, 1], &[2, 2], &[1, 1]]),
        ("1-D", &[2, 3, 11], &[4, 3, 4], [&[2], &[1], &[2], &[2]]),
        ("3-D", &[2, 2, 4, 5, 3], &[3, 2, 2, 3, 2], [&[1, 1, 0], &[0, 1, 1], &[1, 2, 1], &[1, 1, 2]]),
        ("4-D", &[1, 2, 3, 2, 3, 2], &[2, 2, 2, 1, 2, 2], [&[0, 1, 1, 1], &[1, 0, 1, 0], &[1, 1, 2, 1], &[1, 1, 1, 1]]),
        ("5-D", &[1, 1, 2, 3, 2, 2, 3], &[1, 1, 2, 2, 1, 2, 2], [&[1; 5], &[0; 5], &[1; 5], &[1; 5]]),
        ("filter larger than the input", &[1, 1, 2, 2], &[1, 1, 4, 4], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]),
        ("strides beyond the input", &[1, 1, 3, 3], &[1, 1, 1, 1], [&[0, 0], &[0, 0], &[7, 7], &[1, 1]]),
    ];
    for (name, x, w, parameters) in cases {
        let case = Convolution::new(x, w, parameters);
        check(name, &case);
        check(name, &Convolution { mode: convolution_mode::CONVOLUTION, ..case.clone() });
        let rank = x.len();
        check(name, &with_layout(case.clone(), |dims| strides(dims, &channel_last(rank), 1, 0)));
        check(name, &with_layout(case, |dims| strides(dims, &(0..rank).collect::<Vec<_>>(), 2, 3)));
    }
}

#[test]
fn types() {
    let floating = [
        (d::FLOAT, d::FLOAT),
        (d::HALF, d::FLOAT),
        (d::BFLOAT16, d::FLOAT),
        (d::DOUBLE, d::DOUBLE),
        (d::DOUBLE, d::FLOAT),
        (d::FLOAT, d::DOUBLE),
        (d::HALF, d::DOUBLE),
        (d::BFLOAT16, d::DOUBLE),
    ];
    for (data_type, compute) in floating {
        check("floats", &with_types(Convolution::small(), data_type, data_type, compute));
    }
    for output in [d::INT8, d::INT32, d::FLOAT] {
        for compute in [d::INT32, d::FLOAT] {
            check("int8", &with_types(Convolution::small(), d::INT8, output, compute));
        }
    }
}

#[test]
fn results_out_of_range_saturate_or_overflow() {
    let eight = with_types(Convolution::small(), d::INT8, d::INT8, d::INT32);
    check_scaled("int8 saturates", &eight, 15.0);
    check_scaled("int8 saturates", &Convolution { compute: d::FLOAT, ..eight }, 15.0);
    check_scaled("half overflows", &with_types(Convolution::small(), d::HALF, d::HALF, d::FLOAT), 16384.0);
}

#[test]
fn inputs_may_repeat_elements() {
    let mut case = Convolution::new(&[3, 2, 4, 4], &[2, 2, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]);
    case.x.2[0] = 0;
    let handle = Handle::new();
    assert!(case.is_taken(&handle));
}

#[test]
fn what_does_not_fit_together_has_no_engine() {
    type Change = fn(&mut Convolution);
    let changes: [(&str, Change); 23] = [
        ("output size", |c| c.y.1[2] += 1),
        ("output batch", |c| c.y.1[0] += 1),
        ("output channels", |c| c.y.1[1] += 1),
        ("channels not divisible", |c| c.w.1[1] = 2),
        ("more filter channels than input channels", |c| c.w.1[1] = 6),
        ("filters not divisible by groups", |c| c.w.1[1] = 1),
        ("overlapping output", |c| c.y.2[2] = 1),
        ("repeated output", |c| c.y.2[0] = 0),
        ("negative stride of the input", |c| c.x.2[3] = -1),
        ("negative dimension", |c| c.x.1[0] = -2),
        ("empty dimension", |c| (c.x.1[0], c.y.1[0]) = (0, 0)),
        ("parameters of another rank", |c| c.pre.push(0)),
        ("negative padding", |c| (c.pre[0], c.post[0]) = (-1, 3)),
        ("stride 0", |c| c.stride[1] = 0),
        ("dilation 0", |c| c.dilation[1] = 0),
        ("filter larger than the padded input", |c| (c.w.1[2], c.y.1[2]) = (9, 1)),
        ("huge padding", |c| c.pre[0] = i64::MAX),
        ("huge dilation", |c| c.dilation[0] = i64::MAX),
        ("huge stride of the tensor", |c| c.x.2[0] = i64::MAX),
        ("mixed types", |c| c.w.0 = d::HALF),
        ("output of another type", |c| c.y.0 = d::DOUBLE),
        ("compute type", |c| c.compute = d::HALF),
        ("unknown input type", |c| (c.x.0, c.w.0, c.y.0) = (d::FP8_E4M3, d::FP8_E4M3, d::FP8_E4M3)),
    ];
    let handle = Handle::new();
    for (name, change) in changes {
        let mut case = Convolution::small();
        change(&mut case);
        assert!(!case.is_taken(&handle), "{name} is taken");
    }
    assert!(Convolution::small().is_taken(&handle));
}

#[test]
fn larger_sums_stay_close() {
    let case = Convolution::new(&[1, 32, 14, 14], &[16, 32, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]);
    check("exact even here", &case);
}
