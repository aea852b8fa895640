//! Numbers: convolutions of every direction, element by element against a naive sum in f64. Nearly everywhere exactly: values are small
//! multiples of a quarter, so that sums are exact in every accumulator, in any order, and only the final rounding is left.

mod common;

use common::{numbers::*, *};
use half::{bf16, f16};
use hipdnn_abi::{convolution_mode, data_type as d};

/// The sums, and the sums of the products' sizes.
fn expected(case: &Convolution, operands: [&Operand; 3]) -> (Vec<f64>, Vec<f64>) {
    sums(case, operands.map(|operand| operand.values.as_slice()))
}

/// The three tensors; the output is poison.
fn operands(case: &Convolution, number: impl Fn(u32, i32) -> f64) -> [Operand; 3] {
    let shift = if case.alignment < 16 { case.alignment as usize } else { 0 };
    let mut operands = [&case.x, &case.w, &case.y].map(|tensor| Operand::empty(tensor, shift));
    let output = [2, 0, 1][case.direction as usize];
    for (i, operand) in operands.iter_mut().enumerate().filter(|(i, _)| *i != output) {
        let data_type = operand.data_type;
        operand.fill(i as u64 + 1, |bits| number(bits, data_type));
    }
    operands
}

/// Executes, and checks that nothing but the output's elements was written. Gives the operands and the output's place among them.
fn run(name: &str, case: &Convolution, number: impl Fn(u32, i32) -> f64) -> ([Operand; 3], usize) {
    let handle = Handle::new();
    let [mut x, mut w, mut y] = operands(case, number);
    let before = [&x, &w, &y].map(|operand| operand.buffer.bytes().to_vec());
    let plan = case.plan(&handle);
    let size = plan.get_int64(hipdnn_abi::attribute::EXECUTION_PLAN_WORKSPACE_SIZE);
    let mut workspace = Buffer::new(size as usize, POISON);
    let pointers = [(1, x.pointer()), (2, w.pointer()), (3, y.pointer())];
    assert_eq!(execute(&handle, &plan, &pack(&pointers, workspace.pointer())), OK, "{name}: {}", last_error());
    let output = [2, 0, 1][case.direction as usize];
    let all = [x, w, y];
    for (i, operand) in all.iter().enumerate() {
        operand.buffer.assert_margins(&format!("{name}: tensor {i}"));
        assert!(operand.gaps_are_untouched(), "{name}: gaps of tensor {i} were written in {case:?}");
        assert!(i == output || operand.buffer.bytes() == before[i], "{name}: input {i} was written");
    }
    workspace.assert_margins(&format!("{name}: workspace"));
    (all, output)
}

fn check(name: &str, case: &Convolution) {
    check_scaled(name, case, 1.0);
}

fn check_scaled(name: &str, case: &Convolution, scale: f64) {
    let ([x, w, y], output) = run(name, case, |bits, data_type| quarters(bits, data_type) * scale);
    let (sums, _) = expected(case, [&x, &w, &y]);
    let got = [&x, &w, &y][output];
    for (i, &sum) in sums.iter().enumerate() {
        assert_eq!(got.bytes(i), encode(sum, got.data_type), "{name}: element {i}, {sum}, of {case:?}");
    }
}

fn check_all_directions(name: &str, case: &Convolution) {
    for direction in DIRECTIONS {
        check(&format!("{name}, {direction:?}"), &case.clone().towards(direction));
    }
}

/// Types of the two inputs and of the output.
fn with_types(mut case: Convolution, [first, second]: [i32; 2], output: i32, compute: i32) -> Convolution {
    (case.x.0, case.w.0, case.y.0) = match case.direction {
        Direction::Forward => (first, second, output),
        Direction::Data => (output, second, first),
        Direction::Filter => (first, output, second),
    };
    Convolution { compute, ..case }
}

fn with_layout(mut case: Convolution, layout: impl Fn(&[i64]) -> Vec<i64>) -> Convolution {
    for tensor in [&mut case.x, &mut case.w, &mut case.y] {
        tensor.2 = layout(&tensor.1);
    }
    case
}

fn channels_last(case: Convolution) -> Convolution {
    with_layout(case, |dims| strides(dims, &channel_last(dims.len()), 1, 0))
}

