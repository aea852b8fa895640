//! What a convolution must give: the definition itself in double precision, one term after the other, and how far a computed result may be
//! from it. Independent of all other code here and elsewhere: nothing is blocked, transformed or reused.
//!
//! A plain convolution pairs every element of the small image (y) with elements of the large one (x) through the filter:
//! `large position = small position * stride - pad + tap * dilation`. All directions of both modes sum the same products of such pairs;
//! they differ in which of the three is the result. In transposed mode the input is the small image.
//!
//! **Tolerance**, for each element: `epsilon(type) * |value| + 8 * sqrt(n) * 2^-24 * sum of |terms|`.
//! * The first part is one unit in the last place of the result: a library may truncate where it should round. That is 2^-23, 2^-10 and
//!   2^-7 of the value for fp32, fp16 and bf16.
//! * The second is for algorithms that transform their input and sum in fp32: errors of n additions behave like a random walk, the factor
//!   8 is for the transforms. In double tensors the unit is 2^-53.
//! * Integers must be equal. A value beyond what the type holds must be the same infinity, a NaN must be a NaN.
//!
//! The field's own criterion, a root mean square error of at most 80 epsilon (4 for bf16) of the largest magnitude, is held as well; for
//! one wrong element among many it is the weaker of the two, which is why the first exists.

use anyhow::{Result, bail, ensure};

use crate::{
    edge::Direction,
    problem::{Kind, Problem},
};

/// The expected value of one element, and what its tolerance depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expected {
    /// The sum.
    pub value: f64,
    /// The sum of the absolute terms.
    pub magnitude: f64,
    /// How many terms.
    pub terms: usize,
}

impl Expected {
    fn add(&mut self, term: f64) {
        self.value += term;
        self.magnitude += term.abs();
        self.terms += 1;
    }

    /// An exact value.
    pub fn exactly(value: f64) -> Self {
        Self { value, magnitude: value.abs(), terms: 1 }
    }

    /// This, scaled and with another term.
    pub fn scaled(self, factor: f64, term: f64) -> Self {
        Self { value: factor * self.value + term, magnitude: factor.abs() * self.magnitude + term.abs(), terms: self.terms + 1 }
    }

    /// This after a function that changes no distance to more than it was.
    pub fn through(self, function: impl Fn(f64) -> f64) -> Self {
        Self { value: function(self.value), ..self }
    }

    fn allowed(&self, kind: Kind) -> f64 {
        if kind.is_integer() {
            return 0.0;
        }
        let unit = if kind == Kind::Double { 2f64.powi(-53) } else { 2f64.powi(-24) };
        // Where the type has only subnormal numbers, its unit does not shrink further.
        let smallest = if kind == Kind::Half { 2f64.powi(-24) } else { 0.0 };
        kind.epsilon() * self.value.abs() + 8.0 * (self.terms as f64).sqrt() * unit * self.magnitude + smallest
    }
}

/// Counts up an index of some lengths, last axis first. False after the last.
fn advance(index: &mut [usize], dims: &[usize]) -> bool {
    for axis in (0..dims.len()).rev() {
        index[axis] += 1;
        if index[axis] < dims[axis] {
            return true;
        }
        index[axis] = 0;
    }
    false
}

/// The number of a place among places of some lengths, in logical order.
fn number(dims: &[usize], place: &[usize]) -> usize {
    place.iter().zip(dims).fold(0, |number, (i, dim)| number * dim + i)
}

/// Places in the small image, in the filter and in the large image that belong together.
struct Triple {
    small: usize,
    tap: usize,
    large: usize,
}

fn triples(problem: &Problem, small: &[usize], taps: &[usize], large: &[usize]) -> Vec<Triple> {
    let mut triples = Vec::new();
    let mut position = vec![0; small.len()];
    loop {
        let mut tap = vec![0; taps.len()];
        loop {
            if let Some(under) = under(problem, &position, &tap, large) {
                triples.push(Triple { small: number(small, &position), tap: number(taps, &tap), large: number(large, &under) });
            }
            if !advance(&mut tap, taps) {
                break;
            }
        }
        if !advance(&mut position, small) {
            return triples;
        }
    }
}

