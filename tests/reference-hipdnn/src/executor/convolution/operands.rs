//! The tensors of a convolution as matrices: which channels are rows, and what is counted as columns.

use std::ops::Range;

use super::{
    columns::Order,
    problem::Problem,
    view::{Axis, View},
};

/// Channels at equal distances.
#[derive(Clone, Copy, Debug)]
pub(super) struct Every {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) step: usize,
}

impl Every {
    /// All filters of a group.
    pub(super) fn of_group(problem: &Problem, group: usize) -> Self {
        Self { first: group * problem.filters, count: problem.filters, step: 1 }
    }

    fn axis(self, stride: usize) -> Axis {
        Axis { count: self.count, stride: stride * self.step }
    }
}

fn axes<'a>(dims: &'a [usize], strides: &'a [usize]) -> impl Iterator<Item = Axis> + 'a {
    dims.iter().zip(strides).map(|(&count, &stride)| Axis { count, stride })
}

/// Channels of x; columns are positions of all images.
pub(super) fn image(problem: &Problem, channels: Range<usize>) -> View {
    let strides = &problem.x.strides;
    let rows = Axis { count: channels.len(), stride: strides[1] };
    let batch = Axis { count: problem.batch, stride: strides[0] };
    View::new(&problem.x, channels.start * strides[1], rows, [batch].into_iter().chain(axes(&problem.input, &strides[2..])))
}

/// Channels of y; columns are positions of all images.
pub(super) fn map(problem: &Problem, channels: Every) -> View {
    let strides = &problem.y.strides;
    let batch = Axis { count: problem.batch, stride: strides[0] };
    let columns = [batch].into_iter().chain(axes(&problem.output, &strides[2..]));
    View::new(&problem.y, channels.first * strides[1], channels.axis(strides[1]), columns)
}

/// Filters of w; columns are some of their channels (of one group) and taps.
pub(super) fn filter(problem: &Problem, filters: Every, channels: Range<usize>, order: Order) -> View {
    let strides = &problem.w.strides;
    let channel = Axis { count: channels.len(), stride: strides[1] };
    let mut columns: Vec<_> = axes(&problem.taps, &strides[2..]).collect();
    match order {
        Order::ChannelsOuter => columns.insert(0, channel),
        Order::TapsOuter => columns.push(channel),
    }
    View::new(&problem.w, filters.first * strides[0] + channels.start * strides[1], filters.axis(strides[0]), columns)
}