/// A case in several layouts: packed both ways, with gaps behind every row, the other way around, and one layout for each tensor.
fn layouts(case: &Convolution) -> [Convolution; 5] {
    let rank = case.x.1.len();
    let reversed: Vec<usize> = (0..rank).rev().collect();
    let gaps = |dims: &[i64]| strides(dims, &(0..rank).collect::<Vec<_>>(), 2, 3);
    let mut mixed = channels_last(case.clone());
    mixed.w.2 = packed(&mixed.w.1);
    mixed.y.2 = gaps(&mixed.y.1);
    [
        case.clone(),
        channels_last(case.clone()),
        with_layout(case.clone(), gaps),
        with_layout(case.clone(), |dims| strides(dims, &reversed, 1, 1)),
        mixed,
    ]
}

/// Name, dimensions of x and w, and pre paddings, post paddings, strides, dilations.
type Geometry = (&'static str, &'static [i64], &'static [i64], [&'static [i64]; 4]);

#[test]
fn geometries() {
    let cases: [Geometry; 19] = [
        ("2-D", &[2, 3, 5, 6], &[4, 3, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]),
        ("1 x 1", &[1, 4, 3, 3], &[2, 4, 1, 1], [&[0, 0], &[0, 0], &[1, 1], &[1, 1]]),
        ("1 x 1, strides", &[2, 9, 7, 8], &[10, 9, 1, 1], [&[0, 0], &[0, 0], &[2, 3], &[1, 1]]),
        ("strides", &[2, 2, 9, 8], &[3, 2, 3, 2], [&[1, 0], &[1, 0], &[2, 3], &[1, 1]]),
        ("dilations", &[1, 2, 9, 10], &[2, 2, 3, 3], [&[2, 1], &[2, 1], &[1, 2], &[2, 3]]),
        ("asymmetric paddings", &[1, 2, 5, 5], &[2, 2, 3, 3], [&[2, 0], &[0, 3], &[1, 2], &[1, 1]]),
        ("padding beyond the filter", &[1, 1, 2, 2], &[1, 1, 2, 2], [&[5, 4], &[3, 6], &[1, 2], &[1, 1]]),
        ("groups", &[2, 6, 4, 4], &[9, 2, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]),
        ("groups of many", &[2, 20, 4, 5], &[24, 10, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]),
        ("depthwise", &[1, 5, 6, 6], &[10, 1, 3, 3], [&[1, 1], &[1, 1], &[2, 2], &[1, 1]]),
        ("depthwise, many groups", &[2, 19, 12, 12], &[19, 1, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 2]]),
        ("one channel, many filters", &[2, 1, 6, 6], &[9, 1, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]),
        ("1-D", &[2, 3, 11], &[4, 3, 4], [&[2], &[1], &[2], &[2]]),
        ("1-D, written as 2-D", &[2, 9, 11, 1], &[10, 9, 4, 1], [&[2, 0], &[1, 0], &[2, 1], &[2, 1]]),
        ("3-D", &[2, 2, 4, 5, 3], &[3, 2, 2, 3, 2], [&[1, 1, 0], &[0, 1, 1], &[1, 2, 1], &[1, 1, 2]]),
        ("4-D", &[1, 2, 3, 2, 3, 2], &[2, 2, 2, 1, 2, 2], [&[0, 1, 1, 1], &[1, 0, 1, 0], &[1, 1, 2, 1], &[1, 1, 1, 1]]),
        ("5-D", &[1, 1, 2, 3, 2, 2, 3], &[1, 1, 2, 2, 1, 2, 2], [&[1; 5], &[0; 5], &[1; 5], &[1; 5]]),
        ("filter larger than the input", &[1, 1, 2, 2], &[1, 1, 4, 4], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]),
        ("strides beyond the input", &[1, 1, 3, 3], &[1, 1, 1, 1], [&[0, 0], &[0, 0], &[7, 7], &[1, 1]]),
    ];
    for (name, x, w, parameters) in cases {
        let case = Convolution::new(x, w, parameters);
        check_all_directions(name, &Convolution { mode: convolution_mode::CONVOLUTION, ..case.clone() });
        layouts(&case).iter().for_each(|case| check_all_directions(name, case));
    }
}

/// One case for each way in which sums are made: columns, a matrix in place, a matrix that is packed, and direct sums.
fn methods() -> [(&'static str, Convolution); 4] {
    [
        ("columns", Convolution::new(&[2, 9, 5, 6], &[10, 9, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]])),
        ("1 x 1", Convolution::new(&[2, 9, 20, 15], &[10, 9, 1, 1], [&[0, 0], &[0, 0], &[1, 1], &[1, 1]])),
        ("small 1 x 1", Convolution::new(&[2, 9, 3, 3], &[10, 9, 1, 1], [&[0, 0], &[0, 0], &[1, 1], &[1, 1]])),
        ("depthwise", Convolution::new(&[2, 18, 5, 12], &[18, 1, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]])),
    ]
}

