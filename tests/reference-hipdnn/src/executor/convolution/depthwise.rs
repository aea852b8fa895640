//! Convolutions whose groups have one channel: products of matrices would be hardly more than vectors. Some groups at a time are
//! packed, and every tap is added along contiguous memory: along rows of one channel, or along channels where those lie side by side.

use std::ops::Range;

use super::{
    Addresses,
    columns::Order,
    element::Number,
    operands::{self, Every},
    problem::{Direction, Problem},
    taps::{Image, Run, for_each_run},
    view::{Inner, View},
    workspace,
};

/// More filters than this for one channel are worth a product of matrices.
const MOST_FILTERS: usize = 4;
/// Bytes of packed images: near caches are good enough for whole planes only if these are small.
const PLANES: usize = 256 << 10;
/// As [`PLANES`], where channels lie side by side and only some rows are in use at a time.
const ROWS: usize = 1 << 20;
/// The fewest groups at a time where they lie side by side.
const FEWEST_GROUPS: usize = 16;

/// How the groups are cut into blocks.
#[derive(Clone, Debug)]
pub(super) struct Depthwise {
    inner: Inner,
    /// The most groups at a time.
    groups: usize,
    /// Numbers of workspace for the image, y, and the filters.
    parts: [usize; 3],
}

impl Depthwise {
    /// Whether it should be done this way.
    pub(super) fn suits(problem: &Problem) -> bool {
        problem.channels == 1 && problem.filters <= MOST_FILTERS
    }

    /// `None` if its workspace does not fit into memory.
    pub(super) fn new<T: Number>(problem: &Problem) -> Option<Self> {
        let inner = operands::image(problem, 0..problem.groups).inner();
        let (bytes, fewest) = match inner {
            Inner::Columns => (PLANES, 1),
            Inner::Rows => (ROWS, FEWEST_GROUPS),
        };
        let sizes = [problem.input_size(), problem.output_size(), problem.tap_count().checked_mul(problem.filters)?];
        let group = sizes[0].checked_add(sizes[1])?.checked_add(sizes[2])?;
        let groups = problem.groups.min((bytes / size_of::<T>() / group).max(fewest));
        let [x, y, w] = sizes.map(|size| size.checked_mul(groups));
        Some(Self { inner, groups, parts: [x?, y?, w?] })
    }

    pub(super) fn workspace<T: Number>(&self) -> Option<usize> {
        workspace::bytes::<T>(&self.parts)
    }

    /// Runs the convolution.
    ///
    /// # Safety
    /// The tensors are live for their extents, the workspace is writable for [`Depthwise::workspace`] bytes, and neither the output nor
    /// the workspace overlaps anything else.
    pub(super) unsafe fn run<T: Number>(&self, problem: &Problem, addresses: &Addresses) {
        // SAFETY: by the contract of this function.
        let [x, y, w] = unsafe { workspace::cut::<T, 3>(addresses.workspace, self.parts) };
        let mut work = Work { inner: self.inner, problem, addresses, x, y, w };
        for first in (0..problem.groups).step_by(self.groups) {
            // SAFETY: by the contract of this function.
            unsafe { work.block(first..problem.groups.min(first + self.groups)) };
        }
    }
}

/// One execution. All functions have the contract of [`Depthwise::run`].
struct Work<'a, T> {
    inner: Inner,
    problem: &'a Problem,
    addresses: &'a Addresses,
    x: &'a mut [T],
    y: &'a mut [T],
    /// One filter of all groups after another.
    w: &'a mut [T],
}

