//! Numbers of convolutions: every direction in every type, geometry and layout.

use half::f16;
use miopen_api::data_type;

use super::case::{Case, DIRECTIONS, Direction, Layout, PLAIN, channels_last, packed, padded, stepped};

const FLOATS: [i32; 4] = [data_type::FLOAT, data_type::HALF, data_type::BFLOAT16, data_type::DOUBLE];
const LAYOUTS: [Layout; 4] = [packed, channels_last, padded, stepped];

/// A case in every type, layout and direction.
fn check(case: &Case) {
    for kind in FLOATS {
        for layout in LAYOUTS {
            DIRECTIONS.iter().for_each(|direction| Case { kind, layout, ..case.clone() }.check(*direction));
        }
    }
}

#[test]
fn two_dimensions() {
    check(&PLAIN);
    check(&Case { pads: &[2, 3], strides: &[3, 2], dilations: &[2, 3], ..PLAIN });
    check(&Case { w: &[6, 3, 1, 1], pads: &[0, 0], ..PLAIN });
    // Most of the input meets nothing.
    check(&Case { w: &[6, 3, 1, 1], pads: &[0, 1], strides: &[2, 3], ..PLAIN });
    check(&Case { w: &[6, 3, 2, 4], pads: &[1, 0], strides: &[1, 4], dilations: &[3, 2], ..PLAIN });
    // Pads larger than the image: whole rows of the filter meet nothing.
    check(&Case { x: &[1, 3, 2, 2], pads: &[5, 5], ..PLAIN });
    // A filter larger than the padded image still gives one output.
    check(&Case { x: &[2, 3, 4, 5], w: &[6, 3, 6, 6], pads: &[0, 0], ..PLAIN });
    // Fewer channels than pay for matrix products.
    check(&Case { x: &[2, 2, 7, 8], w: &[3, 2, 3, 3], strides: &[2, 2], ..PLAIN });
}

#[test]
fn groups() {
    let groups = Case { x: &[2, 4, 7, 8], w: &[6, 2, 3, 3], groups: 2, ..PLAIN };
    check(&groups);
    check(&Case { x: &[2, 12, 5, 4], w: &[8, 6, 3, 3], ..groups });
    check(&Case { w: &[4, 1, 3, 3], groups: 4, ..groups });
    check(&Case { w: &[8, 1, 3, 2], strides: &[2, 1], groups: 4, ..groups });
}

#[test]
fn one_and_three_dimensions() {
    check(&Case { x: &[2, 4, 9], w: &[5, 4, 3], pads: &[1], strides: &[2], dilations: &[2], ..PLAIN });
    let ones: &[i32] = &[1; 3];
    let three = Case { x: &[2, 4, 4, 5, 6], w: &[5, 4, 2, 3, 3], pads: ones, strides: ones, dilations: ones, ..PLAIN };
    check(&three);
    check(&Case { pads: &[0, 2, 1], strides: &[2, 3, 1], dilations: &[1, 2, 2], ..three });
    check(&Case { w: &[4, 1, 2, 3, 3], groups: 4, ..three });
}

#[test]
fn transposed() {
    let t = Case { x: &[2, 4, 5, 6], w: &[4, 5, 3, 3], strides: &[2, 2], adjust: &[0, 0], ..PLAIN };
    check(&t);
    check(&Case { adjust: &[1, 0], ..t });
    check(&Case { pads: &[0, 2], strides: &[3, 2], dilations: &[1, 3], adjust: &[2, 1], ..t });
    check(&Case { w: &[4, 3, 3, 3], groups: 2, adjust: &[1, 1], ..t });
    check(&Case { w: &[4, 1, 2, 2], pads: &[0, 0], groups: 4, ..t });
    check(&Case {
        x: &[2, 4, 3, 3, 2],
        w: &[4, 5, 3, 2, 3],
        pads: &[1; 3],
        strides: &[2, 1, 3],
        dilations: &[1; 3],
        adjust: &[1, 0, 2],
        ..t
    });
    check(&Case { x: &[2, 4, 6], w: &[4, 5, 3], pads: &[1], strides: &[2], dilations: &[1], adjust: &[1], ..t });
}