#[test]
fn types() {
    let floats = [d::FLOAT, d::DOUBLE, d::HALF, d::BFLOAT16];
    for (name, case) in methods() {
        for direction in DIRECTIONS {
            let case = case.clone().towards(direction);
            for compute in [d::FLOAT, d::DOUBLE] {
                for data_type in floats {
                    let case = with_types(case.clone(), [data_type; 2], data_type, compute);
                    layouts(&case).iter().for_each(|case| check(name, case));
                }
                for (first, second, output) in [
                    (d::HALF, d::HALF, d::FLOAT),
                    (d::BFLOAT16, d::HALF, d::FLOAT),
                    (d::FLOAT, d::BFLOAT16, d::BFLOAT16),
                    (d::FLOAT, d::FLOAT, d::HALF),
                    (d::DOUBLE, d::FLOAT, d::FLOAT),
                    (d::FLOAT, d::FLOAT, d::DOUBLE),
                ] {
                    let case = with_types(case.clone(), [first, second], output, compute);
                    [case.clone(), channels_last(case)].iter().for_each(|case| check("mixed", case));
                }
            }
            for (output, compute) in [(d::INT8, d::INT32), (d::INT32, d::INT32), (d::FLOAT, d::INT32), (d::INT32, d::FLOAT)] {
                let case = with_types(case.clone(), [d::INT8; 2], output, compute);
                layouts(&case).iter().for_each(|case| check("int8", case));
            }
        }
    }
}

#[test]
fn results_out_of_range_saturate_or_overflow() {
    for direction in DIRECTIONS {
        let case = Convolution::small().towards(direction);
        let eight = with_types(case.clone(), [d::INT8; 2], d::INT8, d::INT32);
        check_scaled("int8 saturates", &eight, 15.0);
        check_scaled("int8 saturates", &Convolution { compute: d::FLOAT, ..eight }, 15.0);
        check_scaled("half overflows", &with_types(case, [d::HALF; 2], d::HALF, d::FLOAT), 128.0);
    }
}

#[test]
fn integers_are_exact() {
    // Sums of about 2^26, which are odd: an f32 would have lost their last bits.
    let case = Convolution::new(&[1, 480, 3, 3], &[2, 480, 3, 3], [&[0, 0], &[0, 0], &[1, 1], &[1, 1]]);
    let case = with_types(case, [d::INT8; 2], d::INT32, d::INT32);
    let ([x, w, y], _) = run("int8", &case, |bits, _| 127.0 - f64::from(bits % 3));
    let (sums, _) = expected(&case, [&x, &w, &y]);
    assert!(sums.iter().all(|&sum| sum > f64::from(1 << 25)));
    for (i, &sum) in sums.iter().enumerate() {
        assert_eq!(y.bytes(i), encode(sum, d::INT32));
    }
}

#[test]
fn what_no_tap_reaches_is_zero() {
    // A transposed convolution with output padding: several sizes of x lead to the same y.
    for (size, extra) in [(7, 0), (8, 1), (9, 2)] {
        let case = Convolution::new(&[2, 3, size, size], &[4, 3, 1, 1], [&[0, 0], &[0, 0], &[3, 3], &[1, 1]]);
        assert_eq!(case.y.1, [2, 4, 3, 3]);
        for case in layouts(&case) {
            check_all_directions(&format!("{extra} more"), &case);
        }
        let deep = Convolution::new(&[1, 18, size, size], &[18, 1, 2, 2], [&[0, 0], &[0, 0], &[3, 3], &[1, 1]]);
        layouts(&deep).iter().for_each(|case| check_all_directions("depthwise", case));
    }
}

