//! The columns of a convolution: a packed matrix with a row for every channel and tap and a column for every output position, which
//! holds what each tap meets there. Gathered from the image (im2col), or scattered into its gradient (col2im).

use std::ops::Range;

use super::{
    element::Number,
    problem::Problem,
    taps::{Image, Run, for_each_run},
    view::Inner,
};

/// How channels and taps are counted together, in the columns' rows and in the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    ChannelsOuter,
    TapsOuter,
}

/// The shape of columns in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) inner: Inner,
    pub(super) order: Order,
    pub(super) channels: usize,
    pub(super) taps: usize,
    /// How many positions there are.
    pub(super) width: usize,
}

impl Shape {
    /// Strides of channels, of taps and of positions.
    fn strides(&self) -> [usize; 3] {
        let Self { channels, taps, width, .. } = *self;
        let [channel, tap] = match self.order {
            Order::ChannelsOuter => [taps, 1],
            Order::TapsOuter => [1, channels],
        };
        match self.inner {
            Inner::Columns => [channel * width, tap * width, 1],
            Inner::Rows => [channel, tap, channels * taps],
        }
    }
}

/// Gathers the columns of some positions.
///
/// Where a tap meets the padding there is a zero, which is then multiplied like anything else: an infinite weight there gives NaN, as in
/// every implementation that works with columns.
///
/// # Safety
/// `data` is the first of the channels in a live tensor of the data type, with the strides of `image` and `channel_stride`.
pub(super) unsafe fn gather<T: Number>(
    problem: &Problem,
    (data, channel_stride): (*const u8, usize),
    image: &Image,
    positions: Range<usize>,
    shape: Shape,
    out: &mut [T],
) {
    let data_type = problem.x.data_type;
    let size = hipdnn_abi::data_type_bytes(data_type).unwrap_or(0);
    let ([channel_step, tap_step, position_step], step) = (shape.strides(), image.step(problem));
    // SAFETY: what taps meet inside the image lies inside its dimensions, hence inside its extent.
    let load = |offset: usize, step, out: &mut [T]| unsafe { T::load(data_type, data.add(offset * size), step, out) };
    for_each_run(problem, image, positions, |run| {
        let Run { at, length, inside: (first, end), offset, .. } = run;
        let start = run.tap * tap_step + at * position_step;
        match shape.inner {
            Inner::Columns => {
                for channel in 0..shape.channels {
                    let out = &mut out[start + channel * channel_step..][..length];
                    out[..first].fill(T::default());
                    load(offset + channel * channel_stride, step, &mut out[first..end]);
                    out[end..].fill(T::default());
                }
            }
            Inner::Rows => {
                for position in 0..length {
                    let out = &mut out[start + position * position_step..][..shape.channels];
                    match position.checked_sub(first).filter(|_| position < end) {
                        Some(inside) => load(offset + inside * step, channel_stride, out),
                        None => out.fill(T::default()),
                    }
                }
            }
        }
    });
}

/// Adds the columns of some positions to a packed image, in which channels are `channel_stride` numbers apart: 1 if, and only if, the
/// columns have their rows side by side as well.
pub(super) fn scatter<T: Number>(
    problem: &Problem,
    columns: &[T],
    shape: Shape,
    positions: Range<usize>,
    image: &Image,
    (out, channel_stride): (&mut [T], usize),
) {
    let ([channel_step, tap_step, position_step], step) = (shape.strides(), image.step(problem));
    for_each_run(problem, image, positions, |run| {
        let (first, end) = run.inside;
        let start = run.tap * tap_step + run.at * position_step;
        match shape.inner {
            Inner::Columns => {
                for channel in 0..shape.channels {
                    let columns = &columns[start + channel * channel_step..][first..end];
                    add_apart(&mut out[run.offset + channel * channel_stride..], step, columns);
                }
            }
            Inner::Rows => {
                for position in first..end {
                    let columns = &columns[start + position * position_step..][..shape.channels];
                    add_apart(&mut out[run.offset + (position - first) * step..], 1, columns);
                }
            }
        }
    });
}

/// Adds numbers to sums that are `step` apart.
fn add_apart<T: Number>(sums: &mut [T], step: usize, numbers: &[T]) {
    if step == 1 {
        sums.iter_mut().zip(numbers).for_each(|(sum, &number)| *sum += number);
    } else {
        sums.iter_mut().step_by(step).zip(numbers).for_each(|(sum, &number)| *sum += number);
    }
}