impl<T: Number> Work<'_, T> {
    unsafe fn block(&mut self, groups: Range<usize>) {
        // SAFETY: by the contract.
        unsafe {
            self.prepare_filters(&groups);
            for n in 0..self.problem.batch {
                self.prepare_image(&groups, n);
                for filter in 0..self.problem.filters {
                    self.prepare_map(&groups, filter, n);
                    self.sum(groups.len(), filter);
                    self.finish_map(&groups, filter, n);
                }
                self.finish_image(&groups, n);
            }
            self.finish_filters(&groups);
        }
    }

    /// The same filter of every group.
    fn every(&self, groups: &Range<usize>, filter: usize) -> Every {
        let step = self.problem.filters;
        Every { first: groups.start * step + filter, count: groups.len(), step }
    }

    fn filter_view(&self, groups: &Range<usize>, filter: usize) -> View {
        operands::filter(self.problem, self.every(groups, filter), 0..1, Order::ChannelsOuter)
    }

    fn filter_part(&self, groups: &Range<usize>, filter: usize) -> Range<usize> {
        let size = groups.len() * self.problem.tap_count();
        filter * size..(filter + 1) * size
    }

    unsafe fn prepare_filters(&mut self, groups: &Range<usize>) {
        if self.problem.direction == Direction::Filter {
            return self.w.fill(T::default());
        }
        for filter in 0..self.problem.filters {
            let (view, part) = (self.filter_view(groups, filter), self.filter_part(groups, filter));
            // SAFETY: by the contract.
            unsafe { view.load(self.addresses.w, 0..view.column_count(), self.inner, &mut self.w[part]) };
        }
    }

    unsafe fn finish_filters(&mut self, groups: &Range<usize>) {
        for filter in (0..self.problem.filters).filter(|_| self.problem.direction == Direction::Filter) {
            let (view, part) = (self.filter_view(groups, filter), self.filter_part(groups, filter));
            // SAFETY: by the contract.
            unsafe { view.store(self.addresses.w, 0..view.column_count(), self.inner, &self.w[part]) };
        }
    }

    unsafe fn prepare_image(&mut self, groups: &Range<usize>, n: usize) {
        if self.problem.direction == Direction::Data {
            return self.x.fill(T::default());
        }
        let size = self.problem.input_size();
        // SAFETY: by the contract.
        unsafe { operands::image(self.problem, groups.clone()).load(self.addresses.x, n * size..(n + 1) * size, self.inner, self.x) };
    }

    unsafe fn finish_image(&mut self, groups: &Range<usize>, n: usize) {
        if self.problem.direction == Direction::Data {
            let size = self.problem.input_size();
            let image = &self.x[..groups.len() * size];
            // SAFETY: by the contract.
            unsafe { operands::image(self.problem, groups.clone()).store(self.addresses.x, n * size..(n + 1) * size, self.inner, image) };
        }
    }

    unsafe fn prepare_map(&mut self, groups: &Range<usize>, filter: usize, n: usize) {
        if self.problem.direction == Direction::Forward {
            return self.y.fill(T::default());
        }
        let size = self.problem.output_size();
        // SAFETY: by the contract.
        unsafe {
            operands::map(self.problem, self.every(groups, filter)).load(self.addresses.y, n * size..(n + 1) * size, self.inner, self.y)
        };
    }

    unsafe fn finish_map(&mut self, groups: &Range<usize>, filter: usize, n: usize) {
        if self.problem.direction == Direction::Forward {
            let size = self.problem.output_size();
            let map = &self.y[..groups.len() * size];
            // SAFETY: by the contract.
            unsafe {
                operands::map(self.problem, self.every(groups, filter)).store(self.addresses.y, n * size..(n + 1) * size, self.inner, map)
            };
        }
    }

    /// Adds what one filter does in one packed image.
    fn sum(&mut self, groups: usize, filter: usize) {
        let (problem, direction) = (self.problem, self.problem.direction);
        let (input, output, taps) = (problem.input_size(), problem.output_size(), problem.tap_count());
        let position = if self.inner == Inner::Rows { groups } else { 1 };
        let inside = |i: usize| problem.input[i + 1..].iter().product::<usize>();
        let spatial = (0..problem.input.len()).map(|i| inside(i) * position).collect();
        let image = Image { first: 0, batch: 0, spatial };
        let step = image.step(problem);
        let (x, y, w) = (&mut *self.x, &mut *self.y, &mut self.w[filter * groups * taps..][..groups * taps]);
        for_each_run(problem, &image, 0..output, |run| {
            let Run { tap, at, inside: (first, end), offset, .. } = run;
            match self.inner {
                Inner::Columns if first < end => {
                    for group in 0..groups {
                        let x = &mut x[group * input + offset..(group + 1) * input];
                        let y = &mut y[group * output + at..][first..end];
                        along_row(direction, x, step, y, &mut w[group * taps + tap]);
                    }
                }
                Inner::Columns => {}
                Inner::Rows => {
                    let w = &mut w[tap * groups..][..groups];
                    for column in first..end {
                        let x = &mut x[offset + (column - first) * step..][..groups];
                        let y = &mut y[(at + column) * groups..][..groups];
                        across_channels(direction, x, y, w);
                    }
                }
            }
        });
    }
}

/// One tap of one channel at neighbouring positions; the elements of x that it meets are `step` apart.
fn along_row<T: Number>(direction: Direction, x: &mut [T], step: usize, y: &mut [T], w: &mut T) {
    match direction {
        Direction::Forward if step == 1 => y.iter_mut().zip(x).for_each(|(y, x)| *y += *x * *w),
        Direction::Forward => y.iter_mut().zip(x.iter().step_by(step)).for_each(|(y, &x)| *y += x * *w),
        Direction::Data if step == 1 => x.iter_mut().zip(y).for_each(|(x, y)| *x += *y * *w),
        Direction::Data => x.iter_mut().step_by(step).zip(y).for_each(|(x, y)| *x += *y * *w),
        Direction::Filter => *w += dot(x, step, y),
    }
}

/// Several sums side by side: faster than one, and more exact.
fn dot<T: Number>(x: &[T], step: usize, y: &[T]) -> T {
    const SUMS: usize = 8;
    let mut sums = [T::default(); SUMS];
    if step == 1 {
        let (x, y) = (x[..y.len()].chunks_exact(SUMS), y.chunks_exact(SUMS));
        let rest = x.remainder().iter().zip(y.remainder());
        sums.iter_mut().zip(rest).for_each(|(sum, (&x, &y))| *sum += x * y);
        x.zip(y).for_each(|(x, y)| (0..SUMS).for_each(|i| sums[i] += x[i] * y[i]));
    } else {
        x.iter().step_by(step).zip(y).enumerate().for_each(|(i, (&x, &y))| sums[i % SUMS] += x * y);
    }
    sums.into_iter().fold(T::default(), |sum, part| sum + part)
}

/// One tap of all channels at one position.
fn across_channels<T: Number>(direction: Direction, x: &mut [T], y: &mut [T], w: &mut [T]) {
    let (sums, a, b) = match direction {
        Direction::Forward => (y, x, w),
        Direction::Data => (x, y, w),
        Direction::Filter => (w, x, y),
    };
    sums.iter_mut().zip(a.iter().zip(&*b)).for_each(|(sum, (&a, &b))| *sum += a * b);
}