#[test]
fn many_blocks() {
    let cases: [Geometry; 8] = [
        ("blocks of positions", &[3, 64, 28, 28], &[9, 64, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]),
        ("blocks of images", &[3, 96, 56, 56], &[2, 96, 3, 3], [&[0, 0], &[1, 1], &[2, 2], &[1, 1]]),
        ("blocks of channels", &[2, 1000, 7, 9], &[3, 1000, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]),
        ("a channel is a block", &[1, 3, 108, 108], &[2, 3, 100, 100], [&[0, 0], &[0, 0], &[1, 1], &[1, 1]]),
        ("large images", &[1, 3, 520, 520], &[2, 3, 2, 2], [&[0, 1], &[1, 0], &[1, 1], &[1, 1]]),
        ("1 x 1", &[3, 300, 40, 41], &[8, 300, 1, 1], [&[0, 0], &[0, 0], &[1, 1], &[1, 1]]),
        ("1 x 1, groups", &[2, 4000, 5, 6], &[40, 100, 1, 1], [&[0, 0], &[0, 0], &[1, 1], &[1, 1]]),
        ("depthwise", &[2, 70, 60, 61], &[140, 1, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]),
    ];
    for (name, x, w, parameters) in cases {
        let case = Convolution::new(x, w, parameters);
        for case in [case.clone(), channels_last(case)] {
            check_all_directions(name, &case);
        }
        let case = Convolution::new(x, w, parameters);
        for direction in DIRECTIONS {
            let case = with_types(case.clone().towards(direction), [d::BFLOAT16; 2], d::BFLOAT16, d::FLOAT);
            check(name, &channels_last(case));
        }
    }
}

#[test]
fn dimensions_of_one_may_have_any_stride() {
    let geometries: [Geometry; 3] = [
        ("rows", &[1, 9, 1, 12], &[10, 9, 1, 3], [&[0, 1], &[0, 1], &[3, 2], &[1, 1]]),
        ("a column", &[1, 1, 12, 1], &[1, 1, 3, 1], [&[1, 2], &[1, 2], &[1, 3], &[1, 1]]),
        ("a point", &[1, 9, 1, 1], &[1, 9, 1, 1], [&[0, 0], &[0, 0], &[1, 1], &[1, 1]]),
    ];
    for (name, x, w, parameters) in geometries {
        for stride in [0, 1, 7, i64::MAX] {
            let mut case = Convolution::new(x, w, parameters);
            for tensor in [&mut case.x, &mut case.w, &mut case.y] {
                let ones = tensor.1.iter().zip(&mut tensor.2).filter(|(dim, _)| **dim == 1);
                ones.for_each(|(_, of_one)| *of_one = stride);
            }
            check_all_directions(name, &case);
        }
    }
}

#[test]
fn the_workspace_is_bounded() {
    let handle = Handle::new();
    let workspace = |case: &Convolution| {
        let size = case.plan(&handle).get_int64(hipdnn_abi::attribute::EXECUTION_PLAN_WORKSPACE_SIZE);
        usize::try_from(size).expect("a size")
    };
    let parts = 6 << 20;
    for direction in DIRECTIONS {
        let case = Convolution::new(&[256, 64, 112, 112], &[64, 64, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]).towards(direction);
        assert!(workspace(&case) <= parts, "{direction:?}");
        let filter = 64 * 64 * 9 * 4;
        let half = with_types(case, [d::HALF; 2], d::HALF, d::FLOAT);
        assert!(workspace(&channels_last(half)) <= parts + filter, "{direction:?}");
        let matrices = Convolution::new(&[256, 64, 56, 56], &[64, 64, 1, 1], [&[0, 0], &[0, 0], &[1, 1], &[1, 1]]).towards(direction);
        assert_eq!(workspace(&matrices), 0, "{direction:?}: everything is used in place");
        assert_eq!(workspace(&channels_last(matrices)), 0, "{direction:?}: everything is used in place");
    }
}

#[test]
fn addresses_need_no_more_alignment_than_declared() {
    for (name, case) in methods() {
        for alignment in [1, 2, 4, 8] {
            let case = Convolution { alignment, ..case.clone() };
            check_all_directions(name, &case);
            check_all_directions(name, &channels_last(case));
        }
    }
}

/// Any numbers. An f32 sum of n products is off by at most n roundings of what was added up (2^-24 of it each); then the output's type
/// rounds once more.
#[test]
fn sums_of_any_numbers_are_as_good_as_f32() {
    let number = |bits: u32, data_type: i32| {
        let value = (f64::from(bits) / f64::from(u32::MAX) - 0.5) * 4.0;
        let mut operand = [0.0f32];
        match data_type {
            d::HALF => operand[0] = f16::from_f64(value).to_f32(),
            d::BFLOAT16 => operand[0] = bf16::from_f64(value).to_f32(),
            _ => operand[0] = value as f32,
        }
        f64::from(operand[0])
    };
    for (output, epsilon) in [(d::FLOAT, 2f64.powi(-24)), (d::HALF, 2f64.powi(-11)), (d::BFLOAT16, 2f64.powi(-8))] {
        for direction in DIRECTIONS {
            let case = Convolution::new(&[2, 32, 14, 14], &[16, 32, 3, 3], [&[1, 1], &[1, 1], &[1, 1], &[1, 1]]).towards(direction);
            let terms = if direction == Direction::Filter { 2.0 * 196.0 } else { 32.0 * 9.0 };
            let case = with_types(case, [output; 2], output, d::FLOAT);
            let ([x, w, y], place) = run("any", &case, number);
            let (sums, sizes) = expected(&case, [&x, &w, &y]);
            let got = [&x, &w, &y][place];
            for (i, (&sum, &size)) in sums.iter().zip(&sizes).enumerate() {
                let value = decode(got.bytes(i), output);
                let tolerance = terms * size * 2f64.powi(-24) + sum.abs() * epsilon;
                assert!((value - sum).abs() <= tolerance, "{direction:?} {output}: {value}, not {sum}");
            }
        }
    }
}