/// The position in the large image of a tap of the filter at a position of the small one, if it is inside.
fn under(problem: &Problem, position: &[usize], tap: &[usize], large: &[usize]) -> Option<Vec<usize>> {
    (0..position.len())
        .map(|axis| {
            let place = (position[axis] * problem.strides[axis] + tap[axis] * problem.dilations[axis]).checked_sub(problem.pads[axis])?;
            (place < large[axis]).then_some(place)
        })
        .collect()
}

/// The result of a direction, in logical order, from the values of x, w and y in logical order. The result's own values are not looked at.
pub fn convolution(problem: &Problem, direction: Direction, values: [&[f64]; 3]) -> Vec<Expected> {
    let (small, large) = if problem.transposed { (0, 2) } else { (2, 0) };
    let dims = problem.tensors().map(|tensor| tensor.dims.as_slice());
    let triples = triples(problem, &dims[small][2..], &dims[1][2..], &dims[large][2..]);
    let ([a, b, _], result) = (direction.operands(), direction.result());
    let mut sums = vec![Expected::default(); dims[result].iter().product()];
    let [small_size, filter_size, large_size] = [small, 1, large].map(|which| dims[which][2..].iter().product::<usize>());
    let per_group = dims[1][0] / problem.groups;
    for n in 0..dims[small][0] {
        for k in 0..dims[1][0] {
            for c in 0..dims[1][1] {
                let channel = k / per_group * dims[1][1] + c;
                let mut first = [0; 3];
                first[small] = (n * dims[small][1] + k) * small_size;
                first[1] = (k * dims[1][1] + c) * filter_size;
                first[large] = (n * dims[large][1] + channel) * large_size;
                for triple in &triples {
                    let mut at = first;
                    at[small] += triple.small;
                    at[1] += triple.tap;
                    at[large] += triple.large;
                    sums[at[result]].add(values[a][at[a]] * values[b][at[b]]);
                }
            }
        }
    }
    sums
}

/// Adds a bias by channel to a result of dimensions.
pub fn add_bias(sums: &mut [Expected], dims: &[usize], bias: &[f64]) {
    let inner: usize = dims[2..].iter().product();
    for (i, sum) in sums.iter_mut().enumerate() {
        *sum = sum.scaled(1.0, bias[i / inner % dims[1]]);
    }
}

/// Whether computed values are the expected ones; if not, which is furthest away.
pub fn compare(kind: Kind, expected: &[Expected], got: &[f64]) -> Result<()> {
    ensure!(expected.len() == got.len(), "{} elements for {}", got.len(), expected.len());
    let mut worst: Option<(f64, usize)> = None;
    for (i, (want, have)) in expected.iter().zip(got).enumerate() {
        let excess = excess(kind, want, *have);
        if excess > 1.0 && worst.is_none_or(|(most, _)| excess > most) {
            worst = Some((excess, i));
        }
    }
    if let Some((excess, i)) = worst {
        bail!(
            "element {i} is {}, expected {} (of {} terms), {excess:.3} times what is allowed",
            got[i],
            expected[i].value,
            expected[i].terms
        );
    }
    root_mean_square(kind, expected, got)
}

/// The distance of an element in units of what is allowed.
fn excess(kind: Kind, want: &Expected, have: f64) -> f64 {
    let holds = kind.round(want.value);
    if have == holds || (have.is_nan() && holds.is_nan()) {
        return 0.0;
    }
    if !have.is_finite() || !holds.is_finite() {
        return f64::INFINITY;
    }
    let (distance, allowed) = ((have - want.value).abs(), want.allowed(kind));
    if allowed == 0.0 { f64::INFINITY } else { distance / allowed }
}