/// Sizes beyond those of the blocks in which images, channels and places are handled.
#[test]
fn large_sizes() {
    let wide = Case { x: &[1, 5, 21, 37], w: &[7, 5, 3, 3], ..PLAIN };
    let batch = Case { x: &[71, 9, 3, 4], w: &[11, 9, 3, 3], strides: &[2, 1], ..PLAIN };
    let channels = Case { x: &[2, 70, 4, 3], w: &[37, 70, 2, 2], ..PLAIN };
    let transposed = Case { x: &[1, 5, 15, 40], w: &[5, 7, 3, 3], strides: &[2, 1], adjust: &[1, 0], ..PLAIN };
    for case in [wide, batch, channels, transposed] {
        for (kind, layout) in [(data_type::FLOAT, packed as Layout), (data_type::BFLOAT16, channels_last)] {
            DIRECTIONS.iter().for_each(|direction| Case { kind, layout, ..case.clone() }.check(*direction));
        }
    }
}

/// Sizes at which the small grid is computed in bands of rows, and groups in several portions.
#[test]
fn bands_and_portions() {
    let bands = Case { x: &[1, 96, 30, 48], w: &[2, 96, 3, 3], ..PLAIN };
    bands.check(Direction::Forward);
    Case { pads: &[4, 1], strides: &[2, 1], dilations: &[3, 2], x: &[1, 96, 40, 36], ..bands.clone() }.check(Direction::Forward);
    // Bands that meet nothing but padding.
    Case { x: &[1, 64, 2, 64], w: &[2, 64, 1, 1], pads: &[40, 0], ..PLAIN }.check(Direction::Forward);
    Case { x: &[1, 2, 20, 24], w: &[2, 96, 2, 3], strides: &[2, 2], adjust: &[1, 0], ..PLAIN }.check(Direction::BackwardData);
    let portions = Case { x: &[2, 40, 30, 80], w: &[40, 1, 3, 3], groups: 40, layout: channels_last, ..PLAIN };
    DIRECTIONS.iter().for_each(|direction| portions.check(*direction));
    let transposed = Case { x: &[1, 40, 30, 80], strides: &[2, 1], adjust: &[1, 0], ..portions };
    DIRECTIONS.iter().for_each(|direction| transposed.check(*direction));
}

/// Powers of two, so that results stay exact; the old output is poison where beta is 0.
#[test]
fn alpha_and_beta() {
    for (alpha, beta) in [(2.0, 0.0), (1.0, 1.0), (-0.5, 0.25), (0.0, 2.0), (0.0, 0.0)] {
        check(&Case { alpha, beta, ..PLAIN });
        check(&Case { x: &[2, 4, 5, 6], w: &[4, 3, 3, 3], strides: &[2, 3], adjust: &[1, 2], alpha, beta, ..PLAIN });
    }
}

/// Doubles carry what single precision cannot, in values and in scalars.
#[test]
fn doubles() {
    let case = Case { kind: data_type::DOUBLE, x: &[1, 1, 1, 1], w: &[1, 1, 1, 1], pads: &[0, 0], alpha: 1.0 + 1e-9, ..PLAIN };
    let mut tensors = case.tensors();
    tensors.x.fill(|_| 1.0 + 1e-12);
    tensors.w.fill(|_| 3.0);
    assert_eq!(case.call(&mut tensors, Direction::Forward), 0);
    assert_eq!(tensors.y.get(&[0; 4]), (1.0 + 1e-9) * (3.0 * (1.0 + 1e-12)));
}

/// Numbers with all their bits. Sums are exact but for double precision's rounding of each addition, so a result may be off by half a unit
/// in its last place (of fp16, by half the smallest number where that is more), and by next to nothing more.
#[test]
fn arbitrary_values_are_rounded_once() {
    let case = Case { x: &[2, 24, 9, 9], w: &[8, 24, 3, 3], ..PLAIN };
    for (kind, half_unit) in FLOATS.into_iter().zip([2f64.powi(-24), 2f64.powi(-11), 2f64.powi(-8), 2f64.powi(-53)]) {
        for direction in DIRECTIONS {
            let case = Case { kind, ..case.clone() };
            let mut tensors = case.tensors();
            tensors.x.fill(|i| (i as f64 * 0.731).sin());
            tensors.w.fill(|i| (i as f64 * 1.177).cos());
            tensors.y.fill(|i| (i as f64 * 0.377).sin());
            let sums = case.sums(&tensors, direction);
            assert_eq!(case.call(&mut tensors, direction), 0);
            let output = tensors.output(direction);
            for (index, sum) in super::case::indices(&output.dims).zip(sums) {
                let error = (output.get(&index) - sum).abs();
                let smallest = if kind == data_type::HALF { 2f64.powi(-25) } else { 0.0 };
                // Every sum has at most 216 products of size 1.
                assert!(error <= (half_unit * sum.abs()).max(smallest) + 1e-13, "{kind} {direction:?} {index:?}: {error} at {sum}");
            }
        }
    }
}