#[test]
fn inputs_may_repeat_elements() {
    for (method, case) in methods() {
        for direction in DIRECTIONS {
            let mut case = case.clone().towards(direction);
            let input = if direction == Direction::Data { &mut case.y } else { &mut case.x };
            input.2[0] = 0;
            let handle = Handle::new();
            assert!(case.is_taken(&handle), "{method}");
            // All images are the same memory, so they must be the same numbers.
            check_constant(&case);
        }
    }
}

/// Fills inputs with one number each, so that it does not matter which elements share memory.
fn check_constant(case: &Convolution) {
    let ([x, w, y], output) = run("repeated", case, |_, _| 0.5);
    let (sums, _) = expected(case, [&x, &w, &y]);
    let got = [&x, &w, &y][output];
    assert!(sums.iter().enumerate().all(|(i, &sum)| got.bytes(i) == encode(sum, got.data_type)), "{case:?}");
}

#[test]
fn what_does_not_fit_together_has_no_engine() {
    type Change = fn(&mut Convolution);
    let changes: [(&str, Change); 21] = [
        ("output size", |c| c.y.1[2] += 1),
        ("output batch", |c| c.y.1[0] += 1),
        ("output channels", |c| c.y.1[1] += 1),
        ("channels not divisible", |c| c.w.1[1] = 2),
        ("more filter channels than input channels", |c| c.w.1[1] = 6),
        ("filters not divisible by groups", |c| c.w.1[1] = 1),
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
        ("integers with floats", |c| c.w.0 = d::INT8),
        ("integers among floats", |c| c.y.0 = d::INT32),
        ("compute type", |c| c.compute = d::HALF),
        ("unknown input type", |c| (c.x.0, c.w.0, c.y.0) = (d::FP8_E4M3, d::FP8_E4M3, d::FP8_E4M3)),
    ];
    let handle = Handle::new();
    for direction in DIRECTIONS {
        for (name, change) in changes {
            let mut case = Convolution::small().towards(direction);
            change(&mut case);
            assert!(!case.is_taken(&handle), "{name}, {direction:?} is taken");
        }
        assert!(Convolution::small().towards(direction).is_taken(&handle));
    }
}

#[test]
fn outputs_must_have_distinct_elements() {
    let handle = Handle::new();
    for direction in DIRECTIONS {
        for (i, stride) in [(2, 1), (0, 0), (3, 0)] {
            let mut case = Convolution::small().towards(direction);
            let output = match direction {
                Direction::Forward => &mut case.y,
                Direction::Data => &mut case.x,
                Direction::Filter => &mut case.w,
            };
            output.2[i] = stride;
            assert!(!case.is_taken(&handle), "{direction:?}: stride {stride} of dimension {i}");
        }
    }
}

#[test]
fn types_that_do_not_go_together_have_no_engine() {
    let handle = Handle::new();
    for direction in DIRECTIONS {
        for (first, second, output, compute) in [
            (d::INT8, d::INT8, d::HALF, d::FLOAT),
            (d::INT8, d::INT8, d::INT32, d::DOUBLE),
            (d::INT8, d::HALF, d::FLOAT, d::FLOAT),
            (d::INT32, d::INT32, d::INT32, d::INT32),
            (d::FLOAT, d::FLOAT, d::INT8, d::FLOAT),
            (d::FLOAT, d::FLOAT, d::FLOAT, d::INT32),
            (d::HALF, d::HALF, d::HALF, d::HALF),
        ] {
            let case = with_types(Convolution::small().towards(direction), [first, second], output, compute);
            assert!(!case.is_taken(&handle), "{direction:?}: {first}, {second} → {output} in {compute}");
        }
    }
}
