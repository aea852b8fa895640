//! Which element of the image each tap of the filter meets at each output position: the geometry of a convolution, and the only place
//! that knows paddings, strides and dilations. All directions read it the same way.

use std::ops::Range;

use super::problem::{MAX_SPATIAL, Problem};

/// One tap, at neighbouring output positions of one row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Counted through the filter's spatial dimensions.
    pub(super) tap: usize,
    /// The first output position, counted from the first one that was asked for.
    pub(super) at: usize,
    /// How many positions there are.
    pub(super) length: usize,
    /// Those of them at which the tap meets the image; elsewhere it meets the padding.
    pub(super) inside: (usize, usize),
    /// The element that it meets at the first position inside.
    pub(super) offset: usize,
}

/// The image's memory: strides in elements.
#[derive(Clone, Debug)]
pub(super) struct Image {
    /// The image that is stored first.
    pub(super) first: usize,
    pub(super) batch: usize,
    pub(super) spatial: Vec<usize>,
}

impl Image {
    /// The distance of the elements that a tap meets at neighbouring positions.
    pub(super) fn step(&self, problem: &Problem) -> usize {
        self.spatial.last().copied().unwrap_or(0) * problem.strides.last().copied().unwrap_or(0)
    }
}

/// Splits a number that counts through dimensions.
fn split(mut number: usize, dims: &[usize]) -> [usize; MAX_SPATIAL] {
    let mut index = [0; MAX_SPATIAL];
    for i in (0..dims.len()).rev() {
        index[i] = number % dims[i];
        number /= dims[i];
    }
    index
}

/// Calls with every tap at every one of the positions, which are counted through all images.
pub(super) fn for_each_run(problem: &Problem, image: &Image, positions: Range<usize>, mut call: impl FnMut(Run)) {
    let last = problem.output.len() - 1;
    let (width, rows) = (problem.output[last], problem.output[..last].iter().product::<usize>());
    let mut next = positions.start;
    while next < positions.end {
        let (row, column) = (next / width, next % width);
        let length = (width - column).min(positions.end - next);
        let outer = split(row % rows, &problem.output[..last]);
        let batch = (row / rows - image.first) * image.batch;
        let run = Run { tap: 0, at: next - positions.start, length, inside: (0, 0), offset: batch };
        row_of_taps(problem, image, &outer, column, run, &mut call);
        next += length;
    }
}

/// Calls with every tap for one row (or a piece of it, that starts at `column`).
fn row_of_taps(problem: &Problem, image: &Image, outer: &[usize; MAX_SPATIAL], column: usize, row: Run, call: &mut impl FnMut(Run)) {
    let last = problem.taps.len() - 1;
    let taps = problem.taps[last];
    for outer_tap in 0..problem.taps[..last].iter().product() {
        let tap = split(outer_tap, &problem.taps[..last]);
        let positions = (0..last).map(|i| Some(position(problem, i, outer[i], tap[i])? * image.spatial[i]));
        let offset = positions.sum::<Option<usize>>();
        for t in 0..taps {
            let (first, end) = offset.map_or((0, 0), |_| inside(problem, last, t, column, row.length));
            let met = if first < end { position(problem, last, column + first, t).unwrap_or(0) * image.spatial[last] } else { 0 };
            call(Run { tap: outer_tap * taps + t, inside: (first, end), offset: row.offset + offset.unwrap_or(0) + met, ..row });
        }
    }
}

/// How far a tap lies behind the first one. A true convolution counts taps backwards.
fn reach(problem: &Problem, i: usize, tap: usize) -> usize {
    let tap = if problem.flip { problem.taps[i] - 1 - tap } else { tap };
    tap * problem.dilations[i]
}

/// Where an output position's tap falls in the image, if not into the padding.
fn position(problem: &Problem, i: usize, output: usize, tap: usize) -> Option<usize> {
    let padded = output * problem.strides[i] + reach(problem, i, tap);
    padded.checked_sub(problem.pre_paddings[i]).filter(|&at| at < problem.input[i])
}

/// The positions, counted from `column`, with padding <= position * stride + reach < padding + size.
fn inside(problem: &Problem, i: usize, tap: usize, column: usize, length: usize) -> (usize, usize) {
    let (stride, padding, reach) = (problem.strides[i], problem.pre_paddings[i], reach(problem, i, tap));
    let from = |least: usize| if stride == 1 { least } else { least.div_ceil(stride) };
    let first = from(padding.saturating_sub(reach)).saturating_sub(column).min(length);
    let end = from((padding + problem.input[i]).saturating_sub(reach)).saturating_sub(column).min(length);
    (first, end.max(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every run against the definition, position by position.
    #[test]
    fn runs_follow_the_definition() {
        let mut problem = Problem::sample();
        for (flip, columns) in [(false, 0..30), (true, 0..30), (false, 7..23), (true, 13..14)] {
            problem.flip = flip;
            let image = Image { first: 0, batch: 1000, spatial: vec![20, 2] };
            let mut seen = vec![0; columns.len() * problem.taps.iter().product::<usize>()];
            for_each_run(&problem, &image, columns.clone(), |run| {
                for j in 0..run.length {
                    let number = columns.start + run.at + j;
                    seen[(run.at + j) * 4 + run.tap] += 1;
                    let o = [number / 5 % 3, number % 5];
                    let t = [run.tap / 2, run.tap % 2].map(|t| if flip { 1 - t } else { t });
                    let at =
                        [0, 1].map(|i| (o[i] * problem.strides[i] + t[i] * problem.dilations[i]).wrapping_sub(problem.pre_paddings[i]));
                    let expected = (at[0] < 6 && at[1] < 5).then(|| number / 15 * 1000 + at[0] * 20 + at[1] * 2);
                    let is_inside = (run.inside.0..run.inside.1).contains(&j);
                    let got = is_inside.then(|| run.offset + (j - run.inside.0) * image.step(&problem));
                    assert_eq!(got, expected, "{flip} {run:?} {j}");
                }
            });
            assert!(seen.iter().all(|&times| times == 1), "every tap at every position, once");
        }
    }
}