fn root_mean_square(kind: Kind, expected: &[Expected], got: &[f64]) -> Result<()> {
    let finite = expected.iter().zip(got).filter(|(want, have)| want.value.is_finite() && have.is_finite());
    let (mut squares, mut largest, mut count) = (0.0, f64::MIN_POSITIVE, 0.0);
    for (want, have) in finite {
        squares += (want.value - have).powi(2);
        largest = largest.max(want.value.abs()).max(have.abs());
        count += 1.0;
    }
    let factor = if kind == Kind::BFloat16 { 4.0 } else { 80.0 };
    let (error, allowed) = ((squares / f64::max(count, 1.0)).sqrt() / largest, factor * kind.epsilon());
    ensure!(error <= allowed, "root mean square error {error:e} of the largest magnitude, allowed {allowed:e}");
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use crate::problem::small_integers;

    fn values(problem: &Problem, direction: Direction, inputs: [&[f64]; 3]) -> Vec<f64> {
        convolution(problem, direction, inputs).iter().map(|sum| sum.value).collect()
    }

    #[test]
    fn a_hand_computed_convolution() {
        let problem = Problem::new(Kind::Float, &[1, 1, 3, 3], &[1, 1, 2, 2]);
        let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        let w = [1.0, 10.0, 100.0, 1000.0];
        let y = |problem: &Problem| values(problem, Direction::Forward, [&x, &w, &[]]);
        assert_eq!(y(&problem), [5421.0, 6532.0, 8754.0, 9865.0]);
        assert_eq!(y(&problem.clone().pads(&[1]).strides(&[2])), [1000.0, 3200.0, 7040.0, 9865.0]);
        assert_eq!(y(&problem.dilations(&[2])), [9731.0]);
    }

    #[test]
    fn a_hand_computed_transposed_convolution() {
        let problem = Problem::new(Kind::Float, &[1, 1, 1, 2], &[1, 1, 1, 2]);
        let y = |problem: &Problem| values(problem, Direction::Forward, [&[3.0, 5.0], &[1.0, 10.0], &[]]);
        assert_eq!(y(&problem.clone().transposed(&[0])), [3.0, 35.0, 50.0]);
        assert_eq!(y(&problem.strides(&[1, 2]).transposed(&[0, 1])), [3.0, 30.0, 5.0, 50.0, 0.0]);
    }

    #[test]
    fn groups_read_their_own_channels() {
        let plain = Problem::new(Kind::Float, &[1, 2, 1, 1], &[4, 1, 1, 1]).groups(2);
        let w = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(values(&plain, Direction::Forward, [&[1.0, 10.0], &w, &[]]), [1.0, 2.0, 30.0, 40.0]);
        let transposed = Problem::new(Kind::Float, &[1, 4, 1, 1], &[4, 1, 1, 1]).groups(2).transposed(&[0]);
        assert_eq!(values(&transposed, Direction::Forward, [&[1.0, 10.0, 100.0, 1000.0], &w, &[]]), [21.0, 4300.0]);
    }

    /// Gradients by their definition: the products of result and given agree in all directions.
    #[test]
    fn gradients_are_adjoint() {
        let plain = Problem::new(Kind::Float, &[2, 4, 5, 7], &[6, 2, 3, 2]).pads(&[1, 2]).strides(&[2, 1]).dilations(&[1, 2]).groups(2);
        let transposed =
            Problem::new(Kind::Float, &[2, 4, 3, 4], &[4, 3, 3, 2]).pads(&[1, 0]).strides(&[2, 3]).groups(2).transposed(&[1, 2]);
        for problem in [plain, transposed] {
            let inputs: Vec<Vec<f64>> =
                problem.tensors().iter().zip(1..).map(|(tensor, seed)| small_integers(tensor.elements(), seed)).collect();
            let given = [inputs[0].as_slice(), inputs[1].as_slice(), inputs[2].as_slice()];
            let product = |direction: Direction| -> f64 {
                values(&problem, direction, given).iter().zip(given[direction.result()]).map(|(a, b)| a * b).sum()
            };
            let forward = product(Direction::Forward);
            assert!(forward != 0.0);
            assert_eq!(product(Direction::BackwardData), forward);
            assert_eq!(product(Direction::BackwardWeights), forward);
        }
    }

    #[test]
    fn differences_are_seen() {
        let expected = [Expected { value: 2.0, magnitude: 16.0, terms: 64 }; 3];
        assert!(compare(Kind::Float, &expected, &[2.0, 2.0, 2.0]).is_ok());
        assert!(compare(Kind::Float, &expected, &[2.0, 2.0, 2.001]).unwrap_err().to_string().contains("element 2 is 2.001"));
        assert!(compare(Kind::Float, &expected, &[2.0, f64::NAN, 2.0]).is_err());
        assert!(compare(Kind::Float, &expected, &[2.0, 2.0]).is_err());
        assert!(compare(Kind::Int32, &expected, &[2.0, 2.0, 3.0]).is_err());
        let large = [Expected::exactly(70000.0)];
        assert!(compare(Kind::Half, &large, &[f64::INFINITY]).is_ok());
        assert!(compare(Kind::Half, &large, &[65504.0]).is_err());
        assert!(compare(Kind::Half, &[Expected::exactly(f64::NAN)], &[f64::NAN]).is_ok());
    }
}