#[test]
fn halves_are_rounded_once() {
    // 2048 + 1 + 1: rounding after each addition would stay at 2048.
    let case = Case { kind: data_type::HALF, x: &[1, 3, 1, 1], w: &[1, 3, 1, 1], pads: &[0, 0], ..PLAIN };
    let mut tensors = case.tensors();
    tensors.x.fill(|i| [2048.0, 1.0, 1.0][i]);
    tensors.w.fill(|_| 1.0);
    assert_eq!(case.call(&mut tensors, Direction::Forward), 0);
    assert_eq!(tensors.y.get(&[0; 4]), f64::from(f16::from_f32(2050.0)));
}

/// Infinities and NaNs show exactly where the definition has them.
#[test]
fn infinities_spread_no_further() {
    for case in [PLAIN, Case { x: &[2, 2, 7, 8], w: &[3, 2, 3, 3], strides: &[2, 2], ..PLAIN }] {
        for direction in DIRECTIONS {
            for value in [f64::INFINITY, f64::NAN] {
                let mut tensors = case.tensors();
                let input = if direction == Direction::Forward { &mut tensors.x } else { &mut tensors.y };
                input.set(&[1, 1, 2, 3], value);
                let sums = case.sums(&tensors, direction);
                assert_eq!(case.call(&mut tensors, direction), 0);
                let output = tensors.output(direction);
                for (index, sum) in super::case::indices(&output.dims).zip(sums) {
                    let found = output.get(&index);
                    assert!(found == sum || (found.is_nan() && sum.is_nan()), "{direction:?} {index:?}: {found}, not {sum}");
                }
            }
        }
    }
}

fn int8(y_kind: i32, scale: f64) -> Vec<f64> {
    let case =
        Case { kind: data_type::INT8, y_kind: Some(y_kind), x: &[1, 4, 2, 2], w: &[4, 4, 1, 1], pads: &[0, 0], alpha: scale, ..PLAIN };
    let mut tensors = case.tensors();
    tensors.x.fill(|i| [127.0, -128.0, 5.0, -1.0][i % 4]);
    tensors.w.fill(|i| [127.0, -128.0, 1.0, 0.0][i / 4]);
    assert_eq!(case.call(&mut tensors, Direction::Forward), 0);
    super::case::indices(&tensors.y.dims).map(|index| tensors.y.get(&index)).collect()
}

/// Four channels that are all alike.
#[test]
fn int8_is_exact_until_it_is_stored() {
    let exact = [127.0, -128.0, 1.0, 0.0].map(|w| [127.0, -128.0, 5.0, -1.0].map(|x| 4.0 * w * x)).concat();
    assert_eq!(int8(data_type::INT32, 1.0), exact);
    assert_eq!(int8(data_type::FLOAT, 1.0), exact);
    // A scale of 1/8 leaves halves, which go to even numbers.
    let rounded: Vec<f64> = exact.iter().map(|v| (v / 8.0).round_ties_even().clamp(-128.0, 127.0)).collect();
    assert_eq!(int8(data_type::INT8, 0.125), rounded);
    for kind in [data_type::INT32, data_type::FLOAT, data_type::INT8] {
        for layout in LAYOUTS {
            Case { kind: data_type::INT8, y_kind: Some(kind), layout, x: &[2, 8, 7, 8], w: &[6, 4, 3, 3], groups: 2, ..PLAIN }
                .check(Direction::Forward);
            Case { kind: data_type::INT8, y_kind: Some(kind), layout, beta: 2.0, ..PLAIN }.check(Direction::Forward);
        }
    }
}
